from __future__ import annotations

import re
from typing import get_args

import pytest

from constructs_optim.recipe import metrics, pricing
from constructs_optim.recipe.metrics import MetricDefinition, Unit, engines
from constructs_optim.recipe.metrics.names import EngineMetricName, EvaluationMetricName, LiveMetricName

ALL = list(metrics.by_name().values())
# The rows of the metrics reference for inference performance evaluations, with the library's metric names.
REFERENCE = {
    "Concurrency": "concurrency",
    "Time to first token (ms)": "time_to_first_token",
    "Inter-token latency (ms)": "inter_token_latency",
    "Client latency (ms)": "client_latency",
    "Input tokens/sec (count)": "input_tokens_per_second",
    "Output tokens/sec (count)": "output_tokens_per_second",
    "Client invocations (count)": "client_invocations",
    "Client invocation errors (count)": "client_invocation_errors",
    "Tokenizer failed (count)": "tokenizer_failed",
    "Empty inference response (count)": "empty_inference_response",
    "Input tokens/sec/req (count)": "input_tokens_per_second_per_request",
    "Output tokens/sec/req (count)": "output_tokens_per_second_per_request",
    "Input tokens (count)": "input_tokens",
    "Output tokens (count)": "output_tokens",
    "Price per million input tokens": "price_per_million_input_tokens",
    "Price per million output tokens": "price_per_million_output_tokens",
}


def test_type_checkers_know_the_names_of_all_metrics() -> None:
    evaluated = tuple(metric.name for metric in metrics.EVALUATION)
    assert get_args(EvaluationMetricName) == evaluated
    assert get_args(LiveMetricName) == tuple(metric.name for metric in ALL if metric.name not in evaluated)
    assert get_args(EngineMetricName) == tuple(engines.by_name())


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_metric_names_are_valid_python_and_metric_math_identifiers(metric: MetricDefinition) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert metric.definition.endswith(".")
    assert metric.source.startswith("https://")


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_metric_has_a_series_or_a_formula(metric: MetricDefinition) -> None:
    assert metric.variant or metric.component or metric.formula


@pytest.mark.parametrize("metric", [metric for metric in ALL if metric.formula], ids=lambda metric: metric.name)
def test_formulas_use_only_known_metrics_and_parameters(metric: MetricDefinition) -> None:
    parameters = {"publishing_seconds", "discount", "instance_price_per_hour"}
    names = set(re.findall(r"\b[a-z][a-z0-9_]*\b", metric.formula or ""))
    assert names <= {*metrics.by_name(), *parameters}
    assert metric.name not in names


@pytest.mark.parametrize("name", REFERENCE.values())
def test_every_metric_of_the_sagemaker_reference_is_an_evaluation_metric(name: str) -> None:
    assert metrics.find(name).of_evaluation


@pytest.mark.parametrize("name", ["time_to_first_token", "inter_token_latency", "client_latency"])
def test_every_evaluation_latency_has_percentile_metrics(name: str) -> None:
    for percentile in ("p50", "p90", "p99"):
        metric = metrics.find(f"{name}_{percentile}")
        assert metric.published_unit is Unit.MILLISECONDS
        assert metric.variant is not None
        assert metric.variant.metric_name.endswith(percentile.upper())


def test_evaluation_metrics_have_unique_cloudwatch_names() -> None:
    names = [metric.variant.metric_name for metric in ALL if metric.of_evaluation and metric.variant]
    assert len(names) == len(set(names))


def test_evaluation_metrics_have_concurrency_and_artifact_dimensions() -> None:
    for metric in ALL:
        if metric.of_evaluation:
            assert metric.variant is not None
            assert metric.component is not None
            assert metric.variant.dimensions == ("EndpointName", "VariantName", "Concurrency", "ArtifactKey")
            assert metric.component.dimensions == ("InferenceComponentName", "Concurrency", "ArtifactKey")


def test_latencies_are_published_in_microseconds_and_shown_in_milliseconds() -> None:
    for metric in ALL:
        if metric.part == "traffic and latency" and "latency" in metric.name:
            assert (metric.published_unit, metric.shown_unit) == (Unit.MICROSECONDS, Unit.MILLISECONDS)
            assert metric.divisor == 1000


def test_an_unknown_metric_name_is_refused_with_close_matches() -> None:
    with pytest.raises(ValueError, match="did you mean model_latency"):
        metrics.find("model_latancy")


def test_utilization_percentages_are_summed_over_gpus_and_vcpus() -> None:
    gpu, cpu = metrics.find("gpu_utilization").variant, metrics.find("cpu_utilization").variant
    assert gpu is not None
    assert cpu is not None
    assert metrics.summed_over(gpu, "ml.g5.12xlarge") == 4
    assert metrics.summed_over(cpu, "ml.g5.12xlarge") == 48
    assert metrics.summed_over(gpu, "${Token[TOKEN.1]}") == 1
    assert metrics.summed_over(gpu, None) == 1


@pytest.mark.parametrize(
    ("types", "like"),
    [
        (["ml.g5.12xlarge"], "ml.g5.12xlarge"),
        (["ml.g5.12xlarge", "ml.g6.12xlarge"], "ml.g5.12xlarge"),
        (["ml.g5.12xlarge", "ml.g5.48xlarge"], None),
        (["${Token[TOKEN.1]}"], None),
        ([], None),
    ],
)
def test_instance_types_are_comparable_with_equal_gpu_and_vcpu_counts(types: list[str], like: str | None) -> None:
    assert metrics.like_all(types) == like


def test_the_price_of_tokens_matches_the_manual_calculation() -> None:
    """400 tokens a second are 1.44 million an hour."""
    assert pricing.price_per_million_tokens(7.09, 400, 0.5) == pytest.approx(7.09 / 2 / 1.44)


@pytest.mark.parametrize(
    ("price", "discount", "message"), [(0, 0, "instance_price_per_hour is 0"), (1, 30, "a share of at least 0")]
)
def test_an_invalid_price_or_discount_is_refused(price: float, discount: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pricing.check_price(price, discount)
