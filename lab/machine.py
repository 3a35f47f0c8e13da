"""A disposable machine: a virtual one, with a real kernel, three container runtimes and a registry."""

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import qemu
from lab.addresses import release_address
from lab.disk import BLANK, DISK
from lab.errors import GuestError, LabError, tail
from lab.guest import Guest
from lab.kernels import OLDEST, Kernel, find_kernel
from lab.layers import FILE, LAYERS, Layer
from lab.process import Daemon, Result
from lab.progress import format_seconds
from lab.rooms import TOOLS
from lab.store import Artefact, Build, Store, remove_tree
from lab.waiting import NotYetError, wait_for

BOOT_SECONDS = 240.0  # generous: emulation on a busy host
RESUME_SECONDS = 180.0
REGISTRY_PORT = 5000
READY = "lab: ready"
STATE = "machine.json"
SCRIPT, SYSTEMD = "script", "systemd"  # pid 1: a small script of the lab's, quick to boot, or as distributions have it
INITS = (SCRIPT, SYSTEMD)


@dataclass(frozen=True)
class _State:
    """What another process needs to find this machine."""

    kernel: str
    init: str
    layers: list[str]
    registry_port: int


@dataclass(frozen=True)
class _Shape:
    """What a machine is made of."""

    kernel: Kernel
    accelerator: str
    init: str
    layers: tuple[Layer, ...]


