from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.operations.dashboard_preview import DashboardPreview, PreviewError, dashboards_of
from constructs_optim.operations.dashboard_preview_data import (
    RecordedMetrics,
    SampleMetrics,
    metric_data_queries,
)
from constructs_optim.operations.dashboard_preview_graph import Graph, graph_of
from constructs_optim.operations.dashboard_preview_math import UnknownExpression, calculated
from constructs_optim.recipe import metrics, pricing

LATENCY = ["AWS/SageMaker", "ModelLatency", "EndpointName", "chat", "VariantName", "AllTraffic"]
UNITS = {
    (series.namespace, series.metric_name): metric.published_unit.value
    for metric in metrics.by_name().values()
    for series in (metric.variant, metric.component)
    if series is not None and metric.statistic != "SampleCount"
}


def assembly(folder: Path, body: Any, **more: Any) -> Path:
    dashboard = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": body}}
    template = {"Resources": {"Ops0A1B2C3D": dashboard}, **more}
    (folder / "Chat.template.json").write_text(json.dumps(template))
    return folder


def preview(*widgets: dict[str, Any], start: str = "-PT1H") -> DashboardPreview:
    return DashboardPreview("Chat", "Ops", start, widgets, {})


def metric_widget(*rows: list[Any], **properties: Any) -> dict[str, Any]:
    place = {"x": 0, "y": 0, "width": 6, "height": 6}
    return {"type": "metric", **place, "properties": {"metrics": list(rows), "title": "Graph", **properties}}


def drawn(shown: DashboardPreview, source: SampleMetrics | RecordedMetrics | None = None) -> Graph:
    source = source or SampleMetrics(UNITS)
    return graph_of(shown.widgets[0]["properties"], source, source.time_range(shown))


def recorded(**values: list[float]) -> RecordedMetrics:
    start = dt.datetime(2026, 11, 21, 14, tzinfo=dt.UTC)
    return RecordedMetrics(
        [
            {
                "Id": name,
                "Timestamps": [(start + dt.timedelta(minutes=place)).isoformat() for place in range(len(series))],
                "Values": series,
            }
            for name, series in values.items()
        ]
    )


def test_placeholders_become_readable_names(tmp_path: Path) -> None:
    body = {
        "Fn::Sub": [
            '{"widgets":[{"type":"text","properties":{"markdown":"${EndpointName} ${AWS::Region} ${Bucket2B3C4D5E} '
            "${Component} ${!PROP('Dim.X')}\"}}]}",
            {
                "EndpointName": {"Fn::GetAtt": ["Llama70B9E83F470", "EndpointName"]},
                "Component": {"Fn::Select": [1, {"Fn::Split": ["/", {"Ref": "Sharded094395AA"}]}]},
            },
        ]
    }
    (found,) = dashboards_of(assembly(tmp_path, body))
    assert found.name == "Chat-Ops"
    assert found.widgets[0]["properties"]["markdown"] == "Llama70B us-east-1 Bucket Sharded ${PROP('Dim.X')}"


def test_placeholders_can_have_values_of_ones_own(tmp_path: Path) -> None:
    body = {
        "Fn::Sub": [
            '{"widgets":[{"type":"text","properties":{"markdown":"${EndpointName}"}}]}',
            {"EndpointName": {"Ref": "X"}},
        ]
    }
    (found,) = dashboards_of(assembly(tmp_path, body), values={"EndpointName": "chat-1"})
    assert found.widgets[0]["properties"]["markdown"] == "chat-1"


@pytest.mark.parametrize(
    "body",
    [
        '{"widgets":[]}',
        {"Fn::Join": ["", ['{"start":"', {"Ref": "Start"}, '","widgets":[]}']]},
        {"Fn::Sub": '{"widgets":[]}'},
    ],
)
def test_a_body_may_be_written_in_any_way_that_templates_know(tmp_path: Path, body: Any) -> None:
    parameters = {"Start": {"Type": "String", "Default": "-PT3H"}}
    (found,) = dashboards_of(assembly(tmp_path, body, Parameters=parameters))
    assert found.widgets == ()
    assert found.start == "-PT3H"


