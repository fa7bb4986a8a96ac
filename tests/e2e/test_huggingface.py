"""A model of Hugging Face with a ready-made checkpoint and a speculator, copied from a hub on loopback and served."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.hosting.invocations import text_for

from ..support.deployed_stack import CHECKOUT, DeployedStack
from ..support.model_hub import HubModel, ModelHub, serving
from ..support.security_document import permissions_under
from ..support.template_stack import allowed, part_of

COMMIT, TOKEN = "c" * 40, "hf_of_the_tests"
CHECKPOINT, SPECULATOR = "nvidia/Qwen3-32B-NVFP4", "RedHatAI/Qwen3-32B-speculator.eagle3"
FILES = {"config.json": b'{"model_type": "qwen3"}', "model.safetensors": b"weights" * 999, "pytorch_model.bin": b"no"}
STORE = "copied-models"


@dataclass(frozen=True)
class Copies:
    """The hub, and stacks whose apps have its address."""

    cloud: LocalCloud
    hub: ModelHub
    output: Path

    def stack(self, name: str, **more: str) -> DeployedStack:
        given = {"stack": name, "hub": self.hub.url, "commit": COMMIT, "bucket": STORE, **more}
        settings = {"MODEL_APP": json.dumps(given)}
        return DeployedStack(self.cloud, self.output, name, bucket=STORE, app="huggingface_app.py", settings=settings)

    def jobs(self) -> list[str]:
        """The models that training jobs of COMMIT copied; no job of the other kind has run."""
        sagemaker = self.cloud.client("sagemaker")
        assert sagemaker.list_optimization_jobs()["OptimizationJobSummaries"] == []
        names = [job["TrainingJobName"] for job in sagemaker.list_training_jobs()["TrainingJobSummaries"]]
        settings = [sagemaker.describe_training_job(TrainingJobName=name)["HyperParameters"] for name in names]
        return sorted(each["model_id"] for each in settings if each["revision"] == COMMIT)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copies]:
    """A local cloud that enforces IAM, and a hub on loopback."""
    models = {CHECKPOINT: HubModel(COMMIT, FILES), SPECULATOR: HubModel(COMMIT, FILES)}
    with (
        serving(models) as hub,
        LocalCloud(endpoint_seconds=0.2, time_scale=0.01, enforce_iam=True) as running,
    ):
        location = {"LocationConstraint": running.region}
        running.client("s3").create_bucket(Bucket=STORE, CreateBucketConfiguration=location)
        output = tmp_path_factory.mktemp("copies")
        bootstrap = DeployedStack(running, output, "Bootstrap")
        bootstrap.cdk("bootstrap", f"aws://{bootstrap.account}/{running.region}")
        yield Copies(running, hub, output)


@pytest.fixture(scope="module")
def deployed(copies: Copies) -> DeployedStack:
    stack = copies.stack("Chat")
    stack.deploy()
    return stack


def test_one_job_copies_each_repository_and_no_other_job_runs(deployed: DeployedStack, copies: Copies) -> None:
    assert copies.jobs() == [SPECULATOR, CHECKPOINT]
    kept = {name.rpartition("/")[2] for name in copies.hub.downloads}
    assert kept == {"config.json", "model.safetensors"}


def test_the_endpoint_serves_the_copies_with_the_newest_engine(deployed: DeployedStack) -> None:
    container = served_container(deployed)
    assert "/vllm:" in container["Image"]
    assert container["Environment"]["SM_VLLM_SERVED_MODEL_NAME"] == "Qwen/Qwen3-32B"
    for source in (container["ModelDataSource"], container["AdditionalModelDataSources"][0]):
        uri = source["S3DataSource"]["S3Uri"]
        listed = files_below(deployed, uri)
        assert listed["config.json"] == FILES["config.json"]
        assert listed["model.safetensors"] == FILES["model.safetensors"]
        assert "pytorch_model.bin" not in listed
        assert json.loads(listed["source.json"])["revision"] == COMMIT


def test_openais_own_client_chats_by_the_endpoints_url(deployed: DeployedStack) -> None:
    host, separator, path = deployed.outputs["BaseUrl"].partition("/endpoints/")
    assert host == f"https://runtime.sagemaker.{deployed.cloud.region}.amazonaws.com"
    local = deployed.cloud.environment()
    command = [sys.executable, CHECKOUT / "examples" / "clients" / "chat.py"]
    chat = subprocess.run(
        [*command, f"{local['AWS_ENDPOINT_URL']}{separator}{path}", "Why?"],
        env={**os.environ, **local},
        capture_output=True,
        text=True,
        check=False,
    )
    assert chat.returncode == 0, chat.stderr
    assert chat.stdout.strip() == text_for("user: Why?").strip()


@pytest.mark.exhaustive
def test_routing_by_the_kv_cache_is_put_into_service_and_taken_back(copies: Copies, deployed: DeployedStack) -> None:
    stack = copies.stack("Routed")
    stack.deploy()
    name = stack.endpoint["EndpointName"]
    assert strategy(stack) == "RANDOM"
    by_cache = copies.stack("Routed", routing="kv_aware")
    by_cache.deploy()
    assert strategy(by_cache) == "KV_AWARE"
    assert by_cache.endpoint["EndpointName"] == name
    assert by_cache.endpoint["EndpointConfigName"].startswith("optim-routed-")
    stack.deploy()
    assert strategy(stack) == "RANDOM"
    stack.destroy()
    sagemaker = copies.cloud.client("sagemaker")
    assert sagemaker.list_endpoint_configs(NameContains="optim-routed-")["EndpointConfigs"] == []


def strategy(stack: DeployedStack) -> str:
    """How the endpoint routes requests."""
    name = stack.endpoint["EndpointConfigName"]
    config = stack.client("sagemaker").describe_endpoint_config(EndpointConfigName=name)
    return config["ProductionVariants"][0]["RoutingConfig"]["RoutingStrategy"]


@pytest.mark.exhaustive
def test_a_second_stack_of_the_same_commits_runs_no_job(deployed: DeployedStack, copies: Copies) -> None:
    before = copies.jobs()
    stack = copies.stack("Support")
    stack.deploy()
    assert copies.jobs() == before
    assert served_container(stack)["ModelDataSource"] == served_container(deployed)["ModelDataSource"]
    stack.destroy()


@pytest.mark.exhaustive
def test_a_gated_model_is_copied_with_the_token_of_its_secret(copies: Copies, deployed: DeployedStack) -> None:
    commit = "d" * 40
    for name, token in ((CHECKPOINT, TOKEN), (SPECULATOR, None)):
        copies.hub.models[f"{name}@{commit}"] = HubModel(commit, FILES, token=token)
    # As a file of the token is stored, and as Secret.from_secret_name_v2 names it: with a line break, without a suffix.
    secret = copies.cloud.client("secretsmanager").create_secret(Name="hub", SecretString=f"{TOKEN}\n")["ARN"]
    stack = copies.stack("Gated", commit=commit, secret=secret.rpartition("-")[0])
    stack.deploy()
    assert "/vllm:" in served_container(stack)["Image"]
    template = json.dumps(stack.client("cloudformation").get_template(StackName="Gated")["TemplateBody"])
    assert TOKEN not in template
    asked = [each for each in copies.cloud.authorizations() if part_of(each["role"]) == "Copy"]
    assert [each for each in asked if each["decision"] != "Allow"] == []
    used = {(part_of(each["role"]), each["action"]) for each in asked if each["action"] != "sts:AssumeRole"}
    may = {each for each in allowed(json.loads(template)) if each[0] == "Copy"}
    assert may - used == permissions_under("What no test sees") & may
    assert used <= may
    stack.destroy()


@pytest.mark.exhaustive
def test_a_token_without_access_fails_the_stack_with_the_reason(copies: Copies) -> None:
    commit = "a" * 40
    for name in (CHECKPOINT, SPECULATOR):
        copies.hub.models[f"{name}@{commit}"] = HubModel(commit, FILES, token=TOKEN)
    secret = copies.cloud.client("secretsmanager").create_secret(Name="other", SecretString="hf_other")["ARN"]
    stack = copies.stack("Denied", commit=commit, secret=secret)
    stack.deploy(fails=True)
    assert "the secret's token has no access to it" in stack.reasons


def test_a_gated_model_without_a_secret_fails_the_stack_with_the_reason(copies: Copies) -> None:
    commit = "e" * 40
    for name in (CHECKPOINT, SPECULATOR):
        copies.hub.models[f"{name}@{commit}"] = HubModel(commit, FILES, token=TOKEN)
    stack = copies.stack("Refused", commit=commit)
    stack.deploy(fails=True)
    assert f"{CHECKPOINT} is gated: accept its terms" in stack.reasons


def test_the_example_is_deployed_from_a_mirror_of_the_hub(copies: Copies) -> None:
    commit = "f" * 40
    for name in ("nvidia/gemma-4-31B-it-NVFP4", "RedHatAI/gemma-4-31B-it-speculator.eagle3"):
        copies.hub.models[f"{name}@{commit}"] = HubModel(commit, FILES)
    context = {"revision": commit, "mirror": copies.hub.url}
    stack = DeployedStack(copies.cloud, copies.output, "Copied", example="huggingface.py", context=context)
    stack.deploy()
    assert served_container(stack)["Environment"]["SM_VLLM_REASONING_PARSER"] == "gemma4"
    stack.destroy()


def served_container(stack: DeployedStack) -> dict[str, Any]:
    return stack.served_container


def files_below(stack: DeployedStack, uri: str) -> dict[str, bytes]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    s3 = stack.client("s3")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    return {
        item["Key"].removeprefix(prefix): s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        for item in listed
    }
