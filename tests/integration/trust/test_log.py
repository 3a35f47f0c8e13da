"""Keys with a transparency log: the virtual one of sigstore-go, and a real Rekor that keeps its entries in files."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.signing import Options, Rekor, VirtualSigstore, make_token
from lab.store import Store
from schedkit.trust.errors import BadSignatureError, NoLogEntryError
from schedkit.trust.model import Format, SignerKind, Verdict
from tests.integration.trust.workshop import (
    FORMATS,
    ISSUER,
    NO_SCT,
    SUBJECT,
    Signed,
    Workshop,
    accepts,
    flip,
)

both = pytest.mark.parametrize(("series", "kind"), list(FORMATS), ids=str)
Pair = Callable[[str], tuple[Path, Path]]


@both
def test_entry_of_the_log_is_needed_and_found(workshop: Workshop, pair: Pair, series: str, kind: Format) -> None:
    private, public = pair("mine")
    root = workshop.sigstore.trusted_root
    policy = workshop.trust_key(public, requireLog=True, trustedRoot=root)
    logged, bare = workshop.push(), workshop.push()
    workshop.sign_with_key_and_log(series, kind, logged, private)
    workshop.sign_with_key(series, kind, bare, private)
    ours = workshop.decide(logged, policy)
    theirs = workshop.ask_cosign(series, kind, logged, "--key", public)
    assert accepts(theirs), theirs.stderr
    assert isinstance(ours, Verdict), ours
    assert ours.signatures[0].log is not None
    assert ours.signatures[0].signed_at is not None
    assert isinstance(workshop.decide(bare, policy), NoLogEntryError)
    assert not accepts(workshop.ask_cosign(series, kind, bare, "--key", public))


def test_entry_of_a_log_that_nobody_trusts_does_not_count(
    workshop: Workshop, pair: Pair, store: Store, tmp_path: Path
) -> None:
    image, (private, public) = workshop.push(), pair("mine")
    workshop.sign_with_key_and_log("v3", Format.BUNDLE, image, private)
    with VirtualSigstore(store, tmp_path) as elsewhere:
        policy = workshop.trust_key(public, requireLog=True, trustedRoot=elsewhere.trusted_root)
        assert isinstance(workshop.decide(image, policy), NoLogEntryError)
        root = elsewhere.trusted_root
        assert not accepts(workshop.ask_cosign("v3", Format.BUNDLE, image, "--key", public, root=root))


# --- a real log -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rekor(store: Store, workshop: Workshop) -> Iterator[Rekor]:
    with Rekor(store, workshop.folder / "rekor") as rekor:
        yield rekor


@pytest.fixture(scope="module")
def root(workshop: Workshop, rekor: Rekor) -> Path:
    """The authorities of the virtual sigstore, and the real log."""
    return rekor.write_trusted_root(workshop.sigstore.trusted_root, workshop.folder / "rekor-root.json")


@pytest.fixture(scope="module")
def keyed(workshop: Workshop, rekor: Rekor, pair: Pair, root: Path) -> Signed:
    """An image signed with a key, whose entry is not the first of the real log."""
    config = workshop.sigstore.write_signing_config("rekor", log=rekor.url, log_version=2)
    for _ in range(3):
        image = workshop.push()
        workshop.sign(
            "v3", Format.BUNDLE, image, "--key", pair("mine")[0], "--signing-config", config, "--trusted-root", root
        )
    return image


def test_entry_of_a_real_log_with_a_key(workshop: Workshop, pair: Pair, keyed: Signed, root: Path) -> None:
    _, public = pair("mine")
    ours = workshop.decide(keyed, workshop.trust_key(public, requireLog=True, trustedRoot=root))
    theirs = workshop.ask_cosign("v3", Format.BUNDLE, keyed, "--key", public, root=root)
    assert accepts(theirs), theirs.stderr
    assert isinstance(ours, Verdict), ours
    (signature,) = ours.signatures
    assert signature.log is not None
    assert (signature.log.log_index, signature.log.integrated) == (2, None), "this log does not vouch for times"
    # Without the real log in the root, neither takes it.
    without = workshop.sigstore.trusted_root
    policy = workshop.trust_key(public, requireLog=True, trustedRoot=without)
    assert isinstance(workshop.decide(keyed, policy), NoLogEntryError)
    assert not accepts(workshop.ask_cosign("v3", Format.BUNDLE, keyed, "--key", public, root=without))


def test_entry_of_a_real_log_with_a_certificate_and_a_timestamp(workshop: Workshop, rekor: Rekor, root: Path) -> None:
    image, sigstore = workshop.push(), workshop.sigstore
    config = sigstore.write_signing_config(
        "rekor-keyless", ca=sigstore.url, log=rekor.url, log_version=2, tsa=f"{sigstore.url}/timestamp"
    )
    token = make_token(SUBJECT, ISSUER)
    services: Options = ("--signing-config", config, "--trusted-root", root)
    workshop.sign("v3", Format.BUNDLE, image, "--identity-token", token, *services)
    ours = workshop.decide(image, workshop.trust_identity(trustedRoot=root))
    who = ("--certificate-identity", SUBJECT, "--certificate-oidc-issuer", ISSUER)
    theirs = workshop.ask_cosign("v3", Format.BUNDLE, image, *who, NO_SCT, "--use-signed-timestamps", root=root)
    assert accepts(theirs), theirs.stderr
    assert isinstance(ours, Verdict), ours
    assert (ours.signatures[0].how, ours.signatures[0].signed_at is not None) == (SignerKind.KEYLESS, True)
    # The log vouches for no time; the timestamp does, and by then a log that had ended is none.
    document = json.loads(root.read_text())
    document["tlogs"][0]["publicKey"]["validFor"]["end"] = "2021-01-01T00:00:00Z"
    ended = workshop.folder / "log-ended.json"
    ended.write_text(json.dumps(document))
    refused = workshop.decide(image, workshop.trust_identity(trustedRoot=ended))
    assert isinstance(refused, BadSignatureError)
    assert "was not trusted" in refused.message


def test_only_the_log_that_the_policy_names_counts(workshop: Workshop, pair: Pair, rekor: Rekor, root: Path) -> None:
    image, (private, public) = workshop.push(), pair("mine")
    workshop.sign_with_key_and_log("v3", Format.BUNDLE, image, private)
    virtual, real = (json.loads(path.read_text()) for path in (workshop.sigstore.trusted_root, root))
    both_logs = workshop.folder / "both-logs.json"
    both_logs.write_text(json.dumps(virtual | {"tlogs": virtual["tlogs"] + real["tlogs"]}))
    urls = {workshop.sigstore.url: Verdict, rekor.url: NoLogEntryError}
    for url, expected in urls.items():
        policy = workshop.trust_key(public, rekorURL=url, requireLog=True, trustedRoot=both_logs)
        assert isinstance(workshop.decide(image, policy), expected)


def test_place_in_a_real_log_is_told_as_its_proof_has_it(
    workshop: Workshop, pair: Pair, keyed: Signed, root: Path
) -> None:
    kept = keyed.read_bundle(workshop.registry)
    bundle = copy.deepcopy(kept)
    bundle["verificationMaterial"]["tlogEntries"][0]["logIndex"] = "1234"  # nothing vouches for this one
    try:
        keyed.put_bundle(bundle)
        ours = workshop.decide(keyed, workshop.trust_key(pair("mine")[1], requireLog=True, trustedRoot=root))
    finally:
        keyed.put_bundle(kept)
    assert isinstance(ours, Verdict), ours
    assert ours.signatures[0].log is not None
    assert ours.signatures[0].log.log_index == 2


@pytest.mark.parametrize("part", ["hash", "index", "checkpoint"])
def test_tampered_proof_of_a_real_log_is_refused_by_both(
    workshop: Workshop, pair: Pair, keyed: Signed, root: Path, part: str
) -> None:
    _, public = pair("mine")
    kept = keyed.read_bundle(workshop.registry)
    bundle = copy.deepcopy(kept)
    (entry,) = bundle["verificationMaterial"]["tlogEntries"]
    proof = entry["inclusionProof"]
    assert proof["hashes"], "an entry that is alone in its log needs no proof"
    match part:
        case "hash":
            proof["hashes"][0] = flip(proof["hashes"][0])
        case "index":
            entry["logIndex"] = proof["logIndex"] = "0"
        case _:
            text = proof["checkpoint"]["envelope"].split("\n")
            proof["checkpoint"]["envelope"] = "\n".join([text[0], str(int(text[1]) + 1), *text[2:]])
    try:
        keyed.put_bundle(bundle)
        policy = workshop.trust_key(public, requireLog=True, trustedRoot=root)
        assert isinstance(workshop.decide(keyed, policy), BadSignatureError)
        theirs = workshop.ask_cosign("v3", Format.BUNDLE, keyed, "--key", public, root=root)
        assert not accepts(theirs)
    finally:
        keyed.put_bundle(kept)
