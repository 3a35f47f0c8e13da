"""Images: what is here, and how it gets here."""

import json
import os
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from schedkit.errors import NoAnswerError, NoPermissionError, UnavailableError
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry, RegistrySettings
from schedkit.runtimes.model import Content

from .bench import PATIENCE, Bench, claim, expect, fetch_image, ignore_progress

ENGINES = {"podman", "docker"}  # those that pull for themselves


@claim
def image_that_is_here_is_known_by_its_digest(bench: Bench) -> None:
    content = bench.pull()

    assert content.digest in bench.runtime.fetch_digests()
    assert content.repository in bench.runtime.fetch_repositories()


@claim
def pull_tells_how_far_it_is(bench: Bench) -> None:
    told: list[tuple[int, int]] = []
    content = fetch_image("scx_bpfland:latest")
    assert content.digest not in bench.runtime.fetch_digests()

    bench.runtime.pull(content, lambda done, total: told.append((done, total)))

    done, total = told[-1]
    assert done == total >= sum(layer.size for layer in content.layers)
    assert [item[0] for item in told] == sorted(item[0] for item in told)
    told.clear()
    bench.runtime.pull(content, lambda done, total: told.append((done, total)))
    assert len(told) <= 1, "what is here is not fetched again"


@claim
def interrupted_pull_leaves_nothing_and_can_be_repeated(bench: Bench) -> None:
    content = fetch_image("scx_rusty:latest")
    told: list[int] = []

    def interrupt(done: int, total: int) -> None:
        told.append(done)
        if len(told) > 1:  # the first comes before anything is fetched
            raise KeyboardInterrupt

    expect(KeyboardInterrupt, lambda: bench.runtime.pull(content, interrupt))
    for _ in range(10):
        assert content.digest not in bench.runtime.fetch_digests()
        time.sleep(0.5)

    bench.runtime.pull(content, ignore_progress)
    assert content.digest in bench.runtime.fetch_digests()


@claim
def credentials_of_the_user_open_a_registry(bench: Bench) -> None:
    with guarded_registry() as (registry, content):
        if bench.runtime.driver in ENGINES:
            error = expect(
                NoPermissionError, lambda: bench.runtime.pull(Changed(content, credentials=None), ignore_progress)
            )
            assert registry in error.message
            assert f"{bench.runtime.driver} login {registry}" in error.hint

        bench.runtime.pull(content, ignore_progress)

        assert content.repository in bench.runtime.fetch_repositories()


@claim
def plain_http_is_spoken_only_where_it_is_allowed(bench: Bench) -> None:
    """An engine decides for itself what it speaks; podman lets us say otherwise, docker does not."""
    registry = "10.0.2.15:5000"  # the lab's, by an address that no engine takes for this machine
    content = Registry(RegistrySettings(insecure=frozenset({registry}))).fetch_image(
        parse_reference(f"{registry}/scx_mortal:v1")
    )
    if bench.runtime.driver in ENGINES:
        error = expect(UnavailableError, lambda: bench.runtime.pull(Changed(content, insecure=False), ignore_progress))
        assert registry in error.hint
    if bench.runtime.driver == "docker":
        error = expect(UnavailableError, lambda: bench.runtime.pull(content, ignore_progress))
        assert "/etc/docker/daemon.json" in error.hint
    else:
        bench.runtime.pull(content, ignore_progress)
        assert content.repository in bench.runtime.fetch_repositories()


class Changed:
    """An image of which an engine is told something else."""

    def __init__(self, content: Content, **changes: object) -> None:
        self.content = content
        self.changes = changes

    def __getattr__(self, name: str) -> Any:
        return self.changes[name] if name in self.changes else getattr(self.content, name)


@contextmanager
def guarded_registry() -> Iterator[tuple[str, Content]]:
    """The lab's images behind a name and a password, and one of them resolved by somebody who knows these."""
    registry = "localhost:5001"
    with TemporaryDirectory() as folder:
        passwords, logins = Path(folder) / "htpasswd", Path(folder) / "auth.json"
        passwords.write_text("somebody:$2b$04$qv67SL3NDAQVyIBVI4rU5uyFpDB8Bu5UygKlwx8W8yvBtiUXZ/H8C\n")
        logins.write_text(json.dumps({"auths": {registry: {"auth": b64encode(b"somebody:secret").decode()}}}))
        settings = {"": "htpasswd", "_HTPASSWD_REALM": "lab", "_HTPASSWD_PATH": str(passwords)}
        environment = os.environ | {f"REGISTRY_AUTH{name}": value for name, value in settings.items()}
        environment |= {"REGISTRY_HTTP_ADDR": ":5001"}
        server = subprocess.Popen(
            ["docker-registry", "serve", "/etc/docker-registry/config.yml"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            client = Registry(
                RegistrySettings(insecure=frozenset({registry})), environ={"REGISTRY_AUTH_FILE": str(logins)}
            )
            yield registry, wait_for_image(client, f"{registry}/scx_stubborn:v1")
        finally:
            server.terminate()
            server.wait()


def wait_for_image(client: Registry, name: str) -> Content:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return client.fetch_image(parse_reference(name))
        except (UnavailableError, NoAnswerError):  # its server has not started yet
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
