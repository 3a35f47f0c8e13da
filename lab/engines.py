"""podman and docker as the lab's machine has them, run on this host out of a room."""

import hashlib
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lab.errors import LabError
from lab.paths import FILES
from lab.process import Daemon
from lab.rooms import OWN_MOUNTS, PATH, enter, room
from lab.store import Artefact, Store
from lab.waiting import wait_for

ROOM: Artefact = room(
    "room-engines",
    ["podman", "crun", "conmon", "netavark", "catatonit", "docker.io", "docker-cli", "containerd", "runc"],
    intermediate=False,
    seconds=15,
    adds_mb=600,
    peak_mb=700,
)
START_SECONDS = 30.0
ROOM_DAEMON, SERVICE_DAEMON = "engine-room", "engine-service"
# What runs for as long as the room is open, and what starts and ends within it.
BELOW = {"podman": "sleep infinity", "docker": "containerd"}
SERVICES = {
    "podman": "podman system service --time 0 unix:///run/podman/podman.sock",
    # The lab's containers have no network, so this host's is left as it is.
    "docker": "dockerd --containerd /run/containerd/containerd.sock --bridge none"
    " --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false",
}
SOCKETS = {"podman": "run/podman/podman.sock", "docker": "run/docker.sock"}
VERSIONS = {"podman": ("--remote", "version"), "docker": ("version",)}  # what they tell if their service answers
STORAGE = {"podman": "/var/lib/containers/storage", "docker": "/var/lib/docker"}
LAYERS = {"podman": "overlay", "docker": "overlay2"}
# Beside what the machine's say: a limit is refused where this host's cgroups have no controller for it.
PODMAN_CONF = "[containers]\npids_limit = 0\n"
# What it writes beside its storage goes to its folder, not into the room.
OWN_ROOT = 'mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"; shift 2; exec "$@"'
# Locks of its own (podman's lie in /dev/shm), cgroups of version 2, as the machine has them whatever this host has, and
# everything that the engine starts below one cgroup.
OPEN_ROOM = """\
set -e
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/"$1"
echo $$ >/sys/fs/cgroup/"$1"/cgroup.procs
exec unshare --cgroup sh -ec '
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir /sys/fs/cgroup/engine
  echo $$ >/sys/fs/cgroup/engine/cgroup.procs
  touch /run/ready
  exec $1' sh "$2"
"""
JOIN_CGROUP = 'echo $$ >/sys/fs/cgroup/engine/cgroup.procs; exec "$@"'
END_CGROUP = """\
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /sys/fs/cgroup/"$1" 2>/dev/null || exit 0
echo 1 >cgroup.kill
while grep -q 'populated 1' cgroup.events; do sleep 0.02; done
cd ..
find "$1" -depth -type d -exec rmdir {} +
"""


@dataclass(frozen=True)
class LabEngine:
    """An engine of this host's with all it keeps in one folder, its mounts and cgroups seen by nobody else."""

    store: Store
    folder: Path
    driver: str

    @classmethod
    def start(cls, store: Store, folder: Path, driver: str) -> Self:
        """Have one run that answers."""
        store.ensure(ROOM)
        made = cls(store, folder, driver)
        try:
            made._open_room()
            made.resume()
        except BaseException:
            made.stop()
            raise
        return made

    @property
    def socket(self) -> Path:
        return self.folder / SOCKETS[self.driver]

    @property
    def scx_folder(self) -> Path:
        """A folder for schedulers' statistics that both this host and the engine see at this path."""
        return self.folder / "shared/scx"

    @property
    def layers(self) -> Path:
        """Where the engine keeps the layers of images and containers."""
        return self.folder / "storage" / LAYERS[self.driver]

    def resume(self) -> None:
        """Start the engine's service, also after `kill`: it finds its containers again."""
        self._service.start(self._enter(*SERVICES[self.driver].split()))
        wait_for(f"{self.driver} to answer", self._answers, START_SECONDS, interval=0.05)

    def kill(self) -> None:
        """End the service without giving it time for anything; containers stay."""
        self._service.kill()

    def hang(self) -> None:
        """Have the service answer nothing, until `go_on`."""
        self._service.hang()

    def go_on(self) -> None:
        """End a `hang`."""
        self._service.go_on()

    def run(self, *arguments: str) -> str:
        """What the engine's own command line prints."""
        command = [self.driver, *arguments]
        done = subprocess.run(self._enter(*command), capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise LabError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def stop(self) -> None:
        """End the service, all containers, and whatever else it started."""
        end_engine(self.folder)

    @property
    def _room(self) -> Daemon:
        return Daemon(ROOM_DAEMON, self.folder)

    @property
    def _service(self) -> Daemon:
        return Daemon(SERVICE_DAEMON, self.folder)

    def _open_room(self) -> None:
        """Have a process whose mounts and cgroup the service and its command line share, however often they start."""
        for name in ("upper", "work", "root", "run/podman", "storage", "shared"):
            (self.folder / name).mkdir(parents=True)
        self._configure(self.folder / "upper/etc")
        binds = {
            self.folder / "run": "/run",
            self.folder / "storage": STORAGE[self.driver],
            self.folder / "shared": str(self.folder / "shared"),
        }
        first = ["sh", "-c", OPEN_ROOM, "sh", name_cgroup(self.folder), BELOW[self.driver]]
        inside = enter(self.folder / "root", first, binds=binds, own_pids=False)
        places = [str(self.store.path(ROOM)), str(self.folder)]
        self._room.start([*OWN_MOUNTS, "sh", "-ec", OWN_ROOT, "sh", *places, *inside])
        wait_for("the engine's room", self._is_open, START_SECONDS, interval=0.02)

    def _configure(self, etc: Path) -> None:
        for name in ("containers", "docker"):
            shutil.copytree(FILES / "node/etc" / name, etc / name)
        (etc / "containers/containers.conf.d").mkdir()
        (etc / "containers/containers.conf.d/host.conf").write_text(PODMAN_CONF)

    def _is_open(self) -> bool:
        self._room.check()
        return (self.folder / "run/ready").exists()

    def _enter(self, *command: str) -> list[str]:
        """The command line that runs a command in the room; it keeps the process id of what runs this line."""
        pid = self._room.pid()
        if pid is None:
            raise LabError(f"{self.driver} does not run")
        clean = ["/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root"]
        namespaces = ["--mount", "--cgroup", "--root", "--wd"]
        return ["nsenter", "--target", str(pid), *namespaces, *clean, "sh", "-ec", JOIN_CGROUP, "sh", *command]

    def _answers(self) -> bool:
        self._service.check()
        with suppress(LabError):
            self.run(*VERSIONS[self.driver])
            return True
        return False


def end_engine(folder: Path) -> None:
    """End all that was started for the engine in a folder, whoever started it."""
    Daemon(ROOM_DAEMON, folder).kill()  # first: while it opens the room it makes the cgroup
    command = [*OWN_MOUNTS, "sh", "-ec", END_CGROUP, "sh", name_cgroup(folder)]
    subprocess.run(command, check=True, timeout=START_SECONDS)
    Daemon(SERVICE_DAEMON, folder).stop()


def find_engines(folder: Path) -> list[Path]:
    """The folders of the engines right below a folder; deeper lie their containers' files."""
    return [found.parent for found in folder.glob(f"*/{ROOM_DAEMON}.pid")]


def name_cgroup(folder: Path) -> str:
    """The cgroup below which all lies that the engine in a folder starts."""
    return f"schedkit-lab-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
