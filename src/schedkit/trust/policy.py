"""Whose signatures are trusted: rules for images, the first that fits, and the rest of the policy for all others."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from schedkit.trust.errors import MissingPolicyError, PolicyError
from schedkit.trust.identities import Identity, Pattern
from schedkit.trust.keys import VerificationKey

LARGEST = 256 * 1024
BUILT_IN = "built-in"


class Root(NamedTuple):
    """A trusted root of one's own, instead of the public one."""

    path: str
    data: bytes


class Rule(NamedTuple):
    """Who must have signed an image."""

    name: str  # for people: the patterns, or `default`
    images: tuple[str, ...] = ()  # none: all images
    keys: tuple[VerificationKey, ...] = ()
    identities: tuple[Identity, ...] = ()
    threshold: int = 1  # how many different ones of these
    require_log: bool | None = None  # None: for identities yes, for keys no
    rekor_url: str = ""  # the one trusted log; empty: all of the trusted root
    root: Root | None = None  # None: the public one

    @property
    def needs_log_for_keys(self) -> bool:
        return self.require_log is True

    @property
    def needs_log_for_identities(self) -> bool:
        return self.require_log is not False

    @property
    def needs_root(self) -> bool:
        """Whether a trusted root has a say: only keys without a log do without."""
        return bool(self.identities) or self.needs_log_for_keys

    def fits(self, repository: str) -> bool:
        """Whether this rule is for images of a repository."""
        return not self.images or _fits(self.images, repository)

    def __str__(self) -> str:
        wanted = [*map(str, self.keys), *map(str, self.identities)]
        if self.threshold > 1:
            return f"{self.threshold} of: {'; '.join(wanted)}"
        return " or ".join(wanted) or "nobody"


class Policy(NamedTuple):
    """All rules, in the order in which they are looked at."""

    origin: str
    rules: tuple[Rule, ...]
    allow_unsigned: tuple[str, ...] = ()  # images that may run though nobody signed them

    @property
    def hash(self) -> str:
        """Changes with everything that may change a verdict, the content of keys and roots included."""
        words = [
            {
                "images": rule.images,
                "keys": [key.fingerprint for key in rule.keys],
                "identities": [
                    [one.issuer.text, one.issuer.is_expression, one.subject.text, one.subject.is_expression]
                    for one in rule.identities
                ],
                "threshold": rule.threshold,
                "log": [rule.needs_log_for_keys, rule.needs_log_for_identities, rule.rekor_url],
                "root": hashlib.sha256(rule.root.data).hexdigest() if rule.root else "",
            }
            for rule in self.rules
        ]
        return f"sha256:{hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()}"

    def for_image(self, repository: str) -> Rule | None:
        """The rule for a repository (registry and path); None if the policy has none."""
        return next((rule for rule in self.rules if rule.fits(repository)), None)

    def allows_unsigned(self, repository: str) -> bool:
        """Whether an image of this repository may run if nobody signed it; if somebody did, its rule decides."""
        return _fits(self.allow_unsigned, repository)


DEFAULT_POLICY = Policy(
    BUILT_IN,
    (
        Rule(
            "default",
            identities=(
                Identity(
                    Pattern("https://token.actions.githubusercontent.com"),
                    Pattern("^https://github.com/schedkit/", is_expression=True),
                ),
            ),
        ),
    ),
)


def read_policy(path: str | Path) -> Policy:
    """A policy file and the keys and roots it names; PolicyError with the line where it is wrong."""
    from schedkit.trust.policy_file import parse_policy

    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise MissingPolicyError(
            f"the trust policy {path} does not exist", hint="without it, no image may run"
        ) from error
    except OSError as error:
        raise PolicyError(
            f"the trust policy {path} cannot be read: {error.strerror}", hint="without it, no image may run"
        ) from error
    return parse_policy(data, str(path), Path(path).parent)


def _fits(patterns: Iterable[str], repository: str) -> bool:
    return any(re.fullmatch(_translate(pattern), repository) for pattern in patterns)


def _translate(pattern: str) -> str:
    """Translate to an expression: `*` is anything within one part of a path, `**` anything."""
    parts = re.split(r"(\*\*|\*)", pattern)
    return "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
