"""A scheduler's container, in every runtime: what is around it, and what is written on it."""

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lab.containerd import LabContainerd
from schedkit.errors import AlreadyExistsError
from schedkit.host.containers import TRACING_FOLDER
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.model import SCX_FOLDER
from tests.integration.runtimes.bench import IDLE, PATIENCE, Bench


def test_a_file_of_this_machine_can_be_read_there_and_not_written(bench: Bench) -> None:
    file = bench.daemon.scx_folder.parent / "layers: all.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[]")
    container = bench.start("reading", files=(str(file),))
    assert Path(f"/proc/{container.pid}/root{file}").read_text() == "[]"
    assert "ro" in read_options(container, str(file))


def test_a_folder_in_this_machines_sysfs_can_be_read_there_and_not_written(bench: Bench) -> None:
    container = bench.start("tracing", files=(TRACING_FOLDER,))
    assert "ro" in read_options(container, TRACING_FOLDER)


def test_scheduler_gets_all_capabilities(bench: Bench) -> None:
    status = read_status(bench.start("caps"))

    everything = {line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd:")}
    assert everything == {f"CapBnd:\t{status[name]}" for name in ("CapEff", "CapPrm", "CapBnd")}
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("0", "0")


def test_scheduler_shares_the_hosts_processes_and_users_and_nothing_else(bench: Bench) -> None:
    pid = bench.start("namespaces").pid

    kinds = ("pid", "user", "mnt", "net", "ipc", "uts")
    shared = {kind for kind in kinds if read_namespace(pid, kind) == read_namespace("self", kind)}
    assert shared == {"pid", "user"}


def test_scheduler_has_no_way_out_of_its_network(bench: Bench) -> None:
    container = bench.start("routes")

    routes = Path(f"/proc/{container.pid}/net/route").read_text().splitlines()
    assert len(routes) == 1, "more than the heading"


def test_scheduler_that_asks_for_it_has_the_hosts_network_and_names(bench: Bench) -> None:
    pid = bench.start("networked", host_network=True).pid

    assert read_namespace(pid, "net") == read_namespace("self", "net")
    hosts = Path(f"/proc/{pid}/root/etc/hosts").read_text()
    assert "localhost" in hosts


def test_scheduler_may_write_to_sysfs(bench: Bench) -> None:
    container = bench.start("sysfs")

    mounts = [line.split() for line in Path(f"/proc/{container.pid}/mounts").read_text().splitlines()]
    options = [fields[3].split(",") for fields in mounts if fields[1] == "/sys"]
    assert options
    assert "rw" in options[-1]


def test_scheduler_sees_devices(bench: Bench) -> None:
    container = bench.start("devices")

    assert Path(f"/proc/{container.pid}/root/dev/null").is_char_device()


def test_folder_of_statistics_is_made_and_bound(bench: Bench) -> None:
    folder = bench.daemon.scx_folder
    if folder.is_dir():
        folder.rmdir()  # a machine on which no scheduler ran yet
    container = bench.start("scx")

    (folder / "proof").touch()
    seen = Path(f"/proc/{container.pid}/root{SCX_FOLDER}/proof")
    assert seen.exists()
    seen.unlink()
    assert not (folder / "proof").exists()
    assert folder.stat().st_mode & 0o777 == 0o755


def test_exited_container_starts_again_when_the_folder_is_gone(bench: Bench) -> None:
    container = bench.start("reboot")
    bench.stop(container.id)
    bench.daemon.scx_folder.rmdir()  # /run is empty after a boot

    bench.runtime.start(container.id)

    assert bench.runtime.fetch_container(container.id).state is ContainerState.RUNNING


def test_args_follow_the_images_entrypoint(bench: Bench) -> None:
    plain = bench.start("plain")
    given = bench.start("given", args=("--slice", "two words", ""))

    assert read_words(plain, "cmdline") == ["/scx_idle"]
    assert read_words(given, "cmdline") == ["/scx_idle", "--slice", "two words", ""]


def test_environment_is_added_to_the_images(bench: Bench) -> None:
    container = bench.start("env", env={"SCX_WORD": "a b=c"})

    environment = read_words(container, "environ")
    assert "SCX_WORD=a b=c" in environment
    assert any(word.startswith("PATH=") for word in environment)


def test_labels_are_kept_beside_the_images_and_the_providers(bench: Bench) -> None:
    labels = {"org.schedkit.scheduler": "scx_idle", "org.schedkit.args": '["a", "b"]'}
    id = bench.create("labels", labels=labels)

    found = bench.runtime.fetch_container(id).labels

    assert labels.items() <= found.items()
    assert found["provider"] == "schedkit"
    assert found["org.opencontainers.image.title"] == "scx_idle"


LIES = {"provider": "schedkit", "org.schedkit.verified": "https://github.com/schedkit/x"}


def test_labels_that_an_image_brings_make_no_container_ours(bench: Bench) -> None:
    """Started by hand, from an image whose labels say that it is ours, and verified."""
    ours = bench.create("ours")
    if isinstance(bench.daemon, LabContainerd):
        labels = [word for name, value in LIES.items() for word in ("--label", f"{name}={value}")]
        bench.daemon.ctr("containers", "create", *labels, bench.resolve().reference, "theirs")
        assert "org.schedkit.verified" not in bench.runtime.fetch_container("theirs").labels
        return
    changes = [f"--change=LABEL {name}={value}" for name, value in LIES.items()]
    image = bench.daemon.run("commit", *changes, ours).strip()
    theirs = bench.daemon.run("create", "--network=none", image).strip()
    assert bench.daemon.run("ps", "-aq", "--no-trunc", "--filter=label=provider=schedkit").split() != [ours]
    assert [one.id for one in bench.runtime.fetch_containers()] == [ours]
    bench.daemon.run("rm", theirs)
    bench.daemon.run("rmi", image)


def test_logs_are_bounded(bench: Bench) -> None:
    """What the runtime itself says of a container's log; a scheduler may print for months."""
    id = bench.create("bounded")
    if isinstance(bench.daemon, LabContainerd):  # which leaves the bound to us: tests/unit/runtimes/test_containerd.py
        log = bench.daemon.folder / "logs" / f"{id}.log"
        writers = [one for one in list_commands() if str(log) in one]
        assert writers
        assert all(one.startswith("/bin/sh -c ") for one in writers)
        bench.runtime.remove(id)
        assert not log.exists()
        deadline = time.monotonic() + PATIENCE
        while any(str(log) in one for one in list_commands()):  # it ends with its container
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return
    if bench.runtime.driver == "docker":
        told = json.loads(bench.daemon.run("inspect", id))[0]["HostConfig"]["LogConfig"]
        assert told == {"Type": "json-file", "Config": {"max-size": "8m", "max-file": "2"}}
    else:
        told = json.loads(bench.daemon.run("inspect", id))[0]["HostConfig"]["LogConfig"]
        assert (told["Type"], told["Size"]) == ("k8s-file", "16MB")


def test_image_is_told_as_the_user_wrote_it(bench: Bench) -> None:
    id = bench.create("image")

    assert bench.runtime.fetch_container(id).image == f"{bench.registry}/{IDLE}"


def test_name_in_use_is_an_error_that_names_it(bench: Bench) -> None:
    id = bench.create("taken")

    with pytest.raises(AlreadyExistsError, match="taken") as caught:
        bench.create("taken")
    assert caught.value.message == f"{bench.runtime.driver}: container name taken is already in use"

    assert [container.id for container in bench.runtime.fetch_containers()] == [id]
    assert bench.runtime.fetch_container(id).state is ContainerState.CREATED


def list_commands() -> list[str]:
    """The command line of every process, with its arguments in one line."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def read_status(container: Container) -> dict[str, str]:
    lines = Path(f"/proc/{container.pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def read_namespace(pid: int | str | None, kind: str) -> Path:
    return Path(f"/proc/{pid}/ns/{kind}").readlink()


def read_options(container: Container, place: str) -> list[str]:
    """How one thing is mounted in a container."""
    mounts = [line.split() for line in Path(f"/proc/{container.pid}/mountinfo").read_text().splitlines()]
    (options,) = [words[5] for words in mounts if words[4].replace("\\040", " ") == place]
    return options.split(",")


def read_words(container: Container, file: str) -> list[str]:
    return Path(f"/proc/{container.pid}/{file}").read_text().removesuffix("\0").split("\0")
