"""What a registry sends is read strictly: each of these was made to be misread."""

import json
from typing import Any

import pytest

from schedkit.errors import BadDataError
from schedkit.images import documents
from schedkit.images.documents import Index, Manifest
from schedkit.images.image import Platform
from schedkit.images.oci import DOCKER_INDEX, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Descriptor

DIGEST = "sha256:" + "ab" * 32
CONFIG = {"mediaType": documents.IMAGE_CONFIGS[0], "digest": DIGEST, "size": 2}
LAYER = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": DIGEST, "size": 3}


def manifest(**changes: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, "config": CONFIG, "layers": [LAYER]} | changes).encode()


def index(*entries: object, **changes: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, "manifests": list(entries)} | changes).encode()


@pytest.mark.parametrize("media_type", [OCI_MANIFEST, DOCKER_MANIFEST])
def test_a_manifest_is_read(media_type: str) -> None:
    data = manifest(mediaType=media_type, annotations={"a": "b"}, artifactType="x/y")
    read = documents.parse_document(media_type, data, "image")
    assert isinstance(read, Manifest)
    assert read.config == Descriptor(CONFIG["mediaType"], DIGEST, 2)  # type: ignore[arg-type]
    assert [layer.size for layer in read.layers] == [3]
    assert (read.artifact_type, read.annotations) == ("x/y", {"a": "b"})


@pytest.mark.parametrize("media_type", [OCI_INDEX, DOCKER_INDEX])
def test_an_index_is_read(media_type: str) -> None:
    entry = LAYER | {"mediaType": OCI_MANIFEST, "platform": {"os": "linux", "architecture": "arm", "variant": "v7"}}
    read = documents.parse_document(media_type, index(entry), "image")
    assert isinstance(read, Index)
    assert read.manifests[0].platform == Platform("linux", "arm", "v7")


EVIL = LAYER | {"digest": "sha256:" + "ee" * 32}


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        (OCI_INDEX, index(LAYER, Manifests=[EVIL])),
        (OCI_INDEX, index(LAYER, **{"manife\u017fts": [EVIL]})),
        (OCI_INDEX, index(LAYER)[:-1] + b', "manifests": []}'),
        (OCI_INDEX, index(LAYER | {"Digest": EVIL["digest"]})),
        (OCI_INDEX, index(LAYER | {"Platform": {"os": "linux", "architecture": "amd64"}})),
        (OCI_INDEX, index(LAYER | {"platform": {"os": "linux", "architecture": "amd64", "Variant": "v1"}})),
        (OCI_INDEX, index(LAYER, unheard=1, Unheard=2)),
        (DOCKER_INDEX, index(LAYER, MediaType=OCI_INDEX)),
        (OCI_MANIFEST, manifest(Layers=[EVIL])),
        (OCI_MANIFEST, manifest(CONFIG=EVIL)),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"SIZE": 4}])),
        (OCI_MANIFEST, manifest()[:-1] + b', "config": {}}'),
        (OCI_MANIFEST, manifest(annotations={"a": "b"}).replace(b'"a": "b"', b'"a": "b", "a": "c"')),
    ],
)
def test_keys_that_two_readers_read_differently_are_refused(media_type: str, data: bytes) -> None:
    """Go, in which engines are written, ignores the case of keys, and keeps the last of two."""
    with pytest.raises(BadDataError, match=r"only in case|twice"):
        documents.parse_document(media_type, data, "image")


def test_annotations_may_differ_in_case_as_everybody_compares_them_exactly() -> None:
    read = documents.parse_document(OCI_MANIFEST, manifest(annotations={"Digest": "a", "digest": "b"}), "image")
    assert read.annotations == {"Digest": "a", "digest": "b"}  # type: ignore[union-attr]


