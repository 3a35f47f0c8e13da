"""Build, show or check the documentation site: python -m website build|serve|check|diagrams."""

import re
import subprocess
import sys
from pathlib import Path

from website.diagrams import draw
from website.stage import stage

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build/site"
HTML = SITE / "html"
ZENSICAL = ROOT / ".venv-docs/bin/zensical"
# What a browser loads by itself when it opens a page; links that a person follows are not meant.
_LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(https?://[^"'\s>]+)""")
_STYLED = re.compile(
    r"""<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon)\b[^>]*\bhref=["']?(https?://[^"'\s>]+)"""
)
_IMPORTED = re.compile(r"""(?:@import\s*|url\()["']?(https?://[^"')\s]+)""")


def build() -> int:
    """Make all pages; a link or an anchor that leads nowhere, or anything loaded from elsewhere, is an error."""
    stage(ROOT, SITE)
    code = subprocess.run([ZENSICAL, "build", "--strict", "--clean"], cwd=SITE, check=False).returncode
    if code:
        return 1
    foreign = find_foreign(HTML)
    for line in foreign:
        print(f"error: {line}", file=sys.stderr)
    print(f"site: {HTML.relative_to(ROOT)}/index.html, {len(list(HTML.rglob('*.html')))} pages")
    return 1 if foreign else 0


def serve() -> int:
    """Show the site at http://localhost:8000, and make a page again when its file changes."""
    stage(ROOT, SITE)
    server = subprocess.Popen([ZENSICAL, "serve"], cwd=SITE)
    try:
        while True:
            try:
                return server.wait(timeout=1)
            except subprocess.TimeoutExpired:
                stage(ROOT, SITE)
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()


def check() -> int:
    """Open the built site in Debian's chromium."""
    from website.browser import check_site

    return check_site(HTML, SITE / "screenshots")


def diagrams() -> int:
    """Draw the pictures in docs/images again."""
    return draw(ROOT)


def find_foreign(html: Path) -> list[str]:
    """What the pages load from other servers, each with its file."""
    found = []
    for path in sorted(html.rglob("*")):
        patterns = {".html": (_LOADED, _STYLED), ".css": (_IMPORTED,)}.get(path.suffix, ())
        for pattern in patterns:
            found += [f"{path.relative_to(html)} loads {url}" for url in pattern.findall(path.read_text())]
    return found


COMMANDS = {"build": build, "serve": serve, "check": check, "diagrams": diagrams}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m website {'|'.join(COMMANDS)}")
    sys.exit(COMMANDS[sys.argv[1]]())
