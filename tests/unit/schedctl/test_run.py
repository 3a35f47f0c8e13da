"""`run` and `switch` over stand-ins of what lies below them, and what is refused before anything is asked."""

import re
from pathlib import Path
from typing import Any

import click
import pytest

from schedkit.errors import SchedkitError, UsageError
from schedkit.host import following, preparing, run, switch
from schedkit.host.errors import EjectedError, SlotTakenError
from schedkit.host.model import Attachment, Restart, RunRequest
from schedkit.images import catalog
from schedkit.runtimes import drivers
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.view import Runtimes
from schedkit.schedctl.group import schedctl
from tests.unit.schedctl.fakes import (
    ATTACHED,
    FOREIGN,
    ID,
    OBSERVED,
    SWITCHED,
    FakeRuntime,
    make_container,
)
from tests.unit.schedctl.runner import call, make_runner, note, read


def test_run_hands_everything_over(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, run, "run", ATTACHED)
    monkeypatch.setenv("COLOUR", "blue")
    words = (
        "run scx_rusty --version 1.1.3 --name mine --env A=b=c -e COLOUR --network host --timeout 7 --allow-unsigned"
    )
    document = read(*words.split(), "--", "--slice", "20")
    assert (document["scheduler"], document["container"]["ops"]) == ("scx_rusty", "rusty_1.1.4")
    host, request, verify, _ = calls[0]
    assert host.runtimes.chosen is runtime
    assert list(host.runtimes) == [runtime]
    assert isinstance(request, RunRequest)
    assert str(request.image.source) == "ghcr.io/schedkit/scx_rusty:1.1.3"
    assert (request.name, request.args, request.timeout, request.wait) == ("mine", ("--slice", "20"), 7.0, True)
    assert (request.env, request.host_network) == ({"A": "b=c", "COLOUR": "blue"}, True)
    assert verify(request.image) == "unsigned-allowed"


