"""Which recipes are recommended, in which order, and why others are excluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.recipe import Model, PreOptimized, Recipe, RecipeError, plan
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.recommendation import (
    HUB,
    PRICE,
    Benchmark,
    Candidate,
    Evidence,
    Fit,
    Goal,
    Preferences,
    Recommendation,
    recommend,
)
from constructs_optim.recipe.techniques.parsing import parse

LLAMA = Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True)
REGION = "us-west-2"
G5, P4D, P5 = "ml.g5.48xlarge", "ml.p4d.24xlarge", "ml.p5.48xlarge"
PRICES = {G5: 20.0, P4D: 30.0, P5: 90.0}
AWQ, AWQ_AND_DRAFT = ("quantization=awq",), ("quantization=awq", "speculative_decoding=sagemaker_draft")
EAGLE = ("speculative_decoding=eagle",)
PRE_OPTIMIZED = ("pre_optimized,config=lmi-optimized",)


def published(instance_type: str, concurrency: int, ttft: float | None, tokens: float | None) -> Benchmark:
    return Benchmark("published by JumpStart", instance_type, concurrency, ttft, tokens, configuration="lmi-optimized")


def own(techniques: Sequence[str], instance_type: str, tokens: float, with_channels: bool | None = False) -> Benchmark:
    result = plan(
        Recipe(
            model=LLAMA, techniques=[_parsed(text) for text in techniques], instance_type=instance_type, region=REGION
        )
    )
    return Benchmark(
        "your evaluation of Chat, 2026-11-20",
        instance_type,
        8,
        250.0,
        tokens,
        served=result.artifact_key or result.container_key,
        with_channels=with_channels,
    )


def _parsed(text: str) -> Any:
    return PreOptimized(config=text.partition("config=")[2]) if text.startswith("pre_") else parse(text)


def recommended(
    *benchmarks: Benchmark,
    prices: Mapping[str, float] = PRICES,
    types: Sequence[str] = (G5, P4D, P5),
    preferences: Preferences | None = None,
    **evidence: Any,
) -> Recommendation:
    known = Evidence(prices=prices, benchmarks=benchmarks, **evidence)
    return recommend(LLAMA, region=REGION, instance_types=types, evidence=known, preferences=preferences)


def places(found: Recommendation) -> list[tuple[tuple[str, ...], str]]:
    return [(each.techniques, each.plan.instance_type) for each in found.candidates]


def of(found: Recommendation, techniques: tuple[str, ...], instance_type: str) -> Candidate:
    (each,) = [c for c in found.candidates if (c.techniques, c.plan.instance_type) == (techniques, instance_type)]
    return each


def test_without_benchmarks_candidates_are_ranked_by_theoretical_token_price() -> None:
    """4 T4 (320 GB/s each) cost less an hour than 4 A10G (600 GB/s), and more a token."""
    prices = {"ml.g4dn.12xlarge": 4.89, "ml.g6.12xlarge": 5.752, "ml.g5.12xlarge": 7.09}
    found = recommended(prices=prices, types=tuple(prices))
    first = found.candidates[0]
    assert (first.techniques, first.plan.instance_type, first.benchmark) == (AWQ, "ml.g5.12xlarge", None)
    assert first.at_best is not None
    # 39.478 GB from four times 600 GB/s, and twice 80 reductions of 3.7 microseconds.
    assert first.at_best.milliseconds == pytest.approx(39.478 / 2.4 + 160 * 0.0037, rel=1e-3)
    tokens_a_second = 8 / (first.at_best.milliseconds / 1000)
    assert first.at_best.blended_price == pytest.approx(7.09 / (tokens_a_second * 3600 / 1e6) / 4)
    assert "No published benchmark." in first.reasons
    roomy = [each for each in found.candidates if each.tested and each.fit is Fit.fits and each.techniques != EAGLE]
    bounds = [each.at_best.blended_price or 0 for each in roomy if each.at_best]
    assert bounds == sorted(bounds)


def test_instance_types_tested_by_aws_rank_before_untested_ones() -> None:
    prices = {"ml.g6e.12xlarge": 0.01, "ml.g5.12xlarge": 7.09}
    found = recommended(prices=prices, types=tuple(prices))
    tested = [each.tested for each in found.candidates]
    assert tested == sorted(tested, reverse=True)
    assert {each.plan.instance_type for each in found.candidates if not each.tested} == {"ml.g6e.12xlarge"}
    drafted = of(found, AWQ_AND_DRAFT, "ml.g6e.12xlarge")
    assert sum("OPT013" in reason for reason in drafted.reasons) == 1, "reported once for both techniques"


def test_ready_made_checkpoints_rank_before_jobs_that_make_the_like() -> None:
    found = recommend(
        Model.huggingface("Qwen/Qwen3-32B", revision="a" * 40), region=REGION, instance_types=("ml.g6e.12xlarge",)
    )
    ranked = [each.techniques for each in found.candidates]
    ready_made = ("quantization=awq,checkpoint=Qwen/Qwen3-32B-AWQ",)
    assert ranked[0] == ready_made
    assert ranked.index(ready_made) < ranked.index(AWQ)
    assert found.candidates[0].jobs == ("copy-qwen-qwen3-32b-awq",)


def test_models_that_sagemakers_jobs_do_not_know_are_quantized_without_them() -> None:
    model = Model.huggingface("Qwen/Qwen3.5-9B", revision="a" * 40)
    found = recommend(model, region=REGION, instance_types=("ml.g6e.12xlarge", P5))
    assert {each.techniques for each in found.candidates} == {("quantization=fp8_block",), EAGLE}
    assert {each.rule for each in found.excluded if each.techniques == AWQ} == {"OPT030"}


def test_latency_and_throughput_goals_rank_by_forward_pass_time() -> None:
    for goal in (Goal.latency, Goal.throughput):
        found = recommended(preferences=Preferences(goal=goal))
        assert places(found)[0] == (AWQ, P5)


def test_mixture_of_experts_models_read_only_the_active_experts() -> None:
    model = Model.jumpstart("huggingface-llm-mixtral-8x7b", version="1.0.0", accept_eula=True)
    found = recommend(model, region=REGION, instance_types=(P4D,))
    awq = of(found, AWQ, P4D)
    assert awq.at_best is not None
    assert awq.plan.memory is not None
    read = awq.plan.memory.weights_gb * 12.9 / 47
    assert awq.at_best.milliseconds == pytest.approx(read / (8 * 1.555) + 2 * 32 * 0.0037, rel=1e-3)


def test_the_baseline_is_the_unoptimized_model_on_its_cheapest_instance_type() -> None:
    baseline = recommended(prices={**PRICES, "ml.g5.2xlarge": 0.1}, types=("ml.g5.2xlarge", G5, P4D, P5)).baseline
    assert baseline is not None
    assert (baseline.instance_type, baseline.memory.weights_gb) == (P4D, 140.0)
    assert baseline.at_best is not None
    assert recommended(types=("ml.g5.2xlarge",), prices={}).baseline is None


def test_instance_types_that_cannot_divide_the_attention_heads_are_excluded() -> None:
    falcon = Model.jumpstart("huggingface-llm-falcon-7b-instruct-bf16", version="1.0.0", accept_eula=True)
    found = recommend(falcon, region=REGION, instance_types=("ml.g5.xlarge", "ml.g5.12xlarge", G5))
    assert {each.plan.instance_type for each in found.candidates} == {"ml.g5.xlarge"}
    assert "OPT054" in {each.rule for each in found.excluded}


def test_benchmarked_candidates_rank_first_regardless_of_price() -> None:
    found = recommended(published(P5, 8, 100, 300))
    assert places(found)[0] == (PRE_OPTIMIZED, P5)
    assert sum(each.benchmark is not None for each in found.candidates) == 1


def test_candidates_are_ranked_by_the_blended_price_of_their_benchmarks() -> None:
    # 30 dollars an hour; 100 tokens a second are 0.36 million an hour; a quarter of the tokens are output.
    found = recommended(published(G5, 4, 900, 20), published(P4D, 4, 300, 100))
    first, second = found.candidates[:2]
    assert (first.plan.instance_type, second.plan.instance_type) == (P4D, G5)
    assert first.blended_price == pytest.approx(30 / 0.36 / 4)
    assert first.reasons[0].startswith(
        "$20.83 for a million tokens, 100 tokens/s, first token after 300 ms with 4 users"
    )
    discounted = recommended(published(P4D, 4, 300, 100), preferences=Preferences(discount=0.5))
    assert discounted.candidates[0].blended_price == pytest.approx(first.blended_price / 2)


def test_the_goal_determines_the_benchmark_and_the_ranking() -> None:
    benchmarks = (
        published(G5, 1, 200, 30),
        published(G5, 32, 2000, 200),
        published(P5, 1, 80, 60),
        published(P5, 32, 300, 400),
    )

    def first(goal: Goal) -> tuple[str, int]:
        each = recommended(*benchmarks, preferences=Preferences(goal=goal)).candidates[0]
        assert each.benchmark is not None
        return each.plan.instance_type, each.benchmark.concurrency

    assert first(Goal.latency) == (P5, 1)
    assert first(Goal.throughput) == (P5, 32)
    assert first(Goal.cost) == (G5, 32)


def test_only_benchmarks_with_the_requested_concurrency_rank_candidates() -> None:
    found = recommended(published(G5, 1, 200, 30), published(P5, 8, 90, 300), preferences=Preferences(concurrency=8))
    assert places(found)[0] == (PRE_OPTIMIZED, P5)
    other = of(found, PRE_OPTIMIZED, G5)
    assert other.benchmark is None
    assert "measured with 1 users, and not with 8" in other.reasons


def test_missing_benchmark_figures_give_no_price_or_rank() -> None:
    found = recommended(published(P4D, 4, 300, None), preferences=Preferences(goal=Goal.throughput))
    candidate = of(found, PRE_OPTIMIZED, P4D)
    assert places(found)[0] != (PRE_OPTIMIZED, P4D)
    assert candidate.blended_price is None
    assert candidate.reasons[0] == "first token after 300 ms with 4 users (published by JumpStart)"
    unpriced = recommended(published(P4D, 4, 300, 100), prices={})
    assert of(unpriced, PRE_OPTIMIZED, P4D).blended_price is None
    assert of(unpriced, PRE_OPTIMIZED, P4D).price_per_hour is None


def test_a_user_evaluation_counts_for_the_recipe_of_its_artifact() -> None:
    found = recommended(own(AWQ, P4D, 500))
    assert places(found)[0] == (AWQ, P4D)
    assert of(found, AWQ_AND_DRAFT, P4D).benchmark is None
    drafted = recommended(own(AWQ_AND_DRAFT, P4D, 500, with_channels=True))
    assert places(drafted)[0] == (AWQ_AND_DRAFT, P4D)
    assert of(drafted, AWQ, P4D).benchmark is None


def test_an_ambiguous_user_evaluation_counts_for_no_recipe() -> None:
    found = recommended(own(AWQ, P4D, 500, with_channels=None))
    for techniques in (AWQ, AWQ_AND_DRAFT):
        candidate = of(found, techniques, P4D)
        assert candidate.benchmark is None
        assert any("does not record whether it was served with a draft" in reason for reason in candidate.reasons)


def test_an_evaluation_without_an_artifact_is_matched_by_its_container_key() -> None:
    found = recommended(own(PRE_OPTIMIZED, P4D, 500, with_channels=None))
    assert places(found)[0] == (PRE_OPTIMIZED, P4D)


def test_an_evaluation_on_several_instances_counts_the_price_of_all() -> None:
    one = own(AWQ, P4D, 500)
    two = Benchmark(**{**vars(one), "instance_count": 2, "tokens_per_second": 1000})
    prices = [recommended(each).candidates[0].blended_price for each in (one, two)]
    assert prices[0] == pytest.approx(prices[1])


def test_an_existing_artifact_needs_no_job_and_ranks_before_a_new_one() -> None:
    types = (G5,)
    compiled = ("quantization=fp8", "compilation=tensorrt_llm")
    result = plan(Recipe(model=LLAMA, techniques=[_parsed(each) for each in compiled], instance_type=G5, region=REGION))
    assert result.artifact_key is not None
    before = recommended(types=types)
    after = recommended(types=types, artifacts={result.artifact_key})
    assert of(before, compiled, G5).jobs == ("fp8-tensorrt-llm",)
    assert of(after, compiled, G5).jobs == ()
    assert "no job: the artifact exists" in of(after, compiled, G5).reasons
    # Both read as many bytes for a token.
    fp8 = ("quantization=fp8",)
    assert places(after).index((compiled, G5)) < places(after).index((fp8, G5))
    assert places(before).index((fp8, G5)) < places(before).index((compiled, G5))


def test_training_heads_ranks_last_on_the_same_instance_type() -> None:
    order = [techniques for techniques, name in places(recommended(types=(P5,))) if name == P5]
    assert order[-1] == ("speculative_decoding=eagle",)


def test_recipes_that_do_not_fit_or_run_are_excluded_with_the_rule() -> None:
    found = recommended(types=("ml.g5.2xlarge", "ml.inf2.48xlarge"))
    by_rule = {(each.techniques, each.rule): each for each in found.excluded}
    assert by_rule[AWQ, "OPT050"].instance_types == ("ml.g5.2xlarge",)
    assert "the weights take 39 GB" in by_rule[AWQ, "OPT050"].reason
    assert by_rule[AWQ, "OPT012"].instance_types == ("ml.inf2.48xlarge",)
    assert [each for each in places(found) if each[1] == "ml.inf2.48xlarge"] == [
        (("compilation=neuron",), "ml.inf2.48xlarge")
    ]


def test_exclusions_with_different_reasons_show_the_general_rule_reason() -> None:
    found = recommended(types=("ml.g5.xlarge", "ml.g4dn.xlarge"))
    (each,) = [e for e in found.excluded if (e.techniques, e.rule) == (AWQ, "OPT050")]
    assert each.instance_types == ("ml.g5.xlarge", "ml.g4dn.xlarge")
    assert each.reason == "the weights alone take more memory than the accelerators have"


def test_candidates_above_the_maximum_price_or_unpriced_are_excluded() -> None:
    found = recommended(prices={G5: 20.0, P5: 90.0}, preferences=Preferences(max_price=50))
    assert {name for _, name in places(found)} == {G5}
    dear = {(each.reason, each.instance_types) for each in found.excluded if each.rule == PRICE}
    assert dear == {
        ("an hour costs more than 50 dollars", (P5,)),
        ("its price is not known, and an hour may cost 50 dollars", (P4D,)),
    }


def test_a_hub_configuration_is_a_candidate_only_on_offered_instance_types() -> None:
    plain = Benchmark("published by JumpStart", P5, 1, 80, 48, configuration="lmi")
    found = recommended(plain, configurations={"lmi-optimized": {P4D}})
    assert [name for techniques, name in places(found) if techniques == PRE_OPTIMIZED] == [P4D]
    (each,) = [e for e in found.excluded if e.rule == HUB]
    assert each.instance_types == (G5, P5)
    assert found.elsewhere == (plain,)


def test_a_tight_memory_fit_ranks_after_a_comfortable_one() -> None:
    types = ("ml.g5.12xlarge", G5)
    found = recommended(types=types, prices={"ml.g5.12xlarge": 1.0, G5: 20.0})
    tight = [each for each in found.candidates if each.fit is Fit.tight]
    roomy = [each for each in found.candidates if each.fit is Fit.fits]
    assert tight
    assert found.candidates == (*roomy, *tight)
    assert any("wait for each other" in reason for reason in tight[0].reasons)


def test_all_accelerated_instance_types_are_considered_by_default() -> None:
    found = recommend(LLAMA, region=REGION)
    tried = {name for _, name in places(found)} | {name for each in found.excluded for name in each.instance_types}
    assert tried == {name for name, row in instances.by_name().items() if row.hosts_endpoints}


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
        recommend(model, region=REGION, instance_types=types)
    assert [violation.rule for violation in caught.value.violations] == [rule]


@pytest.mark.parametrize(
    ("preferences", "message"),
    [
        (Preferences(discount=1), "discount is 1"),
        (Preferences(max_price=0), "max_price is 0"),
    ],
)
def test_invalid_preferences_are_refused(preferences: Preferences, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recommend(LLAMA, region=REGION, preferences=preferences)


# Each ranks all recipes of three instance types.
@settings(max_examples=25)
@given(
    st.lists(
        st.builds(
            published,
            st.sampled_from([G5, P4D, P5]),
            st.sampled_from([1, 8, 64]),
            st.none() | st.floats(1, 10_000),
            st.none() | st.floats(1, 10_000),
        ),
        max_size=9,
    ),
    st.sampled_from(list(Goal)),
)
def test_candidates_with_known_figures_rank_first_and_in_order(benchmarks: list[Benchmark], goal: Goal) -> None:
    figures: list[float | None] = []
    for each in recommended(*benchmarks, preferences=Preferences(goal=goal)).candidates:
        shown = each.benchmark
        match goal:
            case Goal.cost:
                figures.append(each.blended_price)
            case Goal.latency:
                figures.append(shown.time_to_first_token_ms if shown else None)
            case Goal.throughput:
                figures.append(-shown.tokens_per_second if shown and shown.tokens_per_second else None)
    known = [figure for figure in figures if figure is not None]
    assert figures[: len(known)] == sorted(known)
