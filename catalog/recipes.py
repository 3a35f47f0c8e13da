"""How each scheduler of the catalog is built: what differs between the Containerfiles, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SCX = "https://github.com/sched-ext/scx"
GTHULHU = "https://github.com/Gthulhu/Gthulhu"


@dataclass(frozen=True)
class Recipe:
    """One scheduler."""

    version: str
    source: str = SCX
    documentation: str = ""  # empty: the scheduler's folder in scx
    kind: str = "crate"  # which template: crate, git (a crate that is not published), gthulhu, idle
    note: str = ""
    not_offered: Mapping[str, str] = field(default_factory=dict)  # modes that fail on the oldest kernel: what was seen


RECIPES = {
    "gthulhu": Recipe(
        "21618ac3fbdfa72d62f9e186260b6a965316151a",
        source=GTHULHU,
        documentation="https://gthulhu.org",
        kind="gthulhu",
        note="No package of it is published: it is built from a pinned commit of its repository.",
    ),
    "scx_beerland": Recipe("1.1.4"),
    "scx_bpfland": Recipe("1.1.4"),
    "scx_cosmos": Recipe(
        "1.1.7",
        not_offered={
            "powersave": "scx_cosmos attached, and the kernel ejected it (BPF error): scx_bpf_error:"
            " src/bpf/main.bpf.c:1824: failed to init non-primary cpumask: -22"
        },
    ),
    "scx_flash": Recipe("1.1.4"),
    "scx_flow": Recipe("4.8.15"),
    "scx_lavd": Recipe("1.1.4"),
    "scx_mitosis": Recipe(
        "1.1.3", kind="git", note="Its crate is not published: it is built from the tag of the scx repository."
    ),
    "scx_p2dq": Recipe("1.1.4"),
    "scx_pandemonium": Recipe("5.23.1"),
    "scx_rustland": Recipe("1.1.4"),
    "scx_rusty": Recipe("1.1.4"),
    "scx_test": Recipe(
        "1",
        source="https://github.com/schedkit",
        documentation="https://github.com/schedkit",
        kind="idle",
        note="No scheduler: it starts and never attaches. To try out pulling, starting and what happens then.",
    ),
    "scx_tickless": Recipe("1.1.4"),
}
