"""What runs while images are verified: the verified digest, or what ran before; the verifier itself is a stub here."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from schedkit.images.reference import parse_reference
from schedkit.sked.api.types import SchedExt, UpdateStrategy
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.daemonsets import make_daemonset
from schedkit.sked.controller.verification import (
    Acceptance,
    Failure,
    ImageJudgement,
    Mode,
    describe,
    find_loophole,
    fit,
    is_held,
    recall_digest,
    runs,
)
from schedkit.sked.kube.objects import Key
from tests.unit.sked_controller.making import as_returned, make_claim, make_pod, make_resource
from tests.unit.sked_controller.world import World

REPOSITORY = "example.com/scx_rusty"
FIRST, SECOND = (f"sha256:{letter * 64}" for letter in "12")
ACCEPTED = Acceptance("key SHA256:abc (cosign.pub)", "default", "sha256:policy", "2026-01-01T00:00:00Z")
UNSIGNED = Failure("Unsigned", "example.com/scx_rusty:1 is not signed", refused=True)
OUTAGE = Failure("Unavailable", "example.com cannot be reached", refused=False)


class Verifier:
    """Says what it is told, by the reference."""

    def __init__(self, mode: Mode = Mode.ENFORCE) -> None:
        self.mode = mode
        self.answers: dict[str, Acceptance | Failure | None] = {}
        self.digests: dict[str, str] = {}

    def accept(self, reference: str = f"{REPOSITORY}:1", digest: str = FIRST) -> None:
        self.answers[reference], self.digests[reference] = ACCEPTED, digest

    def fail(self, failure: Failure | None, reference: str = f"{REPOSITORY}:1") -> None:
        self.answers[reference] = failure

    def keep(self, resource: Key, pools: Collection[str]) -> None:
        """There is nothing to forget."""

    def look(self, claim: Claim, resource: SchedExt) -> ImageJudgement:
        text = claim.workload.sched
        answer, digest = self.answers.get(text), self.digests.get(text)
        resolved = f"{parse_reference(text).repository}@{digest}" if digest else ""
        if isinstance(answer, Acceptance):
            return ImageJudgement(self.mode, text, resolved, answer)
        return ImageJudgement(self.mode, text, resolved, None, answer)


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
def world(verifier: Verifier) -> World:
    world = World(verifier=verifier)
    world.add_node("node-1")
    return world


def container_of(world: World, name: str = "one") -> dict[str, Any]:
    (container,) = world.get("daemonsets", name)["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def test_verified_image_is_pinned_and_told(world: World, verifier: Verifier) -> None:
    verifier.accept()
    world.apply_resource()
    world.run()
    assert container_of(world)["image"] == f"{REPOSITORY}@{FIRST}"
    world.roll_out("one", desired=1, ready=1)
    world.run()
    assert world.condition("one", "Verified") == ("True", "Verified")
    assert world.condition("one", "Ready") == ("True", "Ready")
    (pool,) = world.get("schedexts", "one")["status"]["pools"]
    assert (pool["image"], pool["resolvedImage"]) == (f"{REPOSITORY}@{FIRST}", f"{REPOSITORY}@{FIRST}")
    assert pool["verified"] == {
        "signer": ACCEPTED.signer,
        "policy": ACCEPTED.policy,
        "time": ACCEPTED.time,
        "digest": FIRST,
    }


@pytest.mark.parametrize(
    ("failure", "verified", "ready"),
    [
        (UNSIGNED, ("False", "Unsigned"), ("False", "Unsigned")),
        (OUTAGE, ("Unknown", "Unavailable"), ("False", "Progressing")),
        (None, ("Unknown", "Verifying"), ("False", "Progressing")),
    ],
    ids=["refused", "outage", "pending"],
)
def test_image_that_is_not_verified_is_not_started(
    world: World,
    verifier: Verifier,
    failure: Failure | None,
    verified: tuple[str, str],
    ready: tuple[str, str],
) -> None:
    verifier.fail(failure)
    world.apply_resource()
    world.run()
    assert world.names("daemonsets") == []
    assert world.condition("one", "Verified") == verified
    assert world.condition("one", "Ready") == ready
    assert (("one", "Warning", "Unsigned") in world.events) == (failure is UNSIGNED)
    verifier.accept()
    world._wake(msgspec.convert(world.get("schedexts", "one"), SchedExt).metadata.key)
    world.run()
    assert container_of(world)["image"] == f"{REPOSITORY}@{FIRST}"


@pytest.mark.parametrize("failure", [UNSIGNED, OUTAGE, None], ids=["refused", "outage", "pending"])
def test_the_last_verified_container_goes_on_as_it_is_wherever_it_is_now_wanted(
    world: World, verifier: Verifier, failure: Failure | None
) -> None:
    verifier.accept()
    world.apply_resource(args=["--old"])
    world.run()
    verifier.fail(failure, f"{REPOSITORY}:2")
    world.apply_resource(sched=f"{REPOSITORY}:2", args=["--new"], nodeSelector={"pool": "x"})
    world.run()
    container = container_of(world)
    assert (container["image"], container["args"]) == (f"{REPOSITORY}@{FIRST}", ["--old"])
    assert world.get("daemonsets", "one")["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "x"}
    assert world.condition("one", "Verified")[0] == ("False" if failure is UNSIGNED else "Unknown")
    verifier.accept(f"{REPOSITORY}:2", SECOND)
    world.apply_resource(sched=f"{REPOSITORY}:2", args=["--new"])
    world.run()
    container = container_of(world)
    assert (container["image"], container["args"]) == (f"{REPOSITORY}@{SECOND}", ["--new"])


def test_policy_that_no_longer_trusts_it_leaves_what_runs(world: World, verifier: Verifier) -> None:
    verifier.accept()
    world.apply_resource()
    world.run()
    world.roll_out("one", desired=1, ready=1)
    world.run()
    before = world.get("daemonsets", "one")["metadata"]["generation"]
    verifier.fail(UNSIGNED)
    world.change("schedexts", "one", metadata=world.get("schedexts", "one")["metadata"] | {"labels": {"a": "b"}})
    world.run()
    assert world.get("daemonsets", "one")["metadata"]["generation"] == before
    assert world.condition("one", "Verified") == ("False", "Unsigned")


def test_outage_while_the_policy_is_judged_again_leaves_a_resource_ready(world: World, verifier: Verifier) -> None:
    verifier.accept()
    world.apply_resource()
    world.run()
    world.roll_out("one", desired=1, ready=1)
    world.run()
    verifier.fail(OUTAGE)
    world.change("schedexts", "one", metadata=world.get("schedexts", "one")["metadata"] | {"labels": {"a": "b"}})
    world.run()
    assert world.condition("one", "Verified") == ("Unknown", "Unavailable")
    assert world.condition("one", "Ready") == ("True", "Ready")


def test_warn_tells_and_uses_it_as_written() -> None:
    verifier = Verifier(Mode.WARN)
    verifier.fail(UNSIGNED)
    world = World(verifier=verifier)
    world.apply_resource()
    world.run()
    assert container_of(world)["image"] == f"{REPOSITORY}:1"
    assert world.condition("one", "Verified") == ("False", "Unsigned")
    assert ("one", "Warning", "Unsigned") in world.events
    plain = World()
    plain.apply_resource()
    plain.run()
    made, without = (found.get("daemonsets", "one")["spec"] for found in (world, plain))
    assert made == without


def test_off_says_nothing_of_verification() -> None:
    world = World()
    world.apply_resource()
    world.run()
    assert "Verified" not in {found["type"] for found in world.get("schedexts", "one")["status"]["conditions"]}
    assert "resolvedImage" not in world.get("schedexts", "one")["status"]["pools"][0]


def test_unverified_resource_takes_no_node_from_another(world: World, verifier: Verifier) -> None:
    verifier.accept()
    world.apply_resource("one", priority=0)
    world.run()
    world.add_pod("one", "node-1", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    world.run()
    verifier.fail(UNSIGNED, "example.com/evil:1")
    world.now -= timedelta(days=1)  # older than the other, so that it would come first
    world.apply_resource("aaa", sched="example.com/evil:1")
    world.now += timedelta(days=1)
    writes = world.run()
    assert not [write for write in writes if write.startswith(("label", "delete"))]
    assert "sked.schedkit.io/slot" not in world.get("nodes", "node-1")["metadata"]["labels"]


# --- moving over ------------------------------------------------------------------------------------------------------


def move_over(verifier: Verifier, image_id: str, reference: str = f"{REPOSITORY}:1") -> tuple[World, list[str]]:
    """An installation without verification, and then one that enforces it."""
    before = World()
    before.apply_resource(sched=reference)
    before.run()
    before.roll_out("one", desired=1, ready=1)
    before.run()
    pod = before.get("pods", "one-node-1")
    statuses = [{"name": "scx", "imageID": image_id}]
    before.change("pods", "one-node-1", status=pod["status"] | {"containerStatuses": statuses})
    verifier.accept(reference)
    after = World(before, verifier=verifier)
    for key in list(after.objects["schedexts"]):
        after._wake(key)
    return after, after.run()


def test_pods_that_run_the_digest_already_are_kept_until_the_next_change(verifier: Verifier) -> None:
    world, writes = move_over(verifier, f"{REPOSITORY}@{FIRST}")
    spec = world.get("daemonsets", "one")["spec"]
    assert (container_of(world)["image"], spec["updateStrategy"]) == (f"{REPOSITORY}@{FIRST}", {"type": "OnDelete"})
    world.count("one")
    writes += world.run()
    assert not [write for write in writes if write.startswith("delete")]
    assert world.condition("one", "Ready") == ("True", "Ready"), world.message("one", "Ready")
    assert world.get("schedexts", "one")["status"]["nodes"]["updated"] == 1
    world.apply_resource(args=["--more"])
    world.run()
    assert world.get("daemonsets", "one")["spec"]["updateStrategy"]["type"] == "RollingUpdate"


def test_what_is_pinned_is_pulled_once_also_where_it_was_pulled_always(verifier: Verifier) -> None:
    world, writes = move_over(verifier, f"{REPOSITORY}@{FIRST}", f"{REPOSITORY}:latest")
    container = container_of(world)
    assert (container["image"], container["imagePullPolicy"]) == (f"{REPOSITORY}@{FIRST}", "IfNotPresent")
    world.count("one")
    writes += world.run()
    assert not [write for write in writes if write.startswith("delete")]
    assert world.condition("one", "Ready") == ("True", "Ready")
    assert not [write for write in world.run() if "daemonsets" in write], "and is not written again"


@pytest.mark.parametrize("image_id", [f"{REPOSITORY}@{SECOND}", "sha256:abc", ""])
def test_pods_that_run_something_else_or_nobody_knows_what_are_replaced(verifier: Verifier, image_id: str) -> None:
    world, _ = move_over(verifier, image_id)
    assert container_of(world)["image"] == f"{REPOSITORY}@{FIRST}"
    assert world.get("daemonsets", "one")["spec"]["updateStrategy"]["type"] == "RollingUpdate"


def test_pods_that_follow_the_slot_are_kept_too(verifier: Verifier) -> None:
    claim = make_claim()
    seen = as_returned(make_daemonset(claim, ["default.one"]))
    judgement = ImageJudgement(Mode.ENFORCE, REPOSITORY, f"{REPOSITORY}@{FIRST}", ACCEPTED)
    pod = make_pod(containerStatuses=[{"name": "scx", "imageID": f"{REPOSITORY}@{FIRST}"}])
    plain = fit(make_daemonset(claim), judgement, seen, [pod])
    assert plain is not None
    assert plain.spec.update_strategy == UpdateStrategy(type="OnDelete")
    assert is_held(plain, None)
    assert not is_held(plain, UpdateStrategy(type="OnDelete"))


def test_only_a_digest_tells_what_a_pod_runs() -> None:
    pod = make_pod(containerStatuses=[{"name": "scx", "imageID": f"docker-pullable://{REPOSITORY}@{FIRST}"}])
    assert runs(pod, f"{REPOSITORY}@{FIRST}")
    assert not runs(pod, f"{REPOSITORY}:1")
    assert not runs(make_pod(), f"{REPOSITORY}@{FIRST}")


# --- what authors of resources can write ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({}, ""),
        ({"env": [{"name": "RUST_LOG", "value": "debug"}, {"name": "ENVIRONMENT", "value": "x"}]}, ""),
        ({"env": [{"name": "LD_PRELOAD", "value": "/etc/scx/evil.so"}]}, "env LD_PRELOAD"),
        ({"env": [{"name": "PATH", "value": "/etc/scx"}]}, "env PATH"),
        ({"env": [{"name": "GLIBC_TUNABLES", "value": "x"}]}, "env GLIBC_TUNABLES"),
        ({"configFrom": {"configMap": "m", "mountPath": "/etc/scx"}}, ""),
        ({"configFrom": {"configMap": "m", "mountPath": "/etc/scx/layers/"}}, ""),
        ({"configFrom": {"configMap": "m", "mountPath": "/etc/scxevil"}}, "mountPath /etc/scxevil"),
        ({"configFrom": {"configMap": "m", "mountPath": "/etc"}}, "mountPath /etc"),
        ({"configFrom": {"configMap": "m", "mountPath": "/lib/x86_64-linux-gnu"}}, "mountPath /lib"),
    ],
)
def test_what_would_run_in_the_place_of_the_image_is_refused(spec: dict[str, Any], refused: str) -> None:
    found = find_loophole(make_claim(**spec).workload)
    assert (refused in found.message and found.refused) if found and refused else (found is None and not refused)


def resource_that_says(resolved: str, observed: int = 3, refresh: str = "") -> SchedExt:
    resource = make_resource(generation=3)
    status = {"observedGeneration": observed, "lastHandledRefresh": refresh}
    pools = [{"name": "", "resolvedImage": resolved}]
    return msgspec.structs.replace(resource, status=msgspec.convert(status | {"pools": pools}, type(resource.status)))


@pytest.mark.parametrize(
    ("resource", "digest"),
    [
        (resource_that_says(f"{REPOSITORY}@{FIRST}"), FIRST),
        (resource_that_says(f"{REPOSITORY}@{FIRST}", observed=2), ""),
        (resource_that_says(f"{REPOSITORY}@{FIRST}", refresh="other"), ""),
        (resource_that_says(f"example.com/evil@{FIRST}"), ""),
        (resource_that_says(f"{REPOSITORY}@sha256:../../x"), ""),
        (resource_that_says(f"{REPOSITORY}:tag"), ""),
        (resource_that_says(""), ""),
    ],
)
def test_status_says_which_digest_only_for_the_same_spec_and_repository(resource: SchedExt, digest: str) -> None:
    assert recall_digest(resource, "", parse_reference(f"{REPOSITORY}:1")) == digest


def test_the_worst_of_several_images_is_told() -> None:
    good = ImageJudgement(Mode.ENFORCE, "a", "a@b", ACCEPTED)
    bad, unknown = (ImageJudgement(Mode.ENFORCE, "a", failure=failure) for failure in (UNSIGNED, OUTAGE))
    pending = ImageJudgement(Mode.ENFORCE, "a")
    assert describe([]) is None
    for judgements, status in (([good], "True"), ([good, pending], "Unknown"), ([unknown, bad, good], "False")):
        told = describe(judgements)
        assert told is not None
        assert told[0] == status
