"""Whatever strangers write: no traceback, and no acceptance. `make fuzz` looks longer."""

import base64
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.x509 import InvalidVersion, load_der_x509_certificate
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from schedkit.images.oci import OCI_MANIFEST
from schedkit.trust.bundle import parse_bundle, parse_file_bundle
from schedkit.trust.errors import PolicyError, Problem, Refusal
from schedkit.trust.evidence import Evidence
from schedkit.trust.judging import Accepted, judge
from schedkit.trust.model import SignerKind
from schedkit.trust.policy_file import POLICY_FIELDS, SCOPE_FIELDS, parse_policy
from schedkit.trust.reading import MalformedError
from schedkit.trust.roots import Roots
from schedkit.trust.simplesigning import parse_simple_signature
from schedkit.trust.timestamps import read_times
from schedkit.trust.trusted_root import Authority, Period, parse_trusted_root
from tests.unit.trust.material import Sigstore, make_key, sign_bundle, sign_file, sign_simply
from tests.unit.trust.rules import OURS, check, trust
from tests.unit.trust.shelf import Shelf, digest_of, make_image

LONG = int(os.environ.get("SCHEDKIT_FUZZ_EXAMPLES", "0"))
fuzz = settings(
    max_examples=LONG or 60,
    derandomize=not LONG,  # a short look is the same everywhere; a long one goes new ways each time
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DIGEST = "sha256:" + "a" * 64
SIGSTORE = Sigstore()
KEY = make_key()
POLICY = trust(KEY, sigstore=SIGSTORE, identities=(OURS,), require_log=True)
RULE = POLICY.rules[0]
BUNDLES = [sign_bundle(DIGEST, SIGSTORE.issue(), SIGSTORE), sign_bundle(DIGEST, KEY, SIGSTORE)]
FILE = b'{"scx_rusty": {"imageURI": "ghcr.io/schedkit/scx_rusty"}}'
FILE_BUNDLES = [sign_file(FILE, SIGSTORE.issue(), SIGSTORE), sign_file(FILE, KEY, SIGSTORE)]
SIMPLE = [sign_simply(DIGEST, SIGSTORE.issue(), SIGSTORE), sign_simply(DIGEST, KEY, SIGSTORE)]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


def paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        found += paths(item, (*path, name))
    return found


def put(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """A copy with another value at one place."""
    if not path:
        return change(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], change)
    return copy


def flip(data: st.DataObject, value: object) -> object:
    """Something else in place of a value: of another type, or nearly the same."""
    if isinstance(value, str) and value and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(value) - 1))
        return value[:at] + data.draw(st.characters()) + value[at + data.draw(st.integers(0, 2)) :]
    return data.draw(json_values)


def assert_refused(parse: Callable[[], Any]) -> None:
    """It ends in one of our own errors."""
    with pytest.raises((MalformedError, Problem)):
        judge(parse(), DIGEST, RULE, Roots(None, offline=True))


def assert_same(accepted: Accepted, before: Accepted) -> None:
    """Fields that nothing depends on may change; who signed what, and when, may not.

    With a key, a log may also be silent about when.
    """
    one, other = accepted.signature, before.signature
    assert (accepted.wanted, one.who, one.how, one.on) == (before.wanted, other.who, other.how, other.on)
    assert one.signed_at == other.signed_at or (one.signed_at is None and one.how is SignerKind.KEY)


@fuzz
@given(data=st.data())
@pytest.mark.parametrize(
    ("bundles", "parse", "digest"),
    [
        (BUNDLES, lambda text: parse_bundle(text, DIGEST), DIGEST),
        (FILE_BUNDLES, lambda text: parse_file_bundle(text, FILE), digest_of(FILE)),
    ],
    ids=["image", "file"],
)
def test_changed_bundle_is_never_accepted_for_what_it_is_not(
    bundles: list[dict[str, Any]], parse: Callable[[bytes], Evidence], digest: str, data: st.DataObject
) -> None:
    good = data.draw(st.sampled_from(bundles))
    path = data.draw(st.sampled_from(paths(good)))
    changed = put(good, path, lambda value: flip(data, value))
    text = json.dumps(changed).encode("utf-8", "surrogatepass")
    if changed == good:
        return
    try:
        accepted = judge(parse(text), digest, RULE, Roots(None, offline=True))
    except (MalformedError, Problem):
        return
    assert_same(accepted, judge(parse(json.dumps(good).encode()), digest, RULE, Roots(None, offline=True)))


