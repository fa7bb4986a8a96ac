"""``Custom::VariantScaling`` and ``Custom::ServedConfiguration`` against the local cloud's endpoints and scaling.

The tests play the parts of CloudFormation and of the state machine; ``tests/e2e/test_changes.py`` has all parts.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime import variant_scaling
from constructs_optim.runtime.handlers import scaling_handler, scaling_watcher, serving_handler
from constructs_optim.runtime.hosting import scaling_registration
from constructs_optim.runtime.requests.hosting_properties import Registration
from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack, hosting
from ..support.custom_resource_events import custom_resource_event
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, ROLE, Responses
from ..support.sampling import one_in
from ..support.scaled_variants import variant
from ..support.waiting import until
from ..support.watchers import later

G5, G6 = "ml.g5.12xlarge", "ml.g6.12xlarge"
_WAITING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}
TARGET = {
    "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
    "Properties": {
        "ServiceNamespace": "sagemaker",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ResourceId": {"Fn::Sub": "endpoint/${Endpoint.EndpointName}/variant/AllTraffic"},
        "MinCapacity": 1,
        "MaxCapacity": 4,
    },
}


class Scaled:
    """An endpoint of a stack, whose variant is registered with a policy and a schedule that are not the stack's."""

    def __init__(self, cloud: LocalCloud, responses: Responses) -> None:
        self.cloud, self.responses, self.sagemaker = cloud, responses, cloud.client("sagemaker")
        self.scaling = cloud.client("application-autoscaling")
        self.stack = Stack(cloud, f"scaled-{uuid.uuid4().hex[:8]}")
        assert self.stack.deploy({**hosting(), "Scaling": TARGET}) == "CREATE_COMPLETE", self.stack.reasons()
        # An ARN has a name's letters in lower case.
        self.name = self.stack.physical_id("Scaling").split("/")[1]
        self.stack_id = self.stack.cloudformation.describe_stacks(StackName=self.stack.name)["Stacks"][0]["StackId"]
        self.machine = cloud.client("stepfunctions").create_state_machine(
            name=self.stack.name, definition=json.dumps(_WAITING), roleArn=ROLE
        )["stateMachineArn"]
        self.key = variant(self.name)
        (target,) = self.scaling.describe_scalable_targets(
            ServiceNamespace="sagemaker", ResourceIds=[self.key["ResourceId"]]
        )["ScalableTargets"]
        self.scaling.tag_resource(ResourceARN=target["ScalableTargetARN"], Tags={"team": "chat"})
        self.scaling.put_scaling_policy(
            **self.key,
            PolicyName="ByHand",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": 8.0,
                "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
            },
        )
        self.scaling.put_scheduled_action(
            **self.key,
            ScheduledActionName="Mornings",
            Schedule="cron(0 7 ? * MON-FRI *)",
            ScalableTargetAction={"MinCapacity": 2},
        )

    def send(self, kind: str, now: str, before: str | None = None, **more: Any) -> dict[str, Any]:
        """The response to a request of CloudFormation's."""
        of_endpoint = {"EndpointName": self.name, "VariantName": "AllTraffic", "Bucket": BUCKET}
        former = more.pop("FormerTarget", more.get("Target"))
        properties = {"StateMachineArn": self.machine, **of_endpoint, **more}
        event = custom_resource_event(
            kind,
            self.responses.url,
            stack_id=self.stack_id,
            request_id=str(uuid.uuid4()),
            logical_id="ScalingSuspended",
            properties={**properties, "InstanceTypes": [now]},
            old_properties={**properties, "InstanceTypes": [before], "Target": former} if before else None,
        )
        of = serving_handler if "PoliciesHash" in more else scaling_handler
        for each in ("ResourceProperties", "OldResourceProperties"):
            if each in event and of is serving_handler:
                config = self.sagemaker.describe_endpoint(EndpointName=self.name)["EndpointConfigName"]
                event[each]["EndpointConfigName"] = config
        of.handler(event, LambdaContext())
        return self.responses.received[-1]

    def poll(self, **more: Any) -> dict[str, object]:
        """The output of the watcher's next poll."""
        watch = {"StackId": self.stack_id, "EndpointName": self.name, "Bucket": BUCKET}
        return scaling_watcher.handler({**watch, **more}, LambdaContext())

    @property
    def watches(self) -> list[dict[str, Any]]:
        """The inputs of the executions."""
        states = self.cloud.client("stepfunctions")
        found = states.list_executions(stateMachineArn=self.machine)["executions"]
        return [json.loads(states.describe_execution(executionArn=each["executionArn"])["input"]) for each in found]

    @property
    def record(self) -> str:
        """The name of the record of suspended scaling."""
        return f"scaling/000000000000/us-west-2/{self.name}.json"

    @property
    def is_suspended(self) -> bool:
        """Whether the store has a registration to restore."""
        body = self.cloud.client("s3").get_object(Bucket=BUCKET, Key=self.record)["Body"].read()
        return bool(json.loads(body)["registrations"])

    def move_to(self, instance_type: str) -> None:
        """Update the endpoint to another instance type."""
        before = self.sagemaker.describe_endpoint(EndpointName=self.name)["EndpointConfigName"]
        (shown,) = self.sagemaker.describe_endpoint_config(EndpointConfigName=before)["ProductionVariants"]
        config = f"{self.stack.name}-{uuid.uuid4().hex[:8]}"
        moved = {**shown, "InstanceType": instance_type}
        self.sagemaker.create_endpoint_config(EndpointConfigName=config, ProductionVariants=[moved])
        self.sagemaker.update_endpoint(EndpointName=self.name, EndpointConfigName=config)
        until(
            lambda: self.sagemaker.describe_endpoint(EndpointName=self.name)["EndpointStatus"],
            lambda status: status == "InService",
        )

    @property
    def registered(self) -> tuple[int, int, list[str], list[str]] | None:
        """The range, the policies and the schedules."""
        of = {"ServiceNamespace": "sagemaker", "ResourceIds": [self.key["ResourceId"]]}
        targets = self.scaling.describe_scalable_targets(**of)["ScalableTargets"]
        policies = self.scaling.describe_scaling_policies(**self.key)["ScalingPolicies"]
        actions = self.scaling.describe_scheduled_actions(**self.key)["ScheduledActions"]
        if not targets:
            return None
        (target,) = targets
        return (
            target["MinCapacity"],
            target["MaxCapacity"],
            [policy["PolicyName"] for policy in policies],
            [action["ScheduledActionName"] for action in actions],
        )


