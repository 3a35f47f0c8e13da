"""A runtime on the bench, and what all claims use."""

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from schedkit.errors import NotFoundError
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry
from schedkit.runtimes.model import Container, ContainerSpec, ContainerState, Content, Runtime

REGISTRY = "localhost:5000"
IDLE = "scx_idle:v1"  # runs until told to stop, and leaves the kernel's slot alone
REJECT = "scx_reject:v1"  # ends at once with status 1 and words on stderr
PATIENCE = 120.0  # the machine is emulated

Error = TypeVar("Error", bound=BaseException)


@dataclass
class Bench:
    """A runtime under test, and what a claim made with it, which is removed whatever happens."""

    runtime: Runtime
    made: list[str] = field(default_factory=list)

    def pull(self, image: str = IDLE) -> Content:
        content = fetch_image(image)
        self.runtime.pull(content, ignore_progress)
        return content

    def create(self, name: str, image: str = IDLE, **words: object) -> str:
        id = self.runtime.create(self.pull(image), ContainerSpec(name, **words))  # type: ignore[arg-type]
        self.made.append(id)
        return id

    def start(self, name: str, image: str = IDLE, **words: object) -> Container:
        id = self.create(name, image, **words)
        self.runtime.start(id)
        return self.runtime.fetch_container(id)

    def stop(self, id: str) -> int | None:
        self.runtime.signal(id, signal.SIGTERM)
        return self.runtime.wait(id, PATIENCE)

    def read_logs(self, id: str, **words: object) -> str:
        return b"".join(self.runtime.stream_logs(id, **words)).decode()  # type: ignore[arg-type]

    def wait_said(self, id: str, text: str) -> None:
        """Until it has said so; then it is ready for signals, too."""
        said = ""
        for piece in self.runtime.stream_logs(id, follow=True):
            said += piece.decode()
            if text in said:
                return
        raise AssertionError(f"it ended without saying {text!r}: {said!r}")

    def close(self) -> None:
        for id in self.made:
            with suppress(NotFoundError):
                self.runtime.signal(id, signal.SIGKILL)
                if self.runtime.fetch_container(id).state != ContainerState.CREATED:
                    self.runtime.wait(id, PATIENCE)
                self.runtime.remove(id)
        self.runtime.close()


CLAIMS: dict[str, Callable[[Bench], None]] = {}


def claim(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
    CLAIMS[function.__name__] = function
    return function


def ignore_progress(done: int, total: int) -> None:
    pass


def fetch_image(name: str) -> Content:
    return Registry().fetch_image(parse_reference(f"{REGISTRY}/{name}"))


def expect(kind: type[Error], action: Callable[[], object]) -> Error:
    """As pytest.raises, which the guest does not have."""
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")
