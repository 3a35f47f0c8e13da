"""Images signed by real cosign in a real registry, and the operator that uses what is verified and nothing else."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab import images
from lab.cluster import Cluster
from lab.signing import VirtualSigstore
from lab.store import Store
from lab.waiting import NotYetError, wait_for
from schedkit.trust.model import Format
from tests.integration.clusters import read_object, read_objects
from tests.integration.images.test_logins import BASIC, HTPASSWD, SECRET, USER
from tests.integration.sked_controller.operator import (
    ROOT,
    SECONDS,
    Json,
    Operator,
    apply,
    condition,
    fetch,
    fetch_pods,
    fetch_warnings,
    has,
    make_schedext,
    wait_object,
)
from tests.integration.trust.conftest import pair, workshop
from tests.integration.trust.workshop import ISSUER, SUBJECT, Signed, Workshop

__all__ = ["pair", "workshop"]  # fixtures

SIMPLE, BUNDLE = Format.COSIGN_V2, Format.BUNDLE
REFRESH = "sked.schedkit.io/refresh"
VERIFIED = has("Verified", "True", "Verified")
Pair = Callable[[str], tuple[Path, Path]]


@dataclass
class Shop:
    """The workshop, an administrator's policy, and the operator that enforces it."""

    cluster: Cluster
    operator: Operator
    workshop: Workshop
    key: Path
    public: Path
    policy: Path
    signed: set[str] = field(default_factory=set)  # everything that may run

    def start(self, mode: str = "enforce", *more: str) -> None:
        self.operator.stop()
        words = (f"--verification={mode}", f"--trust-policy={self.policy}", *more) if mode != "off" else ()
        self.operator.start("--leader-elect", *words)

    def write_policy(self, **fields: object) -> None:
        """Replace the policy as a whole, as a kubelet does."""
        written = self.policy.with_suffix(".new")
        written.write_text(json.dumps(fields, default=str))
        written.replace(self.policy)

    def trust(self, *keys: Path, **more: object) -> None:
        identities = [{"issuer": ISSUER, "subject": SUBJECT}]
        root = self.workshop.sigstore.trusted_root
        self.write_policy(keys=[{"path": key} for key in keys], identities=identities, trustedRoot=root, **more)

    def sign(self, image: Signed, series: str = "v3", kind: Format = BUNDLE) -> Signed:
        self.workshop.sign_with_key(series, kind, image, self.key)
        return self.allow(image)

    def allow(self, image: Signed) -> Signed:
        self.signed.add(image.name)
        return image

    def apply(self, name: str, image: str, **spec: Any) -> None:
        apply(self.cluster, make_schedext(name, sched=image, **spec))

    def wait(self, name: str, satisfies: Callable[[Json], bool]) -> Json:
        return wait_object(self.cluster, "schedext", name, satisfies)

    def image_of(self, name: str) -> str:
        found = fetch(self.cluster, "daemonset", name)
        return str(found["spec"]["template"]["spec"]["containers"][0]["image"]) if found else ""


def tagged(image: Signed, tag: str = "v1") -> str:
    return f"{image.pusher.address}/{image.pusher.path}:{tag}"


def message_of(resource: Json, kind: str = "Verified") -> str:
    return next(str(found["message"]) for found in resource["status"]["conditions"] if found["type"] == kind)


