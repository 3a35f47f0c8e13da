"""Does schedctl take over from the real scx_loader, and give back? `make peer-check` tries it.

scx_loader is compiled from its crate and runs under systemd, with D-Bus and polkit, on a machine whose kernel has
sched_ext; the schedulers that it starts are those of the images. Each claim is a function; the first that does not hold
ends the run.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import click

from lab import paths, rooms
from lab.catalogue import open_store
from lab.errors import LabError
from lab.host import check_host
from lab.layers import SCHEDULERS
from lab.machine import SYSTEMD, Machine
from lab.process import Result
from lab.schedctl import REAL, REGISTRY, SETTINGS, furnish
from lab.schedulers import SOURCES, read_texts, write_cargo_settings
from lab.session import remove_run, run_folder, sweep
from lab.signing import COSIGNS
from lab.stage import Stage
from lab.store import Artefact, Build, Store
from lab.waiting import NotYetError, wait_for
from schedkit.cli import run_program
from schedkit.host.loader import BUILT_IN, BUILT_IN_VERSION, LOADER, LOADER_FILES, MODES

CRATES = {"scx_loader": BUILT_IN_VERSION, "scxctl": BUILT_IN_VERSION}
FILES = SOURCES / "scx_loader"
SCRIPT = paths.RECIPES / "peer.sh"
SECONDS = 300.0
SCX = "/sys/kernel/sched_ext"
BUS = "org.scx.Loader /org/scx/Loader org.scx.Loader"
CONFIG = f"/{LOADER_FILES[0]}"
# A mode whose flags scx_loader has built in, and one whose flags the file names.
UNNAMED = """\
default_sched = "scx_bpfland"
default_mode = "Server"
"""
NAMED = """\
default_sched = "scx_bpfland"
default_mode = "LowLatency"

[scheds.scx_bpfland]
lowlatency_mode = ["-s", "5000", "-w"]

[scheds.scx_lavd]
gaming_mode = ["--performance"]
"""
NAMED_MODES = "scx_bpfland.lowlatency -s 5000 -w\nscx_lavd.gaming --performance\n"
NAMED_FLAGS = ("-s", "5000", "-w")
REJECTED = f"{SETTINGS}/rejected.json"


def _build(build: Build) -> None:
    write_cargo_settings(build.store)
    wanted = " ".join(f"{name}@{version}" for name, version in CRATES.items())
    rooms.run_script(build, build.need(rooms.COMPILE), SCRIPT, binds={FILES: "/peer"}, env={"CRATES": wanted})


# root/: what a machine with scx_loader has beyond its disk.
PEER = Artefact(
    "peer",
    (*CRATES, *CRATES.values(), *read_texts(SCRIPT, FILES)),
    _build,
    needs=(rooms.COMPILE,),
    on_demand=True,
    seconds=120,
    adds_mb=30,
    peak_mb=900,
)


class Peer:
    """A machine with schedctl and scx_loader, which does not run yet."""

    def __init__(self, store: Store, folder: Path) -> None:
        store.ensure(PEER, COSIGNS["v2"])
        self._machine = Machine.start(store, folder / "machine", init=SYSTEMD, layers=(SCHEDULERS,))
        self._stage = Stage(self._machine)
        furnish(store, self._machine, folder, real=True)
        machine = self._machine
        machine.guest.put(store.path(PEER) / "root", "/")
        for name in REAL:  # on the host itself, where scx_loader starts them
            image, mounted = f"{REGISTRY}/{name}:latest", f"/run/image-{name}"
            pull = f"ctr -n peer images pull --plain-http {image} >&2 && mkdir {mounted}"
            take = f"ctr -n peer images mount {image} {mounted} >&2 && cp {mounted}/usr/bin/{name} /usr/bin"
            machine.run(f"{pull} && {take} && ctr -n peer images unmount --rm {mounted} >&2", timeout=SECONDS)
        # Podman, which starts on demand and slowly here, is not what this is about.
        stop = "systemctl disable --now podman.socket; rm -f /run/podman/podman.sock"
        machine.run(f"{stop}; systemd-sysusers && systemctl daemon-reload && systemctl reload dbus", timeout=SECONDS)

    def say(self, text: str) -> None:
        self._stage.say(text)

    def run(self, command: str, *, check: bool = True) -> Result:
        return self._machine.run(command, check=check, timeout=SECONDS)

    def type(self, command: str) -> str:
        """Type a command and show what it prints, all of which is returned."""
        done = self.run(f"({command}) 2>&1", check=False)
        self._stage.show("machine#", command, done.stdout + (f"exit code {done.code}" if done.code else ""))
        return done.stdout

    def read(self, words: str) -> Any:
        """What schedctl says, as JSON."""
        return json.loads(self.run(f"schedctl {words} -o json", check=False).stdout)

    def configure(self, text: str) -> None:
        """Have scx_loader start this at boot, and now."""
        self._machine.guest.write(CONFIG, text.encode())
        self.type(f"cat {CONFIG}")
        self.type(f"systemctl enable {LOADER} && systemctl restart {LOADER}")

    def read_slot(self) -> str:
        """The attached scheduler's name, without its version; empty when there is none."""
        said = self.run(f"cat {SCX}/state {SCX}/root/ops 2>/dev/null || true").stdout.split()
        return said[1].split("_")[0] if said[:1] == ["enabled"] else ""

    def wait_for_slot(self, name: str) -> None:
        def probe() -> bool:
            now = self.read_slot()
            if now != name:
                journal = self.run("journalctl -n 20 -o cat --no-pager").stdout
                raise NotYetError(f"{now or 'no scheduler'}; {journal}")
            return True

        wait_for(f"the kernel to say {name or 'none'}", probe, SECONDS, interval=1)

    def read_flags(self) -> tuple[str, ...]:
        """The arguments of the process that holds the slot, as the kernel has them."""
        pid = self.read("status")["holder"]["pid"]
        return tuple(self.run(f"cat /proc/{pid}/cmdline").stdout.rstrip("\0").split("\0")[1:])

    def ask(self, unit: str) -> tuple[str, str]:
        """Whether a unit runs, and whether it starts at boot."""
        said = self.run(f"systemctl is-active {unit}; systemctl is-enabled {unit}; true").stdout.split()
        return said[0], said[1]

    def reboot(self) -> None:
        self.say("The machine boots again.")
        self._machine.reboot()


