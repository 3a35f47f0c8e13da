"""What is only containerd's, in each of its series; what every runtime does is in the modules beside this one."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.containerd import SERIES, LabContainerd
from schedkit.errors import (
    BadDataError,
    NoAnswerError,
    NotFoundError,
    SchedkitError,
    UnavailableError,
    UsageError,
)
from schedkit.images.oci import Content, Descriptor, Source
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.containerd import Containerd, blobs, calls, driver
from schedkit.runtimes.model import ContainerSpec
from tests.integration.runtimes.bench import IDLE, PATIENCE, ignore_progress, read_inventory, resolve

pytestmark = pytest.mark.parametrize("daemon", [f"containerd-{series}" for series in SERIES], indirect=True)

INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass
class Tampered:
    """An image whose bytes come otherwise than they should."""

    image: Content
    digest: str
    config: Descriptor
    layers: Sequence[Descriptor]
    manifests: Sequence[tuple[Descriptor, bytes]]
    pieces: dict[str, list[bytes | BaseException]]
    sources: Sequence[Source] = ()

    @classmethod
    def of(cls, image: Content, pieces: dict[str, list[bytes | BaseException]]) -> "Tampered":
        return cls(image, image.digest, image.config, image.layers, image.manifests, pieces)

    @property
    def manifest(self) -> Descriptor:
        return self.manifests[-1][0]

    @property
    def reference(self) -> str:
        return self.image.reference

    @property
    def repository(self) -> str:
        return self.image.repository

    def fetch_blob(self, blob: Descriptor, *, checked: bool = True) -> Iterator[bytes]:
        if blob.digest not in self.pieces:
            yield from self.image.fetch_blob(blob, checked=checked)
            return
        for piece in self.pieces[blob.digest]:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


def pull(runtime: Containerd, address: str, name: str = IDLE) -> Content:
    image = resolve(address, name)
    runtime.pull(image, ignore_progress)
    return image


def create(runtime: Containerd, address: str, **words: object) -> str:
    return runtime.create(pull(runtime, address), ContainerSpec("idle", **words))  # type: ignore[arg-type]


def start(runtime: Containerd, address: str, **words: object) -> str:
    """A container that has said its first words, and so is ready for signals."""
    id = create(runtime, address, **words)
    runtime.start(id)
    assert b"never attaches" in next(runtime.stream_logs(id, follow=True))
    return id


def kill(runtime: Containerd, id: str) -> None:
    runtime.signal(id, signal.SIGKILL)
    runtime.wait(id, PATIENCE)


def test_version_is_told(runtime: Containerd, daemon: LabContainerd) -> None:
    assert runtime.fetch_version().startswith(f"{daemon.series}.")


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

    runtime.pull(
        Tampered.of(image, {blob.digest: [AssertionError("fetched")] for blob in image.layers}), ignore_progress
    )

    assert read_inventory(daemon) == before


def test_content_of_another_namespace_is_not_fetched_again(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    daemon.ctr("images", "pull", "--plain-http", f"{registry}/{IDLE}", namespace="other")
    image = resolve(registry, IDLE)

    runtime.pull(
        Tampered.of(image, {blob.digest: [AssertionError("fetched")] for blob in image.layers}), ignore_progress
    )

    assert image.digest in runtime.fetch_digests()
    daemon.ctr("images", "rm", "--sync", f"{registry}/{IDLE}", namespace="other")
    assert "complete" in daemon.ctr("images", "check")


def test_moved_tag_takes_its_name_along(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    first, second = resolve(registry, "scx_fifo:v1"), resolve(registry, "scx_fifo:v2")
    runtime.pull(first, ignore_progress)
    moved = Tampered.of(second, {})
    moved.image = first  # its name
    moved.pieces = {blob.digest: list(second.fetch_blob(blob)) for blob in (second.config, *second.layers)}

    runtime.pull(moved, ignore_progress)

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
        runtime.pull(Tampered.of(image, {image.layers[-1].digest: ends}), ignore_progress)

    assert read_inventory(daemon) == before
    runtime.pull(image, ignore_progress)
    assert image.digest in runtime.fetch_digests()


def test_bytes_that_are_not_the_digests_are_refused_by_containerd(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    """Even if our own check were wrong."""
    before = read_inventory(daemon)
    image = resolve(registry, IDLE)
    (layer,) = image.layers

    with pytest.raises(SchedkitError, match="digest"):
        runtime.pull(Tampered.of(image, {layer.digest: [bytes(layer.size)]}), ignore_progress)

    assert read_inventory(daemon) == before


def test_layer_that_is_not_what_the_configuration_says_is_not_kept(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    before = read_inventory(daemon)
    image, other = resolve(registry, IDLE), resolve(registry, "scx_fifo:v1")
    swapped = Tampered.of(image, {blob.digest: list(other.fetch_blob(blob)) for blob in other.layers})
    swapped.layers = other.layers

    with pytest.raises(BadDataError, match="unpacks to"):
        runtime.pull(swapped, ignore_progress)

    assert read_inventory(daemon) == before


def test_hung_containerd_is_told_in_the_middle_of_a_pull(
    runtime: Containerd, daemon: LabContainerd, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(blobs, "PIECE_BYTES", 64 << 10)
    monkeypatch.setattr(calls, "DIFF_APPLY", calls.DIFF_APPLY._replace(seconds=30.0))  # one may be under way

    def hang(done: int, total: int) -> None:
        if done > total // 2:
            daemon.hang()

    try:
        with pytest.raises(NoAnswerError, match=r"did not respond to [a-z]+\.v1\.[A-Za-z]+/"):
            runtime.pull(resolve(registry, "scx_rusty:latest"), hang)
    finally:
        daemon.go_on()
    (lease,) = daemon.ctr("leases", "ls", "-q").split()
    daemon.ctr("leases", "rm", "--sync", lease)
    assert set(read_inventory(daemon).values()) == {"", "KEY PARENT KIND \n"}


def test_hung_containerd_is_told_by_a_call_that_names_it(
    runtime: Containerd, daemon: LabContainerd, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = start(runtime, registry)
    monkeypatch.setattr(calls, "VERSION", calls.VERSION._replace(seconds=0.5))
    monkeypatch.setattr(calls, "TASK_GET", calls.TASK_GET._replace(seconds=0.5))
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

    runtime.pull(image, ignore_progress)
    daemon.ctr("leases", "create", "--id", "broom")
    daemon.ctr("leases", "rm", "--sync", "broom")

    assert runtime.fetch_digests() == {top.digest, manifest.digest}
    assert "complete" in daemon.ctr("images", "check")
    id = runtime.create(image, ContainerSpec("indexed"))
    runtime.start(id)
    assert runtime.fetch_container(id).state is ContainerState.RUNNING
    kill(runtime, id)
    runtime.remove(id)
    daemon.ctr("images", "rm", "--sync", image.reference)
    assert read_inventory(daemon) == before


def test_pull_goes_on_after_one_that_was_killed(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    image = resolve(registry, "scx_rusty:latest")
    run_killed_pull(daemon, image.reference)
    assert "schedkit-sha256:" in read_inventory(daemon)["ingests"]

    runtime.pull(image, ignore_progress)

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
from schedkit.runtimes.containerd import Containerd, blobs, calls, driver
blobs.PIECE_BYTES = 64 << 10
def told(done, total):
    if done > total // 4: os.kill(os.getpid(), signal.SIGKILL)
Containerd({str(daemon.socket)!r}).pull(Registry().fetch_image(parse_reference({reference!r})), told)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL


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


@contextmanager
def slow_logger(log: Path, last: str) -> Iterator[None]:
    """One more that has the log open, and does something before it ends."""
    script = f"exec 6>>{log}; echo; sleep 0.5; {last}"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as logger:
        assert logger.stdout
        logger.stdout.readline()
        yield


def test_logger_that_is_slow_to_end_leaves_no_file(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    id = start(runtime, registry)
    kill(runtime, id)
    log = daemon.folder / "logs" / f"{id}.log"
    with slow_logger(log, f"echo 1 1 >>{log}.times"):
        runtime.remove(id)
    assert list(log.parent.iterdir()) == []


def test_late_words_of_the_run_before_are_not_of_the_next_start(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    id = start(runtime, registry)
    kill(runtime, id)
    with slow_logger(daemon.folder / "logs" / f"{id}.log", "echo late >&6"):
        began = time.time()
        runtime.start(id)
    assert "late" in b"".join(runtime.stream_logs(id)).decode()
    assert "late" not in b"".join(runtime.stream_logs(id, since=began)).decode()


def test_container_that_cannot_be_made_leaves_nothing(
    runtime: Containerd, daemon: LabContainerd, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pull(runtime, registry)
    before = read_inventory(daemon)

    with pytest.raises(UsageError, match=r"containerd takes no label of more than 4096 bytes, and org\.schedkit\.args"):
        runtime.create(image, ContainerSpec("bad", labels={"org.schedkit.args": "x" * 5000}))
    monkeypatch.setattr(driver, "LABEL_BYTES", 10000)
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
    runtime.pull(image, ignore_progress)
    before = read_inventory(daemon)

    with pytest.raises(SchedkitError, match="/nothing"):
        runtime.create(image, ContainerSpec("lost"))

    assert read_inventory(daemon) == before


def test_container_outlives_containerd(runtime: Containerd, daemon: LabContainerd, registry: str) -> None:
    running, ended = start(runtime, registry), runtime.create(pull(runtime, registry), ContainerSpec("ended"))
    runtime.start(ended)
    kill(runtime, ended)
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


def test_container_lies_in_our_cgroup(runtime: Containerd, registry: str) -> None:
    pid = runtime.fetch_container(start(runtime, registry)).pid

    assert "/schedkit/" in Path(f"/proc/{pid}/cgroup").read_text()


def test_output_of_the_originals_was_not_kept_and_nothing_of_it_stays(
    runtime: Containerd, daemon: LabContainerd, registry: str
) -> None:
    daemon.ctr("images", "pull", "--plain-http", f"{registry}/{IDLE}")
    before = read_inventory(daemon)
    daemon.ctr("run", "-d", "--privileged", f"{registry}/{IDLE}", "original")  # which is all the original does

    with pytest.raises(NotFoundError, match="not kept"):
        runtime.stream_logs("original")

    kill(runtime, "original")
    runtime.remove("original")
    assert read_inventory(daemon) == before
