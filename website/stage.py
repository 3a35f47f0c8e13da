"""Puts the site's pages together: docs/ as it is, and those Markdown files outside of it that its pages link to."""

import os
import shutil
from pathlib import Path

from website.markdown import Link, parse_links

PROJECT = "project"  # where the pages from outside of docs/ go


def stage(root: Path, site: Path) -> None:
    """Write the configuration to `site` and the pages to its folder pages/; delete what is no longer one of them."""
    folder = site / "pages"
    wanted: dict[Path, Path] = {}
    waiting = [path for path in sorted((root / "docs").rglob("*")) if path.is_file()]
    while waiting:
        source = waiting.pop()
        if source in wanted:
            continue
        wanted[source] = folder / _place(root, source)
        if source.suffix == ".md":
            waiting += _linked_pages(root, source)
    for path in sorted(folder.rglob("*"), reverse=True) if folder.exists() else ():
        if path.is_file() and path not in wanted.values():
            path.unlink()
    for source, target in wanted.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            _write_if_other(target, relink(root, source, source.read_text()))
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
    _write_if_other(site / "zensical.toml", (root / "website/zensical.toml").read_text())


def relink(root: Path, source: Path, text: str) -> str:
    """Make links to files of the project work on the site; a file that is no page is named instead of linked."""
    here = _place(root, source).parent
    for link in set(parse_links(text)):
        if not link.target:
            continue
        path = (source.parent / link.target).resolve()
        if not path.is_relative_to(root / "docs") and path.suffix != ".md":
            text = text.replace(_written(link), f"{link.text} (`{path.relative_to(root)}`)")
        else:
            target = os.path.relpath(_place(root, path), here)
            text = text.replace(_written(link), _written(link._replace(target=target)))
    return text


def _written(link: Link) -> str:
    return f"[{link.text}]({link.target}{'#' if link.anchor else ''}{link.anchor})"


def _place(root: Path, source: Path) -> Path:
    """Where a file of the project is on the site."""
    docs = root / "docs"
    return source.relative_to(docs) if source.is_relative_to(docs) else Path(PROJECT) / source.relative_to(root)


def _linked_pages(root: Path, source: Path) -> list[Path]:
    linked = ((source.parent / link.target).resolve() for link in parse_links(source.read_text()) if link.target)
    return [path for path in linked if path.suffix == ".md" and path.is_relative_to(root) and path.exists()]


def _write_if_other(path: Path, text: str) -> None:
    """Unchanged files are left alone, so that a server that watches them builds no more than it must."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
