"""What the room `kernel` says, beside what the kernel, the runtimes and bpftool say: in the guest, on both kernels."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.machine import Machine
from lab.schedctl import FOLDER, install_schedctl
from schedkit.kernel.check import ESSENTIAL
from tests.e2e.conftest import FIXTURES, Slot, read_slot, start_fixture, wait_attached, wait_detached
from tests.e2e.runtimes import run_by_hand
from tests.e2e.test_host import play, put_script

on_both_kernels = pytest.mark.parametrize("machine", ["6.12", "newest"], indirect=True, scope="module")

START_FIFO = f"setsid {FIXTURES}/scx_fifo-v1 >/dev/null 2>&1 </dev/null &"
END_FIFO = "pkill -x scx_fifo-v1"
PROLOGUE = """
import json, select, subprocess, sys
from schedkit.kernel.changes import Changes
from schedkit.kernel.detach import Way, detach, find_way
from schedkit.kernel.holder import Holder, read_holder
from schedkit.kernel.log import KernelLog
from schedkit.kernel.preflight import examine_kernel, examine_node, find_obstacles
from schedkit.kernel.state import State, read_state
from schedkit.kernel.stats import fetch_stats
from schedkit.unknown import Unknown

def shell(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)

def plain(value):
    if hasattr(value, "_asdict"):
        return plain(value._asdict()) | {"is": type(value).__name__}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value

def say(**answers):
    json.dump(plain(answers), sys.stdout)

def is_attached(state):
    return state.attached is True

def is_free(state):
    return state.state is State.DISABLED
"""


@pytest.fixture(scope="module", autouse=True)
def source(machine: Machine) -> None:
    install_schedctl(machine)


@pytest.fixture(autouse=True)
def free_slot(machine: Machine) -> Iterator[None]:
    """Leave the next test a machine without containers, whatever happened in this one."""
    yield
    machine.run("podman rm -f -a -t 0; pkill -KILL scx_ || true; rm -rf /sys/fs/bpf/kept", timeout=120)
    wait_detached(machine)


def ask(machine: Machine, code: str, *, user: str = "") -> Any:
    """Run code beside the kernel; what it says."""
    machine.guest.write(f"{FOLDER}/ask.py", (PROLOGUE + code).encode())
    return json.loads(machine.run(f"{user} env PYTHONPATH={FOLDER}/source python3 {FOLDER}/ask.py", timeout=300).stdout)


# With one runtime: test_schedctl.py has the others.
@on_both_kernels
def test_holder_is_the_process_in_the_runtimes_container(machine: Machine) -> None:
    # Without a network of its own a container starts in a fraction of the time.
    run_by_hand(machine, "scx_fifo:v1", "fifo", "--network host")
    wait_attached(machine, "schedkit_fifo")

    said = ask(machine, "say(state=read_state(), holder=read_holder(), way=find_way())")

    container, pid = machine.run("podman inspect -f '{{.Id}} {{.State.Pid}}' fifo").stdout.split()
    link = json.loads(machine.run("bpftool -j link show").stdout)[-1]["id"]
    assert said["holder"] == {
        "is": "Holder",
        "pid": int(pid),
        "command": "scx_fifo",
        "link": link,
        "container": container,
        "pod": None,
        "driver": "podman",
        "unit": None,
    }
    assert said["way"] == {"is": "Way", "text": f"detach BPF link {link}", "link": link}
    assert (said["state"]["state"], said["state"]["ops"]) == ("enabled", "schedkit_fifo")
    assert said["state"]["enable_seq"] == int(machine.run("cat /sys/kernel/sched_ext/enable_seq").stdout)
    has_events = machine.run("test -e /sys/kernel/sched_ext/root/events", check=False).code == 0
    assert (said["state"]["events"] is not None) == has_events
    machine.run("podman stop -t 10 fifo")
    wait_detached(machine)


@on_both_kernels
def test_changes_come_as_events_when_a_scheduler_attaches_and_leaves(machine: Machine) -> None:
    said = ask(
        machine,
        f"""
