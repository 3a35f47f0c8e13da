"""Write the Containerfiles and the built-in catalog, or with --check prove that they are current: python -m catalog."""

import json
import sys
from pathlib import Path

from catalog.recipes import RECIPES, Recipe

FOLDER = Path(__file__).parent
HEADER = "# Written by `python -m catalog`: change catalog/recipes.py or catalog/templates/{kind}, then run that.\n"
CARRIED = FOLDER.parent / "src/schedkit/images/catalog.json"  # the catalog that schedctl has built in
MIN_KERNEL = "6.12"


def render(name: str, recipe: Recipe, description: str) -> str:
    """One Containerfile."""
    template = (FOLDER / "templates" / recipe.kind).read_text()
    labels = (FOLDER / "templates/labels").read_text().rstrip("\n")
    words = {
        "NAME": name,
        "VERSION": recipe.version,
        "SOURCE": recipe.source,
        "DOCUMENTATION": recipe.documentation or f"{recipe.source}/tree/main/scheds/rust/{name}",
        "DESCRIPTION": description.replace('"', '\\"'),
        "MIN_KERNEL": MIN_KERNEL,
    }
    text = template.replace("@LABELS@", labels)
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    note = f"# {recipe.note}\n" if recipe.note else ""
    return HEADER.format(kind=recipe.kind) + note + text


def main() -> int:
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    if set(manifest) != set(RECIPES):
        print(f"error: not in both: {', '.join(sorted(set(manifest) ^ set(RECIPES)))}", file=sys.stderr)
        print("hint: catalog/manifest.json and catalog/recipes.py must name the same schedulers", file=sys.stderr)
        return 1
    wanted = {CARRIED: (FOLDER / "manifest.json").read_text()}
    for name, recipe in RECIPES.items():
        wanted[FOLDER / name / "Containerfile"] = render(name, recipe, manifest[name]["description"])
    stale = []
    for path, text in wanted.items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path.relative_to(FOLDER.parent)))
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if stale and "--check" in sys.argv:
        print(f"error: not current: {', '.join(stale)}\nhint: python -m catalog", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
