"""The verifier's process reads questions and answers them, however little memory there is left."""

import io
import os
import threading
from typing import cast

import msgspec
import pytest

from schedkit.sked.verifier import child
from schedkit.sked.verifier.judge import Judge
from schedkit.sked.verifier.messages import ImageFinding, Question

NO_JUDGE = cast(Judge, None)


def serve(count: int) -> list[ImageFinding]:
    questions = b"".join(msgspec.json.encode(Question(number, "policy")) + b"\n" for number in range(count))
    answers = io.BytesIO()
    child.serve(NO_JUDGE, io.BytesIO(questions), answers)
    return [msgspec.json.decode(line, type=ImageFinding) for line in answers.getvalue().splitlines()]


class Questions(io.BytesIO):
    """Tells how many threads there were when the first question was read, and may fail after it."""

    threads = 0
    fails = False

    def __next__(self) -> bytes:
        if self.threads and self.fails:
            raise MemoryError
        self.threads = self.threads or threading.active_count()
        return super().__next__()


def test_threads_are_there_before_documents_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is started later may have no memory for itself, and who starts it then waits for it forever."""
    before = threading.active_count()
    questions = Questions(msgspec.json.encode(Question(1, "policy")) + b"\n")
    monkeypatch.setattr(child, "answer", lambda _, question: ImageFinding(question.id, "known"))
    child.serve(NO_JUDGE, questions, io.BytesIO())
    assert questions.threads == before + child.THREADS


def test_all_questions_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "answer", lambda _, question: ImageFinding(question.id, "known"))
    assert {finding.id for finding in serve(50)} == set(range(50))


def test_no_memory_for_a_question_is_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    monkeypatch.setattr(child, "answer", lambda _, question: ImageFinding(question.id, "known"))
    questions = Questions(msgspec.json.encode(Question(1, "policy")) + b"\n")
    questions.fails = True
    child.serve(NO_JUDGE, questions, io.BytesIO())
    assert ends == [1]


def test_no_memory_even_for_an_answer_is_the_end_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever waits learns of it at once, not when the time for an answer is over."""
    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)

    def fail(_: Judge, question: Question) -> ImageFinding:
        raise MemoryError

    monkeypatch.setattr(child, "answer", fail)
    assert (serve(1), ends) == ([], [1])
    assert capfd.readouterr().err == "the verifier has no memory for an answer, or a defect\n"


def test_panic_below_the_judge_is_an_answer() -> None:
    """What Rust code panics with is no Exception."""

    class PanicError(BaseException):
        pass

    class Panics:
        def read_policy(self) -> None:
            raise PanicError("index out of bounds")

    found = child.answer(cast(Judge, Panics()), Question(7, "resolve", "example.com/a:v1"))
    assert (found.id, found.reason) == (7, "Internal")
    assert found.message == "example.com/a:v1: it cannot be verified: PanicError: index out of bounds"
