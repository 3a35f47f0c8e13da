"""`kubectl scx why`: one node in sentences."""

import click

from schedkit.sked.plugin.completing import complete_node
from schedkit.sked.plugin.options import PluginCommand, output_option, run


@click.command(
    cls=PluginCommand,
    short_help="Explain one node: everything that is known of it.",
    epilog="""
    kubectl scx why node-7
    kubectl scx why node-7 -o json
    """,
)
@click.argument("node", shell_complete=complete_node)
@output_option
def why(node: str, output: str) -> None:
    """Tell everything that is known of one node: kernel, agent, slot, quarantine, pods and crash logs, SchedExts.

    What could not be read is told as that: it hides nothing else.
    """
    from schedkit.sked.plugin.explaining import gather_evidence
    from schedkit.sked.plugin.output import now, show
    from schedkit.sked.plugin.sentences import explain, render_sentences

    sentences = explain(run(lambda session: gather_evidence(session, node)), now())
    show(output, "sentences", sentences, lambda: render_sentences(sentences))
