"""Medusa heads on a fine-tuned model, deployed with the CDK CLI: the training jobs run the real training code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT, DeployedStack
from ..support.template_stack import part_of
from ..support.waiting import until

pytestmark = pytest.mark.trains

MODELS = CHECKOUT / ".venv-models" / "bin"
STORE, DATA = "artifacts-of-mine", "data-of-mine"
FAST = {"batch_size": 8, "gradient_accumulation_steps": 1, "logging_steps": 5, "learning_rate": 3e-3}
# What makes a small model and its data; PyTorch is in another environment than the tests.
_MAKE = """
import sys
from pathlib import Path
from constructs_optim.training.data.sample_corpus import write_corpus
from tests.training.models import save_small_model
folder = Path(sys.argv[1])
save_small_model("llama", folder / "model")
write_corpus(folder, training=120, validation=20, test=10, seed=3)
"""

Make = Callable[..., DeployedStack]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud that enforces IAM, whose training jobs have PyTorch, with a small model and its data in S3."""
    folder = tmp_path_factory.mktemp("inputs")
    subprocess.run([str(MODELS / "python"), "-c", _MAKE, str(folder)], cwd=CHECKOUT, check=True)
    with LocalCloud(endpoint_seconds=0.2, enforce_iam=True, training_path=MODELS, training_stop_seconds=60) as running:
        s3 = running.client("s3")
        for bucket in (STORE, DATA):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": running.region})
        for path in sorted((folder / "model").iterdir()):
            s3.upload_file(str(path), DATA, f"model/{path.name}")
        s3.upload_file(str(folder / "training.jsonl"), DATA, "train/train.jsonl")
        s3.upload_file(str(folder / "validation.jsonl"), DATA, "validation/validation.jsonl")
        broken = (folder / "training.jsonl").read_text().splitlines()[:3]
        s3.put_object(Bucket=DATA, Key="broken/train.jsonl", Body="\n".join([*broken, '{"messages": 7}']).encode())
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


