"""The trusted root: from the policy, from a TUF repository (a real one), from the copy that came along."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]
from tuf.api.metadata import (  # type: ignore[attr-defined]
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from schedkit.errors import UnavailableError
from schedkit.trust import roots as roots_module
from schedkit.trust import tuf_update
from schedkit.trust.decide import verify
from schedkit.trust.errors import PolicyError
from schedkit.trust.policy import Root as PolicyRoot
from schedkit.trust.roots import FRESH_SECONDS, PUBLIC, RETRY_SECONDS, TARGET, Roots, read_embedded
from schedkit.trust.trusted_root import parse_trusted_root
from tests.unit.trust.material import NOW, Sigstore, b64, sign_bundle
from tests.unit.trust.rules import OURS, refuse, trust
from tests.unit.trust.shelf import Shelf, make_image


class Repository:
    """A TUF repository in a folder, with one key for everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signer = CryptoSigner(Ed25519PrivateKey.generate())
        root = Root(consistent_snapshot=False, expires=datetime(2099, 1, 1, tzinfo=UTC))
        for role in ("root", "targets", "snapshot", "timestamp"):
            root.add_key(self.signer.public_key, role)
        self.bootstrap = self._write("1.root", root)
        (folder / "targets").mkdir()

    def publish(self, data: bytes, version: int, *, lifetime: timedelta = timedelta(days=1)) -> None:
        expires = datetime.now(UTC).replace(microsecond=0) + lifetime
        (self.folder / "targets" / TARGET).write_bytes(data)
        targets = Targets(version, expires=expires, targets={TARGET: TargetFile.from_data(TARGET, data)})
        self._write("targets", targets)
        self._write("snapshot", Snapshot(version, expires=expires, meta={"targets.json": MetaFile(version)}))
        self._write("timestamp", Timestamp(version, expires=expires, snapshot_meta=MetaFile(version)))

    def _write(self, name: str, signed: Any) -> bytes:
        metadata = Metadata(signed)
        metadata.sign(self.signer)
        data = metadata.to_bytes()
        (self.folder / f"{name}.json").write_bytes(data)
        return data


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "served").mkdir()
    return Repository(tmp_path / "served")


@pytest.fixture
def url(repository: Repository) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(repository.folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_root_comes_through_tuf_and_is_asked_for_once_a_day(
    repository: Repository, url: str, sigstore: Sigstore, tmp_path: Path
) -> None:
    now = datetime.now(UTC).timestamp()
    repository.publish(sigstore.trusted_root(), 1)
    make = partial(Roots, tmp_path, url=url, bootstrap=repository.bootstrap)
    assert make().get(None).logs[0].id == sigstore.log_id
    other = Sigstore()
    repository.publish(other.trusted_root(), 2)
    assert make().get(None).logs[0].id == sigstore.log_id
    assert make(clock=lambda: now + FRESH_SECONDS + 60).get(None).logs[0].id == other.log_id


def test_without_network_the_last_copy_is_used_and_that_is_told(
    repository: Repository, url: str, sigstore: Sigstore, tmp_path: Path
) -> None:
    repository.publish(sigstore.trusted_root(), 1)
    Roots(tmp_path, url=url, bootstrap=repository.bootstrap).get(None)
    (repository.folder / "timestamp.json").unlink()
    heard: list[str] = []
    late = partial(Roots, tmp_path, url=url, bootstrap=repository.bootstrap, clock=lambda: 1e11)
    assert late(warn=heard.append).get(None).logs[0].id == sigstore.log_id
    assert "the last copy of it is used" in heard[0]
    assert late(warn=heard.append, offline=True).get(None).logs[0].id == sigstore.log_id
    assert len(heard) == 1, "who says --offline knows"


@pytest.mark.parametrize("trick", ["other key", "stale", "other target"])
def test_root_that_tuf_does_not_vouch_for_is_not_taken(
    repository: Repository, url: str, sigstore: Sigstore, tmp_path: Path, trick: str
) -> None:
    bootstrap = repository.bootstrap
    if trick == "other key":
        repository.signer = CryptoSigner(Ed25519PrivateKey.generate())
    repository.publish(sigstore.trusted_root(), 1, lifetime=timedelta(days=-1 if trick == "stale" else 1))
    if trick == "other target":
        (repository.folder / "targets" / TARGET).write_bytes(Sigstore().trusted_root())
    with pytest.raises(UnavailableError, match="no copy of the trusted root"):
        Roots(tmp_path, url=url, bootstrap=bootstrap).get(None)


def test_copy_that_came_along_is_there_and_can_be_read() -> None:
    data = read_embedded(PUBLIC, TARGET)
    assert data is not None
    root = parse_trusted_root(data, "embedded")
    assert {"https://rekor.sigstore.dev"} <= {log.url for log in root.logs}
    assert root.authorities
    assert root.certificate_logs
    assert root.timestamp_authorities
    assert root.needs_sct
    assert root.left_out == ()
    assert read_embedded(PUBLIC, "root.json")
    assert read_embedded("https://tuf.example.com", TARGET) is None
    assert Roots(None, offline=True).get(None) == parse_trusted_root(data, PUBLIC)


def test_public_root_without_network_imports_neither_sigstore_nor_tuf() -> None:
    code = (
        "import sys; from schedkit.trust.roots import Roots; Roots(None, offline=True).get(None)\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('sigstore', 'tuf', 'pydantic')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "change",
    [
        {"mediaType": "application/json"},
        {"tlogs": [{}], "certificateAuthorities": []},
        {"tlogs": [], "certificateAuthorities": [{"certChain": {"certificates": []}}]},
        {"certificateAuthorities": "x"},
        {"tlogs": [5]},
    ],
)
def test_root_that_is_none_is_refused(sigstore: Sigstore, change: dict[str, Any]) -> None:
    document = json.loads(sigstore.trusted_root()) | change
    with pytest.raises(PolicyError, match="cannot be used"):
        parse_trusted_root(json.dumps(document).encode(), "root.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tlogs": [{}]}, "tlogs[1] cannot be read"),
        ({"tlogs": [{"publicKey": {"rawBytes": "AAAA"}, "logId": {"keyId": "AAAA"}}]}, "its key cannot be used"),
        ({"certificateAuthorities": [{"certChain": {"certificates": []}}]}, "it has no certificate"),
        (
            {"certificateAuthorities": [{"certChain": {"certificates": [{"rawBytes": "AAAA"}]}}]},
            "its certificate cannot be read",
        ),
        ({"timestampAuthorities": [{"certChain": {}}]}, "timestampAuthorities[0]"),
    ],
)
def test_log_or_authority_of_an_unknown_kind_is_left_out_with_a_warning_and_the_others_go_on(
    sigstore: Sigstore, change: dict[str, list[Any]], told: str, shelf: Shelf
) -> None:
    document = json.loads(sigstore.trusted_root())
    for name, entries in change.items():
        document[name] = document.get(name, []) + entries
    heard: list[str] = []
    roots = Roots(None, offline=True, warn=heard.append)
    root = PolicyRoot("root.json", json.dumps(document).encode())
    (warning,) = roots.get(root).left_out
    assert told in warning
    assert [warning in one for one in heard] == [True]
    assert roots.get(root).logs[0].id == sigstore.log_id
    image = make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, sigstore.issue(), sigstore))
    policy = trust(identities=(OURS,), root=root)
    assert verify(image, policy, roots=roots, cache=None, offline=False, now=NOW)


