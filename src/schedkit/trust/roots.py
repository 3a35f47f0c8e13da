"""Where trust starts: a root that the policy names, or sigstore's public one, kept fresh by TUF."""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from schedkit.errors import UnavailableError
from schedkit.trust.policy import Root
from schedkit.trust.trusted_root import LARGEST, TrustedRoot, parse_trusted_root

PUBLIC = "https://tuf-repo-cdn.sigstore.dev"
TARGET = "trusted_root.json"
FRESH_SECONDS = 24 * 3600.0
SOCKET_SECONDS = 10


class Roots:
    """Gives trusted roots, each read once. `offline` asks no network; `warn` hears of a copy that may be old."""

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
        self._folder = cache / "tuf" / quote(url, safe="") if cache else None
        self._offline = offline
        self._warn = warn
        self._url = url
        self._bootstrap = bootstrap
        self._clock = clock
        self._known: dict[Root | None, TrustedRoot] = {}

    def get(self, root: Root | None) -> TrustedRoot:
        """The root a rule names; None: the public one."""
        if root not in self._known:
            self._known[root] = parse_trusted_root(root.data, root.path) if root else self._get_public()
        return self._known[root]

    def _get_public(self) -> TrustedRoot:
        kept = self._read_kept()
        if kept and self._is_fresh():
            return parse_trusted_root(kept, self._url)
        if not self._offline:
            try:
                return parse_trusted_root(self._fetch(), self._url)
            except UnavailableError as error:
                self._warn(f"{error.message}; {'the last copy of it' if kept else 'the copy that came along'} is used")
        data = kept or read_embedded(self._url, TARGET)
        if data is None:
            raise UnavailableError(
                f"there is no copy of the trusted root of {self._url} here",
                hint="name one in the policy: trustedRoot: trusted_root.json",
            )
        return parse_trusted_root(data, self._url)

    def _read_kept(self) -> bytes | None:
        if self._folder is None:
            return None
        try:
            with (self._folder / TARGET).open("rb") as file:
                return file.read(LARGEST + 1)
        except OSError:
            return None

    def _is_fresh(self) -> bool:
        """Whether TUF was asked not long ago: the metadata's own dates are in days, too."""
        if self._folder is None:
            return False
        try:
            age = self._clock() - (self._folder / TARGET).stat().st_mtime
        except OSError:
            return False
        return 0 <= age < FRESH_SECONDS

    def _fetch(self) -> bytes:
        """Through TUF: signed by sigstore's root keys, and not older than what was seen before."""
        from tempfile import TemporaryDirectory

        bootstrap = self._bootstrap or read_embedded(self._url, "root.json")
        try:
            if self._folder is None:
                with TemporaryDirectory() as folder:
                    return self._update(Path(folder), bootstrap)
            self._folder.mkdir(parents=True, exist_ok=True)
            return self._update(self._folder, bootstrap)
        except OSError as error:
            raise UnavailableError(
                f"the trusted root of {self._url} cannot be fetched: {error.strerror or error}"
            ) from error

    def _update(self, folder: Path, bootstrap: bytes | None) -> bytes:
        import logging

        from tuf.api.exceptions import DownloadError, RepositoryError
        from tuf.ngclient import Updater, Urllib3Fetcher  # type: ignore[attr-defined]

        logging.getLogger("tuf").setLevel(logging.CRITICAL)  # what it has to say comes as errors
        logging.getLogger("urllib3").setLevel(logging.CRITICAL)
        try:
            updater = Updater(
                metadata_dir=str(folder),
                metadata_base_url=self._url,
                target_dir=str(folder),
                target_base_url=f"{self._url}/targets/",
                fetcher=Urllib3Fetcher(socket_timeout=SOCKET_SECONDS),
                bootstrap=bootstrap,
            )
            updater.refresh()
            target = updater.get_targetinfo(TARGET)
            if target is None:
                raise UnavailableError(f"{self._url} has no trusted root")
            path = folder / TARGET
            if updater.find_cached_target(target, str(path)) is None:
                updater.download_target(target, str(path))
        except (DownloadError, RepositoryError, ValueError) as error:
            raise UnavailableError(f"the trusted root of {self._url} cannot be fetched: {_why(error)}") from error
        path.touch()  # asked today
        return path.read_bytes()


def read_embedded(url: str, name: str) -> bytes | None:
    """The copy that the sigstore package brings along for its own repositories; it is not imported for that."""
    spec = find_spec("sigstore")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        return (Path(spec.submodule_search_locations[0]) / "_store" / quote(url, safe="") / name).read_bytes()
    except OSError:
        return None


def _why(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
