"""The order of tags, and what among them is not a version of an image."""

import re
from collections.abc import Iterable

LATEST = "latest"
_VERSION = re.compile(r"v?(?P<numbers>\d+(?:\.\d+){0,3})(?:-(?P<pre>[0-9A-Za-z.-]+))?")
# Signatures, attestations, SBOMs, and lists of referrers lie under tags made of the digest they are about.
_ARTEFACT = re.compile(r"sha(?:256|384|512)-[0-9a-f]{64,}(?:\.[a-z0-9]+)?")


def sort_tags(tags: Iterable[str]) -> list[str]:
    """`latest`, then versions, newest first and each release before its pre-releases, then the rest by name."""
    names = {tag for tag in tags if not _ARTEFACT.fullmatch(tag)}
    versions = [name for name in names if _VERSION.fullmatch(name)]
    rest = sorted(names - {LATEST, *versions})
    versions.sort()
    versions.sort(key=_precedence, reverse=True)
    return [*(name for name in (LATEST,) if name in names), *versions, *rest]


def is_version(tag: str) -> bool:
    """Whether a tag is a version, which others can be newer than."""
    return bool(_VERSION.fullmatch(tag))


def find_newer(tag: str, tags: Iterable[str]) -> str | None:
    """The newest version above the one that `tag` is; a pre-release only for who has one. None if there is none."""
    here = _precedence(tag)
    for other in sort_tags(tags):  # newest first
        if is_version(other) and _precedence(other) > here and (_is_release(other) or not _is_release(tag)):
            return other
    return None


def _is_release(tag: str) -> bool:
    return _precedence(tag)[1]


def _precedence(name: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """Return a sort key in semver's order: a release is above its pre-releases, numeric parts are below words."""
    found = _VERSION.fullmatch(name)
    if found is None:
        raise ValueError(name)
    numbers = tuple(int(number) for number in found["numbers"].split("."))
    numbers += (0,) * (4 - len(numbers))
    parts = found["pre"].split(".") if found["pre"] else []
    pre = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
    return numbers, not pre, pre
