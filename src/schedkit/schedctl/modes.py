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
    """The same of what a catalog has, and what the files said by scheduler and mode, the nearest file first."""
    scheduler = name_scheduler(catalog, name)
    entry = catalog.find_entry(scheduler)
    modes = dict(entry.modes) if entry else {}
    # Where there are both [modes.lavd] and [modes.scx_lavd], the first counts: sections come in the order of the files.
    for section in reversed([one for one in said if name_scheduler(catalog, one) == scheduler]):
        modes |= said[section]
    return modes


def name_scheduler(catalog: "Catalog", name: str) -> str:
    """The scheduler that a name or an image means, as the catalog writes it: `lavd` and `REGISTRY/scx_lavd:v1` too."""
    word = name.partition("@")[0].rpartition("/")[2].partition(":")[0]
    entry = catalog.find_entry(word)
    return entry.name if entry else word


def apply_mode(session: "Session", order: "Order") -> "Order":
    """The order with the flags of its mode before its own arguments; auto means none where nobody says otherwise."""
    if order.mode is None:
        return order
    scheduler = name_scheduler(session.catalog, order.name)
    modes = find_modes(session, scheduler)
    if order.mode not in modes and order.mode != "auto":
        known = f"it has {', '.join(sorted(modes))}" if modes else "it has no modes"
        section = f"[modes.{scheduler}] in config.toml gives it flags of your own"
        raise UsageError(
            f"{scheduler} has no mode {order.mode}: {known}", hint=f"without --mode it runs too; {section}"
        )
    return order._replace(args=(*modes.get(order.mode, ()), *order.args), mode=None)
