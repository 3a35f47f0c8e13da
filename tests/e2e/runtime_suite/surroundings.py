"""Other people's containers, a runtime that hangs or starts anew, and what many rounds leave."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from schedkit.errors import NoAnswerError, SchedkitError
from schedkit.runtimes.drivers import find_runtimes, open_runtime
from schedkit.runtimes.model import ContainerSpec, ContainerState

from .bench import IDLE, PATIENCE, REGISTRY, Bench, claim, expect

ROUNDS = 50
SERVICES = {"podman": b"podman\0system\0service\0", "docker": b"dockerd\0", "containerd": b"containerd\0"}
# As the original starts its own: by a label in podman, in a namespace of its own in containerd.
_ENGINE_RUN = "{engine} run -d --privileged --pid host --label provider=schedkit {{image}}"
ORIGINAL = {
    "podman": _ENGINE_RUN.format(engine="podman"),
    "docker": _ENGINE_RUN.format(engine="docker"),
    "containerd": (
        "ctr -n schedkit images pull --plain-http {tag} && ctr -n schedkit run -d --privileged {tag} original"
        " && echo original"
    ),
}
FOREIGN = {
    "podman": ("podman create --name foreign --label provider=other {image}", "podman rm foreign"),
    "docker": ("docker create --name foreign --label provider=other {image}", "docker rm foreign"),
    "containerd": (
        "ctr -n other images pull --plain-http {tag} && ctr -n other containers create {tag} foreign",
        "ctr -n other containers rm foreign && ctr -n other images rm {tag}",
    ),
}


@claim
def container_of_the_original_is_known_and_can_be_stopped(bench: Bench) -> None:
    image = bench.pull()
    words = {"image": f"{image.repository}@{image.digest}", "tag": f"{REGISTRY}/{IDLE}"}
    id = run(ORIGINAL[bench.runtime.driver].format(**words)).split()[-1]
    bench.made.append(id)

    [container] = bench.runtime.fetch_containers()
    assert (container.id, container.state) == (id, ContainerState.RUNNING)
    assert container.image.startswith(f"{REGISTRY}/scx_idle")
    bench.runtime.signal(id, signal.SIGKILL)
    assert bench.runtime.wait(id, PATIENCE) == 137
    bench.runtime.remove(id)
    assert bench.runtime.fetch_containers() == []


@claim
def container_of_others_is_not_ours(bench: Bench) -> None:
    image = bench.pull()
    make, end = FOREIGN[bench.runtime.driver]
    run(make.format(image=f"{image.repository}@{image.digest}", tag=f"{REGISTRY}/{IDLE}"))
    try:
        assert bench.runtime.fetch_containers() == []
    finally:
        run(end.format(tag=f"{REGISTRY}/{IDLE}"))


@claim
def hung_runtime_is_told_and_never_taken_for_absent(bench: Bench) -> None:
    service = find_service(bench.runtime.driver)
    os.kill(service, signal.SIGSTOP)
    try:
        wait_stopped(service)
        runtimes, [silent] = find_runtimes([bench.runtime.driver])
        assert (runtimes, silent.absent) == ([], False)
        error = expect(NoAnswerError, lambda: open_runtime(bench.runtime.driver))
        assert bench.runtime.driver in error.message
        error = expect(NoAnswerError, bench.runtime.fetch_containers)
        assert bench.runtime.driver in error.message
    finally:
        os.kill(service, signal.SIGCONT)
    assert bench.runtime.fetch_containers() == []


@claim
def restarted_runtime_tells_the_truth(bench: Bench) -> None:
    container = bench.start("survivor")
    service = find_service(bench.runtime.driver)

    os.kill(service, signal.SIGKILL)
    while Path(f"/proc/{service}").exists():
        time.sleep(0.1)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(SchedkitError):  # what it must be while nobody is there
            bench.runtime.fetch_version()
            break
        time.sleep(1)

    [found] = bench.runtime.fetch_containers()
    assert found.id == container.id
    if Path(f"/proc/{container.pid}").exists():
        assert (found.state, found.pid) == (ContainerState.RUNNING, container.pid)
    else:  # docker ends its containers when it starts anew
        assert found.state == ContainerState.EXITED


@claim
def rounds_of_run_and_stop_leave_nothing(bench: Bench) -> None:
    content = bench.pull()
    for number in range(ROUNDS):
        id = bench.runtime.create(content, ContainerSpec(f"round-{number}", args=(str(number),)))
        bench.made.append(id)
        bench.runtime.start(id)
        bench.runtime.signal(id, signal.SIGTERM)
        assert bench.runtime.wait(id, PATIENCE) in {0, 128 + signal.SIGTERM}  # it may not have got ready for it
        bench.runtime.remove(id)
        bench.made.remove(id)
    assert bench.runtime.fetch_containers() == []


def wait_stopped(pid: int) -> None:
    """A thread answers on until the signal has reached it, too."""
    deadline = time.monotonic() + PATIENCE
    while any(
        stat.read_text().rpartition(")")[2].split()[0] != "T" for stat in Path("/proc").glob(f"{pid}/task/*/stat")
    ):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.1)


def find_service(driver: str) -> int:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(SERVICES[driver]):
                return int(folder.name)
    raise AssertionError(f"{driver} does not run")


def run(command: str) -> str:
    return subprocess.run(command, shell=True, check=True, text=True, stdout=subprocess.PIPE).stdout  # noqa: S602
