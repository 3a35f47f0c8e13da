"""`kubectl scx completion`: a script for the user's shell."""

import click

from schedkit.sked.plugin.options import PluginCommand

PROGRAM, VARIABLE = "kubectl-scx", "_KUBECTL_SCX_COMPLETE"  # the second is click's name for it


@click.command(
    cls=PluginCommand,
    short_help="Print the completion script for a shell.",
    epilog="""
    kubectl scx completion bash >/etc/bash_completion.d/kubectl-scx
    kubectl scx completion zsh >"${fpath[1]}/_kubectl-scx"
    kubectl scx completion fish >~/.config/fish/completions/kubectl-scx.fish
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for `kubectl-scx` for a shell.

    `kubectl scx` needs none: kubectl's own completion (1.26 and later) uses kubectl_complete-scx, installed with it.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  (click has these three)
    # Not the class's own source(): for bash that starts a bash to ask for its version, and fails where there is none.
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, PROGRAM, VARIABLE)))
