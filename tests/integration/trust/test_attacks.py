"""What an attacker may try with real signatures of real cosign: each is refused, and only by the check that it names.

The registry is the attacker's: it holds what they want, beside whatever image they want.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import BadDataError
from schedkit.images.reference import Reference
from schedkit.trust.errors import (
    BadSignatureError,
    ExpiredError,
    NoLogEntryError,
    Refusal,
    UnsignedError,
    UntrustedError,
)
from schedkit.trust.evidence import Entry
from schedkit.trust.identities import Identity, Pattern, Signer
from schedkit.trust.model import Format, Verdict
from schedkit.trust.policy import Policy
from tests.integration.images.pushing import Pusher, digest_of
from tests.integration.trust.workshop import (
    AMD64,
    ISSUER,
    NO_LOG,
    NO_SCT,
    SUBJECT,
    Signed,
    Workshop,
    accepts,
    flip,
)

SIMPLE, BUNDLE = Format.COSIGN_V2, Format.BUNDLE
LOG_NOTE = "dev.sigstore.cosign/bundle"
Attacked = tuple[Signed, Policy]
Removal = Callable[[pytest.MonkeyPatch, Signed], None]


@dataclass(frozen=True)
class Attack:
    """How it is done, how it must end, and how the check that ends it is taken away."""

    do: Callable[["Bench"], Attacked]
    ends: type[Refusal]
    remove: Removal

    @property
    def name(self) -> str:
        return self.do.__name__


@dataclass(frozen=True)
class Bench:
    """The workshop and two keys of cosign's."""

    shop: Workshop
    key: Path
    public: Path
    other_public: Path

    def signed(self, kind: Format) -> Signed:
        image = self.shop.push()
        self.shop.sign_with_key(SERIES[kind], kind, image, self.key)
        return image

    def logged(self, kind: Format) -> Signed:
        image = self.shop.push()
        self.shop.sign_with_key_and_log(SERIES[kind], kind, image, self.key)
        return image

    def keyless(self, kind: Format, **how: str) -> Signed:
        image = self.shop.push()
        self.shop.sign_keyless(SERIES[kind], kind, image, **how)
        return image

    def bundle_of(self, image: Signed) -> dict[str, Any]:
        return image.read_bundle(self.shop.registry)

    def layer_of(self, image: Signed) -> tuple[bytes, dict[str, str]]:
        (layer,) = image.read_layers(self.shop.registry)
        return layer

    def want_log(self) -> Policy:
        return self.shop.trust_key(self.public, requireLog=True, trustedRoot=self.shop.sigstore.trusted_root)


SERIES = {SIMPLE: "v2", BUNDLE: "v3"}


@pytest.fixture(scope="module")
def bench(workshop: Workshop, pair: Callable[[str], tuple[Path, Path]]) -> Bench:
    (key, public), (_, other) = pair("attacked"), pair("other")
    return Bench(workshop, key, public, other)


# --- how checks are taken away ----------------------------------------------------------------------------------------


def allow(*places: str, answer: object = None) -> Removal:
    """Replace functions by ones that find nothing wrong."""

    def remove(patch: pytest.MonkeyPatch, _: Signed) -> None:
        for place in places:
            patch.setattr(f"schedkit.{place}", lambda *_, **__: answer)

    return remove


def raise_limit(place: str) -> Removal:
    return lambda patch, _: patch.setattr(f"schedkit.trust.{place}", 1 << 30)


def believe_place(patch: pytest.MonkeyPatch, image: Signed) -> None:
    """A signature is taken to be of what it lies beside, whatever it names."""
    patch.setattr("schedkit.trust.simplesigning.parse_payload", lambda _: image.digest)
    patch.setattr("schedkit.trust.bundle.parse_statement", lambda _, digest: digest)


def believe_time(patch: pytest.MonkeyPatch, _: Signed) -> None:
    """The time beside a log entry is taken as it is, though the log signed another."""

    def read(entry: Entry, *_: object) -> datetime:
        return datetime.fromtimestamp(entry.integrated or 0, UTC)

    patch.setattr("schedkit.trust.log._check_promise", read)


def ignore_issuer(patch: pytest.MonkeyPatch, _: Signed) -> None:
    def matches(self: Identity, signer: Signer) -> bool:
        return any(self.subject.matches(name) for name in signer.subjects)

    patch.setattr(Identity, "matches", matches)


def search_anywhere(patch: pytest.MonkeyPatch, _: Signed) -> None:
    import re

    patch.setattr(Pattern, "matches", lambda self, value: re.search(self.text, value) is not None)


# --- the attacks ------------------------------------------------------------------------------------------------------


