"""What schedctl costs: its start-up beside the bare interpreter, and the switch gap beside an attach on a free slot.

Run as `python -m bench.schedctl` in the repository; README.md beside it says what is measured.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lab.catalogue import open_store
from lab.host import check_host
from lab.machine import Machine
from lab.schedctl import install_schedctl
from lab.session import remove_run, run_folder

ROOT = Path(__file__).resolve().parents[1]
TURNS = 30
SWITCHES = 5
PROGRAM = "import sys; sys.argv[0] = 'schedctl'; from schedkit.schedctl.main import main; main()"
BARE = "python -I -c pass"
COMMANDS = {
    BARE: ["-I", "-c", "pass"],
    "schedctl --help": ["-c", PROGRAM, "--help"],
    "schedctl status": ["-c", PROGRAM, "status"],
    "schedctl ps": ["-c", PROGRAM, "ps"],
}
REGISTRY = "localhost:5000"


def measure_start() -> None:
    """Each command in turn, so that whatever else the machine does hits all alike."""
    with tempfile.TemporaryDirectory() as bytecode:
        environment = dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
        processor: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for turn in range(TURNS + 1):
            for name, words in COMMANDS.items():
                began, used = time.perf_counter(), _read_processor_time()
                done = subprocess.run(
                    [sys.executable, *words], env=environment, capture_output=True, text=True, check=False
                )
                if done.returncode:  # what ends early is no quick start
                    raise RuntimeError(f"{name}: exit status {done.returncode}: {done.stderr.strip()}")
                if turn:  # the first compiles
                    seconds[name].append(time.perf_counter() - began)
                    processor[name].append(_read_processor_time() - used)
    bare, least = statistics.median(seconds[BARE]), min(processor[BARE])
    print(f"start-up of {TURNS} (load {os.getloadavg()[0]:.1f}): median, and the least processor time")
    for name in COMMANDS:
        middle, work = statistics.median(seconds[name]), min(processor[name])
        print(
            f"  {name:<18} {middle * 1000:6.1f} ms  {middle / bare:4.1f}×  {work * 1000:6.1f} ms  {work / least:4.1f}×"
        )


def _read_processor_time() -> float:
    """Of the processes that were waited for: it depends less on what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_switch(machine: Machine, driver: str) -> None:
    """There and back between two schedulers; the new one's attach time is what `run` takes for it on a free slot."""
    schedctl = f"schedctl --driver {driver}"

    def read(words: str) -> Any:
        return json.loads(machine.run(f"{schedctl} {words} --allow-unsigned -o json", timeout=180).stdout)

    attach, gaps = [], []
    for _ in range(SWITCHES):
        attach.append(read(f"run {REGISTRY}/scx_fifo:v2")["container"]["seconds"])
        machine.run(f"{schedctl} stop", timeout=60)
        read(f"run {REGISTRY}/scx_fifo:v1")
        gaps.append(read(f"switch {REGISTRY}/scx_fifo:v2")["gap_seconds"])
        machine.run(f"{schedctl} stop", timeout=60)
    alone, gap = statistics.median(attach), statistics.median(gaps)
    print(f"  {driver:<11} attach alone {alone:.2f} s, switch gap {gap:.2f} s, {gap / alone:.2f}×")


def main() -> None:
    """Measure what was asked for, or everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--start", action="store_true", help="start-up only")
    parser.add_argument("--switch", action="store_true", help="the switch gap only")
    chosen = parser.parse_args()
    if chosen.start or not chosen.switch:
        measure_start()
    if chosen.switch or not chosen.start:
        check_host()
        store = open_store()
        folder = run_folder(store, "bench")
        try:
            machine = Machine.start(store, folder)
            install_schedctl(machine)
            print(f"switch, median of {SWITCHES}, in the lab's machine:")
            for driver in ("podman", "docker", "containerd"):
                measure_switch(machine, driver)
        finally:
            remove_run(store, folder)


if __name__ == "__main__":
    main()
