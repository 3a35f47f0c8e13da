"""May this image run, and may the project's catalog be used? The one place where schedctl decides it."""

from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.errors import NotFoundError

if TYPE_CHECKING:
    from schedkit.host.model import Verify
    from schedkit.images.catalog_remote import CheckSignature, FetchSignature
    from schedkit.images.image import Image
    from schedkit.runtimes.model import Runtime
    from schedkit.schedctl.session import Session
    from schedkit.schedctl.settings import Settings
    from schedkit.trust.errors import Refusal
    from schedkit.trust.model import Verdict
    from schedkit.trust.policy import Policy
    from schedkit.trust.roots import Roots

UNSIGNED_ALLOWED = "unsigned-allowed"  # what Label.VERIFIED says then
UNTRUSTED_ALLOWED = "untrusted-allowed"  # signed, and by nobody whom the policy trusts
# Runtimes that pull for themselves, and where each looks for the certificate authorities of a registry.
ENGINES = {
    "podman": (Path("/etc/containers/certs.d"), Path("/etc/docker/certs.d")),
    "docker": (Path("/etc/docker/certs.d"),),
}
CONSENT = "if you trust whoever made it: --allow-unsigned, or SCHEDCTL_ALLOW_UNSIGNED=1"
CATALOG_REPOSITORY = "ghcr.io/schedkit/catalog"  # no image: its rule is that for the catalog
PIN = "if you know the digest from a source that you trust: schedctl catalog update --digest sha256:HEX"


def make_verify(session: "Session", runtime: "Runtime", *, by_any_root: bool = False) -> "Verify":
    """What the settings make of an image's signatures, before it goes into a runtime.

    `by_any_root`: without network, a verdict by a trusted root that was replaced since will do.
    """

    def check(image: "Image") -> str:
        from schedkit.trust.errors import Refusal

        policy = read_trust_policy(session.settings)
        try:
            verdict = verify_image(session, image, policy, by_any_root=by_any_root)
        except Refusal as refusal:
            who = _allow(session, image, policy, refusal)
        else:
            session.progress.step(f"verified: {verdict.who}")
            who = verdict.who
        if session.settings.offline and not runtime.has_image(image):
            what = f"{image.repository}@{image.manifest.digest}"
            raise NotFoundError(
                f"{what} is not in {runtime.driver}, and --offline forbids fetching it",
                hint=f"with network: schedctl pull {image.reference}",
            )
        if runtime.driver in ENGINES and not runtime.has_image(image):
            _warn_of_authority(session, runtime, image)
            _warn_of_plain(session, runtime, image)
        return who

    return check


def _warn_of_authority(session: "Session", runtime: "Runtime", image: "Image") -> None:
    """Say before the pull that an engine, which pulls for itself, does not know the authority in ca-file."""
    file = session.settings.ca_file
    if not file:
        return
    from schedkit.images.connections import find_authorities

    folders = ENGINES[runtime.driver]
    for source in image.sources:
        registry = source.repository.partition("/")[0]
        if not source.insecure and not find_authorities(registry, folders):
            session.progress.warn(
                f"{runtime.driver} pulls from {registry} without ca-file, which only schedctl reads; "
                f"if that fails: install -D {file} {folders[0]}/{registry}/ca.crt"
            )


def _warn_of_plain(session: "Session", runtime: "Runtime", image: "Image") -> None:
    """Say before the pull that an engine will not use a registry without TLS though schedctl was allowed to."""
    for source in image.sources:
        registry = source.repository.partition("/")[0]
        if source.insecure and not runtime.may_be_plain(registry):
            session.progress.warn(
                f"{runtime.driver} cannot pull from {registry} without TLS and a certificate that it knows: "
                f'add {registry} to "insecure-registries" in /etc/docker/daemon.json, and restart docker'
            )


def _allow(session: "Session", image: "Image", policy: "Policy", refusal: "Refusal") -> str:
    """What Label.VERIFIED says of an image that runs with the user's consent; the refusal itself without."""
    from schedkit.trust.errors import UnsignedError

    unsigned = isinstance(refusal, UnsignedError)
    if unsigned and policy.allows_unsigned(image.repository):
        session.progress.step(f"{image.reference} is not signed, which {policy.origin} allows for it (allowUnsigned)")
        return UNSIGNED_ALLOWED
    if not refusal.may_be_allowed:  # a bad signature is worse than none
        raise refusal
    if not session.settings.allow_unsigned:
        refusal.hint = f"{refusal.hint}; {CONSENT}"
        raise refusal
    session.progress.warn(
        f"{image.reference} is NOT VERIFIED and will run privileged, in the kernel's scheduler: "
        f"--allow-unsigned says that you trust whoever made it ({refusal.message})"
    )
    return UNSIGNED_ALLOWED if unsigned else UNTRUSTED_ALLOWED


def verify_image(session: "Session", image: "Image", policy: "Policy", *, by_any_root: bool = False) -> "Verdict":
    """Who signed an image; an error if nobody does whom the policy trusts."""
    from schedkit.trust.decide import verify

    settings = session.settings
    session.progress.detail(f"trust policy: {policy.origin}")
    verdict = verify(
        image,
        policy,
        roots=_make_roots(session),
        cache=settings.cache,
        offline=settings.offline,
        now=session.machine.now(),
        by_any_root=by_any_root,
    )
    if verdict.from_cache and not settings.offline:
        session.progress.warn(f"no network: the verdict of {verdict.at:%Y-%m-%d %H:%M} on {image.digest} is used")
    return verdict


def make_catalog_check(session: "Session") -> "CheckSignature":
    """What the policy makes of the signature of the project's catalog; the only way around it is the digest."""

    def check(content: bytes, fetch_signature: "FetchSignature") -> None:
        from schedkit.images.catalog_remote import PUBLISHED, UPLOAD
        from schedkit.trust.errors import BadSignatureError, Refusal, UnsignedError
        from schedkit.trust.signed_file import SignedFile, verify_file

        policy = read_trust_policy(session.settings)
        session.progress.detail(f"trust policy: {policy.origin}")
        file = SignedFile(f"the catalog {PUBLISHED}", CATALOG_REPOSITORY, content, fetch_signature)
        try:
            signatures = verify_file(file, policy, _make_roots(session))
        except Refusal as refusal:
            retry = [UPLOAD] if isinstance(refusal, UnsignedError | BadSignatureError) else []
            refusal.hint = "; ".join([*retry, refusal.hint, PIN])
            raise
        session.progress.step(f"verified: {'; '.join(signature.who for signature in signatures)}")

    return check


def _make_roots(session: "Session") -> "Roots":
    from schedkit.trust.roots import Roots

    return Roots(session.settings.cache, offline=session.settings.offline, warn=session.progress.warn)


def read_trust_policy(settings: "Settings") -> "Policy":
    """The user's, or else the built-in one."""
    from schedkit.trust.policy import DEFAULT_POLICY, read_policy

    return read_policy(settings.trust_policy) if settings.trust_policy else DEFAULT_POLICY


def check_trust_policy(settings: "Settings") -> None:
    """Say that the user's policy is wrong before anything is done that may be in vain."""
    if settings.trust_policy:
        read_trust_policy(settings)
