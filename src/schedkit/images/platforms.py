"""Which of an index's manifests is for this machine."""

import os
from collections.abc import Sequence

from schedkit.images.documents import Annotated
from schedkit.images.image import Platform
from schedkit.images.oci import INDEXES

# The kernel's word for a machine, and Go's, which indexes use.
MACHINES = {
    "x86_64": ("amd64", ""),
    "aarch64": ("arm64", ""),
    "armv7l": ("arm", "v7"),
    "armv8l": ("arm", "v7"),
    "armv6l": ("arm", "v6"),
    "i386": ("386", ""),
    "i686": ("386", ""),
    "ppc64le": ("ppc64le", ""),
    "riscv64": ("riscv64", ""),
    "s390x": ("s390x", ""),
    "loongarch64": ("loong64", ""),
}
# What each platform runs beside itself, best first; `` is a manifest that names no variant.
VARIANTS = {
    ("amd64", ""): ("", "v1"),
    ("arm64", ""): ("v8", ""),
    ("arm64", "v8"): ("v8", ""),
    ("arm", "v7"): ("v7", "v6", "v5", ""),
    ("arm", "v6"): ("v6", "v5", ""),
}
ATTESTATION = "vnd.docker.reference.type"


def read_platform(machine: str | None = None) -> Platform:
    """This machine's, from what its kernel says."""
    machine = machine or os.uname().machine
    return Platform("linux", *MACHINES.get(machine, (machine, "")))


def choose(entries: Sequence[Annotated], wanted: Platform) -> Annotated | None:
    """The best entry for a platform. An entry that names none is taken when it is the only one."""
    images = [entry for entry in entries if not is_attestation(entry)]
    for variant in list_variants(wanted):
        for entry in images:
            if entry.platform == Platform(wanted.os, wanted.architecture, variant):
                return entry
    nested = [entry for entry in images if entry.platform is None and entry.media_type in INDEXES]
    if nested:
        return nested[0]
    return images[0] if len(images) == 1 and images[0].platform is None else None


def list_variants(wanted: Platform) -> tuple[str, ...]:
    """The variants that run on a platform, best first."""
    return VARIANTS.get((wanted.architecture, wanted.variant), (wanted.variant, ""))


def fits(offered: Platform, wanted: Platform) -> bool:
    """Whether an image that says it is for one platform runs on another."""
    same = (offered.os, offered.architecture) == (wanted.os, wanted.architecture)
    return same and offered.variant in list_variants(wanted)


def is_attestation(entry: Annotated) -> bool:
    """Whether this is about an image rather than an image: builders list these under unknown/unknown."""
    return ATTESTATION in entry.annotations or (entry.platform is not None and entry.platform.os == "unknown")
