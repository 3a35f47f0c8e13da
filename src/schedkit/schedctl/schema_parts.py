"""The objects that the JSON of several commands has in it: field, and what it means."""


def below(prefix: str, fields: dict[str, str]) -> dict[str, str]:
    """Name fields of an object by its own name."""
    return {f"{prefix}.{name}": text for name, text in fields.items()}


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
    "restart": "no, on-failure, on-failure:N or always",
    "supervised": "whether a running systemd unit restarts it; null without a restart policy",
    "privileged": "false if it was started with --unprivileged",
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
    "restart": "on-failure, on-failure:N or always",
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
SETTING = {
    "key": "as in the configuration file; a key of a table follows the table's name and a point",
    "value": "a text, a list of texts, true or false; null if nothing sets it",
    "origin": "flag, environment, user, system or default: where the value comes from",
    "source": "the option, variable or file that sets it; null for a default",
}
EVENT = {
    "at": "when",
    "event": "attached, detached or ejected",
    "ops": "the scheduler's name in the kernel",
    "reason": "why it ended, in the kernel's words; null for attached",
    "details": "what else the kernel said about its end, a list",
    "managed": "whether schedctl manages it",
    "container": "null if schedctl does not manage it, or if that is unknown",
    **below("container", CONTAINER),
    "holder": "null if no process held it",
    **below("holder", HOLDER),
}
BENCH = {
    "command": "what was measured, a list",
    "workload": "the name given to --workload; null for a command",
    "user": "the user that it ran as; null for schedctl's own",
    "metric": "the --metric that was compared; null for the wall time",
    **below("metric", {"pattern": "the regular expression", "better": "lower, higher or either"}),
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
    **below(
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
    **below(
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
    **below(
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
    **below(
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
    **below(
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
    **below("versions", {"schedctl": "of this program", "python": "of Python", "runtime": "of the runtime"}),
}
