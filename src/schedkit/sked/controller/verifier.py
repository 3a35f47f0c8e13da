"""Finds out what images are and who signed them, beside the reconciliations: each question once, and bounded.

A registry that hangs, or wants to be left alone, holds up its own images: it has few places, and none while it is to be
left alone. Nor can one namespace take all places.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from schedkit.errors import SchedkitError, UsageError
from schedkit.images.reference import Reference, parse_reference
from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.pull_secrets import Documents
from schedkit.sked.controller.verdicts import Verdicts
from schedkit.sked.controller.verification import (
    Acceptance,
    Failure,
    ImageJudgement,
    Mode,
    find_loophole,
    read_refresh,
    recall_digest,
)
from schedkit.sked.kube.backoff import exponential_delay
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Key, format_time
from schedkit.sked.verifier.messages import JUDGE, POLICY, RESOLVE, ImageFinding
from schedkit.sked.verifier.policy_files import fingerprint
from schedkit.sked.verifier.process import VerifierProcess

PLACES = 16  # questions under way at a time
HOST_PLACES = 4  # of one registry; of one that failed last, one
NAMESPACE_PLACES = 4
SHARED_SECONDS = 5.0  # an answer that is so young serves others who ask what a reference names
FAILED_SECONDS, REFUSED_SECONDS, LONGEST_SECONDS = 5.0, 30.0, 600.0  # until it is asked again, doubled each time
LONGEST_RETRY_AFTER = 3600.0
POLICY_SECONDS = 5.0
FORGET_SECONDS = 3600.0
OUTAGES = ("Unavailable", "NoAnswer")  # of the whole registry rather than of one image

Place = tuple[Key, str]  # a resource, and which of its pools
Who = tuple[str, tuple[str, ...]]  # a namespace, and which of its pull secrets
NOBODY: Who = ("", ())
FetchSecrets = Callable[[str, Sequence[str]], Awaitable[Documents]]

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Job:
    """One question, whoever wants to know."""

    kind: Literal["resolve", "judge"]
    reference: Reference
    who: Who
    policy: str
    namespace: str  # of who asked first
    waiting: set[Place] = field(default_factory=set)
    answer: ImageFinding | None = None  # the last one
    at: float = 0.0  # when it was given
    due: float = 0.0  # not before then
    failures: int = 0
    is_open: bool = False  # to be asked, or under way

    @property
    def host(self) -> str:
        return self.reference.registry


@dataclass(frozen=True)
class _Record:
    """What a claim's reference was resolved to, and for which generation and refresh."""

    token: tuple[str, int, str, str]
    since: float  # an answer that is older does not count
    digest: str


