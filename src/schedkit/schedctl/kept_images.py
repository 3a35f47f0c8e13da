"""What `images`, `rmi` and `prune` share: which images are schedulers', and how they are shown."""

from collections.abc import Sequence

from schedkit.host.local_images import KeptImage, KeptImages, fetch_kept_images, is_of
from schedkit.host.units import ENABLED, RERUN, Choice, read_choice
from schedkit.runtimes.local_image import LocalImage, find_repository
from schedkit.schedctl.output import Json
from schedkit.schedctl.session import Session
from schedkit.unknown import Unknown


def find_places(session: Session) -> frozenset[str]:
    """The repositories that are schedulers': the catalog names them, or they are mirrors. It may have to be fetched."""
    settings = session.registry_settings
    return frozenset(
        f"{registry}/{path}"
        for entry in session.catalog.entries.values()
        for registry, path in settings.list_repositories(entry.image.registry, entry.image.path)
    )


def gather(session: Session, places: frozenset[str]) -> KeptImages:
    """Those of all runtimes that are of these repositories, or say of themselves that they are schedulers."""
    kept = fetch_kept_images(session.runtimes, lambda repository: repository in places)
    for one in kept.unreachable:
        session.progress.warn(f"{one}: what it has is not known")
    units = {unit: read_choice(session.machine.root, unit) for unit in (ENABLED, RERUN)}
    local = [one.image for one in kept.images]
    images = (
        one._replace(
            used_by=(*one.used_by, *(unit for unit, choice in units.items() if _may_start(choice, one.image, local)))
        )
        for one in kept.images
    )
    return kept._replace(images=tuple(images))


def _may_start(choice: Choice | Unknown | None, image: LocalImage, local: Sequence[LocalImage]) -> bool:
    """Whether a unit starts a scheduler from an image, as far as can be told.

    It does so by digest, in one runtime. Engines know an image by its platform's manifest, which units of before do not
    name: then, or where no image there is known by it, it may be any of the same repository.
    """
    if isinstance(choice, Unknown):
        return True
    if choice is None or choice.driver != image.driver:
        return False
    if choice.manifest and any(is_of(one, choice.manifest) for one in local if one.driver == choice.driver):
        return is_of(image, choice.digest, choice.manifest)
    return find_repository(choice.image) in image.repositories or is_of(image, choice.digest)


def image_fields(image: LocalImage) -> Json:
    """Return an image's fields for JSON."""
    return {"driver": image.driver, "id": image.id, "names": list(image.names), "size": image.size}


def kept_fields(one: KeptImage) -> Json:
    """Return an image's fields for JSON, with the containers that use it."""
    return {**image_fields(one.image), "used_by": list(one.used_by)}
