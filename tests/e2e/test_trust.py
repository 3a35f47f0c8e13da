"""What is signed runs, what is not stays out: schedctl on a real kernel, with signatures of real cosign."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.machine import Machine
from lab.signing import Cosign, VirtualSigstore, keyed
from lab.store import Store
from schedkit.images.reference import Reference
from schedkit.images.registry import Registry
from tests.e2e.conftest import Slot, read_slot, wait_detached
from tests.e2e.runtimes import REGISTRY
from tests.e2e.schedctl import SECONDS, SETTINGS, Schedctl
from tests.integration.images.pushing import Document, Pusher

SUBJECT, ISSUER = "release@schedkit.example", "https://accounts.schedkit.example"
FOLDER = "/root/trust"
BY_KEY, BY_IDENTITY = f"{REGISTRY}/scx_fifo:v1", f"{REGISTRY}/scx_fifo:v2"
UNSIGNED, BY_A_STRANGER = f"{REGISTRY}/scx_stubborn:v1", f"{REGISTRY}/scx_mortal:v1"
ATTACHED_BY_KEY, ATTACHED_BY_IDENTITY = Slot("enabled", "schedkit_fifo"), Slot("enabled", "schedkit_fifo2")
# All that each runtime holds, by its own command line: what was refused must not be among it.
PULLED = {
    "podman": "podman images --all --digests --format '{{.Repository}} {{.Digest}}'",
    "docker": "docker images --all --digests --format '{{.Repository}} {{.Digest}}'",
    "containerd": "ctr -n schedkit images ls; ctr -n schedkit content ls",
}


@pytest.fixture(scope="module")
def machine_with_signatures(machine: Machine, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One image signed with a key, one by an identity, one by a stranger's key, one not at all; and a policy."""
    Schedctl.install(machine)
    folder = tmp_path_factory.mktemp("trust")
    cosign = Cosign(store, "v3", folder / "cosign")
    (mine, public), (theirs, _) = cosign.make_key("mine"), cosign.make_key("theirs")
    with VirtualSigstore(store, folder / "sigstore") as sigstore:
        cosign.sign(_name(machine, BY_KEY), *keyed(mine))
        cosign.sign(_name(machine, BY_A_STRANGER), *keyed(theirs))
        cosign.sign(_name(machine, BY_IDENTITY), *sigstore.keyless(SUBJECT, ISSUER))
        machine.guest.write(f"{FOLDER}/trusted_root.json", sigstore.trusted_root.read_bytes())
    machine.guest.write(f"{FOLDER}/mine.pub", public.read_bytes())
    policy = {
        "keys": [{"path": "mine.pub"}],
        "identities": [{"issuer": ISSUER, "subject": SUBJECT}],
        "trustedRoot": "trusted_root.json",
    }
    machine.guest.write(f"{FOLDER}/policy.yaml", json.dumps(policy).encode())
    machine.guest.write(f"{FOLDER}/keys.yaml", json.dumps({"keys": policy["keys"]}).encode())
    return machine


class Careful(Schedctl):
    """schedctl that trusts by the policy, and lets nothing in without a signature."""

    def line(self, words: str) -> str:
        careful = SETTINGS.replace("SCHEDCTL_ALLOW_UNSIGNED=1", f"SCHEDCTL_TRUST_POLICY={FOLDER}/policy.yaml")
        assert "ALLOW_UNSIGNED" not in careful
        return super().line(words).replace(SETTINGS, careful)

    def read_pulled(self) -> str:
        return self.machine.run(PULLED[self.driver]).stdout


@pytest.fixture
def schedctl(machine_with_signatures: Machine, request: pytest.FixtureRequest) -> Iterator[Careful]:
    careful = Careful(machine_with_signatures, request.param)
    yield careful
    careful.machine.run(careful.line("stop --all --timeout 1"), check=False, timeout=SECONDS)
    wait_detached(careful.machine)


@contextmanager
def nothing_pulled(schedctl: Careful, image: str) -> Iterator[None]:
    """The runtime holds the same afterwards, not this image, and the kernel has no scheduler."""
    before = schedctl.read_pulled()
    assert _name(schedctl.machine, image).rpartition("@")[2] not in before
    yield
    assert schedctl.read_pulled() == before
    assert read_slot(schedctl.machine) == Slot("disabled", "")


