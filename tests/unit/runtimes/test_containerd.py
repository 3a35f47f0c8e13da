"""The parts of the containerd driver that need no containerd."""

import fcntl
import json
import os
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.errors import (
    BadDataError,
    BusyError,
    NoAnswerError,
    NoPermissionError,
    NoSpaceError,
    NotFoundError,
    SchedkitError,
    UnavailableError,
)
from schedkit.runtimes.containerd import Containerd, blobs, calls, logs
from schedkit.runtimes.containerd import messages_pb2 as m
from schedkit.runtimes.containerd.calls import parse_failure
from schedkit.runtimes.containerd.messages_pb2 import Mount
from schedkit.runtimes.containerd.pulling import parse_chain
from schedkit.runtimes.containerd.spec import Device, HostFacts, ImageConfig, make_spec, parse_config, read_host
from schedkit.runtimes.containerd.users import User, parse_user, read_user
from schedkit.runtimes.local_image import find_repository
from schedkit.runtimes.model import ContainerSpec

HOST = HostFacts(("CAP_BPF", "CAP_PERFMON"), (Device("/dev/null", "c", 1, 3, 0o666, 0, 0),), unified_cgroups=True)
CONFIG = ImageConfig(entrypoint=("/scx",), command=("--default",), env=("PATH=/bin", "A=image"))
PASSWD = "root:x:0:0:root:/root:/bin/sh\nscx:x:77:78::/:/none\ntorn:x\n"
GROUP = "root:x:0:\nbpf:x:99:\n"


def make(config: ImageConfig = CONFIG, *, host: HostFacts = HOST, **words: object) -> dict[str, object]:
    wanted = ContainerSpec("name", **words)  # type: ignore[arg-type]
    document = json.loads(make_spec("abc", config, wanted, User(1, 2), host))
    assert isinstance(document, dict)
    return document


def process(**words: object) -> dict[str, object]:
    found = make(**words)["process"]  # type: ignore[arg-type]
    assert isinstance(found, dict)
    return found


def test_args_replace_the_images_command_and_follow_its_entrypoint() -> None:
    assert process()["args"] == ["/scx", "--default"]
    assert process(args=("-v", ""))["args"] == ["/scx", "-v", ""]


def test_image_without_anything_to_run_is_refused() -> None:
    with pytest.raises(BadDataError, match="no command"):
        make(ImageConfig())


def test_environment_is_the_images_and_then_ours() -> None:
    assert process(env={"A": "ours", "B": "x=y"})["env"] == ["PATH=/bin", "A=ours", "B=x=y"]
    assert make(ImageConfig(entrypoint=("/x",)))["process"]["env"][0].startswith("PATH=/usr/local/sbin:")  # type: ignore[index]


