"""Commands called in this process, with any click that pyproject.toml allows."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

from click.testing import CliRunner


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
