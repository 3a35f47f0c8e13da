"""Policies: what they may say, and a line and a hint for everything else."""

from pathlib import Path

import pytest

from schedkit.images.reference import parse_reference
from schedkit.trust.errors import PolicyError
from schedkit.trust.identities import Pattern
from schedkit.trust.policy import DEFAULT_POLICY, read_policy
from tests.unit.trust.material import Sigstore, make_key, pem

GITHUB = "https://token.actions.githubusercontent.com"
WHOLE = """\
# who may sign
keys:
  - path: cosign.pub
identities:
  - issuer: https://accounts.google.com
    subject: me@example.com
  - issuerRegExp: ^https://gitlab\\.example(/.*)?$
    subjectRegExp: "^https://gitlab\\\\.example/group/"
rekorURL: https://rekor.test/
trustedRoot: trusted_root.json
requireLog: true
threshold: 2
scopes:
  - images: ["ghcr.io/me/*", registry.example:5000/**]
    keys: [{path: keys/second.pub}]
"""


@pytest.fixture
def folder(tmp_path: Path, sigstore: Sigstore) -> Path:
    (tmp_path / "keys").mkdir()
    (tmp_path / "cosign.pub").write_bytes(pem(make_key()))
    (tmp_path / "keys/second.pub").write_bytes(pem(make_key()))
    (tmp_path / "trusted_root.json").write_bytes(sigstore.trusted_root())
    return tmp_path


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "policy.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "written", ["GHCR.io/me/x", "ghcr.io:443/me/x", "Ghcr.Io:443/me/x", "ghcr.io/me/x:v1"], ids=str
)
def test_scope_is_for_a_registry_however_it_is_written(folder: Path, written: str) -> None:
    """Else another spelling of the same registry would get a laxer rule."""
    scope = "images: ['GHCR.io:443/me/*']\n    keys: [{path: keys/second.pub}]"
    policy = read_policy(write(folder, f"keys: [{{path: cosign.pub}}]\nscopes:\n  - {scope}\n"))
    rule = policy.for_image(parse_reference(written).repository)
    assert rule is policy.rules[0]
    assert rule.images == ("ghcr.io/me/*",)


def test_images_that_may_be_unsigned_are_named_by_patterns(folder: Path) -> None:
    policy = read_policy(write(folder, "keys: [{path: cosign.pub}]\nallowUnsigned: ['registry.lan:5000/me/*']\n"))
    assert policy.allow_unsigned == ("registry.lan:5000/me/*",)
    assert policy.allows_unsigned("registry.lan:5000/me/scx")
    assert not policy.allows_unsigned("registry.lan:5000/you/scx")
    assert not policy.allows_unsigned("registry.lan:5000/me/deeper/scx")
    alone = read_policy(write(folder, "allowUnsigned: ['localhost:5000/**']\n"))
    assert alone.rules == ()
    assert not DEFAULT_POLICY.allows_unsigned("ghcr.io/schedkit/scx_rusty")


@pytest.mark.parametrize(
    "text", ["allowUnsigned: true", "allowUnsigned: []", "allowUnsigned: [5]", "allowUnsigned: ['ghcr.io/me/x:v1']"]
)
def test_consent_that_is_none_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(PolicyError):
        read_policy(write(folder, text))


def test_everything_that_a_policy_may_say(folder: Path, sigstore: Sigstore) -> None:
    policy = read_policy(write(folder, WHOLE))
    scope, default = policy.rules
    assert scope.images == ("ghcr.io/me/*", "registry.example:5000/**")
    assert [key.path for key in scope.keys] == ["keys/second.pub"]
    assert (scope.threshold, scope.require_log, scope.rekor_url, scope.root) == (1, None, "", None)
    assert [key.path for key in default.keys] == ["cosign.pub"]
    assert [identity.subject for identity in default.identities] == [
        Pattern("me@example.com"),
        Pattern(r"^https://gitlab\.example/group/", is_expression=True),
    ]
    assert (default.threshold, default.require_log, default.rekor_url) == (2, True, "https://rekor.test")
    assert default.root is not None
    assert default.root.data == sigstore.trusted_root()


