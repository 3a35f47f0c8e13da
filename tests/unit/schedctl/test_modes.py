"""Purposes instead of flags, and short names."""

import json
from pathlib import Path

import pytest

from schedkit.errors import BadDataError, SchedkitError, UsageError
from schedkit.host.model import Host, RunRequest, Verify
from schedkit.images.catalog import Catalog, CatalogEntry
from schedkit.images.catalog_document import MODES, parse_catalog
from schedkit.images.reference import Reference
from schedkit.schedctl.config_file import parse_config
from schedkit.schedctl.group import schedctl
from schedkit.schedctl.modes import MODE_NAMES, join_modes
from schedkit.schedctl.settings import Flags, read_settings
from tests.documents import missing, undocumented
from tests.unit.schedctl.fakes import ATTACHED, DIGEST, SWITCHED, FakeRuntime
from tests.unit.schedctl.runner import make_runner


@pytest.fixture
def requests(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """What reaches the host."""
    made: list[RunRequest] = []

    def run(_host: Host, request: RunRequest, _verify: Verify) -> object:
        made.append(request)
        return ATTACHED

    def switch(_host: Host, request: RunRequest, _verify: Verify) -> object:
        made.append(request)
        return SWITCHED

    monkeypatch.setattr("schedkit.host.run.run", run)
    monkeypatch.setattr("schedkit.host.switch.switch", switch)
    return made


def call(*words: str) -> str:
    done = make_runner().invoke(schedctl, list(words), catch_exceptions=False)
    return done.stdout


def refuse(*words: str) -> SchedkitError:
    done = make_runner().invoke(schedctl, list(words))
    assert isinstance(done.exception, SchedkitError)
    return done.exception


@pytest.mark.parametrize("command", ["run", "switch"])
def test_a_mode_is_flags_before_ones_own(requests: list[RunRequest], command: str) -> None:
    call(command, "scx_lavd", "--mode", "gaming", "--", "--verbose")
    assert requests[0].args == ("--performance", "--verbose")


def test_auto_is_for_every_scheduler_and_other_modes_are_not(requests: list[RunRequest]) -> None:
    call("run", "scx_rusty", "--mode", "auto")
    assert requests[0].args == ()
    refused = refuse("run", "scx_rusty", "--mode", "gaming")
    assert "scx_rusty has no mode gaming: it has no modes" in refused.message
    assert "[modes.scx_rusty]" in refused.hint
    assert len(requests) == 1


def test_the_configuration_file_has_the_last_word(requests: list[RunRequest], tmp_path: Path) -> None:
    (tmp_path / "schedkit").mkdir(exist_ok=True)
    (tmp_path / "schedkit/config.toml").write_text(
        '[modes.scx_lavd]\ngaming = ["--no-preemption"]\n[modes.scx_rusty]\nserver = ["--slice-us", "9"]\n'
    )
    call("run", "lavd", "--mode", "gaming")
    call("run", "rusty", "--mode", "server")
    call("run", "lavd", "--mode", "powersave")
    assert [one.args for one in requests] == [("--no-preemption",), ("--slice-us", "9"), ("--powersave",)]


@pytest.mark.parametrize("name", ["rusty", "scx_rusty", "rusty:v1", "ghcr.io/schedkit/scx_rusty", "rusty@" + DIGEST])
def test_the_hint_names_the_section_that_gives_the_mode(requests: list[RunRequest], tmp_path: Path, name: str) -> None:
    refused = refuse("run", name, "--mode", "gaming")
    assert refused.message == "scx_rusty has no mode gaming: it has no modes"
    assert "[modes.scx_rusty] in config.toml" in refused.hint
    (tmp_path / "schedkit").mkdir(exist_ok=True)
    for section in ("scx_rusty", "rusty"):
        (tmp_path / "schedkit/config.toml").write_text(f'[modes.{section}]\ngaming = ["--{section}"]\n')
        call("run", name, "--mode", "gaming")
        assert requests[-1].args == (f"--{section}",)


def test_an_image_has_the_modes_of_its_scheduler(requests: list[RunRequest]) -> None:
    call("run", "ghcr.io/schedkit/scx_lavd", "--mode", "gaming")
    call("run", "registry.lan:5000/mirror/scx_lavd:v1.1.0", "--mode", "gaming")
    assert [one.args for one in requests] == [("--performance",)] * 2


def test_of_a_short_and_a_full_name_the_users_file_counts() -> None:
    entries = {"scx_x": CatalogEntry("scx_x", Reference("localhost", "scx_x"), modes={"server": ("--own",)})}
    catalog = Catalog(entries)
    for user, system in (("x", "scx_x"), ("scx_x", "x")):
        said: dict[str, dict[str, tuple[str, ...]]] = {
            user: {"gaming": ("--user",)},
            system: {"gaming": ("--system",), "auto": ()},
        }
        wanted = {"server": ("--own",), "gaming": ("--user",), "auto": ()}
        assert join_modes(catalog, said, "x") == join_modes(catalog, said, "scx_x") == wanted


def test_of_two_files_the_users_counts_flag_list_by_flag_list(tmp_path: Path) -> None:
    system, user = tmp_path / "system.toml", tmp_path / "home/schedkit/config.toml"
    user.parent.mkdir(parents=True)
    system.write_text('[modes.scx_lavd]\ngaming = ["--a"]\nserver = ["--b"]\n')
    user.write_text('[modes.scx_lavd]\ngaming = ["--c"]\n')
    settings = read_settings(Flags(), {"XDG_CONFIG_HOME": str(tmp_path / "home")}, system)
    assert settings.modes == {"scx_lavd": {"gaming": ("--c",), "server": ("--b",)}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("modes = 1", "line 1: modes: must be a table"),
        ("[modes]\nscx_lavd = 1", "line 2: scx_lavd: must be a table"),
        ('[modes.scx_lavd]\nfast = ["-x"]', "line 2: fast: is not a mode"),
        ('[modes.scx_lavd]\ngaming = "-x"', "line 2: gaming: must be a list of flags"),
        ('[modes.scx_lavd]\ngaming = ["\\u0000"]', "gaming: must be a list of flags"),
    ],
)
def test_a_wrong_mode_in_a_file_is_told_with_its_line(text: str, why: str) -> None:
    with pytest.raises(BadDataError, match=why):
        parse_config(text, "config.toml")


