"""What engines measure of themselves: their PromQL, and the conditions that scale by it."""

from __future__ import annotations

import promql_parser
import pytest

from constructs_optim.recipe.hosting.engine_scaling import LIMITS, EngineTarget, idle, surge
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.servers import by_name

SELECTOR = engines.selector(endpoint_name="chat", variant_name="AllTraffic", component_name=None)
QUERIES = [(metric, server) for metric in engines.by_name().values() for server in metric.queries]


def query(name: str, /, *, quantile: float | None = None) -> str:
    return engines.find(name).query("vllm", SELECTOR, window_seconds=240, quantile=quantile)


@pytest.mark.parametrize(("metric", "server"), QUERIES, ids=lambda each: getattr(each, "name", each))
def test_every_query_is_promql_of_one_value(metric: engines.EngineMetric, server: str) -> None:
    parsed = promql_parser.parse(metric.query(server, SELECTOR))
    assert server in by_name()
    assert metric.definition.endswith(".")
    assert "$" not in str(parsed)
    assert "<>" not in metric.query(server, SELECTOR)


def test_vllm_publishes_every_metric() -> None:
    assert all("vllm" in metric.queries for metric in engines.by_name().values())


def test_lmi_publishes_none() -> None:
    assert not any("lmi" in metric.queries for metric in engines.by_name().values())


def test_an_unknown_engine_metric_is_refused_with_close_matches() -> None:
    with pytest.raises(ValueError, match="did you mean kv_cache_usage"):
        engines.find("kv_cache_use")


_VLLM, _UNPUBLISHED = engines.Engine("vllm", "vLLM"), engines.Engine("vllm", unpublished="an asynchronous endpoint")
# rule, use, location of the violation, part of the reason or suggestion
BAD: list[tuple[str, engines.EngineMetricUse, str, str]] = [
    *(
        (rule, engines.EngineMetricUse("on_metric", EngineTarget(metric, 1).used_metrics, engine), "on_metric", metric)
        for metric in LIMITS
        for rule, engine in (
            ("OPT170", engines.Engine("lmi", "LMI")),
            ("OPT240", engines.Engine("vllm", region="me-central-1")),
        )
    ),
    ("OPT170", engines.EngineMetricUse("there", ("acceptance_length",), _VLLM), "there", "a recipe with speculative"),
    (
        "OPT170",
        engines.EngineMetricUse("there", ("kv_cache_usage",), _UNPUBLISHED),
        "there",
        "an asynchronous endpoint",
    ),
    ("OPT170", engines.EngineMetricUse("there", ("kv_cache_usage",), engines.Engine()), "there", "is unknown"),
    ("OPT170", engines.EngineMetricUse("there", ("kv_cache_usage",), engines.Engine("lmi")), "there", "lmi publishes"),
    *(
        ("OPT171", engines.EngineMetricUse("there", ("queue_time",), _VLLM, quantile), "there.quantile", "such as 0.9")
        for quantile in (0, 1, 90)
    ),
]


@pytest.mark.parametrize(("rule", "use", "location", "message"), BAD)
def test_a_use_of_engine_metrics_that_cannot_work_is_refused_once_and_named_by_its_first_metric(
    rule: str, use: engines.EngineMetricUse, location: str, message: str
) -> None:
    (found,) = check(use)
    assert (found.rule, found.location) == (rule, location)
    assert found.value in (use.metrics[0], use.quantile)
    assert message in f"{found.value} {found.reason} {found.suggestion}"


def test_engine_metrics_that_are_published_are_accepted() -> None:
    speculating = engines.Engine("vllm", speculates=True, region="eu-central-1")
    for quantile in (None, 0.01, 0.99):
        assert check(engines.EngineMetricUse("there", tuple(engines.by_name()), speculating, quantile)) == []


@pytest.mark.parametrize("metric", LIMITS)
def test_conditions_of_scaling_read_only_the_metrics_that_they_name(metric: str) -> None:
    target, read = EngineTarget(metric, LIMITS[metric][2]), set[str]()

    def recorded(name: str, /, *, quantile: float | None = None) -> str:
        read.add(name)
        return query(name, quantile=quantile)

    conditions = [
        target.missed(recorded),
        surge(recorded, capacity=8),
        idle(recorded, [target], room=5.6, to_zero=True),
    ]
    assert read == set(target.used_metrics)
    for condition in conditions:
        promql_parser.parse(condition)


@pytest.mark.parametrize(
    ("metric", "missed", "kept"),
    [
        (
            "engine_time_to_first_token",
            "engine_time_to_first_token[0.9] > 5000 and queue_time[0.9] > 500",
            "unless engine_time_to_first_token[0.9] > 2500",
        ),
        (
            "kv_cache_usage",
            "kv_cache_usage > 5",
            "and kv_cache_usage * publishing_copies / (publishing_copies - 1) < 4",
        ),
        ("waiting_requests", "waiting_requests / publishing_copies > 5", "and waiting_requests == 0"),
        (
            "engine_output_tokens_per_second",
            "engine_output_tokens_per_second / publishing_copies > 5",
            "and engine_output_tokens_per_second / (publishing_copies - 1) < 4",
        ),
    ],
)
def test_a_target_of_five_is_missed_and_kept_by_its_own_conditions(metric: str, missed: str, kept: str) -> None:
    def named(name: str, /, *, quantile: float | None = None) -> str:
        return name if quantile is None else f"{name}[{quantile}]"

    target = EngineTarget(metric, 5)
    assert (target.missed(named), target.kept_by_fewer(named)) == (missed, kept)


def test_a_copy_goes_only_where_all_targets_would_be_kept() -> None:
    targets = [EngineTarget("kv_cache_usage", 70), EngineTarget("waiting_requests", 2)]
    condition = idle(query, targets, room=5.6, to_zero=False)
    assert condition.count(" and ") == 2
    assert "< 56" in condition
    assert "== 0" in condition
    assert " or " not in condition