def test_container_is_as_privileged_as_we_may_make_it() -> None:
    specification = make()
    linux = specification["linux"]
    assert isinstance(linux, dict)
    capabilities = process()["capabilities"]

    assert capabilities == {key: ["CAP_BPF", "CAP_PERFMON"] for key in ("bounding", "effective", "permitted")}
    assert "pid" not in [namespace["type"] for namespace in linux["namespaces"]]
    assert not {"seccomp", "maskedPaths", "readonlyPaths"} & set(linux)
    assert linux["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert [device["path"] for device in linux["devices"]] == ["/dev/null"]
    assert "rlimits" not in process()
    assert process()["user"] == {"uid": 1, "gid": 2}


def test_container_without_privileges_has_what_loading_takes_and_no_device() -> None:
    host = HOST._replace(capabilities=("CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_PERFMON", "CAP_BPF"))
    specification = make(host=host, unprivileged=True, files=("/sys/kernel/tracing",))
    mounts: Any = specification["mounts"]
    running: Any = specification["process"]
    linux: Any = specification["linux"]

    assert running["capabilities"]["bounding"] == ["CAP_SYS_ADMIN", "CAP_PERFMON", "CAP_BPF"]
    assert running["noNewPrivileges"] is True
    assert [limit["type"] for limit in running["rlimits"]] == ["RLIMIT_MEMLOCK"]
    assert linux["devices"] == []
    assert linux["resources"]["devices"][0] == {"allow": False, "access": "rwm"}
    assert {1, 5, 136} == {rule["major"] for rule in linux["resources"]["devices"][1:]}
    assert "/proc/sys" in linux["readonlyPaths"]
    assert "pid" not in [namespace["type"] for namespace in linux["namespaces"]]
    options = {mount["destination"]: mount["options"] for mount in mounts}
    assert "ro" in options["/sys"]
    assert "rw" in options["/var/run/scx"]
    assert "ro" in options["/sys/kernel/tracing"]


def test_network_is_its_own_unless_the_hosts_is_asked_for() -> None:
    named = HOST._replace(name_files=("/etc/hosts",))
    alone, shared = (make(host=named, host_network=asked) for asked in (False, True))

    def kinds(specification: dict[str, object]) -> set[str]:
        return {namespace["type"] for namespace in specification["linux"]["namespaces"]}  # type: ignore[index]

    def targets(specification: dict[str, object]) -> set[str]:
        return {mount["destination"] for mount in specification["mounts"]}  # type: ignore[attr-defined]

    assert kinds(alone) - kinds(shared) == {"network"}
    assert targets(shared) - targets(alone) == {"/etc/hosts"}


def test_cgroups_have_a_namespace_only_where_they_are_one() -> None:
    legacy = HostFacts((), (), unified_cgroups=False)

    def namespaces(host: HostFacts) -> list[str]:
        linux = make(host=host)["linux"]
        assert isinstance(linux, dict)
        return [namespace["type"] for namespace in linux["namespaces"]]

    assert set(namespaces(HOST)) - set(namespaces(legacy)) == {"cgroup"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b"{}",
        b'{"rootfs": {"diff_ids": "x"}}',
        b'{"rootfs": {"diff_ids": []}, "config": {"Cmd": "sh"}}',
    ],
)
def test_configuration_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(BadDataError, match="configuration"):
        parse_config(data)


def test_configuration_without_a_config_is_fine() -> None:
    assert parse_config(b'{"rootfs": {"diff_ids": ["sha256:a"]}, "config": null}') == ImageConfig(
        diff_ids=("sha256:a",)
    )


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", User(0, 0)),
        ("root", User(0, 0)),
        ("scx", User(77, 78)),
        ("77", User(77, 78)),
        ("5000", User(5000, 0)),
        ("scx:bpf", User(77, 99)),
        ("scx:1234", User(77, 1234)),
        ("root:bpf", User(0, 99)),
    ],
)
def test_user_is_looked_up_in_the_image(user: str, expected: User) -> None:
    assert parse_user(user, PASSWD, GROUP) == expected


@pytest.mark.parametrize("user", ["nobody", "scx:none"])
def test_user_that_the_image_does_not_know_is_refused(user: str) -> None:
    with pytest.raises(BadDataError, match="does not have"):
        parse_user(user, PASSWD, GROUP)


def test_user_is_read_from_the_uppermost_folder_and_never_through_a_link(tmp_path: Path) -> None:
    for name in ("upper", "linked", "lower"):
        (tmp_path / name / "etc").mkdir(parents=True)
    (tmp_path / "outside").write_text("scx:x:1:1::/:\n")
    (tmp_path / "linked/etc/passwd").symlink_to(tmp_path / "outside")
    (tmp_path / "lower/etc/passwd").write_text(PASSWD)
    lower = f"lowerdir={tmp_path}/linked:{tmp_path}/lower"
    overlay = Mount(type="overlay", source="overlay", options=["index=off", lower, f"upperdir={tmp_path}/upper"])

    assert read_user("scx", [overlay]) == User(77, 78)
    (tmp_path / "upper/etc/passwd").write_text("scx:x:5:6::/:\n")
    assert read_user("scx", [overlay]) == User(5, 6)
    assert read_user("scx", [Mount(type="bind", source=f"{tmp_path}/lower")]) == User(77, 78)


