"""README.md as packages carry it: no link needs a file beside it."""

from importlib.metadata import metadata
from pathlib import Path

from schedkit.pages import REPOSITORY, name_page
from website.markdown import parse_links

ROOT = Path(__file__).parents[3]


def test_links_in_the_packages_description_lead_somewhere_without_the_repository() -> None:
    installed = metadata("schedkit")
    assert installed["Description-Content-Type"] == "text/markdown"
    description = installed.get_payload()  # type: ignore[attr-defined]  # an email's message, by contract
    assert list(parse_links((ROOT / "README.md").read_text())) != []
    assert list(parse_links(description)) == []
    assert f"]({name_page('quickstart.md')})" in description
    assert f"]({REPOSITORY}/raw/main/docs/images/demo.svg)" in description
    assert f"]({REPOSITORY}/blob/main/LICENSE)" in description
