"""The Debian packages: one for each supported release, with everything of Python's that Debian does not have.

Debian has no rfc3161-client, and an older protobuf and grpcio than schedkit needs, so these cannot be dependencies.
They lie in /opt/schedkit/lib, of the versions in requirements.lock and compiled to bytecode; the interpreter is
Debian's own, which gets Debian's security updates. Extension modules are made for one version of Python: hence one
package for each release.
"""

import shutil
import subprocess
import zipfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab import rooms
from lab.errors import BuildError
from lab.store import Artefact, Build, Store
from lab.wheels import Target, direct_dependencies, installed
from release.archives import settle_tree
from release.contents import (
    DOCUMENTATION,
    LIBRARY,
    read_documentation,
    read_scripts,
    render_completions,
    render_copyright,
    render_manual,
    render_polkit,
    render_programs,
)
from release.versions import format_debian
from schedkit import __version__
from schedkit.host.units import AT_BOOT, ENABLED, FILES, RERUN, TRIAL
from schedkit.pages import REPOSITORY

UNUSED = ("bin", "tests", "__pycache__")


class Suite(NamedTuple):
    """A release of Debian, its clean root, and the packages that its package holds."""

    name: str
    number: int
    python: str
    root: Artefact  # as debootstrap makes it
    builder: Artefact  # the same with Python
    packages: Artefact


def _add_python(base: Artefact, python: str, build: Build) -> None:
    build.run(["cp", "-a", "--reflink=auto", f"{build.need(base)}/.", build.out])
    rooms.install_packages(build, build.out, [f"python{python}"])
    rooms.forget_packages(build, build.out)


def _suite(name: str, number: int, target: Target) -> Suite:
    root = Artefact(
        f"debian-{name}",
        (name, "1"),
        lambda build: rooms.bootstrap(build, name),
        on_demand=True,
        seconds=40,
        adds_mb=300,
        peak_mb=300,
    )
    builder = Artefact(
        f"debian-{name}-python",
        (target.python,),
        partial(_add_python, root, target.python),
        needs=(root,),
        on_demand=True,
        seconds=15,
        adds_mb=330,
        peak_mb=400,
    )
    names = direct_dependencies("sked")
    packages = installed(f"release-packages-{name}", *names, megabytes=65, target=target)
    return Suite(name, number, target.python, root, builder, packages)


TRIXIE = _suite("trixie", 13, Target("3.13", (2, 41)))
BOOKWORM = _suite("bookworm", 12, Target("3.11", (2, 36)))
SUITES = (TRIXIE, BOOKWORM)
CONTROL = """\
Package: schedkit
Version: {version}
Architecture: amd64
Maintainer: The schedkit authors <{homepage}>
Installed-Size: {size}
Depends: python{python}, libc6 (>= 2.34), libstdc++6, ca-certificates
Recommends: podman | docker.io | containerd
Suggests: pkexec
Section: admin
Priority: optional
Homepage: {homepage}
Description: run sched_ext CPU schedulers from OCI images
 schedctl verifies, pulls, runs, watches, switches and stops schedulers of Linux's sched_ext on this machine, through
 podman, docker or containerd, and shows what the kernel is really doing.
 .
 sked is the Kubernetes operator that does the same for the nodes of a cluster; its command line is here to render
 and verify SchedExt resources without a cluster. kubectl scx follows and controls its rollouts.
"""
# A package that is removed leaves no unit behind whose program is gone, and no trial: `schedctl restore` ends one.
# `schedctl disable` needs a running systemd, and may fail for other reasons; a unit that another installation of
# schedctl wrote is not this package's to remove.
PRERM = f"""\
#!/bin/sh
set -e
if [ "$1" = remove ]; then
    for file in /run/systemd/transient/{TRIAL} /{FILES[RERUN]}; do
        if grep -qs '[=@" ]/usr/bin/schedctl' "$file"; then
            case $file in *{TRIAL}) /usr/bin/schedctl restore || true ;; esac
            systemctl stop "${{file##*/}}" || true
        fi
    done
    if grep -qs '^ExecStart=\\(/usr\\)*/bin/schedctl ' /{FILES[ENABLED]} && ! /usr/bin/schedctl disable; then
        if [ -d /run/systemd/system ]; then systemctl disable --now {ENABLED} || true; fi
        rm -f /{FILES[ENABLED]} /{AT_BOOT}
        if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
    fi
fi
"""


def build_deb(store: Store, suite: Suite, project: Path, wheel: Path, out: Path, epoch: int) -> Path:
    """Write the package for a release of Debian to `out` and return its path."""
    store.ensure(rooms.TOOLS, suite.builder, suite.packages)
    version = format_debian(__version__, suite.number)
    work = out / f".deb-{suite.name}"
    root = work / "root"
    shutil.rmtree(work, ignore_errors=True)
    library = root / LIBRARY
    try:
        shutil.copytree(store.path(suite.packages), library, ignore=shutil.ignore_patterns(*UNUSED))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(library)
        files = render_programs(read_scripts(project), suite.python) | render_manual(epoch) | render_completions()
        files |= render_polkit() | read_documentation(project)
        files[f"{DOCUMENTATION}/copyright"] = render_copyright(library).encode()
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if name.startswith("usr/bin/") else 0o644)
        _compile(store, suite, root)
        size = sum(-(-path.lstat().st_size // 1024) for path in root.rglob("*") if path.is_file())
        (root / "DEBIAN").mkdir()
        control = CONTROL.format(version=version, size=size, python=suite.python, homepage=REPOSITORY)
        (root / "DEBIAN/control").write_text(control)
        (root / "DEBIAN/prerm").write_text(PRERM)
        (root / "DEBIAN/prerm").chmod(0o755)
        settle_tree(root, epoch)
        made = out / f"schedkit_{version}_amd64.deb"
        # zstd, which both releases' dpkg reads, packs and unpacks many times faster than xz. One thread: several would
        # cut the data into other blocks.
        pack = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z12", "--threads-max=1", "--build", "/build/root"]
        environment = {"SOURCE_DATE_EPOCH": str(epoch)}
        room = store.path(rooms.TOOLS)
        _run(rooms.enter(room, [*pack, f"/build/{made.name}"], binds={work: "/build"}, env=environment))
        (work / made.name).replace(made)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return made


def _compile(store: Store, suite: Suite, root: Path) -> None:
    """Write bytecode with the release's own Python: valid whatever times files have, and the same each time."""
    options = ["-q", "--invalidation-mode", "unchecked-hash", "-s", "/build", "-p", "/", f"/build/{LIBRARY}"]
    command = [f"python{suite.python}", "-m", "compileall", *options]
    settings = {"PYTHONHASHSEED": "0"}
    _run(rooms.enter(store.path(suite.builder), command, binds={root: "/build"}, env=settings))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"the package was not built: {(done.stderr or done.stdout).strip()[-2000:]}")
