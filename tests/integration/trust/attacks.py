"""What an attacker may try with real signatures of real cosign, and a policy that it must not get past.

The registry is the attacker's: it holds what they want, beside whatever image they want.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedkit.images.reference import Reference
from schedkit.trust.model import Format
from schedkit.trust.policy import Policy
from schedkit.trust.simplesigning import LOG, SIGNATURE
from tests.integration.images.pushing import Pusher, digest_of
from tests.integration.images.servers import Server
from tests.integration.trust.workshop import ISSUER, SUBJECT, Signed, Workshop, flip

SIMPLE, BUNDLE = Format.COSIGN_V2, Format.BUNDLE
SERIES = {SIMPLE: "v2", BUNDLE: "v3"}
Attacked = tuple[Signed, Policy]


@dataclass(frozen=True)
class Bench:
    """The workshop, a server that says what it is told, and two keys of cosign's."""

    shop: Workshop
    hostile: Server
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

    def copy_hostile(self, image: Signed, change: Callable[[bytes], bytes]) -> Attacked:
        """The same image in a registry that serves another list of its signatures than a right registry takes."""
        resolved, registry = self.shop.fetch(image), self.shop.registry
        tag = Reference(image.pusher.address, image.pusher.path, image.signature_tag, None)
        listed, signatures = registry.fetch_document(tag)
        ((payload, _),) = image.read_layers(registry)
        manifest, data = resolved.manifests[0]
        config = registry.fetch_bytes(image.reference, resolved.config, 1 << 20)

        def serve(path: str, body: bytes, kind: str = "application/octet-stream") -> None:
            self.hostile.says(f"/v2/{image.pusher.path}/{path}", body, Content_Type=kind)

        self.hostile.says("/v2/", b"{}")
        serve(f"manifests/{image.digest}", data, manifest.media_type)
        serve(f"manifests/{image.signature_tag}", change(signatures), listed.media_type)
        for blob in (config, payload):
            serve(f"blobs/{digest_of(blob)}", blob)
        copied = Signed(Pusher(self.hostile.address, image.pusher.path), image.digest)
        return copied, self.shop.trust_key(self.public)

    def want_log(self) -> Policy:
        return self.shop.trust_key(self.public, requireLog=True, trustedRoot=self.shop.sigstore.trusted_root)


def digest_swapped_in_a_payload(bench: Bench) -> Attacked:
    source, image = bench.signed(SIMPLE), bench.shop.push()
    payload, notes = bench.layer_of(source)
    image.put_layers((payload.replace(source.digest.encode(), image.digest.encode()), notes))
    return image, bench.shop.trust_key(bench.public)


def digest_swapped_in_a_statement(bench: Bench) -> Attacked:
    source, image = bench.signed(BUNDLE), bench.shop.push()
    bundle = bench.bundle_of(source)
    text = base64.b64decode(bundle["dsseEnvelope"]["payload"]).decode()
    theirs, mine = (one.digest.removeprefix("sha256:") for one in (source, image))
    assert theirs in text
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(text.replace(theirs, mine).encode()).decode()
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
    image.put_layers((payload, notes | {LOG: others[LOG]}))
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
    log = json.loads(notes[LOG])
    log["Payload"]["integratedTime"] -= 2 * 60
    image.put_layers((payload, notes | {LOG: json.dumps(log)}))
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


def giant_manifest(bench: Bench) -> Attacked:
    """The list of signatures, with more spaces in it than anybody should read."""
    return bench.copy_hostile(bench.signed(SIMPLE), lambda whole: whole[:-1] + b" " * (8 << 20) + b"}")


def hundreds_of_signatures(bench: Bench) -> Attacked:
    return bench.copy_hostile(bench.signed(SIMPLE), lambda whole: put_wrong_ones_first(whole, 500))


def thousands_of_signatures(bench: Bench) -> Attacked:
    return bench.copy_hostile(bench.signed(SIMPLE), lambda whole: put_wrong_ones_first(whole, 2000))


def put_wrong_ones_first(manifest: bytes, count: int) -> bytes:
    """A right signature at the end of a list that takes for ever."""
    document = json.loads(manifest)
    (right,) = document["layers"]
    notes = right["annotations"]
    wrong = right | {"annotations": notes | {SIGNATURE: flip(notes[SIGNATURE])}}
    return json.dumps(document | {"layers": [wrong] * count + [right]}).encode()
