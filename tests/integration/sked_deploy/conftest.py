"""A copy of the files behind the make targets."""

import pytest

from tests.integration.sked_deploy.tools import Clone


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("clone"))
