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
    "supervised": "whether a unit of systemd is at work that restarts it; null without a restart policy",
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
    "unit": "the service of systemd it is in; null in a container, and outside of any",
}
UNREACHABLE = {
    "driver": "a runtime that could not be asked",
    "socket": "where it should listen",
    "why": "why not",
    "absent": "true: its socket does not exist; false: it does, or was named, and what the runtime runs is not known",
}
LOCAL_IMAGE = {
    "driver": "the runtime that has it",
    "id": "as that runtime knows it",
    "names": "with tags and digests, a list",
    "size": "bytes; null where nobody can tell",
}
ATTACHED = CONTAINER | {
    "ops": "the scheduler as the kernel calls it; null with --no-wait",
    "seconds": "from start to attached",
}
CHOICE = {
    "scheduler": "the catalog name, or the last word of the image's path",
    "image": "the image, pinned by its digest",
    "digest": "what its name meant then: this is what runs",
    "driver": "podman, docker or containerd",
    "args": "what is given to the scheduler",
    "mode": "what the arguments were made from; null where that was nothing",
    "verified": "who signed it, or unsigned-allowed or untrusted-allowed: then it needs its registry at each start",
    "restart": "on-failure or on-failure:N",
}
SERVICE = CHOICE | {
    "unit": "the unit of systemd",
    "running": "whether the unit has a process",
    "state": "of the unit, as systemd calls it: active, activating (it waits to be started again), inactive, failed",
    "restarts": "how often systemd was to start it again, the one too many included; null while it runs",
    "exit_code": "of its last process, one of schedctl's own; null while it runs",
}
TRIAL = {
    "scheduler": "which one",
    "phase": "switching, on, or ended: then this is how it ended",
    "seconds_left": "until it goes back",
    "back_to": "the scheduler that comes back; null for the kernel's own",
    "why": "why it ended; null while it is on",
    "ended_at": "when; null while it is on",
}


