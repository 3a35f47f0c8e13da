import json
from collections.abc import Callable

import pytest

from schedkit.errors import AlreadyExistsError, NoAnswerError, NotFoundError, UnavailableError
from schedkit.host.containers import TRACING_FOLDER, choose_name, make_spec
from schedkit.host.errors import EjectedError, KernelUnfitError, NotAttachedError, RejectedError, SlotTakenError
from schedkit.host.model import Restart
from schedkit.host.run import check_run, run
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.holder import Holder
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.labels import Label
from schedkit.runtimes.view import Runtimes, UnreachableRuntime
from schedkit.unknown import Unknown
from tests.unit.host.fakes import (
    FakeRuntime,
    World,
    attach,
    die,
    do_nothing,
    is_held,
    request,
    verify,
)

Behaviour = Callable[[FakeRuntime, str], None]


def test_run_returns_when_the_kernel_says_attached(world: World) -> None:
    attached = run(world.host, request(), verify)

    assert attached.ops == "ops_scx_new"
    assert attached.container.state is ContainerState.RUNNING
    assert world.runtime.calls == ["pull", "create", "start"]


def test_all_state_is_on_the_labels(world: World) -> None:
    wanted = request(args=("-v", "--slice 5"), restart=Restart(on_failure=True, times=3))
    container = run(world.host, wanted, verify).container

    assert container.labels == {
        Label.SCHEDULER: "scx_new",
        Label.IMAGE: "localhost/scx_new:v1",
        Label.DIGEST: "sha256:" + "1" * 64,
        Label.MANIFEST: "sha256:" + "2" * 64,
        Label.ARGS: json.dumps(["-v", "--slice 5"]),
        Label.CREATED: "2026-11-15T12:00:00+00:00",
        Label.RESTART: "on-failure:3",
        Label.VERIFIED: "unsigned-allowed",
    }


def test_tracefs_is_there_to_read_where_the_machine_has_it(world: World) -> None:
    wanted = request(files=("/etc/layers.json",))
    assert make_spec(world.machine, wanted, "mine", "").files == ("/etc/layers.json",)

    (world.machine.root / "sys/kernel/tracing").mkdir(parents=True)
    spec = make_spec(world.machine, wanted, "mine", "")
    assert spec.files == ("/etc/layers.json", TRACING_FOLDER)
    assert json.loads(spec.labels[Label.FILES]) == ["/etc/layers.json"]  # what the user asked for


def test_run_refuses_a_slot_that_a_foreign_process_holds(world: World) -> None:
    world.kernel.attach("foreign", Holder(77, "scx_foreign"))

    with pytest.raises(SlotTakenError, match=r"foreign is attached already, by process 77 \(scx_foreign\)") as caught:
        check_run(world.host, "scx_new")
    assert "schedctl detach" in caught.value.hint

    with pytest.raises(SlotTakenError):  # it may have come while the image was pulled
        run(world.host, request(), verify)
    assert world.runtime.calls == ["pull"]


def test_run_refuses_a_slot_that_a_container_of_another_driver_holds(world: World) -> None:
    old = world.docker.add("scx_old")
    world.kernel.attach("old", world.docker.hold(old))

    with pytest.raises(SlotTakenError, match=r"by the container scx_old \(docker\)") as caught:
        check_run(world.host, "scx_new")

    assert "`schedctl switch scx_new`" in caught.value.hint
    assert "`schedctl stop scx_old`" in caught.value.hint


def test_run_refuses_beside_a_container_that_may_attach_any_moment(world: World) -> None:
    world.docker.add("scx_old")
    with pytest.raises(SlotTakenError, match="scx_old"):
        check_run(world.host, "scx_new")
    with pytest.raises(SlotTakenError, match="scx_old"):
        run(world.host, request(), verify)


def test_slot_is_told_of_before_a_runtime_that_is_missing(world: World) -> None:
    nowhere = world.host._replace(runtimes=Runtimes([]))
    with pytest.raises(UnavailableError, match="no container runtime responds"):
        check_run(nowhere, "scx_new")
    world.kernel.attach("foreign", Holder(77, "scx_foreign"))
    with pytest.raises(SlotTakenError):
        check_run(nowhere, "scx_new")


def test_runtime_that_is_passed_over_is_told(world: World) -> None:
    gone = UnreachableRuntime("docker", "/run/docker.sock", "connection refused", absent=False)
    check_run(world.hide(gone), "scx_new")
    assert world.progress.warnings == [
        "docker does not respond (connection refused): what it runs is not known; podman is used"
    ]


def test_obstacle_in_the_kernel_stops_run_before_anything_is_pulled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def find_obstacles(root: object, min_version: str) -> list[Check]:
        asked.append(min_version)
        return [Check("kernel.version", Outcome.ERROR, "6.6 is older than 6.14", "boot a newer one")]

    monkeypatch.setattr("schedkit.host.preparing.find_obstacles", find_obstacles)
    wanted = request(labels={"org.schedkit.scheduler.kernel.min-version": "6.14"})
    with pytest.raises(KernelUnfitError, match=r"6\.6 is older than 6\.14") as caught:
        run(world.host, wanted, verify)

    assert caught.value.hint == "boot a newer one"
    assert asked == ["6.14"]
    assert world.runtime.calls == []


def test_refused_image_is_not_pulled(world: World) -> None:
    def refuse(image: object) -> str:
        raise NotFoundError("no signature")

    with pytest.raises(NotFoundError):
        run(world.host, request(), refuse)
    assert world.runtime.calls == []


