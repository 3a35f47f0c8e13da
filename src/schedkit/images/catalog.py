"""The catalog: short names of schedulers and their images, from the package, from files and from URLs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from schedkit.errors import BadDataError, NotFoundError, SchedkitError, UsageError
from schedkit.images.catalog_document import LARGEST, CatalogEntry, parse_catalog
from schedkit.images.catalog_remote import PUBLISHED, CheckSignature, fetch_copy, read_copy, write_copy
from schedkit.images.reference import DEFAULT_TAG, Reference, is_url, parse_reference
from schedkit.images.settings import DEFAULTS, RegistrySettings

__all__ = ["Catalog", "CatalogEntry", "load_catalog", "update_catalogs"]

BUILT_IN = "built-in"
BUILT_IN_FILE = Path(__file__).with_name("catalog.json")


class Catalog(NamedTuple):
    """All entries of all sources; where two have the same name, the first source's counts."""

    entries: Mapping[str, CatalogEntry]
    warnings: tuple[str, ...] = ()  # sources of which the last good copy, or nothing, was used, and why

    def find(self, text: str) -> Reference:
        """A catalog name (with :TAG or @DIGEST, if it shall be that), or else an image reference, in full.

        NotFoundError with near names for a bare word that is neither.
        """
        word = text.partition("@")[0].partition(":")[0]
        if entry := self.find_entry(text):
            if word == text:
                pinned = entry.image.tag or entry.image.digest
                return entry.image if pinned else entry.image._replace(tag=DEFAULT_TAG)
            # Parsed as that name of a registry, for the tag and the digest in it.
            asked = parse_reference(f"localhost/{text}")
            return entry.image._replace(tag=asked.tag, digest=asked.digest)
        if any(mark in text for mark in "/:.@"):
            return parse_reference(text)
        raise self._not_found(text)

    def find_entry(self, text: str) -> CatalogEntry | None:
        """The entry that is meant by its name, with :TAG or @DIGEST or without; `lavd` is `scx_lavd`."""
        name = text.partition("@")[0].partition(":")[0]
        return self.entries.get(name) or self.entries.get(f"scx_{name}")

    def _not_found(self, text: str) -> NotFoundError:
        from difflib import get_close_matches

        words = {name.lower().removeprefix("scx_"): name for name in self.entries}
        near = get_close_matches(text.lower().removeprefix("scx_"), words, n=3)
        listing = "`schedctl list` shows all names; an image is named in full: REGISTRY/PATH[:TAG]"
        hint = f"did you mean {' or '.join(words[word] for word in near)}? {listing}" if near else listing
        return NotFoundError(f"the catalog has no scheduler {text!r}", hint=hint)


def load_catalog(
    sources: Sequence[str], cache: Path, settings: RegistrySettings = DEFAULTS, *, offline: bool = False
) -> Catalog:
    """`sources` before the published one, if it was fetched, and that before the built-in one.

    A URL of `sources` is fetched at its first use only, and never if `offline`; the published one never.
    """
    entries: dict[str, CatalogEntry] = {}
    warnings: list[str] = []
    for source in sources:
        found = _load_url(source, cache, settings, warnings, offline=offline) if is_url(source) else _read_file(source)
        entries = found | entries
    published = read_copy(PUBLISHED, cache)
    ours = _read_built_in() | (parse_catalog(published.data, PUBLISHED) if published else {})
    return Catalog(dict(sorted((ours | entries).items())), tuple(warnings))


def update_catalogs(
    sources: Sequence[str], cache: Path, settings: RegistrySettings = DEFAULTS, *, check_signature: CheckSignature
) -> list[str]:
    """Fetch all URLs again (ETag) and tell what changed; a bad answer is refused and the last good copy stays.

    The published one must pass `check_signature`, unless it is pinned. Others are as good as the user's word for them.
    """
    told: list[str] = []
    failed: list[SchedkitError] = []
    for url in filter(is_url, sources):
        known = read_copy(url, cache)
        try:
            copy = fetch_copy(url, settings, known, check_signature if url == PUBLISHED else None)
        except SchedkitError as error:
            failed.append(error)
            told.append(f"{error.message}; {'its last good copy stays' if known else 'there is no earlier copy'}")
            continue
        if copy != known:
            write_copy(url, cache, copy)
        before = parse_catalog(known.data, url) if known else _read_built_in() if url.startswith(PUBLISHED) else {}
        told.append(f"the catalog {url}: {_compare(before, parse_catalog(copy.data, url))}")
    if failed:
        # One bad source does not keep the others from being updated, and is still a failure.
        first = failed[0]
        first.message, first.hint = "; ".join(told), "; ".join(dict.fromkeys(one.hint for one in failed if one.hint))
        raise first
    return told


def _load_url(
    url: str, cache: Path, settings: RegistrySettings, warnings: list[str], *, offline: bool
) -> dict[str, CatalogEntry]:
    if copy := read_copy(url, cache):
        return parse_catalog(copy.data, url)
    if offline or url == PUBLISHED:  # which only an update may fetch, as it checks the signature
        warnings.append(f"the catalog {url} has not been fetched yet and is left out: `schedctl catalog update`")
        return {}
    try:
        copy = fetch_copy(url, settings, None)
    except UsageError:
        raise  # the URL itself is wrong, and will be tomorrow
    except SchedkitError as error:
        warnings.append(f"{error.message}; it is skipped, because there is no earlier copy")
        return {}
    try:
        write_copy(url, cache, copy)
    except OSError as error:
        warnings.append(f"the catalog {url} cannot be kept in {cache}: {error.strerror}")
    return parse_catalog(copy.data, url)


def _read_file(source: str) -> dict[str, CatalogEntry]:
    """A file that the user named must be there and right: without it a name might mean another image."""
    try:
        with Path(source).open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        hint = "--catalog, SCHEDCTL_CATALOG or a configuration file names it: `schedctl config get catalogs`"
        raise NotFoundError(f"the catalog {source} does not exist", hint=hint) from error
    except OSError as error:
        raise BadDataError(f"the catalog {source} cannot be read: {error.strerror}") from error
    return parse_catalog(data, source)


def _read_built_in() -> dict[str, CatalogEntry]:
    return parse_catalog(BUILT_IN_FILE.read_bytes(), BUILT_IN)


def _compare(before: Mapping[str, CatalogEntry], after: Mapping[str, CatalogEntry]) -> str:
    new = sorted(after.keys() - before.keys())
    gone = sorted(before.keys() - after.keys())
    other = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    kinds = (("new", new), ("changed", other), ("gone", gone))
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds if names) or "unchanged"
