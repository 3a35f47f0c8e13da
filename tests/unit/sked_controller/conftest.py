"""What every test of the controller checks beside its own."""

from typing import Any

import pytest

from schedkit.sked.controller.rollout_memory import Rest
from schedkit.sked.controller.steering import Steering


@pytest.fixture(autouse=True)
def _rest_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is taken from memory of nodes at rest is what would be found out again."""
    find_places: Any = Steering._find_places

    def find_both_ways(self: Any, claim: Any, *arguments: Any) -> Any:
        seen, rest, taken = dict(self._seen), dict(self._rest), dict(self._names_taken)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Rest, "find", lambda *_: None)
            for method in ("note", "keep"):
                patch.setattr(Rest, method, lambda *_: None)
            places = find_places(self, claim, *arguments)
        remembered = self._seen[claim.identity]
        self._seen, self._rest, self._names_taken = seen, rest, taken
        assert find_places(self, claim, *arguments) == places
        wake = self._rest[claim.identity].wake
        assert {name: wake(name, found) for name, found in self._seen[claim.identity].items()} == remembered
        return places

    monkeypatch.setattr(Steering, "_find_places", find_both_ways)
