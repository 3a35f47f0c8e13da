"""Reports as agents write them, and pods as kubelets tell of them, at times counted in seconds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from schedkit.sked.controller.objects import Pod
from schedkit.sked.controller.reports import NodeReport, trim_report

ZERO = datetime(2026, 1, 1, 12, tzinfo=UTC)
BOOT = "4f3c2d1e-0000-4000-8000-000000000001"
IMAGE = "example.com/scx_rusty:1"
DIGEST = "example.com/scx_rusty@sha256:aa"
RUSTY = "rusty_1.1.4_x86_64_unknown_linux_gnu"
KFUNCS = {"check": "kernel.btf_kfuncs", "severity": "warning", "message": "9 functions have malformed prototypes"}
NO_BTF = {"check": "kernel.btf", "severity": "error", "message": "/sys/kernel/btf/vmlinux is not there"}


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    """A time as Kubernetes writes it: whole seconds."""
    return f"{at(int(seconds)):%Y-%m-%dT%H:%M:%SZ}"


def report_status(
    state: str = "disabled",
    ops: str = "",
    since: float | None = None,
    left: tuple[str, float] | None = None,
    problems: tuple[dict[str, str], ...] = (),
    supported: str = "True",
    boot: str = BOOT,
    seq: int = 1,
) -> dict[str, Any]:
    """What an agent writes; `left` is who left last, and when."""
    slot: dict[str, Any] = {"state": state, "enableSeq": seq}
    slot |= {"ops": ops} if ops else {}
    slot |= {"since": stamp(since)} if since is not None else {}
    status: dict[str, Any] = {
        "kernel": {"release": "6.12", "bootID": boot, "supported": supported, "problems": list(problems)},
        "slot": slot,
    }
    if left:
        status["lastDetach"] = {"ops": left[0], "time": stamp(left[1]), "enableSeq": seq}
    return status


def make_report(**seen: Any) -> NodeReport:
    return trim_report(msgspec.convert({"metadata": {"name": "node-1"}, "status": report_status(**seen)}, NodeReport))


def container_status(
    started: float | None = None, ended: tuple[float, float] | None = None, waiting: str = ""
) -> dict[str, Any]:
    """What a kubelet tells of a scheduler that runs since a time, and before that did from one time to another."""
    state: dict[str, Any] = {}
    if started is not None:
        state = {"running": {"startedAt": stamp(started)}}
    elif waiting:
        state = {"waiting": {"reason": waiting}}
    found: dict[str, Any] = {"name": "scx", "imageID": DIGEST, "state": state, "restartCount": 1 if ended else 0}
    if ended:
        finished = {"exitCode": 2, "reason": "Error", "startedAt": stamp(ended[0]), "finishedAt": stamp(ended[1])}
        found["lastState"] = {"terminated": finished}
        if not state:
            found["state"] = {"terminated": finished}
    return found


def make_scheduler(image: str = IMAGE, born: float = 0, going: bool = False, **life: Any) -> Pod:
    """A scheduler's pod."""
    metadata = {"name": "pod", "namespace": "default", "creationTimestamp": stamp(born)}
    metadata |= {"deletionTimestamp": stamp(born)} if going else {}
    status = {"containerStatuses": [container_status(**life)]} if life else {}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": "node-1", "containers": [{"image": image}]}, "status": status}, Pod
    )
