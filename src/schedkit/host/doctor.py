"""Everything that can be looked at before something goes wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path

from schedkit.errors import NoPermissionError, SchedkitError
from schedkit.host.machine import Machine
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.preflight import examine_kernel
from schedkit.runtimes.known import DRIVERS
from schedkit.runtimes.model import Runtime
from schedkit.runtimes.view import Runtimes, UnreachableRuntime

_PROGRAMS = ("usr/bin", "usr/sbin", "usr/local/bin")  # folders

_USERS = "/run/user/"  # where each user's services have their sockets
_ROOTLESS = ("podman/podman.sock", "docker.sock")

# Ask a registry whether it responds; raises what kept it from doing so.
Probe = Callable[[str], None]


def examine(
    machine: Machine,
    runtimes: Runtimes,
    *,
    registries: Sequence[str] = (),
    probe: Probe | None = None,
) -> list[Check]:
    """The kernel, the runtimes and, given a `probe`, the registries of the catalog."""
    checks = examine_kernel(machine.root) + examine_runtimes(machine.root, runtimes)
    checks += examine_rootless(machine.root, runtimes)
    return checks + [examine_registry(registry, probe) for registry in registries if probe]


def examine_runtimes(root: Path, runtimes: Runtimes) -> list[Check]:
    """One check for each driver, none of which must be there, and one for all of them, of which one must."""
    answering = {one.driver: one for one in runtimes}
    quiet = {one.driver: one for one in runtimes.unreachable}
    checks = [_examine_driver(driver, answering, quiet) for driver in DRIVERS if driver in answering or driver in quiet]
    working = [check for check in checks if check.outcome is Outcome.OK]
    if working:
        # One is enough: that others are not installed is nothing to fix.
        checks = [_excuse(check, quiet.get(_driver_of(check))) for check in checks]
        return [*checks, Check("runtime.any", Outcome.OK, f"{len(working)} of {len(checks)} runtimes respond")]
    return [
        *(
            check if is_installed(root, _driver_of(check)) else _excuse(check, quiet.get(_driver_of(check)))
            for check in checks
        ),
        Check(
            "runtime.any",
            Outcome.ERROR,
            "no container runtime responds",
            "install podman, docker or containerd, and start its service",
        ),
    ]


def examine_rootless(root: Path, runtimes: Runtimes) -> list[Check]:
    """A warning of engines that are not root's, where they are used or nothing else is there; else nothing.

    Their containers have no capability outside of a user namespace, and loading a scheduler needs some.
    """
    used = [one.socket for one in runtimes if _is_users(one.socket)]
    found = sorted(f"/{path.relative_to(root)}" for name in _ROOTLESS for path in root.glob(f"run/user/[1-9]*/{name}"))
    if not used and (list(runtimes) or not found):
        return []
    where = ", ".join(used or found)
    seen = f"rootless: {where}; its containers cannot load schedulers"
    fix = "start the system's engine: systemctl enable --now podman.socket"
    return [Check("runtime.rootless", Outcome.WARNING, seen, f"{fix}, and name no other socket" if used else fix)]


def _is_users(socket: str) -> bool:
    return socket.startswith(_USERS) and not socket.startswith(f"{_USERS}0/")


def is_installed(root: Path, driver: str) -> bool:
    """Whether the runtime's program is where distributions put programs: then it only has to be started."""
    return any((root / folder / driver).exists() for folder in _PROGRAMS)


def _driver_of(check: Check) -> str:
    return check.name.removeprefix("runtime.").removesuffix("_socket")


def _excuse(check: Check, quiet: UnreachableRuntime | None) -> Check:
    if quiet is None or not quiet.absent:
        return check
    return Check(check.name, Outcome.NOT_APPLICABLE, f"not running here: {quiet.socket}: {quiet.why}")


def examine_registry(registry: str, probe: Probe) -> Check:
    """A registry that cannot be reached keeps nothing that is pulled from running."""
    name = "registry.reachable"
    try:
        probe(registry)
    except SchedkitError as error:
        return Check(name, Outcome.WARNING, error.message, error.hint or "check the network, the proxy and the mirrors")
    return Check(name, Outcome.OK, f"{registry} responds")


def _examine_driver(driver: str, answering: dict[str, Runtime], quiet: dict[str, UnreachableRuntime]) -> Check:
    name, start = f"runtime.{driver}_socket", f"systemctl enable --now {DRIVERS[driver].unit}"
    if driver in quiet:
        one = quiet[driver]
        fix = one.hint if one.error is NoPermissionError else start
        return Check(name, Outcome.WARNING, f"{one.socket}: {one.why}", fix)
    runtime = answering[driver]
    try:
        version = runtime.fetch_version()
    except SchedkitError as error:
        return Check(name, Outcome.WARNING, error.message, error.hint or start)
    return Check(name, Outcome.OK, f"{driver} {version} at {runtime.socket}")
