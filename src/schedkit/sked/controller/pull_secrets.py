"""The credentials that a resource names for its own images, where a Role of its namespace lets sked read them."""

import base64
import binascii
from collections.abc import Sequence
from typing import NamedTuple

from schedkit.sked.kube.client import Client
from schedkit.sked.kube.errors import ApiError
from schedkit.sked.kube.objects import Model
from schedkit.sked.kube.resources import Resource

SECRETS = Resource("", "v1", "secrets", "Secret")
KEY = ".dockerconfigjson"
TYPE = "kubernetes.io/dockerconfigjson"  # no other Secret is any of the registry's business
LARGEST = 1 << 16


class _Secret(Model, frozen=True):
    type: str = ""
    data: dict[str, str] = {}


class Documents(NamedTuple):
    """Files of credentials, and what kept us from reading others."""

    found: tuple[str, ...] = ()
    problem: str = ""


async def fetch_documents(client: Client, namespace: str, names: Sequence[str]) -> Documents:
    """The documents of pull secrets; one that cannot be read is left out, as a kubelet does."""
    found, problem = [], ""
    for name in names:
        try:
            secret = await client.fetch(SECRETS, _Secret, name, namespace=namespace)
            document = base64.b64decode(secret.data.get(KEY, ""), validate=True).decode()
        except ApiError as error:
            problem = problem or f"sked cannot read the pull secret {namespace}/{name} ({error.reason})"
            continue
        except (binascii.Error, UnicodeDecodeError):
            document = ""
        if document and secret.type == TYPE and len(document) <= LARGEST:
            found.append(document)
        else:
            problem = problem or f"{namespace}/{name} is not a Secret of type {TYPE}"
    return Documents(tuple(found), problem)
