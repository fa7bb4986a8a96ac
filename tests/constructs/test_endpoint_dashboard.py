from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.assertions import Template

from constructs_optim import (
    Alarms,
    AlarmSettings,
    EndpointDashboard,
    EndpointMonitoring,
    EvaluatedModel,
    MonitoringOptions,
    Quantization,
    RecommendedEndpoint,
    ServedModel,
    Server,
    Sharding,
)
from constructs_optim.constructs.monitoring.widgets import (
    Segment,
    Widget,
    arranged,
    text,
)
from constructs_optim.recipe import metrics

from ..support.construct_stacks import (
    ENVIRONMENTS,
    KEY_OF_THE_HEADLINE,
    STACKS,
    endpoint,
    resources,
    stack,
    template_of,
)
from ..support.recommendation_files import recommendation
from ..support.sampling import one_in
from .dashboards import Body, bodies, expressions, graphs, overlapping, series, texts, titled

BASELINE = EvaluatedModel("baseline", ServedModel("baseline", "AllTraffic", artifact_key="none"), 37.7)
PUBLISHED = {
    (found.namespace, found.metric_name, found.dimensions)
    for metric in metrics.by_name().values()
    for found in (metric.variant, metric.component)
    if found is not None
}


def dashboard(**overrides: Any) -> tuple[Body, dict[str, Any]]:
    scope = stack()
    endpoint(scope, **overrides)
    ((body, variables),) = bodies(template_of(scope))
    return body, variables


def alone(*instance_types: str, publishing_seconds: int = 60) -> tuple[Stack, EndpointDashboard]:
    scope = stack()
    served = ServedModel("chat", "AllTraffic", instance_type="ml.g5.12xlarge", publishing_seconds=publishing_seconds)
    return scope, EndpointDashboard(scope, "Dashboard", served=served, instance_types=instance_types)


def body_of(scope: Stack) -> Body:
    ((body, _),) = bodies(template_of(scope))
    return body


def evaluated(**overrides: Any) -> Body:
    scope = stack()
    created = endpoint(scope).dashboard
    created.show_evaluation(concurrencies=[1, 8], **overrides)
    return body_of(scope)


def test_every_graph_shows_the_endpoints_variant_in_the_stacks_region() -> None:
    body, variables = dashboard()
    assert variables["EndpointName"]["Fn::GetAtt"][1] == "EndpointName"
    assert graphs(body)
    for graph in graphs(body):
        assert graph["region"] == "${AWS::Region}"
        for row in series(graph):
            assert row[2:] == ["EndpointName", "${EndpointName}", "VariantName", "AllTraffic"]


def test_graph_periods_follow_the_dashboards_time_range() -> None:
    body, _ = dashboard()
    assert body["periodOverride"] == "auto"
    assert not [graph for graph in graphs(body) if "period" in graph]
    assert not [row for graph in graphs(body) for row in graph["metrics"] if "period" in row[-1]]


def test_latency_concurrency_errors_accelerators_and_scaling_are_shown() -> None:
    body, _ = dashboard()
    assert {row[1] for graph in graphs(body) for row in series(graph)} >= {
        "Invocations",
        "ModelLatency",
        "OverheadLatency",
        "FirstChunkLatency",
        "ConcurrentRequestsPerModel",
        "Invocation4XXErrors",
        "Invocation5XXErrors",
        "MidStreamErrors",
        "GPUUtilization",
        "GPUMemoryUtilization",
        "CPUUtilization",
        "MemoryUtilization",
        "DiskUtilization",
    }
    assert expressions(titled(body, "Instances")) == ["instance_reports * 60 / PERIOD(instance_reports)"]


def test_graphs_show_latency_in_milliseconds_and_utilization_averaged_over_gpus() -> None:
    body, _ = dashboard()
    latency, gpus = titled(body, "Model latency"), titled(body, "GPU utilization")
    assert expressions(latency) == [f"model_latency_{name} / 1000" for name in ("p50", "p90", "p99")]
    assert latency["yAxis"]["left"]["label"] == "ms"
    assert expressions(gpus) == ["gpu_utilization_average / 4", "gpu_utilization_maximum / 4"]
    assert gpus["yAxis"]["left"]["max"] == 100


def test_the_heading_names_the_technique_instance_type_and_artifact_key() -> None:
    body, _ = dashboard()
    heading = texts(body)[0]
    assert "AWQ INT4" in heading
    assert "ml.g5.12xlarge" in heading
    assert KEY_OF_THE_HEADLINE in heading
    assert "region=${AWS::Region}#/endpoints/${EndpointName}" in heading


