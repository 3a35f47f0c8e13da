"""`schedctl import`: take over the choice that another manager of schedulers has."""

import shlex

import click

from schedkit.host.units import ENABLED, RESTARTS
from schedkit.schedctl.completing import complete_file
from schedkit.schedctl.durations import ATTACH_SECONDS
from schedkit.schedctl.enabling import describe_lasted, enable
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.planning import dry_run_option
from schedkit.schedctl.requests import parse_order
from schedkit.schedctl.session import Session
from schedkit.schedctl.trust_options import trust_options


@click.command(
    cls=Command,
    short_help="Import the settings of scx_loader.",
    epilog="""
    schedctl import scx_loader --dry-run
    schedctl import scx_loader
    """,
)
@click.argument("manager", type=click.Choice(["scx_loader"]))
@click.option(
    "--file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Configuration file of scx_loader, if not in the usual place.",
)
@dry_run_option
@trust_options
@output_option
@pass_session
def command(session: Session, manager: str, file: str | None, dry_run: bool) -> None:
    """Enable the scheduler that scx_loader starts at boot, with its flags, and disable scx_loader.

    The scheduler, its mode and the flags of that mode are read from scx_loader's configuration file. If the scheduler
    does not attach, scx_loader is enabled and started again.
    """
    from schedkit.host.loader import BUILT_IN_VERSION, LOADER, read_loader, replace_loader
    from schedkit.schedctl.lasting import check_systemd

    choice = read_loader(session.machine.root, file)
    args = choice.args or ()
    line = shlex.join(["schedctl", "enable", choice.scheduler, *(["--", *args] if args else [])])
    missing = f"{choice.origin} has no flags for {choice.scheduler} in {choice.mode} mode"
    if choice.args is None:
        session.progress.warn(f"{missing}, and scx_loader {BUILT_IN_VERSION} does not know it: it is taken without any")
    elif choice.is_built_in and args:
        session.progress.step(f"{missing}: those that scx_loader {BUILT_IN_VERSION} has built in are taken")
    text = f"{choice.origin}: {choice.scheduler}, {choice.mode} mode; here: {line}"
    if not dry_run:
        session.require_root("import")
        check_systemd(session, "schedctl import")
        order = parse_order(
            choice.scheduler,
            args,
            version=None,
            container=None,
            env=(),
            network="none",
            timeout=ATTACH_SECONDS,
            restart=f"on-failure:{RESTARTS}",
        )
        session.progress.step(text)
        lasted = enable(
            session, order, mode=choice.mode, make_way=replace_loader(session.machine.root, session.progress)
        )
        text = f"{describe_lasted(lasted)}\n{choice.scheduler} is enabled: {ENABLED} starts it at boot, not {LOADER}"
    session.output.show(
        lambda: {
            "manager": manager,
            "file": choice.origin,
            "scheduler": choice.scheduler,
            "mode": choice.mode,
            "args": list(args),
            "command": line,
            "applied": not dry_run,
        },
        lambda: text,
    )
