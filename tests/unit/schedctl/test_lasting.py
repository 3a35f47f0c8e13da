"""Commands that make a scheduler last, over a host where everything works and a fake systemctl."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import NotFoundError, SchedkitError, UnavailableError
from schedkit.host import lasting, restart, run, stop, switch, trial
from schedkit.host.machine import Machine
from schedkit.host.stop import Stopped
from schedkit.host.trial_state import Before, Phase, Trial, read_clock, write_trial
from schedkit.host.units import ENABLED, FILES, RERUN, Choice, read_choice
from schedkit.images.image import Image
from schedkit.runtimes.labels import Label
from schedkit.schedctl import session as sessions
from schedkit.schedctl.commands import service
from schedkit.schedctl.lasting import find_program, recall_request, use_choice
from schedkit.schedctl.session import Session, open_session
from schedkit.schedctl.settings import Flags
from schedkit.trust.errors import UnverifiedError
from tests.unit.host.fake_systemd import FakeSystemd, systemd
from tests.unit.schedctl.fakes import ATTACHED, DIGEST, MANAGED, OBSERVED, SWITCHED, FakeRuntime, make_container
from tests.unit.schedctl.runner import call, note, read

__all__ = ["systemd"]

VERIFIED = {Label.VERIFIED.value: "unsigned-allowed", Label.DIGEST.value: DIGEST, Label.ARGS.value: "[]"}
CONTAINER = make_container(labels=VERIFIED)
CHANGED = SWITCHED._replace(attached=ATTACHED._replace(container=CONTAINER))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: FakeRuntime, systemd: FakeSystemd) -> Machine:
    """One that systemd runs."""
    machine = Machine(root=tmp_path / "root", lock=tmp_path / "run/lock")
    (machine.root / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(sessions, "Machine", lambda: machine)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/true"])
    monkeypatch.setattr(lasting, "find_chosen", lambda *_: None)
    return machine


def choose(machine: Machine) -> Choice:
    found = read_choice(machine.root, ENABLED)
    assert isinstance(found, Choice)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["enable", "scx_rusty"],
        ["disable"],
        ["restore"],
        ["trial", "scx_rusty"],
        ["keep"],
        ["import", "scx_loader"],
        ["import", "scx_loader", "--dry-run"],
        ["run", "scx_rusty", "--restart", "on-failure"],
        ["switch", "scx_rusty", "--restart", "on-failure:2"],
    ],
    ids=" ".join,
)
def test_without_systemd_it_is_refused_with_what_to_use_instead(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(root=tmp_path, lock=tmp_path / "run/lock"))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/scx_loader.toml").write_text('default_sched = "scx_rusty"')
    done = [note(monkeypatch, module, name, None) for module, name in ((run, "run"), (switch, "switch"))]
    result = call(*words, code=69)
    assert isinstance(result.exception, SchedkitError)
    assert "needs systemd, which is not running" in result.exception.message
    instead = {"disable": "schedctl stop", "restore": "schedctl switch NAME", "keep": "schedctl status"}
    instead["trial"] = "use `schedctl switch NAME`, and `schedctl stop` to go back"
    assert instead.get(words[0], "schedctl run NAME --attach") in result.exception.hint
    assert done == [[], []]


def test_enable_attaches_first_and_then_writes_the_pinned_choice(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def attach(_host: object, request: Any, _verify: object) -> Any:
        seen.append(request.image.reference)  # the name that containerd keeps it under: a tag that moves leaves it
        seen.append((machine.root / FILES[ENABLED]).exists())
        return CHANGED

    monkeypatch.setattr(switch, "switch", attach)
    words = "enable scx_rusty --allow-unsigned --env A=b --network host --name mine --timeout 7 -- --slice 20"
    document = read(*words.split())
    assert seen == [f"ghcr.io/schedkit/scx_rusty:latest@{DIGEST}", False]
    choice = choose(machine)
    assert (choice.digest, choice.image) == (DIGEST, f"ghcr.io/schedkit/scx_rusty:latest@{DIGEST}")
    assert (choice.driver, choice.socket) == ("podman", "/run/podman.sock")
    assert (choice.args, choice.env, choice.name) == (("--slice", "20"), {"A": "b"}, "mine")
    assert (choice.host_network, choice.timeout, choice.allow_unsigned) == (True, 7.0, True)
    assert (choice.verified, choice.restart) == ("unsigned-allowed", "on-failure:5")
    assert (document["enabled"]["digest"], document["gap_seconds"]) == (DIGEST, 0.042)
    assert systemd.calls[-1] == "systemctl restart schedkit.service"
    unit = (machine.root / FILES[ENABLED]).read_text()
    assert "\nExecStart=/usr/bin/true service schedkit.service\n" in unit
    assert "is enabled: schedkit.service starts it at boot" in call("enable", "scx_rusty", "--allow-unsigned").stdout


def test_mode_and_files_are_part_of_what_is_enabled(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    note(monkeypatch, switch, "switch", CHANGED)
    file = tmp_path / "layers.json"
    file.write_text("[]")
    words = ("--mode", "server", "--config", str(file), "--allow-unsigned", "--", "-v")
    modes = {"scx_rusty": {"server": ("--fast",)}}
    monkeypatch.setattr("schedkit.schedctl.modes.find_modes", lambda _, name: modes[name])
    call("enable", "scx_rusty", *words)
    choice = choose(machine)
    assert (choice.mode, choice.args, choice.files) == ("server", ("--fast", "-v"), (str(file),))


def test_trial_takes_a_mode(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = note(monkeypatch, trial, "begin_trial", NotFoundError("no"))
    monkeypatch.setattr("schedkit.schedctl.modes.find_modes", lambda *_: {"server": ("--fast",)})
    call("trial", "scx_rusty", "--mode", "server", "--allow-unsigned", code=66)
    assert begun[0][1].args == ("--fast",)


def test_what_does_not_attach_is_not_enabled(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(monkeypatch, switch, "switch", NotFoundError("no"))
    call("enable", "scx_rusty", "--allow-unsigned", code=66)
    assert read_choice(machine.root, ENABLED) is None
    assert systemd.calls == []


def test_one_that_is_attached_already_is_taken_over_without_a_gap(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = note(monkeypatch, switch, "switch", CHANGED)
    monkeypatch.setattr(lasting, "find_chosen", lambda *_: MANAGED._replace(container=CONTAINER))
    assert "is attached already" in call("enable", "scx_rusty", "--allow-unsigned").stdout
    assert (switches, systemd.calls[-1]) == ([], "systemctl restart schedkit.service")
    assert choose(machine).verified == "unsigned-allowed"
    # Enabled once more while its unit runs it: nothing is restarted.
    group = machine.root / "sys/fs/cgroup/system.slice/schedkit.service"
    group.mkdir(parents=True)
    before = len(systemd.calls)
    call("enable", "scx_rusty", "--allow-unsigned")
    assert not any("restart" in one for one in systemd.calls[before:])


def enable(monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, switch, "switch", CHANGED)
    call("enable", "scx_rusty", "--allow-unsigned")


def test_disable_removes_the_unit(machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch) -> None:
    call("disable", code=66)
    enable(monkeypatch)
    assert read("disable") == {
        "version": "1",
        "scheduler": "scx_rusty",
        "unit": "schedkit.service",
        "stopped": False,
    }
    assert read_choice(machine.root, ENABLED) is None
    enable(monkeypatch)
    (machine.root / "sys/fs/cgroup/system.slice/schedkit.service").mkdir(parents=True)
    assert call("disable").stdout == "scx_rusty is not enabled any more, and was stopped\n"


def test_restore_switches_to_the_enabled_one_as_it_was_pinned(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("restore", code=66)
    enable(monkeypatch)
    before = len(systemd.calls)
    switches = note(monkeypatch, switch, "switch", CHANGED)
    document = read("restore")
    assert (document["trial"], document["enabled"]["scheduler"]) == (None, "scx_rusty")
    request = switches[0][1]
    assert str(request.image.source) == f"ghcr.io/schedkit/scx_rusty:latest@{DIGEST}"
    assert systemd.calls[before:] == [
        "systemctl reset-failed schedkit.service",
        "systemctl restart schedkit.service",
    ]


def test_restart_policy_becomes_a_unit_and_the_next_run_removes_it(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(monkeypatch, run, "run", ATTACHED._replace(container=CONTAINER))
    call("run", "scx_rusty", "--restart", "on-failure:3", "--allow-unsigned")
    choice = read_choice(machine.root, RERUN)
    assert isinstance(choice, Choice)
    assert (choice.restart, choice.digest) == ("on-failure:3", DIGEST)
    assert systemd.calls[-1] == "systemctl restart schedkit-run.service"
    call("run", "scx_rusty", "--allow-unsigned")
    assert read_choice(machine.root, RERUN) is None


def test_stop_ends_a_unit_that_waits_to_start_it_again(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    enable(monkeypatch)
    note(monkeypatch, stop, "stop", NotFoundError("schedctl has no container"))
    monkeypatch.setattr("schedkit.schedctl.commands.stop.stop", stop.stop)
    systemd.show(ActiveState="activating", SubState="auto-restart", NRestarts=1, ExecMainStatus=1)
    assert call("stop").stdout == "schedkit.service: stopped, scx_rusty will not be started again\n"
    systemd.show(ActiveState="inactive")
    call("stop", code=66)


def test_stop_of_what_is_left_over_does_not_touch_what_runs(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(monkeypatch, run, "run", ATTACHED._replace(container=CONTAINER))
    call("run", "scx_rusty", "--restart", "on-failure:3", "--allow-unsigned")
    before = systemd.calls
    left = Stopped(make_container(), "scx_old", was_attached=False, killed=False, exit_code=0, seconds=0.1)
    monkeypatch.setattr("schedkit.schedctl.commands.stop.stop", lambda *_, **__: left)
    call("stop", "scx_old")
    assert systemd.calls == before
    attached = left._replace(was_attached=True)
    monkeypatch.setattr("schedkit.schedctl.commands.stop.stop", lambda *_, **__: attached)
    call("stop", "scx_rusty")
    assert read_choice(machine.root, RERUN) is None


def test_restart_starts_the_same_again_and_names_restore_where_nothing_runs(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = note(monkeypatch, restart, "restart", ATTACHED)
    assert read("restart", "scx_rusty", "--timeout", "7")["container"]["ops"] == "rusty_1.1.4"
    assert calls[0][1:] == ("scx_rusty", {"timeout": 7.0})
    assert call("restart").stdout == "scx_rusty is attached as rusty_1.1.4 after 1.2 s\n"
    note(monkeypatch, restart, "restart", NotFoundError("nothing runs", hint="look"))
    for hint in ("look", "`schedctl restore` starts the enabled one"):
        refused = call("restart", code=66)
        assert isinstance(refused.exception, SchedkitError)
        assert refused.exception.hint == hint
        enable(monkeypatch)


TRIAL = Trial("m", "scx_rusty", "podman", 90.0, read_clock() + 86400, Before("podman", "x", "a", "scx_old", True, None))


def test_trial_tells_how_long_and_what_comes_after(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, trial, "begin_trial", (CHANGED, TRIAL._replace(phase=Phase.ON)))
    document = read("trial", "scx_rusty", "--for", "1m30s", "--allow-unsigned")
    assert calls[0][3] == 90.0
    assert calls[0][4] == ("/usr/bin/true",)
    assert (document["trial"]["back_to"], document["trial"]["phase"]) == ("scx_old", "on")
    text = call("trial", "scx_rusty", "--for", "90", "--allow-unsigned").stdout
    assert text.endswith("on trial for 1m30s, then back to scx_old; `schedctl keep` keeps it\n")


@pytest.mark.parametrize("time", ["", "0", "x", "10x", "-5", "25h", "1m1h", "1.5m"])
def test_wrong_time_is_a_usage_error(machine: Machine, time: str) -> None:
    from click import BadParameter

    with pytest.raises(BadParameter, match=r"is not a time|is too short|is too long"):
        call("trial", "scx_rusty", f"--for={time}")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("lavd", "schedctl enable lavd --allow-unsigned"),
        ("scx_rusty --mode auto", "schedctl enable scx_rusty --mode auto --allow-unsigned"),
        ("scx_lavd --mode gaming -- -v", "schedctl enable scx_lavd --mode gaming --allow-unsigned -- -v"),
        (
            "ghcr.io/schedkit/scx_rusty --version v1 --name x --config {file} --env A=secret --network host"
            " --unprivileged --timeout 1m --driver podman --insecure-registry r:5000 --catalog {file} -- -s '2 us'",
            "schedctl enable ghcr.io/schedkit/scx_rusty --version v1 --name x --config '{file}' --env A --network host"
            " --unprivileged --timeout 60s --driver podman --catalog '{file}' --insecure-registry r:5000"
            " --allow-unsigned -- -s '2 us'",
        ),
    ],
)
def test_keep_names_the_command_that_enables_what_stays(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, line: str
) -> None:
    file = tmp_path / "a file.json"
    file.write_text("{}")
    begun = note(monkeypatch, trial, "begin_trial", (CHANGED, TRIAL))
    call("trial", "--allow-unsigned", *(word.format(file=file) for word in shlex.split(words)))
    command = begun[0][-1]["command"]
    assert command == line.format(file=file)
    note(monkeypatch, trial, "keep", TRIAL._replace(command=command))
    assert call("keep").stdout == f"scx_rusty stays; `{command}` starts it at boot, too\n"
    assert read("keep")["command"] == command


def test_what_keep_names_enables_the_same(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "a file.json"
    file.write_text("{}")
    begun = note(monkeypatch, trial, "begin_trial", (CHANGED, TRIAL))
    words = ["scx_lavd", "--mode", "gaming", "--config", str(file), "--unprivileged", "--allow-unsigned", "--", "a b"]
    call("trial", *words)
    note(monkeypatch, switch, "switch", CHANGED)
    call(*shlex.split(begun[0][-1]["command"])[1:])
    request, choice = begun[0][1], choose(machine)
    assert (choice.args, choice.files, choice.unprivileged) == (request.args, request.files, request.unprivileged)


def test_keep_and_restore_end_a_trial(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, trial, "keep", TRIAL)
    assert read("keep")["scheduler"] == "scx_rusty"
    assert "schedctl enable scx_rusty" in call("keep").stdout
    note(monkeypatch, trial, "end_trial", TRIAL._replace(phase=Phase.ENDED, why="over", at="2026-01-01T00:00:00Z"))
    assert read("restore")["trial"]["why"] == "over"
    assert call("restore").stdout == "the trial of scx_rusty is over: back to scx_old\n"


def test_status_shows_what_is_enabled_and_on_trial(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedkit.host.status.observe", lambda *_: OBSERVED)
    nothing = read("status")
    assert (nothing["enabled"], nothing["restarted"], nothing["trial"]) == (None, None, None)
    enable(monkeypatch)
    machine.lock.parent.mkdir()
    write_trial(machine, TRIAL._replace(phase=Phase.ON))
    systemd.show(ActiveState="inactive", SubState="dead", NRestarts=0, ExecMainStatus=0)
    document = read("status")
    enabled = document["enabled"]
    assert (enabled["scheduler"], enabled["state"], enabled["at_boot"]) == ("scx_rusty", "inactive", False)
    assert document["trial"]["back_to"] == "scx_old"
    text = call("status").stdout
    assert "\nenabled     scx_rusty, not at boot (systemctl disabled it), not running\n" in text
    assert f"\n            ghcr.io/schedkit/scx_rusty:latest@{DIGEST}\n" in text
    assert "\ntrial       scx_rusty for another 23h" in text
    ended = TRIAL._replace(phase=Phase.ENDED, why="ejected", at="2026-01-01T00:00:00Z", sequence=3)
    write_trial(machine, ended)
    told = "trial       scx_rusty ended at 2026-01-01T00:00:00Z: ejected; back to scx_old"
    assert told in call("status").stdout
    write_trial(machine, ended._replace(sequence=2))  # something else attached since
    assert "trial" not in call("status").stdout
    (machine.lock.parent / "trial.json").write_text("{")
    assert "unknown" in read("status")["trial"]
    (machine.root / FILES[ENABLED]).write_text("[Service]\n")
    assert "unknown" in read("status")["enabled"]
    assert "\nenabled     unknown (" in call("status").stdout


def test_service_takes_over_what_is_attached_or_runs_it(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "remove_unattached", lambda *_: None)
    call("service", ENABLED, code=66)
    enable(monkeypatch)
    followed = note(monkeypatch, service, "follow_logs", 0)
    runs = note(monkeypatch, run, "run", ATTACHED)
    call("service", ENABLED)
    assert followed[0][1] is ATTACHED.container
    assert followed[0][-1] == {"lasting": True}
    assert str(runs[0][1].image.source).endswith(DIGEST)
    monkeypatch.setattr(lasting, "find_chosen", lambda *_: MANAGED)
    call("service", ENABLED)
    assert (len(runs), followed[1][1]) == (1, MANAGED.container)
    (machine.root / FILES[ENABLED]).write_text("")
    call("service", ENABLED, code=69)


@pytest.mark.parametrize(("policy", "lasts"), [("on-failure", False), ("on-failure:3", False), ("always", True)])
def test_one_that_ends_by_itself_is_restarted_only_if_it_is_to_run_always(
    machine: Machine, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch, policy: str, lasts: bool
) -> None:
    note(monkeypatch, run, "run", ATTACHED)
    call("run", "scx_rusty", "--restart", policy, "--allow-unsigned")
    choice = read_choice(machine.root, RERUN)
    assert isinstance(choice, Choice)
    assert choice.restart == policy
    assert ("StartLimitBurst" in (machine.root / FILES[RERUN]).read_text()) is (policy == "on-failure:3")
    followed = note(monkeypatch, service, "follow_logs", 0)
    call("service", RERUN)
    assert followed[0][-1] == {"lasting": lasts}


def test_choice_is_run_with_the_settings_that_it_was_made_with(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    enable(monkeypatch)
    choice = choose(machine)._replace(driver="docker", socket="/x.sock", cache="/c", insecure_registries=("r:5000",))
    session = open_session(Flags())
    use_choice(session, choice._replace(trust_policy="/p.yaml"))
    settings = session.settings
    assert (settings.driver, settings.sockets, settings.cache) == ("docker", {"docker": "/x.sock"}, Path("/c"))
    assert (settings.trust_policy, settings.allow_unsigned) == ("/p.yaml", True)
    assert settings.insecure_registries == {"r:5000"}
    session = open_session(Flags(trust_policy="/new.yaml"))  # as a configuration file may say since
    use_choice(session, choice)
    assert session.settings.trust_policy == "/new.yaml"


def test_verified_image_that_is_here_needs_no_network(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    enable(monkeypatch)
    choice = choose(machine)
    asked: list[bool] = []

    def fetch(session: Session, named: Any) -> Image:
        asked.append(session.settings.offline)
        return session.registry.fetch_image(named.reference)

    monkeypatch.setattr(Session, "fetch_image", fetch)
    monkeypatch.setattr("schedkit.schedctl.verification.make_verify", lambda *_, **__: lambda _: "by a key")
    session = open_session(Flags())
    request, verify = recall_request(session, choice)
    assert (asked, verify(request.image)) == ([True], "by a key")

    def refuse(_: object) -> str:
        raise UnverifiedError("not verified before")

    monkeypatch.setattr("schedkit.schedctl.verification.make_verify", lambda *_, **__: refuse)
    recall_request(session, choice)
    assert asked == [True, True, False]
    assert not session.settings.offline


@pytest.mark.parametrize("is_known", [True, False])
def test_trusted_root_that_was_replaced_keeps_nothing_from_starting_without_network(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    enable(monkeypatch)

    def fetch(session: Session, named: Any) -> Image:
        if not session.settings.offline:
            raise UnavailableError("no network")
        return session.registry.fetch_image(named.reference)

    def make_verify(*_: object, by_any_root: bool = False) -> Any:
        def verify(_: object) -> str:
            if by_any_root and is_known:
                return "by somebody"
            raise UnverifiedError("not verified before with this trusted root")

        return verify

    monkeypatch.setattr(Session, "fetch_image", fetch)
    monkeypatch.setattr("schedkit.schedctl.verification.make_verify", make_verify)
    session = open_session(Flags())
    if not is_known:
        with pytest.raises(UnavailableError, match="no network"):
            recall_request(session, choose(machine))
        return
    request, verify = recall_request(session, choose(machine))
    assert verify(request.image) == "by somebody"


def test_program_is_found_for_who_has_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "schedctl"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("schedctl", str(script)):
        monkeypatch.setattr(sys, "argv", [name])
        assert find_program() == (str(script),)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["./schedctl"])
    assert find_program() == (str(script),)
    for name in ("/x/schedkit/schedctl/__main__.py", "nothing", "-c"):
        monkeypatch.setattr(sys, "argv", [name])
        assert find_program() == (sys.executable, "-m", "schedkit.schedctl")


def test_every_name_of_a_unit_is_one_that_the_service_takes() -> None:
    from schedkit.host.units import TRIAL

    argument = service.command.params[0]
    assert set(argument.type.choices) == {ENABLED, RERUN, TRIAL}  # type: ignore[attr-defined]
