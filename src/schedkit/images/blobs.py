"""Blobs as they arrive: counted, hashed, and taken up again where a connection broke."""

import hashlib
import re
from collections.abc import Callable, Iterator

from schedkit.errors import BadDataError, NoAnswerError
from schedkit.images.oci import Descriptor
from schedkit.images.transport import BrokenStreamError, Response

MOST_RESUMES = 8
_CONTENT_RANGE = r"bytes ([0-9]{1,18})-[0-9]{1,18}/(?:[0-9]{1,18}|\*)"

# Opens the blob from an offset on; 206 or 200, other answers are errors already.
Open = Callable[[int], Response]


def stream_blob(open_at: Open, blob: Descriptor, about: str, *, checked: bool = True) -> Iterator[bytes]:
    """The bytes of a blob. The last of them is given only when size and digest are right; unchecked, only the size."""
    algorithm = blob.digest.partition(":")[0]
    hasher = hashlib.new(algorithm) if checked else None
    received = 0
    failures = 0
    if blob.size == 0:
        _check(hashlib.new(algorithm), blob, about)
        return
    while received < blob.size:
        response = open_at(received)
        try:
            for piece in _rest(response, received, about):
                received += len(piece)
                if received > blob.size:
                    raise BadDataError(f"{about}: {blob.digest} continues after its {blob.size} bytes")
                if hasher:
                    hasher.update(piece)
                if received == blob.size:
                    _check(hasher, blob, about)
                yield piece
            if received < blob.size:
                raise BrokenStreamError(f"it ended after {received} of {blob.size} bytes")
        except BrokenStreamError as error:
            failures += 1
            if failures > MOST_RESUMES:
                raise NoAnswerError(f"{about}: {blob.digest} broke off {failures} times: {error}") from error
        finally:
            response.close()


def _rest(response: Response, offset: int, about: str) -> Iterator[bytes]:
    """What comes after `offset`, also from a server that knows no ranges and starts at the beginning."""
    skip = offset
    if response.status == 206:
        start = re.match(_CONTENT_RANGE, response.headers.get("content-range", ""))
        if not start or int(start[1]) != offset:
            raise BadDataError(f"{about}: the registry sent another part of a blob than the one asked for")
        skip = 0
    for piece in response.pieces():
        if skip >= len(piece):
            skip -= len(piece)
            continue
        yield piece[skip:] if skip else piece
        skip = 0


def _check(hasher: "hashlib._Hash | None", blob: Descriptor, about: str) -> None:
    if hasher and f"{hasher.name}:{hasher.hexdigest()}" != blob.digest:
        raise BadDataError(
            f"{about}: {blob.digest} was asked for and bytes with {hasher.name}:{hasher.hexdigest()} came"
        )
