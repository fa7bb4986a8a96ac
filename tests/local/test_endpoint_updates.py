"""Updates of endpoints: blue/green and rolling, watched by alarms, and rolled back."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.in_process import InProcessCloud

from ..support.endpoint_updates import AT_ONCE, baking, blue_green, make_alarm, serving, stage, trip, update, watching
from ..support.hosting import settled
from ..support.waiting import until

CANARY = {"Type": "CANARY", "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1}, "WaitIntervalInSeconds": 300}
LINEAR = {"Type": "LINEAR", "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 50}, "WaitIntervalInSeconds": 200}


@pytest.fixture
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


@pytest.fixture
def cloudwatch(in_process: InProcessCloud) -> Any:
    return in_process.client("cloudwatch")


def rolling(batch: int = 1, *, wait: int = 200, alarms: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    size = {"Type": "INSTANCE_COUNT", "Value": batch}
    return {
        "RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait, **more},
        **watching(alarms),
    }


def ended(sagemaker: Any, name: str) -> dict[str, Any]:
    """The endpoint once its update has succeeded or failed."""
    return until(
        lambda: sagemaker.describe_endpoint(EndpointName=name),
        lambda endpoint: endpoint["EndpointStatus"] not in ("Updating", "RollingBack"),
    )


def stages(in_process: InProcessCloud, name: str) -> list[tuple[str, int, int]]:
    """The stages of its last update: status, instances of the new fleet, instances of the old fleet."""
    history = in_process.deployments(f"endpoint/{name}")[-1]["history"]
    return [(stage["status"], stage["new"]["AllTraffic"], stage["old"]["AllTraffic"]) for stage in history]


def test_a_canary_bakes_before_the_remaining_traffic_shifts(in_process: InProcessCloud, sagemaker: Any) -> None:
    serving(sagemaker, "canary")
    update(sagemaker, "canary", blue_green({**CANARY, "WaitIntervalInSeconds": 2000}))
    canary = baking(sagemaker, "canary")
    assert stage(canary) == ("Updating", "Baking", 1, 3)
    summary = canary["PendingDeploymentSummary"]
    assert summary["EndpointConfigName"] == "canary-2"
    assert summary["ProductionVariants"][0]["VariantStatus"][0]["StatusMessage"] == (
        "Baking for 2000 seconds (WaitIntervalInSeconds) with traffic enabled on canary capacity of 1 instance(s)."
    )
    assert canary["EndpointConfigName"] == "canary"
    done = ended(sagemaker, "canary")
    assert done["EndpointConfigName"] == "canary-2"
    assert "PendingDeploymentSummary" not in done
    assert stages(in_process, "canary") == [
        ("Creating", 0, 3),
        ("ActivatingTraffic", 1, 3),
        ("Baking", 1, 3),
        ("ActivatingTraffic", 3, 3),
        ("Baking", 3, 3),
        ("Deleting", 3, 3),
    ]


def test_linear_traffic_shifting_moves_in_equal_steps(in_process: InProcessCloud, sagemaker: Any) -> None:
    serving(sagemaker, "linear", count=4)
    update(sagemaker, "linear", blue_green(LINEAR, termination=200))
    ended(sagemaker, "linear")
    assert [counts for status, *counts in stages(in_process, "linear") if status == "Baking"] == [[2, 4], [4, 4]]


def test_a_rolling_update_replaces_instances_batch_by_batch(in_process: InProcessCloud, sagemaker: Any) -> None:
    serving(sagemaker, "rolling", count=4)
    update(sagemaker, "rolling", rolling(2))
    assert ended(sagemaker, "rolling")["EndpointConfigName"] == "rolling-2"
    seen = stages(in_process, "rolling")
    assert [counts for status, *counts in seen if status == "Baking"] == [[2, 4], [4, 2]]
    assert all(new + old <= 6 for _, new, old in seen)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("at-once-trips", blue_green(AT_ONCE, alarms=("at-once-trips",), termination=3000)),
        ("canary-trips", blue_green({**CANARY, "WaitIntervalInSeconds": 3000}, alarms=("canary-trips",))),
        ("rolling-trips", rolling(1, wait=3000, alarms=("rolling-trips",))),
    ],
)
def test_an_alarm_during_baking_rolls_the_deployment_back(
    in_process: InProcessCloud, sagemaker: Any, cloudwatch: Any, name: str, config: dict[str, Any]
) -> None:
    make_alarm(cloudwatch, name)
    serving(sagemaker, name)
    update(sagemaker, name, config)
    baking(sagemaker, name)
    trip(cloudwatch, name)
    endpoint = ended(sagemaker, name)
    assert (endpoint["EndpointStatus"], endpoint["EndpointConfigName"]) == ("InService", name)
    assert endpoint["FailureReason"] == f"The alarm {name} went into ALARM while the deployment was baking."
    assert endpoint["ProductionVariants"][0]["CurrentInstanceCount"] == 3
    deployment = in_process.deployments(f"endpoint/{name}")[-1]
    assert deployment["outcome"] == "rolled back"
    assert [stage["rolling_back"] for stage in deployment["history"]][-1]


def test_a_rollback_of_a_rolling_update_restores_the_old_instances_in_rollback_batches(
    in_process: InProcessCloud, sagemaker: Any, cloudwatch: Any
) -> None:
    make_alarm(cloudwatch, "halfway")
    serving(sagemaker, "halfway", count=4)
    back = {"Type": "INSTANCE_COUNT", "Value": 1}
    # The second batch of two bakes when the alarm trips: two old instances are gone by then.
    update(sagemaker, "halfway", rolling(2, wait=1500, alarms=("halfway",), RollbackMaximumBatchSize=back))
    until(lambda: stages(in_process, "halfway")[-1], lambda last: last == ("Baking", 4, 2))
    trip(cloudwatch, "halfway")
    assert ended(sagemaker, "halfway")["ProductionVariants"][0]["CurrentInstanceCount"] == 4
    history = in_process.deployments("endpoint/halfway")[-1]["history"]
    back = [(s["status"], s["new"]["AllTraffic"], s["old"]["AllTraffic"]) for s in history if s["rolling_back"]]
    assert back == [("Creating", 4, 2), ("Creating", 3, 3), ("Deleting", 0, 4)]


def test_an_alarm_that_recovered_during_baking_still_rolls_the_deployment_back(sagemaker: Any, cloudwatch: Any) -> None:
    make_alarm(cloudwatch, "blip")
    serving(sagemaker, "blip")
    update(sagemaker, "blip", blue_green(AT_ONCE, alarms=("blip",), termination=600))
    baking(sagemaker, "blip")
    trip(cloudwatch, "blip")
    trip(cloudwatch, "blip", "OK")
    assert settled(sagemaker, "blip")["EndpointConfigName"] == "blip"


def test_an_alarm_without_data_does_not_roll_a_deployment_back(sagemaker: Any, cloudwatch: Any) -> None:
    make_alarm(cloudwatch, "silent")
    serving(sagemaker, "silent")
    update(sagemaker, "silent", blue_green(AT_ONCE, alarms=("silent",)))
    endpoint = settled(sagemaker, "silent")
    assert endpoint["EndpointConfigName"] == "silent-2"
    assert "FailureReason" not in endpoint


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (blue_green({**CANARY, "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 2}}), "less than or equal to 50%"),
        (blue_green({**CANARY, "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 51}}), "less than or equal to 50%"),
        (blue_green({**LINEAR, "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 9}}), "between 10% and 50%"),
        (blue_green({"Type": "LINEAR", "WaitIntervalInSeconds": 0}), "LinearStepSize is required"),
        (rolling(2), "between 5% and 50%"),
        ({**blue_green(AT_ONCE), **rolling(1)}, "Only one update policy"),
        (blue_green(AT_ONCE, alarms=("no-such-alarm",)), "Could not find the CloudWatch alarm no-such-alarm"),
        (blue_green(AT_ONCE, alarms=tuple(f"alarm-{n}" for n in range(11))), "less than or equal to 10"),
        (rolling(1, MaximumExecutionTimeoutInSeconds=599), "600"),
    ],
)
def test_an_invalid_deployment_configuration_is_refused(
    in_process: InProcessCloud, config: dict[str, Any], said: str
) -> None:
    client = in_process.client("sagemaker", parameter_validation=False)
    if not any(endpoint["EndpointName"] == "strict" for endpoint in client.list_endpoints()["Endpoints"]):
        serving(client, "strict")
    with pytest.raises(ClientError, match=said) as caught:
        update(client, "strict", config)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert client.describe_endpoint(EndpointName="strict")["EndpointStatus"] == "InService"


def test_a_retained_deployment_configuration_from_creation_is_reused(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    serving(sagemaker, "retained", DeploymentConfig=rolling(1))
    update(sagemaker, "retained", {}, RetainDeploymentConfig=True)
    ended(sagemaker, "retained")
    assert ("Baking", 1, 3) in stages(in_process, "retained")
    assert sagemaker.describe_endpoint(EndpointName="retained")["LastDeploymentConfig"] == rolling(1)


def test_an_excluded_variant_property_is_not_retained(sagemaker: Any) -> None:
    serving(sagemaker, "excluded", count=1)
    desired = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 5, "DesiredWeight": 0.5}]
    sagemaker.update_endpoint_weights_and_capacities(EndpointName="excluded", DesiredWeightsAndCapacities=desired)
    settled(sagemaker, "excluded")
    excluded = [{"VariantPropertyType": "DesiredInstanceCount"}]
    update(sagemaker, "excluded", {}, RetainAllVariantProperties=True, ExcludeRetainedVariantProperties=excluded)
    (variant,) = settled(sagemaker, "excluded")["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (1, 0.5)


def test_a_deployment_beyond_its_maximum_execution_timeout_rolls_back(sagemaker: Any) -> None:
    serving(sagemaker, "slow")
    update(sagemaker, "slow", rolling(1, wait=500, MaximumExecutionTimeoutInSeconds=600))
    endpoint = settled(sagemaker, "slow")
    assert endpoint["EndpointConfigName"] == "slow"
    assert "MaximumExecutionTimeoutInSeconds" in endpoint["FailureReason"]


def test_failures_of_an_update_and_of_its_rollback_can_be_injected(in_process: InProcessCloud, sagemaker: Any) -> None:
    serving(sagemaker, "doomed")
    in_process.inject("update_fails", count=1, reason="The container crashed.")
    update(sagemaker, "doomed", {})
    endpoint = settled(sagemaker, "doomed")
    assert (endpoint["EndpointConfigName"], endpoint["FailureReason"]) == ("doomed", "The container crashed.")
    in_process.inject("update_fails", count=1)
    in_process.inject("rollback_fails", count=1, reason="Nothing is left.")
    update(sagemaker, "doomed", rolling(1))
    last = ended(sagemaker, "doomed")
    assert last["EndpointStatus"] == "UpdateRollbackFailed"
    assert last["FailureReason"].endswith("ping health check. Nothing is left.")
    # An update is the way out.
    update(sagemaker, "doomed", {})
    done = ended(sagemaker, "doomed")
    assert (done["EndpointStatus"], done["EndpointConfigName"]) == ("InService", "doomed-2")
    assert "FailureReason" not in done


def test_an_updating_endpoint_cannot_be_updated_scaled_or_deleted(sagemaker: Any) -> None:
    serving(sagemaker, "busy")
    update(sagemaker, "busy", blue_green(AT_ONCE, termination=3000))
    for operation, more in (
        ("update_endpoint", {"EndpointConfigName": "busy"}),
        ("update_endpoint_weights_and_capacities", {"DesiredWeightsAndCapacities": [{"VariantName": "AllTraffic"}]}),
        ("delete_endpoint", {}),
    ):
        with pytest.raises(ClientError, match="in-progress"):
            getattr(sagemaker, operation)(EndpointName="busy", **more)


def test_an_update_needs_the_previous_endpoint_configuration_to_exist(sagemaker: Any) -> None:
    serving(sagemaker, "rootless")
    sagemaker.delete_endpoint_config(EndpointConfigName="rootless")
    with pytest.raises(ClientError, match=r'Could not find endpoint configuration ".*rootless"'):
        update(sagemaker, "rootless", {})


def test_the_start_time_of_a_pending_deployment_is_described(in_process: InProcessCloud, sagemaker: Any) -> None:
    serving(sagemaker, "dated")
    update(sagemaker, "dated", {})
    summary = sagemaker.describe_endpoint(EndpointName="dated")["PendingDeploymentSummary"]
    # The protocol has times in milliseconds.
    assert abs(summary["StartTime"] - in_process.clock.now()) < dt.timedelta(milliseconds=1)
    assert summary["ProductionVariants"][0]["InstanceType"] == "ml.g5.12xlarge"
