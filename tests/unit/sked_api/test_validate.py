"""Offline validation: what the API server would refuse is refused, where and in the words in which it would be."""

from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import ExitCode
from schedkit.sked.api.documents import InvalidDocumentError, parse_documents
from schedkit.sked.api.kinds import SCHEDEXT
from schedkit.sked.api.schema import Schema
from schedkit.sked.api.validate import InvalidResourceError, ManifestText, ValidationError, find_errors, parse_resources
from tests.unit.sked_api.accepted import ACCEPTED
from tests.unit.sked_api.cases import IMAGE, REFUSED, Refusal, make, select

SAMPLES = sorted((Path(__file__).parents[3] / "config/samples").glob("sked_*.yaml"))
PLAIN = f"apiVersion: sked.schedkit.io/v1\nkind: SchedExt\nmetadata: {{name: a}}\nspec: {{sched: '{IMAGE}'}}\n"


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.id)
def test_resource_is_refused_where_it_is_wrong(refusal: Refusal) -> None:
    errors = [
        error
        for error in find_errors(make(refusal.spec, refusal.name))
        if not error.message.startswith("Duplicate value")
    ]
    assert errors == [ValidationError(refusal.path, refusal.sentence)]


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_resource_is_accepted(spec: dict[str, Any]) -> None:
    assert find_errors(make(spec)) == []


def test_name_that_is_given_twice_is_told() -> None:
    pools = [select(name) for name in ("a", "b", "a")]
    assert find_errors(make({"sched": IMAGE, "pools": pools})) == [
        ValidationError("spec.pools", "two pools have the same name"),
        ValidationError("spec.pools[2]", 'Duplicate value: {"name":"a"}'),
    ]


def find_sentences(schema: Schema) -> set[str]:
    found = {sentence for rule in schema.rules for sentence in rule.sentences}
    for below in (*schema.properties.values(), schema.items, schema.values):
        found |= find_sentences(below) if below else set()
    return found


def test_every_sentence_has_a_case() -> None:
    told = {refusal.sentence for refusal in REFUSED}
    missing = {
        one for one in find_sentences(SCHEDEXT.schema) if not any(f"{text}: ".startswith(f"{one}: ") for text in told)
    }
    assert not missing


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"sched": 1}, "spec.sched", "expected a string, found integer"),
        ({"sched": IMAGE, "suspend": "yes"}, "spec.suspend", "expected a boolean, found string"),
        ({"sched": IMAGE, "priority": True}, "spec.priority", "expected an integer, found boolean"),
        ({"sched": IMAGE, "priority": 2**31}, "spec.priority", "2147483648 is above 2147483647"),
        ({"sched": IMAGE, "args": "--all"}, "spec.args", "expected an array, found string"),
        ({"sched": IMAGE, "args": ["a"] * 65}, "spec.args", "there are more than 64 items"),
        ({"sched": "a" * 521}, "spec.sched", "there are more than 520 characters"),
        ({"sched": IMAGE, "nodeselector": {}}, "spec.nodeselector", "no such field; is nodeSelector meant?"),
        ({"sched": IMAGE, "hostNetwork": True}, "spec.hostNetwork", "no such field"),
        ({"sched": IMAGE, "pools": [{}]}, "spec.pools[0].name", "the field is missing"),
        (
            {"sched": IMAGE, "imagePullPolicy": "Sometimes"},
            "spec.imagePullPolicy",
            '"Sometimes" is none of Always, IfNotPresent, Never',
        ),
        (
            {"sched": IMAGE, "resources": {"limits": {"cpu": 0.5}}},
            "spec.resources.limits.cpu",
            "expected an integer or string, found number",
        ),
    ],
)
def test_form_is_refused_with_the_path_of_the_field(spec: dict[str, Any], path: str, message: str) -> None:
    assert find_errors(make(spec)) == [ValidationError(path, message)]


def test_rules_are_not_asked_of_what_has_the_wrong_form() -> None:
    assert [error.path for error in find_errors(make({"sched": "a b", "suspend": 1}))] == ["spec.suspend"]


def test_null_is_an_absent_field() -> None:
    assert find_errors(make({"sched": IMAGE, "args": None, "pools": None})) == []
    assert find_errors(make({"sched": None}))[0].message == "no scheduler is named: give its image as sched"


def test_every_problem_is_told() -> None:
    text = PLAIN.replace(IMAGE, "A b").replace("metadata", "status: {failureCount: 1}\nmetadata")
    with pytest.raises(InvalidResourceError) as caught:
        parse_resources([ManifestText("f.yaml", text)])
    assert caught.value.message == "f.yaml: a: spec.sched: there is whitespace in the image reference"
    assert caught.value.reason == "InvalidResource"
    errors = find_errors(make({"sched": "A", "priorityClassName": "B"}))
    assert [error.path for error in errors] == ["spec.sched", "spec.priorityClassName"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_valid(sample: Path) -> None:
    assert parse_resources([ManifestText(sample.name, sample.read_text())])


def test_objects_of_others_are_left_alone() -> None:
    text = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: b}}\n---\n{PLAIN}---\n"
    assert [resource.metadata.name for resource in parse_resources([ManifestText("f.yaml", text)])] == ["a"]


