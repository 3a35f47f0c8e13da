"""Logging in one line a record: text with key=value, or JSON. What looks like a secret is never written."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

Format = Literal["text", "json"]
# Bearer and basic credentials, and anything shaped like a JSON Web Token.
_SECRETS = re.compile(r"(?i:\b(bearer|basic)\s+)[\w\-.~+/=]{8,}|\beyJ[\w\-]+\.[\w\-]+\.[\w\-]*")
_PLAIN = re.compile(r"[\w\-.:/@+]+")


def fields(**values: object) -> dict[str, dict[str, object]]:
    """What a record is about, for a logger's `extra`: `logger.info("created", extra=fields(key=key))`."""
    return {"fields": values}


def redact(text: str) -> str:
    """The text without what looks like credentials."""
    return _SECRETS.sub(lambda match: f"{match[1] or ''} [redacted]".strip(), text)


class TextFormatter(logging.Formatter):
    """2026-01-02T03:04:05.678Z INFO  logger: message key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback, asked for with exc_info, follows on its own lines."""
        pairs = "".join(f" {name}={_quote(str(value))}" for name, value in _fields_of(record).items())
        line = f"{_time_of(record)} {record.levelname:<7} {record.name}: {record.getMessage()}{pairs}"
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return redact(line.replace("\n", " ") + trace)


class JsonFormatter(logging.Formatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's own members first, then its fields, as text where they are not plain values."""
        entry: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name, value in _fields_of(record).items():
            plain = value is None or isinstance(value, bool | int | float)
            entry.setdefault(name, value if plain else redact(str(value)))
        if record.exc_info:
            entry["trace"] = redact(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


def configure(*, level: str = "info", format: Format = "text", stream: TextIO | None = None) -> None:
    """Send all logging to one stream (stderr unless told); what other libraries say counts from warnings on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("schedkit").setLevel(level.upper())


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    found = getattr(record, "fields", None)
    return found if isinstance(found, dict) else {}


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"


def _quote(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
