"""What a file declares becomes constructs: parameters, references, outputs, and an app's own arguments."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from pydantic import ValidationError

from constructs_optim import Alarms, ArtifactStore, NetworkOptions, OptimizedEndpoint
from constructs_optim.constructs.declaration.builder import Builder, Parameter
from constructs_optim.constructs.declaration.document import DeclarationError, Document
from constructs_optim.constructs.declaration.references import REFERENCES
from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack, declared_template, intents
from constructs_optim.constructs.monitoring.endpoint_alarms import AlarmAction

from ..support.sampling import one_in
from ..support.template_limits import lower

MODEL = {"jumpstart": {"model_id": "meta-textgeneration-llama-3-8b", "version": "2.24.0", "accept_eula": True}}
LLAMA = {"model": MODEL, "techniques": [{"quantization": "awq"}], "instance_type": "ml.g5.12xlarge"}


def document(**content: Any) -> Document:
    return Document.parsed(json.dumps({"stack": "Chat", **content}), "endpoint.json")


def synthesized(**content: Any) -> dict[str, Any]:
    return Template.from_stack(DeclaredStack(document(**content))).to_json()


def only(template: dict[str, Any], type_name: str) -> dict[str, Any]:
    (found,) = [each["Properties"] for each in template["Resources"].values() if each["Type"] == type_name]
    return found


def test_what_is_switched_off_is_in_neither_form_of_the_template() -> None:
    off = {
        "network": {"isolation": False},
        "data_capture": {"bucket": "captures", "requests": False},
        "monitoring": {"alarms": "none", "observability": {"enhanced": False, "detailed": False}},
    }
    each_off = {"monitoring": {"alarms": dict.fromkeys(Alarms.model_fields, False)}, "inference_component": True}
    file = {"endpoints": {"Chat": {**LLAMA, **off}, "Code": {**LLAMA, **each_off}}}
    _, standalone = declared_template(document(**file), code_bucket=None, inline=False)
    assert not [name for name in standalone.template["Outputs"] if name.endswith("AlarmNames")]
    for template in (synthesized(**file), standalone.template):
        assert "AWS::CloudWatch::Alarm" not in {each["Type"] for each in template["Resources"].values()}


@pytest.mark.parametrize(
    ("tags", "fix"),
    [
        ({"aws:team": "ml"}, "a key that does not begin with aws:, which AWS reserves"),
        ({"a;b<c>": "x"}, "for example a-b-c-"),
        ({"": "x"}, "text that matches"),
        ({"team": "\u0001"}, 'for example "-"'),
        ({"k" * 129: "x"}, "128"),
        ({"team": "v" * 257}, "256"),
        ({f"key{number}": "x" for number in range(51)}, "50"),
    ],
)
def test_tags_that_aws_refuses_are_refused(tags: dict[str, str], fix: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(document(tags=tags, endpoints={"Chat": LLAMA}))
    (violation,) = refused.value.violations
    assert fix in violation.suggestion


def test_the_largest_tags_are_accepted() -> None:
    tags = {"k" * 128: "v" * 256, "Größe": "ü/.:=+@-_ 1", **{f"key{number}": "" for number in range(48)}}
    template = synthesized(tags=tags, endpoints={"Chat": LLAMA})
    assert {each["Key"]: each["Value"] for each in only(template, "AWS::S3::Bucket")["Tags"]}.items() >= tags.items()


@pytest.mark.parametrize(
    ("parameter", "fix"),
    [
        ({"allowed_values": ["a", "b"], "default": "c"}, "a default that allowed_values has: a, b"),
        (
            {"type": "CommaDelimitedList", "allowed_values": ["a", "b"], "default": "a,c"},
            "a default of items that allowed_values has: a, b",
        ),
        (
            {"type": "List<Number>", "allowed_values": ["1", "2"], "default": "1,3"},
            "a default of items that allowed_values has: 1, 2",
        ),
        ({"type": "Number", "allowed_values": ["8", "16"], "default": 9.0}, "allowed_values has: 8, 16"),
        ({"allowed_values": ["a", "b"], "default": "a,b"}, "allowed_values has: a, b"),
        ({"type": "Number", "default": 9, "max_value": 1}, "a default of 1 or less"),
        ({"type": "Number", "default": 0, "min_value": 1}, "a default of 1 or more"),
        ({"type": "Number", "min_value": 3, "max_value": 2}, "a max_value of 3 or more, because min_value is 3"),
        ({"type": "Number", "default": "abc"}, "a default that is a number"),
        ({"max_length": 3, "default": "cccccccc"}, "a default of 3 characters or less"),
        ({"min_length": 3, "default": "c"}, "a default of 3 characters or more"),
        ({"type": "Number", "min_length": 3}, "no min_length, which is for the type String"),
        ({"max_value": 3}, "no max_value, which is for the type Number"),
        ({"type": "Number", "max_length": 3}, "no max_length, which is for the type String"),
        ({"min_value": 3}, "no min_value, which is for the type Number"),
        ({"min_length": 3, "max_length": 2}, "a max_length of 3 or more, because min_length is 3"),
        ({"type": "Number", "default": 8, "allowed_values": ["many"]}, "a default that allowed_values has: many"),
        ({"type": "List<Number>", "default": "many", "allowed_values": ["few"]}, "allowed_values has: few"),
        ({"description": "x" * 4_001}, "4000"),
    ],
)
def test_a_parameter_that_cloudformation_refuses_is_refused(parameter: dict[str, Any], fix: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(document(parameters={"Size": parameter}, endpoints={"Chat": LLAMA}))
    (violation,) = refused.value.violations
    assert " parameters.Size" in violation.location
    assert fix in violation.suggestion


@pytest.mark.parametrize(
    "parameter",
    one_in(
        3,
        [
            {"allowed_values": ["1", "2"], "default": 2, "type": "Number", "min_value": 1, "max_value": 2},
            {"default": "ab", "min_length": 2, "max_length": 2},
            {"type": "CommaDelimitedList", "default": "a,b"},
            {"type": "CommaDelimitedList", "default": "a, b", "allowed_values": ["a", "b", "c"]},
            {"type": "List<Number>", "default": "8,16.0", "allowed_values": ["8", "16"]},
            {
                "type": "List<AWS::EC2::Subnet::Id>",
                "default": "subnet-00000001,subnet-00000002",
                "allowed_values": ["subnet-00000001", "subnet-00000002"],
            },
            {"type": "Number", "default": 8.0, "allowed_values": ["8", "16"]},
            {"type": "AWS::SSM::Parameter::Value<String>", "default": "/name", "allowed_values": ["a"]},
            {"type": "AWS::SSM::Parameter::Value<List<String>>", "default": "/name", "allowed_values": ["a"]},
            {"type": "AWS::SSM::Parameter::Value<String>", "default": "/name"},
        ],
    ),
)
def test_a_parameter_with_consistent_constraints_is_accepted(parameter: dict[str, Any]) -> None:
    template = synthesized(parameters={"Size": parameter}, endpoints={"Chat": LLAMA})
    assert template["Parameters"]["Size"]["Default"] == parameter["default"]


@pytest.mark.parametrize(
    "parameter",
    [
        {"allowed_values": ["a"]},
        {"allowed_values": ["1"], "type": "Number"},
        {"allowed_values": ["a"], "type": "AWS::SSM::Parameter::Value<String>", "default": "/name"},
        {"allowed_values": ["a"], "type": "AWS::SSM::Parameter::Value<CommaDelimitedList>", "default": "/name"},
        {"allowed_values": ["8", "many"], "type": "Number", "default": 8.0},
        {"allowed_values": ["8", "16"], "type": "List<Number>", "default": "8.0, 16"},
        {"allowed_values": ["a", "b"], "type": "CommaDelimitedList", "default": "b, a"},
        {"allowed_values": ["subnet-1"], "type": "List<AWS::EC2::Subnet::Id>", "default": "subnet-1"},
        {"min_length": 2, "max_length": 2, "default": 12},
        {"min_length": 2, "max_length": 2},
        {"max_length": 0, "default": ""},
        {"type": "Number", "min_value": 0, "max_value": 0, "default": 0},
        {"type": "Number", "min_value": 1, "default": "1"},
        {"type": "AWS::EC2::VPC::Id"},
        {"type": "List<String>"},
        {"type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>"},
        {"type": "AWS::SSM::Parameter::Value<List<AWS::EC2::Subnet::Id>>"},
    ],
    ids=str,
)
def test_a_parameter_is_one_if_nothing_contradicts_its_default(parameter: dict[str, Any]) -> None:
    assert Parameter(**parameter).model_fields_set == parameter.keys()


@pytest.mark.parametrize(
    "type_name",
    [
        "string",
        "List<CommaDelimitedList>",
        "List<List<String>>",
        "AWS::EC2",
        "AWS::SSM::Parameter::Value<x>",
        "xString",
    ],
)
def test_a_parameter_has_a_type_of_cloudformation(type_name: str) -> None:
    with pytest.raises(ValidationError, match="string_pattern_mismatch"):
        Parameter(type=type_name)


@pytest.mark.parametrize("parameter", [{"min_length": 6}, {"max_length": 3}, {"type": "Number", "min_value": 1}])
def test_a_parameter_without_a_default_has_any_constraints(parameter: dict[str, Any]) -> None:
    assert "Default" not in synthesized(parameters={"Size": parameter}, endpoints={"Chat": LLAMA})["Parameters"]["Size"]


def test_parameters_take_the_places_of_text_and_numbers() -> None:
    template = synthesized(
        parameters={
            "Pages": {"description": "who is paged"},
            "MaxCapacity": {"type": "Number", "default": 4, "min_value": 1},
            "Key": {"allowed_pattern": "arn:.*"},
        },
        endpoints={
            "Llama": {
                **LLAMA,
                "environment": {"OWNER": "team-${Pages}-${AWS::Region}"},
                "monitoring": {"alarm_actions": ["${Pages}"]},
                "data_capture": {"bucket": "captures", "encryption_key": "${Key}"},
                "scaling": {"max_capacity": "${MaxCapacity}", "on_concurrency": {"target": 8}},
            }
        },
    )
    assert template["Parameters"]["MaxCapacity"] == {"Default": 4, "MinValue": 1, "Type": "Number"}
    assert template["Parameters"]["Pages"] == {"Description": "who is paged", "Type": "String"}
    assert only(template, "AWS::ApplicationAutoScaling::ScalableTarget")["MaxCapacity"] == {"Ref": "MaxCapacity"}
    alarms = [each for each in template["Resources"].values() if each["Type"] == "AWS::CloudWatch::Alarm"]
    assert all(alarm["Properties"]["AlarmActions"] == [{"Ref": "Pages"}] for alarm in alarms)
    owner = only(template, "AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]["OWNER"]
    assert owner == {"Fn::Join": ["", ["team-", {"Ref": "Pages"}, "-", {"Ref": "AWS::Region"}]]}
    assert only(template, "AWS::SageMaker::EndpointConfig")["DataCaptureConfig"]["KmsKeyId"] == {"Ref": "Key"}


def test_what_exists_is_named_by_ids_names_and_arns() -> None:
    role = "arn:aws:iam::111122223333:role/models"
    template = synthesized(
        endpoints={
            "Llama": {
                **LLAMA,
                "role": role,
                "network": {
                    "vpc": {"vpc_id": "vpc-00000001", "subnet_ids": ["subnet-00000001", "subnet-00000002"]},
                    "security_groups": ["sg-00000001"],
                },
                "data_capture": {"bucket": "captures"},
                "async_inference": {"bucket": "answers", "success_topic": "arn:aws:sns:us-west-2:111122223333:done"},
                "update_policy": {
                    "rolling": {
                        "percent": 20,
                        "timeout": "2h",
                        "rollback_alarms": ["arn:aws:cloudwatch:us-west-2:111122223333:alarm:mine"],
                    }
                },
                "removal_policy": "retain",
            }
        }
    )
    model = only(template, "AWS::SageMaker::Model")
    assert model["ExecutionRoleArn"] == role
    assert model["VpcConfig"] == {
        "SecurityGroupIds": ["sg-00000001"],
        "Subnets": ["subnet-00000001", "subnet-00000002"],
    }
    config = only(template, "AWS::SageMaker::EndpointConfig")
    assert config["DataCaptureConfig"]["DestinationS3Uri"] == "s3://captures/captures"
    assert config["AsyncInferenceConfig"]["OutputConfig"]["S3OutputPath"].startswith("s3://answers/")
    endpoint = next(each for each in template["Resources"].values() if each["Type"] == "AWS::SageMaker::Endpoint")
    assert endpoint["DeletionPolicy"] == "Retain"
    rolling = endpoint["Properties"]["DeploymentConfig"]["RollingUpdatePolicy"]
    assert rolling["MaximumExecutionTimeoutInSeconds"] == 7200
    alarms = endpoint["Properties"]["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    assert {"AlarmName": "mine"} in alarms


def test_an_alarm_action_may_be_listed_several_times() -> None:
    monitoring = {"alarm_actions": ["arn:aws:sns:us-west-2:111122223333:pages"] * 6}
    template = synthesized(endpoints={"Llama": {**LLAMA, "monitoring": monitoring}})
    alarms = [each for each in template["Resources"].values() if each["Type"] == "AWS::CloudWatch::Alarm"]
    assert alarms
    assert all(len(alarm["Properties"]["AlarmActions"]) == 1 for alarm in alarms)


def test_a_metric_of_the_endpoint_is_its_name() -> None:
    scaling = {"max_capacity": 2, "on_metric": {"Gpu": {"metric": "gpu_utilization", "target": 70}}}
    policy = only(
        synthesized(endpoints={"Llama": {**LLAMA, "scaling": scaling}}), "AWS::ApplicationAutoScaling::ScalingPolicy"
    )
    metric = policy["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"]
    assert "GPUUtilization" in json.dumps(metric)


def test_tags_description_and_account_are_the_stack_s() -> None:
    stack = DeclaredStack(
        document(
            description="Chat of team x",
            account="111122223333",
            region="eu-west-1",
            tags={"team": "x"},
            endpoints={"Llama": LLAMA},
        )
    )
    template = Template.from_stack(stack).to_json()
    assert (stack.account, stack.region, template["Description"]) == ("111122223333", "eu-west-1", "Chat of team x")
    assert {"Key": "team", "Value": "x"} in only(template, "AWS::SageMaker::Endpoint")["Tags"]


def test_a_file_has_the_plans_of_endpoints_and_components() -> None:
    stack = DeclaredStack(
        document(
            artifact_stores={"Store": {}},
            endpoints={
                "Llama": LLAMA,
                "Shared": {"instance_type": "ml.g5.12xlarge", "components": {"Sql": {"model": MODEL}}},
            },
        )
    )
    assert {name: [plan.instance_type for plan in plans] for name, plans in stack.plans.items()} == {
        "Llama": ["ml.g5.12xlarge"],
        "Shared/Sql": ["ml.g5.12xlarge"],
    }


def test_objectives_of_a_file_are_asked_for_before_there_is_a_choice() -> None:
    objectives = {"input_tokens": 1000, "output_tokens": 300, "time_to_first_token": "1.5s"}
    found = intents(document(endpoints={"Llama": LLAMA, "Chat": {"model": MODEL, "objectives": objectives}}))
    assert list(found) == ["Chat"]
    model, wanted = found["Chat"]
    assert (model.model_id, wanted.time_to_first_token) == ("meta-textgeneration-llama-3-8b", 1500)


def test_a_parameter_that_does_not_exist_is_missed_in_the_model_that_names_it() -> None:
    objectives = {"input_tokens": 1000, "output_tokens": 300, "time_to_first_token": "1.5s"}
    model = {"s3": {"uri": "s3://${Models}/chat/"}}
    with pytest.raises(DeclarationError) as refused:
        intents(document(endpoints={"Chat": {"model": model, "objectives": objectives}}))
    (violation,) = refused.value.violations
    assert violation.location.endswith(" endpoints.Chat.model.s3.uri")


def test_an_assembly_is_written_compactly_to_the_folder_that_is_named(tmp_path: Path) -> None:
    written = DeclaredStack(document(artifact_stores={"Store": {}}), outdir=tmp_path / "out").synth()
    assert written == tmp_path / "out"
    assert "\n" not in (written / "Chat.template.json").read_text()


def test_a_written_template_beyond_a_limit_is_refused_unless_aws_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, "trust policy", 10)
    content: dict[str, Any] = {"endpoints": {"Llama": LLAMA}, "outputs": {"One": "1", "Two": "2"}}
    DeclaredStack(document(**content)).synth()
    lower(monkeypatch, "outputs", 1)
    with pytest.raises(RuntimeError, match=r"^the template has 2 outputs, and CloudFormation allows 1: declare some"):
        DeclaredStack(document(**content)).synth()


@pytest.mark.parametrize(("severity", "is_refused"), [("error", True), ("warning", False)])
def test_a_policy_of_a_file_refuses_its_template_or_warns(severity: str, is_refused: bool) -> None:
    policy = {"vpc_required": True, "severities": {"POL031": severity}}
    told = r"^Chat/Llama\S*: .*What works: .* \[ack: \S+::POL031\]"
    with pytest.raises(RuntimeError, match=told) if is_refused else nullcontext():
        _, made = declared_template(document(endpoints={"Llama": LLAMA}, policy=policy), code_bucket=None, inline=False)
        assert [text for text in made.warnings if re.search(told, text)]


# Taken into an app.


def write(folder: Path, **content: Any) -> Path:
    path = folder / "endpoint.json"
    path.write_text(json.dumps({"stack": "Unused", **content}))
    return path


def test_an_app_takes_an_endpoint_with_arguments_of_its_own(tmp_path: Path) -> None:
    stack = Stack(App(), "Mine")
    vpc = ec2.Vpc(
        stack,
        "Vpc",
        availability_zones=["us-west-2a"],
        nat_gateways=0,
        subnet_configuration=[ec2.SubnetConfiguration(name="Models", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)],
    )
    vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
    scaled = {**LLAMA, "scaling": {"max_capacity": 4, "on_concurrency": {"target": 8}}}
    network = NetworkOptions(vpc=vpc, vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED))
    endpoint = OptimizedEndpoint.from_file(stack, "Chat", write(tmp_path, endpoints={"Llama": scaled}), network=network)
    template = Template.from_stack(stack).to_json()
    assert endpoint.node.path == "Mine/Chat"
    assert "VpcConfig" in only(template, "AWS::SageMaker::Model")
    assert only(template, "AWS::ApplicationAutoScaling::ScalableTarget")["MaxCapacity"] == 4


def test_the_class_that_takes_an_endpoint_is_that_of_the_endpoint(tmp_path: Path) -> None:
    class Ours(OptimizedEndpoint):
        """A platform's own."""

    made = Ours.from_file(Stack(App(), "Mine"), "Chat", write(tmp_path, endpoints={"Llama": LLAMA}))
    assert type(made) is Ours


