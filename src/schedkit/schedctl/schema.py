"""What `-o json` prints: every field of every command. docs/schedctl/json.md is made from here, and a test compares."""

CONTAINER = {
    "id": "the container's id",
    "name": "its name",
    "driver": "podman, docker or containerd",
    "image": "the image as it was asked for",
    "digest": "what the image pointed to; null for a container that the Go schedctl started",
    "manifest": "this platform's manifest, which is what runs; null where nobody noted it",
    "args": "what was given to the scheduler, a list; null where nobody noted it",
    "state": "created, running, paused or exited",
    "pid": "its first process; null unless it runs",
    "exit_code": "null unless it ended, or where nobody knows",
    "started_at": "when it was started last",
    "finished_at": "when it ended last",
}
MANAGED = CONTAINER | {
    "scheduler": "the catalog name, or the last word of the image's path",
    "attached": "yes, no or unknown: whether its scheduler is the one in the kernel's slot",
    "why": "why it is not, or why nobody knows",
    "verified": "who signed the image, or unsigned-allowed or untrusted-allowed; null where nobody noted it",
    "restart": "no, on-failure or on-failure:N",
    "supervised": "whether somebody is there to restart it; null without a restart policy",
}
KERNEL = {
    "supported": "whether this kernel has sched_ext",
    "enabled": "whether a scheduler is attached",
    "state": "enabling, enabled, disabling, disabled or unsupported",
    "ops": "the attached scheduler as the kernel calls it; empty when there is none",
    "enable_seq": "how many schedulers have attached since boot",
    "nr_rejected": "tasks that the scheduler refused",
    "hotplug_seq": "changes of the set of CPUs since boot",
    "switch_all": "whether all tasks are scheduled by it",
    "events": "the kernel's counters, by name; null before Linux 6.15, or when nothing is attached",
    "sub_schedulers": "names of schedulers below it",
}
HOLDER = {
    "pid": "the process that keeps it attached",
    "command": "its command",
    "link": "the id of its BPF link",
    "container": "the container it is in, as its cgroup tells",
    "pod": "the UID of the Kubernetes pod it is in, ? if its cgroup does not tell; null outside of any",
}
UNREACHABLE = {
    "driver": "a runtime that could not be asked",
    "socket": "where it should listen",
    "why": "why not",
    "absent": "true: its socket does not exist; false: it does, or was named, and what the runtime runs is not known",
}
ATTACHED = CONTAINER | {
    "ops": "the scheduler as the kernel calls it; null with --no-wait",
    "seconds": "from start to attached",
}


