"""Training jobs in a stack: their resources, the permissions of roles, and the model that the endpoint serves."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from constructs_optim import (
    ArtifactStore,
    FineTune,
    JobOptions,
    Medusa,
    Model,
    NetworkOptions,
    OptimizationJob,
    OptimizedEndpoint,
    Quantization,
    TrainingCompute,
)

from ..support.construct_stacks import ENVIRONMENT, resource, resources, stack, template_of

DATA = "s3://data/sql/train/"
MISTRAL = Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0")


def endpoint(scope: Stack, *techniques: Any, **overrides: Any) -> OptimizedEndpoint:
    return OptimizedEndpoint(
        scope,
        "Sql",
        **{
            "model": MISTRAL,
            "techniques": techniques or [Medusa(training_data=DATA)],
            "instance_type": "ml.g5.4xlarge",
            **overrides,
        },
    )


@pytest.fixture(scope="module")
def chain() -> dict[str, Any]:
    """The template of heads on a fine-tuned model."""
    scope = stack()
    endpoint(scope, Medusa(training_data=DATA, base=FineTune(training_data=DATA)))
    return template_of(scope)


def trainings(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The training jobs' properties by the name of their script."""
    found = resources(template, "Custom::TrainingJob")
    return {
        job["Request"]["AlgorithmSpecification"]["ContainerArguments"][0].removeprefix("training/"): job
        for job in found
    }


def test_heads_on_a_fine_tuned_model_declare_two_jobs_and_wait_conditions(chain: dict[str, Any]) -> None:
    assert set(trainings(chain)) == {"fine_tune.py", "train_heads.py"}
    assert len(resources(chain, "AWS::CloudFormation::WaitCondition")) == 2
    assert not resources(chain, "Custom::OptimizationJob")


def test_the_heads_job_reads_the_fine_tuned_model_from_its_wait_condition(chain: dict[str, Any]) -> None:
    heads = trainings(chain)["train_heads.py"]
    assert heads["ModelChannel"] == "finetuned"
    assert heads["Source"]["Kind"] == "artifact"
    assert "FineTuneReady" in json.dumps(heads["Source"]["S3Uri"]), "the location that the wait condition received"


def test_every_job_gets_the_training_code_as_a_channel(chain: dict[str, Any]) -> None:
    for job in trainings(chain).values():
        channels = {channel["ChannelName"]: channel for channel in job["Request"]["InputDataConfig"]}
        assert set(channels) == {"training", "code"}
        assert ".zip" in json.dumps(channels["code"]["DataSource"]["S3DataSource"]["S3Uri"])


def test_training_jobs_declare_the_data_that_they_read(chain: dict[str, Any]) -> None:
    for job in trainings(chain).values():
        assert job["Reads"] == [{"Kind": "s3", "S3Uri": DATA}]


def test_the_model_serves_the_last_jobs_artifact_with_the_planned_image(chain: dict[str, Any]) -> None:
    container = resource(chain, "AWS::SageMaker::Model")["PrimaryContainer"]
    assert container["Image"].startswith(
        "763104351884.dkr.ecr.us-west-2.amazonaws.com/huggingface-pytorch-tgi-inference:"
    )
    assert container["Environment"]["HF_MODEL_ID"] == "/opt/ml/model"
    assert "MedusaReady" in json.dumps(container["ModelDataSource"])


def statements(template: dict[str, Any], sid: str) -> list[dict[str, Any]]:
    return [
        statement
        for role in resources(template, "AWS::IAM::Role")
        for policy in role.get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if statement.get("Sid") == sid
    ]


def test_the_handler_role_may_manage_training_jobs_only(chain: dict[str, Any]) -> None:
    (manage,) = statements(chain, "ManageTrainingJobs")
    assert manage["Action"] == [
        "sagemaker:AddTags",
        "sagemaker:CreateTrainingJob",
        "sagemaker:DescribeTrainingJob",
        "sagemaker:StopTrainingJob",
    ]
    assert manage["Resource"]["Fn::Sub"].endswith(":training-job/optim-*")
    assert "OptimizationJob" not in json.dumps(resources(chain, "AWS::IAM::Role"))


def test_the_job_role_reads_code_and_data_and_writes_checkpoints(chain: dict[str, Any]) -> None:
    (code,) = statements(chain, "ReadTrainingCode")
    assert code["Action"] == ["s3:GetObject"]
    assert ".zip" in json.dumps(code["Resource"])
    (data,) = statements(chain, "ReadSource")
    assert json.dumps(data["Resource"]).endswith('"data/sql/train/*"]]}')
    (checkpoints,) = statements(chain, "Checkpoints")
    assert json.dumps(checkpoints["Resource"]).endswith('/checkpoints/*"]]}')


def test_the_handler_role_may_list_the_training_data(chain: dict[str, Any]) -> None:
    listing = [
        statement
        for role in resources(chain, "AWS::IAM::Role")
        for policy in role.get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if statement.get("Condition") == {"StringLike": {"s3:prefix": "sql/train/*"}}
    ]
    assert len(listing) == 3, "the handler, the preflight and the execution role"


