"""The catalog: what ships, what files add, and what a name means."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedkit.errors import BadDataError, NotFoundError, UsageError
from schedkit.images.catalog import BUILT_IN, BUILT_IN_FILE, load_catalog
from schedkit.images.catalog_remote import PUBLISHED, Copy, pin, read_copy, split_pin, write_copy
from schedkit.images.reference import Reference

NAMES = (
    "gthulhu scx_beerland scx_bpfland scx_cosmos scx_flash scx_flow scx_lavd scx_mitosis scx_p2dq scx_pandemonium "
    "scx_rustland scx_rusty scx_test scx_tickless"
)
DIGEST = "sha256:" + "ab" * 32
REPOSITORY = Path(__file__).parents[3]


def write(path: Path, document: object) -> str:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_the_package_ships_the_repositorys_catalog() -> None:
    manifest = REPOSITORY / "catalog/manifest.json"
    assert BUILT_IN_FILE.read_bytes() == manifest.read_bytes(), f"cp {manifest} {BUILT_IN_FILE}"


def test_all_schedulers_of_the_original_are_built_in(tmp_path: Path) -> None:
    catalog = load_catalog([], tmp_path)
    assert " ".join(catalog.entries) == NAMES
    for name, entry in catalog.entries.items():
        assert str(entry.image) == f"ghcr.io/schedkit/{name}"
        assert entry.description
        assert entry.origin == BUILT_IN


def test_the_first_source_wins_and_the_built_in_one_comes_last(tmp_path: Path) -> None:
    first = write(tmp_path / "1.json", {"scx_rusty": {"imageURI": "localhost:5000/scx_rusty:v1"}})
    second = write(
        tmp_path / "2.json",
        {"scx_rusty": {"imageURI": "example.com/x"}, "own": {"imageURI": "example.com/own", "description": "Mine"}},
    )
    catalog = load_catalog([first, second], tmp_path)
    assert catalog.entries["scx_rusty"].origin == first
    assert catalog.find("scx_rusty") == Reference("localhost:5000", "scx_rusty", "v1")
    assert (catalog.entries["own"].description, catalog.entries["own"].origin) == ("Mine", second)
    assert catalog.entries["scx_lavd"].origin == BUILT_IN
    assert list(catalog.entries) == sorted(catalog.entries)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("scx_rusty", "ghcr.io/schedkit/scx_rusty:latest"),
        ("scx_rusty:v1.1", "ghcr.io/schedkit/scx_rusty:v1.1"),
        (f"scx_rusty@{DIGEST}", f"ghcr.io/schedkit/scx_rusty@{DIGEST}"),
        (f"scx_rusty:v1@{DIGEST}", f"ghcr.io/schedkit/scx_rusty:v1@{DIGEST}"),
        ("pinned", f"example.com/pinned@{DIGEST}"),
        ("pinned:v2", "example.com/pinned:v2"),
        ("localhost:5000/scx_rusty", "localhost:5000/scx_rusty:latest"),
        ("user/scx_rusty", "docker.io/user/scx_rusty:latest"),
        ("other:v1", "docker.io/library/other:v1"),
        ("dotted.name", "example.com/dotted:latest"),
    ],
)
def test_a_text_means_an_image(tmp_path: Path, text: str, meaning: str) -> None:
    entries = {
        "pinned": {"imageURI": f"example.com/pinned@{DIGEST}"},
        "dotted.name": {"imageURI": "example.com/dotted"},
    }
    catalog = load_catalog([write(tmp_path / "c.json", entries)], tmp_path)
    assert str(catalog.find(text)) == meaning


@pytest.mark.parametrize(("word", "near"), [("scx_rustie", "scx_rusty"), ("rustyy", "scx_rusty"), ("LAVD", "scx_lavd")])
def test_an_unknown_word_is_not_found_and_near_names_are_told(tmp_path: Path, word: str, near: str) -> None:
    with pytest.raises(NotFoundError, match=repr(word)) as caught:
        load_catalog([], tmp_path).find(word)
    assert near in caught.value.hint
    assert "schedctl list" in caught.value.hint


def test_an_unknown_word_without_near_names_is_told_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        load_catalog([], tmp_path).find("zzzzzz")
    assert caught.value.hint.startswith("`schedctl list`")


@pytest.mark.parametrize("text", ["scx_rusty:", "scx_rusty:-x", "scx_rusty@sha256:short", "ghcr.io/UPPER"])
def test_a_bad_reference_is_a_usage_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        load_catalog([], tmp_path).find(text)


@pytest.mark.parametrize(
    "document",
    [
        "",
        '{"a": {"imageURI": "ghcr.io/a',
        "[]",
        "[" * 100_000,
        '{"a": {"imageURI": "ghcr.io/a"}, "a": {"imageURI": "ghcr.io/b"}}',
        {"a": "ghcr.io/a"},
        {"a": {}},
        {"a": {"imageURI": 1}},
        {"a": {"imageURI": "ghcr.io/A"}},
        {"a": {"imageURI": "https://ghcr.io/a"}},
        {"../a": {"imageURI": "ghcr.io/a"}},
        {"": {"imageURI": "ghcr.io/a"}},
        {"a" * 65: {"imageURI": "ghcr.io/a"}},
        {"\x1b[2J": {"imageURI": "ghcr.io/a"}},
        {"a": {"imageURI": "ghcr.io/a", "description": "\x1b[2J"}},
        {"a": {"imageURI": "ghcr.io/a", "description": "two\nlines"}},
        {"a": {"imageURI": "ghcr.io/a", "description": "x" * 501}},
        {f"a{number}": {"imageURI": "ghcr.io/a"} for number in range(5001)},
        {"a": {"imageURI": "ghcr.io/a", "padding": "x" * (1 << 20)}},
    ],
)
def test_a_torn_or_hostile_file_is_refused_whole(tmp_path: Path, document: object) -> None:
    path = write(tmp_path / "bad.json", document)
    with pytest.raises(BadDataError, match=r"bad\.json"):
        load_catalog([path], tmp_path)


def test_fields_of_later_versions_are_no_fault(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", {"a": {"imageURI": "ghcr.io/a", "kernels": ["6.12"]}})
    assert "a" in load_catalog([path], tmp_path).entries


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"missing\.json"):
        load_catalog([str(tmp_path / "missing.json")], tmp_path)


def test_nothing_of_the_network_is_imported_for_a_catalog_at_hand() -> None:
    program = (
        "import sys; from pathlib import Path; from schedkit.images.catalog import load_catalog\n"
        "load_catalog([], Path('cache')).find('scx_rusty')\n"
        "heavy = {'urllib3', 'http.client', 'ssl', 'socket', 'difflib', 'subprocess'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


NEWER = json.dumps({"scx_rusty": {"imageURI": "ghcr.io/schedkit/scx_rusty:2.0"}}).encode()


def test_the_published_catalog_is_used_before_the_built_in_one_once_it_was_fetched(tmp_path: Path) -> None:
    assert load_catalog([], tmp_path).entries["scx_rusty"].origin == BUILT_IN
    write_copy(PUBLISHED, tmp_path, Copy(NEWER))
    found = load_catalog([], tmp_path)
    assert (found.entries["scx_rusty"].origin, str(found.find("scx_rusty"))) == (
        PUBLISHED,
        "ghcr.io/schedkit/scx_rusty:2.0",
    )
    assert found.entries["scx_lavd"].origin == BUILT_IN
    own = write(tmp_path / "own.json", {"scx_rusty": {"imageURI": "example.com/x"}})
    assert load_catalog([own], tmp_path).entries["scx_rusty"].origin == own


def test_the_published_catalog_is_never_fetched_at_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would check its signature."""
    monkeypatch.setattr("schedkit.images.catalog.fetch_copy", lambda *_: pytest.fail("fetched"))
    (warning,) = load_catalog([PUBLISHED], tmp_path).warnings
    assert warning.startswith(f"the catalog {PUBLISHED} has not been fetched yet and is left out")
    write_copy(PUBLISHED, tmp_path, Copy(NEWER))
    assert load_catalog([PUBLISHED], tmp_path).warnings == ()


