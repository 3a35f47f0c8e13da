"""What is signed runs, what is not stays out: schedctl on a real kernel, with signatures of real cosign."""

import json
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.signing import Cosign, VirtualSigstore, keyed
from lab.store import Store
from schedkit.images.reference import Reference
from schedkit.images.registry import Registry
from tests.e2e.conftest import Slot, read_slot, wait_detached
from tests.e2e.runtimes import REGISTRY
from tests.e2e.schedctl import SECONDS, Schedctl

SUBJECT, ISSUER = "release@schedkit.example", "https://accounts.schedkit.example"
FOLDER = "/root/trust"
# All that each runtime holds, by its own command line: what was refused must not be among it.
PULLED = {
    "podman": "podman images --all --digests --format '{{.Repository}} {{.Digest}}'",
    "docker": "docker images --all --digests --format '{{.Repository}} {{.Digest}}'",
    "containerd": "ctr -n schedkit images ls; ctr -n schedkit content ls",
}


@pytest.fixture(scope="module")
def signed(machine: Machine, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Schedctl]:
    """scx_fifo:v1 signed with a key, v2 keyless, scx_mortal with a key that nobody trusts; scx_stubborn not at all."""
    schedctl = Schedctl.install(machine)
    folder = tmp_path_factory.mktemp("trust")
    cosign = Cosign(store, "v3", folder / "cosign")
    (mine, public), (theirs, _) = cosign.make_key("mine"), cosign.make_key("theirs")
    with VirtualSigstore(store, folder / "sigstore") as sigstore:
        cosign.sign(_name(machine, "scx_fifo", "v1"), *keyed(mine))
        cosign.sign(_name(machine, "scx_mortal", "v1"), *keyed(theirs))
        cosign.sign(_name(machine, "scx_fifo", "v2"), *sigstore.keyless(SUBJECT, ISSUER))
        machine.guest.write(f"{FOLDER}/trusted_root.json", sigstore.trusted_root.read_bytes())
    machine.guest.write(f"{FOLDER}/mine.pub", public.read_bytes())
    policy = {
        "keys": [{"path": "mine.pub"}],
        "identities": [{"issuer": ISSUER, "subject": SUBJECT}],
        "trustedRoot": "trusted_root.json",
    }
    machine.guest.write(f"{FOLDER}/policy.yaml", json.dumps(policy).encode())
    yield schedctl
    schedctl.machine.run(f"rm -rf {FOLDER}")


@pytest.fixture(params=list(PULLED))
def schedctl(signed: Schedctl, request: pytest.FixtureRequest) -> Iterator["Careful"]:
    careful = Careful(signed.machine, request.param)
    yield careful
    signed.machine.run(careful.line("stop --all --timeout 1"), check=False, timeout=SECONDS)
    wait_detached(signed.machine)


class Careful(Schedctl):
    """schedctl that trusts by the policy, and lets nothing in without a signature."""

    def line(self, words: str) -> str:
        plain = super().line(words).replace("SCHEDCTL_ALLOW_UNSIGNED=1", f"SCHEDCTL_TRUST_POLICY={FOLDER}/policy.yaml")
        assert "ALLOW_UNSIGNED" not in plain
        return plain


def test_signed_with_a_key_runs_and_attaches(schedctl: Careful) -> None:
    schedctl.run(f"run {REGISTRY}/scx_fifo:v1")
    assert read_slot(schedctl.machine) == Slot("enabled", "schedkit_fifo")
    (one,) = schedctl.read("ps")["containers"]
    assert one["verified"].startswith("key SHA256:")


def test_signed_by_an_identity_runs_and_attaches(schedctl: Careful) -> None:
    schedctl.run(f"run {REGISTRY}/scx_fifo:v2")
    assert read_slot(schedctl.machine) == Slot("enabled", "schedkit_fifo2")
    (one,) = schedctl.read("ps")["containers"]
    assert one["verified"] == f"{SUBJECT} ({ISSUER})"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("scx_stubborn", 21, "is not signed"), ("scx_mortal", 22, "no key of the policy made this signature")],
    ids=["unsigned", "signed by another"],
)
def test_refused_image_does_not_reach_the_runtime(schedctl: Careful, name: str, code: int, said: str) -> None:
    before = schedctl.machine.run(PULLED[schedctl.driver]).stdout
    digest = _name(schedctl.machine, name, "v1").rpartition("@")[2]
    assert name not in before
    for command in ("run", "pull", "switch"):
        assert said in schedctl.run(f"{command} {REGISTRY}/{name}:v1", code=code).stderr
    after = schedctl.machine.run(PULLED[schedctl.driver]).stdout
    assert after == before
    assert digest not in after
    assert read_slot(schedctl.machine) == Slot("disabled", "")


def test_refused_switch_leaves_what_runs(schedctl: Careful) -> None:
    schedctl.run(f"run {REGISTRY}/scx_fifo:v1")
    schedctl.run(f"switch {REGISTRY}/scx_mortal:v1", code=22)
    assert read_slot(schedctl.machine) == Slot("enabled", "schedkit_fifo")


def _name(machine: Machine, name: str, tag: str) -> str:
    """As the host knows an image of the guest's registry, by digest."""
    registry = Registry(environ={})
    try:
        digest = registry.fetch_digest(Reference(machine.registry, name, tag, None))
    finally:
        registry.close()
    return f"{machine.registry}/{name}@{digest}"
