"""`schedctl bench` on a real kernel, with a scheduler of its own attached before and after.

scx_fifo is slow on purpose for who waits for others: one queue, first in, first out, slices of 20 ms, and nobody who
wakes up goes before somebody who computes.
"""

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from tests.e2e.conftest import Slot, read_slot
from tests.e2e.runtimes import REGISTRY
from tests.e2e.schedctl import Schedctl

# Two that wait for each other while somebody computes: with scx_fifo, for a slice of 20 ms each time.
WORK = "/root/waiting.sh"
WAITING = b"""\
folder=$(mktemp -d); mkfifo $folder/there $folder/back
while :; do :; done & computing=$!
while read -r line; do echo; done <$folder/there >$folder/back &
exec 3>$folder/there 4<$folder/back
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo >&3; read -r line <&4; done
kill $computing; exec 3>&-; wait; rm -r $folder
"""
LOG = "/tmp/bench.log"  # noqa: S108  (in the guest)
BEFORE = Slot("enabled", "schedkit_fifo2")


@pytest.fixture(scope="module")
def schedctl(machine: Machine) -> Iterator[Schedctl]:
    """With a scheduler that a user runs: each test must leave it attached."""
    schedctl = Schedctl(Schedctl.install(machine).machine, "containerd")
    machine.guest.write(WORK, WAITING)
    schedctl.run(f"run {REGISTRY}/scx_fifo:v2 --name mine")
    yield schedctl
    schedctl.run("stop --all")


@pytest.fixture(autouse=True)
def _same_as_before(schedctl: Schedctl) -> Iterator[None]:
    yield
    assert read_slot(schedctl.machine) == BEFORE
    assert [one["name"] for one in schedctl.read("ps --all")["containers"]] == ["mine"]


def test_a_scheduler_that_is_slow_on_purpose_is_found_slower(schedctl: Schedctl) -> None:
    report = "/tmp/report.html"  # noqa: S108  (in the guest)
    words = f"bench --with none,scx_fifo --runs 8 --warmup 0 --settle 0 --timeout 120 --report {report} -- sh {WORK}"
    result = schedctl.read(words)
    assert [one["endings"] for one in result["schedulers"]] == [{"measured": 8}, {"measured": 8}]
    assert [one["ops"] for one in result["schedulers"]] == [None, "schedkit_fifo"]
    (wall,) = [one for one in result["comparisons"] if one["ratio"] and one["quantity"] == "wall_seconds"]
    assert (wall["scheduler"], wall["finding"], wall["low"] > 1.1) == ("scx_fifo", "worse", True)
    assert "scx_fifo is slower than none" in result["answers"][0]
    page = schedctl.machine.run(f"cat {report}").stdout
    assert page.startswith("<!DOCTYPE html>")
    assert page.count('<circle class="run') >= 16


def test_an_ejection_is_a_result_of_its_own_and_ctrl_c_brings_back_what_was_before(schedctl: Schedctl) -> None:
    # By this seed, scx_stall is first.
    options = "--with none --with 'scx_stall 1' --runs 20 --warmup 0 --settle 0 --timeout 120 --seed 2"
    process = schedctl.start(f"bench {options} -- sleep 7", LOG)
    schedctl.wait_for_word(LOG, "run 1 of 40: scx_stall 1: ejected: runnable task stall")
    assert read_slot(schedctl.machine) != BEFORE
    schedctl.machine.run(f"kill -INT {process}")
    code, said = schedctl.wait_for_end(LOG)
    assert (code, "interrupted" in said, "starting mine again" in said) == (130, True, True)
    assert schedctl.machine.run("pgrep -x sleep", check=False).stdout == ""
