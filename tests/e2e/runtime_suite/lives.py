"""A container's life: started, signalled, waited for, its words, its end."""

import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from schedkit.errors import NotFoundError, SchedkitError
from schedkit.runtimes.model import ContainerState

from .bench import PATIENCE, REJECT, Bench, claim, expect


@claim
def container_tells_each_step_of_its_life(bench: Bench) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    id = bench.create("life")
    created = bench.runtime.fetch_container(id)
    assert (created.state, created.pid, created.exit_code) == (ContainerState.CREATED, None, None)
    assert (created.started, created.finished) == (None, None)
    assert (created.id, created.name, created.driver) == (id, "life", bench.runtime.driver)

    bench.runtime.start(id)
    running = bench.runtime.fetch_container(id)
    assert (running.state, running.exit_code, running.finished) == (ContainerState.RUNNING, None, None)
    assert running.started is not None
    assert before < running.started < datetime.now(UTC) + timedelta(seconds=1)
    assert Path(f"/proc/{running.pid}/exe").exists()

    bench.wait_said(id, "never attaches")
    assert bench.stop(id) == 0
    exited = bench.runtime.fetch_container(id)
    assert (exited.state, exited.pid, exited.exit_code) == (ContainerState.EXITED, None, 0)
    assert exited.started == running.started
    assert exited.finished is not None
    assert running.started < exited.finished < datetime.now(UTC) + timedelta(seconds=1)


@claim
def exit_code_and_last_words_outlive_the_process(bench: Bench) -> None:
    container = bench.start("reject", REJECT)

    assert bench.runtime.wait(container.id, PATIENCE) == 1
    assert bench.runtime.fetch_container(container.id).exit_code == 1
    assert "BPF program load failed" in bench.read_logs(container.id)
    assert bench.runtime.wait(container.id, PATIENCE) == 1


@claim
def kill_ends_it_with_status_137(bench: Bench) -> None:
    container = bench.start("killed")

    bench.runtime.signal(container.id, signal.SIGKILL)

    assert bench.runtime.wait(container.id, PATIENCE) == 128 + signal.SIGKILL


@claim
def signal_to_an_ended_one_is_fine(bench: Bench) -> None:
    container = bench.start("ended")
    bench.runtime.signal(container.id, signal.SIGKILL)
    bench.runtime.wait(container.id, PATIENCE)

    bench.runtime.signal(container.id, signal.SIGTERM)


@claim
def wait_gives_up_at_its_timeout(bench: Bench) -> None:
    container = bench.start("patient")

    assert bench.runtime.wait(container.id, 0.2) is None
    assert bench.runtime.fetch_container(container.id).state == ContainerState.RUNNING


@claim
def wait_wakes_while_others_speak_to_the_runtime(bench: Bench) -> None:
    container = bench.start("waited")
    codes: list[int | None] = []
    waiter = threading.Thread(target=lambda: codes.append(bench.runtime.wait(container.id, PATIENCE)))
    waiter.start()

    bench.runtime.fetch_containers()
    bench.runtime.signal(container.id, signal.SIGKILL)
    waiter.join(PATIENCE)

    assert codes == [137]


@claim
def started_again_it_runs_again(bench: Bench) -> None:
    container = bench.start("again")
    bench.runtime.start(container.id)  # it runs already, which is what was wanted
    bench.runtime.signal(container.id, signal.SIGKILL)
    bench.runtime.wait(container.id, PATIENCE)

    bench.runtime.start(container.id)
    again = bench.runtime.fetch_container(container.id)

    assert (again.state, again.exit_code, again.finished) == (ContainerState.RUNNING, None, None)
    assert again.pid not in {None, container.pid}
    bench.wait_said(again.id, "never attaches")
    assert bench.stop(again.id) == 0


@claim
def logs_end_where_the_tail_is_asked_for(bench: Bench) -> None:
    container = bench.start("tail")
    bench.wait_said(container.id, "never attaches")
    assert "stopped" not in bench.read_logs(container.id)
    bench.stop(container.id)

    assert bench.read_logs(container.id) == "idle: schedkit_idle never attaches\nstopped schedkit_idle\n"
    assert bench.read_logs(container.id, tail=1) == "stopped schedkit_idle\n"
    assert bench.read_logs(container.id, tail=0) == ""
    assert bench.read_logs(container.id, tail=9, follow=True).endswith("stopped schedkit_idle\n")


@claim
def followed_logs_end_with_the_container(bench: Bench) -> None:
    container = bench.start("followed")
    bench.wait_said(container.id, "never attaches")
    pieces: list[str] = []
    follower = threading.Thread(target=lambda: pieces.append(bench.read_logs(container.id, follow=True)))
    follower.start()

    bench.stop(container.id)
    follower.join(PATIENCE)

    assert pieces == ["idle: schedkit_idle never attaches\nstopped schedkit_idle\n"]


@claim
def running_one_is_not_removed(bench: Bench) -> None:
    container = bench.start("alive")

    expect(SchedkitError, lambda: bench.runtime.remove(container.id))

    assert bench.runtime.fetch_container(container.id).pid == container.pid


@claim
def what_is_gone_is_not_found(bench: Bench) -> None:
    runtime = bench.runtime
    id = bench.create("gone")
    runtime.remove(id)
    runtime.remove(id)  # gone is what was wanted

    for verb in (
        lambda: runtime.fetch_container(id),
        lambda: runtime.start(id),
        lambda: runtime.signal(id, signal.SIGTERM),
        lambda: runtime.wait(id, 1),
        lambda: list(runtime.stream_logs(id)),
    ):
        expect(NotFoundError, verb)
    assert id not in [container.id for container in runtime.fetch_containers()]


@claim
def list_is_oldest_first_with_finished_ones(bench: Bench) -> None:
    first = bench.create("z-first")
    second = bench.start("a-second")
    third = bench.start("m-third", REJECT)
    bench.runtime.wait(third.id, PATIENCE)

    listed = {container.id: container for container in bench.runtime.fetch_containers()}

    assert list(listed) == [first, second.id, third.id]
    assert listed[second.id].pid == second.pid
    assert listed[third.id].exit_code == 1
