"""What the pages show can be typed: commands and options exist, images are the catalog's, output is what is printed."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock, patch

import click
import msgspec
import pytest
import yaml

from schedkit.errors import UsageError
from schedkit.schedctl.group import schedctl
from schedkit.schedctl.verification import CATALOG_REPOSITORY
from schedkit.sked import verifying
from schedkit.sked.api.types import SchedExt
from schedkit.sked.cli import sked
from schedkit.sked.plugin.group import scx
from tests.unit.test_docs import find_pages
from website.markdown import Block, parse_blocks

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, click.Command] = {"schedctl": schedctl, "sked": sked, "kubectl-scx": scx}
CATALOG = json.loads((ROOT / "src/schedkit/images/catalog.json").read_text())
FIXTURES = set(re.findall(r"localhost:5000/(scx_\w+)", (ROOT / "docs/development/lab.md").read_text()))
PROMPT = re.compile(r"^(?:\$|machine#) ")
# Whoever reads these names in an example sees that they stand for a name of theirs.
EXAMPLE = re.compile(
    r"(?:[\w.-]+\.)?(?:example(?:\.com)?|lan|internal)(?::\d+)?/|ghcr\.io/(?:you|me|example)/|localhost:5000/|MIRROR|controller:latest"
)
OPERATOR = "ghcr.io/schedkit/sked"
BASES = ("docker.io/library/",)


class Command(NamedTuple):
    """One command of a page, and the output that is shown below it."""

    page: Path
    line: int
    text: str
    output: str
    block: Block

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"


def find_commands() -> Iterator[Command]:
    """Every command of every page, in blocks of a terminal's session (console) and in those of commands alone (sh)."""
    for page in find_pages():
        for block in parse_blocks(page.read_text()):
            if block.language == "console":
                yield from split_session(page, block)
            elif block.language == "sh":
                for number, line in join_lines(block.text):
                    yield Command(page, block.line + number, line, "", block)


def split_session(page: Path, block: Block) -> Iterator[Command]:
    lines = list(join_lines(block.text))
    starts = [index for index, (_, line) in enumerate(lines) if PROMPT.match(line)]
    assert starts, f"{page.relative_to(ROOT)}:{block.line}: a console block without a prompt"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        number, line = lines[start]
        output = "".join(f"{said}\n" for _, said in lines[start + 1 : end])
        yield Command(page, block.line + number, PROMPT.sub("", line), output, block)


def join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that ends with a backslash goes on in the next."""
    whole, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        start = start or number
        whole += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield start, whole
            whole, start = "", 0


def split_words(text: str) -> Iterator[list[str]]:
    """The simple commands of a line of shell, without what stands before a program's name."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|;&<>"):
            yield strip_front(words)
            words = []
        else:
            words.append(word)


def strip_front(words: list[str]) -> list[str]:
    while words and (words[0] in ("sudo", "if", "then", "else") or re.match(r"^[A-Z_]+=", words[0])):
        words = words[1:]
    if words[:4] == [".venv/bin/python", "-m", "lab", "shell"]:
        words = words[4:]
    if words[:2] == ["kubectl", "scx"]:
        words = ["kubectl-scx", *words[2:]]
    return [words[0].removeprefix(".venv/bin/"), *words[1:]] if words else []


def find_calls(program: str) -> list[tuple[Command, list[str]]]:
    """All calls of a program, with the arguments of each."""
    found = []
    for command in find_commands():
        if program.replace("-", " ") in command.text:
            found += [(command, words[1:]) for words in split_words(command.text) if words and words[0] == program]
    return found


