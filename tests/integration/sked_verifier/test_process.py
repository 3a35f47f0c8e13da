"""The verifier's process against registries that hang, lie, drip and flood: it answers within its bounds, and ends."""

import asyncio
import base64
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from schedkit.errors import NoAnswerError
from schedkit.images.oci import OCI_INDEX, OCI_MANIFEST
from schedkit.sked.verifier.child import MEMORY_BYTES
from schedkit.sked.verifier.messages import ImageFinding, TrustSettings
from schedkit.sked.verifier.process import VerifierProcess
from tests.integration.images.pushing import digest_of
from tests.integration.images.servers import Request, Server, serve

T = TypeVar("T")
INDEX = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        server.says("/v2/", b"{}")
        yield server


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """One that trusts a key for images on loopback."""
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "cosign.pub").write_bytes(public.public_bytes(*form))
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps({"scopes": [{"images": ["127.0.0.1:*/**"], "keys": [{"path": "cosign.pub"}]}]}))
    return path


def run(settings: TrustSettings, story: Callable[[VerifierProcess], Awaitable[T]], **options: float) -> T:
    async def play() -> T:
        process = VerifierProcess(settings, **options)  # type: ignore[arg-type]
        try:
            return await story(process)
        finally:
            await process.close()

    return asyncio.run(play())


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def serve_index(server: Server, path: str = "a", body: bytes = INDEX, media_type: str = OCI_INDEX) -> str:
    for name in ("v1", digest_of(body)):
        server.says(f"/v2/{path}/manifests/{name}", body, Content_Type=media_type)
    return f"{server.address}/{path}:v1"


def test_interrupt_from_a_terminal_does_not_reach_it(policy: Path) -> None:
    async def ask(process: VerifierProcess) -> int | None:
        await process.ask("policy")
        return process.pid and os.getpgid(process.pid)

    assert run(TrustSettings(policy=str(policy)), ask) not in (None, os.getpgid(0))


def test_index_is_resolved_whatever_platforms_are_in_it(server: Server, policy: Path) -> None:
    reference = serve_index(server)

    async def story(process: VerifierProcess) -> None:
        resolved = await process.ask("resolve", reference)
        assert resolved.digest == digest_of(INDEX)
        judged = await process.ask("judge", f"{server.address}/a@{resolved.digest}")
        assert (judged.reason, judged.refused) == ("Unsigned", True)
        assert f"({resolved.digest}) is not signed" in judged.message
        assert judged.policy == resolved.policy != ""

    run(TrustSettings(policy=str(policy)), story)


def test_process_ends_when_idle_and_is_started_again(server: Server, policy: Path) -> None:
    reference = serve_index(server)

    async def story(process: VerifierProcess) -> None:
        await process.ask("resolve", reference)
        first = process.pid
        assert first is not None
        async with asyncio.timeout(20):
            while not has_ended(first):
                await asyncio.sleep(0.05)
        assert process.pid is None
        assert (await process.ask("resolve", reference)).digest
        assert process.pid not in (None, first)

    run(TrustSettings(policy=str(policy)), story, idle_seconds=0.2)


def test_process_that_is_killed_is_an_outage_and_the_next_question_has_a_new_one(server: Server, policy: Path) -> None:
    reference = serve_index(server)

    async def story(process: VerifierProcess) -> None:
        question = await ask_what_hangs(process, server)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(NoAnswerError, match="ended before it could answer"):
            await question
        assert (await process.ask("resolve", reference)).digest

    run(TrustSettings(policy=str(policy)), story)


def test_who_asked_a_process_that_ended_is_told_though_there_is_another_already(server: Server, policy: Path) -> None:
    reference = serve_index(server)

    async def story(process: VerifierProcess) -> None:
        question = await ask_what_hangs(process, server)
        child, is_new = process._child, asyncio.Event()
        assert child is not None
        delay_end(child, is_new)
        child.kill()
        while process.pid is not None:
            await asyncio.sleep(0.01)
        assert (await process.ask("resolve", reference)).digest
        is_new.set()
        with pytest.raises(NoAnswerError, match="ended before it could answer"):
            await asyncio.wait_for(question, 20)

    run(TrustSettings(policy=str(policy)), story)


async def ask_what_hangs(process: VerifierProcess, server: Server) -> asyncio.Task[ImageFinding]:
    """Ask of an image whose registry takes its time, and come back when it has been asked."""
    server.answers["/v2/hangs/manifests/v1"] = lambda _: time.sleep(5)
    question = asyncio.create_task(process.ask("resolve", f"{server.address}/hangs:v1"))
    while not any("hangs" in path for path in server.paths):
        await asyncio.sleep(0.05)
    return question


