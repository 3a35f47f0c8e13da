"""What is generated from the types: it is current, it is the same each time, and it says something of every field."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedkit.errors import ExitCode
from schedkit.sked.api import generate
from schedkit.sked.api.crd import SCHEMA, build_crd, render_crd
from schedkit.sked.api.reference import render_reference
from schedkit.sked.api.schema import Schema

REPOSITORY = Path(__file__).parents[3]


def test_files_of_the_repository_are_current() -> None:
    generate.check_files(REPOSITORY)


def test_check_fails_with_a_hint_until_the_files_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--root", str(tmp_path)]
    assert generate.main([*arguments, "--check"]) == ExitCode.FAILURE
    told = capsys.readouterr().err
    assert "config/crd/bases/sked.schedkit.io_schedexts.yaml, docs/sked/reference.md" in told
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
    assert (render_crd(), render_reference()) == (render_crd(), render_reference())
    assert yaml.safe_load(render_crd()) == build_crd()


def find_fields(schema: Schema, path: str = "") -> list[tuple[str, Schema]]:
    found = []
    for name, field in schema.properties.items():
        below = f"{path}.{name}"
        found += [(below, field), *find_fields(field, below)]
    for part in (schema.items, schema.values):
        found += find_fields(part, path) if part else []
    return found


@pytest.mark.parametrize(("path", "schema"), find_fields(SCHEMA))
def test_field_is_described_in_a_sentence(path: str, schema: Schema) -> None:
    assert schema.sentence[0].isupper()
    assert schema.sentence.endswith(".")
    assert path


def test_reference_names_every_field() -> None:
    text = render_reference()
    for path, schema in find_fields(SCHEMA):
        assert f"| `{path.rpartition('.')[2]}` |" in text, (path, schema)


def test_identity_is_the_described_one() -> None:
    crd = build_crd()
    names: dict[str, Any] = crd["spec"]["names"]
    assert crd["metadata"]["name"] == "schedexts.sked.schedkit.io"
    assert (crd["spec"]["group"], crd["spec"]["scope"]) == ("sked.schedkit.io", "Namespaced")
    assert (names["kind"], names["plural"], names["singular"]) == ("SchedExt", "schedexts", "schedext")
    (version,) = crd["spec"]["versions"]
    assert (version["name"], version["subresources"]) == ("v1", {"status": {}})


def test_nothing_is_defaulted_into_stored_objects() -> None:
    assert "default:" not in render_crd()
