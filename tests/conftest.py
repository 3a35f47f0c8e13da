"""Fixtures of the lab, and tests that are coroutines."""

import asyncio
import functools
import inspect
from typing import Any

import pytest

pytest_plugins = ["lab.testing"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run an `async def test_…` in an event loop of its own."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(test := item.obj):

        @functools.wraps(test)
        def run(*arguments: Any, **named: Any) -> None:
            asyncio.run(test(*arguments, **named))

        item.obj = run
