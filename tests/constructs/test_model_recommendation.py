from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, Model, ModelRecommendation, RecipeError, Workload

from ..support.construct_stacks import resource, resources, stack, template_of
from ..support.template_stack import actions

TYPE = "Custom::ModelRecommendation"


def recommendation(scope: Stack, id: str = "Recommendation", **overrides: Any) -> ModelRecommendation:
    role = iam.Role.from_role_arn(scope, f"{id}Role", "arn:aws:iam::111122223333:role/mine", mutable=False)
    return ModelRecommendation(scope, id, **{"model": Model.s3("s3://models/llama"), "role": role, **overrides})


def conditions(scope: Stack) -> dict[str, Any]:
    found = template_of(scope)["Resources"].items()
    return {name: each for name, each in found if each["Type"] == "AWS::CloudFormation::WaitCondition"}


def test_a_recommendation_request_has_its_own_workload_configuration() -> None:
    scope = stack()
    recommendation(scope, workload=Workload(concurrency=[4], prompts="s3://prompts/chat.jsonl"))
    template = template_of(scope)
    config, request = resource(template, "AWS::SageMaker::AIWorkloadConfig"), resource(template, TYPE)["Request"]
    assert json.loads(config["AIWorkloadConfigs"]["WorkloadSpec"]["Inline"]) == request["Workload"]
    assert request["Metric"] == "cost"
    assert request["OptimizeModel"] is True
    assert request["Prompts"] == "s3://prompts/chat.jsonl"
    assert not {"InstanceTypes", "Framework", "ReservationArns"} & set(request), "the service chooses"


def test_recommendation_attributes_are_read_from_the_wait_condition() -> None:
    scope = stack()
    created = recommendation(scope, timeout=Duration.hours(3))
    for name in ("instance_type", "instance_count", "model_package_arn", "inference_specification_name"):
        CfnOutput(scope, name.title().replace("_", ""), value=str(getattr(created, name)))
    template = template_of(scope)
    ((name, condition),) = conditions(scope).items()
    assert condition["Properties"]["Timeout"] == "10800"
    assert condition["DependsOn"] == [next(key for key, r in template["Resources"].items() if r["Type"] == TYPE)]
    data = {"Fn::Split": ["|", {"Fn::GetAtt": [name, "Data"]}]}
    values = [output["Value"] for output in template["Outputs"].values()]
    assert values == [{"Fn::Select": [part, data]} for part in (1, 2, 3, 4)]


def test_a_recommendation_without_waiting_has_only_a_result_uri() -> None:
    scope = stack()
    created = recommendation(scope, wait=False)
    CfnOutput(scope, "Uri", value=created.result_uri)
    with pytest.raises(ValueError, match="wait=True, or read result_uri later"):
        _ = created.instance_type
    template = template_of(scope)
    assert not conditions(scope)
    assert "WaitHandle" not in resource(template, TYPE)
    assert template["Outputs"]["Uri"]["Value"]["Fn::GetAtt"][1] == "ResultUri"


def test_a_changed_recommendation_request_creates_a_new_wait_condition() -> None:
    def condition(**overrides: Any) -> str:
        scope = stack()
        recommendation(scope, **overrides)
        (name,) = conditions(scope)
        return name

    first = condition()
    assert condition() == first
    changes: list[dict[str, Any]] = [
        # CloudFormation updates no wait condition.
        {"timeout": Duration.hours(1)},
        {"optimize_for": "throughput"},
        {"instance_types": ["ml.g5.xlarge"]},
        {"framework": "LMI"},
        {"optimize_model": False},
        {"workload": Workload(concurrency=[2])},
        {"model": Model.s3("s3://models/mistral")},
    ]
    assert len({first, *(condition(**change) for change in changes)}) == 1 + len(changes)