with Changes() as changes, KernelLog() as log:
    before = read_state()
    shell("{START_FIFO}")
    attached = changes.wait_until(lambda state: is_attached(state) and state.enable_seq > before.enable_seq, 60)
    changes.wait(0)  # takes what was announced so far
    shell("{END_FIFO}")
    announced = select.select([changes], [], [], 60)[0] != []
    free = changes.wait_until(is_free, 60)
    say(before=before, attached=attached, announced=announced, free=free, ejection=log.read_ejection(),
        holder=read_holder(), way=find_way())
""",
    )

    assert said["attached"]["enable_seq"] == said["before"]["enable_seq"] + 1
    assert said["announced"]
    assert (said["free"]["state"], said["free"]["ops"], said["holder"]) == ("disabled", None, None)
    assert said["way"] == {"is": "Unknown", "why": "no scheduler is attached"}
    assert said["ejection"]["reason"] == "unregistered from user space"


@on_both_kernels
def test_kernel_log_tells_a_stall_from_an_order_to_leave(machine: Machine) -> None:
    said = ask(
        machine,
        f"""
with Changes() as changes, KernelLog() as log:
    silent = log.read_ejection()
    subprocess.run("{FIXTURES}/scx_stall-v1 1", shell=True, capture_output=True)
    changes.wait_until(is_free, 60)
    stall = log.read_ejection()
    shell("{START_FIFO}")
    changes.wait_until(is_attached, 60)
    detach(Way("SysRq S"))
    changes.wait_until(is_free, 60)
    order = log.read_ejection()
    say(silent=silent, stall=stall, stall_is_fault=stall.is_fault, order=order, order_is_fault=order.is_fault,
        lines=log.read_lines())
""",
    )

    assert said["silent"] is None
    assert (said["stall"]["ops"], said["stall"]["reason"]) == ("schedkit_stall", "runnable task stall")
    assert "failed to run for" in said["stall"]["details"][0]
    assert said["stall_is_fault"]
    assert said["order"] == {
        "is": "Ejection",
        "ops": "schedkit_fifo",
        "reason": "disabled by sysrq-S",
        "details": [],
    }
    assert not said["order_is_fault"]
    assert 'sched_ext: BPF scheduler "schedkit_stall" enabled' in said["lines"]


@on_both_kernels
def test_detach_ends_a_scheduler_whose_link_is_pinned_and_whose_process_is_gone(machine: Machine) -> None:
    start_fixture(machine, "scx_fifo-v1")
    wait_attached(machine, "schedkit_fifo")
    link = json.loads(machine.run("bpftool -j link show").stdout)[-1]["id"]
    machine.run("mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf")
    machine.run(f"bpftool link pin id {link} /sys/fs/bpf/kept && {END_FIFO}")
    assert read_slot(machine) == Slot("enabled", "schedkit_fifo")

    said = ask(
        machine,
        """
holder, way = read_holder(), find_way()
with Changes() as changes:
    detach(way)
    say(holder=holder, way=way, after=changes.wait_until(is_free, 60))
""",
    )

    assert said["holder"] is None
    assert said["way"]["link"] == link
    assert said["after"]["state"] == "disabled"
    assert read_slot(machine) == Slot("disabled", "")


@on_both_kernels
def test_link_that_an_ended_scheduler_still_has_open_is_not_taken_for_the_attached_one(machine: Machine) -> None:
    first = start_fixture(machine, "scx_fifo-v1")
    wait_attached(machine, "schedkit_fifo")
    # Stopped, it cannot notice that the kernel ended it, and keeps its link.
    machine.run(f"kill -STOP {first}; echo S > /proc/sysrq-trigger")
    wait_detached(machine)
    again = start_fixture(machine, "scx_fifo-v1")
    wait_attached(machine, "schedkit_fifo")

    said = ask(machine, "say(holder=read_holder(), way=find_way())")

    assert len(json.loads(machine.run("bpftool -j link show").stdout)) == 2
    assert said["holder"]["pid"] == again
    assert said["way"]["link"] == said["holder"]["link"]


@on_both_kernels
def test_user_without_rights_gets_the_state_and_unknown_for_the_rest(machine: Machine) -> None:
    machine.run("echo 1 > /proc/sys/kernel/dmesg_restrict")
    start_fixture(machine, "scx_fifo-v1")
    wait_attached(machine, "schedkit_fifo")

    said = ask(
        machine,
        """
