"""Policies in a line, and a verdict by them."""

from pathlib import Path
from typing import Any

from schedkit.images.image import Signable
from schedkit.trust.decide import verify
from schedkit.trust.errors import Refusal
from schedkit.trust.identities import Identity, Pattern
from schedkit.trust.keys import parse_key
from schedkit.trust.model import Verdict
from schedkit.trust.policy import Policy, Root, Rule
from schedkit.trust.roots import Roots
from tests.unit.trust.material import ISSUER, NOW, Private, Sigstore, pem

OURS = Identity(Pattern(ISSUER), Pattern("^https://github.com/schedkit/", is_expression=True))


def trust(*keys: Private, sigstore: Sigstore | None = None, **rule: Any) -> Policy:
    """A policy of keys; what is said beside them is of the rule."""
    named = tuple(parse_key(pem(key), f"{number}.pub") for number, key in enumerate(keys))
    root = Root("trusted_root.json", sigstore.trusted_root()) if sigstore else None
    return Policy("policy.yaml", (Rule("default", keys=named, **({"root": root} | rule)),))


def check(image: Signable, policy: Policy, *, cache: Path | None = None, offline: bool = False) -> Verdict:
    return verify(image, policy, roots=Roots(None, offline=True), cache=cache, offline=offline, now=NOW)


def refuse(image: Signable, policy: Policy) -> Refusal:
    """The refusal there must be."""
    try:
        verdict = check(image, policy)
    except Refusal as refusal:
        return refusal
    raise AssertionError(f"accepted: {verdict}")