@fuzz
@given(data=st.data())
def test_changed_payload_or_annotation_is_never_accepted_for_what_it_is_not(data: st.DataObject) -> None:
    payload, annotations = data.draw(st.sampled_from(SIMPLE))
    texts = {"payload": payload.decode(), **annotations}
    name = data.draw(st.sampled_from(sorted(texts)))
    at = data.draw(st.integers(0, len(texts[name]) - 1))
    changed = dict(texts)
    changed[name] = texts[name][:at] + data.draw(st.characters()) + texts[name][at + data.draw(st.integers(0, 3)) :]
    body = changed.pop("payload").encode("utf-8", "surrogatepass")
    try:
        accepted = judge(parse_simple_signature(body, changed), DIGEST, RULE, Roots(None, offline=True))
    except (MalformedError, Problem):
        return
    same = judge(parse_simple_signature(payload, annotations), DIGEST, RULE, Roots(None, offline=True))
    assert_same(accepted, same)


@fuzz
@given(data=st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")))
def test_anything_as_a_bundle_or_a_payload_is_refused(data: bytes) -> None:
    assert_refused(lambda: parse_bundle(data, DIGEST))
    assert_refused(lambda: parse_file_bundle(data, FILE))
    assert_refused(lambda: parse_simple_signature(data, {"dev.cosignproject.cosign/signature": "AAAA"}))


@fuzz
@given(annotations=st.dictionaries(st.sampled_from(sorted(SIMPLE[0][1])), st.text(max_size=60)))
def test_any_annotations_are_refused(annotations: Mapping[str, str]) -> None:
    assert_refused(lambda: parse_simple_signature(SIMPLE[0][0], annotations))


@fuzz
@given(data=st.data())
def test_any_manifest_of_signatures_is_refused(data: st.DataObject) -> None:
    shelf = Shelf()
    image = make_image(shelf)
    shelf.add_simple(image.digest, SIMPLE[1])
    tag = f"{image.digest.replace(':', '-')}.sig"
    manifest = json.loads(shelf.tags[tag])
    path = data.draw(st.sampled_from(paths(manifest)))
    changed = cast("dict[str, Any]", put(manifest, path, lambda value: flip(data, value)))
    if not isinstance(changed.get("mediaType"), str):
        changed["mediaType"] = OCI_MANIFEST
    shelf.tags[tag] = json.dumps(changed).encode("utf-8", "surrogatepass")
    with pytest.raises(Refusal):
        check(image, POLICY)


# --- real material with one byte changed: a failed candidate, and never the end of the search -------------------------

SIGNED = make_image(Shelf()).digest
CERTIFICATE = SIGSTORE.issue()
KEYLESS = sign_bundle(SIGNED, CERTIFICATE, SIGSTORE)
TIMESTAMP = json.loads((Path(__file__).parent / "timestamp.json").read_text())  # made with `openssl ts`
CLOCK = Authority(
    tuple(load_der_x509_certificate(base64.b64decode(one)) for one in TIMESTAMP["chain"]), Period(None, None)
)
STAMP, STAMPED = base64.b64decode(TIMESTAMP["response"]), TIMESTAMP["of"].encode()


def change_byte(data: bytes, at: int, by: int) -> bytes:
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def check_with_good_one_behind(*bundles: dict[str, Any], simple: tuple[bytes, Mapping[str, str]] | None = None) -> None:
    """The good one counts, whatever lies before it; without it, each is a failed candidate with a reason."""
    shelf = Shelf()
    image = make_image(shelf)
    assert image.digest == SIGNED
    if simple:
        shelf.add_simple(SIGNED, simple)
    for bundle in bundles:
        shelf.add_bundle(SIGNED, bundle)
    with pytest.raises(Refusal) as refused:
        check(image, POLICY)
    assert all(attempt.problem for attempt in refused.value.attempts)
    assert len(refused.value.attempts) == len(bundles) + bool(simple)
    shelf.add_bundle(SIGNED, sign_bundle(SIGNED, KEY, SIGSTORE))
    (signature,) = check(image, POLICY).signatures
    assert signature.how is SignerKind.KEY


@fuzz
@given(at=st.integers(0, len(CERTIFICATE.der) - 1), by=st.integers(1, 255))
def test_changed_certificate_is_a_failed_candidate(at: int, by: int) -> None:
    der = change_byte(CERTIFICATE.der, at, by)
    bundle = sign_bundle(SIGNED, CERTIFICATE, SIGSTORE)
    bundle["verificationMaterial"]["certificate"] = {"rawBytes": base64.b64encode(der).decode()}
    payload, annotations = sign_simply(SIGNED, CERTIFICATE, SIGSTORE)
    text = base64.encodebytes(der).decode()
    shown = f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"
    changed = annotations | {"dev.sigstore.cosign/certificate": shown}
    check_with_good_one_behind(bundle, simple=(payload, changed))


def test_certificate_of_an_unknown_version_is_a_failed_candidate() -> None:
    """Cryptography raises something of its own for it."""
    at = CERTIFICATE.der.index(b"\xa0\x03\x02\x01\x02") + 4
    der = change_byte(CERTIFICATE.der, at, 7)
    with pytest.raises(InvalidVersion):
        load_der_x509_certificate(der)
    bundle = sign_bundle(SIGNED, CERTIFICATE, SIGSTORE)
    bundle["verificationMaterial"]["certificate"] = {"rawBytes": base64.b64encode(der).decode()}
    shown = f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----\n"
    payload, annotations = sign_simply(SIGNED, CERTIFICATE, SIGSTORE)
    changed = annotations | {"dev.sigstore.cosign/certificate": shown}
    check_with_good_one_behind(bundle, simple=(payload, changed))


def test_timestamp_with_any_byte_changed_says_the_same_or_nothing() -> None:
    right = [datetime.fromisoformat(TIMESTAMP["at"])]
    assert read_times([STAMP], STAMPED, [CLOCK]) == right
    silent = 0
    for at in range(len(STAMP)):
        for by in (0x07, 0x80):
            times = read_times([change_byte(STAMP, at, by)], STAMPED, [CLOCK])
            assert times in ([], right)
            silent += not times
    assert silent > len(STAMP) // 2, "some bytes matter"


@fuzz
@given(stamp=st.binary(max_size=200), cut=st.integers(0, len(STAMP)))
def test_junk_timestamp_says_nothing_beside_a_good_one(stamp: bytes, cut: int) -> None:
    times = read_times([stamp, STAMP[:cut] + stamp, STAMP], STAMPED, [CLOCK])
    assert set(times) == {datetime.fromisoformat(TIMESTAMP["at"])}


@fuzz
@given(data=st.data())
def test_changed_checkpoint_is_a_failed_candidate(data: st.DataObject) -> None:
    bundle = deepcopy(KEYLESS)
    envelope = bundle["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]["checkpoint"]
    at = data.draw(st.integers(0, len(envelope["envelope"]) - 1))
    other = data.draw(st.characters() | st.characters(categories=["Cs"]))
    assume(other != envelope["envelope"][at])
    envelope["envelope"] = envelope["envelope"][:at] + other + envelope["envelope"][at + 1 :]
    check_with_good_one_behind(bundle)


def test_lone_surrogate_in_a_checkpoint_is_a_failed_candidate() -> None:
    """It needs no trusted key: a log of one leaf, under the public log's id."""
    bundle = sign_bundle(SIGNED, CERTIFICATE, SIGSTORE)
    proof = bundle["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]
    proof["checkpoint"]["envelope"] = proof["checkpoint"]["envelope"].replace("rekor.test - 1", "\ud800", 1)
    check_with_good_one_behind(bundle)


def test_candidate_that_nobody_foresaw_is_a_failed_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes, digest: str) -> object:
        if b"unforeseen" in data:
            raise LookupError("never seen before")
        return parse_bundle(data, digest)

    monkeypatch.setattr("schedkit.trust.collecting.parse_bundle", fail)
    check_with_good_one_behind({"unforeseen": True})


@fuzz
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_as_a_policy_or_a_root_are_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        parse_policy(data, "policy.yaml", tmp_path)
    with pytest.raises(PolicyError):
        parse_trusted_root(data, "root.json")


WORDS = [*POLICY_FIELDS, *SCOPE_FIELDS, "issuer", "issuerRegExp", "subject", "subjectRegExp", "path", "cosign.pub"]
WORDS += [": ", "\n", "\n  - ", "\n    ", "- ", "[", "]", "{", "}", '"', "\t", "|", ">", "?", "%", "@", "#"]
WORDS += ["^(", "&a", "*a", "!!int", "1", "true", "~"]


@fuzz
@given(words=st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words_as_a_policy_are_refused(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        parse_policy("".join(words).encode(), "policy.yaml", tmp_path)


@fuzz
@given(data=st.data())
def test_changed_root_is_a_root_or_refused(data: st.DataObject) -> None:
    good = json.loads(SIGSTORE.trusted_root())
    changed = put(good, data.draw(st.sampled_from(paths(good))), lambda value: flip(data, value))
    with suppress(PolicyError):
        parse_trusted_root(json.dumps(changed).encode("utf-8", "surrogatepass"), "root.json")
