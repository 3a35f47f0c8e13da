"""The containerd driver against real containerds: 1.6, 1.7 and 2.x."""

import hashlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.containerd import CONTAINERDS, LabContainerd
from schedkit.errors import (
    BadDataError,
    BusyError,
    NoAnswerError,
    NotFoundError,
    SchedkitError,
    UnavailableError,
)
from schedkit.runtimes.containerd import Containerd, blobs, calls
from schedkit.runtimes.model import SCX_FOLDER, ContainerSpec, ContainerState, Content, Credentials, Descriptor
from tests.integration.runtimes.conftest import resolve

IDLE = "scx_idle:v1"
INDEX = "application/vnd.oci.image.index.v1+json"
PATIENCE = 30.0


@dataclass
class Tampered:
    """An image whose bytes come otherwise than they should."""

    image: Content
    digest: str
    config: Descriptor
    layers: Sequence[Descriptor]
    manifests: Sequence[tuple[Descriptor, bytes]]
    pieces: dict[str, list[bytes | BaseException]]
    credentials: Credentials | None = None
    insecure: bool = True

    @classmethod
    def of(cls, image: Content, pieces: dict[str, list[bytes | BaseException]]) -> "Tampered":
        return cls(image, image.digest, image.config, image.layers, image.manifests, pieces)

    @property
    def reference(self) -> str:
        return self.image.reference

    @property
    def repository(self) -> str:
        return self.image.repository

    def fetch_blob(self, blob: Descriptor) -> Iterator[bytes]:
        if blob.digest not in self.pieces:
            yield from self.image.fetch_blob(blob)
            return
        for piece in self.pieces[blob.digest]:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


def ignore(done: int, total: int) -> None:
    pass


def pull(runtime: Containerd, address: str, name: str = IDLE) -> Content:
    image = resolve(address, name)
    runtime.pull(image, ignore)
    return image


def create(runtime: Containerd, address: str, **words: object) -> str:
    return runtime.create(pull(runtime, address), ContainerSpec("idle", **words))  # type: ignore[arg-type]


def start(runtime: Containerd, address: str, **words: object) -> str:
    """A container that has said its first words, and so is ready for signals."""
    id = create(runtime, address, **words)
    runtime.start(id)
    assert b"never attaches" in next(runtime.stream_logs(id, follow=True))
    return id


def read_inventory(daemon: LabContainerd) -> dict[str, str]:
    """All that is in the namespace, as ctr tells."""
    kinds = ("containers", "tasks", "images", "snapshots", "leases", "content")
    held = {kind: daemon.ctr(kind, "ls", *(() if kind == "snapshots" else ("-q",))) for kind in kinds}
    return held | {"ingests": daemon.ctr("content", "active").partition("\n")[2]}


def test_version_is_told(runtime: Containerd, daemon: LabContainerd) -> None:
    assert runtime.fetch_version().startswith(f"{daemon.series}.")
    assert daemon.series in CONTAINERDS


