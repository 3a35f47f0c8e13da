"""How questions to registries are asked: each once, few at a time, and again later; a stub answers them here.

The real process against real and hostile registries is in tests/integration/sked_verifier.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from schedkit.errors import NoAnswerError
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller import verifier as module
from schedkit.sked.controller.claims import make_claims
from schedkit.sked.controller.pull_secrets import Documents, fetch_documents
from schedkit.sked.controller.verdicts import CONFIG_MAPS, KEY, NAME, Verdicts
from schedkit.sked.controller.verification import Acceptance, ImageJudgement, Mode
from schedkit.sked.controller.verifier import Verifier
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Key
from schedkit.sked.verifier.messages import ImageFinding
from schedkit.sked.verifier.process import VerifierProcess
from tests.unit.sked_controller.making import make_resource
from tests.unit.sked_controller.world import refusal

POLICY, OTHER = "sha256:policy", "sha256:other"
DIGEST, MOVED = (f"sha256:{letter * 64}" for letter in "12")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Asked = tuple[str, str, tuple[str, ...]]


class Process:
    """Answers what it is told, once it may."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.policy = POLICY
        self.digest = DIGEST
        self.failures: dict[str, ImageFinding | Exception] = {}  # by the kind or the beginning of a reference
        self.gates: dict[str, asyncio.Event] = {}  # by host: who waits for what
        self.under_way = 0
        self.most = 0

    async def ask(self, kind: str, reference: str = "", secrets: Sequence[str] = ()) -> ImageFinding:
        self.asked.append((kind, reference, tuple(secrets)))
        if kind == "policy":
            return self.failures.get("policy") or ImageFinding(0, self.policy)  # type: ignore[return-value]
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if gate := self.gates.get(reference.partition("/")[0]):
                await gate.wait()
        finally:
            self.under_way -= 1
        for start, failure in self.failures.items():
            if reference.startswith(start) or kind == start:
                if isinstance(failure, Exception):
                    raise failure
                return failure
        if kind == "resolve":
            return ImageFinding(0, self.policy, self.digest)
        return ImageFinding(0, self.policy, signer="key SHA256:abc", rule="default")

    async def close(self) -> None:
        """Nothing to end."""

    def count(self, kind: str) -> int:
        return sum(asked[0] == kind for asked in self.asked)


