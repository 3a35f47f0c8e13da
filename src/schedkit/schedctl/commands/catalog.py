"""`schedctl catalog`: the catalogs that come from elsewhere."""

from typing import Any

import click

from schedkit.schedctl.options import HELP_NAMES, Command, output_option, pass_session
from schedkit.schedctl.session import Session


@click.group(context_settings=HELP_NAMES, short_help="Keep the catalogs current.")
def command() -> Any:
    """Keep the catalogs current: those of --catalog, SCHEDCTL_CATALOG and the configuration files that are URLs.

    What was fetched once is used from then on, also without a network, until it is updated here.
    """


@command.command(
    cls=Command,
    epilog="""
    schedctl catalog update
    schedctl --catalog https://example.com/catalog.json catalog update
    """,
)
@output_option
@pass_session
def update(session: Session) -> None:
    """Fetch the catalogs anew; one that is torn or hostile is refused, and the last good one stays."""
    from schedkit.images.catalog import update_catalogs

    changes = update_catalogs(session.settings.catalogs, session.settings.cache, session.registry_settings)
    text = "\n".join(changes) or "no catalog comes from a URL: nothing to update"
    session.output.show(lambda: {"changes": list(changes)}, lambda: text)
