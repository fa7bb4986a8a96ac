"""An endpoint's CloudWatch dashboard: what a person on call looks at first.

Source of the metric names: Amazon SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon CloudWatch".
"""

from __future__ import annotations

import json
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from constructs_optim.recipe import Plan

_INVOCATIONS = "AWS/SageMaker"
_INSTANCES = "/aws/sagemaker/Endpoints"
_WIDTH, _HEIGHT = 8, 6


class EndpointDashboard(Construct):
    """Traffic, latency, concurrency, errors and accelerators of one endpoint."""

    def __init__(self, scope: Construct, id: str, *, endpoint_name: str, variant_name: str, plan: Plan) -> None:
        super().__init__(scope, id)
        body = {"start": "-PT3H", "periodOverride": "inherit", "widgets": _widgets(variant_name, plan)}
        self._resource = cloudwatch.CfnDashboard(
            self,
            "Resource",
            # One string with a placeholder reads, in a template and its diff, like the dashboard that it is.
            dashboard_body=_substituted(json.dumps(body, separators=(",", ":")), endpoint_name),
        )

    @property
    def dashboard_name(self) -> str:
        """The dashboard's name (a token)."""
        return self._resource.ref


def _substituted(body: str, endpoint_name: str) -> str:
    from aws_cdk import Fn

    return Fn.sub(body, {"EndpointName": endpoint_name})


def _widgets(variant_name: str, plan: Plan) -> list[dict[str, Any]]:
    title = {
        "type": "text",
        "x": 0,
        "y": 0,
        "width": 24,
        "height": 2,
        "properties": {"markdown": _heading(plan)},
    }
    graphs = [
        _graph(
            "Invocations a minute",
            variant_name,
            _INVOCATIONS,
            [("Invocations", "Sum"), ("InvocationsPerInstance", "Sum")],
        ),
        _graph(
            "Model latency (µs)",
            variant_name,
            _INVOCATIONS,
            [("ModelLatency", s) for s in ("p50", "p90", "p99")],
        ),
        _graph(
            "Overhead latency (µs)",
            variant_name,
            _INVOCATIONS,
            [("OverheadLatency", s) for s in ("p50", "p99")],
        ),
        _graph(
            "Concurrent requests per model",
            variant_name,
            _INVOCATIONS,
            [("ConcurrentRequestsPerModel", "Maximum")],
        ),
        _graph(
            "Errors",
            variant_name,
            _INVOCATIONS,
            [(name, "Sum") for name in ("Invocation4XXErrors", "Invocation5XXErrors", "MidStreamErrors")],
        ),
        _graph(
            "GPU utilization (%)",
            variant_name,
            _INSTANCES,
            [("GPUUtilization", "Average"), ("GPUUtilization", "Maximum")],
        ),
        _graph("GPU memory (%)", variant_name, _INSTANCES, [("GPUMemoryUtilization", "Maximum")]),
        _graph(
            "CPU and memory (%)",
            variant_name,
            _INSTANCES,
            [("CPUUtilization", "Average"), ("MemoryUtilization", "Average")],
        ),
        _graph("Disk (%)", variant_name, _INSTANCES, [("DiskUtilization", "Maximum")]),
    ]
    for index, graph in enumerate(graphs):
        graph |= {"x": index % 3 * _WIDTH, "y": 2 + index // 3 * _HEIGHT}
    return [title, *graphs]


def _heading(plan: Plan) -> str:
    described = plan.description
    return f"## ${{EndpointName}}\n{described['Model']} · {', '.join(described['Techniques'])} · {plan.instance_type}"


def _graph(title: str, variant_name: str, namespace: str, metrics: list[tuple[str, str]]) -> dict[str, Any]:
    dimensions = ["EndpointName", "${EndpointName}", "VariantName", variant_name]
    return {
        "type": "metric",
        "width": _WIDTH,
        "height": _HEIGHT,
        "properties": {
            "title": title,
            "view": "timeSeries",
            "region": "${AWS::Region}",
            "period": 60,
            "metrics": [
                [namespace, name, *dimensions, {"stat": stat, "label": f"{name} {stat}"}] for name, stat in metrics
            ],
            "yAxis": {"left": {"min": 0}},
        },
    }