@pytest.mark.parametrize("schedctl", ["containerd"], indirect=True)
def test_only_what_is_signed_by_whom_the_policy_trusts_reaches_the_runtime(schedctl: Careful) -> None:
    with nothing_pulled(schedctl, BY_A_STRANGER):
        refused = schedctl.run(f"run {BY_A_STRANGER}", code=22).stderr
    assert "no key of the policy made this signature" in refused
    schedctl.run(f"run {BY_KEY}")
    assert read_slot(schedctl.machine) == ATTACHED_BY_KEY


@pytest.mark.parametrize("schedctl", ["docker"], indirect=True)
def test_one_life_among_signatures_with_network_and_without(schedctl: Careful) -> None:
    with nothing_pulled(schedctl, UNSIGNED):
        assert "is not signed" in schedctl.run(f"run {UNSIGNED}", code=21).stderr

    schedctl.run(f"run {BY_IDENTITY}")
    assert read_slot(schedctl.machine) == ATTACHED_BY_IDENTITY
    (one,) = schedctl.read("ps")["containers"]
    assert one["verified"] == f"{SUBJECT} ({ISSUER})"

    schedctl.run(f"switch {BY_A_STRANGER}", code=22)
    assert read_slot(schedctl.machine) == ATTACHED_BY_IDENTITY
    schedctl.run(f"switch {BY_KEY}")
    assert read_slot(schedctl.machine) == ATTACHED_BY_KEY
    (one,) = schedctl.read("status")["managed"]
    assert one["verified"].startswith("key SHA256:")

    # In a network namespace of its own there is not even a loopback: whoever asked a registry would hear of it.
    offline = schedctl.line(f"switch --offline {BY_IDENTITY}")
    schedctl.machine.run(f"unshare --net sh -c '{offline}'", timeout=SECONDS)
    assert read_slot(schedctl.machine) == ATTACHED_BY_IDENTITY
    schedctl.run(f"switch --offline {BY_A_STRANGER}", code=20)
    assert read_slot(schedctl.machine) == ATTACHED_BY_IDENTITY


@pytest.mark.parametrize("schedctl", ["podman"], indirect=True)
def test_index_that_nobody_signed_around_a_signed_manifest_attaches_the_signed_one(schedctl: Careful) -> None:
    """Podman, left to choose, prefers the zstd twin; test_chosen_manifest.py of tests/integration has all attacks."""
    pusher = Pusher(schedctl.machine.registry, "scx_fifo")
    signed, twin = (_describe(schedctl.machine, image) for image in (BY_KEY, BY_IDENTITY))
    platform = {"os": "linux", "architecture": "amd64"}
    preferred = {"annotations": {"io.github.containers.compression.zstd": "true"}}
    pusher.index(signed | {"platform": platform}, twin | {"platform": platform} | preferred, tag="twins")

    schedctl.run(f"run {REGISTRY}/scx_fifo:twins --trust-policy {FOLDER}/keys.yaml")

    assert read_slot(schedctl.machine) == ATTACHED_BY_KEY
    (one,) = schedctl.read("ps")["containers"]
    assert one["verified"].startswith("key SHA256:")
    assert (one["manifest"], one["digest"] == one["manifest"]) == (signed["digest"], False)


def _describe(machine: Machine, image: str) -> Document:
    """A manifest of the guest's registry, as an index lists it."""
    path, _, tag = image.removeprefix(f"{REGISTRY}/").partition(":")
    registry = Registry(environ={})
    try:
        found, _ = registry.fetch_document(Reference(machine.registry, path, tag, None))
    finally:
        registry.close()
    return {"mediaType": found.media_type, "digest": found.digest, "size": found.size}


def _name(machine: Machine, image: str) -> str:
    """As the host knows an image of the guest's registry, by digest."""
    path, _, tag = image.removeprefix(f"{REGISTRY}/").partition(":")
    registry = Registry(environ={})
    try:
        digest, *_ = registry.fetch_digests(Reference(machine.registry, path, tag, None))
    finally:
        registry.close()
    return f"{machine.registry}/{path}@{digest}"
