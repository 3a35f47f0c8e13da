"""What to tell of an answer that is not the one that was asked for."""

import json

from schedkit.errors import BadDataError, NoPermissionError, NotFoundError, SchedkitError, UnavailableError
from schedkit.images.credentials import IDENTITY, Found
from schedkit.images.transport import Answer, parse_retry_after

LONGEST_WORDS = 200


def explain_refusal(answer: Answer, registry: str, about: str, found: Found) -> SchedkitError:
    """An error of the kind that its status means, with what the registry says itself."""
    said = f": {words}" if (words := parse_words(answer.body)) else ""
    if answer.status in (401, 403):
        return _explain_login(registry, about, found, said)
    if answer.status == 404:
        return NotFoundError(
            f"{about} does not exist at {registry}{said}", hint="`schedctl versions NAME` lists the tags"
        )
    if answer.status == 429 or answer.status >= 500:
        return _explain_unavailable(answer, registry, about, said)
    return BadDataError(f"{about}: {registry} answers with HTTP {answer.status}{said}")


def _explain_unavailable(answer: Answer, registry: str, about: str, said: str) -> UnavailableError:
    if answer.status == 429:
        error = UnavailableError(
            f"{about}: {registry} says that there were too many requests{said}",
            hint=f"wait a while, or log in for a larger share: podman login {registry}",
        )
    else:
        error = UnavailableError(f"{about}: {registry} has an internal error (HTTP {answer.status}){said}")
    error.retry_after = parse_retry_after(answer.headers.get("retry-after", ""))
    return error


def _explain_login(registry: str, about: str, found: Found, said: str) -> NoPermissionError:
    problems = "".join(f"; {problem}" for problem in found.problems)
    if not found.credentials:
        return NoPermissionError(
            f"{about}: {registry} requires credentials, or there is no such repository{said}",
            hint=f"podman login {registry} (docker login works too){problems}",
        )
    who = found.credentials.username
    login = "the identity token of your login" if who == IDENTITY else f"the login of {clean(who)}"
    return NoPermissionError(
        f"{about}: {registry} refuses {login}{said}",
        hint=f"it may not read this repository, or must log in again: podman login {registry}{problems}",
    )


def parse_words(body: bytes) -> str:
    """The sentence in a registry's error, fit to be shown on a terminal; empty if there is none."""
    try:
        document = json.loads(body)
        error = document["errors"][0]
        words = error.get("message") or error.get("code") or ""
    except (ValueError, RecursionError, TypeError, KeyError, IndexError, AttributeError):
        return ""
    return clean(words) if isinstance(words, str) else ""


def clean(text: str) -> str:
    """Remove what could change a terminal, and shorten what is too long."""
    shown = "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))
    return shown if len(shown) <= LONGEST_WORDS else f"{shown[:LONGEST_WORDS]}…"
