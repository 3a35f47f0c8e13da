"""Canaries: the verifier of sigstore, a tool of the tests only, and its copy of the public root, beside ours."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sigstore as sigstore_package
from sigstore.errors import Error
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity
from sigstore_models.trustroot.v1 import TrustedRoot as Inner

from schedkit.images.image import Image
from schedkit.trust.errors import Refusal
from schedkit.trust.roots import PUBLIC, TARGET, read_embedded
from tests.unit.trust.material import ISSUER, NOW, SUBJECT, Leaf, Sigstore, sign_bundle, sign_file
from tests.unit.trust.rules import OURS, check, trust
from tests.unit.trust.shelf import Shelf, make_image
from tests.unit.trust.test_keyless import HOUR, TAMPERED
from tests.unit.trust.test_signed_file import CONTENT
from tests.unit.trust.test_signed_file import check as check_file


@pytest.mark.parametrize("name", ["root.json", TARGET])
def test_copy_that_comes_along_is_the_one_of_sigstore(name: str) -> None:
    """When this fails, `scripts/lock --upgrade` brought a newer one: copy it to src/schedkit/trust/public."""
    theirs = Path(sigstore_package.__file__).parent / "_store" / quote(PUBLIC, safe="") / name
    assert read_embedded(PUBLIC, name) == theirs.read_bytes()


def make_verifier(sigstore: Sigstore) -> Verifier:
    root = json.loads(sigstore.trusted_root())
    for log in (*root["tlogs"], *root["ctlogs"]):
        log["publicKey"]["keyDetails"] = "PKIX_ECDSA_P256_SHA_256"
    for authority in root["certificateAuthorities"]:
        authority |= {"subject": {"organization": "test", "commonName": "test"}, "uri": "https://fulcio.test"}
    return Verifier(trusted_root=TrustedRoot(Inner.from_json(json.dumps(root).encode())))


@pytest.mark.parametrize("what", ["image", "file"])
def test_our_verdict_on_bundles_is_that_of_sigstore(shelf: Shelf, sigstore: Sigstore, what: str) -> None:
    policy = trust(sigstore=sigstore, identities=(OURS,))
    verifier, identity = make_verifier(sigstore), Identity(identity=SUBJECT, issuer=ISSUER)

    def accepts(bundle: dict[str, Any]) -> bool:
        try:
            parsed = Bundle.from_json(json.dumps(bundle))
            if what == "file":
                verifier.verify_artifact(CONTENT, parsed, identity)
            else:
                verifier.verify_dsse(parsed, identity)
        except (Error, ValueError):  # it lets some of the standard library's through
            return False
        return True

    def ours(bundle: dict[str, Any], image: Image) -> bool:
        try:
            return bool(check_file(bundle, policy) if what == "file" else check(image, policy))
        except Refusal:
            return False

    def try_both(leaf: Leaf, change: Callable[[dict[str, Any]], object]) -> tuple[bool, bool]:
        shelf.referrers.clear()
        image = make_image(shelf)
        bundle = sign_file(CONTENT, leaf, sigstore) if what == "file" else sign_bundle(image.digest, leaf, sigstore)
        change(bundle["verificationMaterial"]["tlogEntries"][0])
        shelf.add_bundle(image.digest, bundle)
        return accepts(bundle), ours(bundle, image)

    assert try_both(sigstore.issue(), lambda _: None) == (True, True)
    others = (sigstore.issue(start=NOW - HOUR), sigstore.issue(sct=False), Sigstore().issue())
    verdicts = {part: try_both(sigstore.issue(), change) for part, change in TAMPERED.items()}
    verdicts |= {f"certificate {number}": try_both(leaf, lambda _: None) for number, leaf in enumerate(others)}
    assert [part for part, (_, mine) in verdicts.items() if mine] == []
