"""Resources are looked at some time after a change, and sooner when nothing more changes."""

import pytest

from schedkit.sked.controller.pacing import Pacer
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.queue import Queue
from tests.unit.sked_kube.tools import ManualClock

KEY = Key("default", "one")


class Looks:
    """A resource with so many nodes, and when it was looked at."""

    def __init__(self, nodes: int) -> None:
        self.clock = ManualClock()
        self.queue: Queue[Key] = Queue("test", clock=self.clock)
        self.pacer = Pacer(self.queue, lambda _: nodes, self.clock)
        self.began = self.clock.now
        self.at: list[float] = []

    async def run(self, seconds: float, *, changes_for: float = 0.0) -> None:
        """Let time pass, with a change each tenth of a second for as long as it is said."""
        begun = self.clock.now
        for _ in range(round(seconds * 10)):
            if self.clock.now - begun < changes_for - 0.01:
                self.pacer.wake(KEY)
            self.clock.advance(0.1)
            if len(self.queue):
                key = await self.queue.get()
                self.at.append(round(self.clock.now - self.began, 1))
                self.queue.done(key)


async def test_few_nodes_are_looked_at_soon() -> None:
    looks = Looks(3)
    await looks.run(2, changes_for=0.1)
    assert looks.at == [0.1]


async def test_many_nodes_are_looked_at_after_a_pause_for_as_long_as_they_change() -> None:
    looks = Looks(5000)
    await looks.run(22, changes_for=22)
    assert looks.at == pytest.approx([10.0, 20.1], abs=0.21)


@pytest.mark.parametrize("wave", [0.1, 2.0, 11.3])
async def test_end_of_a_wave_is_not_waited_for_longer(wave: float) -> None:
    looks = Looks(5000)
    await looks.run(wave + 1, changes_for=wave)
    assert looks.at[-1] == pytest.approx(wave + 0.4, abs=0.11)


async def test_single_change_is_looked_at_once() -> None:
    looks = Looks(5000)
    await looks.run(30, changes_for=0.1)
    assert looks.at == [pytest.approx(0.6, abs=0.11)]


async def test_many_short_waves_are_looked_at_together() -> None:
    looks = Looks(5000)
    for _ in range(20):
        await looks.run(1, changes_for=0.1)
    assert 4 <= len(looks.at) <= 6


async def test_what_time_alone_changes_waits_longer_only_while_changes_keep_coming() -> None:
    looks = Looks(5000)
    assert looks.pacer.find_pause(KEY) == 5.0
    await looks.run(0.3, changes_for=0.3)
    assert looks.pacer.find_pause(KEY) == 10.0
    await looks.run(1)
    assert looks.pacer.find_pause(KEY) == 5.0


async def test_few_hundred_nodes_are_not_waited_for_until_a_wave_is_over() -> None:
    looks = Looks(300)
    await looks.run(2, changes_for=1.5)
    assert looks.at[:3] == pytest.approx([0.3, 0.7, 1.1], abs=0.11)


async def test_resource_that_is_gone_is_not_looked_at_sooner() -> None:
    looks = Looks(5000)
    await looks.run(0.1, changes_for=0.1)
    looks.pacer.forget(KEY)
    await looks.run(3)
    assert looks.at == []
