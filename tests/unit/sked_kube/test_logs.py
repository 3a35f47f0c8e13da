"""Log lines: one a record, structured, without secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from schedkit.sked.kube.logs import Format, configure, fields, redact

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("schedkit")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def written(format: Format, level: str = "info") -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    configure(level=level, format=format, stream=stream)
    return logging.getLogger("schedkit.test"), stream


def test_text_has_fields_and_quotes_what_needs_it() -> None:
    logger, stream = written("text")
    logger.info("created", extra=fields(key="ns/a", why='said "no"\nand left'))
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert line.endswith('INFO    schedkit.test: created key=ns/a why="said \\"no\\"\\nand left"\n')


def test_json_has_fields_as_members() -> None:
    logger, stream = written("json")
    logger.warning("slow", extra=fields(seconds=1.5, key="ns/a", message="not this"))
    entry = json.loads(stream.getvalue())
    assert entry["time"].endswith("Z")
    del entry["time"]
    assert entry == {
        "level": "warning",
        "logger": "schedkit.test",
        "message": "slow",
        "seconds": 1.5,
        "key": "ns/a",
    }


@pytest.mark.parametrize("format", ["text", "json"])
def test_secrets_are_not_written_not_even_in_tracebacks(format: Format) -> None:
    logger, stream = written(format)
    try:
        raise ValueError(f"Authorization: Bearer {TOKEN}")
    except ValueError:
        logger.exception("token %s", TOKEN, extra=fields(header="Basic aHVudGVyMjpodW50ZXIy", other=TOKEN))
    assert TOKEN not in stream.getvalue()
    assert "aHVudGVyMj" not in stream.getvalue()
    assert "ValueError" in stream.getvalue()


def test_words_that_only_look_alike_stay() -> None:
    assert redact("the bearer of bad news") == "the bearer of bad news"
    assert redact("basic auth is off") == "basic auth is off"


def test_level_is_ours_and_others_are_quiet() -> None:
    logger, stream = written("text", "debug")
    logger.debug("ours")
    logging.getLogger("aiohttp").info("theirs")
    assert "ours" in stream.getvalue()
    assert "theirs" not in stream.getvalue()
