"""`schedctl update` over stand-ins; tests/e2e/test_lasting.py does it with a real kernel, registry and systemd."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import SchedkitError, UsageError
from schedkit.host import managed, switch, trial
from schedkit.host.errors import RolledBackError, SlotTakenError
from schedkit.host.machine import Machine
from schedkit.host.model import Attachment, Managed
from schedkit.host.units import ENABLED, FILES, RERUN, Choice, read_choice, render_unit
from schedkit.images.image import Image, Platform
from schedkit.images.reference import Reference
from schedkit.images.tags import find_newer
from schedkit.runtimes import drivers
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.labels import Label
from schedkit.runtimes.view import UnreachableRuntime
from schedkit.schedctl import session as sessions
from schedkit.schedctl.session import Session
from tests.documents import missing, undocumented
from tests.unit.host.fake_systemd import FakeSystemd, systemd
from tests.unit.schedctl.fakes import ATTACHED, DIGEST, OBSERVED, SWITCHED, FakeRegistry, FakeRuntime, make_container
from tests.unit.schedctl.runner import call, note, read
from tests.unit.trust.shelf import change_image

__all__ = ["systemd"]

REPOSITORY = "ghcr.io/schedkit/scx_rusty"
OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64


class TaggedRegistry(FakeRegistry):
    """Digests by tag."""

    def __init__(self, tags: dict[str, str]) -> None:
        self._tags = tags

    def fetch_tags(self, reference: Reference) -> list[str]:
        return list(self._tags)

    def fetch_image(self, reference: Reference, platform: Platform | None = None) -> Image:
        digest = reference.digest or self._tags[reference.tag or ""]
        return change_image(super().fetch_image(reference, platform), digest=digest)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: FakeRuntime, systemd: FakeSystemd) -> Machine:
    machine = Machine(root=tmp_path / "root", lock=tmp_path / "run/lock")
    (machine.root / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(sessions, "Machine", lambda: machine)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/true"])
    runtime.containers = []
    run_old(monkeypatch)
    offer(monkeypatch, {"latest": NEW})
    return machine


def offer(monkeypatch: pytest.MonkeyPatch, tags: dict[str, str]) -> None:
    monkeypatch.setattr(Session, "registry", TaggedRegistry(tags))


def run_old(monkeypatch: pytest.MonkeyPatch, image: str = f"{REPOSITORY}:latest", **labels: str) -> Managed:
    """A scheduler runs, in an old version."""
    noted = {Label.IMAGE.value: image, Label.DIGEST.value: OLD, Label.ARGS.value: '["--slice", "20"]'}
    more = {Label[name].value: value for name, value in labels.items()}
    one = Managed(make_container(labels=noted | more), "scx_rusty", Attachment.YES, "me", "no")
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=(one,)))
    monkeypatch.setattr("schedkit.host.preparing.observe", lambda *_: OBSERVED._replace(managed=(one,)))
    return one


def write_choice(machine: Machine, unit: str = ENABLED, **changes: Any) -> Choice:
    image = f"{REPOSITORY}:latest@{OLD}"
    choice = Choice("scx_rusty", image, OLD, "podman", "/run/podman.sock", "me", "on-failure:5", ("--slice", "20"))
    choice = choice._replace(**changes)
    path = machine.root / FILES[unit]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_unit(choice, ["schedctl"], unit))
    return choice


def read_update(*words: str) -> Any:
    return read("update", "--allow-unsigned", *words)


@pytest.mark.parametrize(
    ("tag", "tags", "newer"),
    [
        ("1.1.3", ["latest", "1.1.4", "1.1.3"], "1.1.4"),
        ("v1.1.3", ["v1.10.0", "v1.9.0", "edge"], "v1.10.0"),
        ("1.1.4", ["1.1.4", "1.1.3"], None),
        ("1.1.4", ["1.2.0-rc.1", "1.1.4"], None),
        ("1.2.0-rc.1", ["1.2.0-rc.2", "1.1.4"], "1.2.0-rc.2"),
        ("1.2.0-rc.1", ["1.2.0", "1.2.0-rc.2"], "1.2.0"),
    ],
)
def test_newest_version_is_by_number_and_a_pre_release_only_for_who_has_one(
    tag: str, tags: list[str], newer: str | None
) -> None:
    assert find_newer(tag, tags) == newer


def test_check_tells_by_its_exit_code_and_changes_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    document = read("update", "--check", code=19)
    assert (document["digest"], document["newest_digest"], document["newer"]) == (OLD, NEW, True)
    assert (document["updated"], document["container"]) == (False, None)
    told = call("update", "--check", code=19).stdout
    assert told.startswith(f"scx_rusty has a newer version: {REPOSITORY}:latest (sha256:bbbbbbbbbbbb), not latest (")
    offer(monkeypatch, {"latest": OLD})
    assert call("update", "--check").stdout == f"scx_rusty is up to date: {REPOSITORY}:latest is sha256:aaaaaaaaaaaa\n"
    assert read("update")["updated"] is False
    assert switches == []


def test_what_runs_is_replaced_by_the_same_of_the_newer_image(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_old(monkeypatch, FILES='["/etc/layers.json"]', NETWORK="host", PRIVILEGED="no")
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    document = read_update()
    assert (document["updated"], document["gap_seconds"], document["unit"]) == (True, 0.042, None)
    request = switches[0][1]
    assert (request.image.digest, str(request.image.source)) == (NEW, f"{REPOSITORY}:latest")
    assert (request.args, request.files, request.host_network) == (("--slice", "20"), ("/etc/layers.json",), True)
    assert request.unprivileged
    assert (request.name, request.scheduler) == (None, "scx_rusty")
    assert "in place of scx_lavd; gap 42 ms" in call("update", "--allow-unsigned").stdout


def test_a_version_is_replaced_by_the_newest_version(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_old(monkeypatch, f"{REPOSITORY}:1.1.3")
    offer(monkeypatch, {"latest": NEW, "1.1.3": OLD, "1.1.4": NEW})
    assert read("update", "--check", code=19)["newest_image"] == f"{REPOSITORY}:1.1.4"
    offer(monkeypatch, {"latest": NEW, "1.1.3": OLD})
    assert read("update", "--check")["newest_image"] == f"{REPOSITORY}:1.1.3"


def test_a_version_that_was_built_again_is_newer(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_old(monkeypatch, f"{REPOSITORY}:1.1.3")
    offer(monkeypatch, {"1.1.3": NEW})
    assert read("update", "--check", code=19)["newest_image"] == f"{REPOSITORY}:1.1.3"


@pytest.mark.parametrize("runs", [f"{REPOSITORY}:1.1.3", f"{REPOSITORY}@{OLD}"])
def test_a_version_that_the_catalog_names_counts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: str
) -> None:
    catalog = tmp_path / "catalog.json"
    catalog.write_text(json.dumps({"scx_rusty": {"imageURI": f"{REPOSITORY}:1.1.4@{NEW}"}}))
    monkeypatch.setenv("SCHEDCTL_CATALOG", str(catalog))
    run_old(monkeypatch, runs)
    offer(monkeypatch, {"1.1.3": OLD, "1.1.4": OLD, "1.2.0": OLD})
    document = read("update", "--check", code=19)
    assert (document["newest_image"], document["newest_digest"]) == (f"{REPOSITORY}:1.1.4@{NEW}", NEW)


def test_a_digest_that_no_catalog_knows_has_no_newer_version(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_old(monkeypatch, f"localhost/mine@{OLD}")
    refused = call("update", "--check", code=66)
    assert isinstance(refused.exception, SchedkitError)
    assert "no catalog says which one is newer" in refused.exception.message


def test_the_enabled_unit_gets_the_newer_digest(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_choice(machine, env={"A": "b"}, timeout=7.0, name="mine", allow_unsigned=True)
    attached = ATTACHED._replace(container=make_container(labels={Label.VERIFIED.value: "unsigned-allowed"}))
    switches = note(monkeypatch, switch, "switch", SWITCHED._replace(attached=attached))
    document = read("update")
    request = switches[0][1]
    assert (document["unit"], request.env, request.timeout, request.name) == (ENABLED, {"A": "b"}, 7.0, "mine")
    choice = read_choice(machine.root, ENABLED)
    wanted = {"image": f"{REPOSITORY}:latest@{NEW}", "digest": NEW, "manifest": DIGEST, "verified": "unsigned-allowed"}
    assert choice == before._replace(**wanted)  # type: ignore[arg-type]
    assert systemd.calls[-1] == "systemctl restart schedkit.service"


def test_one_that_does_not_attach_leaves_the_unit_as_it_was(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_choice(machine, allow_unsigned=True)
    note(monkeypatch, switch, "switch", RolledBackError("no", cause=SlotTakenError("x")))
    call("update", code=15)
    assert read_choice(machine.root, ENABLED) == before


def test_a_restarted_one_stays_a_restarted_one(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_choice(machine, RERUN, allow_unsigned=True, restart="on-failure:2")
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    assert read("update")["unit"] == RERUN
    assert str(switches[0][1].restart) == "on-failure:2"
    choice = read_choice(machine.root, RERUN)
    assert isinstance(choice, Choice)
    assert (choice.digest, choice.restart) == (NEW, "on-failure:2")
    assert read_choice(machine.root, ENABLED) is None


def test_an_enabled_one_that_does_not_run_is_updated_and_started(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_choice(machine, allow_unsigned=True)
    for module in ("managed", "preparing"):
        monkeypatch.setattr(f"schedkit.host.{module}.observe", lambda *_: OBSERVED._replace(managed=()))
    assert read("update", "--check", code=19)["unit"] == ENABLED
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    assert read("update", "scx_rusty")["updated"] is True
    assert len(switches) == 1


def test_an_enabled_one_is_not_updated_over_another_that_runs(machine: Machine) -> None:
    write_choice(machine, scheduler="scx_lavd", image=f"ghcr.io/schedkit/scx_lavd:latest@{OLD}", args=())
    assert read("update", "lavd", "--check", code=19)["scheduler"] == "scx_lavd"
    refused = call("update", "lavd", code=64)
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.message == "scx_lavd is enabled, and scx_rusty runs"


def test_variables_whose_values_nobody_kept_must_be_said_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_old(monkeypatch, ENV='["A", "B"]')
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    refused = call("update", "--env", "B=2", code=64)
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.hint == "say them again: --env A=VALUE"
    read_update("--env", "A=1", "--env", "B=2")
    assert switches[0][1].env == {"A": "1", "B": "2"}


@pytest.mark.parametrize(("now", "then"), [("mine", "mine-2"), ("mine-2", "mine"), ("scx_rusty", None)])
def test_a_name_that_was_given_is_kept_as_far_as_two_can_have_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, now: str, then: str | None
) -> None:
    one = run_old(monkeypatch)
    named = one._replace(container=one.container._replace(name=now))
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=(named,)))
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    read_update()
    assert switches[0][1].name == then


def test_the_container_stays_in_its_runtime(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, runtime: FakeRuntime
) -> None:
    from schedkit.runtimes.view import Runtimes

    docker = FakeRuntime("docker")
    monkeypatch.setattr(drivers, "find_runtimes", lambda *_, **__: Runtimes([docker, runtime]))
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    read_update()
    assert switches[0][0].runtimes.chosen is runtime


@pytest.mark.parametrize(
    ("observed", "code", "why"),
    [
        (OBSERVED._replace(managed=()), 66, "no scheduler runs, and none is enabled"),
        (
            OBSERVED._replace(managed=(), unreachable=(UnreachableRuntime("docker", "/x", "no response", False),)),
            69,
            "not every runtime could be asked",
        ),
        (OBSERVED, 69, "which version of scx_rusty runs is not known"),  # as the Go schedctl leaves it
    ],
)
def test_what_is_not_known_is_not_up_to_date(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, observed: Any, code: int, why: str
) -> None:
    monkeypatch.setattr(managed, "observe", lambda *_: observed)
    refused = call("update", "--check", code=code)
    assert isinstance(refused.exception, SchedkitError)
    assert why in refused.exception.message


def test_an_enabled_choice_that_cannot_be_read_is_not_left_behind(machine: Machine) -> None:
    write_choice(machine)
    (machine.root / FILES[ENABLED]).write_text("torn")
    call("update", code=65)


def test_one_on_trial_is_not_updated(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, trial, "check_trial", UsageError("scx_rusty is on trial already"))
    call("update", code=64)


def test_by_another_name_nothing_is_meant(machine: Machine) -> None:
    refused = call("update", "scx_lavd", code=66)
    assert isinstance(refused.exception, SchedkitError)
    assert refused.exception.message == "scx_lavd does not run, and is not enabled"
    assert read("update", "rusty", "--check", code=19)["scheduler"] == "scx_rusty"


def test_dry_run_tells_the_steps_and_does_none(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_choice(machine, allow_unsigned=True)
    switches = note(monkeypatch, switch, "switch", SWITCHED)
    document = json.loads(call("update", "--dry-run", "-o", "json").stdout)
    assert undocumented("COMMAND --dry-run", document) == []
    assert missing("COMMAND --dry-run", document) == []
    assert document["steps"][-1] == f"have schedkit.service start {NEW} at boot, in place of {OLD}"
    assert (switches, read_choice(machine.root, ENABLED)) == ([], before)
    assert [one for one in systemd.calls if "show" not in one] == []


def test_ended_containers_are_not_what_runs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one = run_old(monkeypatch)
    ended = one._replace(container=one.container._replace(state=ContainerState.EXITED))
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=(ended,)))
    call("update", "--check", code=66)
