"""`schedctl bench`: which scheduler is better for a command."""

import os
import platform
import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedkit import __version__
from schedkit.cli import Whole
from schedkit.errors import ExitCode, NoPermissionError, NotFoundError, UsageError, clean
from schedkit.schedctl.completing import complete_schedulers, complete_workload
from schedkit.schedctl.durations import attach_timeout_option, duration_option
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.planning import dry_run_option, plan_images, show_plan
from schedkit.schedctl.requests import make_request, parse_order
from schedkit.schedctl.session import Session
from schedkit.schedctl.trust_options import trust_options
from schedkit.schedctl.verification import check_trust_policy, make_verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedkit.host.bench import Benched
    from schedkit.measure.environment import Environment
    from schedkit.measure.model import BenchRun, Quantity
    from schedkit.measure.sampling import Work
    from schedkit.schedctl.bench_result import BenchResult
    from schedkit.schedctl.requests import Order

RUNS = 10
WARMUP = 1
SETTLE_SECONDS = 1.0
MOST_RUNS = 5000


@click.command(
    cls=Command,
    short_help="Measure which scheduler is better for a command.",
    epilog="""
    schedctl bench --with none,scx_rusty,scx_bpfland --user "$USER" -- sh -c 'make clean; make -j8'
    schedctl bench --with none --with 'scx_lavd --performance' --workload mixed --latency
    schedctl bench --with none,scx_rusty --metric 'Time: ([0-9.]+)' --better lower -- hackbench -l 1000
    schedctl bench --with none,scx_rusty --report out.html -o json -- ./benchmark >out.json
    """,
)
@click.option(
    "--with",
    "named",
    multiple=True,
    required=True,
    metavar="NAME,NAME…",
    shell_complete=complete_schedulers,
    help="Schedulers to compare: names, images, or none for the kernel's own. The first is the baseline. One with"
    " arguments takes a --with of its own: --with 'scx_lavd --performance'.",
)
@click.option(
    "--runs", type=Whole(1, MOST_RUNS), default=RUNS, show_default=True, metavar="N", help="Runs with each scheduler."
)
@click.option(
    "--warmup",
    type=Whole(0, MOST_RUNS),
    default=WARMUP,
    show_default=True,
    metavar="N",
    help="Runs with each scheduler before these, which do not count.",
)
@click.option("--metric", metavar="REGEX", help="Compare a number of the command's output, not its wall time.")
@click.option("--better", type=click.Choice(["lower", "higher"]), help="Which way the --metric is better.")
@click.option("--latency", is_flag=True, help="Also measure how late timers wake a process.")
@click.option(
    "--workload",
    metavar="NAME",
    shell_complete=complete_workload,
    help="Measure a known workload: mixed (needs nothing), hackbench …",
)
@click.option("--user", metavar="NAME", help="Run the command as this user [default: as schedctl].")
@duration_option("--settle", default=f"{SETTLE_SECONDS:g}s", help="Pause between a change of the scheduler and a run.")
@attach_timeout_option
@click.option("--seed", type=Whole(0, 2**63), metavar="N", help="Repeat the order of runs of the bench with this seed.")
@click.option("--report", type=click.Path(dir_okay=False), metavar="FILE", help="Write an HTML page as well.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@trust_options
@dry_run_option
@output_option
@pass_session
def command(
    session: Session,
    /,
    named: tuple[str, ...],
    runs: int,
    warmup: int,
    metric: str | None,
    better: str | None,
    latency: bool,
    workload: str | None,
    user: str | None,
    settle: float,
    timeout: float,
    seed: int | None,
    report: str | None,
    command_line: tuple[str, ...],
    dry_run: bool,
) -> int | None:
    """Run a command under several schedulers in turn, and report which one is better for it.

    All images are verified and pulled first. Then the command runs under each scheduler, block by block, in random
    order. Before and after each run, schedctl checks in the kernel that this scheduler is attached. A run in which it
    is ejected does not count. At the end, and on Ctrl-C, the scheduler that was attached before is attached again.

    The exit code is 0 even if no difference is found, 12 if a scheduler was ejected in some run, and 18 if the command
    failed in some run.
    """
    from schedkit.host.bench import bench, check_bench, prepare
    from schedkit.host.preparing import check_kernel
    from schedkit.measure.plan import make_plan

    labels, orders = parse_contenders(named, timeout)
    work = _find_work(command_line, workload, metric, better, user, latency=latency)
    _check_report(report)
    for order in filter(None, orders):
        session.check_known(order.name)
    session.require_root("bench")
    _warn_of_root(session, user, command_line)
    check_trust_policy(session.settings)
    check_kernel(session.machine, next((order.name for order in orders if order), "schedctl bench"))
    host = session.host
    check_bench(host)
    requests = [make_request(session, order) if order else None for order in orders]
    verify = make_verify(session, host.runtimes.chosen)
    if dry_run:
        images = plan_images(session, [request for request in requests if request], verify)
        show_plan(session, images.add(*_describe_runs(work.command, labels, runs, warmup)))
        return None
    entrants = prepare(host, labels, requests, verify)
    environment, doubts = _look_at_machine(session, runs)
    seed = secrets.randbits(32) if seed is None else seed
    plan = make_plan(len(entrants), runs, warmup, seed)

    def notice(run: "BenchRun", total: int) -> None:
        session.progress.step(f"run {run.number} of {total}: {labels[run.contender]}: {_tell_run(run, quantities[0])}")

    quantities = _choose_quantities(work)
    started = session.machine.now()
    benched = bench(host, entrants, plan, work, settle=settle, notice=notice)
    if benched.interrupted and not any(run.counts for run in benched.runs):
        raise KeyboardInterrupt

    from schedkit.measure.summary import summarise
    from schedkit.schedctl.bench_result import BenchResult, bench_fields, bench_text

    result = BenchResult(
        summarise(benched.contenders, benched.runs, quantities, quantities[0]),
        work.command,
        workload,
        work.metric,
        user,
        runs,
        warmup,
        seed,
        settle,
        started,
        session.machine.now(),
        benched.interrupted,
        environment,
        doubts,
        host.runtimes.chosen.driver,
        {"schedctl": __version__, "python": platform.python_version(), "runtime": host.runtimes.chosen.fetch_version()},
    )
    session.output.show(lambda: bench_fields(result), lambda: bench_text(result, session.output))
    if report:
        from schedkit.schedctl.bench_page import render_page

        Path(report).write_text(render_page(result), encoding="utf-8")
        session.progress.step(f"{report} is written")
    return _end(benched, result)


def _describe_runs(words: "Sequence[str]", labels: list[str], runs: int, warmup: int) -> tuple[str, ...]:
    times = "once" if runs == 1 else f"{runs} times"
    before = f", after {warmup} that {'does' if warmup == 1 else 'do'} not count" if warmup else ""
    return (
        f"run {shlex.join(words)} {times} under each of {', '.join(labels)}{before}",
        "attach again what is attached now, or nothing",
    )


def parse_contenders(named: "Sequence[str]", timeout: float) -> "tuple[list[str], list[Order | None]]":
    """Parse --with: labels, each of them once, and what to run for each; None for the kernel's own scheduler."""
    from schedkit.host.bench import NONE

    said: list[str] = []
    for words in named:
        said += [words] if any(sign.isspace() for sign in words.strip()) else words.split(",")
    labels: list[str] = []
    orders: list[Order | None] = []
    for words in said:
        try:
            name, *args = shlex.split(words) or [""]
        except ValueError as error:
            raise UsageError(f"--with {words!r}: {error}", hint="quote it as for a shell") from error
        if not name:
            raise UsageError(f"--with {','.join(named)!r} has an empty name", hint="NAME,NAME…")
        same = [label for label in labels if label == words.strip() or label.startswith(f"{words.strip()} (")]
        labels.append(clean(f"{words.strip()} ({len(same) + 1})" if same else words.strip()))
        if name == NONE and args:
            raise UsageError(f"--with {words!r}: none takes no arguments", hint="it is the kernel's own scheduler")
        order = parse_order(
            name, args, version=None, container=None, env=(), network="none", restart="no", timeout=timeout
        )
        orders.append(None if name == NONE else order)
    if len(labels) < 2:
        other = "scx_rusty" if labels[0] == NONE else labels[0]
        example = f"{NONE} --with {shlex.quote(other)}" if " " in other else f"{NONE},{other}"
        raise UsageError("nothing to compare", hint=f"two schedulers at least, for example: --with {example}")
    return labels, orders


def _find_work(
    command_line: tuple[str, ...],
    workload: str | None,
    metric: str | None,
    better: str | None,
    user: str | None,
    *,
    latency: bool,
) -> "Work":
    from schedkit.measure.metric import parse_metric
    from schedkit.measure.sampling import find_work
    from schedkit.measure.workloads import WORKLOADS, find_workload

    if better and not metric:
        raise UsageError("--better needs a --metric", hint="without --metric, less time is better")
    if bool(workload) == bool(command_line):
        raise UsageError(
            "a command or a --workload, not both" if workload else "no command to measure",
            hint=f"schedctl bench … -- COMMAND, or --workload with one of: {', '.join(WORKLOADS)}",
        )
    found = parse_metric(metric, better) if metric else None
    if workload:
        command_line, known = find_workload(workload)
        found = found or known
    return find_work(command_line, os.environ, user=user, metric=found, latency=latency)


def _warn_of_root(session: Session, user: str | None, command_line: tuple[str, ...]) -> None:
    """Who types sudo for the schedulers' sake may not want root's files in a folder of their own."""
    caller = os.environ.get("SUDO_USER", "root")
    if command_line and not user and caller != "root":
        session.progress.warn(f"the command runs as root; --user {shlex.quote(caller)} runs it as you")


def _check_report(report: str | None) -> None:
    """Before an hour of measuring, whether the page can be written."""
    if report is None:
        return
    folder = Path(report).absolute().parent
    if not folder.is_dir():
        raise NotFoundError(f"--report {report}: no such directory: {folder}", hint=f"mkdir -p {folder}")
    if not os.access(report if os.path.lexists(report) else folder, os.W_OK):
        raise NoPermissionError(f"--report {report} cannot be written: permission denied", hint="choose another folder")


def _look_at_machine(session: Session, runs: int) -> "tuple[Environment, tuple[str, ...]]":
    from schedkit.measure.environment import find_doubts_about, read_environment
    from schedkit.measure.intervals import LEAST_RUNS

    session.progress.step("looking at what else runs here")
    environment = read_environment(session.machine.root)
    doubts = find_doubts_about(environment)
    if runs < LEAST_RUNS:
        doubts.append(f"{runs} runs with each are too few to compare: {LEAST_RUNS} are the least")
    for doubt in doubts:
        session.progress.warn(doubt)
    return environment, tuple(doubts)


def _choose_quantities(work: "Work") -> "list[Quantity]":
    """The one that is compared first."""
    from schedkit.measure.model import USED, WAKEUP

    metric = [work.metric.quantity] if work.metric else []
    return [*metric, *USED, *(WAKEUP if work.latency else ())]


def _tell_run(run: "BenchRun", main: "Quantity") -> str:
    from schedkit.measure.model import RunEnding
    from schedkit.schedctl.bench_result import format_value

    if run.ending is not RunEnding.MEASURED:
        return f"{run.ending.value}: {run.why}"
    warm = "" if run.block > 0 else " (warm-up)"
    return format_value(run.values[main.name], main) + warm


def _end(benched: "Benched", result: "BenchResult") -> int:
    from schedkit.measure.model import RunEnding
    from schedkit.schedctl.bench_result import find_worst_ending

    if benched.trouble:
        raise benched.trouble
    if benched.interrupted:
        raise KeyboardInterrupt
    codes = {
        None: ExitCode.OK,
        RunEnding.EJECTED: ExitCode.EJECTED,
        RunEnding.FAILED: ExitCode.COMMAND_FAILED,
        RunEnding.NO_METRIC: ExitCode.BAD_DATA,
        RunEnding.NOT_ATTACHED: ExitCode.NOT_ATTACHED,
        RunEnding.DETACHED: ExitCode.NOT_ATTACHED,
    }
    return codes.get(find_worst_ending(result), ExitCode.FAILURE)
