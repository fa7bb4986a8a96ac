"""Deployments whose job fails, or that are deleted while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.deployments import job_names, wait_for_job
from ..support.waiting import until

MakeStack = Callable[..., DeployedStack]


def test_a_failed_job_rolls_the_stack_back_with_the_services_reason(a_stack: MakeStack, cloud: LocalCloud) -> None:
    reason = "ClientError: the weights have a shape that AWQ cannot group"
    cloud.inject("job_fails", reason=reason)
    stack = a_stack("Failing", ignored_layers=("failing",))
    output = stack.deploy(fails=True)
    assert stack.status == "ROLLBACK_COMPLETE"
    assert reason in stack.reasons
    assert reason in output, "the CLI shows it as well"

    cloud.clear_faults()
    stack.deploy()
    assert stack.endpoint["EndpointStatus"] == "InService", "deploying again runs another attempt"
    # The watcher counts the failed job in its log, in the embedded metric format.
    alarms = cloud.client("cloudwatch")
    (name,) = [name for name in stack.resources["AWS::CloudWatch::Alarm"] if "OptimizationJobAlarm" in name]
    until(
        lambda: alarms.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["StateValue"],
        lambda state: state == "ALARM",
    )


@pytest.mark.exhaustive
def test_a_failed_job_of_an_update_leaves_the_endpoint_as_it_was(a_stack: MakeStack, cloud: LocalCloud) -> None:
    stack = a_stack("Updated")
    stack.deploy()
    before = stack.served_container
    cloud.inject("job_fails", reason="InternalServerError: try again later")
    changed = stack.changed(ignored_layers=("updated",))
    changed.deploy(fails=True)
    assert changed.status == "UPDATE_ROLLBACK_COMPLETE"
    assert "InternalServerError: try again later" in changed.reasons
    assert changed.served_container == before
    assert changed.endpoint["EndpointStatus"] == "InService"


def test_destroying_a_stack_stops_the_job_it_waits_for(a_stack: MakeStack, cloud: LocalCloud) -> None:
    known = job_names(cloud)
    cloud.inject("job_never_finishes")
    stack = a_stack("Abandoned", ignored_layers=("abandoned",))
    deployment = stack.start("deploy", "--require-approval", "never")
    try:
        name = wait_for_job(cloud, known, "INPROGRESS")
        stack.destroy()
        assert wait_for_job(cloud, known, "STOPPED") == name
    finally:
        deployment.communicate(timeout=120)


@pytest.mark.exhaustive
def test_a_job_that_another_stack_waits_for_survives_the_end_of_the_first(
    a_stack: MakeStack, cloud: LocalCloud
) -> None:
    known = job_names(cloud)
    cloud.inject("job_never_finishes")
    first, second = (
        a_stack("FirstOfTwo", ignored_layers=("shared",)),
        a_stack("SecondOfTwo", ignored_layers=("shared",)),
    )
    deployments = [first.start("deploy", "--require-approval", "never")]
    name = wait_for_job(cloud, known, "INPROGRESS")
    deployments.append(second.start("deploy", "--require-approval", "never"))
    try:
        second_waits(second)
        first.destroy()
        cloud.clear_faults()
        assert wait_for_job(cloud, known, "COMPLETED") == name
    finally:
        outputs = [deployment.communicate(timeout=200)[0] for deployment in deployments]
    assert deployments[1].returncode == 0, outputs[1]
    assert second.manifest(second.artifact_key)["job_name"] == name


def second_waits(stack: DeployedStack) -> None:
    """Until the stack's own custom resource has answered, so that it has joined the claim."""

    def joined() -> bool:
        try:
            return "Custom::OptimizationJob" in stack.resources and bool(stack.artifact_key)
        except (ClientError, KeyError, ValueError):
            return False

    until(joined, bool, 120)
