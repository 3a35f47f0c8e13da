"""`kubectl scx why`: one node in sentences."""

import click

from schedkit.errors import ExitCode
from schedkit.sked.plugin.completing import complete_node
from schedkit.sked.plugin.options import PluginCommand, output_option, run


@click.command(
    cls=PluginCommand,
    short_help="Show everything that is known about one node.",
    epilog="""
    kubectl scx why node-7
    kubectl scx why node-7 -o json
    """,
)
@click.argument("node", shell_complete=complete_node)
@output_option
def why(node: str, output: str) -> int:
    """Show everything that is known about one node: kernel, agent, slot, quarantine, pods, crash logs, SchedExts.

    What could not be read is told as that, and hides nothing else; the exit code is then 1.
    """
    from schedkit.sked.plugin.explaining import gather_evidence
    from schedkit.sked.plugin.output import now, show
    from schedkit.sked.plugin.sentences import explain, render_sentences

    evidence = run(lambda session: gather_evidence(session, node))
    sentences = explain(evidence, now())
    show(output, "sentences", sentences, lambda: render_sentences(sentences))
    return ExitCode.OK if evidence.is_whole else ExitCode.FAILURE
