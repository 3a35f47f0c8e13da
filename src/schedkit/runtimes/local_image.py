"""An image that a runtime has."""

from typing import NamedTuple

from schedkit.errors import SchedkitError


class LocalImage(NamedTuple):
    """What is to be known of it to show it, and to remove it."""

    driver: str
    id: str  # as its runtime knows it: the configuration's digest, or in containerd what its name points to
    names: tuple[str, ...]  # REPOSITORY:TAG and REPOSITORY@DIGEST
    size: int | None  # bytes that it takes here; None where nobody can tell
    scheduler: bool  # whether its own label, or containerd's namespace of schedctl, says that it is one

    @property
    def repositories(self) -> frozenset[str]:
        """Registry and path, without tag and digest."""
        return frozenset(find_repository(name) for name in self.names)


class ImageInUseError(SchedkitError):
    """An image of which a container is there is not removed."""

    reason = "ImageInUse"


def find_repository(name: str) -> str:
    """An image's name without tag and digest; a colon before the last slash is a port's."""
    path, slash, last = name.partition("@")[0].rpartition("/")
    return f"{path}{slash}{last.partition(':')[0]}"


def in_use(driver: str, name: str, why: str) -> ImageInUseError:
    """The error for an image that some container is made of."""
    return ImageInUseError(
        f"{driver}: {name} is in use: {why}",
        hint="`schedctl ps --all` lists containers, `schedctl stop` removes one, `schedctl disable` the unit",
    )
