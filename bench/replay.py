"""Time the replay of a week of traffic, and compare the simulated scaling with the local cloud's own.

    python bench/replay.py

The same traffic also runs through the local cloud with an advanced clock, where its alarms, Application Auto Scaling
and endpoint decide. Both sides share the code of scaling, so this compares only their clocks, metrics and capacities;
tests/replay/documented_sequences.py checks the code.
"""

from __future__ import annotations

import math
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from targets import Target, target_table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from constructs_optim.recipe import Model, Quantization, Recipe
from constructs_optim.recipe.forecast import forecaster
from constructs_optim.replay.comparison import replay
from constructs_optim.replay.declaration import Declared, Pool
from constructs_optim.replay.scaling import Policy, Scaling
from constructs_optim.replay.simulation import simulate
from constructs_optim.replay.traffic import Traffic, read_traffic
from constructs_optim_local.cloud import LocalCloud
from tests.support.cloud_scaling import CloudScaling, tracking_policy

_DAY = 86_400.0
_MOST_SECONDS, _MOST_DIFFERENCE = 30.0, 0.05
_TARGET, _MOST_COPIES, _START_SECONDS = 20.0, 6, 180.0
_MODEL = Model.huggingface("Qwen/Qwen3-32B", revision="0" * 40)


def main() -> int:
    """Measure, print, and return the exit status: 0 if every target is met."""
    console = Console()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "week.csv"
        _write(file, days=7.0, mean=1.0, period=_DAY)
        begun = time.perf_counter()
        week = read_traffic(file)
        sides = [("declared", _declared(week)), ("proposed", _declared(week))]
        hours = [each.instance_hours for each in replay(sides, week)]
        seconds = time.perf_counter() - begun
        console.print(f"a week, {len(week):,} requests, by two declarations, each at three speeds: {hours}")
        _write(file, days=3 / 24, mean=4.0, period=5400.0)
        played = read_traffic(file)
    declared = _declared(played)
    simulated = simulate(declared, played).instance_hours
    assert declared.scaling is not None
    with LocalCloud(job_seconds=(0.1, 0.1), endpoint_seconds=_START_SECONDS, time_scale=1.0) as cloud:
        scaling = CloudScaling(cloud, "played", least=1, most=_MOST_COPIES, target=_TARGET)
        by_cloud = simulate(replace(declared, scaling=scaling), played).instance_hours
    difference = by_cloud / simulated - 1
    targets = [
        Target("a week of traffic", f"{seconds:.1f} s", f"at most {_MOST_SECONDS:.0f} s", seconds <= _MOST_SECONDS),
        Target(
            f"instance-hours by the local cloud, {by_cloud:.2f} instead of {simulated:.2f}",
            f"{difference:+.1%}",
            f"within {_MOST_DIFFERENCE:.0%}",
            abs(difference) <= _MOST_DIFFERENCE,
        ),
    ]
    console.print(target_table(targets))
    return 0 if all(target.holds for target in targets) else 1


def _write(file: Path, *, days: float, mean: float, period: float) -> None:
    """Write Poisson arrivals at a rising and falling rate, with log-normal lengths."""
    chance, at = random.Random(3), 0.0
    with file.open("w", encoding="utf-8") as output:
        output.write("seconds,input_tokens,output_tokens\n")
        while at < days * _DAY:
            at += chance.expovariate(max(0.01, mean * (1 + 0.9 * math.sin(2 * math.pi * at / period - 1.5))))
            given, expected = chance.lognormvariate(6.5, 0.5), chance.lognormvariate(5.5, 0.5)
            output.write(f"{at:.3f},{max(1, round(given))},{max(2, round(expected))}\n")


def _declared(traffic: Traffic) -> Declared:
    """Return a declaration of FP8 on four L40S, scaled by concurrent requests."""
    recipe = Recipe(_MODEL, [Quantization.fp8_dynamic()], "ml.g6e.12xlarge", "us-west-2")
    forecasts = forecaster(recipe, traffic.lengths)
    assert forecasts is not None
    scaling = Scaling(1, _MOST_COPIES, traffic.start, [Policy.tracking(tracking_policy(_TARGET))])
    pool = Pool("ml.g6e.12xlarge", 1, forecasts, _START_SECONDS, 13.12)
    return Declared("chat", (pool,), 1, scaling, None, ())


if __name__ == "__main__":
    sys.exit(main())
