"""containerd in each series that schedctl speaks to, run on this host out of the engines' room."""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lab.debian import unpacked
from lab.engines import ROOM
from lab.errors import LabError
from lab.process import Daemon
from lab.rooms import enter
from lab.store import Artefact, Store
from lab.waiting import wait_for

START_SECONDS = 30.0
# What would else be shared with a containerd that this host has for itself, or is of no use here.
CONFIG = """\
version = 2
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.nri.v1.nri"]
disable = true
"""


def _unpack(suite: str, series: str) -> Artefact:
    """The containerd of another release of Debian."""
    return unpacked(
        f"containerd-{series}",
        "containerd",
        programs=("containerd", "containerd-shim-runc-v2", "ctr"),
        suite=suite,
        series=f"{series}.",
        seconds=10,
        adds_mb=90,
        peak_mb=250,
    )


PROGRAMS = {"1.6": _unpack("bookworm", "1.6"), "2.1": _unpack("forky", "2.1")}
SERIES = ("1.6", "1.7", "2.1")  # 1.7 is the room's own, as the machine has it


@dataclass(frozen=True)
class LabContainerd:
    """A containerd of this host's with all it keeps in one folder, its mounts seen by nobody else."""

    store: Store
    folder: Path
    series: str

    @classmethod
    def start(cls, store: Store, folder: Path, series: str) -> Self:
        """Have one run that answers."""
        store.ensure(ROOM, *([PROGRAMS[series]] if series in PROGRAMS else []))
        (folder / "run").mkdir(parents=True, exist_ok=True)
        made = cls(store, folder, series)
        made.resume()
        return made

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def scx_folder(self) -> Path:
        """A folder for schedulers' statistics that is not this host's."""
        return self.folder / "scx"

    @property
    def log(self) -> Path:
        return self._daemon.log

    def resume(self) -> None:
        """Start the daemon, also after `pause`: it finds its containers again."""
        (self.folder / "config.toml").write_text(CONFIG.format(folder=self.folder))
        places = [
            ("--root", "root"),
            ("--state", "state"),
            ("--address", self.socket.name),
            ("--config", "config.toml"),
        ]
        options = [word for option, name in places for word in (option, str(self.folder / name))]
        self._daemon.start(self._enter("containerd", *options))
        wait_for("containerd to answer", self._answers, START_SECONDS, interval=0.05)

    def pause(self) -> None:
        """End the daemon, not its containers."""
        self._daemon.stop()

    def kill(self) -> None:
        """End the daemon without giving it time for anything."""
        self._daemon.kill()

    def hang(self) -> None:
        """Have the daemon answer nothing, until `go_on`."""
        self._daemon.hang()

    def go_on(self) -> None:
        """End a `hang`."""
        self._daemon.go_on()

    def ctr(self, *arguments: str, namespace: str = "schedkit") -> str:
        """What ctr prints."""
        command = ["ctr", "--address", str(self.socket), "--namespace", namespace, *arguments]
        done = subprocess.run(self._enter(*command), capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise LabError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def stop(self) -> None:
        """End the daemon and all containers."""
        with suppress(LabError):
            for task in self.ctr("tasks", "ls", "-q").split():
                with suppress(LabError):
                    self.ctr("tasks", "rm", "--force", task)
        self._daemon.stop()
        for shim in self._find_shims():
            with suppress(ProcessLookupError):
                os.kill(shim, signal.SIGKILL)

    @property
    def _daemon(self) -> Daemon:
        return Daemon("containerd", self.folder)

    def _enter(self, *command: str) -> list[str]:
        """The command line that runs a command in the room; what it is told of this host's paths is true there."""
        binds = {self.folder: str(self.folder), self.folder / "run": "/run"}  # shims' sockets lie in /run
        if self.series in PROGRAMS:
            binds[self.store.path(PROGRAMS[self.series]) / "bin"] = "/usr/local/bin"
        return enter(self.store.path(ROOM), command, binds=binds, own_pids=False)

    def _answers(self) -> bool:
        self._daemon.check()
        with suppress(LabError):
            self.ctr("version")
            return True
        return False

    def _find_shims(self) -> list[int]:
        """Shims of this containerd, by the socket they were told."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"shim" in words[0] and str(self.socket).encode() in words:
                    found.append(int(entry.name))
        return found
