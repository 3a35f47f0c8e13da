"""What can go wrong with the API server, as types; a refusal carries the Status it came with."""

import msgspec

from schedkit.errors import ExitCode, NoPermissionError, SchedkitError, UnavailableError
from schedkit.sked.kube.objects import Model

# How the API server words a 500 that is about the object itself: server-side apply of a value of the wrong type, of an
# unknown field or of an invalid quantity, and what is too large for etcd. It gives these no reason. Other 500s pass:
# a webhook that cannot be called, etcd without a leader.
_OBJECT_IS_REFUSED = (
    "failed to create typed patch object",
    "failed to convert new object",
    "etcdserver: request is too large",
    "rpc error: code = ResourceExhausted desc = trying to send message larger than max",
)


class ConfigError(SchedkitError):
    """There is no usable way to the API server: kubeconfig, service account or credential plugin."""

    reason = "KubernetesConfigInvalid"
    exit_code = ExitCode.UNAVAILABLE


class ConnectionLostError(UnavailableError):
    """The API server did not respond."""

    reason = "ApiServerUnreachable"


class UnexpectedAnswerError(SchedkitError):
    """The API server sent something that is not what was asked for."""

    reason = "UnexpectedAnswer"
    exit_code = ExitCode.BAD_DATA


class StatusCause(Model, frozen=True):
    """One complaint about one field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model, frozen=True):
    """What a Status says beyond its message."""

    name: str = ""
    kind: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ApiStatus(Model, frozen=True):
    """How the API server says no."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails = StatusDetails()


class ApiError(SchedkitError):
    """The API server refused. `status_reason` is its word for why, which may be one this program does not know."""

    reason = "ApiServerRefused"

    def __init__(self, status: ApiStatus, doing: str, *, retry_after: float | None = None, hint: str = "") -> None:
        said = status.message or status.reason or "no reason given"
        super().__init__(f"{doing}: {said} ({status.code})", hint=hint)
        self.status = status
        self.code = status.code
        self.status_reason = status.reason
        self.retry_after = retry_after

    @property
    def is_version_too_large(self) -> bool:
        """Whether we asked for a version that the server has not come to, as after etcd was restored."""
        return any(cause.reason == "ResourceVersionTooLarge" for cause in self.status.details.causes)

    @property
    def is_permanent(self) -> bool:
        """Whether the same request will be refused again until somebody changes the object, a right or a rule."""
        if isinstance(self, ApiForbiddenError | ApiInvalidError) or self.code in (400, 413):
            return True
        return self.code == 500 and not self.status_reason and self.status.message.startswith(_OBJECT_IS_REFUSED)


class ApiUnauthorizedError(ApiError):
    """The API server does not know who is asking."""

    reason = "Unauthorized"
    exit_code = ExitCode.NO_PERMISSION


class ApiForbiddenError(ApiError, NoPermissionError):
    """The API server knows who is asking, and that they may not."""

    reason = "Forbidden"
    exit_code = NoPermissionError.exit_code


class ApiNotFoundError(ApiError):
    """There is no such object, or no such kind of object."""

    reason = "NotFound"
    exit_code = ExitCode.NOT_FOUND


class ApiAlreadyExistsError(ApiError):
    """There is an object of that name."""

    reason = "AlreadyExists"
    exit_code = ExitCode.ALREADY_EXISTS


class ApiConflictError(ApiError):
    """The object changed since it was read, or a field belongs to somebody else."""

    reason = "Conflict"


class ApiExpiredError(ApiError):
    """The version asked for is too old to be known."""

    reason = "Expired"


class ApiInvalidError(ApiError):
    """The object does not make sense to the API server; `status.details.causes` says which fields."""

    reason = "Invalid"


class ApiTooManyRequestsError(ApiError):
    """The API server is busy; nothing was done."""

    reason = "TooManyRequests"
    exit_code = ExitCode.UNAVAILABLE


_TYPES: tuple[type[ApiError], ...] = (
    ApiUnauthorizedError,
    ApiForbiddenError,
    ApiNotFoundError,
    ApiAlreadyExistsError,
    ApiConflictError,
    ApiExpiredError,
    ApiInvalidError,
    ApiTooManyRequestsError,
)
_BY_REASON = {error.reason: error for error in _TYPES} | {"Gone": ApiExpiredError}
_BY_CODE: dict[int, type[ApiError]] = {
    401: ApiUnauthorizedError,
    403: ApiForbiddenError,
    404: ApiNotFoundError,
    409: ApiConflictError,
    410: ApiExpiredError,
    422: ApiInvalidError,
    429: ApiTooManyRequestsError,
}
_decode_status = msgspec.json.Decoder(ApiStatus).decode


def parse_status(code: int, body: bytes) -> ApiStatus:
    """The Status in an answer; a proxy's page of HTML becomes one as well, without its text."""
    try:
        status = _decode_status(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # To a path of no API at all it answers with one line of text.
        status = ApiStatus(message="there is no such kind of object") if code == 404 else ApiStatus()
    return status if status.code == code else msgspec.structs.replace(status, code=code)


def make_api_error(status: ApiStatus, doing: str, *, retry_after: float | None = None) -> ApiError:
    """The error type for a Status; the reason decides, and the code where there is none."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code) or ApiError
    hint = "grant it in a Role or ClusterRole bound to this user" if kind is ApiForbiddenError else ""
    if kind is ApiUnauthorizedError:
        hint = "the credentials are missing, wrong or expired"
    if kind is ApiNotFoundError and not status.details.name:
        hint = "is its CustomResourceDefinition installed?"
    if retry_after is None:
        retry_after = status.details.retry_after_seconds or None
    return kind(status, doing, retry_after=retry_after, hint=hint)
