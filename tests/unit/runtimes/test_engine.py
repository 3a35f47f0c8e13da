"""The engine driver against engines that misbehave; how it does with real ones is tests/integration/runtimes."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from schedkit.errors import (
    AlreadyExistsError,
    BadDataError,
    NoAnswerError,
    NoPermissionError,
    NotFoundError,
    SchedkitError,
    UnavailableError,
)
from schedkit.images.oci import Credentials, Source
from schedkit.runtimes import engine as engine_module
from schedkit.runtimes import engine_api
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.engine import Engine
from schedkit.runtimes.model import ContainerSpec
from schedkit.unknown import Unknown
from tests.unit.runtimes.fake_engine import (
    CONFIG,
    DIGEST,
    INSPECTED,
    MANIFEST,
    FakeContent,
    FakeEngine,
    Request,
    ignore_progress,
    run_fake_engine,
)


def inspected(**state: object) -> dict[str, object]:
    return INSPECTED | {"State": {**INSPECTED["State"], **state}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("served", "used"), [("1.41", "/v1.41"), ("1.52", "/v1.44"), ("1.9", "/v1.9"), ("?", "/v1.44")]
)
def test_version_of_the_api_is_one_that_both_know(tmp_path: Path, served: str, used: str) -> None:
    with run_fake_engine(tmp_path / "s", "docker", served) as fake:
        fake.on("GET /images/json", 200, [])
        Engine("docker", fake.socket).fetch_digests()

        assert [request.path for request in fake.requests] == ["/_ping", f"{used}/images/json"]


def test_version_is_what_the_engine_calls_itself(engine: Engine, driver: str) -> None:
    assert engine.fetch_version() == {"podman": "5.4.2", "docker": "26.1.5+dfsg1"}[driver]


def test_running_container_has_a_pid_and_no_end(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/c0ffee/json", 200, inspected(FinishedAt="2026-11-15T13:00:00Z"))

    container = engine.fetch_container("c0ffee")

    assert (container.name, container.state, container.pid) == ("idle", ContainerState.RUNNING, 740)
    assert (container.exit_code, container.finished) == (None, None), "an earlier end is not this one's"
    assert container.started == datetime(2026, 11, 15, 13, 58, 11, 518198, UTC)


def test_state_that_nobody_knows_is_unknown(engine: Engine, fake: FakeEngine, driver: str) -> None:
    fake.on("GET /containers/c0ffee/json", 200, inspected(Status="hibernating"))

    assert engine.fetch_container("c0ffee").state == Unknown(f"{driver} calls it 'hibernating'")


def test_container_that_goes_while_we_list_is_left_out(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/json", 200, [{"Id": "c0ffee"}, {"Id": "gone"}])
    fake.on("GET /containers/c0ffee/json", 200, inspected())

    assert [container.id for container in engine.fetch_containers()] == ["c0ffee"]
    assert json.loads(fake.requests[1].query["filters"]) == {"label": ["provider=schedkit"]}


def test_containers_of_one_second_are_listed_oldest_first(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/json", 200, [{"Id": "second", "Created": 1}, {"Id": "first", "Created": 1}])
    for id, created in (("first", "2026-11-15T13:58:11.5Z"), ("second", "2026-11-15T13:58:11.51Z")):
        fake.on(f"GET /containers/{id}/json", 200, inspected() | {"Id": id, "Created": created})

    assert [container.id for container in engine.fetch_containers()] == ["first", "second"]


def test_container_that_cannot_be_inspected_is_not_left_out(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/json", 200, [{"Id": "c0ffee"}])
    fake.on("GET /containers/c0ffee/json", 500, {"message": "database is locked"})

    with pytest.raises(SchedkitError, match="database is locked"):
        engine.fetch_containers()


def test_hung_engine_ends_in_an_error_that_names_it_and_the_call(
    engine: Engine, fake: FakeEngine, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_api, "CHANGE_SECONDS", 0.05)
    fake.hang_on("POST /containers/c0ffee/start")

    with pytest.raises(NoAnswerError, match=f"{driver} did not respond within 0.05 s when asked to start container"):
        engine.start("c0ffee")


def test_drip_of_bytes_does_not_stretch_the_time(
    engine: Engine, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_api, "READ_SECONDS", 0.1)

    def drip(request: Request) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        while not fake.released.wait(0.01):
            request.wfile.write(b" ")

    fake.replies["GET /images/json"] = drip

    with pytest.raises(NoAnswerError, match="list images"):
        engine.fetch_digests()


def test_wait_is_none_only_when_the_engine_says_that_it_runs(engine: Engine, fake: FakeEngine) -> None:
    fake.hang_on("POST /containers/c0ffee/wait")
    fake.on("GET /containers/c0ffee/json", 200, inspected())

    assert engine.wait("c0ffee", 0.05) is None
    assert engine.wait("c0ffee", 0) is None


def test_wait_at_a_hung_engine_is_an_error(engine: Engine, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_api, "READ_SECONDS", 0.05)
    fake.hang_on("POST /containers/c0ffee/wait")
    fake.hang_on("GET /containers/c0ffee/json")

    with pytest.raises(NoAnswerError, match="inspect container c0ffee"):
        engine.wait("c0ffee", 0.05)


def test_end_that_comes_with_the_timeout_is_told(engine: Engine, fake: FakeEngine) -> None:
    fake.hang_on("POST /containers/c0ffee/wait")
    fake.on("GET /containers/c0ffee/json", 200, inspected(Status="exited", ExitCode=3))

    assert engine.wait("c0ffee", 0.05) == 3


def test_wait_for_one_that_never_ran_is_an_error(engine: Engine, fake: FakeEngine) -> None:
    fake.on("POST /containers/c0ffee/wait", 200, {"StatusCode": 0})
    fake.on("GET /containers/c0ffee/json", 200, inspected(Status="created", StartedAt="0001-01-01T00:00:00Z"))

    with pytest.raises(SchedkitError, match="idle was never started"):
        engine.wait("c0ffee", 1)


def test_wait_tells_of_a_container_removed_meanwhile(engine: Engine, fake: FakeEngine) -> None:
    told = {"StatusCode": -1, "Error": {"Message": "no such container"}}
    fake.on("POST /containers/c0ffee/wait", 200, told)

    with pytest.raises(NotFoundError):
        engine.wait("c0ffee", 1)


def test_engine_that_breaks_off_is_unavailable(engine: Engine, fake: FakeEngine, driver: str) -> None:
    fake.replies["GET /images/json"] = lambda _: None

    with pytest.raises(UnavailableError, match=f"{driver} at .* broke off when asked to list images"):
        engine.fetch_digests()


def test_engine_that_went_away_is_unavailable(tmp_path: Path, driver: str) -> None:
    with pytest.raises(UnavailableError, match="No such file"):
        Engine(driver, str(tmp_path / "none")).fetch_version()


@pytest.mark.parametrize("body", [b"", b"[{", b"3", b'[{"Created": 1}]', b"[3]", b"[" * 100_000])
def test_answer_without_sense_is_bad_data(engine: Engine, fake: FakeEngine, body: bytes) -> None:
    fake.on("GET /containers/json", 200, body)

    with pytest.raises(BadDataError, match="list containers"):
        engine.fetch_containers()


def test_inspection_without_sense_is_bad_data(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/c0ffee/json", 200, INSPECTED | {"State": {"Status": "running"}})

    with pytest.raises(BadDataError, match="inspect container c0ffee"):
        engine.fetch_container("c0ffee")


def test_endless_answer_is_cut_off(engine: Engine, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.runtimes.unix_http._MOST", 100)
    fake.on("GET /images/json", 200, b"[" + b" " * 1000 + b"]")

    with pytest.raises(BadDataError, match="more than 100 bytes"):
        engine.fetch_digests()


def test_logs_come_out_of_their_frames(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/c0ffee/json", 200, inspected())
    frames = b"\1\0\0\0\0\0\0\4out\n" + b"\2\0\0\0\0\0\0\0" + b"\2\0\0\0\0\0\0\4err\n" + b"\1\0\0\0\0\0\0\x09torn"
    fake.on("GET /containers/c0ffee/logs", 200, frames)

    assert b"".join(engine.stream_logs("c0ffee", tail=5)) == b"out\nerr\ntorn"
    query = fake.requests[-1].query
    assert (query["follow"], query["tail"], query["stdout"], query["stderr"]) == ("0", "5", "1", "1")


def test_times_of_lines_are_asked_of_the_engine(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/c0ffee/json", 200, inspected())
    fake.on("GET /containers/c0ffee/logs", 200, b"")
    for timestamps in (False, True):
        list(engine.stream_logs("c0ffee", timestamps=timestamps))
    assert [request.query.get("timestamps") for request in fake.requests if request.path.count("/logs")] == [None, "1"]


def test_container_gets_another_name_unless_one_has_it(engine: Engine, fake: FakeEngine) -> None:
    fake.on("POST /containers/c0ffee/rename", 204)
    engine.rename("c0ffee", "mine")
    assert fake.requests[-1].query == {"name": "mine"}

    fake.on("POST /containers/c0ffee/rename", 409, {"message": 'the name "/mine" is already in use by container "x"'})
    with pytest.raises(AlreadyExistsError, match="name mine is already in use"):
        engine.rename("c0ffee", "mine")

    fake.on("POST /containers/c0ffee/rename", 404, {"message": "no such container"})
    with pytest.raises(NotFoundError):
        engine.rename("c0ffee", "mine")


def test_container_without_privileges_has_what_loading_takes(engine: Engine, fake: FakeEngine) -> None:
    fake.has_image()
    fake.on("POST /containers/create", 201, {"Id": "c0ffee"})

    def create(**words: bool) -> dict[str, object]:
        engine.create(FakeContent(), ContainerSpec("idle", **words))  # type: ignore[arg-type]
        host: dict[str, object] = json.loads(fake.requests[-1].body)["HostConfig"]
        return host

    usual, least = create(), create(unprivileged=True)
    assert usual["Privileged"] is True
    assert "CapAdd" not in usual
    assert (least["Privileged"], least["CapDrop"]) == (False, ["ALL"])
    assert least["CapAdd"] == ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"]
    assert "no-new-privileges" in least["SecurityOpt"]  # type: ignore[operator]
    assert (least["PidMode"], least["Binds"]) == (usual["PidMode"], usual["Binds"])


def test_followed_logs_may_be_silent_for_long(
    engine: Engine, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "READ_SECONDS", 0.2)
    fake.on("GET /containers/c0ffee/json", 200, inspected())

    def hesitate(request: Request) -> None:
        fake.released.wait(0.5)
        request.say(200, b"\1\0\0\0\0\0\0\4out\n")

    fake.replies["GET /containers/c0ffee/logs"] = hesitate

    assert b"".join(engine.stream_logs("c0ffee", follow=True)) == b"out\n"
    with pytest.raises(NoAnswerError, match="read the logs"):
        list(engine.stream_logs("c0ffee"))


def test_logs_of_a_terminal_have_no_frames(engine: Engine, fake: FakeEngine) -> None:
    fake.on("GET /containers/c0ffee/json", 200, INSPECTED | {"Config": {"Tty": True}})
    fake.on("GET /containers/c0ffee/logs", 200, b"plain text\r\n")

    assert b"".join(engine.stream_logs("c0ffee")) == b"plain text\r\n"


def test_container_is_made_of_the_manifest_that_was_verified(engine: Engine, fake: FakeEngine) -> None:
    """Never of its index: of that an engine chooses for itself."""
    fake.has_image()
    fake.on("POST /containers/create", 201, {"Id": "c0ffee"})

    assert engine.create(FakeContent(), ContainerSpec("idle", labels={"provider": "somebody"})) == "c0ffee"

    body = json.loads(fake.requests[-1].body)
    assert body["Image"] == f"ghcr.io/schedkit/scx_idle@{MANIFEST}"
    assert {name: text for name, text in body["Labels"].items() if text} == {
        "provider": "schedkit",
        "org.schedkit.image": "ghcr.io/schedkit/scx_idle:v1",
        "org.schedkit.manifest": MANIFEST,
    }
    assert "Cmd" not in body, "the image's own command stays"


@pytest.mark.parametrize("id", [CONFIG, CONFIG.removeprefix("sha256:"), MANIFEST], ids=["config", "bare", "manifest"])
def test_image_is_known_by_the_id_that_its_engine_gives_it(engine: Engine, fake: FakeEngine, id: str) -> None:
    """The configuration's digest; the manifest's where docker keeps images in containerd's store."""
    fake.has_image(id)

    assert engine.has_image(FakeContent())