def test_run_with_replace_switches(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = note(monkeypatch, switch, "check_switch", None)
    calls = note(monkeypatch, switch, "switch", SWITCHED)
    note(monkeypatch, run, "run", AssertionError("not this way"))
    words = ("run", "scx_rusty", "--replace", "--name", "mine", "--allow-unsigned")
    document = read(*words)
    assert (document["replaced"]["name"], document["gap_seconds"]) == ("scx_lavd", 0.042)
    assert checked
    assert (calls[0][1].name, calls[0][1].replace) == ("mine", True)
    assert "in place of scx_lavd; gap 42 ms" in call(*words).stdout


def test_run_with_replace_where_nothing_runs_is_a_run(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, switch, "switch", SWITCHED._replace(replaced=None, gap=None))
    with_replace = call("run", "scx_rusty", "--replace").stdout
    note(monkeypatch, run, "run", ATTACHED)
    assert with_replace == call("run", "scx_rusty").stdout


@pytest.mark.parametrize("command", ["run", "switch"])
def test_container_without_privileges_is_asked_for(
    command: str, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = (
        note(monkeypatch, run, "run", ATTACHED) if command == "run" else note(monkeypatch, switch, "switch", SWITCHED)
    )
    call(command, "scx_rusty")
    call(command, "scx_rusty", "--unprivileged")
    assert [one[1].unprivileged for one in calls] == [False, True]


def test_run_of_an_unsigned_image_is_a_loud_warning_with_consent_and_refused_without(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verifying(_host: Any, request: Any, verify: Any) -> Any:
        verify(request.image)
        return ATTACHED

    monkeypatch.setattr(run, "run", verifying)
    refused = call("run", "scx_rusty", code=21)
    assert isinstance(refused.exception, SchedkitError)
    assert "--allow-unsigned" in refused.exception.hint
    assert "NOT VERIFIED" in call("run", "scx_rusty", "--allow-unsigned").stderr
    monkeypatch.setenv("SCHEDCTL_ALLOW_UNSIGNED", "1")
    assert "NOT VERIFIED" in call("run", "scx_rusty").stderr


def test_what_a_scheduler_said_is_shown_before_the_error(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, run, "run", EjectedError("thrown out", log=("first", "second \x1b[2J")))
    result = call("run", "scx_rusty", code=12)
    assert result.stderr.splitlines()[-2:] == ["  | first", "  | second �[2J"]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "scx_rusty", "--restart", "sometimes"],
        ["run", "scx_rusty", "--restart", "on-failure", "--attach"],
        ["run", "scx_rusty", "--restart", "on-failure", "--no-wait"],
        ["run", "scx_rusty", "--replace", "--no-wait"],
        ["run", "scx_rusty", "--env", "=x"],
        ["run", "scx_rusty", "--env", "NOT_SET_ANYWHERE"],
        ["run", "scx_rusty", "--version", "../other"],
        ["run", "scx_rusty", "--version", ""],
        ["pull", "scx_rusty", "--version", ""],
        ["run", "ghcr.io/Capital/letters"],
        ["run", "scx_rusty", "--name", "a b"],
        ["switch", "scx_rusty", "--name", "-x"],
        ["run", "scx_rusty", "--name", ""],
        ["run", "scx_rusty", "--name", "a" * 129],
        ["stop", "x", "--all"],
        ["detach"],
    ],
)
def test_wrong_words_are_usage_errors(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    started = note(monkeypatch, run, "run", ATTACHED)
    monkeypatch.setattr("schedkit.schedctl.commands.detach.find_foreign", lambda *_: FOREIGN)
    call(*words, code=64)
    assert started == []


@pytest.mark.parametrize("words", ["switch scx_lavd --attach", "switch scx_lavd --replace", "trial scx_lavd --attach"])
def test_an_option_of_run_is_not_taken_for_the_schedulers_own(words: str) -> None:
    result = make_runner().invoke(schedctl, words.split(), standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert result.exception.hint.startswith(f"{words.split()[2]} is an option of `schedctl run`")


@pytest.mark.parametrize("command", ["run", "switch"])
def test_an_option_that_is_the_schedulers_own_is_told_where_it_belongs(command: str) -> None:
    result = make_runner().invoke(schedctl, [command, "scx_lavd", "--performance"], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert re.fullmatch(r"No such option:? \W?--performance\W*", result.exception.message)  # click's words
    assert (
        result.exception.hint
        == f"the scheduler's own options go after --: schedctl {command} scx_lavd -- --performance"
    )


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        (make_container(state=ContainerState.EXITED, exit_code=0), 0, "scx_rusty ended by itself"),
        (make_container(state=ContainerState.EXITED, exit_code=3), 1, ""),
        (make_container(state=ContainerState.EXITED), 1, ""),
        (None, 0, "scx_rusty was stopped or replaced by another schedctl"),
        (KeyboardInterrupt(), 0, ""),
        (EjectedError("thrown out"), 12, ""),
    ],
)
def test_attached_run_ends_as_its_scheduler_does(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, ended: object, code: int, said: str
) -> None:
    note(monkeypatch, run, "run", ATTACHED)
    note(monkeypatch, run, "find_same", None)
    followed = note(monkeypatch, following, "follow", ended)
    result = call("run", "scx_rusty", "--attach", code=code)
    assert followed[0][1:3] == (ATTACHED.container, "rusty_1.1.4")
    assert said in result.stderr
    followed[0][3](b"")  # what writes the output


def test_attached_run_takes_over_what_runs_already(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    started = note(monkeypatch, run, "run", ATTACHED)
    note(monkeypatch, run, "find_same", OBSERVED.managed[0])
    followed = note(monkeypatch, following, "follow", None)
    call("run", "scx_rusty", "--attach")
    assert (started, followed[0][1].id, followed[0][-1]) == ([], ID, {"tail": 10})


def test_attached_run_removes_what_an_earlier_one_left(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    started = note(monkeypatch, run, "run", ATTACHED)
    note(monkeypatch, run, "find_same", OBSERVED.managed[0]._replace(attachment=Attachment.NO))
    removed = note(monkeypatch, run, "remove_unattached", None)
    note(monkeypatch, following, "follow", None)
    call("run", "scx_rusty", "--attach")
    assert (len(removed), len(started)) == (1, 1)


def test_switch_prints_the_gap(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, switch, "switch", SWITCHED)
    assert "in place of scx_lavd; gap 42 ms" in call("switch", "scx_rusty", "--restart", "no").stdout
    assert read("switch", "scx_rusty")["gap_seconds"] == 0.042
    assert calls[0][1].restart == Restart()


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e12", "-1", "2d"])
@pytest.mark.parametrize("words", ["run scx_rusty --timeout", "switch scx_rusty --timeout", "stop --timeout"])
def test_time_that_nobody_can_wait_for_is_refused(runtime: FakeRuntime, words: str, seconds: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a time|is too short|is too long"):
        call(*words.split(), seconds)


@pytest.mark.parametrize("seconds", ["inf", "nan", "0"])
def test_interval_that_never_comes_is_refused(runtime: FakeRuntime, seconds: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a time|is too short|is too long"):
        call("watch", "--count", "1", "--interval", seconds)


@pytest.mark.parametrize("option", ["--trust-policy", "--driver", "--socket", "--catalog"])
def test_option_without_a_value_is_not_taken_for_one_that_was_not_given(runtime: FakeRuntime, option: str) -> None:
    """As in `--trust-policy "$POLICY"` where nothing set POLICY."""
    with pytest.raises(click.BadParameter, match="it is empty"):
        call("pull", "scx_rusty", "--allow-unsigned", option, "")


@pytest.mark.parametrize("words", ["run", "run --attach", "switch"])
@pytest.mark.parametrize("name", ["scx_rusty --version ../other", "ghcr.io/Capital/letters"])
def test_wrong_name_is_told_before_anything_is_asked(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: str, name: str
) -> None:
    kernel = note(monkeypatch, preparing, "check_kernel", None)
    catalogs = note(monkeypatch, catalog, "load_catalog", catalog.Catalog({}))
    call(*words.split(), *name.split(), code=64)
    assert (kernel, catalogs) == ([], [])


@pytest.mark.parametrize("words", ["run", "run --attach", "switch"])
def test_slot_that_is_taken_is_told_before_catalogs_are_fetched(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    catalogs = note(monkeypatch, catalog, "load_catalog", catalog.Catalog({}, ("one has not been fetched yet",)))
    for module, check in ((run, "check_run"), (switch, "check_switch")):
        note(monkeypatch, module, check, SlotTakenError("other is attached already"))
    monkeypatch.setattr(run, "observe_settled", lambda _: OBSERVED._replace(managed=()))
    call(*words.split(), "scx_rusty", code=10)
    assert [options for *_, options in catalogs] == [{"offline": True}]


@pytest.mark.parametrize("command", ["run", "switch", "pull"])
def test_wrong_trust_policy_is_told_before_anything_is_asked(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    kernel = note(monkeypatch, preparing, "check_kernel", None)
    runtimes = note(monkeypatch, drivers, "find_runtimes", Runtimes([runtime]))
    policy = tmp_path / "policy.yaml"
    policy.write_text("scopes: nonsense\n")
    result = call(command, "scx_rusty", "--trust-policy", str(policy), code=65)
    assert isinstance(result.exception, SchedkitError)
    assert str(policy) in result.exception.message
    assert (kernel, runtimes) == ([], [])
