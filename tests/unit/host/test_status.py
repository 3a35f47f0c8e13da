"""The six values and unknown, from joined values; tests/e2e/test_host.py makes most of them come true in a machine."""

import pytest

from schedkit.errors import ExitCode, NoPermissionError, UnavailableError
from schedkit.host.managed import observe
from schedkit.host.model import Attachment, Summary
from schedkit.host.status import read_status
from schedkit.kernel.holder import Holder
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.labels import Label
from schedkit.runtimes.view import Runtimes, UnreachableRuntime
from schedkit.unknown import Unknown
from tests.unit.host.fakes import World

HIDDEN = UnreachableRuntime("docker", "/run/docker.sock", "no response within 10 s", absent=False)
ABSENT = UnreachableRuntime("docker", "/run/docker.sock", "no such file", absent=True)


def test_nothing_anywhere_is_idle(world: World) -> None:
    status = read_status(world.machine, Runtimes(world.runtimes, [ABSENT]))
    assert status.summary is Summary.IDLE
    assert status.remedy == ""


def test_ours_attached_is_running(world: World) -> None:
    container = world.runtime.add("scx_a")
    world.kernel.attach("a_fixture", world.runtime.hold(container))
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.RUNNING
    assert [one.attachment for one in status.managed] == [Attachment.YES]


def test_child_of_the_containers_process_counts_as_the_container(world: World) -> None:
    container = world.runtime.add("scx_a")
    world.kernel.attach("whatever", Holder(4_000_000, "child", container=container.id))
    assert read_status(world.machine, world.host.runtimes).summary is Summary.RUNNING


def test_foreign_attached_is_orphaned(world: World) -> None:
    world.kernel.attach("foreign", Holder(7, "scx_foreign"))
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.ORPHANED_KERNEL_STATE
    assert "process 7 (scx_foreign)" in status.explanation
    assert status.remedy == "schedctl detach"


@pytest.mark.parametrize(
    ("unit", "remedy"),
    [
        ("scx_loader.service", "schedctl import scx_loader"),
        ("scx.service", "systemctl disable --now scx"),
        ("another.service", "schedctl detach"),
    ],
)
def test_foreign_one_that_another_manager_started_is_handed_over(world: World, unit: str, remedy: str) -> None:
    world.kernel.attach("foreign", Holder(7, "scx_foreign", unit=unit))
    status = read_status(world.machine, world.host.runtimes)
    assert f"process 7 (scx_foreign) of {unit}; it is not managed by schedctl" in status.explanation
    assert status.remedy == remedy


def test_ours_running_without_being_attached_is_detached(world: World) -> None:
    world.runtime.add("scx_a")
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.MANAGED_DETACHED
    assert "schedctl stop scx_a" in status.remedy


def test_ours_running_beside_a_foreign_one_is_a_mismatch_even_if_names_agree(world: World) -> None:
    world.runtime.add("scx_a")
    world.kernel.attach("scx_a", Holder(7, "scx_foreign"))
    assert read_status(world.machine, world.host.runtimes).summary is Summary.MANAGED_MISMATCH


def test_several_of_ours_are_told_and_the_superfluous_one_is_named(world: World) -> None:
    container = world.runtime.add("scx_a")
    world.docker.add("scx_b")
    world.kernel.attach("a", world.runtime.hold(container))
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.MULTIPLE_MANAGED
    assert status.remedy == "schedctl stop scx_b"


def test_name_alone_is_likely_and_not_known(world: World) -> None:
    world.runtime.add("scx_a")
    world.kernel.attach("a_1.2.3_x86_64_unknown_linux_gnu", Unknown("not root"))
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.UNKNOWN
    assert "could not be read, likely by this container: not root" in status.explanation


def test_what_only_root_may_see_is_to_be_asked_as_root(world: World) -> None:
    denied = HIDDEN._replace(error=NoPermissionError)
    assert read_status(world.machine, world.hide(denied).runtimes).remedy == "sudo schedctl status"
    assert read_status(world.machine, world.hide(HIDDEN).runtimes).remedy == "schedctl doctor"


def test_scheduler_of_a_kubernetes_pod_is_told_as_such(world: World) -> None:
    world.kernel.attach("a", Holder(7, "scx_a", container="b" * 64, pod="1234"))
    for host in (world.host, world.hide(HIDDEN)):
        status = read_status(world.machine, host.runtimes)
        assert status.summary is Summary.ORPHANED_KERNEL_STATE
        assert "in a Kubernetes pod (UID 1234): the cluster runs it" in status.explanation
        assert "detach" not in status.remedy


def test_other_name_with_an_unknown_holder_stays_unknown(world: World) -> None:
    world.runtime.add("scx_a")
    world.kernel.attach("b", Unknown("not root"))
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.UNKNOWN
    assert "not root" in status.explanation