def test_another_image_than_the_verified_one_is_refused_before_a_container_is_made(
    engine: Engine, fake: FakeEngine, driver: str
) -> None:
    fake.has_image("sha256:" + "9" * 64)

    for act in (
        lambda: engine.create(FakeContent(), ContainerSpec("idle")),
        lambda: engine.pull(FakeContent(), ignore_progress),
        lambda: engine.has_image(FakeContent()),
    ):
        with pytest.raises(BadDataError, match=f"{CONFIG} was verified") as refused:
            act()
        assert refused.value.hint == f"remove it and try again: {driver} rmi ghcr.io/schedkit/scx_idle@{MANIFEST}"
    assert {request.command for request in fake.requests} == {"GET"}


def test_pull_that_leaves_another_image_or_none_is_refused(engine: Engine, fake: FakeEngine) -> None:
    fake.on("POST /images/create", 200, b"")
    with pytest.raises(BadDataError, match="and does not have it"):
        engine.pull(FakeContent(), ignore_progress)

    fake.pulls(id="sha256:" + "9" * 64)
    with pytest.raises(BadDataError, match=f"{CONFIG} was verified"):
        engine.pull(FakeContent(), ignore_progress)


def test_inspection_of_an_image_without_sense_is_bad_data(engine: Engine, fake: FakeEngine) -> None:
    bodies: list[object] = [{}, [], {"Id": 5}]
    for body in bodies:
        fake.on(f"GET /images/ghcr.io/schedkit/scx_idle@{MANIFEST}/json", 200, body)
        with pytest.raises(BadDataError, match="sent an invalid response"):
            engine.has_image(FakeContent())


