from collections.abc import Callable
from pathlib import Path

import pytest

from schedkit.measure.environment import Environment, find_doubts_about, read_environment
from schedkit.unknown import Unknown
from tests.unit.measure.making import MACHINE

QUIET = MACHINE._replace(turbo=False, governor="performance", power_profile=None, on_battery=None, other_load=0.01)


def write(root: Path, files: dict[str, str]) -> Callable[[float], None]:
    """A machine of files; while somebody waits, its CPUs are busy for 30 ticks of 100."""
    for name, text in {"proc/stat": "cpu 100 0 100 800 0 0 0 0 0 0\ncpu0 …\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def sleep(_seconds: float) -> None:
        (root / "proc/stat").write_text("cpu 120 0 110 860 10 0 0 0 0 0\n")

    return sleep


def test_the_machine_is_read(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu"
    sleep = write(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n",
            "proc/meminfo": "MemTotal:        1024 kB\nMemFree: 1 kB\n",
            "proc/sys/kernel/osrelease": "6.12.90\n",
            "proc/loadavg": "0.52 0.58 0.59 1/467 12345\n",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/intel_pstate/no_turbo": "0\n",
            "sys/firmware/acpi/platform_profile": "low-power\n",
            "sys/class/power_supply/AC/type": "Mains\n",
            "sys/class/power_supply/AC/online": "0\n",
            "sys/class/power_supply/BAT0/type": "Battery\n",
        },
    )
    seen = read_environment(tmp_path, sleep=sleep)
    assert (seen.kernel, seen.cpu, seen.virtual, seen.memory_bytes) == ("6.12.90", "A CPU", True, 1024 * 1024)
    assert (seen.governor, seen.turbo, seen.power_profile) == ("performance, powersave", True, "low-power")
    assert (seen.on_battery, seen.other_load, seen.load_average) == (True, 0.3, 0.52)
    assert len(find_doubts_about(seen)) == 6


def test_what_a_machine_has_not_is_no_doubt(tmp_path: Path) -> None:
    sleep = write(tmp_path, {"proc/cpuinfo": "flags: fpu\n", "proc/meminfo": "MemTotal: 1 kB\n"})
    seen = read_environment(tmp_path, sleep=sleep)
    assert (seen.governor, seen.turbo, seen.power_profile, seen.on_battery) == (None, None, None, None)
    assert [one for one in find_doubts_about(seen) if "other processes" not in one] == []


def test_what_cannot_be_read_is_unknown_and_no_doubt(tmp_path: Path) -> None:
    seen = read_environment(tmp_path, sleep=lambda _: None)
    assert isinstance(seen.other_load, Unknown)
    assert isinstance(seen.memory_bytes, Unknown)
    assert find_doubts_about(seen) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"turbo": True}, "turbo is on"),
        ({"governor": "powersave"}, "governor is powersave"),
        ({"power_profile": "low-power"}, "power profile is low-power"),
        ({"on_battery": True}, "battery"),
        ({"other_load": 0.37}, "use 37% of the CPUs"),
        ({"virtual": True}, "virtual machine"),
    ],
)
def test_each_doubt_is_told(change: dict[str, object], word: str) -> None:
    assert find_doubts_about(QUIET) == []
    changed: Environment = QUIET._replace(**change)  # type: ignore[arg-type]
    (doubt,) = find_doubts_about(changed)
    assert word in doubt


def test_this_machine_can_be_read() -> None:
    seen = read_environment(sleep=lambda _: None)
    assert isinstance(seen.kernel, str)
    assert isinstance(seen.memory_bytes, int)
    assert isinstance(seen.cpus, int)