@pytest.mark.parametrize(
    ("repository", "rule"),
    [
        ("ghcr.io/me/scx_fifo", "ghcr.io/me/*, registry.example:5000/**"),
        ("registry.example:5000/a/b/c", "ghcr.io/me/*, registry.example:5000/**"),
        ("ghcr.io/me/deep/scx_fifo", "default"),
        ("ghcr.io/me2/scx_fifo", "default"),
        ("evil.example/ghcr.io/me/scx_fifo", "default"),
        ("ghcrXio/me/scx_fifo", "default"),
    ],
)
def test_first_scope_that_fits_counts_and_then_the_default(folder: Path, repository: str, rule: str) -> None:
    found = read_policy(write(folder, WHOLE)).for_image(repository)
    assert found is not None
    assert found.name == rule


@pytest.mark.parametrize(
    ("written", "issuer", "subject"),
    [
        # Only one issuer can vouch for these names.
        ("subject: https://github.com/me/x/.github/workflows/a.yml@refs/tags/v1", GITHUB, None),
        ("subjectRegExp: ^https://github\\.com/me/", GITHUB, None),
        ("subjectRegExp: https://github.com/me/", GITHUB, None),
        ("subjectRegExp: ^https://gitlab\\.com/me/", "https://gitlab.com", None),
        # With both, the exact one, which is the narrower.
        ("{issuer: a, issuerRegExp: ^a, subject: me@b, subjectRegExp: .*@b}", "a", "me@b"),
    ],
)
def test_identity_as_the_go_schedctl_takes_it_is_taken_where_that_is_safe(
    folder: Path, written: str, issuer: str, subject: str | None
) -> None:
    (rule,) = read_policy(write(folder, f"identities:\n  - {written}\n")).rules
    assert rule.identities[0].issuer == Pattern(issuer)
    assert subject is None or rule.identities[0].subject == Pattern(subject)


def test_key_needs_no_log_because_of_rekor_url_alone(folder: Path) -> None:
    """As in the Go schedctl; requireLog asks for it."""
    text = "keys: [{path: cosign.pub}]\nrekorURL: https://rekor.test\n"
    (rule,) = read_policy(write(folder, text)).rules
    assert not rule.needs_log_for_keys
    (rule,) = read_policy(write(folder, f"{text}requireLog: true\n")).rules
    assert rule.needs_log_for_keys


