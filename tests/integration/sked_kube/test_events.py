"""Events as the API server keeps them."""

import json
from typing import Any

from lab.cluster import Cluster
from schedkit.sked.kube.events import Recorder, refer_to
from schedkit.sked.kube.objects import ObjectReference
from tests.integration.sked_kube.tools import CONFIG_MAPS, ConfigMap, config_map, connect


def fetch_events(cluster: Cluster, reason: str, namespace: str = "default") -> list[dict[str, Any]]:
    text = cluster.kubectl("get", "events.events.k8s.io", "-n", namespace, "-o", "json").stdout
    return [event for event in json.loads(text)["items"] if event["reason"] == reason]


async def test_repeated_event_is_one_object_with_a_count(cluster: Cluster) -> None:
    async with connect(cluster) as client:
        created = await client.create(CONFIG_MAPS, ConfigMap, config_map("eventful"), namespace="default")
        recorder = Recorder(client, "schedkit.io/test", "host_1")
        about = refer_to(CONFIG_MAPS, created.metadata)
        for _ in range(5):
            recorder.record(about, "Warning", "Repeated", "Repeat", "it happened")
        recorder.record(about, "Normal", "Other", "Repeat", "x" * 5000)
        await recorder.flush()
        (event,) = fetch_events(cluster, "Repeated")
        assert event["series"]["count"] == 5
        assert (event["note"], event["type"], event["action"]) == ("it happened", "Warning", "Repeat")
        assert event["reportingController"] == "schedkit.io/test"
        assert event["reportingInstance"] == "host_1"
        assert event["regarding"] == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "eventful",
            "namespace": "default",
            "uid": created.metadata.uid,
        }
        assert len(fetch_events(cluster, "Other")) == 1
        described = cluster.kubectl("describe", "configmap", "eventful").stdout
        assert "it happened" in described


async def test_event_about_what_has_no_namespace_lives_in_default(cluster: Cluster) -> None:
    async with connect(cluster) as client:
        recorder = Recorder(client, "schedkit.io/test", "host_1")
        recorder.record(ObjectReference(kind="Node", name="n1"), "Normal", "Homeless", "Wander", "no namespace")
        await recorder.flush()
        assert len(fetch_events(cluster, "Homeless")) == 1


async def test_event_that_is_gone_is_made_again(cluster: Cluster) -> None:
    async with connect(cluster) as client:
        recorder = Recorder(client, "schedkit.io/test", "host_1")
        about = ObjectReference(kind="Node", name="n2")
        for _ in range(3):
            recorder.record(about, "Normal", "Vanishing", "Vanish", "here")
            await recorder.flush()
            cluster.kubectl("delete", "events.events.k8s.io", "--all", "-n", "default")
        recorder.record(about, "Normal", "Vanishing", "Vanish", "here")
        await recorder.flush()
        assert len(fetch_events(cluster, "Vanishing")) == 1
