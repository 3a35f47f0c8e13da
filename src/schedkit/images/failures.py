"""Requests that got no answer: how far they came, and what to tell of it."""

from enum import Enum
from urllib.parse import urlsplit

from schedkit.errors import BadDataError, NoAnswerError, SchedkitError, UnavailableError
from schedkit.http1 import NotHttpError


class Stage(Enum):
    """How far a request came."""

    PROXY = "proxy"  # not past the proxy
    CONNECT = "connect"
    ANSWER = "answer"  # connected: TLS, the request and the head of its answer


class FailedRequestError(Exception):
    """A request without an answer, and the error that ended it."""

    def __init__(self, stage: Stage, error: OSError) -> None:
        super().__init__(f"{stage.value}: {error}")
        self.stage = stage
        self.error = error

    @property
    def is_passing(self) -> bool:
        """Whether a connection broke: asking again may help."""
        from ssl import SSLError

        return self.stage is Stage.ANSWER and not isinstance(self.error, NotHttpError | TimeoutError | SSLError)


def find_words(error: BaseException) -> str:
    """The reason, in words that a person can do something with."""
    if isinstance(error, TimeoutError):
        return "no response in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join((str(error) or type(error).__name__).split())[:200]


def explain_failure(about: str, url: str, failed: FailedRequestError) -> SchedkitError:
    """What to tell of a request that got no answer."""
    from socket import gaierror
    from ssl import SSLCertVerificationError, SSLError

    host, error = urlsplit(url).netloc, failed.error
    words = find_words(error)
    if failed.stage is Stage.PROXY:
        return UnavailableError(
            f"{about}: the proxy for {host} failed: {words}", hint="look at HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
        )
    if isinstance(error, TimeoutError):
        if failed.stage is Stage.ANSWER:
            return NoAnswerError(f"{about}: {host} accepted the request and sent no response in time")
        return NoAnswerError(
            f"{about}: no response from {host}", hint="check your network, and HTTPS_PROXY if you need a proxy"
        )
    if isinstance(error, NotHttpError):
        return BadDataError(f"{about}: {host} answers with something that is not HTTP: {words}")
    if isinstance(error, SSLCertVerificationError):
        return UnavailableError(
            f"{about}: the certificate of {host} is not trusted: {error.verify_message or error}",
            hint="name its authority with ca-file in the configuration file, or put it into "
            f"/etc/containers/certs.d/{host}/ca.crt",
        )
    if isinstance(error, SSLError):
        return UnavailableError(
            f"{about}: {host} does not speak TLS correctly: {words}",
            hint=f"if it serves plain HTTP and this is intended, allow it with --insecure-registry {host}",
        )
    if isinstance(error, gaierror):
        return UnavailableError(
            f"{about}: cannot resolve {host} (DNS lookup failed)", hint="check the name and your network"
        )
    return UnavailableError(f"{about}: {host} cannot be reached: {words}")
