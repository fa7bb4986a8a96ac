"""AI benchmark jobs: their workloads, their statuses, and their output files."""

from __future__ import annotations

import io
import json
import tarfile
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.api.error import ApiError
from constructs_optim_local.sagemaker.benchmarks.workload_spec import BadWorkload, parsed
from tests.support.in_process import InProcessCloud

from ..support.benchmark_jobs import serve
from ..support.inference_components import create, endpoint, needing
from ..support.local_cloud import ROLE
from ..support.waiting import until

BUCKET = "benchmarks"
SMALL = {"concurrency": 4, "request_count": 20, "prompt_input_tokens_mean": 100, "output_tokens_mean": 20}


@pytest.fixture(scope="module")
def sagemaker(in_process: InProcessCloud) -> Any:
    in_process.client("s3").create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": in_process.region}
    )
    return in_process.client("sagemaker")


def inline(parameters: Mapping[str, Any], **more: Any) -> str:
    return json.dumps({"benchmark": {"type": "aiperf"}, "parameters": parameters, **more})


def config(sagemaker: Any, parameters: Mapping[str, Any], **more: Any) -> str:
    """Create a workload configuration; returns its name."""
    name = f"workload-{uuid.uuid4().hex[:8]}"
    sagemaker.create_ai_workload_config(
        AIWorkloadConfigName=name, AIWorkloadConfigs={"WorkloadSpec": {"Inline": inline(parameters)}}, **more
    )
    return name


def request(on: str, workload: str, *components: str, **changed: Any) -> dict[str, Any]:
    target: dict[str, Any] = {"Identifier": on}
    if components:
        target["InferenceComponents"] = [{"Identifier": name} for name in components]
    return {
        "AIBenchmarkJobName": f"job-{uuid.uuid4().hex[:8]}",
        "BenchmarkTarget": {"Endpoint": target},
        "OutputConfig": {"S3OutputLocation": f"s3://{BUCKET}/results/"},
        "AIWorkloadConfigIdentifier": workload,
        "RoleArn": ROLE,
        **changed,
    }


def ended(sagemaker: Any, name: str) -> dict[str, Any]:
    return until(
        lambda: sagemaker.describe_ai_benchmark_job(AIBenchmarkJobName=name),
        lambda job: job["AIBenchmarkJobStatus"] in ("Completed", "Failed", "Stopped"),
    )


def run(sagemaker: Any, on: str, parameters: Mapping[str, Any], *components: str, **changed: Any) -> dict[str, Any]:
    """Run a benchmark job to its end; returns its description."""
    asked = request(on, config(sagemaker, parameters), *components, **changed)
    sagemaker.create_ai_benchmark_job(**asked)
    return ended(sagemaker, asked["AIBenchmarkJobName"])


