"""Requests that CloudFormation refuses, with its error messages."""

from __future__ import annotations

import json
import textwrap
import urllib.error
import urllib.request
import uuid
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.cloudformation.registry import resource_types

from ..support.cloudformation_stacks import Stack
from ..support.local_cloud import BUCKET, ROLE
from ..support.waiting import until

TOPIC: dict[str, Any] = {"Type": "AWS::SNS::Topic"}
QUEUE: dict[str, Any] = {"Type": "AWS::SQS::Queue"}
ALARM = {
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 1,
    "MetricName": "Invocations",
    "Namespace": "AWS/SageMaker",
    "Period": 60,
    "Statistic": "Sum",
    "Threshold": 1,
}
FUNCTION = {"Code": {"ZipFile": "x"}, "Handler": "index.handler", "Role": ROLE, "Runtime": "python3.14"}
LONG_ANSWER = textwrap.dedent(
    """
    import json
    import urllib.request

    def handler(event, context):
        size = int(event["ResourceProperties"]["Size"])
        answer = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
        answer |= {"Status": "SUCCESS", "PhysicalResourceId": "long", "Data": {"Text": ""}}
        answer["Data"]["Text"] = "x" * (size - len(json.dumps(answer)))
        request = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT")
        urllib.request.urlopen(request)
    """
)


def client_of(cloud: LocalCloud, region: str) -> Any:
    return boto3.client(
        "cloudformation",
        endpoint_url=cloud.endpoint_url,
        region_name=region,
        aws_access_key_id="000000000000",
        aws_secret_access_key=cloud.environment()["AWS_SECRET_ACCESS_KEY"],
    )


def refusal(call: Any, **request: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**request)
    assert refused.value.response["Error"]["Code"] == "ValidationError"
    return refused.value.response["Error"]["Message"]


def template(**sections: Any) -> str:
    return json.dumps({"Resources": {"Topic": TOPIC}, **sections})


def test_an_update_that_changes_a_resource_type_is_refused(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "type-change")
    assert stack.deploy({"Same": TOPIC, "Other": TOPIC, "Changed": TOPIC}) == "CREATE_COMPLETE"
    changed = json.dumps({"Resources": {"Same": TOPIC, "Other": QUEUE, "Changed": QUEUE}})
    words = (
        "Update of resource type is not permitted. The new template modifies resource type of the following resources: "
        "[Changed, Other]"
    )
    assert words == refusal(stack.cloudformation.update_stack, StackName=stack.name, TemplateBody=changed)
    assert words == refusal(
        stack.cloudformation.create_change_set, StackName=stack.name, ChangeSetName="change", TemplateBody=changed
    )
    assert stack.status() == "CREATE_COMPLETE"
    assert stack.deploy({"Same": TOPIC, "Replacement": QUEUE}) == "UPDATE_COMPLETE"
    stack.delete()


@pytest.mark.parametrize(
    ("region", "refused"),
    [
        ("us-west-2", []),
        ("eu-west-2", ["AWS::SageMaker::AIWorkloadConfig"]),
        ("eu-west-3", ["AWS::SageMaker::AIWorkloadConfig", "AWS::SageMaker::InferenceComponent"]),
    ],
)
def test_a_resource_type_the_region_lacks_is_refused(cloud: LocalCloud, region: str, refused: list[str]) -> None:
    types = ["AWS::SageMaker::AIWorkloadConfig", "AWS::SageMaker::InferenceComponent"]
    body = json.dumps({"Resources": {"Topic": TOPIC, **{name[16:]: {"Type": name} for name in types}}})
    calls = client_of(cloud, region)
    if not refused:
        calls.validate_template(TemplateBody=body)
        return
    words = f"Template format error: Unrecognized resource types: [{', '.join(refused)}]"
    assert words == refusal(calls.create_stack, StackName="elsewhere", TemplateBody=body)
    change = {"StackName": "elsewhere", "ChangeSetName": "first", "ChangeSetType": "CREATE", "TemplateBody": body}
    assert words == refusal(calls.create_change_set, **change)
    with pytest.raises(ClientError, match="does not exist"):
        calls.describe_stacks(StackName="elsewhere")


