"""The agent's own process. `sked agent` becomes this one once it has read its flags, and leaves click behind."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from schedkit.errors import UsageError, run_at_edge
from schedkit.sked.agent.api import SERVICE_ACCOUNT, find_api_server
from schedkit.sked.agent.loop import FETCH_SECONDS, LOOK_SECONDS, Agent, AgentSettings
from schedkit.sked.kube.addresses import parse_address
from schedkit.sked.kube.logs import configure


def become_agent(flags: Mapping[str, str]) -> NoReturn:
    """Replace this process by one that has loaded nothing but the agent: it saves a third of the memory."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [f"--{name}={value}" for name, value in flags.items()]
    os.execve(sys.executable, [sys.executable, "-P", "-s", "-m", "schedkit.sked.agent", *words], environment)


def main(words: Sequence[str]) -> int:
    """Run the agent with flags as `become_agent` gives them, until SIGTERM."""
    flags = {}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals:
            raise UsageError(f"unexpected argument {word!r}", hint="run it as: sked agent")
        flags[name] = value
    configure(level=flags.get("log-level", "info"), format="json" if flags.get("log-format") == "json" else "text")
    settings = AgentSettings(
        node=flags["node-name"],
        server=find_api_server(os.environ, Path(flags.get("service-account", SERVICE_ACCOUNT))),
        health=parse_address(flags.get("health-probe-bind-address", "0")),
        metrics=parse_address(flags.get("metrics-bind-address", "0")),
        look_seconds=float(flags.get("look-seconds", LOOK_SECONDS)),
        fetch_seconds=float(flags.get("fetch-seconds", FETCH_SECONDS)),
        root=Path(flags.get("root", "/")),
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the first process of a container is not ended without this
    Agent(settings).run()
    return 0


if __name__ == "__main__":
    sys.exit(run_at_edge(lambda: main(sys.argv[1:]), name="sked", debug=bool(os.environ.get("SCHEDKIT_DEBUG"))))
