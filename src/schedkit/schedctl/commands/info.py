"""`schedctl info`: what an image says of itself, and whether this kernel meets it."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from schedkit.errors import NoAnswerError, UnavailableError, clean
from schedkit.kernel.check import Check, Outcome
from schedkit.runtimes.labels import MIN_KERNEL
from schedkit.schedctl.completing import complete_scheduler
from schedkit.schedctl.modes import find_modes
from schedkit.schedctl.options import Command, output_option, pass_session, version_option
from schedkit.schedctl.output import Json, Output, format_bytes, plain
from schedkit.schedctl.session import ResolvedName, Session
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.images.catalog_document import CatalogEntry
    from schedkit.images.image import Image

PREFIX = "org.opencontainers.image."
INDENT = 16  # of what is said, beside what it is about
SHOWN = ("title", "description", "documentation", "source", "version")
Modes = Mapping[str, tuple[str, ...]]


class Info(NamedTuple):
    """An image, and what stands between it and this kernel."""

    scheduler: str
    image: "Image"
    obstacles: tuple[Check, ...]
    modes: Modes

    @property
    def labels(self) -> Mapping[str, str]:
        return self.image.labels

    @property
    def fits(self) -> bool | None:
        """Whether this kernel can run it; None where that is not known, or a warning says that it may not."""
        if any(check.outcome is Outcome.ERROR for check in self.obstacles):
            return False
        return None if self.obstacles else True


@click.command(
    cls=Command,
    short_help="Show what an image is, and whether this kernel can run it.",
    epilog="""
    schedctl info scx_rusty
    schedctl info scx_rusty --version v1.1.0
    schedctl info ghcr.io/example/my_scheduler:edge -o json
    """,
)
@click.argument("name", metavar="NAME|IMAGE", shell_complete=complete_scheduler)
@version_option
@output_option
@pass_session
def command(session: Session, name: str, version: str | None) -> None:
    """Show what an image is (its labels, size and platforms), and whether this kernel can run it.

    If the registry cannot be reached, what the catalog says about NAME is shown; in JSON, the rest is unknown.
    """
    named = session.find(name, version)
    try:
        info = _gather(session, named)
    except (UnavailableError, NoAnswerError) as error:
        why, entry = error.message, None if "/" in name else session.catalog.find_entry(name)
        if entry:
            modes = find_modes(session, named.scheduler)
            session.output.show(
                lambda: _entry_fields(named, entry, modes, why),
                lambda: _describe_entry(named, entry, modes, session.output),
            )
        raise
    session.output.show(lambda: _fields(info), lambda: _text(info, session.output))


def _entry_fields(named: ResolvedName, entry: "CatalogEntry", modes: Modes, why: str) -> Json:
    """What the catalog alone says, for JSON: every other field is unknown."""
    from schedkit.schedctl.schema import FIELDS

    unknown = dict.fromkeys((path.partition(".")[0] for path in FIELDS["info"]), plain(Unknown(why)))
    return {
        **unknown,
        "scheduler": named.scheduler,
        "image": str(named.reference),
        "description": entry.description or None,
        "modes": {mode: list(flags) for mode, flags in sorted(modes.items())},
        "image_ref": str(named.reference),
    }


def _describe_entry(named: ResolvedName, entry: "CatalogEntry", modes: Modes, output: Output) -> str:
    """What the catalog alone says, where the registry cannot be asked."""
    rows = [("scheduler", named.scheduler), ("image", str(named.reference)), ("description", entry.description or "-")]
    rows += [("good for", entry.good_for)] if entry.good_for else []
    rows += _mode_rows(modes)
    lines = [f"{title:{INDENT}}{clean(value)}" for title, value in rows]
    return "\n".join(part for line in lines for part in output.fill(line, INDENT))


def _mode_rows(modes: Modes) -> list[tuple[str, str]]:
    titles = ("modes", *[""] * len(modes))
    return [
        (title, f"{mode:12}{shlex.join(flags)}".rstrip())
        for title, (mode, flags) in zip(titles, sorted(modes.items()), strict=False)
    ]


def _gather(session: Session, named: ResolvedName) -> Info:
    from schedkit.kernel.preflight import OLDEST_KERNEL, check_kfuncs, find_obstacles

    image = session.fetch_image(named)
    root, wanted = session.machine.root, image.labels.get(MIN_KERNEL)
    found = find_obstacles(root, min_version=wanted or OLDEST_KERNEL)
    if not wanted and not any(check.name == "kernel.version" for check in found):
        found.insert(0, Check("kernel.version", Outcome.UNKNOWN, "the image does not say which kernel it needs"))
    if not any(check.name == "kernel.btf" for check in found):
        found += [check for check in [check_kfuncs(root)] if check.outcome is not Outcome.OK]
    return Info(named.scheduler, image, tuple(found), find_modes(session, named.scheduler))


def _fields(info: Info) -> Json:
    image = info.image
    return {
        "scheduler": info.scheduler,
        "image": image.reference,
        "digest": image.digest,
        "manifest": image.manifest.digest,
        **{name: info.labels.get(PREFIX + name) for name in SHOWN if name != "version"},
        "image_version": info.labels.get(f"{PREFIX}version"),  # `version` is the schema's
        "kernel_min_version": info.labels.get(MIN_KERNEL),
        "size": image.size,
        "platform": str(image.platform),
        "platforms": [str(platform) for platform in image.platforms],
        "labels": dict(info.labels),
        "modes": {mode: list(flags) for mode, flags in sorted(info.modes.items())},
        # As the Go schedctl called them, for scripts that read those.
        "image_ref": image.reference,
        "created": image.created or None,
        "architecture": image.platform.architecture,
        "kernel": {
            "fits": info.fits,
            "obstacles": [
                {
                    "id": check.name,
                    "outcome": check.outcome.value,
                    "detail": check.seen,
                    "remediation": check.fix or None,
                }
                for check in info.obstacles
            ],
        },
    }


def _text(info: Info, output: Output) -> str:
    image = info.image
    rows = [("scheduler", info.scheduler), ("image", image.reference), ("digest", image.digest)]
    rows += [(name, info.labels.get(PREFIX + name, "-")) for name in SHOWN]
    rows += [
        ("size", f"{format_bytes(image.size)} to pull"),
        ("platforms", ", ".join(str(platform) for platform in image.platforms) or str(image.platform)),
        ("kernel", f"{info.labels[MIN_KERNEL]} or later" if info.labels.get(MIN_KERNEL) else "not stated"),
    ]
    verdict, mood = {
        True: ("yes", "good"),
        False: ("no", "bad"),
        None: ("unknown", "doubtful"),
    }[info.fits]
    rows += _mode_rows(info.modes)
    lines = [f"{name:16}{clean(value)}" for name, value in rows]
    lines.append(f"{'runs here':16}{output.paint(verdict, mood)}")
    lines += [f"{'':16}{check.name}: {check.seen}{f' ({check.fix})' if check.fix else ''}" for check in info.obstacles]
    return "\n".join(part for line in lines for part in output.fill(line, INDENT))
