"""What must hold of rollouts: each rule in CEL and in Python, and the sentence that refuses the rest."""

from schedkit.sked.api import patterns
from schedkit.sked.api.about import Fault, Value, fits, none_of
from schedkit.sked.api.patterns import cel_matches, matches

DURATION = fits(patterns.DURATION, "a duration is written as 90s, 10m or 1h30m")
STEP_NODES = none_of(
    Fault(
        f"type(self) == int ? int(self) < 1 : !{cel_matches('string(self)', patterns.PERCENTAGE)}",
        lambda value: value < 1 if isinstance(value, int) else not matches(patterns.PERCENTAGE, value),
        "nodes is a number of nodes from 1 on, or a percentage from 1% to 100%",
    )
)
STEP = none_of(
    Fault(
        "has(self.nodes) == has(self.pause)",
        lambda value: ("nodes" in value) == ("pause" in value),
        "a step has either nodes or a pause",
    ),
    Fault(
        "has(self.nodeSelector) && !has(self.nodes)",
        lambda value: "nodeSelector" in value and "nodes" not in value,
        "a nodeSelector goes with nodes: a pause has none",
    ),
)


def _has_rollout(spec: Value) -> bool:
    return "rollout" in spec or any("rollout" in pool for pool in spec.get("pools", ()))


ONE_PACE = none_of(
    Fault(
        "has(self.updateStrategy) && (has(self.rollout) || (has(self.pools) && self.pools.exists(p, has(p.rollout))))",
        lambda value: "updateStrategy" in value and _has_rollout(value),
        "rollout takes the place of updateStrategy: give one of them",
    ),
    field="updateStrategy",
)
