"""Which manifest of an index this machine takes."""

import pytest

from schedkit.images.documents import Annotated
from schedkit.images.image import Platform
from schedkit.images.oci import OCI_INDEX, OCI_MANIFEST
from schedkit.images.platforms import choose, fits, read_platform


def entry(platform: str, *, kind: str = OCI_MANIFEST, attests: bool = False) -> Annotated:
    notes = {"vnd.docker.reference.type": "attestation-manifest"} if attests else {}
    parsed = Platform(*platform.split("/")) if platform else None
    return Annotated(kind, f"sha256:{platform}", 1, annotations=notes, platform=parsed)


@pytest.mark.parametrize(
    ("machine", "platform"),
    [
        ("x86_64", "linux/amd64"),
        ("aarch64", "linux/arm64"),
        ("armv7l", "linux/arm/v7"),
        ("riscv64", "linux/riscv64"),
        ("i686", "linux/386"),
        ("sparc64", "linux/sparc64"),
    ],
)
def test_the_kernels_word_becomes_a_platform(machine: str, platform: str) -> None:
    assert str(read_platform(machine)) == platform


@pytest.mark.parametrize(
    ("wanted", "offered", "taken"),
    [
        ("linux/amd64", ["linux/arm64", "linux/amd64"], "linux/amd64"),
        ("linux/amd64", ["linux/amd64/v3", "linux/amd64/v2", "linux/amd64"], "linux/amd64"),
        ("linux/amd64", ["linux/amd64/v3"], None),
        ("linux/amd64", ["windows/amd64"], None),
        ("linux/arm64", ["linux/arm64/v8", "linux/arm/v7"], "linux/arm64/v8"),
        ("linux/arm64", ["linux/arm64"], "linux/arm64"),
        ("linux/arm/v7", ["linux/arm/v5", "linux/arm/v6"], "linux/arm/v6"),
        ("linux/arm/v6", ["linux/arm/v7"], None),
        ("linux/amd64", ["unknown/unknown", "linux/amd64"], "linux/amd64"),
        ("linux/amd64", ["unknown/unknown"], None),
        ("linux/amd64", ["linux/amd64", "linux/amd64"], "linux/amd64"),
        ("linux/amd64", [""], ""),
        ("linux/amd64", ["", "linux/arm64"], None),
        ("linux/amd64", [], None),
    ],
)
def test_the_best_manifest_is_taken(wanted: str, offered: list[str], taken: str | None) -> None:
    chosen = choose([entry(platform) for platform in offered], Platform(*wanted.split("/")))
    assert chosen == (None if taken is None else entry(taken))


def test_an_attestation_is_never_taken_for_an_image() -> None:
    assert choose([entry("linux/amd64", attests=True)], Platform("linux", "amd64")) is None


def test_an_index_within_an_index_is_looked_into() -> None:
    nested = entry("", kind=OCI_INDEX)
    assert choose([entry("linux/arm64"), nested], Platform("linux", "amd64")) == nested


def test_an_image_for_another_machine_does_not_fit() -> None:
    assert fits(Platform("linux", "arm64", "v8"), Platform("linux", "arm64"))
    assert fits(Platform("linux", "arm"), Platform("linux", "arm", "v7"))
    assert not fits(Platform("linux", "amd64", "v3"), Platform("linux", "amd64"))
    assert not fits(Platform("linux", "arm64"), Platform("linux", "amd64"))