def test_a_platform_s_own_class_takes_what_it_changes(tmp_path: Path) -> None:
    class Ours(OptimizedEndpoint):
        """A platform's own, with a constructor of its own."""

        def __init__(self, scope: Stack, id: str, **given: Any) -> None:
            super().__init__(scope, id, **{"removal_policy": RemovalPolicy.RETAIN, **given})

    stack = Stack(App(), "Mine")
    assert type(Ours.from_file(stack, "Chat", write(tmp_path, endpoints={"Llama": LLAMA}))) is Ours
    found = Template.from_stack(stack).find_resources("AWS::SageMaker::Endpoint")
    assert [each["DeletionPolicy"] for each in found.values()] == ["Retain"]


def test_two_files_do_not_share_a_parameter_by_accident(tmp_path: Path) -> None:
    scaled = {**LLAMA, "scaling": {"max_capacity": "${Most}", "on_concurrency": {"target": 8}}}
    stack = Stack(App(), "Mine")
    for name, default, problem in (("one", 4, None), ("two", 4, None), ("three", 9, "a different parameter 'Most'")):
        folder = tmp_path / name
        folder.mkdir()
        parameters = {"Most": {"type": "Number", "default": default}}
        path = write(folder, parameters=parameters, endpoints={name: scaled})
        with pytest.raises(DeclarationError, match=problem) if problem else nullcontext():
            OptimizedEndpoint.from_file(stack, name, path)