def test_host_gives_the_capabilities_of_our_bounding_set(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("Name:\tx\nCapBnd:\t0000018000000001\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").touch()
    (tmp_path / "dev").mkdir()

    assert read_host(tmp_path) == HostFacts(
        ("CAP_CHOWN", "CAP_BPF", "CAP_CHECKPOINT_RESTORE"), (), unified_cgroups=True
    )


def test_hosts_devices_are_those_of_its_dev() -> None:
    devices = {device.path: device for device in read_host().devices}

    assert devices["/dev/null"] == Device("/dev/null", "c", 1, 3, devices["/dev/null"].mode, 0, 0)
    assert not any(path.startswith("/dev/pts/") for path in devices)


def test_names_of_snapshots_are_containerds() -> None:
    diff_ids = [f"sha256:{digit * 64}" for digit in "ab"]

    # As `printf 'sha256:aaa… sha256:bbb…' | sha256sum` says.
    assert parse_chain(diff_ids) == [
        diff_ids[0],
        "sha256:ccd722928bd92476ba1745586fed6e45a102504185ad88cd89e01ff116fd146c",
    ]
    assert parse_chain([]) == []


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("ghcr.io/schedkit/scx_rusty:latest", "ghcr.io/schedkit/scx_rusty"),
        ("localhost:5000/scx_fifo", "localhost:5000/scx_fifo"),
        ("localhost:5000/scx_fifo:v1@sha256:abc", "localhost:5000/scx_fifo"),
        ("imported", "imported"),
    ],
)
def test_repository_is_the_name_without_tag_and_digest(name: str, repository: str) -> None:
    assert find_repository(name) == repository


