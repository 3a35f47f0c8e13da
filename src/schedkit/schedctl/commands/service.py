"""`schedctl service`: what the units of systemd run that `enable`, `--restart` and `trial` make; not for people."""

import click

from schedkit.errors import NotFoundError, UnavailableError
from schedkit.schedctl.following import follow_logs
from schedkit.schedctl.options import Command, pass_session
from schedkit.schedctl.session import Session

TAIL = 10  # lines of what it said before, where it runs already
PATIENCE_SECONDS = 60.0  # for runtimes: at boot everything starts at the same time


@click.command(cls=Command, hidden=True)
@click.argument("unit", type=click.Choice(["schedkit.service", "schedkit-run.service", "schedkit-trial.service"]))
@pass_session
def command(session: Session, unit: str) -> int:
    """Do what UNIT is there for, in the foreground: its output is the journal's.

    It takes over a scheduler that is attached already. Ends with 0 when it is told to (SIGTERM), which stops the
    scheduler, and when another schedctl stops or replaces that; everything else is for systemd to start it again.
    """
    session.require_root("service")
    session.patience = PATIENCE_SECONDS
    if unit == "schedkit-trial.service":
        from schedkit.host.trial import watch_trial

        watch_trial(session.host, session.progress.step)
        return 0
    return _run(session, unit)


def _run(session: Session, unit: str) -> int:
    from schedkit.host.lasting import find_chosen, is_chosen
    from schedkit.host.model import parse_restart
    from schedkit.host.preparing import check_kernel
    from schedkit.host.run import check_run, remove_unattached, run
    from schedkit.host.trial import remove_leftovers
    from schedkit.host.units import ENABLED, read_choice
    from schedkit.kernel.state import read_state
    from schedkit.schedctl.lasting import recall_request, use_choice
    from schedkit.unknown import Unknown

    choice = read_choice(session.machine.root, unit)
    if choice is None:
        raise NotFoundError(f"{unit} has no choice of a scheduler", hint="`schedctl enable NAME` makes one")
    if isinstance(choice, Unknown):
        raise UnavailableError(choice.why)
    lasting = unit == ENABLED or parse_restart(choice.restart).always
    use_choice(session, choice)
    check_kernel(session.machine, choice.scheduler)
    host = session.host
    same = find_chosen(host, choice)
    if same and is_chosen(same):
        session.progress.step(
            f"{same.container.name} ({same.container.driver}) is attached already: its output follows"
        )
        ops = read_state(session.machine.root).ops
        return follow_logs(session, same.container, ops if isinstance(ops, str) else None, tail=TAIL, lasting=lasting)
    if same:
        remove_unattached(host, same)
    remove_leftovers(host)
    check_run(host, choice.scheduler)
    request, verify = recall_request(session, choice)
    attached = run(host, request, verify)
    session.progress.step(f"{choice.scheduler} is attached as {attached.ops}, container {attached.container.name}")
    return follow_logs(session, attached.container, attached.ops, lasting=lasting)
