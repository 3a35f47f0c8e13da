"""Informers on a real API server: what they see, and that nothing is lost whatever happens to the server."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace

import pytest

from lab.cluster import Cluster
from lab.components import API_SERVER, ETCD
from lab.https import connect as connect_https
from lab.https import make_context
from schedkit.sked.kube import watch
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.config import read_access
from schedkit.sked.kube.credentials import ApiIdentity, CertificatePair
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.manager import Manager
from schedkit.sked.kube.queue import Queue
from schedkit.sked.kube.resources import Resource
from schedkit.sked.kube.workers import Controller
from tests.integration.sked_kube.tools import CONFIG_MAPS, ConfigMap, config_map, connect, running, until

TURNS = 2
UNICORNS = Resource("schedkit.test", "v1", "unicorns", "Unicorn")


def note(told: list[str]) -> "object":
    def tell(old: ConfigMap | None, new: ConfigMap | None) -> None:
        before = (old.data or {}).get("v", "?") if old else "-"
        after = (new.data or {}).get("v", "?") if new else "-"
        item = new or old
        assert item is not None
        told.append(f"{item.metadata.name}:{before}>{after}")

    return tell


def data_of(informer: Informer[ConfigMap]) -> dict[str, Mapping[str, str] | None]:
    return {item.metadata.name: item.data for item in informer.store if item.metadata.name != "kube-root-ca.crt"}


def make_namespace(cluster: Cluster, name: str) -> str:
    cluster.kubectl("create", "namespace", name)
    return name


@pytest.mark.parametrize("use_watch_list", [True, False], ids=["watchlist", "pages"])
async def test_informer_sees_what_is_there_and_what_happens(
    cluster: Cluster, use_watch_list: bool, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = make_namespace(cluster, "seen" if use_watch_list else "seen-in-pages")

    async with connect(cluster) as client:
        for number in range(5):
            await client.create(CONFIG_MAPS, ConfigMap, config_map(f"c{number}", namespace, v="0"), namespace=namespace)
        told: list[str] = []
        informer = Informer(
            client,
            CONFIG_MAPS,
            ConfigMap,
            namespaces=[namespace],
            field_selector="metadata.name!=kube-root-ca.crt",
            use_watch_list=use_watch_list,
            page_size=2,
        )
        informer.on_change(note(told))  # type: ignore[arg-type]
        async with running(informer.run()):
            await asyncio.wait_for(informer.wait_settled(), 60)
            assert sorted(told) == [f"c{number}:->0" for number in range(5)]
            told.clear()
            await client.patch(CONFIG_MAPS, ConfigMap, "c1", {"data": {"v": "1"}}, namespace=namespace)
            await client.delete(CONFIG_MAPS, "c2", namespace=namespace)
            await client.create(CONFIG_MAPS, ConfigMap, config_map("new", namespace, v="9"), namespace=namespace)
            await until(lambda: len(told) == 3)
            assert told == ["c1:0>1", "c2:0>-", "new:->9"]
            assert informer.trouble == ""
    assert "listing in pages" not in caplog.text, "this server offers WatchList"


async def test_selectors_and_namespaces_choose(cluster: Cluster) -> None:
    first, second, third = (make_namespace(cluster, f"chosen-{number}") for number in range(3))
    for namespace in (first, second, third):
        cluster.kubectl("create", "configmap", "plain", "-n", namespace)
        cluster.kubectl("create", "configmap", "marked", "-n", namespace)
        cluster.kubectl("label", "configmap", "marked", "take=me", "-n", namespace)

    async with connect(cluster) as client:
        some = Informer(client, CONFIG_MAPS, ConfigMap, namespaces=[first, second], label_selector="take=me")
        every = Informer(client, CONFIG_MAPS, ConfigMap, label_selector="take=me")
        async with running(some.run()), running(every.run()):
            await asyncio.wait_for(some.wait_settled(), 60)
            await asyncio.wait_for(every.wait_settled(), 60)
            assert {str(item.metadata.key) for item in some.store} == {f"{first}/marked", f"{second}/marked"}
            assert {item.metadata.namespace for item in every.store} == {first, second, third}
            # An object that no longer matches is gone for who asked for matching ones.
            cluster.kubectl("label", "configmap", "marked", "take-", "-n", first)
            await until(lambda: len(some.store) == 1 and len(every.store) == 2)


def install_unicorns(cluster: Cluster) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{UNICORNS.plural}.{UNICORNS.group}"},
        "spec": {
            "group": UNICORNS.group,
            "scope": "Namespaced",
            "names": {"plural": UNICORNS.plural, "kind": UNICORNS.kind},
            "versions": [{"name": UNICORNS.version, "served": True, "storage": True, "schema": schema}],
        },
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(definition))
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{UNICORNS.plural}.{UNICORNS.group}")
    one = {"apiVersion": f"{UNICORNS.group}/{UNICORNS.version}", "kind": UNICORNS.kind, "metadata": {"name": "one"}}
    cluster.kubectl("create", "-f", "-", input=json.dumps(one))


async def test_operator_works_without_an_optional_resource_and_finds_it_when_it_is_installed(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "schedkit")
    async with connect(cluster) as client:
        worked = asyncio.Event()

        async def reconcile(_key: str) -> None:
            worked.set()

        queue: Queue[str] = Queue("work")
        queue.add("some")
        unicorns = Informer(client, UNICORNS, ConfigMap)
        needed = Informer(client, CONFIG_MAPS, ConfigMap)
        manager = Manager([needed], [Controller(queue, reconcile)], optional_informers=[unicorns])
        async with running(manager.run()):
            await asyncio.wait_for(worked.wait(), 60)
            await until(lambda: unicorns.denied)
            assert unicorns.denied == "watch unicorns: there is no such kind of object (404)"
            assert manager.not_synced() == ""
            await asyncio.to_thread(install_unicorns, cluster)
            await until(lambda: unicorns.synced and not unicorns.denied)
            assert [item.metadata.name for item in unicorns.store] == ["one"]
    assert caplog.text.count("watch interrupted") == 1, "told once, not at each attempt"


class Gate:
    """A sleep that lasts until it is opened: the informer stays away for as long as the test wants."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = False

    async def __call__(self, seconds: float) -> None:
        self.waiting = True
        await self.open.wait()
        self.waiting = False
        await asyncio.sleep(min(seconds, 0.2))