@pytest.mark.parametrize("changed", [{"group_size": 64}, {"ignored_layers": ["lm_head"]}], ids=str)
def test_a_recipe_change_alters_only_short_variables_of_the_dashboard_body(changed: dict[str, Any]) -> None:
    found: list[tuple[str, dict[str, Any]]] = []
    for settings in ({}, changed):
        scope = stack()
        endpoint(scope, techniques=[Quantization.awq(**settings)])
        (properties,) = resources(template_of(scope), "AWS::CloudWatch::Dashboard")
        found.append(tuple(properties["DashboardBody"]["Fn::Sub"]))
    (old_text, old), (new_text, new) = found
    assert old_text == new_text
    differing = {name for name in old if old[name] != new[name]}
    assert "ArtifactKey" in differing
    assert differing <= {"Recipe", "ArtifactKey"}
    assert all(len(new[name]) < 200 for name in differing)


def test_console_links_use_the_domain_of_the_partition() -> None:
    scope = Stack(App(), "Chat", env={"account": "111122223333", "region": "cn-north-1"})
    EndpointDashboard(scope, "Dashboard", served=ServedModel("chat", "AllTraffic"))
    assert "https://console.amazonaws.cn/sagemaker" in texts(body_of(scope))[0]


def test_an_inference_components_dashboard_uses_component_dimensions() -> None:
    body, variables = dashboard(techniques=[Quantization.awq(), Sharding.fast_load()])
    assert "InferenceComponentName" in variables
    shown = {row[1]: row[2:] for graph in graphs(body) for row in series(graph)}
    for name in ("Invocations", "ModelLatency", "ConcurrentRequestsPerCopy", "GPUUtilizationNormalized"):
        assert shown[name] == ["InferenceComponentName", "${InferenceComponentName}"]
    assert shown["DiskUtilization"] == ["EndpointName", "${EndpointName}", "VariantName", "AllTraffic"]
    # SageMaker publishes neither for inference components.
    assert not {"FirstChunkLatency", "MidStreamErrors"} & set(shown)


def test_instances_without_gpus_have_no_gpu_graphs() -> None:
    scope, _ = alone("ml.inf2.48xlarge")
    body = body_of(scope)
    assert not [row for graph in graphs(body) for row in series(graph) if row[1].startswith("GPU")]
    assert "## Accelerators" not in texts(body)
    assert expressions(titled(body, "CPU"))[0].endswith("/ 192")


@pytest.mark.parametrize(
    ("name", "kind"),
    one_in(3, product(["headline", "two_endpoints", "shards", "by_key", "heads", "pre_optimized"], ENVIRONMENTS)),
)
def test_every_dashboard_metric_is_defined_and_no_widgets_overlap(name: str, kind: str) -> None:
    scope = stack(env=ENVIRONMENTS[kind])
    STACKS[name](scope)
    found = bodies(template_of(scope))
    assert found
    for body, _ in found:
        assert not overlapping(body)
        for graph in graphs(body):
            ids = [row[-1]["id"] for row in graph["metrics"] if "id" in row[-1]]
            assert len(ids) == len(set(ids)), graph["title"]
            for row in series(graph):
                assert (row[0], row[1], tuple(row[2::2])) in PUBLISHED
            for expression in expressions(graph):
                assert set(re.findall(r"\b[a-z]\w*", expression)) <= set(ids)


def test_the_job_history_widget_queries_the_handlers_logs() -> None:
    body, variables = dashboard()
    query = titled(body, "Job and artifact history")["query"]
    assert query.startswith("SOURCE '${LogGroup1}' | SOURCE '${LogGroup2}' | fields @timestamp")
    assert f'artifact_key in ["{KEY_OF_THE_HEADLINE}"]' in query
    assert re.search(r'stack_id = "\$\{AWS::StackId\}" and logical_id in \["Llama70BOptimization\w+"\]', query)
    assert variables["LogGroup1"]["Ref"].startswith("OptimizationServiceHandlerLogs")
    assert variables["LogGroup2"]["Ref"].startswith("OptimizationServiceWatcherLogs")


def test_pools_with_different_gpu_counts_show_utilization_as_published() -> None:
    scope, _ = alone("ml.g5.12xlarge", "ml.g5.48xlarge")
    body = body_of(scope)
    assert "ml.g5.12xlarge, ml.g5.48xlarge" in texts(body)[0]
    assert not expressions(titled(body, "GPU utilization"))
    assert "max" not in titled(body, "GPU utilization")["yAxis"]["left"]


