"""A claim as a DaemonSet: exactly the described one unless more was asked for."""

import hashlib
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from schedkit.sked.api.container_rules import parse_quantity
from schedkit.sked.api.kubernetes import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ResourceRequirements,
)
from schedkit.sked.api.names import API_VERSION, KIND
from schedkit.sked.api.requests import CLAIM, NEXT, SLOT
from schedkit.sked.api.rules import HASH_LENGTH
from schedkit.sked.api.selectors import DOES_NOT_EXIST, IN
from schedkit.sked.api.types import ON_DELETE, ROLLING_UPDATE, RollingUpdate, UpdateStrategy
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.objects import (
    WAIT,
    Container,
    DaemonSet,
    DaemonSetSpec,
    ExecAction,
    InitContainer,
    LabelSelector,
    Lifecycle,
    LifecycleHandler,
    PodSpec,
    PodTemplate,
    PullSecret,
    RestrictedSecurity,
    SecurityContext,
    SleepAction,
    StartupProbe,
    TemplateMeta,
)
from schedkit.sked.controller.volumes import complete_volumes, make_volumes, select_own
from schedkit.sked.kube.objects import ObjectMeta, OwnerReference

FILLED_IN = ("Always", "IfNotPresent")  # pull policies that Kubernetes itself chooses
MANAGED_BY = {"managed-by": "sked-controller"}
CONTAINER = "scx"
WAITER = ("/usr/bin/sked-wait",)
# For each resource that the scheduler itself asks for. It is enough: what waits starts slowly and then sleeps.
WAITER_RESOURCES: dict[str, int | str] = {"cpu": "50m", "memory": "32Mi"}
WAITER_SECONDS = 3600  # for so long one run of the probe may wait; then the kubelet begins another
WAITER_RUNS = 100_000
# A kubelet clears a pod away when its last container has ended. On a busy node that would delay the next scheduler, so
# the sidecar ends no sooner than so many seconds after its pod is deleted. Kubernetes 1.29 drops this.
LINGER = Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(3)))