with KernelLog() as log, Changes() as changes:
    say(state=read_state(), holder=read_holder(), way=find_way(), lines=log.read_lines(),
        seen=changes.wait_until(is_attached, 1).ops,
        checks={check.name: check.outcome for check in examine_kernel()},
        node={check.name: check.outcome for check in examine_node()})
""",
        user="setpriv --reuid=65534 --regid=65534 --clear-groups",
    )

    assert said["state"]["ops"] == said["seen"] == "schedkit_fifo"
    assert said["holder"] == {"is": "Unknown", "why": "only root can ask the kernel for its BPF links"}
    assert said["way"]["is"] == "Unknown"
    assert "/proc/sysrq-trigger may not be written" in said["way"]["why"]
    assert said["lines"]["is"] == "Unknown"
    assert [said["checks"][f"caps.cap_{name}"] for name in ("bpf", "sys_admin", "perfmon")] == ["error"] * 3
    # What the node's agent looks at is as well known to a user without rights as to root.
    assert said["node"].items() <= said["checks"].items()
    assert [said["node"][name] for name in ESSENTIAL] == ["ok"] * len(ESSENTIAL)
    assert said["node"]["kernel.btf_kfuncs"] == ("ok" if machine.kernel.name == "6.12" else "warning")


@on_both_kernels
def test_real_scheduler_loads_exactly_where_preflight_calls_the_prototypes_sound(machine: Machine) -> None:
    said = ask(machine, "say(obstacles=find_obstacles(), checks={check.name: check for check in examine_kernel()})")
    checks = said["checks"]

    assert said["obstacles"] == []
    assert {check["name"] for check in checks.values() if check["outcome"] != "ok"} <= {
        "kernel.btf_kfuncs",
        "kernel.config",  # where the machine keeps none it is unknown
        "kernel.function_tracer",
    }
    assert not [check for check in checks.values() if check["outcome"] == "error"]
    assert (checks["kernel.btf_kfuncs"]["outcome"] == "ok") == (machine.kernel.name == "6.12")
    if checks["kernel.btf_kfuncs"]["outcome"] == "ok":
        machine.run(
            "mkdir -p /var/run/scx && podman run -q -d --privileged --pid host --network host"
            " -v /var/run/scx:/var/run/scx --name rusty localhost:5000/scx_rusty:latest",
            timeout=120,
        )
        wait_attached(machine, "rusty_")
        said = ask(machine, "say(stats=fetch_stats(timeout=20), holder=read_holder())")
        assert said["holder"]["command"] == "scx_rusty"
        assert "cpu_busy" in said["stats"]
        machine.run("podman rm -f rusty")
        assert ask(machine, "say(stats=fetch_stats())")["stats"] is None
    else:
        put_script(machine)
        refused, status = play(machine, "run scx_rusty:latest", "status")
        assert (refused["error"], refused["code"]) == ("Rejected", 11)
        assert "func_proto incompatible with vmlinux" in refused["message"]
        assert refused["hint"]
        assert (status["summary"], status["managed"]) == ("idle", [])
        logs = "\n".join(refused["log"]) + "\n"
        assert "func_proto [" in logs
        # It looks for them too, and finds the same.
        listed = logs.partition("malformed scx kfunc prototype(s): ")[2].partition(".\n")[0].split(", ")
        seen = checks["kernel.btf_kfuncs"]["seen"]
        assert seen.startswith(
            f"{len(listed)} scx_bpf_ functions have malformed prototypes ({', '.join(listed[:3])} …)"
        )
