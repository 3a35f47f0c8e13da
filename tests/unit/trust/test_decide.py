"""From all signatures to one verdict: where they lie, how many count, and what a hostile registry may do."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from schedkit.errors import BadDataError, NoAnswerError, NoPermissionError, UnavailableError
from schedkit.images.image import Signable
from schedkit.trust import collecting
from schedkit.trust.decide import verify
from schedkit.trust.errors import BadSignatureError, UnsignedError, UntrustedError, UnverifiedError
from schedkit.trust.identities import Identity, Pattern
from schedkit.trust.model import Format, Verdict
from schedkit.trust.policy import Policy
from schedkit.trust.roots import Roots
from schedkit.trust.simplesigning import LAYER, SIGNATURES
from schedkit.trust.trusted_root import parse_trusted_root
from schedkit.trust.verdicts import read_image, write_verdict
from tests.unit.trust.material import ISSUER, NOW, SUBJECT, Sigstore, make_key, sign_bundle, sign_simply
from tests.unit.trust.rules import OURS, check, refuse, trust
from tests.unit.trust.shelf import BUNDLE, Shelf, change_image, make_image


def test_signature_on_the_index_counts_for_the_manifest_in_it(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf, index=True)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    (found,) = check(image, trust(key)).signatures
    assert found.on == image.digest
    manifest = image.manifests[1][0].digest
    assert not any(manifest in asked for asked in shelf.asked), "one signature is enough"


def test_signature_on_the_manifest_is_for_that_manifest_which_is_what_runs(shelf: Shelf) -> None:
    """Around it may be anybody's index: runtimes are given the manifest, and never choose from the index."""
    key, image = make_key(), make_image(shelf, index=True)
    manifest = image.manifest.digest
    shelf.add_simple(manifest, sign_simply(manifest, key))
    verdict = check(image, trust(key))
    assert (verdict.digest, verdict.manifest, verdict.signatures[0].on) == (image.digest, manifest, manifest)


def test_whole_index_is_judged_by_its_own_signatures_alone(shelf: Shelf) -> None:
    """As in a cluster, where each node chooses from it."""
    key, image = make_key(), make_image(shelf, index=True)
    whole = Signable(image.registry, image.source, image.digest, image.manifests[:1])
    shelf.add_simple(image.manifest.digest, sign_simply(image.manifest.digest, key))
    assert isinstance(refuse(whole, trust(key)), UnsignedError)
    shelf.add_simple(image.digest, sign_simply(image.digest, key))
    assert check(whole, trust(key)).signatures[0].on == image.digest


def test_verdict_for_one_manifest_of_an_index_is_none_for_another(shelf: Shelf, tmp_path: Path) -> None:
    """Machines of several platforms may share a home, and an index of somebody else's one signed manifest."""
    key, image = make_key(), make_image(shelf, index=True)
    shelf.add_simple(image.manifest.digest, sign_simply(image.manifest.digest, key))
    check(image, trust(key), cache=tmp_path)
    other = change_image(image, manifests=(image.manifests[0], make_image(shelf, layer=b"other").manifests[0]))
    assert other.digest == image.digest
    with pytest.raises(UnverifiedError):
        check(other, trust(key), cache=tmp_path, offline=True)
    assert check(image, trust(key), cache=tmp_path, offline=True).manifest == image.manifest.digest


def test_signature_of_the_manifest_does_not_count_on_the_index(shelf: Shelf) -> None:
    """An index made by somebody else could hold other manifests beside the signed one."""
    key, image = make_key(), make_image(shelf, index=True)
    shelf.add_bundle(image.digest, sign_bundle(image.manifests[1][0].digest, key))
    assert isinstance(refuse(image, trust(key)), BadSignatureError)


