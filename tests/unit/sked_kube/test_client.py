"""How requests are tried again, against a server that fails on command; the integration tests ask a real one."""

import asyncio

import pytest
from aiohttp import web

from schedkit.sked.kube.client import ATTEMPTS, Client
from schedkit.sked.kube.config import Access
from schedkit.sked.kube.connection import NeverSentError
from schedkit.sked.kube.credentials import ApiIdentity, FixedCredentials
from schedkit.sked.kube.errors import (
    ApiAlreadyExistsError,
    ApiConflictError,
    ApiError,
    ApiExpiredError,
    ApiForbiddenError,
    ApiInvalidError,
    ApiNotFoundError,
    ApiStatus,
    ApiTooManyRequestsError,
    ApiUnauthorizedError,
    ConnectionLostError,
    UnexpectedAnswerError,
    make_api_error,
)
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Object
from schedkit.sked.kube.resources import Resource
from tests.unit.sked_kube.tools import Naps, fake_client, fake_server, status

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
GOOD = {"metadata": {"name": "a"}}


class Script:
    """A server that answers from a list, and then always well."""

    def __init__(self, *answers: web.Response | None) -> None:
        self.answers = list(answers)
        self.requests: list[web.Request] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        await request.read()
        answer = self.answers.pop(0) if self.answers else web.json_response(GOOD)
        if answer is None:  # drop the connection
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return answer


async def test_storm_of_429_is_waited_out_as_the_server_says() -> None:
    script, naps = Script(*(status(429, "TooManyRequests", Retry_After="2") for _ in range(4))), Naps()
    async with fake_client(script, naps=naps) as client:
        assert (await client.fetch(NODES, Object, "a")).metadata.name == "a"
        assert len(naps.seconds) == 4
        assert min(naps.seconds) > 2, "jitter comes on top: all who were refused would come back at once"


async def test_429_is_tried_again_for_a_create_too() -> None:
    script = Script(status(429, "TooManyRequests"))
    async with fake_client(script) as client:
        await client.create(NODES, Object, Object())
    assert [request.method for request in script.requests] == ["POST", "POST"]


async def test_patience_has_an_end() -> None:
    script, naps = Script(*(status(429, "TooManyRequests") for _ in range(50))), Naps()
    async with fake_client(script, naps=naps) as client:
        with pytest.raises(ApiTooManyRequestsError):
            await client.fetch(NODES, Object, "a")
    assert len(script.requests) == ATTEMPTS
    script = Script(status(429, "TooManyRequests", Retry_After="3600"))
    async with fake_client(script, naps=naps) as client:
        with pytest.raises(ApiTooManyRequestsError) as raised:
            await client.fetch(NODES, Object, "a")
    assert raised.value.retry_after == 3600
    assert len(script.requests) == 1


@pytest.mark.parametrize("failure", [500, 502, 503, 504, None])
async def test_reading_is_tried_again_after_server_errors_and_lost_connections(failure: int | None) -> None:
    answers = [status(failure) if failure else None for _ in range(2)]
    script = Script(*answers)
    async with fake_client(script) as client:
        assert (await client.fetch(NODES, Object, "a")).metadata.name == "a"
    assert len(script.requests) == 3


@pytest.mark.parametrize("failure", [500, 504, None])
async def test_create_is_not_sent_twice_when_it_may_have_been_done(failure: int | None) -> None:
    script = Script(status(failure) if failure else None)
    async with fake_client(script) as client:
        with pytest.raises(ApiError if failure else ConnectionLostError):
            await client.create(NODES, Object, Object())
        assert len(script.requests) == 1
        script.answers.append(status(failure) if failure else None)
        with pytest.raises(ApiError if failure else ConnectionLostError):
            await client.patch(NODES, Object, "a", [{"op": "add"}], kind="json")
        assert len(script.requests) == 2
        script.answers.append(status(failure) if failure else None)
        await client.create(NODES, Object, Object(), repeatable=True)
        assert len(script.requests) == 4


async def test_create_is_sent_again_when_the_server_says_so_or_was_never_reached() -> None:
    script = Script(status(503, "ServiceUnavailable", Retry_After="1"))
    async with fake_client(script) as client:
        await client.create(NODES, Object, Object())
    assert len(script.requests) == 2
    naps = Naps()
    nowhere = Access(server="http://127.0.0.1:9", credentials=FixedCredentials(ApiIdentity()))
    async with Client(nowhere, sleep=naps) as client:
        with pytest.raises(NeverSentError, match="create nodes: cannot connect to 127"):
            await client.create(NODES, Object, Object())
    assert len(naps.seconds) == ATTEMPTS - 1


class Renewable:
    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    async def fetch(self) -> ApiIdentity:
        return ApiIdentity(f"Bearer {self._tokens[0]}")

    def forget(self, refused: ApiIdentity) -> None:
        if len(self._tokens) > 1 and refused.authorization.endswith(self._tokens[0]):
            self._tokens.pop(0)


