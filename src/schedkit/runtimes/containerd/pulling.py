"""An image into containerd: its content from our own registry client, its layers unpacked, a lease over all of it."""

import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256

from google.protobuf.field_mask_pb2 import FieldMask

from schedkit.errors import BadDataError, NoAnswerError, NotFoundError, SchedkitError, UnavailableError
from schedkit.images.oci import Content, Descriptor
from schedkit.runtimes.containerd import calls
from schedkit.runtimes.containerd import messages_pb2 as m
from schedkit.runtimes.containerd.blobs import BlobWrite
from schedkit.runtimes.containerd.calls import AlreadyThereError, ContainerdClient, RefusedError
from schedkit.runtimes.containerd.spec import ImageConfig, parse_config
from schedkit.runtimes.labels import PROVIDER
from schedkit.runtimes.model import Progress

SNAPSHOTTERS = ("overlayfs", "native")  # the first that works here
LEASE_TIME = timedelta(hours=24)  # after which containerd forgets what a killed pull left
BLOBS_AT_ONCE = 3
LOOK_SECONDS = 1.0
CONFIG_BYTES = 4 << 20


@contextmanager
def leased(client: ContainerdClient) -> Iterator[ContainerdClient]:
    """A client whose work is safe from the garbage collector; what is not referred to by the end goes."""
    id = f"schedkit-{uuid.uuid4().hex}"
    expires = (datetime.now(UTC) + LEASE_TIME).strftime("%Y-%m-%dT%H:%M:%SZ")
    client.call(calls.LEASE_CREATE, m.CreateLeaseRequest(id=id, labels={"containerd.io/gc.expire": expires}))
    try:
        yield client.with_lease(id)
    except NoAnswerError:
        raise  # nor would it answer this; the lease expires
    except BaseException:
        with suppress(SchedkitError):  # the first error is the one to tell
            client.call(calls.LEASE_DELETE, m.DeleteLeaseRequest(id=id, sync=True), seconds=calls.CLEANING_SECONDS)
        raise
    with suppress(NotFoundError):
        client.call(calls.LEASE_DELETE, m.DeleteLeaseRequest(id=id))


def fetch_snapshotter(client: ContainerdClient) -> str:
    """The one to unpack with: the first of SNAPSHOTTERS that containerd could load."""
    request = m.PluginsRequest(filters=["type==io.containerd.snapshotter.v1"])
    plugins = {plugin.id: plugin for plugin in client.call(calls.PLUGINS, request).plugins}
    for name in SNAPSHOTTERS:
        if name in plugins and not plugins[name].HasField("init_err"):
            return name
    raise UnavailableError(f"containerd at {client.socket} has none of the snapshotters {', '.join(SNAPSHOTTERS)}")


def fetch_config(client: ContainerdClient, config: Descriptor) -> ImageConfig:
    """The image's configuration out of containerd's store."""
    if config.size > CONFIG_BYTES:
        raise BadDataError(f"the image's configuration is {config.size} bytes long")
    return parse_config(fetch_content(client, config.digest))


def fetch_content(client: ContainerdClient, digest: str) -> bytes:
    """A small piece of content, whole."""
    return b"".join(piece.data for piece in client.read(calls.CONTENT_READ, m.ReadContentRequest(digest=digest)))


def parse_chain(diff_ids: Sequence[str]) -> list[str]:
    """The names that containerd gives the snapshots of a stack of layers, lowest first."""
    chain: list[str] = []
    for diff_id in diff_ids:
        chain.append(f"sha256:{sha256(f'{chain[-1]} {diff_id}'.encode()).hexdigest()}" if chain else diff_id)
    return chain


