"""The OCI runtime specification of a scheduler's container: as `ctr run --privileged` makes it, or with few rights."""

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from schedkit.errors import BadDataError
from schedkit.runtimes.containerd.users import User
from schedkit.runtimes.model import LOADING_CAPABILITIES, SCX_FOLDER, ContainerSpec

SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"
DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAME_FILES = ("/etc/hosts", "/etc/resolv.conf")
# By number, as the kernel counts them.
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL"),
    *("SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST"),
    *("NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO"),
    *("SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE"),
    *("AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM"),
    *("BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)
# Made new in each container, so not taken over from the host's /dev.
OWN_DEVICES = frozenset({"pts", "shm", "fd", "mqueue", "console", ".lxc", ".lxd-mounts", ".udev"})
# Of a container that is not privileged: what the engines do by default. Memory may be locked, as some schedulers do.
_RESTRICTED_PROCESS = {
    "noNewPrivileges": True,
    "rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": 2**64 - 1, "hard": 2**64 - 1}],
}
_RESTRICTED_PATHS = {
    "maskedPaths": [
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/scsi",
        "/sys/firmware",
    ],
    "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
}
_OWN_DEVICE_RULES = [
    {"allow": False, "access": "rwm"},
    # null, zero, full, random, urandom, tty, ptmx, and terminals: every runtime makes these.
    *(
        {"allow": True, "type": "c", "major": major, "minor": minor, "access": "rwm"}
        for major, minor in ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2))
    ),
    {"allow": True, "type": "c", "major": 136, "access": "rwm"},
]


class ImageConfig(NamedTuple):
    """The part of an image's configuration that a container is made by."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    folder: str = "/"
    user: str = ""
    labels: Mapping[str, str] = {}
    diff_ids: tuple[str, ...] = ()


class Device(NamedTuple):
    """A device of the host."""

    path: str
    type: str
    major: int
    minor: int
    mode: int
    uid: int
    gid: int


class HostFacts(NamedTuple):
    """What of this machine goes into a specification."""

    capabilities: tuple[str, ...]
    devices: tuple[Device, ...]
    unified_cgroups: bool
    name_files: tuple[str, ...] = ()  # what a program with a network reads to find others by name


def parse_config(data: bytes) -> ImageConfig:
    """An image's configuration; BadDataError if it is not one."""
    try:
        document = json.loads(data)
        config = document.get("config") or {}
        return ImageConfig(
            entrypoint=_texts(config.get("Entrypoint")),
            command=_texts(config.get("Cmd")),
            env=_texts(config.get("Env")),
            folder=str(config.get("WorkingDir") or "/"),
            user=str(config.get("User") or ""),
            labels={str(key): str(value) for key, value in (config.get("Labels") or {}).items()},
            diff_ids=_texts(document["rootfs"]["diff_ids"]),
        )
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BadDataError(f"the image's configuration is not what it must be: {error!r}") from error


def read_host(root: Path = Path("/")) -> HostFacts:
    """What this machine has to give: its devices, and the capabilities that we are allowed to hand on at most."""
    bounding = 0
    for line in (root / "proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            bounding = int(line.split()[1], 16)
    known = enumerate(CAPABILITIES)
    return HostFacts(
        capabilities=tuple(f"CAP_{name}" for number, name in known if bounding >> number & 1),
        devices=tuple(_read_devices(root / "dev", "/dev")),
        unified_cgroups=(root / "sys/fs/cgroup/cgroup.controllers").exists(),
        name_files=tuple(path for path in NAME_FILES if (root / path[1:]).exists()),
    )


def make_spec(
    id: str,
    config: ImageConfig,
    wanted: ContainerSpec,
    user: User,
    host: HostFacts,
    scx_folder: Path = Path(SCX_FOLDER),
) -> bytes:
    """The specification as JSON; `scx_folder` is where this host has what the container sees as SCX_FOLDER."""
    arguments = [*config.entrypoint, *(wanted.args or config.command)]
    if not arguments:
        raise BadDataError("the image names no command to run", hint="give one after `--`")
    least = wanted.unprivileged
    capabilities = [name for name in host.capabilities if not least or name in LOADING_CAPABILITIES]
    namespaces = ["mount", "ipc", "uts"]
    namespaces += ["cgroup"] if host.unified_cgroups else []
    namespaces += [] if wanted.host_network else ["network"]
    document = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user.uid, "gid": user.gid},
            "args": arguments,
            "env": _merge_env(config.env, wanted.env),
            "cwd": config.folder,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
            **(_RESTRICTED_PROCESS if least else {}),
        },
        "root": {"path": "rootfs"},
        "mounts": _mounts(
            scx_folder, (*(host.name_files if wanted.host_network else ()), *wanted.files), "ro" if least else "rw"
        ),
        "linux": {
            # No "pid": it stays in the host's. The network is its own and empty unless asked for: a scheduler's
            # statistics go through a unix socket, and whatever it listens on must not be open to the world.
            "namespaces": [{"type": name} for name in namespaces],
            "cgroupsPath": f"/schedkit/{id}",
            "resources": {"devices": _OWN_DEVICE_RULES if least else [{"allow": True, "access": "rwm"}]},
            **(_RESTRICTED_PATHS if least else {}),
            "devices": []
            if least
            else [
                {
                    "path": device.path,
                    "type": device.type,
                    "major": device.major,
                    "minor": device.minor,
                    "fileMode": device.mode,
                    "uid": device.uid,
                    "gid": device.gid,
                }
                for device in host.devices
            ],
        },
    }
    return json.dumps(document).encode()


def _mounts(scx_folder: Path, read_only: Sequence[str], sys: str) -> list[dict[str, object]]:
    safe = ["nosuid", "noexec", "nodev"]
    table: list[tuple[str, str, str, list[str]]] = [
        ("/proc", "proc", "proc", safe),
        ("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        ("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
        ("/dev/shm", "tmpfs", "shm", [*safe, "mode=1777", "size=65536k"]),  # noqa: S108
        ("/dev/mqueue", "mqueue", "mqueue", safe),
        ("/sys", "sysfs", "sysfs", [*safe, sys]),
        ("/sys/fs/cgroup", "cgroup", "cgroup", [*safe, "relatime", sys]),
        (SCX_FOLDER, "bind", str(scx_folder), ["rbind", "rw"]),
        *((path, "bind", path, ["rbind", "ro"]) for path in read_only),
    ]
    return [
        {"destination": target, "type": type_, "source": source, "options": options}
        for target, type_, source, options in table
    ]


def _merge_env(image: Sequence[str], wanted: Mapping[str, str]) -> list[str]:
    variables: dict[str, str] = {}
    for line in (DEFAULT_PATH, *image, *(f"{name}={value}" for name, value in wanted.items())):
        name, _, value = line.partition("=")
        variables[name] = value
    return [f"{name}={value}" for name, value in variables.items()]


def _read_devices(folder: Path, shown: str) -> Iterator[Device]:
    """All device nodes under a folder; one that goes away meanwhile is left out."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        path = f"{shown}/{entry.name}"
        try:
            status = entry.lstat()
        except OSError:
            continue
        if shown == "/dev" and entry.name in OWN_DEVICES:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _read_devices(entry, path)
        elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            yield Device(
                path,
                "c" if stat.S_ISCHR(status.st_mode) else "b",
                os.major(status.st_rdev),
                os.minor(status.st_rdev),
                status.st_mode & 0o7777,
                status.st_uid,
                status.st_gid,
            )


def _texts(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{value!r} is not a list of texts")
    return tuple(value)
