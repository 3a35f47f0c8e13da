"""A whole operator on a real API server: informer to queue to writes, lease, metrics, and its end."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from lab.cluster import Cluster
from schedkit.sked.kube.addresses import Address
from schedkit.sked.kube.authorization import Gate
from schedkit.sked.kube.certificates import make_self_signed_context
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.lease import Elector
from schedkit.sked.kube.manager import Manager
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.queue import Queue
from schedkit.sked.kube.serve import Server, make_health_application, make_metrics_application
from schedkit.sked.kube.workers import Controller
from tests.integration.clusters import read_objects
from tests.integration.sked_kube.tools import CONFIG_MAPS, ConfigMap, config_map, connect, running, until

HERE = Address("127.0.0.1", 0)


def make_operator(client: Client, registry: MetricsRegistry, namespace: str) -> Manager:
    """An operator that keeps a config map `copy-NAME` for each config map labelled copy=yes."""
    originals = Informer(client, CONFIG_MAPS, ConfigMap, namespaces=[namespace], label_selector="copy=yes")
    queue: Queue[Key] = Queue("copies", registry=registry)

    def enqueue(old: ConfigMap | None, new: ConfigMap | None) -> None:
        item = new or old
        if item is not None:
            queue.add(item.metadata.key)

    async def reconcile(key: Key) -> None:
        original = originals.store.get(*key)
        if original is not None:
            name = f"copy-{key.name}"
            copy = config_map(name, key.namespace, **(original.data or {}))
            await client.apply(CONFIG_MAPS, ConfigMap, name, copy, namespace=key.namespace)

    originals.on_change(enqueue)
    controller = Controller(queue, reconcile, registry=registry)
    elector = Elector(client, "copies", namespace, registry=registry)
    manager = Manager(informers=[originals], controllers=[controller], elector=elector)
    health = make_health_application(live={}, ready={"informers": manager.not_synced})
    metrics = make_metrics_application(registry, Gate(client))
    manager.servers = [
        Server("health", health, HERE),
        Server("metrics", metrics, HERE, make_self_signed_context("operator")),
    ]
    return manager


async def ask(server: Server, path: str, token: str = "") -> tuple[int, str]:
    scheme = "https" if server.name == "metrics" else "http"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{scheme}://127.0.0.1:{server.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
        return response.status, await response.text()


def create_original(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.kubectl("create", "configmap", name, "--from-literal=v=1", "-n", namespace)
    cluster.kubectl("label", "configmap", name, "copy=yes", "-n", namespace)


def has_copies(cluster: Cluster, namespace: str, *names: str) -> bool:
    found = {item["metadata"]["name"] for item in read_objects(cluster, "configmap", namespace)}
    return all(f"copy-{name}" in found for name in names)


async def test_operator_works_waits_its_turn_and_hands_over(cluster: Cluster) -> None:
    cluster.kubectl("create", "namespace", "operated")
    create_original(cluster, "operated", "early")

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(cluster)) for _ in range(2)]
        registries = [MetricsRegistry(), MetricsRegistry()]
        first, second = (
            make_operator(client, registry, "operated") for client, registry in zip(clients, registries, strict=True)
        )
        first_task = await stack.enter_async_context(running(first.run()))
        await until(lambda: has_copies(cluster, "operated", "early"))
        await stack.enter_async_context(running(second.run()))
        await until(lambda: second.not_synced() == "")
        assert (await ask(second.servers[0], "/readyz"))[0] == 200, "standing by is ready"
        assert 'leader_election_master_status{name="copies"} 0' in registries[1].render().decode()
        create_original(cluster, "operated", "later")
        await until(lambda: has_copies(cluster, "operated", "early", "later"))
        first.stop()
        await asyncio.wait_for(first_task, 60)
        create_original(cluster, "operated", "latest")
        await until(lambda: has_copies(cluster, "operated", "latest"))
        assert 'reconcile_total{controller="copies",result="error"} 0' in registries[1].render().decode()
        second.stop()


async def test_metrics_are_for_those_who_may(cluster: Cluster, tmp_path: Path) -> None:
    for account in ("scraper", "stranger"):
        cluster.kubectl("create", "serviceaccount", account)
    cluster.kubectl("create", "clusterrole", "metrics-reader", "--verb=get", "--non-resource-url=/metrics")
    binding = ("clusterrolebinding", "metrics-reader", "--clusterrole=metrics-reader")
    cluster.kubectl("create", *binding, "--serviceaccount=default:scraper")
    scraper, stranger = (
        cluster.kubectl("create", "token", account).stdout.strip() for account in ("scraper", "stranger")
    )
    nobody = tmp_path / "nobody.kubeconfig"
    nobody.write_text(cluster.make_kubeconfig("nobody"))

    registry = MetricsRegistry()
    registry.counter("things_total", "Things.").of().increase()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(cluster))
        application = make_metrics_application(registry, Gate(client))
        context = make_self_signed_context("operator")
        server = await stack.enter_async_context(Server("metrics", application, HERE, context))
        assert (await ask(server, "/metrics"))[0] == 401
        assert (await ask(server, "/metrics", "made-up"))[0] == 401
        assert (await ask(server, "/metrics", stranger))[0] == 403
        assert await ask(server, "/metrics", scraper) == (200, registry.render().decode())
        # An operator that may not ask lets nobody in.
        helpless = await stack.enter_async_context(connect(cluster, kubeconfig=nobody))
        shut = make_metrics_application(registry, Gate(helpless))
        other = await stack.enter_async_context(Server("metrics", shut, HERE, context))
        assert (await ask(other, "/metrics", scraper))[0] == 503
