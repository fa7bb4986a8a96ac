from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.operations.dashboard_preview import (
    Dashboard,
    PreviewError,
    SampleMetrics,
    Series,
    dashboards_of,
    lines_of,
    picture,
)
from constructs_optim.recipe import metrics

from ..support.properties import places, replaced

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


def preview(*widgets: dict[str, Any], start: str = "-PT1H") -> Dashboard:
    return Dashboard("Chat", "Ops", start, widgets)


def metric_widget(*rows: list[Any], **properties: Any) -> dict[str, Any]:
    position = {"x": 0, "y": 0, "width": 6, "height": 6}
    return {"type": "metric", **position, "properties": {"metrics": list(rows), "title": "Graph", **properties}}


def drawn(dashboard: Dashboard) -> dict[str, Series | str]:
    return lines_of(dashboard.graphs[0], SampleMetrics(dashboard, UNITS))


def test_placeholders_in_a_dashboard_body_become_readable_names(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "body",
    [
        '{"widgets":[]}',
        {"Fn::Join": ["", ['{"start":"', {"Ref": "Start"}, '","widgets":[]}']]},
        {"Fn::Sub": '{"widgets":[]}'},
    ],
)
def test_a_dashboard_body_may_be_a_string_or_an_intrinsic_function(tmp_path: Path, body: Any) -> None:
    parameters = {"Start": {"Type": "String", "Default": "-PT3H"}}
    (found,) = dashboards_of(assembly(tmp_path, body, Parameters=parameters))
    assert found.widgets == ()
    assert found.start == "-PT3H"


def test_widgets_without_a_position_are_laid_out_as_in_cloudwatch(tmp_path: Path) -> None:
    body = json.dumps({"widgets": [{"type": "text", "width": 16, "properties": {"markdown": "x"}}] * 3})
    (found,) = dashboards_of(assembly(tmp_path, body))
    assert [(widget["x"], widget["y"]) for widget in found.widgets] == [(0, 0), (0, 6), (0, 12)]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (None, "run `cdk synth` first"),
        ("{", "is not a template"),
        ('{"Resources": {}}', "have no dashboard"),
        (
            '{"Resources": {"A": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": "{"}}}}',
            "the body of Chat A is not JSON",
        ),
    ],
)
def test_a_template_that_cannot_be_previewed_is_reported(tmp_path: Path, write: str | None, said: str) -> None:
    if write is not None:
        (tmp_path / "Chat.template.json").write_text(write)
    with pytest.raises(PreviewError, match=said):
        dashboards_of(tmp_path)


def test_a_missing_dashboard_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(PreviewError, match="it has: Chat Ops0A1B2C3D"):
        dashboards_of(assembly(tmp_path, '{"widgets":[]}'), dashboard="Other")


def test_an_unsupported_metric_expression_is_shown_as_text() -> None:
    lines = drawn(preview(metric_widget([{"expression": "SEARCH('{AWS/EC2}', 'Sum')", "label": "All"}])))
    assert lines == {"All": "not calculated here: SEARCH('{AWS/EC2}', 'Sum')"}


def test_hidden_metrics_are_used_in_expressions_but_not_drawn() -> None:
    rows = (
        [*LATENCY, {"id": "raw", "stat": "p90", "visible": False}],
        [{"expression": "raw / 1000", "label": "p90"}],
        [{"expression": "raw * 60 / PERIOD(raw) / 1000", "label": "per minute"}],
    )
    lines = drawn(preview(metric_widget(*rows)))
    assert list(lines) == ["p90", "per minute"]
    for values in lines.values():
        assert len(values) == 61
        assert all(isinstance(value, float) and 100 < value < 20_000 for value in values), "milliseconds"


def test_a_dot_in_a_metric_row_repeats_the_field_above() -> None:
    repeated = drawn(preview(metric_widget([*LATENCY, {}], [".", "OverheadLatency", ".", ".", ".", ".", {}])))
    written = drawn(preview(metric_widget([*LATENCY, {}], ["AWS/SageMaker", "OverheadLatency", *LATENCY[2:], {}])))
    assert repeated == written


def test_sample_data_is_deterministic_and_differs_between_endpoints() -> None:
    def of(endpoint: str) -> dict[str, Series | str]:
        return drawn(preview(metric_widget(["AWS/SageMaker", "Invocations", "EndpointName", endpoint])))

    assert of("chat") == of("chat")
    assert of("chat") != of("search")


def test_sample_gpu_percentages_divided_by_the_gpu_count_are_at_most_a_hundred() -> None:
    row = ["/aws/sagemaker/Endpoints", "GPUUtilization", *LATENCY[2:], {"id": "gpus", "visible": False}]
    lines = drawn(preview(metric_widget(row, [{"expression": "gpus / 8", "id": "shown"}])))
    assert all(isinstance(value, float) and 20 < value <= 100 for value in lines["shown"])


