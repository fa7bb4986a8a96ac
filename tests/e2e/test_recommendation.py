"""Recommendations in the cloud, with IAM enforced: found out once, kept, and stopped with whoever asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import CfnOutput, RemovalPolicy, Stack, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, IArtifactStore, Model, ModelRecommendation, Workload
from constructs_optim_local.cloud import LocalCloud

from ..support.security_document import permissions_under
from ..support.template_stack import ASSETS, TemplateStack, allowed, made, part_of, physical
from ..support.uploaded_models import upload_model
from ..support.waiting import until

MODELS = "models-of-recommendations"
STORE = "store-of-recommendations"
TYPE = "Custom::ModelRecommendation"
TYPES = ["ml.g5.12xlarge", "ml.p5.48xlarge"]


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(time_scale=0.002, enforce_iam=True) as running:
        client = running.client("s3")
        for bucket in (ASSETS, MODELS, STORE):
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        for model in ("llama", "mistral", "gemma", "phi", "qwen"):
            upload_model(client, MODELS, model)
        client.put_object(Bucket=MODELS, Key="prompts.jsonl", Body=b'{"text": "A question?"}')
        yield running


@pytest.fixture(autouse=True)
def no_faults(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.clear_faults()


def recommended(model: str, *, team: str | None = None, **given: Any) -> Any:
    """A stack that asks about a model, in the store that outlives it."""

    def build(scope: Stack) -> None:
        if team is not None:
            Tags.of(scope).add("team", team)
        store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Store", STORE))
        _ask(scope, model, store, **given)

    return build


def encrypted(team: str) -> Any:
    """All that needs permissions: an encrypted store, prompts of one's own, tags."""

    def build(scope: Stack) -> None:
        _encrypted(scope, team)

    return build


def _encrypted(scope: Stack, team: str) -> None:
    Tags.of(scope).add("team", team)
    key = kms.Key(scope, "Key", removal_policy=RemovalPolicy.DESTROY)
    store = ArtifactStore(scope, "Artifacts", encryption_key=key)
    _ask(scope, "llama", store, workload=Workload(concurrency=[4], prompts=f"s3://{MODELS}/prompts.jsonl"))


def _ask(scope: Stack, model: str, store: IArtifactStore, **given: Any) -> None:
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    recommendation = ModelRecommendation(
        scope,
        "Recommendation",
        **{
            "model": Model.s3(f"s3://{MODELS}/{model}/"),
            "role": role,
            "artifact_store": store,
            "optimize_for": "throughput",
            "instance_types": TYPES,
            **given,
        },
    )
    if given.get("wait", True):
        CfnOutput(scope, "InstanceType", value=recommendation.instance_type)
        CfnOutput(scope, "Package", value=recommendation.model_package_arn)
        CfnOutput(scope, "Specification", value=recommendation.inference_specification_name)
        CfnOutput(scope, "Count", value=str(recommendation.instance_count))
    CfnOutput(scope, "ResultUri", value=recommendation.result_uri)
    CfnOutput(scope, "JobName", value=recommendation.job_name)


def outputs(stack: TemplateStack) -> dict[str, str]:
    (found,) = stack.cloud.client("cloudformation").describe_stacks(StackName=stack.name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}


def result_of(stack: TemplateStack) -> dict[str, Any]:
    bucket, _, key = outputs(stack)["ResultUri"].removeprefix("s3://").partition("/")
    return json.loads(stack.cloud.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())


def jobs(cloud: LocalCloud, **given: Any) -> list[str]:
    listed = cloud.client("sagemaker").list_ai_recommendation_jobs(MaxResults=100, **given)
    return [job["AIRecommendationJobName"] for job in listed["AIRecommendationJobs"]]


