"""The yardstick: the operator's writes from a plain loop on aiohttp that knows what to write and looks at nothing.

Imports no more than it needs, as its start is measured. `plain.py SERVER PKI COUNT WORKERS`
"""

import asyncio
import json
import ssl
import sys
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

import aiohttp

Json = dict[str, Any]
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
DAEMONSETS = "/apis/apps/v1/namespaces/{}/daemonsets"
IMAGE = "example.com/scx_rusty:1"


def open_session(server: str, pki: Path) -> aiohttp.ClientSession:
    """A session as the administrator; to be called in a running loop."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return aiohttp.ClientSession(server, connector=aiohttp.TCPConnector(ssl=context))


async def send(session: aiohttp.ClientSession, method: str, path: str, body: object, kind: str = MERGE) -> None:
    """Send a request and read its answer."""
    headers = {"Content-Type": kind}
    async with session.request(method, path, data=json.dumps(body), headers=headers) as answer:
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
        await answer.read()


async def spread(work: Iterable[Awaitable[None]], workers: int) -> None:
    """Do everything, so many at a time."""
    left = iter(work)

    async def take() -> None:
        for one in left:
            await one

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(take())


def name(number: int) -> str:
    """The name of a resource and of its DaemonSet."""
    return f"bench-{number:04}"


def place(number: int) -> dict[str, str]:
    """The nodeSelector of a resource: no two overlap."""
    return {"kubernetes.io/hostname": f"kwok-{number:04}"}


def make_daemonset(number: int) -> Json:
    """What the operator writes, without an owner, which would be in another namespace."""
    labels, identity = {"managed-by": "sked-controller"}, {"name": name(number)}
    container = {"name": "scx", "image": IMAGE, "securityContext": {"privileged": True}}
    pod = {"containers": [container], "nodeSelector": place(number)}
    template = {"metadata": {"labels": identity | labels}, "spec": pod}
    metadata = {"name": name(number), "namespace": "plain", "labels": labels}
    spec = {"selector": {"matchLabels": identity}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


async def run(server: str, pki: Path, count: int, workers: int) -> None:
    """Apply them all."""
    path, query = DAEMONSETS.format("plain"), "fieldManager=plain&force=true"
    async with open_session(server, pki) as session:
        writes = (send(session, "PATCH", f"{path}/{name(n)}?{query}", make_daemonset(n), APPLY) for n in range(count))
        await spread(writes, workers)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
