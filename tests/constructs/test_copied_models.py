"""Models of Hugging Face in a stack: the jobs that copy them, and the one role that reads a token."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager

from constructs_optim import (
    JobOptions,
    KvCache,
    Model,
    OptimizedEndpoint,
    Quantization,
    RecipeError,
    SpeculativeDecoding,
)
from constructs_optim.policy import PlatformPolicy, check

from ..support.construct_stacks import resource, resources, stack, template_of

COMMIT = "c" * 40
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
QWEN = Model.huggingface("Qwen/Qwen3-32B", revision=COMMIT)


def gated(secret: str = SECRET, **more: Any) -> Model:
    return Model.huggingface("meta-llama/Llama-3.1-8B-Instruct", revision=COMMIT, token_secret_arn=secret, **more)


def endpoint(scope: Stack, model: Model = QWEN, **overrides: Any) -> OptimizedEndpoint:
    return OptimizedEndpoint(scope, "Chat", model=model, **{"instance_type": "ml.g7e.12xlarge", **overrides})


def roles_that_may(template: dict[str, Any], action: str) -> set[str]:
    """The roles of which a policy allows an action."""
    found: set[str] = set()
    for name, declared in template["Resources"].items():
        if declared["Type"] == "AWS::IAM::Role" and action in json.dumps(declared["Properties"].get("Policies", [])):
            found.add(name)
        if declared["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            document = json.dumps(declared["Properties"]["PolicyDocument"])
            found |= {role["Ref"] for role in declared["Properties"]["Roles"]} if action in document else set()
    return found


def role_of(job: dict[str, Any]) -> str:
    """The logical id of the role that a job has."""
    return job["RoleArn"]["Fn::GetAtt"][0]


def test_a_model_without_techniques_is_copied_and_served_from_the_store() -> None:
    scope = stack()
    endpoint(scope)
    template = template_of(scope)
    (job,) = resources(template, "Custom::TrainingJob")
    assert job["Source"] == {"Kind": "huggingface", "ModelId": "Qwen/Qwen3-32B", "Revision": COMMIT}
    assert "ModelChannel" not in job
    assert [channel["ChannelName"] for channel in job["Request"]["InputDataConfig"]] == ["code"]
    model = resource(template, "AWS::SageMaker::Model")
    assert model["EnableNetworkIsolation"] is True
    assert "Custom::OptimizationJob" not in {declared["Type"] for declared in template["Resources"].values()}


def test_a_checkpoint_and_a_speculator_have_a_job_each_whose_ids_name_them() -> None:
    scope = stack()
    speculator = Model.huggingface("RedHatAI/Qwen3-32B-speculator.eagle3", revision=COMMIT)
    checkpoint = Model.huggingface("nvidia/Qwen3-32B-NVFP4", revision=COMMIT)
    techniques = [
        Quantization.nvfp4(checkpoint=checkpoint),
        SpeculativeDecoding.speculator(model=speculator),
        KvCache.fp8(),
    ]
    endpoint(scope, techniques=techniques)
    template = template_of(scope)
    names = [name for name, declared in template["Resources"].items() if declared["Type"] == "Custom::TrainingJob"]
    assert any("CopyNvidiaQwen332BNvfp4" in name for name in names)
    assert any("CopyRedhataiQwen332BSpeculatorEagle3" in name for name in names)
    assert len(names) == 2
    (channel,) = resource(template, "Custom::OptimizedModel")["Channels"]
    assert channel["Name"] == "speculator"
    assert channel["Source"]["Kind"] == "artifact"


def test_only_the_copying_jobs_role_reads_the_token() -> None:
    scope = stack()
    endpoint(scope, gated(), techniques=[Quantization.fp8()])
    template = template_of(scope)
    (copy,) = resources(template, "Custom::TrainingJob")
    (job,) = resources(template, "Custom::OptimizationJob")
    readers = roles_that_may(template, "secretsmanager:GetSecretValue")
    assert readers == {role_of(copy)}
    assert role_of(job) not in readers
    assert copy["Request"]["Environment"] == {"TOKEN_SECRET_ARN": SECRET}


def test_the_token_is_read_of_that_secret_alone() -> None:
    scope = stack()
    endpoint(scope, gated())
    (statement,) = [each for each in statements_of_the_copy(scope) if "secretsmanager" in json.dumps(each["Action"])]
    assert (statement["Action"], statement["Resource"]) == (["secretsmanager:GetSecretValue"], SECRET)


@pytest.mark.parametrize("arn", ["arn:aws:secretsmanager:eu-west-1:111122223333:secret:hub", None])
def test_the_arn_of_a_secret_by_its_name_is_completed(arn: str | None) -> None:
    scope = stack()
    named = secretsmanager.Secret.from_secret_name_v2(scope, "Hub", "hub").secret_arn
    endpoint(scope, gated(arn or named, encryption_key_arn="arn:aws:kms:us-west-2:111122223333:key/1"))
    statements = {each["Sid"]: each for each in statements_of_the_copy(scope)}
    resource = json.dumps(statements["ReadToken"]["Resource"])
    assert re.search(r":secret:hub-\?{6}", resource)
    via = statements["DecryptToken"]["Condition"]["StringEquals"]["kms:ViaService"]
    region = {"Fn::Sub": "secretsmanager.${AWS::Region}.amazonaws.com"}
    assert via == (region if arn is None else "secretsmanager.eu-west-1.amazonaws.com")


def statements_of_the_copy(scope: Stack) -> list[dict[str, Any]]:
    """The statements of the copying job's role."""
    template = template_of(scope)
    (copy,) = resources(template, "Custom::TrainingJob")
    role = template["Resources"][role_of(copy)]
    return [each for policy in role["Properties"]["Policies"] for each in policy["PolicyDocument"]["Statement"]]


