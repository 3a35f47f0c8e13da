"""What there is to run: `list`, `versions`, `info`, `pull` and `catalog` over stand-ins of what lies below them."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import UnavailableError
from schedkit.host import managed
from schedkit.host.machine import Machine
from schedkit.images import catalog
from schedkit.images.catalog_remote import PUBLISHED
from schedkit.images.image import Image
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes import drivers
from schedkit.runtimes.view import Runtimes
from schedkit.schedctl import session as sessions
from schedkit.unknown import Unknown
from tests.documents import undocumented
from tests.unit.kernel.roots import FREE, write_files, write_sched_ext
from tests.unit.schedctl.fakes import (
    DIGEST,
    HIDDEN,
    OBSERVED,
    FakeRegistry,
    FakeRuntime,
)
from tests.unit.schedctl.runner import call, note, read
from tests.unit.trust.shelf import change_image


def test_list_marks_what_is_here(runtime: FakeRuntime) -> None:
    rows = {row["name"]: row for row in read("list")["schedulers"]}
    assert (rows["scx_rusty"]["pulled"], rows["scx_rusty"]["attached"]) == (True, True)
    assert (rows["scx_lavd"]["pulled"], rows["scx_lavd"]["attached"]) == (False, False)
    assert "scx_rusty" in next(line for line in call("list").stdout.splitlines() if "attached" in line)


@pytest.mark.parametrize(
    ("observed", "attached"),
    [
        (OBSERVED._replace(managed=()), True),  # whoever started it
        (OBSERVED._replace(managed=(), kernel=KernelState(State.DISABLED)), False),
        (OBSERVED._replace(managed=(), kernel=KernelState(State.ENABLED, ops="other")), False),
        (OBSERVED._replace(managed=(), unreachable=(HIDDEN,), kernel=KernelState(State.ENABLED, ops="other")), None),
        (OBSERVED._replace(managed=(), kernel=KernelState(Unknown("no"))), None),
    ],
)
def test_list_tells_what_the_kernel_has(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, observed: Any, attached: bool | None
) -> None:
    monkeypatch.setattr(managed, "observe", lambda *_: observed)
    rows = {row["name"]: row["attached"] for row in read("list")["schedulers"]}
    assert rows["scx_rusty"] is attached


def test_list_does_not_claim_to_know_what_a_silent_driver_has(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "find_runtimes", lambda *_, **__: Runtimes([runtime], [HIDDEN]))
    assert {row["pulled"] for row in read("list")["schedulers"]} == {None}


def test_image_that_an_engine_pulled_from_a_mirror_is_pulled(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "fetch_repositories", lambda: frozenset({"mirror.lan/ghcr/schedkit/scx_rusty"}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "schedkit").mkdir()
    for mirror, pulled in (("mirror.lan/ghcr", True), ("mirror.lan", False)):
        (tmp_path / "schedkit/config.toml").write_text(f'[mirrors]\n"ghcr.io" = ["{mirror}"]\n')
        rows = {row["name"]: row["pulled"] for row in read("list")["schedulers"]}
        assert rows["scx_rusty"] is pulled


def test_versions_are_the_registrys_with_what_is_here(runtime: FakeRuntime) -> None:
    document = read("versions", "scx_rusty", "--limit", "2")
    assert [row["tag"] for row in document["versions"]] == ["latest", "1.1.4"]
    assert (document["total"], document["versions"][0]["here"]) == (3, True)
    assert "1 older" in call("versions", "scx_rusty", "--limit", "2").stderr


def test_version_is_here_when_its_manifest_is_as_that_is_what_runtimes_pull(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = "sha256:" + "1" * 64
    monkeypatch.setattr(FakeRegistry, "fetch_digests", lambda *_: (index, DIGEST))
    (row,) = read("versions", "scx_rusty", "--limit", "1")["versions"]
    assert (row["digest"], row["here"]) == (index, True)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel with which all is well, as files."""
    root = tmp_path / "root"
    write_sched_ext(root, FREE)
    files = {"proc/sys/kernel/osrelease": "6.12.107", "proc/version": "Linux version 6.12.107 #1 SMP"}
    write_files(root, files | {"proc/cmdline": "quiet"})
    btf = root / "sys/kernel/btf/vmlinux"
    btf.parent.mkdir()
    btf.write_bytes(struct.pack("<HBB5I", 0xEB9F, 1, 0, 24, 0, 0, 0, 1) + b"\0")
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(root=root))
    return root


