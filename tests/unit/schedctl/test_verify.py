"""`schedctl verify`, and the same rule in `run`, `switch` and `pull`, over a registry that holds real signatures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from schedkit.errors import SchedkitError, UnavailableError
from schedkit.images.image import Image
from schedkit.images.oci import Source
from schedkit.images.reference import Reference
from schedkit.schedctl.group import schedctl
from schedkit.schedctl.quick import OUTPUTS, find_answer
from schedkit.schedctl.session import Session
from tests.unit.schedctl.fakes import FakeRuntime
from tests.unit.schedctl.runner import call, make_runner, read
from tests.unit.trust.material import Sigstore, make_key, pem, sign_bundle
from tests.unit.trust.shelf import REPOSITORY, Shelf, make_image
from website.markdown import parse_blocks

NAME = f"{REPOSITORY}:v1"
KEY = make_key()


class Registry(Shelf):
    """A shelf that can be asked for its image, too."""

    def __init__(self) -> None:
        super().__init__()
        self.image = make_image(self)

    def fetch_image(self, reference: Reference) -> Image:
        self.asked.append(str(reference))
        return self.image

    def find_sources(self, reference: Reference) -> list[Source]:
        return [Source(reference.repository, None, insecure=False)]

    def close(self) -> None:
        pass


@pytest.fixture
def registry(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Registry:
    """An image signed with KEY, and a policy that wants KEY."""
    registry = Registry()
    registry.add_bundle(registry.image.digest, sign_bundle(registry.image.digest, KEY))
    monkeypatch.setattr(Session, "registry", registry)
    monkeypatch.setattr(runtime, "fetch_digests", lambda: frozenset({registry.image.digest}))
    (tmp_path / "cosign.pub").write_bytes(pem(KEY))
    (tmp_path / "policy.yaml").write_text("keys: [{path: cosign.pub}]")
    monkeypatch.setenv("SCHEDCTL_TRUST_POLICY", str(tmp_path / "policy.yaml"))
    return registry


def wants_another(tmp_path: Path) -> str:
    (tmp_path / "other.pub").write_bytes(pem(make_key()))
    (tmp_path / "other.yaml").write_text("keys: [{path: other.pub}]")
    return str(tmp_path / "other.yaml")


def test_verify_tells_who_signed_and_by_which_policy(registry: Registry) -> None:
    said = call("verify", NAME).stdout
    assert "verified    yes" in said
    assert "signed by   key SHA256:" in said
    document = read("verify", NAME)
    assert (document["verified"], document["reason"], document["rule"]) == (True, None, "default")
    assert document["digest"] == registry.image.digest
    assert document["signatures"][0]["how"] == "key"


def test_verify_tells_why_not_with_a_code_and_each_attempt(registry: Registry, tmp_path: Path) -> None:
    result = call("verify", NAME, "--trust-policy", wants_another(tmp_path), code=22)
    assert "  | referrer sha256:" in result.stderr
    document = read("verify", NAME, "--trust-policy", wants_another(tmp_path), code=22)
    assert (document["verified"], document["reason"], document["signatures"]) == (False, "Untrusted", [])
    assert document["attempts"][0]["reason"] == "untrusted"
    registry.referrers.clear()
    assert call("verify", NAME, code=21).stdout == ""


def test_keyless_verdict_tells_its_log_entry(registry: Registry, tmp_path: Path) -> None:
    sigstore = Sigstore()
    registry.add_bundle(registry.image.digest, sign_bundle(registry.image.digest, sigstore.issue(), sigstore))
    (tmp_path / "root.json").write_bytes(sigstore.trusted_root())
    (tmp_path / "keyless.yaml").write_text(
        "trustedRoot: root.json\nidentities:\n"
        "- {issuer: 'https://token.actions.githubusercontent.com', subjectRegExp: '^https://github.com/schedkit/'}\n"
    )
    words = ("verify", NAME, "--trust-policy", str(tmp_path / "keyless.yaml"))
    assert "signed 2026-03-01 12:00:00 UTC, entry 3 of the log" in call(*words).stdout
    (signature,) = read(*words)["signatures"]
    assert (signature["how"], signature["log"]["index"]) == ("keyless", 3)


def test_pull_notes_who_signed_and_pulls_nothing_that_is_refused(
    registry: Registry, runtime: FakeRuntime, tmp_path: Path
) -> None:
    refused = call("pull", NAME, "--trust-policy", wants_another(tmp_path), code=22)
    assert isinstance(refused.exception, SchedkitError)
    assert "--allow-unsigned" in refused.exception.hint
    assert runtime.pulled == []
    assert read("pull", NAME)["verified"].startswith("key SHA256:")
    assert runtime.pulled == [registry.image.digest]


def test_allow_unsigned_still_tells_who_signed_and_else_warns_with_the_reason(
    registry: Registry, tmp_path: Path
) -> None:
    assert read("pull", NAME, "--allow-unsigned")["verified"].startswith("key SHA256:")
    words = ("pull", NAME, "--allow-unsigned", "--trust-policy", wants_another(tmp_path))
    result = call(*words)
    assert "NOT VERIFIED" in result.stderr
    assert "no key of the policy made this signature" in result.stderr
    assert read(*words)["verified"] == "untrusted-allowed"
    registry.referrers.clear()
    assert read(*words)["verified"] == "unsigned-allowed"


@pytest.mark.parametrize("consent", [(), ("--allow-unsigned",)])
def test_bad_signature_is_refused_with_consent_too_and_the_hint_does_not_advise_it(
    registry: Registry, runtime: FakeRuntime, consent: tuple[str, ...]
) -> None:
    registry.referrers.clear()
    registry.add_bundle(registry.image.digest, sign_bundle("sha256:" + "b" * 64, KEY))
    refused = call("pull", NAME, *consent, code=25)
    assert isinstance(refused.exception, SchedkitError)
    assert "--allow-unsigned" not in refused.exception.hint
    assert "do not run it" in refused.exception.hint
    assert runtime.pulled == []


def test_registry_that_does_not_answer_is_refused_with_consent_too(registry: Registry, runtime: FakeRuntime) -> None:
    """Whether it is signed is then not known."""

    def fail() -> None:
        raise UnavailableError("no network")

    registry.fail = fail
    call("pull", NAME, "--allow-unsigned", code=69)
    assert runtime.pulled == []


def test_consent_can_be_scoped_in_the_policy(registry: Registry, runtime: FakeRuntime, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    registry.referrers.clear()
    policy.write_text("keys: [{path: cosign.pub}]\nallowUnsigned: [registry.test/schedkit/*]\n")
    said = call("pull", NAME)
    assert "is not signed, which" in said.stderr
    assert "NOT VERIFIED" not in said.stderr
    assert read("pull", NAME)["verified"] == "unsigned-allowed"
    verified = call("verify", NAME, code=21)
    assert isinstance(verified.exception, SchedkitError)
    assert "allows it to run anyway" in verified.exception.hint
    registry.add_bundle(registry.image.digest, sign_bundle("sha256:" + "b" * 64, KEY))
    call("pull", NAME, code=25)
    registry.referrers.clear()
    policy.write_text("keys: [{path: cosign.pub}]\nallowUnsigned: [registry.test/other/*]\n")
    call("pull", NAME, code=21)


@pytest.mark.parametrize("driver", ["podman", "docker", "containerd"])
def test_authority_that_an_engine_does_not_know_is_told_before_the_pull(
    registry: Registry, runtime: FakeRuntime, driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config/schedkit/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'ca-file = "{tmp_path}/ca.crt"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(runtime, "driver", driver)
    monkeypatch.setattr(runtime, "has_image", lambda _: False)
    folder = {"podman": "/etc/containers/certs.d", "docker": "/etc/docker/certs.d", "containerd": ""}[driver]
    told = f"install -D {tmp_path}/ca.crt {folder}/registry.test/ca.crt" in call("pull", NAME).stderr
    assert told == (driver != "containerd"), "containerd gets its bytes from schedctl, which reads ca-file"
    monkeypatch.setattr("schedkit.images.connections.find_authorities", lambda *_: [tmp_path / "ca.crt"])
    assert "without ca-file" not in call("pull", NAME).stderr


def test_registry_that_an_engine_refuses_without_tls_is_told_before_the_pull(
    registry: Registry, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`docker` goes by its own configuration: a mirror in plain HTTP works for schedctl alone."""
    sources = [Source("mirror.test:5000/schedkit/scx_rusty", None, True), Source(REPOSITORY, None, False)]
    monkeypatch.setattr(registry, "find_sources", lambda _: sources)
    monkeypatch.setattr(runtime, "driver", "docker")
    monkeypatch.setattr(runtime, "has_image", lambda _: False)
    warning = "docker cannot pull from mirror.test:5000 without TLS"
    assert warning not in call("pull", NAME).stderr
    monkeypatch.setattr(runtime, "may_be_plain", lambda name: name != "mirror.test:5000")
    said = call("pull", NAME).stderr
    assert said.index(warning) < said.index("pulling")
    assert "/etc/docker/daemon.json" in said
    monkeypatch.setattr(runtime, "has_image", lambda _: True)
    assert warning not in call("pull", NAME).stderr


