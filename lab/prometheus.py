"""Prometheus and promtool as Debian has them, on loopback: what scrapes sked and judges its rules."""

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from lab.debian import unpacked
from lab.errors import LabError
from lab.process import Daemon, Result
from lab.store import Store
from lab.waiting import NotYetError, wait_for

PROMETHEUS = unpacked("prometheus", "prometheus", "promtool", series="2.", seconds=15, adds_mb=180, peak_mb=420)
START_SECONDS = 60.0
COMMAND_SECONDS = 120.0
STARTING = 503  # what it answers until it is ready
Json = dict[str, Any]


def run_promtool(store: Store, *arguments: str | Path) -> Result:
    """Run promtool, however that ends."""
    store.ensure(PROMETHEUS)
    program = store.path(PROMETHEUS) / "bin/promtool"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS)
    return Result(done.stdout, done.stderr, done.returncode)


class Prometheus:
    """A Prometheus with all it keeps in one folder, for as long as the block runs."""

    def __init__(self, store: Store, folder: Path, configuration: Json) -> None:
        self._store = store
        self._folder = folder
        self._configuration = configuration
        self._ending = ExitStack()
        self._daemon = Daemon("prometheus", folder)
        self.url = ""

    def __enter__(self) -> Self:
        self._store.ensure(PROMETHEUS)
        self._folder.mkdir(parents=True, exist_ok=True)
        configuration = self._folder / "prometheus.yaml"
        configuration.write_text(json.dumps(self._configuration))  # JSON is YAML
        options = {
            "config.file": configuration,
            "storage.tsdb.path": self._folder / "data",
            "web.listen-address": "127.0.0.1:0",
        }
        with ExitStack() as started:
            started.callback(self._daemon.stop)
            words = [f"--{name}={value}" for name, value in options.items()]
            self._daemon.start([self._store.path(PROMETHEUS) / "bin/prometheus", *words])
            self.url = wait_for("Prometheus to listen", self._find_url, START_SECONDS, interval=0.05)
            wait_for("Prometheus to be ready", lambda: self.ask("status/runtimeinfo"), START_SECONDS, interval=0.05)
            self._ending = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def ask(self, path: str, **parameters: str | list[str]) -> Any:
        """What its API answers at a path; LabError with its own words where it refuses."""
        self._daemon.check()
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:  # noqa: S310
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            kind = NotYetError if error.code == STARTING else LabError
            raise kind(f"{path} {parameters}: {error.read().decode()}") from error
        except OSError as error:
            raise NotYetError(f"{path}: {error}") from error

    def query(self, expression: str) -> list[Json]:
        """The samples of an expression now."""
        found: list[Json] = self.ask("query", query=expression)["result"]
        return found

    def _find_url(self) -> str:
        self._daemon.check()
        found = re.search(
            r'msg="Listening on" address=(127\.0\.0\.1:\d+)', self._daemon.log.read_text(errors="replace")
        )
        return f"http://{found[1]}" if found else ""
