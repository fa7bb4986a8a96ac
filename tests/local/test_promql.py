"""The local cloud's PromQL, and its alarms on it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe.catalog import availability
from constructs_optim.recipe.metrics import engines
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.cloudwatch.enrichment import Enrichment, regions
from constructs_optim_local.cloudwatch.promql import Histogram, PromqlError, Series, evaluate
from constructs_optim_local.cloudwatch.promql_alarms import Contributors
from constructs_optim_local.cloudwatch.telemetry import Telemetry

from ..support.waiting import until

NOBODY = frozenset[tuple[str, str]]()
LOCATION = {"account": "000000000000", "region": "us-west-2"}


def enriched() -> Telemetry:
    return Telemetry(Enrichment(Clock(), everywhere=True))


def series(name: str, *values: float, every: int = 60, **labels: str) -> Series:
    """Samples that end at 600 seconds."""
    start = 600 - every * (len(values) - 1)
    samples = tuple((start + every * index, value) for index, value in enumerate(values))
    return Series(name, frozenset(labels.items()), samples)


TWO = [series("load", 1, 2, 3, copy="a"), series("load", 4, 5, 6, copy="b"), series("tokens", 0, 600, 1200)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sum(load)", 9),
        ("avg(load)", 4.5),
        ("count(load)", 2),
        ("max(load) - min(load)", 3),
        ('load{copy="b"} * 10', 60),
        ('load{copy=~"a|c"}', 3),
        ("sum(load) / (count(load) - 1)", 9),
        # Two samples are within 100 seconds: an increase of 600 in 60, extrapolated to both ends.
        ("rate(tokens[100s])", 600 / 60 * (60 + 40) / 100),
        ("sum(last_over_time(load[2m]))", 9),
        ("sum(load) > 5", 9),
        ("sum(load) > 5 and sum(load) < 10", 9),
        ("sum(load) > 5 unless sum(tokens) < 10", 9),
        ("(sum(load) > 50) or (count(load) == 2)", 2),
        ("-sum(load)", -9),
        ("2 * 3", 6),
    ],
)
def test_a_query_has_its_value(query: str, expected: float) -> None:
    (value,) = evaluate(query, TWO, 600).values()
    assert value == pytest.approx(expected)


@pytest.mark.parametrize("query", ["sum(load) > 9", "absent_metric", "sum(load) unless count(load)", "rate(load[30s])"])
def test_a_query_may_have_no_result(query: str) -> None:
    assert evaluate(query, TWO, 600) == {}


def test_aggregation_keeps_the_labels_that_it_is_by() -> None:
    found = evaluate("count by (copy) (load)", TWO, 600)
    assert found == {frozenset({("copy", "a")}): 1, frozenset({("copy", "b")}): 1}
    assert evaluate("sum without (copy) (load)", TWO, 600) == {NOBODY: 9}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("sum(", "unclosed"),
        ("load offset 5m", "does not support"),
        ("topk(1, load)", "does not support"),
        ("predict_linear(load[5m], 60)", "does not support"),
        ("load > bool 1", "does not support"),
        ("load + on(zone) load", "many-to-many"),
        ("max_over_time(sum(load)[5m:1m])", "does not support"),
    ],
)
def test_what_is_left_out_is_refused(query: str, message: str) -> None:
    with pytest.raises(PromqlError, match=message):
        evaluate(query, TWO, 600)


def test_a_counter_that_begins_anew_keeps_increasing() -> None:
    reset = series("tokens", 100, 200, 50, 150)
    (value,) = evaluate("increase(tokens[4m])", [reset], 600).values()
    # 100, then 50 after the restart and 100 more, over three of the four minutes.
    assert value == pytest.approx(250 * 220 / 180, rel=0.1)


def test_an_old_sample_is_no_sample() -> None:
    assert evaluate("load", [series("load", 1)], 600) != {}
    assert evaluate("load", [series("load", 1)], 600 + 301) == {}


buckets = st.lists(st.floats(0.01, 100), min_size=1, max_size=8, unique=True).map(sorted)


@given(bounds=buckets, counts=st.lists(st.integers(0, 50), min_size=9, max_size=9), share=st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_that_has_its_rank(bounds: list[float], counts: list[int], share: float) -> None:
    cumulative = [sum(counts[: index + 1]) for index in range(len(bounds) + 1)]
    pairs = tuple(zip([*bounds, math.inf], map(float, cumulative), strict=True))
    value = Histogram(pairs, 1.0, float(cumulative[-1])).quantile(share)
    if not cumulative[-1]:
        assert math.isnan(value)
        return
    index = next(place for place, count in enumerate(cumulative) if count >= share * cumulative[-1])
    low = bounds[index - 1] if index else 0.0
    assert low - 1e-9 <= value <= (bounds[index] if index < len(bounds) else bounds[-1]) + 1e-9


def test_histograms_of_an_exposition_are_native_ones() -> None:
    telemetry = enriched()
    for minute, count in enumerate((0, 10, 20)):
        text = "\n".join(
            [
                "# TYPE vllm:time_to_first_token_seconds histogram",
                f'vllm:time_to_first_token_seconds_bucket{{le="1.0"}} {count * 0.5}',
                f'vllm:time_to_first_token_seconds_bucket{{le="2.0"}} {count}',
                f'vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {count}',
                f"vllm:time_to_first_token_seconds_sum {count * 1.2}",
                f"vllm:time_to_first_token_seconds_count {count}",
                "",
            ]
        )
        telemetry.collect(text, {"aws.sagemaker.endpoint.name": "chat"}, 60.0 * minute, **LOCATION)
    selector = '{"aws.sagemaker.endpoint.name"="chat"}'
    rate = f"sum(rate(vllm:time_to_first_token_seconds{selector}[2m]))"
    assert telemetry.query(f"histogram_quantile(0.75, {rate})", 120, **LOCATION)[NOBODY] == pytest.approx(1.5)
    assert telemetry.query(f"histogram_sum({rate}) / histogram_count({rate})", 120, **LOCATION)[NOBODY] == (
        pytest.approx(1.2)
    )
    with pytest.raises(PromqlError, match="histogram_quantile"):
        telemetry.query(rate, 120, **LOCATION)
    assert telemetry.query(f"vllm:time_to_first_token_seconds_bucket{selector}", 120, **LOCATION) == {}


def test_an_alarm_waits_for_its_pending_and_recovery_periods() -> None:
    contributors, breaching = Contributors(120, 60), {NOBODY: 1.0}
    states = [contributors.evaluated(breaching, at) for at in (0, 60, 120, 180)]
    assert states == ["OK", "OK", "ALARM", "ALARM"]
    assert [contributors.evaluated({}, at) for at in (200, 240, 300)] == ["ALARM", "OK", "OK"]
    # A break begins the pending period anew.
    contributors.evaluated(breaching, 400)
    contributors.evaluated({}, 460)
    assert contributors.evaluated(breaching, 520) == "OK"


def on_promql(query: str, **more: Any) -> dict[str, Any]:
    criteria = {"PromQLCriteria": {"Query": query, "PendingPeriod": 60, "RecoveryPeriod": 60}}
    return {"EvaluationCriteria": criteria, "EvaluationInterval": 60, **more}


def test_an_alarm_on_promql_follows_what_engines_expose(brisk: LocalCloud) -> None:
    cloudwatch = brisk.client("cloudwatch", account="210000000001")
    cloudwatch.start_otel_enrichment()
    query = 'sum(vllm:num_requests_waiting{"aws.sagemaker.endpoint.name"="waits"}) > 5'
    cloudwatch.put_metric_alarm(AlarmName="waits", **on_promql(query))

    def state() -> str:
        (alarm,) = cloudwatch.describe_alarms(AlarmNames=["waits"])["MetricAlarms"]
        assert alarm["EvaluationCriteria"]["PromQLCriteria"]["Query"] == query
        return alarm["StateValue"]

    assert state() == "OK"
    brisk.collect_engine_metrics("vllm:num_requests_waiting 7\n", endpoint="waits", account="210000000001")
    assert brisk.engine_metrics(query, account="210000000001") == [{"labels": {}, "value": 7.0}]
    until(state, lambda now: now == "ALARM")
    brisk.collect_engine_metrics("vllm:num_requests_waiting 0\n", endpoint="waits", account="210000000001")
    until(state, lambda now: now == "OK")


@pytest.mark.parametrize(
    ("alarm", "message"),
    [
        (on_promql("sum("), "the query is invalid"),
        (on_promql("a > 1", Threshold=1.0), "Threshold cannot be specified with EvaluationCriteria"),
        (on_promql("a > 1") | {"EvaluationInterval": 45}, "10, 20, 30, or a multiple of 60"),
    ],
)
def test_an_alarm_that_cloudwatch_refuses_is_refused(brisk: LocalCloud, alarm: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        brisk.client("cloudwatch").put_metric_alarm(AlarmName="refused", **alarm)


def drafts(seconds: float, accepted_a_draft: float) -> str:
    """What vLLM exposes after so many seconds in which ten drafts a second were verified."""
    return (
        f"vllm:spec_decode_num_drafts_total {10 * seconds}\n"
        f"vllm:spec_decode_num_accepted_tokens_total {10 * accepted_a_draft * seconds}\n"
    )


def kept(telemetry: Telemetry, at: float) -> float:
    selector = '{"aws.sagemaker.endpoint.name"="chat"}'
    query = engines.find("acceptance_length_kept").query("vllm", selector)
    (value,) = telemetry.query(query, at, **LOCATION).values() or (math.nan,)
    return value


def test_a_container_whose_drafts_are_accepted_less_has_not_kept_its_acceptance_length() -> None:
    telemetry, accepted = enriched(), 0.0
    labels = {"aws.sagemaker.endpoint.name": "chat", "@resource.host.id": "i-1", "aws.sagemaker.container.id": "a"}
    for minute in range(20 * 60 + 1):
        # Two of each draft are accepted for nineteen hours, then one.
        accepted += 600 * (2 if minute <= 19 * 60 else 1)
        text = f"vllm:spec_decode_num_drafts_total {600 * (minute + 1)}\n"
        telemetry.collect(
            f"{text}vllm:spec_decode_num_accepted_tokens_total {accepted}\n", labels, 60 * minute, **LOCATION
        )
    assert kept(telemetry, 19 * 3600) == pytest.approx(100, abs=0.5)
    # Two tokens a step in the last half hour, and 1 + (19 * 2 + 1) / 20 over all of it.
    assert kept(telemetry, 20 * 3600) == pytest.approx(100 * 2 / (1 + 39 / 20), abs=0.5)
    # Another container that is new has kept all of its own, whatever its drafts are like.
    fresh = labels | {"@resource.host.id": "i-2", "aws.sagemaker.container.id": "b"}
    for minute in range(10):
        telemetry.collect(drafts(60 * minute, 0.5), fresh, 20 * 3600 + 60 * minute, **LOCATION)
    assert kept(telemetry, 20 * 3600 + 540) == pytest.approx((100 + 100 * 2 / (1 + 39 / 20)) / 2, abs=1)
    # Of the first, nothing comes any more: it was replaced.
    for minute in range(10, 50):
        telemetry.collect(drafts(60 * minute, 0.5), fresh, 20 * 3600 + 60 * minute, **LOCATION)
    assert kept(telemetry, 20 * 3600 + 49 * 60) == pytest.approx(100, abs=0.5)


def test_a_container_without_draft_metrics_does_not_affect_other_containers() -> None:
    telemetry = enriched()
    for minute in range(40):
        for name, rate in (("busy", 1.0), ("idle", 0.0)):
            labels = {
                "aws.sagemaker.endpoint.name": "chat",
                "@resource.host.id": name,
                "aws.sagemaker.container.id": name,
            }
            telemetry.collect(drafts(60 * minute * rate, 2), labels, 60 * minute, **LOCATION)
    assert kept(telemetry, 39 * 60) == pytest.approx(100)
    assert math.isnan(kept(enriched(), 39 * 60))


def test_without_otel_enrichment_promql_has_no_data_and_its_alarms_stay_ok(brisk: LocalCloud) -> None:
    account, query = "210000000002", 'sum(vllm:num_requests_waiting{"aws.sagemaker.endpoint.name"="dark"}) > 5'
    cloudwatch = brisk.client("cloudwatch", account=account)
    assert cloudwatch.get_otel_enrichment()["Status"] == "Stopped"
    cloudwatch.put_metric_alarm(AlarmName="dark", **on_promql(query))
    brisk.collect_engine_metrics("vllm:num_requests_waiting 7\n", endpoint="dark", account=account)
    assert brisk.engine_metrics(query, account=account) == []

    def state() -> str:
        return cloudwatch.describe_alarms(AlarmNames=["dark"])["MetricAlarms"][0]["StateValue"]

    assert state() == "OK"
    cloudwatch.start_otel_enrichment()
    assert cloudwatch.get_otel_enrichment()["Status"] == "Running"
    until(state, lambda now: now == "ALARM")
    cloudwatch.stop_otel_enrichment()
    until(state, lambda now: now == "OK")
    assert cloudwatch.get_otel_enrichment()["Status"] == "Stopped"


def test_starting_enrichment_again_keeps_its_filters_and_an_update_replaces_them(brisk: LocalCloud) -> None:
    cloudwatch = brisk.client("cloudwatch", account="210000000003")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        cloudwatch.update_otel_enrichment()
    sagemaker = [{"Namespace": "AWS/SageMaker"}]
    first = cloudwatch.start_otel_enrichment(IncludeFilters=sagemaker)
    again = cloudwatch.start_otel_enrichment(IncludeFilters=[{"Namespace": "AWS/EC2"}])
    assert first["IncludeFilters"] == again["IncludeFilters"] == sagemaker
    assert first["CreatedAt"] == again["CreatedAt"]
    cloudwatch.update_otel_enrichment(ExcludeFilters=sagemaker)
    found = cloudwatch.get_otel_enrichment()
    assert (found.get("IncludeFilters"), found["ExcludeFilters"]) == (None, sagemaker)


def test_a_region_without_promql_has_no_enrichment_and_is_in_the_catalog() -> None:
    assert regions() == set(availability.regions_with_promql())
    elsewhere = Telemetry(Enrichment(Clock(), everywhere=True))
    elsewhere.collect("load 1\n", {}, 600, account="000000000000", region="il-central-1")
    assert elsewhere.query("load", 600, account="000000000000", region="il-central-1") == {}
    elsewhere.collect("load 1\n", {}, 600, **LOCATION)
    assert len(elsewhere.query("load", 600, **LOCATION)) == 1


def test_enrichment_answers_in_the_query_protocol_too(brisk: LocalCloud) -> None:
    account = "210000000004"
    for operation, expected in (
        ("GetOTelEnrichment", "<Status>Stopped</Status>"),
        ("StartOTelEnrichment", "<CreatedAt>"),
        ("GetOTelEnrichment", "<Status>Running</Status>"),
    ):
        signed = brisk.client("cloudwatch", account=account)._request_signer
        request = AWSRequest("POST", brisk.endpoint_url, data=f"Action={operation}&Version=2010-08-01")
        request.headers["Content-Type"] = "application/x-www-form-urlencoded"
        SigV4Auth(signed._credentials, "monitoring", brisk.region).add_auth(request)
        response = URLLib3Session().send(request.prepare())
        assert (response.status_code, expected in response.text) == (200, True)


def test_the_command_that_the_preflight_names_turns_both_settings_on(brisk: LocalCloud) -> None:
    account = "210000000005"
    admin, cloudwatch = (brisk.client(name, account=account) for name in ("observabilityadmin", "cloudwatch"))
    assert admin.get_telemetry_enrichment_status()["Status"] == "Stopped"
    assert admin.start_telemetry_enrichment()["Status"] == "Running"
    cloudwatch.start_otel_enrichment()
    assert admin.get_telemetry_enrichment_status()["Status"] == cloudwatch.get_otel_enrichment()["Status"] == "Running"
    assert admin.stop_telemetry_enrichment()["Status"] == "Stopped"