def test_list_and_json_are_read() -> None:
    text = '{"apiVersion": "v1", "kind": "List", "items": [%s]}'
    item = (
        '{"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": "a"}, "spec": {"sched": "b"}}'
    )
    (resource,) = parse_resources([ManifestText("f.json", text % item)])
    assert resource.spec.sched == "b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml: there is no SchedExt in it"),
        ("apiVersion: v1\nkind: Pod\n", "f.yaml: there is no SchedExt in it"),
        ("spec: {}\n", "f.yaml: an object says what it is by apiVersion and kind"),
        ("- 1\n", "f.yaml: an object says what it is by apiVersion and kind"),
        (PLAIN.replace("kind: SchedExt", "kind: Schedext"), 'f.yaml: a: kind: expected "SchedExt" or "SchedExtNode"'),
        (PLAIN.replace("/v1", "/v2"), 'f.yaml: a: apiVersion: expected "sked.schedkit.io/v1"'),
        (PLAIN.replace("{name: a}", "{}"), "f.yaml: metadata.name: the field is missing"),
        (PLAIN.replace("name: a", "name: A"), "f.yaml: A: metadata.name: this cannot be the name of an object"),
        (PLAIN.replace("name: a", "name: 1"), "f.yaml: 1: metadata.name: expected a string"),
        (PLAIN.replace("name: a", "name: a, label: {}"), "f.yaml: a: metadata.label: no such field"),
        (
            PLAIN.replace("name: a", "name: a, labels: {b: 1}"),
            "f.yaml: Expected `str`, got `int` - at `$.metadata.labels[...]`",
        ),
        (PLAIN.replace("{name: a}", "a"), "f.yaml: metadata: expected an object, found string"),
        (PLAIN.partition("spec")[0], "f.yaml: a: spec: the field is missing"),
    ],
)
def test_text_without_a_valid_resource_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidResourceError) as caught:
        parse_resources([ManifestText("f.yaml", text)])
    assert caught.value.message == message


def test_sources_are_read_together_and_one_without_a_resource_is_fine() -> None:
    other = PLAIN.replace("name: a", "name: b")
    sources = [
        ManifestText("a.yaml", PLAIN),
        ManifestText("b.yaml", "apiVersion: v1\nkind: Pod\n"),
        ManifestText("-", other),
    ]
    assert [resource.metadata.name for resource in parse_resources(sources)] == ["a", "b"]


def test_two_resources_of_one_name_are_refused_unless_in_two_namespaces() -> None:
    with pytest.raises(InvalidResourceError) as caught:
        parse_resources([ManifestText("a.yaml", PLAIN), ManifestText("b.yaml", PLAIN)])
    assert caught.value.message == "b.yaml: a: there are two with this name: the other one is in a.yaml"
    assert caught.value.exit_code == ExitCode.BAD_DATA
    elsewhere = PLAIN.replace("name: a", "name: a, namespace: b")
    assert len(parse_resources([ManifestText("a.yaml", PLAIN), ManifestText("b.yaml", elsewhere)])) == 2


def test_default_namespace_and_no_namespace_are_the_same() -> None:
    named = PLAIN.replace("name: a", "name: a, namespace: default")
    with pytest.raises(InvalidResourceError, match="there are two with this name"):
        parse_resources([ManifestText("a.yaml", PLAIN), ManifestText("b.yaml", named)])


def test_sources_without_any_resource_are_refused_together() -> None:
    with pytest.raises(InvalidResourceError) as caught:
        parse_resources([ManifestText("a.yaml", ""), ManifestText("b.yaml", "")])
    assert caught.value.message == "a.yaml, b.yaml: there is no SchedExt in it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", 'f.yaml, line 1: this is not YAML: "a" is given twice'),
        ("a: [1\n", "f.yaml, line 2: this is not YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: \x00\n", "f.yaml: this is not YAML: "),
    ],
)
def test_text_that_is_not_yaml_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        parse_documents(text, "f.yaml")
    assert caught.value.message.startswith(message)


def test_values_are_read_as_kubernetes_reads_them() -> None:
    text = "[2024-01-01, 12:30, 1.5, 1e3, 7, 0x10, -3, true, null, a, 1_000, '5']"
    values = ["2024-01-01", "12:30", 1.5, 1000.0, 7, 16, -3, True, None, "a", "1_000", "5"]
    assert parse_documents(text, "f.yaml") == [values]
