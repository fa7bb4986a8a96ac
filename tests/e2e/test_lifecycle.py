"""What becomes of an optimized endpoint from its first deployment to its end, with the real CDK CLI."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.explanation.report import Report
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.price_list import hourly_price

from ..support.deployed_stack import DeployedStack
from ..support.deployments import job_names
from ..support.shared_stores import BUCKET
from ..support.uploaded_models import upload_model

MakeStack = Callable[..., DeployedStack]


@pytest.fixture(scope="module")
def chat(a_stack: MakeStack) -> DeployedStack:
    """A deployed stack that the tests below only look at."""
    stack = a_stack("Chat")
    stack.deploy()
    return stack


def test_a_deployment_runs_the_job_and_serves_its_artifact(chat: DeployedStack, cloud: LocalCloud) -> None:
    manifest = chat.manifest(chat.artifact_key)
    job = next(job for job in cloud.jobs() if job["name"] == manifest["job_name"])
    assert [entry["status"] for entry in job["history"]] == ["STARTING", "INPROGRESS", "COMPLETED"]
    assert chat.endpoint["EndpointStatus"] == "InService"
    container = chat.served_container
    assert "/djl-inference:" in manifest["image"]
    assert "/vllm:" in container["Image"]
    assert container["ModelDataSource"]["S3DataSource"]["S3Uri"] == manifest["model_data_uri"]
    assert manifest["source"]["identity"] == "hub:SageMakerPublicHub/meta-textgeneration-llama-2-70b@4.0.0"
    assert {"serving.properties", "config.json"} <= {file["name"] for file in manifest["files"]}


def test_the_job_reads_the_model_the_hub_names_under_its_accepted_license(
    chat: DeployedStack, cloud: LocalCloud
) -> None:
    name = chat.manifest(chat.artifact_key)["job_name"]
    job = chat.client("sagemaker").describe_optimization_job(OptimizationJobName=name)
    source = job["ModelSource"]["S3"]
    assert source["S3Uri"].endswith("/meta-textgeneration-llama-2-70b/artifacts/inference-prepack/v1.0.0/")
    assert source["ModelAccessConfig"] == {"AcceptEula": True}
    assert job["DeploymentInstanceType"] == "ml.g5.12xlarge"


def test_the_deployed_key_is_the_one_the_plan_announced(chat: DeployedStack) -> None:
    outputs = chat.client("cloudformation").describe_stacks(StackName="Chat")["Stacks"][0]["Outputs"]
    announced = {output["OutputKey"]: output["OutputValue"] for output in outputs}["ArtifactKey"]
    assert announced == chat.artifact_key


def test_the_endpoint_scales_in_the_declared_range_and_has_a_dashboard(chat: DeployedStack) -> None:
    targets = chat.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    resource = f"endpoint/{chat.endpoint['EndpointName']}/variant/AllTraffic"
    (target,) = [target for target in targets["ScalableTargets"] if target["ResourceId"] == resource]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 4)
    (dashboard,) = chat.resources["AWS::CloudWatch::Dashboard"]
    body = chat.client("cloudwatch").get_dashboard(DashboardName=dashboard)["DashboardBody"]
    assert chat.endpoint["EndpointName"] in body


def test_deploying_again_unchanged_is_an_empty_diff_and_no_job(chat: DeployedStack, cloud: LocalCloud) -> None:
    jobs = job_names(cloud)
    assert "There were no differences" in chat.diff()
    assert "no changes" in chat.deploy()
    assert job_names(cloud) == jobs


def test_a_change_of_the_scaling_touches_only_the_scaling_and_its_limits_on_the_dashboard(
    chat: DeployedStack,
) -> None:
    changed = re.findall(r"\[[-+~]\] ((?:AWS|Custom)::\S+)", chat.changed(max_capacity=8).diff())
    # The check registers a target again that somebody removed, before CloudFormation updates it.
    assert changed == [
        "Custom::ServedConfiguration",
        "AWS::CloudWatch::Dashboard",
        "AWS::ApplicationAutoScaling::ScalableTarget",
    ]


def test_a_change_is_explained_against_the_deployed_stack(
    chat: DeployedStack, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = set(chat.output.iterdir())
    chat.changed(group_size=32, max_capacity=8).cdk("synth", "--quiet")
    (assembly,) = set(chat.output.iterdir()) - there
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    asked = ["--against", "deployed", "--store", "deployed", "--prices", "aws", "--json"]
    as_markdown = CliRunner().invoke(app, ["explain", str(assembly), *asked[:-1], "--markdown"])
    assert "## What this deployment does" in as_markdown.stdout
    result = CliRunner().invoke(app, ["explain", str(assembly), *asked])
    assert result.exit_code == 0, result.output
    (endpoint,) = Report.model_validate_json(result.stdout).endpoints
    assert (endpoint.change, endpoint.is_interrupted) == ("changed", False)
    (job,) = endpoint.jobs
    assert (job.outcome, job.artifact_key_before) == ("new_job", chat.artifact_key)
    assert {part.type for part in endpoint.resources if part.action == "replace" and part.certain} == {
        "AWS::SageMaker::Model",
        "AWS::SageMaker::EndpointConfig",
    }
    assert len(endpoint.updates) == 1
    assert [(one.least, one.most) for one in (*endpoint.capacity_before, *endpoint.capacity)] == [(1, 4), (1, 8)]
    assert endpoint.monthly_cost is not None
    assert endpoint.monthly_cost.most == pytest.approx(8 * 730 * (hourly_price("ml.g5.12xlarge") or 0))


def test_a_second_stack_with_the_same_recipe_reuses_the_artifact(
    chat: DeployedStack, a_stack: MakeStack, cloud: LocalCloud
) -> None:
    jobs = job_names(cloud)
    second = a_stack("SecondChat")
    second.deploy()
    assert job_names(cloud) == jobs
    assert second.artifact_key == chat.artifact_key
    assert second.served_container["ModelDataSource"] == chat.served_container["ModelDataSource"]
    assert second.endpoint["EndpointStatus"] == "InService"


def test_a_changed_setting_runs_one_job_and_moves_the_endpoint_to_its_artifact(
    chat: DeployedStack, a_stack: MakeStack, cloud: LocalCloud
) -> None:
    stack = a_stack("Tuned")
    stack.deploy()
    endpoint, old_key, jobs = stack.endpoint["EndpointName"], stack.artifact_key, job_names(cloud)
    tuned = stack.changed(group_size=64)
    tuned.deploy()
    new_jobs = [name for name in job_names(cloud) if name not in jobs]
    assert new_jobs == [tuned.manifest(tuned.artifact_key)["job_name"]]
    assert tuned.artifact_key != old_key
    assert tuned.endpoint["EndpointName"] == endpoint, "the endpoint is updated, not replaced"
    uri = tuned.served_container["ModelDataSource"]["S3DataSource"]["S3Uri"]
    assert uri == tuned.manifest(tuned.artifact_key)["model_data_uri"]
    assert stack.manifest(old_key)["artifact_key"] == old_key, "the old artifact stays in the store"

    back = tuned.changed(group_size=128)
    back.deploy()
    assert back.artifact_key == old_key
    assert len(job_names(cloud)) == len(jobs) + 1, "going back needs no job"
    assert (
        back.served_container["ModelDataSource"]["S3DataSource"]["S3Uri"] == stack.manifest(old_key)["model_data_uri"]
    )


@pytest.mark.exhaustive
def test_new_weights_under_the_same_prefix_are_another_artifact(a_stack: MakeStack, cloud: LocalCloud) -> None:
    s3 = cloud.client("s3")
    upload_model(s3, BUCKET, "models/mine", b"the first weights")
    first = a_stack("MineFirst", model_uri=f"s3://{BUCKET}/models/mine/")
    first.deploy()
    s3.put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"better weights")
    second = a_stack("MineSecond", model_uri=f"s3://{BUCKET}/models/mine/")
    second.deploy()
    assert first.artifact_key != second.artifact_key


def test_destroying_a_stack_leaves_only_the_retained_store(a_stack: MakeStack, cloud: LocalCloud) -> None:
    stack = a_stack("Ephemeral", bucket="", group_size=32)
    stack.deploy()
    name, key = stack.endpoint["EndpointName"], stack.artifact_key
    (bucket,) = stack.resources["AWS::S3::Bucket"]
    made = stack.resources
    stack.destroy()
    sagemaker = cloud.client("sagemaker")
    with pytest.raises(ClientError):
        sagemaker.describe_endpoint(EndpointName=name)
    assert not {m["ModelName"] for m in sagemaker.list_models()["Models"]} & set(made["AWS::SageMaker::Model"])
    targets = cloud.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    assert not [t for t in targets["ScalableTargets"] if f"endpoint/{name}/" in t["ResourceId"]]
    roles = {role["RoleName"] for role in cloud.client("iam").list_roles()["Roles"]}
    assert not roles & set(made["AWS::IAM::Role"])
    groups = {group["logGroupName"] for group in cloud.client("logs").describe_log_groups()["logGroups"]}
    assert not groups & set(made["AWS::Logs::LogGroup"])
    assert stack.manifest(key, bucket)["artifact_key"] == key


def test_the_claim_lists_the_stacks_that_refer_to_an_artifact(chat: DeployedStack) -> None:
    body = chat.client("s3").get_object(Bucket=BUCKET, Key=f"artifacts/{chat.artifact_key}/claim.json")["Body"]
    assert "stack/Chat/" in body.read().decode()
