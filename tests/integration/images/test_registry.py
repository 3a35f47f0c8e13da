"""The client against a real registry: what it has is found, and what arrives is what was named."""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from lab import images
from schedkit.errors import BadDataError, NotFoundError, UnavailableError
from schedkit.images.image import Platform
from schedkit.images.oci import OCI_MANIFEST, Descriptor
from schedkit.images.reference import Reference, parse_reference
from schedkit.images.registry import Registry, RegistrySettings

from .pushing import Pusher, digest_of
from .servers import cutting_proxy, serve

AMD64 = Platform("linux", "amd64")


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry(environ={"HOME": "/nonexistent"})
    yield registry
    registry.close()


def name(address: str, rest: str) -> Reference:
    return parse_reference(f"{address}/{rest}")


@pytest.mark.parametrize("image", images.ALL, ids=lambda image: f"{image.name}:{image.tags[0]}")
def test_every_image_of_the_lab_is_resolved(lab_registry: str, registry: Registry, image: images.Image) -> None:
    resolved = registry.fetch_image(name(lab_registry, f"{image.name}:{image.tags[0]}"), AMD64)

    assert resolved.labels["org.opencontainers.image.title"] == image.name
    assert resolved.labels["org.opencontainers.image.version"] == image.tags[0]
    assert resolved.platforms == (resolved.platform,) == (AMD64,)
    assert resolved.repository == f"{lab_registry}/{image.name}"
    assert resolved.reference == f"{lab_registry}/{image.name}:{image.tags[0]}"
    ((descriptor, data),) = resolved.manifests
    assert resolved.digest == descriptor.digest == digest_of(data)
    (source,) = resolved.sources
    assert source == (f"{lab_registry}/{image.name}", None, True), "it speaks plain HTTP"


def test_every_byte_of_an_image_is_fetched(lab_registry: str, registry: Registry) -> None:
    image = registry.fetch_image(name(lab_registry, "scx_rusty"), AMD64)
    assert image.reference.endswith(":latest")
    total = 0
    for blob in (image.config, *image.layers):
        data = b"".join(image.fetch_blob(blob))
        assert digest_of(data) == blob.digest
        total += len(data)
    assert total == image.size


def test_tags_are_listed_newest_first(lab_registry: str, scratch: str, registry: Registry) -> None:
    rusty = next(image for image in images.ALL if image.name == "scx_rusty")
    assert registry.fetch_tags(name(lab_registry, "scx_rusty")) == ["latest", rusty.tags[0]]
    assert registry.fetch_tags(name(lab_registry, "scx_fifo:v1")) == ["v2", "v1"]
    pusher = Pusher(scratch, "many/tags")
    for tag in ("edge", "v1.2.0-rc.1", "v1.10.0", "latest", "v1.2.0", f"sha256-{'ab' * 32}.sig"):
        pusher.image("amd64", tag=tag)
    listed = registry.fetch_tags(name(scratch, "many/tags"))
    assert listed == ["latest", "v1.10.0", "v1.2.0", "v1.2.0-rc.1", "edge"]


def test_a_digest_names_the_same_image_as_its_tag(lab_registry: str, registry: Registry) -> None:
    by_tag = registry.fetch_image(name(lab_registry, "scx_fifo:v1"), AMD64)
    (digest,) = registry.fetch_digests(by_tag.source)
    assert digest == by_tag.digest
    by_digest = registry.fetch_image(by_tag.source._replace(tag=None, digest=digest), AMD64)
    assert by_digest.layers == by_tag.layers
    # With both, the digest counts: the tag may have moved on since.
    moved = registry.fetch_image(by_tag.source._replace(tag="v2", digest=digest), AMD64)
    assert moved.digest == digest


