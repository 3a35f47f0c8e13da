"""A scheduler's container: what is around it, and what is written on it."""

from pathlib import Path

from schedkit.errors import SchedkitError
from schedkit.runtimes.model import SCX_FOLDER, Container, ContainerState

from .bench import IDLE, REGISTRY, Bench, claim, expect


@claim
def scheduler_gets_all_capabilities(bench: Bench) -> None:
    container = bench.start("caps")

    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    status = Path(f"/proc/{container.pid}/status").read_text()
    held = {line.split()[0]: int(line.split()[1], 16) for line in status.splitlines() if line.startswith("Cap")}
    everything = (1 << (last + 1)) - 1
    assert (held["CapEff:"], held["CapPrm:"], held["CapBnd:"]) == (everything, everything, everything)
    assert "Seccomp:\t0" in status


@claim
def scheduler_runs_in_the_hosts_pid_namespace(bench: Bench) -> None:
    container = bench.start("pidns")

    assert Path(f"/proc/{container.pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
    assert Path(f"/proc/{container.pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()


@claim
def scheduler_has_a_network_of_its_own_without_a_way_out(bench: Bench) -> None:
    container = bench.start("netns")

    assert Path(f"/proc/{container.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    routes = Path(f"/proc/{container.pid}/net/route").read_text().splitlines()
    assert len(routes) == 1, "more than the heading"


@claim
def scheduler_may_write_to_sysfs(bench: Bench) -> None:
    container = bench.start("sysfs")

    mounts = [line.split() for line in Path(f"/proc/{container.pid}/mounts").read_text().splitlines()]
    options = [fields[3].split(",") for fields in mounts if fields[1] == "/sys"]
    assert options
    assert "rw" in options[-1]


@claim
def folder_of_statistics_is_made_and_bound(bench: Bench) -> None:
    folder = Path(SCX_FOLDER)
    if folder.is_dir():
        folder.rmdir()  # a machine on which no scheduler ran yet
    container = bench.start("scx")

    (folder / "proof").touch()
    seen = Path(f"/proc/{container.pid}/root{SCX_FOLDER}/proof")
    assert seen.exists()
    seen.unlink()
    assert not (folder / "proof").exists()
    assert folder.stat().st_mode & 0o777 == 0o755


@claim
def exited_container_starts_again_when_the_folder_is_gone(bench: Bench) -> None:
    container = bench.start("reboot")
    bench.wait_said(container.id, "never attaches")
    bench.stop(container.id)
    Path(SCX_FOLDER).rmdir()  # /run is empty after a boot

    bench.runtime.start(container.id)

    assert bench.runtime.fetch_container(container.id).state == ContainerState.RUNNING


@claim
def args_follow_the_images_entrypoint(bench: Bench) -> None:
    plain = bench.start("plain")
    given = bench.start("given", args=("--slice", "two words", ""))

    assert read_words(plain, "cmdline") == ["/scx_idle"]
    assert read_words(given, "cmdline") == ["/scx_idle", "--slice", "two words", ""]


@claim
def environment_is_added_to_the_images(bench: Bench) -> None:
    container = bench.start("env", env={"SCX_WORD": "a b=c"})

    environment = read_words(container, "environ")
    assert "SCX_WORD=a b=c" in environment
    assert any(word.startswith("PATH=") for word in environment)


@claim
def labels_are_kept_beside_the_providers(bench: Bench) -> None:
    labels = {"org.schedkit.scheduler": "scx_idle", "org.schedkit.args": '["a", "b"]'}
    id = bench.create("labels", labels=labels)

    found = bench.runtime.fetch_container(id).labels

    assert labels.items() <= found.items()
    assert found["provider"] == "schedkit"


@claim
def image_is_told_as_the_user_wrote_it(bench: Bench) -> None:
    id = bench.create("image")

    assert bench.runtime.fetch_container(id).image == f"{REGISTRY}/{IDLE}"


@claim
def name_in_use_is_an_error_that_names_it(bench: Bench) -> None:
    id = bench.create("taken")

    error = expect(SchedkitError, lambda: bench.create("taken"))

    assert "taken" in error.message
    assert bench.runtime.fetch_container(id).state == ContainerState.CREATED


def read_words(container: Container, file: str) -> list[str]:
    return Path(f"/proc/{container.pid}/{file}").read_text().removesuffix("\0").split("\0")
