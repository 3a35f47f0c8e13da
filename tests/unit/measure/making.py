"""Benches that never ran."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random

from schedkit.measure.environment import Environment
from schedkit.measure.metric import Metric, parse_metric
from schedkit.measure.model import METRIC, USED, WAKEUP, BenchRun, Contender, Quantity, RunEnding
from schedkit.measure.plan import make_plan
from schedkit.measure.summary import BenchSummary, summarise
from schedkit.unknown import Unknown

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
DIGEST = "sha256:" + "d" * 64
TIME = parse_metric(r"Time: ([\d.]+)", "lower")
MACHINE = Environment(
    kernel="6.12.90",
    kernel_version="#1 SMP PREEMPT_DYNAMIC",
    architecture="x86_64",
    cpu="A CPU <of> 2026",
    cpus=8,
    memory_bytes=16 << 30,
    virtual=False,
    governor="powersave",
    energy_preference=None,
    power_profile="balanced",
    turbo=True,
    on_battery=Unknown("no power supply says"),
    other_load=0.02,
    load_average=0.3,
)


def make_contender(label: str) -> Contender:
    if label == "none":
        return Contender(label)
    image = f"ghcr.io/schedkit/{label}:1.0.14"
    return Contender(label, label, image, DIGEST, DIGEST, (), "key SHA256:x", label.removeprefix("scx_"))


def make_runs(factors: Sequence[float], runs: int, *, latency: bool = False, seed: int = 5) -> list[BenchRun]:
    """Each scheduler takes `factor` times the first's seconds."""
    random = Random(seed)  # noqa: S311
    made = []
    for number, planned in enumerate(make_plan(len(factors), runs, 1, seed), start=1):
        seconds = 2.0 * factors[planned.contender] * random.lognormvariate(0, 0.01)
        values = {one.name: 1000.0 for one in USED} | {
            "wall_seconds": seconds,
            "user_seconds": seconds * 0.7,
            "system_seconds": seconds * 0.2,
            "voluntary_switches": float(random.randrange(20_000, 22_000)),
            "peak_memory_bytes": 123e6,
            METRIC: seconds / 2,
        }
        if latency:
            values |= {one.name: 1e-4 * random.lognormvariate(0, 0.2) * (place + 1) for place, one in enumerate(WAKEUP)}
        made.append(BenchRun(number, planned.block, planned.contender, RunEnding.MEASURED, NOW, values, exit_code=0))
    return made


def make_summary(
    factors: Mapping[str, float],
    runs: int = 10,
    *,
    metric: Metric | None = None,
    latency: bool = False,
    lost: Mapping[int, tuple[RunEnding, str]] | None = None,
) -> BenchSummary:
    """`lost` are runs, by their number, that gave no number."""
    contenders = [make_contender(label) for label in factors]
    made = make_runs(list(factors.values()), runs, latency=latency)
    for number, (ending, why) in (lost or {}).items():
        made[number - 1] = made[number - 1]._replace(ending=ending, why=why)
    quantities: list[Quantity] = [*([metric.quantity] if metric else []), *USED, *(WAKEUP if latency else ())]
    return summarise(contenders, made, quantities, quantities[0])
