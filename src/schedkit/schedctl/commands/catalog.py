"""`schedctl catalog`: the catalogs that come from elsewhere."""

from typing import Any

import click

from schedkit.cli import ProgramGroup
from schedkit.errors import UsageError
from schedkit.schedctl.options import HELP_NAMES, Command, output_option, pass_session
from schedkit.schedctl.session import Session
from schedkit.schedctl.trust_options import policy_option


@click.group(cls=ProgramGroup, context_settings=HELP_NAMES, short_help="Update the catalogs.")
def command() -> Any:
    """Update the catalogs: the project's, and those of --catalog, SCHEDCTL_CATALOG and configuration files.

    A catalog that was fetched is used, with or without a network, until you update it.
    """


@command.command(
    cls=Command,
    short_help="Fetch the project's catalog, and all others that are URLs.",
    epilog="""
    schedctl catalog update
    schedctl catalog update --digest sha256:…
    schedctl --catalog https://example.com/catalog.json catalog update
    """,
)
@click.argument("url", required=False)
@click.option(
    "--digest",
    metavar="sha256:HEX",
    help="Accept the catalog of URL [default: the project's] only with this digest; it need not be signed then.",
)
@policy_option
@output_option
@pass_session
def update(session: Session, url: str | None, digest: str | None) -> None:
    """Fetch the project's catalog and all others that are URLs, or only URL, which must be one of them.

    No other command fetches the project's catalog. This version of schedctl then uses it instead of the built-in one.
    It must be signed as the trust policy requires for ghcr.io/schedkit/catalog, or have the digest of --digest. A
    catalog that is corrupt, not signed by those whom the policy trusts, or has another digest is refused, and the last
    good copy stays. Whatever a catalog says, only images that the trust policy accepts are run. The copy is that of
    the user who runs this: `sudo schedctl run` uses what `sudo schedctl catalog update` fetched.
    """
    from schedkit.images.catalog import update_catalogs
    from schedkit.schedctl.verification import make_catalog_check

    changes = update_catalogs(
        _choose(session.settings.catalogs, url, digest),
        session.settings.cache,
        session.registry_settings,
        check_signature=make_catalog_check(session),
    )
    session.output.show(lambda: {"changes": list(changes)}, lambda: "\n".join(changes))


def _choose(sources: tuple[str, ...], url: str | None, digest: str | None) -> list[str]:
    from schedkit.images.catalog_remote import PUBLISHED, pin, split_pin
    from schedkit.images.reference import is_digest, is_url

    urls = list(dict.fromkeys(filter(is_url, sources)))
    # One that is pinned is not to be replaced by whatever is there now. The project's comes first: so does its error.
    known = urls if PUBLISHED in (split_pin(one)[0] for one in urls) else [PUBLISHED, *urls]
    if url and url not in known:
        raise UsageError(
            f"{url[:200]} is not one of the catalogs", hint="name it with --catalog, or in `catalogs` of config.toml"
        )
    if not digest:
        return [url] if url else known
    if not is_digest(digest) or not digest.startswith("sha256:"):
        raise UsageError(f"--digest {digest[:200]}: not a digest", hint="sha256: and 64 lower case digits")
    return [pin(url or PUBLISHED, digest)]