def ask_schedctl(image: str, policy: Path) -> tuple[int, str]:
    """The exit code and the error of `schedctl verify`."""
    program = "from schedkit.schedctl.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "verify", image, "--trust-policy", policy],
        env=dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), "HOME": str(policy.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, next(
        (line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")), ""
    )


@pytest.fixture(scope="module")
def bench(nodes: Cluster, leader: Operator, workshop: Workshop, pair: Pair) -> Iterator[Shop]:
    key, public = pair("release")
    shop = Shop(nodes, leader, workshop, key, public, workshop.folder / "trust" / "policy.yaml")
    shop.policy.parent.mkdir()
    yield shop
    leader.stop()


@pytest.fixture
def shop(bench: Shop) -> Iterator[Shop]:
    """The operator under enforce; afterwards nothing is left, and all that ran may have run."""
    bench.trust(bench.public)
    if bench.operator.arguments[1:2] != ("--verification=enforce",) or not bench.operator.daemon.alive():
        bench.start()
    # Tests of other files may have left a pod that nobody ends.
    before = {pod["metadata"]["uid"] for pod in read_objects(bench.cluster, "pod", "default")}
    yield bench
    print(bench.operator.log()[-6000:])
    ran = {
        container["image"]
        for pod in read_objects(bench.cluster, "pod", "default")
        for container in pod["spec"]["containers"]
        if pod["metadata"]["uid"] not in before
    }
    bench.cluster.kubectl("delete", "schedexts", "--all", "-A", "--wait=true")
    bench.cluster.kubectl("delete", "daemonsets", "--all", "-A", "--cascade=foreground", "--wait=true")
    if bench.operator.arguments[1:2] == ("--verification=enforce",):
        assert ran <= bench.signed


@pytest.mark.parametrize(("series", "kind"), [("v2", SIMPLE), ("v3", BUNDLE)], ids=str)
def test_signed_image_is_pinned_to_its_digest_and_told(shop: Shop, series: str, kind: Format) -> None:
    image = shop.sign(shop.workshop.push(), series, kind)
    shop.apply("signed", tagged(image))
    found = shop.wait("signed", VERIFIED)
    shop.wait("signed", has("Ready", "True", "Ready"))
    assert shop.image_of("signed") == image.name
    (pool,) = found["status"]["pools"]
    assert pool["resolvedImage"] == image.name
    assert pool["verified"]["digest"] == image.digest
    assert pool["verified"]["signer"].startswith("key SHA256:")
    assert pool["verified"]["policy"].startswith("sha256:")
    assert len(fetch_pods(shop.cluster, "signed")) == 3


def test_whole_index_is_pinned_where_it_is_signed(shop: Shop) -> None:
    index = shop.sign(shop.workshop.push_index())
    shop.apply("index", tagged(index))
    shop.wait("index", VERIFIED)
    assert shop.image_of("index") == index.name


def test_identity_vouched_for_by_fulcio_and_rekor_is_told_and_neither_is_asked(
    shop: Shop, store: Store, tmp_path: Path
) -> None:
    """The log's proof lies beside the image: it may be down when the operator looks."""
    image = shop.allow(shop.workshop.push())
    with VirtualSigstore(store, tmp_path) as sigstore:
        shop.workshop.cosigns["v3"].sign(image.name, *sigstore.keyless(SUBJECT, ISSUER))
        root = sigstore.trusted_root
    scope = {"images": [f"{image.pusher.address}/{image.pusher.path}"], "trustedRoot": root}
    shop.trust(shop.public, scopes=[scope | {"identities": [{"issuer": ISSUER, "subject": SUBJECT}]}])
    shop.apply("keyless", tagged(image))
    found = shop.wait("keyless", VERIFIED)
    assert message_of(found) == f"signed by {SUBJECT} ({ISSUER})"
    assert shop.image_of("keyless") == image.name


def unsigned(shop: Shop, _: Pair) -> Signed:
    return shop.workshop.push()


def by_another_key(shop: Shop, pair: Pair) -> Signed:
    image = shop.workshop.push()
    shop.workshop.sign_with_key("v2", SIMPLE, image, pair("stranger")[0])
    return image


def by_another_identity(shop: Shop, _: Pair) -> Signed:
    image = shop.workshop.push()
    shop.workshop.sign_keyless("v3", BUNDLE, image, subject="release@evil.example")
    return image


def by_an_expired_certificate(shop: Shop, _: Pair) -> Signed:
    image = shop.workshop.push()
    shop.workshop.sign_keyless("v2", SIMPLE, image, ca="/old")
    return image


def without_a_log(shop: Shop, _: Pair) -> Signed:
    """Signed by the right key while the log was down; the policy wants an entry."""
    image = shop.workshop.push()
    shop.workshop.sign_with_key("v3", BUNDLE, image, shop.key)
    scope = {"images": [f"{image.pusher.address}/{image.pusher.path}"], "keys": [{"path": shop.public}]}
    root = shop.workshop.sigstore.trusted_root
    shop.trust(shop.public, scopes=[scope | {"requireLog": True, "trustedRoot": root}])
    return image


def with_the_signature_of_another_image(shop: Shop, _: Pair) -> Signed:
    image, signed = shop.workshop.push(), shop.workshop.push()
    shop.workshop.sign_with_key("v2", SIMPLE, signed, shop.key)
    image.put_layers(*signed.read_layers(shop.workshop.registry))
    return image


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (unsigned, "Unsigned"),
        (by_another_key, "Untrusted"),
        (by_another_identity, "Untrusted"),
        (by_an_expired_certificate, "Expired"),
        (without_a_log, "NoLogEntry"),
        (with_the_signature_of_another_image, "BadSignature"),
    ],
)
def test_image_that_is_refused_is_not_started_and_says_why_as_schedctl_does(
    shop: Shop, pair: Pair, make: Callable[[Shop, Pair], Signed], reason: str
) -> None:
    image = make(shop, pair)
    shop.apply("refused", tagged(image))
    found = shop.wait("refused", has("Verified", "False", reason))
    assert condition(found, "Ready") == ("False", reason)
    assert fetch(shop.cluster, "daemonset", "refused") is None
    code, words = ask_schedctl(image.name, shop.policy)
    assert code != 0
    # A fingerprint or a name of the reference apart, the same sentence.
    told = message_of(found).partition("; running schedulers continue")[0]
    assert told == words.replace("\n", " ")
    wait_for(
        "a Warning",
        lambda: [one for one in fetch_warnings(shop.cluster, "refused") if one["reason"] == reason],
        SECONDS,
    )