def test_a_resource_with_a_false_condition_may_have_a_type_the_region_lacks(cloud: LocalCloud) -> None:
    calls = client_of(cloud, "eu-west-3")
    made: dict[str, Any] = {"Type": "AWS::SageMaker::AIWorkloadConfig", "Condition": "Evaluated"}
    conditions = {"Evaluated": {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-west-2"]}}
    body = json.dumps({"Conditions": conditions, "Resources": {"Topic": TOPIC, "Workload": made}})
    calls.create_stack(StackName="conditional", TemplateBody=body)
    until(
        lambda: calls.describe_stacks(StackName="conditional")["Stacks"][0]["StackStatus"],
        lambda status: status == "CREATE_COMPLETE",
    )
    calls.delete_stack(StackName="conditional")


def test_resource_types_of_a_region_are_those_of_the_registry() -> None:
    assert "AWS::SageMaker::Endpoint" in (resource_types("eu-west-3") or ())
    assert resource_types("nowhere-1") is None


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"Resources": {f"Topic{n}": TOPIC for n in range(501)}},
            "Template format error: Number of resources, 501, is greater than maximum allowed, 500",
        ),
        (
            {"Parameters": {f"Name{n}": {"Type": "String", "Default": "x"} for n in range(201)}},
            "Template format error: Number of parameters, 201, is greater than maximum allowed, 200",
        ),
        (
            {"Outputs": {f"Name{n}": {"Value": "x"} for n in range(201)}},
            "Template format error: Number of outputs, 201, is greater than maximum allowed, 200",
        ),
        (
            {"Mappings": {f"Name{n}": {"a": {"b": "c"}} for n in range(201)}},
            "Template format error: Number of mappings, 201, is greater than maximum allowed, 200",
        ),
        (
            {"Mappings": {"Regions": {f"a{n}": {"b": "c"} for n in range(201)}}},
            "Template format error: Number of attributes in mapping Regions, 201, is greater than maximum allowed, 200",
        ),
        (
            {"Metadata": {"Text": "x" * 51_200}},
            "at 'templateBody' failed to satisfy constraint: Member must have length less than or equal to 51200",
        ),
    ],
)
def test_a_template_beyond_a_cloudformation_quota_is_refused(
    cloud: LocalCloud, sections: dict[str, Any], words: str
) -> None:
    calls = cloud.client("cloudformation")
    assert words in refusal(calls.create_stack, StackName="large", TemplateBody=template(**sections))


def test_a_template_in_s3_beyond_one_megabyte_is_refused(cloud: LocalCloud) -> None:
    cloud.client("s3").put_object(Bucket=BUCKET, Key="large.json", Body=template(Metadata={"Text": "x" * 1_000_000}))
    url = f"{cloud.endpoint_url}/{BUCKET}/large.json"
    words = refusal(cloud.client("cloudformation").create_stack, StackName="large", TemplateURL=url)
    assert words == "Template may not exceed 1000000 bytes in size."


def named(value: Any) -> dict[str, Any]:
    return {"Resources": {"Topic": TOPIC, "Named": {**TOPIC, "Properties": {"DisplayName": value}}}}


def topic(**attributes: Any) -> dict[str, Any]:
    return {"Resources": {"Topic": {**TOPIC, **attributes}}}


