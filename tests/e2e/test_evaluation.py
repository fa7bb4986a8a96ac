"""Evaluations in the cloud, with IAM enforced: measured, published, and a bad artifact rolled back."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.tasks import TaskName
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.sagemaker.hosting.invocations import text_for

from ..support.security_document import permissions_under
from ..support.template_stack import ASSETS, TemplateStack, allowed, endpoint_of, made, part_of, physical
from ..support.uploaded_models import upload_model
from ..support.waiting import until
from .evaluated_stacks import MODELS, embedding, everything, gated, of_component

PROMPTS = [{"prompt": f"Question {number}?"} for number in range(12)]


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(
        job_seconds=(0.2, 0.2), endpoint_seconds=0.2, time_scale=0.005, enforce_iam=True
    ) as running:  # fmt: skip
        s3 = running.client("s3")
        for bucket in (ASSETS, MODELS):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        for folder in ("llama", "embedder", "newer-embedder", "reranker", "classifier"):
            upload_model(s3, MODELS, folder)
        texts = [prompt["prompt"] for prompt in PROMPTS]
        queries = [{"query": text, "documents": texts} for text in texts]
        for name, rows in (("prompts", PROMPTS), ("embed", PROMPTS), ("classify", PROMPTS), ("rerank", queries)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            s3.put_object(Bucket=MODELS, Key=f"{name}.jsonl", Body=lines.encode())
        yield running


@pytest.fixture(autouse=True)
def as_fast_as_ever(cloud: LocalCloud) -> Iterator[None]:
    cloud.clear_performances()
    yield
    cloud.clear_faults()


def evaluation_of(stack: TemplateStack) -> tuple[dict[str, Any], EvaluationResult]:
    """What was decided, and the result it was decided by."""
    s3, bucket = stack.cloud.client("s3"), physical(stack, "AWS::S3::Bucket", "Artifacts")
    key = physical(stack, "Custom::EndpointEvaluation")
    decision = json.loads(s3.get_object(Bucket=bucket, Key=f"evaluations/{key}/current.json")["Body"].read())
    result = s3.get_object(Bucket=bucket, Key=f"evaluations/{key}/result.json")["Body"].read()
    return decision, EvaluationResult.model_validate_json(result)


def published(stack: TemplateStack, name: str, concurrency: int, **dimensions: str) -> list[float]:
    key = evaluation_of(stack)[1].subject.artifact_key or ""
    of = dimensions or {"EndpointName": endpoint_of(stack)["EndpointName"], "VariantName": "AllTraffic"}
    named = {**of, "Concurrency": str(concurrency), "ArtifactKey": key}
    now = dt.datetime.now(dt.UTC)
    found = stack.cloud.client("cloudwatch").get_metric_statistics(
        Namespace="ConstructsOptim/Evaluation",
        MetricName=name,
        Dimensions=[{"Name": each, "Value": value} for each, value in named.items()],
        StartTime=now - dt.timedelta(hours=1),
        EndTime=now + dt.timedelta(hours=1),
        Period=60,
        Statistics=["Minimum", "Maximum"],
    )
    return [point[statistic] for point in found["Datapoints"] for statistic in ("Minimum", "Maximum")]


class TestGate:
    @pytest.fixture(scope="class")
    def stack(self, cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> TemplateStack:
        # Made before the fixture of each test, it would find what the last test left.
        cloud.clear_performances()
        stack = made(cloud, tmp_path_factory.mktemp("before"), "Gated", gated(128))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        return stack

    def test_a_sweeps_metrics_reach_cloudwatch_under_the_names_the_dashboard_shows(self, stack: TemplateStack) -> None:
        decision, result = evaluation_of(stack)
        assert decision["accepted"]
        assert [level.concurrency for level in result.levels] == [1, 8]
        for level in result.levels:
            # Other tests may have evaluated the same artifact before.
            expected = pytest.approx(level.metrics["time_to_first_token_p99"])
            assert expected in published(stack, "TimeToFirstTokenP99", level.concurrency)
            assert published(stack, "BlendedPricePerMillionTokens", level.concurrency)
        template = stack.template
        (board,) = [r for r in template["Resources"].values() if r["Type"] == "AWS::CloudWatch::Dashboard"]
        assert "TimeToFirstTokenP99" in json.dumps(board)

    def test_vllm_completes_every_text_of_the_gate(self, stack: TemplateStack) -> None:
        (model,) = [r for r in stack.template["Resources"].values() if r["Type"] == "AWS::SageMaker::Model"]
        assert "/vllm:" in json.dumps(model), "which takes no inputs"
        s3, bucket = stack.cloud.client("s3"), physical(stack, "AWS::S3::Bucket", "Artifacts")
        key, run = physical(stack, "Custom::EndpointEvaluation"), evaluation_of(stack)[0]["run"]
        stored = s3.get_object(Bucket=bucket, Key=f"evaluations/{key}/runs/{run}/answers.json")["Body"].read()
        assert json.loads(stored)["answers"] == [text_for(prompt["prompt"]) for prompt in PROMPTS]

    def test_the_evaluation_uses_the_price_of_the_aws_price_list(self, stack: TemplateStack) -> None:
        _, result = evaluation_of(stack)
        assert result.price is not None
        assert result.price.source == "AWS Price List"
        tokens = result.levels[0].metrics["output_tokens_per_second"]
        paid = result.levels[0].metrics["price_per_million_output_tokens"]
        assert paid == pytest.approx(result.price.instance_price_per_hour / (tokens * 3600 / 1e6))

    def test_a_slower_artifact_is_rolled_back_with_the_metric_and_its_change_in_the_event(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        before = endpoint_of(stack)
        make_slow(cloud, stack)
        changed = made(cloud, tmp_path, "Gated", gated(32))
        assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
        assert "Time to first token, p50 at 1 user rose from" in changed.reasons
        allowed = r"worse than in the replaced version \(95% interval \+[\d.]+% to \+[\d.]+%\); 10\.0% is allowed"
        assert re.search(allowed, changed.reasons), changed.reasons
        after = endpoint_of(stack)
        assert after["EndpointStatus"] == "InService"
        assert after["EndpointConfigName"] == before["EndpointConfigName"]
        assert evaluation_of(stack)[0]["accepted"]

    def test_an_artifact_with_different_completions_is_rolled_back(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        cloud.set_performance(answers_differently=0.5)
        changed = made(cloud, tmp_path, "Gated", gated(32))
        assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
        assert "completions differ from those of the replaced version by" in changed.reasons

    def test_an_artifact_that_meets_the_gate_is_deployed(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        before = endpoint_of(stack)
        changed = made(cloud, tmp_path / "good", "Gated", gated(64))
        assert changed.deploy() == "UPDATE_COMPLETE", changed.reasons
        assert endpoint_of(stack)["EndpointConfigName"] != before["EndpointConfigName"]
        assert evaluation_of(stack)[0]["accepted"]
        assert made(cloud, tmp_path / "back", "Gated", gated(128)).deploy() == "UPDATE_COMPLETE"

    def test_stricter_requirements_are_checked_against_earlier_measurements(
        self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        jobs = len(cloud.client("sagemaker").list_ai_benchmark_jobs(MaxResults=100)["AIBenchmarkJobs"])
        changed = made(cloud, tmp_path, "Gated", gated(128, p50_ttft_ms=1))
        assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
        assert "above the maximum of 1 ms" in changed.reasons
        assert len(cloud.client("sagemaker").list_ai_benchmark_jobs(MaxResults=100)["AIBenchmarkJobs"]) == jobs


class TestModelsThatGenerateNoText:
    @pytest.fixture(scope="class")
    def stack(self, cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> TemplateStack:
        # Made before the fixture of each test, it would find what the last test left.
        cloud.clear_performances()
        stack = made(cloud, tmp_path_factory.mktemp("embedder"), "Search", embedding("embedder"))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        return stack

    def test_the_function_of_the_evaluation_measures_inputs_and_their_price(self, stack: TemplateStack) -> None:
        decision, result = evaluation_of(stack)
        assert decision["accepted"]
        assert (result.workload.tool, result.workload.format) == ("the evaluation's function", "embed")
        assert [level.concurrency for level in result.levels] == [1, 4]
        for level in result.levels:
            assert level.metrics["client_invocations"] == 120
            assert level.metrics["inputs_per_second"] == pytest.approx(3 * level.metrics["requests_per_second"])
            assert level.metrics["price_per_million_input_tokens"] > 0
            assert "output_tokens_per_second" not in level.metrics
            assert published(stack, "InputsPerSecond", level.concurrency)
        assert not stack.cloud.client("sagemaker").list_ai_benchmark_jobs(NameContains="Search")["AIBenchmarkJobs"]
        (board,) = [r for r in stack.template["Resources"].values() if r["Type"] == "AWS::CloudWatch::Dashboard"]
        assert "InputsPerSecond" in json.dumps(board)
        assert not [each for each in ("TimeToFirstToken", "OutputTokens", "kv_cache") if each in json.dumps(board)]

    def test_other_embeddings_are_rolled_back(self, stack: TemplateStack, cloud: LocalCloud, tmp_path: Path) -> None:
        cloud.set_performance("/newer-embedder/", answers_differently=1)
        changed = made(cloud, tmp_path / "other", "Search", embedding("newer-embedder"))
        assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE", changed.reasons
        assert "the cosine similarity of embeddings to those of the replaced version is" in changed.reasons
        cloud.clear_performances()
        assert made(cloud, tmp_path / "same", "Search", embedding("newer-embedder")).deploy() == "UPDATE_COMPLETE"

    @pytest.mark.parametrize(("folder", "task"), [("reranker", "rerank"), ("classifier", "classify")])
    def test_rerankers_and_classifiers_are_measured_and_gated(
        self, cloud: LocalCloud, tmp_path: Path, folder: str, task: TaskName
    ) -> None:
        stack = made(cloud, tmp_path / "first", task, embedding(folder, task))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        assert evaluation_of(stack)[1].workload.format == task
        slow = made(cloud, tmp_path / "limited", task, embedding(folder, task, min_inputs_per_second=1e9))
        assert slow.deploy() == "UPDATE_ROLLBACK_COMPLETE", slow.reasons
        assert "below the minimum of 1,000,000,000" in slow.reasons
        assert stack.delete() == "DELETE_COMPLETE", stack.reasons

    def test_an_endpoint_that_answers_nothing_fails_with_a_request_to_try(
        self, cloud: LocalCloud, tmp_path: Path
    ) -> None:
        cloud.set_performance("/embedder/", error_rate=1)
        stack = made(cloud, tmp_path, "Broken", embedding("embedder"))
        assert stack.deploy() == "ROLLBACK_COMPLETE", stack.reasons
        assert "the endpoint answered none of" in stack.reasons
        assert '"encoding_format": "base64"' in stack.reasons


def make_slow(cloud: LocalCloud, stack: TemplateStack) -> None:
    """Everything but the artifact that is in service now is slow."""
    name = physical(stack, "AWS::SageMaker::Model").rpartition("/")[2]
    model = cloud.client("sagemaker").describe_model(ModelName=name)
    container = model.get("PrimaryContainer") or model["Containers"][0]
    served = container["ModelDataSource"]["S3DataSource"]["S3Uri"]
    cloud.set_performance(ttft_ms=900)
    cloud.set_performance(served, ttft_ms=60)


def test_a_component_is_evaluated_by_itself_at_its_share_of_the_instance(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = made(cloud, tmp_path, "OfComponent", of_component)
    assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
    _, result = evaluation_of(stack)
    assert result.price is not None
    assert result.price.instance_price_per_hour == pytest.approx(4.0), "two of four GPUs"
    assert result.price.source == "stated"
    assert result.subject.inference_component_name is not None
    component = {"InferenceComponentName": result.subject.inference_component_name}
    assert published(stack, "OutputTokensPerSecond", 2, **component)
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons


def test_all_that_is_done_is_allowed_and_all_that_is_allowed_is_done(cloud: LocalCloud, tmp_path: Path) -> None:
    cloud.inject("benchmark_never_finishes")
    stopped = made(cloud, tmp_path / "stopped", "StoppedAgain", everything(3000))
    stopped.start()
    sagemaker = cloud.client("sagemaker")
    (job,) = until(lambda: sagemaker.list_ai_benchmark_jobs(StatusEquals="InProgress")["AIBenchmarkJobs"], bool, 90)
    assert stopped.delete() == "DELETE_COMPLETE", stopped.reasons
    ended = sagemaker.describe_ai_benchmark_job(AIBenchmarkJobName=job["AIBenchmarkJobName"])
    assert ended["AIBenchmarkJobStatus"] == "Stopped", "nothing is measured for a stack that is gone"
    cloud.clear_faults()
    for number, limit in enumerate((3000, 2000)):
        stack = made(cloud, tmp_path / str(number), "Everything", everything(limit))
        assert stack.deploy() in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), stack.reasons
    s3, bucket = cloud.client("s3"), physical(stack, "AWS::S3::Bucket", "Artifacts")
    runs = f"evaluations/{physical(stack, 'Custom::EndpointEvaluation')}/runs/"

    def results() -> list[str]:
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=runs).get("Contents", [])
        return [each["Key"] for each in listed if each["Key"].endswith("/result.json")]

    # The deployment's, and one of the schedule's.
    until(results, lambda found: len(found) > 1, 90)
    assert stack.delete() == "DELETE_COMPLETE", stack.reasons
    asked = [each for each in cloud.authorizations() if (part_of(each["role"]) or "").startswith("Evaluation")]
    assert [each for each in asked if each["decision"] != "Allow"] == []
    used = {(part_of(each["role"]), each["action"]) for each in asked if each["action"] != "sts:AssumeRole"}
    may = {each for each in allowed(stack.template) if each[0].startswith("Evaluation")}
    unseen = {each for each in permissions_under("What no test sees") if each[0].startswith("Evaluation")}
    assert used <= may
    assert may - used == unseen
