"""Many rounds of run and stop, in every runtime, leave nothing."""

import signal

from schedkit.runtimes.model import ContainerSpec
from tests.integration.runtimes.bench import Bench, read_inventory

ROUNDS = 50


def test_fifty_rounds_leave_no_container_image_snapshot_or_lease(bench: Bench) -> None:
    image = bench.pull()
    before = read_inventory(bench.daemon)

    for number in range(ROUNDS):
        id = bench.runtime.create(image, ContainerSpec(f"round-{number}", args=(str(number),)))
        bench.runtime.start(id)
        # It may not have got ready for the signal.
        assert bench.stop(id) in {0, 128 + signal.SIGTERM}
        bench.runtime.remove(id)

    assert bench.runtime.fetch_containers() == []
    assert read_inventory(bench.daemon) == before