def test_widgets_without_a_place_are_put_as_cloudwatch_puts_them(tmp_path: Path) -> None:
    body = json.dumps({"widgets": [{"type": "text", "width": 16, "properties": {"markdown": "x"}}] * 3})
    (found,) = dashboards_of(assembly(tmp_path, body))
    assert [(widget["x"], widget["y"]) for widget in found.widgets] == [(0, 0), (0, 6), (0, 12)]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (None, "run `cdk synth` first"),
        ("{", "is no template"),
        ('{"Resources": {}}', "have no dashboard"),
        (
            '{"Resources": {"A": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": "{"}}}}',
            "the body of Chat A is no JSON",
        ),
    ],
)
def test_what_cannot_be_previewed_is_told_of(tmp_path: Path, write: str | None, said: str) -> None:
    if write is not None:
        (tmp_path / "Chat.template.json").write_text(write)
    with pytest.raises(PreviewError, match=said):
        dashboards_of(tmp_path)


def test_a_dashboard_that_is_not_there_is_told_of_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(PreviewError, match="there are: Chat Ops0A1B2C3D"):
        dashboards_of(assembly(tmp_path, '{"widgets":[]}'), dashboard="Other")


numbers = st.floats(min_value=0.5, max_value=1000)


@given(
    concurrency=st.integers(1, 256), latency=numbers, price=numbers, rate=numbers, discount=st.sampled_from([0, 0.25])
)
def test_the_formulas_of_prices_are_what_the_functions_calculate(
    concurrency: int, latency: float, price: float, rate: float, discount: float
) -> None:
    given_values = {
        "concurrency": float(concurrency),
        "inter_token_latency_p50": latency,
        "instance_price_per_hour": price,
        "output_tokens_per_second": rate,
        "discount": float(discount),
    }
    series = {name: [value] for name, value in given_values.items()}

    def of(formula: str) -> float | None:
        return calculated(formula, series, period_seconds=60)[0]

    throughput = pricing.total_throughput(concurrency=concurrency, inter_token_latency_p50=latency)
    assert of(pricing.TOTAL_THROUGHPUT) == pytest.approx(throughput)
    assert of(pricing.PRICE_PER_MILLION_OUTPUT_TOKENS) == pytest.approx(
        pricing.price_per_million_tokens(instance_price_per_hour=price, tokens_per_second=rate, discount=discount)
    )
    assert of(pricing.BLENDED_PRICE_PER_MILLION_TOKENS) == pytest.approx(
        pricing.blended_price_per_million_tokens(
            instance_price_per_hour=price, total_throughput=throughput, discount=discount
        )
    )


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("a / 4", [1.0, None, 0.0]),
        ("100 * (a + b) / a", [125.0, None, None]),
        ("a * 60 / PERIOD(a)", [4.0, None, 0.0]),
        ("-a + 2 * b", [-2.0, None, 2.0]),
        ("7", [7.0, 7.0, 7.0]),
    ],
)
def test_metric_math_leaves_gaps_where_a_value_is_missing_or_divides_by_zero(
    expression: str, values: list[float | None]
) -> None:
    series = {"a": [4.0, None, 0.0], "b": [1.0, 1.0, 1.0]}
    assert calculated(expression, series, period_seconds=60) == values


@pytest.mark.parametrize(
    "expression",
    [
        "SEARCH('{AWS/EC2}', 'Sum')",
        "SUM(METRICS())",
        "c / 4",
        "a ** 2",
        "a.b",
        "__import__('os')",
        "a if b else 1",
        "(",
        "1 / 0",
    ],
)
def test_other_expressions_are_not_calculated(expression: str) -> None:
    with pytest.raises(UnknownExpression):
        calculated(expression, {"a": [1.0], "b": [1.0]}, period_seconds=60)


def test_an_expression_that_is_not_calculated_is_shown_as_text() -> None:
    shown = drawn(preview(metric_widget([{"expression": "SEARCH('{AWS/EC2}', 'Sum')", "label": "All"}])))
    assert shown.is_empty
    assert shown.notes == ("All: not calculated here: SEARCH('{AWS/EC2}', 'Sum')",)


