"""A file that comes with a sigstore bundle, as the project's catalog does: who signed it, by the policy for images."""

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from schedkit.errors import BadDataError
from schedkit.trust.bundle import LARGEST_BUNDLE, parse_file_bundle
from schedkit.trust.collecting import Candidate, broken
from schedkit.trust.errors import UntrustedError
from schedkit.trust.model import Signature
from schedkit.trust.policy import Policy
from schedkit.trust.roots import Roots
from schedkit.trust.searching import ADD_RULE, Search, tell_no_rule

CHANGED = "the file was changed, or has the signature of another file"


class SignedFile(NamedTuple):
    """A file from elsewhere, and the way to its signature."""

    name: str  # for people
    repository: str  # the rule for images of this repository is the rule for the file
    content: bytes
    fetch_bundle: Callable[[int], bytes | None]  # of at most that many bytes; None if there is none


def verify_file(file: SignedFile, policy: Policy, roots: Roots) -> tuple[Signature, ...]:
    """Who signed it; a Refusal if nobody does whom the policy trusts. `allowUnsigned` is for images only."""
    rule = policy.for_image(file.repository)
    if rule is None:
        raise UntrustedError(f"{file.name}: {tell_no_rule(policy, file.repository)}", hint=ADD_RULE)
    digest = f"sha256:{hashlib.sha256(file.content).hexdigest()}"
    return Search(f"{file.name} ({digest})", rule, roots, changed=CHANGED).run(_find_candidates(file, digest))


def _find_candidates(file: SignedFile, digest: str) -> Iterator[Candidate]:
    """Find the one bundle there is; what is none, but something else, is a bad signature."""
    what = "its bundle"
    try:
        bundle = file.fetch_bundle(LARGEST_BUNDLE)
    except BadDataError as error:
        yield broken(what, digest, error)
        return
    if bundle is not None:
        yield Candidate(what, digest, lambda: parse_file_bundle(bundle, file.content))
