"""qemu: its command line, its control socket (QMP), and which accelerator really works here."""

import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.errors import LabError
from lab.kernels import Kernel
from lab.rooms import TOOLS, enter
from lab.store import Store

MEMORY_MB = 2560
# One thread for all virtual CPUs: with one each, the kernel's patching of its own code now and then goes wrong.
TCG = "tcg,thread=single,tb-size=512"
KVM = "kvm"
APPEND = "console=ttyS0 quiet panic=-1 mitigations=off apparmor=0 audit=0 random.trust_cpu=on"
PROBE_SECONDS = 20.0
NETWORK = "net0"


def command(store: Store, arguments: Sequence[str | Path], *, binds: Sequence[Path] = ()) -> list[str]:
    """The command line of a qemu program out of the lab's tools; the cache folder is visible to it."""
    shared = {path: str(path) for path in (store.root, *binds)}
    return enter(store.path(TOOLS), arguments, binds=shared, own_pids=False)


def processor_arguments(accelerator: str) -> list[str]:
    """One processor where it is emulated: several would only take turns in one thread, and wait for each other there.

    It must not call itself quick at copying single bytes, or Linux and libc copy so, which is what takes longest here.
    """
    return ["-cpu", "max", "-smp", "2"] if accelerator == KVM else ["-cpu", "max,erms=off,fsrm=off", "-smp", "1"]


def machine_arguments(store: Store, kernel: Kernel, accelerator: str, append: str) -> list[str | Path]:
    """A small PC: the processor, memory and kernel; the same for a boot and for resuming it."""
    files = store.path(kernel.artefact)
    base: list[str | Path] = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-accel", accelerator]
    base += [*processor_arguments(accelerator), "-m", str(MEMORY_MB)]
    base += ["-display", "none", "-no-reboot"]
    base += ["-kernel", files / "vmlinuz", "-append", f"{APPEND} {kernel.append} {append}"]
    return [*base, "-initrd", files / "initrd"] if kernel.initrd else base


def find_accelerator(store: Store, kernel: Kernel) -> str:
    """KVM if a kernel really boots with it (its device can be there and not work), else software emulation."""
    if not Path("/dev/kvm").exists():
        return TCG
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = store.root / "accelerator.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        cached = json.loads(known.read_text())
        if cached["boot_id"] == boot_id:
            return str(cached["accelerator"])
    store.ensure(TOOLS, kernel.artefact)
    accelerator = KVM if _boots_with_kvm(store, kernel) else TCG
    store.progress.say(f"accelerator: {'KVM' if accelerator == KVM else 'none that works, software emulation'}")
    known.write_text(json.dumps({"boot_id": boot_id, "accelerator": accelerator}))
    return accelerator


def _boots_with_kvm(store: Store, kernel: Kernel) -> bool:
    """A kernel without a disk gets as far as missing its root, panics, and qemu ends."""
    arguments = machine_arguments(store, replace(kernel, initrd=False), KVM, "root=/dev/vda")
    with subprocess.Popen(
        command(store, [*arguments, "-serial", "stdio"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout
        too_long = threading.Timer(PROBE_SECONDS, process.kill)
        too_long.start()
        try:
            for line in process.stdout:
                # Where KVM cannot go on, qemu says so and stands still.
                if b"Unable to mount root fs" in line or b"KVM internal error" in line:
                    return b"Unable to mount root fs" in line
        finally:
            too_long.cancel()
            process.kill()
    return False


class Monitor:
    """A connection to a running qemu's control socket."""

    def __init__(self, path: Path, timeout: float = 10.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise LabError(f"qemu does not respond on {path}: {error.strerror}") from error
        self._lines = self._socket.makefile("rb")
        self._read()  # its greeting
        self.execute("qmp_capabilities")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def execute(self, name: str, **arguments: object) -> Any:
        """One command and its answer."""
        self._socket.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = self._read()
            if "error" in answer:
                raise LabError(f"qemu refuses {name}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]

    def forward(self, address: str, guest_port: int, host_port: int = 0) -> int:
        """Let a port of the guest be reached at an address of this host; port 0 takes a free one and returns it."""
        before = self._forwards()
        if (address, host_port) in before:
            return host_port
        told = self._human(f"hostfwd_add {NETWORK} tcp:{address}:{host_port}-:{guest_port}")
        if told.strip():
            raise LabError(f"qemu cannot forward {address}:{host_port}: {told.strip()}")
        return (self._forwards() - before).pop()[1]

    def wait_for_migration(self, timeout: float) -> None:
        """Until saving or loading the machine's state has ended."""
        deadline = time.monotonic() + timeout
        while (state := self.execute("query-migrate").get("status")) != "completed":
            if state in ("failed", "cancelled") or time.monotonic() > deadline:
                raise LabError(f"qemu's state was not transferred: {state}")
            time.sleep(0.05)

    def _forwards(self) -> set[tuple[str, int]]:
        listed = self._human("info usernet")
        return {(found[1], int(found[2])) for found in re.finditer(r"HOST_FORWARD\]\s+\d+\s+(\S+)\s+(\d+)", listed)}

    def _human(self, line: str) -> str:
        return str(self.execute("human-monitor-command", **{"command-line": line}))

    def _read(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise LabError("qemu does not respond on its control socket") from error
        if not line:
            raise LabError("qemu closed its control socket")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer
