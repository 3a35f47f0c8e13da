"""Output that a page shows was printed: by a test that runs the command, in a recording, or as a test compares it."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.unit.test_docs import RECORDINGS, find_pages
from tests.unit.test_docs_console import PROMPT, Command, find_commands, find_runnable, fits
from website.markdown import parse_blocks
from website.recording import parse_recording

ROOT = Path(__file__).parents[2]
SESSIONS = {"docs/session.md": "demo", "docs/sked/session.md": "demo-cluster"}  # a demo as a whole, with its sentences
# Signatures of images that no lab has: these tests compare the lines around an example's names and digests.
COMPARED = {
    "docs/trust.md: schedctl verify scx_rusty": "schedctl/test_verify.py",
    "docs/sked/verification.md: sked verify schedext.yaml --trust-policy policy.yaml": "test_docs_console.py",
}


class Printed(NamedTuple):
    """A command of a recording, and what it printed."""

    command: str
    output: str


def trim(lines: Iterable[str]) -> str:
    """Lines without their indentation in a recording, empty ones, and steps of a pull, which a terminal overwrites."""
    kept = [line.rstrip().removeprefix("  ") for line in lines if line.strip()]
    return "".join(f"{line}\n" for line in kept if not re.match(r" +\d+% of ", line))


def split_recording(lines: list[str]) -> list[Printed]:
    """The commands of a recording; what is not indented ends the output of one."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if PROMPT.match(line):
            found.append((PROMPT.sub("", line), []))
        elif not line.startswith("  "):
            found.append(("", []))
        elif found:
            found[-1][1].append(line)
    return [Printed(command, trim(output)) for command, output in found if command]


@cache
def read_recordings() -> list[Printed]:
    return [printed for path in RECORDINGS for printed in split_recording(parse_recording(path))]


def is_recorded(command: Command, recorded: list[Printed]) -> bool:
    # The output of a page is indented only as the program indents it.
    shown = "".join(f"{line.rstrip()}\n" for line in command.output.splitlines() if line.strip())
    return any(command.text == one.command and fits(shown, one.output) for one in recorded)


def test_every_output_that_is_shown_was_printed() -> None:
    run = {str(command) for command in find_runnable()}
    unknown = [
        str(command)
        for command in find_commands()
        if command.output.strip()
        and str(command) not in run
        and f"{(page := str(command.page.relative_to(ROOT)))}: {command.text}" not in COMPARED
        and page not in SESSIONS
        and not is_recorded(command, read_recordings())
    ]
    assert unknown == [], "hint: take the output from a recording (make demo-record), or show the command alone"


def test_sessions_are_their_recordings() -> None:
    for page, name in SESSIONS.items():
        (shown,) = (block.text for block in parse_blocks((ROOT / page).read_text()) if block.language == "console")
        *recorded, end = parse_recording(ROOT / f"docs/images/{name}.svg")
        assert "is gone." in end
        assert fits(trim(shown.splitlines()), trim(recorded)), page


def test_tests_that_compare_output_name_the_page() -> None:
    shown = {f"{one.page.relative_to(ROOT)}: {one.text}" for one in find_commands() if one.output}
    assert COMPARED.keys() <= shown
    for where, test in COMPARED.items():
        assert f'"{where.partition(": ")[0]}").read_text()' in (ROOT / "tests/unit" / test).read_text()


def test_a_session_is_in_a_console_block() -> None:
    """Other blocks are not compared, so none may look as if it were."""
    others = [
        f"{page.relative_to(ROOT)}:{block.line}"
        for page in find_pages()
        for block in parse_blocks(page.read_text())
        if block.language != "console" and any(PROMPT.match(line) for line in block.text.splitlines())
    ]
    assert others == []


def test_a_block_begins_with_its_command() -> None:
    """What stands before the first prompt would be nobody's output; a session begins with a sentence."""
    others = [
        f"{page.relative_to(ROOT)}:{block.line}"
        for page in find_pages()
        for block in parse_blocks(page.read_text())
        if block.language == "console" and not PROMPT.match(block.text) and str(page.relative_to(ROOT)) not in SESSIONS
    ]
    assert others == []


def test_output_that_was_not_printed_is_found() -> None:
    recorded = split_recording(
        ["A sentence:", "$ schedctl ps", "  PID  NAME", "    40% of 7.4 MB", "  12   scx_fifo", "The end.", "  x"]
    )
    page = Path("page.md")
    block = next(parse_blocks("```console\n$ ls\n```\n"))

    def shows(text: str, output: str) -> bool:
        return is_recorded(Command(page, 1, text, output, block), recorded)

    assert shows("schedctl ps", "PID  NAME\n12   scx_fifo\n")
    assert shows("schedctl ps", "PID  NAME\n…\n")
    assert not shows("schedctl ps", "PID  NAME\n13   scx_fifo\n")
    assert not shows("schedctl ps", "PID  NAME\n")
    assert not shows("schedctl ps -a", "PID  NAME\n12   scx_fifo\n")
