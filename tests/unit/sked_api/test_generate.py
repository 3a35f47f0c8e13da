"""What is generated from the types: it is current, it is the same each time, and it says something of every field."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml

from schedkit.errors import ExitCode
from schedkit.sked.api import generate
from schedkit.sked.api.about import about
from schedkit.sked.api.crd import build_crd, render_crd
from schedkit.sked.api.kinds import KINDS, SCHEDEXT, Column, Kind
from schedkit.sked.api.kubernetes import LabelValue, SpecModel
from schedkit.sked.api.reference import render_reference
from schedkit.sked.api.schema import Schema
from schedkit.sked.api.validate import find_errors
from schedkit.sked.kube.objects import ObjectMeta

REPOSITORY = Path(__file__).parents[3]


def test_files_of_the_repository_are_current() -> None:
    generate.check_files(REPOSITORY)


def test_check_fails_with_a_hint_until_the_files_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--root", str(tmp_path)]
    assert generate.main([*arguments, "--check"]) == ExitCode.FAILURE
    told = capsys.readouterr().err
    assert all(str(path) in told for path in generate.render_files())
    assert "hint: run python -m schedkit.sked.api.generate" in told
    assert generate.main(arguments) == ExitCode.OK
    assert generate.main([*arguments, "--check"]) == ExitCode.OK
    (tmp_path / generate.REFERENCE_FILE).write_text("old")
    assert generate.main([*arguments, "--check"]) == ExitCode.FAILURE
    told = capsys.readouterr().err
    assert "docs/sked/reference.md" in told
    assert "config" not in told


def test_command_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "schedkit.sked.api.generate", "--check", "--root", str(REPOSITORY)]
    assert subprocess.run(command, check=False).returncode == ExitCode.OK


def test_generating_twice_gives_the_same() -> None:
    assert (render_crd(SCHEDEXT), render_reference()) == (render_crd(SCHEDEXT), render_reference())
    assert yaml.safe_load(render_crd(SCHEDEXT)) == build_crd(SCHEDEXT)


def find_fields(schema: Schema, path: str = "") -> list[tuple[str, Schema]]:
    found = []
    for name, field in schema.properties.items():
        below = f"{path}.{name}"
        found += [(below, field), *find_fields(field, below)]
    for part in (schema.items, schema.values):
        found += find_fields(part, path) if part else []
    return found


@pytest.mark.parametrize(("path", "schema"), find_fields(SCHEDEXT.schema))
def test_field_is_described_in_a_sentence(path: str, schema: Schema) -> None:
    assert schema.sentence[0].isupper()
    assert schema.sentence.endswith(".")
    assert path


def test_reference_names_every_field() -> None:
    text = render_reference()
    for path, schema in find_fields(SCHEDEXT.schema):
        assert f"| `{path.rpartition('.')[2]}` |" in text, (path, schema)


def test_kustomize_installs_every_kind() -> None:
    listed = yaml.safe_load((REPOSITORY / "config/crd/kustomization.yaml").read_text())["resources"]
    assert listed == [f"bases/{kind.file_name}" for kind in KINDS]


def test_identity_is_the_described_one() -> None:
    crd = build_crd(SCHEDEXT)
    names: dict[str, Any] = crd["spec"]["names"]
    assert crd["metadata"]["name"] == "schedexts.sked.schedkit.io"
    assert (crd["spec"]["group"], crd["spec"]["scope"]) == ("sked.schedkit.io", "Namespaced")
    assert (names["kind"], names["plural"], names["singular"]) == ("SchedExt", "schedexts", "schedext")
    (version,) = crd["spec"]["versions"]
    assert (version["name"], version["subresources"]) == ("v1", {"status": {}})


def test_nothing_is_defaulted_into_stored_objects() -> None:
    assert "default:" not in render_crd(SCHEDEXT)


class Observation(SpecModel, frozen=True, kw_only=True):
    """Another kind, which only these tests have."""

    api_version: Annotated[str, about("The version.")] = "sked.schedkit.io/v1"
    kind: Annotated[str, about("The kind.")] = "Observation"
    metadata: Annotated[ObjectMeta, about("The name.")] = ObjectMeta()
    seen: Annotated[LabelValue, about("What was seen.")]


OBSERVATION = Kind(
    model=Observation,
    kind="Observation",
    plural="observations",
    singular="observation",
    short_name="obs",
    namespaced=False,
    columns=(Column("Seen", "string", "What was seen.", ".seen"),),
    introduction="What was seen.\n",
)


def test_second_kind_is_one_more_entry() -> None:
    kinds = (*KINDS, OBSERVATION)
    files = generate.render_files(kinds)
    added = files.keys() - generate.render_files().keys()
    assert {str(path) for path in added} == {
        "config/crd/bases/sked.schedkit.io_observations.yaml",
        "charts/sked/files/sked.schedkit.io_observations.yaml",
    }
    (definition,) = {files[path] for path in added}
    spec = yaml.safe_load(definition)["spec"]
    assert spec["scope"] == "Cluster"
    assert spec["names"] == {
        "kind": "Observation",
        "listKind": "ObservationList",
        "plural": "observations",
        "singular": "observation",
        "shortNames": ["obs"],
        "categories": ["schedkit"],
    }
    assert spec["versions"][0]["additionalPrinterColumns"] == [
        {"name": "Seen", "type": "string", "description": "What was seen.", "jsonPath": ".seen"}
    ]
    reference = files[generate.REFERENCE_FILE]
    assert reference.startswith(render_reference().partition("## Conditions")[0])
    assert "# The Observation resource\n\nWhat was seen.\n\n| | |\n" in reference
    assert "| Scope | the cluster |" in reference


def test_second_kind_is_validated_by_its_own_types() -> None:
    kinds = (*KINDS, OBSERVATION)
    document = {"apiVersion": "sked.schedkit.io/v1", "kind": "Observation", "metadata": {"name": "a"}, "seen": "b c"}
    (error,) = find_errors(document, kinds)
    assert (error.path, error.message.partition(":")[0]) == ("seen", "this cannot be the value of a label")
    assert find_errors({**document, "seen": "b"}, kinds) == []
    (error,) = find_errors({**document, "kind": "Other"}, kinds)
    assert str(error) == 'kind: expected "SchedExt" or "SchedExtNode" or "Observation"'
