"""Addresses of nodes: what is changed on this host is put back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.addresses import claim_address, release_address
from lab.store import Store
from tests.routes import read_routes


@pytest.fixture
def owners(store: Store, tmp_path: Path) -> Iterator[list[Path]]:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    yield folders
    for folder in folders:
        release_address(folder)


def test_each_owner_has_one_address_and_its_route_goes_with_it(owners: list[Path]) -> None:
    before = read_routes()
    one, two = (claim_address(owner) for owner in owners)
    assert one != two
    assert claim_address(owners[0]) == one
    assert f"local {one} dev lo" in read_routes()
    for owner in owners:
        release_address(owner)
    assert read_routes() == before


def test_address_of_an_owner_that_is_gone_is_taken_over(owners: list[Path]) -> None:
    address = claim_address(owners[0])
    owners[0].rmdir()
    assert claim_address(owners[1]) == address
