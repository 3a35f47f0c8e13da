"""Specs that are accepted, offline and by the API server: the edges of what is valid."""

from typing import Any

from tests.unit.sked_api.cases import HEX, IMAGE, require, select

ACCEPTED: dict[str, dict[str, Any]] = {
    "described": {"sched": IMAGE},
    "short": {"sched": "scx_rusty"},
    "everything-in-a-reference": {"sched": f"localhost:5000/x:y@sha256:{HEX}"},
    "nested-repository": {"sched": "registry.example.com/a/b/c__d/e-f.g_h---i:V1.2-rc_3"},
    "address": {"sched": "10.0.0.1:5000/scx_rusty"},
    "address-version-6": {"sched": "[fd00::1]:5000/scx_rusty:latest"},
    "upper-case-registry": {"sched": "Registry/scx_rusty"},
    "sha512": {"sched": f"scx_rusty@sha512:{HEX}{HEX}"},
    "longest-name": {"sched": f"{'a' * 255}:{'b' * 128}"},
    "hexadecimal-with-tag": {"sched": f"{HEX}:latest"},
    "empty-lists": {"sched": IMAGE, "args": [], "env": [], "tolerations": [], "pools": [], "nodeSelector": {}},
    "pools-with-images": {"pools": [select("a", sched=IMAGE), select("b", sched=IMAGE, args=[], env=[])]},
    "pools-with-an-image-for-all": {"sched": IMAGE, "pools": [select("a"), select("0-b", nodeSelector={"p": ""})]},
    "pool-by-affinity": {
        "sched": IMAGE,
        "pools": [{"name": "a", "affinity": require({"matchExpressions": [{"key": "a", "operator": "Exists"}]})}],
    },
    "labels": {"sched": IMAGE, "nodeSelector": {"a": "", "example.com/A_b.c": "x_Y.z-0", "a" * 63: "a" * 63}},
    "requirements": {
        "sched": IMAGE,
        "affinity": require(
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "y", ""]},
                    {"key": "example.com/a", "operator": "NotIn", "values": ["x"]},
                    {"key": "b", "operator": "Exists"},
                    {"key": "c", "operator": "DoesNotExist", "values": []},
                    {"key": "d", "operator": "Gt", "values": ["007"]},
                    {"key": "e", "operator": "Lt", "values": ["9" * 18]},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node.example.com"]}],
            }
        ),
    },
    "environment": {
        "sched": IMAGE,
        "env": [
            {"name": "A"},
            {"name": "a.b-c_D", "value": "$(A) and more"},
            {"name": "B", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "a.b", "key": "C.d_e-f", "optional": True}}},
            {"name": "D", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
        ],
    },
    "resources": {
        "sched": IMAGE,
        "resources": {
            "requests": {"cpu": "0.5", "memory": "1e6", "example.com/card": 1, "hugepages-2Mi": "4Mi"},
            "limits": {"cpu": 1, "memory": "64Mi", "example.com/card": 1, "hugepages-2Mi": "4Mi"},
        },
    },
    "files": {
        "sched": IMAGE,
        "configFrom": {"configMap": "scx.layers", "mountPath": "/etc/scx..d/.layers/"},
        "hostStats": True,
        "pools": [
            select("a", hostStats=False),
            select("b", configFrom={"configMap": "b", "mountPath": "/procedures"}),
            select("c", configFrom={"configMap": "b", "mountPath": "/var/run/scx-layers"}),
        ],
    },
    "tolerations": {
        "sched": IMAGE,
        "tolerations": [
            {"operator": "Exists"},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
            {"key": "example.com/a", "value": "x"},
            {"key": "a", "operator": "Equal", "effect": "NoSchedule"},
        ],
    },
    "update-by-number": {"sched": IMAGE, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}},
    "update-by-percentage": {
        "sched": IMAGE,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
    },
    "update-on-delete": {"sched": IMAGE, "updateStrategy": {"type": "OnDelete"}},
    "numbers": {"sched": IMAGE, "priority": -(2**31), "suspend": False},
    "pulling": {
        "sched": IMAGE,
        "imagePullPolicy": "Never",
        "imagePullSecrets": [{"name": "a"}, {"name": "b.c"}],
        "priorityClassName": "system-node-critical",
    },
    "fullest": {
        "sched": IMAGE,
        "pools": [
            {
                "name": f"pool-{number}",
                "nodeSelector": {f"example.com/{'k' * 50}{key}": "v" * 63 for key in range(16)},
                "configFrom": {"configMap": "c" * 253, "mountPath": f"/{'m' * 1023}"},
                "env": [{"name": f"{'N' * 200}{item}", "value": "v" * 10} for item in range(64)],
                "affinity": require(
                    *(
                        {
                            "matchExpressions": [
                                {"key": f"key{item}", "operator": "In", "values": [f"{'v' * 50}{n}" for n in range(32)]}
                                for item in range(8)
                            ]
                        }
                        for _ in range(8)
                    )
                ),
            }
            for number in range(16)
        ],
    },
}