@pytest.fixture(scope="module")
def make(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Make:
    output = tmp_path_factory.mktemp("cloud-assemblies")

    def made(name: str, **settings: Any) -> DeployedStack:
        return DeployedStack(
            cloud,
            output,
            name,
            app="medusa_app.py",
            settings={
                "MEDUSA_APP": json.dumps(
                    {
                        "stack": name,
                        "bucket": STORE,
                        "model": f"s3://{DATA}/model/",
                        "training_data": f"s3://{DATA}/train/",
                        "validation_data": f"s3://{DATA}/validation/",
                        "heads": 2,
                        "fine_tuning": {**FAST, "gradient_checkpointing": False, "maximum_steps": 10},
                        "head_training": {**FAST, "maximum_steps": 10},
                        **settings,
                    }
                )
            },
        )

    return made


@pytest.fixture(scope="module")
def deployed(make: Make) -> DeployedStack:
    stack = make("Sql")
    stack.deploy()
    return stack


def trained(cloud: LocalCloud) -> list[dict[str, Any]]:
    """Descriptions of all training jobs, the first one first."""
    sagemaker = cloud.client("sagemaker")
    listed = sagemaker.list_training_jobs(SortBy="CreationTime", SortOrder="Ascending")["TrainingJobSummaries"]
    return [sagemaker.describe_training_job(TrainingJobName=job["TrainingJobName"]) for job in listed]


def files(cloud: LocalCloud, uri: str) -> dict[str, str]:
    """What is below an S3 prefix: names and ETags."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    found = cloud.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    return {item["Key"].removeprefix(prefix): item["ETag"] for item in found}


def channel(job: dict[str, Any], name: str) -> str:
    (found,) = [channel for channel in job["InputDataConfig"] if channel["ChannelName"] == name]
    return found["DataSource"]["S3DataSource"]["S3Uri"]


def model_uri(stack: DeployedStack) -> str:
    return stack.served_container["ModelDataSource"]["S3DataSource"]["S3Uri"]


def test_both_jobs_ran_and_the_endpoint_serves_the_second_jobs_artifact(deployed: DeployedStack) -> None:
    cloud = deployed.cloud
    tuned, heads = trained(cloud)[:2]
    assert [job["TrainingJobStatus"] for job in (tuned, heads)] == ["Completed", "Completed"]
    assert (
        channel(heads, "finetuned")
        == f"{tuned['OutputDataConfig']['S3OutputPath']}{tuned['TrainingJobName']}/output/model/"
    )
    written = f"{heads['OutputDataConfig']['S3OutputPath']}{heads['TrainingJobName']}/output/model/"
    assert model_uri(deployed) == written
    assert deployed.endpoint["EndpointStatus"] == "InService"
    assert "huggingface-pytorch-tgi-inference:" in deployed.served_container["Image"]
    found = files(cloud, written)
    assert {"config.json", "medusa_lm_head.safetensors", "tokenizer.json", "base-model/model.safetensors"} <= set(found)
    of_base = files(cloud, channel(heads, "finetuned"))
    assert found["base-model/model.safetensors"] == of_base["model.safetensors"], "the backbone is frozen"


def test_the_artifact_describes_its_heads_to_the_server(deployed: DeployedStack) -> None:
    bucket, _, prefix = model_uri(deployed).removeprefix("s3://").partition("/")
    body = deployed.client("s3").get_object(Bucket=bucket, Key=f"{prefix}config.json")["Body"].read()
    config = json.loads(body)
    assert (config["medusa_num_heads"], config["medusa_num_layers"]) == (2, 1)
    assert config["base_model_name_or_path"] == "/opt/ml/model/base-model"


def test_losses_and_accuracies_of_each_head_are_published(deployed: DeployedStack) -> None:
    heads = trained(deployed.cloud)[1]
    metrics = {metric["MetricName"]: metric["Value"] for metric in heads["FinalMetricDataList"]}
    for head in (1, 2):
        assert metrics[f"medusa:head_{head}_loss"] > 0
        assert 0 <= metrics[f"medusa:validation_head_{head}_top1_accuracy"] <= 1


def test_the_manifest_records_the_jobs_request_and_outcome(deployed: DeployedStack) -> None:
    key = deployed.resources["Custom::TrainingJob"]
    s3 = deployed.client("s3")
    manifests = [
        json.loads(s3.get_object(Bucket=STORE, Key=f"artifacts/{each}/manifest.json")["Body"].read()) for each in key
    ]
    (heads,) = [manifest for manifest in manifests if "medusa_lm_head.safetensors" in str(manifest["files"])]
    assert heads["request"]["HyperParameters"]["heads"] == "2"
    assert heads["metrics"]["medusa:loss"] > 0
    assert heads["source"]["identity"].count("\n") == 2, "the fine-tuned model, training data and validation data"


def test_the_same_recipe_in_another_stack_runs_no_job(deployed: DeployedStack, make: Make) -> None:
    before = len(trained(deployed.cloud))
    again = make("SqlAgain")
    again.deploy()
    assert len(trained(deployed.cloud)) == before
    assert model_uri(again) == model_uri(deployed)
    again.destroy()


def test_a_malformed_line_of_the_data_reaches_the_stack_s_events(deployed: DeployedStack, make: Make) -> None:
    stack = make("Malformed", training_data=f"s3://{DATA}/broken/")
    stack.deploy(fails=True)
    assert "train.jsonl" in stack.reasons
    assert "line 4" in stack.reasons
    assert "ended as Failed: AlgorithmError" in stack.reasons


def test_roles_are_allowed_exactly_what_they_use(deployed: DeployedStack, make: Make) -> None:
    """Last, for it looks at all that happened; the deletion of a stack stops its job."""
    cloud = deployed.cloud
    known = {job["TrainingJobName"] for job in trained(cloud)}
    stack = make("Stopped", heads=3)
    process = stack.start("deploy", "--require-approval", "never")
    found = until(
        lambda: [job for job in trained(cloud) if job["TrainingJobName"] not in known],
        lambda jobs: any(job["SecondaryStatus"] == "Training" for job in jobs),
        seconds=120,
    )
    cloud.client("cloudformation").delete_stack(StackName="Stopped")
    process.communicate(timeout=200)
    name = found[0]["TrainingJobName"]
    sagemaker = cloud.client("sagemaker")
    until(
        lambda: sagemaker.describe_training_job(TrainingJobName=name),
        lambda job: job["TrainingJobStatus"] == "Stopped",
        seconds=120,
    )
    asked = [found for found in cloud.authorizations() if found["role"].startswith(("Sql-", "Stopped-", "Malformed-"))]
    assert [found for found in asked if found["decision"] != "Allow"] == []
    used = {(part_of(found["role"]), found["action"]) for found in asked}
    verbs = ("Create", "Describe", "Stop")
    assert {("Handler", f"sagemaker:{verb}TrainingJob") for verb in verbs} <= used
    assert ("Watcher", "sagemaker:DescribeTrainingJob") in used
