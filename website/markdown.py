"""Links, anchors and code blocks of Markdown files, as GitHub and the site both read them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^ *(?P=fence) *$", re.M | re.S
)
_CODE = re.compile(r"(?<!`)(`+)(?!`)(?:.+?)(?<!`)\1(?!`)", re.S)
_LINK = re.compile(r"(?P<before>!?\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\()(?P<target>[^()\s]+)(?P<after>\))")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)
_ANCHOR = re.compile(r"""<a (?:id|name)=["']([^"']+)["']""")
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//")


class Block(NamedTuple):
    """A fenced block of code, and the line of the file that it begins at."""

    language: str
    text: str
    line: int


class Link(NamedTuple):
    """A link to a file, or to a heading of one: `target` as it is written, without its anchor."""

    text: str
    target: str
    anchor: str
    line: int


def _blank(match: re.Match[str]) -> str:
    """The same number of characters and lines, with nothing in them."""
    return re.sub(r"[^\n]", " ", match[0])


def parse_blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        indent = len(match["indent"])
        lines = [line[indent:] if line[:indent].isspace() else line for line in match["text"].splitlines(keepends=True)]
        yield Block(match["language"].strip(), "".join(lines), text.count("\n", 0, match.start()) + 1)


def without_blocks(text: str) -> str:
    """The text with every fenced block blanked out, each line still on its line."""
    return _FENCE.sub(_blank, text)


def parse_links(text: str) -> Iterator[Link]:
    """Links within the project; those to other places on the internet are left out."""
    prose = _CODE.sub(_blank, without_blocks(text))
    for match in _LINK.finditer(prose):
        target, _, anchor = match["target"].partition("#")
        if not _ELSEWHERE.match(match["target"]):
            said = text[match.start("text") : match.end("text")]
            yield Link(said, target, anchor, prose.count("\n", 0, match.start()) + 1)


def parse_anchors(text: str) -> list[str]:
    """What a link can name after `#`, in the order of the file; GitHub and the site agree on these."""
    prose = without_blocks(text)
    return [slug(title) for title in _HEADING.findall(prose)] + _ANCHOR.findall(prose)


def slug(title: str) -> str:
    """The anchor of a heading."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def find_broken(root: Path, pages: list[Path]) -> list[str]:
    """The links of these pages that lead nowhere, each as one line with its file and line."""
    anchors: dict[Path, list[str]] = {}
    broken = []
    for page in pages:
        for link in parse_links(page.read_text()):
            where = f"{page.relative_to(root)}:{link.line}: {link.target}{'#' if link.anchor else ''}{link.anchor}"
            path = (page.parent / link.target).resolve() if link.target else page
            if not path.exists() or not path.is_relative_to(root):
                broken.append(f"{where}: there is no such file")
            elif link.anchor:
                found = anchors.setdefault(path, parse_anchors(path.read_text())).count(link.anchor)
                if found != 1:
                    broken.append(f"{where}: {'no' if found == 0 else 'more than one'} heading of that name")
    return broken
