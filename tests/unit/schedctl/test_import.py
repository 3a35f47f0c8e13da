"""`import scx_loader`: its choice and its flags, over a host where everything works and a fake systemctl."""

import sys
import tomllib
from pathlib import Path

import pytest

from schedkit.errors import UsageError
from schedkit.host import lasting, switch
from schedkit.host.errors import SlotTakenError
from schedkit.host.machine import Machine
from schedkit.host.units import ENABLED, Choice, read_choice
from schedkit.schedctl import session as sessions
from schedkit.schedctl import settings as sources
from schedkit.schedctl.config_edit import add_modes
from tests.unit.host.fake_systemd import FakeSystemd, systemd
from tests.unit.schedctl.fakes import SWITCHED, FakeRuntime
from tests.unit.schedctl.runner import call, note, read

__all__ = ["systemd"]

CHOSEN = 'default_sched = "scx_rusty"\ndefault_mode = "Gaming"\n'
FLAGS = """\
[scheds.scx_rusty]
gaming_mode = ["-k", "a b"]
server_mode = []

[scheds.scx_lavd]
gaming_mode = ["--performance"]
powersave_mode = ["--powersave"]
"""
LINE = "schedctl enable scx_rusty -- -k 'a b'"


class Here:
    """A machine that systemd runs, scx_loader's file and schedctl's."""

    def __init__(self, machine: Machine, config: Path) -> None:
        self.root = machine.root
        self.config = config
        self.loader = machine.root / "etc/scx_loader.toml"
        self.loader.parent.mkdir(parents=True)

    @property
    def choice(self) -> Choice | None:
        found = read_choice(self.root, ENABLED)
        assert found is None or isinstance(found, Choice)
        return found

    def run_loader(self) -> None:
        (self.root / "sys/fs/cgroup/system.slice/scx_loader.service").mkdir(parents=True)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: FakeRuntime, systemd: FakeSystemd) -> Here:
    machine = Machine(root=tmp_path / "root", lock=tmp_path / "run/lock")
    (machine.root / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(sessions, "Machine", lambda: machine)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/true"])
    monkeypatch.setattr(lasting, "find_chosen", lambda *_: None)
    monkeypatch.setattr(sources, "SYSTEM_FILE", tmp_path / "etc/config.toml")
    monkeypatch.setattr(switch, "switch", lambda *_, **__: SWITCHED)
    return Here(machine, tmp_path / "etc/config.toml")


def test_what_scx_loader_starts_is_enabled(here: Here) -> None:
    call("import", "scx_loader", code=66)
    here.loader.write_text(f"{CHOSEN}{FLAGS}")
    document = read("import", "scx_loader", "--allow-unsigned")
    assert (document["command"], document["applied"], document["steps"]) == (LINE, True, [])
    assert here.choice
    assert (here.choice.args, here.choice.mode) == (("-k", "a b"), "gaming")
    told = call("import", "scx_loader", "--allow-unsigned")
    assert told.stdout.endswith("scx_rusty is enabled: schedkit.service starts it at boot, not scx_loader.service\n")
    assert "not imported" not in told.stderr


def test_flags_of_other_modes_and_schedulers_become_those_of_mode(here: Here) -> None:
    here.loader.write_text(f"{CHOSEN}{FLAGS}")
    told = call("import", "scx_loader", "--allow-unsigned").stdout.splitlines()
    assert told[2:] == [
        f"{here.config}: modes.scx_rusty.gaming = -k 'a b'",
        f"{here.config}: modes.scx_rusty.server = (no flags)",
        f"{here.config}: modes.scx_lavd.gaming = --performance",
        f"{here.config}: modes.scx_lavd.powersave = --powersave",
    ]
    assert tomllib.loads(here.config.read_text()) == {
        "modes": {
            "scx_rusty": {"gaming": ["-k", "a b"], "server": []},
            "scx_lavd": {"gaming": ["--performance"], "powersave": ["--powersave"]},
        }
    }


def test_modes_that_are_set_already_stay(here: Here) -> None:
    here.loader.write_text(f'{CHOSEN}{FLAGS}auto_mode = [""]\n')
    here.config.parent.mkdir()
    here.config.write_text('# Ours\ndriver = "podman"\n[modes.lavd]  # mine\ngaming = ["--own"]  # fast\n')
    told = call("import", "scx_loader", "--allow-unsigned")
    path = here.config
    assert f"not imported: modes.scx_lavd.gaming = --performance: other flags are set already, and stay ({path})" in (
        told.stderr
    )
    assert "not imported: modes.scx_lavd.auto = '': schedctl does not accept these flags" in told.stderr
    assert here.config.read_text() == (
        '# Ours\ndriver = "podman"\n[modes.lavd]  # mine\npowersave = ["--powersave"]\ngaming = ["--own"]  # fast\n'
        '\n[modes.scx_rusty]\ngaming = ["-k", "a b"]\nserver = []\n'
    )
    document = read("import", "scx_loader", "--allow-unsigned", "--dry-run")
    assert [one["imported"] for one in document["modes"]] == [False] * 5
    assert document["modes"][0]["why"] == "the same flags are set already"


def test_dry_run_says_all_that_would_be_done_and_does_nothing(
    here: Here, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.loader.write_text(f"{CHOSEN}{FLAGS}")
    here.run_loader()
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    told = call("import", "scx_loader", "--dry-run", "--allow-unsigned")
    image = "ghcr.io/schedkit/scx_rusty:latest@sha256:" + "d" * 64
    assert told.stdout.splitlines() == [
        f"would use {image}, which podman has already",
        "would stop and disable scx_loader.service",
        "would create the container scx_rusty-2 in podman, with -k 'a b'",
        "would start scx_rusty-2, and wait up to 30s for the kernel to attach it",
        f"would have schedkit.service start {image} at boot",
        f"would set modes.scx_rusty.gaming = -k 'a b' in {here.config}",
        f"would set modes.scx_rusty.server = (no flags) in {here.config}",
        f"would set modes.scx_lavd.gaming = --performance in {here.config}",
        f"would set modes.scx_lavd.powersave = --powersave in {here.config}",
    ]
    assert told.stderr.splitlines()[0] == f"{here.loader}: scx_rusty, gaming mode; here: {LINE}"
    document = read("import", "scx_loader", "--dry-run", "--allow-unsigned")
    assert (document["command"], document["applied"]) == (LINE, False)
    assert document["steps"] == [line.removeprefix("would ") for line in told.stdout.splitlines()]
    assert (switches, systemd.calls, here.choice, here.config.exists()) == ([], [], None, False)


@pytest.mark.parametrize("dry_run", [["--dry-run"], []])
def test_dry_run_fails_as_the_import_would(here: Here, monkeypatch: pytest.MonkeyPatch, dry_run: list[str]) -> None:
    here.loader.write_text('default_sched = "scx_own"')
    refused = call("import", "scx_loader", *dry_run, code=66)
    assert "scx_loader 1.1.3 does not know it: it is taken without any" in refused.stderr
    here.loader.write_text(CHOSEN)
    call("import", "scx_loader", *dry_run, code=21)  # not signed
    call("import", "scx_loader", "--file", str(here.root), *dry_run, code=65)
    note(monkeypatch, switch, "check_switch", SlotTakenError("another has it"))
    call("import", "scx_loader", "--allow-unsigned", *dry_run, code=10)
    here.config.parent.mkdir()
    here.config.write_text("modes = 1\n")
    call("import", "scx_loader", "--allow-unsigned", *dry_run, code=65)


def test_flags_that_scx_loader_has_built_in_are_told(here: Here) -> None:
    here.loader.write_text('default_sched = "scx_bpfland"\ndefault_mode = "Server"')
    told = call("import", "scx_loader", "--dry-run", "--allow-unsigned")
    assert "in server mode: those that scx_loader 1.1.3 has built in are taken\n" in told.stderr
    assert "here: schedctl enable scx_bpfland -- -s 20000 -S\n" in told.stderr


def test_file_that_cannot_be_added_to_safely_is_left_before_anything_is_done(here: Here) -> None:
    here.loader.write_text(f"{CHOSEN}{FLAGS}")
    here.config.parent.mkdir()
    text = 'modes = {scx_lavd = {gaming = ["--own"]}}\n'
    here.config.write_text(text)
    call("import", "scx_loader", "--allow-unsigned", code=64)
    assert (here.choice, here.config.read_text()) == (None, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only this",
        "[modes.x]",
        "[modes.x] # why\r\nauto = []\r\n",
        '[modes."x.y"]\nauto = []\n[mirrors]\n',
        'driver = "podman"\n\n',
    ],
)
def test_every_mode_comes_back_and_comments_stay(text: str) -> None:
    edited = add_modes(text, {"x": {"gaming": ("-a", 'b"c')}, "x.y": {"server": ()}}, "the file")
    wanted = tomllib.loads(text)
    modes = wanted.setdefault("modes", {})
    modes["x"] = {**modes.get("x", {}), "gaming": ["-a", 'b"c']}
    modes["x.y"] = {**modes.get("x.y", {}), "server": []}
    assert tomllib.loads(edited) == wanted
    assert ("# why" in text) is ("# why" in edited)
    assert ("\r" in text) is ("\r" in edited)
    assert add_modes(text, {}, "the file") == text


def test_section_that_is_not_on_lines_of_its_own_is_left_to_an_editor() -> None:
    with pytest.raises(UsageError, match="modes cannot be added safely to the file") as refused:
        add_modes("[modes]\nx.auto = []\n", {"x": {"gaming": ()}}, "the file")
    assert refused.value.hint == "add [modes.x] with an editor"
