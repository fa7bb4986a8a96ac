"""Thresholds and limits that no value can breach, or that every value breaches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.errors import Violation
from constructs_optim.recipe.evaluation.requirements import requirements_of
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings, Watched, thresholds
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.metrics.thresholds import LEAST_MEANT_MS, Threshold
from constructs_optim.recipe.rules import check, warnings

TOKEN = -1.8881545897087626e289


def alarms(*, is_asynchronous: bool = False, component: bool = False, **values: float) -> list[Threshold]:
    declared = Alarms(**{name: AlarmSettings(threshold=value) for name, value in values.items()})
    return list(thresholds(declared, Watched(component, 8, is_asynchronous=is_asynchronous)))


def required(**limits: Any) -> list[Threshold]:
    return [each.threshold for each in requirements_of(limits).limits if each.threshold is not None]  # type: ignore[arg-type]


def of_alarms(**values: Any) -> list[Violation]:
    return [violation for each in alarms(**values) for violation in check(each)]


def of_limits(**limits: Any) -> list[Violation]:
    return [violation for each in required(**limits) for violation in check(each)]


UNREACHABLE: list[tuple[dict[str, Any], str, str]] = [
    ({"latency": 20_000}, "alarms.latency.threshold", "such as 20 s for 20000 ms"),
    ({"latency": 500}, "alarms.latency.threshold", "such as 0.5 s for 500 ms"),
    ({"latency": 1_000}, "alarms.latency.threshold", "such as 1 s for 1000 ms"),
    ({"latency": 480}, "alarms.latency.threshold", "less than 480 s"),
    ({"latency": 5_000, "is_asynchronous": True}, "alarms.latency.threshold", "less than 3,600 s"),
    ({"time_to_first_token": 2_000}, "alarms.time_to_first_token.threshold", "such as 2 s for 2000 ms"),
    ({"error_rate": 100}, "alarms.error_rate.threshold", "less than 100%"),
    ({"error_rate": 500}, "alarms.error_rate.threshold", "less than 100%"),
    ({"kv_cache": 950}, "alarms.kv_cache.threshold", "less than 100%"),
    ({"disk": 100}, "alarms.disk.threshold", "less than 100%"),
    ({"acceptance_length": 1}, "alarms.acceptance_length.threshold", "more than 1 token"),
    ({"acceptance_length": 0.8}, "alarms.acceptance_length.threshold", "more than 1 token"),
    ({"zero_capacity": 0}, "alarms.zero_capacity.threshold", "more than 0 reports"),
    ({"zero_capacity": 2, "is_asynchronous": True}, "alarms.zero_capacity.threshold", "at most 1"),
]


@pytest.mark.parametrize(("values", "location", "fix"), UNREACHABLE)
def test_an_alarm_that_can_never_go_off_is_refused_with_its_unit(
    values: dict[str, Any], location: str, fix: str
) -> None:
    (violation,) = of_alarms(**values)
    assert (violation.rule, violation.location) == ("OPT244", location)
    assert fix in violation.suggestion


@pytest.mark.parametrize(
    "values",
    [
        {"latency": 30, "time_to_first_token": 2.5, "error_rate": 5, "kv_cache": 99, "disk": 90},
        {"latency": 479, "acceptance_length": 2.2, "queue": 5_000, "saturation": 300},
        {"latency": 3_000, "is_asynchronous": True},
        {"zero_capacity": 1},
        {"zero_capacity": 3, "component": True},
        {"error_rate": 0},
    ],
)
def test_a_threshold_within_the_range_is_accepted(values: dict[str, Any]) -> None:
    assert of_alarms(**values) == []


def test_the_defaults_of_all_alarms_can_be_reached() -> None:
    for component in (False, True):
        for is_asynchronous in (False, True):
            declared = Alarms(**dict.fromkeys(Alarms.model_fields, True))
            assert list(thresholds(declared, Watched(component, 8, is_asynchronous=is_asynchronous))) == []


UNREACHABLE_LIMITS: list[tuple[dict[str, float], str, str]] = [
    ({"p99_ttft_ms": 0.5}, "require.p99_ttft_ms", "such as 500 ms for 0.5 s"),
    ({"p99_client_latency_ms": 0.2}, "require.p99_client_latency_ms", "such as 200 ms for 0.2 s"),
    ({"p99_client_latency_ms": 600_000}, "require.p99_client_latency_ms", "1 or more, and less than 480,000 ms"),
    ({"mean_itl_ms": 480_000}, "require.mean_itl_ms", "less than 480,000 ms"),
    ({"min_acceptance_length": 1}, "require.min_acceptance_length", "more than 1 token"),
]


@pytest.mark.parametrize(("limits", "location", "fix"), UNREACHABLE_LIMITS)
def test_a_limit_that_nothing_or_everything_breaches_is_refused_with_its_unit(
    limits: dict[str, float], location: str, fix: str
) -> None:
    (violation,) = of_limits(**limits)
    assert (violation.rule, violation.location) == ("OPT244", location)
    assert fix in violation.suggestion


def test_the_range_of_a_limit_depends_on_its_metric_and_not_on_a_title() -> None:
    (limit,) = (each for each in requirements_of({"mean_itl_ms": 0.9}).limits if each.name == "mean_itl_ms")
    assert replace(limit, title="Time between tokens").threshold == limit.threshold


def test_limits_within_the_range_are_accepted() -> None:
    assert of_limits(p99_ttft_ms=500, mean_itl_ms=0.9, p90_client_latency_ms=60_000, min_acceptance_length=2) == []


def test_only_a_limit_that_must_be_met_may_not_be_below_all_values() -> None:
    assert check(Threshold("Latency.threshold", 0.5, "ms", least=1)) == []
    (violation,) = check(Threshold("require.mean_itl_ms", 0.5, "ms", least=1, must_pass=True))
    assert violation.rule == "OPT244"


def test_a_threshold_that_is_known_only_at_deployment_is_accepted() -> None:
    assert check(Threshold("alarm.threshold", TOKEN, "%", most=100)) == []


def test_the_error_states_the_range_of_the_metric_and_a_share_in_percent() -> None:
    (violation,) = check(Threshold("Full.threshold", 100, "%", most=100))
    assert violation.reason == "the metric is always 0 to 100%, so this threshold has no effect"
    (few,) = check(Threshold("Few.threshold", 0, "requests", "LessThanThreshold"))
    assert few.reason == "the metric is always 0 requests or more, so this threshold has no effect"
    (low,) = check(Threshold("Low.threshold", 0, "%", "LessThanThreshold", most=100))
    assert low.suggestion == "more than 0%"


def test_engine_metrics_in_percent_and_milliseconds_have_a_largest_value() -> None:
    without = {metric.name for metric in engines.by_name().values() if metric.unit in ("Percent", "Milliseconds")}
    without -= {metric.name for metric in engines.by_name().values() if metric.most is not None}
    # It compares two values of the same container, of which the later one may be the larger.
    assert without == {"acceptance_length_kept"}


SHARES: list[tuple[dict[str, Any], list[str]]] = [
    ({"kv_cache": 0.95}, ["alarms.kv_cache.threshold = 0.95: this is a percentage, 0.95%"]),
    ({"disk": 0.9}, ["alarms.disk.threshold = 0.9: this is a percentage, 0.9%"]),
    ({"kv_cache": 1, "disk": 0}, []),
    ({"error_rate": 0.05}, ["alarms.error_rate.threshold = 0.05: this is a percentage, 0.05%"]),
    # An ordinary limit.
    ({"error_rate": 0.5}, []),
    ({"latency": 0.5, "acceptance_length": 2.2}, []),
]


@pytest.mark.parametrize(("values", "advised"), SHARES)
def test_a_percentage_that_is_probably_meant_as_a_share_is_advised_against(
    values: dict[str, Any], advised: list[str]
) -> None:
    found = [advice for each in alarms(**values) for advice in warnings(each)]
    assert [each.message.partition(", which")[0] for each in found] == advised
    assert [each.id for each in found] == ["constructs-optim:OPT257"] * len(advised)


def test_an_upper_limit_below_one_percent_is_answered_with_the_percentage_of_the_share() -> None:
    (advice,) = warnings(Threshold("Full.threshold", 0.95, "%", most=100, least_meant=1))
    assert advice.message.endswith("Did you mean 95 for 95%?")
    # An alarm on an endpoint that is not used.
    assert warnings(Threshold("Idle.threshold", 0.5, "%", "LessThanThreshold", most=100, least_meant=1)) == ()


IN_SECONDS: list[tuple[dict[str, float], str | None]] = [
    (
        {"p99_ttft_ms": 2},
        "require.p99_ttft_ms = 2: this is 2 ms, and no published measurement is below 5 ms. Did you mean 2000 for 2 s?",
    ),
    (
        {"p99_itl_ms": 0.04},
        "require.p99_itl_ms = 0.04: this is 0.04 ms, and no published measurement is below 1 ms. "
        "Did you mean 40 for 0.04 s?",
    ),
    (
        {"p99_client_latency_ms": 3},
        "require.p99_client_latency_ms = 3: this is 3 ms, and no published measurement is "
        "below 5 ms. Did you mean 3000 for 3 s?",
    ),
    ({"p99_ttft_ms": 20, "p99_itl_ms": 2, "min_acceptance_length": 2}, None),
]


@pytest.mark.parametrize(("limits", "advised"), IN_SECONDS)
def test_a_limit_in_milliseconds_that_is_probably_meant_in_seconds_is_advised_against(
    limits: Any, advised: str | None
) -> None:
    found = [advice for each in required(**limits) for advice in warnings(each)]
    assert [each.message for each in found] == ([advised] if advised is not None else [])
    assert {each.id for each in found} <= {"constructs-optim:OPT287"}


def test_no_published_measurement_is_below_the_least_meant_latencies() -> None:
    measurements = (Path(__file__).parents[2] / "bench" / "forecast" / "measurements.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in measurements.splitlines()]
    for name in ("time_to_first_token", "inter_token_latency"):
        assert min(row[f"{name}_ms"] for row in rows if f"{name}_ms" in row) > LEAST_MEANT_MS[name]