def is_here(client: ContainerdClient, content: Content, snapshotter: str) -> bool:
    """Whether exactly this image is here under its name, unpacked."""
    try:
        image = client.call(calls.IMAGE_GET, m.GetImageRequest(name=content.reference)).image
        if image.target.digest != content.digest:
            return False
        for blob in (*(manifest for manifest, _ in content.manifests), *content.layers):
            client.call(calls.CONTENT_INFO, m.ContentInfoRequest(digest=blob.digest))
        chain = parse_chain(fetch_config(client, content.config).diff_ids)
        client.call(calls.SNAPSHOT_STAT, m.StatSnapshotRequest(snapshotter=snapshotter, key=chain[-1]))
    except NotFoundError:
        return False
    return True


def pull(client: ContainerdClient, content: Content, progress: Progress) -> None:
    """Have exactly this image here, unpacked; interrupted anywhere, nothing of it stays."""
    snapshotter = fetch_snapshotter(client)
    if is_here(client, content, snapshotter):
        return
    with leased(client) as working:
        blobs = _Blobs(working, content, progress)
        try:
            progress(0, blobs.total)
            config = blobs.begin(content.config)
            layers = [blobs.begin(layer) for layer in content.layers]
            blobs.wait_for(config)
            chain = _unpack(working, snapshotter, content, lambda number: blobs.wait_for(layers[number]))
        finally:
            blobs.end()
        for manifest, data in content.manifests:
            BlobWrite(working, manifest, partial(iter, [data])).run()
        _write_references(working, snapshotter, content, chain)
        _write_image(working, content)


