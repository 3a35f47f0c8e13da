"""Every check on made-up roots; tests/e2e/test_kernel.py examines both kernels."""

import gzip
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from schedkit.kernel import preflight
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.holder import Holder
from schedkit.kernel.preflight import examine_kernel, examine_node, find_obstacles, parse_version
from tests.unit.kernel.roots import ATTACHED, FREE, write_files, write_process, write_sched_ext

ALL_CAPABILITIES = "CapInh:\t0000000000000000\nCapEff:\t000001ffffffffff"
OPTIONS = ["BPF", "BPF_SYSCALL", "BPF_JIT", "DEBUG_INFO_BTF", "SCHED_CLASS_EXT", "FUNCTION_TRACER"]
NAMES = [
    "kernel.version",
    "kernel.sched_ext",
    "kernel.btf",
    "kernel.btf_kfuncs",
    "kernel.config",
    "kernel.function_tracer",
    "kernel.preempt_rt",
    "kernel.isolcpus",
    "caps.cap_bpf",
    "caps.cap_sys_admin",
    "caps.cap_perfmon",
    "kernel.managers",
    "kernel.slot",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A kernel with which all is well."""
    write_sched_ext(tmp_path, FREE)
    write_files(
        tmp_path,
        {
            "proc/sys/kernel/osrelease": "6.12.107",
            "proc/version": "Linux version 6.12.107 (gcc) #1 SMP PREEMPT_DYNAMIC",
            "proc/cmdline": "console=ttyS0 quiet",
            "proc/self/status": ALL_CAPABILITIES,
            "sys/devices/system/cpu/isolated": "",
        },
    )
    write_process(tmp_path, 1, "init")
    write_config(tmp_path, OPTIONS)
    btf = tmp_path / "sys/kernel/btf/vmlinux"
    btf.parent.mkdir()
    btf.write_bytes(struct.pack("<HBB5I", 0xEB9F, 1, 0, 24, 0, 0, 0, 1) + b"\0")  # no type, and one empty name
    return tmp_path


def write_config(root: Path, options: list[str]) -> None:
    text = "\n".join(f"CONFIG_{option}=y" for option in options) + "\n# CONFIG_PREEMPT_RT is not set\n"
    (root / "proc/config.gz").write_bytes(gzip.compress(text.encode()))


def examine(root: Path, name: str, min_version: str = "6.12") -> Check:
    return next(check for check in examine_kernel(root, min_version=min_version) if check.name == name)


def test_sound_kernel_passes_every_check_in_order(root: Path) -> None:
    checks = examine_kernel(root)

    assert [check.name for check in checks] == NAMES
    assert [check for check in checks if check.outcome is not Outcome.OK] == []
    assert find_obstacles(root) == []


def test_root_with_nothing_in_it_is_unknown_throughout(tmp_path: Path) -> None:
    assert {check.outcome for check in examine_kernel(tmp_path)} == {Outcome.UNKNOWN}
    assert {check.outcome for check in find_obstacles(tmp_path)} == {Outcome.UNKNOWN}
    assert len(find_obstacles(tmp_path)) == 5


@pytest.mark.parametrize(
    ("release", "wanted", "outcome"),
    [
        ("6.12.107", "6.12", Outcome.OK),
        ("6.12.0-rc1", "6.12", Outcome.OK),
        ("7.2.12+deb13-cloud-amd64", "6.12", Outcome.OK),
        ("6.12.107", "6.12.107", Outcome.OK),
        ("6.12.107", "v6.13", Outcome.ERROR),
        ("6.9.3", "6.12", Outcome.WARNING),  # sched_ext is there all the same
        ("6.12", "6.12.5", Outcome.ERROR),
        ("six", "6.12", Outcome.UNKNOWN),
        ("6.12.107", "newest", Outcome.UNKNOWN),
    ],
)
def test_version(root: Path, release: str, wanted: str, outcome: Outcome) -> None:
    write_files(root, {"proc/sys/kernel/osrelease": release})

    assert examine(root, "kernel.version", wanted).outcome is outcome
    found = [(check.name, check.outcome) for check in find_obstacles(root, min_version=wanted)]
    assert found == ([] if outcome is Outcome.OK else [("kernel.version", outcome)])


def test_kernel_without_btf_is_an_obstacle(root: Path) -> None:
    (root / "sys/kernel/btf/vmlinux").unlink()
    assert [(check.name, check.outcome) for check in find_obstacles(root)] == [("kernel.btf", Outcome.ERROR)]


def test_old_kernel_without_sched_ext_has_obstacles(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    write_files(tmp_path, {"proc/sys/kernel/osrelease": "6.1.0-13-amd64"})

    errors = [check.name for check in find_obstacles(tmp_path) if check.outcome is Outcome.ERROR]
    assert errors == ["kernel.version", "kernel.sched_ext", "kernel.btf"]


@pytest.mark.parametrize("version", ["6.12.1+bc", "6.12", "v6.12.3", " 6.12.4\n"])
def test_version_is_parsed(version: str) -> None:
    assert (parse_version(version) or ())[:2] == (6, 12)


@pytest.mark.parametrize("version", ["", "6", "x.y", "6.", ".12", "9" * 5000 + ".1"])
def test_what_is_no_version_is_none(version: str) -> None:
    assert parse_version(version) is None


def test_missing_option_is_named(root: Path) -> None:
    write_config(root, ["BPF", "BPF_SYSCALL", "BPF_JIT", "SCHED_CLASS_EXT", "FUNCTION_TRACER"])

    assert examine(root, "kernel.config") == Check(
        "kernel.config",
        Outcome.ERROR,
        "not set: CONFIG_DEBUG_INFO_BTF",
        "boot a kernel with CONFIG_DEBUG_INFO_BTF=y",
    )


def test_config_that_is_nowhere_is_unknown_and_the_tracer_is_looked_for_elsewhere(root: Path) -> None:
    (root / "proc/config.gz").unlink()

    assert examine(root, "kernel.config").outcome is Outcome.UNKNOWN
    assert examine(root, "kernel.function_tracer").outcome is Outcome.UNKNOWN
    write_files(root, {"sys/kernel/tracing/available_tracers": "blk function_graph function nop"})
    assert examine(root, "kernel.function_tracer").outcome is Outcome.OK
    write_files(root, {"sys/kernel/tracing/available_tracers": "nop"})
    assert examine(root, "kernel.function_tracer").outcome is Outcome.WARNING


def test_config_in_boot_is_read(root: Path) -> None:
    (root / "proc/config.gz").unlink()
    write_files(root, {"boot/config-6.12.107": "CONFIG_BPF=y"})

    assert "CONFIG_BPF_JIT" in examine(root, "kernel.config").seen


@pytest.mark.parametrize("content", [b"", b"CONFIG_BPF=y", gzip.compress(os.urandom(5000))[:-100]])
def test_torn_config_is_unknown(root: Path, content: bytes) -> None:
    (root / "proc/config.gz").write_bytes(content)

    assert examine(root, "kernel.config").outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    "files", [{"proc/version": "Linux version 6.12.1 #1 SMP PREEMPT_RT"}, {"sys/kernel/realtime": "1"}]
)
def test_realtime_kernel_is_an_obstacle(root: Path, files: dict[str, str]) -> None:
    write_files(root, files)

    assert [check.name for check in find_obstacles(root)] == ["kernel.preempt_rt"]


@pytest.mark.parametrize(
    ("arguments", "isolated", "blocks"),
    [
        ("isolcpus=1-3", "1-3", True),
        ("quiet isolcpus=domain,managed_irq,1", "1", True),
        ("isolcpus=managed_irq,1-3", "", False),
        ("isolcpus=nohz,1", "", False),
        ("isolcpus=64", "", False),  # which this machine does not have
        ("", "2", False),  # an isolated cpuset partition
    ],
)
def test_isolated_cpus_are_an_obstacle(root: Path, arguments: str, isolated: str, blocks: bool) -> None:
    write_files(root, {"proc/cmdline": arguments, "sys/devices/system/cpu/isolated": isolated})

    assert [check.name for check in find_obstacles(root)] == (["kernel.isolcpus"] if blocks else [])


@pytest.mark.parametrize(
    ("mask", "outcomes"),
    [
        (0, ["error", "error", "error"]),
        (1 << 21, ["ok", "ok", "ok"]),
        (1 << 39 | 1 << 38, ["ok", "warning", "ok"]),
        (1 << 39, ["ok", "error", "error"]),
    ],
)
def test_capabilities(root: Path, mask: int, outcomes: list[str]) -> None:
    write_files(root, {"proc/self/status": f"Name:\tx\nCapEff:\t{mask:016x}"})

    seen = {check.name: check.outcome for check in examine_kernel(root)}
    assert [seen[f"caps.cap_{name}"] for name in ("bpf", "sys_admin", "perfmon")] == outcomes
    assert find_obstacles(root) == []  # the scheduler runs with what its runtime gives it


def test_torn_status_is_unknown(root: Path) -> None:
    write_files(root, {"proc/self/status": "CapEff:\tzzz"})

    assert examine(root, "caps.cap_bpf").outcome is Outcome.UNKNOWN


def test_other_managers_are_named(root: Path) -> None:
    write_process(root, 70, "scx_loader")
    write_process(root, 71, "scx_lavd", "0::/system.slice/scx.service")

    check = examine(root, "kernel.managers")

    assert (check.outcome, check.seen) == (Outcome.WARNING, "running: scx.service, scx_loader")
    assert check.fix.endswith("schedctl import scx_loader; systemctl disable --now scx")


@pytest.mark.parametrize(
    ("unit", "fix"), [("scx_loader.service", "import scx_loader"), ("scx.service", "disable --now scx")]
)
def test_managers_that_start_at_boot_are_named(root: Path, unit: str, fix: str) -> None:
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / unit).symlink_to(f"/usr/lib/systemd/system/{unit}")

    check = examine(root, "kernel.managers")

    assert (check.outcome, check.seen) == (Outcome.WARNING, f"enabled at boot: {unit}")
    assert check.fix.endswith(fix)


def test_kernel_without_btf_cannot_run_any(root: Path) -> None:
    (root / "sys/kernel/btf/vmlinux").unlink()

    assert examine(root, "kernel.btf").outcome is Outcome.ERROR
    assert examine(root, "kernel.btf_kfuncs").outcome is Outcome.UNKNOWN


def test_taken_slot_is_a_warning(root: Path) -> None:
    write_sched_ext(root, ATTACHED)
    check = examine(root, "kernel.slot")
    assert (check.outcome, check.seen.partition(",")[0]) == (Outcome.WARNING, "enabled: schedkit_fifo")
    assert "schedctl status" in check.fix


def test_kernel_without_sched_ext_is_one_error(root: Path) -> None:
    write_config(root, ["BPF", "BPF_SYSCALL", "BPF_JIT", "DEBUG_INFO_BTF", "FUNCTION_TRACER"])
    assert examine(root, "kernel.config").outcome is Outcome.ERROR, "its state says otherwise: that is not one cause"
    shutil.rmtree(root / "sys/kernel/sched_ext")
    assert examine(root, "kernel.sched_ext").outcome is Outcome.ERROR
    assert examine(root, "kernel.config").outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("holder", "seen"),
    [
        (Holder(464, "scx_bpfland", unit="scx_loader.service"), "process 464 (scx_bpfland) of scx_loader.service"),
        (Holder(464, "a", container="b" * 64, pod="?"), "process 464 (a), in a Kubernetes pod (UID ?)"),
        (Holder(464, "a", container="b" * 64), "process 464 (a), in the container bbbbbbbbbbbb"),  # whoever started it
    ],
)
def test_taken_slot_is_for_switch_only_if_schedctl_manages_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, holder: Holder, seen: str
) -> None:
    write_sched_ext(root, ATTACHED)
    monkeypatch.setattr(preflight, "read_holder", lambda _: holder)
    check = examine(root, "kernel.slot")
    assert check.seen == f"enabled: schedkit_fifo, by {seen}"
    assert check.fix == (
        "schedctl status shows whose it is and what to do; schedctl switch replaces it only if schedctl manages it"
    )


def test_kernel_without_sched_ext_has_no_slot_and_no_functions(root: Path) -> None:
    shutil.rmtree(root / "sys/kernel/sched_ext")
    for name in ("kernel.slot", "kernel.btf_kfuncs"):
        assert examine(root, name).outcome is Outcome.NOT_APPLICABLE


def test_node_is_examined_for_its_kernel_alone(root: Path) -> None:
    assert [check.name for check in examine_node(root)] == NAMES[:8]
    assert {check.outcome for check in examine_node(root)} <= {Outcome.OK, Outcome.UNKNOWN}


def test_btf_that_a_container_does_not_see_is_unknown_and_broken_btf_is_not(root: Path) -> None:
    def examine_btf() -> Outcome:
        (check,) = (check for check in examine_node(root) if check.name == "kernel.btf")
        return check.outcome

    (root / "sys/kernel/btf/vmlinux").write_bytes(b"none")
    assert examine_btf() is Outcome.ERROR
    (root / "sys/kernel/btf/vmlinux").unlink()
    assert examine_btf() is Outcome.UNKNOWN
    assert examine(root, "kernel.btf").outcome is Outcome.ERROR


def test_looking_at_the_kernel_imports_nothing_heavy() -> None:
    modules = ["state", "holder", "detach", "log", "changes", "stats", "preflight", "names"]
    code = f"""
import importlib, sys
before = set(sys.modules)
for name in {modules}:
    importlib.import_module("schedkit.kernel." + name)
print(*set(sys.modules) - before)
"""
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"socket", "subprocess", "ctypes", "gzip", "zlib", "json", "mmap"} & set(loaded)