def test_answer_to_create_without_an_id_is_bad_data(engine: Engine, fake: FakeEngine) -> None:
    fake.has_image()
    fake.on("POST /containers/create", 201, {"Warnings": []})

    with pytest.raises(BadDataError, match="create container idle"):
        engine.create(FakeContent(), ContainerSpec("idle"))


def test_image_that_is_here_is_not_pulled(engine: Engine, fake: FakeEngine) -> None:
    fake.has_image()

    engine.pull(FakeContent(), ignore_progress)

    assert [request.command for request in fake.requests] == ["GET", "GET"]


def test_pull_counts_the_bytes_of_all_layers(engine: Engine, fake: FakeEngine) -> None:
    lines = [
        {"status": "Pulling from schedkit/scx_idle", "id": DIGEST},
        {"status": "Already exists", "id": "a" * 12},
        {"status": "Downloading", "id": "b" * 12, "progressDetail": {"current": 50, "total": 300}},
        {"status": "Downloading", "id": "b" * 12, "progressDetail": {}},
        {"status": "Extracting", "id": "b" * 12, "progressDetail": {"current": 1, "total": 300}},
    ]
    fake.pulls(body=b"\r\n".join(json.dumps(line).encode() for line in lines))
    told: list[tuple[int, int]] = []

    engine.pull(FakeContent(), lambda done, total: told.append((done, total)))

    assert told == [(0, 400), (100, 400), (150, 400), (150, 400), (400, 400), (400, 400)]
    (pulled,) = [request for request in fake.requests if request.command == "POST"]
    assert pulled.query == {"fromImage": "ghcr.io/schedkit/scx_idle", "tag": MANIFEST}


