"""The documentation holds together: links, anchors, navigation, diagrams. No site generator is needed."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from website.__main__ import find_foreign
from website.browser import find_problem
from website.diagrams import find_stale
from website.markdown import find_broken, parse_anchors, parse_blocks, parse_links
from website.recording import parse_recording
from website.stage import stage

ROOT = Path(__file__).parents[2]
# `make demo-record` writes these, from runs on real kernels.
RECORDINGS = [*(ROOT / "docs/images").glob("demo*.svg"), *(ROOT / "website/recordings").glob("*.txt")]


def find_pages() -> list[Path]:
    """Every Markdown file of the project; outside of a clone too, as in an unpacked source package."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        return [path for line in listed.stdout.splitlines() if (path := ROOT / line).exists()]
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def walk(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from walk(target)


def test_every_link_and_anchor_leads_somewhere() -> None:
    pages = find_pages()
    assert len(pages) > 40
    assert find_broken(ROOT, pages) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading: with `code`\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[good](there.md#a-heading-with-code) `[code](no.md)` [web](https://example.com/#x)\n"
        "[no file](gone.md) ![no image](gone.svg)\n"
        "[no\nheading](there.md#other) [which](there.md#twice) [here](#nothing)\n\n```\n[in a block](no.md)\n```\n"
    )
    assert find_broken(tmp_path, [page]) == [
        "page.md:2: gone.md: there is no such file",
        "page.md:2: gone.svg: there is no such file",
        "page.md:3: there.md#other: no heading of that name",
        "page.md:4: there.md#twice: more than one heading of that name",
        "page.md:4: #nothing: no heading of that name",
    ]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What's `new`, and why?", "whats-new-and-why"),
        ("status says …", "status-says-"),
        ("From scx_loader", "from-scx_loader"),
        ("A [link](x.md) here", "a-link-here"),
        ("`no such host`, certificates", "no-such-host-certificates"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert parse_anchors(f"# Page\n\n## {heading}\n") == ["page", anchor]


def test_blocks_are_found_in_lists_too() -> None:
    text = "# x\n\n1. Do:\n\n   ```console\n   $ ls\n   ```\n\n````md\n```sh\nno\n```\n````\n"
    assert [(block.language, block.text, block.line) for block in parse_blocks(text)] == [
        ("console", "$ ls\n", 5),
        ("md", "```sh\nno\n```\n", 9),
    ]


def test_the_site_has_every_page_once(tmp_path: Path) -> None:
    stage(ROOT, tmp_path)
    config = tomllib.loads((tmp_path / "zensical.toml").read_text())["project"]
    listed = list(walk(config["nav"]))
    assert len(listed) == len(set(listed))
    staged = {str(path.relative_to(tmp_path / "pages")) for path in (tmp_path / "pages").rglob("*.md")}
    unlisted = {"project/README.md", "project/CODE_OF_CONDUCT.md", "project/catalog/README.md"}  # reached by links
    assert staged - unlisted == set(listed)


def test_links_out_of_docs_become_pages_or_names(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "docs/deep").mkdir(parents=True)
    (root / "website").mkdir()
    (root / "website/zensical.toml").write_text("")
    (root / "code.py").write_text("")
    (root / "OTHER.md").write_text("# Other\n[back](docs/deep/page.md)\n")
    (root / "docs/image.svg").write_text("<svg/>")
    (root / "docs/deep/page.md").write_text(
        "[o](../../OTHER.md#other) [code](../../code.py) ![i](../image.svg) [self](#x)"
    )
    site = tmp_path / "site"
    (site / "pages").mkdir(parents=True)
    (site / "pages/stale.md").write_text("")
    stage(root, site)
    assert (site / "pages/deep/page.md").read_text() == (
        "[o](../project/OTHER.md#other) code (`code.py`) ![i](../image.svg) [self](#x)"
    )
    assert (site / "pages/project/OTHER.md").read_text() == "# Other\n[back](../deep/page.md)\n"
    assert (site / "pages/image.svg").exists()
    assert not (site / "pages/stale.md").exists()


def test_what_a_page_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://example.com">link</a><script src="https://cdn.example/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<link rel="stylesheet" href=https://cdn.example/x.css><img src="own.png">')
    (tmp_path / "c.css").write_text("@font-face{src:url(https://cdn.example/f.woff2)} .a{background:url(own.svg)}")
    assert find_foreign(tmp_path) == [
        "a.html loads https://cdn.example/x.js",
        "b.html loads https://cdn.example/x.css",
        "c.css loads https://cdn.example/f.woff2",
    ]


def test_diagrams_are_drawn_from_their_sources() -> None:
    assert len(list((ROOT / "website/diagrams").glob("*.dot"))) == 4
    assert find_stale(ROOT) == [], "hint: make diagrams"


def test_a_changed_diagram_is_stale(tmp_path: Path) -> None:
    (tmp_path / "website/diagrams").mkdir(parents=True)
    (tmp_path / "docs/images").mkdir(parents=True)
    for source in (ROOT / "website/diagrams").glob("*.dot"):
        (tmp_path / "website/diagrams" / source.name).write_text(source.read_text() + "// changed\n")
        picture = f"{source.stem}.svg"
        (tmp_path / "docs/images" / picture).write_text((ROOT / "docs/images" / picture).read_text())
    (tmp_path / "website/diagrams/new.dot").write_text("digraph new {}")
    assert find_stale(tmp_path) == ["layers", "new", "rollout", "schedctl-run", "sked"]


def test_every_image_has_words_for_who_cannot_see_it() -> None:
    silent = [
        f"{page.relative_to(ROOT)}:{link.line}"
        for page in find_pages()
        for link in parse_links(page.read_text())
        if link.target.endswith((".svg", ".png")) and len(link.text) < 20
    ]
    assert silent == []


def test_the_table_of_schedulers_is_the_catalog() -> None:
    page = (ROOT / "docs/schedulers.md").read_text()
    table = page[page.index("## The catalog") :]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\|$", table, re.MULTILINE)
    catalog = json.loads((ROOT / "src/schedkit/images/catalog.json").read_text())
    assert rows == [
        (name, entry["goodFor"], ", ".join(sorted(entry.get("modes", {}))))
        for name, entry in sorted(catalog.items())
        if not entry.get("hidden")
    ]
    assert set(re.findall(r"`(scx_\w+)", page)) <= catalog.keys()


@pytest.mark.parametrize(
    ("method", "details", "said"),
    [
        ("Runtime.exceptionThrown", {"exceptionDetails": {"exception": {"description": "boom"}}}, "exception: boom"),
        ("Runtime.consoleAPICalled", {"type": "error", "args": [{"value": "bad"}]}, "console: bad"),
        ("Runtime.consoleAPICalled", {"type": "log", "args": [{"value": "fine"}]}, None),
        ("Log.entryAdded", {"entry": {"level": "error", "text": "404", "url": "x.png"}}, "log: 404 x.png"),
        ("Network.requestWillBeSent", {"request": {"url": "https://cdn.example/x"}}, "asks for https://cdn.example/x"),
        ("Network.requestWillBeSent", {"request": {"url": "http://127.0.0.1:80/own.js"}}, None),
        ("Network.requestWillBeSent", {"request": {"url": "data:image/png;base64,"}}, None),
    ],
)
def test_what_a_browser_stumbles_over_is_a_problem(method: str, details: dict[str, Any], said: str | None) -> None:
    assert find_problem({"method": method, "params": details}, "http://127.0.0.1:80/index.html") == said


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_recordings_show_nothing_of_the_host_that_they_were_made_on(path: Path) -> None:
    shown = parse_recording(path)
    assert len(shown) > 10
    assert re.findall(r"(?<!\w)/(?:root|home|tmp|work)/\S*", "\n".join(shown)) == []


def test_everything_that_is_recorded_is_there() -> None:
    rules = (ROOT / "Makefile").read_text().partition("\ndemo-record:")[2].partition("\n\n")[0]
    scenes = re.findall(r"for scene in ([\w ]+);", rules)[0].split()
    pictures = re.findall(r"website\.recording docs/images/(\S+)", rules)
    assert sorted([*pictures, *(f"{scene}.txt" for scene in scenes)]) == sorted(path.name for path in RECORDINGS)