FORMAT = "Template format error: "
UNRESOLVED = FORMAT + "Unresolved resource dependencies [{}] in the Resources block of the template"
UNRESOLVED_OUTPUT = "Unresolved resource dependencies [{}] in the Outputs block of the template"
TEXT = FORMAT + "Every Description member must be a string."


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"Nope": {}, "outputs": {}}, "Invalid template property or properties [Nope, outputs]"),
        ({"Resources": {}}, FORMAT + "At least one Resources member must be defined."),
        ({"Resources": []}, FORMAT + "Every Resources member must be an object."),
        ({"Resources": {"Topic": "AWS::SNS::Topic"}}, FORMAT + "Every Resources member must be an object."),
        ({"Outputs": None}, "[/Outputs] 'null' values are not allowed in templates"),
        ({"Description": 5}, TEXT),
        ({"Outputs": {"Name": {"Value": "x", "Description": {}}}}, TEXT),
        ({"Parameters": {"Name": {"Type": "String", "Default": "x", "Description": 5}}}, TEXT),
        ({"Resources": {"A-B": TOPIC}}, FORMAT + "Resource name A-B is non alphanumeric."),
        ({"Outputs": {"a-b": {"Value": "x"}}}, FORMAT + "Outputs name 'a-b' is non alphanumeric."),
        ({"Parameters": {"a_b": {"Type": "String"}}}, FORMAT + "Parameter name a_b is non alphanumeric."),
        ({"Parameters": {"Name": {}}}, FORMAT + "Every Parameters object must contain a Type member."),
        (
            {"Resources": {"Topic": {}}},
            FORMAT + "[/Resources/Topic] Every Resources object must contain a Type member.",
        ),
        ({"Outputs": {"Name": {}}}, FORMAT + "Every Outputs member must contain a Value object"),
        (topic(Nope=1), "Invalid template resource property 'Nope'"),
        (topic(DeletionPolicy="Maybe"), FORMAT + "Unrecognized DeletionPolicy Maybe for resource Topic"),
        (topic(DependsOn="Nope"), UNRESOLVED.format("Nope")),
        (topic(DependsOn=["Nope", "Other", "Nope"]), UNRESOLVED.format("Nope, Other")),
        (topic(DependsOn={"Ref": "Topic"}), FORMAT + "DependsOn must be a string or list of strings."),
        (topic(Condition="Nope"), FORMAT + "Condition Nope is not defined."),
        (topic(Condition={"Ref": "AWS::Region"}), FORMAT + "Every Condition member must be a string."),
        (named({"Ref": "Nope"}), UNRESOLVED.format("Nope")),
        (named({"Ref": "AWS::Stage"}), UNRESOLVED.format("AWS::Stage")),
        (named({"Fn::Join": ["", ["x", {"Fn::Sub": "${Nope}-${Topic}"}]]}), UNRESOLVED.format("Nope")),
        (named({"Fn::Sub": ["${Nope.Arn}-${Given}", {"Given": "x"}]}), UNRESOLVED.format("Nope.Arn")),
        (named({"Fn::Sub": ["${Given}", {"Given": {"Ref": "Nope"}}]}), UNRESOLVED.format("Nope")),
        (
            named({"Fn::GetAtt": ["Nope", "Arn"]}),
            "Template error: instance of Fn::GetAtt references undefined resource Nope",
        ),
        (named({"Fn::If": ["Nope", "x", "y"]}), "Template error: unresolved condition dependency Nope in Fn::If"),
        (named(None), "[/Resources/Named/Type/DisplayName] 'null' values are not allowed in templates"),
        (named(["x", None]), "[/Resources/Named/Type/DisplayName/1] 'null' values are not allowed in templates"),
        ({"Outputs": {"Name": {"Value": {"Ref": "Nope"}}}}, UNRESOLVED_OUTPUT.format("Nope")),
        ({"Outputs": {"Name": {"Value": "x", "Export": {"Name": {"Ref": "Nope"}}}}}, UNRESOLVED_OUTPUT.format("Nope")),
        ({"Outputs": {"Name": {"Value": "x", "Condition": "Nope"}}}, FORMAT + "Condition Nope is not defined."),
        (
            {"Conditions": {"Is": {"Fn::Equals": [{"Fn::GetAtt": ["Topic", "TopicName"]}, {"Ref": "Nope"}]}}},
            FORMAT + "Unresolved dependencies [Topic, Nope]. Cannot reference resources in the Conditions block of the "
            "template",
        ),
        (
            {"Conditions": {"Is": {"Fn::Not": [{"Condition": "Nope"}]}}},
            FORMAT + "Unresolved condition dependencies [Nope] in the Conditions block of the template",
        ),
        (
            {"Resources": {"A": {**TOPIC, "DependsOn": "B"}, "B": {**TOPIC, "DependsOn": "A"}, "C": TOPIC}},
            "Circular dependency between resources: [A, B]",
        ),
    ],
)
def test_an_invalid_template_is_refused_before_a_stack_begins(
    cloud: LocalCloud, sections: dict[str, Any], words: str
) -> None:
    calls, body = cloud.client("cloudformation"), template(**sections)
    assert refusal(calls.create_stack, StackName="invalid", TemplateBody=body) == words
    assert refusal(calls.validate_template, TemplateBody=body) == words
    change = {"StackName": "invalid", "ChangeSetName": "first", "ChangeSetType": "CREATE", "TemplateBody": body}
    assert refusal(calls.create_change_set, **change) == words
    with pytest.raises(ClientError, match="does not exist"):
        calls.describe_stacks(StackName="invalid")


