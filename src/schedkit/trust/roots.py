"""Where trust starts: a root that the policy names, or sigstore's public one, kept fresh by TUF."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from schedkit.errors import UnavailableError
from schedkit.trust.errors import PolicyError
from schedkit.trust.policy import Root
from schedkit.trust.sealed import SealedFolder

if TYPE_CHECKING:
    from schedkit.trust.trusted_root import TrustedRoot

PUBLIC = "https://tuf-repo-cdn.sigstore.dev"
TARGET = "trusted_root.json"
EMBEDDED = Path(__file__).parent / "public"  # its root.json and trusted_root.json, as sigstore published them
FAILURE = "failure.json"
FRESH_SECONDS = 24 * 3600.0  # the metadata's own dates are in days, too
RETRY_SECONDS = 3600.0  # after an attempt that failed: a host that is out of reach costs one attempt an hour


class Kept(NamedTuple):
    """The last copy of the public root."""

    root: "TrustedRoot"
    at: float  # when TUF last said that it is the current one


class Roots:
    """Gives trusted roots, each read once. `offline` asks no network; `warn` hears what may matter to the user."""

    def __init__(
        self,
        cache: Path | None,
        *,
        offline: bool = False,
        warn: Callable[[str], None] = lambda _: None,
        url: str = PUBLIC,
        bootstrap: bytes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        folder = cache / "tuf" / quote(url, safe="") if cache else None
        self._sealed = SealedFolder(folder) if folder else None
        self._offline = offline
        self._warn = warn
        self._url = url
        self._bootstrap = bootstrap
        self._clock = clock
        self._known: dict[Root | None, TrustedRoot] = {}

    def get(self, root: Root | None) -> "TrustedRoot":
        """The root a rule names; None: the public one."""
        if root not in self._known:
            found = _parse(root.data, root.path) if root else self._get_public()
            for left_out in found.left_out:
                self._warn(f"trusted root {found.origin}: {left_out}, and is not used")
            self._known[root] = found
        return self._known[root]

    def _get_public(self) -> "TrustedRoot":
        kept = self._read_kept()
        now = self._clock()
        if kept and 0 <= now - kept.at < FRESH_SECONDS:
            return kept.root
        used = "the last copy of it is used" if kept else "the copy that came with schedctl is used"
        failed = self._read_failure()
        if failed is not None and 0 <= now - failed < RETRY_SECONDS and not self._offline:
            when = datetime.fromtimestamp(failed).astimezone()
            self._warn(f"the trusted root of {self._url} could not be fetched at {when:%H:%M}; {used}")
        elif not self._offline:
            try:
                return self._update()
            except (UnavailableError, PolicyError) as error:
                self._write(FAILURE, {"at": now})
                self._warn(f"{error.message}; {used}")
        if kept:
            return kept.root
        data = read_embedded(self._url, TARGET)
        if data is None:
            raise UnavailableError(
                f"there is no copy of the trusted root of {self._url} on this machine",
                hint="name one in the policy: trustedRoot: trusted_root.json",
            )
        return _parse(data, self._url)

    def _update(self) -> "TrustedRoot":
        from schedkit.trust.tuf_update import fetch_target

        bootstrap = self._bootstrap or read_embedded(self._url, "root.json")
        data = fetch_target(self._url, TARGET, self._make_folder(), bootstrap)
        root = _parse(data, self._url)
        self._write(TARGET, {"at": self._clock(), "root": data.decode()})
        return root

    def _make_folder(self) -> Path | None:
        """Where TUF keeps its metadata; None: nowhere, as nobody else may write there."""
        if self._sealed is None:
            return None
        try:
            self._sealed.make()
        except OSError:
            return None
        return self._sealed.path / "metadata"

    def _read_kept(self) -> Kept | None:
        """The last copy; one that was touched, or cannot be used, is none."""
        document = self._read(TARGET)
        try:
            return Kept(_parse(document["root"].encode(), self._url), document["at"]) if document else None
        except (PolicyError, KeyError):
            return None

    def _read_failure(self) -> float | None:
        return (self._read(FAILURE) or {}).get("at")

    def _read(self, name: str) -> dict[str, Any] | None:
        content = self._sealed.read(name) if self._sealed else None
        return json.loads(content) if content else None

    def _write(self, name: str, document: dict[str, Any]) -> None:
        if self._sealed:
            with suppress(OSError):  # then the next command asks again
                self._sealed.write(name, json.dumps(document))


def read_embedded(url: str, name: str) -> bytes | None:
    """The copy that comes with schedctl, which there is of the public repository only."""
    return (EMBEDDED / name).read_bytes() if url == PUBLIC else None


def _parse(data: bytes, origin: str) -> "TrustedRoot":
    from schedkit.trust.trusted_root import parse_trusted_root  # a signature by a key may need no root

    return parse_trusted_root(data, origin)
