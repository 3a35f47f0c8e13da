"""One version, in the spelling of each kind of package; all pure."""

import re

_PARTS = re.compile(r"(?P<release>\d+(?:\.\d+)*)(?:(?P<kind>a|b|rc|\.dev|\.post)(?P<number>\d+))?")
_BEFORE = {"a": "alpha", "b": "beta", "rc": "rc", ".dev": "dev"}


def _parse(version: str) -> tuple[str, str, str]:
    found = _PARTS.fullmatch(version)
    if not found:
        raise ValueError(f"{version} is not a version that packages can have: 1.2.3, 1.2.3rc1, 1.2.3.dev1, 1.2.3.post1")
    return found["release"], found["kind"] or "", found["number"] or ""


def format_debian(version: str, release: int) -> str:
    """For a release of Debian; what comes before a version sorts before it, and a newer Debian's is the newer one."""
    number, kind, count = _parse(version)
    mark = "+post" if kind == ".post" else f"~{_BEFORE[kind]}" if kind else ""
    return f"{number}{mark}{count}+deb{release}"


def format_semantic(version: str) -> str:
    """For a Helm chart."""
    number, kind, count = _parse(version)
    number = ".".join([*number.split("."), "0", "0"][:3])
    return f"{number}+post.{count}" if kind == ".post" else f"{number}-{_BEFORE[kind]}.{count}" if kind else number