def test_a_role_of_the_stack_gets_its_permissions_before_the_job_starts() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    secret = "arn:aws:secretsmanager:us-west-2:111122223333:secret:token"
    recommendation(scope, role=role, workload=Workload(token_secret_arn=secret))
    template = template_of(scope)
    (statements,) = [each["PolicyDocument"]["Statement"] for each in resources(template, "AWS::IAM::Policy")]
    # tests/constructs/test_roles.py checks the other permissions that the service needs.
    others = {each["Sid"]: each for each in statements if "sagemaker:" not in json.dumps(each["Action"])}
    assert others.pop("PassItself")["Resource"] == {"Fn::GetAtt": ["Role1ABCC5F0", "Arn"]}
    assert {action for each in others.values() for action in actions(each)} == {
        "cloudwatch:PutMetricData",
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
        "s3:AbortMultipartUpload",
        "s3:GetBucketLocation",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutObject",
        "secretsmanager:GetSecretValue",
        "servicequotas:GetServiceQuota",
    }
    (recommending,) = [each for each in template["Resources"].values() if each["Type"] == TYPE]
    (policy,) = [name for name, each in template["Resources"].items() if each["Type"] == "AWS::IAM::Policy"]
    assert policy in recommending["DependsOn"]


def test_an_immutable_role_is_not_changed_and_only_it_may_be_passed() -> None:
    scope = stack()
    recommendation(scope)
    template = template_of(scope)
    assert not resources(template, "AWS::IAM::Policy")
    statements = [
        statement
        for role in resources(template, "AWS::IAM::Role")
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == ["iam:PassRole"]
    ]
    assert [each["Resource"] for each in statements] == ["arn:aws:iam::111122223333:role/mine"]


def test_a_stack_with_only_recommendations_has_no_execution_role() -> None:
    scope = stack()
    recommendation(scope)
    trusted = {
        role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"]
        for role in resources(template_of(scope), "AWS::IAM::Role")
    }
    assert trusted == {"lambda.amazonaws.com", "states.amazonaws.com"}


def test_recommendations_share_handlers_but_not_workload_configurations() -> None:
    scope = stack()
    recommendation(scope, "One")
    recommendation(scope, "Two")
    template = template_of(scope)
    assert len(resources(template, "AWS::StepFunctions::StateMachine")) == 1
    assert len(resources(template, "AWS::Lambda::Function")) == 2
    names = [
        json.dumps(each["AIWorkloadConfigName"]) for each in resources(template, "AWS::SageMaker::AIWorkloadConfig")
    ]
    assert len(set(names)) == 2


def test_recommendation_and_workload_violations_are_reported_together() -> None:
    scope = Stack(App(), "Chat", env=Environment(account="111122223333", region="eu-north-1"))
    with pytest.raises(RecipeError) as refused:
        recommendation(scope, framework="TGI", workload=Workload(parameters={"concurency": 3}))
    assert [violation.rule for violation in refused.value.violations] == ["OPT153", "OPT154", "OPT143"]
    assert not [each for each in scope.node.children if isinstance(each, ModelRecommendation)]


def test_a_timeout_beyond_twelve_hours_is_refused_with_an_alternative() -> None:
    with pytest.raises(ValueError, match="wait=False"):
        recommendation(stack(), timeout=Duration.hours(13))


def test_a_recommendation_with_a_read_only_store_is_refused() -> None:
    scope = stack()
    bucket = s3.Bucket.from_bucket_name(scope, "Shared", "artifacts-of-others")
    with pytest.raises(ValueError, match="read-only"):
        recommendation(scope, artifact_store=ArtifactStore.from_bucket(bucket, read_only=True))


def test_a_recommendation_has_the_key_and_the_job_of_its_request() -> None:
    scope = stack()
    created = recommendation(scope)
    (name,) = [key for key, each in template_of(scope)["Resources"].items() if each["Type"] == TYPE]
    assert scope.resolve(created.recommendation_key) == {"Ref": name}
    assert scope.resolve(created.job_name) == {"Fn::GetAtt": [name, "JobName"]}
