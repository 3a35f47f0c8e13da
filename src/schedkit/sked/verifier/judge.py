"""May an image run in the cluster? The reference resolved once, and the signatures of exactly that digest judged."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import NamedTuple

from schedkit.errors import UsageError
from schedkit.images.credentials import Found, find_credentials, find_in_document
from schedkit.images.reference import Reference, parse_reference
from schedkit.images.registry import Registry
from schedkit.images.settings import RegistrySettings
from schedkit.sked.verifier.messages import TrustSettings
from schedkit.trust.decide import verify
from schedkit.trust.errors import UnsignedError, UntrustedError
from schedkit.trust.policy import DEFAULT_POLICY, Policy, Root, read_policy
from schedkit.trust.roots import Roots
from schedkit.trust.trusted_root import TrustedRoot

RESOLVE_SECONDS = 30.0  # for all requests until the digest is known, pauses included
UNSIGNED = "nobody (allowUnsigned)"


class Judged(NamedTuple):
    """Who signed an image, by which rule of the policy."""

    signer: str
    rule: str


class Judge:
    """Asks registries, and judges by the policy as it is now. Threads may share one."""

    def __init__(
        self,
        settings: TrustSettings,
        *,
        environ: Mapping[str, str] = os.environ,
        roots: Roots | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._registries = RegistrySettings(frozenset(settings.insecure), settings.mirrors, settings.ca_file or None)
        self._environ = dict(environ)
        if settings.pull_secret:
            self._environ["REGISTRY_AUTH_FILE"] = settings.pull_secret
        self._roots = roots or _SharedRoots()
        self._now = now

    def read_policy(self) -> Policy:
        """The policy as its file is now; PolicyError where it is none."""
        return read_policy(self._settings.policy) if self._settings.policy else DEFAULT_POLICY

    def resolve(self, text: str, policy: Policy, secrets: Sequence[str] = ()) -> str:
        """The digest of what a reference names now. Images that no rule is for are not asked for."""
        reference = parse_reference(text)
        check_rule(policy, reference)
        registry = self._open(secrets)
        try:
            with registry.limit(RESOLVE_SECONDS, f"{reference}: resolving it"):
                return registry.fetch_signable(reference).digest
        finally:
            registry.close()

    def judge(self, text: str, policy: Policy, secrets: Sequence[str] = ()) -> Judged:
        """Who signed what has this digest: the whole index, if it is one, as each node chooses from it."""
        reference = parse_reference(text)
        if not reference.digest:
            raise UsageError(f"{reference} has no digest, and a tag may change between two looks")
        check_rule(policy, reference)
        registry = self._open(secrets)
        try:
            with registry.limit(RESOLVE_SECONDS, f"{reference}: fetching it"):
                named = registry.fetch_signable(reference)
            verdict = verify(named, policy, roots=self._roots, cache=None, offline=False, now=self._now())
        except UnsignedError:
            if policy.allows_unsigned(reference.repository):
                return Judged(UNSIGNED, "allowUnsigned")
            raise
        finally:
            registry.close()
        return Judged(verdict.who, verdict.rule)

    def _open(self, secrets: Sequence[str]) -> Registry:
        """A client of its own: limits are for all requests of one, and so are logins."""

        def find(registry: str, path: str) -> Found:
            problems: tuple[str, ...] = ()
            for number, document in enumerate(secrets, 1):
                found = find_in_document(document.encode(), f"pull secret {number}", registry, path)
                if found.credentials:
                    return found
                problems += found.problems
            found = find_credentials(registry, path, self._environ)
            return Found(found.credentials, problems + found.problems)

        return Registry(self._registries, environ=self._environ, find=find)


class _SharedRoots(Roots):
    """Trusted roots without a folder to keep them in, fetched once by whichever thread comes first."""

    def __init__(self) -> None:
        super().__init__(None)
        self._lock = Lock()

    def get(self, root: Root | None) -> TrustedRoot:
        with self._lock:
            return super().get(root)


def check_rule(policy: Policy, reference: Reference) -> None:
    """UntrustedError where the policy says nothing of an image: then nobody is asked about it."""
    repository = reference.repository
    if policy.for_image(repository) is None and not policy.allows_unsigned(repository):
        raise UntrustedError(
            f"the trust policy {policy.origin} has no rule for {repository}",
            hint="add a scope for it, or keys and identities for all images",
        )


def identify(policy: Policy) -> str:
    """The policy's hash; also of what may be unsigned, which changes what may run."""
    if not policy.allow_unsigned:
        return policy.hash
    words = json.dumps([policy.hash, policy.allow_unsigned]).encode()
    return f"sha256:{hashlib.sha256(words).hexdigest()}"
