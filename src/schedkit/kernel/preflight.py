"""Can this kernel run a scheduler: everything that can be known before one is started."""

import os
from collections.abc import Mapping
from pathlib import Path

from schedkit.kernel import managers
from schedkit.kernel.btf import VMLINUX, read_malformed_kfuncs
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.config import read_config
from schedkit.kernel.files import explain, list_pids, read_text
from schedkit.kernel.holder import describe_holder, read_holder
from schedkit.kernel.state import State, read_state
from schedkit.pages import name_page
from schedkit.unknown import Unknown

OLDEST_KERNEL = "6.12"  # the first with sched_ext
_OLDEST = (6, 12)
_SCHED_EXT = "CONFIG_SCHED_CLASS_EXT"
_KERNELS = name_page("install.md#which-kernels-have-sched_ext")
BOOT_ANOTHER = f"boot a kernel of {OLDEST_KERNEL} or later built with {_SCHED_EXT}=y: {_KERNELS}"
_OPTIONS = ("CONFIG_BPF", "CONFIG_BPF_SYSCALL", "CONFIG_BPF_JIT", "CONFIG_DEBUG_INFO_BTF", _SCHED_EXT)
_CAPABILITIES = {"CAP_BPF": 39, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38}
_BOOT_TARGETS = ("multi-user.target", "graphical.target", "default.target")


def examine_kernel(root: Path = Path("/"), *, min_version: str = OLDEST_KERNEL) -> list[Check]:
    """Every check of the kernel, of our capabilities and of other managers, in the order people read them."""
    config = read_config(root)
    return [
        _check_version(root, min_version),
        _check_sched_ext(root),
        _check_btf(root),
        check_kfuncs(root),
        _check_config(root, config),
        _check_function_tracer(root, config),
        _check_preempt_rt(root),
        _check_isolcpus(root),
        *examine_capabilities(root),
        _check_managers(root),
        _check_slot(root),
    ]


def examine_node(root: Path = Path("/")) -> list[Check]:
    """The checks of the kernel that make sense from within a container, whose own rights are of no interest.

    A container may see less of /sys than there is: BTF that is not there is unknown. A kernel with sched_ext has it.
    """
    config, btf = read_config(root), _check_btf(root)
    if not (root / VMLINUX).exists():
        btf = Check(btf.name, Outcome.UNKNOWN, btf.seen)
    return [
        _check_version(root, OLDEST_KERNEL),
        _check_sched_ext(root),
        btf,
        check_kfuncs(root),
        _check_config(root, config),
        _check_function_tracer(root, config),
        _check_preempt_rt(root),
        _check_isolcpus(root),
    ]


def find_obstacles(root: Path = Path("/"), *, min_version: str = OLDEST_KERNEL) -> list[Check]:
    """Return all that is not well, or not known, of what every scheduler needs and is quick to see: before a start.

    Our capabilities are not among it: the scheduler runs with those the container runtime gives it.
    """
    checks = (
        _check_version(root, min_version),
        _check_sched_ext(root),
        _check_btf(root),
        _check_preempt_rt(root),
        _check_isolcpus(root),
    )
    return [check for check in checks if check.outcome is not Outcome.OK]


def parse_version(release: str) -> tuple[int, ...] | None:
    """`7.2.12+deb13-cloud-amd64` → (7, 2, 12); None when it does not begin with a version."""
    numbers: list[int] = []
    for part in release.strip().removeprefix("v").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers) if len(numbers) >= 2 else None


def _check_version(root: Path, min_version: str) -> Check:
    name = "kernel.version"
    release = read_text(root / "proc/sys/kernel/osrelease")
    if not isinstance(release, str):
        return Check(name, Outcome.UNKNOWN, release.why if release else f"{root / 'proc'} is not mounted")
    version, wanted = parse_version(release), parse_version(min_version)
    if version is None:
        return Check(name, Outcome.UNKNOWN, f"the release reads {release[:40]!r}")
    if wanted is None:
        return Check(
            name, Outcome.UNKNOWN, f"{release}; the required minimum reads {min_version[:40]!r}, not a version"
        )
    if _pad(version) >= _pad(wanted):
        return Check(name, Outcome.OK, release)
    seen, fix = f"{release}, older than {min_version}", f"boot a kernel of {min_version} or later"
    # Some distributions brought sched_ext to older kernels.
    backported = wanted <= _OLDEST and (root / "sys/kernel/sched_ext").is_dir()
    return Check(name, Outcome.WARNING if backported else Outcome.ERROR, seen, fix)


def _pad(version: tuple[int, ...]) -> tuple[int, ...]:
    return (*version, 0, 0, 0)[:3]


