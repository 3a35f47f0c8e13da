"""One target of a TUF repository: signed by its root keys, and not older than what was seen before."""

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tuf.api.exceptions import DownloadError, DownloadHTTPError, RepositoryError
from tuf.ngclient import FetcherInterface, Updater  # type: ignore[attr-defined]

from schedkit.errors import NoAnswerError, UnavailableError
from schedkit.images.failures import FailedRequestError, explain_failure
from schedkit.images.settings import DEFAULTS
from schedkit.images.transport import BrokenStreamError, Response, Transport

SOCKET_SECONDS = 5.0
ALL_SECONDS = 20.0  # for the whole update, however slowly it drips


def fetch_target(url: str, target: str, folder: Path | None, bootstrap: bytes | None) -> bytes:
    """The target's bytes, as TUF confirms them; `folder` keeps the metadata. UnavailableError without them."""
    logging.getLogger("tuf").setLevel(logging.CRITICAL)  # what it has to say comes as errors
    transport = Transport(DEFAULTS, connect_seconds=SOCKET_SECONDS, read_seconds=SOCKET_SECONDS)
    try:
        with TemporaryDirectory() as scratch, transport.limit(ALL_SECONDS, "it"):
            if folder is not None:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            updater = Updater(
                metadata_dir=str(folder or scratch),
                metadata_base_url=url,
                target_dir=scratch,
                target_base_url=f"{url}/targets/",
                fetcher=_Fetcher(transport),
                bootstrap=bootstrap,
            )
            updater.refresh()
            info = updater.get_targetinfo(target)
            if info is None:
                raise UnavailableError(f"{url} has no {target}")
            return Path(updater.download_target(info)).read_bytes()
    except (DownloadError, RepositoryError, ValueError, OSError) as error:
        raise UnavailableError(f"the trusted root of {url} cannot be fetched: {_explain(error)}") from error
    finally:
        transport.close()


class _Fetcher(FetcherInterface):
    """Sends each request once."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            response = self._transport.send(url, {})
            if response.status == 200:
                return self._read(response)
            response.discard()
        except NoAnswerError as error:  # the time for all of them is over
            raise DownloadError(error.message) from error
        except FailedRequestError as error:
            raise DownloadError(explain_failure("TUF", url, error).message) from error
        raise DownloadHTTPError(f"HTTP {response.status}", response.status)

    def _read(self, response: Response) -> Iterator[bytes]:
        try:
            yield from response.pieces()
        except (BrokenStreamError, NoAnswerError) as error:
            raise DownloadError(str(error)) from error
        finally:
            response.close()


def _explain(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return " ".join(str(error).split())[:200] or type(error).__name__
