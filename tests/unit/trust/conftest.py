"""One sigstore for all tests: making its keys takes longer than checking with them."""

import pytest

from tests.unit.trust.material import Sigstore
from tests.unit.trust.shelf import Shelf


@pytest.fixture(scope="session")
def sigstore() -> Sigstore:
    return Sigstore()


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()
