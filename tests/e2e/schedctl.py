"""schedctl in the guest, as its user types it."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.machine import Machine
from lab.process import Result
from lab.schedctl import FOLDER, PYTHON, install_schedctl
from lab.waiting import NotYetError, wait_for
from tests.documents import missing, undocumented
from tests.e2e.conftest import watch
from tests.e2e.runtimes import REGISTRY

CATALOG = "/root/catalog.json"
POLL_SECONDS = 0.5  # each look costs the guest a shell
SECONDS = 600.0  # the guest is emulated, and others may use the host
SETTINGS = f"SCHEDCTL_CATALOG={CATALOG} SCHEDCTL_ALLOW_UNSIGNED=1"
# Calls guest_schedctl.py, which has imported schedctl: a start that imports costs two seconds and more here.
SERVER = f"{FOLDER}/guest_schedctl.py"
CALLS = "/run/schedctl-calls"
QUICK = f"{CALLS}/schedctl"
CALLER = f"""\
#!/bin/sh
mkfifo {CALLS}/$$ && exec 3<>{CALLS}/$$ && echo $$ >{CALLS}/callers && read -r code <&3
rm {CALLS}/$$
exit "$code"
"""


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
        machine.guest.write(QUICK, CALLER.encode(), mode=0o755)
        machine.guest.put(Path(__file__).with_name("guest_schedctl.py"), SERVER)
        machine.run(f"mkfifo {CALLS}/callers; setsid {PYTHON} {SERVER} {CALLS} >{CALLS}/log 2>&1 </dev/null &")
        return cls(machine)

    def line(self, words: str) -> str:
        """The shell's command line; `words` as one would type them after schedctl."""
        command, _, rest = words.partition(" ")
        patience = "--timeout 120 " if command in ("run", "switch") and "--timeout" not in words else ""
        return f"{SETTINGS} schedctl --driver {self.driver} {command} {patience}{rest}"

    def run(self, words: str, *, code: int = 0) -> Result:
        """Run it and expect an exit code. All the code is schedctl's own; only its start is cut short (see QUICK)."""
        line = self.line(words).replace(" schedctl ", f" {QUICK} ", 1)
        result = self.machine.run(line, check=False, timeout=SECONDS)
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
        output, _, code = self._wait_for(log, r"ended\ [0-9]+").rpartition("ended ")
        return int(code), output

    def wait_for_word(self, log: str, word: str) -> None:
        self._wait_for(log, shlex.quote(word))

    def _wait_for(self, log: str, pattern: str) -> str:
        """What a log says once it says this."""
        look = f"said=; {{ IFS= read -rd '' said <{log}; }} 2>/dev/null"
        said = watch(self.machine, look, f"[[ $said =~ {pattern} ]]", "$said", SECONDS)
        assert said.code == 0, f"{log} never said {pattern}:\n{said.stdout}"
        return said.stdout

    def _find_process(self, words: str) -> int:
        last = shlex.split(words)[-1]

        def probe() -> int:
            found = self.machine.run(f"pgrep -f 'import main; main.* {last}$' || true").stdout.split()
            if not found:
                raise NotYetError("no such process")
            return int(found[-1])

        return wait_for("schedctl to start", probe, SECONDS, interval=POLL_SECONDS)