def test_simple_signature_that_refers_to_its_image_counts(shelf: Shelf) -> None:
    """What cosign v2 makes with --registry-referrers-mode=oci-1-1."""
    key, image = make_key(), make_image(shelf)
    payload, annotations = sign_simply(image.digest, key)
    artifact = shelf.put_manifest([shelf.put(payload, LAYER, annotations)])
    shelf.referrers[image.digest] = [{**artifact, "artifactType": SIGNATURES}]
    assert check(image, trust(key)).signatures[0].format is Format.COSIGN_V2


@pytest.mark.parametrize("listed", [{}, {"artifactType": "application/vnd.oci.empty.v1+json"}])
def test_bundle_counts_though_the_list_does_not_say_what_it_is(listed: dict[str, str], shelf: Shelf) -> None:
    """In registries without referrers cosign writes the list itself: 3.1.1 gives the type of the configuration."""
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key), predicate=None)
    (entry,) = shelf.referrers[image.digest]
    del entry["artifactType"]
    shelf.referrers[image.digest] = [entry | listed]
    assert check(image, trust(key)).signatures[0].format is Format.BUNDLE


def test_other_artefacts_that_refer_to_the_image_are_left_alone(shelf: Shelf) -> None:
    image = make_image(shelf)
    shelf.referrers[image.digest] = [{**shelf.put_manifest([]), "artifactType": "application/spdx+json"}]
    shelf.asked.clear()
    assert isinstance(refuse(image, trust(make_key())), UnsignedError)
    assert len(shelf.asked) == 2


def test_one_good_signature_among_bad_ones_is_enough(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, b"{")
    shelf.add_bundle(image.digest, sign_bundle(image.digest, make_key()))
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    assert len(check(image, trust(key)).signatures) == 1


def test_every_signature_tried_is_named_with_what_is_wrong(shelf: Shelf) -> None:
    image = make_image(shelf)
    shelf.add_simple(image.digest, sign_simply(image.digest, make_key()), (b"{}", {}))
    shelf.add_bundle(image.digest, b"[]")
    refusal = refuse(image, trust(make_key()))
    assert isinstance(refusal, UntrustedError)
    assert [attempt.what.rpartition(".sig ")[2].partition(" sha")[0] for attempt in refusal.attempts] == [
        "layer 1",
        "layer 2",
        "referrer",
    ]
    assert "and 2 more that are not trusted" in refusal.message
    assert len(refusal.log) == 3


def test_threshold_counts_different_keys(shelf: Shelf) -> None:
    first, second, image = make_key(), make_key(), make_image(shelf)
    policy = trust(first, second, threshold=2)
    shelf.add_simple(image.digest, sign_simply(image.digest, first), sign_simply(image.digest, first))
    refusal = refuse(image, policy)
    assert isinstance(refusal, UntrustedError)
    assert "by 1 of the 2 signers" in refusal.message
    shelf.add_bundle(image.digest, sign_bundle(image.digest, second))
    assert len({signature.who for signature in check(image, policy).signatures}) == 2


def test_threshold_counts_one_identity_of_the_policy_once(shelf: Shelf, sigstore: Sigstore) -> None:
    """Two workflows of one owner are one; and one signer does not count for two entries that both mean them."""
    image, exact = make_image(shelf), Identity(Pattern(ISSUER), Pattern(SUBJECT))
    shelf.add_bundle(image.digest, sign_bundle(image.digest, sigstore.issue(), sigstore))
    twice = trust(sigstore=sigstore, identities=(OURS, exact), threshold=2)
    assert isinstance(refuse(image, twice), UntrustedError)
    other = sigstore.issue("https://github.com/schedkit/other/.github/workflows/x.yml@refs/heads/main")
    shelf.add_bundle(image.digest, sign_bundle(image.digest, other, sigstore))
    assert isinstance(
        refuse(image, trust(make_key(), sigstore=sigstore, identities=(OURS,), threshold=2)), UntrustedError
    )
    assert len(check(image, twice).signatures) == 2


