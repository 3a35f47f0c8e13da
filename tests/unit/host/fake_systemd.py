"""systemctl and systemd-run as scripts that note how they are called; tests/e2e/test_lasting.py asks the real ones."""

from pathlib import Path

import pytest

_SCRIPT = """#!/bin/sh
echo "$(basename "$0") $*" >>{log}
case "$1" in
  show) cat {folder}/show 2>/dev/null || echo "ActiveState=inactive" ;;
  {failing}) echo "Failed to $1 $2: {complaint}" >&2; echo "second line" >&2; exit 5 ;;
esac
"""


class FakeSystemd:
    """What was called, and what shall be answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        folder.mkdir()
        self.fail("nothing-at-all")

    @property
    def calls(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def fail(self, verb: str, complaint: str = "Access denied") -> None:
        """Have a verb fail."""
        text = _SCRIPT.format(log=self._log, folder=self._folder, failing=verb, complaint=complaint)
        for name in ("systemctl", "systemd-run"):
            path = self._folder / name
            path.write_text(text)
            path.chmod(0o755)

    def show(self, **properties: object) -> None:
        """What `systemctl show` tells."""
        (self._folder / "show").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    fake = FakeSystemd(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return fake