def test_an_app_s_file_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="this release knows schema 1"):
        OptimizedEndpoint.from_file(Stack(App(), "Mine"), "A", write(tmp_path, schema=2, endpoints={"A": LLAMA}))


def test_text_has_references_and_their_characters() -> None:
    template = synthesized(
        parameters={"Team": {}},
        tags={"team": "${Team}"},
        endpoints={"Llama": {**LLAMA, "environment": {"A": "$${HOME} of ${Team}"}}},
    )
    assert {"Key": "team", "Value": {"Ref": "Team"}} in only(template, "AWS::SageMaker::Endpoint")["Tags"]
    value = only(template, "AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]["A"]
    assert value == {"Fn::Join": ["", ["${HOME} of ", {"Ref": "Team"}]]}


def test_an_app_names_one_of_several_endpoints(tmp_path: Path) -> None:
    path = write(tmp_path, endpoints={"Llama": LLAMA, "Other": {**LLAMA, "instance_type": "ml.g6e.12xlarge"}})
    stack = Stack(App(), "Mine")
    assert OptimizedEndpoint.from_file(stack, "Chat", path, endpoint="Other").plan.instance_type == "ml.g6e.12xlarge"
    with pytest.raises(DeclarationError, match=r"there is no endpoint 'Chat2'[\s\S]*it has Llama, Other"):
        OptimizedEndpoint.from_file(stack, "Chat2", path)


@pytest.mark.parametrize("is_declared_by_app", [False, True])
def test_endpoints_of_a_file_share_a_store_in_an_app(tmp_path: Path, is_declared_by_app: bool) -> None:
    endpoint = {**LLAMA, "artifact_store": "Artifacts"}
    path = write(
        tmp_path, artifact_stores={"Artifacts": {"bucket_name": "ours"}}, endpoints={"A": endpoint, "B": endpoint}
    )
    stack = Stack(App(), "Mine")
    if is_declared_by_app:
        ArtifactStore(stack, "Artifacts", bucket_name="theirs")
    for name in ("A", "B"):
        OptimizedEndpoint.from_file(stack, name, path)
    bucket = only(Template.from_stack(stack).to_json(), "AWS::S3::Bucket")
    assert bucket["BucketName"] == ("theirs" if is_declared_by_app else "ours")


def test_an_app_raises_the_errors_of_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, endpoints={"Llama": {**LLAMA, "instance_type": "ml.g5"}})
    with pytest.raises(DeclarationError) as error:
        OptimizedEndpoint.from_file(Stack(App(), "Mine"), "Llama", path)
    assert [each.location for each in error.value.violations] == [f"{path}:1:217 endpoints.Llama.instance_type"]


