"""Whether this host can run the lab; what is missing is named before anything starts."""

import os
import platform
import shutil

from schedkit.errors import NoPermissionError, UnavailableError

PROGRAMS = {
    "debootstrap": "debootstrap",
    "ssh": "openssh-client",
    "ip": "iproute2",
    "unshare": "util-linux",
    "du": "coreutils",
}


def check_host() -> None:
    """Raise an error that names what this host lacks."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise UnavailableError(f"the lab runs on Linux x86_64, this is {platform.system()} {platform.machine()}")
    if os.geteuid() != 0:
        raise NoPermissionError(
            "the lab needs root: it makes Debian roots, mounts into them, and routes its nodes' addresses",
            hint="sudo -E .venv/bin/python -m lab …",
        )
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if missing:
        raise UnavailableError(
            f"missing on this host: {', '.join(missing)}", hint=f"apt-get install {' '.join(missing)}"
        )
