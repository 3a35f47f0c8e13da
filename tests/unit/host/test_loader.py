"""scx_loader's configuration, by the words of its own manual."""

from pathlib import Path

import pytest

from schedkit.errors import BadDataError, NotFoundError, SchedkitError
from schedkit.host.loader import LoaderChoice, makes_way, parse_loader, read_loader, replace_loader
from schedkit.host.model import Observed
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown
from tests.unit.host.fake_systemd import FakeSystemd
from tests.unit.host.fakes import FakeProgress

TEXT = """
default_sched = "scx_bpfland"
default_mode = "LowLatency"

[scheds.scx_bpfland]
auto_mode = []
gaming_mode = ["-m", "performance"]
lowlatency_mode = ["-s", "5000", "-l", "5000"]

[scheds.scx_lavd]
gaming_mode = ["--performance"]
"""

ALL: dict[str, dict[str, tuple[str, ...]]] = {
    "scx_bpfland": {
        "auto": (),
        "gaming": ("-m", "performance"),
        "lowlatency": ("-s", "5000", "-l", "5000"),
    },
    "scx_lavd": {"gaming": ("--performance",)},
}


def test_default_scheduler_comes_with_the_flags_of_its_mode() -> None:
    flags = ("-s", "5000", "-l", "5000")
    assert parse_loader(TEXT, "x") == LoaderChoice("scx_bpfland", "lowlatency", flags, "x", modes=ALL)
    gaming = parse_loader(TEXT.replace("LowLatency", "Gaming"), "x")
    assert (gaming.mode, gaming.args) == ("gaming", ("-m", "performance"))


def test_flags_that_the_file_does_not_name_are_those_that_scx_loader_has_built_in() -> None:
    server = parse_loader(TEXT.replace("LowLatency", "Server"), "x")
    assert server == LoaderChoice("scx_bpfland", "server", ("-s", "20000", "-S"), "x", is_built_in=True, modes=ALL)
    lavd = parse_loader('default_sched = "scx_lavd"', "x")
    assert (lavd.mode, lavd.args) == ("auto", ("--autopilot", "--pinned-slice-us", "500"))
    flash = parse_loader('default_sched = "scx_flash"\ndefault_mode = "Gaming"', "x")
    assert (flash.args, flash.is_built_in) == ((), True)


def test_empty_list_of_flags_is_one() -> None:
    assert parse_loader(TEXT.replace("LowLatency", "Auto"), "x").args == ()


def test_flags_for_a_scheduler_that_scx_loader_does_not_know_are_unknown() -> None:
    assert parse_loader('default_sched = "scx_own"', "x") == LoaderChoice("scx_own", "auto", None, "x")


@pytest.mark.parametrize(
    "text",
    [
        "default_sched = ",
        "default_sched = 7",
        'default_sched = ""',
        TEXT.replace("LowLatency", "Turbo"),
        TEXT.replace('"LowLatency"', "3"),
        TEXT.replace('["-s", "5000", "-l", "5000"]', '"-s"'),
        TEXT.replace('["-s", "5000", "-l", "5000"]', "[1]"),
        'default_sched = "x"\nscheds = 1',
        'default_sched = "x"\nscheds.x = 1',
        'default_sched = "x"\nscheds.y = 1',
        'default_sched = "x"\nscheds.y.gaming_mode = 1',
    ],
)
def test_nonsense_is_bad_data(text: str) -> None:
    with pytest.raises(BadDataError, match=r"^/etc/x"):
        parse_loader(text, "/etc/x")


def test_no_default_is_nothing_to_import() -> None:
    with pytest.raises(NotFoundError, match="names no default_sched"):
        parse_loader('default_mode = "Auto"', "x")


def test_file_is_looked_for_where_scx_loader_does(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"/etc/scx_loader/config\.toml"):
        read_loader(tmp_path)
    for place, name in (("usr/share/scx_loader.toml", "last"), ("etc/scx_loader.toml", "second")):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'default_sched = "{name}"')
        assert read_loader(tmp_path).scheduler == name
    (tmp_path / "etc/scx_loader.toml").write_bytes(b"\xff")
    with pytest.raises(BadDataError, match="not UTF-8"):
        read_loader(tmp_path)
    assert read_loader(tmp_path, str(tmp_path / "usr/share/scx_loader.toml")).scheduler == "last"
    with pytest.raises(NotFoundError):
        read_loader(tmp_path, str(tmp_path / "nothing"))
    with pytest.raises(BadDataError, match="is a directory") as refused:
        read_loader(tmp_path, str(tmp_path))
    assert refused.value.hint == "--file names scx_loader's TOML file"


def test_slot_is_free_without_the_loader_unless_another_is_known_to_have_it(loaded: Path) -> None:
    theirs = Holder(1, "scx_lavd", 2, None, unit="scx_loader.service")
    kernel = KernelState(State.ENABLED, ops="lavd", enable_seq=1, nr_rejected=0, events={})
    for holder, is_free in ((theirs, True), (Unknown("hidden"), True), (theirs._replace(unit=None), False)):
        assert makes_way(loaded, Observed(kernel, holder, ())) is is_free
    assert not makes_way(loaded / "nothing", Observed(kernel, theirs, ()))


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """A root in which scx_loader runs and is enabled."""
    wants = tmp_path / "root/etc/systemd/system/graphical.target.wants"
    wants.mkdir(parents=True)
    (wants / "scx_loader.service").symlink_to("/x")
    (tmp_path / "root/sys/fs/cgroup/system.slice/scx_loader.service").mkdir(parents=True)
    return tmp_path / "root"


BACK = ["systemctl enable --quiet scx_loader.service", "systemctl start scx_loader.service"]


def test_loader_that_is_not_there_is_left_alone(systemd: FakeSystemd, tmp_path: Path) -> None:
    with replace_loader(tmp_path, FakeProgress()):
        pass
    assert systemd.calls == []


def test_loader_makes_way_and_comes_back_if_that_was_in_vain(systemd: FakeSystemd, loaded: Path) -> None:
    with replace_loader(loaded, FakeProgress()):
        assert systemd.calls == ["systemctl disable --now --quiet scx_loader.service"]
    assert len(systemd.calls) == 1
    with pytest.raises(ZeroDivisionError), replace_loader(loaded, FakeProgress()):
        raise ZeroDivisionError
    assert systemd.calls[2:] == BACK


def test_loader_comes_back_though_stopping_it_failed_halfway(systemd: FakeSystemd, loaded: Path) -> None:
    systemd.fail("disable", "Timeout")
    with pytest.raises(SchedkitError, match="Timeout"), replace_loader(loaded, FakeProgress()):
        pytest.fail("it has not made way")
    assert systemd.calls[1:] == BACK


def test_reason_is_told_though_the_loader_does_not_come_back(systemd: FakeSystemd, loaded: Path) -> None:
    systemd.fail("enable", "Read-only file system")
    progress = FakeProgress()
    with pytest.raises(ZeroDivisionError), replace_loader(loaded, progress):
        raise ZeroDivisionError
    assert systemd.calls[1:] == BACK
    assert "scx_loader.service is not as before: systemctl enable" in progress.warnings[0]
