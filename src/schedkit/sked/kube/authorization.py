"""Who may ask us things: the API server knows the caller (TokenReview) and the rules (SubjectAccessReview)."""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

import msgspec

from schedkit.errors import SchedkitError
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Model
from schedkit.sked.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS

YES_SECONDS = 60.0
NO_SECONDS = 10.0
REMEMBERED = 1024
ANSWER_SECONDS = 10.0
_logger = logging.getLogger(__name__)


class AuthorizationVerdict(Enum):
    """What became of a request to be let in."""

    ALLOWED = "allowed"
    UNKNOWN_CALLER = "unknown caller"
    FORBIDDEN = "forbidden"
    UNDECIDED = "undecided"  # the API server did not respond, so nobody gets in


class UserInfo(Model, frozen=True):
    """A caller, as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class _TokenSpec(Model, frozen=True):
    token: str = ""


class _TokenStatus(Model, frozen=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()


class _TokenReview(Model, frozen=True):
    spec: _TokenSpec = _TokenSpec()
    status: _TokenStatus = _TokenStatus()


class _Attributes(Model, frozen=True):
    path: str
    verb: str


class _AccessSpec(Model, frozen=True):
    user: str
    uid: str
    groups: tuple[str, ...]
    extra: dict[str, list[str]]
    non_resource_attributes: _Attributes


class _AccessStatus(Model, frozen=True):
    allowed: bool = False


class _AccessRequest(Model, frozen=True):
    spec: _AccessSpec


class _AccessAnswer(Model, frozen=True):
    status: _AccessStatus = _AccessStatus()


class Gate:
    """Asks the API server about each caller, and remembers for a short time what it said."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        # By a digest: the tokens themselves need not lie in memory.
        self._known: OrderedDict[tuple[bytes, str, str], tuple[float, AuthorizationVerdict]] = OrderedDict()

    async def judge(self, authorization: str, path: str, verb: str) -> AuthorizationVerdict:
        """Whether the bearer of a token may do this to this path."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return AuthorizationVerdict.UNKNOWN_CALLER
        key = (hashlib.sha256(token.encode(errors="surrogateescape")).digest(), path, verb)
        until, verdict = self._known.get(key, (0.0, AuthorizationVerdict.UNDECIDED))
        if self._clock() < until:
            return verdict
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                verdict = await self._ask(token, path, verb)
        except (SchedkitError, TimeoutError) as error:
            _logger.warning("caller not checked", extra=fields(path=path, error=str(error) or "no answer"))
            return AuthorizationVerdict.UNDECIDED
        self._known[key] = (
            self._clock() + (YES_SECONDS if verdict is AuthorizationVerdict.ALLOWED else NO_SECONDS),
            verdict,
        )
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return verdict

    async def _ask(self, token: str, path: str, verb: str) -> AuthorizationVerdict:
        review = await self._client.create(
            TOKEN_REVIEWS, _TokenReview, _TokenReview(spec=_TokenSpec(token=token)), repeatable=True
        )
        if not review.status.authenticated:
            return AuthorizationVerdict.UNKNOWN_CALLER
        user = review.status.user
        asked = _AccessSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            non_resource_attributes=_Attributes(path=path, verb=verb),
        )
        answer = await self._client.create(
            SUBJECT_ACCESS_REVIEWS, _AccessAnswer, _AccessRequest(spec=asked), repeatable=True
        )
        return AuthorizationVerdict.ALLOWED if answer.status.allowed else AuthorizationVerdict.FORBIDDEN
