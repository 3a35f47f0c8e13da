"""containerd's calls: which there are, how long each may take, and what their failures mean to us."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from schedkit.errors import (
    BusyError,
    NoAnswerError,
    NoPermissionError,
    NoSpaceError,
    NotFoundError,
    SchedkitError,
    UnavailableError,
)
from schedkit.runtimes.containerd import messages_pb2 as m

NAMESPACE = "schedkit"
SHORT_SECONDS = 20.0  # what containerd does by looking into its database
LONG_SECONDS = 120.0  # what starts or ends processes, or collects garbage
CLEANING_SECONDS = 10.0  # what an error or Ctrl-C may be delayed by putting things away
UNPACK_SECONDS = 900.0  # one layer
MESSAGE_BYTES = 16 << 20  # as containerd's own limit

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Answer_co = TypeVar("Answer_co", covariant=True)


class Call(NamedTuple, Generic[Request, Response]):
    """One method of one of containerd's services."""

    name: str  # service and method, as in tasks.v1.Tasks/Start
    request: type[Request]
    response: type[Response]
    seconds: float = SHORT_SECONDS

    @property
    def path(self) -> str:
        return f"/containerd.services.{self.name}"


VERSION = Call("version.v1.Version/Version", Empty, m.VersionResponse, 5.0)
PLUGINS = Call("introspection.v1.Introspection/Plugins", m.PluginsRequest, m.PluginsResponse)
LEASE_CREATE = Call("leases.v1.Leases/Create", m.CreateLeaseRequest, m.CreateLeaseResponse)
LEASE_DELETE = Call("leases.v1.Leases/Delete", m.DeleteLeaseRequest, Empty, LONG_SECONDS)
LEASE_ADD = Call("leases.v1.Leases/AddResource", m.AddLeaseResourceRequest, Empty)
CONTENT_INFO = Call("content.v1.Content/Info", m.ContentInfoRequest, m.ContentInfoResponse)
CONTENT_UPDATE = Call("content.v1.Content/Update", m.UpdateContentRequest, m.UpdateContentResponse)
CONTENT_READ = Call("content.v1.Content/Read", m.ReadContentRequest, m.ReadContentResponse)
CONTENT_WRITE = Call("content.v1.Content/Write", m.WriteContentRequest, m.WriteContentResponse)
CONTENT_ABORT = Call("content.v1.Content/Abort", m.AbortRequest, Empty)
IMAGE_GET = Call("images.v1.Images/Get", m.GetImageRequest, m.GetImageResponse)
IMAGE_CREATE = Call("images.v1.Images/Create", m.CreateImageRequest, m.CreateImageResponse)
IMAGE_UPDATE = Call("images.v1.Images/Update", m.UpdateImageRequest, m.UpdateImageResponse)
IMAGE_DELETE = Call("images.v1.Images/Delete", m.DeleteImageRequest, Empty, LONG_SECONDS)
IMAGE_LIST = Call("images.v1.Images/List", m.ListImagesRequest, m.ListImagesResponse)
DIFF_APPLY = Call("diff.v1.Diff/Apply", m.ApplyRequest, m.ApplyResponse, UNPACK_SECONDS)
SNAPSHOT_PREPARE = Call("snapshots.v1.Snapshots/Prepare", m.PrepareSnapshotRequest, m.PrepareSnapshotResponse)
SNAPSHOT_MOUNTS = Call("snapshots.v1.Snapshots/Mounts", m.SnapshotMountsRequest, m.SnapshotMountsResponse)
SNAPSHOT_COMMIT = Call("snapshots.v1.Snapshots/Commit", m.CommitSnapshotRequest, Empty, LONG_SECONDS)
SNAPSHOT_REMOVE = Call("snapshots.v1.Snapshots/Remove", m.RemoveSnapshotRequest, Empty)
SNAPSHOT_STAT = Call("snapshots.v1.Snapshots/Stat", m.StatSnapshotRequest, m.StatSnapshotResponse)
CONTAINER_GET = Call("containers.v1.Containers/Get", m.GetContainerRequest, m.GetContainerResponse)
CONTAINER_LIST = Call("containers.v1.Containers/List", m.ListContainersRequest, m.ListContainersResponse)
CONTAINER_CREATE = Call("containers.v1.Containers/Create", m.CreateContainerRequest, m.CreateContainerResponse)
CONTAINER_UPDATE = Call("containers.v1.Containers/Update", m.UpdateContainerRequest, m.UpdateContainerResponse)
CONTAINER_DELETE = Call("containers.v1.Containers/Delete", m.DeleteContainerRequest, Empty)
TASK_CREATE = Call("tasks.v1.Tasks/Create", m.CreateTaskRequest, m.CreateTaskResponse, LONG_SECONDS)
TASK_START = Call("tasks.v1.Tasks/Start", m.StartTaskRequest, m.StartTaskResponse, LONG_SECONDS)
TASK_DELETE = Call("tasks.v1.Tasks/Delete", m.DeleteTaskRequest, m.DeleteTaskResponse, LONG_SECONDS)
TASK_GET = Call("tasks.v1.Tasks/Get", m.GetTaskRequest, m.GetTaskResponse)
TASK_LIST = Call("tasks.v1.Tasks/List", m.ListTasksRequest, m.ListTasksResponse)
TASK_KILL = Call("tasks.v1.Tasks/Kill", m.KillTaskRequest, Empty)
TASK_WAIT = Call("tasks.v1.Tasks/Wait", m.WaitTaskRequest, m.WaitTaskResponse)


class AlreadyThereError(SchedkitError):
    """What should be made exists; callers that wanted just that go on."""

    reason = "AlreadyThere"


class RefusedError(SchedkitError):
    """containerd says that things are not as the call needs them: the container still runs, the image is in use."""

    reason = "Refused"