def test_attackers_index_around_a_signed_manifest_is_refused(shop: Shop) -> None:
    """A kubelet would choose from it what nobody signed."""
    signed = shop.sign(shop.workshop.push())
    pusher = signed.pusher
    evil = pusher.image("amd64", layer=b"evil")
    good = {"mediaType": evil["mediaType"], "digest": signed.digest, "size": _size(shop, signed)}
    index = pusher.index(good | {"platform": {"os": "linux", "architecture": "s390x"}}, evil, tag="around")
    shop.apply("around", tagged(signed, "around"))
    found = shop.wait("around", has("Verified", "False", "Unsigned"))
    assert index["digest"] in message_of(found)
    assert fetch(shop.cluster, "daemonset", "around") is None


def _size(shop: Shop, image: Signed) -> int:
    return shop.workshop.registry.fetch_document(image.reference)[0].size


def test_moved_tag_changes_nothing_until_somebody_asks_and_then_only_what_is_verified(shop: Shop) -> None:
    image = shop.sign(shop.workshop.push())
    shop.apply("moved", tagged(image))
    shop.wait("moved", VERIFIED)
    evil = Signed(image.pusher, image.pusher.image("amd64", layer=b"moved", tag="v1")["digest"])
    shop.cluster.kubectl("annotate", "schedext", "moved", f"{REFRESH}=1", "--overwrite")
    found = shop.wait("moved", has("Verified", "False", "Unsigned"))
    assert found["status"]["pools"][0]["resolvedImage"] == evil.name
    assert (shop.image_of("moved"), found["status"]["image"]) == (image.name, image.name)
    newer = Signed(image.pusher, image.pusher.image("amd64", layer=b"newer", tag="v1")["digest"])
    shop.sign(newer)
    shop.cluster.kubectl("annotate", "schedext", "moved", f"{REFRESH}=2", "--overwrite")
    shop.wait("moved", VERIFIED)
    assert shop.image_of("moved") == newer.name


