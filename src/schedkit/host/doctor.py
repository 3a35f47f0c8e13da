"""Everything that can be looked at before something goes wrong."""

from collections.abc import Callable, Sequence

from schedkit.errors import SchedkitError
from schedkit.host.model import Machine
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.preflight import examine_kernel
from schedkit.runtimes.drivers import DRIVERS
from schedkit.runtimes.model import Runtime
from schedkit.runtimes.view import Runtimes, UnreachableRuntime

# Ask a registry whether it is there; raises what kept it from answering.
Probe = Callable[[str], None]


def examine(
    machine: Machine,
    runtimes: Runtimes,
    *,
    registries: Sequence[str] = (),
    probe: Probe | None = None,
) -> list[Check]:
    """The kernel, the runtimes and, given a `probe`, the registries of the catalog."""
    checks = examine_kernel(machine.root) + examine_runtimes(runtimes)
    return checks + [examine_registry(registry, probe) for registry in registries if probe]


def examine_runtimes(runtimes: Runtimes) -> list[Check]:
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
        *checks,
        Check(
            "runtime.any",
            Outcome.ERROR,
            "no container runtime responds",
            "install podman, docker or containerd and start its socket; schedctl must run as root",
        ),
    ]


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
        return Check(name, Outcome.WARNING, f"{one.socket}: {one.why}", start)
    runtime = answering[driver]
    try:
        version = runtime.fetch_version()
    except SchedkitError as error:
        return Check(name, Outcome.WARNING, error.message, error.hint or start)
    return Check(name, Outcome.OK, f"{driver} {version} at {runtime.socket}")
