"""The command line of the Go operator, with one dash or two, is understood by `sked manager`."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from schedkit.sked.cli import manager, sked
from schedkit.sked.go_flags import choose_logging, normalize

INSTALL = Path(__file__).parents[2] / "docs/sked/install.md"
PROGRAM = sked.make_context("sked", ["manager"])  # which says that -h is for help, too
NO_ZAP: dict[str, Any] = dict.fromkeys(
    ("zap_devel", "zap_encoder", "zap_log_level", "zap_stacktrace_level", "zap_time_encoding")
)


def parse(*arguments: str) -> dict[str, Any]:
    return manager.make_context("manager", list(arguments), parent=PROGRAM).params


# All flags of the Go operator: its own, controller-runtime's kubeconfig, and zap's.
GO_FLAGS: dict[str, tuple[str, object]] = {
    "metrics-bind-address": (":8443", ":8443"),
    "health-probe-bind-address": (":8082", ":8082"),
    "kubeconfig": ("/tmp/config", Path("/tmp/config")),  # noqa: S108
    "zap-encoder": ("console", "console"),
    "zap-log-level": ("2", "debug"),
    "zap-stacktrace-level": ("panic", "panic"),
    "zap-time-encoding": ("nano", "nano"),
}
GO_SWITCHES = ("leader-elect", "metrics-secure", "enable-http2", "zap-devel")


@pytest.mark.parametrize("dashes", ["-", "--"])
@pytest.mark.parametrize("flag", GO_FLAGS)
def test_flag_takes_its_value_after_an_equals_sign_or_as_the_next_argument(flag: str, dashes: str) -> None:
    text, value = GO_FLAGS[flag]
    name = flag.replace("-", "_")
    assert parse(f"{dashes}{flag}={text}")[name] == value
    assert parse(f"{dashes}{flag}", text)[name] == value


@pytest.mark.parametrize("dashes", ["-", "--"])
@pytest.mark.parametrize("flag", GO_SWITCHES)
def test_boolean_flag_is_true_alone_and_false_only_after_an_equals_sign(flag: str, dashes: str) -> None:
    name = flag.replace("-", "_")
    assert parse(f"{dashes}{flag}")[name] is True
    assert parse(f"{dashes}{flag}=false")[name] is False
    assert parse(f"{dashes}{flag}=T")[name] is True
    assert parse(f"{dashes}{flag}", "-workers=3")[name] is True
    with pytest.raises(click.UsageError, match=f"the value of --{flag} follows an equals sign: --{flag}=false"):
        parse(f"{dashes}{flag}", "false")


def test_described_deployment_is_understood() -> None:
    found = parse("-metrics-bind-address=:8443", "-leader-elect", "-health-probe-bind-address=:8081", "-zap-devel")
    assert (found["metrics_bind_address"], found["leader_elect"], found["zap_devel"]) == (":8443", True, True)


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        (["-h"], ["-h"]),
        (["-help"], ["--help"]),
        (["--namespace", "-leader-elect"], ["--namespace", "-leader-elect"]),
        (["-namespace", "a", "-namespace=b=c"], ["--namespace", "a", "--namespace=b=c"]),
        (["-workers"], ["--workers"]),
        (["-leader-elect"], ["--leader-elect=true"]),
        (["-unknown=1"], ["--unknown=1"]),
        (["--", "-leader-elect"], ["--", "-leader-elect"]),
        (["-", "word", "leader-elect"], ["-", "word", "leader-elect"]),
    ],
)
def test_only_what_is_a_flag_is_spelled_otherwise(given: list[str], spelled: list[str]) -> None:
    assert normalize(given, click.Context(manager, parent=PROGRAM)) == spelled


@pytest.mark.parametrize("arguments", [["-h"], ["-help"], ["--help"]])
def test_help_is_shown(arguments: list[str]) -> None:
    shown = CliRunner().invoke(sked, ["manager", *arguments])
    assert shown.exit_code == 0
    assert "--priority-ceiling N" in shown.output


@pytest.mark.parametrize("level", ["0", "-1", "warn", "", "²"])
def test_level_that_zap_does_not_have_is_refused(level: str) -> None:
    with pytest.raises(click.BadParameter, match="is neither debug, info, error, panic nor a number above 0"):
        parse(f"-zap-log-level={level}")


@pytest.mark.parametrize(
    ("arguments", "level", "format"),
    [
        ([], "info", "text"),
        (["-zap-devel"], "debug", "text"),
        (["-zap-devel=false"], "info", "json"),
        (["-zap-devel", "-zap-log-level=ERROR", "-zap-encoder=JSON"], "error", "json"),
        (["-zap-devel=false", "-zap-encoder=console"], "info", "text"),
        (["-zap-log-level=panic"], "critical", "text"),
        (["-zap-log-level=1"], "debug", "text"),
        (["-zap-log-level=info"], "info", "text"),
    ],
)
def test_options_of_zap_decide_how_to_log(arguments: list[str], level: str, format: str) -> None:
    chosen = choose_logging(None, None, parse(*arguments))
    assert (chosen.level, chosen.format, chosen.notes) == (level, format, ())


def test_own_options_go_before_those_of_zap() -> None:
    zap = NO_ZAP | {"zap_devel": True, "zap_log_level": "error", "zap_encoder": "json"}
    assert choose_logging("warning", "text", zap) == (
        "warning",
        "text",
        (
            "--zap-log-level has no effect together with --log-level",
            "--zap-encoder has no effect together with --log-format",
        ),
    )


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ({"zap_time_encoding": "epoch"}, ("--zap-time-encoding has no effect: times are written as RFC 3339",)),
        ({"zap_time_encoding": "iso8601"}, ()),
        ({"zap_time_encoding": "rfc3339"}, ()),
        (
            {"zap_stacktrace_level": "error"},
            ("--zap-stacktrace-level has no effect: only unexpected errors are logged with a stack trace",),
        ),
    ],
)
def test_what_has_no_effect_is_told(given: dict[str, str], notes: tuple[str, ...]) -> None:
    assert choose_logging(None, None, NO_ZAP | given).notes == notes


def test_documentation_lists_exactly_the_options() -> None:
    section = INSTALL.read_text().partition("\n## Options of the manager\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(--[a-z0-9-]+)", section, re.MULTILINE)
    assert listed == [option.opts[0] for option in manager.params]
