from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    ArtifactStore,
    IArtifactStore,
    JobOptions,
    Model,
    OptimizationJob,
    OptimizedArtifact,
    OptimizedEndpoint,
    Quantization,
    Sharding,
    SpeculativeDecoding,
)

from ..support.construct_stacks import LLAMA_70B, endpoint, llama, resource, resources, stack, template_of

KEY_ARN = "arn:aws:kms:us-west-2:999988887777:key/1234"


def shared_store(scope: Stack, *, encrypted: bool = False) -> IArtifactStore:
    """A store of another account, shared for reading."""
    key = kms.Key.from_key_arn(scope, "Key", KEY_ARN) if encrypted else None
    bucket = s3.Bucket.from_bucket_name(scope, "Shared", "artifacts-of-others")
    return ArtifactStore.from_bucket(bucket, encryption_key=key, read_only=True)


def key_of(**overrides: Any) -> str:
    """The artifact key of the recipe."""
    key = endpoint(stack(), **overrides).plan.artifact_key
    assert key is not None
    return key


def by_key(scope: Stack, **overrides: Any) -> OptimizedEndpoint:
    """The headline endpoint by its artifact key, with overridden arguments."""
    recipe = {name: value for name, value in overrides.items() if name in ("model", "techniques", "instance_type")}
    store = overrides.get("artifact_store") or shared_store(scope)
    key = overrides["artifact_key"] if "artifact_key" in overrides else key_of(**recipe)
    return endpoint(scope, **{**overrides, "artifact_store": store, "artifact_key": key})


def test_an_endpoint_by_artifact_key_has_no_job_and_no_wait_condition() -> None:
    scope = stack()
    created = by_key(scope)
    template = template_of(scope)
    assert not resources(template, "Custom::OptimizationJob")
    assert not resources(template, "AWS::CloudFormation::WaitCondition")
    assert not resources(template, "AWS::CloudFormation::WaitConditionHandle")
    assert not resources(template, "AWS::StepFunctions::StateMachine")
    (name,) = [name for name, r in template["Resources"].items() if r["Type"] == "Custom::OptimizedArtifact"]
    container = resource(template, "AWS::SageMaker::Model")["PrimaryContainer"]
    assert container["Image"] == created.plan.container.image
    assert container["ModelDataSource"]["S3DataSource"]["S3Uri"] == {"Fn::GetAtt": [name, "ModelDataUri"]}
    assert container["Environment"] == created.plan.container.environment
    assert len(resources(template, "AWS::SageMaker::Endpoint")) == 1


def test_the_artifact_resource_names_its_artifact_recipe_and_store() -> None:
    scope = stack()
    created = by_key(scope, artifact_store=shared_store(scope, encrypted=True))
    found = resource(template_of(scope), "Custom::OptimizedArtifact")
    assert {name: value for name, value in found.items() if name not in ("ServiceToken", "ServiceTimeout")} == {
        "Description": created.plan.description,
        "ArtifactKey": created.plan.artifact_key,
        "RecipeKey": created.plan.jobs[-1].recipe_key,
        "Source": {
            "Kind": "hub",
            "HubName": "SageMakerPublicHub",
            "ModelId": LLAMA_70B,
            "Version": "2.25.0",
            "AcceptEula": True,
        },
        "Bucket": "artifacts-of-others",
        "KmsKeyArn": KEY_ARN,
    }


def test_an_endpoint_by_artifact_key_supports_scaling_dashboard_and_grants() -> None:
    scope = stack()
    created = by_key(scope)
    created.auto_scale(max_capacity=3).on_concurrency(target=4)
    created.grant_invoke(iam.Role(scope, "Caller", assumed_by=iam.AccountRootPrincipal()))
    template = template_of(scope)
    for kind in ("AWS::ApplicationAutoScaling::ScalableTarget", "AWS::CloudWatch::Dashboard", "AWS::IAM::Policy"):
        assert len(resources(template, kind)) == 1


def test_artifacts_of_a_stack_share_one_lambda_function() -> None:
    scope = stack()
    store = shared_store(scope)
    by_key(scope, id="One", artifact_store=store)
    by_key(scope, id="Two", artifact_store=store, techniques=[Quantization.awq(group_size=64)])
    template = template_of(scope)
    assert [function["Handler"] for function in resources(template, "AWS::Lambda::Function")] == [
        "runtime.handlers.artifact_handler.handler",
        "runtime.handlers.preflight_handler.handler",
        "runtime.handlers.serving_handler.handler",
    ]
    assert len(resources(template, "Custom::OptimizedArtifact")) == 2


def statements(template: dict[str, Any], description: str) -> dict[str, dict[str, Any]]:
    """The statements of the role whose description starts with ``description``, by Sid."""
    (role,) = [r for r in resources(template, "AWS::IAM::Role") if r["Description"].startswith(description)]
    return {s["Sid"]: s for policy in role["Policies"] for s in policy["PolicyDocument"]["Statement"]}


