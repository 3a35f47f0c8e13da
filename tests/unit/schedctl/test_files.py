"""--config: a file of this machine for a scheduler that reads one."""

import json
from pathlib import Path

import pytest

from schedkit.errors import SchedkitError
from schedkit.host.model import Host, RunRequest, Verify
from schedkit.runtimes.containerd.spec import HostFacts, ImageConfig, make_spec
from schedkit.runtimes.containerd.users import User
from schedkit.runtimes.model import ContainerSpec
from schedkit.schedctl.group import schedctl
from tests.unit.schedctl.fakes import ATTACHED, FakeRuntime
from tests.unit.schedctl.runner import make_runner


def test_files_are_named_in_full(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[RunRequest] = []

    def run(_host: Host, request: RunRequest, _verify: Verify) -> object:
        made.append(request)
        return ATTACHED

    monkeypatch.setattr("schedkit.host.run.run", run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers.json").write_text("[]")
    (tmp_path / "link").symlink_to("layers.json")
    make_runner().invoke(schedctl, ["run", "scx_rusty", "--config", "layers.json", "--config", "./link"])
    assert made[0].files == (f"{tmp_path}/layers.json", f"{tmp_path}/link")


@pytest.mark.parametrize("name", ["nothing.json", "."])
def test_what_is_no_file_is_refused(runtime: FakeRuntime, tmp_path: Path, name: str) -> None:
    done = make_runner().invoke(schedctl, ["switch", "scx_rusty", "--config", str(tmp_path / name)])
    assert isinstance(done.exception, SchedkitError)
    assert ("not a file" if name == "." else "no such file") in done.exception.message
    assert runtime.pulled == []


def test_containerd_binds_them_read_only() -> None:
    config = ImageConfig(entrypoint=("/scx",))
    spec = ContainerSpec("x", files=("/etc/layers: all.json",))
    document = json.loads(make_spec("id", config, spec, User(), HostFacts((), (), True)))
    (mount,) = [one for one in document["mounts"] if one["destination"] == "/etc/layers: all.json"]
    assert (mount["source"], mount["options"]) == ("/etc/layers: all.json", ["rbind", "ro"])
