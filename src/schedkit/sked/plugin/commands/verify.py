"""`kubectl scx verify`: whether a SchedExt's images are verified."""

import click

from schedkit.cli import Seconds
from schedkit.sked.plugin.completing import complete_resource
from schedkit.sked.plugin.options import PluginCommand, output_option, run


@click.command(
    cls=PluginCommand,
    short_help="Show whether the images are verified.",
    epilog="""
    kubectl scx verify web
    kubectl scx verify web --again
    """,
)
@click.argument("name", shell_complete=complete_resource)
@click.option("--again", is_flag=True, help="Resolve and verify the images again first, and wait for the result.")
@click.option(
    "--timeout",
    type=Seconds(0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long --again waits.",
)
@output_option
def verify(name: str, again: bool, timeout: float, output: str) -> int:
    """Show what the operator knows about a SchedExt's images: digest, signer, or why they are not trusted.

    The exit code is that of `schedctl verify`, and 20 where sked has not verified them.
    """
    from schedkit.sked.plugin.output import show
    from schedkit.sked.plugin.verification import read_verdict, render_verdict, verify_again

    resource = run(lambda session: verify_again(session, name, timeout) if again else session.fetch_resource(name))
    verdict = read_verdict(resource)
    show(output, "schedExts", [verdict], lambda: render_verdict(verdict))
    return verdict.exit_code
