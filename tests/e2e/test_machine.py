"""The machine itself: it boots, runs commands, moves files, and tells how it died."""

import time
from pathlib import Path

import pytest

from lab.errors import GuestError, LabError
from lab.images import build
from lab.machine import Machine
from lab.store import Store
from lab.waiting import wait_for


@pytest.fixture(scope="module")
def booted(store: Store, lab_folder: Path) -> Machine:
    """A machine that really boots, not a resumed one."""
    return Machine.start(store, lab_folder / "booted", from_snapshot=False)


def test_boots_the_kernel_it_was_told_with_all_services(booted: Machine) -> None:
    assert booted.run("uname -r").stdout.startswith("6.12.")
    assert booted.run("cat /sys/kernel/sched_ext/state").stdout == "disabled\n"
    for command in ("podman info", "docker info", "ctr version", "cosign version", "kubelet --version"):
        assert booted.run(command).code == 0, command


def test_resumed_machine_has_the_right_time_and_a_disk_of_its_own(
    machine: Machine, store: Store, lab_folder: Path
) -> None:
    before = int(time.time())
    said = int(machine.run("date +%s").stdout)
    assert before - 5 <= said <= time.time() + 5, "not the time at which it was saved"
    machine.run("touch /root/mark")
    other = Machine.start(store, lab_folder / "other")
    try:
        assert other.run("test -e /root/mark", check=False).code == 1
    finally:
        other.stop()


def test_command_gives_stdout_stderr_and_status(machine: Machine) -> None:
    result = machine.run("echo out; echo err >&2; exit 7", check=False)
    assert (result.stdout, result.stderr, result.code) == ("out\n", "err\n", 7)
    with pytest.raises(GuestError, match="ended with status 7: err"):
        machine.run("echo err >&2; exit 7")


def test_files_go_in_and_come_out_unchanged(machine: Machine, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_bytes(content)
    machine.guest.put(tmp_path / "folder", "/root/folder")
    machine.guest.put(tmp_path / "folder/file", "/root/copy")
    machine.guest.get("/root/folder/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert machine.guest.read("/root/copy") == content


def test_console_of_a_crashed_machine_can_be_read(booted: Machine) -> None:
    with pytest.raises(LabError):
        booted.run("echo c >/proc/sysrq-trigger; sleep 60")
    wait_for("qemu to end", lambda: not booted.alive(), 60)
    assert "sysrq triggered crash" in booted.console()
    with pytest.raises(LabError, match="the machine is gone"):
        booted.run("true")


def test_image_built_on_the_host_is_pulled_in_the_guest(machine: Machine, store: Store, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM scratch\nCOPY word /word\n")
    (tmp_path / "word").write_text("hello\n")
    digest = build(store, tmp_path / "Containerfile", tmp_path, "greeting:1", registry=machine.registry)
    machine.run(f"podman pull localhost:5000/greeting@{digest}")
    assert digest in machine.run("podman images --digests").stdout
