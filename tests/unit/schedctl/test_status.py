"""`status`, `ps`, `doctor` and `watch` over stand-ins of what lies below them."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from schedkit.host import doctor, managed, status, watching
from schedkit.host.model import Status, Summary
from schedkit.host.watching import Sample
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.preflight import examine_kernel
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.known import DRIVERS
from schedkit.runtimes.local_image import LocalImage
from schedkit.schedctl import session as sessions
from schedkit.schedctl.output import make_output
from schedkit.unknown import Unknown
from tests.unit.schedctl.fakes import (
    DIGEST,
    HIDDEN,
    HOLDER,
    ID,
    KERNEL,
    NOW,
    OBSERVED,
    FakeRuntime,
    make_container,
)
from tests.unit.schedctl.runner import call, note, read


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
        (Outcome.OK, Outcome.OK, "Ready: try schedctl run scx_rusty."),
        (Outcome.WARNING, Outcome.OK, "Ready, and a scheduler is attached already: schedctl status shows which."),
        (
            Outcome.UNKNOWN,
            Outcome.UNKNOWN,
            "Whether this machine can run sched_ext schedulers is unknown: the kernel's state could not be read.",
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
    assert lines[0].split(maxsplit=2) == ["-", "runtime.others", "not running, and not needed: docker, containerd"]
    assert lines[1].startswith("ok ")
    document = read("doctor")
    assert [(check["id"], check["status"]) for check in document["checks"][:2]] == [
        ("runtime.docker_socket", "skip"),
        ("runtime.containerd_socket", "skip"),
    ]


def test_doctor_has_one_line_for_runtimes_that_are_not_installed(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = [Check(f"runtime.{name}_socket", Outcome.NOT_APPLICABLE, "none") for name in ("docker", "containerd")]
    note(monkeypatch, doctor, "examine", [*absent, Check("runtime.any", Outcome.ERROR, "none responds", "install one")])
    lines = call("doctor", code=1).stdout.splitlines()
    assert lines[0].split(maxsplit=2) == ["-", "runtime.others", "not installed: docker, containerd"]
    assert lines[1].startswith("ERROR")


def test_doctor_knows_what_every_check_is_about(tmp_path: Path) -> None:
    about = import_module("schedkit.schedctl.commands.doctor").ABOUT
    names = {check.name for check in examine_kernel(tmp_path)} | {"runtime.any", "registry.reachable"}
    names.add("runtime.rootless")
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


def test_watch_ends_on_a_kernel_without_sched_ext(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample(NOW, KERNEL._replace(state=State.UNSUPPORTED), None, None, None)
    monkeypatch.setattr(watching, "watch", lambda *_, **__: iter([sample] * 5))
    result = call("watch", code=14)
    assert (result.stdout, str(result.exception)) == ("", "this kernel has no sched_ext: there is nothing to watch")


def test_watch_gives_the_terminal_back_at_ctrl_c(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object, **__: object) -> Iterator[Sample]:
        yield Sample(NOW, KERNEL, 61.0, None, None)
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "watch", look)
    monkeypatch.setattr(sessions, "make_output", lambda json: make_output(json=json)._replace(width=80))
    said = call("watch").stdout
    assert said.startswith("\x1b[?1049h")
    assert said.partition("\x1b[?1049l")[2].splitlines()[0] == "state       enabled", "the last sample stays"


VERIFIED = "key SHA256:zsPB3AgRoXcLBKLVNQCWc6QhGPLmeCESCcXpAzypvj0 (/etc/schedkit/lab.pub)"


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize(
    "words",
    [["list", "--wide"], ["ps"], ["images"], ["versions", "scx_rusty"], ["doctor"], ["status"], ["info", "rusty"]],
)
def test_on_a_narrow_terminal_no_line_is_longer_than_it_but_for_one_long_word(
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
    longer = [line[12:].split() for line in lines if len(line) > width]
    assert {len(said) for said in longer} <= ({1} if words[0] in ("status", "info") else set())
    if words == ["status"]:
        assert f"{'':12}ghcr.io/schedkit/scx_rusty:latest@{DIGEST[: len('sha256:') + 12]}" in lines
    if words == ["ps"]:
        assert "scx_rusty" in lines[1]
        assert lines[1].split()[-1] == "yes"
