"""What a shell may offer after TAB: names, versions and modes of schedulers, containers, images, files.

Quick, and silent about errors: a person types, and nothing else may be said meanwhile.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from schedkit.images.catalog import Catalog
    from schedkit.schedctl.session import Session

    Items = list[CompletionItem[str]]  # only for the checker: no class of click's is generic before 8.4.2


RESPONSE_SECONDS = 3.0  # a person waits

Offers = Iterable[tuple[str, str]]  # words, and a few words about each


def complete_scheduler(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Names of the catalog, as far as they can be known without a network; after NAME: its versions."""
    if ":" in start or "/" in start:
        return _offer(context, start, lambda session: _fetch_versions_of(session, start))
    return _offer(context, start, lambda session: _read_names(session, start))


def complete_schedulers(context: "click.Context", parameter: "click.Parameter", start: str) -> "Items":
    """The same for a list with commas between, of which the last is completed; `none` is one of them."""
    from click.shell_completion import CompletionItem

    before, comma, last = start.rpartition(",")
    found = [item.value for item in complete_scheduler(context, parameter, last)]
    return [
        CompletionItem(f"{before}{comma}{name}") for name in (*(["none"] if "none".startswith(last) else []), *found)
    ]


def complete_version(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Versions of the scheduler that the line names."""
    name = _find_name(context)
    return _offer(context, start, lambda session: ((tag, "") for tag in _fetch_tags(session, name))) if name else []


def complete_mode(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """The modes of the scheduler that the line names, with their flags; all where it names none."""
    from schedkit.schedctl.modes import MODE_NAMES, join_modes

    name = _find_name(context)
    if not name:
        return _offer(context, start, lambda _: ((mode, "") for mode in MODE_NAMES))

    def find(session: "Session") -> Offers:
        modes = {"auto": (), **join_modes(_read_catalog(session), session.settings.modes, name)}
        return ((mode, " ".join(flags)) for mode, flags in sorted(modes.items()))

    return _offer(context, start, find)


def complete_workload(context: "click.Context", parameter: "click.Parameter", start: str) -> "Items":
    """Workloads that `bench` knows."""
    from schedkit.measure.workloads import WORKLOADS

    return complete_word(*WORKLOADS)(context, parameter, start)


def complete_container(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Names and ids of our containers."""
    return _offer(context, start, _fetch_containers)


def complete_image(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Images of schedulers that are here, and their schedulers' names."""
    return _offer(context, start, _fetch_images)


def complete_file(_context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Left to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(start, type="file")]


def complete_word(*words: str) -> "Callable[[click.Context, click.Parameter, str], Items]":
    """One of a few words that an option or an argument takes."""

    def complete(_context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in words if word.startswith(start)]

    return complete


def _find_name(context: "click.Context") -> str | None:
    """The NAME of the line; where it ends with an option whose value is to come, click leaves it among the rest."""
    said = context.params.get("name")
    return said or next((word for word in context.args if not word.startswith("-")), None)


def _offer(context: "click.Context", start: str, find: Callable[["Session"], Offers]) -> "Items":
    """What is found in time; whatever goes wrong, or takes too long, is nothing."""
    import threading

    from click.shell_completion import CompletionItem

    from schedkit.schedctl.options import read_flags
    from schedkit.schedctl.session import open_session

    flags = read_flags(context)
    found: list[tuple[str, str]] = []

    def look() -> None:
        try:
            found.extend(find(open_session(flags)))
        except Exception:  # a person typing a command wants no complaint from the shell's helper
            found.clear()

    thread = threading.Thread(target=look, daemon=True)  # it ends with this process, at the latest
    thread.start()
    thread.join(RESPONSE_SECONDS)
    if thread.is_alive():
        return []
    return [CompletionItem(name, help=text or None) for name, text in found if name.startswith(start)]


def _read_catalog(session: "Session") -> "Catalog":
    from schedkit.images.catalog import load_catalog

    return load_catalog(session.settings.catalogs, session.settings.cache, offline=True)


def _read_names(session: "Session", start: str) -> Offers:
    """Names that begin so, or do after `scx_`, which may be left out; hidden ones only if no other does."""
    entries = _read_catalog(session).entries
    named = {name: entry for name, entry in entries.items() if name.startswith(start)}
    short = {name.removeprefix("scx_"): entry for name, entry in entries.items() if name.startswith(f"scx_{start}")}
    if start:  # else each would be offered twice
        named = short | named
    shown = {name: entry for name, entry in named.items() if not entry.hidden} or named
    return sorted((name, entry.description) for name, entry in shown.items())


def _fetch_versions_of(session: "Session", start: str) -> Offers:
    """The tags after what is there of NAME:TAG or REGISTRY/PATH:TAG; a port is not the beginning of a tag."""
    name, colon, tag = start.rpartition(":")
    if not colon or "/" in tag:
        return []
    return [(f"{name}:{one}", "") for one in _fetch_tags(session, name)]


def _fetch_tags(session: "Session", name: str) -> list[str]:
    return session.registry.fetch_tags(_read_catalog(session).find(name))


def _fetch_containers(session: "Session") -> Offers:
    from schedkit.runtimes.drivers import find_runtimes

    found = []
    for container in find_runtimes(None, session.settings.sockets, seconds=RESPONSE_SECONDS).fetch_containers():
        found += [(container.name, container.image), (container.id[:12], container.image)]
    return found


def _fetch_images(session: "Session") -> Offers:
    from schedkit.host.local_images import fetch_kept_images
    from schedkit.runtimes.drivers import find_runtimes

    runtimes = find_runtimes(None, session.settings.sockets, seconds=RESPONSE_SECONDS)
    names = {entry.image.repository: entry.name for entry in _read_catalog(session).entries.values()}
    kept = fetch_kept_images(runtimes, lambda repository: repository in names).images
    images = [name for one in kept for name in one.image.names]
    short = {
        names[found] for found in (image.partition("@")[0].rpartition(":")[0] for image in images) if found in names
    }
    return [*((name, "all its versions") for name in sorted(short)), *((image, "") for image in images)]