class Verifier:
    """What is known of images; `look` never waits, and whoever looked is woken when there is more to see."""

    def __init__(
        self,
        mode: Mode,
        process: VerifierProcess,
        verdicts: Verdicts,
        fetch_secrets: FetchSecrets,
        wake: Callable[[Key], None],
        *,
        policy_file: Path | None,
        now: Callable[[], datetime],
        registry: MetricsRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mode = mode
        self._process = process
        self._verdicts = verdicts
        self._fetch_secrets = fetch_secrets
        self._wake = wake
        self._policy_file = policy_file
        self._now = now
        self._clock = clock
        self._policy = ""  # its hash; empty until it is known
        self._policy_failure: Failure | None = None
        self._records: dict[Key, dict[str, _Record]] = {}  # by resource and pool
        self._wants: dict[Place, Job] = {}  # the last question of each
        self._jobs: dict[tuple[str, str, Who, str], Job] = {}
        self._open: dict[Job, None] = {}  # in the order in which they were asked
        self._running: dict[Job, asyncio.Task[None]] = {}
        self._host_failures: dict[str, int] = {}
        self._paused: dict[str, float] = {}  # registries, until when
        self._wanted, self._policy_wanted = asyncio.Event(), asyncio.Event()
        self._results = registry.counter("sked_verifications_total", "Verifications of images.", ("result",))
        registry.gauge(
            "sked_verifications_pending", "Questions to registries that have no answer yet."
        ).of().compute = lambda: float(len(self._open) + len(self._running))
        registry.gauge("sked_verdicts", "Images whose verification is kept.").of().compute = lambda: float(
            len(verdicts)
        )

    def look(self, claim: Claim, resource: SchedExt) -> ImageJudgement:
        """What is known of the image that a claim asks for; what is not known is asked."""
        self._wanted.set()
        text, place = claim.workload.sched, (resource.metadata.key, claim.workload.pool)
        try:
            reference = parse_reference(text)
        except UsageError as error:
            return ImageJudgement(self.mode, text, failure=Failure(error.reason, error.message, refused=True))
        record = self._recall(place, resource, reference)
        loophole = find_loophole(claim.workload)
        names = tuple(secret.name for secret in resource.spec.image_pull_secrets)
        who: Who = (resource.metadata.namespace, names) if names else NOBODY
        if not record.digest:
            if self._policy_failure or not self._policy:
                return self._conclude(text, "", loophole, None)
            job = self._ask(RESOLVE, reference, who, place, record.since)
            answer = job.answer if job.at >= record.since or (job.answer and job.answer.reason) else None
            if answer is None or answer.reason:
                return self._conclude(text, "", loophole, job)
            record = _Record(record.token, record.since, answer.digest)
            self._records[place[0]][place[1]] = record
        resolved = f"{reference.repository}@{record.digest}"
        if self._policy_failure or not self._policy:
            return self._conclude(text, resolved, loophole, None)
        if accepted := self._verdicts.find(resolved, self._policy):
            return ImageJudgement(self.mode, text, resolved, None if loophole else accepted, loophole)
        pinned = Reference(reference.registry, reference.path, None, record.digest)
        return self._conclude(text, resolved, loophole, self._ask(JUDGE, pinned, who, place))

    def keep(self, resource: Key, pools: Collection[str]) -> None:
        """Forget what a resource asked for in pools that it no longer has."""
        records = self._records.get(resource, {})
        for pool in [pool for pool in records if pool not in pools]:
            del records[pool]
            self._wants.pop((resource, pool), None)
        if not records:
            self._records.pop(resource, None)

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        self.keep(resource, ())

    async def run(self) -> None:
        """Follow the policy and keep verdicts, until cancelled; nothing is begun before somebody looks."""
        try:
            await self._wanted.wait()
            await self._verdicts.load()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._verdicts.run())
                group.create_task(self._follow_policy())
        finally:
            for task in list(self._running.values()):
                task.cancel()
            await self._process.close()

    async def _follow_policy(self) -> None:
        seen = None
        while True:
            self._policy_wanted.clear()
            found = fingerprint(self._policy_file) if self._policy_file else "built-in"
            if found != seen or not self._policy:
                await self._read_policy()
                seen = found if self._policy else None
            self._sweep()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLICY_SECONDS):
                    await self._policy_wanted.wait()
                    seen = None

    async def _read_policy(self) -> None:
        try:
            answer = await self._process.ask(POLICY)
        except SchedkitError as error:
            answer = ImageFinding(0, reason=error.reason, message=error.message)
        failure = Failure(answer.reason, answer.message, refused=False) if answer.reason else None
        if (answer.policy, failure) == (self._policy, self._policy_failure):
            return
        self._policy, self._policy_failure = "" if failure else answer.policy, failure
        about = {"error": failure.message} if failure else {"policy": self._policy}
        _logger.log(logging.ERROR if failure else logging.INFO, "trust policy read", extra=fields(**about))
        for key in list(self._records):
            self._wake(key)

    def _recall(self, place: Place, resource: SchedExt, reference: Reference) -> _Record:
        """What the reference was resolved to for this generation, if it was."""
        metadata, records = resource.metadata, self._records.setdefault(place[0], {})
        token = metadata.uid, metadata.generation, read_refresh(resource), str(reference)
        known = records.get(place[1])
        if known is None or known.token != token:
            # Who asks for another look wants to see what is there now, and no answer from before.
            asked = known is not None and known.token[2] != token[2]
            since = self._clock() - (0.0 if asked else SHARED_SECONDS)
            digest = reference.digest or recall_digest(resource, place[1], reference)
            known = records[place[1]] = _Record(token, since, digest)
        return known

    def _conclude(self, text: str, resolved: str, loophole: Failure | None, job: Job | None) -> ImageJudgement:
        """What follows from a question that has no good answer."""
        failure, again = loophole or self._policy_failure, None
        if job and job.answer and job.answer.reason and not failure:
            failure = Failure(job.answer.reason, job.answer.message, job.answer.refused)
        if job and not job.is_open:
            again = max(job.due - self._clock(), 1.0)
        return ImageJudgement(self.mode, text, resolved, None, failure, again)

    def _ask(
        self, kind: Literal["resolve", "judge"], reference: Reference, who: Who, place: Place, since: float = 0.0
    ) -> Job:
        """The question, open if it has no answer that counts, or one that it is time to ask for again."""
        policy = self._policy if kind == JUDGE else ""
        question = kind, str(reference), who, policy
        job = self._jobs.get(question)
        if job is None:
            job = self._jobs[question] = Job(kind, reference, who, policy, place[0].namespace)
        self._wants[place] = job
        now = self._clock()
        failed = job.answer is not None and bool(job.answer.reason)
        # Who was accepted by the policy in force is not asked about.
        is_answered = kind == RESOLVE and job.answer is not None and not failed and job.at >= since
        if not is_answered:
            job.waiting.add(place)
            if not job.is_open and (not failed or now >= job.due):
                job.is_open = True
                self._open[job] = None
                self._fill_places()
        return job

    def _fill_places(self) -> None:
        """Begin what may begin now."""
        now, later = self._clock(), []
        hosts = Counter(job.host for job in self._running)
        namespaces = Counter(job.namespace for job in self._running)
        for job in list(self._open):
            if not self._is_wanted(job):  # whoever asked asks something else by now
                del self._open[job]
                job.is_open = False
                continue
            if len(self._running) >= PLACES:
                continue
            most = 1 if self._host_failures.get(job.host) else HOST_PLACES
            if self._paused.get(job.host, 0.0) > now:
                later.append(self._paused[job.host] - now)
            elif hosts[job.host] < most and namespaces[job.namespace] < NAMESPACE_PLACES:
                del self._open[job]
                hosts[job.host] += 1
                namespaces[job.namespace] += 1
                self._running[job] = asyncio.get_running_loop().create_task(self._work(job))
        if later:
            asyncio.get_running_loop().call_later(min(later) + 0.01, self._fill_places)

    def _is_wanted(self, job: Job) -> bool:
        return any(self._wants.get(place) is job for place in job.waiting)

    async def _work(self, job: Job) -> None:
        try:
            answer = await self._fetch(job)
        finally:
            del self._running[job]
            job.is_open = False
        self._take(job, answer)
        waiting, job.waiting = job.waiting, set()
        for key in {key for key, _ in waiting}:
            self._wake(key)
        self._fill_places()

    async def _fetch(self, job: Job) -> ImageFinding:
        documents = Documents()
        try:
            if job.who is not NOBODY:
                documents = await self._fetch_secrets(*job.who)
            answer = await self._process.ask(job.kind, str(job.reference), documents.found)
        except SchedkitError as error:
            return ImageFinding(0, reason=error.reason, message=error.message)
        if answer.reason == Reason.NO_PERMISSION and documents.problem:
            return ImageFinding(
                0, answer.policy, reason=answer.reason, message=f"{answer.message}; {documents.problem}"
            )
        return answer

    def _take(self, job: Job, answer: ImageFinding) -> None:
        """Draw the conclusions of an answer: a verdict, or when to ask again."""
        now = self._clock()
        if answer.policy and answer.policy != self._policy:
            self._policy_wanted.set()
        is_of_another_policy = job.kind == JUDGE and answer.policy not in ("", job.policy)
        job.answer, job.at = None if is_of_another_policy and answer.refused else answer, now
        if not answer.reason:
            job.failures = 0
            self._host_failures.pop(job.host, None)
            self._paused.pop(job.host, None)
            if job.kind == JUDGE:
                self._results.of("accepted").increase()
                verdict = Acceptance(answer.signer, answer.rule, answer.policy, format_time(self._now()))
                self._verdicts.put(str(job.reference), verdict)
            return
        if job.answer is None:
            return
        self._results.of("refused" if answer.refused else "failed").increase()
        base = REFUSED_SECONDS if answer.refused else FAILED_SECONDS
        delay = exponential_delay(job.failures, base, LONGEST_SECONDS)
        job.failures += 1
        if answer.reason in OUTAGES and answer.policy:  # else the verifier itself ended: no fault of this registry
            failures = self._host_failures[job.host] = self._host_failures.get(job.host, 0) + 1
            pause = min(answer.retry_after or 0.0, LONGEST_RETRY_AFTER)
            self._paused[job.host] = now + max(pause, exponential_delay(failures - 1, FAILED_SECONDS, LONGEST_SECONDS))
            delay = max(delay, pause)
        job.due = now + delay
        about = fields(image=str(job.reference), reason=answer.reason, error=answer.message, seconds=round(delay))
        _logger.warning("not verified", extra=about)

    def _sweep(self) -> None:
        """Forget questions that nobody asks any more."""
        now, wanted = self._clock(), set(self._wants.values())
        for question, job in list(self._jobs.items()):
            if not job.is_open and job not in wanted and now - job.at > SHARED_SECONDS:
                del self._jobs[question]
        for host in [host for host, until in self._paused.items() if until + FORGET_SECONDS < now]:
            self._paused.pop(host)
            self._host_failures.pop(host, None)
