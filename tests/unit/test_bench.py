"""Benchmarks measure what works: a command that fails is an error, not a record."""

import asyncio
import signal
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


async def test_process_that_fails_ends_the_wait_for_what_it_should_do() -> None:
    never: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    with (
        subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(3)"]) as process,
        pytest.raises(RuntimeError, match="exit status 3"),
    ):
        async with asyncio.timeout(60):
            await sked.wait_beside(never, partial(sked.check_status, process))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_benchmark_in_the_background_of_a_shell_ends_when_told_to(number: signal.Signals) -> None:
    """Such a shell has it ignore Ctrl-C."""
    code = (
        "import asyncio, sys, time; from bench.sked import end_on_signals\n"
        "async def wait():\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60) if sys.argv[1] == 'blocked' else await asyncio.sleep(60)\n"
        "end_on_signals()\n"
        "try: asyncio.run(wait())\n"
        "except KeyboardInterrupt: print('ended')\n"
    )
    for how in ("blocked", "asleep"):
        words = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", code, how]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(number)
            assert process.communicate(timeout=30)[0] == "ended\n"