def make_daemonset(
    claim: Claim,
    slots: Sequence[str] = (),
    *,
    name: str = "",
    takes_free: bool = True,
    waiter: InitContainer | None = None,
) -> DaemonSet:
    """The DaemonSet of a claim; with `slots`, one that keeps to nodes whose slot is free or says one of these.

    Such a one is never rolled by Kubernetes: then adding or taking away that affinity restarts nothing.

    `name`: of one of its revisions; `takes_free`: whether that also runs where no slot is given yet; `waiter`: what
    keeps its pods waiting on nodes that it is to have next.
    """
    metadata, spec, workload = claim.resource.metadata, claim.resource.spec, claim.workload
    name = name or claim.name
    identity = {"name": name}
    labels = MANAGED_BY if name == claim.name else MANAGED_BY | {CLAIM: claim.name}
    owner = OwnerReference(
        api_version=API_VERSION,
        kind=KIND,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    volumes, mounts = make_volumes(workload)
    container = Container(
        name=CONTAINER,
        image=workload.sched,
        args=workload.args,
        env=workload.env,
        resources=workload.resources,
        volume_mounts=mounts,
        image_pull_policy=spec.image_pull_policy or "",
        security_context=SecurityContext(privileged=True),
    )
    pod = PodSpec(
        containers=(container,),
        init_containers=(waiter,) if waiter else (),
        node_selector=workload.node_selector,
        affinity=add_slot(workload.affinity, slots, takes_free=takes_free, waits=waiter is not None)
        if slots
        else workload.affinity,
        tolerations=workload.tolerations,
        priority_class_name=spec.priority_class_name or "",
        image_pull_secrets=tuple(PullSecret(secret.name) for secret in spec.image_pull_secrets),
        volumes=volumes,
    )
    return DaemonSet(
        metadata=ObjectMeta(name=name, namespace=metadata.namespace, labels=labels, owner_references=(owner,)),
        spec=DaemonSetSpec(
            selector=LabelSelector(match_labels=identity),
            template=PodTemplate(metadata=TemplateMeta(labels=identity | MANAGED_BY), spec=pod),
            update_strategy=UpdateStrategy(type=ON_DELETE) if slots else spec.update_strategy,
        ),
    )


def read_claim(daemonset: DaemonSet) -> str:
    """The name of the claim that a DaemonSet is of: its own, unless it is one of several revisions."""
    return daemonset.metadata.labels.get(CLAIM) or daemonset.metadata.name


def make_waiter(image: str, resources: ResourceRequirements | None) -> InitContainer:
    """What keeps a pod waiting until the kernel's slot is free: so its pod can be there before the one before it goes.

    It is a sidecar whose startup probe waits. A kubelet acts on a probe at once; that a container has ended it sees
    only when it looks, each second. The container itself does nothing, and stays as long as the pod does.
    It looks at the kernel alone, which takes no privilege, and its image is the agent's: that is on every node.
    `resources` are the scheduler's: a quota may ask for the same of every container, and the class of service of
    the pod stays what it was.
    """
    waiter = InitContainer(WAIT, image, (*WAITER, "--stay"), None, "IfNotPresent", RestrictedSecurity())
    probe = StartupProbe(ExecAction(WAITER), 1, WAITER_SECONDS, WAITER_RUNS)
    if resources:
        own = {"limits": _pick_own(resources.limits), "requests": _pick_own(resources.requests)}
        waiter = msgspec.structs.replace(waiter, resources=ResourceRequirements(**own))
    return msgspec.structs.replace(waiter, restart_policy="Always", startup_probe=probe, lifecycle=LINGER)


def _pick_own(asked: dict[str, int | str]) -> dict[str, int | str]:
    return {name: amount for name, amount in WAITER_RESOURCES.items() if name in asked}


def find_waiter(daemonset: DaemonSet | None) -> InitContainer | None:
    """What keeps a DaemonSet's pods waiting for the slot, if anything does."""
    found = daemonset.spec.template.spec.init_containers if daemonset else ()
    return next((container for container in found if container.name == WAIT), None)


def add_slot(asked: Affinity | None, slots: Sequence[str], *, takes_free: bool = True, waits: bool = False) -> Affinity:
    """What is asked of nodes, and besides that their slot says one of these, or is free.

    `waits`: or that the first of them is to have it next.
    """
    own = (asked.node_affinity if asked else None) or NodeAffinity()
    required = own.required_during_scheduling_ignored_during_execution
    free = NodeSelectorRequirement(key=SLOT, operator=DOES_NOT_EXIST)
    given = NodeSelectorRequirement(key=SLOT, operator=IN, values=tuple(slots))
    coming = NodeSelectorRequirement(key=NEXT, operator=IN, values=tuple(slots[:1]))
    ways = (*((free,) if takes_free else ()), given, *((coming,) if waits else ()))
    terms = tuple(
        NodeSelectorTerm(match_expressions=(*term.match_expressions, more), match_fields=term.match_fields)
        for term in (required.node_selector_terms if required else (NodeSelectorTerm(),))
        if required is None or term.match_expressions or term.match_fields  # an empty one selects nothing
        for more in ways
    )
    # Nothing but empty terms: they stay, as there must be one.
    narrowed = NodeSelector(node_selector_terms=terms) if terms else required
    return Affinity(
        node_affinity=msgspec.structs.replace(own, required_during_scheduling_ignored_during_execution=narrowed)
    )


def remove_slot(affinity: Affinity | None) -> Affinity | None:
    """What is asked of nodes besides their slot, in the form that it was asked for."""
    own = affinity.node_affinity if affinity else None
    required = own.required_during_scheduling_ignored_during_execution if own else None
    if own is None or required is None:
        return affinity if own and own != NodeAffinity() else None
    terms = dict.fromkeys(_without_slot(term) for term in required.node_selector_terms)
    rest = NodeSelector(node_selector_terms=tuple(terms)) if tuple(terms) != (NodeSelectorTerm(),) else None
    if required.node_selector_terms == tuple(terms):
        rest = required
    left = msgspec.structs.replace(own, required_during_scheduling_ignored_during_execution=rest)
    return Affinity(node_affinity=left) if left != NodeAffinity() else None


def follows_slot(daemonset: DaemonSet) -> bool:
    """Whether it keeps to nodes whose slot is free or its own."""
    affinity = daemonset.spec.template.spec.affinity
    node = affinity.node_affinity if affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    return any(
        expression.key == SLOT
        for term in (required.node_selector_terms if required else ())
        for expression in term.match_expressions
    )


def same_pods(wanted: DaemonSet, seen: DaemonSet) -> bool:
    """Whether their pods differ in nothing but the nodes that the slot leaves them."""
    return read_revision(wanted.spec.template) == read_revision(_without_defaulted_policy(wanted, seen).spec.template)


def same_work(wanted: DaemonSet, seen: DaemonSet) -> bool:
    """Whether their pods do the same, wherever they run."""
    return read_work(wanted.spec.template) == read_work(_without_defaulted_policy(wanted, seen).spec.template)


def name_revision(claim: Claim, wanted: DaemonSet) -> str:
    """A name for a DaemonSet whose pods do this: the claim's, and a hash of what they do."""
    return f"{claim.name}-{hashlib.sha256(read_work(wanted.spec.template)).hexdigest()[:HASH_LENGTH]}"


def read_work(template: PodTemplate) -> bytes:
    """What pods do, as a value: without where, and without the labels by which their DaemonSet knows them."""
    others = tuple(found for found in template.spec.init_containers if found.name != WAIT)
    anywhere = msgspec.structs.replace(
        template.spec, init_containers=others, node_selector={}, affinity=None, tolerations=()
    )
    return read_revision(msgspec.structs.replace(template, metadata=TemplateMeta(), spec=anywhere))


def read_revision(template: PodTemplate) -> bytes:
    """A pod template as a value that is the same for two whose pods are the same, but for the slot."""
    pod = template.spec
    plain = msgspec.structs.replace(
        pod,
        affinity=remove_slot(pod.affinity),
        containers=_complete(pod.containers),
        volumes=complete_volumes(pod.volumes),
    )
    return msgspec.json.encode(msgspec.structs.replace(template, spec=plain), order="deterministic")


def _without_slot(term: NodeSelectorTerm) -> NodeSelectorTerm:
    expressions = tuple(expression for expression in term.match_expressions if expression.key not in (SLOT, NEXT))
    return msgspec.structs.replace(term, match_expressions=expressions)


def differs(wanted: DaemonSet, seen: DaemonSet) -> bool:
    """Whether a field that sked sets is not as wanted; what Kubernetes fills in by itself is as wanted."""
    if not wanted.metadata.labels.items() <= seen.metadata.labels.items():
        return True
    if wanted.metadata.owner_references[0] not in seen.metadata.owner_references:
        return True
    return _with_defaults(wanted.spec) != _with_defaults(_without_defaulted_policy(wanted, seen).spec)


def _without_defaulted_policy(wanted: DaemonSet, seen: DaemonSet) -> DaemonSet:
    """What is there, without pull policies that nobody asked for.

    Kubernetes fills one in once, by the tag of that day, and leaves it when the tag changes.
    """
    replace = msgspec.structs.replace
    silent = {item.name for item in wanted.spec.template.spec.containers if not item.image_pull_policy}
    pod = seen.spec.template.spec
    containers = tuple(
        replace(item, image_pull_policy="") if item.name in silent and item.image_pull_policy in FILLED_IN else item
        for item in pod.containers
    )
    template = replace(seen.spec.template, spec=replace(pod, containers=containers))
    return replace(seen, spec=replace(seen.spec, template=template))


def _with_defaults(spec: DaemonSetSpec) -> DaemonSetSpec:
    replace = msgspec.structs.replace
    pod = spec.template.spec
    containers = _complete(pod.containers)
    pod = replace(
        pod,
        containers=containers,
        # Not worth a write by itself: an API server that drops what is done before the end would get one after another.
        init_containers=tuple(
            replace(item, resources=_normalise(item.resources), lifecycle=None) for item in pod.init_containers
        ),
        affinity=pod.affinity or Affinity(),
        volumes=complete_volumes(pod.volumes),
    )
    template = replace(spec.template, spec=pod)
    return replace(spec, template=template, update_strategy=_complete_strategy(spec.update_strategy))


def _complete_strategy(strategy: UpdateStrategy | None) -> UpdateStrategy:
    """A strategy with what Kubernetes fills in; surging is never asked for, as a kernel takes one scheduler."""
    strategy = strategy or UpdateStrategy()
    if (strategy.type or ROLLING_UPDATE) != ROLLING_UPDATE:
        return UpdateStrategy(type=strategy.type)
    pace = strategy.rolling_update or RollingUpdate()
    unavailable = 1 if pace.max_unavailable is None else pace.max_unavailable
    pace = RollingUpdate(max_unavailable=unavailable, max_surge=pace.max_surge or None)
    return UpdateStrategy(type=ROLLING_UPDATE, rolling_update=pace)


def _complete(containers: tuple[Container, ...]) -> tuple[Container, ...]:
    """Containers with what Kubernetes fills in."""
    return tuple(
        msgspec.structs.replace(
            container,
            image_pull_policy=container.image_pull_policy or _default_pull_policy(container.image),
            resources=_normalise(container.resources),
            volume_mounts=select_own(container.volume_mounts),
        )
        for container in containers
    )


def _normalise(resources: ResourceRequirements | None) -> ResourceRequirements:
    """The API server writes quantities its own way: 1000m comes back as 1."""
    if resources is None:
        return ResourceRequirements()

    def normalise(amounts: dict[str, int | str]) -> dict[str, int | str]:
        return {name: str((parse_quantity(amount) or Decimal(0)).normalize()) for name, amount in amounts.items()}

    return ResourceRequirements(limits=normalise(resources.limits), requests=normalise(resources.requests))


def _default_pull_policy(image: str) -> str:
    """What Kubernetes makes of an absent policy: always for `latest`, said or meant."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") and not digest else "IfNotPresent"
