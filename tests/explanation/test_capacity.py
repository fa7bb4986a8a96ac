"""How many instances there may be, what they cost, and how an endpoint moves over."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.explanation.endpoints import (
    Endpoint,
    capacities,
    describe_capacity,
    describe_update,
    monthly_cost,
)
from constructs_optim.explanation.formatting import duration, money
from constructs_optim.explanation.report import Capacity

from ..support.handwritten_templates import chat, resource, scaled, serving, template, tracking


def endpoint(**resources: Any) -> Endpoint:
    made = template(**resources)
    return Endpoint(made, made.resources["Endpoint"])


def variant(**properties: Any) -> Endpoint:
    return endpoint(**serving(**properties))


def test_an_endpoint_without_scaling_has_its_initial_instance_count() -> None:
    (found,) = capacities(variant(InitialInstanceCount="3"))
    assert ((found.least, found.most), describe_capacity(found)) == (
        (3, 3),
        "3 instances of ml.g5.12xlarge (not scaled)",
    )


def test_scaling_sets_the_range_of_instances() -> None:
    (found,) = capacities(endpoint(**chat(Target=scaled(0, 4))))
    assert describe_capacity(found) == "0 to 4 instances of ml.g5.12xlarge (scaling)"


@pytest.mark.parametrize(("least", "initial", "stays"), [(0, 1, 1), (1, 3, 3), (2, 1, 2), (1, 9, 4)])
def test_a_range_without_a_policy_or_schedule_is_one_number_of_instances(least: int, initial: int, stays: int) -> None:
    resources = chat(Target=scaled(least, 4), Policy=None)
    (variant,) = resources["Config"]["Properties"]["ProductionVariants"]
    variant["InitialInstanceCount"] = initial
    (found,) = capacities(endpoint(**resources))
    assert (found.least, found.most) == (stays, stays)
    instances = "1 instance" if stays == 1 else f"{stays} instances"
    described = f"{instances} of ml.g5.12xlarge (range {least} to 4, no policy: stays at {stays})"
    assert describe_capacity(found) == described


def test_a_range_without_a_policy_that_is_known_only_at_deployment_is_reported_as_such() -> None:
    (found,) = capacities(endpoint(**chat(Target=scaled(1, {"Ref": "Most"}), Policy=None)))
    assert (found.least, found.most, found.reason) == (1, None, "no policy")


def test_a_policy_by_the_name_of_the_resource_scales_it() -> None:
    policy = tracking(8)
    target = scaled(1, 4)
    policy["Properties"]["ResourceId"] = target["Properties"]["ResourceId"]
    del policy["Properties"]["ScalingTargetId"]
    (found,) = capacities(endpoint(**chat(Target=target, Policy=policy)))
    assert (found.least, found.most, found.reason) == (1, 4, "scaling")


def test_scheduled_actions_widen_the_range_and_are_named() -> None:
    actions = [
        {"ScheduledActionName": "Night", "ScalableTargetAction": {"MinCapacity": 0, "MaxCapacity": 1}},
        {"ScheduledActionName": "Rush", "ScalableTargetAction": {"MaxCapacity": 9}},
    ]
    (found,) = capacities(endpoint(**chat(Target=scaled(2, 4, ScheduledActions=actions))))
    assert describe_capacity(found) == "0 to 9 instances of ml.g5.12xlarge (scaling, with the schedules Night, Rush)"


def test_instances_of_components_are_in_the_managed_range() -> None:
    managed = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 2}
    (found,) = capacities(variant(ManagedInstanceScaling=managed))
    assert (found.least, found.most) == (0, 2)


def test_a_capacity_known_only_at_deployment_is_reported_as_such() -> None:
    (found,) = capacities(endpoint(**chat(Target=scaled(1, {"Ref": "Most"}))))
    assert (found.least, found.most) == (1, None)
    assert describe_capacity(found).startswith("1 to a number known at deployment instances")
    assert monthly_cost([found], {"ml.g5.12xlarge": 1.0}).most is None


def test_a_month_has_730_hours() -> None:
    cost = monthly_cost(
        [Capacity(instance_types=("ml.g5.12xlarge",), least=1, most=4, reason="scaling")], {"ml.g5.12xlarge": 7.09}
    )
    assert (round(cost.least or 0, 2), round(cost.most or 0, 2)) == (5175.7, 20702.8)


def test_instance_pools_cost_between_the_cheapest_and_the_dearest_type() -> None:
    pools = [{"InstanceType": "ml.p5.48xlarge", "Priority": 1}, {"InstanceType": "ml.g5.12xlarge", "Priority": 2}]
    (found,) = capacities(variant(InstancePools=pools, InstanceType=None, InitialInstanceCount=2))
    assert found.instance_types == ("ml.p5.48xlarge", "ml.g5.12xlarge")
    cost = monthly_cost([found], {"ml.p5.48xlarge": 60.0, "ml.g5.12xlarge": 7.0})
    assert (cost.least, cost.most) == (2 * 7 * 730, 2 * 60 * 730)


def test_an_instance_type_without_a_price_leaves_the_cost_unknown() -> None:
    cost = monthly_cost(
        [Capacity(instance_types=("ml.p5.48xlarge", "ml.g5.12xlarge"), least=1, most=2, reason="scaling")],
        {"ml.g5.12xlarge": 7.0},
    )
    assert (cost.least, cost.most, cost.unpriced) == (None, None, ("ml.p5.48xlarge",))


def test_zero_instances_cost_nothing_even_without_a_price() -> None:
    assert (
        monthly_cost([Capacity(instance_types=("ml.g5.12xlarge",), least=0, most=2, reason="scaling")], {}).least == 0
    )


@pytest.mark.parametrize(("dollars", "said"), [(0, "$0"), (7.09, "$7.09"), (70.9, "$70.90"), (5175.7, "$5,176")])
def test_amounts_show_cents_only_where_they_matter(dollars: float, said: str) -> None:
    assert money(dollars) == said


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (4320, "1 h 12 min"), (36_000, "10 h"), (432_000, "5 d")])
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


CAPACITY = {"Type": "CAPACITY_PERCENT", "Value": 25}
ALARMS = {"Alarms": [{"AlarmName": {"Ref": "Errors"}}, {"AlarmName": "latency"}]}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            {"RollingUpdatePolicy": {"MaximumBatchSize": CAPACITY, "WaitIntervalInSeconds": 600}},
            "rolling, 25% at a time, 10 min between steps",
        ),
        (
            {"RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1}}},
            "rolling, 1 instance at a time",
        ),
        (
            {
                "BlueGreenUpdatePolicy": {
                    "TerminationWaitInSeconds": 600,
                    "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0},
                }
            },
            "blue/green, a second fleet takes over at once; the old fleet stays for 10 min after that",
        ),
        (
            {
                "BlueGreenUpdatePolicy": {
                    "TrafficRoutingConfiguration": {
                        "Type": "CANARY",
                        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
                        "WaitIntervalInSeconds": 90,
                    }
                }
            },
            "blue/green, a second fleet takes 50% first, 90 s between steps",
        ),
        (
            {
                "BlueGreenUpdatePolicy": {
                    "TrafficRoutingConfiguration": {
                        "Type": "LINEAR",
                        "LinearStepSize": CAPACITY,
                        "WaitIntervalInSeconds": 3600,
                    }
                }
            },
            "blue/green, a second fleet takes over in steps of 25%, 1 h between steps",
        ),
        (None, "blue/green, a second fleet takes over at once"),
    ],
)
def test_the_update_policy_is_described(config: dict[str, Any] | None, text: str) -> None:
    policy = {"DeploymentConfig": {**config, "AutoRollbackConfiguration": ALARMS}} if config is not None else {}
    made = template(
        Errors=resource("AWS::CloudWatch::Alarm", AlarmName="chat-errors"),
        Endpoint=resource("AWS::SageMaker::Endpoint", **policy),
    )
    rollback = "rolled back by chat-errors or latency" if config is not None else "no alarm rolls it back"
    assert describe_update(made, made.resources["Endpoint"]) == f"{text}; {rollback}"
