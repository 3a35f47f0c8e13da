import os
import threading
import time

import pytest

from schedkit.host.watching import watch
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import State
from schedkit.unknown import Unknown
from tests.unit.host.fakes import World


@pytest.fixture(autouse=True)
def no_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.host.watching.fetch_stats", lambda root: {"load": 1})


def test_idle_kernel_has_neither_uptime_nor_rates(world: World) -> None:
    sample = next(watch(world.machine))
    assert (sample.kernel.state, sample.uptime, sample.rates, sample.stats) == (State.DISABLED, None, None, None)


def test_events_are_told_per_second(world: World) -> None:
    world.kernel.attach("x", None)
    events = world.kernel.folder / "root/events"
    events.write_text("SCX_EV_A 100\nSCX_EV_B 5\n")
    samples = watch(world.machine, tick=0.2)
    assert next(samples).rates is None
    events.write_text("SCX_EV_A 1100\nSCX_EV_B 5\n")
    rates = next(samples).rates
    events.unlink()
    assert isinstance(rates, dict)
    assert rates["SCX_EV_B"] == 0
    assert 0 < rates["SCX_EV_A"] < 1000 / 0.02  # the first look, within the first tick, may take a while itself


def test_uptime_of_one_that_was_there_before_is_its_processs_age(world: World) -> None:
    folder = world.kernel.root / "proc/77"
    folder.mkdir(parents=True)
    began = (time.clock_gettime(time.CLOCK_BOOTTIME) - 500) * os.sysconf("SC_CLK_TCK")
    (folder / "stat").write_text(f"77 (scx) x) S {'0 ' * 18}{began:.0f} 0 0\n")
    world.kernel.attach("x", Holder(77, "x"))
    uptime = next(watch(world.machine)).uptime
    assert isinstance(uptime, float)
    assert 499 < uptime < 600


def test_uptime_is_unknown_where_the_holder_is(world: World) -> None:
    world.kernel.attach("x", Unknown("not root"))
    assert next(watch(world.machine)).uptime == Unknown("not root")


def test_attach_and_detach_are_seen_before_the_tick(world: World) -> None:
    samples = watch(world.machine, tick=60.0)
    assert next(samples).kernel.state is State.DISABLED
    threading.Timer(0.1, lambda: world.kernel.attach("x", None)).start()
    sample = next(samples)
    assert sample.kernel.ops == "x"
    assert isinstance(sample.uptime, float)
    assert sample.uptime < 60
