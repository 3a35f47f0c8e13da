"""A claim as a DaemonSet: exactly the described one unless more was asked for."""

import msgspec

from schedkit.sked.api.kubernetes import Affinity, NodeAffinity, ResourceRequirements
from schedkit.sked.api.selectors import Selector
from schedkit.sked.api.types import API_VERSION, KIND
from schedkit.sked.api.types import UpdateStrategy as AskedStrategy
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.objects import (
    Container,
    DaemonSet,
    DaemonSetSpec,
    LabelSelector,
    PodSpec,
    PodTemplate,
    RollingUpdate,
    SecurityContext,
    TemplateMeta,
    UpdateStrategy,
)
from schedkit.sked.kube.objects import ObjectMeta, OwnerReference

MANAGED_BY = {"managed-by": "sked-controller"}
CONTAINER = "scx"


def make_daemonset(claim: Claim, remaining: Selector | None) -> DaemonSet:
    """The DaemonSet of a claim. `remaining` are the nodes left to it when stronger claims took some, else None."""
    metadata, spec, workload = claim.resource.metadata, claim.resource.spec, claim.workload
    identity = {"name": claim.name}
    owner = OwnerReference(
        api_version=API_VERSION,
        kind=KIND,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    container = Container(
        name=CONTAINER,
        image=workload.sched,
        args=workload.args,
        env=workload.env,
        resources=workload.resources,
        image_pull_policy=spec.image_pull_policy or "",
        security_context=SecurityContext(privileged=True),
    )
    pod = PodSpec(
        containers=(container,),
        node_selector=workload.node_selector,
        affinity=_affinity(workload.affinity, remaining),
        tolerations=workload.tolerations,
        priority_class_name=spec.priority_class_name or "",
        image_pull_secrets=spec.image_pull_secrets,
    )
    return DaemonSet(
        metadata=ObjectMeta(
            name=claim.name, namespace=metadata.namespace, labels=MANAGED_BY, owner_references=(owner,)
        ),
        spec=DaemonSetSpec(
            selector=LabelSelector(match_labels=identity),
            template=PodTemplate(metadata=TemplateMeta(labels=identity | MANAGED_BY), spec=pod),
            update_strategy=_strategy(spec.update_strategy),
        ),
    )


def _affinity(asked: Affinity | None, remaining: Selector | None) -> Affinity | None:
    if remaining is None:
        return asked
    own = (asked.node_affinity if asked else None) or NodeAffinity()
    required = remaining.to_node_selector()
    narrowed = msgspec.structs.replace(own, required_during_scheduling_ignored_during_execution=required)
    return Affinity(node_affinity=narrowed)


def _strategy(asked: AskedStrategy | None) -> UpdateStrategy | None:
    if asked is None:
        return None
    rolling = asked.rolling_update
    pace = RollingUpdate(max_unavailable=rolling.max_unavailable) if rolling else None
    return UpdateStrategy(type=asked.type or "", rolling_update=pace)


def differs(wanted: DaemonSet, seen: DaemonSet) -> bool:
    """Whether something of ours is not as wanted; what Kubernetes fills in by itself is as wanted."""
    if not wanted.metadata.labels.items() <= seen.metadata.labels.items():
        return True
    if wanted.metadata.owner_references[0] not in seen.metadata.owner_references:
        return True
    return _with_defaults(wanted.spec) != _with_defaults(seen.spec)


def _with_defaults(spec: DaemonSetSpec) -> DaemonSetSpec:
    replace = msgspec.structs.replace
    pod = spec.template.spec
    containers = tuple(
        replace(
            container,
            image_pull_policy=container.image_pull_policy or _default_pull_policy(container.image),
            resources=container.resources or ResourceRequirements(),
        )
        for container in pod.containers
    )
    strategy = spec.update_strategy or UpdateStrategy()
    kind = strategy.type or "RollingUpdate"
    pace = strategy.rolling_update or RollingUpdate()
    if kind == "RollingUpdate":
        pace = RollingUpdate(max_unavailable=1 if pace.max_unavailable is None else pace.max_unavailable)
    template = replace(spec.template, spec=replace(pod, containers=containers, affinity=pod.affinity or Affinity()))
    return replace(
        spec,
        template=template,
        update_strategy=UpdateStrategy(type=kind, rolling_update=pace if kind == "RollingUpdate" else None),
    )


def _default_pull_policy(image: str) -> str:
    """What Kubernetes makes of an absent policy: always for `latest`, said or meant."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") and not digest else "IfNotPresent"
