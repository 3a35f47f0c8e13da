"""A container's life, in every runtime: started, signalled, waited for, its words, its end."""

import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from schedkit.errors import AlreadyExistsError, NotFoundError
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.model import StillRunningError
from tests.integration.runtimes.bench import IDLE_ENDS, IDLE_SAYS, PATIENCE, Bench


def test_container_tells_each_step_of_its_life(bench: Bench) -> None:
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

    bench.wait_ready(id)
    assert Path(f"/proc/{running.pid}/exe").readlink().name == "scx_idle"
    assert bench.stop(id) == 0
    exited = bench.runtime.fetch_container(id)
    assert (exited.state, exited.pid, exited.exit_code) == (ContainerState.EXITED, None, 0)
    assert exited.started == running.started
    assert exited.finished is not None
    assert running.started < exited.finished < datetime.now(UTC) + timedelta(seconds=1)


def test_exit_code_and_last_words_outlive_the_process(bench: Bench) -> None:
    id = bench.run_rejected("reject")

    assert bench.runtime.wait(id, PATIENCE) == 1
    assert bench.runtime.fetch_container(id).exit_code == 1
    *_, last = bench.read_logs(id).splitlines()
    assert last.startswith("cannot load schedkit_reject: ")  # the rest is the kernel's to say
    assert bench.runtime.wait(id, PATIENCE) == 1


def test_kill_ends_it_with_status_137(bench: Bench) -> None:
    container = bench.start("killed")

    bench.runtime.signal(container.id, signal.SIGKILL)

    assert bench.runtime.wait(container.id, PATIENCE) == 128 + signal.SIGKILL


def test_signal_to_an_ended_one_is_fine(bench: Bench) -> None:
    container = bench.start("ended")
    bench.kill(container.id)

    bench.runtime.signal(container.id, signal.SIGTERM)


def test_wait_gives_up_at_its_timeout(bench: Bench) -> None:
    container = bench.start("patient")

    # Either side may be the first to notice that the time is up.
    assert [bench.runtime.wait(container.id, 0.01) for _ in range(20)] == [None] * 20
    assert bench.runtime.wait(container.id, 0.2) is None
    assert bench.runtime.fetch_container(container.id).state is ContainerState.RUNNING


def test_wait_wakes_while_others_speak_to_the_runtime(bench: Bench) -> None:
    container = bench.start("waited")
    codes: list[int | None] = []
    waiter = threading.Thread(target=lambda: codes.append(bench.runtime.wait(container.id, PATIENCE)))
    waiter.start()

    bench.runtime.fetch_containers()
    bench.runtime.signal(container.id, signal.SIGKILL)
    waiter.join(PATIENCE)

    assert codes == [137]


def test_started_again_it_runs_again(bench: Bench) -> None:
    container = bench.start("again")
    bench.runtime.start(container.id)  # it runs already, which is what was wanted
    bench.kill(container.id)

    bench.runtime.start(container.id)
    again = bench.runtime.fetch_container(container.id)

    assert (again.state, again.exit_code, again.finished) == (ContainerState.RUNNING, None, None)
    assert again.pid not in {None, container.pid}
    bench.wait_ready(again.id, starts=2)
    assert bench.stop(again.id) == 0


def test_logs_end_where_the_tail_is_asked_for(bench: Bench) -> None:
    container = bench.start("tail")
    assert bench.read_logs(container.id) == IDLE_SAYS
    bench.stop(container.id)

    assert bench.read_logs(container.id) == IDLE_SAYS + IDLE_ENDS
    assert bench.read_logs(container.id, tail=1) == IDLE_ENDS
    assert bench.read_logs(container.id, tail=0) == ""
    assert bench.read_logs(container.id, tail=9, follow=True).endswith(IDLE_ENDS)


def test_lines_of_a_log_have_their_times(bench: Bench) -> None:
    begun = int(time.time())
    container = bench.start("timed")
    bench.stop(container.id)
    for tail, follow in ((None, False), (1, False), (None, True)):
        lines = bench.read_logs(container.id, timestamps=True, tail=tail, follow=follow).splitlines()
        times = [datetime.fromisoformat(line.split(" ", 1)[0]).timestamp() for line in lines]
        assert [line.split(" ", 1)[1] for line in lines][-1] == IDLE_ENDS.strip()
        assert begun <= times[0] <= times[-1] <= time.time()


def test_container_can_be_renamed_while_it_runs_unless_the_name_is_taken(bench: Bench) -> None:
    first, second = bench.start("first"), bench.start("second")
    with pytest.raises(AlreadyExistsError):
        bench.runtime.rename(second.id, "first")
    bench.runtime.rename(first.id, "third")
    bench.runtime.rename(second.id, "first")
    assert {one.id: one.name for one in bench.runtime.fetch_containers()} == {first.id: "third", second.id: "first"}
    assert bench.runtime.fetch_container(second.id).state is ContainerState.RUNNING


def test_logs_since_a_start_are_of_that_start(bench: Bench) -> None:
    id = bench.run_rejected("again")
    bench.runtime.wait(id, PATIENCE)
    before = bench.read_logs(id)
    since = time.time()
    bench.runtime.start(id)
    bench.runtime.wait(id, PATIENCE)

    assert bench.read_logs(id).count("cannot load") == 2 * before.count("cannot load") > 0
    assert bench.read_logs(id, since=since).count("cannot load") == before.count("cannot load")
    assert bench.read_logs(id, since=since, tail=1000).count("cannot load") == before.count("cannot load")
    assert len(bench.read_logs(id, since=since, tail=1).splitlines()) == 1


def test_logs_are_whole_right_after_the_end(bench: Bench) -> None:
    for number in range(10):
        container = bench.start(f"brief-{number}")
        bench.stop(container.id)

        assert bench.read_logs(container.id) == IDLE_SAYS + IDLE_ENDS


def test_followed_logs_end_with_the_container(bench: Bench) -> None:
    container = bench.start("followed")
    pieces: list[str] = []
    follower = threading.Thread(target=lambda: pieces.append(bench.read_logs(container.id, follow=True)))
    follower.start()

    bench.stop(container.id)
    follower.join(PATIENCE)

    assert pieces == [IDLE_SAYS + IDLE_ENDS]


def test_running_one_is_not_removed(bench: Bench) -> None:
    container = bench.start("alive")

    with pytest.raises(StillRunningError):
        bench.runtime.remove(container.id)

    found = bench.runtime.fetch_container(container.id)
    assert (found.state, found.pid) == (ContainerState.RUNNING, container.pid)


def test_what_is_gone_is_not_found(bench: Bench) -> None:
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
        with pytest.raises(NotFoundError):
            verb()
    assert runtime.fetch_containers() == []


def test_list_is_oldest_first_with_finished_ones(bench: Bench) -> None:
    first = bench.create("z-first")
    second = bench.start("a-second")
    third = bench.run_rejected("m-third")
    bench.runtime.wait(third, PATIENCE)

    listed = {container.id: container for container in bench.runtime.fetch_containers()}

    assert list(listed) == [first, second.id, third]
    assert listed[second.id].pid == second.pid
    assert listed[third].exit_code == 1
