"""The trusted root: from the policy, from a TUF repository (a real one), from the copy that came along."""

import json
import subprocess
import sys
from collections.abc import Iterator
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
from schedkit.trust.errors import PolicyError
from schedkit.trust.roots import FRESH_SECONDS, PUBLIC, TARGET, Roots, read_embedded
from schedkit.trust.trusted_root import parse_trusted_root
from tests.unit.trust.material import Sigstore


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
    """A canary for where the sigstore package keeps it."""
    data = read_embedded(PUBLIC, TARGET)
    assert data is not None
    root = parse_trusted_root(data, "embedded")
    assert {"https://rekor.sigstore.dev"} <= {log.url for log in root.logs}
    assert root.authorities
    assert root.certificate_logs
    assert root.clocks
    assert read_embedded(PUBLIC, "root.json")
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
        {"tlogs": [{}]},
        {"tlogs": [{"publicKey": {"rawBytes": "AAAA"}, "logId": {"keyId": "AAAA"}}]},
        {"certificateAuthorities": [{"certChain": {"certificates": []}}]},
        {"certificateAuthorities": [{"certChain": {"certificates": [{"rawBytes": "AAAA"}]}}]},
        {"certificateAuthorities": "x"},
    ],
)
def test_root_that_is_none_is_refused(sigstore: Sigstore, change: dict[str, Any]) -> None:
    document = json.loads(sigstore.trusted_root()) | change
    with pytest.raises(PolicyError, match="cannot be used"):
        parse_trusted_root(json.dumps(document).encode(), "root.json")