def test_hidden_metrics_are_calculated_with_and_not_drawn() -> None:
    shown = drawn(
        preview(
            metric_widget(
                [*LATENCY, {"id": "raw", "stat": "p90", "visible": False}],
                [{"expression": "raw / 1000", "label": "p90", "color": "#123456"}],
            )
        )
    )
    (line,) = shown.lines
    assert (line.label, line.color) == ("p90", "#123456")
    assert all(value is not None and 100 < value < 20_000 for value in line.values), "milliseconds"
    assert len(line.values) == 61


def test_a_dot_repeats_what_the_row_before_says() -> None:
    values = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    shown = drawn(
        preview(metric_widget([*LATENCY, {"id": "a"}], [".", "OverheadLatency", ".", ".", ".", ".", {"id": "b"}])),
        recorded(**values),
    )
    assert [(line.label, line.values) for line in shown.lines] == [
        ("ModelLatency", [1.0, 2.0]),
        ("OverheadLatency", [3.0, 4.0]),
    ]


def test_sample_data_is_the_same_each_time_and_differs_between_endpoints() -> None:
    def of(endpoint: str) -> list[float | None]:
        row = ["AWS/SageMaker", "Invocations", "EndpointName", endpoint, {"stat": "Sum"}]
        return list(drawn(preview(metric_widget(row))).lines[0].values)

    assert of("chat") == of("chat")
    assert of("chat") != of("search")


def test_sample_percentages_that_are_added_up_over_gpus_come_out_below_a_hundred() -> None:
    row = ["/aws/sagemaker/Endpoints", "GPUUtilization", *LATENCY[2:], {"id": "gpus", "visible": False}]
    (line,) = drawn(preview(metric_widget(row, [{"expression": "gpus / 8", "id": "shown"}]))).lines
    assert all(value is not None and 20 < value <= 100 for value in line.values)


def test_sample_data_ends_an_hour_after_the_newest_deployment() -> None:
    marked = metric_widget([*LATENCY, {}], annotations={"vertical": [{"value": "2026-11-21T14:00:00Z", "label": "r"}]})
    shown = drawn(preview(marked))
    assert shown.times[-1] == dt.datetime(2026, 11, 21, 15, tzinfo=dt.UTC)
    assert shown.deployments == ((dt.datetime(2026, 11, 21, 14, tzinfo=dt.UTC), "r"),)


def test_recorded_metrics_are_found_by_their_ids_and_leave_gaps() -> None:
    source = recorded(model_latency_p90=[1_000.0, 2_000.0, 3_000.0])
    shown = drawn(
        preview(
            metric_widget(
                [*LATENCY, {"id": "model_latency_p90", "visible": False}],
                [{"expression": "model_latency_p90 / 1000", "label": "p90"}],
                [*LATENCY, {"id": "other", "label": "other"}],
            )
        ),
        source,
    )
    assert [list(line.values) for line in shown.lines] == [[1.0, 2.0, 3.0], [None, None, None]]


def test_what_a_dashboard_shows_can_be_asked_of_cloudwatch() -> None:
    shown = preview(metric_widget([*LATENCY, {"id": "raw", "stat": "p90"}], [{"expression": "raw / 1000", "id": "e"}]))
    assert metric_data_queries(shown) == [
        {
            "Id": "raw",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/SageMaker",
                    "MetricName": "ModelLatency",
                    "Dimensions": [
                        {"Name": "EndpointName", "Value": "chat"},
                        {"Name": "VariantName", "Value": "AllTraffic"},
                    ],
                },
                "Period": 60,
                "Stat": "p90",
            },
        }
    ]


@pytest.mark.parametrize("content", ["", "[]", '{"MetricDataResults": [{"Id": "a"}]}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "recorded.json"
    file.write_text(content)
    with pytest.raises(PreviewError, match="aws cloudwatch get-metric-data"):
        RecordedMetrics.read(file)


def test_a_recording_without_values_is_refused() -> None:
    with pytest.raises(PreviewError, match="was the time range right"):
        recorded().time_range(preview())