def test_policy_is_followed_without_a_restart_and_leaves_what_runs(shop: Shop, pair: Pair) -> None:
    image, other = shop.sign(shop.workshop.push()), shop.sign(shop.workshop.push())
    shop.apply("policy", tagged(image))
    first = shop.wait("policy", VERIFIED)
    pods = fetch_pods(shop.cluster, "policy")
    shop.trust(pair("stranger")[1])
    found = shop.wait("policy", has("Verified", "False", "Untrusted"))
    assert (shop.image_of("policy"), fetch_pods(shop.cluster, "policy")) == (image.name, pods)
    assert "verified" not in found["status"]["pools"][0]
    shop.apply("policy", tagged(other))
    shop.wait("policy", has("Verified", "False", "Untrusted"))
    assert (shop.image_of("policy"), fetch_pods(shop.cluster, "policy")) == (image.name, pods)
    shop.write_policy(keys="wrong")
    found = shop.wait("policy", has("Verified", "Unknown", "BadPolicy"))
    assert "policy.yaml, line 1: keys must be a list" in message_of(found)
    shop.trust(shop.public)
    again = shop.wait("policy", VERIFIED)
    assert shop.image_of("policy") == other.name
    assert again["status"]["pools"][0]["verified"]["policy"] == first["status"]["pools"][0]["verified"]["policy"]


def test_outage_of_the_registry_keeps_what_runs_also_over_a_restart(shop: Shop, store: Store) -> None:
    image = shop.workshop.push()
    with images.Registry(store, shop.workshop.storage) as registry:
        address = registry.address
        there = shop.allow(Signed(image.pusher.__class__(address, image.pusher.path), image.digest))
        shop.workshop.sign_with_key("v3", BUNDLE, there, shop.key)
        shop.apply("outage", tagged(there), args=["--one"])
        shop.apply("resting", tagged(there), suspend=True)
        shop.wait("outage", VERIFIED)
        shop.wait("outage", has("Ready", "True", "Ready"))
        wait_for("the verdict to be kept", lambda: there.name in _read_verdicts(shop), SECONDS)
    pods = fetch_pods(shop.cluster, "outage")
    shop.start()  # after which only what was kept is known
    shop.cluster.kubectl("label", "schedext", "outage", "seen=1")
    shop.wait("outage", VERIFIED)
    assert fetch_pods(shop.cluster, "outage") == pods
    shop.apply("outage", tagged(there), args=["--two"])
    found = shop.wait("outage", has("Verified", "Unknown", "Unavailable"))
    assert address in message_of(found)
    made = fetch(shop.cluster, "daemonset", "outage")
    assert made is not None
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["args"], fetch_pods(shop.cluster, "outage")) == (there.name, ["--one"], pods)
    with images.Registry(store, shop.workshop.storage, settings={"http": {"addr": address}}):
        shop.cluster.kubectl("annotate", "schedext", "outage", f"{REFRESH}=now")
        shop.wait("outage", VERIFIED)

        def changed() -> bool:
            made = fetch(shop.cluster, "daemonset", "outage")
            return made is not None and made["spec"]["template"]["spec"]["containers"][0]["args"] == ["--two"]

        wait_for("the change to be carried out", changed, SECONDS)


def _read_verdicts(shop: Shop) -> str:
    found = read_object(shop.cluster, "configmap", "sked-verdicts")
    if found is None:
        raise NotYetError("no verdicts")
    return str(found.get("data", {}).get("verdicts.json", ""))