@pytest.mark.parametrize(
    ("code", "details", "error"),
    [
        ("UNAVAILABLE", "connect failed: No such file or directory", UnavailableError),
        ("UNAVAILABLE", "connect failed: Permission denied", NoPermissionError),
        ("UNAVAILABLE", "connection attempt timed out before receiving SETTINGS frame", NoAnswerError),
        ("UNAVAILABLE", "ref schedkit-x locked for 3s: unavailable", BusyError),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", NoAnswerError),
        ("UNKNOWN", "context deadline exceeded: unknown", NoAnswerError),
        ("CANCELLED", "Stream removed (RST_STREAM (Received RST_STREAM with error code 8))", NoAnswerError),
        ("NOT_FOUND", "container x: not found", NotFoundError),
        ("UNKNOWN", "write /var/lib/x: no space left on device", NoSpaceError),
        ("UNKNOWN", "something", SchedkitError),
    ],
)
def test_failure_is_told_with_the_call_and_what_containerd_said(
    code: str, details: str, error: type[SchedkitError]
) -> None:
    failure = parse_failure("/run/c.sock", "tasks.v1.Tasks/Start", grpc.StatusCode[code], details)

    assert type(failure) is error
    assert "/run/c.sock" in failure.message or ("Tasks/Start" in failure.message and details in failure.message)


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """A socket whose owner takes connections and says nothing."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "silent.sock"))
        listener.listen()
        yield str(tmp_path / "silent.sock")


def test_silent_socket_ends_in_an_error(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "VERSION", calls.VERSION._replace(seconds=0.2))
    runtime = Containerd(silent)
    with pytest.raises(NoAnswerError, match=r"silent\.sock did not respond"):
        runtime.fetch_version()
    runtime.close()


def test_absent_socket_is_told_at_once(tmp_path: Path) -> None:
    runtime = Containerd(str(tmp_path / "none.sock"))
    with pytest.raises(UnavailableError, match=r"none\.sock"):
        runtime.fetch_containers()
    runtime.close()


@pytest.mark.parametrize("sizes", [[], [1], [5, 5, 5], [100], [16, 16], [15, 1, 40, 3]])
def test_pieces_are_even_and_lose_nothing(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "PIECE_BYTES", 16)
    arrived = [os.urandom(size) for size in sizes]

    messages = [b"".join(pieces) for pieces in blobs.gather(arrived)]

    assert b"".join(messages) == b"".join(arrived)
    assert all(16 <= len(message) < 32 for message in messages[:-1])
    assert all(messages)


def test_tiny_pieces_are_not_held_until_they_are_many() -> None:
    messages = list(blobs.gather([b"ok"] * 5000))
    assert b"".join(b"".join(pieces) for pieces in messages) == b"ok" * 5000
    assert max(map(len, messages)) <= 1024


@given(st.integers(0, 2**62), st.lists(st.binary(max_size=300), min_size=1))
def test_piece_is_sent_as_protobuf_would(offset: int, pieces: list[bytes]) -> None:
    sent = m.WriteContentRequest.FromString(blobs.format_write(offset, pieces))
    assert sent == m.WriteContentRequest(action=m.WRITE_ACTION_WRITE, offset=offset, data=b"".join(pieces))


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (None, b"one\ntwo\nthree\n"),
        (0, b""),
        (1, b"three\n"),
        (2, b"two\nthree\n"),
        (3, b"one\ntwo\nthree\n"),
        (9, b"one\ntwo\nthree\n"),
    ],
)
@pytest.mark.parametrize("block", [1, 4, 1024])
def test_tail_is_the_last_lines(
    tmp_path: Path, tail: int | None, expected: bytes, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "BLOCK_BYTES", block)
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nthree\n")
    assert read_all(log, tail) == expected
    log.write_bytes(b"one\ntwo\nthree")
    assert read_all(log, tail) == expected.removesuffix(b"\n")


def read_all(log: Path, tail: int | None, begin: logs.Position = logs.BEGINNING) -> bytes:
    return b"".join(piece.data for piece in logs.read_log(log, tail, begin))


def follow(path: Path, tail: int | None = None) -> tuple[logs.Ending, Callable[[], bytes]]:
    """Begin to follow a log; once its first words were seen, how to end it, and how to have all that was seen."""
    ending = logs.Ending()
    seen: list[bytes] = []
    begun = threading.Event()

    def read() -> None:
        for piece in logs.follow_log(path, tail, ending):
            seen.append(piece.data)
            begun.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(10)

    def join() -> bytes:
        thread.join(10)
        assert not thread.is_alive()
        ending.close()
        return b"".join(seen)

    return ending, join


def test_followed_log_ends_with_the_last_words(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\nnew\n")
    with path.open("ab", buffering=0) as shim:
        ending, join = follow(path, tail=1)
        shim.write(b"more\n")
        ending.tell()
        shim.write(b"last words\n")  # a shim is still copying when its container has ended
    assert join() == b"new\nmore\nlast words\n"


def test_log_that_nobody_closes_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SETTLE_SECONDS", 0.1)
    path = tmp_path / "log"
    with path.open("ab", buffering=0) as shim:
        shim.write(b"words\n")
        ending, join = follow(path)
        ending.tell()
        assert join() == b"words\n"


class Logger:
    """The logger as containerd's shim starts it: two outputs, and a file whose closing says that it is ready."""

    def __init__(self, log: Path, most: int = resource.RLIM_INFINITY) -> None:
        log.touch()
        uri = urlsplit(logs.make_logger(log))
        [(flag, script)] = parse_qsl(uri.query, strict_parsing=True)
        reads, writes = zip(*(os.pipe() for _ in range(3)), strict=True)
        self.output, self.error = writes[0], writes[1]

        def place() -> None:
            # High numbers first: what is put into its place must not lie where another is to go.
            high = [fcntl.fcntl(file, fcntl.F_DUPFD, 100) for file in (reads[0], reads[1], writes[2])]
            for number, file in zip((3, 4, 5), high, strict=True):
                os.dup2(file, number)
            os.closerange(6, 200)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        self.process = subprocess.Popen([uri.path, flag, script], preexec_fn=place, close_fds=False, env={})  # noqa: PLW1509
        for file in (reads[0], reads[1], writes[2]):
            os.close(file)
        assert os.read(reads[2], 1) == b""  # ready
        os.close(reads[2])

    def end(self) -> None:
        for file in (self.output, self.error):
            os.close(file)
        assert self.process.wait(20) == 0


