"""Which pod template a pod was made of: looked up once for each revision of a DaemonSet, beside the reconciliations."""

import asyncio
from collections.abc import Callable, Collection

from schedkit.errors import SchedkitError
from schedkit.sked.controller.daemonsets import read_revision
from schedkit.sked.controller.objects import REVISIONS, ControllerRevision, DaemonSet
from schedkit.sked.controller.workloads import find_resource
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.errors import ApiError, ApiNotFoundError
from schedkit.sked.kube.objects import Key

NAME_LENGTH = 223  # Kubernetes cuts a DaemonSet's name here, to append the hash
RETRY_SECONDS = 30.0


class RevisionCache:
    """The revisions that have been asked for; whoever asked is woken when they are known."""

    def __init__(self, client: Client, wake: Callable[[Key], None]) -> None:
        self._client = client
        self._wake = wake
        self.known: dict[tuple[str, str], bytes] = {}  # by the DaemonSet's uid and the hash on its pods
        self.unreadable: set[tuple[str, str]] = set()  # without the right, or gone; it is tried again all the same
        self._asked: set[tuple[str, str]] = set()
        self._waiting: asyncio.Queue[tuple[DaemonSet, str]] = asyncio.Queue()

    def ask(self, daemonset: DaemonSet, revision: str) -> None:
        """Queue a revision to be looked up."""
        key = daemonset.metadata.uid, revision
        if key not in self._asked:
            self._asked.add(key)
            self._waiting.put_nowait((daemonset, revision))

    def keep(self, uid: str, in_use: Collection[str]) -> None:
        """Forget the revisions of a DaemonSet that no pod is of any more."""
        keys = {*self.known, *self.unreadable, *self._asked}
        for key in [key for key in keys if key[0] == uid and key[1] not in in_use]:
            self.known.pop(key, None)
            self.unreadable.discard(key)
            self._asked.discard(key)

    def forget(self, uid: str) -> None:
        """A DaemonSet is gone."""
        self.keep(uid, ())

    async def run(self) -> None:
        """Look up until cancelled."""
        while True:
            daemonset, revision = await self._waiting.get()
            key = daemonset.metadata.uid, revision
            if key not in self._asked:
                continue
            try:
                self.known[key] = await self._fetch(daemonset, revision)
            except SchedkitError as error:
                # Without the right, or when it is gone, it stays unknown, and so the pods stay as they are.
                if isinstance(error, ApiNotFoundError) or (isinstance(error, ApiError) and error.is_permanent):
                    self.unreadable.add(key)
                    self._tell(daemonset)
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry, daemonset, key)
                continue
            self.unreadable.discard(key)
            self._tell(daemonset)

    def _retry(self, daemonset: DaemonSet, key: tuple[str, str]) -> None:
        if key in self._asked:  # else the DaemonSet is gone meanwhile
            self._asked.discard(key)
            self._tell(daemonset)

    def _tell(self, daemonset: DaemonSet) -> None:
        if resource := find_resource(daemonset):
            self._wake(resource)

    async def _fetch(self, daemonset: DaemonSet, revision: str) -> bytes:
        metadata = daemonset.metadata
        name = f"{metadata.name[:NAME_LENGTH]}-{revision}"
        found = await self._client.fetch(REVISIONS, ControllerRevision, name, namespace=metadata.namespace)
        return read_revision(found.data.spec.template)
