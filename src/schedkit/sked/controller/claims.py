"""Claims: what each resource wants of which nodes, and who gets a node that two of them want."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from schedkit.sked.api.overlaps import SelectorIndex
from schedkit.sked.api.selectors import Selector
from schedkit.sked.api.workloads import ResolvedWorkload, resolve_workloads
from schedkit.sked.controller.objects import SchedExt
from schedkit.sked.kube.objects import Key


@dataclass(frozen=True, eq=False)
class Claim:
    """One DaemonSet that a resource wants: its own, or one of a pool's."""

    resource: SchedExt
    workload: ResolvedWorkload
    place: int  # among the resource's pools
    selector: Selector

    @property
    def owner(self) -> Key:
        return self.resource.metadata.key

    @property
    def name(self) -> str:
        """The name of the DaemonSet."""
        return self.workload.daemon_set

    @cached_property
    def rank(self) -> tuple[int, str, Key, int]:
        """Lower goes first: higher priority, then older, then by name; of one resource's pools the earlier."""
        metadata = self.resource.metadata
        return (-self.resource.spec.priority, metadata.creation_timestamp or "", metadata.key, self.place)


def make_claims(resource: SchedExt) -> tuple[Claim, ...]:
    """What a resource wants: nothing while it is suspended or going."""
    if resource.spec.suspend or resource.metadata.deletion_timestamp:
        return ()
    claims = []
    for place, workload in enumerate(resolve_workloads(resource)):
        claims.append(Claim(resource, workload, place, workload.parse_selector()))
    return tuple(claims)


class Board:
    """All claims there are, and quick answers to who meets whom; it costs what changed, not what there is."""

    def __init__(self) -> None:
        self._claims: dict[Key, tuple[Claim, ...]] = {}
        self._index: SelectorIndex[tuple[Key, int]] = SelectorIndex()

    def put(self, key: Key, claims: tuple[Claim, ...]) -> set[Key]:
        """Take a resource's new claims for its old ones; the answer is whom that concerns besides it."""
        before = self._claims.get(key, ())
        concerned = self._find_concerned(before)
        for claim in before:
            self._index.remove((key, claim.place))
        if claims:
            self._claims[key] = claims
        else:
            self._claims.pop(key, None)
        for claim in claims:
            self._index.put((key, claim.place), claim.selector)
        return (concerned | self._find_concerned(claims)) - {key}

    def claims(self, key: Key) -> tuple[Claim, ...]:
        """What a resource claims."""
        return self._claims.get(key, ())

    def rivals(self, claim: Claim) -> list[Claim]:
        """The claims that some node could satisfy together with this one, the strongest first."""
        met = (self._claims[key][place] for key, place in self._index.find_intersecting(claim.selector))
        return sorted((other for other in met if other is not claim), key=lambda other: other.rank)

    def _find_concerned(self, claims: Iterable[Claim]) -> set[Key]:
        return {key for claim in claims for key, _ in self._index.find_intersecting(claim.selector)}