@pytest.mark.parametrize("told", [[], {}, {"RegistryConfig": {"InsecureRegistryCIDRs": ["x"]}}])
def test_configuration_of_registries_without_sense_is_bad_data(
    engine: Engine, fake: FakeEngine, driver: str, told: object
) -> None:
    fake.on("GET /info", 200, told)
    if driver == "podman":
        assert engine.may_be_plain("localhost:5000")
        assert fake.requests == [], "podman does as it is told"
        return
    with pytest.raises(BadDataError, match="docker was asked to list its insecure registries"):
        engine.may_be_plain("localhost:5000")


def test_insecure_pull_is_asked_of_podman_only(engine: Engine, fake: FakeEngine, driver: str) -> None:
    for path in ("/images/create", "/libpod/images/pull"):
        fake.pulls(path)

    engine.pull(FakeContent(insecure=True), ignore_progress)

    (asked,) = [request for request in fake.requests if request.command == "POST"]
    assert asked.path.startswith({"podman": "/v1.41/libpod/images/pull?", "docker": "/v1.41/images/create?"}[driver])
    assert asked.query.get("tlsVerify") == {"podman": "false", "docker": None}[driver]


@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        (Credentials("me", "hu?sh>"), {"username": "me", "password": "hu?sh>", "serveraddress": "ghcr.io"}),
        (Credentials("<token>", "hush"), {"identitytoken": "hush", "serveraddress": "ghcr.io"}),
    ],
)
def test_credentials_go_into_the_header_and_nowhere_else(
    engine: Engine, fake: FakeEngine, credentials: Credentials, words: dict[str, str]
) -> None:
    fake.on("POST /images/create", 500, {"message": "denied: requested access to the resource is denied"})

    with pytest.raises(NoPermissionError) as raised:
        engine.pull(FakeContent(credentials), ignore_progress)

    assert json.loads(base64.urlsafe_b64decode(fake.requests[-1].headers["X-Registry-Auth"])) == words
    assert credentials.secret not in raised.value.message + raised.value.hint
    assert credentials.secret not in fake.requests[-1].path


