"""The rollout as a value: steps, pauses, failures and the way back, over a cluster of a few lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedkit.sked.api.rollout_types import COMPLETE, PAUSED, PROGRESSING, ROLLED_BACK, ROLLING_BACK, Rollout
from schedkit.sked.controller.progress import Cause, Progress, Requests
from schedkit.sked.controller.rollout import Course, advance
from schedkit.sked.controller.rollout_nodes import Place, PlaceState, resolve

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TIMEOUT = timedelta(seconds=20)
V1, V2, V3 = "web-1", "web-2", "web-3"
QUICK: dict[str, Any] = {"minAttachedSeconds": 5}


def ask(**fields: Any) -> Rollout:
    return msgspec.convert({**QUICK, **fields}, Rollout)


@dataclass
class SimulatedNode:
    """A node: what its label says, and what became of it."""

    label: str = ""
    leaving: int = 0  # seconds until the old scheduler is gone
    given: datetime | None = None
    attached: datetime | None = None
    well: bool = True  # Ready and not cordoned
    coming: str = ""  # whose pod is to wait here
    coming_at: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class Simulation:
    """Nodes, an operator that may be killed between any two of its looks, and what is remembered outside of it."""

    asked: Rollout
    target: str
    nodes: dict[str, SimulatedNode]
    progress: Progress = field(default_factory=lambda: Progress(current=V1, update=V1))
    bad: frozenset[str] = frozenset()  # revisions that never attach
    requests: Requests = field(default_factory=Requests)
    now: datetime = NOW
    course: Course | None = None
    attach_seconds: int = 2
    waits: bool = False  # whether pods wait on nodes before the slot is theirs

    def look(self) -> Course:
        places = [self._see(name, node) for name, node in self.nodes.items()]
        course = advance(self.asked, self.progress, self.target, places, self.requests, self.now)
        if course.progress != self.progress:
            assert not course.revisions, "moved before it was noted down"
            assert course.coming == {name: node.coming for name, node in self.nodes.items() if node.coming}
            self.progress = course.progress
            self.requests = replace(self.requests, promote=False, retry=False)
        elif self.waits:
            self._check_waiting(course, places)
        self._check_pace(course, places)
        for name, revision in course.revisions.items():
            self._give(self.nodes[name], revision)
        for name, node in self.nodes.items():
            coming = course.coming.get(name, "")
            if coming != node.coming:
                node.coming, node.coming_at = coming, self.now
        self.course = course
        return course

    def _give(self, node: SimulatedNode, revision: str) -> None:
        if node.label == revision:
            return
        if node.label and self._find_waiting(node) == revision:
            node.label, node.attached, node.given = revision, None, self.now
        elif node.label:
            node.label, node.leaving, node.attached, node.given = "", 1, None, None
        elif not node.leaving:
            node.label, node.given = revision, self.now

    def _find_waiting(self, node: SimulatedNode) -> str:
        is_there = node.coming_at is not None and self.now - node.coming_at >= timedelta(seconds=2)
        return node.coming if is_there else ""

    def _check_waiting(self, course: Course, places: Sequence[Place]) -> None:
        """Nobody is taken off from work before somebody waits, and no more wait than are soon to come."""
        known = {place.name: place for place in places}
        for name, new in course.revisions.items():
            place = known[name]
            if place.state is PlaceState.WORKING and not place.skipped and place.revision not in ("", new):
                assert place.waiting == new
        most = resolve(self.asked.max_unavailable, sum(not place.skipped for place in places))
        assert len(course.coming) <= 2 * most
        assert all(known[name].revision != revision for name, revision in course.coming.items())
        assert not course.coming.keys() & {
            name for name, new in course.revisions.items() if known[name].revision != new
        }

    def _check_pace(self, course: Course, places: Sequence[Place]) -> None:
        """No more without a scheduler than may be, but for those that have none for another reason."""
        known = {place.name: place for place in places if not place.skipped}
        most = resolve(self.asked.max_unavailable, len(known))
        taken = [
            name for name, new in course.revisions.items() if name in known and known[name].revision not in ("", new)
        ]
        off_from_work = [name for name in taken if known[name].state is PlaceState.WORKING]
        down = sum(place.state is not PlaceState.WORKING for place in known.values())
        assert not off_from_work or down + len(off_from_work) <= most
        assert not {name for name in taken if name not in known}

    def _see(self, name: str, node: SimulatedNode) -> Place:
        failed_at = None
        state = PlaceState.WORKING if node.attached else PlaceState.STARTING
        if node.given and not node.attached and node.label:
            failed_at = node.given + TIMEOUT
            state = PlaceState.FAILED if failed_at <= self.now else state
        return Place(
            name,
            node.label,
            state,
            skipped=not node.well,
            ready=bool(node.attached),
            attached_at=node.attached,
            given_at=node.given,
            failed_at=failed_at,
            reason="NotAttachedInTime",
            message="nothing attached",
            labels=node.labels,
            coming=node.coming,
            waiting=self._find_waiting(node),
            waits_for=frozenset([V1, V2, V3] if self.waits and node.attached else []),
        )

    def pass_time(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.now += timedelta(seconds=1)
            for node in self.nodes.values():
                node.leaving = max(0, node.leaving - 1)
                started = node.given and self.now - node.given >= timedelta(seconds=self.attach_seconds)
                if started and node.label and node.label not in self.bad and not node.attached:
                    node.attached = self.now
            self.look()

    def run(self, until: str, seconds: int = 2000) -> Course:
        for _ in range(seconds):
            self.pass_time()
            if self.progress.phase == until and self.course and self.course.progress == self.progress:
                return self.course
        pytest.fail(f"never {until}: {self.progress}, {self.course}")

    def happen(self, event: str, number: int) -> None:
        """Have something happen that nobody planned."""
        name = f"n{number}"
        node = self.nodes.get(name)
        match event:
            case "spec":
                self.target = (V1, V2, V3)[number % 3]
            case "bad":
                self.bad = frozenset([V2] if number % 2 else [])
            case "join" | "leave":
                self.nodes.pop(name, None)
                self.nodes |= {name: SimulatedNode()} if event == "join" else {}
            case "ill" | "well":
                if node:
                    node.well = event == "well"
            case "crash":
                if node and node.label:
                    node.attached, node.given = None, self.now
            case "pause" | "resume":
                self.requests = replace(self.requests, paused=event == "pause")
            case _:
                self.requests = replace(self.requests, **{event: True})

    def having(self, revision: str) -> list[str]:
        return sorted(name for name, node in self.nodes.items() if node.label == revision)


def simulate(count: int = 5, *, target: str = V2, bad: str = "", **asked: Any) -> Simulation:
    nodes = {f"n{index}": SimulatedNode(V1, given=NOW, attached=NOW) for index in range(count)}
    return Simulation(ask(**asked), target, nodes, bad=frozenset({bad} - {""}))


def test_all_nodes_follow_one_after_the_other() -> None:
    simulation = simulate()
    most = 0
    while simulation.progress.phase != COMPLETE or simulation.progress.current != V2:
        simulation.pass_time()
        most = max(most, sum(node.attached is None for node in simulation.nodes.values()))
    assert simulation.having(V2) == ["n0", "n1", "n2", "n3", "n4"]
    assert most == 1
    assert simulation.progress.failed is None


def test_canary_goes_to_the_nodes_that_its_step_selects_and_waits_to_be_promoted() -> None:
    steps = [{"nodes": 1, "nodeSelector": {"canary": "true"}}, {"pause": {}}, {"nodes": "40%"}]
    simulation = simulate(steps=steps)
    simulation.nodes["n3"].labels = {"canary": "true"}
    course = simulation.run(PAUSED)
    assert simulation.having(V2) == ["n3"]
    assert course.message == "step 2 of 3: waits to be promoted"
    simulation.pass_time(100)
    assert simulation.having(V2) == ["n3"]
    simulation.requests = Requests(promote=True)
    simulation.pass_time(3)
    assert simulation.progress.step == 2
    simulation.run(COMPLETE)
    assert len(simulation.having(V2)) == 5
    assert simulation.progress.current == V2


def test_steps_that_are_taken_away_meanwhile_do_not_send_it_to_all_nodes() -> None:
    simulation = simulate(steps=[{"nodes": 1}, {"nodes": 2}, {"pause": {}}])
    simulation.run(PAUSED)
    simulation.asked = ask(steps=[{"pause": {}}])
    simulation.pass_time(100)
    assert simulation.progress.phase == PAUSED
    assert len(simulation.having(V2)) == 2
    simulation.requests = Requests(promote=True)
    simulation.run(COMPLETE)


def test_step_whose_labels_no_node_has_waits_and_says_so() -> None:
    simulation = simulate(steps=[{"nodes": 1, "nodeSelector": {"canary": "true"}}])
    simulation.pass_time(50)
    assert simulation.progress.phase == PROGRESSING
    assert not simulation.having(V2)
    assert simulation.course
    assert "no node has the labels" in simulation.course.message


def test_pause_passes_with_time() -> None:
    simulation = simulate(steps=[{"nodes": 2}, {"pause": {"duration": "1m30s"}}])
    simulation.run(PAUSED)
    began = simulation.now
    assert simulation.having(V2) == ["n0", "n1"]
    simulation.run(PROGRESSING)
    assert timedelta(seconds=89) <= simulation.now - began <= timedelta(seconds=92)
    simulation.run(COMPLETE)


def test_failure_of_the_canary_brings_the_stable_revision_back_and_touches_nobody_else() -> None:
    simulation = simulate(steps=[{"nodes": 1}], bad=V2)
    untouched = {name: node.given for name, node in simulation.nodes.items() if name != "n0"}
    course = simulation.run(ROLLED_BACK)
    assert simulation.having(V1) == ["n0", "n1", "n2", "n3", "n4"]
    assert {name: node.given for name, node in simulation.nodes.items() if name != "n0"} == untouched
    assert course.message == "web-2 failed on n0: nothing attached"
    assert simulation.progress.current == V1
    assert simulation.progress.failed
    simulation.pass_time(300)
    assert simulation.progress.phase == ROLLED_BACK
    assert not simulation.having(V2)


@pytest.mark.parametrize(
    ("seconds", "phase"), [(1, ROLLING_BACK), (TIMEOUT.seconds - 1, ROLLING_BACK), (TIMEOUT.seconds, ROLLED_BACK)]
)
@pytest.mark.parametrize(
    ("state", "skipped"), [(PlaceState.FAILED, False), (PlaceState.UNKNOWN, False), (PlaceState.FAILED, True)]
)
def test_node_that_was_brought_back_is_waited_for_until_its_kernel_has_it_or_its_time_is_over(
    state: PlaceState, skipped: bool, seconds: int, phase: str
) -> None:
    asked = ask(steps=[{"nodes": 1}], attachTimeoutSeconds=TIMEOUT.seconds)
    progress = Progress(V1, V2, ROLLING_BACK, 0, NOW, Cause(V2, "n0", "Ejected", "it left the kernel", NOW))
    back = Place("n0", V1, state, skipped=skipped, ready=True, given_at=NOW)
    rest = Place("n1", V1, PlaceState.WORKING, attached_at=NOW, given_at=NOW)
    course = advance(asked, progress, V2, [back, rest], Requests(), NOW + timedelta(seconds=seconds))
    assert course.progress.phase == phase
    if phase == ROLLING_BACK:
        assert course.again == NOW + TIMEOUT
        assert course.message.startswith("1 node left to bring back")
        well = back._replace(state=PlaceState.WORKING, attached_at=NOW)
        assert advance(asked, progress, V2, [well, rest], Requests(), NOW).progress.phase == ROLLED_BACK


def test_rollback_begins_with_the_node_that_was_updated_last() -> None:
    """Whatever the order of their names."""
    failed = Progress(V1, V2, ROLLING_BACK, failed=Cause(V2, "n0", "Ejected", "stall", NOW), since=NOW)
    given = {"n1": 10, "n2": 30, "n3": 20}
    places = [
        Place(name, V2, PlaceState.WORKING, ready=True, attached_at=NOW, given_at=NOW + timedelta(seconds=seconds))
        for name, seconds in given.items()
    ]
    order = []
    while places:
        course = advance(ask(), failed, V2, places, Requests(), NOW + timedelta(seconds=60))
        (moved,) = (name for name, revision in course.revisions.items() if revision == V1)
        order.append(moved)
        places = [place for place in places if place.name != moved]
    assert order == ["n2", "n3", "n1"]


def fail_with(message: str, *, held: bool = False) -> list[Place]:
    state = PlaceState.STARTING if held else PlaceState.FAILED
    failing = Place("n0", V2, state, held=held, given_at=NOW, reason="Ejected", message=message)
    return [failing, Place("n1", V1, PlaceState.WORKING, ready=True, attached_at=NOW, given_at=NOW)]


def test_node_whose_log_is_being_read_is_left_as_it_is() -> None:
    rolling = Progress(V1, V2, ROLLING_BACK, failed=Cause(V2, "n9", "Ejected", "stall", NOW), since=NOW)
    course = advance(ask(), rolling, V2, fail_with("it left", held=True), Requests(), NOW)
    assert course.revisions == {"n0": V2, "n1": V1}
    course = advance(ask(), rolling, V2, fail_with("it left: stall"), Requests(), NOW)
    assert course.revisions == {"n0": V1, "n1": V1}


@pytest.mark.parametrize("paused", [False, True])
def test_node_whose_quarantine_ends_on_the_way_back_or_with_another_try_gets_the_stable_revision(paused: bool) -> None:
    (failing, other) = fail_with("it left")
    places = [failing._replace(skipped=True, quarantined=True), other]
    failed = Progress(V1, V2, ROLLING_BACK, failed=Cause(V2, "n0", "Ejected", "it left", NOW), since=NOW)
    for before in (failed, replace(failed, failed=None)):
        course = advance(ask(), before, V2, places, Requests(paused=paused), NOW)
        assert course.progress == before, "it is waited for"
        assert course.revisions == {"n0": V1, "n1": V1}
    stays = replace(failed, phase=PAUSED)
    course = advance(ask(failure={"action": "Pause"}), stays, V2, places, Requests(paused=paused), NOW)
    assert course.revisions["n0"] == V2, "whoever lifts it gives it back what it had"


def test_cause_of_a_failure_gets_longer_and_never_shorter() -> None:
    before = Progress(V1, V2, ROLLING_BACK, failed=Cause(V2, "n0", "Ejected", "it left", NOW), since=NOW)
    course = advance(ask(), before, V2, fail_with("it left: stall"), Requests(), NOW)
    assert course.progress.failed == Cause(V2, "n0", "Ejected", "it left: stall", NOW)
    assert not course.revisions, "it is noted down before anything is done"
    for message in ("it left", "", "something else"):
        assert advance(ask(), course.progress, V2, fail_with(message), Requests(), NOW).progress == course.progress


def test_rollback_waits_neither_for_what_nobody_will_ever_tell_nor_by_a_wrong_clock() -> None:
    def go_back(*places: Place) -> str:
        progress = Progress(V1, V2, ROLLING_BACK, 0, NOW, Cause(V2, "n0", "Ejected", "it left the kernel", NOW))
        return advance(ask(), progress, V2, places, Requests(), NOW + timedelta(seconds=1)).progress.phase

    unknown = Place("n0", V1, PlaceState.UNKNOWN, ready=True, given_at=NOW)
    assert go_back(unknown) == ROLLED_BACK, "no agent runs anywhere"
    assert go_back(unknown, Place("n1", V1, PlaceState.WORKING, attached_at=NOW)) == ROLLING_BACK
    assert go_back(unknown._replace(ready=False)) == ROLLING_BACK
    assert go_back(Place("n0", V1, PlaceState.FAILED, given_at=NOW + timedelta(days=1))) == ROLLED_BACK


def test_pods_that_wait_and_images_that_are_there_are_not_taken_back_for_others() -> None:
    """Images arrive in any order: a node before others by its name must not have their labels taken off again."""

    def assign(pulled: Sequence[int], coming: Sequence[int]) -> tuple[list[str], list[str]]:
        places = [
            Place(
                f"n{number}",
                V1,
                PlaceState.WORKING,
                attached_at=NOW,
                pulled=number in pulled,
                coming=V2 if number in coming else "",
                waits_for=frozenset([V2]),
            )
            for number in range(8)
        ]
        course = advance(ask(), Progress(V1, V2, PROGRESSING, 0, NOW), V2, places, Requests(), NOW)
        return sorted(course.coming), list(course.pulls)

    assert assign([], []) == ([], ["n0", "n1"])
    assert assign([5, 6], []) == (["n5", "n6"], ["n0", "n1"])
    assert assign([0, 5, 6], [5, 6]) == (["n5", "n6"], ["n1"])
    assert assign([0, 1, 5, 6], [5, 6]) == (["n5", "n6"], []), "no more ahead than are soon to come"
    assert assign([0, 1, 6], [6]) == (["n0", "n6"], ["n2"])


def test_with_pause_it_stops_where_it_failed_and_another_try_begins_with_a_new_start() -> None:
    simulation = simulate(steps=[{"nodes": 1}], bad=V2, failure={"action": "Pause"})
    simulation.run(PAUSED)
    assert simulation.having(V2) == ["n0"]
    simulation.pass_time(100)
    assert simulation.having(V2) == ["n0"]
    before = simulation.nodes["n0"].given
    simulation.bad, simulation.requests = frozenset(), Requests(retry=True)
    simulation.run(COMPLETE)
    assert len(simulation.having(V2)) == 5
    assert simulation.nodes["n0"].given != before


def test_some_failures_may_be_allowed() -> None:
    simulation = simulate(6, maxUnavailable=3, failure={"maxNodes": 1}, minAttachedSeconds=1)
    simulation.pass_time(3)
    simulation.nodes["n0"].attached = None
    simulation.bad = frozenset()
    simulation.run(COMPLETE)
    assert len(simulation.having(V2)) == 6


def test_failures_that_leave_nothing_to_go_on_with_are_too_many() -> None:
    simulation = simulate(steps=[{"nodes": 1}], bad=V2, failure={"maxNodes": 3})
    simulation.run(ROLLED_BACK)
    assert not simulation.having(V2)


def test_first_rollout_has_nothing_to_go_back_to_and_takes_it_off() -> None:
    simulation = simulate(3, bad=V2, steps=[{"nodes": 1}])
    simulation.progress = Progress()
    for node in simulation.nodes.values():
        node.label, node.attached, node.given = "", None, None
    simulation.run(ROLLED_BACK)
    assert simulation.having("") == ["n0", "n1", "n2"]


def test_without_a_stable_revision_only_what_failed_is_taken_off() -> None:
    simulation = simulate(3, steps=[{"nodes": 1}, {"pause": {}}], bad=V3)
    simulation.progress = Progress()
    for node in simulation.nodes.values():
        node.label, node.attached, node.given = "", None, None
    simulation.run(PAUSED)
    assert simulation.having(V2) == ["n0"]
    given = simulation.nodes["n0"].given
    simulation.target, simulation.asked = V3, ask(steps=[{"nodes": 1}])
    simulation.run(ROLLED_BACK)
    assert simulation.having(V3) == []
    assert simulation.nodes["n0"].given == given


@pytest.mark.parametrize(
    ("well", "allowed", "phase", "step"),
    [(3, 1, COMPLETE, 0), (1, 1, PROGRESSING, 1), (0, 1, ROLLING_BACK, 0), (3, 0, ROLLING_BACK, 0)],
)
def test_failures_that_are_allowed_are_not_waited_for(well: int, allowed: int, phase: str, step: int) -> None:
    failed = Place("n0", V2, PlaceState.FAILED, given_at=NOW)
    moved = [Place(f"n{index}", V2, PlaceState.WORKING, attached_at=NOW) for index in range(1, well + 1)]
    rest = [Place(f"n{index}", V1, PlaceState.WORKING, attached_at=NOW) for index in range(well + 1, 4)]
    asked = ask(steps=[{"nodes": well + 1}], maxUnavailable=2, failure={"maxNodes": allowed})
    progress = Progress(V1, V2, PROGRESSING, 1 if well == 3 else 0, NOW)
    course = advance(asked, progress, V2, [failed, *moved, *rest], Requests(), NOW + timedelta(minutes=1))
    assert course.progress.phase == phase
    assert course.progress.step == (step if phase != ROLLING_BACK else progress.step)


def test_what_all_nodes_have_already_is_the_stable_revision() -> None:
    simulation = simulate(3, target=V1)
    simulation.progress = Progress()
    simulation.pass_time(3)
    assert simulation.progress.current == V1
    assert simulation.progress.phase == COMPLETE


def test_third_revision_takes_the_place_of_the_second() -> None:
    simulation = simulate(steps=[{"nodes": 2}, {"pause": {}}])
    simulation.run(PAUSED)
    simulation.target = V3
    simulation.pass_time(2)
    assert simulation.progress.step == 0
    course = simulation.run(PAUSED)
    assert simulation.having(V3) == ["n0", "n1"]
    assert not simulation.having(V2)
    assert course.progress.current == V1


def test_spec_that_is_taken_back_gives_the_stable_revision_back() -> None:
    simulation = simulate(steps=[{"nodes": 2}, {"pause": {}}])
    simulation.run(PAUSED)
    simulation.target = V1
    simulation.run(COMPLETE)
    assert len(simulation.having(V1)) == 5
    assert simulation.progress.current == V1


def test_revision_that_a_person_chose_goes_without_steps() -> None:
    simulation = simulate(steps=[{"nodes": 1}, {"pause": {}}])
    simulation.requests = Requests(at_once=True)
    simulation.run(COMPLETE)
    assert len(simulation.having(V2)) == 5


def test_paused_moves_nothing_until_it_is_resumed() -> None:
    simulation = simulate()
    simulation.pass_time(10)
    simulation.requests = Requests(paused=True)
    simulation.pass_time(5)
    held = simulation.having(V2)
    assert held
    assert simulation.progress.phase == PAUSED
    simulation.pass_time(100)
    assert simulation.having(V2) == held
    simulation.requests = Requests()
    simulation.run(COMPLETE)
    assert len(simulation.having(V2)) == 5


def test_nodes_that_are_not_well_are_left_out_and_follow_when_they_are() -> None:
    simulation = simulate()
    simulation.nodes["n2"].well = False
    course = simulation.run(COMPLETE)
    assert simulation.having(V1) == ["n2"]
    assert course.skipped == 1
    simulation.nodes["n2"].well = True
    simulation.pass_time(30)
    assert len(simulation.having(V2)) == 5


def test_pod_that_does_not_come_in_time_is_not_taken_back_while_its_node_has_to_wait_for_its_turn() -> None:
    given = Place("n0", V2, PlaceState.STARTING, given_at=NOW)
    late = Place("n1", V1, PlaceState.WORKING, attached_at=NOW, coming=V2, waits_for=frozenset([V1]))
    progress = Progress(current=V1, update=V2, phase=PROGRESSING, since=NOW)
    course = advance(ask(maxUnavailable=1), progress, V2, [given, late], Requests(), NOW)
    assert (course.coming, course.revisions) == ({"n1": V2}, {"n0": V2, "n1": V1})
    working = given._replace(state=PlaceState.WORKING, attached_at=NOW - timedelta(minutes=1))
    course = advance(ask(maxUnavailable=1), progress, V2, [working, late], Requests(), NOW)
    assert (course.coming, course.revisions) == ({}, {"n0": V2, "n1": V2})


@pytest.mark.parametrize(("seconds", "moved"), [(None, 1), (1, 0), (120, 0), (0, 1), (-9, 1)])
def test_node_that_has_yet_to_hand_over_counts_and_one_that_somebody_keeps_does_not(
    seconds: int | None, moved: int
) -> None:
    """Reports may be late: what is told to be somebody else's may be what is about to leave."""
    until = None if seconds is None else NOW + timedelta(seconds=seconds)
    foreign = Place("n0", V2, PlaceState.STARTING, skipped=True, leaving_until=until, given_at=NOW)
    others = [Place(f"n{number}", V1, PlaceState.WORKING, attached_at=NOW) for number in (1, 2)]
    progress = Progress(current=V1, update=V2, phase=PROGRESSING, since=NOW)
    course = advance(ask(maxUnavailable=1), progress, V2, [foreign, *others], Requests(), NOW)
    assert list(course.revisions.values()).count(V2) - 1 == moved
    assert moved or course.again == until, "it is looked at again when that is over"


