"""Find the container runtimes of this machine, and how to reach them."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from schedkit.errors import NoPermissionError, sudo_hint
from schedkit.runtimes.known import DRIVERS, RESPONSE_SECONDS
from schedkit.runtimes.probe import ABSENT, Answered, Failed, probe
from schedkit.runtimes.view import Notice, Runtimes, UnreachableRuntime, ignore

if TYPE_CHECKING:
    from schedkit.runtimes.model import Runtime


def find_runtimes(
    driver: str | None = None,
    named: Mapping[str, str] | None = None,
    *,
    notice: Notice = ignore,
    seconds: float = RESPONSE_SECONDS,
) -> Runtimes:
    """Ask all drivers at the same time; `driver` gets new containers.

    `named` are the sockets that the user names, by driver; the others are where they usually are.
    An absent socket and one that refuses cost nothing; one that accepts is waited for, at most `seconds`.
    """
    named = named or {}
    sockets = {name: named.get(name) or find_socket(name, os.environ) for name in DRIVERS}

    def tell(slow: list[str]) -> None:
        notice("waiting for " + " and ".join(f"{name} to respond at {sockets[name]}" for name in slow))

    responding: list[Runtime] = []
    unreachable: list[UnreachableRuntime] = []
    for name, outcome in probe(sockets, seconds, tell).items():
        if isinstance(outcome, Failed):
            # Who names a runtime or its socket says that it is there, and may be right.
            said = name in named or (name == driver and outcome is ABSENT)
            absent = outcome.absent and not said
            unreachable.append(_describe(name, sockets[name], outcome, absent=absent))
        else:
            responding.append(_open(name, sockets[name], outcome))
    return Runtimes(responding, unreachable, driver=driver, notice=notice)


def find_socket(driver: str, environment: Mapping[str, str]) -> str:
    """Where the driver's runtime listens; a variable that names something else than a unix socket is not for us."""
    named = environment.get(DRIVERS[driver].variable, "")
    path = named.removeprefix("unix://")
    return path if path.startswith("/") else DRIVERS[driver].socket


def _describe(driver: str, socket: str, failed: Failed, *, absent: bool) -> UnreachableRuntime:
    hint = f"start it, for example: systemctl start {DRIVERS[driver].unit}; or name its socket with --socket"
    if failed.error is NoPermissionError:
        hint = sudo_hint()
    return UnreachableRuntime(driver, socket, failed.why, absent, failed.error, hint)


def _open(driver: str, path: str, answered: Answered) -> "Runtime":
    if driver == "containerd":
        from schedkit.runtimes.containerd import Containerd

        return Containerd(path)
    from schedkit.runtimes.engine import Engine

    return Engine(driver, path, api=answered.api)
