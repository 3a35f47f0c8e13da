"""The driver: schedkit's containers in containerd's namespace of that name, and those of the Go schedctl there."""

import json
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from google.protobuf.any_pb2 import Any
from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask

from schedkit.errors import BadDataError, NoAnswerError, NotFoundError, SchedkitError, UsageError
from schedkit.images.oci import INDEXES, Content
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.containerd import calls, logs, pulling
from schedkit.runtimes.containerd import messages_pb2 as m
from schedkit.runtimes.containerd.calls import ContainerdClient, RefusedError
from schedkit.runtimes.containerd.spec import SPEC_TYPE, make_spec, read_host
from schedkit.runtimes.containerd.users import read_user
from schedkit.runtimes.labels import PROVIDER, Label, drop_own
from schedkit.runtimes.local_image import LocalImage, find_repository, in_use
from schedkit.runtimes.model import LOOK_SECONDS, SCX_FOLDER, ContainerSpec, Progress, name_taken, still_running
from schedkit.unknown import Unknown

RUNTIME = "io.containerd.runc.v2"
LOGS = Path("/var/log/schedkit")
LABEL_BYTES = 4096  # key and value; containerd refuses longer ones
LOST = 255  # containerd's own exit code for a process whose end nobody saw
_STATES = {
    m.PROCESS_STATUS_CREATED: ContainerState.CREATED,
    m.PROCESS_STATUS_RUNNING: ContainerState.RUNNING,
    m.PROCESS_STATUS_STOPPED: ContainerState.EXITED,
    m.PROCESS_STATUS_PAUSED: ContainerState.PAUSED,
    m.PROCESS_STATUS_PAUSING: ContainerState.PAUSED,
}


