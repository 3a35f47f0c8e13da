"""`schedctl doctor`: everything that can keep a scheduler from running here."""

from typing import NamedTuple

import click

from schedkit.errors import ExitCode, clean
from schedkit.kernel.check import Check, Outcome
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import GAP, Json
from schedkit.schedctl.session import Session


class Words(NamedTuple):
    """How an outcome is shown: the word, its colour, and the Go schedctl's status."""

    word: str
    mood: str
    status: str


TOLD = {
    Outcome.OK: Words("ok", "good", "pass"),
    Outcome.WARNING: Words("warning", "doubtful", "fail"),
    Outcome.ERROR: Words("ERROR", "bad", "fail"),
    Outcome.UNKNOWN: Words("unknown", "doubtful", "skip"),
    Outcome.NOT_APPLICABLE: Words("-", "", "skip"),
}
WORD = 9  # columns for the outcome
LEAST_ROOM = 32  # columns for what was seen; where there are fewer, it follows the check's name
# What each check is about, and how bad it is when it fails: as in the Go schedctl these do not depend on how it went.
ERROR, WARN = "error", "warn"
ABOUT = {
    "kernel.version": (ERROR, "The kernel is new enough for sched_ext"),
    "kernel.sched_ext": (ERROR, "The kernel has sched_ext"),
    "kernel.btf": (ERROR, "The kernel describes its types (BTF)"),
    "kernel.btf_kfuncs": (WARN, "The kernel's types describe the functions that schedulers call"),
    "kernel.config": (ERROR, "The kernel was built with the options that schedulers need"),
    "kernel.function_tracer": (WARN, "The kernel can trace functions, as the schedulers of the scx project ask for"),
    "kernel.preempt_rt": (ERROR, "The kernel is not a real-time one"),
    "kernel.isolcpus": (ERROR, "No CPU is isolated from the kernel's scheduling domains"),
    "kernel.managers": (WARN, "No other manager of schedulers runs"),
    "kernel.slot": (WARN, "No scheduler is attached yet"),
    "caps.cap_bpf": (ERROR, "This process may load BPF programs"),
    "caps.cap_sys_admin": (ERROR, "This process may administer the system"),
    "caps.cap_perfmon": (ERROR, "This process may observe performance"),
    "runtime.podman_socket": (WARN, "podman responds"),
    "runtime.docker_socket": (WARN, "docker responds"),
    "runtime.containerd_socket": (WARN, "containerd responds"),
    "runtime.any": (ERROR, "A container runtime responds"),
    "runtime.rootless": (WARN, "The runtime is the system's, and not a user's"),
    "registry.reachable": (WARN, "The registry of the catalog's images responds"),
}


@click.command(
    cls=Command,
    short_help="Check whether this machine can run schedulers.",
    epilog="""
    schedctl doctor
    schedctl doctor --offline
    schedctl doctor -o json | jq -r '.checks[] | select(.outcome != "ok") | .id'
    """,
)
@click.option("--offline", is_flag=True, help="Ask no registry.")
@output_option
@pass_session
def command(session: Session, offline: bool) -> int:
    """Check everything that can keep a scheduler from running: the kernel, your rights, the runtimes, the registry.

    ERROR keeps schedulers from running, warning may, unknown could not be checked, and - does not apply to this
    machine. The exit code is 1 if there is an ERROR, and 77 if there is one and schedctl does not run as root.
    """
    checks = _gather(session, offline)
    blocking = sum(check.outcome is Outcome.ERROR for check in checks)
    session.output.show(lambda: _fields(checks), lambda: _text(checks, session))
    if blocking:
        session.require_root("doctor")  # who sees only a part is told that before the rest is believed
    return ExitCode.FAILURE if blocking else ExitCode.OK


