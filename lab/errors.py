"""What can go wrong in the lab, in the words of the project's one hierarchy."""

from pathlib import Path

from schedkit.errors import SchedkitError


class LabError(SchedkitError):
    """The lab could not do what it was asked."""

    reason = "Lab"


class BuildError(LabError):
    """An artefact could not be built; its log is kept."""

    reason = "BuildFailed"


class GuestError(LabError):
    """A command in the guest failed, or the guest could not be reached."""

    reason = "GuestFailed"


def tail(path: Path, lines: int = 15) -> str:
    """The end of a log, for an error message; an unreadable log is said to be so."""
    try:
        text = path.read_bytes()[-64_000:].decode(errors="replace")
    except OSError as error:
        return f"({path}: {error.strerror})"
    return "\n".join(text.splitlines()[-lines:])