def output(in_process: InProcessCloud, job: Mapping[str, Any]) -> dict[str, bytes]:
    """The output files of a job, by name."""
    bucket, _, prefix = job["OutputConfig"]["S3OutputLocation"].removeprefix("s3://").partition("/")
    packed = in_process.client("s3").get_object(Bucket=bucket, Key=f"{prefix}output/output.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {name: file.read() for name in tar.getnames() if (file := tar.extractfile(name)) is not None}


def summary(in_process: InProcessCloud, job: Mapping[str, Any], folder: str = "") -> dict[str, Any]:
    assert job["AIBenchmarkJobStatus"] == "Completed", job.get("FailureReason")
    return json.loads(output(in_process, job)[f"{folder}profile_export_aiperf.json"])


def code(call: Any, **given: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**given)
    return caught.value.response["Error"]["Code"]


def test_a_benchmark_job_completes_and_writes_the_output_files_of_aiperf(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    name = serve(sagemaker, "measured")
    asked = request(name, config(sagemaker, SMALL), Tags=[{"Key": "team", "Value": "chat"}])
    sagemaker.create_ai_benchmark_job(**asked)
    job = ended(sagemaker, asked["AIBenchmarkJobName"])
    (history,) = [
        found["history"] for found in in_process.benchmark_jobs() if found["name"] == job["AIBenchmarkJobName"]
    ]
    assert [entry["status"] for entry in history] == ["InProgress", "Completed"]
    assert job["Tags"] == [{"Key": "team", "Value": "chat"}]
    assert job["OutputConfig"]["S3OutputLocation"].startswith(f"s3://{BUCKET}/results/bmk-")
    files = output(in_process, job)
    assert sorted(files) == [
        "inputs.json",
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
    ]
    found = json.loads(files["profile_export_aiperf.json"])
    assert found["input_config"]["loadgen"] == {"concurrency": 4, "request_count": 20}
    assert found["was_cancelled"] is False
    assert found["error_summary"] == []
    assert set(found["time_to_first_token"]) >= {"unit", "avg", "min", "max", "p50", "p90", "p95", "p99", "std"}
    records = [json.loads(line) for line in files["profile_export.jsonl"].splitlines()]
    conversations = {item["session_id"] for item in json.loads(files["inputs.json"])["data"]}
    assert {record["metadata"]["conversation_id"] for record in records} == conversations
    assert "session_000000" in conversations
    assert len(records) == found["request_count"]["avg"] == 20
    assert b"Time to First Token (ms)" in files["profile_export_aiperf.csv"]


def test_the_metrics_of_a_benchmark_are_consistent_with_each_other_and_with_its_records(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    job = run(sagemaker, serve(sagemaker, "agreeing"), SMALL)
    found = summary(in_process, job)
    records = [json.loads(line) for line in output(in_process, job)["profile_export.jsonl"].splitlines()]
    latencies = [record["metrics"]["request_latency"]["value"] for record in records]
    assert found["request_latency"]["avg"] == pytest.approx(sum(latencies) / len(latencies))
    seconds = found["benchmark_duration"]["avg"]
    assert found["request_throughput"]["avg"] == pytest.approx(20 / seconds)
    assert found["output_token_throughput"]["avg"] == pytest.approx(found["total_output_tokens"]["avg"] / seconds)
    begun = min(record["metadata"]["request_start_ns"] for record in records)
    finished = max(record["metadata"]["request_end_ns"] for record in records)
    assert (finished - begun) / 1e9 == pytest.approx(seconds, rel=1e-6)
    # Never more requests under way than users.
    moments = sorted(
        event
        for record in records
        for event in ((record["metadata"]["request_start_ns"], 1), (record["metadata"]["request_end_ns"], -1))
    )
    under_way = most = 0
    for _, change in moments:
        under_way += change
        most = max(most, under_way)
    assert most == 4


def test_a_concurrency_sweep_has_a_folder_per_level_and_latency_rises_with_concurrency(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    job = run(sagemaker, serve(sagemaker, "swept"), {**SMALL, "concurrency": [1, 8]})
    alone, crowded = (summary(in_process, job, f"concurrency_{users}/") for users in (1, 8))
    assert alone["time_to_first_token"]["p50"] < crowded["time_to_first_token"]["p50"]
    assert alone["output_token_throughput"]["avg"] < crowded["output_token_throughput"]["avg"]


def test_performance_can_be_configured_per_artifact(in_process: InProcessCloud, sagemaker: Any) -> None:
    def data(prefix: str) -> dict[str, Any]:
        source = {"S3Uri": f"s3://{BUCKET}/{prefix}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        return {"ModelDataSource": {"S3DataSource": source}}

    slow = serve(sagemaker, "slow", **data("baseline"))
    fast = serve(sagemaker, "fast", **data("optimized"), Environment={"OPTION_QUANTIZE": "awq"})
    in_process.set_performance(f"{BUCKET}/baseline", ttft_ms=500, itl_ms=50, contention=0)
    in_process.set_performance("OPTION_QUANTIZE=awq", ttft_ms=100, itl_ms=20, contention=0, spread=0)
    found = summary(in_process, run(sagemaker, slow, SMALL))
    assert found["time_to_first_token"]["p50"] == pytest.approx(500)
    assert found["inter_token_latency"]["avg"] == pytest.approx(50)
    found = summary(in_process, run(sagemaker, fast, SMALL))
    assert found["request_latency"]["max"] == pytest.approx(100 + 19 * 20)
    assert [said["match"] for said in in_process.performances()] == [f"{BUCKET}/baseline", "OPTION_QUANTIZE=awq"]


def test_an_invalid_performance_configuration_is_refused(in_process: InProcessCloud) -> None:
    with pytest.raises(ApiError, match="error_rate is 2, and must be a share from 0 to 1"):
        in_process.set_performance(error_rate=2)
    with pytest.raises(ApiError, match="ttft_ms is 0, and must be a number above zero"):
        in_process.set_performance(ttft_ms=0)


def test_failed_requests_are_counted_and_excluded_from_latency_metrics(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    name = serve(sagemaker, "failing")
    in_process.set_performance(name, error_rate=0.25)
    job = run(sagemaker, name, SMALL)
    found = summary(in_process, job)
    assert (found["request_count"]["avg"], found["error_request_count"]["avg"]) == (15, 5)
    (error,) = found["error_summary"]
    assert (error["count"], error["error_details"]["code"]) == (5, 500)
    records = [json.loads(line) for line in output(in_process, job)["profile_export.jsonl"].splitlines()]
    assert sum(record["error"] is not None for record in records) == 5


def test_requests_beyond_the_timeout_fail_even_if_none_succeeds(in_process: InProcessCloud, sagemaker: Any) -> None:
    job = run(sagemaker, serve(sagemaker, "late"), {**SMALL, "request_timeout_seconds": 0.001})
    found = summary(in_process, job)
    assert found["request_count"]["avg"] == 0
    assert "request_latency" not in found
    assert found["error_summary"][0]["error_details"]["type"] == "TimeoutError"


def test_without_streaming_a_benchmark_reports_no_time_to_first_token(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    found = summary(in_process, run(sagemaker, serve(sagemaker, "whole"), {**SMALL, "streaming": False}))
    assert "time_to_first_token" not in found
    assert "inter_token_latency" not in found
    assert found["request_latency"]["avg"] > 0


def test_goodput_counts_the_requests_that_meet_every_slo(in_process: InProcessCloud, sagemaker: Any) -> None:
    name = serve(sagemaker, "good")
    in_process.set_performance(name, ttft_ms=100, itl_ms=10, contention=0)
    found = summary(
        in_process, run(sagemaker, name, {**SMALL, "goodput": "time_to_first_token:100 request_latency:9000"})
    )
    assert found["good_request_fraction"]["avg"] == pytest.approx(0.5)
    assert found["goodput"]["avg"] == pytest.approx(found["request_throughput"]["avg"] / 2)


def test_a_benchmark_with_a_duration_sends_requests_until_it_elapses(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    name = serve(sagemaker, "timed")
    in_process.set_performance(name, ttft_ms=100, itl_ms=10, contention=0, spread=0)
    given = {"concurrency": 2, "benchmark_duration": 10, "output_tokens_mean": 91, "request_rate_mode": "constant"}
    # A request takes a second, and the last two begin before the ten seconds are over.
    assert summary(in_process, run(sagemaker, name, given))["request_count"]["avg"] == 20
    assert summary(in_process, run(sagemaker, name, {**given, "request_rate": 5}))["request_count"]["avg"] == 50


def test_a_benchmark_searches_for_the_highest_concurrency_within_an_sla(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    name = serve(sagemaker, "agreed")
    in_process.set_performance(name, ttft_ms=100, itl_ms=10, contention=0.1, spread=0)
    given = {
        "request_count": 40,
        "output_tokens_mean": 20,
        "search_recipe": "max-concurrency-under-sla",
        "ttft_sla_ms": 250,
        "search_stat": "p95",
        "concurrency_max": 64,
    }
    job = run(sagemaker, name, given)
    assert job["AIBenchmarkJobStatus"] == "Completed", job
    files = output(in_process, job)
    boundary = json.loads(files["search_history.json"])["boundary_summary"]
    # 100 ms and a tenth more with each further user: 250 ms with 16 of them.
    assert (boundary["feasible_max"]["value"], boundary["infeasible_min"]["value"]) == (16, 17)
    assert boundary["infeasible_min"]["first_breach"]["metric_tag"] == "time_to_first_token"
    assert "concurrency_16/profile_export_aiperf.json" in files


def test_benchmark_prompts_are_read_from_the_file_of_an_input_channel(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    prompts = ["What is a token?", "Why is the sky blue?"]
    lines = "\n".join(json.dumps({"text": prompt}) for prompt in prompts)
    in_process.client("s3").put_object(Bucket=BUCKET, Key="prompts/set.jsonl", Body=lines.encode())
    given = {**SMALL, "input_file": "/opt/ml/input/data/prompts/set.jsonl", "custom_dataset_type": "single_turn"}
    source = {"S3DataSource": {"S3Uri": f"s3://{BUCKET}/prompts/"}}
    dataset = {"InputDataConfig": [{"ChannelName": "prompts", "DataSource": source}]}
    name = serve(sagemaker, "asked")
    asked = request(name, config(sagemaker, given, DatasetConfig=dataset))
    sagemaker.create_ai_benchmark_job(**asked)
    sent = json.loads(output(in_process, ended(sagemaker, asked["AIBenchmarkJobName"]))["inputs.json"])["data"]
    assert {item["payloads"][0]["messages"][0]["content"] for item in sent} == set(prompts)
    job = run(sagemaker, name, given)
    assert job["AIBenchmarkJobStatus"] == "Failed"
    assert "input_file is in channel prompts" in job["FailureReason"]


def test_an_endpoint_with_inference_components_is_benchmarked_per_component(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    endpoint(sagemaker, "shared", count=1)
    for name in ("first", "second"):
        create(sagemaker, name, "shared", needing(2))
        until(
            lambda name=name: sagemaker.describe_inference_component(InferenceComponentName=name),
            lambda found: found["InferenceComponentStatus"] == "InService",
        )
    in_process.set_performance("second", ttft_ms=400, contention=0, spread=0)
    job = run(sagemaker, "shared", SMALL)
    assert job["AIBenchmarkJobStatus"] == "Failed"
    assert "No model is deployed directly on endpoint shared" in job["FailureReason"]
    found = summary(in_process, run(sagemaker, "shared", SMALL, "second"))
    assert found["time_to_first_token"]["min"] == pytest.approx(400)
    taking_turns = summary(in_process, run(sagemaker, "shared", SMALL, "first", "second"))
    assert taking_turns["time_to_first_token"]["min"] < 200 < taking_turns["time_to_first_token"]["max"]
    assert "not found" in run(sagemaker, "shared", SMALL, "third")["FailureReason"]


def test_a_benchmark_job_that_cannot_run_is_refused_at_creation(sagemaker: Any) -> None:
    name, workload = serve(sagemaker, "known"), config(sagemaker, SMALL)
    create_job = sagemaker.create_ai_benchmark_job
    assert code(create_job, **request("unknown", workload)) == "ResourceNotFound"
    assert code(create_job, **request(name, "unknown")) == "ResourceNotFound"
    asked = request(name, workload)
    create_job(**asked)
    assert code(create_job, **asked) == "ResourceInUse"
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=name)
    assert code(create_job, **request(name, workload)) == "ValidationException"
    bare = f"bare-{uuid.uuid4().hex[:8]}"
    sagemaker.create_ai_workload_config(AIWorkloadConfigName=bare)
    assert code(create_job, **request(name, bare)) == "ValidationException"


def test_a_benchmark_job_can_be_stopped_and_made_to_fail_or_write_nothing(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    name = serve(sagemaker, "struck")
    in_process.inject("benchmark_fails", reason="ClientError: the model ran out of memory", count=1)
    job = run(sagemaker, name, SMALL)
    assert (job["AIBenchmarkJobStatus"], job["FailureReason"]) == (
        "Failed",
        "ClientError: the model ran out of memory",
    )
    in_process.inject("benchmark_writes_nothing", count=1)
    job = run(sagemaker, name, SMALL)
    assert job["AIBenchmarkJobStatus"] == "Completed"
    with pytest.raises(ClientError, match="NoSuchKey"):
        output(in_process, job)
    in_process.inject("benchmark_never_finishes")
    asked = request(name, config(sagemaker, SMALL))
    sagemaker.create_ai_benchmark_job(**asked)
    it = {"AIBenchmarkJobName": asked["AIBenchmarkJobName"]}
    assert code(sagemaker.delete_ai_benchmark_job, **it) == "ValidationException"
    workload = asked["AIWorkloadConfigIdentifier"]
    assert code(sagemaker.delete_ai_workload_config, AIWorkloadConfigName=workload) == "ResourceInUse"
    sagemaker.stop_ai_benchmark_job(**it)
    assert ended(sagemaker, asked["AIBenchmarkJobName"])["AIBenchmarkJobStatus"] == "Stopped"
    assert code(sagemaker.stop_ai_benchmark_job, **it) == "ValidationException"
    sagemaker.delete_ai_benchmark_job(**it)
    assert code(sagemaker.describe_ai_benchmark_job, **it) == "ResourceNotFound"
    sagemaker.delete_ai_workload_config(AIWorkloadConfigName=workload)


def test_benchmark_jobs_and_workload_configs_are_listed_by_name_status_and_order(sagemaker: Any) -> None:
    name = serve(sagemaker, "listed")
    prefix = f"listing-{uuid.uuid4().hex[:6]}"
    for place in ("a", "b"):
        asked = request(name, config(sagemaker, SMALL), AIBenchmarkJobName=f"{prefix}-{place}")
        sagemaker.create_ai_benchmark_job(**asked)
        ended(sagemaker, asked["AIBenchmarkJobName"])

    def listed(**given: Any) -> list[str]:
        found = sagemaker.list_ai_benchmark_jobs(NameContains=prefix, **given)["AIBenchmarkJobs"]
        return [job["AIBenchmarkJobName"].removeprefix(f"{prefix}-") for job in found]

    assert listed() == ["b", "a"]
    assert listed(SortOrder="Ascending", SortBy="Name") == ["a", "b"]
    assert listed(StatusEquals="Failed") == []
    first, second = (
        sagemaker.describe_ai_benchmark_job(AIBenchmarkJobName=f"{prefix}-{place}")["CreationTime"] for place in "ab"
    )
    between = first + (second - first) / 2
    assert (listed(CreationTimeBefore=between), listed(CreationTimeAfter=between)) == (["a"], ["b"])
    page = sagemaker.list_ai_workload_configs(MaxResults=1)
    assert len(page["AIWorkloadConfigs"]) == 1
    assert "NextToken" in page


def test_a_workload_config_with_an_uppercase_name_can_be_described_but_not_deleted(sagemaker: Any) -> None:
    spec = {"WorkloadSpec": {"Inline": inline(SMALL)}}
    sagemaker.create_ai_workload_config(AIWorkloadConfigName="Capital", AIWorkloadConfigs=spec)
    assert sagemaker.describe_ai_workload_config(AIWorkloadConfigName="Capital")["AIWorkloadConfigs"] == spec
    assert code(sagemaker.delete_ai_workload_config, AIWorkloadConfigName="Capital") == "ResourceNotFound"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "neither JSON nor YAML"),
        ("- a", "must be an object"),
        ("{}", "benchmark.type is required"),
        (inline({"concurency": 1}), "parameters.concurency is not a parameter"),
        (inline({"concurrency": "many"}), 'is "many", and must be a whole number or a list'),
        (inline({"concurrency": [1, 0]}), "whole numbers above zero"),
        (inline({"request_count": 0}), "must be at least 1"),
        (inline({"streaming": 1}), "must be true or false"),
        (inline({"request_rate_mode": "bursty"}), "one of constant, poisson, gamma"),
        (inline({"ttft_sla_ms": 100}), "needs search_recipe"),
        (inline({"search_recipe": "max-concurrency-under-sla"}), "at least one of ttft_sla_ms"),
        (
            inline({"search_recipe": "max-concurrency-under-sla", "ttft_sla_ms": 1, "streaming": False}),
            "ttft_sla_ms needs streaming",
        ),
        (inline({"input_file": "/tmp/prompts"}), "/opt/ml/input/data/<channel>/<file>"),
        (inline({"goodput": "fast"}), "name:value"),
        (inline({}, secrets={"hf_token": "abc"}), "secrets.hf_token must be the ARN"),
        (inline({}, tooling={"api_standard": "grpc"}), "api_standard must be openai"),
        (inline({}, extra=1), "extra is not allowed"),
    ],
)
def test_an_invalid_workload_document_is_refused_with_the_reason(document: str, said: str) -> None:
    with pytest.raises(BadWorkload, match=said):
        parsed(document)


def test_a_workload_document_may_be_yaml_and_is_validated_at_creation(sagemaker: Any) -> None:
    text = "benchmark: {type: aiperf}\nparameters:\n  concurrency: [1, 2]\n  extra_inputs: 'temperature:0 top_p:1'\n"
    assert parsed(text).concurrencies == (1, 2)
    assert parsed(text).pairs("extra_inputs") == {"temperature": "0", "top_p": "1"}
    create_config = sagemaker.create_ai_workload_config
    assert (
        code(create_config, AIWorkloadConfigName="bad", AIWorkloadConfigs={"WorkloadSpec": {"Inline": "{}"}})
        == "ValidationException"
    )
    assert code(create_config, AIWorkloadConfigName="no_underscores") == "ValidationException"


def test_a_recommendation_job_ranks_instance_types_by_its_target_metric(
    in_process: InProcessCloud, sagemaker: Any
) -> None:
    types = ["ml.g5.2xlarge", "ml.g5.12xlarge", "ml.g5.48xlarge"]

    def recommended(metric: str) -> list[str]:
        name = f"advice-{uuid.uuid4().hex[:8]}"
        sagemaker.create_ai_recommendation_job(
            AIRecommendationJobName=name,
            ModelSource={"S3": {"S3Uri": f"s3://{BUCKET}/models/mine/"}},
            OutputConfig={"S3OutputLocation": f"s3://{BUCKET}/advice/"},
            AIWorkloadConfigIdentifier=config(sagemaker, SMALL),
            PerformanceTarget={"Constraints": [{"Metric": metric}]},
            ComputeSpec={"InstanceTypes": types},
            RoleArn=ROLE,
        )
        job = until(
            lambda: sagemaker.describe_ai_recommendation_job(AIRecommendationJobName=name),
            lambda job: job["AIRecommendationJobStatus"] != "InProgress",
        )
        assert job["AIRecommendationJobStatus"] == "Completed", job
        sagemaker.delete_ai_recommendation_job(AIRecommendationJobName=name)
        return [item["DeploymentConfiguration"]["InstanceType"] for item in job["Recommendations"]]

    assert recommended("ttft-ms") == recommended("throughput") == [*reversed(types)]
    assert recommended("cost") == types
