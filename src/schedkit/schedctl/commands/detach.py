"""`schedctl detach`: end a scheduler that nobody manages."""

import sys

import click

from schedkit.errors import UsageError
from schedkit.host.detaching import Detached, end_foreign, find_foreign
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json, words
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import holder_fields, kernel_fields


@click.command(
    cls=Command,
    short_help="End an attached scheduler that nobody manages.",
    epilog="""
    schedctl detach
    schedctl detach --yes
    """,
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_session
def command(session: Session, yes: bool) -> None:
    """End an attached scheduler that nobody manages, by detaching its BPF link or else by SysRq-S.

    It says what it will do and asks first. The process that loaded the scheduler is told by the kernel, not killed.
    """
    runtimes, silent = session.find_runtimes(patiently=True)
    foreign = find_foreign(session.machine, runtimes, silent)
    session.talk.step(foreign.describe())
    if foreign.doubt:
        session.talk.warn(foreign.doubt)
    if not yes:
        _ask()
    detached = end_foreign(session.machine, foreign, session.talk)
    session.output.show(lambda: _fields(detached), lambda: _text(detached))


def _ask() -> None:
    if not sys.stdin.isatty():
        raise UsageError("detaching needs a yes, and there is no terminal to ask on", hint="schedctl detach --yes")
    if not click.confirm("Detach it?", err=True):
        raise KeyboardInterrupt


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