def test_log_with_a_key_of_an_unknown_kind_is_left_out(sigstore: Sigstore) -> None:
    """As the public root will have one, some day."""
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    document = json.loads(sigstore.trusted_root())
    key = Ed448PrivateKey.generate().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    new = document["tlogs"][0] | {"publicKey": document["tlogs"][0]["publicKey"] | {"rawBytes": b64(key)}}
    root = parse_trusted_root(json.dumps(document | {"tlogs": [new, *document["tlogs"]]}).encode(), "public")
    assert [log.id for log in root.logs] == [sigstore.log_id]
    assert "tlogs[0] cannot be read: it is neither ECDSA, RSA nor Ed25519" in root.left_out


def test_certificate_needs_an_sct_also_where_no_ct_log_of_the_root_can_be_read(
    sigstore: Sigstore, shelf: Shelf
) -> None:
    document = json.loads(sigstore.trusted_root())
    document["ctlogs"][0]["publicKey"]["rawBytes"] = "AAAA"
    image = make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, sigstore.issue(), sigstore))
    root = PolicyRoot("root.json", json.dumps(document).encode())
    assert "no SCT of a trusted CT log" in refuse(image, trust(identities=(OURS,), root=root)).message


@pytest.mark.parametrize(
    ("kind", "period"),
    [
        ("tlogs", None),
        ("tlogs", {}),
        ("tlogs", {"end": "2099-01-01T00:00:00Z"}),
        ("ctlogs", {}),
        ("ctlogs", {"end": "2099-01-01T00:00:00Z"}),
    ],
)
def test_log_whose_key_has_no_start_is_left_out(sigstore: Sigstore, kind: str, period: dict[str, str] | None) -> None:
    document = json.loads(sigstore.trusted_root())
    key = document[kind][0]["publicKey"]
    key.pop("validFor")
    if period is not None:
        key["validFor"] = period
    root = parse_trusted_root(json.dumps(document).encode(), "root.json")
    assert (root.logs if kind == "tlogs" else root.certificate_logs) == ()
    assert "start" in root.left_out[0]


# --- the kept copy ----------------------------------------------------------------------------------------------------