def test_a_secret_of_the_stack_and_its_key_are_allowed() -> None:
    scope = stack()
    key = kms.Key(scope, "Key")
    secret = secretsmanager.Secret(scope, "Token", encryption_key=key)
    endpoint(scope, gated(secret.secret_arn, encryption_key_arn=key.key_arn))
    template = template_of(scope)
    (copy,) = resources(template, "Custom::TrainingJob")
    assert role_of(copy) in roles_that_may(template, "kms:ViaService")
    (statement,) = [each for each in statements_of_the_copy(scope) if each["Sid"] == "ReadToken"]
    assert statement["Resource"] == scope.resolve(secret.secret_arn)


def test_the_role_that_serves_a_gated_model_reads_no_token() -> None:
    scope = stack()
    role = iam.Role(scope, "Mine", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    endpoint(scope, gated(), techniques=[Quantization.fp8()], role=role)
    template = template_of(scope)
    (copy,) = resources(template, "Custom::TrainingJob")
    (job,) = resources(template, "Custom::OptimizationJob")
    assert role_of(job).startswith("Mine")
    assert roles_that_may(template, "secretsmanager:GetSecretValue") == {role_of(copy)}


def test_a_role_of_the_users_for_jobs_reads_the_token() -> None:
    scope = stack()
    role = iam.Role(scope, "Mine", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    endpoint(scope, gated(), jobs=JobOptions(role=role))
    template = template_of(scope)
    (copy,) = resources(template, "Custom::TrainingJob")
    assert role_of(copy).startswith("Mine")
    assert roles_that_may(template, "secretsmanager:GetSecretValue") == {role_of(copy)}


def test_a_stack_without_gated_models_has_no_role_for_them() -> None:
    scope = stack()
    endpoint(scope)
    assert not [name for name in template_of(scope)["Resources"] if "CopyRole" in name]


def test_all_mistakes_about_a_model_are_reported_at_once() -> None:
    with pytest.raises(RecipeError) as refused:
        endpoint(stack(), Model.huggingface("Qwen3-32B", revision="main", token_secret_arn="hf_1"))
    assert {violation.rule for violation in refused.value.violations} == {"OPT008", "OPT018"}


def test_a_copy_is_described_by_its_model_alone() -> None:
    scope = stack()
    endpoint(scope, techniques=[Quantization.fp8()])
    template = template_of(scope)
    (copy,) = resources(template, "Custom::TrainingJob")
    assert copy["Description"] == {"Model": f"Qwen/Qwen3-32B@{COMMIT[:12]}", "Techniques": []}
    (job,) = resources(template, "Custom::OptimizationJob")
    assert job["Description"]["Techniques"] == ["FP8"]


def test_policies_see_every_copied_model() -> None:
    scope = stack()
    speculator = Model.huggingface("RedHatAI/Qwen3-32B-speculator.eagle3", revision=COMMIT)
    endpoint(scope, techniques=[SpeculativeDecoding.speculator(model=speculator)])
    findings = check(PlatformPolicy(accepted_licenses=["Qwen/*"], pinned_model_versions=True), template_of(scope))
    assert {(finding.rule, finding.value) for finding in findings} == {
        ("POL020", "RedHatAI/Qwen3-32B-speculator.eagle3")
    }
