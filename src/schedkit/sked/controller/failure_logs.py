"""Failures with what the logs of their schedulers say, and how long a pod stays for its log to be read."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.types import FAILURES_TOLD, NodeFailure, SchedExt
from schedkit.sked.controller.crash_logs import CrashLogs
from schedkit.sked.controller.failures import CRASH_LOOPING, find_crash
from schedkit.sked.controller.objects import Pod
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import Store

WITH_LOG = (CRASH_LOOPING, Reason.EJECTED, Reason.UNFIT)  # of which a scheduler's log may say more
PATIENCE = timedelta(seconds=5)  # a kubelet has the log of what ended within a few seconds

Unread = Mapping[str, datetime]  # by pod: until when it is to stay, as with it its log would be gone
ALL_READ: Unread = {}


class FailureLogs:
    """Completes failures, and remembers for which of them a log was waited for."""

    def __init__(self, pods: Store[Pod], crash_logs: CrashLogs) -> None:
        self._pods = pods
        self._crash_logs = crash_logs
        self._waited: dict[Key, dict[str, datetime]] = {}  # by resource and pod that fails: until when at most

    def complete(self, resource: SchedExt, failures: Sequence[NodeFailure]) -> list[NodeFailure]:
        """Failures with what the schedulers' logs say of them; of no more logs are read than a status tells."""
        completed, left = [], FAILURES_TOLD
        for failure in failures:
            pod = self._find_pod(resource, failure) if left else None
            crash = find_crash(pod) if pod else None
            if crash is None:
                completed.append(failure)
                continue
            left -= 1
            before = resource.status.failures
            completed.append(self._crash_logs.complete(resource.metadata.key, failure, crash, before))
        return completed

    def find_unread(
        self, resource: SchedExt, failures: Sequence[NodeFailure], completed: Sequence[NodeFailure], now: datetime
    ) -> Unread:
        """The pods whose logs are about to be read; each is waited for once, however often it ends after that."""
        key, waited = resource.metadata.key, {}
        before = self._waited.pop(key, {})
        for failure, known in zip(failures, completed, strict=True):
            if failure.reason not in WITH_LOG:
                continue
            is_unread = known.message == failure.message and self.is_unread(resource, failure)
            until = before.get(failure.pod, now + PATIENCE)
            waited[failure.pod] = until if is_unread else min(until, now)
        if waited:
            self._waited[key] = waited
        return {pod: until for pod, until in waited.items() if until > now}

    def is_unread(self, resource: SchedExt, failure: NodeFailure) -> bool:
        """Whether the log of a failure is about to be read."""
        pod = self._find_pod(resource, failure)
        if pod is None:
            return False
        # Between its end and its back-off there is no log of a previous container yet.
        if any(status.state.ended for status in pod.status.container_statuses):
            return True
        crash = find_crash(pod)
        return crash is not None and self._crash_logs.is_reading(crash)

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        self._waited.pop(resource, None)

    def _find_pod(self, resource: SchedExt, failure: NodeFailure) -> Pod | None:
        """The pod whose log says more of a failure."""
        return self._pods.get(resource.metadata.namespace, failure.pod) if failure.reason in WITH_LOG else None