def parse_call(program: str, arguments: list[str]) -> str | None:
    """What click says against a call, without running it; None if nothing."""
    command, name = PROGRAMS[program], program
    arguments = [word for word in arguments if word != "…"]
    with (
        patch.object(click.Path, "convert", lambda _self, value, *_: value),
        patch.object(click.File, "convert", lambda _self, value, *_: value),
    ):
        try:
            context = None
            while True:
                context = command.make_context(name, list(arguments), parent=context)
                if not isinstance(command, click.Group):
                    return None
                kept = next(value for name, value in vars(context).items() if name.endswith("protected_args"))
                rest = [*kept, *context.args]  # the first is where click keeps a command's name, by version
                if not rest and command.invoke_without_command:
                    return None
                found, inner, arguments = command.resolve_command(context, rest)
                assert inner is not None
                command, name = inner, found or ""
        except click.exceptions.Exit:
            return None  # --help and --version end here
        except click.UsageError as error:
            return error.format_message()
        except UsageError as error:
            return error.message


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_that_is_shown_exists_with_its_options(program: str) -> None:
    calls = find_calls(program)
    assert len(calls) > {"schedctl": 50, "sked": 3, "kubectl-scx": 10}[program]
    wrong = {str(command): said for command, words in calls if (said := parse_call(program, words)) is not None}
    assert wrong == {}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("schedctl runn x", "No such command"),
        ("schedctl run --performence x", "No such option"),
        ("schedctl run", "Missing argument"),
        ("schedctl run x --mode fast", "'fast' is not one of"),
        ("sked render", "Missing argument"),
        ("sked manager --verification=maybe", "'maybe' is not one of"),
        ("kubectl-scx status --folow web", "No such option"),
    ],
)
def test_a_command_that_does_not_exist_is_found(call: str, said: str) -> None:
    program, *words = shlex.split(call)
    assert said.replace(" '", " ").replace("'", "") in (parse_call(program, words) or "").replace("'", "")


def test_commands_in_sentences_exist() -> None:
    """`schedctl WORD` in the prose names a command, too."""
    unknown = []
    for page in find_pages():
        for program, word in re.findall(r"`(?:sudo )?(schedctl|sked|kubectl scx) ([a-z][a-z-]*)", page.read_text()):
            command = PROGRAMS[program.replace(" ", "-")]
            assert isinstance(command, click.Group)
            if command.get_command(click.Context(command), word) is None:
                unknown.append(f"{page.relative_to(ROOT)}: {program} {word}")
    assert unknown == []


def test_every_make_target_that_is_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    calls = find_calls("make")
    assert len(calls) > 10
    named = {word: str(command) for command, words in calls for word in words if "=" not in word and word[0] != "-"}
    assert {word: where for word, where in named.items() if word not in targets} == {}


def test_every_folder_that_is_applied_exists() -> None:
    folders = {
        word: str(command) for command, words in find_calls("kubectl") for flag, word in pairwise(words) if flag == "-k"
    }
    assert len(folders) >= 4
    assert {
        folder: where for folder, where in folders.items() if not (ROOT / folder / "kustomization.yaml").exists()
    } == {}


def test_every_value_that_is_set_with_helm_exists() -> None:
    def names(values: dict[str, object], before: str = "") -> Iterator[str]:
        for name, value in values.items():
            yield before + name
            if isinstance(value, dict):
                yield from names(value, f"{before}{name}.")

    known = set(names(yaml.safe_load((ROOT / "charts/sked/values.yaml").read_text())))
    given = {
        word.partition("=")[0]: str(command)
        for command, words in find_calls("helm")
        for flag, word in pairwise(words)
        if flag.startswith("--set")
    }
    assert len(given) > 3
    unknown = {
        name: where for name, where in given.items() if name not in known and not name.startswith("verification.files.")
    }
    assert unknown == {}


def is_published(image: str) -> bool:
    """Whether the catalog has it, or its name says that it is an example."""
    name = re.sub(r"(?::[\w.…-]+)?(?:@sha256:.*)?$", "", image)
    known = {entry["imageURI"] for entry in CATALOG.values()} | {OPERATOR, CATALOG_REPOSITORY}
    return name in known or bool(EXAMPLE.match(image)) or image.startswith(BASES)


def test_every_image_that_is_named_is_the_catalogs_or_an_example() -> None:
    found = []
    for page in [*find_pages(), *(ROOT / "config/samples").glob("*.yaml")]:
        if page.name == "CHANGELOG.md":
            continue  # tells of the past
        text = page.read_text()
        images = re.findall(r"\bghcr\.io/[\w./*-]+(?::[\w.-]+)?", text)
        images += re.findall(r"(?:\bsched: |\bimage: |IMG=|BASE=|docker://)([a-z][\w.:-]*/[\w./:@-]+)", text)
        found += [(str(page.relative_to(ROOT)), image.rstrip(".,:")) for image in images if "*" not in image]
    assert len(found) > 30
    assert [(page, image) for page, image in found if not is_published(image)] == []


