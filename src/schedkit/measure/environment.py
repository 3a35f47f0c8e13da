"""The machine that numbers come from, and what about it makes them doubtful."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from schedkit.kernel.files import read_text
from schedkit.pages import name_page
from schedkit.unknown import Unknown

LOOK_SECONDS = 1.0  # how long one looks at what else runs
BUSY_SHARE = 0.05  # of all CPUs: more than this, and others are part of the result
_GOVERNORS = ("performance",)

Fact = str | int | float | bool | Unknown | None  # None: this machine has no such thing


class Environment(NamedTuple):
    """What is to be known of the machine; each by its name in JSON."""

    kernel: Fact
    kernel_version: Fact
    architecture: Fact
    cpu: Fact
    cpus: Fact  # that schedctl, and so the command, may use
    memory_bytes: Fact
    virtual: Fact
    governor: Fact  # of all CPUs, if they agree
    energy_preference: Fact
    power_profile: Fact
    turbo: Fact
    on_battery: Fact
    other_load: Fact  # share of all CPUs that others used before the first run
    load_average: Fact


def read_environment(root: Path = Path("/"), *, sleep: Callable[[float], None] = time.sleep) -> Environment:
    """Look at the machine; takes LOOK_SECONDS."""
    cpu = root / "sys/devices/system/cpu"
    info = _read_table(root / "proc/cpuinfo")
    return Environment(
        kernel=_read(root / "proc/sys/kernel/osrelease"),
        kernel_version=_read(root / "proc/sys/kernel/version"),
        architecture=platform.machine(),
        cpu=info if isinstance(info, Unknown) else info.get("model name") or info.get("cpu model"),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=_read_memory(root),
        virtual=info if isinstance(info, Unknown) else "hypervisor" in info.get("flags", "").split(),
        governor=_read_common(cpu, "cpufreq/scaling_governor"),
        energy_preference=_read_common(cpu, "cpufreq/energy_performance_preference"),
        power_profile=_read(root / "sys/firmware/acpi/platform_profile"),
        turbo=_read_turbo(cpu),
        on_battery=_read_battery(root / "sys/class/power_supply"),
        other_load=_measure_load(root, sleep),
        load_average=_read_load_average(root),
    )


def find_doubts_about(environment: Environment) -> list[str]:
    """What would make another result likely on another day, in sentences."""
    doubts = []
    if environment.turbo is True:
        doubts.append(
            "turbo is on: CPUs run faster while they are cool, so early runs may look better than late ones;"
            f" how to switch it off: {name_page('schedctl/bench.md')}"
        )
    if isinstance(environment.governor, str) and environment.governor not in _GOVERNORS:
        doubts.append(f"the CPU frequency governor is {environment.governor}, not performance: the frequency varies")
    if isinstance(environment.power_profile, str) and environment.power_profile not in ("balanced", "performance"):
        doubts.append(f"the power profile is {environment.power_profile}: results are for that profile only")
    if environment.on_battery is True:
        doubts.append("this machine runs on battery: its firmware may slow it down as it likes")
    if isinstance(environment.other_load, float) and environment.other_load > BUSY_SHARE:
        doubts.append(
            f"other processes use {environment.other_load:.0%} of the CPUs: they are part of every run; stop them for"
            " steadier numbers"
        )
    if environment.virtual is True:
        doubts.append("this is a virtual machine: its host schedules it too, and that cannot be seen from here")
    return doubts


def _read(path: Path) -> str | Unknown | None:
    return read_text(path)


def _read_table(path: Path) -> Mapping[str, str] | Unknown:
    """The first block of `name : value` lines."""
    text = read_text(path, limit=4 << 20)  # it grows with the number of CPUs
    if not isinstance(text, str):
        return text or Unknown(f"{path} is missing")
    lines = [line.partition(":") for line in text.split("\n\n", 1)[0].splitlines()]
    return {name.strip(): value.strip() for name, _, value in lines}


def _read_memory(root: Path) -> int | Unknown:
    table = _read_table(root / "proc/meminfo")
    if isinstance(table, Unknown):
        return table
    number = table.get("MemTotal", "").removesuffix(" kB")
    return int(number) * 1024 if number.isdecimal() else Unknown("/proc/meminfo has no MemTotal")


def _read_common(cpu: Path, name: str) -> str | Unknown | None:
    """What all CPUs say; what each of them says where they differ."""
    said = [read_text(path / name) for path in sorted(cpu.glob("cpu[0-9]*"))]
    unknown = next((one for one in said if isinstance(one, Unknown)), None)
    if unknown:
        return unknown
    values = sorted({one for one in said if isinstance(one, str)})
    return ", ".join(values) if values else None


def _read_turbo(cpu: Path) -> bool | Unknown | None:
    """Read whether turbo is on, from the driver of Intel's CPUs or from that of all others."""
    for name, on in (("intel_pstate/no_turbo", "0"), ("cpufreq/boost", "1")):
        said = read_text(cpu / name)
        if said is not None:
            return said if isinstance(said, Unknown) else said == on
    return None


def _read_battery(folder: Path) -> bool | Unknown | None:
    """Whether no mains is plugged in; None for a machine without a battery."""
    kinds = {path: read_text(path / "type") for path in folder.glob("*")} if folder.is_dir() else {}
    if not any(kind == "Battery" and read_text(path / "scope") != "Device" for path, kind in kinds.items()):
        return None
    mains = [read_text(path / "online") for path, kind in kinds.items() if kind in ("Mains", "USB")]
    if not mains:
        return Unknown("no power supply says whether it is plugged in")
    return "1" not in mains


def _measure_load(root: Path, sleep: Callable[[float], None]) -> float | Unknown:
    before = _read_ticks(root)
    sleep(LOOK_SECONDS)
    after = _read_ticks(root)
    if isinstance(before, Unknown):
        return before
    if isinstance(after, Unknown):
        return after
    busy, total = after[0] - before[0], after[1] - before[1]
    return round(busy / total, 4) if total > 0 else Unknown("/proc/stat did not move")


def _read_ticks(root: Path) -> tuple[int, int] | Unknown:
    """Busy ticks, and all ticks, of all CPUs."""
    text = read_text(root / "proc/stat", limit=4 << 20)
    if not isinstance(text, str):
        return text or Unknown("/proc/stat is missing")
    words = text.partition("\n")[0].split()
    if len(words) < 6 or words[0] != "cpu" or not all(word.isdecimal() for word in words[1:9]):
        return Unknown(f"/proc/stat begins with {text[:40]!r}")
    ticks = [int(word) for word in words[1:9]]  # those of guests are in user's too
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _read_load_average(root: Path) -> float | Unknown | None:
    text = read_text(root / "proc/loadavg")
    if not isinstance(text, str):
        return text
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return Unknown(f"/proc/loadavg reads {text[:40]!r}")