def _below(prefix: str, fields: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": text for name, text in fields.items()}


# Command → field → what it means. `a.b` is a field of an object, `a[].b` of each object of a list, `a.*` of any name.
FIELDS: dict[str, dict[str, str]] = {
    "list": _below(
        "schedulers[]",
        {
            "name": "what to say to `schedctl run`",
            "description": "one line",
            "image": "its image",
            "origin": "which catalog says so: built-in, a file or a URL",
            "pulled": "whether some version is on this machine; null where a runtime did not answer",
            "attached": "whether the kernel has it now; null where that is unknown",
        },
    ),
    "versions": {
        "image": "registry and path",
        "total": "how many versions there are, shown or not",
        **_below(
            "versions[]",
            {
                "tag": "the version",
                "digest": "what it points to",
                "here": "whether that is on this machine; null where a runtime did not answer",
            },
        ),
    },
    "info": {
        "scheduler": "the catalog name, or the last word of the image's path",
        "image": "the image",
        "digest": "what it points to",
        "manifest": "this platform's manifest, which is what would run",
        "title": "from its labels",
        "description": "from its labels",
        "documentation": "from its labels",
        "source": "from its labels",
        "image_version": "from its labels",
        "kernel_min_version": "the oldest kernel it says it runs on",
        "size": "bytes to pull",
        "platform": "the one for this machine",
        "platforms": "all there are",
        "labels.*": "all labels",
        "kernel.fits": "whether this kernel can run it; null where that is unknown",
        **_below(
            "kernel.obstacles[]",
            {
                "id": "the check, as in doctor",
                "outcome": "error, warning or unknown",
                "detail": "what was seen",
                "remediation": "what to do",
            },
        ),
    },
    "verify": {
        "scheduler": "the catalog name, or the last word of the image's path",
        "image": "the image as it was asked for",
        "digest": "what it points to",
        "manifest": "this platform's manifest, which is what would run",
        **_below("policy", {"source": "its file, or built-in", "hash": "of all in it that may change a verdict"}),
        "verified": "whether it may run",
        "reason": "why not, in one word; null when it may",
        "rule": "which rule of the policy counted; null when it may not run",
        "checked_at": "when that was found",
        "from_cache": "whether that was before, and the network was not asked now",
        **_below(
            "signatures[]",
            {
                "who": "key SHA256:… (path), or subject (issuer)",
                "how": "key or keyless",
                "format": "cosign-v2 or bundle",
                "signed_at": "when it was signed; null where nobody vouches for that",
                "on": "the digest it names: of the index or of the manifest",
                "log": "null where no entry of a log was asked for",
                "log.id": "the log",
                "log.index": "the entry",
                "log.integrated_at": "when the log took it; null where the log does not vouch for that",
            },
        ),
        **_below(
            "attempts[]",
            {
                "what": "where a signature that does not count lies",
                "who": "whom it is by, or says it is by",
                "reason": "expired, no-log-entry, untrusted or bad-signature",
                "problem": "what is wrong with it",
            },
        ),
    },
    "pull": {
        "scheduler": "the catalog name, or the last word of the image's path",
        "image": "the image as it was asked for",
        "digest": "what it points to",
        "manifest": "this platform's manifest, which is what was pulled",
        "driver": "into which runtime",
        "verified": "who signed it, or unsigned-allowed or untrusted-allowed",
    },
    "run": {"scheduler": "which one", **_below("container", ATTACHED)},
    "switch": {
        "scheduler": "which one is attached now",
        **_below("container", ATTACHED),
        "replaced": "null when none was running before",
        **_below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two",
    },
    "stop": _below(
        "stopped[]",
        CONTAINER
        | {
            "scheduler": "which one",
            "was_attached": "whether the kernel had it",
            "killed": "whether SIGTERM was not enough",
            "seconds": "until the kernel let it go and the container was removed",
        },
    ),
    "detach": {
        "ops": "what was attached",
        **_below("holder", HOLDER),
        "way": "how it was ended",
        **_below("kernel", KERNEL),
    },
    "status": {
        "schema_version": "the same as version, as the Go schedctl called it",
        "status": "idle, running, unknown, or what is wrong: orphaned-kernel-state, managed-detached, managed-mismatch,"
        " multiple-managed",
        "driver": "the driver that was asked for; auto: all that answer",
        "scheduler": "the one that runs, in the words of the Go schedctl; null when there is none, or several",
        **_below(
            "scheduler",
            {
                "name": "the scheduler",
                "container_id": "its container",
                "image": "its image",
                "image_id": "its digest",
                "pid": "its first process",
                "started_at": "since when",
            },
        ),
        **_below("kernel", KERNEL),
        "discrepancy": "what is wrong; null when nothing is",
        "explanation": "the same, also when nothing is wrong",
        "remedy": "the command that fixes it",
        "holder": "null when no process holds the slot",
        **_below("holder", HOLDER),
        **_below("managed[]", MANAGED),
        **_below("unreachable[]", UNREACHABLE),
    },
    "ps": {**_below("containers[]", MANAGED), **_below("unreachable[]", UNREACHABLE)},
    "doctor": {
        **_below(
            "checks[]",
            {
                "id": "which check",
                "outcome": "ok, warning, error or unknown",
                "severity": "info, warn or error, as the Go schedctl called it",
                "status": "pass, fail or skip, as the Go schedctl called it",
                "detail": "what was seen",
                "remediation": "what to do",
            },
        ),
        **_below(
            "summary",
            {
                "passed": "how many are ok",
                "failed": "how many are warnings or errors",
                "skipped": "how many are unknown",
                "blocking": "how many are errors: then no scheduler can run, and the exit code is 1",
            },
        ),
    },
    "watch": {
        "at": "when",
        **_below("kernel", KERNEL),
        "uptime_seconds": "since it attached; null when nothing is attached",
        "rates": "events per second; null where the kernel counts none",
        "rates.*": "the counter's name",
        "stats": "what the scheduler serves; null when it serves nothing",
        "stats.*": "as the scheduler names it",
    },
    "catalog update": {"changes": "one sentence for each catalog"},
}
OPEN = ("kernel.events",)  # objects whose fields are named by the kernel


def undocumented(command: str, document: object) -> list[str]:
    """Fields of a command's output that FIELDS does not know."""
    known = FIELDS[command]
    return sorted(path for path in set(paths(document)) - {"version"} if not _is_known(path, known))


def missing(command: str, document: object) -> list[str]:
    """Fields that FIELDS promises and a command's output lacks, where the object they belong to is there."""
    found, objects = set(paths(document)), set(paths(document, only_objects=True)) | {""}
    return sorted(
        path for path in FIELDS[command] if not path.endswith("*") and path not in found and _parent(path) in objects
    )


def paths(value: object, prefix: str = "", *, only_objects: bool = False) -> list[str]:
    """All fields in a document, in the notation of FIELDS; what is unknown has none below it."""
    is_object = isinstance(value, dict) and set(value) != {"unknown"}
    found = [prefix] if prefix and (is_object or not only_objects) else []
    if isinstance(value, dict) and is_object:
        for name, item in value.items():
            found += paths(item, f"{prefix}.{name}" if prefix else name, only_objects=only_objects)
    elif isinstance(value, list):
        for item in value:
            found += paths(item, f"{prefix}[]", only_objects=only_objects)
    return found


def _is_known(path: str, known: dict[str, str]) -> bool:
    if path in known or any(field.startswith((f"{path}.", f"{path}[]")) for field in known):
        return True
    if any(path == f"{name}[]" for name in known):
        return True  # a list of plain values
    free = [*(field[:-1] for field in known if field.endswith(".*")), *(f"{name}." for name in OPEN)]
    return any(path.startswith(prefix) for prefix in free)


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