def test_an_image_that_nobody_publishes_is_found() -> None:
    assert not is_published("ghcr.io/schedkit/scheds/scx_rusty:latest")
    assert is_published("ghcr.io/schedkit/scx_rusty:latest")
    assert is_published("registry.example.com:5000/kernels/scx_cosmos@sha256:00")


def test_every_scheduler_that_is_run_is_in_the_catalog() -> None:
    """Those of the lab may be shown where the block says that it is the lab's machine."""
    unknown = []
    for command, words in find_calls("schedctl"):
        ours = words[: words.index("--")] if "--" in words else words
        known = {
            *CATALOG,
            "scx_loader",
            "scx_rusti",
        }  # a program to take over from, and a name that is misspelt on purpose
        if "localhost:5000/" in command.block.text:
            known |= FIXTURES
        unknown += [str(command) for name in re.findall(r"(?:^|[\s,])(scx_\w+)", " ".join(ours)) if name not in known]
    assert unknown == []


# What needs neither a kernel nor a network: these are run, wherever a page shows their output.
RUNNABLE = re.compile(r"^schedctl (?:list|help|version|catalog$|.*--help|info scx_rusti )|^sked (?:.*--help|render )")
NOWHERE = {
    "PATH": "/usr/bin:/bin",
    "CONTAINER_HOST": "unix:///nowhere/podman.sock",
    "DOCKER_HOST": "unix:///nowhere/docker.sock",
    "CONTAINERD_ADDRESS": "/nowhere/containerd.sock",
    "XDG_CONFIG_HOME": "/nowhere",
    "COLUMNS": "80",
}


def find_runnable() -> list[Command]:
    return [
        one for one in find_commands() if RUNNABLE.match(one.text) and one.output and one.page.name != "CHANGELOG.md"
    ]


def run_shown(command: Command, folder: Path) -> str:
    """Run a command of a page in a folder with what the page shows: FILE.yaml is the resource FILE of its blocks."""
    for block in parse_blocks(command.page.read_text()):
        if block.language == "yaml" and isinstance(shown := yaml.safe_load(block.text), dict) and "metadata" in shown:
            (folder / f"{shown['metadata']['name']}.yaml").write_text(block.text)
    program, *words = shlex.split(command.text, comments=True)
    main = {"schedctl": "schedkit.schedctl.main", "sked": "schedkit.sked.cli"}[program]
    code = f"import sys; sys.argv[0] = {program!r}; from {main} import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=NOWHERE, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def fits(shown: str, printed: str) -> bool:
    """Whether the output is that; `…` on a line of its own stands for any lines."""
    parts = [re.escape(part) for part in re.split(r"^ *…\n", shown, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*".join(parts), printed) is not None


def test_there_is_output_to_compare() -> None:
    assert len(find_runnable()) >= 3


@pytest.mark.parametrize("command", find_runnable(), ids=str)
def test_the_output_that_is_shown_is_what_is_printed(command: Command, tmp_path: Path) -> None:
    printed = run_shown(command, tmp_path)
    assert fits(command.output, printed), printed


def test_lines_may_be_left_out() -> None:
    assert fits("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not fits("a\n…\nd\n", "a\nb\nc\n")
    assert not fits("a\nd\n", "a\nb\nd\n")


def test_the_page_about_verification_shows_the_lines_that_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge only repeats the page's own example; the lines around it are the program's."""
    page = (ROOT / "docs/sked/verification.md").read_text()
    (shown,) = (block.text for block in parse_blocks(page) if block.text.startswith("$ sked verify "))
    value = dict(re.findall(r"^(\w+(?: by)?) {2,}(.*)$", shown, re.MULTILINE))
    origin, rule = value["policy"].split(", rule ")
    judge = Mock(
        **{
            "read_policy.return_value.origin": origin,
            "resolve.return_value": value["resolved"].partition("@")[2],
            "judge.return_value": Mock(rule=rule, signer=value["signed by"]),
        }
    )
    monkeypatch.setattr(verifying, "Judge", lambda _settings: judge)
    resource = msgspec.convert({"metadata": {"name": value["schedext"]}, "spec": {"sched": value["image"]}}, SchedExt)
    printed: list[str] = []
    verifying.tell_images([resource], Mock(), printed.append)
    assert printed == shown.splitlines()[1:]
