"""Rooms: Debian root folders in which the lab builds and runs things, the same on every host."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.store import Artefact, Build
from schedkit.errors import UnavailableError

SUITE = "trixie"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How this host reaches its package registries; a room must reach them the same way.
PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
PASSED_ON_GO = ("GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB")
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
# Mounts that a command makes are seen by nobody else and end with it, and so do, with OWN_PIDS, its processes.
OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
OWN_PIDS = ("--pid", "--fork", "--kill-child")


def enter(
    root: Path,
    argv: Sequence[str | Path],
    *,
    binds: Mapping[Path, str] | None = None,
    env: Mapping[str, str] | None = None,
    own_pids: bool = True,
) -> list[str]:
    """The command line that runs `argv` in a room, with host folders bound in (host path → path inside).

    Mounts are private to the command and end with it. With `own_pids` so do all processes it leaves
    behind; without, the command keeps the process id of what runs this line.
    """
    inside = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    inside |= {name: os.environ[name] for name in (*PASSED_ON, *PASSED_ON_GO) if name in os.environ}
    inside |= env or {}
    q = shlex.quote
    lines = [
        "set -e",
        f"mount --bind {q(str(root))} {q(str(root))}; cd {q(str(root))}",  # some tools want / to be a mount point
        "mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev",
        "mount -t tmpfs tmpfs run; mount -t tmpfs -o mode=1777 tmpfs tmp",
    ]
    lines += [
        f"[ ! -e /etc/{name} ] || {{ touch etc/{name}; mount --bind /etc/{name} etc/{name}; }}"
        for name in ("resolv.conf", "hosts")
    ]
    lines += [
        f"mkdir -p {q('.' + target)}; mount --bind {q(str(source))} {q('.' + target)}"
        for source, target in (binds or {}).items()
    ]
    words = [*(f"{name}={value}" for name, value in inside.items()), *(str(word) for word in argv)]
    lines.append(f"exec chroot . /usr/bin/env -i {' '.join(q(word) for word in words)}")
    return [*OWN_MOUNTS, *(OWN_PIDS if own_pids else ()), "sh", "-c", "\n".join(lines)]


def run_script(
    build: Build,
    room: Path,
    script: Path,
    *,
    binds: Mapping[Path, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a recipe in a room: /out is the artefact, /build survives an interruption, /downloads is shared."""
    build.run(enter_script(build, room, script, binds=binds, env=env))