class Containerd:
    """Fulfils runtimes.model.Runtime."""

    driver = "containerd"

    def __init__(self, socket: str, logs: Path = LOGS, scx_folder: Path = Path(SCX_FOLDER)) -> None:
        self.socket = socket
        self._logs = logs
        self._scx_folder = scx_folder
        self._client = ContainerdClient(str(Path(socket).absolute()))
        self._marks: dict[str, list[tuple[float, int]]] = {}  # by container: when its output was how long

    def fetch_version(self) -> str:
        """Return containerd's version, without the v."""
        return self._client.call(calls.VERSION, Empty()).version.removeprefix("v")

    def fetch_containers(self) -> list[Container]:
        """All of the namespace: who puts one there means it for us."""
        deadline = time.monotonic() + LOOK_SECONDS
        records = self._client.call(calls.CONTAINER_LIST, m.ListContainersRequest(), seconds=LOOK_SECONDS).containers
        left = max(0.001, deadline - time.monotonic())
        tasks = {task.id: task for task in self._client.call(calls.TASK_LIST, m.ListTasksRequest(), seconds=left).tasks}
        ordered = sorted(records, key=lambda record: record.created_at.ToNanoseconds())
        return [_parse_container(record, tasks.get(record.id)) for record in ordered]

    def fetch_container(self, id: str) -> Container:
        """One by its full id."""
        return _parse_container(self._fetch_record(id), self._fetch_task(id))

    def fetch_digests(self) -> frozenset[str]:
        """Return the digests of all images in the namespace, and of those manifests of an index that are here."""
        found: set[str] = set()
        for image in self._client.call(calls.IMAGE_LIST, m.ListImagesRequest()).images:
            children = self._fetch_children(image.target) if image.target.media_type in INDEXES else []
            found.update(digest for digest in (image.target.digest, *children) if self._has_content(digest))
        return frozenset(found)

    def fetch_repositories(self) -> frozenset[str]:
        """Return the repositories of all images in the namespace, by their names."""
        images = self._client.call(calls.IMAGE_LIST, m.ListImagesRequest()).images
        return frozenset(find_repository(image.name) for image in images)

    def fetch_images(self) -> list[LocalImage]:
        """All of the namespace, which is schedctl's own."""
        images = self._client.call(calls.IMAGE_LIST, m.ListImagesRequest()).images
        return [
            LocalImage(self.driver, image.target.digest, (image.name,), self._count_bytes(image.target), True)
            for image in images
        ]

    def remove_image(self, image: LocalImage) -> None:
        """Remove an image with all that only it needs: containerd cleans up before it responds."""
        for record in self._client.call(calls.CONTAINER_LIST, m.ListContainersRequest()).containers:
            if record.image in image.names:
                who = _parse_labels(record).get(Label.NAME, record.id)
                raise in_use(self.driver, record.image, f"the container {who} is made of it")
        for name in image.names:
            with suppress(NotFoundError):
                self._client.call(calls.IMAGE_DELETE, m.DeleteImageRequest(name=name, sync=True))

    def has_image(self, content: Content) -> bool:
        """Whether exactly this image is here, unpacked."""
        return pulling.is_here(self._client, content, pulling.fetch_snapshotter(self._client))

    def may_be_plain(self, registry: str) -> bool:  # noqa: ARG002
        """Always: schedctl fetches what containerd gets."""
        return True

    def pull(self, content: Content, progress: Progress) -> None:
        """Have exactly this image here, unpacked."""
        pulling.pull(self._client, content, progress)

    def create(self, content: Content, spec: ContainerSpec) -> str:
        """Make the container and all of its surroundings, which is most of the work: start only lets its process go."""
        if any(container.name == spec.name for container in self.fetch_containers()):
            raise name_taken(self.driver, spec.name)
        for name, value in spec.labels.items():
            if len((name + value).encode()) > LABEL_BYTES:
                raise UsageError(
                    f"containerd takes no label of more than {LABEL_BYTES} bytes, and {name} has {len(value.encode())}",
                    hint="give the scheduler fewer or shorter arguments" if name == Label.ARGS else "",
                )
        id = secrets.token_hex(32)
        snapshotter = pulling.fetch_snapshotter(self._client)
        with pulling.leased(self._client) as client:
            try:
                config = pulling.fetch_config(client, content.config)
                parent = pulling.parse_chain(config.diff_ids)[-1]
                prepare = m.PrepareSnapshotRequest(snapshotter=snapshotter, key=id, parent=parent)
                mounts = list(client.call(calls.SNAPSHOT_PREPARE, prepare).mounts)
            except (NotFoundError, IndexError) as error:
                raise NotFoundError(
                    f"{content.reference} is not in containerd's store", hint="pull it first"
                ) from error
            user = read_user(config.user, mounts)
            document = make_spec(id, config, spec, user, read_host(), self._scx_folder)
            specification = Any(type_url=SPEC_TYPE, value=document)
            labels = {key: value for key, value in config.labels.items() if len((key + value).encode()) <= LABEL_BYTES}
            labels = drop_own(labels) | {**spec.labels, Label.CONTAINER: id, Label.NAME: spec.name}
            labels |= dict([PROVIDER])
            record = m.Container(
                id=id,
                labels=labels,
                image=content.reference,
                runtime=m.Container.Runtime(name=RUNTIME),
                spec=specification,
                snapshotter=snapshotter,
                snapshot_key=id,
            )
            client.call(calls.CONTAINER_CREATE, m.CreateContainerRequest(container=record))
        try:
            self._create_task(record)
        except BaseException:
            with suppress(SchedkitError):
                self.remove(id)
            raise
        return id

    def start(self, id: str) -> None:
        """Start it, once more if it has ended, when its output goes on where it was; one that runs is fine."""
        record = self._fetch_record(id)
        task = self._fetch_task(id)
        if task and task.status in (m.PROCESS_STATUS_RUNNING, m.PROCESS_STATUS_PAUSED, m.PROCESS_STATUS_PAUSING):
            return
        if not task or task.status != m.PROCESS_STATUS_CREATED:
            self._delete_task(id, task)
            self._create_task(record)
        log = self._log_path(id)
        self._marks[id] = [(time.time(), log.stat().st_size if log.exists() else 0)]
        self._note(id, Label.STARTED, datetime.now(UTC).isoformat())
        self._client.call(calls.TASK_START, m.StartTaskRequest(container_id=id))

    def signal(self, id: str, number: int) -> None:
        """Send a signal to its first process."""
        try:
            self._client.call(calls.TASK_KILL, m.KillTaskRequest(container_id=id, signal=number))
        except (NotFoundError, RefusedError):  # ended, or never started; unless there is no such container
            self._fetch_record(id)

    def wait(self, id: str, timeout: float) -> int | None:
        """Its exit code; LOST if it ended and containerd does not know how."""
        try:
            ended = self._client.call(calls.TASK_WAIT, m.WaitTaskRequest(container_id=id), seconds=max(timeout, 0.001))
        except NoAnswerError:
            # It runs, if containerd still answers at all.
            task = self._client.call(calls.TASK_GET, m.GetTaskRequest(container_id=id)).process
            return task.exit_status if task.status == m.PROCESS_STATUS_STOPPED else None
        except NotFoundError:
            self._fetch_record(id)
            return LOST
        return ended.exit_status

    def rename(self, id: str, name: str) -> None:
        """Give it another name: a label."""
        if any(container.name == name and container.id != id for container in self.fetch_containers()):
            raise name_taken(self.driver, name)
        self._note(id, Label.NAME, name)

    def remove(self, id: str) -> None:
        """All of an ended container; what is gone already is fine."""
        try:
            record = self._fetch_record(id)
        except NotFoundError:
            record = None
        if record:
            self._delete_task(id, self._fetch_task(id))
            if record.snapshot_key:
                with suppress(NotFoundError):
                    self._client.call(
                        calls.SNAPSHOT_REMOVE,
                        m.RemoveSnapshotRequest(snapshotter=record.snapshotter, key=record.snapshot_key),
                    )
            with suppress(NotFoundError):
                self._client.call(calls.CONTAINER_DELETE, m.DeleteContainerRequest(id=id))
        for log in logs.list_files(self._log_path(id)):
            log.unlink(missing_ok=True)

    def stream_logs(
        self,
        id: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        """Its output, if we started it: the Go schedctl's went to whoever started that."""
        begin = self._find_position(id, since) if since is not None else logs.BEGINNING
        record = self._fetch_record(id)
        path = self._log_path(id)
        if not path.exists():
            if Label.NAME not in _parse_labels(record):
                raise NotFoundError(f"the output of {id} was not kept by who started it")
            return iter(())
        task = self._fetch_task(id)
        ended = task is None or task.status == m.PROCESS_STATUS_STOPPED
        if ended:
            logs.wait_settled(path)
        if timestamps:
            logs.check_noted(path, id)
        live = follow and not ended
        pieces = self._follow(id, path, tail, begin) if live else logs.read_log(path, tail, begin)
        return logs.stamp(pieces) if timestamps else (piece.data for piece in pieces)

    def close(self) -> None:
        """Give back the connection."""
        self._client.close()

    def _note(self, id: str, label: Label, value: str) -> None:
        noted = m.Container(id=id, labels={label: value})
        mask = FieldMask(paths=[f"labels.{label}"])
        self._client.call(calls.CONTAINER_UPDATE, m.UpdateContainerRequest(container=noted, update_mask=mask))

    def _follow(self, id: str, path: Path, tail: int | None, begin: logs.Position) -> Iterator[logs.Piece]:
        with closing(logs.Ending()) as ending:
            cancel = self._client.begin(calls.TASK_WAIT, m.WaitTaskRequest(container_id=id), ending.tell)
            try:
                for piece in logs.follow_log(path, tail, ending, begin):
                    self._marks[id] = [*self._marks.get(id, [])[:1], (time.time(), piece.position)]
                    yield piece
            finally:
                cancel()

    def _find_position(self, id: str, since: float) -> logs.Position:
        """Where in its output a moment is: at the start right after it, where following it came to, or as was noted."""
        marks = self._marks.get(id, [])
        if marks:
            return logs.Position(next((position for when, position in marks if when >= since), marks[-1][1]))
        path = self._log_path(id)
        found = logs.find_position(path, since)
        if found is None:
            logs.check_noted(path, id)
        return found or logs.BEGINNING

    def _log_path(self, id: str) -> Path:
        return self._logs / f"{id}.log"

    def _fetch_record(self, id: str) -> m.Container:
        try:
            return self._client.call(calls.CONTAINER_GET, m.GetContainerRequest(id=id)).container
        except NotFoundError as error:
            raise NotFoundError(f"containerd has no container {id}") from error

    def _fetch_task(self, id: str) -> m.Process | None:
        try:
            return self._client.call(calls.TASK_GET, m.GetTaskRequest(container_id=id)).process
        except NotFoundError:
            return None

    def _create_task(self, record: m.Container) -> None:
        """Namespaces, mounts and a process that waits in them for its program's start."""
        self._scx_folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        log = self._log_path(record.id).absolute()
        log.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        where = m.SnapshotMountsRequest(snapshotter=record.snapshotter, key=record.snapshot_key)
        mounts = self._client.call(calls.SNAPSHOT_MOUNTS, where).mounts
        log.touch(mode=0o644)
        uri = logs.make_logger(log)
        request = m.CreateTaskRequest(container_id=record.id, rootfs=mounts, stdout=uri, stderr=uri)
        self._client.call(calls.TASK_CREATE, request)

    def _delete_task(self, id: str, task: m.Process | None) -> None:
        """Forget an ended process, or one that was never started; containerd itself refuses any other.

        Its logger ends a moment later. What that writes until then is not of the next start, and a file that is
        removed before would be created again.
        """
        if task is None:
            return
        if task.status == m.PROCESS_STATUS_UNKNOWN:  # its shim did not respond to containerd in time
            raise NoAnswerError(f"containerd does not know whether container {id} runs", hint="try again")
        if task.status not in (m.PROCESS_STATUS_STOPPED, m.PROCESS_STATUS_CREATED):
            raise still_running(self.driver, id)
        if task.status == m.PROCESS_STATUS_CREATED:
            # Left to containerd, its process is killed too, but then runc asks for ten seconds whether it has gone.
            self.signal(id, signal.SIGKILL)
            self.wait(id, calls.SHORT_SECONDS)
        with suppress(NotFoundError):
            self._client.call(calls.TASK_DELETE, m.DeleteTaskRequest(container_id=id))
        logs.wait_settled(self._log_path(id))

    def _has_content(self, digest: str) -> bool:
        try:
            self._client.call(calls.CONTENT_INFO, m.ContentInfoRequest(digest=digest))
        except NotFoundError:
            return False
        return True

    def _count_bytes(self, target: m.Descriptor) -> int | None:
        """Count the bytes of this platform's manifest, configuration and layers, as fetched; None if one is missing."""
        try:
            digests = self._fetch_children(target) if target.media_type in INDEXES else [target.digest]
            here = next(digest for digest in digests if self._has_content(digest))
            manifest = json.loads(pulling.fetch_content(self._client, here))
            return sum(int(part["size"]) for part in (manifest["config"], *manifest["layers"]))
        except (NotFoundError, BadDataError, StopIteration, ValueError, RecursionError, KeyError, TypeError):
            return None

    def _fetch_children(self, index: m.Descriptor) -> list[str]:
        try:
            manifests = json.loads(pulling.fetch_content(self._client, index.digest))["manifests"]
            return [str(manifest["digest"]) for manifest in manifests]
        except NotFoundError:
            return []
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise BadDataError(f"containerd's copy of {index.digest} is not an index: {error!r}") from error


def _parse_container(record: m.Container, task: m.Process | None) -> Container:
    labels = _parse_labels(record)
    noted = labels.get(Label.STARTED)
    state: ContainerState | Unknown
    if task is None:
        # It never ran, or containerd lost it, as at a reboot.
        state = ContainerState.EXITED if noted else ContainerState.CREATED
    else:
        state = _STATES.get(task.status, Unknown("containerd does not know what its process does"))
    made = Container("containerd", record.id, labels.get(Label.NAME, record.id), record.image, state, labels)
    if task and state in (ContainerState.RUNNING, ContainerState.PAUSED):
        return made._replace(pid=task.pid, started=_parse_started(noted) or _read_started(task.pid))
    if state is ContainerState.EXITED:
        return made._replace(
            exit_code=task.exit_status if task else None,
            started=_parse_started(noted),
            finished=task.exited_at.ToDatetime(UTC) if task and task.HasField("exited_at") else None,
        )
    return made


def _parse_labels(record: m.Container) -> dict[str, str]:
    """A container's labels, those of schedkit only if we wrote them: ctr and others copy whatever the image has."""
    labels = dict(record.labels)
    return labels if labels.get(Label.CONTAINER) == record.id else drop_own(labels)


def _read_started(pid: int) -> datetime | None:
    """When a process began, by the kernel: nothing else says it for the Go schedctl's containers."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot, UTC)


def _parse_started(noted: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(noted) if noted else None
    except ValueError:
        return None
