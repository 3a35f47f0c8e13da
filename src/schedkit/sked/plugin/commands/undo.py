"""`kubectl scx undo`: back to an earlier revision."""

from typing import TYPE_CHECKING

import click

from schedkit.sked.plugin.completing import complete_resource, complete_revision
from schedkit.sked.plugin.options import PluginCommand, run

if TYPE_CHECKING:
    from schedkit.sked.plugin.session import PluginSession


@click.command(
    cls=PluginCommand,
    short_help="Go back to an earlier revision.",
    epilog="""
    kubectl scx undo web
    kubectl scx undo web --to-revision 3f9c2d1ab0
    kubectl scx undo web --pool large
    """,
)
@click.argument("name", shell_complete=complete_resource)
@click.option(
    "--to-revision",
    "revision",
    metavar="REVISION",
    shell_complete=complete_revision,
    help="Name of the revision, or the part after the last dash [default: the previous one].",
)
@click.option("--pool", metavar="POOL", help="The pool, if the SchedExt has several.")
def undo(name: str, revision: str | None, pool: str | None) -> None:
    """Go back to an earlier revision, at the pace of the rollout; the spec stays, and its next change ends the undo.

    The previous revision is the stable one while a rollout is in progress or has failed, else the newest that is kept.
    """
    from schedkit.sked.plugin.output import echo

    echo(run(lambda session: _undo(session, name, revision, pool)))


async def _undo(session: "PluginSession", name: str, wanted: str | None, pool: str | None) -> str:
    from schedkit.sked.api.requests import UNDO
    from schedkit.sked.api.rollout_types import COMPLETE
    from schedkit.sked.api.types import SchedExt
    from schedkit.sked.plugin.history import choose_revision, find_rollout, list_revisions
    from schedkit.sked.plugin.objects import DAEMONSETS, RevisionSet
    from schedkit.sked.plugin.session import Patch
    from schedkit.sked.plugin.steering import annotate

    daemonsets = await session.fetch_all(DAEMONSETS, RevisionSet, namespace=session.namespace)

    def decide(resource: SchedExt) -> tuple[Patch | None, str]:
        chosen = choose_revision(resource, list_revisions(resource, daemonsets), wanted, pool)
        rollout = find_rollout(resource, chosen.pool)
        if rollout and rollout.phase == COMPLETE and rollout.current_revision == chosen.name:
            return None, f"{name} runs {chosen.name} already"
        told = f"{name} goes back to {chosen.name}, {chosen.image}; `kubectl scx status {name} -w` follows"
        return annotate(UNDO, prefix=f"{chosen.name} "), told

    return await session.change_resource(name, decide)
