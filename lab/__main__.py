"""`python -m lab`: bring the lab up, look into it, take it down."""

import os

import click

from lab.catalogue import MACHINES, open_store
from lab.errors import LabError
from lab.host import check_host
from lab.kernels import KERNELS, LONGTERM, NEWEST, find_kernel
from lab.machine import INITS, SCRIPT, snapshot_of
from lab.progress import format_bytes, format_seconds
from lab.qemu import find_accelerator
from lab.session import Session
from schedkit.cli import ProgramGroup, run_program
from schedkit.errors import UsageError

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group(cls=ProgramGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def lab(context: click.Context) -> None:
    """A disposable real machine with sched_ext and a real Kubernetes control plane, made from packages alone."""
    store = open_store()
    context.obj = Session(store, store.root / "run" / "up")


@lab.command()
@click.pass_obj
def build(session: Session) -> None:
    """Build everything the lab is made of, without starting anything."""
    check_host()
    accelerator = find_accelerator(session.store, NEWEST)  # which needs no compiling
    saved = [snapshot_of(kernel, accelerator, init) for kernel, init in MACHINES]
    session.store.ensure(*(artefact for artefact in session.store.everything if artefact.is_lasting), *saved)


@lab.command()
@click.option(
    "--kernel", type=click.Choice(list(KERNELS)), default=LONGTERM.name, show_default=True, help="Which kernel to boot."
)
@click.option(
    "--init",
    type=click.Choice(INITS),
    default=SCRIPT,
    show_default=True,
    help="Pid 1: a script that starts all services, or systemd.",
)
@click.option("--cluster/--no-cluster", default=True, show_default=True, help="Make the machine a node of a cluster.")
@click.option("--sked", is_flag=True, help="Deploy sked to the cluster, from this tree.")
@click.option("--simulated-nodes", type=click.IntRange(min=0), default=0, help="Also have this many simulated nodes.")
@click.pass_obj
def up(session: Session, kernel: str, init: str, cluster: bool, sked: bool, simulated_nodes: int) -> None:
    """Bring the lab up, building what is missing (--no-cluster needs a third of that)."""
    if not cluster and (sked or simulated_nodes):
        raise UsageError("--sked and --simulated-nodes need a cluster", hint="leave out --no-cluster")
    check_host()
    session.up(find_kernel(kernel), init=init, with_cluster=cluster)
    if sked:
        session.deploy_sked()
    if simulated_nodes:
        session.simulate_nodes(simulated_nodes)
    print_status(session)


@lab.command()
@click.pass_obj
def status(session: Session) -> None:
    """What is up, what is built, and how much disk it takes."""
    print_status(session)
    click.echo()
    usage = session.store.usage()
    for artefact in session.store.everything:
        built = session.store.has(artefact)
        if not built and not artefact.is_lasting:
            continue
        size = format_bytes(usage.pop(artefact.folder, 0)) if built else "not built"
        seconds = session.store.seconds_last_time(artefact)
        took = f"took {format_seconds(seconds)}" if seconds else ""
        click.echo(f"{artefact.name:16} {size:>10}  {took}")
    for name, size_bytes in usage.items():
        click.echo(
            f"{name:16} {format_bytes(size_bytes):>10}  {'' if name.endswith('/') else 'no longer current: prune'}"
        )
    click.echo(f"{'in all':16} {format_bytes(_sum(session)):>10}  under {session.store.root}")


@lab.command(context_settings=PASS_ON)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shell(session: Session, command: tuple[str, ...]) -> None:
    """A shell in the machine, or one COMMAND there."""
    machine = session.machine()
    if not machine:
        raise LabError("no machine is up", hint="python -m lab up")
    words = machine.guest.shell_command(list(command))
    os.execvp(words[0], words)


@lab.command(context_settings=PASS_ON | {"help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def kubectl(session: Session, arguments: tuple[str, ...]) -> None:
    """Run kubectl against the cluster that is up, as its administrator."""
    cluster = session.cluster()
    if not cluster:
        raise LabError("no cluster is up", hint="python -m lab up")
    program = str(cluster.plane.binaries.kubectl)
    os.execv(program, [program, f"--kubeconfig={cluster.admin_kubeconfig}", *arguments])


@lab.command()
@click.pass_obj
def down(session: Session) -> None:
    """End what is up. What is built stays."""
    check_host()
    session.down()


@lab.command()
@click.option("--all", "all_", is_flag=True, help="Everything, not only what is no longer current.")
@click.pass_obj
def prune(session: Session, all_: bool) -> None:
    """Delete what is no longer current, half-built or downloaded."""
    check_host()
    if all_ and (session.machine() or session.cluster()):
        raise LabError("the lab is up and stands on what would be deleted", hint="python -m lab down")
    click.echo(f"freed {format_bytes(session.store.prune(all_=all_))}")


def print_status(session: Session) -> None:
    """What is up, for a person."""
    machine, cluster = session.machine(), session.cluster()
    if machine:
        click.echo(f"machine: up, kernel {machine.kernel.name}, registry {machine.registry}")
        click.echo("         try: .venv/bin/python -m lab shell, and there: schedctl list")
    else:
        click.echo("machine: not up")
    if cluster:
        click.echo(f"cluster: up, KUBECONFIG={cluster.admin_kubeconfig}")
    else:
        click.echo("cluster: not up")


def _sum(session: Session) -> int:
    return sum(session.store.usage().values())


if __name__ == "__main__":
    run_program(lab, "python -m lab")
