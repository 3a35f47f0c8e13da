"""Requests to one registry or mirror: which scheme it speaks, and the login it wants."""

import re
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import NamedTuple, TypeVar

from schedkit.errors import BadDataError, UnavailableError
from schedkit.images.authorization import Authorization
from schedkit.images.challenge import parse_challenges
from schedkit.images.credentials import Found
from schedkit.images.failures import FailedRequestError, explain_failure
from schedkit.images.reference import HUB
from schedkit.images.refusals import explain_refusal
from schedkit.images.settings import is_loopback
from schedkit.images.transport import Answer, BrokenStreamError, Response, Transport, is_same_origin

HUB_API = "registry-1.docker.io"
LARGEST_REFUSAL = 64 * 1024
MOST_PAGES = 200
LONGEST_LINK = 4096
_NEXT = r'<([^>]*)>\s*;[^,]*\brel="?next"?'

Sent = TypeVar("Sent", Answer, Response)


class Endpoint(NamedTuple):
    """One repository at one server."""

    registry: str  # host[:port], as logins and people name it
    path: str

    @property
    def authority(self) -> str:
        """The host[:port] that is really asked."""
        return HUB_API if self.registry == HUB else self.registry


class RegistryClient:
    """Gets things from endpoints; safe to share between threads."""

    def __init__(self, transport: Transport, find: Callable[[str, str], Found]) -> None:
        self._transport = transport
        self._find = find
        self._authorization = Authorization(transport, find)
        self._bases: dict[str, str] = {}
        self._lock = Lock()

    def fetch(
        self, endpoint: Endpoint, tail: str, *, about: str, limit: int, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A whole answer, of any status."""
        return self._fetch_url(endpoint, self._url(endpoint, tail, about), about, limit, headers or {})

    def fetch_good(
        self, endpoint: Endpoint, tail: str, *, about: str, limit: int, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A whole answer with status 200; all others are errors."""
        answer = self.fetch(endpoint, tail, about=about, limit=limit, headers=headers)
        if answer.status != 200:
            raise self.explain(endpoint, answer, about)
        return answer

    def fetch_rest(self, endpoint: Endpoint, first: Answer, *, about: str, limit: int) -> Iterator[Answer]:
        """The pages that follow a first one, as its Link header names the next."""
        page, seen = first, {first.url}
        while found := re.search(_NEXT, page.headers.get("link", "")[:LONGEST_LINK]):
            url = self._transport.follow(page.url, found[1], about)
            if not is_same_origin(url, page.url):
                raise BadDataError(f"{about}: {endpoint.registry} continues its list on another server")
            if url in seen or len(seen) >= MOST_PAGES:
                raise BadDataError(f"{about}: the list of {endpoint.registry} does not end")
            seen.add(url)
            page = self._fetch_url(endpoint, url, about, limit, {})
            if page.status != 200:
                raise self.explain(endpoint, page, about)
            yield page

    def open(self, endpoint: Endpoint, tail: str, *, about: str, headers: Mapping[str, str]) -> Response:
        """An answer with its body to come, with status 200 or 206; all others are errors."""
        url = self._url(endpoint, tail, about)

        def send(sent: Mapping[str, str]) -> Response:
            return self._transport.open(url, about=about, headers=sent)

        response = self._send(endpoint, url, about, headers, send)
        if response.status in (200, 206):
            return response
        try:
            body = response.read(LARGEST_REFUSAL)[:LARGEST_REFUSAL]
        except BrokenStreamError:  # the status says enough
            body = b""
        raise self.explain(endpoint, Answer(response.url, response.status, response.headers, body), about)

    def explain(self, endpoint: Endpoint, answer: Answer, about: str) -> Exception:
        """The error that an answer means."""
        return explain_refusal(answer, endpoint.registry, about, self._find(endpoint.registry, endpoint.path))

    def probe(self, registry: str) -> None:
        """Ask once whether a registry is there; UnavailableError or NoAnswerError if not."""
        endpoint = Endpoint(registry, "")
        url = f"{self._base(endpoint.authority, registry)}/v2/"
        response = self._send_once(url, registry)
        response.discard()
        if response.status >= 500:
            raise UnavailableError(f"{registry} has an internal error (HTTP {response.status})")

    def is_plain(self, registry: str) -> bool:
        """Whether this registry turned out to speak plain HTTP."""
        return self._bases.get(Endpoint(registry, "").authority, "").startswith("http:")

    def _fetch_url(self, endpoint: Endpoint, url: str, about: str, limit: int, headers: Mapping[str, str]) -> Answer:
        def send(sent: Mapping[str, str]) -> Answer:
            return self._transport.fetch(url, about=about, limit=limit, headers=sent)

        return self._send(endpoint, url, about, headers, send)

    def _send(
        self,
        endpoint: Endpoint,
        url: str,
        about: str,
        headers: Mapping[str, str],
        send: Callable[[Mapping[str, str]], Sent],
    ) -> Sent:
        """Send with the login that worked last, and once more with a new one if the server asks for it.

        A login is for the endpoint's own origin: a list that is redirected elsewhere goes on there without one.
        """
        base = self._base(endpoint.authority, about)
        if not is_same_origin(url, base):
            return send(headers)
        known = self._authorization.known(base, endpoint.path)
        answer = send(dict(headers) | ({"Authorization": known} if known else {}))
        if answer.status != 401 or not is_same_origin(answer.url, base):
            return answer
        challenges = parse_challenges(answer.headers.get("www-authenticate", ""))
        new = self._authorization.fetch(base, endpoint.registry, endpoint.path, challenges, refused=known, about=about)
        if not new:
            return answer
        if isinstance(answer, Response):
            answer.discard()
        return send(dict(headers) | {"Authorization": new})

    def _url(self, endpoint: Endpoint, tail: str, about: str) -> str:
        return f"{self._base(endpoint.authority, about)}/v2/{endpoint.path}/{tail}"

    def _base(self, authority: str, about: str) -> str:
        """scheme://host[:port]: TLS, unless the host may be plain and turns out to be."""
        with self._lock:
            if authority not in self._bases:
                self._bases[authority] = f"{self._find_scheme(authority, about)}://{authority}"
            return self._bases[authority]

    def _find_scheme(self, authority: str, about: str) -> str:
        settings = self._transport.settings
        if not settings.may_be_plain(authority):
            return "https"
        # On loopback nothing is lost by asking in plain words first; a TLS server answers those with 400 or hangs up.
        plain_first = is_loopback(authority) and authority not in settings.insecure
        failed: tuple[str, FailedRequestError] | None = None
        for scheme in ("http", "https") if plain_first else ("https", "http"):
            url = f"{scheme}://{authority}/v2/"
            try:
                response = self._transport.send(url, {})
            except FailedRequestError as error:
                failed = url, error
                continue
            response.discard()
            if scheme == "https" or response.status != 400:
                return scheme
        if failed is None:
            return "http"
        raise explain_failure(about, *failed) from failed[1]

    def _send_once(self, url: str, about: str) -> Response:
        try:
            return self._transport.send(url, {})
        except FailedRequestError as error:
            raise explain_failure(about, url, error) from error