def test_two_endpoints_of_one_file_share_the_network_that_it_names(tmp_path: Path) -> None:
    network = {"vpc": {"vpc_id": "vpc-00000001", "subnet_ids": ["subnet-00000001", "subnet-00000002"]}}
    path = write(tmp_path, endpoints={"Llama": {**LLAMA, "network": network}})
    stack = Stack(App(), "Mine")
    for name in ("First", "Second"):
        OptimizedEndpoint.from_file(stack, name, path)
    other = write(
        tmp_path, endpoints={"Llama": {**LLAMA, "network": {"vpc": {**network["vpc"], "vpc_id": "vpc-00000002"}}}}
    )
    OptimizedEndpoint.from_file(stack, "Third", other)
    groups = [
        each["Properties"]["VpcId"]
        for each in Template.from_stack(stack).to_json()["Resources"].values()
        if each["Type"] == "AWS::EC2::SecurityGroup"
    ]
    assert sorted(set(groups)) == ["vpc-00000001", "vpc-00000002"]
    assert stack.node.try_find_child("endpoints.Llama.network.vpc") is not None


def test_an_existing_network_and_tags_of_parameters_cause_no_warnings() -> None:
    network = {"vpc": {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-0123456789abcdef0"]}}
    declared = DeclaredStack(
        document(
            parameters={"Stage": {}},
            tags={"stage": "${Stage}", "team": "chat"},
            endpoints={"Llama": {**LLAMA, "network": network}},
        )
    )
    assert declared.warnings == ()
    assert declared.tags.tag_values() == {"team": "chat"}


def test_outputs_of_two_ids_with_one_name_are_refused() -> None:
    model = {"s3": {"uri": "s3://models-of-mine/chat/"}}
    hosted = {"instance_type": "ml.g6e.12xlarge", "components": {"Lora": {"model": model}}}
    declared = DeclaredStack(document(endpoints={"ChatLora": {**LLAMA}, "Chat": hosted}))
    with pytest.raises(DeclarationError) as refused:
        declared.add_outputs()
    (violation,) = refused.value.violations
    assert "outputs of ChatLora and Chat/Lora have the same names" in violation.reason
    assert "endpoints.Chat" in violation.location


def test_an_output_of_the_template_is_not_declared_again() -> None:
    declared = DeclaredStack(document(outputs={"LlamaEndpointName": "mine"}, endpoints={"Llama": LLAMA}))
    with pytest.raises(DeclarationError) as refused:
        declared.add_outputs()
    (violation,) = refused.value.violations
    assert violation.location.endswith("outputs.LlamaEndpointName")


def test_outputs_of_ids_with_the_same_letters_are_refused() -> None:
    declared = DeclaredStack(document(endpoints={"Ll-ama": LLAMA, "Llama": LLAMA}))
    with pytest.raises(DeclarationError, match="outputs of Ll-ama and Llama have the same names"):
        declared.add_outputs()


def test_pseudo_parameters_are_references() -> None:
    names = ["AccountId", "Partition", "Region", "StackId", "StackName", "URLSuffix"]
    stack = Stack(App(), "Mine")
    builder = Builder(stack, document())
    assert [stack.resolve(builder.text(f"${{AWS::{name}}}")) for name in names] == [
        {"Ref": f"AWS::{name}"} for name in names
    ]
    with pytest.raises(ValueError, match="no pseudo parameter 'AWS::NoValue'"):
        builder.text("${AWS::NoValue}")


_TYPES = ["ml.g5.12xlarge", "ml.g5.48xlarge"]


def test_an_output_has_an_item_of_a_list() -> None:
    pools = [{"instance_type": name, "techniques": [{"quantization": "awq"}]} for name in _TYPES]
    text = "${Chat.plans.0.instance_type}, or ${Chat.plans.1.instance_type}"
    template = synthesized(endpoints={"Chat": {"model": MODEL, "instance_pools": pools}}, outputs={"Types": text})
    assert template["Outputs"]["Types"]["Value"] == ", or ".join(_TYPES)


def test_what_refers_to_a_refused_construct_is_not_refused_as_well() -> None:
    stores = {"Store": {"bucket_name": "No Name"}}
    endpoints = {"Chat": {**LLAMA, "artifact_store": "Store"}}
    outputs = {"Name": "${Chat.endpoint_name}"}
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(document(artifact_stores=stores, endpoints=endpoints, outputs=outputs))
    (violation,) = {each.location: each for each in refused.value.violations}.values()
    assert "artifact_stores.Store" in violation.location


@pytest.mark.parametrize("refused_key", ["Chat", "Chat/Lora"])
def test_what_refers_to_a_refused_component_is_not_refused_as_well(refused_key: str) -> None:
    wrong = {"instance_type": "ml.g5"} if refused_key == "Chat" else {}
    component = {"model": "jumpstart" if refused_key == "Chat/Lora" else "s3://models-of-mine/chat/"}
    endpoints = {"Chat": {"instance_type": "ml.g6e.12xlarge", "components": {"Lora": component}, **wrong}}
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(document(endpoints=endpoints, outputs={"Name": "${Chat/Lora.inference_component_name}"}))
    assert {each.location.partition(" ")[2].rpartition(".")[0] for each in refused.value.violations} == {
        "endpoints.Chat" if refused_key == "Chat" else "endpoints.Chat.components.Lora"
    }


def test_a_dashboard_shows_any_endpoint_of_the_file() -> None:
    shown = {"show_evaluation": [{"baseline": {"label": "before", "served": "Later"}, "concurrencies": [4]}]}
    template = synthesized(endpoints={"Chat": {**LLAMA, "dashboard": shown}, "Later": {**LLAMA}})
    assert "before" in json.dumps(template)
    with pytest.raises(DeclarationError) as refused:
        DeclaredStack(
            document(
                endpoints={"Chat": {**LLAMA, "dashboard": shown}, "Later": {**LLAMA, "instance_type": "ml.g5"}},
            )
        )
    (violation,) = refused.value.violations
    assert violation.location.endswith("endpoints.Later.instance_type")


def test_a_deployment_of_a_file_is_marked_once_in_each_graph() -> None:
    time = "2026-11-21T14:00:00Z"
    declared = DeclaredStack(document(endpoints={"Chat": {**LLAMA, "dashboard": {"add_deployment": [{"at": time}]}}}))
    declared.add_outputs()
    (body,) = [
        json.dumps(each["Properties"]["DashboardBody"])
        for each in Template.from_stack(declared).to_json()["Resources"].values()
        if each["Type"] == "AWS::CloudWatch::Dashboard"
    ]
    assert body.count(time) == body.count("vertical") > 0


def test_an_error_of_the_cdk_has_its_first_line_and_the_place() -> None:
    builder = Builder(Stack(App(), "Mine"), document(endpoints={"Chat": {}}))
    with builder.explained(("endpoints", "Chat")):
        raise RuntimeError("Error: no such thing\n    at kernel.js:1")
    with pytest.raises(DeclarationError) as refused:
        builder.finish()
    (violation,) = refused.value.violations
    assert violation.location.endswith("endpoints.Chat")
    assert violation.reason == "Error: no such thing"
    assert violation.suggestion == "another value: this is a message of the AWS CDK"


@pytest.mark.parametrize(
    ("message", "reason", "fix"),
    [
        ("Chat/Llama: on_steps('Busy'): this is wrong: write it so", "this is wrong", "write it so"),
        ("this is wrong; write it so", "this is wrong", "write it so"),
        ("the endpoint needs an instance type", "the endpoint needs an instance type", "an instance type"),
        ("this is wrong", "this is wrong", "another value"),
    ],
)
def test_a_message_of_the_library_has_a_reason_and_what_works(message: str, reason: str, fix: str) -> None:
    builder = Builder(Stack(App(), "Mine"), document(endpoints={"Chat": {}}))
    with builder.explained(("endpoints", "Chat")):
        raise ValueError(message)
    with pytest.raises(DeclarationError) as refused:
        builder.finish()
    (violation,) = refused.value.violations
    assert (violation.reason, violation.suggestion) == (reason, fix)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21_600), ("7d", 604_800), ("15 m", 900)]
)
def test_a_duration_has_the_unit_of_its_letter(text: str, seconds: int) -> None:
    kind = REFERENCES[Duration]
    assert kind.makes is not None
    assert kind.makes(Stack(), "Time", text).to_seconds() == seconds


