"""The numbers of comparisons and gates for measurements that are made from seeds: a change shows in a file.

``pytest tests/runtime/test_judged_values.py --snapshot-update`` writes it. Whether the numbers are right is told by
test_differences.py, test_limits.py and ``bench/verdicts``.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.runtime.evaluation.differences import Comparison, Measured
from constructs_optim.runtime.evaluation.gate import Completions, find
from constructs_optim.runtime.evaluation.limits import level_of
from constructs_optim.runtime.evaluation.samples import Observation, Sample
from constructs_optim.runtime.requests.run_properties import Comparison as Compared
from constructs_optim.runtime.requests.run_properties import Gate, Limit, Quality

from ..support.rounding import rounded

PRICE = 7.09
TTFT, CLIENT, TOKENS, PRICED = (
    "time_to_first_token_p50",
    "client_latency_p90",
    "output_tokens_per_second",
    "price_per_million_output_tokens",
)
DIRECTIONS = {
    TTFT: -1,
    CLIENT: -1,
    "inter_chunk_latency_p99": -1,
    TOKENS: 1,
    PRICED: -1,
    "client_invocation_errors": -1,
    "goodput": 1,
    "request_throughput": 1,
}


def measured(
    seed: int, *, requests: int = 240, slower: float = 1.0, failing: float = 0.0, good: float = 1.0, drift: float = 0.0
) -> Measured:
    """Eight users' requests. ``good`` is the share that meets the objectives, ``drift`` how much slower it becomes."""
    chance, free = random.Random(seed), [0.0] * 8
    observations: list[Observation] = []
    for number in range(requests):
        start, at = min(free), free.index(min(free))
        factor = slower * (1 + drift * number / requests) * chance.lognormvariate(0, 0.3)
        if chance.random() < failing:
            observations.append(Observation(start))
            free[at] = start + 0.5
            continue
        first, between, tokens = 200 * factor, 20 * factor, 20 + number % 40
        latency = first + between * (tokens - 1)
        free[at] = start + latency / 1000
        meets, gaps = chance.random() < good, (between, 3 * between, between / 2) if number % 3 else ()
        observations.append(
            Observation(start, first, between, latency, 300 + number % 7, tokens, number, gaps, meets_objectives=meets)
        )
    seconds = max(free)
    sample = Sample(observations, seconds)
    drawn = sample.drawn()
    errors = sum(each.client_latency is None for each in observations)
    counts = {"client_invocations": float(requests), "client_invocation_errors": float(errors)}
    return Measured({**drawn, **counts, PRICED: PRICE / 3600 / drawn[TOKENS] * 1e6}, sample)


def runs(*sides: Measured) -> Measured:
    return Measured.of_runs(sides)


def middle(whole: Measured) -> Measured:
    """The requests in the middle of a time, some of which begin before it or end after it."""
    assert whole.sample is not None
    begin, end = whole.sample.seconds / 4, whole.sample.seconds / 2
    inside = [each.inside(begin, end) for each in whole.sample.observations]
    sample = Sample([each for each in inside if each.within > 0], end - begin)
    return Measured({**whole.metrics, **sample.drawn()}, sample)


@functools.cache
def sides() -> Mapping[str, tuple[Measured, Measured]]:
    """What is compared: before and after."""
    return {
        "equal": (measured(1), measured(2)),
        "a fifth slower": (measured(3), measured(4, slower=1.2)),
        "4% slower, many requests": (measured(5, requests=1500), measured(6, requests=1500, slower=1.04)),
        "few requests": (measured(7, requests=12), measured(8, requests=12)),
        "seven requests": (measured(9, requests=7), measured(10, requests=7, slower=3.0)),
        "some fail": (measured(11, failing=0.01), measured(12, failing=0.08)),
        "fewer are good": (measured(13, good=0.9), measured(14, good=0.6)),
        "none are good": (measured(15, good=0.9), measured(16, good=0.0)),
        "becoming slower": (measured(17, drift=0.0), measured(18, drift=1.0)),
        "part of a longer time": (middle(measured(27)), middle(measured(28, slower=1.3))),
        "three runs each": (
            runs(measured(19), measured(20, slower=1.1), measured(21)),
            runs(measured(22, slower=1.1), measured(23, slower=1.2), measured(24)),
        ),
        "without requests": (replace(measured(25), sample=None), replace(measured(26), sample=None)),
    }


