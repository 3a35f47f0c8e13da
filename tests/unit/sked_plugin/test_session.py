"""Requests that meet somebody else's, and refusals in words; the integration tests ask a real API server."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from schedkit.sked.kube.errors import ApiConflictError
from schedkit.sked.plugin.session import CONFLICTS, PluginSession
from schedkit.sked.plugin.steering import set_paused
from tests.unit.sked_kube.tools import fake_client, status

ROLLOUT = {"sched": "example.com/scx:1", "rollout": {}}


class ChangingServer:
    """A SchedExt that somebody changes each time before a patch comes, for so many times."""

    def __init__(self, conflicts: int, paused_meanwhile: bool = False) -> None:
        self.conflicts = conflicts
        self.paused_meanwhile = paused_meanwhile
        self.version = 1
        self.patches: list[Any] = []
        self.managers: set[str] = set()

    async def __call__(self, request: web.Request) -> web.Response:
        if request.method == "PATCH":
            self.patches.append(json.loads(await request.read()))
            self.managers.add(request.query["fieldManager"])
            if len(self.patches) <= self.conflicts:
                self.version += 1
                return status(409, "Conflict", "the object has been modified")
        paused = self.paused_meanwhile and self.version > 1
        metadata = {"name": "web", "namespace": "default", "resourceVersion": str(self.version)}
        return web.json_response({"metadata": metadata, "spec": ROLLOUT | {"paused": paused}})


def pause(server: ChangingServer) -> str:
    async def ask() -> str:
        async with fake_client(server) as client:
            session = PluginSession(client, "default")
            return await session.change_resource("web", lambda resource: set_paused(resource, True))

    return asyncio.run(ask())


def test_request_is_decided_again_when_somebody_was_faster() -> None:
    server = ChangingServer(conflicts=2)
    assert pause(server).startswith("web is paused")
    assert [patch["metadata"]["resourceVersion"] for patch in server.patches] == ["1", "2", "3"]
    assert server.managers == {"kubectl-scx"}


def test_request_that_somebody_else_has_made_meanwhile_is_not_made_twice() -> None:
    server = ChangingServer(conflicts=1, paused_meanwhile=True)
    assert pause(server) == "web is paused already"
    assert len(server.patches) == 1


def test_object_that_never_rests_is_given_up_on() -> None:
    server = ChangingServer(conflicts=1000)
    with pytest.raises(ApiConflictError):
        pause(server)
    assert len(server.patches) == CONFLICTS


def test_object_that_cannot_be_understood_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    async def answer(_request: web.Request) -> web.Response:
        good, bad = ({"metadata": {"name": name, "namespace": "default"}, "spec": ROLLOUT} for name in ("good", "bad"))
        return web.json_response({"items": [bad | {"spec": {"sched": 1}}, good]})

    async def fetch() -> list[str]:
        from schedkit.sked.api.types import SchedExt
        from schedkit.sked.plugin.objects import SCHEDEXTS

        async with fake_client(answer) as client:
            found = await PluginSession(client, "default").fetch_all(SCHEDEXTS, SchedExt)
            return [one.metadata.name for one in found]

    assert asyncio.run(fetch()) == ["good"]
    assert capsys.readouterr().err.startswith("warning: SchedExt default/bad is left out: ")