def test_consent_covers_what_is_unsigned_or_by_others_and_nothing_that_is_bad(shelf: Shelf, sigstore: Sigstore) -> None:
    image, policy = make_image(shelf), trust(make_key(), sigstore=sigstore, identities=(OURS,))
    assert refuse(image, policy).may_be_allowed
    shelf.add_bundle(image.digest, sign_bundle(image.digest, make_key()))
    refusal = refuse(image, policy)
    assert isinstance(refusal, UntrustedError)
    assert refusal.may_be_allowed
    bad = [
        sign_bundle(image.digest, sigstore.issue(start=NOW - timedelta(days=9)), sigstore),  # expired
        sign_bundle(image.digest, sigstore.issue()),  # in no log
        sign_bundle("sha256:" + "b" * 64, make_key()),  # of another image
        {"mediaType": BUNDLE},
    ]
    for bundle in bad:
        kept = shelf.referrers[image.digest][:]
        shelf.add_bundle(image.digest, bundle)
        assert not refuse(image, policy).may_be_allowed, "beside one of somebody else's, too"
        shelf.referrers[image.digest] = shelf.referrers[image.digest][-1:]
        assert not refuse(image, policy).may_be_allowed
        shelf.referrers[image.digest] = kept


def test_bad_signature_is_told_as_a_reason_not_to_run_it(shelf: Shelf) -> None:
    image = make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle("sha256:" + "b" * 64, make_key()))
    refusal = refuse(image, trust(make_key()))
    assert isinstance(refusal, BadSignatureError)
    assert refusal.hint.startswith("do not run it")


def test_policy_that_only_allows_the_unsigned_still_refuses_what_is_bad(shelf: Shelf) -> None:
    image = make_image(shelf)
    policy = Policy("policy.yaml", (), ("registry.test/**",))
    assert isinstance(refuse(image, policy), UnsignedError)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, make_key()))
    refusal = refuse(image, policy)
    assert isinstance(refusal, UntrustedError)
    assert "the policy wants nobody" in refusal.message
    shelf.add_bundle(image.digest, sign_bundle("sha256:" + "b" * 64, make_key()))
    assert not refuse(image, policy).may_be_allowed