def test_image_without_a_rule_has_none(folder: Path) -> None:
    policy = read_policy(write(folder, "scopes: [{images: [ghcr.io/me/*], keys: [{path: cosign.pub}]}]"))
    assert policy.for_image("ghcr.io/other/x") is None


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("keys:\n  - path: cosign.pub\n    sha: x\n", 3, "a key has no field 'sha'"),
        ("key:\n  - path: cosign.pub\n", 1, "no field 'key'"),
        ("keys:\n  - path: nothing.pub\n", 2, "nothing.pub cannot be read: No such file"),
        ("keys:\n  - path: .\n", 2, "cannot be read: Is a directory"),
        ('keys:\n  - path: "a\\0b"\n', 2, "a string is needed here"),
        ("keys:\n  - path: trusted_root.json\n", 2, "not a public key"),
        ("keys:\n  - cosign.pub\n", 2, "a key must be a table"),
        ("keys: cosign.pub\n", 1, "keys must be a list"),
        ("keys: []\n", 1, "this rule trusts no one"),
        ("threshold: 1\n", 1, "trusts no one"),
        ("keys: [{path: cosign.pub}]\nkeys: [{path: cosign.pub}]\n", 2, "keys is there twice"),
        ("keys: [{path: cosign.pub}]\nthreshold: 2\n", 2, "threshold is 2, and there are 1 different"),
        ("keys: [{path: cosign.pub}, {path: cosign.pub}]\nthreshold: 2\n", 2, "there are 1 different"),
        ("keys: [{path: cosign.pub}]\nthreshold: 0\n", 2, "a number of at least 1"),
        ('keys: [{path: cosign.pub}]\nthreshold: "1"\n', 2, "a number of at least 1"),
        ("keys: [{path: cosign.pub}]\nrequireLog: maybe\n", 2, "true or false"),
        ("keys: [{path: cosign.pub}]\nrekorURL: rekor\n", 2, "is not a URL"),
        ("keys: [{path: cosign.pub}]\ntrustedRoot: cosign.pub\n", 2, "trusted root cosign.pub cannot be used"),
        ("identities:\n  - issuer: a\n", 2, "needs a subject or subjectRegExp"),
        ("identities:\n  - issuer: a\n    subject: b\n    subjectRegExp: ^c\n", 4, "does not match subject beside it"),
        ("identities:\n  - subject: me@example.com\n", 2, "needs an issuer or issuerRegExp"),
        ("identities:\n  - subjectRegExp: .*@example.com\n", 2, "needs an issuer or issuerRegExp"),
        ("identities:\n  - subject: https://github.com.evil.example/me\n", 2, "needs an issuer"),
        ("identities:\n  - issuer: a\n    subjectRegExp: '[[:alpha:]]'\n", 3, "not a regular expression"),
        ("identities:\n  - issuer: a\n    subjectRegExp: '\\pL'\n", 3, "not a regular expression"),
        ("identities:\n  - issuer: a\n    subjectRegExp: ^(\n", 3, "not a regular expression"),
        ("identities:\n  - issuer: 5\n    subject: b\n", 2, "a string is needed here"),
        ("scopes:\n  - keys: [{path: cosign.pub}]\n", 2, "a scope without images"),
        ("scopes:\n  - images: ['*']\n    keys: [{path: cosign.pub}]\n", 2, "fits no image"),
        ("scopes:\n  - images: ['ghcr.io/a:v1']\n    keys: [{path: cosign.pub}]\n", 2, "not a pattern of repositories"),
        ("scopes:\n  - images: [ghcr.io/a]\n", 2, "this rule trusts no one"),
        ("requireLog: true\nscopes: [{images: [ghcr.io/a], keys: [{path: cosign.pub}]}]\n", 1, "belongs to keys"),
        ("keys: &a [{path: cosign.pub}]\nscopes: *a\n", 2, "aliases"),
        ("keys: [" + "[" * 40, 1, "nesting"),
        ("keys:\n\t- path: cosign.pub\n", 2, "not YAML"),
        ("- keys\n", 1, "the policy must be a table"),
        ("!!python/object/apply:os.system ['true']\n", 1, "the policy must be a table"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_a_hint(folder: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(write(folder, text))
    assert f"policy.yaml, line {line}: " in caught.value.message
    assert what in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a: " + b"x" * 300_000, "more than 262144 bytes"),
        (b"\0", "not YAML"),
    ],
)
def test_what_is_no_policy_at_all_is_told(folder: Path, data: bytes, what: str) -> None:
    with pytest.raises(PolicyError, match=what):
        read_policy(write(folder, data))


def test_missing_policy_is_an_error_and_no_default(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"none\.yaml does not exist") as raised:
        read_policy(tmp_path / "none.yaml")
    assert raised.value.exit_code == 66


def test_private_key_in_a_policy_is_told_to_be_one(folder: Path) -> None:
    (folder / "cosign.key").write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    with pytest.raises(PolicyError, match="it is a private key"):
        read_policy(write(folder, "keys: [{path: cosign.key}]"))


def test_hash_follows_what_the_files_hold(folder: Path) -> None:
    path = write(folder, WHOLE)
    before = read_policy(path).hash
    assert read_policy(path).hash == before
    write(folder, WHOLE.replace("# who may sign", "# the same in other words"))
    assert read_policy(path).hash == before
    (folder / "cosign.pub").write_bytes(pem(make_key()))
    other_key = read_policy(path).hash
    write(folder, WHOLE.replace("threshold: 2", "threshold: 1"))
    assert len({before, other_key, read_policy(path).hash, DEFAULT_POLICY.hash}) == 4


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("^https://github.com/me/", "https://github.com/me/x", True),
        ("^https://github.com/me/", "https://evil.example/?https://github.com/me/", False),
        ("^https://github.com/me/|https://gitlab.com/me/", "https://evil.example/?https://gitlab.com/me/", False),
        ("^https://github.com/me/|https://gitlab.com/me/", "https://gitlab.com/me/x", True),
        ("https://github.com/me/", "https://github.com/me/x", True),
        ("https://github.com/me/", "https://evil.example/?https://github.com/me/", False),
        (r"^\d+$", "\u0661", False),
        ("(?m)^me", "you\nme", False),
    ],
)
def test_expressions_match_from_the_start_only(pattern: str, value: str, matches: bool) -> None:
    assert Pattern(pattern, is_expression=True).matches(value) is matches