def test_checkpoints_in_the_store_expire_after_28_days(chain: dict[str, Any]) -> None:
    rules = resource(chain, "AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    (rule,) = [rule for rule in rules if "Prefix" in rule]
    assert (rule["Prefix"], rule["ExpirationInDays"]) == ("checkpoints/", 28)


def test_a_fine_tuned_model_is_quantized_by_an_optimization_job() -> None:
    scope = stack()
    endpoint(scope, FineTune(training_data=DATA), Quantization.awq(), instance_type="ml.g5.12xlarge")
    template = template_of(scope)
    (quantizing,) = resources(template, "Custom::OptimizationJob")
    assert quantizing["Source"]["Kind"] == "artifact"
    assert "FineTuneReady" in json.dumps(quantizing["Source"]["S3Uri"])
    assert statements(template, "ManageJobs"), "optimization jobs"
    assert statements(template, "ManageTrainingJobs")
    assert "/vllm:" in resource(template, "AWS::SageMaker::Model")["PrimaryContainer"]["Image"]


def test_a_different_job_type_gets_a_different_logical_id() -> None:
    """CloudFormation does not change the type of a resource in place."""
    ids = []
    for technique in (Medusa(training_data=DATA), Quantization.awq()):
        scope = stack()
        endpoint(scope, technique, instance_type="ml.g5.12xlarge")
        jobs = {
            name: found["Type"]
            for name, found in template_of(scope)["Resources"].items()
            if found["Type"] in ("Custom::OptimizationJob", "Custom::TrainingJob")
        }
        ids.append(jobs)
    assert not set(ids[0]) & set(ids[1])


def test_a_fine_tuning_job_can_be_declared_without_an_endpoint() -> None:
    scope = stack()
    job = OptimizationJob(
        scope,
        "Tuned",
        model=MISTRAL,
        techniques=[FineTune(training_data=DATA)],
        instance_type="ml.g5.12xlarge",
        jobs=JobOptions(max_runtime=Duration.hours(3)),
        wait=False,
    )
    created = resource(template_of(scope), "Custom::TrainingJob")
    assert created["Request"]["StoppingCondition"] == {"MaxRuntimeInSeconds": 10800}
    assert "/vllm:" in job.image_uri


def test_a_training_job_in_a_vpc_gets_its_subnets() -> None:
    from aws_cdk import aws_ec2 as ec2

    scope = stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-1", availability_zones=["us-west-2a"], private_subnet_ids=["subnet-11111111"]
    )
    endpoint(scope, network=NetworkOptions(vpc=vpc))
    request = resource(template_of(scope), "Custom::TrainingJob")["Request"]
    assert request["VpcConfig"]["Subnets"] == ["subnet-11111111"]


def test_heads_by_artifact_key_are_served_with_the_planned_image() -> None:
    scope = stack()
    store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Shared", "theirs"), read_only=True)
    endpoint(scope, artifact_store=store, artifact_key="a" * 64)
    template = template_of(scope)
    assert resource(template, "Custom::OptimizedArtifact")["JobKind"] == "TrainingJob"
    container = resource(template, "AWS::SageMaker::Model")["PrimaryContainer"]
    assert "huggingface-pytorch-tgi-inference:" in container["Image"]
    assert "pytorch-training" not in json.dumps(template), "nothing of this stack trains"


def test_changing_the_training_compute_does_not_replace_the_wait_condition() -> None:
    conditions = []
    for compute in (TrainingCompute(), TrainingCompute(spot=True, volume_size_gb=300)):
        scope = stack()
        endpoint(scope, Medusa(training_data=DATA, compute=compute))
        found = template_of(scope)["Resources"]
        conditions.append([name for name in found if found[name]["Type"] == "AWS::CloudFormation::WaitCondition"])
    assert conditions[0] == conditions[1]


def test_the_training_code_asset_contains_the_whole_training_folder_and_the_reader_of_models() -> None:
    app = App(post_cli_context={"aws:cdk:disable-asset-staging": False})
    endpoint(Stack(app, "S", env=ENVIRONMENT))
    directory = Path(app.synth().directory)
    folders = [path for path in directory.glob("asset.*") if (path / "training").is_dir()]
    assert len(folders) == 1
    names = {str(path.relative_to(folders[0])) for path in folders[0].rglob("*") if path.is_file()}
    scripts = {"fine_tune.py", "train_heads.py", "copy_model.py", "requirements.txt", "as_package.py"}
    assert {f"training/{name}" for name in scripts} <= names
    assert {name for name in names if not name.startswith("training/")} == {"runtime/model_files.py"}
    assert not [name for name in names if "__pycache__" in name]
    assert not zipfile.is_zipfile(folders[0]), "the CDK makes the archive when it publishes the asset"


def test_jobs_of_a_stack_share_the_training_code_asset() -> None:
    scope = stack()
    endpoint(scope)
    OptimizationJob(
        scope, "Other", model=MISTRAL, techniques=[FineTune(training_data=DATA)], instance_type="ml.g5.12xlarge"
    )
    template = Template.from_stack(scope).to_json()
    uris = {
        json.dumps(channel["DataSource"], sort_keys=True)
        for job in resources(template, "Custom::TrainingJob")
        for channel in job["Request"]["InputDataConfig"]
        if channel["ChannelName"] == "code"
    }
    assert len(uris) == 1
