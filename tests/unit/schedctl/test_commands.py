"""Each command over stand-ins of what lies below it: its options, its words, its JSON and its exit code."""

import json
import re
import struct
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from schedkit.errors import NoAnswerError, NotFoundError, SchedkitError, UsageError
from schedkit.host import doctor, following, managed, preparing, run, status, stop, switch, watching
from schedkit.host.detaching import Detached, Foreign
from schedkit.host.errors import EjectedError, SlotTakenError
from schedkit.host.model import Attachment, Machine, Restart, RunRequest, Status, Summary
from schedkit.host.stop import Stopped
from schedkit.host.watching import Sample
from schedkit.images import catalog
from schedkit.images.catalog_remote import PUBLISHED
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.detach import Way
from schedkit.kernel.preflight import examine_kernel
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.drivers import DRIVERS
from schedkit.runtimes.local_image import LocalImage
from schedkit.runtimes.view import Runtimes, UnreachableRuntime
from schedkit.schedctl import session as sessions
from schedkit.schedctl.group import schedctl
from schedkit.schedctl.output import make_output
from schedkit.schedctl.schema import missing, undocumented
from schedkit.unknown import Unknown
from tests.unit.kernel.roots import FREE, write_files, write_sched_ext
from tests.unit.schedctl.fakes import (
    ATTACHED,
    DIGEST,
    HOLDER,
    ID,
    KERNEL,
    NOW,
    OBSERVED,
    SWITCHED,
    FakeRegistry,
    FakeRuntime,
    make_container,
)
from tests.unit.schedctl.runner import make_runner

HIDDEN = UnreachableRuntime("docker", "/run/docker.sock", "no response", absent=False)
STOPPED = Stopped(make_container(), "scx_rusty", was_attached=True, killed=False, exit_code=0, seconds=0.5)


def call(*words: str, code: int = 0, input: str | None = None) -> Result:
    result = make_runner().invoke(schedctl, words, input=input, standalone_mode=False)
    if isinstance(result.exception, SchedkitError):
        assert result.exception.exit_code == code, result.exception.message
    elif result.exception is not None and not isinstance(result.exception, KeyboardInterrupt):
        raise result.exception
    else:
        assert (result.return_value or 0) == code
    return result


def read(*words: str, code: int = 0) -> Any:
    document = json.loads(call(words[0], "-o", "json", *words[1:], code=code).stdout)
    assert document["version"] == "1"
    assert undocumented(words[0], document) == []
    assert missing(words[0], document) == []
    return document


def note(monkeypatch: pytest.MonkeyPatch, module: object, name: str, answer: object) -> list[tuple[Any, ...]]:
    """Put something in a function's place that notes how it is called."""
    calls: list[tuple[Any, ...]] = []

    def stand_in(*arguments: object, **options: object) -> object:
        calls.append((*arguments, options))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(module, name, stand_in)
    return calls


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
        ["run", "scx_rusty", "--restart", "always"],
        ["run", "scx_rusty", "--restart", "on-failure", "--attach"],
        ["run", "scx_rusty", "--restart", "on-failure", "--no-wait"],
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


