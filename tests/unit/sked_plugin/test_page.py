"""The page is whole: every command, option and field is on it."""

import re
from pathlib import Path

import click
import msgspec
import pytest

from schedkit.sked.plugin.group import scx
from schedkit.sked.plugin.history import Revision
from schedkit.sked.plugin.nodes import NodeLine
from schedkit.sked.plugin.rollouts import PoolProgress, RolloutProgress
from schedkit.sked.plugin.sentences import Sentence
from schedkit.sked.plugin.verification import ImageVerdict, ResourceVerdict

PAGE = (Path(__file__).parents[3] / "docs/sked/kubectl-scx.md").read_text()


@pytest.mark.parametrize("name", scx.help_lines)
def test_every_command_and_option_is_on_the_page(name: str) -> None:
    table = PAGE.partition("## All commands")[2].partition("\n## ")[0]
    (row,) = [line for line in table.splitlines() if re.match(rf"\|[^|]*`{name}\b", line)]
    command = scx.get_command(click.Context(scx), name)
    assert command is not None
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    missing = [one.opts for one in options if not any(re.search(rf"{re.escape(opt)}\b", row) for opt in one.opts)]
    assert missing == []


@pytest.mark.parametrize(
    "document", [RolloutProgress, PoolProgress, NodeLine, Revision, ResourceVerdict, ImageVerdict, Sentence]
)
def test_every_field_is_on_the_page(document: type[msgspec.Struct]) -> None:
    table = PAGE.partition("## JSON and YAML")[2]
    assert [
        field.encode_name for field in msgspec.structs.fields(document) if f"`{field.encode_name}" not in table
    ] == []
