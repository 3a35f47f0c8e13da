"""The metrics of a controller, under the names of controller-runtime's and client-go's: dashboards know them."""

import os
import resource
from pathlib import Path

from schedkit.sked.kube.metrics import MetricsRegistry

RECONCILE_BOUNDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BOUNDS = tuple(float(f"1e{power}") for power in range(-8, 4))
RESULTS = ("success", "requeue", "requeue_after", "error")  # controller-runtime's; `requeue` does not occur here


class ReconcileMetrics:
    """What one controller's workers do."""

    def __init__(self, registry: MetricsRegistry, controller: str) -> None:
        one = ("controller",)
        total = registry.counter(
            "controller_runtime_reconcile_total", "Reconciliations per controller.", (*one, "result")
        )
        self.results = {result: total.of(controller, result) for result in RESULTS}
        self.errors = registry.counter(
            "controller_runtime_reconcile_errors_total", "Reconciliations that failed, per controller.", one
        ).of(controller)
        # Always 0, as everything is tried again; dashboards made for controller-runtime ask for it.
        registry.counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciliations that failed and are not tried again, per controller.",
            one,
        ).of(controller)
        self.seconds = registry.histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconciliation takes, per controller.",
            one,
            bounds=RECONCILE_BOUNDS,
        ).of(controller)
        self.workers = registry.gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers per controller.", one
        ).of(controller)
        self.active = registry.gauge(
            "controller_runtime_active_workers", "Workers that reconcile now, per controller.", one
        ).of(controller)


class QueueMetrics:
    """What goes through one work queue."""

    def __init__(self, registry: MetricsRegistry, name: str) -> None:
        labels, values = ("name", "controller"), (name, name)
        self.depth = registry.gauge("workqueue_depth", "Keys that wait for a worker.", labels).of(*values)
        self.adds = registry.counter("workqueue_adds_total", "Keys added.", labels).of(*values)
        self.retries = registry.counter("workqueue_retries_total", "Keys added again after a failure.", labels).of(
            *values
        )
        self.waited = registry.histogram(
            "workqueue_queue_duration_seconds", "How long a key waits for a worker.", labels, bounds=QUEUE_BOUNDS
        ).of(*values)
        self.worked = registry.histogram(
            "workqueue_work_duration_seconds", "How long a key is worked on.", labels, bounds=QUEUE_BOUNDS
        ).of(*values)
        self.unfinished = registry.gauge(
            "workqueue_unfinished_work_seconds", "Seconds of work in progress, over all workers.", labels
        ).of(*values)
        self.longest = registry.gauge(
            "workqueue_longest_running_processor_seconds", "How long the longest running worker has run.", labels
        ).of(*values)


def add_process_metrics(registry: MetricsRegistry, *, proc: Path = Path("/proc")) -> None:
    """Add what the process costs, read from the system when somebody looks."""
    page = os.sysconf("SC_PAGE_SIZE")
    ticks = os.sysconf("SC_CLK_TCK")

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    def resident() -> float:
        return float(int((proc / "self" / "statm").read_text().split()[1]) * page)

    def descriptors() -> float:
        return float(sum(1 for _ in (proc / "self" / "fd").iterdir()))

    # Field 22 of stat counts ticks since boot; the name in field 2 may hold blanks and parentheses.
    after_name = (proc / "self" / "stat").read_text().rpartition(")")[2].split()
    booted = next(
        int(line.split()[1]) for line in (proc / "stat").read_text().splitlines() if line.startswith("btime ")
    )
    started = booted + int(after_name[19]) / ticks
    registry.gauge("process_start_time_seconds", "When the process began, in seconds since the epoch.").of().set(
        started
    )
    for name, help, compute in (
        ("process_resident_memory_bytes", "Resident memory.", resident),
        ("process_open_fds", "Open file descriptors.", descriptors),
    ):
        registry.gauge(name, help).of().compute = compute
    registry.counter("process_cpu_seconds_total", "Processor time, in user and system mode.").of().compute = cpu
