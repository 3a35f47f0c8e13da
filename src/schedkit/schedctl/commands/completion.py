"""`schedctl completion`: a script for the user's shell."""

import click

from schedkit.schedctl.options import Command

VARIABLE = "_SCHEDCTL_COMPLETE"  # click's name for it


@click.command(
    cls=Command,
    short_help="Print the completion script of a shell.",
    epilog="""
    schedctl completion bash >/etc/bash_completion.d/schedctl
    schedctl completion zsh >"${fpath[1]}/_schedctl"
    schedctl completion fish >~/.config/fish/completions/schedctl.fish
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell: commands, options, names of schedulers, ids of containers."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  (click has these three)
    # Not the class's own source(): for bash that starts a bash to ask for its version, and fails where there is none.
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, "schedctl", VARIABLE)))
