"""The operator as a running program: everything put together from its options."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedkit.errors import UsageError
from schedkit.sked.controller.crash_logs import CrashLogs
from schedkit.sked.controller.execute import Executor, make_fence
from schedkit.sked.controller.objects import SCHEDEXTS
from schedkit.sked.controller.reconciler import Reconciler
from schedkit.sked.controller.revisions import RevisionCache
from schedkit.sked.controller.status_writer import StatusWriter
from schedkit.sked.controller.wiring import Wiring, make_informers, make_world
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
from schedkit.sked.kube.serve import Server, make_health_application, make_metrics_application, parse_address
from schedkit.sked.kube.workers import Controller

LEASE = "b4c95cb3.schedkit.io"  # the Go operator's: the two can take over from each other
CONTROLLER = "schedext"
SLOTS = "slot"  # the queue of nodes whose slot is to be decided
COMPONENT = "sked-controller"
SOON_SECONDS = 0.1  # what pods and nodes change is looked at together: they come in waves

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    leader_elect: bool = False
    metrics_address: str = "0"
    metrics_secure: bool = True
    metrics_certificates: Path | None = None  # a folder with tls.crt and tls.key
    health_address: str = ":8081"
    namespaces: Sequence[str] = ()
    workers: int = 16
    priority_ceiling: int = 0


async def run_operator(access: Access, options: Options) -> None:
    """Run until a signal says stop."""
    registry = MetricsRegistry()
    add_process_metrics(registry)
    identity = make_identity()
    async with Client(access, registry=registry) as client:
        recorder = Recorder(client, COMPONENT, identity)
        queue: Queue[Key] = Queue(CONTROLLER, registry=registry)
        nodes: Queue[str] = Queue(SLOTS, registry=registry)
        informers = make_informers(client)
        world = make_world(informers, options.namespaces)

        def record(metadata: ObjectMeta, kind: EventType, reason: str, note: str) -> None:
            recorder.record(refer_to(SCHEDEXTS, metadata), kind, reason, "Reconcile", note)

        crash_logs = CrashLogs(client, queue.add)
        revisions = RevisionCache(client, queue.add)
        elector = None
        if options.leader_elect:
            elector = Elector(client, LEASE, _find_namespace(access), identity=identity, registry=registry)
        fence = make_fence(lambda: elector is None or elector.holds)
        status_writer = StatusWriter(client, record, utc_now, fence)
        executor = Executor(client, fence)

        def forget_daemonset(uid: str) -> None:
            revisions.forget(uid)
            executor.forget(uid)

        wiring = Wiring(
            world,
            wake=queue.add,
            wake_soon=lambda key: queue.add_after(key, SOON_SECONDS),
            wake_node=nodes.add,
            forget_pod=crash_logs.forget,
            forget_daemonset=forget_daemonset,
            forget_resource=status_writer.forget,
            ceiling=options.priority_ceiling,
            now=utc_now,
        )
        reconciler = Reconciler(world, wiring, executor, status_writer, crash_logs, revisions, utc_now)
        wiring.connect(informers)
        certificate = _read_certificate(options)
        manager = Manager(
            informers=informers.needed,
            optional_informers=informers.optional,
            controllers=[
                Controller(queue, reconciler.reconcile, workers=options.workers, registry=registry),
                Controller(nodes, reconciler.reconcile_node, workers=options.workers, registry=registry),
            ],
            elector=elector,
            recorder=recorder,
            background=[crash_logs.run, revisions.run],
        )
        manager.servers = _make_servers(options, manager, registry, Gate(client), certificate)
        async with stop_on_signals(manager):
            await manager.run()


def _make_servers(
    options: Options, manager: Manager, registry: MetricsRegistry, gate: Gate, certificate: ServingCertificate | None
) -> list[Server]:
    servers = []
    if address := parse_address(options.health_address):
        ready = {"informers": manager.not_synced}
        if elector := manager.elector:
            ready["lease"] = lambda: elector.trouble
        health = make_health_application(live={"ping": lambda: ""}, ready=ready)
        servers.append(Server("health", health, address))
    if address := parse_address(options.metrics_address):
        metrics = make_metrics_application(registry, gate if options.metrics_secure else None)
        tls = certificate.context if certificate else None
        if options.metrics_secure and tls is None:
            tls = make_self_signed_context(COMPONENT)
        servers.append(Server("metrics", metrics, address, tls))
    return servers


def _read_certificate(options: Options) -> ServingCertificate | None:
    if options.metrics_certificates is None:
        return None
    if not options.metrics_secure:
        raise UsageError("a certificate for metrics that are not served over TLS", hint="drop --metrics-secure=false")
    folder = options.metrics_certificates
    return ServingCertificate(CertificateFiles(folder / "tls.crt", folder / "tls.key"))


def _find_namespace(access: Access) -> str:
    """Where the lease is: the namespace of the pod, or of the kubeconfig's context."""
    return os.environ.get("POD_NAMESPACE") or access.namespace