def test_info_has_the_fields_of_the_go_schedctl(runtime: FakeRuntime) -> None:
    document = read("info", "scx_rusty")
    assert [document[name] for name in ("image_ref", "created", "architecture")] == [
        "ghcr.io/schedkit/scx_rusty:latest",
        "2026-01-02T03:04:05Z",
        "amd64",
    ]


def test_info_says_whether_this_kernel_will_do(runtime: FakeRuntime, kernel: Path) -> None:
    assert read("info", "scx_rusty")["kernel"] == {"fits": True, "obstacles": []}
    write_files(kernel, {"proc/sys/kernel/osrelease": "6.1.0"})
    (kernel / "sys/kernel/btf/vmlinux").unlink()
    document = read("info", "scx_rusty")
    assert document["kernel"]["fits"] is False
    assert [one["id"] for one in document["kernel"]["obstacles"]] == ["kernel.version", "kernel.btf"]
    assert "kernel.version: 6.1.0, older than 6.12 (boot a kernel of 6.12 or later)" in call("info", "scx_rusty").stdout


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("latest", "6.12.107; the required minimum reads 'latest', not a version"),
        ("", "the image does not say which kernel it needs"),
    ],
)
def test_info_does_not_know_what_an_image_does_not_say(
    runtime: FakeRuntime, kernel: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, seen: str
) -> None:
    fetch = FakeRegistry.fetch_image

    def relabelled(*arguments: Any) -> Any:
        return change_image(fetch(*arguments), labels={"org.schedkit.scheduler.kernel.min-version": wanted})

    monkeypatch.setattr(FakeRegistry, "fetch_image", relabelled)
    document = read("info", "scx_rusty")["kernel"]
    assert (document["fits"], [one["detail"] for one in document["obstacles"]]) == (None, [seen])
    said = call("info", "scx_rusty").stdout
    assert "runs here       unknown" in said
    assert ("kernel          not stated" in said) is (not wanted)


def test_info_does_not_know_what_the_kernel_does_not_show(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(root=tmp_path / "nothing"))
    assert read("info", "scx_rusty")["kernel"]["fits"] is None


def test_pull_shows_progress_and_obeys_the_same_rule_as_run(runtime: FakeRuntime) -> None:
    call("pull", "scx_rusty", code=21)
    assert runtime.pulled == []
    assert read("pull", "scx_rusty", "--allow-unsigned")["digest"] == DIGEST
    assert runtime.pulled == [DIGEST]
    assert "100% of" in call("pull", "scx_rusty", "--allow-unsigned").stderr


def test_catalog_update_tells_what_changed(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, catalog, "update_catalogs", ["the catalog x: unchanged"])
    said = json.loads(call("--catalog", "https://example.com/c.json", "catalog", "update", "-o", "json").stdout)
    assert (said["changes"], undocumented("catalog update", said)) == (["the catalog x: unchanged"], [])
    assert calls[0][0] == [PUBLISHED, "https://example.com/c.json"]
    call("catalog", "update")
    assert calls[1][0] == [PUBLISHED]
    call("catalog", "update", PUBLISHED)
    assert calls[2][0] == [PUBLISHED]


def test_catalog_update_takes_only_what_has_the_digest(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, catalog, "update_catalogs", ["the catalog x: unchanged"])
    monkeypatch.setenv("SCHEDCTL_CATALOG", "https://example.com/c.json")
    call("catalog", "update", "--digest", DIGEST)
    assert calls[0][0] == [f"{PUBLISHED}#sha256={'d' * 64}"]
    call("catalog", "update", "https://example.com/c.json", "--digest", DIGEST)
    assert calls[1][0] == [f"https://example.com/c.json#sha256={'d' * 64}"]
    call("catalog", "update", "--digest", "sha256:abc", code=64)
    call("catalog", "update", "https://example.com/other.json", code=64)
    assert len(calls) == 2


def test_info_shows_what_the_catalog_says_where_the_registry_cannot_be_reached(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch_image(*_: object) -> Image:
        raise UnavailableError("cannot resolve ghcr.io (DNS lookup failed)")

    monkeypatch.setattr(FakeRegistry, "fetch_image", fetch_image)
    said = call("info", "lavd", code=69).stdout
    assert "good for        games and interactive desktops\n" in said
    assert "gaming      --performance\n" in said
    document = read("info", "lavd", code=69)
    assert (document["scheduler"], document["modes"]["gaming"]) == ("scx_lavd", ["--performance"])
    for unknown in ("digest", "size", "labels", "kernel", "created"):
        assert document[unknown] == {"unknown": "cannot resolve ghcr.io (DNS lookup failed)"}
    assert call("info", "ghcr.io/example/other:edge", code=69).stdout == ""