def _gather(session: Session, offline: bool) -> list[Check]:
    from schedkit.host.doctor import examine

    if offline:
        return examine(session.machine, session.runtimes)
    registries = sorted({entry.image.registry for entry in session.catalog.entries.values()})
    return examine(session.machine, session.runtimes, registries=registries, probe=session.registry.probe)


def _fields(checks: list[Check]) -> Json:
    count = [check.outcome for check in checks].count
    return {
        "checks": [
            {
                "id": check.name,
                "description": ABOUT[check.name][1],
                "outcome": check.outcome.value,
                "severity": ABOUT[check.name][0],
                "status": TOLD[check.outcome].status,
                "detail": check.seen,
                "remediation": check.fix,
            }
            for check in checks
        ],
        "summary": {
            "passed": count(Outcome.OK),
            "failed": count(Outcome.WARNING) + count(Outcome.ERROR),
            "skipped": count(Outcome.UNKNOWN) + count(Outcome.NOT_APPLICABLE),
            "blocking": count(Outcome.ERROR),
        },
    }


def _text(checks: list[Check], session: Session) -> str:
    output = session.output
    width = max((len(check.name) for check in checks), default=0)
    indent = WORD + width + len(GAP)
    narrow = output.width is not None and output.width < indent + LEAST_ROOM
    lines: list[str] = []
    for check in _join_absent(checks):
        word, mood, _ = TOLD[check.outcome]
        told = [clean(check.seen)]
        if check.fix and check.outcome is not Outcome.OK:
            told.append(f"fix: {clean(check.fix)}")
        if narrow:
            mine = [f"{word:{WORD}}{check.name}: {told[0]}", *(f"{'':{WORD}}{one}" for one in told[1:])]
        else:
            mine = [f"{word:{WORD}}{check.name:{width}}{GAP}{told[0]}", *(f"{'':{indent}}{one}" for one in told[1:])]
        first, *rest = [part for line in mine for part in output.fill(line, WORD if narrow else indent)]
        lines += [(output.paint(word, mood) if mood else word) + first[len(word) :], *rest]
    counts = {outcome: sum(check.outcome is outcome for check in checks) for outcome in Outcome}
    counted = ", ".join(
        f"{count} {TOLD[outcome].word}"
        for outcome, count in counts.items()
        if count and outcome is not Outcome.NOT_APPLICABLE
    )
    return "\n".join([*lines, "", counted, *output.fill(_conclude(checks), 0)])


def _join_absent(checks: list[Check]) -> list[Check]:
    """One line for all the runtimes that do not run here, where nothing can be done about each of them."""
    absent = [
        check for check in checks if check.outcome is Outcome.NOT_APPLICABLE and check.name.startswith("runtime.")
    ]
    names = ", ".join(check.name.removeprefix("runtime.").removesuffix("_socket") for check in absent)
    responds = any(check.name == "runtime.any" and check.outcome is Outcome.OK for check in checks)
    told = f"not running, and not needed: {names}" if responds else f"not installed: {names}"
    joined = [Check("runtime.others", Outcome.NOT_APPLICABLE, told)] if absent else []
    last = next((place for place, check in enumerate(checks) if check.name == "runtime.any"), len(checks))
    return [check for check in checks[:last] if check not in absent] + joined + checks[last:]


def _conclude(checks: list[Check]) -> str:
    """What it all means, in one sentence."""
    blocking = [check for check in checks if check.outcome is Outcome.ERROR]
    if blocking:
        names = ", ".join(check.name for check in blocking)
        return f"This machine cannot run sched_ext schedulers yet: fix {names}."
    if any(check.name == "kernel.slot" and check.outcome is Outcome.WARNING for check in checks):
        return "Ready, and a scheduler is attached already: schedctl status shows which."
    if any(check.name == "kernel.sched_ext" and check.outcome is not Outcome.OK for check in checks):
        return "Whether this machine can run sched_ext schedulers is unknown: the kernel's state could not be read."
    return "Ready: try schedctl run scx_rusty."