ALL = (1, 4, ["ByHand"], ["Mornings"])


@pytest.fixture
def made(cloud: LocalCloud, responses: Responses) -> Iterator[Scaled]:
    found = Scaled(cloud, responses)
    yield found
    cloud.client("stepfunctions").delete_state_machine(stateMachineArn=found.machine)
    found.stack.delete()


def test_what_is_registered_makes_way_for_another_type_and_comes_back(made: Scaled) -> None:
    assert made.send("Update", G6, G5)["Status"] == "SUCCESS"
    assert made.registered is None
    # An event may be delivered twice, and an operation that was given up be followed by another.
    assert made.send("Update", G6, G5)["Status"] == "SUCCESS"
    made.move_to(G6)
    resumed = made.send("Update", G6, G5, PoliciesHash="0" * 64)
    assert (resumed["Status"], resumed["Data"]) == ("SUCCESS", {"PolicyEnding": ""}), "the stack has no policies"
    assert made.registered == ALL
    target = made.scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[made.key["ResourceId"]])[
        "ScalableTargets"
    ][0]
    tags = made.scaling.list_tags_for_resource(ResourceARN=target["ScalableTargetARN"])["Tags"]
    assert tags == {"team": "chat"}
    # The stack is settled, and the endpoint serves otherwise than before: nothing is left to do.
    assert made.poll() == {"Done": True}


def test_what_no_request_puts_back_the_watcher_does(made: Scaled) -> None:
    made.send("Update", G6, G5)
    assert made.poll() == {"Done": True}
    assert made.registered == ALL


@pytest.mark.parametrize("status", one_in(2, ["UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"]))
@pytest.mark.parametrize("polled", [1, 2], ids=["before_it_is_put_back", "after"])
def test_nothing_is_put_back_while_the_next_operation_begins(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, status: str | None, polled: int
) -> None:
    made.send("Update", G6, G5)
    settled = ["UPDATE_ROLLBACK_COMPLETE"] * polled
    seen = iter([*settled, status])
    with monkeypatch.context() as patched:
        patched.setattr(scaling_watcher, "stack_status", lambda stack_id: next(seen))
        output = made.poll()
    assert made.registered is None
    assert not list(seen)
    assert output == later(5)
    made.poll()
    assert made.registered == ALL


def test_scaling_that_a_later_deployment_removed_is_not_restored(made: Scaled) -> None:
    made.send("Update", G6, G5)
    made.move_to(G6)
    assert made.stack.deploy(hosting()) == "UPDATE_COMPLETE", made.stack.reasons()
    # The deployment that adds the scaling again creates its target itself.
    assert made.send("Update", G6, G6, PoliciesHash="0" * 64)["Status"] == "SUCCESS"
    assert made.registered is None
    assert made.poll() == {"Done": True}
    assert (made.registered, made.is_suspended) == (None, False)


@pytest.mark.parametrize("serves", [G5, G6])
@pytest.mark.parametrize("status", one_in(2, ["UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"]))
def test_the_watcher_registers_no_variant_whose_scaling_the_stack_removed(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, status: str, serves: str
) -> None:
    made.send("Update", G6, G5)
    assert made.stack.deploy(hosting()) == "UPDATE_COMPLETE", made.stack.reasons()
    if serves != G5:
        made.move_to(serves)
    monkeypatch.setattr(scaling_watcher, "stack_status", lambda stack_id: status)
    assert made.poll() == {"Done": True}
    assert (made.registered, made.is_suspended) == (None, False)


def in_rollback(made: Scaled, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    """The stack has this status from now on, and is rolling back."""
    monkeypatch.setattr(scaling_watcher, "stack_status", lambda stack_id: status)
    monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)


