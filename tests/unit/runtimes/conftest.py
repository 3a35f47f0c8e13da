from collections.abc import Iterator
from pathlib import Path

import pytest

from schedkit.runtimes.engine import Engine
from tests.unit.runtimes.fake_engine import FakeEngine, run_fake_engine


@pytest.fixture(params=["podman", "docker"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fake(driver: str, tmp_path: Path) -> Iterator[FakeEngine]:
    with run_fake_engine(tmp_path / "engine.sock", driver) as fake:
        yield fake


@pytest.fixture
def engine(driver: str, fake: FakeEngine, tmp_path: Path) -> Engine:
    return Engine(driver, fake.socket, scx_folder=tmp_path / "scx")
