"""`schedctl completion`: a script for the user's shell."""

import click

from schedkit.cli import SHELLS, find_shell
from schedkit.schedctl.options import Command

# Bash breaks words at colons, and click's own script goes by that: it would never see scx_rusty:1.1 as one word.
_BASH = """\
_schedctl_completion() {
    local line=${COMP_LINE:0:COMP_POINT} words current kind value
    read -ra words <<<"$line"
    current=${#words[@]}
    [[ $line == *[[:space:]] ]] || current=$((current - 1))
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_WORDS=$line COMP_CWORD=$current _SCHEDCTL_COMPLETE=bash_complete "$1" 2>/dev/null)
    local word=${words[current]-}
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
    fi
}
complete -o nosort -F _schedctl_completion schedctl
"""
VARIABLE = "_SCHEDCTL_COMPLETE"  # click's name for it


@click.command(
    cls=Command,
    short_help="Print the completion script for a shell.",
    epilog="""
    schedctl completion bash >/etc/bash_completion.d/schedctl
    schedctl completion zsh >"${fpath[1]}/_schedctl"
    schedctl completion fish >~/.config/fish/completions/schedctl.fish
    """,
)
@click.argument(
    "shell", type=click.Choice(SHELLS), required=False, callback=find_shell, metavar=f"[{'|'.join(SHELLS)}]"
)
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell: commands, options, schedulers, versions, modes, containers.

    Defaults to your shell, as the variable SHELL says. Versions (`scx_rusty:` and TAB, `--version` and TAB) come from
    the registry, within three seconds.
    """
    if shell == "bash":
        click.echo(_BASH, nl=False)
        return
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  (click has these three)
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, "schedctl", VARIABLE)))
