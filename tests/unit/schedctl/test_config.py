"""`config`: what is in effect and why, and files of which one line is changed."""

import os
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from schedkit.errors import SchedkitError, UsageError
from schedkit.schedctl import settings as sources
from schedkit.schedctl.config_edit import change_file, edit_text
from schedkit.schedctl.config_file import KEYS
from schedkit.schedctl.effective import LISTS, SHOWN, Setting, read_effective
from schedkit.schedctl.settings import Flags, Settings, read_settings
from tests.unit.schedctl.fakes import FakeRuntime
from tests.unit.schedctl.runner import call, read

SYSTEM = """\
# Ours
driver = "docker"            # as everywhere
socket = "/run/a # b.sock"   # not the usual one
insecure-registries = ["registry.lan:5000"]

[mirrors]
"ghcr.io" = ["mirror.lan"]
"docker.io" = ["other.lan"]

[modes.scx_lavd]
gaming = ["--performance"]
server = []
"""
USER = """\
catalogs = ["/mine.json"]
insecure-registries = ["mine.lan"]
trust-policy = "/mine.yaml"
[mirrors]
"ghcr.io" = ["mine.lan"]
"""


@pytest.fixture(autouse=True)
def files(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    """The user's file and the system's, of which none is there."""
    system = tmp_path / "etc/config.toml"
    monkeypatch.setattr(sources, "SYSTEM_FILE", system)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "schedkit").mkdir()
    system.parent.mkdir()
    return tmp_path / "schedkit/config.toml", system


def is_in_effect(setting: Setting, settings: Settings) -> bool:
    """Whether commands go by this value."""
    key, value = setting.key, setting.value
    table, _, entry = key.partition(".")
    if key == "socket":
        return settings.sockets.get(settings.driver) == value
    if value is None:
        return not getattr(settings, key.replace("-", "_"))
    if table == "mirrors":
        return settings.mirrors[entry] == value
    if table == "modes":
        scheduler, _, mode = entry.rpartition(".")
        return settings.modes[scheduler][mode] == value
    if key in LISTS:
        assert isinstance(value, tuple)
        return set(value) <= set(getattr(settings, key.replace("-", "_")))
    return bool(getattr(settings, key.replace("-", "_")) == value)


@pytest.mark.parametrize("user", ["", USER])
@pytest.mark.parametrize("system", ["", SYSTEM])
@pytest.mark.parametrize("flags", [Flags(), Flags(driver="containerd", socket="/x.sock", catalogs=("/flag.json",))])
@pytest.mark.parametrize("environ", [{}, {"SCHEDCTL_DRIVER": "podman", "SCHEDCTL_CATALOG": "/a.json,/b.json"}])
def test_what_is_shown_is_what_commands_go_by(
    user: str, system: str, flags: Flags, environ: dict[str, str], files: tuple[Path, Path], tmp_path: Path
) -> None:
    for path, text in zip(files, (user, system), strict=True):
        if text:
            path.write_text(text)
    variables = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path), **environ}
    shown = read_effective(flags, variables)
    settings = read_settings(flags, variables, files[1])
    assert [one for one in shown if not is_in_effect(one, settings)] == []
    assert {one.key.partition(".")[0] for one in shown} == {*KEYS, "allow-unsigned"} == set(SHOWN)


def test_socket_is_that_of_the_driver_in_effect(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*words: str) -> tuple[str | None, str]:
        (row,) = [one for one in read("config", *words)["settings"] if one["key"] == "socket"]
        return row["value"], row["source"] or row["origin"]

    files[1].write_text(SYSTEM)
    monkeypatch.setenv("CONTAINER_HOST", "unix:///run/mine.sock")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/other.sock")
    assert find() == ("/run/a # b.sock", str(files[1]))
    assert find("--driver", "podman") == ("unix:///run/mine.sock", "CONTAINER_HOST")
    assert find("--driver", "containerd") == (None, "default")