def test_node_that_joins_gets_the_stable_revision_until_the_rollout_reaches_it() -> None:
    simulation = simulate(steps=[{"nodes": 1}, {"pause": {}}])
    simulation.run(PAUSED)
    simulation.nodes["n9"] = SimulatedNode()
    simulation.pass_time(5)
    assert simulation.nodes["n9"].label == V1
    simulation.requests = Requests(promote=True)
    simulation.run(COMPLETE)
    assert simulation.nodes["n9"].label == V2


def test_unknown_nodes_neither_pass_nor_fail() -> None:
    place = Place("n0", V2, PlaceState.UNKNOWN, ready=True, given_at=NOW, message="no agent is ready on it")
    rest = [Place(f"n{index}", V1, PlaceState.UNKNOWN, ready=True) for index in (1, 2)]
    progress = Progress(V1, V2, PROGRESSING, 0, NOW)
    later = NOW + timedelta(hours=1)
    course = advance(ask(), progress, V2, [place, *rest], Requests(), later)
    assert course.progress == progress
    assert course.message.endswith("unknown of n0: no agent is ready on it")
    assert course.revisions == {"n0": V2, "n1": V1, "n2": V1}


EVENTS = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(
            ["spec", "bad", "join", "leave", "ill", "well", "pause", "resume", "promote", "retry", "crash"]
        ),
        st.integers(0, 7),
    ),
    max_size=25,
)
STEPS = st.lists(
    st.sampled_from([{"nodes": 1}, {"nodes": "30%"}, {"nodes": 3}, {"pause": {}}, {"pause": {"duration": "7s"}}]),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(
    EVENTS,
    STEPS,
    st.sampled_from([1, 2, "25%", "100%"]),
    st.sampled_from(["Rollback", "Pause"]),
    st.integers(0, 2),
    st.booleans(),
)
def test_whatever_happens_the_pace_is_kept_and_it_ends(
    events: list[tuple[int, str, int]], steps: list[dict[str, Any]], pace: Any, action: str, allowed: int, waits: bool
) -> None:
    simulation = simulate(6, steps=steps, maxUnavailable=pace, failure={"action": action, "maxNodes": allowed})
    simulation.waits = waits
    for seconds, event, number in events:
        simulation.pass_time(seconds)
        simulation.happen(event, number)
    # Everything is well again and nobody holds it up: it comes to an end, and every node has one revision.
    simulation.bad = frozenset()
    for node in simulation.nodes.values():
        node.well = True
    for _ in range(120):
        simulation.requests = Requests(promote=True, retry=True)
        simulation.pass_time(10)
        if simulation.progress.phase == COMPLETE and len(simulation.having(simulation.target)) == len(simulation.nodes):
            break
    assert simulation.progress.phase == COMPLETE, simulation.course
    assert simulation.progress.current == simulation.target
    assert set(simulation.having(simulation.target)) == set(simulation.nodes)