def test_a_template_with_every_section_and_kind_of_reference_is_accepted(cloud: LocalCloud) -> None:
    body = textwrap.dedent(
        """\
        AWSTemplateFormatVersion: 2010-09-09
        Description: Everything
        Metadata: {Any: {Ref: Whatever}, Nothing: null}
        Parameters:
          Stage: {Type: String, Default: test, Description: A stage}
        Rules:
          Known: {Assertions: [{Assert: {"Fn::Contains": [[test], {Ref: Stage}]}}]}
        Mappings:
          Of: {test: {a.b-c: name}}
        Conditions:
          IsTest: !Equals [!Ref Stage, test]
          IsHere: !And [!Condition IsTest, !Not [!Equals [!Ref AWS::Region, nowhere]]]
          IsElsewhere: !Not [!Condition IsHere]
        Resources:
          First:
            Type: AWS::SNS::Topic
            Condition: IsHere
            DeletionPolicy: RetainExceptOnCreate
            UpdateReplacePolicy: Retain
            Metadata: {aws:cdk:path: First, Condition: Nowhere}
          Second:
            Type: AWS::SNS::Topic
            DependsOn: [First]
            Properties:
              DisplayName: !Sub
                - "${!Literal} ${Map.local} ${First.TopicName} ${AWS::Partition}"
                - {Map.local: !Ref Stage}
              TopicName: !If [IsElsewhere, !Ref AWS::NoValue, !FindInMap [Of, !Ref Stage, a.b-c]]
          Third: {Type: "AWS::SNS::Topic", Condition: IsElsewhere, DeletionPolicy: Delete}
        Outputs:
          Name: {Value: !GetAtt First.TopicName, Condition: IsTest, Export: {Name: !Sub "${AWS::StackName}-x"}}
        """
    )
    stack = Stack(cloud, "everything")
    stack.cloudformation.validate_template(TemplateBody=body)
    given = [{"ParameterKey": "Stage", "ParameterValue": "test"}]
    stack.cloudformation.create_stack(StackName=stack.name, TemplateBody=body, Parameters=given)
    assert until(stack.status, lambda status: not status.endswith("_IN_PROGRESS")) == "CREATE_COMPLETE"
    stack.delete()


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({}, "Parameter values specified for a template which does not require them."),
        ({"Name": {"Type": "String", "Default": "x"}}, "Parameters: [Other, Nope] do not exist in the template"),
    ],
)
def test_a_value_of_a_parameter_that_the_template_does_not_declare_is_refused(
    cloud: LocalCloud, declared: dict[str, Any], words: str
) -> None:
    given = [{"ParameterKey": name, "ParameterValue": "x"} for name in ("Other", "Nope", *declared)]
    calls, body = cloud.client("cloudformation"), template(Parameters=declared)
    assert refusal(calls.create_stack, StackName="invalid", TemplateBody=body, Parameters=given) == words


