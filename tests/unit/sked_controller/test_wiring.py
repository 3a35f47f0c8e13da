"""What is kept of the objects that are watched: thousands of them are."""

import msgspec

from schedkit.sked.api.kubernetes import Affinity
from schedkit.sked.controller.failures import read_node
from tests.unit.sked_controller.cluster import Cluster


def test_of_a_pod_on_its_node_the_way_there_is_not_kept() -> None:
    cluster = Cluster()
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    for name, spec in (("there", {"nodeName": "n1", "affinity": affinity}), ("waiting", {"affinity": affinity})):
        cluster.put("pods", {"metadata": {"name": name}, "spec": spec})
    there, waiting = (cluster.known.pods.get("default", name) for name in ("there", "waiting"))
    assert there
    assert waiting
    assert (read_node(there), read_node(waiting)) == ("n1", "n1")
    assert there.spec.affinity == Affinity()
    assert waiting.spec.affinity == msgspec.convert(affinity, Affinity)