def delay_end(child: asyncio.subprocess.Process, until: asyncio.Event) -> None:
    """Have its end be known later."""
    wait = child.wait

    async def wait_longer() -> int:
        await until.wait()
        return await wait()

    child.wait = wait_longer  # type: ignore[method-assign]


def test_process_that_is_stuck_is_ended(server: Server, policy: Path) -> None:
    reference = serve_index(server)

    async def story(process: VerifierProcess) -> None:
        await process.ask("policy")
        assert process.pid is not None
        stuck = process.pid
        process._answer_seconds = 1.0  # now that it has started, which may take longer
        os.kill(stuck, signal.SIGSTOP)
        with pytest.raises(NoAnswerError, match="no answer in time"):
            await process.ask("resolve", reference)
        async with asyncio.timeout(20):
            while not has_ended(stuck):
                await asyncio.sleep(0.05)

    run(TrustSettings(policy=str(policy)), story)


def test_without_the_operator_it_ends(policy: Path) -> None:
    async def story(process: VerifierProcess) -> None:
        await process.ask("policy")
        assert process.pid is not None
        assert process._child is not None
        assert process._child.stdin is not None
        process._child.stdin.close()  # as the kernel does when the operator dies
        pid = process.pid
        async with asyncio.timeout(20):
            while not has_ended(pid):
                await asyncio.sleep(0.05)

    run(TrustSettings(policy=str(policy)), story)


def test_image_without_a_rule_is_refused_and_nobody_is_asked(server: Server, policy: Path) -> None:
    """A tenant must not be able to have the operator knock at any address."""
    policy.write_text(json.dumps({"scopes": [{"images": ["ghcr.io/**"], "keys": [{"path": "cosign.pub"}]}]}))

    async def story(process: VerifierProcess) -> None:
        answer = await process.ask("resolve", f"{server.address}/a:v1")
        assert (answer.reason, answer.refused) == ("Untrusted", True)
        assert f"has no rule for {server.address}/a" in answer.message
        assert (await process.ask("judge", f"{server.address}/a@{digest_of(INDEX)}")).reason == "Untrusted"

    run(TrustSettings(policy=str(policy)), story)
    assert server.connections == 0


def test_policy_is_read_as_it_is_now(server: Server, policy: Path) -> None:
    reference = f"{server.address}/a@{digest_of(INDEX)}"
    serve_index(server)

    async def story(process: VerifierProcess) -> None:
        first = await process.ask("judge", reference)
        assert first.reason == "Unsigned"
        policy.write_text(json.dumps({"allowUnsigned": [f"{server.address}/**"]}))
        second = await process.ask("judge", reference)
        assert (second.reason, second.signer) == ("", "nobody (allowUnsigned)")
        assert second.policy != first.policy
        policy.write_text("keys: [")
        assert (await process.ask("policy")).reason == "BadPolicy"
        policy.unlink()
        assert (await process.ask("judge", reference)).reason == "BadPolicy"

    run(TrustSettings(policy=str(policy)), story)


def drip(request: Request) -> None:
    request.begin(200, Content_Type=OCI_INDEX, Content_Length="100000")
    for _ in range(200):
        request.write(b" ")
        time.sleep(1)


def flood(request: Request) -> None:
    request.begin(200, Content_Type=OCI_INDEX)
    while True:
        request.write(b" " * (1 << 20))


def redirect_inside(request: Request) -> None:
    request.answer(302, Location="http://169.254.169.254/latest/meta-data/")


HOSTILE: dict[str, tuple[Callable[[Request], None], str]] = {
    "not JSON": (lambda request: request.answer(200, b"<html>", Content_Type=OCI_INDEX), "BadData"),
    "deeply nested": (lambda request: request.answer(200, b"[" * 200_000, Content_Type=OCI_INDEX), "BadData"),
    "flood": (flood, "BadData"),
    "drip": (drip, "NoAnswer"),
    "hangs": (lambda _: time.sleep(60), "NoAnswer"),
    "hangs up": (lambda request: request.hang_up(), "Unavailable"),
    "redirect to metadata": (redirect_inside, "BadData"),
    "redirect loop": (lambda request: request.answer(302, Location=request.path), "BadData"),
    "login": (lambda request: request.answer(401, WWW_Authenticate="Basic"), "NoPermission"),
    "failure": (lambda request: request.answer(503, Retry_After="120"), "Unavailable"),
}