def test_what_another_version_of_schedctl_or_another_user_fetched_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_copy(PUBLISHED, tmp_path, Copy(NEWER))
    with monkeypatch.context() as patch:
        patch.setattr("schedkit.images.catalog_remote.__version__", "99")
        assert read_copy(PUBLISHED, tmp_path) is None
    assert read_copy(PUBLISHED, tmp_path) is not None
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert read_copy(PUBLISHED, tmp_path) is None


def test_a_copy_that_has_not_the_digest_of_its_url_is_not_used(tmp_path: Path) -> None:
    from hashlib import sha256

    url, digest = "https://example.com/c.json", sha256(NEWER).hexdigest()
    write_copy(url, tmp_path, Copy(NEWER))
    assert read_copy(pin(url, f"sha256:{digest}"), tmp_path) == Copy(NEWER)
    assert read_copy(pin(url, f"sha256:{'0' * 64}"), tmp_path) is None
    assert split_pin(pin(url, f"sha256:{digest}")) == (url, digest)


@pytest.mark.parametrize("digest", ["", "abc", "A" * 64, "0" * 65])
def test_a_url_with_half_a_digest_is_a_usage_error(tmp_path: Path, digest: str) -> None:
    with pytest.raises(UsageError, match="ends with a digest that is none"):
        load_catalog([f"https://example.com/c.json#sha256={digest}"], tmp_path)