class TestAnswered:
    @pytest.fixture(scope="class")
    def stack(self, cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> TemplateStack:
        stack = made(cloud, tmp_path_factory.mktemp("first"), "Answered", recommended("llama", team="chat"))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        return stack

    def test_the_stack_outputs_the_first_recommendation_and_the_store_has_them_all(
        self, stack: TemplateStack, cloud: LocalCloud
    ) -> None:
        told, result = outputs(stack), result_of(stack)
        assert result["schema"] == 1
        assert result["asked"]["model"] == f"s3://{MODELS}/llama/"
        assert result["asked"]["metric"] == "throughput"
        assert result["asked"]["instance_types"] == TYPES
        assert result["job"]["name"] == told["JobName"]
        first, second = result["recommendations"]
        assert {each["DeploymentConfiguration"]["InstanceType"] for each in (first, second)} == set(TYPES)
        assert told["InstanceType"] == first["DeploymentConfiguration"]["InstanceType"]
        assert told["Count"] == str(first["DeploymentConfiguration"]["InstanceCount"])
        assert told["Package"] == first["ModelDetails"]["ModelPackageArn"]
        assert told["Specification"] == first["ModelDetails"]["InferenceSpecificationName"]
        assert {each["Metric"] for each in first["ExpectedPerformance"]} >= {"throughput"}

    def test_the_job_has_the_declared_request_and_the_stacks_tags(
        self, stack: TemplateStack, cloud: LocalCloud
    ) -> None:
        job = cloud.client("sagemaker").describe_ai_recommendation_job(
            AIRecommendationJobName=outputs(stack)["JobName"]
        )
        assert job["ComputeSpec"]["InstanceTypes"] == TYPES
        assert job["PerformanceTarget"] == {"Constraints": [{"Metric": "throughput"}]}
        assert job["OptimizeModel"] is True
        assert {"Key": "team", "Value": "chat"} in job["Tags"]

    def test_another_stack_with_the_same_request_runs_no_job(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        before = jobs(cloud)
        again = made(cloud, tmp_path, "AskedAgain", recommended("llama"))
        assert again.deploy() == "CREATE_COMPLETE", again.reasons
        assert jobs(cloud) == before
        assert outputs(again) == outputs(stack)
        assert again.delete() == "DELETE_COMPLETE", again.reasons
        assert result_of(stack)["recommendations"], "the result outlives whoever asked second"


def test_changed_model_files_need_a_job_for_a_new_stack_and_leave_a_deployed_one_alone(
    cloud: LocalCloud, tmp_path: Path
) -> None:
    stack = made(cloud, tmp_path / "first", "Unchanged", recommended("phi", team="chat"))
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    before, first = jobs(cloud), result_of(stack)
    cloud.client("s3").put_object(Bucket=MODELS, Key="phi/model.safetensors", Body=b"better weights")
    retagged = made(cloud, tmp_path / "retagged", "Unchanged", recommended("phi", team="search"))
    assert retagged.deploy() == "UPDATE_COMPLETE", retagged.reasons
    assert jobs(cloud) == before
    assert result_of(stack) == first
    another = made(cloud, tmp_path / "another", "Another", recommended("phi"))
    assert another.deploy() == "CREATE_COMPLETE", another.reasons
    assert len(jobs(cloud)) == len(before) + 1
    assert result_of(another)["asked"]["fingerprint"] != first["asked"]["fingerprint"]
    for each in (another, stack):
        assert each.delete() == "DELETE_COMPLETE", each.reasons


def test_a_job_that_fails_rolls_the_stack_back_with_the_services_own_reason(cloud: LocalCloud, tmp_path: Path) -> None:
    cloud.inject("recommendation_fails", reason="the architecture is not supported")
    stack = made(cloud, tmp_path, "Failing", recommended("mistral"))
    assert stack.deploy() == "ROLLBACK_COMPLETE", stack.reasons
    assert "ended as Failed: the architecture is not supported" in stack.reasons


def test_a_model_without_files_fails_the_stack_before_any_job(cloud: LocalCloud, tmp_path: Path) -> None:
    before = jobs(cloud)
    stack = made(cloud, tmp_path, "Empty", recommended("nothing"))
    assert stack.deploy() == "ROLLBACK_COMPLETE", stack.reasons
    assert f"there are no model files under s3://{MODELS}/nothing/" in stack.reasons
    assert jobs(cloud) == before


def test_deleting_a_stack_stops_the_job_it_has_begun_and_no_other(cloud: LocalCloud, tmp_path: Path) -> None:
    cloud.inject("recommendation_never_finishes")
    first = made(cloud, tmp_path / "first", "First", recommended("gemma", wait=False))
    assert first.deploy() == "CREATE_COMPLETE", first.reasons
    second = made(cloud, tmp_path / "second", "Second", recommended("gemma", wait=False))
    assert second.deploy() == "CREATE_COMPLETE", second.reasons
    mine, others = outputs(first)["JobName"], outputs(second)["JobName"]
    assert mine != others
    retagged = made(cloud, tmp_path / "retagged", "First", recommended("gemma", wait=False, team="chat"))
    assert retagged.deploy() == "UPDATE_COMPLETE", retagged.reasons
    assert outputs(retagged)["JobName"] == mine, "a job that runs is not run beside itself"
    assert first.delete() == "DELETE_COMPLETE", first.reasons
    assert mine in jobs(cloud, StatusEquals="Stopped")
    assert others in jobs(cloud, StatusEquals="InProgress")
    cloud.clear_faults()
    until(lambda: jobs(cloud, StatusEquals="Completed"), lambda names: others in names, 30)
    client = cloud.client("s3")
    until(
        lambda: client.list_objects_v2(Bucket=STORE, Prefix=physical_prefix(second)).get("Contents", []),
        lambda found: any(each["Key"] == f"{physical_prefix(second)}result.json" for each in found),
        60,
    )
    assert second.delete() == "DELETE_COMPLETE", second.reasons


def physical_prefix(stack: TemplateStack) -> str:
    return f"recommendations/{physical(stack, TYPE)}/"


def test_all_that_is_done_is_allowed_and_all_that_is_allowed_is_done(cloud: LocalCloud, tmp_path: Path) -> None:
    for team in ("chat", "search"):
        stack = made(cloud, tmp_path / team, "Encrypted", encrypted(team))
        assert stack.deploy() in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), stack.reasons
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons
    stopped = made(cloud, tmp_path / "stopped", "Stopped", recommended("qwen"))
    cloud.inject("recommendation_never_finishes")
    before = jobs(cloud)
    stopped.start()
    until(lambda: set(jobs(cloud, StatusEquals="InProgress")) - set(before), bool, 60)
    assert stopped.delete() == "DELETE_COMPLETE", stopped.reasons
    asked = [each for each in cloud.authorizations() if (part_of(each["role"]) or "").startswith("Recommendation")]
    assert [each for each in asked if each["decision"] != "Allow"] == []
    used = {(part_of(each["role"]), each["action"]) for each in asked if each["action"] != "sts:AssumeRole"}
    may = {each for each in allowed(stack.template) if each[0].startswith("Recommendation")}
    unseen = {each for each in permissions_under("What no test sees") if each[0].startswith("Recommendation")}
    assert used <= may
    assert may - used == unseen
