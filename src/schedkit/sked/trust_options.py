"""What the command line says about trust: the same for the operator and for `sked verify`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schedkit.errors import UsageError

if TYPE_CHECKING:
    from schedkit.sked.verifier.messages import TrustSettings

Command = TypeVar("Command", bound=Callable[..., Any])


def trust_options(command: Command) -> Command:
    """Add the policy, and how to reach registries."""
    for add in (
        click.option(
            "--registry-ca-file",
            type=click.Path(path_type=Path),
            help="Certificate authorities of registries, in addition to the system's.",
        ),
        click.option(
            "--insecure-registry",
            "insecure_registries",
            multiple=True,
            metavar="HOST[:PORT]",
            help="Allow plain HTTP, or any certificate, for this registry; can be repeated.",
        ),
        click.option(
            "--registry-mirror",
            "registry_mirrors",
            multiple=True,
            metavar="REGISTRY=MIRROR",
            help="Mirror that is asked before the registry; can be repeated.",
        ),
        click.option(
            "--pull-secret",
            type=click.Path(path_type=Path),
            help="Credentials for registries: a file like .dockerconfigjson.",
        ),
        click.option(
            "--trust-policy",
            type=click.Path(path_type=Path),
            help="Trust policy, in schedctl's format [default: built-in].",
        ),
    ):
        command = add(command)
    return command


def read_trust_options(options: dict[str, Any]) -> "TrustSettings":
    """The options as the verifier takes them; UsageError where one is wrong."""
    from schedkit.images.reference import is_mirror, is_registry
    from schedkit.sked.verifier.messages import TrustSettings

    mirrors: dict[str, tuple[str, ...]] = {}
    for text in options["registry_mirrors"]:
        name, _, mirror = text.partition("=")
        if not is_registry(name) or not is_mirror(mirror):
            hint = "REGISTRY=MIRROR, as in ghcr.io=mirror.lan:5000/ghcr"
            raise UsageError(f"--registry-mirror: {text[:200]!r} is not a registry and its mirror", hint=hint)
        mirrors[name] = (*mirrors.get(name, ()), mirror)
    for name in options["insecure_registries"]:
        if not is_registry(name):
            hint = "HOST[:PORT], without http:// and without a path"
            raise UsageError(f"--insecure-registry: {name[:200]!r} is not a registry", hint=hint)
    return TrustSettings(
        policy=str(options["trust_policy"] or ""),
        pull_secret=str(options["pull_secret"] or ""),
        mirrors=mirrors,
        insecure=tuple(options["insecure_registries"]),
        ca_file=str(options["registry_ca_file"] or ""),
    )
