"""The command line that enables what another command line runs."""

import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedkit.images.reference import is_url
from schedkit.schedctl.durations import ATTACH_SECONDS

if TYPE_CHECKING:
    from schedkit.schedctl.requests import Order
    from schedkit.schedctl.settings import Flags


def format_enable(order: "Order", flags: "Flags") -> str:
    """It with all options that were used, quoted for a shell; variables by their names, as their values may be secrets.

    `order` is as the command line has it, with its mode and without that mode's flags.
    """
    args = ["--", *order.args] if order.args else []
    return shlex.join(["schedctl", "enable", order.name, *_list_options(order), *_list_flags(flags), *args])


def _list_options(order: "Order") -> Iterator[str]:
    if order.version:
        yield from ("--version", order.version)
    if order.mode:
        yield from ("--mode", order.mode)
    if order.container:
        yield from ("--name", order.container)
    for file in order.files:
        yield from ("--config", file)
    for key in order.env:
        yield from ("--env", key)
    if order.host_network:
        yield from ("--network", "host")
    if order.unprivileged:
        yield "--unprivileged"
    if order.timeout != ATTACH_SECONDS:
        yield from ("--timeout", f"{order.timeout:g}s")


def _list_flags(flags: "Flags") -> Iterator[str]:
    if flags.driver:
        yield from ("--driver", flags.driver)
    if flags.socket:
        yield from ("--socket", flags.socket)
    for catalog in flags.catalogs:
        yield from ("--catalog", catalog if is_url(catalog) else _resolve(catalog))
    for registry in flags.insecure_registries:
        yield from ("--insecure-registry", registry)
    if flags.trust_policy:
        yield from ("--trust-policy", _resolve(flags.trust_policy))
    if flags.allow_unsigned:
        yield "--allow-unsigned"


def _resolve(path: str) -> str:
    """A path as it is from everywhere."""
    return os.path.abspath(path)  # noqa: PTH100 (keep links)
