"""Signatures by keys, made by real cosign of both series in both formats: our verdict is cosign's."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lab.signing import keyed
from schedkit.images.oci import OCI_INDEX, Descriptor
from schedkit.trust.errors import BadSignatureError, UnsignedError, UntrustedError
from schedkit.trust.model import Format, SignerKind, Verdict
from tests.integration.images.pushing import Pusher
from tests.integration.images.servers import Server, serve
from tests.integration.trust.workshop import FORMATS, NO_LOG, Signed, Workshop, accepts
from tests.unit.trust.material import make_key

EMPTY = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
KINDS = ("p256", "p384", "rsa", "ed25519")
# The third series takes the hash of the curve's size, and must be told so to find its own signatures right.
TOLD = {("v3", "p384"): ("--signature-digest-algorithm=sha384",)}
# It signs with Ed25519ph, and refuses that itself.
NOT_EVEN_ITS_OWN = ("v3", "ed25519")
both = pytest.mark.parametrize(("series", "kind"), list(FORMATS), ids=str)


@pytest.fixture(scope="module")
def imported(workshop: Workshop) -> dict[str, tuple[Path, Path]]:
    """A key of each kind, made elsewhere and imported into cosign."""
    keys = {}
    for name in KINDS:
        path = workshop.folder / f"imported-{name}.pem"
        path.write_bytes(make_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        keys[name] = workshop.cosigns["v3"].import_key(path)
    return keys


@both
@pytest.mark.parametrize("algorithm", KINDS)
def test_key_of_each_kind_is_judged_as_cosign_does(
    workshop: Workshop, imported: dict[str, tuple[Path, Path]], series: str, kind: Format, algorithm: str
) -> None:
    image = workshop.push()
    private, _ = imported[algorithm]
    workshop.sign_with_key(series, kind, image, private)
    for name, (_, public) in imported.items():
        ours = workshop.decide(image, workshop.trust_key(public))
        told = TOLD.get((series, algorithm), ())
        theirs = workshop.ask_cosign(series, kind, image, "--key", public, NO_LOG, *told)
        expected = name == algorithm and (series, algorithm) != NOT_EVEN_ITS_OWN
        assert accepts(ours) == accepts(theirs) == expected, f"{ours}\n{theirs}"
        if isinstance(ours, Verdict):
            (signature,) = ours.signatures
            assert (signature.how, signature.format, signature.on) == (SignerKind.KEY, kind, image.digest)
        else:
            assert isinstance(ours, UntrustedError | BadSignatureError)


@both
def test_unsigned_image_is_refused_by_both(
    workshop: Workshop, pair: Callable[[str], tuple[Path, Path]], series: str, kind: Format
) -> None:
    image, (_, public) = workshop.push(), pair("mine")
    assert isinstance(workshop.decide(image, workshop.trust_key(public)), UnsignedError)
    assert not accepts(workshop.ask_cosign(series, kind, image, "--key", public, NO_LOG))


@pytest.mark.parametrize("series", ["v2", "v3"])
def test_attestation_is_no_signature(workshop: Workshop, pair: Callable[[str], tuple[Path, Path]], series: str) -> None:
    image, (private, public) = workshop.push(), pair("mine")
    kind = Format.BUNDLE if series == "v3" else Format.COSIGN_V2
    workshop.cosigns[series].attest(image.name, {"builder": "me"}, *keyed(private))
    assert isinstance(workshop.decide(image, workshop.trust_key(public)), UnsignedError)
    # `cosign verify` of the third series takes every bundle by the right key; we do as the second one does.
    assert accepts(workshop.ask_cosign(series, kind, image, "--key", public, NO_LOG)) == (series == "v3")
    workshop.sign_with_key(series, kind, image, private)
    assert accepts(workshop.decide(image, workshop.trust_key(public)))
    assert accepts(workshop.ask_cosign(series, kind, image, "--key", public, NO_LOG))


@both
def test_index_signed_by_cosign_counts_for_its_manifest(
    workshop: Workshop, pair: Callable[[str], tuple[Path, Path]], series: str, kind: Format
) -> None:
    private, public = pair("mine")
    index = workshop.push_index()
    workshop.sign_with_key(series, kind, index, private)
    ours = workshop.decide(index, workshop.trust_key(public))
    assert isinstance(ours, Verdict)
    assert accepts(workshop.ask_cosign(series, kind, index, "--key", public, NO_LOG))
    assert ours.signatures[0].on == index.digest


def test_signatures_of_both_series_side_by_side_reach_a_threshold(
    workshop: Workshop, pair: Callable[[str], tuple[Path, Path]]
) -> None:
    image, (first, first_public), (second, second_public) = workshop.push(), pair("mine"), pair("yours")
    policy = workshop.write_policy(keys=[{"path": first_public}, {"path": second_public}], threshold=2)
    workshop.sign_with_key("v2", Format.COSIGN_V2, image, first)
    assert isinstance(workshop.decide(image, policy), UntrustedError)
    workshop.sign_with_key("v3", Format.BUNDLE, image, second)
    verdict = workshop.decide(image, policy)
    assert isinstance(verdict, Verdict)
    assert {signature.format for signature in verdict.signatures} == {Format.COSIGN_V2, Format.BUNDLE}


def test_older_signature_that_refers_to_its_image_counts(
    workshop: Workshop, pair: Callable[[str], tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    image, (private, public) = workshop.push(), pair("mine")
    monkeypatch.setitem(workshop.cosigns["v2"].environment, "COSIGN_EXPERIMENTAL", "1")
    options = ("--key", private, "--tlog-upload=false", "--registry-referrers-mode=oci-1-1")
    workshop.sign("v2", Format.COSIGN_V2, image, *options)
    ours = workshop.decide(image, workshop.trust_key(public))
    theirs = workshop.ask_cosign("v2", Format.COSIGN_V2, image, "--key", public, NO_LOG, "--experimental-oci11")
    assert accepts(theirs)
    assert isinstance(ours, Verdict)


def test_bundle_that_the_referrers_api_lists_counts_as_with_cosign(
    workshop: Workshop, pair: Callable[[str], tuple[Path, Path]]
) -> None:
    """docker-registry has no such API: another server has it, and what docker-registry holds."""
    source, (private, public) = workshop.push(), pair("mine")
    workshop.sign_with_key("v3", Format.BUNDLE, source, private)
    with serve() as server:
        image = Signed(Pusher(server.address, source.pusher.path), source.digest)
        copy_to(server, workshop, source)
        policy = workshop.trust_key(public)
        assert isinstance(workshop.decide(image, policy), Verdict)
        assert accepts(workshop.ask_cosign("v3", Format.BUNDLE, image, "--key", public, NO_LOG))
        server.says(
            f"/v2/{source.pusher.path}/referrers/{source.digest}", json.dumps(EMPTY).encode(), Content_Type=OCI_INDEX
        )
        assert isinstance(workshop.decide(image, policy), UnsignedError)
        assert not accepts(workshop.ask_cosign("v3", Format.BUNDLE, image, "--key", public, NO_LOG))


def copy_to(server: Server, workshop: Workshop, image: Signed) -> None:
    """The image and its bundle, the latter listed by the API."""
    registry, resolved = workshop.registry, workshop.fetch(image)
    (referrer,) = registry.fetch_referrers(image.reference, image.digest)
    described, artefact = registry.fetch_manifest(image.reference, referrer.digest)
    entry = {
        "mediaType": described.media_type,
        "digest": described.digest,
        "size": described.size,
        "artifactType": referrer.artifact_type,
        "annotations": dict(referrer.annotations),
    }
    manifest, data = resolved.manifests[0]
    bodies = {
        f"manifests/{image.digest}": (data, manifest.media_type),
        f"manifests/{described.digest}": (artefact, described.media_type),
        f"referrers/{image.digest}": (json.dumps(EMPTY | {"manifests": [entry]}).encode(), OCI_INDEX),
    }
    document = json.loads(artefact)
    for blob in (document["layers"][0], document["config"]):
        described = Descriptor(blob["mediaType"], blob["digest"], blob["size"])
        bodies[f"blobs/{blob['digest']}"] = (
            registry.fetch_bytes(image.reference, described, 1 << 20),
            "application/json",
        )
    config = registry.fetch_bytes(image.reference, resolved.config, 1 << 20)
    bodies[f"blobs/{resolved.config.digest}"] = config, resolved.config.media_type
    server.says("/v2/", b"{}")
    for path, (body, kind) in bodies.items():
        server.says(f"/v2/{image.pusher.path}/{path}", body, Content_Type=kind)
