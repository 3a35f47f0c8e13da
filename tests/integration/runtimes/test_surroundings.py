"""Around every runtime: other people's containers, and a daemon that hangs or starts anew."""

from pathlib import Path

import pytest

from lab.containerd import LabContainerd
from schedkit.errors import NoAnswerError, UnavailableError
from schedkit.runtimes import engine
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.containerd import driver as containerd
from schedkit.runtimes.drivers import find_runtimes
from schedkit.runtimes.known import DRIVERS
from tests.integration.runtimes.bench import IDLE, Bench


def test_container_of_the_original_is_known_and_can_be_stopped(bench: Bench) -> None:
    id = run_as_the_original(bench)

    [container] = bench.runtime.fetch_containers()
    assert (container.id, container.state) == (id, ContainerState.RUNNING)
    assert container.image.startswith(f"{bench.registry}/scx_idle")
    assert container.started is not None
    assert bench.kill(id) == 137
    bench.runtime.remove(id)
    assert bench.runtime.fetch_containers() == []


def run_as_the_original(bench: Bench) -> str:
    """By a label in engines, in a namespace of its own in containerd."""
    if isinstance(bench.daemon, LabContainerd):
        bench.daemon.ctr("images", "pull", "--plain-http", f"{bench.registry}/{IDLE}")
        bench.daemon.ctr("run", "-d", "--privileged", f"{bench.registry}/{IDLE}", "original")
        return "original"
    image = bench.pull()
    options = ["--privileged", "--pid=host", "--network=none", "--label=provider=schedkit"]
    return bench.daemon.run("run", "-d", *options, f"{image.repository}@{image.digest}").strip()


def test_container_of_others_is_not_ours(bench: Bench) -> None:
    name = f"{bench.registry}/{IDLE}"
    if isinstance(bench.daemon, LabContainerd):
        bench.daemon.ctr("images", "pull", "--plain-http", name, namespace="other")
        bench.daemon.ctr("containers", "create", name, "foreign", namespace="other")
        assert bench.runtime.fetch_containers() == []
        bench.daemon.ctr("containers", "rm", "foreign", namespace="other")
        bench.daemon.ctr("images", "rm", "--sync", name, namespace="other")
    else:
        image = bench.pull()
        options = ["--name=foreign", "--network=none", "--label=provider=other"]
        bench.daemon.run("create", *options, f"{image.repository}@{image.digest}")
        assert bench.runtime.fetch_containers() == []
        bench.daemon.run("rm", "foreign")


def test_hung_runtime_is_told_and_never_taken_for_absent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = bench.runtime.driver
    monkeypatch.setenv(DRIVERS[driver].variable, f"unix://{bench.daemon.socket}")
    assert str(bench.daemon.socket) in [runtime.socket for runtime in find_runtimes()]
    assert bench.runtime.fetch_containers() == []
    monkeypatch.setattr(engine, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(containerd, "LOOK_SECONDS", 0.5)
    bench.daemon.hang()
    try:
        runtimes = find_runtimes(driver, seconds=0.5)
        assert [one.driver for one in runtimes.hidden if one.error is NoAnswerError] == [driver]
        with pytest.raises(NoAnswerError, match=driver):
            _ = runtimes.chosen
        with pytest.raises(NoAnswerError, match=driver):
            bench.runtime.fetch_containers()
    finally:
        bench.daemon.go_on()
    monkeypatch.undo()
    assert bench.runtime.fetch_containers() == []


def test_restarted_runtime_tells_the_truth(bench: Bench) -> None:
    container = bench.start("survivor")

    bench.daemon.kill()
    with pytest.raises(UnavailableError, match=str(bench.daemon.socket)):
        bench.runtime.fetch_containers()
    bench.daemon.resume()

    [found] = bench.runtime.fetch_containers()
    assert found.id == container.id
    if bench.runtime.driver == "docker":  # which ends its containers when it starts anew
        assert not Path(f"/proc/{container.pid}").exists()
        assert found.state is ContainerState.EXITED
    else:
        assert (found.state, found.pid) == (ContainerState.RUNNING, container.pid)