def enter_script(
    build: Build,
    room: Path,
    script: Path,
    *,
    binds: Mapping[Path, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line that runs a recipe in a room."""
    paths = {build.out: "/out", build.work: "/build", build.store.downloads: "/downloads", script.parent: "/recipes"}
    command = ["bash", "-euo", "pipefail", f"/recipes/{script.name}"]
    return enter(room, command, binds=paths | dict(binds or {}), env=env)


def bootstrap(build: Build, suite: str) -> None:
    """Make the artefact a small Debian root, from this host's mirror and with nothing else of this host."""
    if not shutil.which("debootstrap"):
        raise UnavailableError("debootstrap is not installed", hint="apt-get install debootstrap (or `make setup`)")
    mirror = read_mirror()
    packages_kept = build.store.downloads / "debootstrap"
    packages_kept.mkdir(exist_ok=True)
    root = build.out
    options = ["--variant=minbase", "--include=ca-certificates", f"--cache-dir={packages_kept}"]
    build.run([*OWN_MOUNTS, *OWN_PIDS, "debootstrap", *options, suite, root, mirror])
    suites = (suite, f"{suite}-updates", f"{suite}-backports")
    (root / "etc/apt/sources.list").write_text("".join(f"deb {mirror} {name} main\n" for name in suites))


def _build_base(build: Build) -> None:
    bootstrap(build, SUITE)
    if (Path("/") / CERTIFICATES).exists():  # this host may reach its registries through an own authority
        shutil.copy(Path("/") / CERTIFICATES, build.out / CERTIFICATES)
    # Nobody reads documentation in a room, and no service may start in one.
    (build.out / "etc/dpkg/dpkg.cfg.d/lab").write_text(
        "path-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/locale/*\n"
        "force-unsafe-io\n"
    )
    policy = build.out / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    build.run(["rm", "-rf", *(build.out / "usr/share" / name for name in ("doc", "man", "locale"))])


def _install(build: Build, packages: Sequence[str]) -> None:
    build.run(["cp", "-a", "--reflink=auto", f"{build.need(BASE)}/.", build.out])
    install_packages(build, build.out, packages)
    if not build.artefact.intermediate:
        forget_packages(build, build.out)


def install_packages(build: Build, root: Path, packages: Sequence[str]) -> None:
    """Install Debian packages into a root folder; downloads are kept and resumed by apt."""
    archives = build.store.downloads / "apt" / build.artefact.name  # apt locks it, and another may be installing
    archives.mkdir(parents=True, exist_ok=True)
    apt = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "-o", "Acquire::Retries=3"]
    build.run(enter(root, ["apt-get", "update", "-q"]))
    build.run(enter(root, [*apt, *packages], binds={archives: "/var/cache/apt/archives"}))


def forget_packages(build: Build, root: Path) -> None:
    """Delete apt's lists and caches, the larger half of a small root that will install nothing more."""
    build.run(["rm", "-rf", root / "var/lib/apt/lists", root / "var/cache/apt", root / "var/cache/debconf"])


def read_mirror() -> str:
    """The Debian mirror this host's own apt uses, or the one the user names."""
    if mirror := os.environ.get("SCHEDKIT_LAB_MIRROR"):
        return mirror
    hint = f"set SCHEDKIT_LAB_MIRROR to a Debian mirror that holds {SUITE}"
    try:
        listed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError("this host's apt does not tell which Debian mirror it uses", hint=hint) from error
    for line in listed.splitlines():
        origin, label, uri = line.split("|", 2)
        if origin == "Debian" and label == "Debian":
            return uri
    raise UnavailableError("this host's apt uses no Debian mirror", hint=hint)


BASE = Artefact("room-base", (SUITE, "1"), _build_base, intermediate=True, seconds=25, adds_mb=420, peak_mb=420)


def room(
    name: str, packages: Sequence[str], *, intermediate: bool, seconds: float, adds_mb: int, peak_mb: int
) -> Artefact:
    """A room as an artefact: a copy of the base with packages (`name/suite` takes one from that suite)."""
    return Artefact(
        name,
        tuple(packages),
        lambda build: _install(build, packages),
        needs=(BASE,),
        intermediate=intermediate,
        seconds=seconds,
        adds_mb=adds_mb,
        peak_mb=peak_mb,
    )


# Everything that is compiled is compiled here.
COMPILE = room(
    "room-compile",
    [
        *("gcc", "libc6-dev", "make", "bc", "flex", "bison", "perl", "python3-minimal", "rsync"),
        *("cpio", "kmod", "xz-utils"),
        *("linux-source-6.12", "libssl-dev", "libelf-dev", "pahole"),
        *("clang-19", "llvm-19", "libclang-19-dev", "libbpf-dev", "bpftool", "zlib1g-dev", "libzstd-dev"),
        *("libseccomp-dev", "pkgconf", "git"),
        *(f"golang-1.26-go/{SUITE}-backports", f"golang-1.26-src/{SUITE}-backports"),
        *(f"{name}/{SUITE}-backports" for name in ("cargo", "rustc", "libstd-rust-dev")),
    ],
    intermediate=True,
    seconds=45,
    adds_mb=2800,
    peak_mb=2800,
)

# What the lab runs on the host comes from here, so that it is the same version on every host.
TOOLS = room(
    "room-tools",
    [
        *("qemu-system-x86", "qemu-utils", "e2fsprogs", "kmod", "busybox-static", "cpio"),
        *("buildah", "skopeo", "docker-registry", "zstd"),
    ],
    intermediate=False,
    seconds=20,
    adds_mb=620,
    peak_mb=800,
)