def roll_back(made: Scaled) -> None:
    """CloudFormation sends the former properties of both resources."""
    assert made.send("Update", G5, G6)["Status"] == "SUCCESS"
    assert made.send("Update", G5, G6, PoliciesHash="0" * 64)["Status"] == "SUCCESS"


def test_a_rollback_that_skips_the_endpoint_leaves_it_scaled(made: Scaled, monkeypatch: pytest.MonkeyPatch) -> None:
    made.send("Update", G6, G5)
    made.move_to(G6)
    # The former type has no capacity, and the endpoint's rollback fails.
    in_rollback(made, monkeypatch, "UPDATE_ROLLBACK_FAILED")
    assert made.poll() == later(5)
    assert made.registered is None, "the endpoint's rollback may be tried again, and SageMaker would refuse it"
    roll_back(made)
    # aws cloudformation continue-update-rollback --resources-to-skip Endpoint
    in_rollback(made, monkeypatch, "UPDATE_ROLLBACK_COMPLETE")
    assert made.poll() == {"Done": True}
    assert (made.registered, made.is_suspended) == (ALL, False)


def test_a_failed_rollback_is_counted_as_suspended_at_every_poll(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made.send("Update", G6, G5)
    made.move_to(G6)
    in_rollback(made, monkeypatch, "UPDATE_ROLLBACK_FAILED")
    for _ in range(3):
        made.poll()
    told = [record for record in caplog.records if record.message == "scaling suspended"]
    assert len(told) == 3
    assert "UPDATE_ROLLBACK_FAILED" in vars(told[0])["reason"]


def test_a_rollback_that_skips_a_renamed_variant_reports_that_no_variant_matches(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made.send("Update", G6, G5)
    in_rollback(made, monkeypatch, "UPDATE_ROLLBACK_COMPLETE")
    real = scaling_watcher.serving_endpoint

    def renamed(name: str) -> Any:
        endpoint = real(name)
        assert endpoint is not None
        return replace(endpoint, variants={"Main": (G6,)})

    monkeypatch.setattr(scaling_watcher, "serving_endpoint", renamed)
    assert made.poll() == {"Done": True}
    (told,) = [record for record in caplog.records if record.message == "scaling suspended"]
    assert "serves Main instead of the variant AllTraffic" in vars(told)["reason"]


@pytest.mark.parametrize("error", ["ClientError", "Lambda.Unknown"])
def test_polls_that_fail_during_an_update_lose_no_registration(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    made.send("Update", G6, G5)
    with monkeypatch.context() as patched:
        patched.setattr(scaling_watcher, "stack_status", lambda stack_id: "UPDATE_IN_PROGRESS")
        assert made.poll(Error={"Error": error}) == later(5)
    for execution in made.cloud.client("stepfunctions").list_executions(stateMachineArn=made.machine)["executions"]:
        made.cloud.client("stepfunctions").stop_execution(executionArn=execution["executionArn"])
    monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)
    roll_back(made)
    assert made.registered == ALL
    assert len(made.watches) == 3, "each request starts another execution for what is suspended"


def test_the_scaling_of_a_stack_that_is_being_deleted_stays_as_it_is_until_it_is_gone(
    made: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.send("Update", G6, G5)
    with monkeypatch.context() as patched:
        for status in ("DELETE_IN_PROGRESS", "DELETE_FAILED"):
            patched.setattr(scaling_watcher, "stack_status", lambda stack_id, status=status: status)
            assert made.poll() == later(5)
        patched.setattr(scaling_watcher, "stack_status", lambda stack_id: None)
        assert made.poll() == {"Done": True}
    assert made.registered is None


DAMAGED = [b"{", b"[]", b"{}", b'{"schema":99}', b'"x"', b'{"registrations":[{}]}']


@pytest.mark.parametrize("damaged", one_in(3, DAMAGED))
def test_an_unreadable_registration_is_reported_and_fails_no_rollback(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damaged: bytes
) -> None:
    made.send("Update", G6, G5)
    made.cloud.client("s3").put_object(Bucket=BUCKET, Key=made.record, Body=damaged)
    refused = made.send("Update", G6, G5)
    assert (refused["Status"], made.record in refused["Reason"]) == ("FAILED", True)
    assert made.poll() == later(3600)
    assert [record for record in caplog.records if record.message == "scaling suspended"]
    monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)
    roll_back(made)


def test_the_record_of_another_stack_with_the_same_endpoint_name_is_not_used(made: Scaled) -> None:
    made.send("Update", G6, G5)
    made.stack_id = made.stack_id[:-4] + "0000"
    assert made.poll() == {"Done": True}
    assert made.registered is None


def test_an_update_keeps_what_was_not_put_back_yet(made: Scaled) -> None:
    made.send("Update", G6, G5)
    made.scaling.register_scalable_target(**made.key, MinCapacity=1, MaxCapacity=4)
    made.send("Update", G6, G5)
    assert made.registered is None
    assert made.poll() == {"Done": True}
    assert made.registered == ALL


def test_a_request_that_changes_nothing_leaves_scaling_alone(made: Scaled) -> None:
    calls = len(made.cloud.calls())
    for more in ({}, {"PoliciesHash": "0" * 64}):
        assert made.send("Create", G5, **more)["Status"] == "SUCCESS"
    assert made.send("Delete", G5)["Status"] == "SUCCESS"
    changing = ("Register", "Deregister", "Put", "Delete")
    assert not [call for call in made.cloud.calls()[calls:] if call["operation"].startswith(changing)]
    assert made.registered == ALL


# CloudFormation sends numbers as text.
DECLARED = {
    "MinCapacity": "1",
    "MaxCapacity": "6",
    "ScheduledActions": [
        {
            "ScheduledActionName": "Nights",
            "Schedule": "cron(0 22 * * ? *)",
            "Timezone": "Europe/Berlin",
            "ScalableTargetAction": {"MaxCapacity": "2"},
        }
    ],
}


def test_a_variant_that_somebody_deregistered_is_registered_as_the_stack_declares_it(made: Scaled) -> None:
    made.scaling.deregister_scalable_target(**made.key)
    for _ in range(2):
        answer = made.send("Update", G5, G5, PoliciesHash="0" * 64, Target=DECLARED)
        assert answer["Status"] == "SUCCESS", answer["Reason"]
        assert made.registered == (1, 6, [], ["Nights"])
    (schedule,) = made.scaling.describe_scheduled_actions(**made.key)["ScheduledActions"]
    assert (schedule["Timezone"], schedule["ScalableTargetAction"]) == ("Europe/Berlin", {"MaxCapacity": 2})


def test_what_a_deployment_changes_is_left_to_cloudformation(made: Scaled) -> None:
    """If the deployment fails before CloudFormation changes the target, nothing takes back what is registered here."""
    made.scaling.deregister_scalable_target(**made.key)
    former = {"MinCapacity": "1", "MaxCapacity": "4"}
    answer = made.send("Update", G5, G5, PoliciesHash="0" * 64, Target=DECLARED, FormerTarget=former)
    assert answer["Status"] == "SUCCESS", answer["Reason"]
    assert made.registered == (1, 4, [], [])


def test_a_schedule_that_somebody_deleted_comes_back_and_the_rest_stays(made: Scaled) -> None:
    assert made.send("Update", G5, G5, PoliciesHash="0" * 64, Target=DECLARED)["Status"] == "SUCCESS"
    assert made.registered == (1, 4, ["ByHand"], ["Mornings", "Nights"])


def test_a_stack_of_an_earlier_release_does_not_tell_what_to_register(made: Scaled) -> None:
    made.scaling.deregister_scalable_target(**made.key)
    assert made.send("Update", G5, G5, PoliciesHash="0" * 64)["Status"] == "SUCCESS"
    assert made.registered is None


def test_a_rollback_does_not_register_what_was_deregistered_before_it(
    made: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.scaling.deregister_scalable_target(**made.key)
    monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)
    assert made.send("Update", G5, G5, PoliciesHash="0" * 64, Target=DECLARED)["Status"] == "SUCCESS"
    assert made.registered is None


def test_a_creation_that_could_not_be_rolled_back_is_refused(made: Scaled) -> None:
    refused = made.send("Create", G6)
    assert refused["Status"] == "FAILED"
    assert f"is scaled and serves AllTraffic on {G5}" in refused["Reason"]
    assert "Next: deploy once with the current instance type and variant name" in refused["Reason"]
    assert made.registered == ALL


def test_malformed_properties_are_refused_by_name(made: Scaled) -> None:
    refused = made.send("Update", "g5", G5, VariantName="not a name")
    assert refused["Status"] == "FAILED"
    for name in ("InstanceTypes[0]", "VariantName"):
        assert name in refused["Reason"]


def settling(monkeypatch: pytest.MonkeyPatch, module: Any, status: str, **more: Any) -> None:
    """The endpoint has this status for a module from now on."""
    real = module.serving_endpoint

    def changing(name: str) -> Any:
        endpoint = real(name)
        assert endpoint is not None
        return replace(endpoint, described={**endpoint.described, "EndpointStatus": status}, **more)

    monkeypatch.setattr(module, "serving_endpoint", changing)


@pytest.mark.parametrize("status", one_in(2, ["Creating", "Updating", "SystemUpdating", "RollingBack"]))
def test_the_watcher_registers_nothing_while_the_endpoint_changes(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    made.send("Update", G6, G5)
    settling(monkeypatch, scaling_watcher, status)
    assert made.poll() == later(5)
    assert (made.registered, made.is_suspended) == (None, True)


def test_a_request_leaves_a_changing_endpoint_to_an_execution(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made.send("Update", G6, G5)
    with monkeypatch.context() as patched:
        settling(patched, variant_scaling, "Updating", variants={"AllTraffic": (G6,)})
        assert made.send("Update", G6, G5, PoliciesHash="0" * 64)["Status"] == "SUCCESS"
    (told,) = [record for record in caplog.records if record.message == "endpoint is changing"]
    assert vars(told)["status"] == "Updating"
    assert (made.registered, made.is_suspended, len(made.watches)) == (None, True, 2)
    monkeypatch.setattr(variant_scaling, "serving_endpoint", lambda name: None)
    assert made.send("Update", G6, G5, PoliciesHash="0" * 64)["Status"] == "SUCCESS"
    assert [record for record in caplog.records if record.message == "endpoint is changing"] == [told]


def test_a_rollback_suspends_what_no_operation_recorded_and_restores_it(
    made: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)
    assert made.send("Update", G6, G5)["Status"] == "SUCCESS"
    assert (made.registered, made.is_suspended) == (None, True)
    made.move_to(G6)
    assert made.send("Update", G6, G5, PoliciesHash="0" * 64)["Status"] == "SUCCESS"
    assert made.registered == ALL


def put_policy(made: Scaled, name: str) -> str:
    """Create a policy that tracks something else than the one by hand, and return its ARN."""
    metric = {"MetricName": name, "Namespace": "Tests", "Statistic": "Average"}
    return made.scaling.put_scaling_policy(
        **made.key,
        PolicyName=name,
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={"TargetValue": 8.0, "CustomizedMetricSpecification": metric},
    )["PolicyARN"]


@pytest.mark.parametrize("was", ["restored", "restored_after_a_record", "deleted"])
def test_policies_that_cloudformation_knows_otherwise_or_that_are_gone_are_replaced(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, was: str
) -> None:
    if was == "restored_after_a_record":
        made.send("Update", G6, G5)
        made.scaling.register_scalable_target(**made.key, MinCapacity=1, MaxCapacity=3)
    arn = put_policy(made, "Own")
    if was == "deleted":
        made.scaling.delete_scaling_policy(**made.key, PolicyName="Own")
    known = {"Own": arn if was == "deleted" else "arn:of-the-deleted-one"}
    monkeypatch.setattr(variant_scaling, "policies_of_stack", lambda stack_id, resource_id: known)
    before = made.registered
    assert before is not None
    answer = made.send("Update", G5, G5, PoliciesHash="0" * 64)
    assert answer["Status"] == "SUCCESS", answer["Reason"]
    assert re.fullmatch("@[0-9a-f]{8}", answer["Data"]["PolicyEnding"])
    # CloudFormation creates the stack's own policy under another name.
    assert made.registered == (*before[:2], [name for name in before[2] if name != "Own"], before[3])
    assert made.is_suspended, "a rollback restores it from the record"


@pytest.mark.parametrize(
    ("name", "ending"), [("Own", ""), ("Own@1a2b3c4d", "@1a2b3c4d"), ("Own@1a2b3c4d-2", ""), ("Own@1a2b", "")]
)
def test_an_update_keeps_the_ending_that_the_names_of_policies_have(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, name: str, ending: str
) -> None:
    monkeypatch.setattr(variant_scaling, "policies_of_stack", lambda stack_id, resource_id: {name: "arn"})
    answer = made.send("Update", G6, G5)
    assert (answer["Status"], answer["Data"]["PolicyEnding"]) == ("SUCCESS", ending)


def test_a_policy_by_hand_that_the_stack_declares_now_is_left_to_cloudformation(
    made: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.send("Update", G6, G5)
    made.move_to(G6)
    monkeypatch.setattr(variant_scaling, "policies_of_stack", lambda stack_id, resource_id: {"ByHand": "arn"})
    answer = made.send("Update", G6, G5, PoliciesHash="0" * 64)
    assert re.fullmatch("@[0-9a-f]{8}", answer["Data"]["PolicyEnding"])
    assert made.registered == (1, 4, [], ["Mornings"])


def test_a_rollback_removes_the_policies_that_the_operation_added(
    made: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.send("Update", G6, G5)
    made.scaling.register_scalable_target(**made.key, MinCapacity=1, MaxCapacity=3)
    put_policy(made, "Added")
    monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)
    assert made.send("Update", G5, G6, PoliciesHash="0" * 64)["Status"] == "SUCCESS"
    assert made.registered == ALL


def test_a_rollback_keeps_a_range_that_somebody_set_if_it_has_no_other_policies(
    made: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.send("Update", G6, G5)
    made.scaling.register_scalable_target(**made.key, MinCapacity=1, MaxCapacity=3)
    monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)
    assert made.send("Update", G5, G6, PoliciesHash="0" * 64)["Status"] == "SUCCESS"
    assert made.registered == (1, 3, *ALL[2:])


def test_scaling_that_somebody_suspended_is_suspended_when_it_comes_back(made: Scaled) -> None:
    suspended = {
        "DynamicScalingInSuspended": True,
        "DynamicScalingOutSuspended": False,
        "ScheduledScalingSuspended": True,
    }
    made.scaling.register_scalable_target(**made.key, SuspendedState=suspended)
    made.send("Update", G6, G5)
    assert made.registered is None
    assert made.poll() == {"Done": True}
    (target,) = made.scaling.describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=[made.key["ResourceId"]]
    )["ScalableTargets"]
    assert target["SuspendedState"] == suspended


@pytest.mark.parametrize("is_dropped", [True, False])
def test_the_watcher_restores_the_stack_s_own_policies_only_if_the_stack_still_has_them(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, *, is_dropped: bool
) -> None:
    (policy,) = made.scaling.describe_scaling_policies(**made.key)["ScalingPolicies"]
    own = {"ByHand": policy["PolicyARN"]}
    monkeypatch.setattr(variant_scaling, "policies_of_stack", lambda stack_id, resource_id: own)
    made.send("Update", G6, G5)
    assert made.registered is None
    monkeypatch.setattr(scaling_watcher, "policies_of_stack", lambda stack_id, resource_id: {} if is_dropped else own)
    assert made.poll() == {"Done": True}
    assert made.registered == (1, 4, [] if is_dropped else ["ByHand"], ["Mornings"])


@pytest.mark.parametrize(
    ("code", "schedule", "is_over"),
    [
        ("ValidationException", "at(2026-01-01T07:00:00)", True),
        ("ValidationException", "cron(0 7 ? * MON-FRI *)", False),
        ("ConcurrentUpdateException", "at(2026-01-01T07:00:00)", False),
    ],
)
def test_a_schedule_is_left_out_only_if_it_was_to_run_once_and_its_time_is_over(
    code: str, schedule: str, *, is_over: bool
) -> None:
    scaling, action = Mock(), {"ScheduledActionName": "Once", "Schedule": schedule}
    scaling.put_scheduled_action.side_effect = ClientError({"Error": {"Code": code, "Message": "no"}}, "Put")
    if is_over:
        scaling_registration._schedule(scaling, action)
    else:
        with pytest.raises(ClientError, match=code):
            scaling_registration._schedule(scaling, action)
    scaling.put_scheduled_action.assert_called_once_with(**action)


def served(made: Scaled, config_name: str, before: str = "") -> dict[str, Any]:
    event = custom_resource_event(
        "Update",
        made.responses.url,
        stack_id=made.stack_id,
        request_id=str(uuid.uuid4()),
        logical_id="Served",
        properties={"EndpointName": made.name, "EndpointConfigName": config_name},
        physical_id="Served",
        old_properties={"EndpointName": made.name, "EndpointConfigName": before},
    )
    serving_handler.handler(event, LambdaContext())
    return made.responses.received[-1]


def put_alarm(cloudwatch: Any, name: str, action: str) -> None:
    """Create an alarm that calls a scaling policy."""
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        Namespace="Tests",
        MetricName="Errors",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[action],
    )


def test_alarms_of_more_than_a_page_call_the_policies_that_are_there(
    made: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{made.stack.name}-{number:03}" for number in range(60)]
    monkeypatch.setattr(scaling_registration, "_resources", lambda stack_id, resource_type: names)
    (policy,) = made.scaling.describe_scaling_policies(**made.key)["ScalingPolicies"]
    now: str = policy["PolicyARN"]
    service, _, named = now.partition(":resource/")
    before = f"{service.rpartition(':')[0]}:{uuid.uuid4()}:resource/{named}"
    cloudwatch = made.cloud.client("cloudwatch")
    for name in names:
        put_alarm(cloudwatch, name, before)
    scaling_registration.connect_alarms(made.stack_id, made.key["ResourceId"])
    pages = cloudwatch.get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"{made.stack.name}-")
    called = [action for page in pages for alarm in page["MetricAlarms"] for action in alarm["AlarmActions"]]
    assert called == [now] * 60
    cloudwatch.delete_alarms(AlarmNames=names)


class Services:
    """Application Auto Scaling and CloudWatch, which keep the requests sent and describe what they are given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **described: list[Any]) -> None:
        self.doubles = {name: Mock() for name in ("application-autoscaling", "cloudwatch")}
        for name, double in self.doubles.items():
            double.meta = boto3.client(name, region_name="us-west-2").meta
        scaling = self.doubles["application-autoscaling"]
        scaling.describe_scalable_targets.return_value = {"ScalableTargets": described.pop("targets", [])}
        page = {name: described.get(name, []) for name in ("ScalingPolicies", "ScheduledActions")}
        scaling.get_paginator().paginate.return_value = [page]
        monkeypatch.setattr(scaling_registration, "client", self.doubles.__getitem__)

    def sent(self, service: str, operation: str) -> list[dict[str, Any]]:
        return [call.kwargs for call in getattr(self.doubles[service], operation).call_args_list]


VARIANT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/chat/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_missing_of_a_registration_is_registered_as_it_was(
    monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    state = {"ScheduledScalingSuspended": True}
    tracking = {"TargetValue": 4.0}
    policies = [
        {
            **VARIANT,
            "PolicyARN": "arn:before",
            "PolicyName": name,
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": tracking,
            "CreationTime": "2026-11-21T12:00:00+00:00",
        }
        for name in ("There", "Missing", "Dropped")
    ]
    actions = [
        {
            **VARIANT,
            "ScheduledActionARN": "arn:before",
            "ScheduledActionName": name,
            "Schedule": "cron(0 7 ? * MON-FRI *)",
            "Timezone": "Europe/Berlin",
            "ScalableTargetAction": {"MinCapacity": 2},
        }
        for name in ("Early", "Late")
    ]
    services = Services(
        monkeypatch,
        targets=[{"MinCapacity": 9}] if is_there else [],
        ScalingPolicies=policies[:1],
        ScheduledActions=actions[:1],
    )
    registration = Registration(
        resource_id=VARIANT["ResourceId"],
        target={"MinCapacity": 1, "MaxCapacity": 4, "SuspendedState": state, "RoleARN": "arn:role", **VARIANT},
        tags={"team": "chat"},
        policies=policies,
        scheduled_actions=actions,
    )
    scaling_registration.register(registration, keeps=lambda name: name != "Dropped")
    target = {**VARIANT, "MinCapacity": 1, "MaxCapacity": 4, "SuspendedState": state, "Tags": {"team": "chat"}}
    scaling = "application-autoscaling"
    assert services.sent(scaling, "register_scalable_target") == ([] if is_there else [target])
    assert services.sent(scaling, "put_scaling_policy") == [
        {
            **VARIANT,
            "PolicyName": "Missing",
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": tracking,
        }
    ]
    assert services.sent(scaling, "put_scheduled_action") == [
        {
            **VARIANT,
            "ScheduledActionName": "Late",
            "Schedule": "cron(0 7 ? * MON-FRI *)",
            "Timezone": "Europe/Berlin",
            "ScalableTargetAction": {"MinCapacity": 2},
        }
    ]
    assert services.sent(scaling, "describe_scalable_targets") == [
        {
            "ServiceNamespace": "sagemaker",
            "ResourceIds": [VARIANT["ResourceId"]],
            "ScalableDimension": VARIANT["ScalableDimension"],
        }
    ]


def test_alarms_are_described_100_at_a_time_and_keep_their_other_members_and_actions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def policy(of: str, name: str) -> str:
        return f"arn:aws:autoscaling:us-west-2:1:scalingPolicy:{of}:resource/sagemaker/{name}"

    own = f"{VARIANT['ResourceId']}:policyName/Burst"
    services = Services(monkeypatch, ScalingPolicies=[{"PolicyName": "Burst", "PolicyARN": policy("now", own)}])
    others = ["arn:topic", policy("before", "endpoint/other/variant/AllTraffic:policyName/Burst")]
    unknown = policy("before", f"{VARIANT['ResourceId']}:policyName/Deleted")
    alarm = {"AlarmName": "Chat-1", "MetricName": "Errors", "Period": 60, "AlarmArn": "arn:alarm", "StateValue": "OK"}
    services.doubles["cloudwatch"].describe_alarms.side_effect = [
        {
            "MetricAlarms": [
                {**alarm, "AlarmActions": [*others, policy("before", own), unknown]},
                {**alarm, "AlarmName": "Chat-2", "AlarmActions": [policy("now", own)]},
                {"AlarmName": "Chat-3"},
            ]
        },
        {"MetricAlarms": []},
    ]
    names = [f"Chat-{number}" for number in range(120)]
    monkeypatch.setattr(scaling_registration, "_resources", lambda stack_id, kind: ["ByHand", *names])
    scaling_registration.connect_alarms("arn:aws:cloudformation:us-west-2:1:stack/Chat/1", VARIANT["ResourceId"])
    assert services.sent("cloudwatch", "describe_alarms") == [
        {"AlarmNames": names[:100], "MaxRecords": 100},
        {"AlarmNames": names[100:], "MaxRecords": 100},
    ]
    assert services.sent("cloudwatch", "put_metric_alarm") == [
        {
            "AlarmName": "Chat-1",
            "MetricName": "Errors",
            "Period": 60,
            "AlarmActions": [*others, policy("now", own), unknown],
        }
    ]


def test_the_policies_of_a_stack_are_its_own_ones_of_the_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    def policy(variant: str, name: str) -> str:
        of = f"resource/sagemaker/endpoint/chat/variant/{variant}"
        return f"arn:aws:autoscaling:us-west-2:000000000000:scalingPolicy:1:{of}:policyName/{name}"

    kind = "AWS::ApplicationAutoScaling::ScalingPolicy"
    resources = [
        {"ResourceType": kind, "PhysicalResourceId": policy("AllTraffic", "Out")},
        {"ResourceType": kind, "PhysicalResourceId": policy("Other", "In")},
        # In creation.
        {"ResourceType": kind},
        {"ResourceType": "AWS::CloudWatch::Alarm", "PhysicalResourceId": policy("AllTraffic", "None")},
    ]
    cloudformation = Mock()
    cloudformation.get_paginator().paginate.return_value = [{"StackResourceSummaries": resources}]
    monkeypatch.setattr(scaling_registration, "client", lambda service: cloudformation)
    found = scaling_registration.policies_of_stack("stack", "endpoint/chat/variant/AllTraffic")
    assert found == {"Out": policy("AllTraffic", "Out")}


@pytest.mark.parametrize("arn", ["arn:of-the-target", None])
def test_a_registration_has_the_tags_that_can_be_set(monkeypatch: pytest.MonkeyPatch, arn: str | None) -> None:
    scaling, at = Mock(), dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    target = {"MinCapacity": 1, "MaxCapacity": 4, "CreationTime": at} | ({"ScalableTargetARN": arn} if arn else {})
    scaling.describe_scalable_targets.return_value = {"ScalableTargets": [target]}
    scaling.list_tags_for_resource.return_value = {"Tags": {"team": "chat", "aws:cloudformation:stack-name": "Chat"}}
    scaling.get_paginator().paginate.return_value = [{"ScalingPolicies": [], "ScheduledActions": []}]
    monkeypatch.setattr(scaling_registration, "client", lambda service: scaling)
    found = scaling_registration.registration_of("endpoint/chat/variant/AllTraffic")
    assert found is not None
    assert found.tags == ({"team": "chat"} if arn else {})
    assert [call.kwargs for call in scaling.list_tags_for_resource.call_args_list] == [{"ResourceARN": arn}] * bool(arn)
    assert (found.variant_name, found.target["CreationTime"]) == ("AllTraffic", "2026-11-21T12:00:00+00:00")


@pytest.mark.parametrize(("code", "is_gone"), [("ObjectNotFoundException", True), ("ConcurrentUpdateException", False)])
def test_what_is_deregistered_already_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, code: str, *, is_gone: bool
) -> None:
    scaling = Mock()
    scaling.deregister_scalable_target.side_effect = ClientError({"Error": {"Code": code, "Message": "no"}}, "D")
    monkeypatch.setattr(scaling_registration, "client", lambda service: scaling)
    registration = Registration(resource_id="endpoint/chat/variant/AllTraffic", target={})
    if is_gone:
        scaling_registration.deregister(registration)
    else:
        with pytest.raises(ClientError, match=code):
            scaling_registration.deregister(registration)


@pytest.mark.parametrize("by", ["the_watcher", "a_rollback"])
def test_an_alarm_calls_the_policy_that_is_registered_again(
    made: Scaled, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    name, declared = f"{made.stack.name}-burst", scaling_registration._resources

    def resources(stack_id: str, resource_type: str) -> list[str]:
        return [name] if resource_type == "AWS::CloudWatch::Alarm" else declared(stack_id, resource_type)

    monkeypatch.setattr(scaling_registration, "_resources", resources)

    def policy() -> str:
        (found,) = made.scaling.describe_scaling_policies(**made.key)["ScalingPolicies"]
        return found["PolicyARN"]

    cloudwatch, before = made.cloud.client("cloudwatch"), policy()
    put_alarm(cloudwatch, name, before)
    made.send("Update", G6, G5)
    if by == "a_rollback":
        monkeypatch.setattr(variant_scaling, "is_rolling_back", lambda stack_id: True)
        roll_back(made)
    else:
        assert made.poll() == {"Done": True}
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    cloudwatch.delete_alarms(AlarmNames=[name])
    assert policy() != before, "a policy that is registered again is another one"
    assert alarm["AlarmActions"] == [policy()]


def test_another_configuration_than_the_deployed_one_is_reported(made: Scaled) -> None:
    serving = made.sagemaker.describe_endpoint(EndpointName=made.name)["EndpointConfigName"]
    assert served(made, serving)["Status"] == "SUCCESS"
    (shown,) = made.sagemaker.describe_endpoint_config(EndpointConfigName=serving)["ProductionVariants"]
    other = f"{made.stack.name}-other"
    made.sagemaker.create_endpoint_config(EndpointConfigName=other, ProductionVariants=[shown])
    refused = served(made, other)
    assert refused["Status"] == "FAILED"
    assert f"serves {serving} instead of {other}: it gives no reason" in refused["Reason"]
    # Where the deployment moves nothing, the end of a shadow or a restart did: no update was taken back.
    assert served(made, other, before=other)["Status"] == "SUCCESS"


def test_a_rollback_is_not_failed_by_what_serves(made: Scaled, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(made, "another")["Status"] == "FAILED"
    monkeypatch.setattr(serving_handler, "is_rolling_back", lambda stack_id: True)
    assert served(made, "another")["Status"] == "SUCCESS"


def test_a_configuration_that_was_created_again_under_its_name_is_reported(made: Scaled) -> None:
    made.scaling.deregister_scalable_target(**made.key)
    made.move_to(G6)
    name = made.sagemaker.describe_endpoint(EndpointName=made.name)["EndpointConfigName"]
    assert served(made, name)["Status"] == "SUCCESS"
    (shown,) = made.sagemaker.describe_endpoint_config(EndpointConfigName=name)["ProductionVariants"]
    made.sagemaker.delete_endpoint_config(EndpointConfigName=name)
    made.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[{**shown, "InstanceType": G5}])
    refused = served(made, name)
    assert refused["Status"] == "FAILED"
    assert "it was deleted and created again under the same name" in refused["Reason"]


def test_an_endpoint_that_is_gone_is_reported(made: Scaled) -> None:
    made.name = "gone"
    assert "was deleted outside the stack" in served(made, "any")["Reason"]
