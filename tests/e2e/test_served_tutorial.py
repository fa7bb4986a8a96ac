"""The whole way with a model that is really there: quantized, deployed, asked, evaluated, gated, rolled back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.light_server import tiny_model, weights

from ..support.deployed_stack import CHECKOUT, DeployedStack

pytestmark = pytest.mark.trains

QUANTIZER = CHECKOUT / ".venv-quantization" / "bin"
STORE, DATA = "served-models", "models-and-prompts"
QUESTION = "Why is a small model fast?"


def good_model(folder: Path) -> Path:
    return tiny_model.write(folder)


def bad_model(folder: Path) -> Path:
    """One that is read without an error, and says something else."""
    tiny_model.write(folder)
    tensors = weights.read(folder, None)
    tensors["lm_head.weight"] = np.roll(tensors["lm_head.weight"], 7, axis=0)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud that serves, enforces IAM and has llm-compressor, with two models and their data in S3."""
    folder = tmp_path_factory.mktemp("inputs")
    lines = [json.dumps({"prompt": f"An instance of {number}", "completion": "has its share."}) for number in range(20)]
    with LocalCloud(
        serve=True, endpoint_seconds=0.2, time_scale=0.005, enforce_iam=True, training_path=QUANTIZER
    ) as running:
        s3 = running.client("s3")
        for bucket in (STORE, DATA):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": running.region})
        for name, make in (("good", good_model), ("bad", bad_model)):
            for path in make(folder / name).iterdir():
                s3.upload_file(str(path), DATA, f"{name}/{path.name}")
        s3.put_object(Bucket=DATA, Key="samples/training.jsonl", Body="\n".join(lines).encode())
        prompts = "\n".join(json.dumps({"prompt": text}) for text in ("The weights", "An endpoint", "A model"))
        s3.put_object(Bucket=DATA, Key="prompts.jsonl", Body=prompts.encode())
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


def stack_of(cloud: LocalCloud, folder: Path, model: str) -> DeployedStack:
    given = {
        "stack": "Chat",
        "bucket": STORE,
        "model": f"s3://{DATA}/{model}/",
        "samples": f"s3://{DATA}/samples/",
        "prompts": f"s3://{DATA}/prompts.jsonl",
    }
    return DeployedStack(cloud, folder, "Chat", app="served_app.py", settings={"SERVED_APP": json.dumps(given)})


def answer(cloud: LocalCloud, endpoint: str) -> str:
    request = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 12, "temperature": 0}
    found = cloud.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType="application/json", Body=json.dumps(request)
    )
    return json.loads(found["Body"].read())["choices"][0]["message"]["content"]


def quantization(cloud: LocalCloud, stack: DeployedStack) -> dict[str, Any]:
    """What the served model's configuration says of its weights."""
    uri = stack.served_container["ModelDataSource"]["S3DataSource"]["S3Uri"]
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    body = cloud.client("s3").get_object(Bucket=bucket, Key=f"{prefix}config.json")["Body"].read()
    return json.loads(body)["quantization_config"]


def test_a_model_is_quantized_deployed_asked_evaluated_gated_and_rolled_back(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = stack_of(cloud, tmp_path, "good")
    stack.deploy()
    name = stack.outputs["EndpointName"]
    assert quantization(cloud, stack)["format"] == "pack-quantized"
    said = answer(cloud, name)
    assert len(said.split()) >= 4, said

    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": QUESTION}))
    evaluated = subprocess.run(
        [
            *(sys.executable, "-m", "constructs_optim", "evaluate", name, "--prompts", tmp_path / "prompts.jsonl"),
            *("--concurrency", "2", "--requests", "8", "--max-tokens", "12", "--output", tmp_path / "measured"),
        ],
        env={**os.environ, **cloud.child_environment()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert evaluated.returncode == 0, evaluated.stderr
    (level,) = EvaluationResult.model_validate_json((tmp_path / "measured" / "endpoint.json").read_text()).levels
    assert level.metrics["client_invocations"] == 8
    assert level.metrics["time_to_first_token_p50"] > 0

    worse = stack_of(cloud, tmp_path, "bad")
    worse.deploy(fails=True)
    assert "completions differ from those of what it replaces by" in worse.reasons
    assert worse.status == "UPDATE_ROLLBACK_COMPLETE"
    assert answer(cloud, name) == said
