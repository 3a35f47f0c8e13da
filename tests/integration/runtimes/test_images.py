"""Images, in every runtime: what is here, and how it gets here."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import images
from lab.addresses import claim_address, release_address
from lab.store import Store
from schedkit.errors import NoPermissionError, NotFoundError, UnavailableError
from schedkit.images.oci import Content
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry, RegistrySettings
from schedkit.runtimes.local_image import ImageInUseError, LocalImage
from schedkit.runtimes.model import ContainerSpec
from tests.integration.images.servers import serve
from tests.integration.images.test_logins import BASIC, HTPASSWD, login
from tests.integration.runtimes.bench import ENGINES, Bench, ignore_progress


class Changed:
    """An image of which an engine is told something else."""

    def __init__(self, content: Content, **changes: object) -> None:
        self.content = content
        self.changes = changes

    def __getattr__(self, name: str) -> Any:
        return self.changes[name] if name in self.changes else getattr(self.content, name)


@pytest.fixture
def guarded(store: Store, storage: Path, tmp_path: Path) -> Iterator[Content]:
    """An image behind a name and a password, resolved by somebody who knows these."""
    with images.Registry(store, storage, settings=BASIC, files={"htpasswd": HTPASSWD}) as registry:
        client = Registry(environ=login(tmp_path, registry.address))
        yield client.fetch_image(parse_reference(f"{registry.address}/scx_stubborn:v1"))


@pytest.fixture
def plain(store: Store, storage: Path, tmp_path: Path) -> Iterator[Content]:
    """An image that is served over plain HTTP at an address that no engine takes for this machine."""
    address = claim_address(tmp_path)
    try:
        with images.Registry(store, storage, settings={"http": {"addr": f"{address}:0"}}) as registry:
            client = Registry(RegistrySettings(insecure=frozenset({registry.address})))
            yield client.fetch_image(parse_reference(f"{registry.address}/scx_mortal:v1"))
    finally:
        release_address(tmp_path)


def test_image_that_is_here_is_known_by_its_digest(bench: Bench) -> None:
    content = bench.pull()

    assert content.digest in bench.runtime.fetch_digests()
    assert content.repository in bench.runtime.fetch_repositories()


def test_container_of_an_image_that_is_not_here_is_not_made(bench: Bench) -> None:
    content = bench.resolve("scx_stall:v1")

    with pytest.raises(NotFoundError):
        bench.runtime.create(content, ContainerSpec("unpulled"))

    assert bench.runtime.fetch_containers() == []


def test_pull_tells_how_far_it_is(bench: Bench) -> None:
    told: list[tuple[int, int]] = []
    content = bench.resolve("scx_bpfland:latest")
    assert content.digest not in bench.runtime.fetch_digests()

    bench.runtime.pull(content, lambda done, total: told.append((done, total)))

    done, total = told[-1]
    assert done == total >= sum(layer.size for layer in content.layers)
    assert [item[0] for item in told] == sorted(item[0] for item in told)
    told.clear()
    bench.runtime.pull(content, lambda done, total: told.append((done, total)))
    assert len(told) <= 1, "what is here is not fetched again"


def test_interrupted_pull_leaves_nothing_and_can_be_repeated(bench: Bench) -> None:
    content = bench.resolve("scx_rusty:latest")
    told: list[int] = []

    def interrupt(done: int, total: int) -> None:
        told.append(done)
        if len(told) > 1:  # the first comes before anything is fetched
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.runtime.pull(content, interrupt)
    for _ in range(10):  # nor does it come later
        assert content.digest not in bench.runtime.fetch_digests()
        time.sleep(0.2)

    bench.runtime.pull(content, ignore_progress)
    assert content.digest in bench.runtime.fetch_digests()


def test_credentials_of_the_user_open_a_registry(bench: Bench, guarded: Content) -> None:
    registry = guarded.repository.partition("/")[0]
    if bench.runtime.driver in ENGINES:
        with pytest.raises(NoPermissionError, match=registry) as refused:
            bench.runtime.pull(
                Changed(guarded, sources=[guarded.sources[0]._replace(credentials=None)]), ignore_progress
            )
        assert f"{bench.runtime.driver} login {registry}" in refused.value.hint

    bench.runtime.pull(guarded, ignore_progress)

    assert guarded.repository in bench.runtime.fetch_repositories()


def test_plain_http_is_spoken_only_where_it_is_allowed(bench: Bench, plain: Content) -> None:
    """An engine decides for itself what it speaks; podman lets us say otherwise, docker does not."""
    registry = plain.repository.partition("/")[0]
    assert bench.runtime.may_be_plain(registry) == (bench.runtime.driver != "docker")
    assert bench.runtime.may_be_plain("localhost:5000"), "as docker has it for loopback, unless it is told otherwise"
    if bench.runtime.driver in ENGINES:
        with pytest.raises(UnavailableError) as refused:
            bench.runtime.pull(Changed(plain, sources=[plain.sources[0]._replace(insecure=False)]), ignore_progress)
        assert registry in refused.value.hint
    if bench.runtime.driver == "docker":
        with pytest.raises(UnavailableError) as refused:
            bench.runtime.pull(plain, ignore_progress)
        assert "/etc/docker/daemon.json" in refused.value.hint
    else:
        bench.runtime.pull(plain, ignore_progress)
        assert plain.repository in bench.runtime.fetch_repositories()


def test_image_is_pulled_from_a_mirror_and_its_registry_is_not_asked(bench: Bench) -> None:
    """By the digest, so the mirror has no say in what it is."""
    client = Registry(RegistrySettings(mirrors={"registry.invalid": [bench.registry]}), environ={})
    content = client.fetch_image(parse_reference("registry.invalid/scx_stubborn:v1"))
    assert not bench.runtime.has_image(content)

    bench.runtime.pull(content, ignore_progress)

    assert bench.runtime.has_image(content)
    container = bench.runtime.fetch_container(bench.runtime.create(content, ContainerSpec("mirrored")))
    assert container.image == "registry.invalid/scx_stubborn:v1"
    client.close()


def test_image_that_a_mirror_has_not_is_pulled_from_its_registry(
    bench: Bench, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with images.Registry(store, tmp_path_factory.mktemp("empty")) as empty:
        client = Registry(RegistrySettings(mirrors={bench.registry: [empty.address]}), environ={})
        content = client.fetch_image(parse_reference(f"{bench.registry}/scx_mortal:v1"))

        bench.runtime.pull(content, ignore_progress)

        assert bench.runtime.has_image(content)
        client.close()


def test_layer_that_a_mirror_changed_is_pulled_from_the_registry(bench: Bench) -> None:
    good = bench.resolve("scx_reject:v1")
    with serve() as mirror:
        client = Registry(RegistrySettings(mirrors={bench.registry: [mirror.address]}), environ={})
        content = client.fetch_image(parse_reference(f"{bench.registry}/scx_reject:v1"))
        mirror.says("/v2/", b"{}")
        (manifest, data), config = good.manifests[-1], b"".join(good.fetch_blob(good.config))
        mirror.says(f"/v2/scx_reject/manifests/{manifest.digest}", data, Content_Type=manifest.media_type)
        mirror.says(f"/v2/scx_reject/blobs/{good.config.digest}", config)
        for layer in good.layers:
            mirror.says(f"/v2/scx_reject/blobs/{layer.digest}", bytes(layer.size))

        bench.runtime.pull(content, ignore_progress)

        assert any("/blobs/" in path for path in mirror.paths)
        assert bench.runtime.has_image(content)
        bench.runtime.create(content, ContainerSpec("from-elsewhere"))
        client.close()


def test_a_kept_image_is_listed_and_removed_unless_a_container_is_made_of_it(bench: Bench) -> None:
    def find() -> list[LocalImage]:
        return [one for one in bench.runtime.fetch_images() if any("scx_mortal" in name for name in one.names)]

    for left_by_another_test in find():  # it has other names
        bench.runtime.remove_image(left_by_another_test)
    content = bench.pull("scx_mortal:v1")
    (image,) = find()
    assert image.scheduler
    assert image.size is not None
    assert image.size > 100_000
    assert image.repositories == {f"{bench.registry}/scx_mortal"}

    id = bench.runtime.create(content, ContainerSpec("user"))
    with pytest.raises(ImageInUseError, match="in use"):
        bench.runtime.remove_image(image)
    assert bench.runtime.has_image(content)
    bench.runtime.remove(id)
    bench.runtime.remove_image(image)
    assert not bench.runtime.has_image(content)
    assert not find()
    bench.runtime.remove_image(image)  # what is gone is fine
    bench.runtime.pull(content, ignore_progress)  # and it can come back
    assert bench.runtime.has_image(content)
