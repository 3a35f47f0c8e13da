"""Runs in the guest: verbs of schedkit.host against the real kernel and real runtimes, their outcomes as JSON.

Each verb has a process of its own, forked from one that has imported everything, as the guest is slow.

`--kill-at STEP` has such a process SIGKILL itself when the lifecycle tells of a step that begins so, `--interrupt-at
STEP` press Ctrl-C: what can happen at any moment, at a moment that the test chooses.
"""

import argparse
import json
import os
import signal
import sys
import traceback
from typing import Any

from schedkit.errors import SchedkitError
from schedkit.host import model
from schedkit.host.detaching import end_foreign, find_foreign
from schedkit.host.machine import Machine
from schedkit.host.run import check_run, run
from schedkit.host.status import read_status
from schedkit.host.stop import stop, stop_all
from schedkit.host.switch import switch
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry
from schedkit.runtimes import containerd
from schedkit.runtimes.container import Container
from schedkit.runtimes.drivers import find_runtimes

MACHINE = Machine()
IMPORTED_BEFORE_FORKING = (containerd,)


class Talk:
    """Tells stderr; at a chosen step, ends or interrupts us."""

    def __init__(self, kill_at: str, interrupt_at: str) -> None:
        self._ends = {kill_at: signal.SIGKILL, interrupt_at: signal.SIGINT}

    def step(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        for start, number in self._ends.items():
            if start and text.startswith(start):
                os.kill(os.getpid(), number)

    def progress(self, done: int, total: int) -> None:
        pass

    def warn(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Play the command lines on stdin, one after the other, each in a child of its own."""
    outcomes = []
    for words in json.load(sys.stdin):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w") as answer:
                json.dump(attempt(words), answer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            said = answer.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        outcomes.append(json.loads(said) if status == 0 and said else {"error": "Died", "code": status})
    print(json.dumps(outcomes))


def attempt(words: list[str]) -> dict[str, Any]:
    """One verb; what it returns or raises."""
    try:
        return perform(parse(words))
    except SchedkitError as error:
        log = list(getattr(error, "log", ()))
        said = {"error": error.reason, "code": int(error.exit_code), "message": error.message, "hint": error.hint}
        return {**said, "log": log}
    except KeyboardInterrupt:
        return {"error": "Interrupted"}
    except BaseException:
        return {"error": "Traceback", "message": traceback.format_exc()}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["run", "switch", "stop", "stop-all", "status", "detach"])
    parser.add_argument("target", nargs="?")
    parser.add_argument("args", nargs="*")
    parser.add_argument("--driver", default="podman")
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--restart", default="no")
    parser.add_argument("--no-wait", action="store_true")
    parser.add_argument("--kill-at", default="")
    parser.add_argument("--interrupt-at", default="")
    return parser.parse_args(words)


def perform(options: argparse.Namespace) -> dict[str, Any]:
    talk = Talk(options.kill_at, options.interrupt_at)
    # Patiently: a loaded machine may take longer to respond than a command line wants to wait for it.
    runtimes = find_runtimes(options.driver, seconds=60)
    host = model.Host(MACHINE, runtimes, talk)
    if options.verb == "status":
        status = read_status(MACHINE, runtimes)
        return {
            "summary": status.summary.value,
            "explanation": status.explanation,
            "remedy": status.remedy,
            "managed": [describe(one.container) | {"attached": one.attachment.value} for one in status.managed],
        }
    if options.verb == "detach":
        foreign = find_foreign(host)
        after = end_foreign(host, foreign).after
        return {"told": foreign.describe(), "state": str(after.state)}
    if options.verb == "stop-all":
        return {"stopped": [one.container.name for one in stop_all(host)[0]]}
    if options.verb == "stop":
        stopped = stop(host, options.target, timeout=options.timeout)
        return describe(stopped.container) | {"killed": stopped.killed, "was_attached": stopped.was_attached}
    image = Registry().fetch_image(parse_reference(f"localhost:5000/{options.target}"))
    request = model.RunRequest(
        image=image,
        scheduler=image.source.path.rpartition("/")[2],
        args=tuple(options.args),
        restart=model.parse_restart(options.restart),
        timeout=options.timeout,
        wait=not options.no_wait,
    )
    if options.verb == "run":
        check_run(host, request.scheduler)
        attached = run(host, request, lambda _: "unsigned-allowed")
        return describe(attached.container) | {"ops": attached.ops, "seconds": attached.seconds}
    switched = switch(host, request, lambda _: "unsigned-allowed")
    return describe(switched.attached.container) | {
        "ops": switched.attached.ops,
        "seconds": switched.attached.seconds,
        "gap": switched.gap,
        "replaced": switched.replaced and switched.replaced.name,
    }


def describe(container: Container) -> dict[str, Any]:
    """What tests ask about a container."""
    return {"driver": container.driver, "name": container.name, "id": container.id, "state": str(container.state)}


main()
