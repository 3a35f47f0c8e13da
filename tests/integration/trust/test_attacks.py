"""Each attack is refused, and only by the check that it names: without that check, it would get through."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schedkit.errors import BadDataError
from schedkit.images.image import Image
from schedkit.images.oci import OCI_MANIFEST, Descriptor
from schedkit.images.reference import Reference
from schedkit.trust.errors import (
    BadSignatureError,
    ExpiredError,
    NoLogEntryError,
    Refusal,
    UnsignedError,
    UntrustedError,
)
from schedkit.trust.evidence import EvidenceEntry
from schedkit.trust.identities import Identity, Pattern, Signer
from schedkit.trust.model import Verdict
from tests.integration.images.pushing import Pusher, digest_of
from tests.integration.images.servers import serve
from tests.integration.trust import attacks
from tests.integration.trust.attacks import BUNDLE, SERIES, SIMPLE, Attacked, Bench
from tests.integration.trust.workshop import AMD64, ISSUER, NO_LOG, NO_SCT, SUBJECT, Signed, Workshop, accepts

Removal = Callable[[pytest.MonkeyPatch, Signed], None]


@dataclass(frozen=True)
class Attack:
    """How it is done, how it must end, and how the check that ends it is taken away."""

    do: Callable[[Bench], Attacked]
    ends: type[Refusal]
    remove: Removal

    @property
    def name(self) -> str:
        return self.do.__name__


@pytest.fixture(scope="module")
def bench(workshop: Workshop, pair: Callable[[str], tuple[Path, Path]]) -> Iterator[Bench]:
    (key, public), (_, other) = pair("attacked"), pair("other")
    with serve() as hostile:
        yield Bench(workshop, hostile, key, public, other)


# --- how checks are taken away ----------------------------------------------------------------------------------------


def allow(*places: str, answer: object = None) -> Removal:
    """Replace functions by ones that find nothing wrong."""

    def remove(patch: pytest.MonkeyPatch, _: Signed) -> None:
        for place in places:
            patch.setattr(f"schedkit.{place}", lambda *_, **__: answer)

    return remove


def raise_limits(*places: str) -> Removal:
    def remove(patch: pytest.MonkeyPatch, _: Signed) -> None:
        for place in places:
            patch.setattr(f"schedkit.{place}", 1 << 30)

    return remove


def believe_place(patch: pytest.MonkeyPatch, image: Signed) -> None:
    """A signature is taken to be of what it lies beside, whatever it names."""
    patch.setattr("schedkit.trust.simplesigning.parse_payload", lambda _: image.digest)
    patch.setattr("schedkit.trust.bundle.parse_statement", lambda _, digest: digest)


def believe_time(patch: pytest.MonkeyPatch, _: Signed) -> None:
    """The time beside a log entry is taken as it is, though the log signed another."""

    def read(entry: EvidenceEntry, *_: object) -> datetime:
        return datetime.fromtimestamp(entry.integrated or 0, UTC)

    patch.setattr("schedkit.trust.log._check_set", read)


def ignore_issuer(patch: pytest.MonkeyPatch, _: Signed) -> None:
    def matches(self: Identity, signer: Signer) -> bool:
        return any(self.subject.matches(name) for name in signer.subjects)

    patch.setattr(Identity, "matches", matches)


def search_anywhere(patch: pytest.MonkeyPatch, _: Signed) -> None:
    patch.setattr(Pattern, "matches", lambda self, value: re.search(self.text, value) is not None)


# --- the table --------------------------------------------------------------------------------------------------------

ATTACKS = [
    Attack(attacks.digest_swapped_in_a_payload, UntrustedError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(attacks.digest_swapped_in_a_statement, BadSignatureError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(attacks.signature_of_another_image_copied_over, BadSignatureError, believe_place),
    Attack(attacks.bundle_of_another_image_copied_over, BadSignatureError, believe_place),
    Attack(attacks.log_entry_of_another_artefact, BadSignatureError, allow("trust.log_body.check_body")),
    Attack(attacks.log_entry_of_another_artefact_in_a_bundle, BadSignatureError, allow("trust.log_body.check_body")),
    Attack(attacks.no_log_entry, NoLogEntryError, allow("trust.judging.check_log")),
    # The chain is checked at the same time again: that is a second lock on the same door.
    Attack(
        attacks.certificate_expired_at_signing_time,
        ExpiredError,
        allow("trust.certificates._check_time", "trust.certificates._check_path"),
    ),
    Attack(attacks.time_of_an_expired_certificate_turned_back, BadSignatureError, believe_time),
    Attack(attacks.wrong_issuer, UntrustedError, ignore_issuer),
    Attack(
        attacks.another_subject, UntrustedError, lambda patch, _: patch.setattr(Identity, "matches", lambda *_: True)
    ),
    Attack(attacks.unanchored_branch_of_an_expression, UntrustedError, search_anywhere),
    Attack(attacks.key_of_another_type, UntrustedError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(attacks.key_of_somebody_else, UntrustedError, allow("trust.judging.is_signed_by", answer=True)),
    Attack(attacks.tampered_checkpoint, BadSignatureError, allow("trust.log.check_checkpoint")),
    Attack(attacks.proof_of_another_entry, BadSignatureError, allow("trust.log.check_inclusion")),
    Attack(attacks.payload_of_a_megabyte, BadSignatureError, raise_limits("trust.collecting.LARGEST_PAYLOAD")),
    Attack(attacks.giant_manifest, BadSignatureError, raise_limits("images.registry.LARGEST_MANIFEST")),
    Attack(attacks.hundreds_of_signatures, UntrustedError, raise_limits("trust.collecting.MOST_TRIED")),
    Attack(
        attacks.thousands_of_signatures,
        BadSignatureError,
        raise_limits("images.documents.MOST_ENTRIES", "trust.collecting.MOST_TRIED"),
    ),
]
# cosign looks for an expression anywhere in a name, and has other limits of what it reads.
LAXER_IN_COSIGN = (
    attacks.unanchored_branch_of_an_expression,
    attacks.payload_of_a_megabyte,
    attacks.giant_manifest,
    attacks.hundreds_of_signatures,
    attacks.thousands_of_signatures,
)


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
    options = ["--certificate-identity", SUBJECT, "--certificate-oidc-issuer", ISSUER, NO_SCT]
    if rule.keys:
        options = ["--key", rule.keys[0].path, *(() if rule.root else (NO_LOG,))]
    kind = BUNDLE if bench.shop.registry.fetch_referrers(image.reference, image.digest) else SIMPLE
    answer = bench.shop.ask_cosign(SERIES[kind], kind, image, *options)
    assert not accepts(answer)
    assert "panic" not in answer.stderr
    assert "unknown flag" not in answer.stderr


# --- attacks on what is signed, not on the signature ------------------------------------------------------------------


def test_tag_moved_after_the_check_changes_nothing_of_what_is_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was verified is pinned by digest; whoever looked at the tag again would get what nobody signed."""
    signed = bench.signed(BUNDLE)
    tag = Reference(signed.pusher.address, signed.pusher.path, "v1", None)
    image, policy = bench.shop.registry.fetch_image(tag, AMD64), bench.shop.trust_key(bench.public)
    assert isinstance(bench.shop.judge(image, policy), Verdict)
    signed.pusher.image("amd64", layer=b"evil", tag="v1")
    assert b"".join(image.fetch_blob(image.layers[0])) != b"evil"

    def look_again(self: Image, _: Descriptor) -> Iterator[bytes]:
        now = self.registry.fetch_image(self.source, AMD64)
        return self.registry.fetch_blob(now.source, now.layers[0])

    moved = bench.shop.registry.fetch_image(tag, AMD64)
    assert isinstance(bench.shop.judge(moved, policy), UnsignedError)
    monkeypatch.setattr(Image, "fetch_blob", look_again)
    assert b"".join(image.fetch_blob(image.layers[0])) == b"evil"


