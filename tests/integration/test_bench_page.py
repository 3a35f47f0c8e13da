"""The page that `schedctl bench --report` writes, in a real browser, from a file: as a colleague opens it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import browser as lab_browser
from lab.store import Store
from schedkit.schedctl.bench_page import render_page
from tests.unit.schedctl.test_bench import make_hostile
from website.browser import NARROW, WIDE, Browser, is_dark, start_line

URL = "file:///page/report.html"
# Of each element that matches: what part of it lies outside of its picture, in pixels; and what it is painted with.
OUTSIDE = """[...document.querySelectorAll('svg SELECTOR')].map(one => {
  const own = one.getBoundingClientRect(), all = one.ownerSVGElement.getBoundingClientRect();
  return Math.max(all.left - own.left, own.right - all.right, all.top - own.top, own.bottom - all.bottom) })"""
FILLS = "[...new Set([...document.querySelectorAll('svg circle.run')].map(one => getComputedStyle(one).fill))]"
HEIGHTS = "[...document.querySelectorAll('svg text')].map(one => one.getBoundingClientRect().height).filter(one => one)"
SEEN = "[...document.querySelectorAll('svg')].filter(one => one.checkVisibility()).length"


@pytest.fixture(scope="module")
def browser(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "report.html").write_text(render_page(make_hostile()))
    line = start_line(lab_browser.PROGRAM, "/tmp/profile")  # noqa: S108  (in the room)
    with Browser(lab_browser.enter(store, line, binds={folder: "/page"})) as browser:
        yield browser


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_is_shown_whole(browser: Browser, size: tuple[int, int], scheme: str, tmp_path: Path) -> None:
    browser.prefer(scheme)
    browser.resize(size)
    assert browser.open(URL) == []  # no complaint of the browser's, and nothing that it asks others for
    browser.shoot(tmp_path / "report.png")

    assert browser.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert is_dark(browser.evaluate("getComputedStyle(document.body).backgroundColor")) == (scheme == "dark")
    assert is_dark(browser.evaluate("getComputedStyle(document.body).color")) == (scheme == "light")
    assert browser.evaluate(SEEN) == 3  # intervals, all runs, their order; the others are folded
    for selector in ("circle", "text"):
        outside = browser.evaluate(OUTSIDE.replace("SELECTOR", selector))
        assert len(outside) > 0
        assert max(outside) < 1, selector
    assert min(browser.evaluate(HEIGHTS)) > 9  # letters that can be read
    fills = browser.evaluate(FILLS)
    assert len(fills) == 3  # a colour for each scheduler
    assert all(fill.startswith("rgb(") and fill != "rgb(0, 0, 0)" for fill in fills)


def test_what_is_folded_opens_and_what_a_name_brings_along_does_nothing(browser: Browser) -> None:
    browser.prefer("light")
    browser.resize(WIDE)
    assert browser.open(URL) == []
    folded = browser.evaluate(SEEN)
    browser.evaluate("document.querySelectorAll('summary').forEach(one => one.click())")
    assert browser.evaluate(SEEN) > folded
    assert browser.evaluate("[...document.querySelectorAll('details')].every(one => one.open)")
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.evaluate("document.body.innerText.includes('<script>alert(1)</script>')")
