"""What a shell offers after TAB, asked as click's scripts ask, and through bash with our own."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from schedkit.runtimes.local_image import LocalImage
from schedkit.schedctl import completing
from tests.unit.schedctl.fakes import FakeRuntime, make_container
from tests.unit.schedctl.runner import call
from tests.unit.schedctl.test_program import complete, run_in_shell

TAGS = ["latest", "v1.1.4", "v1.1.3"]


class _Tags(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"name": "our_sched", "tags": TAGS}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Tags)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def catalog(registry: str, tmp_path: Path) -> str:
    path = tmp_path / "catalog.json"
    modes = {"gaming": ["--fast"], "server": []}
    path.write_text(json.dumps({"our_sched": {"imageURI": f"{registry}/our_sched", "modes": modes}}))
    return str(path)


def test_versions_are_offered_after_a_colon_and_after_the_option(registry: str, catalog: str) -> None:
    settings = {"SCHEDCTL_CATALOG": catalog}
    assert complete("schedctl", "run", "our_sched:v", **settings) == ["our_sched:v1.1.4", "our_sched:v1.1.3"]
    assert complete("schedctl", "info", f"{registry}/our_sched:l", **settings) == [f"{registry}/our_sched:latest"]
    assert complete("schedctl", "run", "our_sched", "--version", "v1.1.3", **settings) == ["v1.1.3"]
    assert complete("schedctl", "run", "--version", "v", **settings) == []  # of what?
    assert complete("schedctl", "run", f"{registry}/our", **settings) == []  # a port is no tag


def test_modes_are_those_of_the_scheduler(catalog: str) -> None:
    settings = {"SCHEDCTL_CATALOG": catalog}
    assert complete("schedctl", "run", "our_sched", "--mode", "g", **settings) == ["gaming"]
    assert complete("schedctl", "run", "our_sched", "--mode", "p", **settings) == []
    assert complete("schedctl", "run", "--mode", "p", **settings) == ["powersave"]


def test_names_may_be_short_and_test_images_are_offered_only_where_nothing_else_is() -> None:
    assert complete("schedctl", "run", "lav") == ["lavd"]
    assert complete("schedctl", "run", "scx_t") == ["scx_tickless"]
    assert complete("schedctl", "run", "scx_te") == ["scx_test"]
    assert "lavd" not in complete("schedctl", "run", "")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("run scx_rusty --restart o", ["on-failure"]),
        ("help ex", ["exit-codes"]),
        ("help config s", ["set"]),
        ("help json stat", ["status"]),
        ("bench --workload m", ["mixed"]),
        ("config set driver d", ["docker"]),
        ("config set insecure-registries d", []),
    ],
)
def test_words_that_an_option_or_an_argument_takes_are_offered(line: str, offered: list[str]) -> None:
    assert complete("schedctl", *line.split()) == offered


def test_one_of_several_schedulers_is_completed(catalog: str) -> None:
    settings = {"SCHEDCTL_CATALOG": catalog}
    assert complete("schedctl", "bench", "--with", "no", **settings) == ["none"]
    assert complete("schedctl", "bench", "--with", "none,our", **settings) == ["none,our_sched"]


def test_a_registry_that_hangs_costs_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "RESPONSE_SECONDS", 0.05)
    given_up = threading.Event()
    context = click.Context(click.Command("run"))

    def hang(_session: object) -> Any:
        given_up.wait(30)
        return [("late", "")]

    assert completing._offer(context, "", hang) == []
    assert not given_up.is_set()
    given_up.set()


def test_lookups_take_no_longer_than_the_help_says() -> None:
    assert completing.RESPONSE_SECONDS == 3
    assert "within three seconds" in call("completion", "--help").stdout


def test_a_registry_that_is_not_there_is_not_told_of() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert complete("schedctl", "run", f"localhost:{port}/x:v") == []


def test_files_are_left_to_the_shell() -> None:
    assert complete("schedctl", "run", "scx_rusty", "--config", "/etc/ho") == ["/etc/ho"]


@pytest.fixture
def session(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> Any:
    from schedkit.runtimes.view import Runtimes
    from schedkit.schedctl.session import open_session
    from schedkit.schedctl.settings import Flags

    monkeypatch.setattr("schedkit.runtimes.drivers.find_runtimes", lambda *_, **__: Runtimes([runtime]))
    return open_session(Flags())


def test_containers_are_offered_by_name_and_id(session: Any, runtime: FakeRuntime) -> None:
    one = make_container()
    assert [name for name, _ in completing._fetch_containers(session)] == ["scx_rusty", one.id[:12]]


def test_images_are_offered_with_the_names_of_their_schedulers(session: Any, runtime: FakeRuntime) -> None:
    image = "ghcr.io/schedkit/scx_rusty:latest"
    runtime.images = [LocalImage("podman", "sha256:" + "1" * 64, (image,), 1, False)]
    assert [name for name, _ in completing._fetch_images(session)] == ["scx_rusty", image]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("schedctl run our_sched:v", ["v1.1.4", "v1.1.3"]),  # what is before the colon is a word of its own for bash
        ("schedctl run our_sched:", TAGS),
        ("schedctl run our_sched --version v1.1.4", ["v1.1.4"]),
        ("schedctl run our_sched --version=v1.1.4", ["v1.1.4"]),
        ("schedctl run our_s", ["our_sched"]),
        ("schedctl run our_sched --mode ", ["auto", "gaming", "server"]),
        ("schedctl run 'unfinished", []),
    ],
)
def test_bash_gets_what_belongs_into_its_line(catalog: str, tmp_path: Path, line: str, offered: list[str]) -> None:
    script = (
        'schedctl() { $program "$@"; }; source <(schedctl completion bash); COMP_LINE=$typed COMP_POINT=${#typed};'
        " _schedctl_completion schedctl; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = run_in_shell(f"program=$schedctl; {script}", typed=line, SCHEDCTL_CATALOG=catalog)
    assert (done.stdout.split(), done.stderr) == (offered, "")


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef schedctl"), ("fish", "complete --")]
)
def test_completion_scripts_are_for_schedctl(shell: str, mark: str) -> None:
    script = call("completion", shell).stdout
    assert mark in script
    assert f"_SCHEDCTL_COMPLETE={shell}_complete" in script