def _check_sched_ext(root: Path) -> Check:
    name, state = "kernel.sched_ext", read_state(root).state
    if isinstance(state, Unknown):
        return Check(name, Outcome.UNKNOWN, state.why, "mount sysfs and /sys/kernel/sched_ext where this runs")
    if state is State.UNSUPPORTED:
        return Check(name, Outcome.ERROR, f"{root / 'sys/kernel/sched_ext'} does not exist", BOOT_ANOTHER)
    return Check(name, Outcome.OK, f"present, {state}")


def _check_btf(root: Path) -> Check:
    name, path = "kernel.btf", root / VMLINUX
    try:
        with path.open("rb") as file:
            magic = file.read(2)
    except FileNotFoundError:
        if not (root / "sys/kernel").is_dir():
            return Check(name, Outcome.UNKNOWN, f"{root / 'sys'} is not mounted")
        return Check(name, Outcome.ERROR, f"{path} is not there", "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y")
    except OSError as error:
        return Check(name, Outcome.UNKNOWN, explain(path, error))
    if magic not in (b"\x9f\xeb", b"\xeb\x9f"):
        return Check(name, Outcome.ERROR, f"{path} is not BTF", "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y")
    return Check(name, Outcome.OK, str(path))


def check_kfuncs(root: Path) -> Check:
    """Whether schedulers that call the kernel's scx_bpf_ functions can load; it reads all of the kernel's BTF."""
    name = "kernel.btf_kfuncs"
    if read_state(root).state is State.UNSUPPORTED:
        return Check(name, Outcome.NOT_APPLICABLE, "a kernel without sched_ext has no scx_bpf_ functions")
    malformed = read_malformed_kfuncs(root)
    if malformed is None:
        return Check(name, Outcome.UNKNOWN, "there is no BTF")
    if isinstance(malformed, Unknown):
        return Check(name, Outcome.UNKNOWN, malformed.why)
    if not malformed:
        return Check(name, Outcome.OK, "the prototypes of the scx_bpf_ functions are as schedulers expect them")
    return Check(
        name,
        Outcome.WARNING,
        f"{len(malformed)} scx_bpf_ functions have malformed prototypes ({', '.join(malformed[:3])} …): "
        "schedulers that call one fail to load with EINVAL and `func_proto … incompatible with vmlinux`",
        "boot a kernel whose BTF was made with pahole 1.26 or later, or one before 7.0, which has no such functions",
    )


def _check_config(root: Path, config: Mapping[str, str] | Unknown) -> Check:
    name = "kernel.config"
    if isinstance(config, Unknown):
        return Check(name, Outcome.UNKNOWN, config.why)
    missing = [option for option in _OPTIONS if config.get(option) != "y"]
    if missing == [_SCHED_EXT] and read_state(root).state is State.UNSUPPORTED:  # one cause is one error
        return Check(name, Outcome.NOT_APPLICABLE, f"{_SCHED_EXT} is not set: see kernel.sched_ext")
    if missing:
        return Check(
            name, Outcome.ERROR, f"not set: {', '.join(missing)}", f"boot a kernel with {'=y '.join(missing)}=y"
        )
    return Check(name, Outcome.OK, f"{', '.join(_OPTIONS)} are set")


def _check_function_tracer(root: Path, config: Mapping[str, str] | Unknown) -> Check:
    name = "kernel.function_tracer"
    if isinstance(config, Unknown):
        tracers = read_text(root / "sys/kernel/tracing/available_tracers")
        if not isinstance(tracers, str):
            return Check(name, Outcome.UNKNOWN, tracers.why if tracers else config.why)
        has_it, seen = "function" in tracers.split(), f"the tracers are: {tracers}"
    else:
        has_it = config.get("CONFIG_FUNCTION_TRACER") == "y"
        seen = f"CONFIG_FUNCTION_TRACER is {'set' if has_it else 'not set'}"
    if has_it:
        return Check(name, Outcome.OK, seen)
    fix = "boot a kernel with CONFIG_FUNCTION_TRACER=y: the schedulers of the scx project refuse one without"
    return Check(name, Outcome.WARNING, seen, fix)


def _check_preempt_rt(root: Path) -> Check:
    name = "kernel.preempt_rt"
    version = read_text(root / "proc/version")
    realtime = read_text(root / "sys/kernel/realtime")  # only where it is, and 1
    if realtime == "1" or (isinstance(version, str) and "PREEMPT_RT" in version):
        return Check(
            name, Outcome.ERROR, "a PREEMPT_RT kernel, which takes no scheduler", "boot one without PREEMPT_RT"
        )
    if not isinstance(version, str):
        return Check(name, Outcome.UNKNOWN, version.why if version else f"{root / 'proc/version'} is not there")
    return Check(name, Outcome.OK, "not PREEMPT_RT")


