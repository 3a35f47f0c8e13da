"""What `-o json` prints: every field of every command. docs/schedctl/json.md is made from here, and a test compares."""

CONTAINER = {
    "id": "the container's id",
    "name": "its name",
    "driver": "podman, docker or containerd",
    "image": "the image reference as given",
    "digest": "the digest that the reference resolved to; null for a container that the Go schedctl started",
    "manifest": "this platform's manifest, which is what runs; null if not recorded",
    "args": "the scheduler's arguments, a list; null if not recorded",
    "state": "created, running, paused or exited",
    "pid": "PID of its first process; null unless it runs",
    "exit_code": "null unless it has ended, or if unknown",
    "started_at": "when it was started last",
    "finished_at": "when it ended last",
}
MANAGED = CONTAINER | {
    "scheduler": "the catalog name, or the last part of the image's path",
    "attached": "yes, no or unknown: whether its scheduler is the one in the kernel's slot",
    "why": "why it is not attached, or why that is unknown",
    "verified": "who signed the image, or unsigned-allowed or untrusted-allowed; null if not recorded",
    "restart": "no, on-failure or on-failure:N",
    "supervised": "whether a running systemd unit restarts it; null without a restart policy",
}
KERNEL = {
    "supported": "whether this kernel has sched_ext",
    "enabled": "whether a scheduler is attached",
    "state": "enabling, enabled, disabling, disabled or unsupported",
    "ops": "the attached scheduler's name in the kernel; empty when there is none",
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
    "container": "the container it is in, according to its cgroup",
    "pod": "the UID of the Kubernetes pod it is in, ? if its cgroup does not show it; null outside a pod",
    "unit": "the systemd service it is in; null in a container, and outside a service",
}
UNREACHABLE = {
    "driver": "a runtime that could not be asked",
    "socket": "the socket that was tried",
    "why": "why it could not be asked",
    "absent": "true: the socket does not exist; false: it exists or was named by you, and what runs there is unknown",
}
LOCAL_IMAGE = {
    "driver": "the runtime that has it",
    "id": "the image ID in that runtime",
    "names": "its names with tags and digests, a list",
    "size": "bytes; null if unknown",
}
ATTACHED = CONTAINER | {
    "ops": "the scheduler's name in the kernel; null with --no-wait",
    "seconds": "time from start to attached",
}
CHOICE = {
    "scheduler": "the catalog name, or the last part of the image's path",
    "image": "the image, pinned by its digest",
    "digest": "the digest that the reference resolved to when it was enabled: this is what runs",
    "driver": "podman, docker or containerd",
    "args": "the scheduler's arguments",
    "mode": "the --mode that the arguments come from; null if none was given",
    "verified": "who signed it, or unsigned-allowed or untrusted-allowed, which need the registry at each start",
    "restart": "on-failure or on-failure:N",
}
SERVICE = CHOICE | {
    "unit": "the systemd unit",
    "running": "whether the unit has a process",
    "state": "state of the unit: active, activating (waits to be restarted), inactive or failed",
    "restarts": "number of restarts, including the one that was refused; null while it runs",
    "exit_code": "exit code of its last process, one of schedctl's; null while it runs",
}
TRIAL = {
    "scheduler": "the scheduler",
    "phase": "switching or on; after the trial, how it ended",
    "seconds_left": "seconds until it goes back",
    "back_to": "the scheduler to go back to; null for the kernel's own",
    "why": "why it ended; null while it is on",
    "ended_at": "when; null while it is on",
}


