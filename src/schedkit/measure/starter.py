"""Runs one command and tells what it took: the program of a process of its own, which imports next to nothing.

The kernel starts a process's peak memory at that of the process it was forked from. So the command is not started by
schedctl, which may be large by now, but from here. It must not import schedkit: it runs without its packages.
It reads an order from stdin and answers on stdout, both JSON. The command gets the environment that it has itself.
"""

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    order = json.load(sys.stdin)
    trouble, word = os.pipe()  # closed by a successful exec
    begun = time.monotonic()
    child = os.fork()
    if not child:
        become(order, word)
    os.close(word)
    failure = os.read(trouble, 4096)  # empty as soon as the command itself runs
    _, status, usage = os.wait4(child, 0)
    wall = time.monotonic() - begun
    answer = {
        "failure": failure.decode(errors="replace"),
        "exit_code": os.waitstatus_to_exitcode(status),
        "values": {
            "wall_seconds": wall,
            "user_seconds": usage.ru_utime,
            "system_seconds": usage.ru_stime,
            "voluntary_switches": usage.ru_nvcsw,
            "involuntary_switches": usage.ru_nivcsw,
            "minor_faults": usage.ru_minflt,
            "major_faults": usage.ru_majflt,
            "peak_memory_bytes": usage.ru_maxrss * 1024,
        },
    }
    sys.stdout.write(json.dumps(answer))


def become(order: "dict[str, Any]", word: int) -> None:
    """Turn into the command."""
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores for itself
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(order["output"], 1)
        os.dup2(order["output"], 2)
        if order["user"]:
            name, uid, gid = order["user"]
            os.initgroups(name, gid)
            os.setgid(gid)
            os.setuid(uid)
        os.execv(order["path"], order["command"])
    except BaseException as error:
        os.write(word, str(error).encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