def test_logger_writes_at_once_and_both_outputs(tmp_path: Path) -> None:
    log = tmp_path / "it's a log"
    logger = Logger(log)
    os.write(logger.output, b"out\n")
    wait_until(lambda: log.read_bytes() == b"out\n")
    os.write(logger.error, b"err\n")
    wait_until(lambda: log.read_bytes() == b"out\nerr\n")
    logger.end()
    assert sorted(tmp_path.iterdir()) == [log, tmp_path / "it's a log.times"]
    again = Logger(log)
    os.write(again.output, b"more\n")
    again.end()
    assert log.read_bytes() == b"out\nerr\nmore\n"


def test_logger_keeps_the_log_within_its_bound(tmp_path: Path) -> None:
    log = tmp_path / "log"
    logger = Logger(log)
    ending = logs.Ending()
    followed = bytearray()

    def follow() -> None:
        for piece in logs.follow_log(log, None, ending):
            followed.extend(piece.data)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    lines = [f"line {number:07} {'x' * 80}\n".encode() for number in range(150_000)]  # 14 MB
    written = 0
    for start in range(0, len(lines), 10_000):
        data = b"".join(lines[start : start + 10_000])
        written += len(data)
        while data:
            data = data[os.write(logger.output, data) :]
        wait_until(lambda: len(followed) == written)  # noqa: B023 (it is called at once)
        assert log.stat().st_size <= 2 * logs.TURN_BYTES
    logger.end()
    ending.tell()
    follower.join(20)

    kept = read_all(log, None)
    assert len(kept) <= 4 * logs.TURN_BYTES
    assert b"".join(lines).endswith(kept) is True
    assert len(kept) > logs.TURN_BYTES
    for tail in (1, 5, 20_000, 60_000):
        asked = b"".join(lines[-tail:])
        expected = asked if len(asked) <= len(kept) else kept  # when it turned decides how much is kept
        assert (read_all(log, tail) == expected) is True  # no difference of megabytes
    assert (bytes(followed) == b"".join(lines)) is True  # who follows it misses nothing


def test_logger_notes_when_the_log_was_how_long(tmp_path: Path) -> None:
    log, times = tmp_path / "log", tmp_path / "log.times"
    before = int(time.time())
    logger = Logger(log)
    length = 0
    for word in (b"one\n", b"two\n", b"three\n"):
        os.write(logger.output, word)
        length += len(word)
        wait_until(lambda: log.stat().st_size == length)  # noqa: B023 (it is called at once)
    logger.end()
    notes = [tuple(map(int, line.split())) for line in times.read_text().splitlines()]
    assert notes[0][1] == 4
    assert notes[-1][1] == length
    assert all(before <= when <= time.time() for when, _ in notes)


def read_since(log: Path, since: float, tail: int | None = None) -> bytes:
    position = logs.find_position(log, since)
    assert position is not None
    return read_all(log, tail, position)


