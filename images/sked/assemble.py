"""Make the root folders of the image's two layers: this Python with packages and libraries, and the program.

It runs in the image's build stages, whatever distribution and architecture they have. Usage: assemble.py base|program
ROOT, where ROOT/opt/sked holds the packages, or the program, already.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGES = Path("/opt/sked")
PROGRAMS = {  # their modules, and with what arguments they begin
    Path("/manager"): ("schedkit.sked.cli", '["manager"]'),
    Path("/usr/bin/sked"): ("schedkit.sked.cli", "[]"),
    Path("/usr/bin/sked-wait"): ("schedkit.sked.agent.wait", "[]"),
}
# What an operator does not import: development, user interfaces, and what needs large libraries of its own.
UNUSED_FOLDERS = {"__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages"}
UNUSED_FOLDERS |= {"_pyrepl", "curses", "sqlite3", "test", "tests", "tkinter", "turtledemo", "unittest", "venv"}
UNUSED_MODULES = re.compile(r"(_sqlite3|_curses|_curses_panel|readline|_tkinter|_dbm|_gdbm|_test\w*|xx\w*)\..*\.so")
LOADED_BY_NAME = ("libgcc_s.so.1",)  # which the C library opens when a thread ends
ACCOUNT = "nonroot:x:65532:65532::/:/usr/sbin/nologin\n"
PROGRAM = """#!{python} -IB
import sys
sys.path.insert(0, "{packages}")
sys.argv[1:1] = {arguments}
from {module} import main
main()
"""


def copy_file(source: Path, root: Path) -> None:
    """Copy a file to the same path below the root, as a file even if it is a link."""
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def copy_python(root: Path) -> None:
    """Copy the interpreter and the standard library."""
    copy_file(find_python(), root)
    for name in ("stdlib", "platstdlib"):
        folder = Path(sysconfig.get_path(name)).resolve()

        def ignore(_: str, names: list[str]) -> set[str]:
            unused = {found for found in names if found in UNUSED_FOLDERS or UNUSED_MODULES.fullmatch(found)}
            return unused | {found for found in names if found.startswith("config-") or found.endswith(".a")}

        shutil.copytree(folder, root / folder.relative_to("/"), ignore=ignore, dirs_exist_ok=True)


def find_python() -> Path:
    """The interpreter itself, also when a virtual environment's link to it runs this."""
    return Path(os.path.realpath(sys.executable))


def copy_libraries(root: Path) -> None:
    """Copy the shared libraries that the interpreter and all extension modules ask for."""
    binaries = [root / find_python().relative_to("/"), *(path for path in root.rglob("*.so*") if path.is_file())]
    said = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=True).stdout
    if missing := sorted(set(re.findall(r"(\S+) => not found", said))):
        sys.exit(f"error: shared libraries are missing: {', '.join(missing)}")
    libraries = {Path(found) for found in re.findall(r"^\s+(?:\S+ => )?(/\S+) \(", said, re.MULTILINE)}
    folders = {library.parent for library in libraries}
    libraries |= {folder / name for folder in folders for name in LOADED_BY_NAME if (folder / name).exists()}
    for library in libraries:
        if not library.is_relative_to(root):  # wheels bring libraries of their own
            copy_file(library, root)


def write_settings(root: Path) -> None:
    """Write what the C library and OpenSSL read."""
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(ACCOUNT)
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    for name in ("/etc/ld.so.cache", "/etc/ssl/certs/ca-certificates.crt", "/usr/lib/ssl/openssl.cnf"):
        if Path(name).exists():
            copy_file(Path(name), root)


def write_programs(root: Path) -> None:
    """Write what starts the program."""
    for path, (module, arguments) in PROGRAMS.items():
        program = root / path.relative_to("/")
        program.parent.mkdir(parents=True, exist_ok=True)
        text = PROGRAM.format(python=find_python(), packages=PACKAGES, module=module, arguments=arguments)
        program.write_text(text)
        program.chmod(0o755)


def compile_everything(root: Path) -> None:
    """Compile to bytecode that is valid whatever times the files have, and says the paths they will have."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(root, maxlevels=99, quiet=1, stripdir=root, prependdir="/", invalidation_mode=mode):
        sys.exit("error: not everything could be compiled")


def settle_modes(root: Path) -> None:
    """Let everybody read everything, whatever the umask was when the project was cloned."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)


def main() -> None:
    """Fill the root folder of a layer."""
    layer, root = sys.argv[1], Path(sys.argv[2])
    if layer == "base":
        copy_python(root)
        for unused in [path for path in (root / PACKAGES.relative_to("/")).rglob("*") if path.name in ("tests", "bin")]:
            shutil.rmtree(unused, ignore_errors=True)
        copy_libraries(root)
        write_settings(root)
    else:
        write_programs(root)
    compile_everything(root)
    settle_modes(root)


if __name__ == "__main__":
    main()
