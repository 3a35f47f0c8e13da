"""Images of schedulers on this machine, in all runtimes: which there are, who uses them, and away with them."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from schedkit.errors import SchedkitError
from schedkit.host.lock import hold_lock
from schedkit.host.model import Host
from schedkit.runtimes.container import Container
from schedkit.runtimes.labels import Label
from schedkit.runtimes.local_image import LocalImage, find_repository, in_use
from schedkit.runtimes.view import Runtimes, UnreachableRuntime

# Whether a repository is one of schedulers, by the catalog or by what the user says.
IsOurs = Callable[[str], bool]


class KeptImage(NamedTuple):
    """An image of a scheduler, and the containers that are made of it, ended ones too."""

    image: LocalImage
    used_by: tuple[str, ...] = ()  # names


class KeptImages(NamedTuple):
    """All of them, as far as runtimes tell."""

    images: tuple[KeptImage, ...]
    unreachable: tuple[UnreachableRuntime, ...] = ()


class NotRemoved(NamedTuple):
    """An image that is still there, and why."""

    image: LocalImage
    error: SchedkitError


def fetch_kept_images(runtimes: Runtimes, is_ours: IsOurs) -> KeptImages:
    """Images that say of themselves that they are schedulers, or are of repositories that are; others are not ours."""
    containers = runtimes.fetch_containers()
    found: list[KeptImage] = []
    for runtime in list(runtimes.responding):
        try:
            images = runtime.fetch_images()
        except SchedkitError as error:
            runtimes.hide(runtime, error)
            continue
        for image in images:
            names = (
                image.names if image.scheduler else tuple(one for one in image.names if is_ours(find_repository(one)))
            )
            if names or (image.scheduler and not image.names):
                ours = image._replace(names=names)
                found.append(KeptImage(ours, tuple(_find_users(ours, containers))))
    ordered = sorted(found, key=lambda one: (one.image.names, one.image.driver))
    return KeptImages(tuple(ordered), tuple(runtimes.hidden))


def choose_removable(images: Sequence[KeptImage]) -> tuple[list[LocalImage], list[NotRemoved]]:
    """Those that can go, and why the others cannot.

    Said here: of an image with several names an engine takes one away, whoever uses it.
    """
    used = [one for one in images if one.used_by]
    why = [in_use(one.image.driver, describe(one.image), f"by {', '.join(one.used_by)}") for one in used]
    failed = [NotRemoved(one.image, error) for one, error in zip(used, why, strict=True)]
    return [one.image for one in images if not one.used_by], failed


def remove_images(host: Host, choose: Callable[[], Sequence[KeptImage]]) -> tuple[list[LocalImage], list[NotRemoved]]:
    """Each that is chosen, whatever becomes of the others."""
    removed: list[LocalImage] = []
    with hold_lock(host.machine.lock):  # chosen under it, too: a container that another command creates is seen
        removable, failed = choose_removable(choose())
        for image in removable:
            host.progress.step(f"removing {describe(image)} from {image.driver}")
            try:
                runtime = next(runtime for runtime in host.runtimes if runtime.driver == image.driver)
                runtime.remove_image(image)
                removed.append(image)
            except SchedkitError as error:
                failed.append(NotRemoved(image, error))
    return removed, failed


def match(images: Iterable[KeptImage], names: frozenset[str], repository: str | None, id: str) -> list[KeptImage]:
    """Those that a word means: by one of these names, by a repository, or by the beginning of an id."""
    found = []
    for one in images:
        meant = tuple(
            name for name in one.image.names if name in names or (repository and find_repository(name) == repository)
        )
        by_id = len(id) >= 6 and one.image.id.removeprefix("sha256:").startswith(id.removeprefix("sha256:"))
        if by_id or meant:
            found.append(one if by_id else one._replace(image=one.image._replace(names=meant)))
    return found


def describe(image: LocalImage) -> str:
    """Name an image by its first name, else by its id."""
    return image.names[0] if image.names else image.id[:19]


def _find_users(image: LocalImage, containers: Iterable[Container]) -> list[str]:
    """Containers in the same runtime whose manifest this is, or whose image has one of its names."""
    return [
        one.name
        for one in containers
        if one.driver == image.driver
        and (one.image in image.names or is_of(image, one.labels.get(Label.MANIFEST), one.labels.get(Label.DIGEST)))
    ]


def is_of(image: LocalImage, *digests: str | None) -> bool:
    """Whether an image is known by one of these digests here."""
    known = {image.id, *(name.partition("@")[2] for name in image.names)}
    return any(digest in known for digest in digests if digest)