def test_the_artifact_handler_writes_only_the_references_of_its_account() -> None:
    scope = stack()
    by_key(scope, artifact_store=shared_store(scope, encrypted=True))
    found = statements(template_of(scope), "Finds artifacts")
    assert {sid: s["Action"] for sid, s in found.items()} == {
        "WriteLogs": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "Trace": ["xray:PutTelemetryRecords", "xray:PutTraceSegments"],
        "DescribeJobs": ["sagemaker:DescribeOptimizationJob"],
        "ReadArtifacts": ["s3:GetObject"],
        "ListArtifacts": ["s3:ListBucket"],
        "DecryptArtifacts": ["kms:Decrypt"],
        "Owners": ["s3:GetObject", "s3:PutObject"],
        "ListOwners": ["s3:ListBucket"],
        "LocateStore": ["s3:GetBucketLocation"],
        "EncryptArtifacts": ["kms:Decrypt", "kms:GenerateDataKey"],
    }
    assert ':s3:::artifacts-of-others/artifacts/*"' in json.dumps(found["ReadArtifacts"]["Resource"])
    assert 'artifacts-of-others/owners/", {"Ref": "AWS::AccountId"}, "/*"' in json.dumps(found["Owners"]["Resource"])


def test_the_execution_role_reads_the_artifact_but_not_its_source_model() -> None:
    scope = stack()
    by_key(scope, artifact_store=shared_store(scope, encrypted=True))
    found = statements(template_of(scope), "What SageMaker may do")
    assert {"ReadArtifacts", "ListArtifacts", "DecryptArtifacts", "PullImages"} <= set(found)
    assert not {"ReadJumpStart", "Artifacts", "EncryptArtifacts"} & set(found)
    assert "s3:PutObject" not in json.dumps(found)


def test_heads_by_artifact_key_are_served_with_their_base_model() -> None:
    scope = stack()
    by_key(
        scope,
        model=Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True),
        techniques=[SpeculativeDecoding.eagle(training_data="s3://prompts/mine/")],
        artifact_key="c" * 64,
    )
    template = template_of(scope)
    (name,) = [name for name, r in template["Resources"].items() if r["Type"] == "Custom::OptimizedArtifact"]
    model = resource(template, "Custom::OptimizedModel")
    assert model["Source"]["Kind"] == "hub"
    (channel,) = model["Channels"]
    assert channel["Source"] == {
        "Kind": "artifact",
        "ArtifactKey": {"Ref": name},
        "S3Uri": {"Fn::GetAtt": [name, "ModelDataUri"]},
        "Suffix": "draft/",
    }
    found = statements(template, "What SageMaker may do")
    assert "ReadJumpStart" in found
    assert "prompts/mine" not in json.dumps(found), "the training data is the job's"


def test_a_chain_of_jobs_is_served_from_its_last_artifact() -> None:
    scope = stack()
    created = by_key(scope, techniques=[Quantization.awq(), Sharding.fast_load()])
    template = template_of(scope)
    found = resource(template, "Custom::OptimizedArtifact")
    assert found["ArtifactKey"] == created.plan.jobs[-1].artifact_key
    assert "Source" not in found, "the source is an artifact, known by its key alone"
    assert len(resources(template, "AWS::SageMaker::InferenceComponent")) == 1


def test_an_endpoint_imports_the_artifact_key_of_another_stacks_job() -> None:
    app = App()
    making, serving = Stack(app, "Making"), Stack(app, "Serving")
    store = ArtifactStore(making, "Artifacts")
    job = OptimizationJob(
        making,
        "Job",
        model=Model.jumpstart(LLAMA_70B, accept_eula=True),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.12xlarge",
        artifact_store=store,
        wait=False,
    )
    endpoint(
        serving,
        model=Model.jumpstart(LLAMA_70B, accept_eula=True),
        artifact_key=job.artifact_key,
        artifact_store=store,
    )
    template = template_of(serving)
    found = resource(template, "Custom::OptimizedArtifact")
    assert "Fn::ImportValue" in found["ArtifactKey"], "the version is not pinned: the key is known at deployment"
    assert "Version" not in found["Source"]
    assert not resources(template, "Custom::OptimizationJob")


def test_an_artifact_key_may_be_a_cloudformation_parameter() -> None:
    scope = stack()
    created = by_key(scope, artifact_key=CfnParameter(scope, "Key").value_as_string)
    assert resource(template_of(scope), "Custom::OptimizedArtifact")["ArtifactKey"] == {"Ref": "Key"}
    assert scope.resolve(created.artifact.artifact_key) == {"Ref": "Key"}


def test_jobs_and_imported_artifacts_have_the_same_attributes() -> None:
    scope = stack()
    created = by_key(scope)
    assert isinstance(created.artifact, OptimizedArtifact)
    assert created.artifact.artifact_key == created.plan.artifact_key
    assert created.artifact.image_uri == created.plan.container.image
    for attribute in ("model_data_uri", "job_name"):
        assert "Fn::GetAtt" in scope.resolve(getattr(created.artifact, attribute))
        assert hasattr(OptimizationJob, attribute)


