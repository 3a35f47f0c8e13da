"""What happened to pods meanwhile, told by the API server itself."""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from lab.cluster import Cluster

PODS = "/api/v1/pods"


@contextmanager
def recorded(cluster: Cluster) -> Iterator[list[set[str]]]:
    """Each set of DaemonSets that had pods on one node at the same time, known when the block has ended."""
    with cluster.connect() as connection:
        before = json.loads(connection.request("GET", PODS).body)
    shared: list[set[str]] = []
    yield shared
    # The API server tells what happened since a version, as long as it remembers.
    query = f"watch=true&resourceVersion={before['metadata']['resourceVersion']}&timeoutSeconds=1"
    with cluster.connect() as connection:
        lines = connection.request("GET", f"{PODS}?{query}").body.splitlines()
    changes = [("ADDED", pod) for pod in before["items"]]
    changes += [(event["type"], event["object"]) for event in map(json.loads, lines)]
    nodes: dict[str, dict[str, str]] = defaultdict(dict)
    for change, pod in changes:
        node = nodes[pod["spec"].get("nodeName", "")]
        if change == "DELETED":
            node.pop(pod["metadata"]["uid"], None)
        elif pod["spec"].get("nodeName"):
            node[pod["metadata"]["uid"]] = pod["metadata"]["labels"]["name"]
            if len(set(node.values())) > 1:
                shared.append(set(node.values()))