@pytest.mark.parametrize(
    "entry",
    [
        {"modes": []},
        {"modes": {"fast": []}},
        {"modes": {"gaming": "-x"}},
        {"modes": {"gaming": [""]}},
        {"modes": {"gaming": ["x"] * 51}},
        {"goodFor": 1},
        {"goodFor": "a\nb"},
        {"hidden": "yes"},
    ],
)
def test_a_catalog_with_something_else_there_is_refused(entry: dict[str, object]) -> None:
    document = json.dumps({"scx_x": {"imageURI": "localhost/scx_x", **entry}}).encode()
    with pytest.raises(BadDataError, match="scx_x"):
        parse_catalog(document, "here")


@pytest.mark.parametrize("name", ["lavd", "scx_lavd", "lavd:1.0.14", "lavd@sha256:" + "a" * 64])
def test_the_prefix_may_be_left_out(requests: list[RunRequest], name: str) -> None:
    call("run", name)
    assert requests[0].scheduler == "scx_lavd"
    assert requests[0].image.reference.startswith("ghcr.io/schedkit/scx_lavd")


def test_help_knows_the_modes_there_are() -> None:
    assert MODE_NAMES == MODES
    with pytest.raises(UsageError):
        raise refuse("run", "scx_lavd", "--mode", "gaming", "--restart", "sometimes")


def test_info_shows_the_flags_of_each_mode(runtime: FakeRuntime) -> None:
    said = call("info", "lavd")
    assert "modes           auto        --autopilot\n" in said
    assert "                powersave   --powersave\n" in said
    document = json.loads(call("info", "lavd", "-o", "json"))
    assert document["modes"]["gaming"] == ["--performance"]
    assert undocumented("info", document) == []
    assert missing("info", document) == []


def test_list_is_short_unless_asked(runtime: FakeRuntime) -> None:
    said = call("list").splitlines()
    assert said[0].split("  ")[0] == "NAME"
    assert said[0].split() == ["NAME", "GOOD", "FOR", "HERE"]
    assert any(line.startswith("scx_lavd ") and "games" in line for line in said)
    assert not any("scx_test" in line or "ghcr.io" in line for line in said)
    wide = call("list", "--wide", "--all").splitlines()
    assert wide[0].split() == ["NAME", "GOOD", "FOR", "HERE", "IMAGE"]
    assert any("scx_test" in line and "ghcr.io/schedkit/scx_test" in line for line in wide)
    assert {row["hidden"] for row in json.loads(call("list", "--all", "-o", "json"))["schedulers"]} == {True, False}


def test_a_narrow_terminal_shows_names_and_what_is_here() -> None:
    from schedkit.schedctl.output import Output

    table = Output(None, width=40).table(  # type: ignore[arg-type]
        ("NAME", "GOOD FOR", "HERE"), [("scx_lavd", "games and interactive desktops", "pulled")], elastic=("GOOD FOR",)
    )
    assert table.splitlines()[1].endswith("pulled")