class Machine:
    """A running machine, known by its folder. Its disk is an overlay: what happens in it is gone with the folder."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
        self.sockets = Path("/run/schedkit-lab") / digest  # paths of sockets must be short
        self._qemu = Daemon("qemu", folder)

    @classmethod
    def start(
        cls,
        store: Store,
        folder: Path,
        *,
        kernel: Kernel = OLDEST,
        init: str = SCRIPT,
        layers: Sequence[Layer] = LAYERS,
        from_snapshot: bool = True,
    ) -> "Machine":
        """Start a machine: resumed from a snapshot of it booted where that works, else booted, twice if need be."""
        store.ensure(TOOLS, DISK, kernel.artefact, *(layer.artefact for layer in layers))
        shape = _Shape(kernel, qemu.find_accelerator(store, kernel), init, tuple(layers))
        machine = cls(store, folder)
        if machine.alive():
            raise LabError(f"a machine runs already in {folder}")
        try:
            if not (from_snapshot and machine._resume_if_possible(shape)):
                machine._boot_or_retry(shape)
        except BaseException:
            machine.stop()
            raise
        return machine

    @property
    def kernel(self) -> Kernel:
        return find_kernel(self._read_state().kernel)

    @property
    def init(self) -> str:
        return self._read_state().init

    @property
    def layers(self) -> tuple[Layer, ...]:
        names = self._read_state().layers
        return tuple(layer for layer in LAYERS if layer.name in names)

    @property
    def guest(self) -> Guest:
        return Guest(self.folder / "ssh_config")

    @property
    def registry(self) -> str:
        """The address on this host of the registry that the guest knows as localhost:5000."""
        return f"127.0.0.1:{self._read_state().registry_port}"

    def run(
        self, command: str, *, check: bool = True, input: str | bytes | None = None, timeout: float = 60.0
    ) -> Result:
        """Run a shell command in the guest; if the machine is gone, say how it ended."""
        try:
            return self.guest.run(command, check=check, input=input, timeout=timeout)
        except GuestError as error:
            if not self.alive():
                raise LabError(f"the machine is gone; the end of its console:\n{self.console_tail()}") from error
            raise

    def console(self) -> str:
        """What the machine has said on its serial console, kept also after a crash."""
        return (self.folder / "console.log").read_text(errors="replace")

    def console_tail(self) -> str:
        return tail(self.folder / "console.log", 30)

    def monitor(self, timeout: float = 10.0) -> qemu.Monitor:
        """A connection to qemu's control socket."""
        return qemu.Monitor(self.sockets / "qmp", timeout)

    def alive(self) -> bool:
        """Whether qemu runs (the guest may still be dead inside: ask it)."""
        return self._qemu.alive()

    def started(self) -> bool:
        """Whether it runs and its start came to an end: one whose starter was killed half way is of no use."""
        return self.alive() and (self.folder / STATE).exists()

    def stop(self) -> None:
        """End the machine and keep its folder: console and disk can still be read. Fine when it has ended."""
        if (self.folder / "ssh_config").exists():
            self.guest.disconnect()
        self._qemu.stop()
        release_address(self.folder)
        remove_tree(self.sockets)

    def reboot(self) -> None:
        """Boot it again from its own disk: what was in memory is gone, and a node has to join again."""
        shape = _Shape(self.kernel, qemu.find_accelerator(self.store, self.kernel), self.init, self.layers)
        self.run("sync")
        self.guest.disconnect()
        self._qemu.stop()
        (self.folder / STATE).unlink()
        self._launch(shape)
        self._wait_booted(shape)

    def remove(self) -> None:
        """End the machine and delete its folder."""
        self.stop()
        remove_tree(self.folder)

    def _resume_if_possible(self, shape: _Shape) -> bool:
        snapshot = snapshot_of(shape.kernel, shape.accelerator, shape.init)
        started = time.monotonic()
        try:
            self.store.ensure(snapshot)
            self._resume(shape, self.store.path(snapshot))
        except LabError as error:
            self.store.progress.say(f"cannot resume a saved machine, booting one instead: {error.message}")
            self.stop()
            return False
        self.store.progress.say(
            f"machine ({shape.kernel.name}) resumed in {format_seconds(time.monotonic() - started)}"
        )
        return True

    def _boot_or_retry(self, shape: _Shape) -> None:
        try:
            self._boot(shape)
        except LabError as error:
            kept = self.store.root / "logs" / f"console-{self.folder.name}.log"
            kept.parent.mkdir(exist_ok=True)
            shutil.copyfile(self.folder / "console.log", kept)
            self.stop()
            self.store.progress.say(
                f"the machine did not boot, trying once more (console kept: {kept}): {error.message}"
            )
            self._boot(shape)

    def _boot(self, shape: _Shape) -> None:
        self._create_disk(self.store.path(DISK) / "disk.img", "raw")
        self._launch(shape)
        self._wait_booted(shape)

    def _wait_booted(self, shape: _Shape) -> None:
        with self.store.progress.step(f"booting a machine ({shape.kernel.name})"):
            wait_for("the machine to boot", self._is_ready, BOOT_SECONDS, interval=0.2)
        self._open_doors(shape)

    def _resume(self, shape: _Shape, snapshot: Path) -> None:
        self._create_disk(snapshot / "disk.qcow2", "qcow2")
        self._launch(shape, ["-incoming", "defer"])
        with self.monitor(RESUME_SECONDS) as monitor:
            monitor.execute("migrate-incoming", uri=f"exec:zstd -qdc {snapshot}/state.zst")
            monitor.wait_for_migration(RESUME_SECONDS)
            monitor.execute("cont")
        self._open_doors(shape, is_behind=True)

    def _is_ready(self) -> bool:
        self.store.commands.check()
        self._qemu.check()
        if READY not in self.console():
            raise NotYetError(f"the console says:\n{self.console_tail()}")
        return True

    def _open_doors(self, shape: _Shape, *, is_behind: bool = False) -> None:
        """Make the guest reachable and wait until it has taken a first command; from then on others can find it.

        The clock of one that was resumed stands where it was saved: it is behind.
        """
        with self.monitor() as monitor:
            ssh, registry = (monitor.forward("127.0.0.1", port) for port in (22, REGISTRY_PORT))
        Guest.configure(self.folder, self.sockets, port=ssh, key=self.store.path(DISK) / "key")

        def greet() -> bool:
            self._qemu.check()
            try:
                return self.guest.run("true", timeout=20).code == 0
            except GuestError as error:
                raise NotYetError(error.message) from error

        wait_for("the guest to respond", greet, RESUME_SECONDS)
        if is_behind:  # the first command may have taken long
            self.run(f"date -s @{time.time():.3f} >/dev/null")
        if shape.layers:
            self.run("; ".join(f"lab-layer {layer.name} {layer.device}" for layer in shape.layers))
        state = _State(shape.kernel.name, shape.init, [layer.name for layer in shape.layers], registry)
        (self.folder / STATE).write_text(json.dumps(asdict(state)))

    @property
    def _disk(self) -> Path:
        return self.folder / "disk.qcow2"

    def _create_disk(self, backing: Path, backing_format: str) -> None:
        """An empty overlay of a disk of the lab's."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for stale in (self._disk, self.folder / STATE):
            stale.unlink(missing_ok=True)
        create: list[str | Path] = [
            "qemu-img",
            "create",
            "-q",
            "-f",
            "qcow2",
            "-b",
            backing,
            "-F",
            backing_format,
            self._disk,
        ]
        subprocess.run(qemu.command(self.store, create, binds=[self.folder]), check=True)

    def _launch(self, shape: _Shape, extra: list[str] | None = None) -> None:
        self.sockets.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.sockets / "qmp").unlink(missing_ok=True)  # of a boot before
        (self.folder / "console.log").write_bytes(b"")  # on a busy host qemu makes it later than its control socket
        arguments = qemu.machine_arguments(self.store, shape.kernel, shape.accelerator, f"lab.init={shape.init}")
        arguments += ["-drive", f"file={self._disk},if=virtio,cache=unsafe,discard=unmap"]
        for layer in LAYERS:
            there = self.store.path(layer.artefact) / FILE if layer in shape.layers else self.store.path(DISK) / BLANK
            arguments += ["-drive", f"file={there},format=raw,if=virtio,readonly=on"]
        arguments += ["-netdev", f"user,id={qemu.NETWORK}"]
        arguments += ["-device", f"virtio-net-pci,netdev={qemu.NETWORK},romfile=", "-device", "virtio-rng-pci"]
        arguments += ["-serial", f"file:{self.folder}/console.log"]
        arguments += ["-qmp", f"unix:{self.sockets}/qmp,server=on,wait=off", *(extra or [])]
        self._qemu.start(qemu.command(self.store, arguments, binds=[self.folder, self.sockets]))
        wait_for("qemu to start", self._listens, 20)

    def _listens(self) -> bool:
        self._qemu.check()
        return (self.sockets / "qmp").exists()

    def _read_state(self) -> _State:
        try:
            return _State(**json.loads((self.folder / STATE).read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise LabError(f"no machine is known in {self.folder}", hint="python -m lab up") from error


def snapshot_of(kernel: Kernel, accelerator: str, init: str = SCRIPT) -> Artefact:
    """A booted machine, saved: its memory, and its disk as an overlay of the lab's."""

    def build(build: Build) -> None:
        machine = Machine(build.store, build.work / "machine")
        machine.stop()  # an interrupted build may have left it running
        try:
            machine._boot_or_retry(_Shape(kernel, accelerator, init, ()))
            machine.run("sync; echo 3 >/proc/sys/vm/drop_caches", timeout=120)
            machine.guest.disconnect()
            with machine.monitor(120) as monitor:
                monitor.execute("stop")
                monitor.execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
                monitor.execute("migrate", uri=f"exec:zstd -q1 -T2 >{build.out}/state.zst")
                monitor.wait_for_migration(120)
                monitor.execute("quit")
            wait_for("qemu to end", lambda: not machine.alive(), 20)
            shutil.move(machine.folder / "disk.qcow2", build.out / "disk.qcow2")
        finally:
            machine.remove()

    processor = " ".join(qemu.processor_arguments(accelerator))
    return Artefact(
        f"snapshot-{kernel.name}" + (f"-{init}" if init != SCRIPT else ""),
        (accelerator, processor, str(qemu.MEMORY_MB), qemu.APPEND, *(layer.device for layer in LAYERS)),
        build,
        needs=(TOOLS, DISK, kernel.artefact),
        on_demand=True,
        seconds=30,
        adds_mb=200,
        peak_mb=900,
    )