COMPARISONS = {
    "at one concurrency": Comparison(DIRECTIONS),
    "at three, across runs": Comparison(DIRECTIONS, concurrencies=3, margin=0.1, across_runs=True),
}


def test_each_comparison_has_the_numbers_that_it_had(snapshot: SnapshotAssertion) -> None:
    found: dict[str, Any] = {}
    for side, (before, after) in sides().items():
        for name, comparison in COMPARISONS.items():
            differences = [asdict(each) for each in comparison.differences(before, after)]
            found[f"{side}, {name}"] = rounded({each.pop("name"): [*each.values()] for each in differences})
    assert found == snapshot.use_extension(JSONSnapshotExtension)


def test_each_sample_has_the_metrics_that_it_had(snapshot: SnapshotAssertion) -> None:
    found: dict[str, Any] = {}
    for side, (_, after) in sides().items():
        if (sample := after.sample) is not None:
            effects = [sample.dependence(name) for name in (TTFT, TOKENS)]
            clusters = sample.design_effect(lambda each: each.client_latency is None)
            found[side] = rounded({**sample.drawn(), "blocks": sample.blocks, "effects": [*effects, clusters]})
    assert found == snapshot.use_extension(JSONSnapshotExtension)


GATES = {
    "limits": Gate(
        limits=(
            Limit(formula="time_to_first_token_p99", title="Time to first token, p99", unit="ms", at_most=360.0),
            Limit(formula="time_to_first_token", title="Time to first token", unit="ms", at_most=202.0),
            Limit(formula="client_latency_p50", title="Client latency, p50", unit="ms", at_most=930.0),
            Limit(formula="output_tokens_per_second", title="Output tokens/s", at_least=310.0),
            Limit(formula="client_invocation_errors / client_invocations", title="Failed requests", at_most=0.004),
            Limit(formula=PRICED, title="Price", at_most=6.3),
        )
    ),
    "regressions": Gate(
        max_regression=0.02,
        compared=(
            Compared(metric=CLIENT, title="Client latency, p90"),
            Compared(metric=TTFT, title="Time to first token, p50"),
            Compared(metric="output_tokens_per_second", title="Output tokens/s", better="higher"),
            Compared(metric="client_invocation_errors", title="Failed requests"),
            Compared(metric="prompt_tokens_in_cache", title="Cached tokens"),
        ),
    ),
}


def test_each_gate_says_what_it_said(snapshot: SnapshotAssertion) -> None:
    found: dict[str, Any] = {}
    for side, (before, after) in sides().items():
        for name, gate in GATES.items():
            for levels in ({8: after}, {1: before, 8: after}):
                judged = find(gate, levels, {8: before}, None)
                told = [*judged.misses, *judged.undecided, f"worth repeating: {judged.is_worth_repeating}"]
                found[f"{side}, {name}, {len(levels)} levels"] = told
    assert found == snapshot.use_extension(JSONSnapshotExtension)


def test_the_level_of_a_limit_depends_on_how_many_chance_may_carry_over_it() -> None:
    limits = GATES["limits"].limits
    assert [level_of(limits, users) for users in (1, 3)] == [0.05 / 6, 0.05 / 18]


def test_completions_differ_by_the_share_of_their_words(snapshot: SnapshotAssertion) -> None:
    quality = Quality(
        prompts="s3://prompts/chat.jsonl", min_identical=0.9, max_difference=0.1, max_tokens=64, most_prompts=10
    )
    before = ["the river is wide and slow", "yes", "no", None, "a b c d"]
    after = ["the river is wide and deep", "yes", None, "four", "a b x d e"]
    found = {
        f"same weights: {same}": find(
            Gate(quality=quality), {}, {}, Completions(after, before, same_weights=same, reference_name="those before")
        ).misses
        for same in (True, False)
    }
    assert found == snapshot.use_extension(JSONSnapshotExtension)