def _below(prefix: str, fields: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": text for name, text in fields.items()}


_ENABLE = {
    "enabled": "what is enabled",
    **_below("enabled", CHOICE | {"unit": "the systemd unit that starts it"}),
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
            "name": "the name to use with `schedctl run`",
            "description": "one line",
            "good_for": "what it is good for, in a few words; may be empty",
            "image": "its image",
            "origin": "the catalog it comes from: built-in, a file or a URL",
            "hidden": "whether it is shown with --all only",
            "pulled": "whether any version is on this machine; null if a runtime did not respond",
            "attached": "whether it is attached now; null if unknown",
        },
    ),
    "versions": {
        "image": "registry and path",
        "total": "how many versions there are, shown or not",
        **_below(
            "versions[]",
            {
                "tag": "the version",
                "digest": "the digest that it resolves to",
                "here": "whether that digest is on this machine; null if a runtime did not respond",
            },
        ),
    },
    "info": {
        "scheduler": "the catalog name, or the last part of the image's path",
        "image": "the image",
        "digest": "the digest that it resolves to",
        "manifest": "this platform's manifest, which is what would run",
        "title": "from its labels",
        "description": "from its labels",
        "documentation": "from its labels",
        "source": "from its labels",
        "image_version": "from its labels",
        "kernel_min_version": "the oldest kernel that it supports, from its labels",
        "size": "bytes to pull",
        "platform": "the one for this machine",
        "platforms": "all platforms of the image",
        "labels.*": "all labels",
        "modes.*": "the flags of a --mode, by its name",
        "kernel.fits": "whether this kernel can run it; null if unknown",
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
        "scheduler": "the catalog name, or the last part of the image's path",
        "image": "the image reference as given",
        "digest": "the digest that it resolves to",
        "manifest": "this platform's manifest, which is what would run",
        **_below("policy", {"source": "its file, or built-in", "hash": "hash of what can change a verdict"}),
        "verified": "whether it may run",
        "reason": "why not, in one word; null when it may",
        "rule": "the rule of the policy that accepted it; null when it may not run",
        "checked_at": "when it was verified",
        "from_cache": "whether this is an earlier verdict, and no network was used now",
        **_below(
            "signatures[]",
            {
                "who": "key SHA256:… (path), or subject (issuer)",
                "how": "key or keyless",
                "format": "cosign-v2 or bundle",
                "signed_at": "when it was signed; null if nothing confirms the time",
                "on": "the signed digest: that of the index or of the manifest",
                "log": "null if no log entry was required",
                "log.id": "the log",
                "log.index": "the entry",
                "log.integrated_at": "when the log recorded it; null if the log does not confirm the time",
            },
        ),
        **_below(
            "attempts[]",
            {
                "what": "where the rejected signature is",
                "who": "who signed it, or claims to have signed it",
                "reason": "expired, no-log-entry, untrusted or bad-signature",
                "problem": "what is wrong with it",
            },
        ),
    },
    "pull": {
        "scheduler": "the catalog name, or the last part of the image's path",
        "image": "the image reference as given",
        "digest": "the digest that it resolves to",
        "manifest": "this platform's manifest, which is what was pulled",
        "driver": "the runtime that it was pulled into",
        "verified": "who signed it, or unsigned-allowed or untrusted-allowed",
    },
    "run": {"scheduler": "the scheduler", **_below("container", ATTACHED)},
    "switch": {
        "scheduler": "the scheduler that is attached now",
        **_below("container", ATTACHED),
        "replaced": "null when none was running before",
        **_below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two",
    },
    "update": {
        "scheduler": "the scheduler",
        "image": "the image reference that it runs from, with its tag",
        "digest": "the digest that runs, or is enabled",
        "newest_image": "the newest version",
        "newest_digest": "the digest that it resolves to",
        "newer": "whether it differs from what runs",
        "unit": "the systemd unit that runs it, and will run the newer version; null if there is none",
        "updated": "whether the newest version runs now",
        "container": "null if nothing was started",
        **_below("container", ATTACHED),
        "replaced": "null if nothing was stopped",
        **_below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two; null when there was no gap",
    },
    "COMMAND --dry-run": {
        "dry_run": "true",
        "scheduler": "the scheduler; null if none is started",
        "image": "the image that would be started; null if there is none",
        "digest": "the digest that it resolves to",
        "verified": "who signed it, or unsigned-allowed or untrusted-allowed",
        "steps": "what would be done, in order; each step completes the sentence `would …`",
    },
    "stop": _below(
        "stopped[]",
        CONTAINER
        | {
            "scheduler": "the scheduler",
            "was_attached": "whether the kernel had it",
            "killed": "whether SIGTERM was not enough",
            "seconds": "time until the kernel had detached it and the container was removed",
        },
    ),
    "restart": _below("container", ATTACHED),
    "enable": _ENABLE,
    "disable": {
        "scheduler": "the scheduler that was enabled; null if its unit could not be read",
        "unit": "the unit that was removed",
        "stopped": "whether the unit was running it",
    },
    "restore": _ENABLE | {"trial": "the trial that this ended; then the others are null", **_below("trial", TRIAL)},
    "trial": {
        "scheduler": "the scheduler that is attached now",
        **_below("container", ATTACHED),
        "replaced": "null when none was running before",
        **_below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two",
        **_below("trial", TRIAL),
    },
    "keep": {"scheduler": "the scheduler that stays"},
    "import": {
        "manager": "the manager that the settings come from",
        "file": "its configuration file",
        "scheduler": "the scheduler that it starts at boot",
        "mode": "the mode",
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
        "schema_version": "the same as version, under the Go schedctl's name",
        "status": "idle, running, unknown, or what is wrong: orphaned-kernel-state, managed-detached, managed-mismatch,"
        " multiple-managed",
        "driver": "the --driver that was given, or auto",
        "scheduler": "the running scheduler, with the Go schedctl's field names; null when there is none, or several",
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
        "discrepancy": "the explanation, if something is wrong or unknown; else null",
        "explanation": "the situation in one sentence, also when nothing is wrong",
        "remedy": "the command that fixes it",
        "holder": "null when no process holds the slot",
        **_below("holder", HOLDER),
        **_below("managed[]", MANAGED),
        **_below("unreachable[]", UNREACHABLE),
        "enabled": "what `schedctl enable` chose; null when nothing is enabled",
        **_below("enabled", SERVICE | {"at_boot": "whether systemd starts it at boot"}),
        "restarted": "what runs with `--restart`; null when nothing does",
        **_below("restarted", SERVICE),
        "trial": "the current trial, or the last one since boot; null when there was none",
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
                "severity": "warn or error: how serious a failure of this check is, as in the Go schedctl",
                "status": "pass, fail or skip, as in the Go schedctl",
                "detail": "what was seen",
                "remediation": "what to do",
            },
        ),
        **_below(
            "summary",
            {
                "passed": "how many are ok",
                "failed": "how many are warnings or errors",
                "skipped": "how many are unknown or not applicable",
                "blocking": "how many are errors: then no scheduler can run, and the exit code is 1",
            },
        ),
    },
    "watch": {
        "at": "when",
        **_below("kernel", KERNEL),
        "uptime_seconds": "seconds since it attached; null when nothing is attached",
        "rates": "events per second; null if the kernel has no counters",
        "rates.*": "the counter's name",
        "stats": "the scheduler's statistics; null when it has none",
        "stats.*": "as the scheduler names it",
    },
    "bench": {
        "command": "what was measured, a list",
        "workload": "the name given to --workload; null for a command",
        "user": "the user that it ran as; null for schedctl's own",
        "metric": "the --metric that was compared; null for the wall time",
        **_below("metric", {"pattern": "the regular expression", "better": "lower, higher or either"}),
        "runs": "number of runs with each scheduler, as requested",
        "warmup": "number of runs before these, which do not count",
        "seed": "pass it to --seed to repeat the order of runs",
        "settle_seconds": "pause between a change of the scheduler and a run",
        "started_at": "when the first run began",
        "finished_at": "when the previous scheduler, or none, was attached again",
        "interrupted": "whether Ctrl-C ended it before all runs were made",
        "answers": "what was found, in sentences",
        "warnings": "what about this machine makes the numbers doubtful",
        "driver": "the runtime that the schedulers ran in",
        **_below(
            "schedulers[]",
            {
                "label": "its label: as given to --with, with a number if it was given twice",
                "scheduler": "the catalog name, or the last part of the image's path; null for the kernel's own",
                "image": "the image reference as given",
                "digest": "the digest that it resolves to",
                "manifest": "this platform's manifest, which is what ran",
                "args": "what was given to the scheduler",
                "verified": "who signed it, or unsigned-allowed or untrusted-allowed",
                "ops": "the scheduler's name in the kernel",
                "endings.*": "how many of its runs ended in this way, without warm-up",
            },
        ),
        **_below(
            "quantities[]",
            {
                "name": "what was measured",
                "title": "its title",
                "unit": "s, B, or empty",
                "better": "lower, higher or either",
            },
        ),
        "main": "the quantity that the answers are about",
        "level": "confidence level of each interval; those of one quantity together hold in 95 %",
        **_below(
            "comparisons[]",
            {
                "scheduler": "its label",
                "quantity": "the quantity's name",
                "numbers": "number of runs that count",
                "median": "median of these runs; null if there is none",
                "ratio": "median divided by the first scheduler's; null for the first, and if there are too few runs",
                "low": "lower end of the ratio's interval",
                "high": "upper end of it",
                "finding": "baseline, better, worse, higher, lower, same (within 2 %), not-different or too-few",
                "needed_runs": "about how many runs are needed to see a difference of 2 %; null if unknown",
            },
        ),
        **_below(
            "samples[]",
            {
                "number": "position in the order of runs",
                "block": "from 1; 0 and below for warm-up",
                "scheduler": "its label",
                "ending": "measured, failed, no-metric, ejected, detached, not-attached, disturbed or unknown: only"
                " measured is a number that is compared",
                "why": "why it is not a number",
                "started_at": "when",
                "exit_code": "exit code of the command; negative for the signal that ended it; null if it did not run",
                "wakeups": "number of wake-ups that --latency measured; null without --latency",
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
                "governor": "CPU frequency governor; null if there is none",
                "energy_preference": "energy preference of the CPUs; null if there is none",
                "power_profile": "power profile of the platform; null if there is none",
                "turbo": "whether turbo is enabled; null if there is none",
                "on_battery": "null on a machine without a battery",
                "other_load": "share of all CPUs that other processes used before the first run",
                "load_average": "load average of the last minute before the first run",
            },
        ),
        **_below("versions", {"schedctl": "of this program", "python": "of Python", "runtime": "of the runtime"}),
    },
    "images": {
        **_below("images[]", LOCAL_IMAGE | {"used_by": "names of the containers that use it, stopped ones included"}),
        **_below("unreachable[]", UNREACHABLE),
    },
    "rmi": {**_below("removed[]", LOCAL_IMAGE), "dry_run": "true: nothing was removed"},
    "prune": {
        **_below("removed[]", LOCAL_IMAGE),
        "bytes": "their total size",
        "dry_run": "true: nothing was removed",
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
