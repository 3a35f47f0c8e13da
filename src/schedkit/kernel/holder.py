"""Who keeps the attached scheduler in its slot: the process with the struct_ops link open."""

import errno
import os
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from schedkit.kernel.bpf import Bpf, StructOps
from schedkit.kernel.files import explain, list_pids, read_text
from schedkit.kernel.state import State, read_state
from schedkit.unknown import Unknown

_TRIES = 3
# How runtimes call a container's cgroup, and whose it is then: `libpod-ID.scope`, `docker-ID.scope` …
_PREFIXES = {
    "libpod-": "podman",
    "docker-": "docker",
    "cri-containerd-": "containerd",
    "crio-": None,
    "nerdctl-": "containerd",
    "schedkit-": "containerd",
}
# … or ID below a group of their own (docker without systemd, and containerd's namespaces).
_PARENTS = {
    "docker": "docker",
    "schedkit": "containerd",
    "default": "containerd",
    "moby": "docker",
    "k8s.io": "containerd",
}
_WITHIN = ("libpod-payload-", "libpod-conmon-")  # podman beside the container, with an id that is not the whole name


class Holder(NamedTuple):
    """A process, and the container it is in as its cgroup tells."""

    pid: int
    command: str
    link: int | None = None  # the BPF link's id
    container: str | Unknown | None = None  # the runtime's id for it: 64 hexadecimal digits, or containerd's any word
    pod: str | None = None  # the UID of the Kubernetes pod that it is in, `?` if its cgroup does not tell that
    driver: str | None = None  # the container's runtime; None also where the cgroup does not tell whose it is
    unit: str | None = None  # the service of systemd that it is in, outside of any container


class Registration(NamedTuple):
    """How the attached scheduler came into the kernel: through a link, or (the old way) by its map alone."""

    link: int | None
    map: int


def read_holder(root: Path = Path("/"), *, struct_ops: StructOps | None = None) -> Holder | Unknown | None:
    """None when no process holds one (nothing attached, or the link is pinned); Unknown when /proc would not tell."""
    for _ in range(_TRIES):
        registration = find_registration(root, struct_ops or Bpf())
        if not isinstance(registration, Registration):
            return registration
        pid = _find_process(root, registration)
        if not isinstance(pid, int):
            return pid
        command = read_text(root / f"proc/{pid}/comm")
        if command is not None:  # else it ended just now: look again, another may hold it
            name = command if isinstance(command, str) else "?"
            cgroup = _read_cgroup(root, pid)
            if isinstance(cgroup, Unknown):
                return Holder(pid, name, registration.link, cgroup)
            driver, container = parse_container(cgroup)
            unit = None if container else parse_unit(cgroup)
            return Holder(pid, name, registration.link, container, parse_pod(cgroup), driver, unit)
    return None


def describe_holder(holder: Holder | Unknown | None) -> str:
    """Who keeps it there, in a sentence."""
    if isinstance(holder, Unknown):
        return f"by whom could not be read ({holder.why})"
    if holder is None:
        return "held by no process (a pinned BPF link, or one that is just leaving)"
    where = ""
    if isinstance(holder.container, Unknown):
        where = f"; whether it is in a container could not be read ({holder.container.why})"
    elif holder.container:
        where = f", in the container {holder.container[:12]}"
    elif holder.unit:
        where = f" of {holder.unit}"
    if holder.pod:
        where = f", in a Kubernetes pod (UID {holder.pod})"
    return f"by process {holder.pid} ({holder.command}){where}"


def find_registration(root: Path, struct_ops: StructOps) -> Registration | Unknown | None:
    """The link or map of the attached scheduler; None when nothing is attached or the kernel shows neither."""
    for _ in range(_TRIES):
        state = read_state(root)
        if isinstance(state.state, Unknown):
            return state.state
        if isinstance(state.ops, Unknown):
            return state.ops
        if state.ops is None or state.state in (State.DISABLED, State.UNSUPPORTED):
            return None
        try:
            found = _find_named(struct_ops, state.ops)
        except OSError as error:
            return Unknown(_explain_refusal(error))
        if found:
            return found
        if read_state(root).enable_seq == state.enable_seq:
            return None
    return None


def _find_named(struct_ops: StructOps, ops: str) -> Registration | None:
    # A scheduler that was ejected keeps its link until its process ends, so of several with this name the
    # newest is the one in the slot; ids grow.
    for link in sorted(struct_ops.list_links(), key=lambda link: link.id, reverse=True):
        if _holds_name(struct_ops, link.map, ops):
            return Registration(link.id, link.map)
    for map_id in sorted(struct_ops.list_maps(), reverse=True):
        if _holds_name(struct_ops, map_id, ops):
            return Registration(None, map_id)
    return None


