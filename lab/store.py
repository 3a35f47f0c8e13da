"""The lab's cache folder: artefacts built once, keyed by what they are made from, never half there."""

import fcntl
import hashlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.building import AT_A_TIME, Commands, build_all
from lab.errors import BuildError, LabError, tail
from lab.progress import Progress, format_about, format_bytes
from schedkit.errors import NoSpaceError

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Artefact:
    """Something to build. Its key is a digest of `inputs` and of what it needs, so a change makes a new one."""

    name: str
    inputs: tuple[str, ...]
    build: Callable[["Build"], None]
    needs: tuple["Artefact", ...] = ()
    intermediate: bool = False  # deleted once everything made from it is there
    on_demand: bool = False  # not part of what makes the lab complete
    lane: str = ""  # of those with the same lane, one is built at a time
    # Measured, to say beforehand how long it will take and whether the disk will do:
    seconds: float = 1
    adds_mb: int = 0  # what is there afterwards, with what it downloaded
    peak_mb: int = 0  # what building it takes at most

    @cached_property
    def key(self) -> str:
        parts = [self.name, *self.inputs, *(need.key for need in self.needs)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @property
    def is_lasting(self) -> bool:
        """Whether a complete lab has it."""
        return not (self.intermediate or self.on_demand)

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.key}"