def test_image_for_which_there_is_no_rule_is_refused(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    (rule,) = trust(key).rules
    elsewhere = Policy("policy.yaml", (rule._replace(images=("ghcr.io/me/*",)),))
    refusal = refuse(image, elsewhere)
    assert "has no rule for registry.test/schedkit/scx_fifo" in refusal.message
    assert refusal.may_be_allowed
    assert len(refusal.attempts) == 1


def test_consent_does_not_cover_a_bad_signature_where_there_is_no_rule(shelf: Shelf) -> None:
    image, nothing = make_image(shelf), Policy("policy.yaml", ())
    refusal = refuse(image, nothing)
    assert isinstance(refusal, UnsignedError)
    assert refusal.may_be_allowed
    shelf.add_bundle(image.digest, sign_bundle("sha256:" + "b" * 64, make_key()))
    refusal = refuse(image, nothing)
    assert isinstance(refusal, BadSignatureError)
    assert not refusal.may_be_allowed


@pytest.mark.parametrize(
    ("allowed", "why"), [((), "has no rule for registry.test"), (("registry.test/**",), "may be unsigned")]
)
def test_offline_says_what_helps_where_no_signature_is_trusted(
    shelf: Shelf, tmp_path: Path, allowed: tuple[str, ...], why: str
) -> None:
    image, policy = make_image(shelf), Policy("policy.yaml", (), allowed)
    with pytest.raises(UnverifiedError, match=why) as caught:
        check(image, policy, cache=tmp_path, offline=True)
    assert "verify it once" not in caught.value.hint


def test_thousands_of_signatures_are_not_all_tried(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf)
    signature = sign_bundle(image.digest, make_key())
    for number in range(300):
        shelf.add_bundle(image.digest, signature | {"mediaType": f"{BUNDLE}{number}"})
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    refusal = refuse(image, trust(key))
    assert len(refusal.attempts) == collecting.MOST_TRIED + 1
    assert "more than 100 signatures" in refusal.attempts[-1].problem
    assert len(shelf.asked) < 2 * collecting.MOST_TRIED + 10


def test_every_request_is_made_within_the_time_there_is(shelf: Shelf) -> None:
    """What that means for a slow registry is tests/integration/images/test_hostile.py's."""
    image = make_image(shelf, index=True)
    shelf.add_simple(image.digest, sign_simply(image.digest, make_key()))
    shelf.add_bundle(image.manifest.digest, sign_bundle(image.manifest.digest, make_key()))

    def fail() -> None:
        assert shelf.limited

    shelf.fail = fail
    refuse(image, trust(make_key()))
    assert shelf.limits == [60.0]


def test_giants_are_not_even_asked_for(shelf: Shelf) -> None:
    image = make_image(shelf)
    shelf.add_bundle(image.digest, b" " * (2 << 20))
    shelf.add_simple(image.digest, (b" " * (1 << 20), {}))
    refusal = refuse(image, trust(make_key()))
    assert ["more than the" in attempt.problem for attempt in refusal.attempts] == [True, True]
    assert not any(len(shelf.blobs.get(asked, b"")) > 1 << 19 for asked in shelf.asked)


def test_list_of_referrers_that_makes_no_sense_is_an_attempt(shelf: Shelf) -> None:
    image = make_image(shelf)

    def fail() -> None:
        raise BadDataError("more than 1000 things refer to it")

    shelf.fail = fail
    refusal = refuse(image, trust(make_key()))
    assert isinstance(refusal, BadSignatureError)
    assert "1000 things" in refusal.message


def test_signature_that_is_an_index_is_no_signature(shelf: Shelf) -> None:
    image = make_image(shelf, index=True)
    shelf.tags[f"{image.digest.replace(':', '-')}.sig"] = image.manifests[0][1]
    assert isinstance(refuse(image, trust(make_key())), BadSignatureError)


def test_what_a_stranger_wrote_cannot_change_a_terminal(shelf: Shelf) -> None:
    image = make_image(shelf)
    shelf.add_bundle(image.digest, {"mediaType": "\x1b[2J" + "x" * 5000})
    assert all(text.isprintable() and len(text) < 2000 for text in refuse(image, trust(make_key())).log)


@pytest.mark.parametrize("error", [UnavailableError("no network"), NoAnswerError("silence")])
def test_verdict_reached_before_stands_in_when_nobody_answers(shelf: Shelf, tmp_path: Path, error: Exception) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))

    def fail() -> None:
        raise error

    policy = trust(key)
    before = check(image, policy, cache=tmp_path)
    shelf.fail = fail
    again = check(image, policy, cache=tmp_path)
    assert again == before._replace(from_cache=True)
    for other in (trust(make_key()), trust(key, make_key())):
        with pytest.raises(type(error)):
            check(image, other, cache=tmp_path)