async def test_refused_credentials_are_renewed_once() -> None:
    async def answer(request: web.Request) -> web.Response:
        good = request.headers["Authorization"] == "Bearer new"
        return web.json_response(GOOD) if good else status(401, "Unauthorized", "Unauthorized")

    async with fake_client(answer, credentials=Renewable("old", "new")) as client:
        assert (await client.fetch(NODES, Object, "a")).metadata.name == "a"
    async with fake_client(answer, credentials=Renewable("old", "older", "new")) as client:
        with pytest.raises(ApiUnauthorizedError):
            await client.fetch(NODES, Object, "a")
    async with fake_client(answer, credentials=Renewable("old")) as client:
        with pytest.raises(ApiUnauthorizedError) as raised:
            await client.fetch(NODES, Object, "a")
        assert "old" not in raised.value.message.replace("unauthorized", "")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (403, "Forbidden", ApiForbiddenError),
        (404, "NotFound", ApiNotFoundError),
        (409, "AlreadyExists", ApiAlreadyExistsError),
        (409, "Conflict", ApiConflictError),
        (410, "Expired", ApiExpiredError),
        (410, "Gone", ApiExpiredError),
        (422, "Invalid", ApiInvalidError),
        (409, "", ApiConflictError),
        (404, "", ApiNotFoundError),
        (418, "Teapot", ApiError),
    ],
)
async def test_refusals_are_types_that_carry_the_status(code: int, reason: str, kind: type[ApiError]) -> None:
    script = Script(status(code, reason, "because"))
    async with fake_client(script) as client:
        with pytest.raises(kind, match="get Node a: because") as raised:
            await client.fetch(NODES, Object, "a")
    assert type(raised.value) is kind
    assert (raised.value.code, raised.value.status_reason) == (code, reason)
    assert len(script.requests) == 1


async def test_refusal_of_the_object_itself_is_permanent_and_not_sent_again() -> None:
    typed = "failed to create typed patch object (n/a; apps/v1, Kind=DaemonSet): .spec.x: field not declared in schema"

    script = Script(status(500, "", typed))
    async with fake_client(script) as client:
        with pytest.raises(ApiError, match="field not declared") as raised:
            await client.apply(NODES, Object, "a", Object())
    assert raised.value.is_permanent
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("code", "reason", "message", "permanent"),
    [
        (400, "BadRequest", "invalid object type", True),
        (403, "Forbidden", "exceeded quota", True),
        (413, "RequestEntityTooLarge", "limit is 3145728", True),
        (422, "Invalid", "spec.x: Unsupported value", True),
        (500, "", "failed to convert new object (n/a; apps/v1, Kind=DaemonSet) to proper version: quantities", True),
        (500, "", "etcdserver: request is too large", True),
        (500, "", "etcdserver: request timed out", False),
        (500, "InternalError", 'Internal error occurred: failed calling webhook "w": connection refused', False),
        (500, "InternalError", "failed to create typed patch object, says a webhook", False),
        (401, "Unauthorized", "", False),
        (404, "NotFound", "", False),
        (409, "Conflict", "", False),
        (429, "TooManyRequests", "", False),
        (503, "ServiceUnavailable", "", False),
    ],
)
def test_permanent_is_what_only_a_change_can_help(code: int, reason: str, message: str, permanent: bool) -> None:
    error = make_api_error(ApiStatus(code=code, reason=reason, message=message), "apply Thing a")
    assert error.is_permanent is permanent


async def test_page_of_a_proxy_is_an_error_too() -> None:
    page = web.Response(status=403, body=b"<html>no\xff</html>", content_type="text/html")
    async with fake_client(Script(page)) as client:
        with pytest.raises(ApiForbiddenError, match="no reason given"):
            await client.fetch(NODES, Object, "a")
    async with fake_client(Script(web.Response(body=b"<html>welcome</html>"))) as client:
        with pytest.raises(UnexpectedAnswerError, match="not the expected Object"):
            await client.fetch(NODES, Object, "a")
    redirect = web.Response(status=302, headers={"Location": "http://elsewhere/"})
    async with fake_client(Script(redirect)) as client:
        with pytest.raises(ApiError, match="302"):
            await client.fetch(NODES, Object, "a")


async def test_every_attempt_is_counted() -> None:
    registry = MetricsRegistry()
    async with fake_client(Script(None, None, status(503)), registry=registry) as client:
        await client.fetch(NODES, Object, "a")
    text = registry.render().decode()
    for code in ("503", "<error>", "200"):
        assert f'rest_client_requests_total{{code="{code}",method="GET",host="127.0.0.1:' in text


async def test_refusal_that_arrives_in_parts_is_read_to_its_end() -> None:
    said = b'{"kind": "Status", "code": 422, "reason": "Invalid", "message": "the name is too long"}'

    async def refuse_slowly(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(status=422, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for byte in said:
            await response.write(bytes([byte]))
            await asyncio.sleep(0)  # lets the reader see each part by itself
        return response

    async with fake_client(refuse_slowly) as client:
        with pytest.raises(ApiInvalidError, match="the name is too long"):
            await client.create(NODES, Object, Object())


async def test_text_is_read_up_to_a_limit_and_asked_for_once() -> None:
    script = Script(web.Response(text="x" * 5000), status(503, "ServiceUnavailable"))
    async with fake_client(script) as client:

        async def fetch() -> str:
            return await client.fetch_text(
                NODES, "a", namespace="", subresource="log", query={"k": "v"}, limit_bytes=100, seconds=30
            )

        assert await fetch() == "x" * 100
        assert script.requests[0].path_qs == "/api/v1/nodes/a/log?k=v"
        with pytest.raises(ApiError, match="get log of Node a"):
            await fetch()
    assert len(script.requests) == 2


async def test_program_of_a_person_tries_less_often_and_patches_under_its_own_name() -> None:
    script = Script(*(status(503, "ServiceUnavailable") for _ in range(ATTEMPTS)))
    async with fake_server(script) as address:
        access = Access(server=address, credentials=FixedCredentials(ApiIdentity()))
        async with Client(access, sleep=Naps(), attempts=2) as client:
            with pytest.raises(ApiError, match="patch Node a"):
                await client.patch(NODES, Object, "a", {}, field_manager="someone")
    assert [request.query["fieldManager"] for request in script.requests] == ["someone", "someone"]