def compact(cluster: Cluster) -> None:
    """Make etcd forget everything but the present."""
    context = make_context(cluster.plane.pki, "etcd-ca", "etcd-client")
    with connect_https(cluster.plane.ports[ETCD], context) as connection:
        status = json.loads(connection.request("POST", "/v3/maintenance/status", {}).body)
        revision = status["header"]["revision"]
        answer = connection.request("POST", "/v3/kv/compaction", {"revision": revision, "physical": True})
        assert answer.status == 200, answer.text


async def test_expired_history_is_read_anew_and_deletions_are_found(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = make_namespace(cluster, "expired")
    for name in ("stays", "goes", "changes"):
        cluster.kubectl("create", "configmap", name, "--from-literal=v=0", "-n", namespace)

    caplog.set_level("INFO", "schedkit")
    async with connect(cluster) as client:
        gate, told = Gate(), list[str]()
        informer = Informer(client, CONFIG_MAPS, ConfigMap, namespaces=[namespace], sleep=gate)
        async with running(informer.run()):
            await asyncio.wait_for(informer.wait_settled(), 60)
            informer.on_change(note(told))  # type: ignore[arg-type]
            await asyncio.to_thread(cluster.stop_component, API_SERVER)
            await until(lambda: gate.waiting)
            await asyncio.to_thread(cluster.start_component, API_SERVER)
            told.clear()
            await asyncio.to_thread(cluster.kubectl, "delete", "configmap", "goes", "-n", namespace)
            patch = '{"data":{"v":"1"}}'
            await asyncio.to_thread(cluster.kubectl, "patch", "configmap", "changes", "-p", patch, "-n", namespace)
            await asyncio.to_thread(cluster.kubectl, "create", "configmap", "comes", "-n", namespace)
            await asyncio.to_thread(cluster.stop_component, API_SERVER)
            await asyncio.to_thread(compact, cluster)
            await asyncio.to_thread(cluster.start_component, API_SERVER)
            assert told == []
            gate.open.set()
            await until(lambda: len(told) >= 3)
            assert sorted(told) == ["changes:0>1", "comes:->?", "goes:0>-"]
    assert "history is gone" in caplog.text


@pytest.mark.parametrize("change", ["changed", "gone", "made-again"])
async def test_newest_object_that_changed_while_nobody_watched_is_no_reason_to_read_all(
    cluster: Cluster, change: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "WATCH_SECONDS", (2, 2))
    namespace = make_namespace(cluster, f"newest-{change}")
    caplog.set_level("INFO", "schedkit")
    async with connect(cluster) as client:
        gate, told = Gate(), list[str]()
        for name in ("rests", "newest"):
            await client.create(CONFIG_MAPS, ConfigMap, config_map(name, namespace, v="0"), namespace=namespace)
        query = "metadata.name!=kube-root-ca.crt"
        informer = Informer(client, CONFIG_MAPS, ConfigMap, namespaces=[namespace], field_selector=query, sleep=gate)
        async with running(informer.run()):
            await asyncio.wait_for(informer.wait_settled(), 60)
            informer.on_change(note(told))  # type: ignore[arg-type]
            await until(lambda: gate.waiting)
            told.clear()
            if change == "changed":
                await client.patch(CONFIG_MAPS, ConfigMap, "newest", {"data": {"v": "1"}}, namespace=namespace)
            else:
                await client.delete(CONFIG_MAPS, "newest", namespace=namespace)
            if change == "made-again":
                again = config_map("newest", namespace, v="1")
                await client.create(CONFIG_MAPS, ConfigMap, again, namespace=namespace)
            assert told == []
            gate.open.set()
            expected = {"changed": ["0>1"], "gone": ["0>-"], "made-again": ["0>-", "->1"]}[change]
            await until(lambda: len(told) >= len(expected))
            assert told == [f"newest:{one}" for one in expected]
    assert "history is gone" not in caplog.text


class Renewed:
    """Credentials of an administrator whose certificate is another one from time to time."""

    def __init__(self, cluster: Cluster) -> None:
        self._pairs = [self._make_pair(cluster, f"renewed-{number}") for number in range(2)]
        self.used = 0

    def _make_pair(self, cluster: Cluster, name: str) -> CertificatePair:
        user = json.loads(cluster.make_kubeconfig(name, group="system:masters"))["users"][0]["user"]
        return CertificatePair(b64decode(user["client-certificate-data"]), b64decode(user["client-key-data"]))

    async def fetch(self) -> ApiIdentity:
        return ApiIdentity(certificate=self._pairs[self.used])

    def forget(self, refused: ApiIdentity) -> None:
        raise AssertionError(f"{refused} was refused")


@pytest.mark.parametrize("in_a_wave", [False, True])
async def test_watch_goes_on_when_the_client_certificate_is_renewed(
    cluster: Cluster, in_a_wave: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_a_wave:
        monkeypatch.setattr(watch, "WAVE_SECONDS", 60.0)
        monkeypatch.setattr(watch, "GATHER_SECONDS", 2.0)
    namespace = make_namespace(cluster, f"renewed-{in_a_wave}".lower())
    credentials = Renewed(cluster)
    access = replace(read_access({}, kubeconfig=cluster.admin_kubeconfig), credentials=credentials)
    async with connect(cluster) as admin, Client(access) as client:
        await admin.create(CONFIG_MAPS, ConfigMap, config_map("seen", namespace, v="0"), namespace=namespace)
        informer = Informer(client, CONFIG_MAPS, ConfigMap, namespaces=[namespace])
        async with running(informer.run()) as task:
            await asyncio.wait_for(informer.wait_settled(), 60)
            for version in "123":
                if version == "3":
                    await asyncio.sleep(0.1)  # for the stream to wait for a change again, or to gather
                    credentials.used = 1
                    await client.fetch(CONFIG_MAPS, ConfigMap, "seen", namespace=namespace)
                await admin.patch(CONFIG_MAPS, ConfigMap, "seen", {"data": {"v": version}}, namespace=namespace)
                await until(lambda seen={"v": version}: task.done() or data_of(informer) == {"seen": seen})  # type: ignore[misc]
            assert not task.done()


async def test_nothing_is_lost_when_the_api_server_restarts_again_and_again(cluster: Cluster) -> None:
    namespace = make_namespace(cluster, "restarted")

    async with connect(cluster, attempts=30) as client:  # on a busy host a restart takes long
        informer = Informer(client, CONFIG_MAPS, ConfigMap, namespaces=[namespace])
        async with running(informer.run()):
            for turn in range(TURNS):
                for number in range(10):
                    name = f"t{turn}-{number}"
                    await client.create(CONFIG_MAPS, ConfigMap, config_map(name, namespace, v="0"), namespace=namespace)
                restart = asyncio.gather(asyncio.to_thread(restart_api_server, cluster))
                # Writes go on while the server goes and comes: the client sends again what is safe to send.
                for number in range(0, 10, 3):
                    patch = {"data": {"v": "1"}}
                    await client.patch(CONFIG_MAPS, ConfigMap, f"t{turn}-{number}", patch, namespace=namespace)
                await restart
                await client.delete(CONFIG_MAPS, f"t{turn}-1", namespace=namespace)
            expected = {
                f"t{turn}-{number}": {"v": "1" if number % 3 == 0 else "0"}
                for turn in range(TURNS)
                for number in range(10)
                if number != 1
            }
            await until(lambda: data_of(informer) == expected)


def restart_api_server(cluster: Cluster) -> None:
    cluster.stop_component(API_SERVER)
    cluster.start_component(API_SERVER)


@pytest.mark.parametrize("name", ["behind", "passed"])
async def test_wiped_cluster_is_an_empty_one(cluster: Cluster, name: str) -> None:
    """Versions start over; one from before means nothing any more, whether the new ones have reached it or not."""
    namespace = make_namespace(cluster, name)
    gone_on = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await gone_on.wait()
        await asyncio.sleep(seconds)

    async with connect(cluster) as client:

        async def write(name: str, times: int) -> int:
            body = config_map(name, namespace, v="0")
            last = await client.create(CONFIG_MAPS, ConfigMap, body, namespace=namespace)
            for number in range(times):
                patch = {"data": {"v": str(number)}}
                last = await client.patch(CONFIG_MAPS, ConfigMap, name, patch, namespace=namespace)
            return int(last.metadata.resource_version)

        informer = Informer(client, CONFIG_MAPS, ConfigMap, namespaces=[namespace], sleep=sleep)
        async with running(informer.run()):
            before = await write("lost", 200 if name == "behind" else 1)
            await until(lambda: "lost" in data_of(informer))
            await asyncio.to_thread(cluster.wipe_etcd)
            await asyncio.to_thread(cluster.kubectl, "create", "namespace", namespace)
            after = await write("found", 1 if name == "behind" else before)
            assert (after < before) == (name == "behind")
            gone_on.set()
            await until(lambda: set(data_of(informer)) == {"found"})