def test_an_update_to_an_invalid_template_is_refused_and_the_stack_stays_as_it_is(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "invalid-update")
    stack.deploy({"Topic": TOPIC})
    words = refusal(
        stack.cloudformation.update_stack, StackName=stack.name, TemplateBody=json.dumps(named({"Ref": "Nope"}))
    )
    assert words == UNRESOLVED.format("Nope")
    assert stack.status() == "CREATE_COMPLETE"
    stack.delete()


def test_a_name_is_exported_by_one_stack_until_that_exports_it_no_longer(cloud: LocalCloud) -> None:
    first, second = Stack(cloud, "first-exporter"), Stack(cloud, "second-exporter")
    exporting = template(Outputs={"Name": {"Value": "x", "Export": {"Name": "shared"}}})

    def create(stack: Stack) -> str:
        stack.cloudformation.create_stack(StackName=stack.name, TemplateBody=exporting)
        return until(stack.status, lambda status: not status.endswith("_IN_PROGRESS"))

    assert create(first) == "CREATE_COMPLETE"
    assert create(second) == "ROLLBACK_COMPLETE"
    assert "Export with name shared is already exported by stack first-exporter" in second.reasons()
    second.delete()
    assert first.deploy({"Topic": TOPIC}) == "UPDATE_COMPLETE"
    assert create(second) == "CREATE_COMPLETE"
    second.delete()
    first.delete()


def test_a_custom_resource_without_a_service_token_rolls_back(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "without-token")
    assert stack.deploy({"Topic": TOPIC, "Custom": {"Type": "Custom::Any"}}) == "ROLLBACK_COMPLETE"
    assert "the custom resource Custom has no ServiceToken" in stack.reasons()
    stack.delete()


def graphs(number: int, metrics: int) -> str:
    rows: list[list[Any]] = [[{"expression": "a"}], *[["A", "B"]] * metrics]
    return json.dumps({"widgets": [{"type": "metric", "properties": {"metrics": rows}}] * number})


@pytest.mark.parametrize(
    ("type_name", "properties", "words"),
    [
        ("AWS::CloudWatch::Dashboard", {"DashboardBody": graphs(501, 0)}, "dashboard widgets, 501, exceed the maximum"),
        ("AWS::CloudWatch::Dashboard", {"DashboardBody": graphs(1, 501)}, "metrics of a widget, 501, exceed the maxim"),
        ("AWS::CloudWatch::Dashboard", {"DashboardBody": graphs(6, 417)}, "metrics of a dashboard, 2502, exceed the m"),
        ("AWS::CloudWatch::Alarm", {**ALARM, "AlarmDescription": "x" * 1025}, "length less than or equal to 1024"),
        ("AWS::KMS::Key", {"KeyPolicy": {"Statement": [{"Sid": "x" * 32_768}]}}, "The key policy exceeds the maximum"),
        (
            "AWS::Lambda::Function",
            {**FUNCTION, "Environment": {"Variables": {"A": "x" * 4_089}}},
            "the environment variables you have provided exceeded the 4KB limit. String measured: {",
        ),
    ],
)
def test_a_resource_beyond_a_limit_of_its_service_is_refused(
    cloud: LocalCloud, type_name: str, properties: dict[str, Any], words: str
) -> None:
    stack = Stack(cloud, f"limit-{uuid.uuid4().hex[:8]}")
    body = json.dumps({"Resources": {"It": {"Type": type_name, "Properties": properties}}})
    cloud.client("s3").put_object(Bucket=BUCKET, Key="limit.json", Body=body)
    stack.cloudformation.create_stack(StackName=stack.name, TemplateURL=f"{cloud.endpoint_url}/{BUCKET}/limit.json")
    assert until(stack.status, lambda status: not status.endswith("_IN_PROGRESS")) == "ROLLBACK_COMPLETE"
    assert words in stack.reasons()
    stack.delete()