def test_an_endpoint_with_a_job_serves_the_jobs_artifact() -> None:
    assert isinstance(endpoint(stack()).artifact, OptimizationJob)


def test_switching_from_job_to_artifact_key_changes_no_resource_type() -> None:
    def ids(**overrides: Any) -> dict[str, str]:
        scope = stack()
        endpoint(scope, **overrides, artifact_store=shared_store(scope) if overrides else None)
        return {name: r["Type"] for name, r in template_of(scope)["Resources"].items()}

    before, after = ids(), ids(artifact_key=key_of())
    assert {name: kind for name, kind in before.items() if after.get(name, kind) != kind} == {}
    kept = [kind for name, kind in after.items() if name in before]
    assert {"AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Endpoint"} <= set(kept)


def test_an_existing_role_gets_its_permissions_before_the_artifact_is_resolved() -> None:
    scope = stack()
    by_key(scope, role=iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com")))
    template = template_of(scope)
    (policy,) = [name for name, r in template["Resources"].items() if r["Type"] == "AWS::IAM::Policy"]
    (found,) = [r for r in template["Resources"].values() if r["Type"] == "Custom::OptimizedArtifact"]
    assert found["DependsOn"] == [policy]


@pytest.mark.parametrize("key", ["latest", "A" * 64, "a" * 63, "", 7])
def test_an_invalid_artifact_key_is_refused_with_the_expected_format(key: Any) -> None:
    with pytest.raises(ValueError, match=rf"artifact_key is {key!r}, and a key is 64 lowercase hexadecimal digits"):
        by_key(stack(), artifact_key=key)


def test_the_artifact_key_of_another_recipe_is_refused_with_both_keys() -> None:
    other = key_of(techniques=[Quantization.awq(group_size=64)])
    with pytest.raises(ValueError, match=f"artifact_key is {other}, and this recipe makes {key_of()}: .*same release"):
        by_key(stack(), artifact_key=other)


def test_any_artifact_key_is_accepted_for_an_unpinned_model_version() -> None:
    scope = stack()
    by_key(scope, model=Model.jumpstart(LLAMA_70B, accept_eula=True), artifact_key="a" * 64)
    assert resource(template_of(scope), "Custom::OptimizedArtifact")["ArtifactKey"] == "a" * 64


def test_an_artifact_key_for_a_recipe_without_a_job_is_refused() -> None:
    with pytest.raises(ValueError, match="this recipe needs no job"):
        by_key(
            stack(),
            techniques=[SpeculativeDecoding.sagemaker_draft()],
            instance_type="ml.p4d.24xlarge",
            artifact_key="a" * 64,
        )


def test_an_artifact_key_does_not_bypass_the_recipe_rules() -> None:
    with pytest.raises(ValueError, match="OPT021"):
        by_key(stack(), techniques=[Quantization.awq(group_size=100)], artifact_key="a" * 64)


def test_an_artifact_key_without_an_artifact_store_is_refused() -> None:
    with pytest.raises(ValueError, match="pass the store that has it as artifact_store="):
        endpoint(stack(), artifact_key="a" * 64)


@pytest.mark.parametrize("unused", ["max_runtime", "timeout"])
def test_job_options_with_an_artifact_key_are_refused(unused: str) -> None:
    with pytest.raises(ValueError, match=rf"the deployment waits for nothing: leave jobs\.{unused} out"):
        by_key(stack(), artifact_key="a" * 64, jobs=JobOptions(**{unused: Duration.hours(1)}))


def test_a_read_only_store_is_refused_for_a_recipe_with_a_job() -> None:
    scope = stack()
    with pytest.raises(ValueError, match=r"artifacts-of-others is read-only.*artifact_key=.*read_only=False"):
        endpoint(scope, artifact_store=shared_store(scope))
    assert template_of(scope).get("Resources", {}) == {}


def test_a_read_only_store_is_accepted_for_a_recipe_without_a_job() -> None:
    scope = stack()
    endpoint(
        scope,
        artifact_store=shared_store(scope),
        techniques=[SpeculativeDecoding.sagemaker_draft()],
        instance_type="ml.p4d.24xlarge",
    )
    assert not resources(template_of(scope), "AWS::S3::Bucket")


def test_a_standalone_artifact_can_be_used_in_a_custom_model() -> None:
    scope = stack()
    created = OptimizedArtifact(
        scope,
        "Artifact",
        model=llama(),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.12xlarge",
        artifact_key=key_of(),
        artifact_store=shared_store(scope),
    )
    template = template_of(scope)
    assert not resources(template, "AWS::SageMaker::Model")
    assert scope.resolve(created.model_data_uri)["Fn::GetAtt"][1] == "ModelDataUri"