def test_hostile_registries_are_answered_for_side_by_side_and_in_time(server: Server, policy: Path) -> None:
    """All at once, and a good one meanwhile: each ends within its time, and holds up nobody."""
    good = serve_index(server, "good")
    for number, (answer, _) in enumerate(HOSTILE.values()):
        server.answers[f"/v2/bad{number}/manifests/v1"] = answer

    async def story(process: VerifierProcess) -> dict[str, tuple[str, bool]]:
        await process.ask("policy")
        names = [f"{server.address}/bad{number}:v1" for number in range(len(HOSTILE))]
        questions = [asyncio.create_task(process.ask("resolve", name)) for name in names]
        await asyncio.sleep(1)
        assert (await process.ask("resolve", good)).digest
        assert not questions[list(HOSTILE).index("hangs")].done(), "nobody waits for who hangs"
        answers = await asyncio.gather(*questions)
        return {name: (one.reason, one.refused) for name, one in zip(HOSTILE, answers, strict=True)} | {
            "retry": (str(answers[-1].retry_after), False)
        }

    found = run(TrustSettings(policy=str(policy)), story)
    wanted = {name: (reason, False) for name, (_, reason) in HOSTILE.items()} | {"retry": ("120.0", False)}
    assert found == wanted


def test_documents_that_unpack_to_much_memory_are_refused_and_end_nothing(server: Server, policy: Path) -> None:
    """Fifteen at a time, of four megabytes each, made of many small objects."""
    bomb = b'{"mediaType":"' + OCI_MANIFEST.encode() + b'","layers":[' + b"{}," * 1_390_000 + b"{}]}"
    assert len(bomb) < 4 << 20
    for number in range(15):
        server.says(f"/v2/bomb{number}/manifests/v1", bomb, Content_Type=OCI_MANIFEST)
    good = serve_index(server, "good")

    async def story(process: VerifierProcess) -> int:
        names = [f"{server.address}/bomb{number}:v1" for number in range(15)]
        answers = await asyncio.gather(*(process.ask("resolve", name) for name in names))
        for answer in answers:
            assert not isinstance(answer, BaseException), answer
            assert (answer.reason, answer.refused) == ("BadData", False)
        assert (await process.ask("resolve", good)).digest
        status = Path(f"/proc/{process.pid}/status").read_text()
        (peak,) = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")]
        return peak

    # The program's own code and what it maps from files come besides.
    assert run(TrustSettings(policy=str(policy)), story) < MEMORY_BYTES + (64 << 20)


def test_secrets_as_long_as_they_may_be_take_no_memory_from_later_questions(server: Server, policy: Path) -> None:
    """What one question took is there for the next: threads that each kept the last one would have it all."""
    reference = serve_index(server)
    auth = {"auth": base64.b64encode(b"tenant:hunter2").decode(), "comment": "\U0001f984" * 65_000}
    secrets = [json.dumps({"auths": {"other.example": auth}}, ensure_ascii=False)] * 16

    async def story(process: VerifierProcess) -> None:
        answers = [await process.ask("resolve", reference, secrets) for _ in range(40)]
        assert [answer.message for answer in answers if not answer.digest] == []

    run(TrustSettings(policy=str(policy)), story)


def test_pull_secret_of_a_tenant_goes_to_its_own_registry_only(server: Server, policy: Path, tmp_path: Path) -> None:
    entry = {"auth": base64.b64encode(b"tenant:hunter2").decode()}
    own = {"auth": base64.b64encode(b"operator:secret").decode()}
    secret = tmp_path / "config.json"
    secret.write_text(json.dumps({"auths": {server.address: own}}))

    def want_login(request: Request) -> None:
        if "Authorization" not in request.headers:
            request.answer(401, WWW_Authenticate="Basic")
        else:
            request.answer(200, INDEX, Content_Type=OCI_INDEX)

    server.answers["/v2/a/manifests/v1"] = want_login
    reference = f"{server.address}/a:v1"

    async def story(process: VerifierProcess) -> list[str]:
        for document in ({"auths": {server.address: entry}}, {"auths": {"other.example": entry}}):
            answer = await process.ask("resolve", reference, [json.dumps(document)])
            assert answer.digest == digest_of(INDEX)
        headers = [found.get("authorization", "") for path, found in server.requests if path.startswith("/v2/a")]
        return [base64.b64decode(header.partition(" ")[2]).decode() for header in headers if header]

    found = run(TrustSettings(policy=str(policy), pull_secret=str(secret)), story)
    assert found == ["tenant:hunter2", "operator:secret"]
