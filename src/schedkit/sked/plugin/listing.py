"""The list that several commands begin with."""

import sys

from schedkit.errors import tell
from schedkit.sked.api.types import SchedExt
from schedkit.sked.plugin.objects import SCHEDEXTS
from schedkit.sked.plugin.session import PluginSession


async def list_resources(session: PluginSession, *, everywhere: bool) -> list[SchedExt]:
    """The SchedExts of the namespace, or of all; that there are none is said, as kubectl says it."""
    found = await session.fetch_all(SCHEDEXTS, SchedExt, namespace="" if everywhere else session.namespace)
    if not found:
        where = "in any namespace" if everywhere else f"in the namespace {session.namespace}; -A looks in all"
        tell(f"there are no SchedExts {where}", sys.stderr)
    return sorted(found, key=lambda resource: resource.metadata.key)