def test_output_since_a_moment_is_found_by_the_notes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nthree\nfour\n")
    (tmp_path / "log.times").write_text("100 4\n200 8\n201 14\n300 19\n")
    assert read_since(log, 50) == b"one\ntwo\nthree\nfour\n"
    assert read_since(log, 100.5) == b"one\ntwo\nthree\nfour\n"  # within that second, nobody knows
    assert read_since(log, 101) == b"two\nthree\nfour\n"
    assert read_since(log, 202) == b"four\n"
    assert read_since(log, 202, tail=5) == b"four\n"
    assert read_since(log, 101, tail=2) == b"three\nfour\n"
    assert read_since(log, 1000) == b""


def test_output_since_a_moment_before_the_log_turned_begins_in_the_older_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "log.1").write_bytes(b"one\ntwo\n")
    (tmp_path / "log.1.times").write_text("100 4\n200 8\n")
    log.write_bytes(b"three\nfour\n")
    (tmp_path / "log.times").write_text("300 6\n400 11\n")
    assert read_since(log, 50) == b"one\ntwo\nthree\nfour\n"
    assert read_since(log, 150) == b"two\nthree\nfour\n"
    assert read_since(log, 150, tail=3) == b"two\nthree\nfour\n"
    assert read_since(log, 150, tail=9) == b"two\nthree\nfour\n"
    assert read_since(log, 250) == b"three\nfour\n"
    assert read_since(log, 350) == b"four\n"


def test_output_without_notes_has_no_moments(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\n")
    assert logs.find_position(tmp_path / "log", 100) is None


def test_a_note_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    (tmp_path / "log.times").write_text("100 4\nx y\n2")
    assert read_since(log, 1000) == b"two\n"


def read_stamped(log: Path, tail: int | None = None, now: float = 999) -> list[str]:
    """The seconds, and what came in them."""
    stamped = b"".join(logs.stamp(logs.read_log(log, tail), lambda: now)).decode()
    return [line.replace("1970-01-01T00:", "").replace("Z", "") for line in stamped.splitlines()]


def test_time_of_a_line_is_that_of_the_first_note_after_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\r\nthree\nfour\n")
    (tmp_path / "log.times").write_text("100 6\n200 9\n201 15\n")
    assert read_stamped(log) == ["01:40 one", "01:40 two", "03:21 three", "16:39 four"]  # which is not noted yet
    assert read_stamped(log, tail=2) == ["03:21 three", "16:39 four"]


@pytest.mark.parametrize("block", [1, 3, 1024])
def test_times_of_a_log_that_turned_are_those_of_both_files(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "BLOCK_BYTES", block)
    log = tmp_path / "log"
    (tmp_path / "log.1").write_bytes(b"one\ntw")  # a turn may come in the middle of a line
    (tmp_path / "log.1.times").write_text("100 4\n200 6\n")
    log.write_bytes(b"o\nthree\n")
    (tmp_path / "log.times").write_text("300 2\n301 8\n")
    assert read_stamped(log) == ["01:40 one", "03:20 two", "05:01 three"]


def test_output_that_comes_while_it_is_followed_has_the_time_of_now(tmp_path: Path) -> None:
    pieces = [logs.Piece(b"old\nn", 5, tmp_path / "log"), logs.Piece(b"ew\nnext\n", 13, None)]
    (tmp_path / "log.times").write_text("100 5\n")
    stamped = b"".join(logs.stamp(pieces, lambda: 999)).decode().splitlines()
    assert [line[14:] for line in stamped] == ["01:40Z old", "01:40Z new", "16:39Z next"]


def test_times_that_nobody_noted_are_an_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    logs.check_noted(log, "c0ffee")
    log.write_bytes(b"one\n")
    with pytest.raises(UnavailableError, match="was not noted"):
        logs.check_noted(log, "c0ffee")


def test_full_disk_ends_no_scheduler(tmp_path: Path) -> None:
    log = tmp_path / "log"
    logger = Logger(log, most=8192)
    for _ in range(100):  # more than a pipe holds
        os.write(logger.output, b"x" * 4096)
    logger.end()
    assert log.stat().st_size == 8192


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
