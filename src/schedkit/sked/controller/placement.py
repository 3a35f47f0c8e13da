"""Which claims could run on which node, kept change by change: it costs what changed, not what there is."""

from collections.abc import Iterable, Iterator, Mapping

from schedkit.sked.api.selectors import Term
from schedkit.sked.controller.claims import Claim, Identity
from schedkit.sked.controller.objects import Node
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import Groups, Store

NOBODY: tuple[Claim, ...] = ()
NODE_NAME = "\0name"  # stands for a node's name where others are labels; no label can be called so


class Placement:
    """All claims, all nodes, and who could run where. Nodes are found by a label that a claim demands, and back."""

    def __init__(self, nodes: Store[Node]) -> None:
        self._nodes = nodes
        self._claims: dict[Key, tuple[Claim, ...]] = {}  # by resource
        self._known: dict[Identity, Claim] = {}
        self._by_daemonset: Groups[Key, Identity] = Groups()
        self._by_name: Groups[str, tuple[str, Key]] = Groups()  # since when resources are there, by their name alone
        self._nodes_by_label: dict[str, Groups[str, str]] = {}
        # By a label and a value that a term demands; and those that demand none.
        self._claims_by_label: dict[str, Groups[str, Identity]] = {}
        self._claims_anywhere: dict[Identity, None] = {}
        self._labels_read: dict[str, int] = {}
        self._on: dict[str, tuple[Claim, ...]] = {}  # by node, the strongest first
        self._of: dict[Identity, dict[str, None]] = {}  # nodes by claim; dicts as sets that keep their order
        self._same: dict[tuple[Claim, ...], tuple[Claim, ...]] = {}  # equal answers of many nodes are one object

    def claims(self, resource: Key) -> tuple[Claim, ...]:
        """What a resource claims."""
        return self._claims.get(resource, NOBODY)

    def named(self, daemonset: Key) -> list[Claim]:
        """The claims that need a DaemonSet of this name: two may, of which one will not get it."""
        return [self._known[identity] for identity in self._by_daemonset.find(daemonset)]

    def find(self, identity: Identity) -> Claim | None:
        """The claim as it is now, if it is still made."""
        return self._known.get(identity)

    def on(self, node: str) -> tuple[Claim, ...]:
        """The claims that could run on a node, the strongest first."""
        return self._on.get(node, NOBODY)

    def of(self, claim: Claim) -> Mapping[str, None]:
        """The nodes that a claim could run on."""
        return self._of.get(claim.identity, {})

    def count_nodes(self, resource: Key) -> int:
        """How many nodes a resource's claims could run on."""
        return sum(len(self.of(claim)) for claim in self.claims(resource))

    def name_owner(self, name: str) -> Key | None:
        """The resource that is meant by a name alone: of several with the same name the oldest is."""
        return min(self._by_name.find(name), default=("", None))[1]

    def put_name(self, resource: Key, since: str | None) -> None:
        """Take in that a resource is there since a time, whether it claims anything or not; None: it is gone."""
        for known in [known for known in self._by_name.find(resource.name) if known[1] == resource]:
            self._by_name.remove(resource.name, known)
        if since is not None:
            self._by_name.add(resource.name, (since, resource))

    def put(self, resource: Key, claims: tuple[Claim, ...]) -> set[str]:
        """Take a resource's new claims for its old ones; the answer is the nodes that this concerns."""
        concerned: set[str] = set()
        for claim in self._claims.pop(resource, NOBODY):
            concerned.update(self._forget(claim))
        if claims:
            self._claims[resource] = claims
        for claim in claims:
            concerned.update(self._learn(claim))
        for node in concerned:
            self._settle(node)
        return concerned

    def see_node(self, old: Node | None, new: Node | None) -> bool:
        """Take in a change of a node; the answer is whether other claims could run there than before."""
        known = new or old
        if known is None or (old and new and not self._reads_difference(old, new)):
            return False
        name = known.metadata.name
        for label, by_value in self._nodes_by_label.items():
            before, after = _read(old, label), _read(new, label)
            if before == after:
                continue
            if before is not None:
                by_value.remove(before, name)
            if after is not None:
                by_value.add(after, name)
        fitting = {claim.identity: None for claim in self._find_claims(new) if claim.could_run_on(new)} if new else {}
        before_here = {claim.identity: None for claim in self.on(name)}
        if fitting == before_here:
            return False
        for key in before_here.keys() - fitting.keys():
            self._of[key].pop(name, None)
        for key in fitting.keys() - before_here.keys():
            self._of[key][name] = None
        self._set(name, [self._known[key] for key in fitting])
        return True

    def _reads_difference(self, old: Node, new: Node) -> bool:
        if old.spec.taints != new.spec.taints:
            return True
        before, after = old.metadata.labels, new.metadata.labels
        if before == after:
            return False
        return any(before.get(label) != after.get(label) for label in self._labels_read)

    def _learn(self, claim: Claim) -> Iterable[str]:
        key = claim.identity
        self._known[key] = claim
        self._by_daemonset.add(claim.key, key)
        for label in claim.selector.labels:
            self._labels_read[label] = self._labels_read.get(label, 0) + 1
        for label, value in _find_anchors(claim):
            self._claims_by_label.setdefault(label, Groups()).add(value, key)
        if any(term.anchor is None for term in claim.selector.terms):
            self._claims_anywhere[key] = None
        found = {node.metadata.name: None for node in self._find_nodes(claim) if claim.could_run_on(node)}
        self._of[key] = found
        return found

    def _forget(self, claim: Claim) -> Iterable[str]:
        key = claim.identity
        self._known.pop(key, None)
        self._by_daemonset.remove(claim.key, key)
        self._claims_anywhere.pop(key, None)
        for label in claim.selector.labels:
            self._labels_read[label] -= 1
            if not self._labels_read[label]:
                del self._labels_read[label]
                self._nodes_by_label.pop(label, None)  # which is kept true only while somebody reads it
        for label, value in _find_anchors(claim):
            self._claims_by_label[label].remove(value, key)
        return self._of.pop(key, {})

    def _settle(self, name: str) -> None:
        """Find out again who could run on a node, after a claim came or went."""
        node = self._nodes.get("", name)
        if node is not None:
            self._set(name, [claim for claim in self._find_claims(node) if name in self._of[claim.identity]])

    def _set(self, name: str, claims: list[Claim]) -> None:
        if not claims:
            self._on.pop(name, None)
            return
        ranked = tuple(sorted(claims, key=lambda claim: claim.rank))
        if len(self._same) > 4096:
            self._same.clear()
        self._on[name] = self._same.setdefault(ranked, ranked)

    def _find_claims(self, node: Node) -> Iterator[Claim]:
        """The claims that may select a node: each once, and surely all of those that do."""
        found = dict(self._claims_anywhere)
        for label, by_value in self._claims_by_label.items():
            value = _read(node, label)
            if value is not None:
                found.update(dict.fromkeys(by_value.find(value)))
        return (self._known[key] for key in found)

    def _find_nodes(self, claim: Claim) -> Iterator[Node]:
        """The nodes that a claim may select; one may come twice."""
        for term in claim.selector.terms:
            if term.anchor is None:
                yield from self._nodes
                return
            by_value = self._group(_label_of(term))
            names = (name for value in term.anchor.values for name in by_value.find(value))
            yield from (node for name in names if (node := self._nodes.get("", name)))

    def _group(self, label: str) -> Groups[str, str]:
        """The nodes by the values of a label: few of a cluster's many labels are ever asked for."""
        if label not in self._nodes_by_label:
            by_value: Groups[str, str] = Groups()
            for node in self._nodes:
                value = _read(node, label)
                if value is not None:
                    by_value.add(value, node.metadata.name)
            self._nodes_by_label[label] = by_value
        return self._nodes_by_label[label]


def _find_anchors(claim: Claim) -> Iterator[tuple[str, str]]:
    for term in claim.selector.terms:
        if term.anchor is not None:
            yield from ((_label_of(term), value) for value in term.anchor.values)


def _label_of(term: Term) -> str:
    anchor = term.anchor
    return NODE_NAME if anchor is None or anchor.is_field else anchor.key


def _read(node: Node | None, label: str) -> str | None:
    if node is None:
        return None
    return node.metadata.name if label == NODE_NAME else node.metadata.labels.get(label)