def test_every_setting_is_shown_with_its_origin(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    files[0].write_text(USER)
    files[1].write_text(SYSTEM)
    monkeypatch.setenv("SCHEDCTL_ALLOW_UNSIGNED", "1")
    document = read("config")
    rows = [(one["key"], one["value"], one["origin"]) for one in document["settings"]]
    assert rows == [
        ("driver", "docker", "system"),
        ("socket", "/run/a # b.sock", "system"),
        ("catalogs", ["/mine.json"], "user"),
        ("insecure-registries", ["mine.lan"], "user"),
        ("insecure-registries", ["registry.lan:5000"], "system"),
        ("mirrors.ghcr.io", ["mine.lan"], "user"),
        ("mirrors.docker.io", ["other.lan"], "system"),
        ("ca-file", None, "default"),
        ("trust-policy", "/mine.yaml", "user"),
        ("modes.scx_lavd.gaming", ["--performance"], "system"),
        ("modes.scx_lavd.server", [], "system"),
        ("allow-unsigned", True, "environment"),
    ]
    assert document["settings"][0]["source"] == str(files[1])
    assert document["settings"][-1]["source"] == "SCHEDCTL_ALLOW_UNSIGNED"


def test_settings_are_a_table() -> None:
    lines = call("config").stdout.splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "FROM", "SOURCE"]
    assert lines[1].split() == ["driver", "auto", "default", "-"]
    assert call("--driver", "podman", "config").stdout.splitlines()[1].split() == [
        "driver",
        "podman",
        "flag",
        "--driver",
    ]


def test_settings_are_listed_also_by_the_word_for_it() -> None:
    for options in ([], ["-o", "json"]):
        assert call("config", "list", *options).stdout == call("config", *options).stdout


def test_get_prints_values_alone(files: tuple[Path, Path]) -> None:
    files[0].write_text(USER)
    files[1].write_text(SYSTEM)
    assert call("config", "get", "driver").stdout == "docker\n"
    assert call("config", "get", "insecure-registries").stdout == "mine.lan\nregistry.lan:5000\n"
    assert call("config", "get", "mirrors").stdout == "ghcr.io mine.lan\ndocker.io other.lan\n"
    assert call("config", "get", "mirrors.ghcr.io").stdout == "mine.lan\n"
    assert call("config", "get", "ca-file").stdout == ""
    assert call("config", "get", "allow-unsigned").stdout == "false\n"
    call("config", "get", "driver.podman", code=64)
    refused = call("config", "get", "drivers", code=64)
    assert isinstance(refused.exception, SchedkitError)
    assert refused.exception.hint == "did you mean driver?"
    refused = call("config", "get", "x", code=64)
    assert isinstance(refused.exception, SchedkitError)
    assert "driver, socket" in refused.exception.hint


def test_a_mode_is_found_under_both_names_of_its_scheduler(files: tuple[Path, Path]) -> None:
    files[0].write_text('[modes.lavd]\ngaming = ["--mine", "-x"]\n')
    files[1].write_text(SYSTEM)
    keys = [one["key"] for one in read("config")["settings"] if one["key"].startswith("modes.")]
    assert keys == ["modes.lavd.gaming", "modes.scx_lavd.server"]
    for name in ("lavd", "scx_lavd"):
        assert call("config", "get", f"modes.{name}.gaming").stdout == "--mine\n-x\n"
        assert call("config", "get", f"modes.{name}").stdout == "gaming --mine -x\nserver \n"
    assert call("config", "get", "modes").stdout == "lavd.gaming --mine -x\nscx_lavd.server \n"


def test_set_changes_one_line_and_keeps_the_rest(files: tuple[Path, Path]) -> None:
    files[1].write_text(SYSTEM)
    assert call("config", "set", "driver", "podman").stdout == f"{files[1]}: driver = podman\n"
    assert files[1].read_text() == SYSTEM.replace('driver = "docker"            #', 'driver = "podman"            #')
    call("config", "set", "socket", "/run/b.sock")
    assert 'socket = "/run/b.sock"   # not the usual one\n' in files[1].read_text()
    call("config", "set", "catalogs", "https://example.com/c.json", "/ours.json")
    assert files[1].read_text().splitlines()[4:7] == [
        'catalogs = ["https://example.com/c.json", "/ours.json"]',
        "",
        "[mirrors]",
    ]