def test_unreadable_kernel_is_unknown(world: World) -> None:
    (world.kernel.folder / "state").write_text("\x00nonsense")
    assert read_status(world.machine, world.host.runtimes).summary is Summary.UNKNOWN


def test_kernel_without_sched_ext_is_idle_and_says_so(world: World) -> None:
    for file in world.kernel.folder.iterdir():
        file.unlink()
    world.kernel.folder.rmdir()
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.IDLE
    assert "no sched_ext" in status.explanation


@pytest.mark.parametrize("attached", [True, False])
def test_silent_driver_may_hide_what_we_look_for(world: World, attached: bool) -> None:
    if attached:
        world.kernel.attach("x", Holder(7, "scx_x", container="b" * 64))
    status = read_status(world.machine, world.hide(HIDDEN).runtimes)
    assert status.summary is Summary.UNKNOWN
    assert "docker does not respond (no response within 10 s)" in status.explanation


def test_process_outside_of_any_container_is_foreign_whoever_is_silent(world: World) -> None:
    world.kernel.attach("x", Holder(7, "scx_x"))
    assert read_status(world.machine, world.hide(HIDDEN).runtimes).summary is Summary.ORPHANED_KERNEL_STATE


@pytest.mark.parametrize("driver", ["docker", None])
def test_container_of_a_runtime_without_a_socket_may_be_managed(world: World, driver: str | None) -> None:
    world.kernel.attach("x", Holder(7, "scx_x", container="b" * 64, driver=driver))
    status = read_status(world.machine, world.hide(ABSENT).runtimes)
    assert status.summary is Summary.UNKNOWN
    assert "may be managed by schedctl: docker does not respond (no such file)" in status.explanation


@pytest.mark.parametrize("other", [HIDDEN, ABSENT])
def test_container_by_hand_is_foreign_as_its_own_runtime_responds(world: World, other: UnreachableRuntime) -> None:
    world.kernel.attach("x", Holder(7, "scx_x", container="b" * 64, driver="podman"))
    status = read_status(world.machine, world.hide(other).runtimes)
    assert (status.summary, status.remedy) == (Summary.ORPHANED_KERNEL_STATE, "schedctl detach")


@pytest.mark.parametrize("other", [HIDDEN, ABSENT])
def test_holder_whose_cgroup_could_not_be_read_may_be_managed(world: World, other: UnreachableRuntime) -> None:
    world.kernel.attach("x", Holder(7, "scx_x", container=Unknown("/proc/7/cgroup: Input/output error")))
    status = read_status(world.machine, world.hide(other).runtimes)
    assert status.summary is Summary.UNKNOWN
    assert "Input/output error" in status.explanation


def test_running_container_may_be_that_of_a_holder_whose_cgroup_could_not_be_read(world: World) -> None:
    world.runtime.add("scx_a")
    world.kernel.attach("a", Holder(7, "scx_a", container=Unknown("/proc/7/cgroup: Input/output error")))
    assert read_status(world.machine, world.host.runtimes).summary is Summary.UNKNOWN


def test_runtime_that_breaks_while_it_is_asked_is_silent_not_empty(world: World) -> None:
    world.docker.broken = UnavailableError("docker broke off")
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.UNKNOWN
    assert [(one.driver, one.absent) for one in status.unreachable] == [("docker", False)]


def test_leftovers_are_told(world: World) -> None:
    world.runtime.add("scx_a", ContainerState.CREATED)
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.IDLE
    assert "scx_a (podman) was created and never started" in status.explanation


def test_restart_policy_without_a_unit_is_told(world: World) -> None:
    container = world.runtime.add("scx_a", labels={Label.RESTART.value: "on-failure:3"})
    world.kernel.attach("a", world.runtime.hold(container))
    told = read_status(world.machine, world.host.runtimes).explanation
    assert "restart policy on-failure:3, but no unit of systemd restarts it" in told
    (world.machine.root / "sys/fs/cgroup/system.slice/schedkit-run.service").mkdir(parents=True)
    status = read_status(world.machine, world.host.runtimes)
    assert "no unit" not in status.explanation
    assert status.managed[0].watched is True


def test_originals_container_is_named_by_its_image(world: World) -> None:
    world.runtime.add("scx_rusty")
    assert observe(world.machine, world.host.runtimes).managed[0].scheduler == "scx_rusty"


def test_exit_codes_are_the_originals_and_unknown_has_its_own() -> None:
    assert {summary: summary.exit_code for summary in Summary} == {
        Summary.IDLE: ExitCode.OK,
        Summary.RUNNING: ExitCode.OK,
        Summary.ORPHANED_KERNEL_STATE: ExitCode.DISCREPANCY,
        Summary.MANAGED_DETACHED: ExitCode.DISCREPANCY,
        Summary.MANAGED_MISMATCH: ExitCode.DISCREPANCY,
        Summary.MULTIPLE_MANAGED: ExitCode.DISCREPANCY,
        Summary.UNKNOWN: ExitCode.FAILURE,
    }