def digest_swapped_in_a_payload(bench: Bench) -> Attacked:
    source, image = bench.signed(SIMPLE), bench.shop.push()
    payload, notes = bench.layer_of(source)
    image.put_layers((payload.replace(source.digest.encode(), image.digest.encode()), notes))
    return image, bench.shop.trust_key(bench.public)


def digest_swapped_in_a_statement(bench: Bench) -> Attacked:
    source, image = bench.signed(BUNDLE), bench.shop.push()
    bundle = bench.bundle_of(source)
    text = base64.b64decode(bundle["dsseEnvelope"]["payload"]).decode()
    hexes = [one.digest.removeprefix("sha256:") for one in (source, image)]
    assert hexes[0] in text
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(text.replace(*hexes).encode()).decode()
    image.put_bundle(bundle)
    return image, bench.shop.trust_key(bench.public)


def signature_of_another_image_copied_over(bench: Bench) -> Attacked:
    image = bench.shop.push()
    image.put_layers(bench.layer_of(bench.signed(SIMPLE)))
    return image, bench.shop.trust_key(bench.public)


def bundle_of_another_image_copied_over(bench: Bench) -> Attacked:
    image = bench.shop.push()
    image.put_bundle(bench.bundle_of(bench.signed(BUNDLE)))
    return image, bench.shop.trust_key(bench.public)


def log_entry_of_another_artefact(bench: Bench) -> Attacked:
    """With the older format: an entry that the log signed, of another image by the same key."""
    image = bench.signed(SIMPLE)
    payload, notes = bench.layer_of(image)
    _, others = bench.layer_of(bench.logged(SIMPLE))
    image.put_layers((payload, notes | {LOG_NOTE: others[LOG_NOTE]}))
    return image, bench.want_log()


