"""podman and docker on this host: what they are given ends with them."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import engines, images
from lab.engines import LabEngine, name_cgroup
from lab.errors import LabError
from lab.session import sweep
from lab.store import Store

IDLE = "scx_idle:v1"


@pytest.fixture(scope="module")
def registry(store: Store) -> Iterator[str]:
    store.ensure(images.IMAGES)
    with images.Registry(store, store.path(images.IMAGES) / "registry") as registry:
        yield registry.address


def run_idle(engine: LabEngine, registry: str) -> int:
    """A container's process."""
    insecure = ["--tls-verify=false"] if engine.driver == "podman" else []
    engine.run("pull", *insecure, f"{registry}/{IDLE}")
    id = engine.run("run", "-d", "--privileged", "--pid=host", "--network=none", f"{registry}/{IDLE}").strip()
    return int(engine.run("inspect", "--format={{.State.Pid}}", id))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def find_traces(folder: Path) -> list[str]:
    """What this host shows of engines, above all of the one in a folder."""
    hierarchies = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]
    cgroups = [str(path / name_cgroup(folder)) for path in hierarchies if (path / name_cgroup(folder)).exists()]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    locks = [str(path) for path in Path("/dev/shm").glob("*libpod*")]  # noqa: S108
    interfaces = [path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(("docker", "podman"))]
    return [*cgroups, *mounts, *locks, *interfaces]


@pytest.mark.parametrize("driver", ["podman", "docker"])
def test_stopped_engine_leaves_nothing(store: Store, lab_folder: Path, registry: str, driver: str) -> None:
    before = find_traces(lab_folder / driver)
    engine = LabEngine.start(store, lab_folder / driver, driver)
    try:
        pid = run_idle(engine, registry)
        assert runs(pid)
        assert name_cgroup(engine.folder) in Path(f"/proc/{pid}/cgroup").read_text()
    finally:
        engine.stop()

    assert not runs(pid)
    assert find_traces(engine.folder) == before
    engine.stop()  # what has ended is fine


def test_engine_of_a_process_that_was_killed_is_swept(store: Store, registry: str) -> None:
    program = f"""
import os, signal
from lab.catalogue import open_store
from lab.engines import LabEngine
from lab.session import run_folder
from tests.integration.test_engines import run_idle
store = open_store()
engine = LabEngine.start(store, run_folder(store, "test") / "podman", "podman")
print(engine.folder, run_idle(engine, {registry!r}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    before = find_traces(Path("nowhere"))
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    folder, pid = done.stdout.split()
    assert runs(int(pid))

    sweep(store)

    assert not runs(int(pid))
    assert find_traces(Path(folder)) == before
    assert not Path(folder).exists()


def test_engine_that_does_not_start_leaves_nothing(
    store: Store, lab_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engines.SERVICES, "podman", "podman no-such-command")
    folder = lab_folder / "broken"
    before = find_traces(folder)

    with pytest.raises(LabError, match="no-such-command"):
        LabEngine.start(store, folder, "podman")

    assert find_traces(folder) == before
