"""The page that `make catalog-check` writes: what was measured, and why something was not; what is kept of a run."""

import json
import re
from pathlib import Path

import pytest

from catalog.recipes import RECIPES
from lab import images
from lab.catalog_check import PAGE, Findings, is_enough, read_error
from lab.catalog_page import Checked, render
from lab.process import Result
from lab.progress import Progress
from lab.store import Store

GOOD = Checked("scx_a", "1.1.4", "games", ("gaming", "server"), 6_240_000, 5.84, kernel="6.12.107")
ODD = GOOD._replace(name="scx_odd", why="mode server: it ended with exit code 2")
UNBUILT = Checked("scx_b", "2.0", "servers", why="it does not build: error: no such crate")
UNATTACHED = Checked("scx_c", "3.0", "servers", (), 7_000_000, None, "it does not attach: refused")
NO_PACKAGE = Checked(
    "scx_d", "21618ac3fbdfa72d62f9e186260b6a965316151a", "clusters", why="No package of it is published."
)
ALL = [GOOD, ODD, UNBUILT, UNATTACHED, NO_PACKAGE]


def make(*checked: Checked, emulated: bool = True) -> str:
    return render(checked, emulated=emulated, left_out=["scx_z"])


def test_each_that_attached_has_a_row_with_what_was_measured() -> None:
    lines = make(*ALL).splitlines()
    assert "| scx_a | 1.1.4 | games | gaming, server | 6.2 MB | 5.8 s |" in lines
    assert [line.split()[1] for line in lines if line.startswith("| scx")] == ["scx_a", "scx_odd"]


def test_what_does_not_work_says_why_and_has_no_figures() -> None:
    page = make(*ALL)
    assert "- **scx_b** 2.0: it does not build: error: no such crate.\n" in page
    assert "- **scx_c** 3.0: it does not attach: refused.\n" in page
    assert "- **scx_d** 21618ac3fbdf: No package of it is published.\n" in page
    assert "- **scx_odd** 1.1.4: mode server: it ended with exit code 2.\n" in page
    assert "did not work" not in make(GOOD)


def test_mode_that_is_not_offered_says_what_was_seen_and_is_no_failure() -> None:
    without = GOOD._replace(not_offered={"powersave": "the kernel ejected it"})
    page = make(without)
    assert "| scx_a | 1.1.4 | games | gaming, server (not powersave: see below) | 6.2 MB | 5.8 s |\n" in page
    assert "- **scx_a** 1.1.4: mode powersave is not offered: the kernel ejected it.\n" in page
    assert not without.has_failed


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.not_offered])
def test_mode_that_fails_on_the_oldest_kernel_is_on_the_page_and_not_in_the_catalog(name: str) -> None:
    page = PAGE.read_text()
    for mode, seen in RECIPES[name].not_offered.items():
        assert f"- **{name}** {RECIPES[name].version}: mode {mode} is not offered: {seen}.\n" in page
        assert mode not in json.loads((images.CATALOG / "manifest.json").read_text())[name]["modes"]


def test_page_shows_no_mode_of_the_catalog_that_failed() -> None:
    page = PAGE.read_text()
    for name, entry in json.loads((images.CATALOG / "manifest.json").read_text()).items():
        for mode in entry.get("modes", {}):
            assert not re.search(rf"\*\*{name}\*\* [^\n]*mode {mode}: [^\n]*ejected", page)


def test_how_it_was_measured_is_told() -> None:
    assert "on Linux 6.12.107, in an emulated machine" in make(GOOD)
    assert "rough comparison" in make(GOOD)
    assert "rough comparison" not in make(GOOD, emulated=False)
    assert "not tried*" not in make(GOOD)
    hasty = make(GOOD, GOOD._replace(name="scx_hasty", modes_tried=False))
    assert "except where it says *not tried*" in hasty
    assert "| scx_hasty | 1.1.4 | games | gaming, server (*not tried*) |" in hasty
    assert "Not tried in this run: scx_z." in make(GOOD)


def test_only_what_was_tried_and_does_not_work_is_a_failure() -> None:
    assert [one.name for one in ALL if one.has_failed] == ["scx_odd", "scx_b", "scx_c"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('resolving x\n{"version": "1", "error": {"message": "it was refused"}}\n', "it was refused"),
        ("Compiling x\nerror: no such option\nsee above\n", "error: no such option"),
        ("killed\n", "killed"),
        ("", "exit code 9"),
    ],
)
def test_why_a_command_failed_is_what_it_said(said: str, why: str) -> None:
    assert read_error(Result("", said, 9)) == why


def test_what_was_found_is_kept_until_something_changes(tmp_path: Path) -> None:
    store = Store(tmp_path, (), Progress())
    manifest: dict[str, dict[str, object]] = {"scx_lavd": {"goodFor": "games", "modes": {"gaming": ["--performance"]}}}
    found = GOOD._replace(name="scx_lavd")
    findings = Findings(store, manifest)
    assert findings.read("scx_lavd") is None
    findings.write(found)
    assert findings.read("scx_lavd") == found
    manifest["scx_lavd"]["modes"] = {"gaming": []}
    assert findings.read("scx_lavd") is None


def test_what_does_not_build_is_tried_again(tmp_path: Path) -> None:
    findings = Findings(Store(tmp_path, (), Progress()), {"scx_lavd": {}})
    findings.write(UNBUILT._replace(name="scx_lavd"))
    assert findings.read("scx_lavd") is None


@pytest.mark.parametrize(
    ("known", "modes", "enough"),
    [
        (None, False, False),
        (GOOD, True, True),
        (GOOD._replace(modes_tried=False), True, False),
        (GOOD._replace(modes_tried=False), False, True),
        (GOOD._replace(modes_tried=False, modes=()), True, True),
    ],
)
def test_what_is_known_is_tried_again_only_for_modes_that_were_not(
    known: Checked | None, modes: bool, enough: bool
) -> None:
    assert is_enough(known, modes=modes) == enough
