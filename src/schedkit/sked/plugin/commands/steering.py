"""`kubectl scx pause`, `resume`, `promote`, `retry` and `refresh`: one request each."""

from typing import TYPE_CHECKING

import click

from schedkit.sked.plugin.completing import complete_resource
from schedkit.sked.plugin.options import PluginCommand, run

if TYPE_CHECKING:
    from schedkit.sked.api.types import SchedExt
    from schedkit.sked.plugin.session import Decide

_name = click.argument("name", shell_complete=complete_resource)


@click.command(cls=PluginCommand, short_help="Pause a rollout.", epilog="kubectl scx pause web")
@_name
def pause(name: str) -> None:
    """Pause a rollout: spec.paused becomes true. Nodes keep what they run, even if it fails."""
    from schedkit.sked.plugin.steering import set_paused

    _ask(name, lambda resource: set_paused(resource, True))


@click.command(cls=PluginCommand, short_help="Continue a paused rollout.", epilog="kubectl scx resume web")
@_name
def resume(name: str) -> None:
    """Continue a paused rollout: spec.paused becomes false."""
    from schedkit.sked.plugin.steering import set_paused

    _ask(name, lambda resource: set_paused(resource, False))


@click.command(
    cls=PluginCommand,
    short_help="Continue a rollout that waits at a pause step.",
    epilog="kubectl scx promote web",
)
@_name
def promote(name: str) -> None:
    """Continue a rollout that waits at a pause step."""
    from schedkit.sked.plugin import steering

    _ask(name, steering.promote)


@click.command(cls=PluginCommand, short_help="Try a failed revision again.", epilog="kubectl scx retry web")
@_name
def retry(name: str) -> None:
    """Try a failed revision again."""
    from schedkit.sked.plugin import steering

    _ask(name, steering.retry)


@click.command(cls=PluginCommand, short_help="Resolve and verify the images again.", epilog="kubectl scx refresh web")
@_name
def refresh(name: str) -> None:
    """Resolve and verify the images again: a tag may name another image by now."""
    from schedkit.sked.plugin import steering

    _ask(name, steering.refresh)


def _ask(name: str, decide: "Decide[SchedExt]") -> None:
    from schedkit.sked.plugin.output import echo

    echo(run(lambda session: session.change_resource(name, decide)))
