"""Prometheus' text format."""

import pytest

from schedkit.sked.kube.instruments import ReconcileMetrics, add_process_metrics
from schedkit.sked.kube.metrics import MetricsRegistry


def test_counter_and_gauge_render_with_help_and_type() -> None:
    registry = MetricsRegistry()
    registry.counter("requests_total", "How many.", ("code",)).of("200").increase(2)
    registry.gauge("temperature", "How warm.").of().set(-1.5)
    assert registry.render().decode() == (
        "# HELP requests_total How many.\n"
        "# TYPE requests_total counter\n"
        'requests_total{code="200"} 2\n'
        "# HELP temperature How warm.\n"
        "# TYPE temperature gauge\n"
        "temperature -1.5\n"
    )


def test_histogram_buckets_are_cumulative_and_bounds_belong_to_their_bucket() -> None:
    registry = MetricsRegistry()
    histogram = registry.histogram("seconds", "How long.", ("who",), bounds=(0.1, 1)).of("a")
    for value in (0.05, 0.1, 0.5, 7):
        histogram.observe(value)
    assert registry.render().decode().splitlines()[2:] == [
        'seconds_bucket{who="a",le="0.1"} 2',
        'seconds_bucket{who="a",le="1"} 3',
        'seconds_bucket{who="a",le="+Inf"} 4',
        'seconds_sum{who="a"} 7.65',
        'seconds_count{who="a"} 4',
    ]


def test_labels_and_help_are_escaped() -> None:
    registry = MetricsRegistry()
    registry.counter("odd", 'a\\b\n"c"', ("text",)).of('x\\y\n"z"').increase()
    assert '# HELP odd a\\\\b\\n"c"\n' in registry.render().decode()
    assert 'odd{text="x\\\\y\\n\\"z\\""} 1\n' in registry.render().decode()


def test_asking_again_gives_the_same_metric_and_another_shape_is_refused() -> None:
    registry = MetricsRegistry()
    registry.counter("a", "A.", ("x",)).of("1").increase()
    assert registry.counter("a", "A.", ("x",)).of("1").value == 1
    with pytest.raises(ValueError, match="exists as a counter"):
        registry.gauge("a", "A.", ("x",))
    with pytest.raises(ValueError, match="has the labels"):
        registry.counter("a", "A.", ("x",)).of()


def test_reconcile_metrics_are_there_before_anything_happened() -> None:
    registry = MetricsRegistry()
    ReconcileMetrics(registry, "schedext")
    text = registry.render().decode()
    for result in ("success", "requeue", "requeue_after", "error"):
        assert f'controller_runtime_reconcile_total{{controller="schedext",result="{result}"}} 0\n' in text
    assert 'controller_runtime_reconcile_errors_total{controller="schedext"} 0\n' in text
    assert 'controller_runtime_reconcile_time_seconds_bucket{controller="schedext",le="0.005"} 0\n' in text


def test_process_metrics_are_read_when_somebody_looks() -> None:
    registry = MetricsRegistry()
    add_process_metrics(registry)
    values = dict(line.split(" ") for line in registry.render().decode().splitlines() if not line.startswith("#"))
    assert float(values["process_resident_memory_bytes"]) > 1 << 20
    assert float(values["process_open_fds"]) >= 3
    assert float(values["process_cpu_seconds_total"]) > 0
    assert float(values["process_start_time_seconds"]) > 1.7e9


def test_metrics_of_what_is_gone_are_forgotten() -> None:
    registry = MetricsRegistry()
    nodes = registry.gauge("nodes", "Nodes.", ("namespace", "name", "state"))
    for name, state in (("a", "attached"), ("a", "unknown"), ("b", "attached")):
        nodes.of("default", name, state).set(1)
    nodes.forget("default", "a")
    assert registry.render().decode().splitlines()[2:] == ['nodes{namespace="default",name="b",state="attached"} 1']


def test_collected_gauges_are_read_when_somebody_looks() -> None:
    registry = MetricsRegistry()
    found = {("default", "a"): 1.0}
    registry.collect("nodes", "Nodes.", ("namespace", "name"), found.items)
    found["default", 'b"'] = 2.5
    assert registry.render().decode().splitlines() == [
        "# HELP nodes Nodes.",
        "# TYPE nodes gauge",
        'nodes{namespace="default",name="a"} 1',
        'nodes{namespace="default",name="b\\""} 2.5',
    ]
    with pytest.raises(ValueError, match="exists"):
        registry.collect("nodes", "Nodes.", ("namespace", "name"), found.items)
    with pytest.raises(ValueError, match="exists as a gauge"):
        registry.gauge("nodes", "Nodes.", ("namespace", "name"))