def test_the_dashboard_shows_the_scaling_limits_of_an_endpoint() -> None:
    scope = stack()
    endpoint(scope).auto_scale(min_capacity=1, max_capacity=4)
    marks = titled(body_of(scope), "Instances")["annotations"]["horizontal"]
    assert [(mark["value"], mark["label"]) for mark in marks] == [(1, "scaling minimum"), (4, "scaling maximum")]


def test_the_latency_alarm_threshold_is_drawn_in_the_latency_graph() -> None:
    scope = stack()
    endpoint(scope, monitoring=MonitoringOptions(alarms=Alarms(latency=AlarmSettings(threshold=20))))
    ((body, _),) = bodies(template_of(scope))
    (latency,) = [graph for graph in graphs(body) if graph["title"] == "Model latency"]
    (mark,) = latency["annotations"]["horizontal"]
    assert (mark["value"], mark["label"]) == (20_000, "alarm on p99")


def test_each_added_component_gets_its_own_dashboard_segments() -> None:
    scope, created = alone()
    created.show_component("Small", ServedModel("chat", "AllTraffic", "chat-small"))
    body = body_of(scope)
    assert {"## Small: Traffic and latency", "## Small: Errors"} <= set(texts(body))
    shown = [row for graph in graphs(body) for row in series(graph)]
    assert ["AWS/SageMaker", "ConcurrentRequestsPerCopy", "InferenceComponentName", "chat-small"] in shown
    assert "Small_model_latency" in created.widgets
    assert not overlapping(body)


def test_evaluations_and_costs_are_not_shown_by_default() -> None:
    body, _ = dashboard()
    assert not [title for title in texts(body) if "Evaluation" in title or "Cost" in title]


def test_every_evaluation_metric_compares_the_baseline_with_the_optimized_endpoint() -> None:
    body = evaluated(baseline=BASELINE)
    for metric in metrics.EVALUATION:
        # Acceptance is on a graph of the engine's own metrics, for endpoints that speculate.
        if metric.name in ("instance_price_per_hour", "acceptance_length", "drafts"):
            continue
        # What benchmark jobs measure where a workload states objectives, and what only a laptop measures.
        if metric.name in ("goodput", "price_per_thousand_good_requests") or metric.name.startswith("longest_"):
            continue
        if metric.runner == "pooling":
            continue
        labels = [row[-1]["label"] for row in titled(body, metric.title)["metrics"] if "label" in row[-1]]
        assert labels == ["baseline, 1 user", "optimized, 1 user", "baseline, 8 users", "optimized, 8 users"]
    assert not overlapping(body)


def test_evaluation_series_have_artifact_and_concurrency_dimensions() -> None:
    rows = series(titled(evaluated(baseline=BASELINE), "Client latency, p90"))
    dimensions = [dict(zip(row[2::2], row[3::2], strict=True)) for row in rows]
    assert {(found["EndpointName"], found["ArtifactKey"], found["Concurrency"]) for found in dimensions} == {
        (name, key, users)
        for name, key in (("baseline", "none"), ("${EndpointName}", KEY_OF_THE_HEADLINE))
        for users in ("1", "8")
    }


def test_a_configured_instance_price_gives_cost_metric_math() -> None:
    scope = stack()
    created = endpoint(scope).dashboard
    created.show_evaluation(concurrencies=[8]).show_costs(instance_price_per_hour=7.09, discount=0.4)
    body = body_of(scope)
    assert expressions(titled(body, "Blended price per million tokens")) == [
        "(1 - 0.4) * 7.09 / (concurrency_8_1 * 1000 / inter_token_latency_p50_8_1 * 3600 / 1000000) / 4"
    ]
    assert expressions(titled(body, "Cost per hour")) == [
        "((1 - 0.4) * 7.09) * instance_reports * 60 / PERIOD(instance_reports)"
    ]


WATCHED = MonitoringOptions(
    instance_price_per_hour=7.09,
    discount=0.4,
    alarms=Alarms(saturation=False, latency=AlarmSettings(threshold=2)),
)