def expect(what: str, seen: object, wanted: object) -> None:
    """Tell a claim that holds; one that does not is an error."""
    if seen != wanted:
        raise LabError(f"{what}: {seen!r}, and not {wanted!r}")
    click.echo(f"  ok: {what}: {seen!r}")


def expect_in(what: str, wanted: str, seen: str) -> None:
    if wanted not in seen:
        raise LabError(f"{what}: no {wanted!r} in:\n{seen}")
    click.echo(f"  ok: {what}: {wanted!r}")


def check_built_in_flags(peer: Peer) -> None:
    """The table in schedctl is scx_loader's, for every scheduler that it supports and every mode."""
    peer.say("scx_loader's own flags are those that schedctl knows.")
    names = peer.run(f"busctl -j get-property {BUS} SupportedSchedulers").stdout
    for name in json.loads(names)["data"]:
        said = json.loads(peer.run(f"busctl -j call {BUS} SchedulerModeArgs s {name}").stdout)["data"][0]
        own = {MODES[number]: flags for number, flags in said}
        known = {mode: list(BUILT_IN.get(name, {}).get(mode, ())) for mode in MODES}
        expect(name, own, known)


def check_seen(peer: Peer) -> None:
    """Doctor warns and names the command; status tells whose the scheduler is."""
    peer.say("scx_loader has started scx_bpfland; schedctl sees both.")
    peer.wait_for_slot("bpfland")
    managers = next(one for one in peer.read("doctor")["checks"] if one["id"] == "kernel.managers")
    peer.type("schedctl doctor | grep -A2 kernel.managers")
    expect("doctor", managers["outcome"], "warning")
    expect("what it sees", managers["detail"], f"running: scx_loader; enabled at boot: {LOADER}")
    expect_in("what it advises", "schedctl import scx_loader", managers["remediation"])
    told = peer.type("schedctl status")
    expect("status", peer.read("status")["status"], "orphaned-kernel-state")
    expect_in("whose it is", LOADER, told)


def check_import(peer: Peer, flags: tuple[str, ...]) -> None:
    """The same scheduler with the same flags, from the image, under schedctl's unit."""
    peer.say(f"schedctl takes over scx_bpfland with {' '.join(flags)}.")
    expect("flags of scx_loader's", peer.read_flags(), flags)
    command = shlex.join(["schedctl", "enable", "scx_bpfland", "--", *flags])
    dry_run = "--driver containerd import scx_loader --dry-run"
    peer.type(f"schedctl {dry_run}")
    planned = peer.read(dry_run)
    expect("what a dry run says", planned["command"], command)
    expect("its second step", planned["steps"][1], f"stop and disable {LOADER}")
    expect("scx_loader after it", peer.ask(LOADER), ("active", "enabled"))
    peer.type("schedctl --driver containerd import scx_loader")
    check_taken_over(peer, flags)


