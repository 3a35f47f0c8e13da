"""What these tests share: clients of the lab's cluster, config maps to try things on, and waiting for conditions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from schedkit.sked.kube.client import ATTEMPTS, Client
from schedkit.sked.kube.config import read_access
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Model, ObjectMeta
from schedkit.sked.kube.resources import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
WAIT_SECONDS = 90.0


class ConfigMap(Model, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] | None = None
    api_version: str = ""
    kind: str = ""


def config_map(name: str, namespace: str = "default", **data: str) -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace=namespace)
    return ConfigMap(metadata, data, api_version="v1", kind="ConfigMap")


def connect(
    cluster: Cluster,
    *,
    kubeconfig: Path | None = None,
    registry: MetricsRegistry | None = None,
    attempts: int = ATTEMPTS,
) -> Client:
    """A client as the administrator, or as whoever the kubeconfig says."""
    access = read_access({}, kubeconfig=kubeconfig or cluster.admin_kubeconfig)
    return Client(access, registry=registry, attempts=attempts)


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Let the loop run until something is so; the bound is there to fail in, not to measure with."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {WAIT_SECONDS:.0f} s for {what}") from None


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Something that runs beside the test and ends with it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
