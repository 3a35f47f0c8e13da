"""Which way out there is, and taking it; tests/e2e/test_kernel.py does it to real schedulers."""

import errno
from pathlib import Path

import pytest

from schedkit.errors import NoPermissionError, SchedkitError
from schedkit.kernel.bpf import Link
from schedkit.kernel.detach import Way, detach, find_way
from schedkit.unknown import Unknown
from tests.unit.kernel.roots import ATTACHED, FREE, write_files, write_sched_ext
from tests.unit.kernel.structops import MadeUpStructOps, make_value


def test_link_is_the_first_way(tmp_path: Path) -> None:
    kernel = MadeUpStructOps([Link(17, 4)], {4: make_value("schedkit_fifo")})

    way = find_way(write_sched_ext(tmp_path, ATTACHED), struct_ops=kernel)

    assert way == Way("detach BPF link 17", 17)
    detach(way, tmp_path, struct_ops=kernel)
    assert kernel.detached == [17]


@pytest.mark.parametrize("kernel", [MadeUpStructOps(), MadeUpStructOps(refusal=errno.EPERM)])
def test_sysrq_is_the_second(tmp_path: Path, kernel: MadeUpStructOps) -> None:
    write_sched_ext(tmp_path, ATTACHED)
    write_files(tmp_path, {"proc/sysrq-trigger": ""})

    way = find_way(tmp_path, struct_ops=kernel)

    assert way == Way("SysRq S")
    detach(way, tmp_path, struct_ops=kernel)
    assert (tmp_path / "proc/sysrq-trigger").read_text().startswith("S")


def test_without_either_it_says_why_neither(tmp_path: Path) -> None:
    write_sched_ext(tmp_path, ATTACHED)

    assert find_way(tmp_path, struct_ops=MadeUpStructOps()) == Unknown(
        f"it has no BPF link, and {tmp_path}/proc/sysrq-trigger is not there"
    )


def test_free_slot_needs_no_way(tmp_path: Path) -> None:
    assert find_way(write_sched_ext(tmp_path, FREE)) == Unknown("no scheduler is attached")


def test_unreadable_state_is_unknown(tmp_path: Path) -> None:
    assert find_way(tmp_path) == Unknown(f"{tmp_path}/sys is not mounted")


def test_link_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    detach(Way("detach BPF link 17", 17), tmp_path, struct_ops=MadeUpStructOps(refusal=errno.ENOENT))


def test_refusal_names_what_was_refused(tmp_path: Path) -> None:
    with pytest.raises(NoPermissionError, match="cannot detach BPF link 17: only root may"):
        detach(Way("detach BPF link 17", 17), tmp_path, struct_ops=MadeUpStructOps(refusal=errno.EPERM))
    with pytest.raises(SchedkitError, match=r"cannot detach BPF link 17: .*not supported") as caught:
        detach(Way("detach BPF link 17", 17), tmp_path, struct_ops=MadeUpStructOps(refusal=errno.EOPNOTSUPP))
    assert "SysRq S" in caught.value.hint
    with pytest.raises(SchedkitError, match="cannot send SysRq S"):
        detach(Way("SysRq S"), tmp_path)