class StreamingCall(Protocol[Answer_co]):
    """A call under way whose two sides come in pieces."""

    def __iter__(self) -> Iterator[Answer_co]: ...
    def cancel(self) -> object: ...


class _Connection:
    """A channel, made when first used, and made again after it broke: an old one would wait before it tries again."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._channel: grpc.Channel | None = None

    def open(self) -> grpc.Channel:
        if self._channel is None:
            self._channel = grpc.insecure_channel(
                f"unix:{self._socket}",
                options=[
                    ("grpc.default_authority", "localhost"),  # by default the socket's path, not a host
                    ("grpc.enable_http_proxy", 0),
                    ("grpc.use_local_subchannel_pool", 1),
                    ("grpc.max_receive_message_length", MESSAGE_BYTES),
                    ("grpc.max_send_message_length", MESSAGE_BYTES),
                ],
            )
        return self._channel

    def forget(self) -> None:
        """The next call opens a new one; calls under way on this one end by themselves."""
        self._channel = None

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None


class ContainerdClient:
    """Speaks to containerd in our namespace; a `lease` keeps what its calls make from being collected."""

    def __init__(self, socket: str, *, connection: _Connection | None = None, lease: str = "") -> None:
        self.socket = socket
        self.lease = lease
        self._connection = connection or _Connection(socket)
        self._metadata = (("containerd-namespace", NAMESPACE), *([("containerd-lease", lease)] if lease else []))

    def with_lease(self, lease: str) -> Self:
        """The same connection, its calls under a lease."""
        return type(self)(self.socket, connection=self._connection, lease=lease)

    def call(self, call: Call[Request, Response], request: Request, *, seconds: float | None = None) -> Response:
        """Ask and wait for the answer, at most the call's own time or `seconds`."""
        method = self._connection.open().unary_unary(
            call.path, call.request.SerializeToString, call.response.FromString
        )
        try:
            return method(request, timeout=call.seconds if seconds is None else seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self.explain(call.name, error) from error

    def begin(
        self, call: Call[Request, Response], request: Request, done: Callable[[SchedkitError | None], None]
    ) -> Callable[[], object]:
        """Ask without waiting, and without a time limit; `done` is told of the end or failure, the result cancels."""
        method = self._connection.open().unary_unary(
            call.path, call.request.SerializeToString, call.response.FromString
        )
        pending = method.future(request, metadata=self._metadata)

        def tell(answer: "grpc.Future[Response]") -> None:
            error = None if answer.cancelled() else answer.exception()
            done(self.explain(call.name, error) if isinstance(error, grpc.RpcError) else None)

        pending.add_done_callback(tell)
        return pending.cancel

    def read(self, call: Call[Request, Response], request: Request) -> list[Response]:
        """All pieces of an answer that comes in pieces."""
        method = self._connection.open().unary_stream(
            call.path, call.request.SerializeToString, call.response.FromString
        )
        try:
            return list(method(request, timeout=call.seconds, metadata=self._metadata))
        except grpc.RpcError as error:
            raise self.explain(call.name, error) from error

    def open_stream(
        self, call: Call[Request, Response], requests: Iterator[Request | bytes]
    ) -> StreamingCall[Response]:
        """Both sides in pieces; who uses it watches the time, and hands failures to `explain`."""
        method = self._connection.open().stream_stream(call.path, _serialize, call.response.FromString)
        return method(requests, metadata=self._metadata)

    def explain(self, call: str, error: grpc.RpcError) -> SchedkitError:
        """What a failed call means, in our words."""
        failure = parse_failure(self.socket, call, error.code(), error.details() or "")
        # A wait ends without an answer as a matter of course; anything else may have broken the connection.
        if isinstance(failure, UnavailableError) or (isinstance(failure, NoAnswerError) and call != TASK_WAIT.name):
            self._connection.forget()
        return failure

    def close(self) -> None:
        """Close the connection, for all that share it."""
        self._connection.close()


def _serialize(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


# containerd knows our deadline, too, and may be the first to notice: then it resets the call or says so in words.
_TOO_LATE = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_TOO_LATE_WORDS = ("context deadline exceeded", "timed out before receiving settings")


def parse_failure(socket: str, call: str, code: grpc.StatusCode, details: str) -> SchedkitError:
    """The error for a status code; containerd's sentence is kept, as it names what it was about."""
    said = f"containerd: {details or code.name} ({call})"
    lowered = details.lower()
    if "no space left on device" in lowered or "disk quota exceeded" in lowered:
        return NoSpaceError(said, hint="containerd keeps images and snapshots under /var/lib/containerd")
    match code:
        case _ if code in _TOO_LATE or any(words in lowered for words in _TOO_LATE_WORDS):
            return NoAnswerError(f"containerd at {socket} did not respond to {call} in time")
        case grpc.StatusCode.UNAVAILABLE if "locked" in lowered:
            return BusyError(said, hint="another process is writing the same content; try again")
        case grpc.StatusCode.UNAVAILABLE if "permission denied" in lowered:
            return NoPermissionError(f"not allowed to open {socket}", hint="run as root")
        case grpc.StatusCode.UNAVAILABLE:
            return UnavailableError(
                f"containerd does not respond at {socket}: {details}", hint="is it running? systemctl status containerd"
            )
        case grpc.StatusCode.NOT_FOUND:
            return NotFoundError(said)
        case grpc.StatusCode.ALREADY_EXISTS:
            return AlreadyThereError(said)
        case grpc.StatusCode.FAILED_PRECONDITION:
            return RefusedError(said)
        case grpc.StatusCode.PERMISSION_DENIED:
            return NoPermissionError(said)
        case _:
            return SchedkitError(said)
