"""The operator as a running program: everything put together from its options."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from schedkit.errors import UsageError
from schedkit.sked.controller.announcements import Announcer
from schedkit.sked.controller.crash_logs import CrashLogs
from schedkit.sked.controller.execute import Executor, Fence, make_fence
from schedkit.sked.controller.informers import make_informers, make_world
from schedkit.sked.controller.judgements import Judgements
from schedkit.sked.controller.objects import NODES, SCHEDEXTS
from schedkit.sked.controller.pacing import Pacer
from schedkit.sked.controller.pull_secrets import fetch_documents
from schedkit.sked.controller.reconciler import Reconciler
from schedkit.sked.controller.revisions import RevisionCache
from schedkit.sked.controller.rollout_metrics import RolloutMetrics
from schedkit.sked.controller.status_writer import StatusWriter
from schedkit.sked.controller.verdicts import Verdicts
from schedkit.sked.controller.verification import Mode
from schedkit.sked.controller.verifier import Verifier
from schedkit.sked.controller.wiring import Wiring
from schedkit.sked.kube.addresses import Address
from schedkit.sked.kube.authorization import Gate
from schedkit.sked.kube.certificates import CertificateFiles, ServingCertificate, make_self_signed_context
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.config import Access
from schedkit.sked.kube.events import EventType, Recorder, refer_to
from schedkit.sked.kube.instruments import add_process_metrics
from schedkit.sked.kube.lease import Elector, make_identity
from schedkit.sked.kube.manager import Manager, stop_on_signals
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Key, ObjectMeta, utc_now
from schedkit.sked.kube.queue import Queue
from schedkit.sked.kube.serve import Server, make_health_application, make_metrics_application
from schedkit.sked.kube.workers import Controller
from schedkit.sked.verifier.messages import TrustSettings
from schedkit.sked.verifier.process import VerifierProcess

LEASE = "b4c95cb3.schedkit.io"  # the Go operator's: the two can take over from each other
CONTROLLER = "schedext"
SLOTS = "slot"  # the queue of nodes whose slot is to be decided
HOLDERS = "holder"  # the queue of nodes whose report is to say who has them
HOLDER_SECONDS = 2.0  # while something is being decided it may change again
HOLDER_WORKERS = 2  # what only people read must not keep others from writing
COMPONENT = "sked-controller"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    leader_elect: bool = False
    metrics_address: Address | None = None
    metrics_secure: bool = True
    metrics_certificates: Path | None = None  # a folder with tls.crt and tls.key
    health_address: Address | None = None
    namespaces: Sequence[str] = ()
    workers: int = 16
    priority_ceiling: int = 0
    verification: Mode = Mode.OFF
    trust: TrustSettings = field(default_factory=TrustSettings)

    def __post_init__(self) -> None:
        if self.metrics_certificates and not self.metrics_secure:
            message = "a certificate for metrics that are not served over TLS"
            raise UsageError(message, hint="drop --metrics-secure=false")


async def run_operator(access: Access, options: Options) -> None:
    """Run until a signal says stop."""
    registry = MetricsRegistry()
    add_process_metrics(registry)
    identity = make_identity()
    async with Client(access, registry=registry) as client:
        recorder = Recorder(client, COMPONENT, identity)
        queue: Queue[Key] = Queue(CONTROLLER, registry=registry)
        nodes: Queue[str] = Queue(SLOTS, registry=registry)
        reports: Queue[str] = Queue(HOLDERS, registry=registry)
        informers = make_informers(client, _find_namespace(access))
        world = make_world(informers, options.namespaces)

        def record(metadata: ObjectMeta, kind: EventType, reason: str, note: str) -> None:
            recorder.record(refer_to(SCHEDEXTS, metadata), kind, reason, "Reconcile", note)

        def record_node(metadata: ObjectMeta, kind: EventType, reason: str, note: str) -> None:
            recorder.record(refer_to(NODES, metadata), kind, reason, "Reconcile", note)

        crash_logs = CrashLogs(client, queue.add)
        revisions = RevisionCache(client, queue.add)
        elector = None
        if options.leader_elect:
            elector = Elector(client, LEASE, _find_namespace(access), identity=identity, registry=registry)
        fence = make_fence(lambda: elector is None or elector.holds)
        status_writer = StatusWriter(client, record, utc_now, fence)
        executor = Executor(client, fence)
        verifier = None
        if options.verification is not Mode.OFF:
            verifier = _make_verifier(client, options, _find_namespace(access), fence, queue.add, registry)
            world.verified = set() if options.verification is Mode.ENFORCE else None

        judgements = Judgements(world.sight)
        announcer = Announcer(record, record_node, registry)

        pacer = Pacer(queue, world.placement.count_nodes, asyncio.get_running_loop())

        def forget_daemonset(uid: str) -> None:
            revisions.forget(uid)
            executor.forget(uid)

        def forget_resource(key: Key) -> None:
            status_writer.forget(key)
            pacer.forget(key)
            if verifier:
                verifier.forget(key)

        wiring = Wiring(
            world,
            wake=queue.add,
            wake_soon=pacer.wake,
            wake_node=nodes.add,
            wake_report=lambda name: reports.add_after(name, HOLDER_SECONDS),
            forget_pod=crash_logs.forget,
            forget_node=judgements.forget_node,
            forget_daemonset=forget_daemonset,
            forget_resource=forget_resource,
            ceiling=options.priority_ceiling,
            now=utc_now,
        )
        reconciler = Reconciler(
            world,
            wiring,
            executor,
            status_writer,
            crash_logs,
            revisions,
            judgements,
            announcer,
            utc_now,
            RolloutMetrics(registry),
            pacer.find_pause,
            verifier,
        )
        wiring.connect(informers)
        certificate = _read_certificate(options)
        manager = Manager(
            informers=informers.needed,
            optional_informers=informers.optional,
            controllers=[
                Controller(queue, reconciler.reconcile, workers=options.workers, registry=registry),
                Controller(nodes, reconciler.reconcile_node, workers=options.workers, registry=registry),
                Controller(reports, reconciler.reconcile_report, workers=HOLDER_WORKERS, registry=registry),
            ],
            elector=elector,
            recorder=recorder,
            background=[crash_logs.run, revisions.run, *([verifier.run] if verifier else [])],
        )
        manager.servers = _make_servers(options, manager, registry, Gate(client), certificate)
        async with stop_on_signals(manager):
            await manager.run()


def _make_verifier(
    client: Client,
    options: Options,
    namespace: str,
    fence: Fence,
    wake: Callable[[Key], None],
    registry: MetricsRegistry,
) -> Verifier:
    return Verifier(
        options.verification,
        VerifierProcess(options.trust),
        Verdicts(client, namespace, fence),
        partial(fetch_documents, client),
        wake,
        policy_file=Path(options.trust.policy) if options.trust.policy else None,
        now=utc_now,
        registry=registry,
    )


def _make_servers(
    options: Options, manager: Manager, registry: MetricsRegistry, gate: Gate, certificate: ServingCertificate | None
) -> list[Server]:
    servers = []
    if address := options.health_address:
        ready = {"informers": manager.not_synced}
        if elector := manager.elector:
            ready["lease"] = lambda: elector.trouble
        health = make_health_application(live={"ping": lambda: ""}, ready=ready)
        servers.append(Server("health", health, address))
    if address := options.metrics_address:
        metrics = make_metrics_application(registry, gate if options.metrics_secure else None)
        tls = certificate.context if certificate else None
        if options.metrics_secure and tls is None:
            tls = make_self_signed_context(COMPONENT)
        servers.append(Server("metrics", metrics, address, tls))
    return servers


def _read_certificate(options: Options) -> ServingCertificate | None:
    if options.metrics_certificates is None:
        return None
    folder = options.metrics_certificates
    return ServingCertificate(CertificateFiles(folder / "tls.crt", folder / "tls.key"))


def _find_namespace(access: Access) -> str:
    """Where the lease is: the namespace of the pod, or of the kubeconfig's context."""
    return os.environ.get("POD_NAMESPACE") or access.namespace
