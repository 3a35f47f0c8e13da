import pytest

from schedkit.errors import NoAnswerError, NoPermissionError, UnavailableError
from schedkit.host.doctor import examine
from schedkit.kernel.check import Check, Outcome
from schedkit.runtimes.view import Runtimes, UnreachableRuntime
from tests.unit.host.fakes import World


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "schedkit.host.doctor.examine_kernel", lambda root: [Check("kernel.version", Outcome.OK, "6.12")]
    )


def test_each_driver_has_a_check_and_one_must_answer(world: World) -> None:
    unreachable = [UnreachableRuntime("containerd", "/run/containerd/containerd.sock", "no such file", absent=True)]
    world.docker.broken = UnavailableError("unused: only its version is asked")
    checks = examine(world.machine, Runtimes(world.runtimes, unreachable))
    assert [(check.name, check.outcome) for check in checks] == [
        ("kernel.version", Outcome.OK),
        ("runtime.podman_socket", Outcome.OK),
        ("runtime.docker_socket", Outcome.OK),
        ("runtime.containerd_socket", Outcome.NOT_APPLICABLE),
        ("runtime.any", Outcome.OK),
    ]
    assert "no such file" in checks[3].seen


def test_no_runtime_blocks(world: World) -> None:
    checks = examine(
        world.machine, Runtimes([], [UnreachableRuntime("podman", "/run/podman/podman.sock", "refused", absent=False)])
    )
    assert checks[-1].outcome is Outcome.ERROR
    assert checks[-1].fix


def test_runtime_that_is_installed_and_does_not_run_is_to_be_started(world: World) -> None:
    unreachable = [
        UnreachableRuntime(driver, f"/run/{driver}.sock", "no such socket", absent=True)
        for driver in ("podman", "docker")
    ]
    program = world.machine.root / "usr/bin/podman"
    program.parent.mkdir(parents=True)
    program.touch()
    podman, docker, _ = examine(world.machine, Runtimes([], unreachable))[1:]
    assert (podman.outcome, podman.fix) == (Outcome.WARNING, "systemctl enable --now podman.socket")
    assert docker.outcome is Outcome.NOT_APPLICABLE


def test_socket_that_only_root_may_use_needs_sudo_and_no_unit(world: World) -> None:
    one = UnreachableRuntime(
        "podman", "/run/podman.sock", "permission denied", False, NoPermissionError, "sudo schedctl"
    )
    assert examine(world.machine, Runtimes([], [one]))[1].fix == "sudo schedctl"


def test_engine_of_a_user_is_warned_of_where_it_is_used_or_there_is_no_other(world: World) -> None:
    socket = world.machine.root / "run/user/1000/podman/podman.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    away = UnreachableRuntime("podman", "/run/podman/podman.sock", "no such socket", absent=True)
    check = examine(world.machine, Runtimes([], [away]))[-1]
    assert (check.name, check.outcome) == ("runtime.rootless", Outcome.WARNING)
    assert check.seen == "rootless: /run/user/1000/podman/podman.sock; its containers cannot load schedulers"
    assert check.fix == "start the system's engine: systemctl enable --now podman.socket"

    world.docker.socket = "/run/user/1000/docker.sock"
    named = examine(world.machine, Runtimes([world.docker]))[-1]
    assert "/run/user/1000/docker.sock" in named.seen
    assert "name no other socket" in named.fix


def test_engine_of_a_user_is_not_told_beside_the_systems(world: World) -> None:
    socket = world.machine.root / "run/user/1000/docker.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    world.docker.socket = "/run/user/0/docker.sock"  # root's own is not rootless
    names = [check.name for check in examine(world.machine, Runtimes(world.runtimes))]
    assert "runtime.rootless" not in names


def test_registry_that_is_away_is_a_warning(world: World) -> None:
    def probe(registry: str) -> None:
        if registry == "away.example":
            raise NoAnswerError("away.example did not answer")

    checks = examine(world.machine, Runtimes(world.runtimes), registries=["ghcr.io", "away.example"], probe=probe)
    assert [(check.outcome, check.seen) for check in checks[-2:]] == [
        (Outcome.OK, "ghcr.io responds"),
        (Outcome.WARNING, "away.example did not answer"),
    ]
