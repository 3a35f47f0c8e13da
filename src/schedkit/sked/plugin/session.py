"""One invocation's way to the cluster: what is fetched and changed there, and refusals in words of what to do."""

import asyncio
import logging
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from schedkit import __version__
from schedkit.errors import NoPermissionError, NotFoundError, SchedkitError, UnavailableError, clean, tell
from schedkit.pages import name_page
from schedkit.sked.api.types import SchedExt
from schedkit.sked.kube.client import Client, selector_query
from schedkit.sked.kube.config import read_access
from schedkit.sked.kube.decoding import decode
from schedkit.sked.kube.errors import ApiConflictError, ApiForbiddenError, ApiNotFoundError, UnexpectedAnswerError
from schedkit.sked.kube.objects import HasMetadata, Key, Object
from schedkit.sked.kube.resources import Resource
from schedkit.sked.plugin.objects import NODES, SCHEDEXTS, ClusterNode
from schedkit.sked.plugin.options import Target
from schedkit.unknown import Unknown

FIELD_MANAGER = "kubectl-scx"
ATTEMPTS = 2  # a person waits: a server that is down is told soon
CONFLICTS = 10  # an object under a rollout changes often
FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)

Item = TypeVar("Item", bound=HasMetadata)
Result = TypeVar("Result")
Patch = Mapping[str, Mapping[str, Any]]  # a merge patch
Decide = Callable[[Item], tuple[Patch | None, str]]


class NotInstalledError(UnavailableError):
    """The cluster does not know sked's kinds."""

    reason = "NotInstalled"


@dataclass(frozen=True)
class PluginSession:
    """A connection, and the namespace that is meant."""

    client: Client
    namespace: str

    def warn(self, text: str) -> None:
        """Tell of something that is missing from the result."""
        tell(f"warning: {clean(text)}", sys.stderr)

    async def fetch_all(
        self, resource: Resource, type: type[Item], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[Item]:
        """All objects of a kind; one that cannot be understood is told of, and left out."""
        query = selector_query(labels, fields)
        found: list[Item] = []
        while True:
            page = await self.client.fetch_page(resource, namespace=namespace, query=query)
            for raw in page.items or []:
                try:
                    found.append(decode(raw, type))
                except UnexpectedAnswerError as error:
                    key = decode(raw, Object).metadata.key
                    self.warn(f"{resource.kind} {key} is left out: {error.message}")
            if not page.metadata.continue_token:
                return found
            query = {**query, "continue": page.metadata.continue_token}

    async def fetch_resource(self, name: str) -> SchedExt:
        """The SchedExt of a name; where there is none, the hint says where there is."""
        try:
            return await self.client.fetch(SCHEDEXTS, SchedExt, name, namespace=self.namespace)
        except ApiNotFoundError as error:
            if not error.status.details.name:
                raise
            hint = await self._find_elsewhere(name)
            raise NotFoundError(f"there is no SchedExt {name} in the namespace {self.namespace}", hint=hint) from error

    async def fetch_node(self, name: str) -> ClusterNode:
        """The node of a name."""
        try:
            return await self.client.fetch(NODES, ClusterNode, name)
        except ApiNotFoundError as error:
            raise NotFoundError(f"there is no node {name}", hint="`kubectl scx nodes` lists them") from error

    async def change_resource(self, name: str, decide: Decide[SchedExt]) -> str:
        """Patch a SchedExt as `decide` says of what it is now, and give what it tells of that.

        When somebody was faster, it is asked again.
        """
        return await self._change(
            lambda: self.fetch_resource(name), SCHEDEXTS, SchedExt, Key(self.namespace, name), decide
        )

    async def change_node(self, name: str, decide: Decide[ClusterNode]) -> str:
        """Patch a node, likewise."""
        return await self._change(lambda: self.fetch_node(name), NODES, ClusterNode, Key("", name), decide)

    async def _change(
        self,
        fetch: Callable[[], Awaitable[Item]],
        resource: Resource,
        type: type[Item],
        key: Key,
        decide: Decide[Item],
    ) -> str:
        for attempt in range(1, CONFLICTS + 1):
            seen = await fetch()
            patch, told = decide(seen)
            if patch is None:
                return told
            metadata = {**patch.get("metadata", {}), "resourceVersion": seen.metadata.resource_version}
            try:
                await self.client.patch(
                    resource,
                    type,
                    key.name,
                    {**patch, "metadata": metadata},
                    namespace=key.namespace,
                    field_manager=FIELD_MANAGER,
                )
            except ApiConflictError:
                if attempt == CONFLICTS:
                    raise
            else:
                return told
        raise AssertionError("the last attempt returns or raises")

    async def _find_elsewhere(self, name: str) -> str:
        try:
            everywhere = await self.fetch_all(SCHEDEXTS, SchedExt, fields=f"metadata.name={name}")
        except SchedkitError:
            return ""  # who may not look elsewhere is told of this namespace only
        if everywhere:
            return f"there is one elsewhere: -n {everywhere[0].metadata.namespace}"
        return "`kubectl scx status -A` lists all there are"


async def attempt(fetching: Awaitable[Result]) -> Result | Unknown:
    """What can be had; what is refused or does not come is unknown, and why."""
    try:
        return await fetching
    except SchedkitError as error:
        return Unknown(_explain(error).message)


def run_session(target: Target, work: Callable[[PluginSession], Awaitable[Result]]) -> Result:
    """Connect, do the work, and put refusals into words."""

    async def connect() -> Result:
        access = read_access(os.environ, kubeconfig=target.kubeconfig, context=target.context)
        async with Client(access, user_agent=f"kubectl-scx/{__version__}", attempts=ATTEMPTS) as client:
            return await work(PluginSession(client, target.namespace or client.namespace))

    logging.getLogger("schedkit").addHandler(_Troubles())
    logging.getLogger("schedkit").setLevel(logging.INFO)
    try:
        return asyncio.run(connect())
    except SchedkitError as error:
        explained = _explain(error)
        if explained is error:
            raise
        raise explained from error


def _explain(error: SchedkitError) -> SchedkitError:
    if isinstance(error, ApiForbiddenError) and (found := FORBIDDEN.search(error.status.message)):
        kind = f"{found['resource']}.{found['group']}" if found["group"] else found["resource"]
        where, option = (f" in the namespace {found['namespace']}", f" -n {found['namespace']}")
        if not found["namespace"]:
            where, option = (
                " in the whole cluster",
                " -A" if kind.startswith(("schedexts.", "pods", "daemonsets")) else "",
            )
        hint = f"a Role or ClusterRole grants it; `kubectl auth can-i {found['verb']} {kind}{option}` checks"
        return NoPermissionError(f"{found['user']} may not {found['verb']} {kind}{where}", hint=hint)
    if isinstance(error, ApiNotFoundError) and not error.status.details.name:
        return NotInstalledError(
            "sked is not installed in this cluster: it does not know the kinds of sked.schedkit.io",
            hint=f"is this the right --context? How to install it: {name_page('sked/install.md')}",
        )
    return error


class _Troubles(logging.Handler):
    """What the watches say of lost connections, as warnings; nothing else is for people."""

    def emit(self, record: logging.LogRecord) -> None:
        error = getattr(record, "fields", {}).get("error")
        if record.name.endswith(".watch") and error:
            tell(f"warning: {record.getMessage()}: {clean(str(error))}", sys.stderr)
