from __future__ import annotations

import json
from typing import Any

from .stacks import endpoint, resource, stack, template_of


def dashboard() -> tuple[dict[str, Any], dict[str, Any]]:
    scope = stack()
    endpoint(scope)
    template, variables = resource(template_of(scope), "AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Sub"]
    return json.loads(template), variables


def test_every_graph_is_of_this_endpoints_variant_in_the_stacks_region() -> None:
    body, variables = dashboard()
    assert variables["EndpointName"]["Fn::GetAtt"][1] == "EndpointName"
    graphs = [widget["properties"] for widget in body["widgets"] if widget["type"] == "metric"]
    assert graphs
    for graph in graphs:
        assert graph["region"] == "${AWS::Region}"
        for metric in graph["metrics"]:
            assert metric[2:6] == ["EndpointName", "${EndpointName}", "VariantName", "AllTraffic"]


def test_latency_concurrency_errors_and_accelerators_are_shown() -> None:
    body, _ = dashboard()
    shown = {
        metric[1]
        for widget in body["widgets"]
        if widget["type"] == "metric"
        for metric in widget["properties"]["metrics"]
    }
    assert shown >= {
        "ModelLatency",
        "OverheadLatency",
        "ConcurrentRequestsPerModel",
        "Invocations",
        "Invocation4XXErrors",
        "Invocation5XXErrors",
        "GPUUtilization",
        "GPUMemoryUtilization",
    }


def test_the_heading_says_what_is_served_on_what() -> None:
    body, _ = dashboard()
    (heading,) = [widget["properties"]["markdown"] for widget in body["widgets"] if widget["type"] == "text"]
    assert "AWQ INT4" in heading
    assert "ml.g5.12xlarge" in heading


def test_no_two_widgets_lie_on_top_of_each_other() -> None:
    body, _ = dashboard()
    taken: set[tuple[int, int]] = set()
    for widget in body["widgets"]:
        cells = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
