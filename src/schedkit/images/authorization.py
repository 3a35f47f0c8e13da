"""What goes into Authorization: nothing, a password, or a token that the registry's own server gives for one."""

import base64
import json
from collections.abc import Callable
from threading import Lock
from urllib.parse import urlencode, urlsplit

from schedkit.errors import BadDataError
from schedkit.images.challenge import Challenge
from schedkit.images.credentials import IDENTITY, Found
from schedkit.images.oci import Credentials
from schedkit.images.refusals import explain_refusal
from schedkit.images.transport import Transport

LARGEST_TOKEN = 64 * 1024
CLIENT = "schedkit"


class Authorization:
    """Headers for repositories, each fetched once and kept until the server refuses it."""

    def __init__(self, transport: Transport, find: Callable[[str, str], Found]) -> None:
        self._transport = transport
        self._find = find
        self._known: dict[tuple[str, str], str] = {}
        self._lock = Lock()

    def known(self, base: str, path: str) -> str | None:
        """The header that this repository took last."""
        return self._known.get((base, path))

    def fetch(
        self, base: str, registry: str, path: str, challenges: list[Challenge], *, refused: str | None, about: str
    ) -> str | None:
        """The header that answers a challenge; None if there is none that was not `refused` already."""
        with self._lock:
            known = self._known.get((base, path))
            if known and known != refused:
                return known  # another thread was here first
            header = self._make(base, registry, path, challenges, about)
            if header and header != refused:
                self._known[base, path] = header
                return header
            return None

    def _make(self, base: str, registry: str, path: str, challenges: list[Challenge], about: str) -> str | None:
        by_scheme = {challenge.scheme: challenge for challenge in reversed(challenges)}
        found = self._find(registry, path)
        if bearer := by_scheme.get("bearer"):
            return f"Bearer {self._fetch_token(base, registry, path, bearer, found, about)}"
        if "basic" in by_scheme and found.credentials and found.credentials.username != IDENTITY:
            return _basic(found.credentials)
        return None

    def _fetch_token(self, base: str, registry: str, path: str, challenge: Challenge, found: Found, about: str) -> str:
        stated = challenge.parameters.get("realm", "")
        if "://" not in stated:
            raise BadDataError(f"{about}: {registry} names no token server")
        realm = self._transport.follow(base, stated, about)
        scope = f"repository:{path}:pull"  # never more than this, whatever the challenge names
        query = {"scope": scope}
        if service := challenge.parameters.get("service"):
            query["service"] = service
        credentials = found.credentials
        if credentials and credentials.username == IDENTITY:
            grant = {"grant_type": "refresh_token", "refresh_token": credentials.secret, "client_id": CLIENT}
            answer = self._transport.fetch(realm, about=about, limit=LARGEST_TOKEN, form=query | grant, redirects=False)
        else:
            headers = {"Authorization": _basic(credentials)} if credentials else {}
            mark = "&" if urlsplit(realm).query else "?"
            answer = self._transport.fetch(
                f"{realm}{mark}{urlencode(query)}",
                about=about,
                limit=LARGEST_TOKEN,
                headers=headers,
                redirects=False,
            )
        if answer.status != 200:
            raise explain_refusal(answer, registry, about, found)
        token = _parse_token(answer.body)
        if not token:
            raise BadDataError(f"{about}: {urlsplit(realm).netloc} was asked for a token and gave none")
        return token


def _basic(credentials: Credentials) -> str:
    return "Basic " + base64.b64encode(f"{credentials.username}:{credentials.secret}".encode()).decode()


def _parse_token(body: bytes) -> str | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    token = document.get("token") or document.get("access_token")
    printable = isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
    return token if printable else None
