"""Whose folder it is, before anything in it is believed, written or removed."""

import os
from pathlib import Path

import pytest

from schedkit.trust.sealed import SealedFolder


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    folder = SealedFolder(tmp_path / "cache/verdicts")
    folder.write("a.json", "text")
    assert folder.read("a.json") == "text"
    assert folder.names() == ["a.json"]
    assert list_names(folder.path) == ["a.json", "key"]


def test_link_to_another_folder_is_not_followed(tmp_path: Path) -> None:
    """Whoever may make it could have root write to any folder of root, and remove a file there."""
    other, cache = tmp_path / "other", tmp_path / "cache"
    other.mkdir(mode=0o700)
    (other / "key").write_text("precious")
    cache.mkdir()
    (cache / "verdicts").symlink_to(other)
    folder = SealedFolder(cache / "verdicts")
    with pytest.raises(OSError, match="verdicts"):
        folder.write("a.json", "text")
    with pytest.raises(OSError, match="verdicts"):
        folder.make()
    assert (other / "key").read_text() == "precious"
    assert list_names(other) == ["key"]
    assert (folder.read("a.json"), folder.names()) == (None, [])


def test_folder_that_others_may_exchange_is_not_used(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    folder = SealedFolder(cache / "deep/verdicts")
    with pytest.raises(PermissionError, match="cache"):
        folder.write("a.json", "text")
    assert list_names(cache) == []
    cache.chmod(0o1777)  # as /tmp: nobody may rename what is another's
    folder.write("a.json", "text")
    cache.chmod(0o777)
    assert folder.read("a.json") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("link", [False, True])
def test_folder_of_root_below_another_users_is_not_used(tmp_path: Path, link: bool) -> None:
    """As with sudo, where HOME stays that of the user."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    if link:
        (home / ".cache").symlink_to(elsewhere)
        os.chown(home / ".cache", 65534, 65534, follow_symlinks=False)
    else:
        os.chown(home, 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to another user"):
        SealedFolder(home / ".cache/schedkit/verdicts").write("a.json", "text")
    assert list_names(elsewhere) == []