def check_taken_over(peer: Peer, flags: tuple[str, ...]) -> None:
    peer.wait_for_slot("bpfland")
    expect("scx_loader", peer.ask(LOADER), ("inactive", "disabled"))
    wait_for("its unit to run", lambda: peer.ask("schedkit.service") == ("active", "enabled"), SECONDS, interval=1)
    expect("schedkit", peer.ask("schedkit.service"), ("active", "enabled"))
    expect("flags of the container's", peer.read_flags(), flags)
    status = peer.read("status")
    expect("status", (status["status"], status["enabled"]["scheduler"]), ("running", "scx_bpfland"))
    peer.type("schedctl status")
    expect_in("doctor", "no other manager", peer.type("schedctl doctor | grep -A2 kernel.managers"))


def check_activation(peer: Peer) -> None:
    """A client of scx_loader starts it through D-Bus though it is disabled; the slot stays with schedctl."""
    peer.say("A client asks scx_loader, which D-Bus starts.")
    before = peer.run(f"cat {SCX}/enable_seq").stdout
    peer.type("scxctl get")
    expect("scx_loader", peer.ask(LOADER), ("active", "disabled"))
    journal = f"journalctl -b -u {LOADER} -o cat --no-pager"
    wait_for("it to give up", lambda: "attempt 5/5" in peer.run(journal).stdout, SECONDS, interval=2)
    peer.type(f"{journal} | tail -n 3")
    check = peer.type("schedctl doctor | grep -A2 kernel.managers")
    expect_in("doctor", "running: scx_loader", check)
    expect("status", peer.read("status")["status"], "running")
    peer.type("schedctl --driver containerd import scx_loader")  # as doctor advises
    expect("scx_loader", peer.ask(LOADER), ("inactive", "disabled"))
    expect("status", peer.read("status")["status"], "running")
    expect("it is the same as before", peer.run(f"cat {SCX}/enable_seq").stdout, before)
    peer.type(f"systemctl mask {LOADER}")
    peer.type("scxctl get")
    expect("scx_loader", peer.ask(LOADER), ("inactive", "masked"))
    peer.type(f"systemctl unmask {LOADER}")


def check_way_back(peer: Peer, catalog: str) -> None:
    """Where the image does not attach, scx_loader and its scheduler are back."""
    peer.say("The image of that name is one that the kernel refuses.")
    entries = json.loads(peer.run(f"cat {catalog}").stdout)
    entries["scx_bpfland"] = entries["scx_reject"]
    peer.run(f"cat >{REJECTED} <<'END'\n{json.dumps(entries)}\nEND")
    before = peer.run(f"cat {SCX}/enable_seq").stdout
    told = peer.type(f"schedctl --driver containerd import scx_loader --catalog {REJECTED}")
    expect_in("its words", "error:", told)
    peer.wait_for_slot("bpfland")
    expect("scx_loader", peer.ask(LOADER), ("active", "enabled"))
    expect("it was stopped in between", peer.run(f"cat {SCX}/enable_seq").stdout != before, True)
    expect("enabled", peer.read("status")["enabled"], None)


def check_all(store: Store, folder: Path) -> None:
    """All claims, in an order in which each finds the machine as it needs it."""
    peer = Peer(store, folder)
    peer.configure(UNNAMED)
    check_built_in_flags(peer)
    check_seen(peer)
    check_way_back(peer, f"{SETTINGS}/catalog.json")
    own = BUILT_IN["scx_bpfland"]["server"]
    check_import(peer, own)
    peer.reboot()
    check_taken_over(peer, own)
    check_activation(peer)
    peer.say("schedctl disables its own, and scx_loader is enabled again, with flags in its file.")
    peer.type("schedctl disable")
    peer.configure(NAMED)
    peer.wait_for_slot("bpfland")
    check_import(peer, NAMED_FLAGS)
    expect("flags of --mode", peer.type("schedctl config get modes"), NAMED_MODES)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def peer_check() -> None:
    """Try `schedctl import scx_loader` and what belongs to it against the real scx_loader, on kernel 6.12."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "peer")
    try:
        check_all(store, folder)
    finally:
        remove_run(store, folder)


if __name__ == "__main__":
    run_program(peer_check, "make peer-check")
