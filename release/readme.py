"""README.md for the metadata of packages: a package index has none of the files that it links to."""

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^\]]*\])\((?!#|[a-z]+:)(?P<target>[^)\s]+)\)")


def make_links_absolute(text: str, repository: str) -> str:
    """Name files by their addresses in the repository; an image by that of its content."""

    def rewrite(link: re.Match[str]) -> str:
        view = "raw" if link["image"] else "blob"
        return f"{link['image']}{link['text']}({repository}/{view}/main/{link['target']})"

    return _LINK.sub(rewrite, text)


class ReadmeHook(MetadataHookInterface):
    """hatchling calls this for every wheel and source distribution: pyproject.toml names it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        root = Path(self.root)
        source = tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"]["Source"]
        text = make_links_absolute((root / "README.md").read_text(), source)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
