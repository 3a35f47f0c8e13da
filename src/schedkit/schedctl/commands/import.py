"""`schedctl import`: take over the choice that another manager of schedulers has."""

import shlex
from typing import TYPE_CHECKING

import click

from schedkit.errors import SchedkitError
from schedkit.host.units import ENABLED, RESTARTS
from schedkit.schedctl.completing import complete_file
from schedkit.schedctl.durations import ATTACH_SECONDS
from schedkit.schedctl.enabling import describe_lasted, enable, plan_enable
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.planning import describe_plan, dry_run_option
from schedkit.schedctl.requests import parse_order
from schedkit.schedctl.session import Session
from schedkit.schedctl.trust_options import trust_options

if TYPE_CHECKING:
    from pathlib import Path

    from schedkit.schedctl.importing import ImportedModes
    from schedkit.schedctl.planning import DryRun


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
    does not attach, scx_loader is enabled and started again. The flags that the file names for other modes and
    schedulers become those of --mode, in /etc/schedkit/config.toml; what that file says already stays.
    """
    from schedkit.host.loader import BUILT_IN_VERSION, LOADER, makes_way, read_loader, replace_loader
    from schedkit.host.managed import observe
    from schedkit.schedctl.importing import plan_modes, write_modes
    from schedkit.schedctl.lasting import check_systemd

    choice = read_loader(session.machine.root, file)
    args = choice.args or ()
    line = shlex.join(["schedctl", "enable", choice.scheduler, *(["--", *args] if args else [])])
    missing = f"{choice.origin} has no flags for {choice.scheduler} in {choice.mode} mode"
    if choice.args is None:
        session.progress.warn(f"{missing}, and scx_loader {BUILT_IN_VERSION} does not know it: it is taken without any")
    elif choice.is_built_in and args:
        session.progress.step(f"{missing}: those that scx_loader {BUILT_IN_VERSION} has built in are taken")
    session.require_root("import")
    session.check_known(choice.scheduler)
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
    session.progress.step(f"{choice.origin}: {choice.scheduler}, {choice.mode} mode; here: {line}")
    root = session.machine.root
    modes = plan_modes(choice.modes)
    for one in modes.left_out:
        session.progress.warn(f"not imported: {one.setting}: {one.why} ({modes.path})")
    is_taken = makes_way(root, observe(session.machine, session.runtimes))
    steps: tuple[str, ...] = ()
    if dry_run:
        steps = _plan(root, plan_enable(session, order, is_taken=is_taken), modes).steps
        text = describe_plan(steps)
    else:
        make_way = replace_loader(root, session.progress)
        lasted = enable(session, order, mode=choice.mode, make_way=make_way, is_taken=is_taken)
        try:
            modes = write_modes(choice.modes)
        except (SchedkitError, OSError) as error:  # the scheduler itself is enabled by now
            added = "; ".join(one.setting for one in modes.new)
            session.progress.warn(f"{modes.path} could not be changed: {error}; add to it: {added}")
            modes = modes._replace(flags=())
        enabled = f"{choice.scheduler} is enabled: {ENABLED} starts it at boot, not {LOADER}"
        text = "\n".join([describe_lasted(lasted), enabled, *(f"{modes.path}: {one.setting}" for one in modes.new)])
    session.output.show(
        lambda: {
            "manager": manager,
            "file": choice.origin,
            "scheduler": choice.scheduler,
            "mode": choice.mode,
            "args": list(args),
            "command": line,
            "modes": [one.fields for one in modes.flags],
            "applied": not dry_run,
            "steps": list(steps),
        },
        lambda: text,
    )


def _plan(root: "Path", plan: "DryRun", modes: "ImportedModes") -> "DryRun":
    """What `enable` would do, with scx_loader out of the way as soon as the image is here."""
    from schedkit.host.loader import LOADER, find_way_back

    first, *others = plan.steps
    loader = (f"stop and disable {LOADER}",) if find_way_back(root) else ()
    plan = plan._replace(steps=(first, *loader, *others))
    return plan.add(*(f"set {one.setting} in {modes.path}" for one in modes.new))