def monitored(scope: Stack) -> None:
    described: Any = {"variantName": "AllTraffic", "initialInstanceCount": 1, "instanceType": "ml.g5.12xlarge"}
    model = sagemaker.CfnModel(scope, "Model")
    variants = [{**described, "initialVariantWeight": 1, "modelName": model.attr_model_name}]
    config = sagemaker.CfnEndpointConfig(scope, "Config", production_variants=variants)
    created = sagemaker.CfnEndpoint(scope, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
    EndpointMonitoring.of(created, server=Server.vllm(), monitoring=WATCHED)


@pytest.mark.parametrize(
    "declare",
    [
        lambda scope: endpoint(scope, monitoring=WATCHED),
        lambda scope: RecommendedEndpoint(scope, "Chat", recommendation=recommendation(), monitoring=WATCHED),
        monitored,
    ],
    ids=["optimized", "recommended", "declared elsewhere"],
)
def test_each_kind_of_endpoint_shows_its_costs_and_its_alarm_on_latency(declare: Callable[[Stack], object]) -> None:
    scope = stack()
    declare(scope)
    body = body_of(scope)
    assert expressions(titled(body, "Cost per hour")) == [
        "((1 - 0.4) * 7.09) * instance_reports * 60 / PERIOD(instance_reports)"
    ]
    marks = [mark for graph in graphs(body) for mark in graph.get("annotations", {}).get("horizontal", ())]
    assert (2000, "alarm on p99") in [(mark["value"], mark.get("label")) for mark in marks]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"instance_price_per_hour": 0}, "instance_price_per_hour is 0"),
        ({"instance_price_per_hour": 7, "discount": 40}, "a share of at least 0"),
    ],
)
def test_an_invalid_instance_price_or_discount_is_refused(wrong: dict[str, float], message: str) -> None:
    _, created = alone()
    with pytest.raises(ValueError, match=message):
        created.show_costs(**wrong)


def test_without_an_instance_price_the_price_published_by_evaluations_is_shown() -> None:
    graph = titled(evaluated(), "Blended price per million tokens")
    assert not expressions(graph)
    assert {row[1] for row in series(graph)} == {"BlendedPricePerMillionTokens"}


def test_a_deployment_is_annotated_in_every_graph() -> None:
    scope, created = alone()
    created.add_deployment("2026-11-21T14:00:00Z", "release 42")
    for graph in graphs(body_of(scope)):
        assert [(mark["value"], mark["label"]) for mark in graph["annotations"]["vertical"]] == [
            ("2026-11-21T14:00:00Z", "release 42")
        ]


def test_additions_to_a_dashboard_can_be_chained() -> None:
    served = ServedModel("chat", "AllTraffic", instance_type="ml.g5.12xlarge", artifact_key="a" * 64)
    created = EndpointDashboard(stack(), "Dashboard", served=served, instance_types=["ml.g5.12xlarge"])
    other = ServedModel("chat", "AllTraffic", "other", instance_type="ml.g5.12xlarge")
    chained = (
        created.add_alarms("arn:aws:cloudwatch:us-west-2:111122223333:alarm:mine")
        .add_deployment("2026-11-21T14:00:00Z")
        .add_segment("own", "Own", Widget("own_text", "text", {"markdown": "Own"}, 24, 1))
        .show_component("other", other)
        .show_scaling(min_capacity=1, max_capacity=4)
        .show_latency_alarm(20)
        .show_costs(instance_price_per_hour=7.09)
        .show_evaluation(concurrencies=[1])
    )
    assert chained is created


@pytest.mark.parametrize("at", ["yesterday", "2026-11-21", "2026-11-21T14:00:00"])
def test_a_deployment_annotation_requires_a_timestamp_with_a_time_zone(at: str) -> None:
    _, created = alone()
    with pytest.raises(ValueError, match="must be a time with a time zone"):
        created.add_deployment(at)


def test_the_alarm_widget_is_placed_above_all_graphs() -> None:
    scope, created = alone()
    alarm = cloudwatch.CfnAlarm(scope, "Alarm", comparison_operator="GreaterThanThreshold", evaluation_periods=1)
    created.add_alarms(alarm.attr_arn, "arn:aws:cloudwatch:us-west-2:111122223333:alarm:other")
    ((body, variables),) = bodies(template_of(scope))
    (widget,) = [widget for widget in body["widgets"] if widget["type"] == "alarm"]
    assert widget["y"] < min(found["y"] for found in body["widgets"] if found["type"] == "metric")
    assert widget["properties"]["alarms"] == [
        "${Value1}",
        "arn:aws:cloudwatch:us-west-2:111122223333:alarm:other",
    ]
    assert variables["Value1"] == {"Fn::GetAtt": ["Alarm", "Arn"]}


def test_scaling_limits_and_targets_are_drawn_in_the_graphs() -> None:
    scope, created = alone()
    created.show_scaling(min_capacity=1, max_capacity=4, targets={"concurrent_requests": 8})
    body = body_of(scope)
    assert [mark["value"] for mark in titled(body, "Instances")["annotations"]["horizontal"]] == [1, 4]
    concurrency = titled(body, "Concurrent requests per instance")
    assert [mark["value"] for mark in concurrency["annotations"]["horizontal"]] == [8]


