"""schedctl in the guest, as its user types it."""

import json
import shlex
from dataclasses import dataclass
from typing import Any

from lab.machine import Machine
from lab.process import Result
from lab.schedctl import install_schedctl
from lab.waiting import NotYetError, wait_for
from schedkit.schedctl.schema import missing, undocumented
from tests.e2e.runtimes import REGISTRY

CATALOG = "/root/catalog.json"
POLL_SECONDS = 0.5  # each look costs the guest a shell
SECONDS = 300.0  # the guest is emulated, and others may use the host
SETTINGS = f"SCHEDCTL_CATALOG={CATALOG} SCHEDCTL_ALLOW_UNSIGNED=1"


@dataclass(frozen=True)
class Schedctl:
    """One machine's; `driver` is said to every command."""

    machine: Machine
    driver: str = "auto"

    @classmethod
    def install(cls, machine: Machine) -> "Schedctl":
        install_schedctl(machine)
        names = ("scx_fifo", "scx_stall", "scx_reject", "scx_idle", "scx_stubborn", "scx_mortal")
        entries = {name: {"imageURI": f"{REGISTRY}/{name}:v1", "description": "a fixture"} for name in names}
        real = {name: {"imageURI": f"{REGISTRY}/{name}"} for name in ("scx_rusty", "scx_bpfland")}
        machine.guest.write(CATALOG, json.dumps(entries | real).encode())
        return cls(machine)

    def line(self, words: str) -> str:
        """The shell's command line; `words` as one would type them after schedctl."""
        command, _, rest = words.partition(" ")
        patience = "--timeout 120 " if command in ("run", "switch") and "--timeout" not in words else ""
        return f"{SETTINGS} schedctl --driver {self.driver} {command} {patience}{rest}"

    def run(self, words: str, *, code: int = 0) -> Result:
        """Run it and expect an exit code."""
        result = self.machine.run(self.line(words), check=False, timeout=SECONDS)
        assert result.code == code, f"schedctl {words}: {result.code}\n{result.stdout}\n{result.stderr}"
        return result

    def read(self, words: str, *, code: int = 0) -> Any:
        """Run it with -o json; what it prints must be what the documentation promises."""
        command, _, rest = words.partition(" -- ")
        document = json.loads(self.run(f"{command} -o json{f' -- {rest}' if rest else ''}", code=code).stdout)
        name = "catalog update" if words.startswith("catalog update") else words.split(maxsplit=1)[0]
        assert document["version"] == "1"
        assert undocumented(name, document) == []
        assert missing(name, document) == []
        return document

    def start(self, words: str, log: str) -> int:
        """Run it in the background, its output in `log`; returns its process id."""
        script = f'({self.line(words)} >{log} 2>&1; echo "ended $?" >>{log}) & echo started'
        # A shell that waits would keep ssh open; SIGINT is ignored in background jobs of a shell without job control.
        self.machine.run(f"setsid bash -mc {shlex.quote(script)} </dev/null >/dev/null 2>&1")
        return self._find_process(words)

    def wait_for_end(self, log: str) -> tuple[int, str]:
        """The exit code and the output of what was started."""

        def probe() -> tuple[int, str]:
            said = self.machine.run(f"cat {log}").stdout
            output, _, code = said.rpartition("ended ")
            if not code.strip().isdigit():
                raise NotYetError(said)
            return int(code), output

        return wait_for("schedctl to end", probe, SECONDS, interval=POLL_SECONDS)

    def wait_for_word(self, log: str, word: str) -> None:
        def probe() -> bool:
            said = self.machine.run(f"cat {log} 2>/dev/null || true").stdout
            if word not in said:
                raise NotYetError(said)
            return True

        wait_for(f"schedctl to say {word!r}", probe, SECONDS, interval=POLL_SECONDS)

    def _find_process(self, words: str) -> int:
        last = shlex.split(words)[-1]

        def probe() -> int:
            found = self.machine.run(f"pgrep -f 'import main; main.* {last}$' || true").stdout.split()
            if not found:
                raise NotYetError("no such process")
            return int(found[-1])

        return wait_for("schedctl to start", probe, SECONDS, interval=POLL_SECONDS)