@pytest.mark.parametrize("checked", [True, False])
def test_platform_manifest_swapped_below_a_signed_index(
    bench: Bench, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the registry's own disk, in the same number of bytes; without the check of digests it would run."""
    pusher = Pusher(bench.shop.address, f"trust/index-{checked}".lower())
    # Bytes of this turn's own: the registry keeps equal ones once, for all repositories.
    good, evil = (pusher.image("amd64", layer=f"{kind} {checked}".encode()) for kind in ("good", "evil"))
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
    assert bench.shop.fetch(index).layers[0].digest == digest_of(f"evil {checked}".encode())


def test_index_of_an_attacker_around_a_signed_manifest_is_a_verdict_for_that_manifest_which_is_what_runs(
    bench: Bench,
) -> None:
    """That runtimes get this manifest and never choose is tests/integration/runtimes/test_chosen_manifest.py's."""
    image, policy = bench.signed(BUNDLE), bench.shop.trust_key(bench.public)
    size = bench.shop.fetch(image).manifests[0][0].size
    signed = {"mediaType": OCI_MANIFEST, "digest": image.digest, "size": size}
    evil = image.pusher.image("amd64", layer=b"evil")
    first, second = ({"os": "linux", "architecture": name} for name in ("amd64", "arm64"))
    of_ours = image.pusher.index(signed | {"platform": first}, evil | {"platform": second})
    of_theirs = image.pusher.index(evil | {"platform": first}, signed | {"platform": second})
    verdict = bench.shop.decide(Signed(image.pusher, of_ours["digest"]), policy)
    assert isinstance(verdict, Verdict)
    assert verdict.signatures[0].on == verdict.manifest == image.digest
    assert isinstance(bench.shop.decide(Signed(image.pusher, of_theirs["digest"]), policy), UnsignedError)


def _find_blob(storage: Path, digest: str) -> Path:
    value = digest.removeprefix("sha256:")
    return storage / "docker/registry/v2/blobs/sha256" / value[:2] / value / "data"
