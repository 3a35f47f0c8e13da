"""What a shell may offer after TAB: names of resources, nodes, revisions. Quick, and silent about errors."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from schedkit.sked.kube.resources import Resource
    from schedkit.sked.plugin.session import PluginSession

    Items = list[CompletionItem[str]]  # only for the checker: no class of click's is generic before 8.4.2
    Named = list[tuple[str, str]]  # with a word of help

RESPONSE_SECONDS = 3.0  # a person waits, and nothing may be said while they do


def complete_resource(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """SchedExts of the namespace."""
    from schedkit.sked.plugin.objects import SCHEDEXTS

    return _offer(context, start, lambda session: _list_names(session, SCHEDEXTS, session.namespace))


def complete_node(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Nodes of the cluster."""
    from schedkit.sked.plugin.objects import NODES

    return _offer(context, start, lambda session: _list_names(session, NODES))


def complete_namespace(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Namespaces of the cluster."""
    from schedkit.sked.plugin.objects import NAMESPACES

    return _offer(context, start, lambda session: _list_names(session, NAMESPACES))


def complete_revision(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Revisions of the resource that was named before."""
    # An option that still lacks its value keeps click from telling what the words before it are.
    name = context.params.get("name") or next(iter(context.args), "")
    return _offer(context, start, lambda session: _list_revisions(session, str(name)))


def complete_context(context: "click.Context", _parameter: "click.Parameter", start: str) -> "Items":
    """Contexts of the kubeconfig."""
    from click.shell_completion import CompletionItem

    from schedkit.sked.plugin.options import read_target

    try:
        names = _read_contexts(read_target(context).kubeconfig)
    except Exception:  # a person typing a command wants no complaint from the shell's helper
        return []
    return [CompletionItem(name) for name in names if name.startswith(start)]


def _offer(context: "click.Context", start: str, find: "Callable[[PluginSession], Awaitable[Named]]") -> "Items":
    import asyncio

    from click.shell_completion import CompletionItem

    from schedkit.sked.plugin.options import read_target
    from schedkit.sked.plugin.session import run_session

    async def find_soon(session: "PluginSession") -> "Named":
        async with asyncio.timeout(RESPONSE_SECONDS):
            return await find(session)

    try:
        found = run_session(read_target(context), find_soon)
    except Exception:
        return []
    return [CompletionItem(name, help=text or None) for name, text in found if name.startswith(start)]


async def _list_names(session: "PluginSession", resource: "Resource", namespace: str = "") -> "Named":
    from schedkit.sked.kube.objects import Object

    found = await session.fetch_all(resource, Object, namespace=namespace)
    return sorted((one.metadata.name, "") for one in found)


async def _list_revisions(session: "PluginSession", name: str) -> "Named":
    from schedkit.sked.plugin.history import gather_history

    resource = await session.fetch_resource(name)
    return [(one.name, one.image) for one in await gather_history(session, [resource], session.namespace)]


def _read_contexts(kubeconfig: object) -> list[str]:
    import os
    from pathlib import Path

    from schedkit.sked.kube.kubeconfig import read_kubeconfig

    listed = [kubeconfig] if isinstance(kubeconfig, Path) else os.environ.get("KUBECONFIG", "").split(":")
    paths = [Path(str(path)) for path in listed if path] or [Path.home() / ".kube" / "config"]
    return sorted(entry.name for entry in read_kubeconfig(paths, must_exist=False).contexts or [])
