"""Diagrams: website/diagrams/NAME.dot is drawn by graphviz into docs/images/NAME.svg, which is committed."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

_MARK = re.compile(r"<!-- website/diagrams/[\w-]+\.dot sha256:([0-9a-f]{64}) -->")


def find_stale(root: Path) -> list[str]:
    """The diagrams whose picture was not drawn from the source as it is now; needs no graphviz."""
    stale = []
    for source in sorted((root / "website/diagrams").glob("*.dot")):
        picture = root / "docs/images" / f"{source.stem}.svg"
        mark = _MARK.search(picture.read_text()) if picture.exists() else None
        if mark is None or mark[1] != _digest(source):
            stale.append(source.stem)
    return stale


def draw(root: Path) -> int:
    """Draw all diagrams."""
    for source in sorted((root / "website/diagrams").glob("*.dot")):
        try:
            drawn = subprocess.run(["dot", "-Tsvg", source], check=True, capture_output=True, text=True).stdout
        except FileNotFoundError:
            print("error: graphviz is not installed\nhint: apt-get install graphviz", file=sys.stderr)
            return 69
        except subprocess.CalledProcessError as error:
            print(f"error: {source.name}: {error.stderr.strip()}", file=sys.stderr)
            return 65
        svg = drawn[drawn.index("<svg") :]
        svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.S)
        svg = re.sub(r'<svg width="\d+pt" height="\d+pt"', '<svg role="img"', svg, count=1)
        target = root / "docs/images" / f"{source.stem}.svg"
        target.parent.mkdir(exist_ok=True)
        target.write_text(f"<!-- website/diagrams/{source.name} sha256:{_digest(source)} -->\n{svg}")
    return 0


def _digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()