def _check_isolcpus(root: Path) -> Check:
    name = "kernel.isolcpus"
    arguments = read_text(root / "proc/cmdline")
    if not isinstance(arguments, str):
        return Check(name, Outcome.UNKNOWN, arguments.why if arguments else f"{root / 'proc/cmdline'} is not there")
    isolated = read_text(root / "sys/devices/system/cpu/isolated")
    asked = [word for word in arguments.split() if _isolates_domains(word)]
    if asked and isolated != "":  # it names no CPU when what was asked for has none of this machine's
        return Check(
            name,
            Outcome.ERROR,
            f"booted with {asked[-1]}: the kernel refuses schedulers while CPUs are isolated from its domains",
            "boot without isolcpus=, or with its nohz or managed_irq flags alone",
        )
    return Check(name, Outcome.OK, "no CPU is isolated at boot")


def _isolates_domains(word: str) -> bool:
    """`isolcpus=1-3` and `isolcpus=domain,1-3` do, `isolcpus=managed_irq,1-3` does not."""
    name, _, value = word.partition("=")
    flags = [flag for flag in value.split(",") if flag[:1].isalpha()]
    return name == "isolcpus" and (not flags or "domain" in flags)


def examine_capabilities(root: Path = Path("/")) -> list[Check]:
    """What this process may do; CAP_SYS_ADMIN contains the other two."""
    mask = _read_capabilities(root)
    if isinstance(mask, Unknown):
        return [Check(f"caps.{name.lower()}", Outcome.UNKNOWN, mask.why) for name in _CAPABILITIES]
    held = {name for name, bit in _CAPABILITIES.items() if mask >> bit & 1}
    return [_check_capability(name, held) for name in _CAPABILITIES]


def _check_capability(name: str, held: set[str]) -> Check:
    check = f"caps.{name.lower()}"
    if name in held:
        return Check(check, Outcome.OK, "held")
    if name != "CAP_SYS_ADMIN" and "CAP_SYS_ADMIN" in held:
        return Check(check, Outcome.OK, "not held, but contained in CAP_SYS_ADMIN")
    fix = "run schedctl as root"
    if name == "CAP_SYS_ADMIN" and held.issuperset({"CAP_BPF", "CAP_PERFMON"}):
        return Check(check, Outcome.WARNING, "not held: who holds the slot cannot be seen, nor detached", fix)
    return Check(check, Outcome.ERROR, "not held", fix)


def _read_capabilities(root: Path) -> int | Unknown:
    path = root / "proc/self/status"
    status = read_text(path)
    if not isinstance(status, str):
        return status or Unknown(f"{path} is not there")
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            try:
                return int(value, 16)
            except ValueError:
                break
    return Unknown(f"{path} names no effective capabilities")


def _check_managers(root: Path) -> Check:
    name = "kernel.managers"
    found: dict[str, str] = {}
    pids = list_pids(root)
    if isinstance(pids, Unknown):
        return Check(name, Outcome.UNKNOWN, pids.why)
    for pid in pids:
        command = read_text(root / f"proc/{pid}/comm")
        if isinstance(command, str) and command in managers.PROCESSES:
            found[command] = managers.PROCESSES[command]
        cgroup = read_text(root / f"proc/{pid}/cgroup")
        if isinstance(cgroup, str):
            found |= {unit: stop for unit, stop in managers.SCHEDULER_UNITS.items() if f"/{unit}" in cgroup}
    enabled = {unit: stop for unit, stop in managers.UNITS.items() if _is_enabled(root, unit)}
    if not found and not enabled:
        return Check(name, Outcome.OK, "no other manager of schedulers runs, or is enabled")
    fix = "two managers take the slot from each other: " + "; ".join(dict.fromkeys((found | enabled).values()))
    told = {"running": found, "enabled at boot": enabled}
    seen = "; ".join(f"{how}: {', '.join(sorted(those))}" for how, those in told.items() if those)
    return Check(name, Outcome.WARNING, seen, fix)


def _is_enabled(root: Path, unit: str) -> bool:
    return any(os.path.lexists(root / f"etc/systemd/system/{target}.wants/{unit}") for target in _BOOT_TARGETS)


def _check_slot(root: Path) -> Check:
    name, state = "kernel.slot", read_state(root)
    if isinstance(state.state, Unknown):
        return Check(name, Outcome.UNKNOWN, state.state.why)
    if state.state is State.UNSUPPORTED:
        return Check(name, Outcome.NOT_APPLICABLE, "a kernel without sched_ext has none")
    if state.state is State.DISABLED:
        return Check(name, Outcome.OK, "free")
    ops = state.ops if isinstance(state.ops, str) else "a scheduler"
    # Whether a container is one of schedctl's is not the kernel's to tell: others start containers, too.
    fix = "schedctl status shows whose it is and what to do; schedctl switch replaces it only if schedctl manages it"
    return Check(name, Outcome.WARNING, f"{state.state}: {ops}, {describe_holder(read_holder(root))}", fix)
