"""What crashed schedulers wrote last: which lines say why, and that each end is asked about once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from msgspec.structs import replace

from schedkit.sked.api.types import NodeFailure
from schedkit.sked.controller import crash_logs as module
from schedkit.sked.controller.crash_logs import CrashLogs, parse_log
from schedkit.sked.controller.failures import Crash
from schedkit.sked.kube.objects import Key
from tests.unit.sked_kube.tools import fake_client, status, until

ENDED = "the scheduler ended with status 1"
FAILURE = NodeFailure(node="node-1", pod="pod", reason="CrashLooping", message=ENDED)
RESOURCE = Key("default", "one")
CRASH = Crash(Key("default", "pod"), "uid-1", "scx", 4)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("\n \n", ""),
        ("attached fifo\ndetached fifo\n", "detached fifo"),
        (
            'attached stall\nejected stall: kind=1026 code=0 reason="runnable task stall" message="sh[1] 5.1s"\nbye\n',
            "the kernel ejected it, runnable task stall (kind 1026): sh[1] 5.1s",
        ),
        (
            "12:03:04 [INFO] EXIT: scx_bpf_error (invalid CPU 99)\nError: EXIT\n",
            "the kernel ejected it, scx_bpf_error (kind 1025): invalid CPU 99",
        ),
        ("12:03:04 [INFO] EXIT: unregistered from user space\n", "[INFO] EXIT: unregistered from user space"),
        ("attached fifo\nfailed fifo: its time is over\n", "failed fifo: its time is over"),
        (
            "cannot attach fifo: EBUSY (Device or resource busy)\n",
            "cannot attach fifo: EBUSY (Device or resource busy)",
        ),
        (
            "12:03:04 [INFO] Running scx_rusty\n12:03:05 [WARN] libbpf: failed to load object\n"
            "Error: Failed to load BPF program\n\nCaused by:\n    Permission denied (os error 13)\n",
            "Error: Failed to load BPF program Caused by: Permission denied (os error 13)",
        ),
        (
            "\x1b[31m2026-01-02T03:04:05.678Z ERROR\x1b[0m stats server failed\nbye\n",
            "ERROR stats server failed bye",
        ),
        (
            "thread 'main' panicked at src/main.rs:7:5:\nno such file\nnote: run with RUST_BACKTRACE=1\n",
            "thread 'main' panicked at src/main.rs:7:5: no such file note: run with RUST_BACKTRACE=1",
        ),
    ],
)
def test_words_are_the_lines_that_say_why(log: str, words: str) -> None:
    assert parse_log(log) == words


def test_words_are_capped() -> None:
    words = parse_log("error: " + "x" * 5000)
    assert len(words) == module.LOG_LENGTH
    assert words.endswith("x…")


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[tuple[CrashLogs, list[Key], list[web.Request]]]:
    """Running CrashLogs, whom they woke, and what the server was asked."""
    woken: list[Key] = []
    asked: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return await answer(request)

    async with fake_client(handle) as client:
        words = CrashLogs(client, woken.append)
        running = asyncio.ensure_future(words.run())
        try:
            yield words, woken, asked
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def say_busy(_request: web.Request) -> web.Response:
    return web.Response(text="starting\nerror: EBUSY\n")


async def test_each_end_is_asked_about_once_and_who_asked_is_woken() -> None:
    async with listening(say_busy) as (words, woken, asked):
        assert words.complete(RESOURCE, FAILURE, CRASH, ()) == FAILURE
        assert words.complete(RESOURCE, FAILURE, CRASH, ()) == FAILURE
        await until(lambda: woken)
        for _ in range(3):
            assert words.complete(RESOURCE, FAILURE, CRASH, ()).message == f"{ENDED}: error: EBUSY"
        assert (woken, len(asked)) == ([RESOURCE], 1)
        assert asked[0].path == "/api/v1/namespaces/default/pods/pod/log"
        chosen = {name: asked[0].query[name] for name in ("container", "previous", "tailLines")}
        assert chosen == {"container": "scx", "previous": "true", "tailLines": "20"}

        again = Crash(CRASH.pod, CRASH.uid, CRASH.container, 5)
        words.complete(RESOURCE, FAILURE, again, ())
        await until(lambda: len(woken) == 2)
        assert len(asked) == 2


async def test_what_was_told_before_stays_until_the_words_are_known() -> None:
    async with listening(say_busy) as (words, _woken, _asked):
        told = replace(FAILURE, message=f"{ENDED}: error: EBUSY")
        other = replace(FAILURE, message="the scheduler ended with status 2: oh")
        elsewhere = replace(told, pod="another")
        assert words.complete(RESOURCE, FAILURE, CRASH, (elsewhere, other, told)) == told
        assert words.complete(RESOURCE, FAILURE, CRASH, (elsewhere, other)) == FAILURE


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (status(403, "Forbidden", "you may not"), "could not be read: Forbidden"),
        (status(404, "NotFound", "no such pod"), "could not be read: NotFound"),
        (status(400, "BadRequest", "previous terminated container not found"), "could not be read: BadRequest"),
        (status(500, "InternalError", "dial tcp 10.0.0.1:10250: refused"), "could not be read: NoAnswer"),
        (web.Response(text="\n"), "says nothing"),
    ],
)
async def test_log_that_cannot_be_read_is_said_in_a_word_and_not_asked_for_again(
    refusal: web.Response, why: str
) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return refusal

    async with listening(answer) as (words, woken, asked):
        words.complete(RESOURCE, FAILURE, CRASH, ())
        await until(lambda: woken)
        assert words.complete(RESOURCE, FAILURE, CRASH, ()).message == f"{ENDED}; its log {why}"
        assert len(asked) == 1


async def test_node_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.05)

    async def hang(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError("it never answers")

    async with listening(hang) as (words, woken, asked):
        words.complete(RESOURCE, FAILURE, CRASH, ())
        await until(lambda: woken)
        assert words.complete(RESOURCE, FAILURE, CRASH, ()).message.endswith("could not be read: NoAnswer")
        assert len(asked) == 1


async def test_pod_that_is_gone_is_forgotten_and_wakes_nobody() -> None:
    answered = asyncio.Event()

    async def wait(_request: web.Request) -> web.Response:
        await answered.wait()
        return web.Response(text="error: EBUSY\n")

    async with listening(wait) as (words, woken, asked):
        words.complete(RESOURCE, FAILURE, CRASH, ())
        await until(lambda: asked)
        words.forget(CRASH.uid)
        answered.set()
        other = Crash(Key("default", "other"), "uid-2", "scx", 1)
        words.complete(Key("default", "two"), FAILURE, other, ())
        await until(lambda: woken)
        assert woken == [Key("default", "two")]
        assert words.complete(RESOURCE, FAILURE, CRASH, ()) == FAILURE