def log_entry_of_another_artefact_in_a_bundle(bench: Bench) -> Attacked:
    image = bench.signed(BUNDLE)
    bundle, other = bench.bundle_of(image), bench.bundle_of(bench.logged(BUNDLE))
    bundle["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    image.put_bundle(bundle)
    return image, bench.want_log()


def no_log_entry(bench: Bench) -> Attacked:
    image = bench.logged(BUNDLE)
    bundle = bench.bundle_of(image)
    del bundle["verificationMaterial"]["tlogEntries"]
    image.put_bundle(bundle)
    return image, bench.want_log()


def certificate_expired_at_signing_time(bench: Bench) -> Attacked:
    return bench.keyless(SIMPLE, ca="/old"), bench.shop.trust_identity()


def time_of_an_expired_certificate_turned_back(bench: Bench) -> Attacked:
    """The log says when; the attacker says when the certificate was still valid."""
    image = bench.keyless(SIMPLE, ca="/old")
    payload, notes = bench.layer_of(image)
    log = json.loads(notes[LOG_NOTE])
    log["Payload"]["integratedTime"] -= 5 * 60
    image.put_layers((payload, notes | {LOG_NOTE: json.dumps(log)}))
    return image, bench.shop.trust_identity()


def wrong_issuer(bench: Bench) -> Attacked:
    """The same name, vouched for by somebody else's accounts."""
    return bench.keyless(BUNDLE, issuer="https://accounts.evil.example"), bench.shop.trust_identity()


def another_subject(bench: Bench) -> Attacked:
    return bench.keyless(BUNDLE, subject="release@evil.example"), bench.shop.trust_identity()


def unanchored_branch_of_an_expression(bench: Bench) -> Attacked:
    """`^a|b` looks anchored, and is so in its first branch only."""
    image = bench.keyless(BUNDLE, subject=f"not-{SUBJECT}")
    expression = r"^maker@schedkit\.example$|release@schedkit\.example$"
    root = bench.shop.sigstore.trusted_root
    identities = [{"issuer": ISSUER, "subjectRegExp": expression}]
    return image, bench.shop.write_policy(identities=identities, trustedRoot=root)


def key_of_another_type(bench: Bench) -> Attacked:
    """An ECDSA signature where the policy has an RSA key: no key may be read as one of another kind."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    path = bench.shop.folder / "rsa.pub"
    public = rsa.generate_private_key(65537, 2048).public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return bench.signed(BUNDLE), bench.shop.trust_key(path)


def key_of_somebody_else(bench: Bench) -> Attacked:
    return bench.signed(SIMPLE), bench.shop.trust_key(bench.other_public)


def tampered_checkpoint(bench: Bench) -> Attacked:
    image = bench.keyless(BUNDLE)
    bundle = bench.bundle_of(image)
    checkpoint = bundle["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]["checkpoint"]
    lines = checkpoint["envelope"].split("\n")
    lines[1] = str(int(lines[1]) + 1)  # another size of the log than it signed
    checkpoint["envelope"] = "\n".join(lines)
    image.put_bundle(bundle)
    return image, bench.shop.trust_identity()


def proof_of_another_entry(bench: Bench) -> Attacked:
    """A checkpoint that the log signed, and the entry is not in it."""
    image = bench.keyless(BUNDLE)
    bundle, other = bench.bundle_of(image), bench.bundle_of(bench.keyless(BUNDLE))
    (entry,), (others,) = (one["verificationMaterial"]["tlogEntries"] for one in (bundle, other))
    entry["inclusionProof"] = others["inclusionProof"]
    image.put_bundle(bundle)
    return image, bench.shop.trust_identity()


def payload_of_a_megabyte(bench: Bench) -> Attacked:
    """Rightly signed, and larger than anything that a check should hold."""
    image = bench.shop.push()
    critical = {"image": {"docker-manifest-digest": image.digest}, "type": "cosign container image signature"}
    path = bench.shop.folder / "giant.json"
    path.write_text(json.dumps({"critical": critical, "optional": {"giant": "x" * (1 << 20)}}))
    options = ("--key", bench.key, "--tlog-upload=false", "--payload", path)
    bench.shop.sign("v2", SIMPLE, image, *options)
    return image, bench.shop.trust_key(bench.public)


def thousands_of_signatures(bench: Bench) -> Attacked:
    """A right one at the end of a list that takes for ever."""
    image = bench.signed(SIMPLE)
    payload, notes = bench.layer_of(image)
    wrong = {name: flip(text) if name.endswith("/signature") else text for name, text in notes.items()}
    image.put_layers(*[(payload, wrong)] * 2000, (payload, notes))
    return image, bench.shop.trust_key(bench.public)


ATTACKS = [
    Attack(digest_swapped_in_a_payload, UntrustedError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(digest_swapped_in_a_statement, BadSignatureError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(signature_of_another_image_copied_over, BadSignatureError, believe_place),
    Attack(bundle_of_another_image_copied_over, BadSignatureError, believe_place),
    Attack(log_entry_of_another_artefact, BadSignatureError, allow("trust.log_body.check_body")),
    Attack(log_entry_of_another_artefact_in_a_bundle, BadSignatureError, allow("trust.log_body.check_body")),
    Attack(no_log_entry, NoLogEntryError, allow("trust.judging.check_log")),
    # The chain is checked at the same time again: that is a second lock on the same door.
    Attack(
        certificate_expired_at_signing_time,
        ExpiredError,
        allow("trust.certificates._check_time", "trust.certificates._check_path"),
    ),
    Attack(time_of_an_expired_certificate_turned_back, BadSignatureError, believe_time),
    Attack(wrong_issuer, UntrustedError, ignore_issuer),
    Attack(another_subject, UntrustedError, lambda patch, _: patch.setattr(Identity, "matches", lambda *_: True)),
    Attack(unanchored_branch_of_an_expression, UntrustedError, search_anywhere),
    Attack(key_of_another_type, UntrustedError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(key_of_somebody_else, UntrustedError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(tampered_checkpoint, BadSignatureError, allow("trust.log.check_checkpoint")),
    Attack(proof_of_another_entry, BadSignatureError, allow("trust.log.check_inclusion")),
    Attack(payload_of_a_megabyte, BadSignatureError, raise_limit("collecting.LARGEST_PAYLOAD")),
    Attack(thousands_of_signatures, UntrustedError, raise_limit("collecting.MOST_TRIED")),
]
# cosign looks for an expression anywhere in a name, and has other limits of what it reads.
LAXER_IN_COSIGN = (unanchored_branch_of_an_expression, payload_of_a_megabyte, thousands_of_signatures)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_refused_and_only_by_its_check(bench: Bench, attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    image, policy = attack.do(bench)
    verdict = bench.shop.decide(image, policy)
    assert type(verdict) is attack.ends, verdict
    attack.remove(monkeypatch, image)
    assert isinstance(bench.shop.decide(image, policy), Verdict), "something else refused it: the attack proves nothing"


@pytest.mark.parametrize(
    "attack", [attack for attack in ATTACKS if attack.do not in LAXER_IN_COSIGN], ids=lambda attack: attack.name
)
def test_cosign_refuses_the_same_attack(bench: Bench, attack: Attack) -> None:
    image, policy = attack.do(bench)
    (rule,) = policy.rules
    options: list[str | Path] = []
    if rule.keys:
        options = ["--key", rule.keys[0].path, *(("--trusted-root", rule.root.path) if rule.root else (NO_LOG,))]
    elif rule.root:
        options = ["--trusted-root", rule.root.path, "--certificate-identity", SUBJECT, NO_SCT]
        options += ["--certificate-oidc-issuer", ISSUER]
    answer = bench.shop.cosigns["v3"].verify(image.name, *options)
    assert not accepts(answer)
    assert "panic" not in answer.stderr
    assert "unknown flag" not in answer.stderr


# --- attacks on what is signed, not on the signature ------------------------------------------------------------------


def test_tag_moved_after_the_check_changes_nothing_of_what_is_run(bench: Bench) -> None:
    """What was verified is pinned by digest; the tag is not looked at again."""
    image = bench.signed(BUNDLE)
    tag = Reference(image.pusher.address, image.pusher.path, "v1", None)
    resolved = bench.shop.registry.fetch_image(tag, AMD64)
    assert isinstance(bench.shop.decide(image, bench.shop.trust_key(bench.public)), Verdict)
    image.pusher.image("amd64", layer=b"evil", tag="v1")
    assert bench.shop.registry.fetch_image(tag, AMD64).digest != resolved.digest, "the tag did not move"
    assert b"evil" not in b"".join(resolved.fetch_blob(resolved.layers[0]))
    moved = Signed(image.pusher, bench.shop.registry.fetch_digest(tag))
    assert isinstance(bench.shop.decide(moved, bench.shop.trust_key(bench.public)), UnsignedError)


@pytest.mark.parametrize("checked", [True, False])
def test_platform_manifest_swapped_below_a_signed_index(
    bench: Bench, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the registry's own disk, in the same number of bytes; without the check of digests it would run."""
    pusher = Pusher(bench.shop.address, f"trust/index-{checked}".lower())
    good, evil = (pusher.image("amd64", layer=layer) for layer in (b"good", b"evil"))
    assert good["size"] == evil["size"]
    index = Signed(pusher, pusher.index(good, tag="v1")["digest"])
    bench.shop.sign_with_key("v3", BUNDLE, index, bench.key)
    policy = bench.shop.trust_key(bench.public)
    assert isinstance(bench.shop.decide(index, policy), Verdict)
    places = [_find_blob(bench.shop.storage, one["digest"]) for one in (good, evil)]
    places[0].write_bytes(places[1].read_bytes())
    if checked:
        with pytest.raises(BadDataError, match="was asked for"):
            bench.shop.decide(index, policy)
        return
    monkeypatch.setattr("schedkit.images.registry.check_digest", lambda *_: None)
    assert isinstance(bench.shop.decide(index, policy), Verdict)
    assert bench.shop.fetch(index).layers[0].digest == digest_of(b"evil")


def test_index_of_an_attacker_around_a_signed_manifest_counts_for_that_manifest_only(bench: Bench) -> None:
    image, policy = bench.signed(BUNDLE), bench.shop.trust_key(bench.public)
    signed = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": image.digest}
    signed |= {"size": bench.shop.fetch(image).manifests[0][0].size}
    evil = image.pusher.image("amd64", layer=b"evil")
    first, second = ({"os": "linux", "architecture": name} for name in ("amd64", "arm64"))
    of_ours = image.pusher.index(signed | {"platform": first}, evil | {"platform": second})
    of_theirs = image.pusher.index(evil | {"platform": first}, signed | {"platform": second})
    verdict = bench.shop.decide(Signed(image.pusher, of_ours["digest"]), policy)
    assert isinstance(verdict, Verdict)
    assert verdict.signatures[0].on == image.digest
    assert isinstance(bench.shop.decide(Signed(image.pusher, of_theirs["digest"]), policy), UnsignedError)


def test_manifest_of_many_megabytes_is_not_read_to_its_end(bench: Bench) -> None:
    """docker-registry takes none that large, so it is put on the registry's disk."""
    image = bench.signed(SIMPLE)
    reference = Reference(image.pusher.address, image.pusher.path, image.signature_tag, None)
    place = _find_blob(bench.shop.storage, bench.shop.registry.fetch_digest(reference))
    whole = place.read_bytes()
    place.write_bytes(whole[:-1] + b" " * (8 << 20) + b"}")
    refusal = bench.shop.decide(image, bench.shop.trust_key(bench.public))
    assert isinstance(refusal, BadSignatureError)
    assert "more than 4194304 bytes" in refusal.message


def _find_blob(storage: Path, digest: str) -> Path:
    value = digest.removeprefix("sha256:")
    return storage / "docker/registry/v2/blobs/sha256" / value[:2] / value / "data"
