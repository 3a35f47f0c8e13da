"""The documented fields, and the comparison with what a command prints; the e2e tests make it for every command."""

import json
import re
from pathlib import Path

import pytest

from schedkit.schedctl.schema import FIELDS
from tests.documents import missing, paths, undocumented
from website.reference import render_exit_codes, render_json, render_reference

DOCS = Path(__file__).parents[3] / "docs/schedctl"


def test_paths_of_a_document_are_in_the_notation_of_the_table() -> None:
    document = {"a": {"b": 1}, "c": [{"d": None}, {"e": []}], "f": {"unknown": "why"}}
    assert sorted(set(paths(document))) == ["a", "a.b", "c", "c[]", "c[].d", "c[].e", "f"]


def test_a_field_that_is_not_documented_is_found() -> None:
    good = {"version": "1", "changes": ["x"]}
    assert undocumented("catalog update", good) == []
    assert undocumented("catalog update", {**good, "extra": 1}) == ["extra"]


def test_a_promised_field_that_is_not_there_is_found_where_its_object_is() -> None:
    assert missing("catalog update", {"version": "1"}) == ["changes"]
    assert missing("stop", {"stopped": []}) == []
    assert "stopped[].killed" in missing("stop", {"stopped": [{"id": "x"}]})


def test_unknown_in_place_of_an_object_is_neither_missing_nor_undocumented() -> None:
    document = {"at": "", "kernel": {"unknown": "x"}, "uptime_seconds": None, "rates": None, "stats": {"cpu": 1}}
    assert undocumented("watch", document) == []
    assert [path for path in missing("watch", document) if not path.startswith("kernel.")] == []


@pytest.mark.parametrize(
    ("name", "render"),
    [("reference.md", render_reference), ("json.md", render_json), ("../exit-codes.md", render_exit_codes)],
)
def test_generated_pages_are_current(name: str, render: object) -> None:
    assert callable(render)
    assert (DOCS / name).read_text() == render(), "python -m website.reference"


def test_every_field_is_on_the_page() -> None:
    page = (DOCS / "json.md").read_text()
    for command, fields in FIELDS.items():
        section = re.split(rf"^## schedctl {command}$", page, flags=re.MULTILINE)[1].split("\n## ")[0]
        assert all(f"`{field}`" in section for field in fields)


def test_examples_on_the_pages_are_json() -> None:
    for page in DOCS.glob("*.md"):
        for block in re.findall(r"```json\n(.*?)```", page.read_text(), re.DOTALL):
            json.loads(block)
