"""The verifier's process: questions come in on stdin, answers go out on stdout, and at the end of stdin it ends.

It holds what takes memory (registries, cryptography, trusted roots) only while there is something to verify, and
whatever a registry makes it do, it cannot do more than this to the operator: its memory has a limit, and it is ended
when it does not respond.
"""

import logging
import os
import resource
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from schedkit.errors import SchedkitError, UnavailableError, clean
from schedkit.sked.verifier.judge import Judge, identify
from schedkit.sked.verifier.messages import JUDGE, LONGEST, RESOLVE, ImageFinding, Question, TrustSettings
from schedkit.trust.errors import Refusal

THREADS = 16
STACK_BYTES = 512 * 1024
MEMORY_BYTES = 160 << 20  # what all documents of all registries may take together, and the program itself
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of the container, as it sees it


def main() -> None:
    """Answer until nobody asks any more."""
    most = choose_limit(CGROUP_LIMIT)
    with suppress(ValueError, OSError):  # a lower limit is in force already
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    logging.disable(logging.CRITICAL)  # what there is to say is in the answers
    threading.stack_size(STACK_BYTES)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    serve(Judge(msgspec.json.decode(questions.readline(), type=TrustSettings)), questions, answers)


def choose_limit(cgroup: Path) -> int:
    """The most memory to take: half of the container's at most, where the kernel would end the operator for more."""
    with suppress(OSError, ValueError):
        return min(MEMORY_BYTES, int(cgroup.read_text()) // 2)
    return MEMORY_BYTES


def serve(judge: Judge, questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer each line as soon as its answer is known, until there are no more."""
    lock, all_started = threading.Lock(), threading.Barrier(THREADS + 1)

    def work(line: bytes) -> None:
        with _ending_if_it_fails():
            found = answer(judge, msgspec.json.decode(line, type=Question))
            with lock, suppress(BrokenPipeError):  # nobody waits for it any more
                answers.write(msgspec.json.encode(found) + b"\n")
                answers.flush()

    with ThreadPoolExecutor(THREADS) as pool, _ending_if_it_fails():
        # Before documents take memory: whoever starts a thread that then has none for itself waits for it forever.
        for _ in range(THREADS):
            pool.submit(all_started.wait)
        all_started.wait()
        for line in questions:
            pool.submit(work, line)


@contextmanager
def _ending_if_it_fails() -> Iterator[None]:
    """Whoever waits for an answer that cannot be given is told by the end of the process."""
    try:
        yield
    except BaseException:
        os.write(2, b"the verifier has no memory for an answer, or a defect\n")
        os._exit(1)


def answer(judge: Judge, request: Question) -> ImageFinding:
    """What is to be told of one question, whatever happens."""
    known = ""
    try:
        policy = judge.read_policy()
        known = identify(policy)
        if request.kind == RESOLVE:
            return ImageFinding(request.id, known, judge.resolve(request.reference, policy, request.secrets))
        if request.kind == JUDGE:
            judged = judge.judge(request.reference, policy, request.secrets)
            return ImageFinding(request.id, known, signer=_shorten(judged.signer), rule=_shorten(judged.rule))
        return ImageFinding(request.id, known)
    except SchedkitError as error:
        return ImageFinding(
            request.id,
            known,
            reason=error.reason,
            message=_shorten(error.message),
            refused=isinstance(error, Refusal),
            retry_after=error.retry_after if isinstance(error, UnavailableError) else None,
        )
    except MemoryError:
        message = f"{request.reference}: there is more to read than a verification may take memory for"
        return ImageFinding(request.id, known, reason="BadData", message=message)
    except BaseException as error:  # strangers wrote what was read: nothing of it, such as a panic, ends the process
        message = _shorten(f"{request.reference}: it cannot be verified: {type(error).__name__}: {error}")
        return ImageFinding(request.id, known, reason="Internal", message=message)


def _shorten(text: str) -> str:
    shown = clean(" ".join(text.split()))
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


if __name__ == "__main__":
    main()
