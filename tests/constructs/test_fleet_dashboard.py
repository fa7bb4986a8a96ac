from __future__ import annotations

import pytest
from aws_cdk import App, Environment, Stack

from constructs_optim import FleetDashboard, FleetEndpoint, ServedModel

from ..support.construct_stacks import ENVIRONMENT, template_of
from ..support.monitored_endpoint import Endpoint
from .dashboards import bodies, expressions, graphs, overlapping, series, texts, titled

CHAT = ServedModel("chat", "AllTraffic", instance_type="ml.g5.12xlarge")
SHARDED = ServedModel("shared", "AllTraffic", "sharded", instance_type="ml.g5.12xlarge")
NEURON = ServedModel("neuron", "AllTraffic", instance_type="ml.inf2.48xlarge")


def fleet(**overrides: object) -> Stack:
    scope = Stack(App(), "Fleet", env=ENVIRONMENT)
    labeled = [FleetEndpoint(served.endpoint_name, served) for served in (CHAT, SHARDED, NEURON)]
    FleetDashboard(scope, "Dashboard", **{"endpoints": labeled, **overrides})  # type: ignore[arg-type]
    return scope


def test_a_fleet_dashboard_has_a_row_per_endpoint_and_totals() -> None:
    ((body, _),) = bodies(template_of(fleet()))
    assert not overlapping(body)
    for number, title in enumerate(("### chat", "### shared", "### neuron"), 1):
        (name,) = [text for text in texts(body) if text.startswith(title)]
        row = next(widget["y"] for widget in body["widgets"] if widget["properties"].get("markdown") == name)
        assert len([widget for widget in body["widgets"] if widget["y"] == row]) == 6, number
    total = next(graph for graph in graphs(body) if graph["title"] == "Invocations" and graph["stacked"])
    assert [row[-1]["label"] for row in total["metrics"]] == ["chat", "shared", "neuron"]


def test_a_fleet_row_shows_only_metrics_that_its_endpoint_publishes() -> None:
    ((body, _),) = bodies(template_of(fleet()))
    shown = [row for graph in graphs(body) for row in series(graph)]
    assert ["AWS/SageMaker", "ConcurrentRequestsPerCopy", "InferenceComponentName", "sharded"] in shown
    assert not [row for row in shown if "neuron" in row and row[1].startswith("GPU")]
    assert titled(body, "CPU utilization")


def test_fleet_costs_include_only_endpoints_with_a_price() -> None:
    priced = FleetEndpoint("chat", CHAT, instance_price_per_hour=7.09)
    ((body, _),) = bodies(template_of(fleet(endpoints=[priced, FleetEndpoint("neuron", NEURON)], discount=0.1)))
    assert expressions(titled(body, "Cost per hour")) == [
        "((1 - 0.1) * 7.09) * instance_reports_1 * 60 / PERIOD(instance_reports_1)"
    ]


def test_a_fleet_dashboard_imports_endpoint_names_from_another_stack() -> None:
    app = App()
    there, here = Stack(app, "Chat", env=ENVIRONMENT), Stack(app, "Fleet", env=ENVIRONMENT)
    from ..support.construct_stacks import endpoint

    FleetDashboard(here, "Dashboard", endpoints=[endpoint(there)])
    ((_, variables),) = bodies(template_of(here))
    assert "Fn::ImportValue" in variables["EndpointName1"]


def test_metrics_of_fleet_endpoints_use_their_own_account_and_region() -> None:
    app = App()
    here = Stack(app, "Fleet", env=ENVIRONMENT)
    there = Stack(app, "Chat", env=Environment(account="444455556666", region="eu-west-1"))
    created = FleetDashboard(here, "Dashboard").add_endpoint(Endpoint(there, "Chat", CHAT), label="Chat")
    assert created.widgets["endpoint_1_latency"].properties["accountId"] == "444455556666"
    ((body, _),) = bodies(template_of(here))
    regions = {graph["region"] for graph in graphs(body)}
    assert regions == {"${AWS::Region}", "eu-west-1"}
    total = next(graph for graph in graphs(body) if graph["stacked"] and graph["title"] == "Invocations")
    assert total["metrics"][0][-1]["region"] == "eu-west-1"
    assert total["metrics"][0][-1]["accountId"] == "444455556666"


def test_an_endpoint_in_another_region_without_an_explicit_name_is_refused() -> None:
    from ..support.construct_stacks import endpoint

    app = App()
    here = Stack(app, "Fleet", env=ENVIRONMENT)
    there = Stack(app, "Chat", env=Environment(account="111122223333", region="us-east-1"))
    with pytest.raises(ValueError, match="set endpoint_name"):
        FleetDashboard(here, "Dashboard", endpoints=[endpoint(there)])


def test_a_fleet_beyond_the_cloudwatch_widget_limit_is_refused() -> None:
    many = [FleetEndpoint(f"chat-{number}", CHAT) for number in range(90)]
    with pytest.raises(ValueError, match="CloudWatch allows 500"):
        fleet(endpoints=many)


def test_an_empty_fleet_dashboard_explains_how_to_add_endpoints() -> None:
    ((body, _),) = bodies(template_of(fleet(endpoints=[])))
    assert texts(body) == ["No endpoints: add some with `add_endpoint(...)`."]


def test_a_fleet_member_that_is_not_an_endpoint_is_refused() -> None:
    with pytest.raises(TypeError, match="is not an endpoint"):
        fleet(endpoints=["chat"])
