"""The workloads that benchmarks send, their requirements, and the rules for both."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import constructs_optim.runtime as runtime
from constructs_optim.recipe import RecipeError, metrics
from constructs_optim.recipe.evaluation import Benchmark, Workload
from constructs_optim.recipe.evaluation.requirements import QualityRequirement, requirements_of
from constructs_optim.recipe.rules import all_rules, check, warnings
from tests.support.documents import CHECKOUT

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-token"
PROMPTS = "s3://prompts/chat.jsonl"


def benchmark(**options: Any) -> Benchmark:
    return Benchmark(**{"workload": Workload(), **options})


def workload(**options: Any) -> Benchmark:
    return benchmark(workload=Workload(**options))


def required(**options: Any) -> Benchmark:
    arguments = {name: options.pop(name) for name in ("max_regression", "at_concurrency", "quality") if name in options}
    return benchmark(requirements=requirements_of(options, **arguments))  # type: ignore[arg-type]


def quality(**options: Any) -> Benchmark:
    return required(quality=QualityRequirement(**{"prompts": PROMPTS, **options}))


GOOD: dict[str, list[Benchmark]] = {
    "OPT142": [workload(requests=32), workload(duration_seconds=60), workload(concurrency=[64], requests=64)],
    "OPT143": [workload(parameters={"warmup_request_count": 3, "goodput": "time_to_first_token:500"})],
    "OPT144": [
        workload(prompts="s3://1.2.3.4.of.mine/a..b.jsonl"),
        workload(prompts=PROMPTS, token_secret_arn=SECRET),
        workload(prompts="${Token[Prompts.7]}"),
        quality(),
    ],
    "OPT145": [benchmark()],
    "OPT146": [
        benchmark(schedule="rate(1 day)", after_deployment=False),
        benchmark(schedule="cron(0 6 ? * MON-FRI *)"),
        benchmark(schedule="${Token[When.3]}"),
    ],
    "OPT147": [required(), required(p99_ttft_ms=500, max_regression=0.05, at_concurrency=8), quality(min_identical=0)],
    "OPT148": [benchmark(instance_price_per_hour=7.09, discount=0.3), benchmark(instance_price_per_hour=-1.8e289)],
    "OPT149": [benchmark(region="us-west-2"), benchmark(region="a-new-region-1"), benchmark()],
    "OPT300": [
        replace(workload(inputs_per_request=9, duration_seconds=60), task="embed"),
        replace(required(p90_client_latency_ms=9, min_inputs_per_second=9), task="rerank"),
        replace(quality(min_agreement=0.9), task="classify"),
        required(min_input_tokens_per_second=9),
    ],
}
BAD: list[tuple[str, Benchmark, str, str]] = [
    ("OPT142", workload(requests=100, duration_seconds=60), "workload.duration_seconds", "either requests or"),
    ("OPT142", workload(concurrency=[1, 64], requests=10), "workload.requests", "64 or more"),
    ("OPT143", workload(parameters={"concurency": 3}), "workload.parameters", "one of"),
    ("OPT143", workload(parameters={"concurrency": [1]}), "workload.parameters", "Workload(concurrency=[...])"),
    ("OPT144", workload(prompts="prompts.jsonl"), "workload.prompts", "s3://my-bucket/prompts.jsonl"),
    ("OPT144", workload(prompts="s3://Bad_Bucket/prompts.jsonl"), "workload.prompts", "is not a bucket name"),
    ("OPT144", workload(prompts="s3://a..b/prompts.jsonl"), "workload.prompts", "is not a bucket name"),
    ("OPT144", workload(prompts="s3://192.168.1.1/prompts.jsonl"), "workload.prompts", "is not a bucket name"),
    ("OPT144", workload(prompts="s3://bucket/folder/"), "workload.prompts", "a file in S3"),
    ("OPT144", quality(prompts="https://somewhere/x.jsonl"), "quality.prompts", "a file in S3"),
    ("OPT144", workload(token_secret_arn="hf_abcdef"), "workload.token_secret_arn", "never the token"),
    ("OPT145", benchmark(asynchronous=True), "async_inference", "synchronous"),
    ("OPT146", benchmark(after_deployment=False), "after_deployment", "or a schedule"),
    ("OPT146", benchmark(schedule="every day"), "schedule", "rate(2 hours)"),
    ("OPT146", benchmark(schedule=7), "schedule", "this is not a schedule expression"),
    ("OPT146", benchmark(schedule="cron(0 6 * * MON-FRI)"), "schedule", "cron has 6 fields; 5 were given"),
    ("OPT146", benchmark(schedule="cron(0 25 * * ? *)"), "schedule", "hours: 0 to 23"),
    ("OPT146", benchmark(schedule="at(2027-01-31T07:00:00)"), "schedule", "one that repeats"),
    (
        "OPT146",
        benchmark(schedule="rate(1 day)", after_deployment=False, requirements=requirements_of({})),
        "require",
        "after_deployment=True",
    ),
    ("OPT147", required(p99_ttft_ms=0), "require.p99_ttft_ms", "above zero"),
    ("OPT147", required(max_error_rate=1), "require.max_error_rate", "0.01 for 1%"),
    ("OPT147", required(max_regression=5), "require.max_regression", "0.05 for 5%"),
    ("OPT147", required(at_concurrency=9), "require.at_concurrency", "1, 8, 32"),
    ("OPT148", benchmark(instance_price_per_hour=0), "instance_price_per_hour", "above zero"),
    ("OPT148", benchmark(discount=1), "discount", "less than 1"),
    ("OPT149", benchmark(region="eu-west-2"), "region", "eu-west-1"),
    ("OPT149", benchmark(region="us-gov-west-1"), "region", "constructs-optim evaluate"),
    ("OPT300", benchmark(task="pool"), "evaluate", "without evaluate()"),
    ("OPT300", replace(workload(output_tokens=9), task="embed"), "workload.output_tokens", "leave it out"),
    ("OPT300", workload(inputs_per_request=9), "workload.inputs_per_request", "leave it out"),
    ("OPT300", replace(workload(concurrency=[512]), task="embed"), "workload.concurrency", "at most 256"),
    ("OPT300", replace(workload(duration_seconds=900), task="embed"), "workload.duration_seconds", "at most 100"),
    (
        "OPT300",
        replace(workload(input_tokens=4000), task="embed", longest_input=512),
        "workload.input_tokens",
        "at most 512",
    ),
    ("OPT300", replace(required(p90_ttft_ms=9), task="rerank"), "require.p90_ttft_ms", "min_inputs_per_second"),
    ("OPT300", required(min_inputs_per_second=9), "require.min_inputs_per_second", "min_input_tokens_per_second"),
    ("OPT300", replace(required(max_regression=0.1), task="embed"), "regression_metrics", "leave it out"),
    ("OPT300", replace(quality(max_tokens=9), task="classify"), "quality.max_tokens", "leave it out"),
    ("OPT300", quality(min_agreement=0.9), "quality.min_agreement", "leave it out"),
]


@pytest.mark.parametrize(
    ("build", "location", "message"),
    [
        (lambda: Workload(concurrency=[]), "Workload.concurrency", "at least 1 item"),
        (lambda: Workload(concurrency=[0]), "Workload.concurrency.0", "more than 0"),
        (lambda: Workload(concurrency=[True]), "Workload.concurrency.0", "a whole number"),
        (lambda: Workload(input_tokens=0), "Workload.input_tokens", "more than 0"),
        (lambda: Workload(seed=1.5), "Workload.seed", "a whole number"),  # type: ignore[arg-type]
        (lambda: QualityRequirement(prompts=PROMPTS, min_identical=2), "QualityRequirement.min_identical", "1 or less"),
        (lambda: QualityRequirement(prompts=PROMPTS, max_tokens=0), "QualityRequirement.max_tokens", "more than 0"),
    ],
)
def test_an_invalid_setting_is_refused_at_construction(build: Callable[[], Any], location: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build()
    (violation,) = caught.value.violations
    assert (violation.rule, violation.location) == ("OPT090", location)
    assert message in violation.suggestion


def test_every_benchmark_rule_has_valid_and_invalid_cases() -> None:
    rules = {rule.id for rule in all_rules(Benchmark) if not rule.advisory}
    assert rules == set(GOOD) == {rule for rule, *_ in BAD}


@pytest.mark.parametrize(("rule", "case"), [(rule, case) for rule, cases in GOOD.items() for case in cases])
def test_valid_cases_do_not_violate_their_rule(rule: str, case: Benchmark) -> None:
    assert rule not in {violation.rule for violation in check(case)}


@pytest.mark.parametrize(("rule", "case", "location", "message"), BAD)
def test_invalid_cases_are_refused_with_their_location_and_a_suggestion(
    rule: str, case: Benchmark, location: str, message: str
) -> None:
    found = [violation for violation in check(case) if violation.rule == rule]
    assert location in {violation.location for violation in found}
    assert any(message in f"{violation.reason} {violation.suggestion}" for violation in found)


def test_a_token_passed_instead_of_its_secret_arn_is_not_printed() -> None:
    assert "hf_abcdef" not in str(check(workload(token_secret_arn="hf_abcdef")))


def test_a_workload_spec_has_the_documented_service_format() -> None:
    spec = Workload(concurrency=[8, 1, 8], output_tokens=100, tokenizer="org/model", token_secret_arn=SECRET).spec
    assert spec == {
        "benchmark": {"type": "aiperf"},
        "parameters": {
            "prompt_input_tokens_mean": 622,
            "output_tokens_mean": 100,
            "concurrency": [1, 8],
            "request_count": 100,
            "random_seed": 42,
            "streaming": True,
            "tokenizer": "org/model",
        },
        "secrets": {"hf_token": SECRET},
        "tooling": {"api_standard": "openai"},
    }


@pytest.mark.parametrize(
    ("setting", "parameter"),
    [
        ({"input_tokens": 700}, {"prompt_input_tokens_mean": 700}),
        ({"input_tokens_stddev": 50}, {"prompt_input_tokens_stddev": 50}),
        ({"output_tokens_stddev": 20}, {"output_tokens_stddev": 20}),
        ({"requests": 64}, {"request_count": 64}),
        ({"duration_seconds": 60}, {"benchmark_duration": 60, "request_count": None}),
        ({"warmup_requests": 10}, {"warmup_request_count": 10}),
        ({"warmup_requests": 0}, {"warmup_request_count": 0}),
        ({"request_timeout_seconds": 30}, {"request_timeout_seconds": 30}),
        ({"seed": 0}, {"random_seed": 0}),
        ({"parameters": {"streaming": False, "goodput": "ttft:500"}}, {"streaming": False, "goodput": "ttft:500"}),
    ],
)
def test_each_setting_of_a_workload_is_a_parameter(setting: dict[str, Any], parameter: dict[str, Any]) -> None:
    expected = {**Workload().spec["parameters"], **parameter}
    assert Workload(**setting).spec["parameters"] == {name: each for name, each in expected.items() if each is not None}


def test_a_single_concurrency_level_is_sent_as_a_number() -> None:
    assert Workload(concurrency=[8]).spec["parameters"]["concurrency"] == 8
    assert Workload(concurrency=[8, 1]).spec["parameters"]["concurrency"] == [1, 8]


@pytest.mark.parametrize(
    "named", [{"tokenizer": "org/model"}, {"parameters": {"tokenizer": "org/model"}}, {"prompts": PROMPTS}]
)
def test_synthetic_prompts_without_a_tokenizer_give_a_warning(named: dict[str, Any]) -> None:
    (advice,) = warnings(workload())
    assert advice.id == "constructs-optim:OPT156"
    assert "tokenizer=" in advice.message
    assert warnings(workload(**named)) == ()


def test_at_high_concurrency_each_user_sends_eight_requests_by_default() -> None:
    assert Workload(concurrency=[64]).spec["parameters"]["request_count"] == 512


def test_custom_prompts_are_read_from_their_input_channel() -> None:
    parameters = Workload(prompts=PROMPTS).spec["parameters"]
    assert parameters["input_file"] == "/opt/ml/input/data/prompts/chat.jsonl"
    assert "prompt_input_tokens_mean" not in parameters


def test_requirements_limit_the_error_rate_to_one_percent_by_default() -> None:
    (limit,) = requirements_of({}).limits
    assert (limit.formula, limit.at_most) == ("client_invocation_errors / client_invocations", 0.01)


def test_requirement_limits_refer_to_evaluation_metrics() -> None:
    names = requirements_of.__annotations__ and requirements_of({}).limits
    assert names
    for name in ("mean_ttft_ms", "p90_itl_ms", "p50_client_latency_ms", "min_total_throughput"):
        (limit, *_) = requirements_of({name: 5.0}).limits  # type: ignore[typeddict-item]
        assert metrics.find(limit.formula).of_evaluation


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("p90_itl_ms", "ms"),
        ("max_blended_price_per_million_tokens", "US dollars"),
        ("min_total_throughput", ""),
        ("max_error_rate", ""),
    ],
)
def test_a_requirement_has_the_unit_of_its_limit(name: str, unit: str) -> None:
    units = {limit.name: limit.unit for limit in requirements_of({name: 0.5}).limits}  # type: ignore[typeddict-item, misc]
    assert units[name] == unit


def test_requirements_have_all_that_is_asked_for() -> None:
    quality = QualityRequirement(prompts=PROMPTS)
    required = requirements_of(
        {"max_error_rate": 0.05},
        max_regression=0.1,
        regression_metrics=["total_throughput", "client_latency_p99"],
        at_concurrency=8,
        quality=quality,
        forecast=True,
    )
    assert [limit.at_most for limit in required.limits] == [0.05]
    assert (required.max_regression, required.at_concurrency) == (0.1, 8)
    assert required.compared == (("total_throughput", True), ("client_latency_p99", False))
    assert required.quality is quality
    assert required.forecast


def test_an_unknown_requirement_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="require has no p98_ttft_ms; it has mean_ttft_ms"):
        requirements_of({"p98_ttft_ms": 5})  # type: ignore[typeddict-unknown-key]


def test_a_regression_metric_that_evaluations_do_not_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="an evaluation does not measure model_latency"):
        requirements_of({}, max_regression=0.1, regression_metrics=["model_latency"])


@pytest.mark.parametrize("name", ["input_tokens", "concurrency", "drafts", "instance_price_per_hour"])
def test_a_regression_metric_that_describes_the_load_is_refused_with_those_to_choose_from(name: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} describes the load, so no value of it is better or worse") as refused:
        requirements_of({}, max_regression=0.1, regression_metrics=[name])
    for each in str(refused.value).partition("choose from ")[2].split(", "):
        assert requirements_of({}, max_regression=0.1, regression_metrics=cast("Any", [each])).compared


def test_a_metric_of_evaluations_whose_better_values_are_not_stated_is_refused() -> None:
    with pytest.raises(ValueError, match="acceptance_length: set better"):
        replace(metrics.find("acceptance_length"), better=None)


def test_higher_throughput_and_lower_latency_count_as_better() -> None:
    compared = dict(requirements_of({}, max_regression=0.1).compared)
    assert compared["output_tokens_per_second"]
    assert not compared["time_to_first_token_p50"]


def test_the_definitions_of_handlers_are_those_of_the_recipe() -> None:
    written = runpy.run_path(str(CHECKOUT / "tooling/reference_pages.py"))["definitions_of_handlers"]()
    kept = {name: (Path(runtime.__path__[0]) / name).read_text() for name in written}
    assert kept == written, "python tooling/reference_pages.py"


def test_aiperf_or_a_formula_provides_all_but_these_metrics() -> None:
    derived = {
        *("concurrency", "tokenizer_failed", "empty_inference_response", "instance_price_per_hour"),
        # Of the engine's own counters.
        *("acceptance_length", "drafts"),
        # Benchmark jobs send no requests with several inputs.
        "inputs_per_second",
        *(f"longest_inter_chunk_latency{which}" for which in ("", "_p50", "_p90", "_p99")),
    }
    unmeasured = {each.name for each in metrics.EVALUATION if each.aiperf is None and each.formula is None}
    assert unmeasured == derived