@dataclass(frozen=True)
class Build:
    """One build under way: where to write, where the needs are, how to run a command."""

    artefact: Artefact
    store: "Store"
    out: Path  # becomes the artefact when the build returns
    work: Path  # kept when a build is interrupted, so that it can go on; gone when it succeeds
    log: Path

    def need(self, artefact: Artefact) -> Path:
        """The folder of a finished need."""
        assert artefact in self.artefact.needs, f"{self.artefact.name} does not declare {artefact.name}"
        return self.store.path(artefact)

    def run(self, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> None:
        """Run a command with its output in the log; its whole process group ends with us."""
        with self.log.open("ab") as log:
            code = self.store.commands.run(argv, log, env)
        if code:
            raise BuildError(
                f"building {self.artefact.name} failed (exit status {code}):\n{tail(self.log)}",
                hint=f"the whole log is {self.log}",
            )


class Store:
    """The cache folder. `everything` is all the lab can make: it tells what is still an intermediate of something."""

    def __init__(self, root: Path, everything: Sequence[Artefact], progress: Progress) -> None:
        self.root = root
        self.everything = everything
        self.progress = progress
        self.downloads = root / "downloads"
        self.commands = Commands()
        self._times = threading.Lock()

    def path(self, artefact: Artefact) -> Path:
        """Where an artefact is, or will be."""
        return self.root / "artefacts" / artefact.folder

    def has(self, artefact: Artefact) -> bool:
        """Whether it is built: a folder gets its final name only when it is whole."""
        return self.path(artefact).is_dir()

    def plan(self, wanted: Iterable[Artefact]) -> list[Artefact]:
        """What must be built for `wanted`, needs first; a missing need of a finished artefact is not needed."""
        order: list[Artefact] = []

        def visit(artefact: Artefact) -> None:
            if self.has(artefact) or artefact in order:
                return
            for need in artefact.needs:
                visit(need)
            order.append(artefact)

        for artefact in wanted:
            visit(artefact)
        return order

    def ensure(self, *wanted: Artefact) -> None:
        """Have all of `wanted`, building what is missing. Safe to interrupt, safe in two processes at once."""
        if all(self.has(artefact) for artefact in wanted):
            return
        with self._lock():
            plan = self.plan(wanted)
            if plan:  # else another process has built it meanwhile
                self._announce(plan)
                self._check_disk(plan)
                self.downloads.mkdir(exist_ok=True)
                self.commands = Commands()
                expected = {artefact.name: self.seconds_expected(artefact) for artefact in plan}
                with self.progress.count(expected, at_a_time=AT_A_TIME):
                    build_all(plan, self._build, self.commands)
            self._drop_intermediates()

    def seconds_last_time(self, artefact: Artefact) -> float | None:
        """How long building it took when it was last built here; None when it never was."""
        seconds = self._read_times().get(artefact.name)
        return float(seconds) if isinstance(seconds, int | float) else None

    def seconds_expected(self, artefact: Artefact) -> float:
        """How long building it will take: as long as last time here, or else as it was measured elsewhere."""
        return self.seconds_last_time(artefact) or artefact.seconds

    def usage(self) -> dict[str, int]:
        """Bytes on disk: of each artefact by its folder's name, and of what else is in the cache."""
        parts = {entry.name: measure(entry) for entry in sorted((self.root / "artefacts").glob("*"))}
        others = ("work", "downloads", "run", "logs", "checked")
        return parts | {f"{name}/": measure(self.root / name) for name in others if (self.root / name).exists()}

    def prune(self, *, all_: bool) -> int:
        """Delete what is not current (or everything) and say how many bytes that freed."""
        with self._lock():
            before = measure(self.root)
            current = set() if all_ else {artefact.folder for artefact in self.everything}
            for folder in (self.root / "artefacts").glob("*"):
                if folder.name not in current:
                    remove_tree(folder)
            for name in ("work", "downloads", "logs", "checked"):
                remove_tree(self.root / name)
            if not all_:
                self._drop_intermediates()
            return before - measure(self.root)

    def _build(self, artefact: Artefact) -> None:
        work = self.root / "work" / artefact.folder
        out = work / "out"
        remove_tree(out)
        out.mkdir(parents=True)
        logs = self.root / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"{artefact.name}.log"
        log.unlink(missing_ok=True)
        log.touch()
        started = time.monotonic()
        with self.progress.step(artefact.name, expected=self.seconds_expected(artefact)):
            artefact.build(Build(artefact, self, out, work, log))
        final = self.path(artefact)
        final.parent.mkdir(exist_ok=True)
        out.rename(final)
        remove_tree(work)
        self._write_time(artefact, time.monotonic() - started)

    def _announce(self, plan: Sequence[Artefact]) -> None:
        seconds = [self.seconds_expected(artefact) for artefact in plan]
        about = format_about(max(sum(seconds) / AT_A_TIME, *seconds, 1))
        names = ", ".join(artefact.name for artefact in plan)
        self.progress.say(f"will build {len(plan)} in about {about}: {names}")

    def _check_disk(self, plan: Sequence[Artefact]) -> None:
        kept = peak = beside = 0
        for artefact in plan:
            takes = max(artefact.peak_mb, artefact.adds_mb)
            peak = max(peak, kept + takes + beside)
            beside = takes - artefact.adds_mb  # it may still be under way when the next one begins
            kept += artefact.adds_mb
        free = shutil.disk_usage(self.root).free
        self.progress.say(
            f"disk: needs up to {format_bytes(peak * MEGABYTE)} while building, {format_bytes(free)} free"
        )
        if free < peak * MEGABYTE:
            raise NoSpaceError(
                f"the lab needs {format_bytes(peak * MEGABYTE)} under {self.root} and {format_bytes(free)} is free",
                hint="free some disk, or set SCHEDKIT_LAB_DIR to a folder on a larger one",
            )

    def _drop_intermediates(self) -> None:
        """Delete intermediates that nothing missing needs any more, and the downloads with the last of them."""
        missing = [artefact for artefact in self.everything if artefact.is_lasting and not self.has(artefact)]
        still_needed = {need.folder for artefact in self.plan(missing) for need in artefact.needs}
        for artefact in self.everything:
            if artefact.intermediate and artefact.folder not in still_needed:
                remove_tree(self.path(artefact))
        if not missing:
            remove_tree(self.downloads)
            remove_tree(self.root / "work")

    def _read_times(self) -> dict[str, object]:
        try:
            times = json.loads((self.root / "times.json").read_text())
        except (OSError, ValueError):
            return {}  # only a convenience: without it no past times are told
        return times if isinstance(times, dict) else {}

    def _write_time(self, artefact: Artefact, seconds: float) -> None:
        with self._times:
            times = self._read_times() | {artefact.name: round(seconds, 1)}
            temporary = self.root / "times.json.new"
            temporary.write_text(json.dumps(times, indent=1, sort_keys=True) + "\n")
            temporary.replace(self.root / "times.json")

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.progress.say("another process is building in this cache; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def measure(path: Path) -> int:
    """Bytes that a file or a tree takes on disk (holes do not count, hard links count once)."""
    counted = subprocess.run(
        ["du", "-s", "--block-size=1", "--", str(path)], capture_output=True, text=True, check=False
    )
    # du complains of what vanished while it looked and still prints the sum.
    return int(counted.stdout.split()[0]) if counted.stdout else 0


def remove_tree(path: Path) -> None:
    """Delete a folder if it is there. Roots of Debian systems hold odd modes; rm knows them all."""
    if path.exists() or path.is_symlink():
        # Never across a mount: whatever is mounted there is not ours to delete.
        done = subprocess.run(
            ["rm", "-rf", "--one-file-system", "--", str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise LabError(f"cannot delete {path}: {said[-1] if said else ''}", hint=f"findmnt -R {path} shows mounts")
