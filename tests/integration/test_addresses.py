"""Addresses of nodes: what is changed on this host is put back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import addresses
from lab.addresses import claim_address, release_address
from lab.store import Store
from tests.routes import read_routes

NETWORK = "198.18.1"  # not that of the lab: machines of other tests come and go beside this one


@pytest.fixture
def owners(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    monkeypatch.setattr(addresses, "CLAIMS", tmp_path / "claims")
    monkeypatch.setattr(addresses, "NETWORK", NETWORK)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    yield folders
    for folder in folders:
        release_address(folder)


def read_own_routes() -> list[str]:
    return [line for line in read_routes().splitlines() if f" {NETWORK}." in line]


def test_each_owner_has_one_address_and_its_route_goes_with_it(owners: list[Path]) -> None:
    before = read_own_routes()
    one, two = (claim_address(owner) for owner in owners)
    assert one != two
    assert claim_address(owners[0]) == one
    assert f"local {one} dev lo" in read_routes()
    for owner in owners:
        release_address(owner)
    assert read_own_routes() == before


def test_address_of_an_owner_that_is_gone_is_taken_over(owners: list[Path]) -> None:
    address = claim_address(owners[0])
    owners[0].rmdir()
    assert claim_address(owners[1]) == address
