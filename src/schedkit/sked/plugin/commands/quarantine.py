"""`kubectl scx quarantine` and `lift`: a node without a scheduler, and back."""

from typing import TYPE_CHECKING

import click

from schedkit.sked.plugin.completing import complete_node
from schedkit.sked.plugin.options import PluginCommand, run

if TYPE_CHECKING:
    from schedkit.sked.plugin.objects import ClusterNode
    from schedkit.sked.plugin.session import Decide

_node = click.argument("node", shell_complete=complete_node)


@click.command(
    cls=PluginCommand, short_help="Leave a node without a scheduler.", epilog="kubectl scx quarantine node-7"
)
@_node
def quarantine(node: str) -> None:
    """Leave a node without a scheduler until the quarantine is lifted: its slot label becomes none."""
    from schedkit.sked.plugin.quarantine import put_in

    _ask(node, put_in)


@click.command(cls=PluginCommand, short_help="End a node's quarantine.", epilog="kubectl scx lift node-7")
@_node
def lift(node: str) -> None:
    """End a node's quarantine, whoever started it: sked decides again which SchedExt gets the node."""
    from schedkit.sked.plugin.quarantine import take_out

    _ask(node, take_out)


def _ask(node: str, decide: "Decide[ClusterNode]") -> None:
    from schedkit.sked.plugin.output import echo

    echo(run(lambda session: session.change_node(node, decide)))
