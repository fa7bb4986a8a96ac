"""Which recipes are recommended for objectives, on how many instances, in which order, and why others are excluded."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from constructs_optim.recipe import Model, Recipe, RecipeError, plan
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.forecast import FIGURES, Measured, forecaster
from constructs_optim.recipe.hosting.scaling import HEADROOM
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.recommendation import (
    HUB,
    QUALITY,
    Benchmark,
    Candidate,
    Evidence,
    Fit,
    Recommendation,
    recommend,
)
from constructs_optim.recipe.techniques.parsing import parse
from tests.support.calibration import CALIBRATION

LLAMA = Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True)
QWEN = Model.huggingface("Qwen/Qwen3-32B", revision="a" * 40)
UNKNOWN = Model.huggingface("acme/mine", revision="a" * 40)
REGION = "us-west-2"
G5, P4D, P5 = "ml.g5.48xlarge", "ml.p4d.24xlarge", "ml.p5.48xlarge"
PRICES = {G5: 20.0, P4D: 30.0, P5: 90.0}
AS_IS: tuple[str, ...] = ()
AWQ, AWQ_AND_DRAFT = ("quantization=awq",), ("quantization=awq", "speculative_decoding=sagemaker_draft")
FP8, FP8_COMPILED = ("quantization=fp8",), ("quantization=fp8", "compilation=tensorrt_llm")
EAGLE = ("speculative_decoding=eagle",)
PRE_OPTIMIZED = ("pre_optimized,config=lmi-optimized",)
CHAT: dict[str, Any] = {"time_to_first_token": "2s", "inter_token_latency": "60ms"}
"""What the best of the recipes meet by far."""
TOO_FAST: dict[str, Any] = {"inter_token_latency": "3ms", "quality": "lossless"}
"""What physics allows, and no server does."""


def objectives(**changed: Any) -> Objectives:
    return Objectives(**{"input_tokens": 1000, "output_tokens": 300, "requests_per_second": 4.0, **changed})


def recommended(
    asked: Objectives | None = None,
    *,
    model: Model = LLAMA,
    types: Sequence[str] = (G5, P4D, P5),
    prices: Mapping[str, float] = PRICES,
    known: Lock | None = None,
    **evidence: Any,
) -> Recommendation:
    found = Evidence(**{"prices": prices, "calibration": CALIBRATION, **evidence})
    return recommend(model, asked or objectives(), region=REGION, instance_types=types, evidence=found, known=known)


def places(found: Recommendation) -> list[tuple[tuple[str, ...], str]]:
    return [(each.techniques, each.plan.instance_type) for each in found.candidates]


def of(found: Recommendation, techniques: tuple[str, ...], instance_type: str) -> Candidate:
    (each,) = [c for c in found.candidates if (c.techniques, c.plan.instance_type) == (techniques, instance_type)]
    return each


def meeting(found: Recommendation) -> list[Candidate]:
    return [each for each in found.candidates if each.meets]


def rate_of_a_copy(candidate: Candidate) -> float:
    assert candidate.forecast is not None
    return candidate.forecast.requests_per_second.value / candidate.copies


def test_those_that_meet_the_objectives_come_first_by_the_price_of_all_their_instances() -> None:
    found = recommended(objectives(**CHAT))
    met = meeting(found)
    assert found.candidates[: len(met)] == tuple(met)
    assert len({each.plan.instance_type for each in met}) > 1
    prices = [each.price_per_hour or math.inf for each in met]
    assert prices == sorted(prices)
    # Another instance type is the cheapest where it costs less.
    cheap = recommended(objectives(**CHAT), prices={**PRICES, P5: 10.0})
    assert {cheap.candidates[0].plan.instance_type, found.candidates[0].plan.instance_type} == {P5, P4D}


def test_recipes_of_the_same_price_come_first_without_a_job_then_with_one_and_training_of_heads_last() -> None:
    found = recommended(objectives(**CHAT), types=(P5,))
    same = [each for each in meeting(found) if each.price_per_hour == PRICES[P5]]
    jobs = [bool(each.jobs) for each in same]
    assert jobs == sorted(jobs)
    assert same[-1].techniques[0].startswith("speculative_decoding=eagle")
    assert same[0].techniques == AS_IS


def test_instance_types_tested_by_aws_come_before_untested_ones_of_the_same_price() -> None:
    prices = {"ml.g6e.12xlarge": 10.0, "ml.g5.12xlarge": 10.0}
    slow = objectives(requests_per_second=0.1, quality="any")
    found = recommended(slow, types=tuple(prices), prices=prices)
    same = [each for each in meeting(found) if each.price_per_hour == 10 and each.fit is Fit.fits]
    assert len({each.plan.instance_type for each in same}) == 2
    by_training = {trains: [e.tested for e in same if ("eagle" in e.jobs) == trains] for trains in (True, False)}
    for tested in by_training.values():
        assert tested == sorted(tested, reverse=True)
    drafted = of(found, AWQ_AND_DRAFT, "ml.g6e.12xlarge")
    assert not drafted.tested
    assert sum("OPT013" in reason for reason in drafted.reasons) == 1, "reported once for both techniques"


def test_without_prices_fewer_and_smaller_accelerators_come_first() -> None:
    found = recommended(objectives(**CHAT), prices={})
    sizes = [
        each.instances * instances.by_name()[each.plan.instance_type].total_accelerator_memory_gb
        for each in meeting(found)
    ]
    assert len(set(sizes)) > 2
    assert sizes == sorted(sizes)
    assert {(each.price_per_hour, each.price_per_million) for each in found.candidates} == {(None, None)}


def test_an_instance_type_without_a_price_comes_after_those_with_one() -> None:
    found = recommended(objectives(**CHAT), prices={G5: 20.0, P5: 90.0})
    known = [each.price_per_hour is not None for each in meeting(found)]
    assert set(known) == {True, False}
    assert known == sorted(known, reverse=True)


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {
            "input_tokens": st.integers(1, 4000),
            "output_tokens": st.integers(2, 2000),
            "requests_per_second": st.none() | st.floats(0.5, 100),
            "time_to_first_token": st.none() | st.floats(300, 5000),
            "inter_token_latency": st.none() | st.floats(10, 200),
            "max_price_per_hour": st.none() | st.floats(30, 500),
            "quality": st.sampled_from(["lossless", "near-lossless", "any"]),
            "confidence": st.floats(0.5, 0.99),
        }
    )
)
def test_every_candidate_covers_its_rate_with_its_copies_on_its_instances(asked: dict[str, Any]) -> None:
    try:
        found = recommended(Objectives(**asked), types=(P4D, P5))
    except RecipeError as error:
        # No instances for that price are so fast, not even at best.
        assume({each.rule for each in error.violations} - {"OPT233", "OPT234"})
        raise
    assert found.candidates
    for each in found.candidates:
        assert (each.instances - 1) * each.copies_per_instance < each.copies
        assert each.copies <= each.instances * each.copies_per_instance
        assert each.copies_per_instance * each.plan.tensor_parallel_degree == 8
        assert each.price_per_hour == pytest.approx(each.instances * PRICES[each.plan.instance_type])
        assert each.forecast is not None
        assert each.probability is not None
        rate = each.forecast.rate
        assert rate == pytest.approx(asked["requests_per_second"] or rate, rel=1e-6)
        assert each.forecast.requests_per_second.value >= rate * (1 - 1e-6)
        tokens = asked["input_tokens"] + asked["output_tokens"]
        assert each.price_per_million == pytest.approx((each.price_per_hour or 0) / (rate * tokens * 3600 / 1e6))
        limit = asked["max_price_per_hour"]
        assert any(missed.startswith("price") for missed in each.missed) == (
            limit is not None and (each.price_per_hour or 0) > limit
        )
        for figure in FIGURES:
            estimate = getattr(each.forecast, figure)
            assert estimate.low <= estimate.value <= estimate.high


def test_twice_the_rate_takes_more_copies_and_at_most_twice_as_many() -> None:
    for rate in (4.0, 20.0, 100.0):
        once, twice = (recommended(objectives(requests_per_second=each, **CHAT)) for each in (rate, 2 * rate))
        for place in places(once):
            few, many = of(once, *place), of(twice, *place)
            if few.meets:
                assert few.copies <= many.copies <= 2 * few.copies
    assert of(twice, AS_IS, P5).copies > of(once, AS_IS, P5).copies


def test_copies_have_the_rate_that_one_takes_within_the_objectives() -> None:
    asked = objectives(requests_per_second=100.0, **CHAT)
    for each in meeting(recommended(asked)):
        assert each.copies * rate_of_a_copy(each) >= 100
    # One copy fewer would not do.
    fewest = of(recommended(asked), FP8, P5)
    recipe = Recipe(LLAMA, [parse(each) for each in FP8], P5, REGION)
    forecasts = forecaster(recipe, (1000, 300), CALIBRATION)
    assert forecasts is not None
    assert fewest.batch_limit is not None
    forecasts = forecasts.with_limit(fewest.batch_limit)
    assert fewest.copies > 1
    assert forecasts.at_rate(100, fewest.copies).probability(asked) >= asked.confidence
    assert forecasts.at_rate(100, fewest.copies - 1).probability(asked) < asked.confidence


def is_supported(candidate: Candidate) -> bool:
    return bool(candidate.record["inter_token_latency"].measurements)


@pytest.mark.parametrize("asked", [{}, CHAT])
def test_without_a_rate_one_instance_is_sized_and_the_cheapest_comes_first(asked: dict[str, Any]) -> None:
    # A large instance serves a million tokens at a lower price, and is not what a single user needs.
    prices = {"ml.g5.12xlarge": 7.0, "ml.p4d.24xlarge": 30.0, "ml.p5.48xlarge": 31.0}
    found = recommended(objectives(requests_per_second=None, quality="any", **asked), types=[*prices], prices=prices)
    assert {each.instances for each in found.candidates} == {1}
    assert all(each.copies == each.copies_per_instance for each in found.candidates)
    met = meeting(found)
    for group in (True, False):
        costs = [each.price_per_hour or math.inf for each in met if is_supported(each) is group]
        assert costs == sorted(costs)
    per_million = [each.price_per_million or math.inf for each in met]
    assert per_million != sorted(per_million)


def test_without_a_rate_unsupported_forecasts_come_after_supported_ones() -> None:
    types = ["ml.g6.12xlarge", "ml.g6e.12xlarge", "ml.p5.4xlarge", "ml.p6-b200.48xlarge"]
    prices = dict(zip(types, (9.0, 1.0, 20.0, 30.0), strict=True))
    for known in (prices, {}):
        asked = objectives(requests_per_second=None)
        met = meeting(recommended(asked, model=QWEN, types=types, prices=known, calibration=None))
        supported = [is_supported(each) for each in met]
        assert supported == sorted(supported, reverse=True)
        assert {True, False} == set(supported)


def test_without_a_rate_the_recipe_with_the_highest_rate_of_an_instance_type_comes_first() -> None:
    found = recommended(objectives(requests_per_second=None, quality="any"), types=(P5,))
    of_fit = [each for each in meeting(found) if each.fit is found.candidates[0].fit]
    rates = [each.forecast.rate for each in of_fit if each.forecast is not None and is_supported(each)]
    assert rates == sorted(rates, reverse=True)


def test_without_a_rate_the_rate_is_the_highest_of_one_instance() -> None:
    met = meeting(recommended(objectives(requests_per_second=None, **CHAT)))
    # That rate is the highest: with it, the same instance meets the objectives, and with a little more it does not.
    first = min(met, key=lambda each: each.price_per_million or math.inf)
    assert first.forecast is not None
    for factor, count in ((0.99, 1), (1.02, 2)):
        asked = objectives(requests_per_second=first.forecast.rate * factor, **CHAT)
        again = of(recommended(asked), first.techniques, first.plan.instance_type)
        assert again.instances == count


def test_a_discount_lowers_all_prices_and_leaves_the_order() -> None:
    full, half = recommended(objectives(**CHAT)), recommended(objectives(**CHAT), discount=0.5)
    assert places(full) == places(half)
    for one, other in zip(full.candidates, half.candidates, strict=True):
        assert other.price_per_hour == pytest.approx((one.price_per_hour or 0) / 2)
        assert other.price_per_million == pytest.approx((one.price_per_million or 0) / 2)


def test_where_nothing_meets_the_nearest_come_first_with_what_would_have_to_be_given_up() -> None:
    found = recommended(objectives(**TOO_FAST))
    assert not meeting(found)
    latencies: list[int] = []
    for each in found.candidates:
        (missed,) = filter(
            None, (re.fullmatch(r"inter-token latency: ([\d,]+) ms instead of 3", m) for m in each.missed)
        )
        latencies.append(int(missed[1].replace(",", "")))
        assert (each.target, each.batch_limit) == (None, None)
    assert latencies == sorted(latencies)


def test_what_is_given_up_is_enough_to_meet_the_objectives() -> None:
    nearest = recommended(objectives(**TOO_FAST)).candidates[0]
    (missed,) = nearest.missed
    (latency,) = re.findall(r": ([\d,]+) ms", missed)
    given_up = objectives(inter_token_latency=float(latency) + 1, quality="lossless")
    assert of(recommended(given_up), nearest.techniques, nearest.plan.instance_type).meets


def test_each_objective_that_is_missed_is_named() -> None:
    asked = objectives(time_to_first_token="80ms", inter_token_latency="3ms", max_price_per_hour=31, quality="lossless")
    kinds = {missed.partition(":")[0] for each in recommended(asked).candidates for missed in each.missed}
    assert kinds == {"time to first token", "inter-token latency", "price"}


def test_a_candidate_that_meets_the_objectives_does_so_with_their_confidence() -> None:
    alone = forecaster(Recipe(LLAMA, [], P5, REGION), (1000, 300), CALIBRATION)
    assert alone is not None
    idle = alone.at_rate(1e-3)
    asked = objectives(
        requests_per_second=0.1,
        time_to_first_token=idle.time_to_first_token.quantile(0.85) * 1000,
        inter_token_latency=idle.inter_token_latency.quantile(0.85) * 1000,
    )
    for each in recommended(asked, types=(P5,)).candidates:
        assert each.meets == ((each.probability or 0) >= asked.confidence), each.techniques


def test_what_costs_more_than_the_maximum_or_has_no_price_misses_it() -> None:
    found = recommended(objectives(max_price_per_hour=50, **CHAT), prices={G5: 20.0, P4D: 30.0})
    dear = of(found, EAGLE, G5)
    assert any(re.fullmatch(r"price: \$\d+\.00 per hour instead of \$50", missed) for missed in dear.missed)
    unknown = of(found, AS_IS, P5)
    assert unknown.missed == ("price: unknown",)
    assert all((each.price_per_hour or 99) <= 50 for each in meeting(found))


def test_a_higher_confidence_takes_as_many_copies_or_more() -> None:
    by_confidence = [
        recommended(objectives(requests_per_second=30.0, confidence=confidence, **CHAT))
        for confidence in (0.5, 0.8, 0.95, 0.99)
    ]
    more = 0
    for lower, higher in itertools.pairwise(by_confidence):
        for each in meeting(higher):
            less_sure = of(lower, each.techniques, each.plan.instance_type)
            assert less_sure.meets
            assert less_sure.copies <= each.copies
            more += less_sure.copies < each.copies
    assert more, "and some take more"
    assert len(meeting(by_confidence[0])) >= len(meeting(by_confidence[-1]))


@pytest.mark.parametrize(
    ("quality", "kept", "lost"),
    [
        ("any", {AS_IS, AWQ, FP8, EAGLE, PRE_OPTIMIZED}, set[tuple[str, ...]]()),
        ("near-lossless", {AS_IS, FP8, EAGLE, PRE_OPTIMIZED}, {AWQ, AWQ_AND_DRAFT}),
        ("lossless", {AS_IS, EAGLE}, {AWQ, AWQ_AND_DRAFT, FP8, FP8_COMPILED, PRE_OPTIMIZED}),
    ],
)
def test_the_quality_that_is_asked_for_excludes_what_is_lossier(
    quality: str, kept: set[tuple[str, ...]], lost: set[tuple[str, ...]]
) -> None:
    found = recommended(objectives(quality=quality))
    assert kept <= {techniques for techniques, _ in places(found)}
    assert not lost & {techniques for techniques, _ in places(found)}
    excluded = {each.techniques: each for each in found.excluded if each.rule == QUALITY}
    assert lost <= set(excluded)
    for each in excluded.values():
        assert quality in each.reason
        assert each.instance_types == (G5, P4D, P5)


def test_copies_of_fewer_accelerators_than_an_instance_has_are_candidates() -> None:
    found = recommended(objectives(**CHAT), types=(P5,))
    degrees = {
        each.plan.tensor_parallel_degree: each
        for each in found.candidates
        if each.techniques[:1] and each.techniques[0].startswith("quantization=fp8") and len(each.techniques) == 1
    }
    assert set(degrees) == {2, 4, 8}, "70 billion weights of 8 bits fit two accelerators of 80 GB, and not one"
    for degree, each in degrees.items():
        assert each.copies_per_instance == 8 // degree
        assert each.fit is Fit.fits
    # Where there is room for several copies, they do not take a whole instance each.
    busy = recommended(objectives(requests_per_second=40.0, **CHAT), types=(P5,))
    parted = of(busy, ("quantization=fp8,tensor_parallel_degree=4",), P5)
    assert parted.copies > parted.instances


def test_smaller_copies_are_planned_with_what_they_are_named_by() -> None:
    found = recommended(objectives(**CHAT), types=(P5,))
    for each in found.candidates:
        if each.copies_per_instance > 1:
            again = plan(Recipe(LLAMA, [parse(text) for text in each.techniques], P5, REGION))
            assert again.tensor_parallel_degree == each.plan.tensor_parallel_degree
            assert again.artifact_key == each.plan.artifact_key


def test_a_batch_is_limited_where_there_is_a_time_between_tokens_to_keep() -> None:
    assert of(recommended(objectives(**CHAT)), AS_IS, P4D).batch_limit is not None
    assert of(recommended(objectives(time_to_first_token="2s")), AS_IS, P4D).batch_limit is None
    # What is compiled has its batch compiled in, and the hub's configuration its own.
    assert of(recommended(objectives(**CHAT)), PRE_OPTIMIZED, P4D).batch_limit is None


def test_the_limit_of_a_batch_is_the_lowest_doubling_that_costs_no_copy_more() -> None:
    rate, asked = 20.0, objectives(time_to_first_token="2s", inter_token_latency="40ms", requests_per_second=20.0)
    doublings: list[int] = []
    for each in meeting(recommended(asked, types=(P4D, P5))):
        if each.batch_limit is None:
            continue
        recipe = Recipe(LLAMA, [parse(text) for text in each.techniques], each.plan.instance_type, REGION)
        forecasts = forecaster(recipe, (1000, 300), CALIBRATION)
        assert forecasts is not None
        within, keeps = forecasts.within(asked), forecasts.batch_limit(0.040, asked.confidence)
        assert within is not None
        assert keeps is not None
        assert each.copies == math.ceil(rate / within.rate), "as many as without a limit"
        # The largest batch that keeps the time between tokens, or what a copy has in flight, and twice that, and so on.
        least = max(keeps, math.ceil(within.in_flight))
        tried = [least * 2**doubled for doubled in range(12) if least * 2**doubled <= each.batch_limit]
        met = [
            forecasts.with_limit(limit).at_rate(rate, each.copies).probability(asked) >= asked.confidence
            for limit in tried
        ]
        assert (tried[-1], met) == (each.batch_limit, [False] * (len(tried) - 1) + [True]), each.techniques
        doublings.append(len(tried) - 1)
    assert {0, 1, 2} <= set(doublings)


def test_copies_are_scaled_before_they_reach_what_they_take() -> None:
    for each in meeting(recommended(objectives(requests_per_second=None, **CHAT))):
        assert each.forecast is not None
        assert each.target == pytest.approx(max(1.0, HEADROOM * each.forecast.in_flight), abs=0.06)


def test_evaluations_are_compared_with_one_user_and_with_as_many_as_have_requests() -> None:
    each = of(recommended(objectives(**CHAT)), AS_IS, P4D)
    assert each.forecast is not None
    one, many = sorted(each.with_users)
    assert one == 1
    assert many == pytest.approx(each.forecast.in_flight * each.copies, abs=1)
    assert each.with_users[one].inter_token_latency.value <= each.with_users[many].inter_token_latency.value


def test_own_measurements_change_the_forecast_and_the_sizing() -> None:
    before = of(recommended(objectives(requests_per_second=40.0, **CHAT)), AS_IS, P5)
    recipe = forecaster(Recipe(LLAMA, [], P5, REGION), (1000, 300), CALIBRATION)
    assert recipe is not None
    slower = [Measured(figure, recipe.group, recipe.recipe, 0.5, 1.0) for figure in ("requests_per_second",)] * 20
    found = recommended(objectives(requests_per_second=40.0, **CHAT), calibration=CALIBRATION.learning(slower))
    after = of(found, AS_IS, P5)
    assert after.copies > before.copies
    assert (before.record["requests_per_second"].own, after.record["requests_per_second"].own) == (0, 20)


def test_a_model_of_unknown_size_has_no_forecast_and_meets_nothing() -> None:
    found = recommended(model=UNKNOWN, types=(P5,))
    assert found.candidates
    for each in found.candidates:
        assert (each.forecast, each.probability, each.fit, each.meets) == (None, None, Fit.unknown, False)
    known = Lock(models={"acme/mine": RecordedModel(revision="a" * 40, parameters_billion=8, weight_bits=16)})
    assert meeting(recommended(model=UNKNOWN, types=(P5,), known=known))


@pytest.mark.parametrize(
    ("asked", "rule", "location"),
    [
        ({"input_tokens": 8000}, "OPT231", "objectives.input_tokens"),
        ({"time_to_first_token": 1}, "OPT232", "objectives.time_to_first_token"),
        ({"inter_token_latency": 0.1}, "OPT233", "objectives.inter_token_latency"),
        ({"max_price_per_hour": 19.5}, "OPT234", "objectives.max_price_per_hour"),
    ],
)
def test_what_no_recipe_can_do_is_refused_with_what_one_can(asked: dict[str, Any], rule: str, location: str) -> None:
    with pytest.raises(RecipeError) as refused:
        recommended(objectives(**asked))
    (violation,) = refused.value.violations
    assert (violation.rule, violation.location) == (rule, location)
    (works,) = re.findall(r"[\d.]+", violation.suggestion)
    possible = {**asked, **{name: float(works) * 1.01 for name in asked if name != "input_tokens"}}
    if rule == "OPT231":
        possible = {"input_tokens": int(works) - 300}
    assert recommended(objectives(**possible)).candidates


def test_all_that_is_impossible_is_refused_at_once() -> None:
    wrong = objectives(time_to_first_token=2, inter_token_latency=0.1, input_tokens=9000, max_price_per_hour=5)
    with pytest.raises(RecipeError) as refused:
        recommended(wrong)
    assert [violation.rule for violation in refused.value.violations] == ["OPT231", "OPT232", "OPT233", "OPT234"]


def test_a_discount_counts_for_what_a_price_buys() -> None:
    assert recommended(objectives(max_price_per_hour=15), discount=0.5).candidates
    assert recommended(objectives(max_price_per_hour=15), prices={}).candidates, "without prices, nobody knows"


def test_ready_made_checkpoints_come_before_jobs_that_make_the_like() -> None:
    found = recommended(objectives(requests_per_second=0.5, quality="any"), model=QWEN, types=("ml.g6e.12xlarge",))
    ready_made = ("quantization=awq,checkpoint=Qwen/Qwen3-32B-AWQ",)
    ranked = [each.techniques for each in found.candidates]
    assert ranked.index(ready_made) < ranked.index(AWQ)
    assert of(found, ready_made, "ml.g6e.12xlarge").jobs == ("copy-qwen-qwen3-32b-awq",)


def test_checkpoints_have_the_commit_that_is_recorded_of_them() -> None:
    names = ("quantization=awq,checkpoint=Qwen/Qwen3-32B-AWQ",)
    asked = objectives(requests_per_second=0.5, quality="any")
    commits = Lock(models={"Qwen/Qwen3-32B-AWQ": RecordedModel(revision="b" * 40)})
    keys = [
        of(recommended(asked, model=QWEN, types=("ml.g6e.12xlarge",), known=known), names, "ml.g6e.12xlarge").plan.jobs
        for known in (Lock(), commits)
    ]
    assert keys[0][0].artifact_key != keys[1][0].artifact_key


def test_models_that_sagemakers_jobs_do_not_know_are_quantized_without_them() -> None:
    model = Model.huggingface("Qwen/Qwen3.5-9B", revision="a" * 40)
    found = recommended(model=model, types=("ml.g6e.12xlarge", P5))
    kinds = {each.partition(",")[0] for techniques, _ in places(found) for each in techniques}
    assert kinds == {"quantization=fp8_block", "speculative_decoding=eagle", "speculative_decoding=mtp"}
    assert "OPT030" in {each.rule for each in found.excluded if each.techniques == FP8}


def test_instance_types_that_cannot_divide_the_attention_heads_are_excluded() -> None:
    falcon = Model.jumpstart("huggingface-llm-falcon-7b-instruct-bf16", version="1.0.0", accept_eula=True)
    asked = objectives(input_tokens=100, output_tokens=100)
    found = recommended(asked, model=falcon, types=("ml.g5.xlarge", "ml.g5.12xlarge", G5))
    assert (AS_IS, "ml.g5.xlarge") in places(found)
    divided = [each for each in found.candidates if each.plan.instance_type != "ml.g5.xlarge"]
    assert {each.plan.tensor_parallel_degree for each in divided} <= {1}, "71 heads"
    assert "OPT054" in {each.rule for each in found.excluded}


def test_an_existing_artifact_needs_no_job_and_comes_before_a_new_one_of_the_same_price() -> None:
    result = plan(Recipe(LLAMA, [parse(text) for text in FP8_COMPILED], P5, REGION))
    assert result.artifact_key is not None
    before = recommended(objectives(**CHAT), types=(P5,))
    after = recommended(objectives(**CHAT), types=(P5,), artifacts={result.artifact_key})
    assert of(before, FP8_COMPILED, P5).jobs == ("fp8-tensorrt-llm",)
    assert of(after, FP8_COMPILED, P5).jobs == ()
    assert "no job: the artifact exists" in of(after, FP8_COMPILED, P5).reasons
    assert "1 job (fp8-tensorrt-llm)" in of(before, FP8_COMPILED, P5).reasons
    assert places(after).index((FP8_COMPILED, P5)) < places(after).index((FP8, P5))
    assert places(before).index((FP8, P5)) < places(before).index((FP8_COMPILED, P5))


def test_recipes_that_do_not_fit_or_run_are_excluded_with_the_rule() -> None:
    found = recommended(objectives(quality="any"), types=("ml.g5.2xlarge", "ml.inf2.48xlarge"), prices={})
    by_rule = {(each.techniques, each.rule): each for each in found.excluded}
    assert by_rule[AWQ, "OPT050"].instance_types == ("ml.g5.2xlarge",)
    assert "the weights need 39 GB" in by_rule[AWQ, "OPT050"].reason
    assert by_rule[AWQ, "OPT012"].instance_types == ("ml.inf2.48xlarge",)
    on_neuron = {techniques for techniques, name in places(found) if name == "ml.inf2.48xlarge"}
    assert {techniques[0].partition(",")[0] for techniques in on_neuron} == {"compilation=neuron"}


def test_exclusions_with_different_reasons_show_the_general_rule_reason() -> None:
    found = recommended(objectives(quality="any"), types=("ml.g5.xlarge", "ml.g4dn.xlarge"), prices={})
    (each,) = [e for e in found.excluded if (e.techniques, e.rule) == (AWQ, "OPT050")]
    assert each.instance_types == ("ml.g5.xlarge", "ml.g4dn.xlarge")
    assert each.reason == "the weights alone need more memory than the accelerators have"


def test_a_hub_configuration_is_a_candidate_only_on_offered_instance_types() -> None:
    found = recommended(configurations={"lmi-optimized": {P4D}, "lmi": set[str]()})
    assert [name for techniques, name in places(found) if techniques == PRE_OPTIMIZED] == [P4D]
    plain = ("pre_optimized,config=lmi",)
    assert {name for techniques, name in places(found) if techniques == plain} == {G5, P4D, P5}
    (each,) = [e for e in found.excluded if e.rule == HUB]
    assert (each.techniques, each.instance_types) == (PRE_OPTIMIZED, (G5, P5))


def test_published_benchmarks_are_shown_beside_the_forecast_and_do_not_rank() -> None:
    mine = Benchmark("published by JumpStart", P5, 4, "lmi-optimized", time_to_first_token_ms=80, tokens_per_second=480)
    partly = Benchmark("published by JumpStart", P4D, 1, "lmi-optimized", tokens_per_second=48)
    other = Benchmark("published by JumpStart", P5, 1, "lmi", tokens_per_second=48)
    found, without = recommended(benchmarks=(mine, partly, other)), recommended()
    assert places(found) == places(without)
    assert found.elsewhere == (other,)
    said = "480 tokens/s, first token after 80 ms with 4 users (published by JumpStart, lengths not stated)"
    assert said in of(found, PRE_OPTIMIZED, P5).reasons
    assert (
        "48 tokens/s with 1 user (published by JumpStart, lengths not stated)" in of(found, PRE_OPTIMIZED, P4D).reasons
    )
    assert any("JumpStart's configuration" in reason for reason in of(found, PRE_OPTIMIZED, P5).reasons)


def test_a_tight_memory_fit_comes_after_a_comfortable_one_of_the_same_price() -> None:
    found = recommended(objectives(requests_per_second=0.1), types=("ml.g5.12xlarge",), prices={"ml.g5.12xlarge": 1.0})
    one = [each for each in meeting(found) if each.instances == 1]
    fits = [[*Fit].index(each.fit) for each in one]
    assert fits == sorted(fits)
    assert {each.fit for each in one} == {Fit.fits, Fit.tight}
    assert any("wait for each other" in reason for reason in one[-1].reasons)


def test_all_accelerated_instance_types_are_considered_by_default() -> None:
    found = recommend(LLAMA, objectives(**CHAT), region=REGION)
    tried = {name for _, name in places(found)} | {name for each in found.excluded for name in each.instance_types}
    assert tried == {name for name, row in instances.by_name().items() if row.hosts_endpoints}
    assert meeting(found)


@pytest.mark.parametrize(
    ("model", "types", "rule"),
    [
        (Model.jumpstart("meta-textgeneration-lama-3-70b", accept_eula=True), (), "OPT002"),
        (Model.jumpstart(LLAMA.model_id, version="newest", accept_eula=True), (), "OPT003"),
        (LLAMA, ("ml.g5.12xlage",), "OPT010"),
        (LLAMA, ("ml.m5.large",), "OPT011"),
    ],
)
def test_an_invalid_model_or_instance_type_is_refused_once(model: Model, types: tuple[str, ...], rule: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recommend(model, objectives(), region=REGION, instance_types=types)
    assert [violation.rule for violation in caught.value.violations] == [rule]


@pytest.mark.parametrize("discount", [1, 1.5, -0.1])
def test_a_discount_that_is_no_share_is_refused(discount: float) -> None:
    with pytest.raises(ValueError, match=f"discount is {discount}"):
        recommended(discount=discount)