def _holds_name(struct_ops: StructOps, map_id: int, ops: str) -> bool:
    """Whether the registered structure carries this name; where in it differs from kernel to kernel."""
    if not map_id:  # a link that was detached
        return False
    try:
        value = struct_ops.read_value(map_id)
    except OSError as error:
        if error.errno == errno.ENOENT:  # it went away since it was listed
            return False
        raise
    wanted = ops.encode() + b"\0"
    at = value.find(wanted)
    while at >= 0 and not _begins_field(value, at):  # `fifo` is not found in `schedkit_fifo`
        at = value.find(wanted, at + 1)
    return at >= 0


def _begins_field(value: bytes, at: int) -> bool:
    """A field begins at a round offset, and behind a number, whose last byte here is its highest."""
    return at % 4 == 0 and (sys.byteorder == "big" or not value[at - 1 : at].isalnum())


def _find_process(root: Path, registration: Registration) -> int | Unknown | None:
    kind, field, wanted = (
        ("bpf_link", "link_id", registration.link)
        if registration.link is not None
        else ("bpf-map", "map_id", registration.map)
    )
    pids = list_pids(root)
    if isinstance(pids, Unknown):
        return pids
    refused = None if _shows_all(root) else Unknown("this process does not see the host's processes")
    for pid in pids:
        try:
            has_it = _has_open(root / f"proc/{pid}", kind, field, str(wanted))
        except PermissionError as error:
            has_it = Unknown(explain(error.filename, error))
        except OSError:  # it ended while we looked
            continue
        if has_it is True:
            return pid
        refused = has_it if isinstance(has_it, Unknown) else refused
    return refused


def _shows_all(root: Path) -> bool:
    """Whether this /proc is the host's: its process 1 is in the first of all namespaces, which has this number."""
    try:
        return str((root / "proc/1/ns/pid").readlink()) == "pid:[4026531836]"
    except OSError:  # then reading what processes have open will tell
        return True


def _has_open(process: Path, kind: str, field: str, wanted: str) -> bool | Unknown:
    answer: bool | Unknown = False
    with os.scandir(process / "fd") as files:
        for file in files:
            try:
                target = os.readlink(file.path)  # noqa: PTH115 - there may be a hundred thousand of them
            except FileNotFoundError:
                continue
            if target.startswith("anon_inode:") and kind in target:
                fields = read_text(process / "fdinfo" / file.name)
                if isinstance(fields, Unknown):
                    answer = fields
                elif fields and _parse_field(fields, field) == wanted:
                    return True
    return answer


def _parse_field(fields: str, name: str) -> str | None:
    for line in fields.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return None


def _read_cgroup(root: Path, pid: int) -> str | Unknown:
    path = root / f"proc/{pid}/cgroup"
    cgroup = read_text(path)
    return Unknown(f"{path} is not there") if cgroup is None else cgroup


def parse_container(cgroup: str) -> tuple[str | None, str | None]:
    """The container's driver, as far as its name tells that, and its id in what /proc/PID/cgroup says."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1].split("/")
        for parent, name in reversed(list(pairwise(path))):
            driver, container = _parse_group(parent, name)
            if container:
                return driver, container
    return None, None


def parse_pod(cgroup: str) -> str | None:
    """The Kubernetes pod's UID in what /proc/PID/cgroup says: kubelets put all pods below `kubepods`."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1].split("/")
        # Below a cgroup root of the kubelet's own, systemd writes that before it: `kubelet-kubepods.slice`.
        if any("kubepods" in re.split("[-.:]", part) for part in path):
            # `pod1234-…` with cgroupfs; with systemd `kubepods-burstable-pod1234_….slice`, whose hyphens mean folders
            groups = [part.partition(":")[0].removesuffix(".slice") for part in path]
            named = [group.rpartition("pod")[2].replace("_", "-") for group in groups]
            return next((uid for uid in reversed(named) if _is_uid(uid)), "?")
    return None


def parse_unit(cgroup: str) -> str | None:
    """The service of systemd in what /proc/PID/cgroup says; what a person started is in a scope, or in a terminal's."""
    groups = [line.rpartition("/")[2] for line in cgroup.splitlines()]
    return next((group for group in groups if group.endswith(".service")), None)


def _is_uid(word: str) -> bool:
    """A UUID; of static pods a hash without hyphens."""
    digits = word.replace("-", "")
    return len(digits) == 32 and all(character in "0123456789abcdef" for character in digits)


def _parse_group(parent: str, name: str) -> tuple[str | None, str | None]:
    if name.startswith(_WITHIN):
        return None, None
    bare = name.removesuffix(".scope").rsplit(":", 1)[-1]  # `slice:prefix:ID`, as some drivers leave it
    for prefix, driver in _PREFIXES.items():
        if bare.startswith(prefix):
            return driver, bare.removeprefix(prefix)
    if parent in _PARENTS or _is_digest(bare):
        return _PARENTS.get(parent), bare
    return None, None


def _is_digest(name: str) -> bool:
    return len(name) == 64 and all(character in "0123456789abcdef" for character in name)


def _explain_refusal(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return "only root can ask the kernel for its BPF links"
    return f"bpf(2): {error.strerror or error}"