@pytest.mark.parametrize("rest", ["missing", "missing/deeper:v1", "scx_fifo:v99", f"scx_fifo@sha256:{'ab' * 32}"])
def test_what_is_not_there_is_not_found(lab_registry: str, registry: Registry, rest: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        registry.fetch_image(name(lab_registry, rest))
    assert f"{lab_registry}/{rest}" in caught.value.message
    with pytest.raises(NotFoundError):
        registry.fetch_tags(name(lab_registry, "missing"))
    absent = Descriptor("x/y", f"sha256:{'ab' * 32}", 3)
    with pytest.raises(NotFoundError):
        list(registry.fetch_blob(name(lab_registry, "scx_fifo"), absent))


def test_of_an_index_the_platforms_own_manifest_is_taken(scratch: str, registry: Registry) -> None:
    pusher = Pusher(scratch, "index")
    amd64 = pusher.image("amd64", b"for amd64", title="amd64")
    arm64 = pusher.image("arm64", b"for arm64", title="arm64")
    attestation = pusher.image("unknown", b"in-toto") | {"platform": {"os": "unknown", "architecture": "unknown"}}
    index = pusher.index(attestation, amd64, arm64, tag="v1")
    reference = name(scratch, "index:v1")

    image = registry.fetch_image(reference, Platform("linux", "arm64"))

    assert image.digest == index["digest"]
    assert image.manifest.digest == arm64["digest"]
    # What a runtime may have of a tag, on this machine.
    assert registry.fetch_digests(reference) == (index["digest"], amd64["digest"])
    assert [descriptor.digest for descriptor, _ in image.manifests] == [index["digest"], arm64["digest"]]
    assert image.platforms == (AMD64, Platform("linux", "arm64"))
    assert image.labels == {"title": "arm64"}
    assert b"".join(image.fetch_blob(image.layers[0])) == b"for arm64"
    here = registry.fetch_image(reference)
    assert here.platform.architecture == {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def test_a_platform_that_is_not_offered_is_not_found_and_the_offered_are_told(scratch: str, registry: Registry) -> None:
    pusher = Pusher(scratch, "platforms")
    pusher.index(pusher.image("amd64"), pusher.image("arm64"), tag="index")
    pusher.image("amd64", tag="single")
    for tag, offered in (("index", "linux/amd64, linux/arm64"), ("single", "linux/amd64")):
        with pytest.raises(NotFoundError, match="not made for linux/riscv64") as caught:
            registry.fetch_image(name(scratch, f"platforms:{tag}"), Platform("linux", "riscv64"))
        assert offered in caught.value.hint


def test_an_index_within_an_index_is_followed_and_bounded(scratch: str, registry: Registry) -> None:
    pusher = Pusher(scratch, "nested")
    entry = pusher.image("amd64")
    for depth in range(1, 5):
        entry = pusher.index(entry, tag=f"v{depth}")
    image = registry.fetch_image(name(scratch, "nested:v3"), AMD64)
    assert len(image.manifests) == 4
    with pytest.raises(BadDataError, match="indexes within indexes"):
        registry.fetch_image(name(scratch, "nested:v4"), AMD64)


def test_an_artefact_is_not_an_image(scratch: str, registry: Registry) -> None:
    pusher = Pusher(scratch, "artefact")
    config = pusher.blob(b"{}", "application/vnd.oci.empty.v1+json")
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": "text/poem",
        "config": config,
        "layers": [],
    }
    pusher.manifest(document, "v1")
    with pytest.raises(BadDataError, match="not a container image but 'text/poem'"):
        registry.fetch_image(name(scratch, "artefact:v1"))


def test_referrers_are_found_under_their_tag_where_there_is_no_api(scratch: str, registry: Registry) -> None:
    pusher = Pusher(scratch, "signed")
    image = pusher.image("amd64", tag="v1")
    layer = pusher.blob(b"signature", "application/vnd.dev.sigstore.bundle.v0.3+json")
    config = pusher.blob(b"{}", "application/vnd.oci.empty.v1+json")
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": [layer], "subject": image}
    signature = pusher.manifest(document)
    reference = name(scratch, "signed:v1")
    assert registry.fetch_referrers(reference, image["digest"]) == []

    notes = {"artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json", "annotations": {"a": "b"}}
    pusher.index(signature | notes, tag=image["digest"].replace(":", "-"))

    (found,) = registry.fetch_referrers(reference, image["digest"])
    assert (found.digest, found.artifact_type) == (signature["digest"], notes["artifactType"])
    assert found.annotations == {"a": "b"}
    descriptor, data = registry.fetch_manifest(reference, found.digest)
    assert (descriptor.size, digest_of(data)) == (len(data), signature["digest"])
    blob = Descriptor(layer["mediaType"], layer["digest"], layer["size"])
    assert registry.fetch_bytes(reference, blob, 100) == b"signature"
    with pytest.raises(BadDataError, match="more than the 5"):
        registry.fetch_bytes(reference, blob, 5)


def test_a_blob_goes_on_where_the_connection_broke(scratch: str) -> None:
    data = b"".join(hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(100_000))
    blob = Pusher(scratch, "large").blob(data, "x/y")
    descriptor = Descriptor("x/y", blob["digest"], blob["size"])
    # One connection finds out what the server speaks and begins the blob; two of them end in the middle of it.
    with cutting_proxy(scratch, [1_000_000, 1_500_000]) as address:
        registry = Registry(environ={})
        pieces = list(registry.fetch_blob(name(address, "large"), descriptor))
        registry.close()
    assert b"".join(pieces) == data


def test_blobs_are_fetched_side_by_side(lab_registry: str, registry: Registry) -> None:
    image = registry.fetch_image(name(lab_registry, "scx_rusty"), AMD64)
    blobs = [image.config, *image.layers] * 4
    with ThreadPoolExecutor(8) as threads:
        contents = list(threads.map(lambda blob: b"".join(image.fetch_blob(blob)), blobs))
    assert [digest_of(content) for content in contents] == [blob.digest for blob in blobs]


def test_a_mirror_is_asked_first_and_its_registry_not_at_all(lab_registry: str) -> None:
    settings = RegistrySettings(mirrors={"registry.invalid": [lab_registry]})
    registry = Registry(settings, environ={})
    image = registry.fetch_image(name("registry.invalid", "scx_fifo:v1"), AMD64)
    assert image.reference == "registry.invalid/scx_fifo:v1"
    assert digest_of(b"".join(image.fetch_blob(image.layers[0]))) == image.layers[0].digest
    assert registry.fetch_tags(image.source) == ["v2", "v1"]
    assert image.sources == [
        (f"{lab_registry}/scx_fifo", None, True),
        ("registry.invalid/scx_fifo", None, False),  # that its mirror is plain says nothing of the registry
    ]
    registry.close()


def test_a_mirror_may_keep_things_under_a_prefix(scratch: str) -> None:
    Pusher(scratch, "prefix/deep/scx").image("amd64", tag="v1")
    settings = RegistrySettings(mirrors={"registry.invalid": [f"{scratch}/prefix/deep"]})
    registry = Registry(settings, environ={})
    assert registry.fetch_image(name("registry.invalid", "scx:v1"), AMD64).platform == AMD64
    registry.close()


def test_a_mirror_that_fails_or_has_not_what_is_wanted_is_passed_over(lab_registry: str, scratch: str) -> None:
    with serve() as broken:
        broken.says("/v2/scx_fifo/manifests/v1", b"{torn")
        with serve() as ended:
            gone = ended.address
        settings = RegistrySettings(mirrors={lab_registry: [gone, broken.address, scratch]})
        registry = Registry(settings, environ={}, sleep=lambda _: None)
        assert registry.fetch_image(name(lab_registry, "scx_fifo:v1"), AMD64).platform == AMD64
        assert "/v2/scx_fifo/manifests/v1" in broken.paths
        with pytest.raises(NotFoundError, match=lab_registry):
            registry.fetch_image(name(lab_registry, "missing:v1"))
        registry.close()


def test_a_registry_answers_a_probe_or_is_told_to_be_away(lab_registry: str, registry: Registry) -> None:
    registry.probe(lab_registry)
    with serve() as ended:
        gone = ended.address
    with pytest.raises(UnavailableError, match=f"{gone} cannot be reached: Connection refused"):
        registry.probe(gone)
    with pytest.raises(UnavailableError, match="Connection refused"):
        registry.fetch_image(name(gone, "scx_fifo:v1"))


def test_a_proxy_is_used_where_the_environment_names_one(lab_registry: str) -> None:
    with serve() as proxy:
        # A proxy for plain HTTP gets whole URLs; this one knows one document.
        url = "http://registry.example/v2/scx_fifo/tags/list?n=1000"
        proxy.says(url, b'{"tags": ["v1"]}')
        settings = RegistrySettings(insecure=frozenset({"registry.example"}))
        environ = {"all_proxy": f"http://{proxy.address}"}
        registry = Registry(settings, environ=environ, sleep=lambda _: None)
        assert registry.fetch_tags(name("registry.example", "scx_fifo")) == ["v1"]
        assert url in proxy.paths
        assert urlsplit(url).hostname == "registry.example"
        # Loopback is never asked through it.
        assert registry.fetch_tags(name(lab_registry, "scx_fifo")) == ["v2", "v1"]
        registry.close()
