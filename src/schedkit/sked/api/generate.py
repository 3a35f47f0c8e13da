"""Write what is made from the types: the CRD of each kind, and the reference."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from schedkit.errors import SchedkitError, run_at_edge
from schedkit.sked.api.crd import render_crd
from schedkit.sked.api.kinds import KINDS, Kind
from schedkit.sked.api.reference import render_reference

CRD_FOLDERS = (Path("config/crd/bases"), Path("charts/sked/files"))  # helm packages no file from outside its chart
REFERENCE_FILE = Path("docs/sked/reference.md")
COMMAND = "python -m schedkit.sked.api.generate"


class NotCurrentError(SchedkitError):
    """Generated files are not what the types say."""

    reason = "NotCurrent"


def render_files(kinds: Sequence[Kind] = KINDS) -> dict[Path, str]:
    """What each generated file should hold."""
    definitions = {folder / kind.file_name: render_crd(kind) for folder in CRD_FOLDERS for kind in kinds}
    return {**definitions, REFERENCE_FILE: render_reference(kinds)}


def write_files(root: Path) -> None:
    """Write the generated files under the repository's root."""
    for path, text in render_files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def check_files(root: Path) -> None:
    """Refuse generated files that are missing or not current."""
    stale = [
        str(path)
        for path, text in render_files().items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]
    if stale:
        raise NotCurrentError(f"not what the types say: {', '.join(stale)}", hint=f"run {COMMAND}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the generated files, or check that they are current."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not current")
    parser.add_argument("--root", type=Path, default=Path(), help="the root of the repository (default: here)")
    options = parser.parse_args(arguments)
    return run_at_edge(lambda: (check_files if options.check else write_files)(options.root))


if __name__ == "__main__":
    sys.exit(main())
