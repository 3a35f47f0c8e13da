"""Commands called in this process, with any click that pyproject.toml allows."""

import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

import pytest
from click.testing import CliRunner, Result

from schedkit.errors import SchedkitError
from schedkit.schedctl.group import schedctl
from tests.documents import missing, undocumented


class _Runner(CliRunner):
    @contextmanager
    def isolation(self, *arguments: Any, **settings: Any) -> Iterator[Any]:
        with super().isolation(*arguments, **settings) as streams:
            assert isinstance(sys.stderr, TextIOWrapper)
            sys.stderr.reconfigure(write_through=True)  # before click 8.2 what was printed to it may stay behind
            yield streams


def make_runner() -> CliRunner:
    """One that keeps stdout and stderr apart, as all do from click 8.2 on."""
    apart: dict[str, Any] = {"mix_stderr": False}
    return _Runner(**{name: apart[name] for name in apart if name in inspect.signature(CliRunner).parameters})


def call(*words: str, code: int = 0, input: str | None = None) -> Result:
    result = make_runner().invoke(schedctl, words, input=input, standalone_mode=False)
    if isinstance(result.exception, SchedkitError):
        assert result.exception.exit_code == code, result.exception.message
    elif result.exception is not None and not isinstance(result.exception, KeyboardInterrupt):
        raise result.exception
    else:
        assert (result.return_value or 0) == code
    return result


def read(*words: str, code: int = 0) -> Any:
    document = json.loads(call(words[0], "-o", "json", *words[1:], code=code).stdout)
    assert document["version"] == "1"
    assert undocumented(words[0], document) == []
    assert missing(words[0], document) == []
    return document


def note(monkeypatch: pytest.MonkeyPatch, module: object, name: str, answer: object) -> list[tuple[Any, ...]]:
    """Put something in a function's place that notes how it is called."""
    calls: list[tuple[Any, ...]] = []

    def stand_in(*arguments: object, **options: object) -> object:
        calls.append((*arguments, options))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(module, name, stand_in)
    return calls