def _below(prefix: str, fields: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": text for name, text in fields.items()}


_ENABLE = {
    "enabled": "what is enabled",
    **_below("enabled", CHOICE | {"unit": "the unit of systemd that starts it"}),
    "container": "where it runs",
    **_below("container", CONTAINER),
    "replaced": "null when none was running before, or the same",
    **_below("replaced", CONTAINER),
    "gap_seconds": "how long the kernel used its own scheduler between the two; null when there was no gap",
}
# Command → field → what it means. `a.b` is a field of an object, `a[].b` of each object of a list, `a.*` of any name.
FIELDS: dict[str, dict[str, str]] = {
    "list": _below(
        "schedulers[]",
        {
            "name": "what to say to `schedctl run`",
            "description": "one line",
            "good_for": "in a few words; empty where the catalog does not say",
            "image": "its image",
            "origin": "which catalog says so: built-in, a file or a URL",
            "hidden": "whether it is shown with --all only",
            "pulled": "whether some version is on this machine; null where a runtime did not respond",
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
                "here": "whether that is on this machine; null where a runtime did not respond",
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
        "modes.*": "the flags of a --mode, by its name",
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
                "signed_at": "when it was signed; null where nothing confirms it",
                "on": "the digest it names: of the index or of the manifest",
                "log": "null where no entry of a log was asked for",
                "log.id": "the log",
                "log.index": "the entry",
                "log.integrated_at": "when the log took it; null where the log does not confirm it",
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
    "update": {
        "scheduler": "which one",
        "image": "what it runs by, with its tag",
        "digest": "what runs, or is enabled",
        "newest_image": "the newest version",
        "newest_digest": "what that points to",
        "newer": "whether it is another than what runs",
        "unit": "the unit of systemd that runs it, and runs the newer one then; null where none does",
        "updated": "whether it runs now",
        "container": "null where nothing was started",
        **_below("container", ATTACHED),
        "replaced": "null where nothing was stopped",
        **_below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two; null when there was no gap",
    },
    "COMMAND --dry-run": {
        "dry_run": "true",
        "scheduler": "which one; null where none is started",
        "image": "the image that would be started; null where none is",
        "digest": "what it points to",
        "verified": "who signed it, or unsigned-allowed or untrusted-allowed",
        "steps": "what would be done, in order: sentences that go on from `would`",
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
    "restart": _below("container", ATTACHED),
    "enable": _ENABLE,
    "disable": {
        "scheduler": "which one was enabled; null where its unit could not be read",
        "unit": "the unit that was removed",
        "stopped": "whether the unit was running it",
    },
    "restore": _ENABLE | {"trial": "the trial that this ended; then the others are null", **_below("trial", TRIAL)},
    "trial": {
        "scheduler": "which one is attached now",
        **_below("container", ATTACHED),
        "replaced": "null when none was running before",
        **_below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two",
        **_below("trial", TRIAL),
    },
    "keep": {"scheduler": "which one stays"},
    "import": {
        "manager": "whose choice it is",
        "file": "its configuration file",
        "scheduler": "which one it starts at boot",
        "mode": "in which mode",
        "args": "that mode's flags",
        "command": "the command that does the same here",
        "applied": "false with --dry-run",
    },
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
        "enabled": "what `schedctl enable` chose; null when nothing is enabled",
        **_below("enabled", SERVICE | {"at_boot": "whether systemd starts it at boot"}),
        "restarted": "what `--restart` was said to; null when there is none",
        **_below("restarted", SERVICE),
        "trial": "the trial that is on, or the last that ended since boot; null when there was none",
        **_below("trial", TRIAL),
    },
    "ps": {**_below("containers[]", MANAGED), **_below("unreachable[]", UNREACHABLE)},
    "inspect": {
        **_below("container", MANAGED | {"labels.*": "all labels of the container"}),
        **_below("kernel", KERNEL),
        **_below("holder", HOLDER),
    },
    "doctor": {
        **_below(
            "checks[]",
            {
                "id": "which check",
                "description": "what it is about",
                "outcome": "ok, warning, error, unknown or not-applicable",
                "severity": "warn or error: how bad it is when it fails, however it went, as the Go schedctl called it",
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
    "bench": {
        "command": "what was measured, a list",
        "workload": "the known workload that it is; null for a command of one's own",
        "user": "whom it ran as; null for the user of schedctl",
        "metric": "the number of its output that was compared; null where that is its wall time",
        **_below("metric", {"pattern": "the regular expression", "better": "lower, higher or either"}),
        "runs": "how many with each scheduler were asked for",
        "warmup": "how many before these, which do not count",
        "seed": "--seed with this makes the same order",
        "settle_seconds": "pause between a change of the scheduler and a run",
        "started_at": "when the first run began",
        "finished_at": "when the slot was as before again",
        "interrupted": "whether Ctrl-C ended it before all runs were made",
        "answers": "what was found, in sentences",
        "warnings": "what about this machine makes the numbers doubtful",
        "driver": "the runtime that the schedulers ran in",
        **_below(
            "schedulers[]",
            {
                "label": "how it is called here: as it was said to --with, with a number if it was said twice",
                "scheduler": "the catalog name, or the last word of the image's path; null for the kernel's own",
                "image": "the image as it was asked for",
                "digest": "what it points to",
                "manifest": "this platform's manifest, which is what ran",
                "args": "what was given to the scheduler",
                "verified": "who signed it, or unsigned-allowed or untrusted-allowed",
                "ops": "the scheduler as the kernel calls it",
                "endings.*": "how many of its runs, without those for warm-up, ended in this way",
            },
        ),
        **_below(
            "quantities[]",
            {
                "name": "what was measured",
                "title": "the same for people",
                "unit": "s, B, or empty",
                "better": "lower, higher or either",
            },
        ),
        "main": "the quantity that the answers are about",
        "level": "how often each interval holds the true ratio; all of one quantity together do in 95 %",
        **_below(
            "comparisons[]",
            {
                "scheduler": "its label",
                "quantity": "the quantity's name",
                "numbers": "how many runs count",
                "median": "of these; null where there is none",
                "ratio": "of the median to that of the first scheduler; null for that one, and where there are too few",
                "low": "where the interval for the ratio begins",
                "high": "where it ends",
                "finding": "baseline, better, worse, higher, lower, same (within 2 %), not-different or too-few",
                "needed_runs": "about how many runs it takes to see a difference of 2 %; null where nobody can tell",
            },
        ),
        **_below(
            "samples[]",
            {
                "number": "in the order in which they were made",
                "block": "from 1; 0 and below for warm-up",
                "scheduler": "its label",
                "ending": "measured, failed, no-metric, ejected, detached, not-attached, disturbed or unknown: only"
                " measured is a number that is compared",
                "why": "why it is none",
                "started_at": "when",
                "exit_code": "the command's; negative for the signal that ended it; null where it did not run",
                "wakeups": "how many wake-ups --latency saw; null without",
                "values.*": "by the quantity's name",
            },
        ),
        **_below(
            "machine",
            {
                "kernel": "its release",
                "kernel_version": "its build",
                "architecture": "of the CPUs",
                "cpu": "the CPU's name",
                "cpus": "how many the command may use",
                "memory_bytes": "how much there is",
                "virtual": "whether this is a virtual machine",
                "governor": "of the CPU frequency; null where there is none",
                "energy_preference": "of the CPUs; null where there is none",
                "power_profile": "of the platform; null where there is none",
                "turbo": "whether CPUs may run faster for a while; null where they cannot",
                "on_battery": "null on a machine without a battery",
                "other_load": "the share of all CPUs that others used before the first run",
                "load_average": "of the last minute before it",
            },
        ),
        **_below("versions", {"schedctl": "of this program", "python": "of Python", "runtime": "of the runtime"}),
    },
    "images": {
        **_below("images[]", LOCAL_IMAGE | {"used_by": "names of the containers that are made of it, ended ones too"}),
        **_below("unreachable[]", UNREACHABLE),
    },
    "rmi": {**_below("removed[]", LOCAL_IMAGE), "dry_run": "whether they are still there"},
    "prune": {
        **_below("removed[]", LOCAL_IMAGE),
        "bytes": "their sizes in all",
        "dry_run": "whether they are still there",
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
