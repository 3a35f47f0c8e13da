"""One view of all container runtimes: which respond, which do not and why, and where new containers go."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from schedkit.errors import NoAnswerError, NoPermissionError, SchedkitError, UnavailableError

if TYPE_CHECKING:
    from schedkit.runtimes.container import Container
    from schedkit.runtimes.model import Runtime

NOTICE_SECONDS = 1.0  # who waits longer than this is told for whom

Answer = TypeVar("Answer")
Notice = Callable[[str], None]


def ignore(_: object) -> None:
    """Whoever does not want to be told."""


class UnreachableRuntime(NamedTuple):
    """A runtime that could not be asked. `absent`: it has no socket; what it once started may run on."""

    driver: str
    socket: str
    why: str
    absent: bool
    error: type[SchedkitError] = UnavailableError  # what its failure is where just this runtime is needed
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.driver} does not respond ({self.why})"


class Runtimes:
    """Made once per command. Everybody who looks asks all of them; only `chosen` gets new containers."""

    def __init__(
        self,
        responding: Iterable["Runtime"],
        unreachable: Iterable[UnreachableRuntime] = (),
        *,
        driver: str | None = None,
        notice: Notice = ignore,
    ) -> None:
        """`driver` is the one that the user named, None for any; `notice` is told of what takes long."""
        self.responding = list(responding)
        self.unreachable = list(unreachable)
        self._opened = list(self.responding)
        self._driver = driver
        self._notice = notice
        self._chosen: Runtime | None = None

    def __iter__(self) -> Iterator["Runtime"]:
        return iter(list(self.responding))

    @property
    def hidden(self) -> list[UnreachableRuntime]:
        """Those that are there, or should be, and could not be asked: what they run is unknown."""
        return [one for one in self.unreachable if not one.absent]

    @property
    def chosen(self) -> "Runtime":
        """Where new containers go: the runtime that the user named, else the first that responds.

        One that is there and slow is not passed over: it may be the one that holds all the others' images.
        """
        if self._chosen is not None:  # once, whatever becomes of the others meanwhile
            return self._chosen
        for runtime in self.responding:
            if self._driver in (None, runtime.driver):
                self._check_not_passed_over(runtime)
                self._chosen = runtime
                return runtime
        named = [one for one in self.unreachable if self._driver in (None, one.driver)]
        if self._driver is not None and named:
            raise named[0].error(
                f"{named[0].driver} does not respond at {named[0].socket}: {named[0].why}", hint=named[0].hint
            )
        why = "; ".join(f"{one.driver}: {one.why}" for one in named)
        kind, start = _worst(self.hidden), "start one, for example: systemctl start podman.socket"
        raise kind(
            f"no container runtime responds ({why})",
            hint=self.hidden[0].hint if kind is NoPermissionError else f"{start}; `schedctl doctor` shows more",
        )

    def choose(self, driver: str) -> None:
        """Create new containers in this runtime from now on."""
        self._driver, self._chosen = driver, None

    def find(self, container: "Container") -> "Runtime":
        """The runtime of a container that `fetch_containers` returned."""
        return next(one for one in self._opened if one.driver == container.driver)

    def fetch_containers(self) -> list["Container"]:
        """All schedulers' containers; a runtime that does not tell its own joins the hidden ones."""
        asked = {one.driver: one for one in self.responding}
        if not asked:
            return []

        def ask(driver: str) -> "list[Container] | SchedkitError":
            try:
                return asked[driver].fetch_containers()
            except SchedkitError as error:
                return error

        def tell(slow: list[str]) -> None:
            self._notice(f"waiting for {' and '.join(slow)} to list containers")

        containers: list[Container] = []
        for driver, told in ask_all(asked, ask, tell).items():
            if isinstance(told, SchedkitError):
                self.hide(asked[driver], told)
            else:
                containers += told
        return containers

    def hide(self, runtime: "Runtime", error: SchedkitError) -> None:
        """Ask this runtime no more in this command: it failed once."""
        self.responding = [one for one in self.responding if one is not runtime]
        lost = UnreachableRuntime(runtime.driver, runtime.socket, error.message, False, type(error), error.hint)
        self.unreachable = [one for one in self.unreachable if one.driver != runtime.driver] + [lost]

    def close(self) -> None:
        """Give back connections."""
        for runtime in self._opened:
            runtime.close()

    def _check_not_passed_over(self, runtime: "Runtime") -> None:
        slow = [one for one in self.hidden if one.error is NoAnswerError]
        if self._driver is None and slow:
            raise NoAnswerError(
                f"{slow[0].driver} is there and does not respond at {slow[0].socket}: {slow[0].why}",
                hint=f"restart it, or choose another runtime: --driver {runtime.driver}",
            )


def ask_all(
    drivers: Iterable[str], ask: Callable[[str], Answer], notice: Callable[[list[str]], None]
) -> dict[str, Answer]:
    """Ask everybody at the same time, each in a thread; after a second `notice` is told who has not answered.

    `ask` must not raise.
    """
    import threading

    answers: dict[str, Answer] = {}
    threads = {
        driver: threading.Thread(target=lambda driver=driver: answers.update({driver: ask(driver)}), daemon=True)
        for driver in drivers
    }
    for thread in threads.values():
        thread.start()
    first = time.monotonic() + NOTICE_SECONDS
    for thread in threads.values():
        thread.join(max(0.0, first - time.monotonic()))
    slow = [driver for driver, thread in threads.items() if thread.is_alive()]
    if slow:
        notice(slow)
    for thread in threads.values():
        thread.join()
    return {driver: answers[driver] for driver in threads}


def describe_hidden(hidden: Iterable[UnreachableRuntime]) -> str:
    """`podman does not respond (connection refused), docker …`; empty if there are none."""
    return ", ".join(str(one) for one in hidden)


def unseen(what: str, hidden: list[UnreachableRuntime]) -> SchedkitError:
    """The error where something was not found and may be in a runtime that could not be asked."""
    return _worst(hidden)(
        f"{what}, but not every runtime could be asked: {describe_hidden(hidden)}",
        hint=next((one.hint for one in hidden if one.hint), "`schedctl doctor` shows more"),
    )


def _worst(hidden: list[UnreachableRuntime]) -> type[SchedkitError]:
    """One error for several runtimes: what only needs other rights says so."""
    kinds = {one.error for one in hidden}
    if kinds == {NoPermissionError}:
        return NoPermissionError
    return NoAnswerError if kinds == {NoAnswerError} else UnavailableError
