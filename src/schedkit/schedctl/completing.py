"""What a shell may offer after TAB: names of schedulers and of containers. Quick, and silent about errors."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from schedkit.schedctl.session import Session

    Items = list[CompletionItem[str]]  # only for the checker: no class of click's is generic before 8.4.2


RESPONSE_SECONDS = 3.0  # a person waits, and nothing may be said while they do


def complete_scheduler(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Names of the catalog, as far as they can be known without a network."""
    return _offer(context, start, _read_names)


def complete_container(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Ids and names of our containers."""
    return _offer(context, start, _fetch_ids)


def _offer(context: "click.Context", start: str, find: Callable[["Session"], list[tuple[str, str]]]) -> "Items":
    from click.shell_completion import CompletionItem

    from schedkit.schedctl.options import read_flags
    from schedkit.schedctl.session import open_session

    try:
        session = open_session(read_flags(context))
        found = find(session)
        session.close()
    except Exception:  # a person typing a command wants no complaint from the shell's helper
        return []
    return [CompletionItem(name, help=text or None) for name, text in found if name.startswith(start)]


def _read_names(session: "Session") -> list[tuple[str, str]]:
    from schedkit.images.catalog import load_catalog

    catalog = load_catalog(session.settings.catalogs, session.settings.cache, offline=True)
    return sorted((entry.name, entry.description) for entry in catalog.entries.values())


def _fetch_ids(session: "Session") -> list[tuple[str, str]]:
    from schedkit.runtimes.drivers import find_runtimes

    found = []
    for container in find_runtimes(None, session.settings.sockets, seconds=RESPONSE_SECONDS).fetch_containers():
        found += [(container.id[:12], container.image), (container.name, container.image)]
    return found