def test_an_update_without_changes_is_refused(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "unchanged")
    stack.deploy({"Topic": TOPIC})
    body = json.dumps({"Resources": {"Topic": TOPIC}, "Outputs": {}})
    words = refusal(stack.cloudformation.update_stack, StackName=stack.name, TemplateBody=body)
    assert words == "No updates are to be performed."
    named = {"StackName": stack.name, "ChangeSetName": "nothing"}
    stack.cloudformation.create_change_set(**named, TemplateBody=body)
    found = stack.cloudformation.describe_change_set(**named)
    assert (found["Status"], found["StatusReason"]) == (
        "FAILED",
        "The submitted information didn't contain changes. Submit different information to create a change set.",
    )
    stack.delete()


def answering(size: int) -> dict[str, Any]:
    """A custom resource whose function sends a response of that many bytes."""
    return {
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"ZipFile": LONG_ANSWER},
                "Handler": "index.handler",
                "Role": ROLE,
                "Runtime": "python3.12",
            },
        },
        "Custom": {
            "Type": "Custom::Long",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "ServiceTimeout": 20, "Size": size},
        },
    }


def test_a_custom_resource_response_above_4096_bytes_fails_the_stack(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "answers")
    assert stack.deploy(answering(4096)) == "CREATE_COMPLETE"
    assert stack.physical_id("Custom") == "long"
    # Its handler answers the deletion in as many bytes.
    stack.delete()
    for size in (4097, 3_000_000):
        refused = Stack(cloud, f"answers-{size}")
        assert refused.deploy(answering(size)) in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
        assert "Response object is too long." in refused.reasons()


def test_a_wait_condition_signal_above_4096_bytes_is_refused(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "signals")
    stack.deploy({"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}})

    def send(size: int) -> int:
        signal = {"Status": "SUCCESS", "UniqueId": str(size), "Data": ""}
        signal["Data"] = "x" * (size - len(json.dumps(signal)))
        request = urllib.request.Request(stack.physical_id("Handle"), json.dumps(signal).encode(), method="PUT")
        request.add_header("Content-Type", "")
        with urllib.request.urlopen(request) as answer:
            return answer.status

    assert send(4096) == 200
    with pytest.raises(urllib.error.HTTPError) as refused:
        send(4097)
    assert refused.value.code == 400
    stack.delete()


def test_stack_events_are_ordered_by_timestamp(cloud: LocalCloud) -> None:
    stack = Stack(cloud, "ordered")
    stack.deploy({f"Topic{n}": TOPIC for n in range(30)})
    newest_first = stack.cloudformation.describe_stack_events(StackName=stack.name)["StackEvents"]
    # As clients sort them, who know no order but the times.
    by_time = sorted(newest_first, key=lambda event: event["Timestamp"])
    assert [event["EventId"] for event in by_time] == [event["EventId"] for event in reversed(newest_first)]
    assert by_time[-1]["ResourceType"] == "AWS::CloudFormation::Stack"
    begun = set[str]()
    for event in by_time:
        if event["ResourceStatus"].endswith("_IN_PROGRESS"):
            begun.add(event["LogicalResourceId"])
        assert event["LogicalResourceId"] in begun
    stack.delete()


def test_a_log_group_that_exists(cloud: LocalCloud) -> None:
    groups = {"Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/of/two"}}}
    first, second = Stack(cloud, "first-group"), Stack(cloud, "second-group")
    assert first.deploy(groups) == "CREATE_COMPLETE"
    assert second.deploy(groups) == "ROLLBACK_COMPLETE"
    assert "Resource of type 'AWS::Logs::LogGroup' with identifier '/of/two' already exists." in second.reasons()
    second.delete()
    assert cloud.client("logs").describe_log_groups(logGroupNamePrefix="/of/two")["logGroups"]
    first.delete()
