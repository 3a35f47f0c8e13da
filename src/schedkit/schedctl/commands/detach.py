"""`schedctl detach`: end a scheduler that nobody manages."""

import sys

import click

from schedkit.errors import UnavailableError, UsageError
from schedkit.host.detaching import Detached, end_foreign, find_foreign
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json, words
from schedkit.schedctl.planning import DryRun, dry_run_option, show_plan
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import holder_fields, kernel_fields


@click.command(
    cls=Command,
    short_help="Detach a scheduler that schedctl does not manage.",
    epilog="""
    schedctl detach
    schedctl detach --yes
    """,
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Detach it even if a runtime that may have started it does not respond.")
@dry_run_option
@output_option
@pass_session
def command(session: Session, yes: bool, force: bool, dry_run: bool) -> None:
    """Detach a scheduler that schedctl does not manage, through its BPF link or else with SysRq-S.

    schedctl says what it will do and asks first. The kernel notifies the process that loaded the scheduler; the process
    is not killed. If a runtime that may have started the scheduler for schedctl does not respond, --force is required.
    """
    session.require_root("detach")
    foreign = find_foreign(session.host)
    session.progress.step(foreign.describe())
    if foreign.doubt and not force:
        raise UnavailableError(
            f"{foreign.ops} may be managed by schedctl: {foreign.doubt}",
            hint="start that runtime and use `schedctl stop`; or detach it in the kernel anyway:"
            " schedctl detach --force",
        )
    if foreign.doubt:
        session.progress.warn(f"{foreign.ops} may be managed by schedctl: {foreign.doubt}")
    if foreign.returns:
        session.progress.warn("a Kubernetes pod holds it: the cluster will bring it back; change or delete it there")
    if dry_run:
        show_plan(session, DryRun((f"end {foreign.ops} by: {foreign.way.text}",)))
        return
    if not yes:
        _ask()
    detached = end_foreign(session.host, foreign)
    session.output.show(lambda: _fields(detached), lambda: _text(detached))


def _ask() -> None:
    if not sys.stdin.isatty():
        raise UsageError("detach asks for confirmation, and there is no terminal", hint="schedctl detach --yes")
    if not click.confirm("Detach it?", err=True):
        raise click.Abort


def _fields(detached: Detached) -> Json:
    foreign = detached.foreign
    return {
        "ops": foreign.ops,
        "holder": holder_fields(foreign.holder),
        "way": foreign.way.text,
        "kernel": kernel_fields(detached.after),
    }


def _text(detached: Detached) -> str:
    after = detached.after
    now = f"the kernel says {words(after.state)}" if after.ops is None else f"{words(after.ops)} is attached now"
    return f"{detached.foreign.ops} is detached; {now}"