MIRROR = Source("mirror.lan/ghcr/schedkit/scx_idle", Credentials("me", "hush"), insecure=False)


def test_mirror_is_pulled_from_and_the_container_is_made_of_what_came_from_there(
    engine: Engine, fake: FakeEngine
) -> None:
    fake.pulls()
    fake.on("POST /containers/create", 201, {"Id": "c0ffee"})
    content = FakeContent(mirrors=[MIRROR])

    engine.pull(content, ignore_progress)
    engine.create(content, ContainerSpec("idle"))

    pulled, created = (request for request in fake.requests if request.command == "POST")
    assert pulled.query == {"fromImage": MIRROR.repository, "tag": MANIFEST}
    assert json.loads(base64.urlsafe_b64decode(pulled.headers["X-Registry-Auth"]))["serveraddress"] == "mirror.lan"
    body = json.loads(created.body)
    assert body["Image"] == f"{MIRROR.repository}@{MANIFEST}"
    assert body["Labels"]["org.schedkit.image"] == content.reference
    assert engine.has_image(content)


def test_registry_is_pulled_from_where_its_mirror_fails_or_sends_another_image(
    engine: Engine, fake: FakeEngine
) -> None:
    def answer(request: Request) -> None:
        if request.query["fromImage"] == MIRROR.repository:
            request.say(200, b'{"error": "manifest unknown"}')
        else:
            fake.has_image()
            request.say(200, b"")

    fake.replies["POST /images/create"] = answer
    engine.pull(FakeContent(mirrors=[MIRROR]), ignore_progress)
    posts = [request for request in fake.requests if request.command == "POST"]
    assert [request.query["fromImage"] for request in posts] == [MIRROR.repository, "ghcr.io/schedkit/scx_idle"]
    assert "X-Registry-Auth" not in posts[1].headers, "the mirror's login is the mirror's"


def test_failure_of_registry_and_mirror_tells_of_both(engine: Engine, fake: FakeEngine) -> None:
    fake.on("POST /images/create", 200, b'{"error": "manifest unknown"}')
    with pytest.raises(NotFoundError, match=r"could not pull ghcr.io/schedkit/scx_idle:v1") as raised:
        engine.pull(FakeContent(mirrors=[MIRROR]), ignore_progress)
    assert f"could not pull {MIRROR.repository}: manifest unknown" in raised.value.hint


def test_error_inside_the_stream_of_a_pull_is_told(engine: Engine, fake: FakeEngine) -> None:
    lines = (
        b'{"status":"Pulling fs layer","id":"aaaaaaaaaaaa"}\n{"errorDetail":{"message":"x"},"error":"unexpected EOF"}\n'
    )
    fake.on("POST /images/create", 200, lines)

    with pytest.raises(UnavailableError, match=r"could not pull ghcr.io/schedkit/scx_idle:v1: unexpected EOF"):
        engine.pull(FakeContent(), ignore_progress)


def test_interrupted_pull_hangs_up(engine: Engine, fake: FakeEngine) -> None:
    hung_up = []

    def trickle(request: Request) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b'{"status":"Already exists","id":"aaaaaaaaaaaa"}\n')
        hung_up.append(request.connection.recv(1) == b"")
        fake.released.set()

    fake.replies["POST /images/create"] = trickle

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.pull(FakeContent(), interrupt)
    assert fake.released.wait(10)
    assert hung_up == [True]