def test_sample_data_ends_an_hour_after_the_newest_deployment() -> None:
    marks = [{"value": "2026-11-21T14:00:00Z", "label": "r"}, {"value": "Created", "label": "placeholder"}]
    metrics = SampleMetrics(preview(metric_widget([*LATENCY, {}], annotations={"vertical": marks})), UNITS)
    assert metrics.times[-1] == dt.datetime(2026, 11, 21, 15, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"widgets": 5}, "widgets: Input should be a valid array"),
        ({"widgets": [None]}, "widgets.0: Input should be an object"),
        ({"widgets": [{"type": "text", "width": "a"}]}, "widgets.0.width: Input should be a valid integer"),
        ({"widgets": [{"type": "text", "properties": {"markdown": 5}}]}, "markdown: Input should be a valid string"),
        ({"widgets": [{"type": "alarm", "properties": {"alarms": 5}}]}, "alarms: Input should be a valid array"),
        ({"widgets": [{"type": "metric", "properties": {"metrics": [["a"]]}}]}, "is not a namespace, a metric's name"),
        ({"widgets": [{"type": "metric", "properties": {"metrics": [[".", "b"]]}}]}, "the metric above does not have"),
        ({"widgets": [{"type": "text", "y": 10**9}]}, "widgets.0.y: Input should be less than or equal to 1000"),
        ({"widgets": [{"type": "text", "width": 24, "height": 900}] * 2}, "has more than 1,000 rows"),
        ([], "the body: Input should be an object"),
        ({"start": 5}, "start: Input should be a valid string"),
    ],
)
def test_a_body_that_is_no_dashboard_is_refused_with_the_place(tmp_path: Path, body: Any, said: str) -> None:
    with pytest.raises(PreviewError) as refused:
        dashboards_of(assembly(tmp_path, json.dumps(body)))
    assert said in str(refused.value)
    assert len(str(refused.value)) < 400


MARK = {"value": "2026-11-21T14:00:00Z", "label": "release"}
BODY: dict[str, Any] = {
    "start": "-PT3H",
    "widgets": [
        metric_widget(
            [*LATENCY, {"id": "raw", "stat": "p90", "visible": False, "label": "Latency"}],
            [".", "OverheadLatency", "...", {"id": "gpus"}],
            [{"expression": "raw / 1000", "label": "p90"}],
            view="timeSeries",
            stacked=True,
            annotations={"vertical": [MARK], "horizontal": [{"value": 5, "label": "limit"}]},
            yAxis={"left": {"min": 0, "max": 100, "label": "ms"}},
        ),
        {"type": "text", "width": 6, "height": 2, "properties": {"markdown": "# Costs $5 to $6"}},
        {"type": "log", "properties": {"query": "fields a | sort b", "title": "Log"}},
        {"type": "chart", "properties": {"data": {"queries": [{"label": "a"}]}}},
        {"type": "alarm", "properties": {"alarms": ["arn:aws:cloudwatch:us-east-1:1:alarm:a"]}},
    ],
}
NUMBERS = (True, -1, 0, 2**40, 1e308)
JUNK = (None, *NUMBERS, "", "$a", "(" * 900, "0001-01-01T00:00:00Z", "...", [], [[]], [1], ["a"], {}, {"a": 1})


@pytest.mark.parametrize("number", range(len(BODY["widgets"])))
def test_any_body_is_a_dashboard_or_is_refused_with_a_sentence(tmp_path: Path, number: int) -> None:
    body = {**BODY, "widgets": [BODY["widgets"][number]]}
    refused: list[str] = []
    for place in places(body):
        for junk in JUNK:
            try:
                [found] = dashboards_of(assembly(tmp_path, json.dumps(replaced(body, place, junk))))
                metrics = SampleMetrics(found, UNITS)
                for properties in found.graphs:
                    lines_of(properties, metrics)
            except PreviewError as error:
                refused.append(str(error))
    assert len(refused) > 20
    assert max(map(len, refused)) < 400


def test_odd_dashboards_are_drawn(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "value": 1e15,
        "label": "$a" * 20_000,
        "title": "$" * 20_000,
        "expression": "raw * 1e308 * 1e308",
        "stacked": False,
        "view": "bar",
        "markdown": "",
        "vertical": [[MARK, "none"], {"value": "0001-01-01T00:00:00Z"}, {"value": "2026-99-01T00:00:00Z"}],
        "horizontal": [[{"value": 1}, {"value": 2}]],
        "max": 0,
        "data": {},
        "alarms": [],
    }
    bodies = [replaced(BODY, place, odd[place[-1]]) for place in places(BODY) if place and place[-1] in odd]
    for body in [BODY, *bodies]:
        [found] = dashboards_of(assembly(tmp_path, json.dumps(body)))
        assert picture(found, SampleMetrics(found, UNITS)).startswith(b"\x89PNG")
    assert len(bodies) > 10


def test_an_explorer_and_absent_titles_are_read(tmp_path: Path) -> None:
    metric = {"metricName": "CPUUtilization", "resourceType": "AWS::EC2::Instance", "stat": "Average"}
    body = {
        "widgets": [
            {"type": "explorer", "properties": {"metrics": [metric]}},
            {"type": "metric", "properties": {"title": None, "metrics": [["A", "B", {"label": None}]]}},
        ]
    }
    [found] = dashboards_of(assembly(tmp_path, json.dumps(body)))
    assert len(found.widgets) == 2


def test_three_dots_repeat_the_fields_above_up_to_those_that_follow() -> None:
    repeated = drawn(preview(metric_widget([*LATENCY], ["...", "Other", {"label": "b"}])))
    written = drawn(preview(metric_widget([*LATENCY], [*LATENCY[:-1], "Other", {"label": "b"}])))
    assert repeated == written