def test_status_that_a_tenant_forges_is_no_verdict(shop: Shop) -> None:
    evil = shop.workshop.push()
    shop.operator.stop()
    shop.apply("forged", tagged(evil))
    verified = {"digest": evil.digest, "signer": "me", "policy": "sha256:x", "time": "2026-01-01T00:00:00Z"}
    status = {
        "observedGeneration": 1,
        "pools": [
            {"name": "", "daemonSet": "forged", "image": evil.name, "resolvedImage": evil.name, "verified": verified}
        ],
        "conditions": [
            {
                "type": "Verified",
                "status": "True",
                "reason": "Verified",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    patch = json.dumps({"status": status})
    shop.cluster.kubectl("patch", "schedext", "forged", "--subresource=status", "--type=merge", "-p", patch)
    shop.start()
    shop.wait("forged", has("Verified", "False", "Unsigned"))
    assert fetch(shop.cluster, "daemonset", "forged") is None


def test_image_in_a_private_registry_is_verified_with_the_resources_own_pull_secret(shop: Shop, store: Store) -> None:
    image = shop.workshop.push()
    shop.workshop.sign_with_key("v2", SIMPLE, image, shop.key)
    settings, files = BASIC, {"htpasswd": HTPASSWD}
    with images.Registry(store, shop.workshop.storage, settings=settings, files=files) as registry:
        private = shop.allow(Signed(image.pusher.__class__(registry.address, image.pusher.path), image.digest))
        shop.apply("private", tagged(private))
        found = shop.wait("private", has("Verified", "Unknown", "NoPermission"))
        assert "requires credentials" in message_of(found)
        auth = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
        document = json.dumps({"auths": {registry.address: {"auth": auth}}})
        apply(
            shop.cluster,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "login", "namespace": "default"},
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": document},
            },
        )
        shop.apply("private", tagged(private), imagePullSecrets=[{"name": "login"}])
        shop.wait("private", VERIFIED)
        assert shop.image_of("private") == private.name


def test_moving_over_restarts_nothing_where_the_digest_runs_already(shop: Shop) -> None:
    image = shop.sign(shop.workshop.push())
    shop.start("off")
    shop.apply("moving", tagged(image))
    shop.wait("moving", has("Ready", "True", "Ready"))
    shop.signed.add(tagged(image))  # written so, and running the digest that is signed
    for pod in read_objects(shop.cluster, "pod", "default", "name=moving"):
        statuses = [status | {"imageID": image.name} for status in pod["status"]["containerStatuses"]]
        patch = json.dumps({"status": {"containerStatuses": statuses}})
        name = pod["metadata"]["name"]
        shop.cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)
    pods = fetch_pods(shop.cluster, "moving")
    shop.start("warn")
    shop.wait("moving", VERIFIED)
    assert shop.image_of("moving") == tagged(image)
    shop.start()
    wait_for("the image to be pinned", lambda: shop.image_of("moving") == image.name, SECONDS)
    shop.wait("moving", lambda found: VERIFIED(found) and has("Ready", "True", "Ready")(found))
    assert fetch_pods(shop.cluster, "moving") == pods
    shop.apply("moving", tagged(image), args=["--more"])
    wait_for(
        "the pods to be replaced",
        lambda: not set(pods.values()) & set(fetch_pods(shop.cluster, "moving").values()),
        SECONDS,
    )


def test_warn_uses_an_unsigned_image_as_written_and_tells(shop: Shop) -> None:
    image = shop.workshop.push()
    shop.start("warn")
    shop.apply("warned", tagged(image))
    found = shop.wait("warned", has("Verified", "False", "Unsigned"))
    assert message_of(found).endswith("; it is used anyway (--verification=warn)")
    shop.wait("warned", has("Ready", "True", "Ready"))
    assert shop.image_of("warned") == tagged(image)


def test_sked_verify_says_the_same_without_a_cluster(shop: Shop, tmp_path: Path) -> None:
    signed, unsigned = shop.sign(shop.workshop.push()), shop.workshop.push()
    pools = [
        {"name": name, "sched": tagged(image), "nodeSelector": {"pool": name}}
        for name, image in (("a", signed), ("b", unsigned))
    ]
    file = tmp_path / "pools.json"
    file.write_text(json.dumps(make_schedext("both", pools=pools)))
    program = "from schedkit.sked.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "verify", file, f"--trust-policy={shop.policy}"],
        env=dict(os.environ) | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 21, done.stderr
    fingerprint = re.compile(r"key SHA256:\S+ \(.*\)")
    assert fingerprint.sub("KEY", done.stdout).splitlines() == [
        "schedext    both, pool a",
        f"image       {tagged(signed)}",
        f"resolved    {signed.name}",
        "verified    yes",
        f"policy      {shop.policy}, rule default",
        "signed by   KEY",
        "schedext    both, pool b",
        f"image       {tagged(unsigned)}",
        "verified    no",
        "reason      Unsigned",
        f"message     {unsigned.name} ({unsigned.digest}) is not signed",
    ]
    apply(shop.cluster, make_schedext("both", pools=pools))
    found = shop.wait("both", has("Verified", "False", "Unsigned"))
    assert message_of(found).startswith(f"{unsigned.name} ({unsigned.digest}) is not signed")
    wait_for("the pool that is signed", lambda: shop.image_of("both-a") == signed.name, SECONDS)
    assert fetch(shop.cluster, "daemonset", "both-b") is None
