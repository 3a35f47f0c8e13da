"""Flags by purpose: --mode gaming, and what that means for which scheduler."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from schedkit.errors import UsageError
from schedkit.schedctl.completing import complete_mode
from schedkit.schedctl.options import Function

if TYPE_CHECKING:
    from schedkit.images.catalog import Catalog
    from schedkit.schedctl.requests import Order
    from schedkit.schedctl.session import Session

# Here, and not from the catalog, so that --help need not read it; a test compares the two.
MODE_NAMES = ("auto", "gaming", "lowlatency", "powersave", "server")


def mode_option(function: Function) -> Function:
    """Add `--mode`, for all commands that run a scheduler."""
    option: Any = click.option(
        "--mode",
        type=click.Choice(MODE_NAMES),
        shell_complete=complete_mode,
        help="Use the flags for this purpose (see `schedctl info NAME`); arguments after -- are added.",
    )
    decorated: Function = option(function)
    return decorated


def find_modes(session: "Session", name: str) -> Mapping[str, tuple[str, ...]]:
    """The modes of a scheduler and their flags: the catalog's, and in their place those of the configuration files."""
    return join_modes(session.catalog, session.settings.modes, name)


def join_modes(
    catalog: "Catalog", said: Mapping[str, Mapping[str, tuple[str, ...]]], name: str
) -> Mapping[str, tuple[str, ...]]:
    """The same of what a catalog has, and what the files said by scheduler and mode."""
    entry = catalog.find_entry(name)
    scheduler = entry.name if entry else name
    return {**(entry.modes if entry else {}), **said.get(scheduler, {})}


def apply_mode(session: "Session", order: "Order") -> "Order":
    """The order with the flags of its mode before its own arguments; auto means none where nobody says otherwise."""
    if order.mode is None:
        return order
    modes = find_modes(session, order.name)
    if order.mode not in modes and order.mode != "auto":
        known = f"it has {', '.join(sorted(modes))}" if modes else "it has no modes"
        section = f"[modes.{order.name}] in config.toml gives it flags of your own"
        raise UsageError(
            f"{order.name} has no mode {order.mode}: {known}", hint=f"without --mode it runs too; {section}"
        )
    return order._replace(args=(*modes.get(order.mode, ()), *order.args), mode=None)
