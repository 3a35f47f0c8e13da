"""The proof that a release installs: each artefact into clean Debian roots, first commands, and out again."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import rooms
from lab.errors import LabError
from lab.store import Store, remove_tree
from lab.wheels import Target, direct_dependencies, wheels
from release.debian import SUITES, Suite
from schedkit import __version__

SAMPLE = Path("config/samples/sked_v1_schedext.yaml")
BUILD_TOOLS = ("hatchling",)  # which the source distribution is built with
# What apt and dpkg write for themselves.
IGNORED = ("/var/log/", "/var/cache/", "/var/lib/apt/", "/var/lib/dpkg/", "/run/", "/tmp/", "/proc/", "/sys/", "/dev/")  # noqa: S108
WHEELS = {
    suite.name: wheels(
        f"release-wheels-{suite.name}",
        *direct_dependencies("sked"),
        *BUILD_TOOLS,
        megabytes=25,
        target=Target(suite.python, (2, 41) if suite.python == "3.13" else (2, 36)),
    )
    for suite in SUITES
}


class Root:
    """A Debian root of its own, in which commands run as in a machine that was just installed."""

    def __init__(self, path: Path, binds: Mapping[Path, str]) -> None:
        self.path = path
        self._binds = binds

    def run(self, *words: str, codes: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None) -> str:
        """Run a command and return its output; an error if it ends in another way than one of `codes`."""
        settings = {"XDG_CACHE_HOME": "/tmp/cache"} | dict(env or {})  # noqa: S108  (a tmpfs of the command's own)
        command = rooms.enter(self.path, words, binds=self._binds, env=settings)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        said = f"{done.stdout}\n{done.stderr}".strip()
        if done.returncode not in codes or "Traceback" in said:
            raise LabError(f"{' '.join(words)}: exit status {done.returncode}\n{said[-3000:]}")
        return done.stdout

    def install(self, *packages: str) -> None:
        """Install packages, or a .deb by its path, with what they depend on."""
        self.run("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages)

    def list_files(self) -> set[str]:
        """All files that matter, by path."""
        found = (f"/{path.relative_to(self.path)}" for path in self.path.rglob("*") if not path.is_dir())
        return {name for name in found if not name.startswith(IGNORED) and "__pycache__" not in name}


@contextmanager
def open_root(store: Store, suite: Suite, out: Path, project: Path) -> Iterator[Root]:
    """A copy of a release's clean root, for the time of a block."""
    store.ensure(suite.root, WHEELS[suite.name])
    folder = Path(tempfile.mkdtemp(prefix=f"release-{suite.name}-", dir=store.root / "run"))
    try:
        subprocess.run(["cp", "-a", "--reflink=auto", f"{store.path(suite.root)}/.", folder], check=True)
        folder.chmod(0o755)
        # Those that bind it in see what is there, and cannot change it.
        binds = {out: "/dist", store.path(WHEELS[suite.name]): "/wheels", (project / SAMPLE).parent: "/samples"}
        root = Root(folder, binds)
        for name in binds.values():
            (folder / name.lstrip("/")).mkdir()
        root.run("apt-get", "update", "-q")
        yield root
    finally:
        remove_tree(folder)


def try_programs(root: Root, folder: str = "/usr/bin") -> None:
    """What the first page of the documentation does, without a kernel that has sched_ext."""
    schedctl, sked = f"{folder}/schedctl", f"{folder}/sked"
    _expect(root.run(schedctl, "--version"), f"schedctl {__version__}\n")
    _expect_in(root.run(schedctl, "--help"), "Usage: schedctl")
    _expect_in(root.run(schedctl, "list"), "scx_rusty")
    _expect_in(root.run(schedctl, "doctor", codes=(0, 1)), "kernel.version")
    checks = json.loads(root.run(schedctl, "doctor", "-o", "json", codes=(0, 1)))["checks"]
    _expect_in(" ".join(check["id"] for check in checks), "runtime.any")
    _expect_in(root.run(sked, "--help"), "render")
    _expect_in(root.run(sked, "render", f"/samples/{SAMPLE.name}"), "kind: DaemonSet")
    _expect(root.run(f"{folder}/kubectl-scx", "--version"), f"kubectl scx {__version__}\n")