def test_depth_of_what_nobody_asked_for_is_no_matter() -> None:
    deep = b'{"x": ' * 900 + b"1" + b"}" * 900
    data = manifest()[:-1] + b', "extra": ' + deep + b"}"
    assert isinstance(documents.parse_document(OCI_MANIFEST, data, "image"), Manifest)


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        (OCI_MANIFEST, b""),
        (OCI_MANIFEST, manifest()[:-5]),
        (OCI_MANIFEST, b"[]"),
        (OCI_MANIFEST, b"[" * 100_000),
        (OCI_MANIFEST, b"\xff\xfe"),
        (OCI_MANIFEST, manifest(manifests=[])),
        (OCI_MANIFEST, manifest(mediaType=OCI_INDEX)),
        (OCI_MANIFEST, index()),
        (OCI_MANIFEST, manifest(config=None)),
        (OCI_MANIFEST, manifest(layers={})),
        (OCI_MANIFEST, manifest(layers=[LAYER] * 1001)),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"digest": "sha256:../../etc/passwd"}])),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"digest": "md5:" + "ab" * 16}])),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"digest": 7}])),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"size": -1}])),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"size": 1.5}])),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"size": True}])),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"size": 1 << 70}])),
        (OCI_MANIFEST, manifest(layers=[LAYER | {"mediaType": "\x1b[2J"}])),
        (OCI_MANIFEST, manifest(annotations=["a"])),
        (OCI_MANIFEST, manifest(annotations={"a": 1})),
        (OCI_INDEX, manifest()),
        (OCI_INDEX, index(7)),
        (OCI_INDEX, index(LAYER | {"platform": {"os": "\x1b", "architecture": "x"}})),
        ("text/html", b"<html>"),
        ("text/html", manifest()),
        ("", manifest()),
    ],
)
def test_what_is_not_right_is_refused(media_type: str, data: bytes) -> None:
    with pytest.raises(BadDataError, match="image"):
        documents.parse_document(media_type, data, "image")


@pytest.mark.parametrize("media_type", [*documents.SCHEMA_1, OCI_MANIFEST])
def test_schema_1_is_refused_with_a_word_why(media_type: str) -> None:
    with pytest.raises(BadDataError, match="schema 1"):
        documents.parse_document(media_type, b'{"schemaVersion": 1, "fsLayers": []}', "image")


def test_a_document_says_what_it_is_and_the_header_counts_where_it_is_silent() -> None:
    header = f"{OCI_MANIFEST}; charset=utf-8"
    assert documents.find_media_type(manifest(), header, "image") == OCI_MANIFEST
    assert documents.find_media_type(manifest(mediaType=DOCKER_MANIFEST), header, "image") == DOCKER_MANIFEST


def test_a_configuration_has_a_platform_and_labels() -> None:
    data = json.dumps({"os": "linux", "architecture": "amd64", "config": {"Labels": {"a": "b"}}}).encode()
    read = documents.parse_config(data, "image")
    assert (read.platform, read.labels) == (Platform("linux", "amd64"), {"a": "b"})
    assert documents.parse_config(b'{"os": "linux", "architecture": "amd64", "config": null}', "image").labels == {}


@pytest.mark.parametrize(
    ("said", "created"),
    [("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"), (None, ""), (1, ""), ("\x1b" + "9" * 99, "�" + "9" * 63)],
)
def test_a_configuration_may_say_when_it_was_made(said: object, created: str) -> None:
    data = json.dumps({"os": "linux", "architecture": "amd64", "created": said}).encode()
    assert documents.parse_config(data, "image").created == created


def test_labels_cannot_change_a_terminal() -> None:
    labels = {"a": "\x1b[2Jred\ud800", "b": "two\nlines – whole"}
    data = json.dumps({"os": "linux", "architecture": "amd64", "config": {"Labels": labels}}).encode()
    assert documents.parse_config(data, "image").labels == {"a": "�[2Jred�", "b": "two\nlines – whole"}


@pytest.mark.parametrize("data", [b"{}", b'{"os": "linux"}', b'{"os": 1, "architecture": 2}', b"null"])
def test_a_configuration_without_a_platform_is_refused(data: bytes) -> None:
    with pytest.raises(BadDataError):
        documents.parse_config(data, "image")


@pytest.mark.parametrize("tags", ["v1", [1], ["../x"], ["\x1b[2J"], {"v1": 1}])
def test_a_list_with_something_that_is_no_tag_is_refused(tags: object) -> None:
    with pytest.raises(BadDataError, match="tag"):
        documents.parse_tags(json.dumps({"tags": tags}).encode(), "image")


def test_a_repository_without_tags_has_none() -> None:
    assert documents.parse_tags(b'{"name": "a", "tags": null}', "image") == []


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_digests_are_computed_and_compared(algorithm: str) -> None:
    digest = documents.make_digest(b"bytes", algorithm)
    documents.check_digest(b"bytes", digest, "image")
    with pytest.raises(BadDataError, match="was asked for"):
        documents.check_digest(b"other", digest, "image")