def test_pulled_image_is_complete_unpacked_and_named_as_asked(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    told: list[tuple[int, int]] = []
    image = resolve(registry, "scx_rusty:latest")

    runtime.pull(image, lambda done, total: told.append((done, total)))

    total = image.config.size + sum(layer.size for layer in image.layers)
    assert told[0] == (0, total)
    assert told[-1] == (total, total)
    assert told == sorted(told)
    (line,) = daemon.ctr("images", "check").splitlines()[1:]
    assert line.split()[0] == f"{registry}/scx_rusty:latest"
    assert f"complete ({len(image.layers) + 1}/{len(image.layers) + 1})" in line
    assert line.split()[-1] == "true"
    assert image.digest in runtime.fetch_digests()
    assert f"{registry}/scx_rusty" in runtime.fetch_repositories()
    assert daemon.ctr("leases", "ls", "-q") == ""


def test_pulled_image_outlives_the_garbage_collector(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    pull(runtime, registry, "scx_rusty:latest")
    before = read_inventory(daemon)

    daemon.ctr("leases", "create", "--id", "broom")
    daemon.ctr("leases", "rm", "--sync", "broom")

    assert read_inventory(daemon) == before
    assert before["snapshots"].count("Committed") == len(resolve(registry, "scx_rusty:latest").layers)


def test_removed_image_takes_all_of_it_along(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    before = read_inventory(daemon)
    image = pull(runtime, registry, "scx_rusty:latest")

    daemon.ctr("images", "rm", "--sync", image.reference)

    assert read_inventory(daemon) == before
    assert runtime.fetch_digests() == frozenset()


def test_image_that_ctr_pulled_is_taken_as_it_is(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    daemon.ctr("images", "pull", "--plain-http", f"{registry}/{IDLE}")
    image = resolve(registry, IDLE)
    before = read_inventory(daemon)

    runtime.pull(Tampered.of(image, {blob.digest: [AssertionError("fetched")] for blob in image.layers}), ignore)

    assert read_inventory(daemon) == before


def test_content_of_another_namespace_is_not_fetched_again(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    daemon.ctr("images", "pull", "--plain-http", f"{registry}/{IDLE}", namespace="other")
    image = resolve(registry, IDLE)

    runtime.pull(Tampered.of(image, {blob.digest: [AssertionError("fetched")] for blob in image.layers}), ignore)

    assert image.digest in runtime.fetch_digests()
    daemon.ctr("images", "rm", "--sync", f"{registry}/{IDLE}", namespace="other")
    assert "complete" in daemon.ctr("images", "check")


def test_moved_tag_takes_its_name_along(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    first, second = resolve(registry, "scx_fifo:v1"), resolve(registry, "scx_fifo:v2")
    runtime.pull(first, ignore)
    moved = Tampered.of(second, {})
    moved.image = first  # its name
    moved.pieces = {blob.digest: list(second.fetch_blob(blob)) for blob in (second.config, *second.layers)}

    runtime.pull(moved, ignore)

    assert runtime.fetch_digests() == {second.digest}
    assert daemon.ctr("images", "ls", "-q").split() == [first.reference]


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        ([b"torn", BadDataError("the registry sent something else")], BadDataError),
        ([b"torn", KeyboardInterrupt()], KeyboardInterrupt),
        ([b"short"], BadDataError),
        ([], BadDataError),
    ],
    ids=["registry-error", "interrupt", "short", "empty"],
)
def test_failed_pull_leaves_nothing_and_can_be_repeated(
    runtime: Containerd,
    daemon: LabContainerd,
    registry: str,
    ends: list[bytes | BaseException],
    error: type[BaseException],
) -> None:
    before = read_inventory(daemon)
    image = resolve(registry, "scx_rusty:latest")

    with pytest.raises(error):
        runtime.pull(Tampered.of(image, {image.layers[-1].digest: ends}), ignore)

    assert read_inventory(daemon) == before
    runtime.pull(image, ignore)
    assert image.digest in runtime.fetch_digests()


def test_bytes_that_are_not_the_digests_are_refused_by_containerd(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    """Even if our own check were wrong."""
    before = read_inventory(daemon)
    image = resolve(registry, IDLE)
    (layer,) = image.layers

    with pytest.raises(SchedkitError, match="digest"):
        runtime.pull(Tampered.of(image, {layer.digest: [bytes(layer.size)]}), ignore)

    assert read_inventory(daemon) == before


def test_layer_that_is_not_what_the_configuration_says_is_not_kept(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    before = read_inventory(daemon)
    image, other = resolve(registry, IDLE), resolve(registry, "scx_fifo:v1")
    swapped = Tampered.of(image, {blob.digest: list(other.fetch_blob(blob)) for blob in other.layers})
    swapped.layers = other.layers

    with pytest.raises(BadDataError, match="unpacks to"):
        runtime.pull(swapped, ignore)

    assert read_inventory(daemon) == before


def test_hung_containerd_is_told_in_the_middle_of_a_pull(
    runtime: Containerd, daemon: LabContainerd, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(blobs, "PIECE_BYTES", 64 << 10)

    def hang(done: int, total: int) -> None:
        if done > total // 2:
            daemon.hang()

    try:
        with pytest.raises(NoAnswerError, match=r"content\.v1\.Content/"):
            runtime.pull(resolve(registry, "scx_rusty:latest"), hang)
    finally:
        daemon.go_on()
    (lease,) = daemon.ctr("leases", "ls", "-q").split()
    daemon.ctr("leases", "rm", "--sync", lease)
    assert set(read_inventory(daemon).values()) == {"", "KEY PARENT KIND \n"}


def test_hung_containerd_is_told_by_a_call_that_names_it(
    runtime: Containerd, daemon: LabContainerd, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "VERSION", replace(calls.VERSION, seconds=0.5))
    monkeypatch.setattr(calls, "TASK_GET", replace(calls.TASK_GET, seconds=0.5))
    id = start(runtime, registry)
    daemon.hang()
    try:
        with pytest.raises(NoAnswerError, match=r"version\.v1\.Version/Version"):
            runtime.fetch_version()
        with pytest.raises(NoAnswerError, match=r"tasks\.v1\.Tasks/Get"):
            runtime.wait(id, 0.1)  # that it still runs is more than we know
    finally:
        daemon.go_on()


def test_index_is_kept_with_the_manifest_of_this_platform(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    before = read_inventory(daemon)
    source = resolve(registry, IDLE)
    (manifest, _), *_ = source.manifests
    platform = {"os": "linux", "architecture": "amd64"}
    elsewhere = {"os": "linux", "architecture": "s390x"}
    entry = {"mediaType": manifest.media_type, "digest": manifest.digest, "size": manifest.size, "platform": platform}
    absent = {**entry, "digest": f"sha256:{'0' * 64}", "platform": elsewhere}
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [absent, entry]}
    data = json.dumps(document).encode()
    top = Descriptor(INDEX, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
    image = Tampered.of(source, {})
    image.digest, image.manifests = top.digest, [(top, data), *source.manifests]

    runtime.pull(image, ignore)
    daemon.ctr("leases", "create", "--id", "broom")
    daemon.ctr("leases", "rm", "--sync", "broom")

    assert runtime.fetch_digests() == {top.digest, manifest.digest}
    assert "complete" in daemon.ctr("images", "check")
    id = runtime.create(image, ContainerSpec("indexed"))
    runtime.start(id)
    assert runtime.fetch_container(id).state is ContainerState.RUNNING
    runtime.signal(id, signal.SIGKILL)
    runtime.wait(id, PATIENCE)
    runtime.remove(id)
    daemon.ctr("images", "rm", "--sync", image.reference)
    assert read_inventory(daemon) == before


def test_pull_goes_on_after_one_that_was_killed(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    image = resolve(registry, "scx_rusty:latest")
    run_killed_pull(daemon, image.reference)
    assert "schedkit-sha256:" in read_inventory(daemon)["ingests"]

    runtime.pull(image, ignore)

    assert read_inventory(daemon)["ingests"] == ""
    assert "complete" in daemon.ctr("images", "check")
    # What the killed one held on to is marked to expire.
    (lease,) = daemon.ctr("leases", "ls").splitlines()[1:]
    assert "containerd.io/gc.expire" in lease
    daemon.ctr("leases", "rm", "--sync", lease.split()[0])


def run_killed_pull(daemon: LabContainerd, reference: str) -> None:
    """A process that is killed while the first large blob is on its way."""
    program = f"""
import os, signal
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry
from schedkit.runtimes.containerd import Containerd, blobs, calls
blobs.PIECE_BYTES = 64 << 10
def told(done, total):
    if done > total // 4: os.kill(os.getpid(), signal.SIGKILL)
Containerd({str(daemon.socket)!r}).pull(Registry().fetch_image(parse_reference({reference!r})), told)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL


def test_container_is_privileged_and_in_the_hosts_pid_namespace(runtime: Containerd, registry: str) -> None:
    pid = runtime.fetch_container(start(runtime, registry)).pid
    status = Path(f"/proc/{pid}/status").read_text()
    own = Path("/proc/self/status").read_text()

    assert find(status, "CapEff") == find(status, "CapPrm") == find(status, "CapBnd") == find(own, "CapBnd")
    assert (find(status, "Seccomp"), find(status, "NoNewPrivs")) == ("0", "0")
    namespaces = {
        name: Path(f"/proc/{pid}/ns/{name}").readlink() for name in ("pid", "mnt", "net", "ipc", "uts", "user")
    }
    shared = {name for name, link in namespaces.items() if link == Path(f"/proc/self/ns/{name}").readlink()}
    assert shared == {"pid", "user"}
    mounts = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    assert {mount[1]: mount[3].split(",")[0] for mount in mounts}["/sys"] == "rw"
    assert Path(f"/proc/{pid}/root/dev/null").is_char_device()
    assert "/schedkit/" in Path(f"/proc/{pid}/cgroup").read_text()


def find(status: str, field: str) -> str:
    (line,) = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return line.split()[1]


def test_folder_of_statistics_is_bound(runtime: Containerd, registry: str) -> None:
    pid = runtime.fetch_container(start(runtime, registry)).pid

    assert Path(f"/proc/{pid}/root{SCX_FOLDER}").samefile(SCX_FOLDER)


def test_args_follow_the_entrypoint_and_environment_the_images(runtime: Containerd, registry: str) -> None:
    id = start(runtime, registry, args=("--one", "two words"), env={"WORD": "a=b"})
    pid = runtime.fetch_container(id).pid

    assert Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1] == ["/scx_idle", "--one", "two words"]
    assert {"WORD=a=b"} < set(Path(f"/proc/{pid}/environ").read_text().split("\0"))


def test_life_of_a_container(runtime: Containerd, registry: str) -> None:
    id = create(runtime, registry, labels={"org.schedkit.word": "x"})
    created = runtime.fetch_container(id)
    assert (created.state, created.pid, created.exit_code, created.started) == (
        ContainerState.CREATED,
        None,
        None,
        None,
    )
    assert (created.name, created.image, created.labels["provider"]) == ("idle", f"{registry}/{IDLE}", "schedkit")
    assert created.labels["org.schedkit.word"] == "x"
    assert created.labels["org.opencontainers.image.title"] == "scx_idle"

    runtime.start(id)
    running = runtime.fetch_container(id)
    assert running.state is ContainerState.RUNNING
    assert b"never attaches" in next(runtime.stream_logs(id, follow=True))
    assert Path(f"/proc/{running.pid}/exe").readlink().name == "scx_idle"
    # Either side may be the first to notice that the time is up.
    assert [runtime.wait(id, 0.01) for _ in range(50)] == [None] * 50

    runtime.signal(id, signal.SIGTERM)
    assert runtime.wait(id, PATIENCE) == 0
    ended = runtime.fetch_container(id)
    assert (ended.state, ended.pid, ended.exit_code) == (ContainerState.EXITED, None, 0)
    assert ended.started == running.started
    assert ended.started
    assert ended.finished
    assert ended.started < ended.finished
    runtime.signal(id, signal.SIGTERM)

    runtime.start(id)
    assert runtime.fetch_container(id).state is ContainerState.RUNNING
    runtime.signal(id, signal.SIGKILL)
    assert runtime.wait(id, PATIENCE) == 137


def test_created_container_is_started_also_after_a_reboot(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    id = create(runtime, registry)
    daemon.ctr("tasks", "rm", "--force", id)  # what waits for its start does not outlive a boot
    assert runtime.fetch_container(id).state is ContainerState.CREATED

    runtime.start(id)

    assert runtime.fetch_container(id).state is ContainerState.RUNNING


def test_created_container_is_removed_with_all_of_it(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    image = pull(runtime, registry)
    before = read_inventory(daemon)
    runtime.remove(runtime.create(image, ContainerSpec("unused")))

    assert read_inventory(daemon) == before
    assert list((daemon.folder / "logs").iterdir()) == []


def test_container_that_cannot_be_made_leaves_nothing(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    image = pull(runtime, registry)
    before = read_inventory(daemon)

    with pytest.raises(SchedkitError, match="Create"):
        runtime.create(image, ContainerSpec("bad", labels={"org.schedkit.args": "x" * 5000}))
    daemon.ctr("leases", "create", "--id", "broom")
    daemon.ctr("leases", "rm", "--sync", "broom")
    assert read_inventory(daemon) == before


def test_program_that_is_not_in_the_image_is_told_before_anything_is_stopped_for_it(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    source = resolve(registry, IDLE)
    config = json.loads(b"".join(source.fetch_blob(source.config)))
    config["config"]["Entrypoint"] = ["/nothing"]
    data = json.dumps(config).encode()
    described = Descriptor(source.config.media_type, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
    image = Tampered.of(source, {described.digest: [data]})
    image.config = described
    runtime.pull(image, ignore)
    before = read_inventory(daemon)

    with pytest.raises(SchedkitError, match="/nothing"):
        runtime.create(image, ContainerSpec("lost"))

    assert read_inventory(daemon) == before


def test_output_is_whole_right_after_the_end(runtime: Containerd, registry: str) -> None:
    for _ in range(10):
        id = start(runtime, registry)
        runtime.signal(id, signal.SIGTERM)
        runtime.wait(id, PATIENCE)
        assert b"".join(runtime.stream_logs(id)).endswith(b"stopped schedkit_idle\n")
        assert b"".join(runtime.stream_logs(id, tail=1)) == b"stopped schedkit_idle\n"
        runtime.remove(id)


def test_followed_output_ends_with_the_container(runtime: Containerd, registry: str) -> None:
    id = start(runtime, registry)
    seen: list[bytes] = []
    follower = threading.Thread(target=lambda: seen.extend(runtime.stream_logs(id, follow=True)))
    follower.start()

    runtime.signal(id, signal.SIGTERM)
    follower.join(PATIENCE)

    assert b"".join(seen) == b"idle: schedkit_idle never attaches\nstopped schedkit_idle\n"


def test_what_is_not_there_is_not_found(runtime: Containerd, registry: str) -> None:
    image = resolve(registry, IDLE)
    for verb in (
        lambda: runtime.fetch_container("none"),
        lambda: runtime.start("none"),
        lambda: runtime.signal("none", signal.SIGTERM),
        lambda: runtime.wait("none", 1),
        lambda: runtime.stream_logs("none"),
        lambda: runtime.create(image, ContainerSpec("unpulled")),
    ):
        with pytest.raises(NotFoundError):
            verb()
    runtime.remove("none")


def test_running_container_is_not_removed_and_its_name_is_taken(runtime: Containerd, registry: str) -> None:
    id = start(runtime, registry)

    with pytest.raises(BusyError, match="still runs"):
        runtime.remove(id)
    with pytest.raises(BusyError, match="idle"):
        create(runtime, registry)

    assert runtime.fetch_container(id).state is ContainerState.RUNNING


def test_the_originals_container_is_recognised_and_can_be_stopped(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    daemon.ctr("images", "pull", "--plain-http", f"{registry}/{IDLE}")
    daemon.ctr("run", "-d", "--privileged", f"{registry}/{IDLE}", "original")  # which is all the original does

    (found,) = runtime.fetch_containers()
    assert (found.id, found.name, found.image) == ("original", "original", f"{registry}/{IDLE}")
    assert found.started is not None
    with pytest.raises(NotFoundError, match="not kept"):
        runtime.stream_logs("original")

    runtime.signal("original", signal.SIGKILL)
    assert runtime.wait("original", PATIENCE) == 137
    runtime.remove("original")
    assert "original" not in str(read_inventory(daemon) | {"images": ""})


def test_rounds_of_run_and_stop_leave_nothing(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    image = pull(runtime, registry)
    before = read_inventory(daemon)

    for number in range(50):
        id = runtime.create(image, ContainerSpec(f"round-{number}"))
        runtime.start(id)
        runtime.signal(id, signal.SIGKILL)
        assert runtime.wait(id, PATIENCE) == 137
        runtime.remove(id)

    assert read_inventory(daemon) == before
    assert list((daemon.folder / "logs").iterdir()) == []


def test_container_outlives_containerd(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    running, ended = start(runtime, registry), runtime.create(pull(runtime, registry), ContainerSpec("ended"))
    runtime.start(ended)
    runtime.signal(ended, signal.SIGKILL)
    runtime.wait(ended, PATIENCE)
    pid = runtime.fetch_container(running).pid

    daemon.kill()
    with pytest.raises(UnavailableError, match=str(daemon.socket)):
        runtime.fetch_containers()
    daemon.resume()

    assert runtime.fetch_container(running).pid == pid
    found = runtime.fetch_container(ended)
    assert found.state is ContainerState.EXITED
    assert found.exit_code == (137 if daemon.series == "1.6" else None)  # later ones forget it over a restart
    runtime.signal(running, signal.SIGTERM)
    assert runtime.wait(running, PATIENCE) == 0
    assert b"".join(runtime.stream_logs(running)).endswith(b"stopped schedkit_idle\n")


def test_container_whose_task_is_gone_has_ended_nobody_knows_how(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    id = start(runtime, registry)
    daemon.ctr("tasks", "rm", "--force", id)  # as a reboot leaves it

    found = runtime.fetch_container(id)

    assert (found.state, found.exit_code, found.finished) == (ContainerState.EXITED, None, None)
    assert runtime.wait(id, PATIENCE) == 255
    runtime.signal(id, signal.SIGTERM)
    runtime.start(id)
    assert runtime.fetch_container(id).state is ContainerState.RUNNING
