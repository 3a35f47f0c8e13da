"""--format: fields of the JSON output, one line each."""

import pytest

from schedkit.errors import UsageError
from schedkit.host import managed, status
from schedkit.host.model import Status, Summary
from schedkit.runtimes.local_image import LocalImage
from schedkit.schedctl.schema import FIELDS
from schedkit.schedctl.templates import list_fields, parse_template
from schedkit.unknown import Unknown
from tests.unit.schedctl.fakes import HOLDER, ID, KERNEL, MANAGED, OBSERVED, FakeRuntime, make_container
from tests.unit.schedctl.runner import call

FIELDS_OF_TESTS = {"name": False, "count": False, "kernel": False, "kernel.ops": False, "labels": True}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{.name}}", "rusty"),
        ("{{ .name }}\\t{{.count}}\\n", "rusty\t3\n"),
        ("<{{.kernel.ops}}>", "<>"),
        ("{{.labels.a.b}}", ""),
        ("plain", "plain"),
        ("{{.labels}}", '{"a": true}'),
        ("{{.labels.a}}", "true"),
        ("100% { } {{.name}}", "100% { } rusty"),
        ("{{{.name}}{{{.count}}", "{rusty{3"),
    ],
)
def test_placeholders_are_replaced_by_fields(template: str, text: str) -> None:
    fields = {"name": "rusty", "count": 3, "kernel": None, "labels": {"a": True}}
    assert parse_template(template, FIELDS_OF_TESTS).render(fields) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (["a", "b"], "a,b"),
        ([], ""),
        (False, "false"),
        (1.5, "1.5"),
        ({"unknown": "why"}, "unknown"),
        ("two\nlines\x1b", "two\ufffdlines\ufffd"),
        ([{"a": 1}], '[{"a": 1}]'),
    ],
)
def test_every_value_is_a_piece_of_one_line(value: object, text: str) -> None:
    assert parse_template("{{.name}}", FIELDS_OF_TESTS).render({"name": value}) == text


def test_what_is_below_something_unknown_is_unknown() -> None:
    template = parse_template("{{.kernel.ops}}", FIELDS_OF_TESTS)
    assert template.render({"kernel": {"unknown": "why"}}) == "unknown"


@pytest.mark.parametrize("text", ["{{.nmae}}", "{{.}}", "{{.kernel.nothing}}", "{{.name.more}}"])
def test_field_that_is_not_there_is_an_error_that_lists_the_fields(text: str) -> None:
    with pytest.raises(UsageError, match="there is no field") as caught:
        parse_template(text, FIELDS_OF_TESTS)
    assert caught.value.hint == "fields: name, count, kernel, labels; 'schedctl help json' has all of them"


@pytest.mark.parametrize("text", ["{{name}}", "{{json .}}", "{{.name", "}}", "{{range .managed}}x{{end}}"])
def test_other_words_in_braces_are_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="only fields"):
        parse_template(text, FIELDS_OF_TESTS)


def test_fields_are_those_that_are_documented() -> None:
    rows = list_fields("ps", "containers")
    assert set(rows) == {name.removeprefix("containers[].") for name in FIELDS["ps"] if name.startswith("containers")}
    whole = list_fields("status")
    assert {"status", "kernel", "kernel.ops", "managed", "holder.pid"} <= set(whole)
    assert not any("[]" in name for name in whole)
    assert whole["kernel.events"] is True


def test_commands_print_a_line_for_each(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    other = MANAGED._replace(container=make_container(name="other"))
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=(MANAGED, other)))
    runtime.images = [LocalImage("podman", "sha256:1", ("ghcr.io/schedkit/scx_rusty:latest", "x:y"), 5, True)]
    found = Status(Summary.UNKNOWN, "why", "", KERNEL._replace(state=Unknown("no")), (MANAGED,), HOLDER)
    monkeypatch.setattr(status, "read_status", lambda *_: found)

    assert call("ps", "--format", "{{.name}} {{.attached}}").stdout == "scx_rusty yes\nother yes\n"
    assert call("images", "--format", "{{.names}}").stdout == "ghcr.io/schedkit/scx_rusty:latest,x:y\n"
    assert "scx_rusty true\n" in call("list", "--format", "{{.name}} {{.pulled}}").stdout
    assert call("status", "--format", "{{.status}} {{.kernel.state}}", code=1).stdout == "unknown unknown\n"


def test_nothing_to_show_is_nothing(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=()))
    assert call("ps", "--format", "{{.id}}").stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ["ps", "--format", "{{.id}}", "-q"],
        ["ps", "--format", "{{.id}}", "-o", "json"],
        ["ps", "-o", "json", "--format", "{{.id}}"],
        ["ps", "--format", "{{.Id}}"],
    ],
)
def test_what_makes_no_sense_together_is_refused(words: list[str], runtime: FakeRuntime) -> None:
    assert ID not in call(*words, code=64).stdout
