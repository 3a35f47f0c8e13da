"""Claims: what each resource wants of which nodes, and who gets a node that two of them want."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from schedkit.sked.api.label_values import LABEL_LENGTH
from schedkit.sked.api.overlaps import SelectorIndex
from schedkit.sked.api.patterns import LABEL_KEY, LABEL_VALUE, matches
from schedkit.sked.api.selectors import InvalidSelectorError, Selector
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
    """What a resource wants: nothing while it is suspended or going; raises InvalidSelectorError."""
    if resource.spec.suspend or resource.metadata.deletion_timestamp:
        return ()
    claims = []
    for place, workload in enumerate(resolve_workloads(resource)):
        selector = workload.parse_selector()
        _check_labels(selector)
        claims.append(Claim(resource, workload, place, selector))
    return tuple(claims)


def _check_labels(selector: Selector) -> None:
    """Refuse what no label can be: weaker claims exclude it in their own DaemonSets, which would then be refused."""
    for term in selector.terms:
        for key, values in term.requirements:
            if not key.is_field and not matches(LABEL_KEY, key.name):
                raise InvalidSelectorError(f'no label can be called "{key.name}"')
            for value in sorted((values.only or frozenset()) | values.never):
                if not key.is_field and (len(value) > LABEL_LENGTH or not matches(LABEL_VALUE, value)):
                    raise InvalidSelectorError(f'no label can be "{value}"')


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
        met = self._index.find_intersecting(claim.selector)
        # Not itself, nor what became of it while somebody still worked on what it was.
        others = (self._claims[key][place] for key, place in met if (key, place) != (claim.owner, claim.place))
        return sorted(others, key=lambda other: other.rank)

    def _find_concerned(self, claims: Iterable[Claim]) -> set[Key]:
        return {key for claim in claims for key, _ in self._index.find_intersecting(claim.selector)}
