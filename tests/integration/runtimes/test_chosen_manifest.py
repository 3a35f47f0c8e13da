"""What was verified is what runs, whatever index lies around it: every runtime, real signatures, and real attacks.

Each attack is an index that nobody signed, around a manifest that somebody did. Our own choice is the signed manifest;
an engine that is left to choose from the index takes the other one, by rules of its own.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab import images
from lab.signing import Cosign, keyed
from lab.store import Store
from schedkit.errors import BadDataError
from schedkit.images.image import Image, Platform
from schedkit.images.oci import OCI_INDEX, Descriptor
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry
from schedkit.runtimes.model import ContainerSpec
from schedkit.trust.decide import verify
from schedkit.trust.model import Verdict
from schedkit.trust.policy import Policy, read_policy
from schedkit.trust.roots import Roots
from tests.integration.images.pushing import Document, Pusher
from tests.integration.runtimes.bench import ENGINES, IDLE, Bench, ignore_progress
from tests.integration.runtimes.test_images import Changed

AMD64 = {"os": "linux", "architecture": "amd64"}
ARM64 = {"os": "linux", "architecture": "arm64"}
_numbers = itertools.count(1)


class Shop:
    """A repository with a good image and an evil one, of which the good one is signed with a key of the policy's."""

    def __init__(self, address: str, source: Image, cosign: Cosign, key: Path, policy: Policy) -> None:
        number = next(_numbers)
        self.pusher = Pusher(address, f"chosen/image{number}")
        self.source, self.cosign, self.key, self.policy = source, cosign, key, policy
        self.good, self.evil = (self.push(f"{word} {number}") for word in ("good", "evil"))

    def push(self, which: str, architecture: str = "amd64") -> Document:
        """The source with a label that says which one it is."""
        config = json.loads(b"".join(self.source.fetch_blob(self.source.config)))
        config["config"].setdefault("Labels", {})["which"] = which
        config["architecture"] = architecture
        document = json.loads(self.source.manifests[-1][1])
        document["config"] = self.pusher.blob(json.dumps(config).encode(), self.source.config.media_type)
        for layer in self.source.layers:
            self.pusher.blob(b"".join(self.source.fetch_blob(layer)), layer.media_type)
        return self.pusher.manifest({"mediaType": self.source.manifest.media_type} | document)

    def sign(self, entry: Document) -> None:
        self.cosign.sign(f"{self.pusher.address}/{self.pusher.path}@{entry['digest']}", *keyed(self.key))

    def fetch(self, index: Document, registry: Registry) -> Image:
        name = f"{self.pusher.address}/{self.pusher.path}@{index['digest']}"
        return registry.fetch_image(parse_reference(name), Platform("linux", "amd64"))

    def judge(self, image: Image) -> Verdict:
        roots = Roots(None, offline=True)
        return verify(image, self.policy, roots=roots, cache=None, offline=False, now=datetime.now(UTC))


@pytest.fixture(scope="module")
def scratch(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with images.Registry(store, tmp_path_factory.mktemp("scratch")) as registry:
        yield registry.address


@pytest.fixture(scope="module")
def make_shop(
    store: Store, scratch: str, registry: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Shop]:
    folder = tmp_path_factory.mktemp("keys")
    cosign = Cosign(store, "v3", folder / "cosign")
    key, public = cosign.make_key("mine")
    (folder / "policy.yaml").write_text(json.dumps({"keys": [{"path": str(public)}]}))
    source = Registry(environ={}).fetch_image(parse_reference(f"{registry}/{IDLE}"))
    return lambda: Shop(scratch, source, cosign, key, read_policy(folder / "policy.yaml"))


@pytest.fixture
def shop(make_shop: Callable[[], Shop]) -> Shop:
    return make_shop()


def zstd_twin(shop: Shop) -> Document:
    """Podman prefers a manifest that says it is compressed with zstd."""
    twin = shop.evil | {"annotations": {"io.github.containers.compression.zstd": "true"}}
    return shop.pusher.index(shop.good | {"platform": AMD64}, twin | {"platform": AMD64})


def x86_64_first(shop: Shop) -> Document:
    """Docker takes x86_64 for amd64, and the first of two that are the same to it."""
    evil = shop.evil | {"platform": {"os": "linux", "architecture": "x86_64"}}
    return shop.pusher.index(evil, shop.good | {"platform": AMD64})


def v1_first(shop: Shop) -> Document:
    """Docker takes amd64/v1 for amd64."""
    evil = shop.evil | {"platform": AMD64 | {"variant": "v1"}}
    return shop.pusher.index(evil, shop.good | {"platform": AMD64})


def keys_in_two_cases(shop: Shop) -> Document:
    """Go reads `Manifests` as `manifests`, and the last of them counts."""
    good, evil = (entry | {"platform": AMD64} for entry in (shop.good, shop.evil))
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [good], "Manifests": [evil]}
    return shop.pusher.manifest(document)


