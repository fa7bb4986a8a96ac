"""vLLM itself, on the CPU, embeds and reranks behind the local cloud's endpoints: deployed, asked, evaluated, gated."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import RemovalPolicy, Stack

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, QualityRequirement, Workload
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.tasks import TaskName
from constructs_optim_local.cloud import LocalCloud

from ..support.template_stack import ASSETS, TemplateStack, endpoint_of, made, physical
from .test_vllm_in_local_cloud import COMMAND
from .test_vllm_serves import CHECKOUT, ENGINE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

BUCKET = "models-that-pool"
TEXTS = ["where is it?", "a city of stone", "the river runs", "no table has it", "which one of them?", "seven boats"]
# vLLM compiles and warms up, which takes minutes on a busy machine.
PATIENCE = 1500


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    folder = tmp_path_factory.mktemp("models")
    written = [str(ENGINE / "python"), "-m", "tests.conformance.pooling_models", str(folder)]
    subprocess.run(written, cwd=CHECKOUT, env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}, check=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("VLLM_CPU_KVCACHE_SPACE", "1"), ("HF_HUB_OFFLINE", "1"), ("OMP_NUM_THREADS", "2")):
            patch.setenv(name, value)
        with LocalCloud(serve=COMMAND, endpoint_seconds=0.1, time_scale=0.05) as running:
            s3 = running.client("s3")
            for bucket in (ASSETS, BUCKET):
                s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
            for path in folder.rglob("*"):
                if path.is_file():
                    s3.upload_file(str(path), BUCKET, path.relative_to(folder).as_posix())
            s3.put_object(Bucket=BUCKET, Key="embed.jsonl", Body=_lines({"text": text} for text in TEXTS))
            queries = ({"query": text, "documents": [each for each in TEXTS if each != text]} for text in TEXTS)
            s3.put_object(Bucket=BUCKET, Key="rerank.jsonl", Body=_lines(queries))
            yield running


def _lines(rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def declared(name: str, task: TaskName) -> Callable[[Stack], None]:
    """An endpoint of a model, whose answers must stay those of the version before."""

    def build(scope: Stack) -> None:
        endpoint = OptimizedEndpoint(
            scope,
            "Model",
            model=Model.s3(f"s3://{BUCKET}/{name}/", task=task),
            instance_type="ml.g5.xlarge",
            artifact_store=ArtifactStore(scope, "Artifacts", removal_policy=RemovalPolicy.RETAIN),
        )
        workload = Workload(concurrency=[1, 4], input_tokens=20, inputs_per_request=3, requests=60)
        endpoint.evaluate(workload=workload).require(
            p99_client_latency_ms=60_000,
            min_inputs_per_second=0.1,
            quality=QualityRequirement(prompts=f"s3://{BUCKET}/{task}.jsonl", min_agreement=0.99),
        )

    return build


@pytest.mark.parametrize(
    ("task", "name", "body", "read"),
    [
        ("embed", "embedder", {"input": TEXTS[:2]}, lambda found: [len(row["embedding"]) for row in found["data"]]),
        (
            "rerank",
            "reranker",
            {"query": TEXTS[0], "documents": TEXTS[1:3]},
            lambda found: sorted(row["index"] for row in found["results"]),
        ),
    ],
)
def test_a_model_is_deployed_asked_evaluated_and_gated(
    cloud: LocalCloud, tmp_path: Path, task: TaskName, name: str, body: dict[str, Any], read: Callable[..., list[int]]
) -> None:
    stack = made(cloud, tmp_path / "first", name, declared(name, task))
    stack.start()
    assert stack.settled(PATIENCE) == "CREATE_COMPLETE", stack.reasons
    response = cloud.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint_of(stack)["EndpointName"], ContentType="application/json", Body=json.dumps(body)
    )
    assert read(json.loads(response["Body"].read())) == ([64, 64] if task == "embed" else [0, 1])
    before, first = _evaluated(stack)
    assert [level.concurrency for level in first.levels] == [1, 4]
    for level in first.levels:
        metrics = level.metrics
        assert metrics["client_invocations"] == 60
        assert metrics["client_invocation_errors"] == 0
        assert metrics["inputs_per_second"] == pytest.approx(3 * metrics["requests_per_second"])
        assert metrics["price_per_million_input_tokens"] > 0
        assert not [each for each in metrics if "output" in each or "first_token" in each or "inter_token" in each]
    # Other weights give other answers.
    changed = made(cloud, tmp_path / "second", name, declared(f"other-{name}", task))
    changed.start()
    assert changed.settled(PATIENCE) == "UPDATE_ROLLBACK_COMPLETE", changed.reasons

    measure = {"embed": "the cosine similarity of embeddings to those", "rerank": "pairs in the order of those"}[task]
    assert measure in changed.reasons, changed.reasons
    assert "at least 0.99 is required" in changed.reasons
    assert endpoint_of(changed)["EndpointStatus"] == "InService"
    assert _evaluated(stack)[0] == before


def _evaluated(stack: TemplateStack) -> tuple[str, EvaluationResult]:
    """The key of the evaluation, and its result."""
    s3, bucket = stack.cloud.client("s3"), physical(stack, "AWS::S3::Bucket", "Artifacts")
    key = physical(stack, "Custom::EndpointEvaluation")
    result = s3.get_object(Bucket=bucket, Key=f"evaluations/{key}/result.json")["Body"].read()
    return key, EvaluationResult.model_validate_json(result)
