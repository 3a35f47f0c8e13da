"""`schedctl doctor`: everything that can keep a scheduler from running here."""

import click

from schedkit.errors import ExitCode, clean
from schedkit.kernel.check import Check, Outcome
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json
from schedkit.schedctl.session import Session

WORDS = {Outcome.OK: "ok", Outcome.WARNING: "warning", Outcome.ERROR: "ERROR", Outcome.UNKNOWN: "unknown"}
MOODS = {Outcome.OK: "good", Outcome.WARNING: "doubtful", Outcome.ERROR: "bad", Outcome.UNKNOWN: "doubtful"}
# The same in the words of the original: how bad it is, and how it went.
SEVERITIES = {Outcome.OK: "info", Outcome.WARNING: "warn", Outcome.ERROR: "error", Outcome.UNKNOWN: "info"}
STATUSES = {Outcome.OK: "pass", Outcome.WARNING: "fail", Outcome.ERROR: "fail", Outcome.UNKNOWN: "skip"}


@click.command(
    cls=Command,
    short_help="Look for what keeps schedulers from running here.",
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
    """Look for what keeps schedulers from running here: the kernel, our rights, the runtimes, the registry.

    Ends with 1 when something does (ERROR); a warning may, and unknown could not be found out. Without root it shows
    what it can see and ends with 77.
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
                "outcome": check.outcome.value,
                "severity": SEVERITIES[check.outcome],
                "status": STATUSES[check.outcome],
                "detail": check.seen,
                "remediation": check.fix,
            }
            for check in checks
        ],
        "summary": {
            "passed": count(Outcome.OK),
            "failed": count(Outcome.WARNING) + count(Outcome.ERROR),
            "skipped": count(Outcome.UNKNOWN),
            "blocking": count(Outcome.ERROR),
        },
    }


def _text(checks: list[Check], session: Session) -> str:
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for check in checks:
        word = WORDS[check.outcome]
        lines.append(
            f"{session.output.paint(word, MOODS[check.outcome])}{' ' * (9 - len(word))}"
            f"{check.name:{width}}  {clean(check.seen)}"
        )
        if check.fix and check.outcome is not Outcome.OK:
            lines.append(f"{'':9}{'':{width}}  fix: {clean(check.fix)}")
    counts = {outcome: sum(check.outcome is outcome for check in checks) for outcome in Outcome}
    lines += ["", ", ".join(f"{count} {WORDS[outcome]}" for outcome, count in counts.items() if count)]
    return "\n".join(lines)