def check_deb(root: Root, suite: Suite, out: Path) -> None:
    """Install the package with apt, run it, purge it: then the root is as it was but for what it depended on."""
    (deb,) = out.glob(f"schedkit_*+deb{suite.number}_amd64.deb")
    root.install(f"/dist/{deb.name}")
    root.run("apt-get", "purge", "-y", "-q", "schedkit")
    before = root.list_files()
    root.install(f"/dist/{deb.name}")
    try_programs(root)
    root.run("dpkg", "--verify", "schedkit")
    root.run("bash", "-n", "/usr/share/bash-completion/completions/schedctl")
    for name in ("schedctl.1", "schedctl-run.1", "sked.1", "sked-manager.1", "kubectl-scx.1"):
        _expect_in(root.run("zcat", f"/usr/share/man/man1/{name}.gz"), ".SH SYNOPSIS")
    root.run("apt-get", "purge", "-y", "-q", "schedkit")
    if left := sorted(root.list_files() - before):
        raise LabError(f"purge left behind: {', '.join(left[:10])}")
    if gone := sorted(before - root.list_files()):
        raise LabError(f"purge took away: {', '.join(gone[:10])}")
    if ours := [name for name in before if "schedkit" in name or "schedctl" in name]:
        raise LabError(f"purge left behind: {', '.join(sorted(ours)[:10])}")


def check_python(root: Root) -> None:
    """Install the wheel with pip into a virtual environment, and then the source distribution, without an index."""
    root.install("python3-venv")
    root.run("python3", "-m", "venv", "/opt/venv")
    pip = [
        "/opt/venv/bin/pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--find-links=/wheels",
    ]
    root.run(*pip, f"/dist/schedkit-{__version__}-py3-none-any.whl[sked]")
    try_programs(root, "/opt/venv/bin")
    root.run(*pip, "--force-reinstall", "--no-deps", f"/dist/schedkit-{__version__}.tar.gz")
    try_programs(root, "/opt/venv/bin")


def check_uv(root: Root) -> None:
    """Install the wheel with uv for all users, as the docs say, and remove it."""
    shutil.copy(Path(sys.executable).parent / "uv", root.path / "usr/local/bin/uv")
    places = {"UV_TOOL_DIR": "/opt/uv", "UV_TOOL_BIN_DIR": "/usr/local/bin", "UV_OFFLINE": "1"}
    options = ["--quiet", "--no-index", "--find-links=/wheels", f"/dist/schedkit-{__version__}-py3-none-any.whl[sked]"]
    root.run("uv", "tool", "install", *options, env=places)
    try_programs(root, "/usr/local/bin")
    root.run("uv", "tool", "uninstall", "--quiet", "schedkit", env=places)
    _expect(root.run("ls", "/usr/local/bin"), "uv\n")


def check_pipx(root: Root) -> None:
    """Install the wheel with Debian's pipx for all users, as the docs say, and remove it."""
    root.install("pipx")
    # pipx installs a pip for itself; Debian has its wheel.
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels /usr/share/python-wheels"}
    root.run("pipx", "install", "--global", f"/dist/schedkit-{__version__}-py3-none-any.whl[sked]", env=offline)
    try_programs(root, "/usr/local/bin")
    root.run("pipx", "uninstall", "--global", "schedkit")
    if (root.path / "usr/local/bin/schedctl").is_symlink():
        raise LabError("pipx uninstall left /usr/local/bin/schedctl")


def check_same_bytes(store: Store, project: Path, out: Path, image: str, architectures: Sequence[str]) -> None:
    """Build the commit again, from a clone in another folder with another umask, and compare every file."""
    with tempfile.TemporaryDirectory(prefix="release-again-", dir=store.root / "run") as name:
        clone, again = Path(name) / "clone", Path(name) / "again"
        subprocess.run(["git", "clone", "--quiet", project, clone], check=True, umask=0o077)
        command = [sys.executable, "-m", "release", "package", f"--out={again}", f"--image={image}"]
        command += [f"--architecture={name}" for name in architectures]
        environment = os.environ | {"PYTHONPATH": str(clone / "src")}
        done = subprocess.run(
            command, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True, umask=0o077, check=False
        )
        if done.returncode:
            raise LabError("the second build failed")
        names = sorted(path.name for path in again.iterdir())
        differ = [one for one in names if (again / one).read_bytes() != (out / one).read_bytes()]
        if differ:
            raise LabError(f"a second build differs: {', '.join(differ)}")


def _expect(said: str, wanted: str) -> None:
    if said != wanted:
        raise LabError(f"expected {wanted!r}, got {said[-500:]!r}")


def _expect_in(said: str, wanted: str) -> None:
    if wanted not in said:
        raise LabError(f"expected {wanted!r} in {said[-2000:]!r}")
