"""``Custom::OptimizedInferenceComponent`` against the local cloud: its requests, and the looks of its watcher."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim.runtime.handlers import component_handler, component_watcher
from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.inference_components import PARTITIONED, component
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import ROLE, Responses
from ..support.sampling import one_in
from ..support.waiting import until

STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Slices/1234"
OWNER = "constructs-optim:owner"
TAGS = [{"Key": "team", "Value": "chat"}]
pytestmark = pytest.mark.usefixtures("partitioned_endpoints")
_requests = itertools.count(1)


@pytest.fixture(autouse=True)
def nothing_left(sagemaker: Any) -> Iterator[None]:
    """No component of one test is still being deleted in the next one, which would find its name taken."""
    yield
    for name in names(sagemaker):
        with contextlib.suppress(sagemaker.exceptions.ClientError):
            sagemaker.delete_inference_component(InferenceComponentName=name)
    until(lambda: names(sagemaker), lambda found: not found)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component_watcher, "_SECONDS", 0)


def properties(
    name: str = "chat", *, partition: str = "mig-3g.40gb", copies: str = "1", memory: str = "4096", **changed: Any
) -> dict[str, Any]:
    """As CloudFormation sends them: numbers and booleans are text."""
    requirements = {
        "AcceleratorPartitionType": partition,
        "NumberOfAcceleratorDevicesRequired": "1",
        "MinMemoryRequiredInMb": memory,
    }
    specification = {"ModelName": "sliced", "ComputeResourceRequirements": requirements}
    return {
        "ServiceToken": "arn:aws:lambda:us-west-2:000000000000:function:f",
        "ServiceTimeout": "3600",
        "StateMachineArn": "arn:aws:states:us-west-2:000000000000:stateMachine:components",
        "InferenceComponentName": name,
        "EndpointName": "sliced",
        "VariantName": "AllTraffic",
        "Specification": specification | changed.pop("specification", {}),
        "RuntimeConfig": {"CopyCount": copies},
        "Tags": TAGS,
        **changed,
    }


def request(responses: Responses, kind: str, physical_id: str | None = None, **of_event: Any) -> dict[str, Any]:
    return {
        **custom_resource_event(
            kind,
            responses.url,
            stack_id=STACK,
            request_id=f"request-{next(_requests)}",
            logical_id="Chat",
            properties=properties(),
            physical_id=physical_id,
        ),
        **of_event,
    }


def look(event: dict[str, Any], last: dict[str, Any] | None = None, **of_input: Any) -> dict[str, Any]:
    """One look of the watcher, after its last one."""
    document = {"Event": event, "Until": int(time.time()) + 60, "Deadline": None, "WaitHandle": None, **of_input}
    return dict(component_watcher.handler({**document, **({"Look": last} if last else {})}, LambdaContext()))


def watched(responses: Responses, event: dict[str, Any]) -> dict[str, Any]:
    """The response to a request, after as many looks as the state machine would take."""
    before, last = len(responses.received), dict[str, Any]()
    deadline = time.monotonic() + 30
    while not last.get("Done"):
        assert time.monotonic() < deadline, last
        last = look(event, last)
        time.sleep(0.05)
    (response,) = responses.received[before:]
    return response


def names(sagemaker: Any) -> set[str]:
    listed = sagemaker.list_inference_components()["InferenceComponents"]
    return {each["InferenceComponentName"] for each in listed if each["EndpointName"] in PARTITIONED}


def test_a_component_that_was_scaled_to_zero_is_created_again_with_a_copy(responses: Responses, sagemaker: Any) -> None:
    arn = watched(responses, request(responses, "Create"))["PhysicalResourceId"]
    old, new = properties(copies="0"), properties("renamed", copies="0")
    renamed = watched(responses, request(responses, "Update", arn, ResourceProperties=new, OldResourceProperties=old))
    assert renamed["Status"] == "SUCCESS", renamed
    assert component(sagemaker, "renamed")["RuntimeConfig"]["DesiredCopyCount"] == 1
    for name, each in (("renamed", renamed["PhysicalResourceId"]), ("chat", arn)):
        watched(responses, request(responses, "Delete", each, ResourceProperties=properties(name)))


def test_a_component_s_requests_have_what_the_properties_say(
    responses: Responses, sagemaker: Any, cloud: LocalCloud
) -> None:
    created = watched(responses, request(responses, "Create"))
    new, old = properties(memory="8192", copies="2"), properties()
    arn = created["PhysicalResourceId"]
    watched(responses, request(responses, "Update", arn, ResourceProperties=new, OldResourceProperties=old))
    watched(responses, request(responses, "Delete", arn, ResourceProperties=new))

    def sent(operation: str) -> Any:
        return cloud.calls(operation)[-1]["request"]

    requirements = {
        "AcceleratorPartitionType": "mig-3g.40gb",
        "NumberOfAcceleratorDevicesRequired": 1,
        "MinMemoryRequiredInMb": 4096,
    }
    owner = sent("CreateInferenceComponent")["Tags"][-1]
    assert (owner["Key"], owner["Value"].rpartition("/")[0]) == (OWNER, STACK)
    assert sent("CreateInferenceComponent") == {
        "InferenceComponentName": "chat",
        "EndpointName": "sliced",
        "VariantName": "AllTraffic",
        "Specification": {"ModelName": "sliced", "ComputeResourceRequirements": requirements},
        "RuntimeConfig": {"CopyCount": 1},
        "Tags": [*TAGS, owner],
    }
    assert sent("UpdateInferenceComponent") == {
        "InferenceComponentName": "chat",
        "Specification": {
            "ModelName": "sliced",
            "ComputeResourceRequirements": {**requirements, "MinMemoryRequiredInMb": 8192},
        },
        "RuntimeConfig": {"CopyCount": 2},
    }
    assert sent("DeleteInferenceComponent") == {"InferenceComponentName": "chat"}


def test_a_component_is_created_changed_and_deleted(responses: Responses, sagemaker: Any) -> None:
    created = watched(responses, request(responses, "Create"))
    arn = created["PhysicalResourceId"]
    assert (created["Status"], arn.rpartition("/")[2]) == ("SUCCESS", "chat"), created
    found = component(sagemaker, "chat")
    assert found["Specification"]["ComputeResourceRequirements"]["AcceleratorPartitionType"] == "mig-3g.40gb"
    assert [tag for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"] if tag["Key"] != OWNER] == TAGS

    new, old = properties(memory="8192", copies="2"), properties()
    updated = watched(responses, request(responses, "Update", arn, ResourceProperties=new, OldResourceProperties=old))
    assert (updated["Status"], updated["PhysicalResourceId"]) == ("SUCCESS", arn)
    found = component(sagemaker, "chat")
    assert found["Specification"]["ComputeResourceRequirements"]["MinMemoryRequiredInMb"] == 8192
    assert found["RuntimeConfig"]["DesiredCopyCount"] == 2

    # Setting the user's tags keeps the one by which a later request knows the component.
    assert {tag["Key"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]} == {"team", OWNER}

    deleted = watched(responses, request(responses, "Delete", arn, ResourceProperties=new))
    assert deleted["Status"] == "SUCCESS"
    assert "chat" not in names(sagemaker)
    assert watched(responses, request(responses, "Delete", arn))["Status"] == "SUCCESS", "it may be repeated"


def test_what_the_api_refuses_fails_with_its_reason_and_leaves_nothing(responses: Responses, sagemaker: Any) -> None:
    refused = watched(responses, request(responses, "Create", ResourceProperties=properties(partition="mig-1g.10gb")))
    assert refused["Status"] == "FAILED"
    assert "mig-1g.10gb is not one that the endpoint's layout declares: mig-2g.20gb, mig-3g.40gb" in refused["Reason"]
    deletion = request(responses, "Delete", refused["PhysicalResourceId"])
    assert watched(responses, deletion)["Status"] == "SUCCESS"
    assert names(sagemaker) == set()


def test_a_creation_without_room_fails_and_its_deletion_removes_the_component(
    responses: Responses, sagemaker: Any
) -> None:
    given = properties(copies="9")
    failed = watched(responses, request(responses, "Create", ResourceProperties=given))
    assert failed["Status"] == "FAILED"
    assert "not enough hardware resources" in failed["Reason"]
    assert names(sagemaker) == {"chat"}
    watched(responses, request(responses, "Delete", failed["PhysicalResourceId"], ResourceProperties=given))
    assert names(sagemaker) == set()


def test_an_update_that_sagemaker_rolls_back_fails(responses: Responses, sagemaker: Any, cloud: LocalCloud) -> None:
    arn = watched(responses, request(responses, "Create"))["PhysicalResourceId"]
    old, new = properties(), properties(memory="8192")
    cloud.inject("update_fails", reason="The container of the inference component is not well.")
    failed = watched(responses, request(responses, "Update", arn, ResourceProperties=new, OldResourceProperties=old))
    cloud.clear_faults()
    assert (failed["Status"], failed["PhysicalResourceId"]) == ("FAILED", arn)
    assert "rolled back the update of the inference component chat: The container" in failed["Reason"]
    # CloudFormation's own rollback finds the component as it was, and changes nothing.
    before = component(sagemaker, "chat")["LastModifiedTime"]
    back = watched(responses, request(responses, "Update", arn, ResourceProperties=old, OldResourceProperties=new))
    assert back["Status"] == "SUCCESS"
    assert component(sagemaker, "chat")["LastModifiedTime"] == before
    watched(responses, request(responses, "Delete", arn))


def test_a_member_that_is_taken_away_changes_the_component(responses: Responses, sagemaker: Any) -> None:
    cached = properties(specification={"DataCacheConfig": {"EnableCaching": "true"}})
    arn = watched(responses, request(responses, "Create", ResourceProperties=cached))["PhysicalResourceId"]
    assert component(sagemaker, "chat")["Specification"]["DataCacheConfig"] == {"EnableCaching": True}
    watched(responses, request(responses, "Update", arn, OldResourceProperties=cached))
    assert "DataCacheConfig" not in component(sagemaker, "chat")["Specification"]
    watched(responses, request(responses, "Delete", arn))


def test_another_name_makes_another_component_and_a_rollback_takes_it_back(
    responses: Responses, sagemaker: Any
) -> None:
    old, new = properties(), properties("chat-2", partition="mig-2g.20gb")
    arn = watched(responses, request(responses, "Create"))["PhysicalResourceId"]
    replaced = watched(responses, request(responses, "Update", arn, ResourceProperties=new, OldResourceProperties=old))
    assert replaced["PhysicalResourceId"].rpartition("/")[2] == "chat-2"
    assert names(sagemaker) == {"chat", "chat-2"}, "CloudFormation deletes the old one itself"
    # Its response was lost: CloudFormation knows the old one only.
    watched(responses, request(responses, "Update", arn, ResourceProperties=old, OldResourceProperties=new))
    assert names(sagemaker) == {"chat"}
    watched(responses, request(responses, "Delete", arn))


def foreign(sagemaker: Any, name: str, on: str, **more: Any) -> dict[str, Any]:
    """A component that no request of this resource created."""
    requirements = {
        "AcceleratorPartitionType": "mig-2g.20gb",
        "NumberOfAcceleratorDevicesRequired": 1,
        "MinMemoryRequiredInMb": 1024,
    }
    sagemaker.create_inference_component(
        InferenceComponentName=name,
        EndpointName=on,
        VariantName="AllTraffic",
        Specification={"ModelName": "sliced", "ComputeResourceRequirements": requirements},
        RuntimeConfig={"CopyCount": 1},
        **more,
    )
    return component(sagemaker, name)


TAGGED_BY_ANOTHER = {"Tags": [{"Key": OWNER, "Value": f"{STACK}/{'0' * 16}"}]}


@pytest.mark.parametrize("on", PARTITIONED)
@pytest.mark.parametrize("tagged", [{}, TAGGED_BY_ANOTHER], ids=["untagged", "tagged_by_another"])
def test_a_component_that_another_resource_created_is_left_alone(
    responses: Responses, sagemaker: Any, on: str, tagged: dict[str, Any]
) -> None:
    foreign(sagemaker, "chat", on, **tagged)
    before = component(sagemaker, "chat")
    failed = watched(responses, request(responses, "Create"))
    assert failed["Status"] == "FAILED"
    assert f"the endpoint {on} already has an inference component chat" in failed["Reason"]
    assert watched(responses, request(responses, "Delete", failed["PhysicalResourceId"]))["Status"] == "SUCCESS"
    assert component(sagemaker, "chat") | {"ResponseMetadata": None} == before | {"ResponseMetadata": None}


@pytest.mark.parametrize("on", one_in(2, PARTITIONED))
@pytest.mark.parametrize("tagged", [{}, TAGGED_BY_ANOTHER], ids=["untagged", "tagged_by_another"])
def test_a_rename_to_a_taken_name_fails_and_its_rollback_leaves_the_other_component(
    responses: Responses, sagemaker: Any, on: str, tagged: dict[str, Any]
) -> None:
    foreign(sagemaker, "embed", on, **tagged)
    old, new = properties(), properties("embed", partition="mig-2g.20gb")
    arn = watched(responses, request(responses, "Create"))["PhysicalResourceId"]
    failed = watched(responses, request(responses, "Update", arn, ResourceProperties=new, OldResourceProperties=old))
    assert failed["Status"] == "FAILED"
    back = watched(responses, request(responses, "Update", arn, ResourceProperties=old, OldResourceProperties=new))
    assert (back["Status"], back["PhysicalResourceId"]) == ("SUCCESS", arn)
    assert names(sagemaker) == {"chat", "embed"}
    assert component(sagemaker, "embed")["InferenceComponentStatus"] == "InService"


def test_a_failed_component_of_another_resource_is_left_alone(responses: Responses, sagemaker: Any) -> None:
    requirements = {"AcceleratorPartitionType": "mig-2g.20gb", "NumberOfAcceleratorDevicesRequired": 1}
    sagemaker.create_inference_component(
        InferenceComponentName="chat",
        EndpointName="sliced",
        VariantName="AllTraffic",
        Specification={
            "ModelName": "sliced",
            "ComputeResourceRequirements": {**requirements, "MinMemoryRequiredInMb": 1024},
        },
        RuntimeConfig={"CopyCount": 99},
    )
    assert component(sagemaker, "chat")["InferenceComponentStatus"] == "Failed"
    failed = watched(responses, request(responses, "Create"))
    assert (failed["Status"], names(sagemaker)) == ("FAILED", {"chat"})


def test_a_component_that_was_created_again_outside_the_stack_is_not_deleted_with_it(
    responses: Responses, sagemaker: Any
) -> None:
    arn = watched(responses, request(responses, "Create"))["PhysicalResourceId"]
    sagemaker.delete_inference_component(InferenceComponentName="chat")
    until(lambda: names(sagemaker), lambda found: not found)
    foreign(sagemaker, "chat", "sliced", **TAGGED_BY_ANOTHER)
    assert watched(responses, request(responses, "Delete", arn))["Status"] == "SUCCESS"
    assert component(sagemaker, "chat")["InferenceComponentStatus"] == "InService"


def test_a_look_after_the_hour_fails_the_request_with_what_it_waits_for(responses: Responses, sagemaker: Any) -> None:
    event = request(responses, "Create")
    late = look(event, {"Done": False, "Reason": "adapters use it"}, Until=int(time.time()) - 1)
    assert late["Done"]
    assert "took longer than the hour that CloudFormation waits: adapters use it" in responses.received[-1]["Reason"]
    look(event, Error={"Error": "Lambda.Unknown"})
    assert "polling the inference component failed" in responses.received[-1]["Reason"]


def test_the_first_look_after_an_earlier_request_was_stopped_changes_nothing(
    responses: Responses, sagemaker: Any
) -> None:
    event = request(responses, "Create")
    first = look(event, Settle=True)
    assert not first["Done"]
    assert names(sagemaker) == set()
    assert look(event, first, Settle=True)["Asked"]
    watched(responses, request(responses, "Delete", None))


def test_a_request_starts_one_watcher_and_ends_those_of_earlier_requests(
    responses: Responses, cloud: LocalCloud
) -> None:
    states = cloud.client("stepfunctions")
    definition = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}
    machine = states.create_state_machine(name="components", definition=json.dumps(definition), roleArn=ROLE)
    given = properties(StateMachineArn=machine["stateMachineArn"])

    def executions(status: str) -> list[dict[str, Any]]:
        found = states.list_executions(stateMachineArn=machine["stateMachineArn"], statusFilter=status)["executions"]
        return [json.loads(states.describe_execution(executionArn=each["executionArn"])["input"]) for each in found]

    count = len(responses.received)
    first = request(responses, "Create", ResourceProperties=given)
    component_handler.handler(first, LambdaContext())
    component_handler.handler(first, LambdaContext())
    assert [each["Event"]["RequestId"] for each in executions("RUNNING")] == [first["RequestId"]]
    other = request(responses, "Create", ResourceProperties=given, LogicalResourceId="Other")
    component_handler.handler(other, LambdaContext())
    second = request(responses, "Delete", ResourceProperties=given)
    component_handler.handler(second, LambdaContext())
    running = {each["Event"]["RequestId"]: each["Settle"] for each in executions("RUNNING")}
    assert running == {other["RequestId"]: False, second["RequestId"]: True}
    assert [each["Event"]["RequestId"] for each in executions("ABORTED")] == [first["RequestId"]]
    # Lambda repeats the first one late.
    component_handler.handler(first, LambdaContext())
    assert {each["Event"]["RequestId"] for each in executions("RUNNING")} == set(running)
    assert len(responses.received) == count, "the watcher responds"
    states.delete_state_machine(stateMachineArn=machine["stateMachineArn"])


def test_malformed_properties_fail_at_once_and_their_deletion_succeeds(responses: Responses) -> None:
    given = {**properties(), "EndpointName": "no name"}
    component_handler.handler(request(responses, "Create", ResourceProperties=given), LambdaContext())
    failed = responses.received[-1]
    assert (failed["Status"], "EndpointName" in failed["Reason"]) == ("FAILED", True)
    deletion = request(responses, "Delete", failed["PhysicalResourceId"], ResourceProperties=given)
    component_handler.handler(deletion, LambdaContext())
    assert responses.received[-1]["Status"] == "SUCCESS"


def test_a_component_that_failed_in_an_earlier_deployment_is_made_anew(responses: Responses, sagemaker: Any) -> None:
    too_many = properties(copies="9")
    failed = watched(responses, request(responses, "Create", ResourceProperties=too_many))
    assert (failed["Status"], component(sagemaker, "chat")["InferenceComponentStatus"]) == ("FAILED", "Failed")
    arn = component(sagemaker, "chat")["InferenceComponentArn"]
    event = request(responses, "Update", arn, OldResourceProperties=too_many)
    assert look(event) == {"Done": False, "WaitSeconds": 0}, "the failure is not that of this request"
    assert watched(responses, event)["Status"] == "SUCCESS"
    found = component(sagemaker, "chat")
    assert (found["InferenceComponentStatus"], found["RuntimeConfig"]["DesiredCopyCount"]) == ("InService", 1)


def test_an_update_is_rolled_out_as_its_deployment_configuration_says(
    responses: Responses, sagemaker: Any, cloud: LocalCloud
) -> None:
    old = properties(copies="2")
    arn = watched(responses, request(responses, "Create", ResourceProperties=old))["PhysicalResourceId"]
    # As CloudFormation sends them: numbers are text.
    batch = {"Type": "COPY_COUNT", "Value": "1"}
    rolling = {"RollingUpdatePolicy": {"MaximumBatchSize": batch, "WaitIntervalInSeconds": "0"}}
    new = properties(copies="2", memory="8192", DeploymentConfig=rolling)
    updated = watched(responses, request(responses, "Update", arn, ResourceProperties=new, OldResourceProperties=old))
    assert updated["Status"] == "SUCCESS", updated
    sent = cloud.calls("UpdateInferenceComponent")[-1]["request"]
    assert sent["DeploymentConfig"]["RollingUpdatePolicy"] == {
        "MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1},
        "WaitIntervalInSeconds": 0,
    }
