"""Lengths of time as people write them: 90, 0.5, 90s, 10m, 1h30m, 2d."""

import re

_UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
_DURATION = re.compile(
    r"(?:(?P<days>\d{1,6})d)?(?:(?P<hours>\d{1,8})h)?(?:(?P<minutes>\d{1,9})m)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)s?)?",
    re.ASCII,
)


def parse_duration(text: str) -> float:
    """Seconds; a ValueError for what is not a length of time."""
    found = _DURATION.fullmatch(text)
    if not text or not found:
        raise ValueError(f"{text!r} is not a time: 90s, 10m or 1h30m")
    return sum(float(found[name] or 0) * seconds for name, seconds in _UNITS.items())