# Which attacks work with which engine, if it may choose.
FALLS_FOR = {"podman": (zstd_twin, keys_in_two_cases), "docker": (x86_64_first, v1_first, keys_in_two_cases)}


@pytest.mark.parametrize("attack", [zstd_twin, x86_64_first, v1_first])
def test_only_the_manifest_that_was_verified_is_pulled_and_made_a_container_of(
    bench: Bench, shop: Shop, attack: Callable[[Shop], Document]
) -> None:
    shop.sign(shop.good)
    image = shop.fetch(attack(shop), Registry(environ={}))
    verdict = shop.judge(image)
    assert verdict.manifest == image.manifest.digest == shop.good["digest"]
    assert image.digest != image.manifest.digest

    bench.runtime.pull(image, ignore_progress)
    id = bench.runtime.create(image, ContainerSpec("chosen"))

    assert read_which(bench, id).startswith("good ")
    assert shop.evil["digest"] not in bench.runtime.fetch_digests()
    assert bench.runtime.has_image(image)


def test_index_whose_keys_differ_in_case_is_refused_before_anything_is_pulled(shop: Shop) -> None:
    shop.sign(shop.good)

    with pytest.raises(BadDataError, match="only in case"):
        shop.fetch(keys_in_two_cases(shop), Registry(environ={}))


@pytest.mark.parametrize("daemon", ENGINES, indirect=True)
@pytest.mark.parametrize("attack", [zstd_twin, x86_64_first, v1_first, keys_in_two_cases])
def test_engine_that_is_given_the_index_takes_the_other_one_and_is_found_out(
    bench: Bench, shop: Shop, attack: Callable[[Shop], Document]
) -> None:
    """The attacks are real: by the image's id it shows what the engine took, and no container is made of it."""
    index = attack(shop)
    image = shop.fetch(shop.good, Registry(environ={}))
    by_index = Changed(image, manifest=Descriptor(OCI_INDEX, index["digest"], index["size"]))
    if attack not in FALLS_FOR[bench.runtime.driver]:
        bench.runtime.pull(by_index, ignore_progress)
        assert bench.runtime.has_image(by_index)
        return
    with pytest.raises(BadDataError, match="was verified"):
        bench.runtime.pull(by_index, ignore_progress)
    with pytest.raises(BadDataError, match="was verified"):
        bench.runtime.create(by_index, ContainerSpec("evil"))
    assert bench.runtime.fetch_containers() == []


def test_image_of_several_platforms_whose_index_is_signed_runs(bench: Bench, shop: Shop) -> None:
    arm64 = shop.push("arm64", "arm64")
    index = shop.pusher.index(arm64 | {"platform": ARM64}, shop.good | {"platform": AMD64}, tag="v1")
    shop.sign(index)
    image = shop.fetch(index, Registry(environ={}))
    (signature,) = shop.judge(image).signatures
    assert signature.on == index["digest"] == image.digest

    assert not bench.runtime.has_image(image)
    bench.runtime.pull(image, ignore_progress)
    id = bench.runtime.create(image, ContainerSpec("several"))

    assert read_which(bench, id).startswith("good ")
    assert bench.runtime.has_image(image)
    assert image.manifest.digest in bench.runtime.fetch_digests()


def read_which(bench: Bench, id: str) -> str:
    """What the image of a container says of itself: runtimes put its labels on the container."""
    return bench.runtime.fetch_container(id).labels["which"]
