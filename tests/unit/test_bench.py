"""Benchmarks measure what works: a command that fails is an error, not a record."""

import asyncio
import subprocess
import sys
from functools import partial

import pytest

from bench import schedctl, sked


def test_start_up_of_a_command_that_fails_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["-c", "import sys; sys.exit('error: it does not even start')"]
    monkeypatch.setattr(schedctl, "COMMANDS", {"schedctl status": words})
    with pytest.raises(RuntimeError, match="schedctl status: exit status 1: error: it does not even start"):
        schedctl.measure_start()


def test_process_that_fails_ends_the_wait_for_what_it_should_do() -> None:
    async def test() -> None:
        never: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        with subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(3)"]) as process:
            await sked.wait_beside(never, partial(sked.check_status, process))

    with pytest.raises(RuntimeError, match="exit status 3"):
        asyncio.run(asyncio.wait_for(test(), 60))