LIES = {"provider": "schedkit", "org.schedkit.verified": "https://github.com/schedkit/x", "org.schedkit.restart": "no"}


@pytest.mark.parametrize("more", [{}, {"org.schedkit.manifest": "sha256:" + "1" * 64}, {"org.schedkit.manifest": ""}])
def test_labels_of_an_image_make_no_container_ours(engine: Engine, fake: FakeEngine, more: dict[str, str]) -> None:
    config = {"Image": f"ghcr.io/evil/x@{DIGEST}", "Labels": LIES | more, "Tty": False}
    fake.on("GET /containers/json", 200, [{"Id": "c0ffee"}])
    fake.on("GET /containers/c0ffee/json", 200, INSPECTED | {"Config": config})
    fake.on(f"GET /images/{INSPECTED['Image']}/json", 200, {"Config": {"Labels": LIES | more}})

    assert engine.fetch_containers() == []
    assert engine.fetch_container("c0ffee").labels == {"provider": "schedkit"}


def test_image_says_nothing_of_the_container_that_is_made_of_it(engine: Engine, fake: FakeEngine) -> None:
    """Its files and its network would be the next container's, after an update."""
    fake.has_image()
    fake.on("POST /containers/create", 201, {"Id": "c0ffee"})
    engine.create(FakeContent(), ContainerSpec("idle", labels={"org.schedkit.restart": "no"}))
    written = json.loads(fake.requests[-1].body)
    image = {"org.schedkit.files": '["/root"]', "org.schedkit.network": "host", "org.schedkit.privileged": "no"}
    config = {"Image": written["Image"], "Labels": image | {"a": ""} | written["Labels"], "Tty": False}
    fake.on("GET /containers/c0ffee/json", 200, INSPECTED | {"Config": config})

    assert engine.fetch_container("c0ffee").labels == {
        "a": "",
        "provider": "schedkit",
        "org.schedkit.image": "ghcr.io/schedkit/scx_idle:v1",
        "org.schedkit.manifest": MANIFEST,
        "org.schedkit.restart": "no",
    }


ODD: list[dict[str, object]] = [
    {"Config": {"Labels": ["provider=schedkit"], "Image": "x"}},
    {"Config": {"Labels": {"provider": "schedkit", "org.schedkit.manifest": DIGEST}}},
    {"Config": {"Labels": {"provider": "schedkit", "org.schedkit.restart": 5}, "Image": "x"}},
    {"Name": None},
    {"State": {**cast("dict[str, object]", INSPECTED["State"]), "Pid": "740"}},
]


@pytest.mark.parametrize("odd", ODD)
def test_inspection_of_another_shape_makes_no_sense(engine: Engine, fake: FakeEngine, odd: dict[str, object]) -> None:
    fake.on("GET /containers/json", 200, [{"Id": "c0ffee"}])
    fake.on("GET /containers/c0ffee/json", 200, INSPECTED | odd)
    fake.on(f"GET /images/{INSPECTED['Image']}/json", 200, {"Config": {}})
    for fetch in (engine.fetch_containers, lambda: engine.fetch_container("c0ffee")):
        with pytest.raises(BadDataError, match="inspect container c0ffee and sent an invalid response"):
            fetch()


@pytest.mark.parametrize("provider", [{}, {"provider": "somebody"}])
def test_container_of_the_go_schedctl_is_ours_and_nothing_its_image_says_of_it_counts(
    engine: Engine, fake: FakeEngine, provider: dict[str, str]
) -> None:
    config = {"Image": "ghcr.io/evil/x:latest", "Labels": LIES, "Tty": False}
    fake.on("GET /containers/json", 200, [{"Id": "c0ffee"}])
    fake.on("GET /containers/c0ffee/json", 200, INSPECTED | {"Config": config})
    own = {name: value for name, value in LIES.items() if name != "provider"}
    fake.on(f"GET /images/{INSPECTED['Image']}/json", 200, {"Config": {"Labels": own | provider}})

    assert [one.labels for one in engine.fetch_containers()] == [{"provider": "schedkit"}]