def test_set_makes_the_users_file(files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files[0].parent.rmdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    call("config", "set", "--user", "trust-policy", "policy.yaml")
    assert files[0].read_text() == f'trust-policy = "{tmp_path}/policy.yaml"\n'
    assert not files[1].exists()
    refused = call("config", "set", "driver", "podman", code=77)
    assert str(refused.exception) == f"changing {files[1]} needs root"


def test_unset_removes_the_line(files: tuple[Path, Path]) -> None:
    files[1].write_text(SYSTEM)
    call("config", "unset", "socket")
    assert files[1].read_text() == SYSTEM.replace('socket = "/run/a # b.sock"   # not the usual one\n', "")
    call("config", "unset", "trust-policy")


@pytest.mark.parametrize(
    "words",
    [
        ["set", "drivers", "podman"],
        ["set", "driver", "crio"],
        ["set", "driver", "podman", "docker"],
        ["set", "socket", "/run/x.sock"],  # of which driver?
        ["set", "mirrors.ghcr.io", "mirror.lan"],
        ["set", "modes", "x"],
        ["set", "allow-unsigned", "true"],
        ["set", "insecure-registries", "https://registry.lan"],
        ["set", "ca-file", ""],
        ["unset", "mirrors"],
    ],
)
def test_what_would_make_the_file_invalid_is_refused(words: list[str], files: tuple[Path, Path]) -> None:
    call("config", *words, code=64)
    assert not files[1].exists()


def test_a_corrupt_file_is_not_changed(files: tuple[Path, Path]) -> None:
    files[1].write_text("driver = \n")
    with pytest.raises(SchedkitError, match="not TOML"):
        read_settings(Flags(), {"HOME": "/nonexistent"}, files[1])
    call("config", "set", "driver", "podman", code=65)
    assert files[1].read_text() == "driver = \n"


@pytest.mark.parametrize(
    "text",
    [
        'catalogs = [\n  "/a.json",\n  "/b.json",\n]\n',
        "catalogs = [  # two\n]\n",
        '"catalogs" = ["/a.json"]\n',
        'driver = """\ncatalogs = "x"\n"""\n',
    ],
)
def test_what_is_not_on_a_line_of_its_own_is_left_to_an_editor(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be changed safely"):
        edit_text(text, "catalogs", ("/new.json",), "the file")


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\tb", "\x7f", "é", "a # b", "'"])
@pytest.mark.parametrize("text", ["", 'trust-policy = "x" # why\n', "[mirrors]\n", "# only this", 'driver = "podman"'])
def test_every_value_comes_back(text: str, value: str) -> None:
    edited = edit_text(text, "trust-policy", value, "the file")
    assert tomllib.loads(edited) == {**tomllib.loads(text), "trust-policy": value}
    assert [line for line in text.splitlines() if line.startswith("#") and line not in edited] == []


def test_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    change_file(link, lambda text: f"{text} new")
    assert (real.read_text(), real.stat().st_mode & 0o777, link.is_symlink()) == ("old new", 0o640, True)
    assert sorted(path.name for path in tmp_path.glob("*.toml*")) == ["link.toml", "real.toml"]


def test_new_file_can_be_read_by_everybody(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        change_file(tmp_path / "more/new.toml", lambda _: "x")
    finally:
        os.umask(mask)
    assert (tmp_path / "more/new.toml").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "more").stat().st_mode & 0o777 == 0o755


def test_failed_change_leaves_the_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        change_file(path, lambda _: "\udcff")
    assert (path.read_text(), list(tmp_path.glob("*.toml*"))) == ("old", [path])


def test_what_a_crash_left_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    (tmp_path / ".config.toml.new").write_text("half of a longer text")
    change_file(path, lambda _: "whole")
    assert (path.read_text(), list(tmp_path.glob("*.toml*"))) == ("whole", [path])


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    def slowly(word: str) -> Callable[[str], str]:
        def edit(text: str) -> str:
            time.sleep(0.02)
            return f"{text}{word}"

        return edit

    path = tmp_path / "config.toml"
    threads = [threading.Thread(target=change_file, args=(path, slowly(word))) for word in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.read_text()) == list("abcdefgh")
    assert list(tmp_path.glob("*.toml*")) == [path]


def test_line_ends_stay(files: tuple[Path, Path]) -> None:
    files[1].write_bytes(SYSTEM.replace("\n", "\r\n").encode())
    call("config", "set", "driver", "podman")
    call("config", "set", "ca-file", "/ca.pem")
    changed = SYSTEM.replace('driver = "docker"', 'driver = "podman"').replace(
        "\n\n[mirrors]", '\nca-file = "/ca.pem"\n\n[mirrors]'
    )
    assert files[1].read_bytes() == changed.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("sign", ["\u2028", "\u0085"])
def test_only_newlines_end_a_line(sign: str) -> None:
    text = f'# one{sign}comment\ndriver = "docker"\n[mirrors]\n'
    assert edit_text(text, "driver", "podman", "the file") == text.replace("docker", "podman")


def test_value_that_is_no_text_is_refused(files: tuple[Path, Path]) -> None:
    call("config", "set", "trust-policy", "/\udcff", code=64)
    assert not files[1].exists()
