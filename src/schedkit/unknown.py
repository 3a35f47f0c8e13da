"""What could not be found out: an answer of its own, neither a value nor an absence."""

from typing import NamedTuple


class Unknown(NamedTuple):
    """Stands where a value would; `why` says in a few words what kept us from knowing."""

    why: str

    def __bool__(self) -> bool:
        raise TypeError("an unknown value is neither true nor false: ask isinstance(value, Unknown) first")