@pytest.mark.parametrize(
    ("behaviour", "log", "error"),
    [
        (die(1), b"libbpf: prog 'x': BPF program load failed: Permission denied\n", RejectedError),
        (die(1), b"cannot attach x: EBUSY (Device or resource busy)\n", SlotTakenError),
        (die(2), b'ejected x: kind=1026 code=0 reason="runnable task stall" message="sh[1] 5s"\n', EjectedError),
        (die(3), b"Error: no such option\n", NotAttachedError),
        (do_nothing, b"thinking\n", NotAttachedError),
    ],
)
def test_what_did_not_attach_is_explained_and_removed(
    world: World, behaviour: Behaviour, log: bytes, error: type[Exception]
) -> None:
    world.runtime.behaviours["localhost/scx_new:v1"] = behaviour
    world.runtime.logs["localhost/scx_new:v1"] = log

    with pytest.raises(error) as caught:
        run(world.host, request(timeout=0.3), verify)

    assert caught.value.log == (log.decode().strip(),)  # type: ignore[attr-defined]
    assert world.runtime.containers == {}
    assert not is_held(world.machine.lock)


def test_scheduler_thrown_out_right_after_it_attached_is_not_attached(world: World) -> None:
    def flash(runtime: FakeRuntime, id: str) -> None:
        attach(runtime, id)
        runtime.kernel.detach()
        die(1)(runtime, id)

    world.runtime.behaviours["localhost/scx_new:v1"] = flash
    with pytest.raises(NotAttachedError):
        run(world.host, request(), verify)
    assert world.runtime.containers == {}


def test_another_that_takes_the_slot_meanwhile_is_not_mistaken_for_ours(world: World) -> None:
    world.runtime.behaviours["localhost/scx_new:v1"] = lambda runtime, id: runtime.kernel.attach(
        "ops_scx_new", Holder(99, "thief")
    )
    with pytest.raises(SlotTakenError, match=r"by process 99 \(thief\)"):
        run(world.host, request(), verify)
    assert world.runtime.containers == {}


def test_names_decide_where_the_holder_cannot_be_read(world: World) -> None:
    world.runtime.behaviours["localhost/scx_new:v1"] = lambda runtime, id: runtime.kernel.attach(
        "new", Unknown("not root")
    )
    assert run(world.host, request(), verify).ops == "new"


def test_what_nobody_can_tell_is_not_called_attached(world: World) -> None:
    world.runtime.behaviours["localhost/scx_new:v1"] = lambda runtime, id: runtime.kernel.attach(
        "other", Unknown("not root")
    )
    with pytest.raises(NotAttachedError, match="is not known: who holds other could not be read: not root"):
        run(world.host, request(), verify)


def test_kernel_decides_where_the_runtime_does_not_answer(world: World) -> None:
    def attach_silently(runtime: FakeRuntime, id: str) -> None:
        attach(runtime, id)
        raise NoAnswerError("no answer within 60 s")

    world.runtime.behaviours["localhost/scx_new:v1"] = attach_silently
    assert run(world.host, request(), verify).ops == "ops_scx_new"


def test_silent_runtime_is_the_reason_where_nothing_attached(world: World) -> None:
    def be_silent(runtime: FakeRuntime, id: str) -> None:
        raise NoAnswerError("no answer within 60 s")

    world.runtime.behaviours["localhost/scx_new:v1"] = be_silent
    with pytest.raises(NoAnswerError):
        run(world.host, request(timeout=0.2), verify)
    assert world.runtime.containers == {}


def test_start_that_was_never_answered_nor_done_is_told_as_that(world: World) -> None:
    world.runtime.unresponsive = True
    with pytest.raises(NoAnswerError, match="when asked to start container"):
        run(world.host, request(timeout=0.2), verify)
    assert world.runtime.containers == {}


@pytest.mark.parametrize("step", ["pulling", "creating", "starting", "waiting"])
def test_ctrl_c_leaves_nothing_behind(world: World, step: str) -> None:
    world.runtime.behaviours["localhost/scx_new:v1"] = do_nothing
    with pytest.raises(KeyboardInterrupt):
        run(world.interrupt(step), request(), verify)
    assert world.runtime.containers == {}
    assert not is_held(world.machine.lock)


def test_ctrl_c_before_the_new_id_was_heard_leaves_nothing_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = world.runtime.create

    def interrupted(*arguments: object) -> str:
        create(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(world.runtime, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(world.host, request(), verify)
    assert world.runtime.containers == {}


@pytest.mark.parametrize("state", [ContainerState.EXITED, ContainerState.CREATED])
def test_leftover_of_the_same_name_gives_way(world: World, state: ContainerState) -> None:
    leftover = world.runtime.add("scx_new", state)
    run(world.host, request(), verify)
    assert leftover.id not in world.runtime.containers


def test_without_wait_it_returns_as_soon_as_it_started(world: World) -> None:
    world.runtime.behaviours["localhost/scx_new:v1"] = do_nothing
    attached = run(world.host, request(wait=False), verify)
    assert attached.ops is None
    assert attached.container.state is ContainerState.RUNNING


def test_name_of_a_running_container_is_taken(world: World) -> None:
    world.runtime.add("mine")
    with pytest.raises(AlreadyExistsError, match="container name mine is already in use"):
        choose_name(world.runtime, request(name="mine"), world.progress)


def test_default_name_gets_a_number_beside_a_running_container(world: World) -> None:
    world.runtime.add("scx_new")
    assert choose_name(world.runtime, request(), world.progress) == "scx_new-2"
