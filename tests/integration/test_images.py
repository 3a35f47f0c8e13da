"""The lab's images, with a real registry and real builds."""

import http.client
import io
import json
import struct
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import images, schedulers
from lab.errors import BuildError, LabError
from lab.store import Store

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
GREETING = "ARG BASE\nFROM ${BASE}\nCOPY greeting /greeting\n"


@pytest.fixture(scope="module")
def scratch(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with images.Registry(store, tmp_path_factory.mktemp("scratch")) as registry:
        yield registry.address


@pytest.fixture(scope="module")
def lab_registry(store: Store) -> Iterator[str]:
    store.ensure(images.IMAGES)
    with images.Registry(store, store.path(images.IMAGES) / "registry") as registry:
        yield registry.address


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "greeting").write_text("hello\n")
    return tmp_path


def fetch(address: str, path: str, *, accept: str = "*/*") -> tuple[http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    assert response.status == 200, f"{path}: {response.status} {body!r}"
    return response.headers, body


def fetch_json(address: str, path: str, *, accept: str = "*/*") -> dict[str, object]:
    document = json.loads(fetch(address, path, accept=accept)[1])
    assert isinstance(document, dict)
    return document


def fetch_manifest(address: str, name: str, tag: str) -> dict[str, object]:
    return fetch_json(address, f"/v2/{name}/manifests/{tag}", accept=MANIFEST)


def fetch_config(address: str, name: str, tag: str) -> dict[str, object]:
    descriptor = fetch_manifest(address, name, tag)["config"]
    assert isinstance(descriptor, dict)
    config = fetch_json(address, f"/v2/{name}/blobs/{descriptor['digest']}")["config"]
    assert isinstance(config, dict)
    return config


def fetch_layers(address: str, name: str, tag: str) -> list[str]:
    layers = fetch_manifest(address, name, tag)["layers"]
    assert isinstance(layers, list)
    return [layer["digest"] for layer in layers]


def test_build_pushes_what_it_says_it_pushed(store: Store, scratch: str, context: Path) -> None:
    containerfile = context / "Containerfile"
    containerfile.write_text(GREETING)
    arguments = {"BASE": "schedkit-lab/runtime"}

    digest = images.build(store, containerfile, context, "greeting:1", build_args=arguments, registry=scratch)

    headers, _ = fetch(scratch, "/v2/greeting/manifests/1", accept=MANIFEST)
    assert headers["Docker-Content-Digest"] == digest
    assert images.build(store, containerfile, context, "greeting:2", build_args=arguments, registry=scratch) == digest


def test_build_runs_commands_on_debian(store: Store, scratch: str, context: Path) -> None:
    containerfile = context / "debian.Containerfile"
    containerfile.write_text('FROM schedkit-lab/debian\nRUN . /etc/os-release && [ "$ID" = debian ] && touch /seen\n')

    images.build(store, containerfile, context, "debian:1", registry=scratch)

    assert len(fetch_layers(scratch, "debian", "1")) == 2


def test_failed_build_names_the_step_and_leaves_nothing(store: Store, scratch: str, context: Path) -> None:
    containerfile = context / "Containerfile"
    containerfile.write_text("FROM scratch\nCOPY greeting /greeting\nCOPY absent /absent\n")
    before = set((store.root / "run").glob("image-*"))

    with pytest.raises(BuildError, match=r'STEP "COPY absent /absent"'):
        images.build(store, containerfile, context, "broken:1", registry=scratch)

    assert set((store.root / "run").glob("image-*")) == before


def test_build_pushes_to_loopback_only(store: Store, context: Path) -> None:
    with pytest.raises(LabError, match="not a registry on loopback"):
        images.build(store, context / "Containerfile", context, "greeting:1", registry="registry.example:5000")


def test_registry_that_cannot_start_says_why(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(images.REGISTRY_SETTINGS, "version", "none")
    with pytest.raises(LabError, match="configuration"), images.Registry(store, tmp_path):
        pass


def test_lab_registry_serves_every_image(lab_registry: str) -> None:
    expected: dict[str, set[str]] = {}
    for image in images.ALL:
        expected.setdefault(image.name, set()).update(image.tags)

    assert fetch_json(lab_registry, "/v2/_catalog")["repositories"] == sorted(expected)
    for name, tags in expected.items():
        listed = fetch_json(lab_registry, f"/v2/{name}/tags/list")["tags"]
        assert isinstance(listed, list)
        assert set(listed) == tags


@pytest.mark.parametrize("image", images.ALL, ids=lambda image: f"{image.name}:{image.tags[0]}")
def test_image_is_labelled(lab_registry: str, image: images.Image) -> None:
    for tag in image.tags:
        labels = fetch_config(lab_registry, image.name, tag)["Labels"]
        assert isinstance(labels, dict)
        assert labels["org.opencontainers.image.title"] == image.name
        assert labels["org.opencontainers.image.version"] == image.tags[0]
        assert labels["org.opencontainers.image.description"]
        if image.name != "pause":
            assert labels["org.schedkit.scheduler.kernel.min-version"] == "6.12"


def test_real_schedulers_share_their_base(lab_registry: str) -> None:
    bases = {fetch_layers(lab_registry, name, "latest")[0] for name in schedulers.VERSIONS}
    assert len(bases) == 1


@pytest.mark.parametrize(
    "image",
    [image for image in images.ALL if image.source is schedulers.FIXTURES],
    ids=lambda image: f"{image.name}:{image.tags[0]}",
)
def test_fixture_is_one_static_binary(lab_registry: str, image: images.Image) -> None:
    (layer,) = fetch_layers(lab_registry, image.name, image.tags[0])
    blob = fetch(lab_registry, f"/v2/{image.name}/blobs/{layer}")[1]
    with tarfile.open(fileobj=io.BytesIO(blob)) as archive:
        assert archive.getnames() == [image.name]
        binary = archive.extractfile(image.name)
        assert binary
        assert not asks_for_interpreter(binary.read())


def asks_for_interpreter(elf: bytes) -> bool:
    """Whether a 64-bit ELF program has a PT_INTERP header: a static one has none."""
    assert elf[:5] == b"\x7fELF\x02"
    (offset,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return 3 in (struct.unpack_from("<I", elf, offset + index * size)[0] for index in range(count))