def test_policy_that_is_wrong_is_an_error_also_with_allow_unsigned(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("keys: []")
    call("pull", NAME, "--allow-unsigned", code=65)
    call("verify", NAME, code=65)


def test_offline_uses_what_was_verified_before_and_asks_nobody(
    registry: Registry, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("verify", NAME, "--offline", code=20)
    assert registry.asked == []
    call("verify", NAME)
    registry.asked.clear()
    assert read("verify", NAME, "--offline")["from_cache"] is True
    assert read("pull", NAME, "--offline")["verified"].startswith("key SHA256:")
    monkeypatch.setattr(runtime, "fetch_digests", frozenset)
    runtime.pulled.clear()
    call("pull", NAME, "--offline", code=66)
    assert (registry.asked, runtime.pulled) == ([], [])


def test_tag_that_moves_after_the_check_does_not_change_what_is_pulled(
    registry: Registry, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One digest is resolved, verified and pulled; the tag is not looked at again."""
    call("pull", NAME)
    assert registry.asked.count(NAME) == 1
    assert runtime.pulled == [registry.image.digest]


def test_the_page_about_trust_shows_the_lines_that_are_printed(registry: Registry, tmp_path: Path) -> None:
    """All but names, digests and numbers, which are those of an example."""
    page = (Path(__file__).parents[3] / "docs/trust.md").read_text()
    (shown,) = (block.text for block in parse_blocks(page) if block.text.startswith("$ schedctl verify "))
    sigstore = Sigstore()
    registry.referrers.clear()
    registry.add_bundle(registry.image.digest, sign_bundle(registry.image.digest, sigstore.issue(), sigstore))
    (tmp_path / "root.json").write_bytes(sigstore.trusted_root())
    (tmp_path / "keyless.yaml").write_text(
        "trustedRoot: root.json\nidentities:\n"
        "- {issuer: 'https://token.actions.githubusercontent.com', subjectRegExp: '^https://github.com/schedkit/'}\n"
    )
    printed = call("verify", NAME, "--trust-policy", str(tmp_path / "keyless.yaml")).stdout

    def shape(text: str) -> list[str]:
        return [re.sub(r"\S*[/:…\d]\S*|built-in,", "*", line) for line in text.splitlines()]

    assert shape(printed) == shape(shown)[1:]


@pytest.mark.parametrize("output", OUTPUTS, ids=" ".join)
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "refused"])
def test_verify_without_click_is_the_one_with_click(
    registry: Registry, tmp_path: Path, output: tuple[str, ...], trusted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = () if trusted else ("--trust-policy", wants_another(tmp_path))
    answer = find_answer(["verify", NAME, *policy, *output], {})
    assert answer is not None
    refused = None
    try:
        assert answer() == 0
    except SchedkitError as error:
        refused = error
    printed = capsys.readouterr()
    meant = make_runner().invoke(schedctl, ["verify", NAME, *policy, *output], standalone_mode=False)
    without = re.compile(r'"checked_at": "[^"]*"')  # which is now
    assert without.sub("", printed.out) == without.sub("", meant.stdout)
    assert str(refused) == str(meant.exception)
    assert (refused is None) == trusted


@pytest.mark.parametrize(
    "words",
    [
        "",
        "-h",
        "--offline x",
        "x --offline",
        "x y",
        "x --trust-policy",
        "x --trust-policy -o json",
        "x -o",
        "x --version 1",
    ],
)
def test_any_other_way_to_verify_is_left_to_click(words: str) -> None:
    assert find_answer(["verify", *words.split()], {}) is None


def test_a_key_needs_neither_click_nor_certificates_nor_a_root(registry: Registry, tmp_path: Path) -> None:
    """What is imported is most of what `verify` takes."""
    code = (
        "import sys\n"
        "from schedkit.schedctl.quick import find_answer\n"
        "from schedkit.trust import decide, policy_file\n"
        "from schedkit.trust.keys import parse_key\n"
        "parse_key(open(sys.argv[1], 'rb').read(), 'x')\n"
        "from schedkit.schedctl.show_verdict import show_verdict\n"
        "from schedkit.schedctl.session import open_session\n"
        "from schedkit.images.registry import Registry\n"
        "print(*sorted(set(sys.argv[2:]) & set(sys.modules)))"
    )
    spared: tuple[str, ...] = (
        "click",
        "cryptography.x509",
        "schedkit.trust.certificates",
        "schedkit.trust.trusted_root",
        "tuf",
    )
    spared += ("dataclasses", "inspect", "yaml", "cryptography.hazmat.primitives.serialization")
    spared += ("schedkit.host.model", "schedkit.runtimes.drivers", "schedkit.images.catalog", "schedkit.images.tags")
    command = [sys.executable, "-c", code, str(tmp_path / "cosign.pub"), *spared]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"
