"""Which tests a change asks for."""

import subprocess
from pathlib import Path

import pytest

from tests.changed import ROOT, choose, explain, read_changes

TESTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("[!u]*/**/test_*.py"))
FILES = {
    "src/schedkit/__init__.py": "",
    "src/schedkit/a.py": "from schedkit import b\n",
    "src/schedkit/b.py": "",
    "src/schedkit/program.py": "import importlib\nimportlib.import_module(f'schedkit.commands.{1}')\n",
    "src/schedkit/commands/__init__.py": "",
    "src/schedkit/commands/run.py": "",
    "lab/__init__.py": "",
    "lab/tools.py": "from lab import images\nPROGRAM = 'from schedkit.program import main; main()'\n",
    "lab/images.py": "import schedkit.a\n",
    "lab/recipes/a.sh": "",
    "tests/__init__.py": "",
    "tests/integration/conftest.py": "def fixture():\n    import schedkit.a\n",
    "tests/integration/x/test_x.py": "ROOT = 1\nCHARTS = ROOT / 'charts'\nOTHER = CHARTS / 'config'\n",
    "tests/e2e/test_y.py": "from lab.tools import PROGRAM\nCRD = 'config/crd/*.yaml'\n",
    "config/crd/one.yaml": "",
    "config/other.yaml": "",
    "charts/values.yaml": "",
    "docs/page.md": "",
    "pyproject.toml": "",
}
X, Y = "tests/integration/x/test_x.py", "tests/e2e/test_y.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("src/schedkit/a.py", {X}),  # a fixture of its conftest.py imports it
        ("src/schedkit/b.py", {X}),  # which imports this
        ("src/schedkit/program.py", {Y}),  # named in a string of what it imports
        ("src/schedkit/commands/run.py", {Y}),  # one of a package that is imported by name
        ("src/schedkit/__init__.py", {X, Y}),
        ("config/crd/one.yaml", {Y}),
        ("config/other.yaml", set()),
        ("charts/values.yaml", {X}),
        ("docs/page.md", set()),
        ("lab/images.py", {X, Y}),
        ("lab/recipes/a.sh", {X, Y}),
        ("lab/demo.py", set()),
        ("pyproject.toml", {X, Y}),
        ("tests/integration/conftest.py", {X}),
        (X, {X}),
        (Y, {Y}),
    ],
)
def test_tests_that_need_what_changed_are_chosen(tree: Path, changed: str, chosen: set[str]) -> None:
    assert choose(tree, [changed], [X, Y]) == {test: [changed] for test in chosen}


def test_choice_says_why(tree: Path) -> None:
    found = choose(tree, ["lab/images.py", "src/schedkit/a.py", "src/schedkit/b.py"], [X, Y])
    assert explain(found, 2, "main").splitlines() == [
        "since main: 2 of 2 files of integration and end-to-end tests need what changed",
        "  all of them need lab/images.py",
        f"  {X} needs src/schedkit/a.py and 1 more",
    ]


@pytest.mark.parametrize(
    ("changed", "chosen", "left"),
    [
        ("src/schedkit/sked/kube/client.py", "integration/sked_kube/test_client.py", "e2e/test_schedctl.py"),
        ("src/schedkit/sked/controller/status.py", "integration/sked_controller/test_contract.py", "sked_kube"),
        ("src/schedkit/sked/controller/status.py", "e2e/test_sked.py", "integration/images"),
        ("src/schedkit/schedctl/commands/run.py", "e2e/test_schedctl.py", "sked_kube"),
        ("src/schedkit/trust/policy.py", "integration/trust/test_keys.py", "sked_kube"),
        ("config/rbac/role.yaml", "integration/sked_deploy/test_rights.py", "sked_kube"),
        ("config/crd/bases/sked.schedkit.io_schedexts.yaml", "integration/sked_api/test_crd.py", "trust"),
        ("charts/sked/values.yaml", "integration/sked_helm/test_values.py", "sked_deploy"),
        ("scripts/deploy", "integration/sked_deploy/test_targets.py", "sked_kube"),
        ("images/sked/Containerfile", "integration/sked_deploy/test_image.py", "sked_kube"),
    ],
)
def test_real_tests_are_found(changed: str, chosen: str, left: str) -> None:
    assert (ROOT / changed).exists()
    found = choose(ROOT, [changed], TESTS)
    assert f"tests/{chosen}" in found
    assert not [test for test in found if test.startswith((f"tests/{left}", f"tests/integration/{left}"))]


def test_changes_are_those_since_the_branch_began_committed_or_not(tree: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=tree, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    git("add", ".")
    git("commit", "-m", "begin")
    git("checkout", "-b", "work")
    (tree / "src/schedkit/a.py").write_text("1\n")
    git("commit", "-am", "work")
    git("checkout", "main")
    (tree / "charts/values.yaml").write_text("theirs: 1\n")
    git("commit", "-am", "meanwhile")
    git("checkout", "work")
    (tree / "config/other.yaml").write_text("mine: 1\n")
    (tree / "docs/new.md").write_text("new\n")
    (tree / "docs/page.md").unlink()
    changed = ["config/other.yaml", "docs/new.md", "docs/page.md", "src/schedkit/a.py"]
    assert read_changes(tree, "main") == changed
    with pytest.raises(SystemExit, match=r"error: git merge-base: .*\nhint: name another revision"):
        read_changes(tree, "no-such-branch")