def find_kept(cache: Path) -> Path:
    (path,) = cache.glob(f"tuf/*/{TARGET}")
    return path


def test_kept_copy_is_guarded_like_verdicts(
    repository: Repository, url: str, sigstore: Sigstore, tmp_path: Path
) -> None:
    """Owner, mode and seal: a foreign root put there is none, online and offline."""
    repository.publish(sigstore.trusted_root(), 1)
    make = partial(Roots, tmp_path, url=url, bootstrap=repository.bootstrap)
    make().get(None)
    path, foreign = find_kept(tmp_path), Sigstore().trusted_root()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    good = path.read_bytes()
    document = json.loads(good)
    content = json.loads(document["content"])
    forged = json.dumps(document | {"content": json.dumps(content | {"root": foreign.decode()})}).encode()
    for data in (forged, foreign, good[:-20], b"", b"[]"):
        path.write_bytes(data)
        with pytest.raises(UnavailableError, match="no copy of the trusted root"):
            make(offline=True).get(None)
        assert make().get(None).logs[0].id == sigstore.log_id, "fetched again"
    for mode in (0o666, 0o620):
        path.chmod(mode)
        with pytest.raises(UnavailableError):
            make(offline=True).get(None)
    path.chmod(0o600)
    path.parent.chmod(0o777)
    with pytest.raises(UnavailableError):
        make(offline=True).get(None)
    path.parent.chmod(0o700)
    assert make(offline=True).get(None).logs[0].id == sigstore.log_id


def test_time_of_the_kept_copy_is_what_it_says_itself(
    repository: Repository, url: str, sigstore: Sigstore, tmp_path: Path
) -> None:
    repository.publish(sigstore.trusted_root(), 1)
    now = datetime.now(UTC).timestamp()
    make = partial(Roots, tmp_path, url=url, bootstrap=repository.bootstrap)
    make(clock=lambda: now - 2 * FRESH_SECONDS).get(None)
    find_kept(tmp_path).touch()
    repository.publish(Sigstore().trusted_root(), 2)
    assert make().get(None).logs[0].id != sigstore.log_id


def test_root_that_cannot_be_used_does_not_replace_one_that_can(
    repository: Repository, url: str, sigstore: Sigstore, tmp_path: Path
) -> None:
    repository.publish(sigstore.trusted_root(), 1)
    Roots(tmp_path, url=url, bootstrap=repository.bootstrap).get(None)
    repository.publish(b'{"mediaType": "application/vnd.dev.sigstore.trustedroot.v9+json", "tlogs": 5}', 2)
    heard: list[str] = []
    late = datetime.now(UTC).timestamp() + FRESH_SECONDS + 60
    roots = Roots(tmp_path, url=url, bootstrap=repository.bootstrap, clock=lambda: late, warn=heard.append)
    assert roots.get(None).logs[0].id == sigstore.log_id
    assert "cannot be used" in heard[0]


def test_silent_host_costs_one_short_attempt_and_that_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuf_update, "SOCKET_SECONDS", 0.5)
    monkeypatch.setattr(roots_module, "read_embedded", lambda url, name: Sigstore().trusted_root())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        heard: list[str] = []
        now = datetime.now(UTC).timestamp()
        make = partial(Roots, tmp_path, url=url, bootstrap=Repository(tmp_path).bootstrap, warn=heard.append)
        began = time.monotonic()
        make(clock=lambda: now).get(None)
        assert time.monotonic() - began < 2
        make(clock=lambda: now + 60).get(None)
        assert ["could not be fetched at" in one for one in heard] == [False, True]
        listener.settimeout(0)
        listener.accept()[0].close()
        with pytest.raises(BlockingIOError):
            listener.accept()
        make(clock=lambda: now + RETRY_SECONDS + 60).get(None)
        listener.accept()[0].close()


@pytest.mark.parametrize(("status", "drop"), [(200, b" "), (200, b"X-A: b\r\n"), (404, b" ")])
def test_host_that_drips_is_left_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, drop: bytes
) -> None:
    """Each piece of a body or of a head comes in time, and all of them never."""
    monkeypatch.setattr(tuf_update, "ALL_SECONDS", 1.0)

    class Dripping(Quiet):
        def do_GET(self) -> None:
            self.send_response(status)
            if drop == b" ":
                self.send_header("Content-Length", "1000")
                self.end_headers()
            else:
                self.flush_headers()
            with suppress(OSError):
                for _ in range(80):
                    self.wfile.write(drop)
                    time.sleep(0.1)

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        began = time.monotonic()
        try:
            with pytest.raises(UnavailableError, match=r"more than 1 seconds|no response in time"):
                tuf_update.fetch_target(
                    f"http://127.0.0.1:{server.server_port}", TARGET, tmp_path, Repository(tmp_path).bootstrap
                )
            assert time.monotonic() - began < 5
        finally:
            server.shutdown()
            thread.join()
