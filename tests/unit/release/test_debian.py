"""What the Debian package does when it is removed; `make release-check` does so on a machine."""

import subprocess
from pathlib import Path

import pytest

from release.debian import PRERM
from schedkit.host.units import AT_BOOT, ENABLED, FILES, RERUN, TRIAL, Choice, render_unit

CHOICE = Choice("scx_rusty", "x/scx_rusty@sha256:0", "sha256:0", "podman", "/x", "me", "on-failure:5")


class Here:
    """A root with an enabled scheduler, and a schedctl that notes how it is called."""

    def __init__(self, root: Path, program: str) -> None:
        self.root = root
        self.unit, self.link = root / FILES[ENABLED], root / AT_BOOT
        self.link.parent.mkdir(parents=True)
        self.unit.write_text(render_unit(CHOICE, [program], ENABLED))
        self.link.symlink_to(self.unit)

    def remove(self, word: str, *, code: int = 0) -> list[str]:
        """Run the script and return what schedctl was called with."""
        calls = self.root / "calls"
        programs = self.root / "bin"
        programs.mkdir(exist_ok=True)
        for name, said in (("schedctl", "$*"), ("systemctl", "systemctl $*")):
            (programs / name).write_text(f'#!/bin/sh\necho "{said}" >>{calls}\nexit {code}\n')
            (programs / name).chmod(0o755)
        script = PRERM.replace(" /etc/", f" {self.root}/etc/").replace(" /run/", f" {self.root}/run/")
        for command in ("disable", "restore"):
            script = script.replace(f" /usr/bin/schedctl {command}", f" {programs}/schedctl {command}")
        environ = {"PATH": f"{programs}:/usr/bin:/bin"}
        subprocess.run(["sh", "-c", script, "prerm", word], env=environ, check=True)
        return calls.read_text().splitlines() if calls.exists() else []


def test_removed_package_disables_the_scheduler_whose_program_goes(tmp_path: Path) -> None:
    here = Here(tmp_path, "/usr/bin/schedctl")
    assert here.remove("remove") == ["disable"]
    assert here.unit.exists()  # schedctl itself removes it


def test_removed_package_leaves_no_unit_where_systemd_does_not_run(tmp_path: Path) -> None:
    here = Here(tmp_path, "/usr/bin/schedctl")
    assert here.remove("remove", code=69) == ["disable"]
    assert not here.unit.exists()
    assert not here.link.is_symlink()


def test_scheduler_that_cannot_be_disabled_is_stopped_before_its_unit_goes(tmp_path: Path) -> None:
    here = Here(tmp_path, "/usr/bin/schedctl")
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert here.remove("remove", code=65) == [
        "disable",
        "systemctl disable --now schedkit.service",
        "systemctl daemon-reload",
    ]
    assert not here.unit.exists()


@pytest.mark.parametrize(("program", "stopped"), [("/usr/bin/schedctl", True), ("/usr/local/bin/schedctl", False)])
def test_units_that_go_with_the_next_boot_are_stopped(tmp_path: Path, program: str, stopped: bool) -> None:
    here = Here(tmp_path, "/opt/schedctl")
    rerun = tmp_path / FILES[RERUN]
    rerun.parent.mkdir(parents=True)
    rerun.write_text(render_unit(CHOICE, [program], RERUN))
    assert here.remove("remove") == (["systemctl stop schedkit-run.service"] if stopped else [])


def test_trial_is_ended_before_its_unit_is_stopped(tmp_path: Path) -> None:
    here = Here(tmp_path, "/opt/schedctl")
    trial = tmp_path / f"run/systemd/transient/{TRIAL}"
    trial.parent.mkdir(parents=True)
    trial.write_text(f"[Service]\nExecStart=/usr/bin/schedctl service {TRIAL}\n")
    assert here.remove("remove") == ["restore", f"systemctl stop {TRIAL}"]


def test_upgrade_leaves_the_enabled_scheduler_alone(tmp_path: Path) -> None:
    assert Here(tmp_path, "/usr/bin/schedctl").remove("upgrade") == []


@pytest.mark.parametrize("program", ["/usr/local/bin/schedctl", "/opt/usr/bin/schedctl"])
def test_unit_of_another_installation_is_left_alone(tmp_path: Path, program: str) -> None:
    here = Here(tmp_path, program)
    assert here.remove("remove", code=69) == []
    assert here.unit.exists()


def test_nothing_enabled_is_nothing_to_do(tmp_path: Path) -> None:
    here = Here(tmp_path, "/usr/bin/schedctl")
    here.unit.unlink()
    assert here.remove("remove", code=69) == []
