"""One invocation: which runtimes it asks, and what a name on its command line is."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import ExitCode, NotFoundError, UsageError
from schedkit.images.image import Image, Platform
from schedkit.images.reference import Reference
from schedkit.runtimes.known import DRIVERS
from schedkit.schedctl.session import Session, open_session
from schedkit.schedctl.settings import Flags
from tests.unit.runtimes.fake_engine import INSPECTED, FakeEngine, run_fake_engine
from tests.unit.schedctl.fakes import FakeRegistry
from tests.unit.schedctl.runner import call


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeEngine]:
    """A machine whose docker runs a scheduler's container, beside a podman that runs none."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for driver, one in DRIVERS.items():
        monkeypatch.setenv(one.variable, str(tmp_path / f"{driver}.sock"))
    with (
        run_fake_engine(tmp_path / "docker.sock", "docker") as docker,
        run_fake_engine(tmp_path / "podman.sock", "podman") as podman,
    ):
        docker.on("GET /containers/json", 200, [{"Id": "c0ffee"}])
        docker.on("GET /containers/c0ffee/json", 200, INSPECTED)
        docker.on("GET /images/json", 200, [])
        podman.on("GET /containers/json", 200, [])
        podman.on("GET /images/json", 200, [])
        yield docker


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "schedkit.schedctl", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def names(document: Any) -> list[str]:
    return [one["name"] for one in document.get("containers", document.get("managed"))]


@pytest.mark.parametrize("command", ["run", "switch", "trial", "enable"])
def test_misspelt_name_is_told_before_the_machine_is_looked_at(tmp_path: Path, command: str) -> None:
    done = run(command, "scx_lavdd")
    assert (done.returncode, "did you mean scx_lavd?" in done.stderr) == (66, True)
    assert run(command, " ").returncode == 64


def test_name_of_a_catalog_that_must_be_fetched_first_is_not_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SCHEDCTL_CATALOG", "https://catalog.invalid/catalog.json")
    open_session(Flags()).check_known("our_sched")


def test_image_named_in_full_needs_no_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDCTL_CATALOG", "/nonexistent/catalog.json")
    found = open_session(Flags()).find("localhost:5000/me/scx_mine:v1")
    assert (str(found.reference), found.scheduler) == ("localhost:5000/me/scx_mine:v1", "scx_mine")
    with pytest.raises(NotFoundError, match="does not exist"):
        open_session(Flags()).find("scx_mine")


def test_image_named_in_full_is_run_without_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDCTL_CATALOG", "/nonexistent/catalog.json")
    open_here().check_known("ghcr.io/me/box")
    with pytest.raises(NotFoundError, match="catalog"):
        open_here().check_known("scx_rusty")


def test_registry_with_the_name_of_a_scheduler_is_a_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "catalog.json").write_text('{"box": {"imageURI": "ghcr.io/me/box"}}')
    monkeypatch.setenv("SCHEDCTL_CATALOG", str(tmp_path / "catalog.json"))
    assert str(open_session(Flags()).find("box:5000/scx_mine:v1").reference) == "box:5000/scx_mine:v1"


