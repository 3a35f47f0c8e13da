"""`kubectl scx nodes`: what each node's kernel runs."""

import sys

import click

from schedkit.errors import tell
from schedkit.sked.plugin.options import PluginCommand, output_option, run


@click.command(
    cls=PluginCommand,
    short_help="List the nodes and what their kernels run.",
    epilog="""
    kubectl scx nodes
    kubectl scx nodes --problems
    kubectl scx nodes -l pool=large -o json
    """,
)
@click.option(
    "-l",
    "--selector",
    default="",
    metavar="LABELS",
    help="Show only nodes with these labels (a label selector, as in kubectl).",
)
@click.option("--problems", is_flag=True, help="Show only nodes with a note.")
@output_option
def nodes(selector: str, problems: bool, output: str) -> None:
    """List the nodes: kernel, state of the slot, attached scheduler and its SchedExt, since when, fit, quarantine.

    STATE is the kernel's own word; with a question mark it is from before the node's agent stopped reporting.
    """
    from schedkit.sked.plugin.nodes import gather_nodes, render_nodes
    from schedkit.sked.plugin.output import now, show

    lines = [line for line in run(lambda session: gather_nodes(session, selector)) if line.notes or not problems]
    if not lines:
        tell("there is nothing to note of any node" if problems else "there are no such nodes", sys.stderr)
    show(output, "nodes", lines, lambda: render_nodes(lines, now()) if lines else "")