def test_a_refusal_is_not_outvoted_by_an_older_verdict(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    check(image, trust(key), cache=tmp_path)
    shelf.referrers.clear()
    with pytest.raises(UnsignedError):
        check(image, trust(key), cache=tmp_path)


def test_a_registry_that_refuses_is_not_one_that_is_away(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    check(image, trust(key), cache=tmp_path)

    def fail() -> None:
        raise NoPermissionError("log in first")

    shelf.fail = fail
    with pytest.raises(NoPermissionError):
        check(image, trust(key), cache=tmp_path)


def test_offline_asks_nobody(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    policy = trust(key)
    with pytest.raises(UnverifiedError):
        check(image, policy, cache=tmp_path, offline=True)
    assert shelf.asked == []
    check(image, policy, cache=tmp_path)
    shelf.asked.clear()
    assert check(image, policy, cache=tmp_path, offline=True).from_cache
    with pytest.raises(UnverifiedError):
        check(image, policy, cache=None, offline=True)
    assert shelf.asked == []


def test_refused_images_are_not_kept(shelf: Shelf, tmp_path: Path) -> None:
    image = make_image(shelf)
    with pytest.raises(UnsignedError):
        check(image, trust(make_key()), cache=tmp_path)
    assert list(tmp_path.rglob("*")) == []


def test_kept_verdict_that_was_touched_is_none(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    policy = trust(key)
    check(image, policy, cache=tmp_path)
    (path,) = (tmp_path / "verdicts").glob("*.json")
    good, mode = path.read_bytes(), path.stat().st_mode & 0o777
    assert mode == 0o600
    document = json.loads(good)
    forged = json.dumps(document | {"content": document["content"].replace("0.pub", "1.pub")}).encode()
    for data in (b"", b"{}", b"[]", b"null", good[:-2], forged, json.dumps(document | {"seal": 5}).encode()):
        path.write_bytes(data)
        with pytest.raises(UnverifiedError):
            check(image, policy, cache=tmp_path, offline=True)
    path.write_bytes(good)
    path.chmod(0o666)
    with pytest.raises(UnverifiedError):
        check(image, policy, cache=tmp_path, offline=True)
    path.chmod(0o600)
    assert check(image, policy, cache=tmp_path, offline=True)
    (tmp_path / "verdicts/key").write_bytes(b"x" * 32)
    with pytest.raises(UnverifiedError):
        check(image, policy, cache=tmp_path, offline=True)


def test_kept_verdict_under_the_name_of_another_is_none(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf)
    other = make_image(shelf, index=True)
    for one in (image, other):
        shelf.add_bundle(one.digest, sign_bundle(one.digest, key))
    policy = trust(key)
    check(image, policy, cache=tmp_path)
    (path,) = (tmp_path / "verdicts").glob("*.json")
    good = path.read_bytes()
    path.unlink()
    check(other, policy, cache=tmp_path)
    (path,) = (tmp_path / "verdicts").glob("*.json")
    path.write_bytes(good)
    with pytest.raises(UnverifiedError):
        check(other, policy, cache=tmp_path, offline=True)


def test_cache_that_cannot_be_written_does_not_spoil_a_verdict(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    (tmp_path / "verdicts").write_text("a file where a folder should be")
    assert not check(image, trust(key), cache=tmp_path).from_cache


def test_verified_image_can_be_had_again_without_its_registry(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf, index=True)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    policy = trust(key)
    assert read_image(tmp_path, image.registry, image.source, policy.hash) is None
    check(image, policy, cache=tmp_path)
    shelf.asked.clear()
    again = read_image(tmp_path, image.registry, image.source, policy.hash)
    assert again is not None
    assert vars(again) == vars(change_image(image, manifests=tuple(image.manifests), layers=tuple(image.layers)))
    by_digest = image.source._replace(tag=None, digest=image.digest)
    found = read_image(tmp_path, image.registry, by_digest, policy.hash)
    assert found is not None
    assert found.digest == image.digest
    assert read_image(tmp_path, image.registry, image.source._replace(tag="v2"), policy.hash) is None
    assert read_image(tmp_path, image.registry, image.source, trust(make_key()).hash) is None
    assert shelf.asked == []


def test_offline_means_what_was_verified_with_this_policy_not_what_was_verified_last(
    shelf: Shelf, tmp_path: Path
) -> None:
    mine, theirs = trust(make_key()), trust(make_key())
    old, new = make_image(shelf, layer=b"old"), make_image(shelf, layer=b"new")
    for number, (image, policy) in enumerate(((old, mine), (new, theirs))):
        verdict = Verdict(
            *(image.digest, image.manifest.digest, image.reference, policy.hash, "", "default", ()),
            NOW + timedelta(days=number),
        )
        write_verdict(tmp_path, image, verdict)
    found = read_image(tmp_path, old.registry, old.source, mine.hash)
    assert found is not None
    assert found.digest == old.digest
    assert check(found, mine, cache=tmp_path, offline=True)


def test_image_without_signatures_needs_no_trusted_root(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have to be fetched, which takes a while where there is no network."""
    monkeypatch.setattr(Roots, "get", lambda *_: pytest.fail("asked for the root"))
    image, key = make_image(shelf), make_key()
    policy = trust(key, identities=(OURS,))
    assert isinstance(refuse(image, policy), UnsignedError)
    # Nor does one that a key has signed, though others might sign without.
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    assert check(image, policy, cache=tmp_path).root == ""
    assert check(image, policy, cache=tmp_path, offline=True).from_cache


def replace_root(sigstore: Sigstore) -> list[Roots]:
    """The public root, and the one that takes its place: it has no CT log."""
    roots = [Roots(None, offline=True), Roots(None, offline=True)]
    for one, root in zip(roots, (sigstore.trusted_root(), sigstore.trusted_root(ctlogs=False)), strict=True):
        one._known[None] = parse_trusted_root(root, "public")
    return roots


def test_kept_verdict_is_one_of_the_root_in_force(shelf: Shelf, sigstore: Sigstore, tmp_path: Path) -> None:
    """A public root that withdrew an authority or a log ends what was verified by it."""
    image = make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, sigstore.issue(), sigstore))
    policy = trust(sigstore=None, identities=(OURS,))
    roots = replace_root(sigstore)
    verify(image, policy, roots=roots[0], cache=tmp_path, offline=False, now=NOW)
    assert verify(image, policy, roots=roots[0], cache=tmp_path, offline=True, now=NOW).from_cache
    with pytest.raises(UnverifiedError, match="this trusted root"):
        verify(image, policy, roots=roots[1], cache=tmp_path, offline=True, now=NOW)


def test_verdict_by_a_root_that_was_replaced_is_found_by_who_asks_for_any(
    shelf: Shelf, sigstore: Sigstore, tmp_path: Path
) -> None:
    image, other = make_image(shelf), make_image(shelf, layer=b"other")
    shelf.add_bundle(image.digest, sign_bundle(image.digest, sigstore.issue(), sigstore))
    policy, changed = trust(sigstore=None, identities=(OURS,)), trust(sigstore=None, identities=(OURS, OURS))
    roots = replace_root(sigstore)
    verify(image, policy, roots=roots[0], cache=tmp_path, offline=False, now=NOW)

    def recall(image: Signable, policy: Policy) -> Verdict:
        return verify(image, policy, roots=roots[1], cache=tmp_path, offline=True, now=NOW, by_any_root=True)

    assert recall(image, policy).from_cache
    for case in ((other, policy), (image, changed)):
        with pytest.raises(UnverifiedError):
            recall(*case)


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33])
def test_key_of_the_wrong_length_is_replaced(shelf: Shelf, tmp_path: Path, key: bytes) -> None:
    """As a full disk may leave one."""
    mine, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, mine))
    (tmp_path / "verdicts").mkdir(mode=0o700)
    (tmp_path / "verdicts/key").write_bytes(key)
    (tmp_path / "verdicts/key").chmod(0o600)
    check(image, trust(mine), cache=tmp_path)
    assert check(image, trust(mine), cache=tmp_path, offline=True).from_cache


def test_folder_that_others_may_write_to_holds_no_verdict(shelf: Shelf, tmp_path: Path) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    check(image, trust(key), cache=tmp_path)
    assert (tmp_path / "verdicts").stat().st_mode & 0o777 == 0o700
    (tmp_path / "verdicts").chmod(0o777)
    with pytest.raises(UnverifiedError):
        check(image, trust(key), cache=tmp_path, offline=True)


def test_verdict_tells_its_rule_its_policy_and_when(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key))
    policy = trust(key)
    verdict = check(image, policy)
    assert (verdict.reference, verdict.rule, verdict.policy, verdict.at) == (
        image.reference,
        "default",
        policy.hash,
        NOW,
    )
    assert verdict.who == verdict.signatures[0].who