def test_stop_tells_what_it_did(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    one = note(monkeypatch, import_module("schedkit.schedctl.commands.stop"), "stop", STOPPED)
    many = note(monkeypatch, import_module("schedkit.schedctl.commands.stop"), "stop_all", ([], []))
    assert read("stop", "scx_rusty", "--timeout", "3")["stopped"][0]["was_attached"] is True
    assert (one[0][1], one[0][-1]["timeout"]) == ("scx_rusty", 3.0)
    assert call("stop").stdout == f"scx_rusty (podman {ID[:12]}): detached and removed after 500 ms\n"
    assert call("stop", "--all").stdout == "no container managed by schedctl is here\n"
    assert len(many) == 1


def test_stop_all_tells_what_was_stopped_and_then_what_was_not(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = stop.NotStopped(make_container(name="scx_left"), NotFoundError("it went", hint="look"))
    module = import_module("schedkit.schedctl.commands.stop")
    note(monkeypatch, module, "stop_all", ([STOPPED], [failed]))
    result = call("stop", "--all", code=66)
    assert "scx_rusty" in result.stdout
    assert isinstance(result.exception, SchedkitError)
    assert result.exception.message == "scx_left (podman): it went"


def test_stop_all_does_not_claim_that_nothing_is_where_it_could_not_ask(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = HIDDEN._replace(error=NoAnswerError)
    monkeypatch.setattr(sessions, "find_runtimes", lambda *_, **__: Runtimes([runtime], [slow]))
    note(monkeypatch, import_module("schedkit.schedctl.commands.stop"), "stop_all", ([], []))
    result = call("stop", "--all", code=124)
    assert result.stdout == ""
    assert isinstance(result.exception, SchedkitError)
    assert "docker does not respond" in result.exception.message


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
def test_slot_that_is_taken_is_told_before_catalogs_are_read(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    catalogs = note(monkeypatch, catalog, "load_catalog", catalog.Catalog({}))
    for module, check in ((run, "check_run"), (switch, "check_switch")):
        note(monkeypatch, module, check, SlotTakenError("other is attached already"))
    monkeypatch.setattr(run, "observe_settled", lambda _: OBSERVED._replace(managed=()))
    call(*words.split(), "scx_rusty", code=10)
    assert catalogs == []


@pytest.mark.parametrize("command", ["run", "switch", "pull"])
def test_wrong_trust_policy_is_told_before_anything_is_asked(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    kernel = note(monkeypatch, preparing, "check_kernel", None)
    runtimes = note(monkeypatch, sessions, "find_runtimes", Runtimes([runtime]))
    policy = tmp_path / "policy.yaml"
    policy.write_text("scopes: nonsense\n")
    result = call(command, "scx_rusty", "--trust-policy", str(policy), code=65)
    assert isinstance(result.exception, SchedkitError)
    assert str(policy) in result.exception.message
    assert (kernel, runtimes) == ([], [])


def test_ps_is_a_table_and_a_document(runtime: FakeRuntime) -> None:
    titles, row = call("ps").stdout.splitlines()
    assert titles.split() == ["PID", "ID", "NAME", "IMAGE", "DRIVER", "UPTIME", "ATTACHED", "VERIFIED"]
    assert row.split()[:5] == ["4242", ID[:12], "scx_rusty", "ghcr.io/schedkit/scx_rusty:latest", "podman"]
    assert row.split()[-2:] == ["yes", "unsigned-allowed"]
    (one,) = read("ps")["containers"]
    assert call("ps", "-q").stdout == f"{one['id']}\n"
    assert (one["digest"], one["args"], one["supervised"]) == (DIGEST, ["--slice", "20"], False)


def test_a_driver_that_cannot_be_asked_is_told_with_the_list(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(unreachable=(HIDDEN,)))
    assert "docker does not respond (no response): its containers are not listed" in call("ps").stderr
    assert read("ps")["unreachable"][0]["absent"] is False


@pytest.mark.parametrize(
    ("summary", "code"), [(Summary.RUNNING, 0), (Summary.MANAGED_MISMATCH, 2), (Summary.UNKNOWN, 1)]
)
def test_status_ends_with_the_code_of_what_it_found(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, summary: Summary, code: int
) -> None:
    found = Status(summary, "A sentence.", "schedctl stop" if code else "", KERNEL, OBSERVED.managed, HOLDER, (HIDDEN,))
    note(monkeypatch, status, "read_status", found)
    document = read("status", code=code)
    assert (document["status"], document["schema_version"]) == (summary.value, "1")
    assert document["discrepancy"] == ("A sentence." if code else None)
    assert document["scheduler"]["container_id"] == ID
    text = call("status", code=code).stdout
    assert summary.value in text
    assert "A sentence." in text
    assert ("fix         schedctl stop" in text) is bool(code)
    assert "restart on-failure:3, but no unit of systemd restarts it" in text


def test_status_shows_what_it_could_not_read(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KernelState(Unknown("permission denied"))
    note(monkeypatch, status, "read_status", Status(Summary.UNKNOWN, "?", "", kernel, (), Unknown("not root")))
    document = read("status", code=1)
    assert document["kernel"]["enabled"] == {"unknown": "permission denied"}
    assert document["holder"] == {"unknown": "not root"}
    assert "kernel      unknown (permission denied)" in call("status", code=1).stdout


def test_list_marks_what_is_here(runtime: FakeRuntime) -> None:
    rows = {row["name"]: row for row in read("list")["schedulers"]}
    assert (rows["scx_rusty"]["pulled"], rows["scx_rusty"]["attached"]) == (True, True)
    assert (rows["scx_lavd"]["pulled"], rows["scx_lavd"]["attached"]) == (False, False)
    assert "scx_rusty" in next(line for line in call("list").stdout.splitlines() if "attached" in line)


@pytest.mark.parametrize(
    ("observed", "attached"),
    [
        (OBSERVED._replace(managed=()), True),  # whoever started it
        (OBSERVED._replace(managed=(), kernel=KernelState(State.DISABLED)), False),
        (OBSERVED._replace(managed=(), kernel=KernelState(State.ENABLED, ops="other")), False),
        (OBSERVED._replace(managed=(), unreachable=(HIDDEN,), kernel=KernelState(State.ENABLED, ops="other")), None),
        (OBSERVED._replace(managed=(), kernel=KernelState(Unknown("no"))), None),
    ],
)
def test_list_tells_what_the_kernel_has(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, observed: Any, attached: bool | None
) -> None:
    monkeypatch.setattr(managed, "observe", lambda *_: observed)
    rows = {row["name"]: row["attached"] for row in read("list")["schedulers"]}
    assert rows["scx_rusty"] is attached


def test_list_does_not_claim_to_know_what_a_silent_driver_has(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "find_runtimes", lambda *_, **__: Runtimes([runtime], [HIDDEN]))
    assert {row["pulled"] for row in read("list")["schedulers"]} == {None}


def test_image_that_an_engine_pulled_from_a_mirror_is_pulled(
    runtime: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "fetch_repositories", lambda: frozenset({"mirror.lan/ghcr/schedkit/scx_rusty"}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "schedkit").mkdir()
    for mirror, pulled in (("mirror.lan/ghcr", True), ("mirror.lan", False)):
        (tmp_path / "schedkit/config.toml").write_text(f'[mirrors]\n"ghcr.io" = ["{mirror}"]\n')
        rows = {row["name"]: row["pulled"] for row in read("list")["schedulers"]}
        assert rows["scx_rusty"] is pulled


def test_versions_are_the_registrys_with_what_is_here(runtime: FakeRuntime) -> None:
    document = read("versions", "scx_rusty", "--limit", "2")
    assert [row["tag"] for row in document["versions"]] == ["latest", "1.1.4"]
    assert (document["total"], document["versions"][0]["here"]) == (3, True)
    assert "1 older" in call("versions", "scx_rusty", "--limit", "2").stderr


def test_version_is_here_when_its_manifest_is_as_that_is_what_runtimes_pull(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = "sha256:" + "1" * 64
    monkeypatch.setattr(FakeRegistry, "fetch_digests", lambda *_: (index, DIGEST))
    (row,) = read("versions", "scx_rusty", "--limit", "1")["versions"]
    assert (row["digest"], row["here"]) == (index, True)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel with which all is well, as files."""
    root = tmp_path / "root"
    write_sched_ext(root, FREE)
    files = {"proc/sys/kernel/osrelease": "6.12.107", "proc/version": "Linux version 6.12.107 #1 SMP"}
    write_files(root, files | {"proc/cmdline": "quiet"})
    btf = root / "sys/kernel/btf/vmlinux"
    btf.parent.mkdir()
    btf.write_bytes(struct.pack("<HBB5I", 0xEB9F, 1, 0, 24, 0, 0, 0, 1) + b"\0")
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(root=root))
    return root


def test_info_says_whether_this_kernel_will_do(runtime: FakeRuntime, kernel: Path) -> None:
    assert read("info", "scx_rusty")["kernel"] == {"fits": True, "obstacles": []}
    write_files(kernel, {"proc/sys/kernel/osrelease": "6.1.0"})
    (kernel / "sys/kernel/btf/vmlinux").unlink()
    document = read("info", "scx_rusty")
    assert document["kernel"]["fits"] is False
    assert [one["id"] for one in document["kernel"]["obstacles"]] == ["kernel.version", "kernel.btf"]
    assert "kernel.version: 6.1.0, older than 6.12 (boot a kernel of 6.12 or later)" in call("info", "scx_rusty").stdout


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("latest", "6.12.107; the required minimum reads 'latest', not a version"),
        ("", "the image does not say which kernel it needs"),
    ],
)
def test_info_does_not_know_what_an_image_does_not_say(
    runtime: FakeRuntime, kernel: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, seen: str
) -> None:
    fetch = FakeRegistry.fetch_image

    def relabelled(*arguments: Any) -> Any:
        return replace(fetch(*arguments), labels={"org.schedkit.scheduler.kernel.min-version": wanted})

    monkeypatch.setattr(FakeRegistry, "fetch_image", relabelled)
    document = read("info", "scx_rusty")["kernel"]
    assert (document["fits"], [one["detail"] for one in document["obstacles"]]) == (None, [seen])
    said = call("info", "scx_rusty").stdout
    assert "runs here       unknown" in said
    assert ("kernel          not stated" in said) is (not wanted)


def test_info_does_not_know_what_the_kernel_does_not_show(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(root=tmp_path / "nothing"))
    assert read("info", "scx_rusty")["kernel"]["fits"] is None


def test_pull_shows_progress_and_obeys_the_same_rule_as_run(runtime: FakeRuntime) -> None:
    call("pull", "scx_rusty", code=21)
    assert runtime.pulled == []
    assert read("pull", "scx_rusty", "--allow-unsigned")["digest"] == DIGEST
    assert runtime.pulled == [DIGEST]
    assert "100% of" in call("pull", "scx_rusty", "--allow-unsigned").stderr


def test_logs_are_bytes_as_they_are(runtime: FakeRuntime) -> None:
    assert call("logs", ID[:5], "--tail", "3").stdout_bytes == b"attached\n\xff raw \n"


FOREIGN = Foreign("rusty", KERNEL, HOLDER, Way("detach BPF link 17", 17))


def test_detach_says_what_it_will_do_and_does_it_with_a_yes(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("schedkit.schedctl.commands.detach")
    note(monkeypatch, module, "find_foreign", FOREIGN)
    done = note(monkeypatch, module, "end_foreign", Detached(FOREIGN, KernelState(State.DISABLED)))
    result = call("detach", code=64)
    assert "detach BPF link 17" in result.stderr
    assert done == []
    assert read("detach", "--yes")["way"] == "detach BPF link 17"
    assert call("detach", "-y").stdout == "rusty is detached; the kernel says disabled\n"


def test_detach_refuses_what_may_be_managed_behind_a_runtime_that_does_not_respond(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("schedkit.schedctl.commands.detach")
    doubtful = FOREIGN._replace(doubt="podman does not respond (no response within 10 s)")
    note(monkeypatch, module, "find_foreign", doubtful)
    done = note(monkeypatch, module, "end_foreign", Detached(doubtful, KernelState(State.DISABLED)))
    refused = call("detach", "--yes", code=69)
    assert isinstance(refused.exception, SchedkitError)
    assert refused.exception.message.startswith("rusty may be managed by schedctl: podman does not respond")
    assert "schedctl detach --force" in refused.exception.hint
    assert done == []
    assert "may be managed by schedctl" in call("detach", "--yes", "--force").stderr
    assert len(done) == 1


def test_doctor_ends_with_1_when_something_blocks(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [Check("kernel.version", Outcome.OK, "6.12"), Check("kernel.config", Outcome.UNKNOWN, "?")]
    note(monkeypatch, doctor, "examine", checks)
    assert read("doctor")["summary"] == {"passed": 1, "failed": 0, "skipped": 1, "blocking": 0}
    note(monkeypatch, doctor, "examine", [*checks, Check("runtime.any", Outcome.ERROR, "none", "start one")])
    assert read("doctor", code=1)["checks"][2]["status"] == "fail"
    said = call("doctor", code=1).stdout
    assert "fix: start one" in said
    assert said.endswith("This machine cannot run sched_ext schedulers yet: fix runtime.any.\n")


@pytest.mark.parametrize(
    ("slot", "sched_ext", "verdict"),
    [
        (Outcome.OK, Outcome.OK, "Ready: try schedctl run scx_bpfland."),
        (Outcome.WARNING, Outcome.OK, "Ready, and a scheduler is attached already: schedctl status tells which."),
        (
            Outcome.UNKNOWN,
            Outcome.UNKNOWN,
            "Whether this machine can run sched_ext schedulers is unknown: its kernel could not be looked at.",
        ),
    ],
)
def test_doctor_ends_with_a_verdict(
    slot: Outcome, sched_ext: Outcome, verdict: str, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [Check("kernel.sched_ext", sched_ext, "?"), Check("kernel.slot", slot, "?")]
    note(monkeypatch, doctor, "examine", checks)
    assert call("doctor").stdout.splitlines()[-1] == verdict


def test_doctor_has_one_line_for_runtimes_that_are_not_here(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = [Check(f"runtime.{name}_socket", Outcome.NOT_APPLICABLE, "none") for name in ("docker", "containerd")]
    checks = [*absent, Check("runtime.any", Outcome.OK, "1 of 3 runtimes respond")]
    note(monkeypatch, doctor, "examine", checks)
    lines = call("doctor").stdout.splitlines()
    assert lines[0].split(maxsplit=2) == ["-", "runtime.others", "not here, and not needed: docker, containerd"]
    assert lines[1].startswith("ok ")
    document = read("doctor")
    assert [(check["id"], check["status"]) for check in document["checks"][:2]] == [
        ("runtime.docker_socket", "skip"),
        ("runtime.containerd_socket", "skip"),
    ]


def test_doctor_knows_what_every_check_is_about(tmp_path: Path) -> None:
    about = import_module("schedkit.schedctl.commands.doctor").ABOUT
    names = {check.name for check in examine_kernel(tmp_path)} | {"runtime.any", "registry.reachable"}
    assert names | {f"runtime.{driver}_socket" for driver in DRIVERS} == set(about)


def test_doctor_offline_asks_no_registry(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, doctor, "examine", [])
    call("doctor", "--offline")
    call("doctor")
    assert calls[0][-1] == {}
    assert callable(calls[1][-1]["probe"])
    assert calls[1][-1]["registries"] == ["ghcr.io"]


def test_watch_prints_a_line_or_a_document_for_each_look(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample(NOW, KERNEL, 61.0, {"SCX_EV_X": 2.5}, Unknown("silent"))
    monkeypatch.setattr(watching, "watch", lambda *_, **__: iter([sample] * 5))
    assert (
        call("watch", "--count", "2").stdout
        == "2026-01-02T03:04:05Z  enabled  rusty_1.1.4  up 1m01s  SCX_EV_X 2.5/s\n" * 2
    )
    document = read("watch", "--count", "1")
    assert (document["uptime_seconds"], document["rates"]) == (61.0, {"SCX_EV_X": 2.5})
    assert document["stats"] == {"unknown": "silent"}


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef schedctl"), ("fish", "complete --")]
)
def test_completion_scripts_are_for_schedctl(shell: str, mark: str) -> None:
    script = call("completion", shell).stdout
    assert mark in script
    assert f"_SCHEDCTL_COMPLETE={shell}_complete" in script


def test_catalog_update_tells_what_changed(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, catalog, "update_catalogs", ["the catalog x: unchanged"])
    said = json.loads(call("--catalog", "https://example.com/c.json", "catalog", "update", "-o", "json").stdout)
    assert (said["changes"], undocumented("catalog update", said)) == (["the catalog x: unchanged"], [])
    assert calls[0][0] == ["https://example.com/c.json", PUBLISHED]
    call("catalog", "update")
    assert calls[1][0] == [PUBLISHED]
    call("catalog", "update", PUBLISHED)
    assert calls[2][0] == [PUBLISHED]


def test_catalog_update_takes_only_what_has_the_digest(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = note(monkeypatch, catalog, "update_catalogs", ["the catalog x: unchanged"])
    monkeypatch.setenv("SCHEDCTL_CATALOG", "https://example.com/c.json")
    call("catalog", "update", "--digest", DIGEST)
    assert calls[0][0] == [f"{PUBLISHED}#sha256={'d' * 64}"]
    call("catalog", "update", "https://example.com/c.json", "--digest", DIGEST)
    assert calls[1][0] == [f"https://example.com/c.json#sha256={'d' * 64}"]
    call("catalog", "update", "--digest", "sha256:abc", code=64)
    call("catalog", "update", "https://example.com/other.json", code=64)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("said", "begin"),
    [
        ("90s", NOW.timestamp() - 90),
        ("10", NOW.timestamp() - 10),
        ("10m", NOW.timestamp() - 600),
        ("1h30m", NOW.timestamp() - 5400),
        ("2h", NOW.timestamp() - 7200),
        ("1d", NOW.timestamp() - 86400),
        ("2026-01-02T03:00:00Z", NOW.timestamp() - 245),
    ],
)
def test_logs_since_a_moment(said: str, begin: float, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(now=lambda: NOW))
    asked = note(monkeypatch, runtime, "stream_logs", iter([]))
    call("logs", "--since", said)
    assert asked[0][-1]["since"] == begin


@pytest.mark.parametrize("said", ["", "soon", "-5m", "1.5h", "٣m", "9999999999d", "2026-13-01"])
def test_logs_since_no_moment_is_a_usage_error(said: str, runtime: FakeRuntime) -> None:
    refused = call("logs", "--since", said, code=64)
    assert isinstance(refused.exception, SchedkitError)
    assert refused.exception.message == f"--since {said}: not a time"


def test_inspect_tells_everything_of_one_container(runtime: FakeRuntime) -> None:
    document = json.loads(call("inspect").stdout)
    assert document["container"]["id"] == ID
    assert document["container"]["labels"]["org.schedkit.digest"] == DIGEST
    assert document["kernel"]["ops"] == "rusty_1.1.4"
    assert (undocumented("inspect", document), missing("inspect", document)) == ([], [])


def test_logs_without_a_name_are_those_of_the_one_that_ended_last(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = [
        OBSERVED.managed[0]._replace(
            container=make_container(
                id=id, state=ContainerState.EXITED, pid=None, finished=NOW + timedelta(hours=hour)
            ),
        )
        for id, hour in (("first", 1), ("last", 9), ("second", 5))
    ]
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=tuple(ended)))
    asked = note(monkeypatch, runtime, "stream_logs", iter([b"bye\n"]))
    assert call("logs").stdout == "bye\n"
    assert asked[0][0] == "last"


VERIFIED = "key SHA256:zsPB3AgRoXcLBKLVNQCWc6QhGPLmeCESCcXpAzypvj0 (/etc/schedkit/lab.pub)"


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize(
    "words",
    [["list", "--wide"], ["ps"], ["images"], ["versions", "scx_rusty"], ["doctor"], ["status"], ["info", "rusty"]],
)
def test_on_a_narrow_terminal_no_line_is_longer_than_it(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: list[str], width: int
) -> None:
    long = f"ghcr.io/schedkit/scx_rusty:latest@{DIGEST}"
    one = OBSERVED.managed[0]._replace(verified=VERIFIED, container=make_container(image=long, driver="containerd"))
    observed = OBSERVED._replace(managed=(one,))
    monkeypatch.setattr(managed, "observe", lambda *_: observed)
    runtime.images = [LocalImage("podman", "sha256:" + "1" * 64, (long,), 5_000_000, True)]
    found = Status(Summary.RUNNING, "it runs " * 20, "", KERNEL, (one,), HOLDER)
    monkeypatch.setattr(status, "read_status", lambda *_: found)
    seen = "no such socket, or one that nobody listens at, " * 3
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: [Check("runtime.any", Outcome.ERROR, seen, "start one")])
    monkeypatch.setattr(sessions, "make_output", lambda json: make_output(json=json)._replace(width=width))
    lines = call(*words, code=1 if words == ["doctor"] else 0).stdout.splitlines()
    assert max(map(len, lines)) <= width
    if words == ["ps"]:
        assert "scx_rusty" in lines[1]
        assert lines[1].split()[-1] == "yes"
