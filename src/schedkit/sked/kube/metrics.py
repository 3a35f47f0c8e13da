"""A small registry of metrics in Prometheus' text format."""

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counter:
    """A number that only grows, counted, or read from elsewhere by a function when somebody looks."""

    __slots__ = ("compute", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.compute: Callable[[], float] | None = None

    def increase(self, by: float = 1.0) -> None:
        """Count."""
        self.value += by

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """What a scrape sees: suffix, further label, value."""
        yield "", "", self.compute() if self.compute else self.value


class Gauge:
    """A number that goes up and down, set, or computed by a function when somebody looks."""

    __slots__ = ("compute", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.compute: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        """Put it where it is."""
        self.value = value

    def increase(self, by: float = 1.0) -> None:
        """Move it."""
        self.value += by

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """What a scrape sees."""
        yield "", "", self.compute() if self.compute else self.value


class Histogram:
    """How often a value fell under each of some bounds."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @property
    def count(self) -> int:
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self.total += value

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """What a scrape sees: each bucket counts those below it too."""
        for bound, count in zip((*self._bounds, math.inf), itertools.accumulate(self._counts), strict=True):
            yield "_bucket", f'le="{_number(bound)}"', count
        yield "_sum", "", self.total
        yield "_count", "", self.count


class Sampled(Protocol):
    """Any of the above."""

    def samples(self) -> Iterator[tuple[str, str, float]]: ...


Metric = TypeVar("Metric", bound=Sampled)
LabelledValue = tuple[tuple[str, ...], float]


class Family(Generic[Metric]):
    """One name with one metric for each set of label values."""

    def __init__(self, name: str, help: str, type: str, labels: Sequence[str], make: Callable[[], Metric]) -> None:
        self.name = name
        self.help = help
        self.type = type
        self.labels = tuple(labels)
        self._make = make
        self._metrics: dict[tuple[str, ...], Metric] = {}

    def of(self, *values: str) -> Metric:
        """The metric for these label values, made when it is first asked for."""
        metric = self._metrics.get(values)
        if metric is None:
            if len(values) != len(self.labels):
                raise ValueError(f"{self.name} has the labels {self.labels}, not {values}")
            metric = self._metrics[values] = self._make()
        return metric

    def forget(self, *values: str) -> None:
        """Drop the metrics whose label values begin with these: what they are about is gone."""
        for known in [known for known in self._metrics if known[: len(values)] == values]:
            del self._metrics[known]

    def render(self) -> Iterator[str]:
        """Lines of the text format."""
        if not self._metrics:
            return
        yield from _head(self.name, self.help, self.type)
        for values, metric in self._metrics.items():
            pairs = _pair(self.labels, values)
            for suffix, further, value in metric.samples():
                told = ",".join([*pairs, further] if further else pairs)
                yield f"{self.name}{suffix}{f'{{{told}}}' if told else ''} {_number(value)}"


class Collected:
    """Gauges of one name, read from elsewhere when somebody looks: thousands need no object each."""

    def __init__(
        self, name: str, help: str, labels: Sequence[str], read: Callable[[], Iterable[LabelledValue]]
    ) -> None:
        self.name = name
        self.help = help
        self.type = "gauge"
        self.labels = tuple(labels)
        self._read = read

    def render(self) -> Iterator[str]:
        """Lines of the text format."""
        yield from _head(self.name, self.help, self.type)
        for values, value in self._read():
            yield f"{self.name}{{{','.join(_pair(self.labels, values))}}} {_number(value)}"


class MetricsRegistry:
    """All metrics of a program."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Any] | Collected] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Counter]:
        """The counters of a name; asking again gives the same ones."""
        return self._family(Family(name, help, "counter", labels, Counter))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Gauge]:
        """The gauges of a name; asking again gives the same ones."""
        return self._family(Family(name, help, "gauge", labels, Gauge))

    def histogram(
        self, name: str, help: str, labels: Sequence[str] = (), *, bounds: Sequence[float]
    ) -> Family[Histogram]:
        """The histograms of a name; asking again gives the same ones."""
        return self._family(Family(name, help, "histogram", labels, lambda: Histogram(bounds)))

    def collect(self, name: str, help: str, labels: Sequence[str], read: Callable[[], Iterable[LabelledValue]]) -> None:
        """Register gauges that are computed for each scrape, by the values of their labels."""
        if name in self._families:
            raise ValueError(f"{name} exists")
        self._families[name] = Collected(name, help, labels, read)

    def render(self) -> bytearray:
        """Everything, as text; line by line, as thousands of lines take more than what they say."""
        text = bytearray()
        for family in self._families.values():
            for line in family.render():
                text += f"{line}\n".encode()
        return text

    def _family(self, family: Family[Metric]) -> Family[Metric]:
        known = self._families.setdefault(family.name, family)
        if not isinstance(known, Family) or (known.type, known.labels) != (family.type, family.labels):
            raise ValueError(f"{family.name} exists as a {known.type} with the labels {known.labels}")
        return known


def _head(name: str, help: str, type: str) -> Iterator[str]:
    yield f"# HELP {name} {_escape(help)}"
    yield f"# TYPE {name} {type}"


def _pair(labels: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f'{label}="{_escape_value(value)}"' for label, value in zip(labels, values, strict=True)]


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_value(text: str) -> str:
    return _escape(text).replace('"', r"\"")
