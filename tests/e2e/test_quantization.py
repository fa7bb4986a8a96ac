"""A model that llm-compressor quantizes, deployed with the CDK CLI: the training job runs the real code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT, DeployedStack

pytestmark = pytest.mark.trains

MODELS, QUANTIZER = CHECKOUT / ".venv-models" / "bin", CHECKOUT / ".venv-quantization" / "bin"
STORE, DATA = "quantized-models", "models-and-samples"
_MAKE = """
import sys
from pathlib import Path
from constructs_optim.training.data.sample_corpus import write_corpus
from tests.training.models import save_small_model
folder = Path(sys.argv[1])
save_small_model("llama", folder / "model", hidden_size=256, intermediate_size=512)
write_corpus(folder / "samples", training=40, validation=2, test=2, seed=3)
"""

Make = Callable[..., DeployedStack]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Stacks on a local cloud that enforces IAM, whose training jobs have llm-compressor, with a small model in S3."""
    folder, output = tmp_path_factory.mktemp("inputs"), tmp_path_factory.mktemp("cloud-assemblies")
    (folder / "samples").mkdir()
    subprocess.run([str(MODELS / "python"), "-c", _MAKE, str(folder)], cwd=CHECKOUT, check=True)
    with LocalCloud(endpoint_seconds=0.2, enforce_iam=True, training_path=QUANTIZER) as running:
        s3 = running.client("s3")
        for bucket in (STORE, DATA):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": running.region})
        for path in sorted(Path(folder / "model").iterdir()):
            s3.upload_file(str(path), DATA, f"model/{path.name}")
        s3.upload_file(str(folder / "samples" / "training.jsonl"), DATA, "samples/training.jsonl")
        s3.put_object(Bucket=DATA, Key="broken/training.jsonl", Body=b'{"messages": 7}\n')
        DeployedStack(running, output, "Bootstrap").cdk("bootstrap")

        def made(name: str, samples: str) -> DeployedStack:
            given = {
                "stack": name,
                "bucket": STORE,
                "model": f"s3://{DATA}/model/",
                "samples": f"s3://{DATA}/{samples}/",
            }
            settings = {"QUANTIZATION_APP": json.dumps(given)}
            return DeployedStack(running, output, name, app="quantization_app.py", settings=settings)

        yield made


def test_the_endpoint_serves_what_the_job_has_quantized_and_a_second_stack_shares_it(make: Make) -> None:
    stack = make("Chat", "samples")
    stack.deploy()
    container = stack.served_container
    assert "/vllm:" in container["Image"]
    bucket, _, prefix = container["ModelDataSource"]["S3DataSource"]["S3Uri"].removeprefix("s3://").partition("/")
    s3, sagemaker = stack.client("s3"), stack.client("sagemaker")

    def read(name: str) -> dict[str, object]:
        return json.loads(s3.get_object(Bucket=bucket, Key=f"{prefix}{name}")["Body"].read())

    assert read("config.json")["quantization_config"]["format"] == "pack-quantized"  # type: ignore[index]
    report = read("quantization_report.json")
    assert report["layers"] == 14

    def completed() -> list[str]:
        listed = sagemaker.list_training_jobs(StatusEquals="Completed")["TrainingJobSummaries"]
        return [job["TrainingJobName"] for job in listed]

    (name,) = completed()
    job = sagemaker.describe_training_job(TrainingJobName=name)
    assert "pytorch-training:2.10" in job["AlgorithmSpecification"]["TrainingImage"]
    published = {metric["MetricName"]: metric["Value"] for metric in job["FinalMetricDataList"]}
    assert published["quantization:weight_error"] == pytest.approx(report["weight_error"], rel=1e-4)
    second = make("Support", "samples")
    second.deploy()
    assert completed() == [name]
    assert second.served_container["ModelDataSource"] == container["ModelDataSource"]


def test_samples_that_cannot_be_read_fail_the_stack_with_the_line(make: Make) -> None:
    stack = make("Broken", "broken")
    stack.deploy(fails=True)
    assert "training.jsonl" in stack.reasons
    assert "messages" in stack.reasons
