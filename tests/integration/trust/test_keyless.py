"""Signatures by identities: cosign against the virtual Fulcio and Rekor of sigstore-go; our verdict is its."""

import json
from pathlib import Path

import pytest

from lab.signing import VirtualSigstore
from lab.store import Store
from schedkit.trust.errors import ExpiredError, NoLogEntryError, UntrustedError
from schedkit.trust.model import Format, SignerKind, Verdict
from tests.integration.trust.workshop import (
    FORMATS,
    ISSUER,
    NO_LOG,
    NO_SCT,
    SUBJECT,
    Signed,
    Workshop,
    accepts,
)

both = pytest.mark.parametrize(("series", "kind"), list(FORMATS), ids=str)


@pytest.fixture(scope="module")
def images(workshop: Workshop) -> dict[tuple[str, Format], Signed]:
    """One for each series and format, all by the same identity."""
    signed = {}
    for series, kind in FORMATS:
        signed[series, kind] = workshop.push()
        workshop.sign_keyless(series, kind, signed[series, kind])
    return signed


def who(subject: str = SUBJECT, issuer: str = ISSUER) -> tuple[str, ...]:
    return "--certificate-identity", subject, "--certificate-oidc-issuer", issuer


@both
@pytest.mark.parametrize(
    ("subject", "issuer", "accepted"),
    [
        (SUBJECT, ISSUER, True),
        (SUBJECT, "https://accounts.evil.example", False),
        ("release@evil.example", ISSUER, False),
        (SUBJECT.upper(), ISSUER, False),
        (SUBJECT[:-1], ISSUER, False),
    ],
    ids=["the signer", "other issuer", "other subject", "upper case", "a part of it"],
)
def test_identity_is_judged_as_cosign_does(
    workshop: Workshop,
    images: dict[tuple[str, Format], Signed],
    series: str,
    kind: Format,
    subject: str,
    issuer: str,
    accepted: bool,
) -> None:
    image = images[series, kind]
    ours = workshop.decide(image, workshop.trust_identity(subject=subject, issuer=issuer))
    theirs = workshop.ask_cosign(series, kind, image, *who(subject, issuer), NO_SCT)
    assert accepts(ours) == accepts(theirs) == accepted, f"{ours}\n{theirs}"
    if isinstance(ours, Verdict):
        (signature,) = ours.signatures
        assert (signature.who, signature.how, signature.format) == (f"{SUBJECT} ({ISSUER})", SignerKind.KEYLESS, kind)
        assert signature.signed_at is not None
    else:
        assert isinstance(ours, UntrustedError)
        assert f"is signed by {SUBJECT} ({ISSUER})" in ours.message


@both
@pytest.mark.parametrize(
    ("expression", "accepted"),
    [
        (r"^release@schedkit\.example$", True),
        (r"^[a-z]+@schedkit\.example$", True),
        (r"^release@", True),
        (r"^schedkit\.example", False),
    ],
)
def test_expression_is_judged_as_cosign_does(
    workshop: Workshop,
    images: dict[tuple[str, Format], Signed],
    series: str,
    kind: Format,
    expression: str,
    accepted: bool,
) -> None:
    image, root = images[series, kind], workshop.sigstore.trusted_root
    policy = workshop.write_policy(
        identities=[{"issuerRegExp": r"^https://accounts\.", "subjectRegExp": expression}], trustedRoot=root
    )
    expressions = (
        *("--certificate-identity-regexp", expression),
        *("--certificate-oidc-issuer-regexp", r"^https://accounts\."),
    )
    theirs = workshop.ask_cosign(series, kind, image, *expressions, NO_SCT)
    assert accepts(workshop.decide(image, policy)) == accepts(theirs) == accepted, theirs


@both
def test_certificate_of_another_authority_is_refused_by_both(
    workshop: Workshop,
    images: dict[tuple[str, Format], Signed],
    series: str,
    kind: Format,
    store: Store,
    tmp_path: Path,
) -> None:
    image = images[series, kind]
    with VirtualSigstore(store, tmp_path) as elsewhere:
        root = elsewhere.trusted_root
        ours = workshop.decide(image, workshop.trust_identity(trustedRoot=root))
        assert isinstance(ours, NoLogEntryError), "its log is another's too"
        assert not accepts(workshop.ask_cosign(series, kind, image, *who(), NO_SCT, root=root))


@both
def test_certificate_that_had_expired_is_refused_by_both(workshop: Workshop, series: str, kind: Format) -> None:
    image = workshop.push()
    workshop.sign_keyless(series, kind, image, ca="/old")
    assert isinstance(workshop.decide(image, workshop.trust_identity()), ExpiredError)
    assert not accepts(workshop.ask_cosign(series, kind, image, *who(), NO_SCT))


@pytest.mark.parametrize(("series", "kind"), [("v2", Format.COSIGN_V2), ("v3", Format.BUNDLE)], ids=str)
def test_timestamp_stands_in_for_a_log_that_the_policy_does_not_want(
    workshop: Workshop, series: str, kind: Format
) -> None:
    image, sigstore = workshop.push(), workshop.sigstore
    workshop.sign(series, kind, image, *sigstore.stamped(series, SUBJECT, ISSUER))
    ours = workshop.decide(image, workshop.trust_identity(requireLog=False))
    question = (*who(), NO_SCT, "--use-signed-timestamps")
    theirs = workshop.ask_cosign(series, kind, image, *question, NO_LOG)
    assert accepts(theirs), theirs.stderr
    assert isinstance(ours, Verdict), ours
    assert (ours.signatures[0].log, ours.signatures[0].signed_at is not None) == (None, True)
    # With a log that must vouch, neither takes it; nor by a clock that nobody trusts.
    assert isinstance(workshop.decide(image, workshop.trust_identity()), NoLogEntryError)
    assert not accepts(workshop.ask_cosign(series, kind, image, *question))
    root = workshop.folder / "no-clocks.json"
    root.write_text(json.dumps(json.loads(sigstore.trusted_root.read_text()) | {"timestampAuthorities": []}))
    policy = workshop.trust_identity(requireLog=False, trustedRoot=root)
    assert isinstance(workshop.decide(image, policy), NoLogEntryError)
    assert not accepts(workshop.ask_cosign(series, kind, image, *question, NO_LOG, root=root))
