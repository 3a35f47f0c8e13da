"""Signatures by keys, made by real cosign of both series in both formats: our verdict is cosign's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from schedkit.trust.errors import UnsignedError, UntrustedError
from schedkit.trust.model import Format, How, Verdict
from tests.integration.trust.workshop import FORMATS, NO_LOG, Workshop, accepts
from tests.unit.trust.material import make_key

KINDS = ("p256", "p384", "rsa", "ed25519")
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
        theirs = workshop.ask_cosign(series, kind, image, "--key", public, NO_LOG)
        assert accepts(ours) == accepts(theirs) == (name == algorithm), f"{ours}\n{theirs}"
        if isinstance(ours, Verdict):
            (signature,) = ours.signatures
            assert (signature.how, signature.format, signature.on) == (How.KEY, kind, image.digest)
        else:
            assert isinstance(ours, UntrustedError)


@both
def test_unsigned_image_is_refused_by_both(
    workshop: Workshop, pair: Callable[[str], tuple[Path, Path]], series: str, kind: Format
) -> None:
    image, (_, public) = workshop.push(), pair("mine")
    assert isinstance(workshop.decide(image, workshop.trust_key(public)), UnsignedError)
    assert not accepts(workshop.ask_cosign(series, kind, image, "--key", public, NO_LOG))


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