def test_version_may_be_written_without_its_v(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tagged(FakeRegistry):
        def fetch_image(self, reference: Reference, platform: Platform | None = None) -> Image:
            if reference.tag != "v1.1.0":
                raise NotFoundError(f"{reference} does not exist")
            return super().fetch_image(reference, platform)

    monkeypatch.setattr(Session, "registry", Tagged())
    session = open_session(Flags())
    assert session.fetch_image(session.find("scx_rusty", "1.1.0")).reference.endswith(":v1.1.0")
    for version in ("1.1.1", "edge"):
        with pytest.raises(NotFoundError, match=version):
            session.fetch_image(session.find("scx_rusty", version))


@pytest.mark.parametrize("command", ["status", "ps"])
@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_choice_of_a_driver_does_not_narrow_what_is_seen(
    docker: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, way: str
) -> None:
    words = ["--driver", "podman"] if way == "flag" else []
    if way == "variable":
        monkeypatch.setenv("SCHEDCTL_DRIVER", "podman")
    if way == "file":
        (tmp_path / "schedkit").mkdir()
        (tmp_path / "schedkit/config.toml").write_text('driver = "podman"')
    assert names(json.loads(run(*words, command, "-o", "json").stdout)) == ["idle"]


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_socket_of_the_file_is_asked_also_where_another_driver_is_chosen(
    docker: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    (tmp_path / "docker.sock").rename(tmp_path / "elsewhere.sock")
    (tmp_path / "schedkit").mkdir()
    (tmp_path / "schedkit/config.toml").write_text(f'driver = "docker"\nsocket = "{tmp_path}/elsewhere.sock"')
    if way == "variable":
        monkeypatch.setenv("SCHEDCTL_DRIVER", "podman")
    words = ["--driver", "podman"] if way == "flag" else []
    assert names(json.loads(run(*words, "ps", "-o", "json").stdout)) == ["idle"]


@pytest.mark.parametrize("command", ["status", "ps", "list", "doctor"])
def test_dead_socket_is_told_beside_what_the_others_say(docker: FakeEngine, tmp_path: Path, command: str) -> None:
    dead = str(tmp_path / "dead.sock")
    offline = ["--offline"] if command == "doctor" else []
    said = run("--driver", "containerd", "--socket", dead, command, *offline, "-o", "json")
    document = json.loads(said.stdout)
    if command == "doctor":
        seen = {one["id"]: one["detail"] for one in document["checks"]}
        assert dead in seen["runtime.containerd_socket"]
        assert seen["runtime.any"] == "2 of 3 runtimes respond"
    elif command == "list":
        assert "containerd does not respond (no such socket)" in said.stderr
        assert {one["pulled"] for one in document["schedulers"]} == {None}
    else:
        assert names(document) == ["idle"]
        assert [(one["driver"], one["absent"]) for one in document["unreachable"]] == [("containerd", False)]


@pytest.mark.parametrize("command", ["ps", "list", "images"])
@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_named_driver_that_is_not_there_is_told(
    docker: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, way: str
) -> None:
    monkeypatch.setenv("CONTAINERD_ADDRESS", str(tmp_path / "none.sock"))
    words = ["--driver", "containerd"] if way == "flag" else []
    if way == "variable":
        monkeypatch.setenv("SCHEDCTL_DRIVER", "containerd")
    if way == "file":
        (tmp_path / "schedkit").mkdir()
        (tmp_path / "schedkit/config.toml").write_text('driver = "containerd"')
    assert "containerd does not respond (no such socket)" in run(*words, command).stderr
    assert "containerd" not in run("--driver", "auto", command).stderr


def test_logs_come_from_whichever_runtime_has_the_container(docker: FakeEngine) -> None:
    docker.on("GET /containers/c0ffee/logs", 200, b"\1\0\0\0\0\0\0\6hello\n")
    assert run("--driver", "podman", "logs", "idle").stdout == "hello\n"


def test_patience_of_the_past_does_no_harm(docker: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDCTL_PATIENCE", "0.000001")
    assert names(json.loads(run("ps", "-o", "json").stdout)) == ["idle"]


# A clone below a folder that only root may enter is read before the process becomes somebody else.
AS_NOBODY = """
import gzip, os, shlex, sys, zlib
import schedkit.kernel.btf, schedkit.host.doctor, schedkit.host.preparing, schedkit.host.run, schedkit.host.switch
import schedkit.images.catalog, schedkit.kernel.preflight, schedkit.runtimes.engine, schedkit.schedctl.group
from schedkit.schedctl.main import main
__import__("schedkit.schedctl.commands." + sys.argv[1])
os.setgroups([])
os.setuid(65534)
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
main()
"""


def run_as_nobody(command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", AS_NOBODY, *command.split()]
    own = {"XDG_CONFIG_HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}  # pytest's folders are root's
    return subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | own)


@pytest.mark.parametrize(
    "command",
    ["run {}", "switch {}", "enable {}", "trial {}", "bench --with none,{} --workload mixed"],
)
def test_misspelt_name_is_told_before_root_is_asked_for(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    told = call(*command.format("lavdd").split(), code=ExitCode.NOT_FOUND).exception
    assert "the catalog has no scheduler 'lavdd'" in str(told)
    call(*command.format("lavd").split(), code=ExitCode.NO_PERMISSION)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("command", ["run scx_rusty", "switch scx_rusty", "stop", "stop --all", "detach --yes"])
def test_what_needs_root_says_so_first(docker: FakeEngine, command: str) -> None:
    done = run_as_nobody(command)
    assert done.stderr == f"error: schedctl {command.split(maxsplit=1)[0]} needs root\nhint: sudo schedctl {command}\n"
    assert done.returncode == 77
    assert docker.requests == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_doctor_shows_what_it_can_see_and_says_that_it_needs_root(docker: FakeEngine, tmp_path: Path) -> None:
    done = run_as_nobody("doctor --offline")
    assert done.stderr == "error: schedctl doctor needs root\nhint: sudo schedctl doctor --offline\n"
    assert (done.returncode, "caps.cap_bpf" in done.stdout) == (77, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("command", ["logs", "pull scx_rusty --offline"])
def test_runtime_that_only_root_may_ask_says_so(docker: FakeEngine, tmp_path: Path, command: str) -> None:
    tmp_path.chmod(0o755)
    for path in tmp_path.glob("*.sock"):
        path.chmod(0o600)
    done = run_as_nobody(command)
    assert done.stderr.endswith(f"hint: sudo schedctl {command}\n")
    assert "permission denied" in done.stderr
    assert done.returncode == 77


def open_here(**flags: str) -> Session:
    return open_session(Flags(**flags))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "version", "reference", "scheduler"),
    [
        ("scx_rusty", None, "ghcr.io/schedkit/scx_rusty:latest", "scx_rusty"),
        ("scx_rusty", "1.1.3", "ghcr.io/schedkit/scx_rusty:1.1.3", "scx_rusty"),
        ("scx_rusty:1.1.3", None, "ghcr.io/schedkit/scx_rusty:1.1.3", "scx_rusty"),
        ("localhost:5000/a/mine", None, "localhost:5000/a/mine:latest", "mine"),
        ("localhost:5000/a/mine:old", "new", "localhost:5000/a/mine:new", "mine"),
        ("scx_rusty", f"sha256:{'a' * 64}", f"ghcr.io/schedkit/scx_rusty@sha256:{'a' * 64}", "scx_rusty"),
    ],
)
def test_a_name_is_an_image_and_a_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str | None, reference: str, scheduler: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    named = open_here().find(name, version)
    assert (str(named.reference), named.scheduler) == (reference, scheduler)


@pytest.mark.parametrize(
    "version",
    ["1.0#x", "1.0?x=1", "../../../evil/z/manifests/latest", "a b", "-x", "t" * 129, "sha256:abc", f"md5:{'a' * 32}"],
)
def test_a_version_that_is_no_tag_and_no_digest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="is not a version"):
        open_here().find("scx_rusty", version)


@pytest.mark.parametrize("name", ["http://registry.lan", "registry.lan/path", "registry.lan:x", "[::1"])
def test_an_insecure_registry_that_is_no_registry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="--insecure-registry"):
        open_session(Flags(insecure_registries=(name,)))
    assert open_session(Flags(insecure_registries=("registry.lan:5000",))).registry_settings.insecure