class ApiServer:
    """The one ConfigMap and the Secrets that the verifier reads and writes."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.secrets: dict[str, Any] = {}
        self.is_denied = False

    async def fetch(self, resource: Any, type: Any, name: str, *, namespace: str) -> Any:
        if self.is_denied:
            raise refusal(403, "Forbidden")
        if resource is CONFIG_MAPS:
            assert (namespace, name) == ("sked-system", NAME)
            return msgspec.convert({"data": self.data}, type)
        if name not in self.secrets:
            raise refusal(404, "NotFound")
        return msgspec.convert(self.secrets[name], type)

    async def apply(self, resource: Any, type: Any, name: str, body: Any, *, namespace: str, force: bool) -> Any:
        assert (resource, namespace, name) == (CONFIG_MAPS, "sked-system", NAME)
        self.data = dict(body.data)


class Scene:
    """A verifier with its surroundings."""

    def __init__(self, before: "Scene | None" = None, policy_file: Path | None = None) -> None:
        self.process = Process()
        self.api: ApiServer = before.api if before else ApiServer()
        self.time = 1000.0
        self.woken: list[Key] = []
        client = cast(Client, self.api)
        self.verifier = Verifier(
            Mode.ENFORCE,
            cast(VerifierProcess, self.process),
            Verdicts(client, "sked-system", lambda: None),
            self._fetch_secrets,
            self.woken.append,
            policy_file=policy_file,
            now=lambda: NOW,
            registry=MetricsRegistry(),
            clock=lambda: self.time,
        )

    async def _fetch_secrets(self, namespace: str, names: Sequence[str]) -> Documents:
        return await fetch_documents(cast(Client, self.api), namespace, names)

    def look(self, resource: SchedExt) -> ImageJudgement:
        (claim,) = make_claims(resource)
        return self.verifier.look(claim, resource)

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def look_until_settled(self, resource: SchedExt) -> ImageJudgement:
        for _ in range(3):
            self.look(resource)
            await self.settle()
        return self.look(resource)


def play(story: Callable[[Scene], Awaitable[None]], scene: Scene | None = None) -> Scene:
    """Run a story beside a running verifier."""
    played = scene or Scene()

    async def run() -> None:
        task = asyncio.create_task(played.verifier.run())
        try:
            await story(played)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    return played


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.sked.controller.verdicts.PACE_SECONDS", 0.0)
    monkeypatch.setattr(module, "POLICY_SECONDS", 0.01)


def test_thousand_resources_with_the_same_image_cost_one_verification() -> None:
    async def story(scene: Scene) -> None:
        resources = [make_resource(f"n{number}", sched="example.com/a:1") for number in range(1000)]
        for _ in range(3):
            for resource in resources:
                scene.look(resource)
            await scene.settle()
        assert all(scene.look(resource).accepted for resource in resources)
        assert (scene.process.count("resolve"), scene.process.count("judge")) == (1, 1)
        assert {key.name for key in scene.woken} == {resource.metadata.name for resource in resources}

    play(story)


def test_reference_is_resolved_once_for_a_generation_and_for_each_refresh() -> None:
    async def story(scene: Scene) -> None:
        first = make_resource(sched="example.com/a:1")
        assert (await scene.look_until_settled(first)).resolved == f"example.com/a@{DIGEST}"
        scene.process.digest, scene.time = MOVED, scene.time + 3600
        assert (await scene.look_until_settled(first)).resolved == f"example.com/a@{DIGEST}", "the tag moved"
        metadata = msgspec.structs.replace(first.metadata, annotations={"sked.schedkit.io/refresh": "1"})
        refreshed = msgspec.structs.replace(first, metadata=metadata)
        assert (await scene.look_until_settled(refreshed)).resolved == f"example.com/a@{MOVED}"
        assert scene.process.count("resolve") == 2
        # At once again: what was found a moment ago is not what the author wants to see.
        metadata = msgspec.structs.replace(first.metadata, annotations={"sked.schedkit.io/refresh": "2"})
        scene.time += 0.1
        await scene.look_until_settled(msgspec.structs.replace(first, metadata=metadata))
        assert scene.process.count("resolve") == 3
        scene.time += 60
        await scene.look_until_settled(make_resource(sched="example.com/a:1", generation=2))
        assert scene.process.count("resolve") == 4

    play(story)


def test_digest_in_the_spec_is_not_looked_up() -> None:
    async def story(scene: Scene) -> None:
        judgement = await scene.look_until_settled(make_resource(sched=f"example.com/a:1@{DIGEST}"))
        assert (judgement.resolved, bool(judgement.accepted)) == (f"example.com/a@{DIGEST}", True)
        assert scene.process.count("resolve") == 0

    play(story)


def test_verdicts_outlive_the_process_and_what_a_status_says_is_none() -> None:
    async def first(scene: Scene) -> None:
        await scene.look_until_settled(make_resource(sched="example.com/a:1"))
        await asyncio.sleep(0.05)

    async def second(scene: Scene) -> None:
        resolved = f"example.com/a@{DIGEST}"
        forged = f"example.com/a@{MOVED}"
        verified = {"signer": "me", "policy": POLICY, "time": "2026-01-01T00:00:00Z"}
        for image, digest in ((resolved, DIGEST), (forged, MOVED)):
            told = {"name": "", "resolvedImage": image, "verified": verified | {"digest": digest}}
            resource = make_resource(sched="example.com/a:1")
            status = msgspec.convert({"observedGeneration": 1, "pools": [told]}, type(resource.status))
            resource = msgspec.structs.replace(resource, status=status)
            scene.verifier.forget(resource.metadata.key)
            judgement = await scene.look_until_settled(resource)
            assert judgement.resolved == image
            assert bool(judgement.accepted) == (image == resolved)
        assert scene.process.count("resolve") == 0
        assert [asked[1] for asked in scene.process.asked if asked[0] == "judge"] == [forged]

    before = play(first)
    assert f"example.com/a@{DIGEST}" in before.api.data[KEY]
    after = Scene(before)
    after.process.failures["judge"] = ImageFinding(0, POLICY, reason="Unsigned", message="no", refused=True)
    play(second, after)


@pytest.mark.parametrize("kept", ["", "[]", '{"a": 1}', "not JSON"])
def test_verdicts_that_cannot_be_read_are_none(kept: str) -> None:
    async def story(scene: Scene) -> None:
        assert (await scene.look_until_settled(make_resource(sched="example.com/a:1"))).accepted
        assert scene.process.count("judge") == 1

    scene = Scene()
    scene.api.data = {KEY: kept}
    play(story, scene)


def test_without_the_right_to_keep_verdicts_everything_else_works() -> None:
    async def story(scene: Scene) -> None:
        assert (await scene.look_until_settled(make_resource(sched="example.com/a:1"))).accepted

    scene = Scene()
    scene.api.is_denied = True
    play(story, scene)


def test_changed_policy_is_noticed_and_judges_again(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("one")
    resource = make_resource(sched="example.com/a:1")

    async def story(scene: Scene) -> None:
        assert (await scene.look_until_settled(resource)).accepted
        scene.process.policy = OTHER
        scene.process.failures["judge"] = ImageFinding(0, OTHER, reason="Untrusted", message="no", refused=True)
        policy.write_text("another")
        scene.woken.clear()
        while not scene.woken:
            await asyncio.sleep(0.01)
        judgement = await scene.look_until_settled(resource)
        assert judgement.failure is not None
        assert (judgement.resolved, judgement.failure.reason) == (f"example.com/a@{DIGEST}", "Untrusted")
        # And back: what was found by the first one is no longer kept, as a newer verdict may have taken its place.
        scene.process.policy = POLICY
        del scene.process.failures["judge"]
        policy.write_text("one again")
        while not (await scene.look_until_settled(resource)).accepted:
            await asyncio.sleep(0.01)

    play(story, Scene(policy_file=policy))


def test_policy_that_cannot_be_read_lets_nothing_new_in() -> None:
    async def story(scene: Scene) -> None:
        judgement = await scene.look_until_settled(make_resource(sched="example.com/a:1"))
        assert judgement.failure is not None
        assert (judgement.failure.reason, judgement.failure.refused) == ("BadPolicy", False)
        assert scene.process.count("resolve") == 0
        del scene.process.failures["policy"]
        while not (await scene.look_until_settled(make_resource(sched="example.com/a:1"))).accepted:
            await asyncio.sleep(0.01)

    scene = Scene()
    scene.process.failures["policy"] = ImageFinding(0, reason="BadPolicy", message="line 1")
    play(story, scene)


def test_answer_by_another_policy_than_the_one_in_force_is_not_told() -> None:
    """The file changed between the question and the look at it."""

    async def story(scene: Scene) -> None:
        resource = make_resource(sched=f"example.com/a@{DIGEST}")
        scene.look(resource)
        await scene.settle()
        scene.process.failures["judge"] = ImageFinding(0, OTHER, reason="Unsigned", message="no", refused=True)
        scene.look(resource)
        await scene.settle()
        assert scene.look(resource).failure is None
        scene.process.policy = OTHER
        await asyncio.sleep(0.05)
        judgement = await scene.look_until_settled(resource)
        assert judgement.failure is not None
        assert judgement.failure.reason == "Unsigned"

    play(story)


def test_hanging_registry_holds_up_its_own_images_only() -> None:
    async def story(scene: Scene) -> None:
        for number in range(40):
            scene.look(make_resource(f"h{number}", f"ns-{number % 10}", sched=f"hangs.example/a:{number}"))
        await scene.settle()
        for number in range(40):
            scene.look(make_resource(f"h{number}", f"ns-{number % 10}", sched=f"hangs.example/a:{number}"))
        await scene.settle()
        assert scene.process.under_way == module.HOST_PLACES
        assert (await scene.look_until_settled(make_resource(sched="example.com/a:1"))).accepted

    scene = Scene()
    scene.process.gates["hangs.example"] = asyncio.Event()
    play(story, scene)


def test_namespace_with_many_hanging_registries_leaves_places_to_others() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(3):
            for number in range(60):
                scene.look(make_resource(f"h{number}", "evil", sched=f"h{number}.example/a:1"))
            await scene.settle()
        assert scene.process.under_way == module.NAMESPACE_PLACES
        assert (await scene.look_until_settled(make_resource(sched="example.com/a:1"))).accepted

    scene = Scene()
    scene.process.gates = {f"h{number}.example": asyncio.Event() for number in range(60)}
    play(story, scene)


def test_registry_is_left_alone_for_as_long_as_it_says() -> None:
    async def story(scene: Scene) -> None:
        first, second = (make_resource(name, sched=f"example.com/{name}:1") for name in ("a", "b"))
        judgement = await scene.look_until_settled(first)
        assert judgement.failure is not None
        assert (judgement.failure.reason, judgement.failure.refused) == ("Unavailable", False)
        assert judgement.again_seconds is not None
        assert judgement.again_seconds == pytest.approx(120)
        asked = scene.process.count("resolve")
        scene.time += 100
        await scene.look_until_settled(first)
        await scene.look_until_settled(second)
        assert scene.process.count("resolve") == asked, "for other images of it too"
        scene.process.failures.clear()
        scene.time += 21
        scene.verifier._fill_places()
        assert (await scene.look_until_settled(first)).accepted
        assert (await scene.look_until_settled(second)).accepted

    scene = Scene()
    scene.process.failures["example.com"] = ImageFinding(
        0, POLICY, reason="Unavailable", message="no", retry_after=120.0
    )
    play(story, scene)


@pytest.mark.parametrize("reason", ["Unsigned", "NoAnswer", "NotFound"])
def test_failures_are_asked_again_ever_more_seldom_and_told_meanwhile(reason: str) -> None:
    refused = reason == "Unsigned"

    async def story(scene: Scene) -> None:
        resource = make_resource(sched=f"example.com/a@{DIGEST}")
        pauses = []
        for _ in range(8):
            judgement = await scene.look_until_settled(resource)
            assert judgement.failure is not None
            assert judgement.failure.reason == reason
            pauses.append(round(judgement.again_seconds or 0))
            scene.time += pauses[-1]
        first = 30 if refused else 5
        assert pauses == [min(first * 2**number, 600) for number in range(8)]
        assert scene.process.count("judge") == 8

    scene = Scene()
    scene.process.failures["judge"] = ImageFinding(0, POLICY, reason=reason, message="no", refused=refused)
    play(story, scene)


def test_author_who_changes_an_image_all_the_time_leaves_no_queue_behind() -> None:
    async def story(scene: Scene) -> None:
        for number in range(500):
            scene.look(make_resource(sched=f"hangs.example/a:{number}", generation=number + 1))
            await asyncio.sleep(0)
        await scene.settle()
        scene.verifier._fill_places()
        assert len(scene.verifier._open) <= 1
        scene.process.gates["hangs.example"].set()
        await scene.settle()
        scene.time += 60
        await asyncio.sleep(0.05)
        assert len(scene.verifier._jobs) <= 2
        scene.verifier.forget(Key("default", "one"))
        await asyncio.sleep(0.05)
        assert not scene.verifier._jobs

    scene = Scene()
    scene.process.gates["hangs.example"] = asyncio.Event()
    play(story, scene)


def test_pools_that_are_gone_are_forgotten() -> None:
    async def story(scene: Scene) -> None:
        for number in range(50):
            pool = {"name": f"p{number}", "nodeSelector": {"a": "b"}}
            resource = make_resource(sched="example.com/a:1", pools=[pool], generation=number + 1)
            (claim,) = make_claims(resource)
            scene.verifier.keep(resource.metadata.key, [claim.workload.pool])
            scene.verifier.look(claim, resource)
            await scene.settle()
        (records,) = scene.verifier._records.values()
        assert list(records) == ["p49"]
        assert len(scene.verifier._wants) == 1

    play(story)


def test_process_that_dies_is_an_outage_of_no_registry() -> None:
    async def story(scene: Scene) -> None:
        judgement = await scene.look_until_settled(make_resource(sched="example.com/a:1"))
        assert judgement.failure is not None
        assert (judgement.failure.reason, judgement.failure.refused) == ("NoAnswer", False)
        scene.process.failures.clear()
        assert (await scene.look_until_settled(make_resource("other", sched="example.com/b:1"))).accepted

    scene = Scene()
    scene.process.failures["resolve"] = NoAnswerError("the verifier ended before it could answer")
    play(story, scene)


def test_pull_secrets_are_used_where_they_may_be_read_and_shared_with_nobody() -> None:
    document = '{"auths": {}}'
    good = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eyJhdXRocyI6IHt9fQ=="}}

    async def story(scene: Scene) -> None:
        private = make_resource(sched="example.com/a:1", imagePullSecrets=[{"name": "mine"}, {"name": "opaque"}])
        await scene.look_until_settled(private)
        await scene.look_until_settled(make_resource("other", sched="example.com/a:1"))
        assert [asked for asked in scene.process.asked if asked[0] == "resolve"] == [
            ("resolve", "example.com/a:1", (document,)),
            ("resolve", "example.com/a:1", ()),
        ]

    scene = Scene()
    scene.api.secrets = {"mine": good, "opaque": good | {"type": "Opaque"}}
    play(story, scene)


def test_pull_secret_that_may_not_be_read_is_named_when_the_registry_wants_a_login() -> None:
    async def story(scene: Scene) -> None:
        resource = make_resource(sched="example.com/a:1", imagePullSecrets=[{"name": "mine"}])
        judgement = await scene.look_until_settled(resource)
        assert judgement.failure is not None
        assert judgement.failure.message == "wants a login; sked cannot read the pull secret default/mine (NotFound)"

    scene = Scene()
    scene.process.failures["example.com"] = ImageFinding(0, POLICY, reason="NoPermission", message="wants a login")
    play(story, scene)


def test_what_is_no_reference_is_refused_at_once() -> None:
    async def story(scene: Scene) -> None:
        judgement = scene.look(make_resource(sched="Not An Image"))
        assert judgement.failure is not None
        assert (judgement.failure.reason, judgement.failure.refused) == ("Usage", True)

    play(story)


def test_override_that_is_unsafe_is_refused_though_the_image_is_signed() -> None:
    async def story(scene: Scene) -> None:
        judgement = await scene.look_until_settled(
            make_resource(sched="example.com/a:1", env=[{"name": "LD_PRELOAD", "value": "x"}])
        )
        assert judgement.accepted is None
        assert judgement.failure is not None
        assert judgement.failure.reason == "UnsafeOverride"

    play(story)


def test_kept_verdicts_are_the_newest() -> None:
    verdicts = Verdicts(cast(Client, ApiServer()), "sked-system", lambda: None)
    for number in range(2100):
        verdicts.put(f"a@{number}", Acceptance("me", "default", POLICY, ""))
    assert len(verdicts) == 2000
    assert verdicts.find("a@99", POLICY) is None
    assert verdicts.find("a@2099", POLICY)
    assert verdicts.find("a@2099", OTHER) is None
