"""Policies that are read without PyYAML: to the same tree, or not at all."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from release.contents import EXAMPLE_POLICY
from schedkit.trust.plain_yaml import DEEPEST, YamlNode, parse_plain_yaml
from schedkit.trust.policy_file import convert
from tests.unit.trust.material import make_key, pem

LONG = int(os.environ.get("SCHEDKIT_FUZZ_EXAMPLES", "0"))
fuzz = settings(max_examples=LONG or 500, derandomize=not LONG, database=None, deadline=None)
POLICY = r"""# who may sign
keys:
  - path: cosign.pub   # ours
  - path: "keys/the other.pub"
identities:
- issuer: https://token.actions.githubusercontent.com
  subjectRegExp: ^https://github\.com/me/.+@refs/tags/

- issuer: 'https://accounts.google.com'
  subject: me@example.com#1
threshold: 2
requireLog: True
scopes:
  -   images:
        - ghcr.io/schedkit/*
        - - nested
      keys:
      - path: team.pub
"""
WORDS = [
    *("a", "key", "true", "False", "yes", "No", "NULL", "on", "n", "y", "a:b", "a#b", "a:", ":a", "-a", "- a"),
    *("~", "=", "<<", "a: b", "1", "0", "12", "1_0", "1:30", "0x1", "1.5", "1e3", ".5", ".inf", "2026-01-01"),
    *("+1", "1234567", "^a$", "/a,[b]{c}", "\\d", "''", '""', "'a b'", '"a b"', "'a''b'", '"a\\n"', "'a", '"a'),
    *("'a'b", "'a: b'", '"# a"', "&a", "*a", "!a", "|", ">", "%a", "@a", "`a", "[a]", "{a: b}", "[a", "?", "? a"),
    *("---", "...", "#", "# a", "a # b", "a#", "a b", "\xe9", "\t", "a\t", "\x85", "\ufeff", "\r", "\x00"),
]
lines = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "", " ", "  ", "  ", "   ", "    ", "      "]),
    st.sampled_from(["", "", "", "- ", "- ", "-  ", "- - ", "-", "-   "]),
    st.sampled_from(["", "a: ", "b:", "path: ", "keys:", "c:  ", "true: ", "d :", "'e': ", "f:\t", "1: "]),
    st.just("") | st.sampled_from(WORDS),
    st.sampled_from(["", "", "", " ", " # c", "# c", "\r", "\t"]),
)
usual = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "  ", "    "]),
    st.sampled_from(["", "", "- "]),
    st.sampled_from(["a: b", "c: 'd e'", "f: 1", "g: true", "h:", "i:", "j: k # l", "m", "# n", ""]),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Lines that may belong together, and sometimes one of any kind among them."""
    chosen = draw(st.lists(usual, min_size=1, max_size=7))
    for line in draw(st.lists(lines, max_size=1)):
        chosen.insert(draw(st.integers(0, len(chosen))), line)
    return "\n".join(chosen)


def read_both(text: str) -> tuple[YamlNode | None, YamlNode]:
    """Both trees; there must be one by PyYAML."""
    return parse_plain_yaml(text), convert(yaml.compose(text, Loader=yaml.SafeLoader))


@pytest.mark.parametrize("text", [POLICY, EXAMPLE_POLICY, "a: b", "- a\n- b: c\n  d: 1\n", "a:\n  - b\n"])
def test_usual_policy_is_read_as_pyyaml_reads_it(text: str) -> None:
    plain, meant = read_both(text)
    assert plain == meant


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("before", ["a: ", "- ", "a:\n  ", "a:\n  - ", "", "a: b\n"])
def test_each_value_is_read_as_pyyaml_reads_it_or_left_to_it(before: str, word: str) -> None:
    hold(before + word)
    hold(f"{before}{word}\n  more\n")


@fuzz
@given(texts())
def test_whatever_is_read_means_the_same_to_pyyaml(text: str) -> None:
    hold(text)


def hold(text: str) -> None:
    plain = parse_plain_yaml(text)
    if plain is not None:
        assert (plain, plain) == read_both(text)


def test_what_nests_too_deeply_is_left_to_pyyaml() -> None:
    assert parse_plain_yaml("- " * (DEEPEST - 1) + "a") is not None
    assert parse_plain_yaml("- " * 5000 + "a") is None


@pytest.mark.parametrize("line", ['a:{} "', "-{} x y", "a:{} b c", "a: b{} c", "{} %"])
def test_line_of_blanks_takes_no_longer_than_others(line: str) -> None:
    begun = time.process_time()
    assert parse_plain_yaml(line.format(" " * 60_000)) is None
    assert time.process_time() - begun < 1  # half a minute, if each blank were tried again


def test_usual_policy_needs_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "cosign.pub").write_bytes(pem(make_key()))
    (tmp_path / "policy.yaml").write_text("keys:\n  - path: cosign.pub\nthreshold: 1\n")
    code = "import sys; from schedkit.trust.policy import read_policy; read_policy(sys.argv[1]); print(*sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "policy.yaml")]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "cryptography.hazmat.primitives.asymmetric.ec" in modules
    assert [name for name in modules if re.fullmatch(r"yaml|dataclasses|inspect|cryptography.*\.ssh", name)] == []