@pytest.mark.parametrize(("text", "mebibytes"), [("512MiB", 512), ("2GiB", 2048), ("2 GiB", 2048)])
def test_a_size_has_the_unit_after_it(text: str, mebibytes: int) -> None:
    kind = REFERENCES[Size]
    assert kind.makes is not None
    assert kind.makes(Stack(), "Size", text).to_mebibytes() == mebibytes


_ROLE_ARN, _KEY_ARN = "arn:aws:iam::111122223333:role/", "arn:aws:kms:us-west-2:111122223333:key/"
_TOPIC_ARN, _ALARM_ARN = "arn:aws:sns:us-west-2:111122223333:", "arn:aws:cloudwatch:us-west-2:111122223333:alarm:"


@pytest.mark.parametrize(
    ("kind", "text", "fix"),
    [
        (s3.IBucket, "abc", None),
        (s3.IBucket, "arn:aws-cn:s3:::abc", None),
        (s3.IBucket, "ab", "my-bucket or arn:aws:s3:::my-bucket"),
        (s3.IBucket, "arn:aws:s3:::", "my-bucket or arn:aws:s3:::my-bucket"),
        (iam.IRole, "r" * 64, None),
        (iam.IRole, "service-role/MyRole", None),
        (iam.IRole, f"{_ROLE_ARN}a/MyRole", None),
        (iam.IRole, "r" * 65, f"MyRole or {_ROLE_ARN}MyRole"),
        (iam.IRole, "../MyRole", f"MyRole or {_ROLE_ARN}MyRole"),
        (iam.IRole, "arn:aws:iam::11112222333:role/MyRole", f"MyRole or {_ROLE_ARN}MyRole"),
        (sns.ITopic, f"{_TOPIC_ARN}{'t' * 256}", None),
        (sns.ITopic, f"{_TOPIC_ARN}pages.fifo", None),
        (sns.ITopic, f"{_TOPIC_ARN}{'t' * 257}", f"{_TOPIC_ARN}my-topic"),
        (sns.ITopic, "pages", f"{_TOPIC_ARN}pages"),
        (sns.ITopic, f"{_TOPIC_ARN}pages:1", f"{_TOPIC_ARN}my-topic"),
        (AlarmAction, "pages", f"{_TOPIC_ARN}pages"),
        (kms.IKey, f"{_KEY_ARN}1234abcd-12ab-34cd-56ef-1234567890ab", None),
        (kms.IKey, f"{_KEY_ARN}mrk-{'0' * 32}", None),
        (kms.IKey, f"{_KEY_ARN}mrk-{'0' * 31}", f"{_KEY_ARN}1234abcd-12ab-34cd-56ef-1234567890ab"),
        (kms.IKey, "alias/mine", f"{_KEY_ARN}1234abcd-12ab-34cd-56ef-1234567890ab"),
        (cloudwatch.IAlarm, f"{_ALARM_ARN}{'a' * 255}", None),
        (cloudwatch.IAlarm, f"{_ALARM_ARN}{'a' * 256}", f"{_ALARM_ARN}my-alarm"),
        (cloudwatch.IAlarm, "Errors", f"{_ALARM_ARN}Errors"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_a_reference_to_what_exists_is_a_name_or_an_arn(kind: Any, text: str, fix: str | None) -> None:
    refusal = REFERENCES[kind].refusal(text)
    assert (refusal[1].partition(", such as ")[2] if refusal is not None else None) == fix
