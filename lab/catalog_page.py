"""docs/schedctl/schedulers.md: what `make catalog-check` found, as a page. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_HEAD = """\
# Schedulers

<!-- Written by `make catalog-check` from what it measured: change catalog/, then run that. -->

Test results for the schedulers in the catalog. Each scheduler is compiled from its published crate, packaged with its
[Containerfile](../../catalog/README.md), and run with `schedctl run` on Linux {kernel}, in {machine}.

- **Image** is the size to pull: the program and the shared libraries that it needs. The lab compiles the programs
  without optimisation and uses no Debian base image, so the size of a published image differs.
- **Attaches in** is the time from the container's start until the kernel has attached the scheduler.{slow}
- **Modes** are flags for a purpose: `schedctl run NAME --mode gaming`; `schedctl info NAME` shows them.{tried}
"""
_SLOW = (
    " In an emulated\n  machine everything takes many times as long, and even longer if the host is busy: use it for"
    " rough comparison only."
)
_TRIED = " Each mode was\n  tested."
_NOT_ALL_TRIED = " They were\n  tested, except where it says *not tried*."


class Checked(NamedTuple):
    """What became of one scheduler; what was not found out is None, and `why` says why."""

    name: str
    version: str
    good_for: str
    modes: tuple[str, ...] = ()
    size: int | None = None  # bytes to pull
    seconds: float | None = None  # to attach
    why: str = ""
    kernel: str = ""  # on which it was tried
    modes_tried: bool = True
    not_offered: Mapping[str, str] = {}  # modes that the catalog leaves out: what was seen

    @property
    def has_failed(self) -> bool:
        """Whether it was tried, and something did not work."""
        return bool(self.why) and (self.size is not None or self.why.startswith("it does not build"))

    def describe(self) -> str:
        """In a line."""
        if self.seconds is None:
            return self.why
        return f"attached after {self.seconds:.1f} s{f'; {self.why}' if self.why else ''}"


def render(checked: Sequence[Checked], *, emulated: bool, left_out: Sequence[str]) -> str:
    """The page."""
    head = _HEAD.format(
        kernel=", ".join(sorted({one.kernel for one in checked if one.size is not None})) or "6.12",
        machine="an emulated machine with one CPU" if emulated else "a virtual machine with two CPUs",
        slow=_SLOW if emulated else "",
        tried=_TRIED if all(one.modes_tried or not one.modes for one in checked) else _NOT_ALL_TRIED,
    )
    rows = [
        "| name | version | good for | modes | image | attaches in |",
        "|---|---|---|---|---|---|",
        *(_row(one) for one in checked if one.seconds is not None),
    ]
    parts = [head, "\n".join(rows)]
    problems = [
        f"- **{one.name}** {one.version[:12]}: {_sentence(why)}" for one in checked for why in _list_problems(one)
    ]
    if problems:
        parts.append("## What did not work, or was not tested\n\n" + "\n".join(problems))
    if left_out:
        parts.append(f"Not tried in this run: {', '.join(left_out)}.")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _row(one: Checked) -> str:
    size = "-" if one.size is None else f"{one.size / 1e6:.1f} MB"
    modes = ", ".join(one.modes) + ("" if one.modes_tried else " (*not tried*)") if one.modes else "-"
    if one.not_offered:
        modes += f" (not {', '.join(one.not_offered)}: see below)"
    cells = (one.name, one.version, one.good_for or "-", modes, size, f"{one.seconds:.1f} s")
    return f"| {' | '.join(cells)} |"


def _list_problems(one: Checked) -> list[str]:
    missing = [f"mode {mode} is not offered: {seen}" for mode, seen in one.not_offered.items()]
    return [*([one.why] if one.why else []), *missing]


def _sentence(why: str) -> str:
    return why if why.endswith(".") else f"{why}."