class _Blobs:
    """The blobs of an image on their way, some at a time."""

    def __init__(self, client: ContainerdClient, content: Content, progress: Progress) -> None:
        self._client = client
        self._content = content
        self._progress = progress
        self.total = content.config.size + sum(layer.size for layer in content.layers)
        self._done = 0
        self._lock = threading.Lock()
        self._writes: list[BlobWrite] = []
        self._written: list[Future[None]] = []
        self._threads = ThreadPoolExecutor(BLOBS_AT_ONCE, thread_name_prefix="blob")

    def begin(self, blob: Descriptor) -> Future[None]:
        """Have one written when its turn comes."""
        # containerd checks what it takes, so it is not done here as well.
        unchecked = partial(self._content.fetch_blob, blob, checked=False)
        first = BlobWrite(self._client, blob, unchecked, self._count)
        second = BlobWrite(self._client, blob, partial(self._content.fetch_blob, blob))
        self._writes += first, second
        self._written.append(self._threads.submit(_write, first, second))
        return self._written[-1]

    def wait_for(self, written: Future[None]) -> None:
        """Until that one is here; an error of any other one, or containerd leaving it unanswered, ends the wait."""
        while not written.done():
            wait([written], LOOK_SECONDS)
            for other in self._written:
                if other.done():
                    other.result()
            if any(write.is_stalled() for write in self._writes):
                name = calls.CONTENT_WRITE.name
                raise NoAnswerError(f"containerd at {self._client.socket} did not respond to {name} in time")
        written.result()

    def end(self) -> None:
        """Drop all that are not here yet."""
        for write in self._writes:
            write.cancel()
        self._threads.shutdown(cancel_futures=True)

    def _count(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._progress(self._done, self.total)


def _write(first: BlobWrite, second: BlobWrite) -> None:
    """If containerd finds that these are other bytes, a second time, to know who sent them, and to ask another."""
    try:
        first.run()
    except RefusedError:
        second.run()


def _unpack(
    client: ContainerdClient, snapshotter: str, content: Content, wait_for_layer: Callable[[int], None]
) -> list[str]:
    """Each layer as a snapshot on the one below, as soon as it is here; their names, lowest first."""
    diff_ids = fetch_config(client, content.config).diff_ids
    chain = parse_chain(diff_ids)
    if len(chain) != len(content.layers) or not chain:
        raise BadDataError(
            f"{content.reference} has {len(content.layers)} layers and {len(chain)} in its configuration"
        )
    for number, (layer, diff_id, name) in enumerate(zip(content.layers, diff_ids, chain, strict=True)):
        wait_for_layer(number)
        parent = chain[number - 1] if number else ""
        if not _lease_snapshot(client, snapshotter, name):
            _unpack_layer(client, snapshotter, layer, diff_id, name, parent)
    return chain


def _lease_snapshot(client: ContainerdClient, snapshotter: str, name: str) -> bool:
    """Keep a snapshot as long as the lease, if it is there."""
    resource = m.LeaseResource(id=name, type=f"snapshots/{snapshotter}")
    client.call(calls.LEASE_ADD, m.AddLeaseResourceRequest(id=client.lease, resource=resource))
    try:
        client.call(calls.SNAPSHOT_STAT, m.StatSnapshotRequest(snapshotter=snapshotter, key=name))
    except NotFoundError:
        return False
    return True


def _unpack_layer(
    client: ContainerdClient, snapshotter: str, layer: Descriptor, diff_id: str, name: str, parent: str
) -> None:
    key = f"extract-{uuid.uuid4().hex[:12]} {name}"
    labels = {"containerd.io/snapshot.ref": name}
    prepare = m.PrepareSnapshotRequest(snapshotter=snapshotter, key=key, parent=parent, labels=labels)
    mounts = client.call(calls.SNAPSHOT_PREPARE, prepare).mounts
    diff = m.Descriptor(media_type=layer.media_type, digest=layer.digest, size=layer.size)
    applied = client.call(calls.DIFF_APPLY, m.ApplyRequest(diff=diff, mounts=mounts)).applied
    if applied.digest != diff_id:
        raise BadDataError(f"layer {layer.digest} unpacks to {applied.digest}, its image says {diff_id}")
    try:
        commit = m.CommitSnapshotRequest(snapshotter=snapshotter, name=name, key=key, labels=labels)
        client.call(calls.SNAPSHOT_COMMIT, commit)
    except AlreadyThereError:  # another process was faster
        client.call(calls.SNAPSHOT_REMOVE, m.RemoveSnapshotRequest(snapshotter=snapshotter, key=key))


def _write_references(client: ContainerdClient, snapshotter: str, content: Content, chain: Sequence[str]) -> None:
    """Labels by which containerd's garbage collector finds from the image what belongs to it."""
    digests = [manifest.digest for manifest, _ in content.manifests]
    reference = "containerd.io/gc.ref"
    layers = {f"{reference}.content.l.{number}": layer.digest for number, layer in enumerate(content.layers)}
    _write_labels(client, content.config.digest, {f"{reference}.snapshot.{snapshotter}": chain[-1]})
    _write_labels(client, digests[-1], {f"{reference}.content.config": content.config.digest} | layers)
    for index, below in itertools.pairwise(digests):
        # Not by a number: ctr numbers all manifests of an index, and would mean another one by it.
        _write_labels(client, index, {f"{reference}.content.m.{below.rpartition(':')[2][:12]}": below})


def _write_labels(client: ContainerdClient, digest: str, labels: Mapping[str, str]) -> None:
    mask = FieldMask(paths=[f"labels.{key}" for key in labels])
    info = m.ContentInfo(digest=digest, labels=labels)
    client.call(calls.CONTENT_UPDATE, m.UpdateContentRequest(info=info, update_mask=mask))


def _write_image(client: ContainerdClient, content: Content) -> None:
    """Under the reference, as ctr names images; a tag that moved takes its name along."""
    top = content.manifests[0][0]
    target = m.Descriptor(media_type=top.media_type, digest=top.digest, size=top.size)
    image = m.Image(name=content.reference, target=target, labels=dict([PROVIDER]))
    try:
        client.call(calls.IMAGE_CREATE, m.CreateImageRequest(image=image))
    except AlreadyThereError:
        mask = FieldMask(paths=["target"])
        client.call(calls.IMAGE_UPDATE, m.UpdateImageRequest(image=image, update_mask=mask))