def test_the_instance_count_is_derived_from_the_metric_publishing_interval() -> None:
    scope, _ = alone(publishing_seconds=10)
    assert expressions(titled(body_of(scope), "Instances")) == ["instance_reports * 10 / PERIOD(instance_reports)"]


def test_custom_widgets_are_placed_last() -> None:
    scope, created = alone()
    created.add_segment("own", "Ours", text("notes", "Call us."))
    body = body_of(scope)
    assert texts(body)[-2:] == ["## Ours", "Call us."]
    assert not overlapping(body)


def test_a_second_widget_with_the_same_name_is_refused() -> None:
    _, created = alone()
    with pytest.raises(ValueError, match="already has a widget 'model_latency'"):
        created.add_segment("own", "Ours", text("model_latency", "again"))


def test_widgets_can_be_added_to_a_custom_dashboard() -> None:
    scope = stack()
    taken = endpoint(scope).dashboard.widgets
    own = cloudwatch.Dashboard(scope, "Own")
    own.add_widgets(cloudwatch.TextWidget(markdown="Ours", width=4), taken["model_latency"].to_widget())
    own.add_widgets(taken["errors"].to_widget())
    (body,) = [
        properties["DashboardBody"]["Fn::Join"][1]
        for properties in resources(template_of(scope), "AWS::CloudWatch::Dashboard")
        if "Fn::Join" in properties["DashboardBody"]
    ]
    found = json.loads("".join(part if isinstance(part, str) else next(iter(part)) for part in body))["widgets"]
    assert [(widget["type"], widget["x"], widget["y"]) for widget in found] == [
        ("text", 0, 0),
        ("metric", 4, 0),
        ("metric", 0, 6),
    ]
    assert found[1]["properties"]["title"] == "Model latency"
    assert {"Fn::GetAtt": ["Llama70B9E83F470", "EndpointName"]} in body


def test_showing_an_evaluation_requires_an_artifact_key_and_concurrencies() -> None:
    _, created = alone()
    with pytest.raises(ValueError, match="ArtifactKey is not set"):
        created.show_evaluation(concurrencies=[8])
    with pytest.raises(ValueError, match="concurrencies is"):
        created.show_evaluation(concurrencies=[])


def test_dashboards_beyond_the_cloudwatch_limits_are_refused() -> None:
    many = tuple(text(f"note_{number}", "x", width=1, height=1) for number in range(501))
    with pytest.raises(ValueError, match="the dashboard has 501 widgets, and CloudWatch allows 500: leave endpoints"):
        arranged([Segment("many", None, many)])
    crowded = Widget("crowded", "metric", {"metrics": [["a", "b"], [{"expression": "a"}]] * 501})
    with pytest.raises(ValueError, match="the dashboard has 501 metrics in a widget, and CloudWatch allows 500"):
        arranged([Segment("one", None, (crowded,))])
    rows = [[{"expression": "a"}], *[["A", "B"]] * 420]
    full = tuple(Widget(f"graph-{number}", "metric", {"metrics": rows}) for number in range(6))
    assert len(arranged([Segment("five", None, full[:5])])) == 5
    with pytest.raises(ValueError, match="the dashboard has 2,520 metrics in its widgets, and CloudWatch allows 2,500"):
        arranged([Segment("six", None, full)])
    with pytest.raises(ValueError, match="25 columns wide"):
        arranged([Segment("one", None, (text("wide", "x", width=25),))])


def test_widgets_are_from_left_to_right_and_segments_without_any_have_no_heading() -> None:
    notes = tuple(text(f"note-{number}", "x", width=10, height=height) for number, height in enumerate((2, 3, 4)))
    segments = [
        Segment("empty", "Nothing", ()),
        Segment("notes", "Notes", notes),
        Segment("last", None, (text("a", "x"),)),
    ]
    places = [(each["x"], each["y"], each["width"], each["height"]) for each in arranged(segments)]
    assert places == [(0, 0, 24, 1), (0, 1, 10, 2), (10, 1, 10, 3), (0, 4, 10, 4), (0, 8, 24, 2)]


def test_synthesizing_twice_gives_the_same_dashboard() -> None:
    assert dashboard() == dashboard()


def test_placeholder_syntax_in_widget_text_is_escaped() -> None:
    scope, created = alone()
    created.add_segment("own", "Ours", text("notes", "${PROP('Dim.VariantName')}"))
    (properties,) = Template.from_stack(scope).find_resources("AWS::CloudWatch::Dashboard").values()
    assert "${!PROP('Dim.VariantName')}" in properties["Properties"]["DashboardBody"]["Fn::Sub"][0]
