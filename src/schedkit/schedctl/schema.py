"""What `-o json` prints: every field of every command. docs/schedctl/json.md is made from here, and a test compares."""

from schedkit.schedctl.schema_parts import (
    ATTACHED,
    BENCH,
    CHOICE,
    CONTAINER,
    EVENT,
    HOLDER,
    KERNEL,
    LOCAL_IMAGE,
    MANAGED,
    SERVICE,
    SETTING,
    TRIAL,
    UNREACHABLE,
    below,
)

_ENABLE = {
    "enabled": "what is enabled",
    **below("enabled", CHOICE | {"unit": "the systemd unit that starts it"}),
    "container": "where it runs",
    **below("container", CONTAINER),
    "replaced": "null when none was running before, or the same",
    **below("replaced", CONTAINER),
    "gap_seconds": "how long the kernel used its own scheduler between the two; null when there was no gap",
}
# Command → field → what it means. `a.b` is a field of an object, `a[].b` of each object of a list, `a.*` of any name.
FIELDS: dict[str, dict[str, str]] = {
    "list": below(
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
        **below(
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
        **below(
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
        **below("policy", {"source": "its file, or built-in", "hash": "hash of what can change a verdict"}),
        "verified": "whether it may run",
        "reason": "why not, in one word; null when it may",
        "rule": "the rule of the policy that accepted it; null when it may not run",
        "checked_at": "when it was verified",
        "from_cache": "whether this is an earlier verdict, and no network was used now",
        **below(
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
        **below(
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
    "run": {
        "scheduler": "the scheduler",
        **below("container", ATTACHED),
        "replaced": "what --replace stopped and removed; null without it, or when none was running before",
        **below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two; null when there was no gap",
    },
    "switch": {
        "scheduler": "the scheduler that is attached now",
        **below("container", ATTACHED),
        "replaced": "null when none was running before",
        **below("replaced", CONTAINER),
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
        **below("container", ATTACHED),
        "replaced": "null if nothing was stopped",
        **below("replaced", CONTAINER),
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
    "stop": below(
        "stopped[]",
        CONTAINER
        | {
            "scheduler": "the scheduler",
            "was_attached": "whether the kernel had it",
            "killed": "whether SIGTERM was not enough",
            "seconds": "time until the kernel had detached it and the container was removed",
        },
    ),
    "restart": below("container", ATTACHED),
    "enable": _ENABLE,
    "disable": {
        "scheduler": "the scheduler that was enabled; null if its unit could not be read",
        "unit": "the unit that was removed",
        "stopped": "whether the unit was running it",
    },
    "restore": _ENABLE | {"trial": "the trial that this ended; then the others are null", **below("trial", TRIAL)},
    "trial": {
        "scheduler": "the scheduler that is attached now",
        **below("container", ATTACHED),
        "replaced": "null when none was running before",
        **below("replaced", CONTAINER),
        "gap_seconds": "how long the kernel used its own scheduler between the two",
        **below("trial", TRIAL),
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
        **below("holder", HOLDER),
        "way": "how it was ended",
        **below("kernel", KERNEL),
    },
    "status": {
        "schema_version": "the same as version, under the Go schedctl's name",
        "status": "idle, running, unknown, or what is wrong: orphaned-kernel-state, managed-detached, managed-mismatch,"
        " multiple-managed",
        "driver": "the --driver that was given, or auto",
        "scheduler": "the running scheduler, with the Go schedctl's field names; null when there is none, or several",
        **below(
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
        **below("kernel", KERNEL),
        "discrepancy": "the explanation, if something is wrong or unknown; else null",
        "explanation": "the situation in one sentence, also when nothing is wrong",
        "remedy": "the command that fixes it",
        "holder": "null when no process holds the slot",
        **below("holder", HOLDER),
        **below("managed[]", MANAGED),
        **below("unreachable[]", UNREACHABLE),
        "enabled": "what `schedctl enable` chose; null when nothing is enabled",
        **below("enabled", SERVICE | {"at_boot": "whether systemd starts it at boot"}),
        "restarted": "what runs with `--restart`; null when nothing does",
        **below("restarted", SERVICE),
        "trial": "the current trial, or the last one since boot; null when there was none",
        **below("trial", TRIAL),
    },
    "ps": {**below("containers[]", MANAGED), **below("unreachable[]", UNREACHABLE)},
    "inspect": {
        **below("container", MANAGED | {"labels.*": "all labels of the container"}),
        **below("kernel", KERNEL),
        **below("holder", HOLDER),
    },
    "doctor": {
        **below(
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
        **below(
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
        **below("kernel", KERNEL),
        "uptime_seconds": "seconds since it attached; null when nothing is attached",
        "rates": "events per second; null if the kernel has no counters",
        "rates.*": "the counter's name",
        "stats": "the scheduler's statistics; null when it has none",
        "stats.*": "as the scheduler names it",
    },
    "events": EVENT,
    "wait": {
        "condition": "what was waited for: attached, detached or ejected",
        "seconds": "how long it took",
        "kernel": "the kernel's state then; null for ejected",
        **below("kernel", KERNEL),
        "event": "the ejection; null for attached and detached",
        **below("event", EVENT),
    },
    "bench": BENCH,
    "images": {
        **below("images[]", LOCAL_IMAGE | {"used_by": "names of the containers that use it, stopped ones included"}),
        **below("unreachable[]", UNREACHABLE),
    },
    "rmi": {**below("removed[]", LOCAL_IMAGE), "dry_run": "true: nothing was removed"},
    "prune": {
        **below("removed[]", LOCAL_IMAGE),
        "bytes": "their total size",
        "dry_run": "true: nothing was removed",
    },
    "catalog update": {"changes": "one sentence for each catalog"},
    "config": below("settings[]", SETTING),
    "config get": below("settings[]", SETTING),
    "config set": {"file": "the file that was changed", "key": "the key", "value": "its new value"},
    "config unset": {"file": "the file that was changed", "key": "the key", "value": "null"},
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
