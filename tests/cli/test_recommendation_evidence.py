"""What recommendations build on: JumpStart's real documents, and the evaluations and artifacts of a store."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.cli.aws import Account
from constructs_optim.cli.recipes.evidence import PublishedModel, artifact_keys, evaluated, published, published_model
from constructs_optim.recipe.recommendation import Benchmark
from constructs_optim.runtime.errors import DeploymentError

from ..support.hosting import IMAGE, make_config, settled
from ..support.local_cloud import ROLE
from ..support.operator_stores import Store, artifact_key

SPEC = (
    Path(__file__).parent.parent
    / "conformance/jumpstart/community_models/meta-textgeneration-llama-3-1-70b/specs_v2.16.2.json"
)


def result(store: Store, endpoint: str, started: dt.datetime, **subject: Any) -> None:
    """Put an evaluation's result into the store."""
    document = {
        "schema": 1,
        "subject": {
            "label": "Chat",
            "endpoint_name": endpoint,
            "artifact_key": artifact_key("a"),
            "instance_type": "ml.g5.xlarge",
        }
        | subject,
        "workload": {"prompts": 1},
        "started": started.isoformat(),
        "levels": [{"concurrency": 1, "seconds": 9.0, "metrics": {"total_throughput": 40.0}}],
    }
    store.put(f"evaluations/{artifact_key(uuid.uuid4())}/result.json", json.dumps(document).encode())


def serve(store: Store, *, draft: bool) -> str:
    """An endpoint in service, with a draft beside its model or without; its name."""
    name = f"e-{uuid.uuid4().hex[:8]}"
    source = {"S3DataType": "S3Prefix", "CompressionType": "None", "S3Uri": "s3://models/x/"}
    more = {"AdditionalModelDataSources": [{"ChannelName": "draft_model", "S3DataSource": source}]}
    store.sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE, **(more if draft else {})}
    )
    make_config(store.sagemaker, name, name)
    store.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(store.sagemaker, name)["EndpointStatus"] == "InService"
    return name


def now() -> dt.datetime:
    """A time after what the cloud has done: its clock is advanced by tests."""
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=1)


@pytest.mark.parametrize("draft", [True, False])
def test_an_evaluated_endpoint_shows_whether_it_serves_with_a_draft(store: Store, draft: bool) -> None:
    result(store, serve(store, draft=draft), now(), variant_name="AllTraffic")
    (found,) = evaluated(store.s3, store.sagemaker, store.bucket, [])
    assert (found.tokens_per_second, found.served, found.with_channels) == (40.0, artifact_key("a"), draft)


def test_a_deleted_or_changed_endpoint_leaves_the_draft_unknown(store: Store) -> None:
    result(store, "gone", now())
    changed = {"artifact_key": artifact_key("b")}
    result(store, serve(store, draft=True), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), **changed)
    found = evaluated(store.s3, store.sagemaker, store.bucket, [])
    assert [each.with_channels for each in found] == [None, None]


def test_a_component_is_inspected_through_its_model(store: Store) -> None:
    name = serve(store, draft=True)
    host = f"{name}-host"
    make_config(store.sagemaker, host, None)
    store.sagemaker.create_endpoint(EndpointName=host, EndpointConfigName=host)
    settled(store.sagemaker, host)
    store.sagemaker.create_inference_component(
        InferenceComponentName=name,
        EndpointName=host,
        VariantName="AllTraffic",
        Specification={"ModelName": name, "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024}},
        RuntimeConfig={"CopyCount": 1},
    )
    result(store, host, now() + dt.timedelta(minutes=5), inference_component_name=name)
    (found,) = evaluated(store.s3, store.sagemaker, store.bucket, [])
    assert found.with_channels is True


def test_damaged_evaluations_are_skipped_with_a_note(store: Store) -> None:
    key = artifact_key("evaluated")
    for name in (f"evaluations/{key}/runs/1/result.json", f"evaluations/{key}/current.json"):
        store.put(name, b"{}")
    store.put(f"evaluations/{key}/result.json", b"{")
    store.put(f"evaluations/{artifact_key('list')}/result.json", b"[]")
    store.put(f"evaluations/{artifact_key('bare')}/result.json", b'{"started": "yesterday"}')
    notes: list[str] = []
    assert evaluated(store.s3, store.sagemaker, store.bucket, notes) == []
    assert notes == ["An evaluation in the store could not be read, and was skipped."] * 3


def test_only_artifacts_with_a_manifest_are_listed(store: Store) -> None:
    made = store.made(artifact_key("made"))
    store.running(artifact_key("running"))
    assert artifact_keys(store.s3, store.bucket) == {made}


def test_each_published_concurrency_is_a_separate_benchmark() -> None:
    found = published(SPEC.read_text(), "2.16.2").benchmarks
    on_p4d = [each for each in found if (each.configuration, each.instance_type) == ("lmi", "ml.p4d.24xlarge")]
    assert [each.concurrency for each in on_p4d] == [4, 16, 32, 64, 128]
    assert (on_p4d[0].time_to_first_token_ms, on_p4d[0].tokens_per_second) == (pytest.approx(110), 4 * 37.4)


def test_a_configuration_is_offered_on_its_component_s_instance_types() -> None:
    configurations = published(SPEC.read_text(), "2.16.2").configurations
    assert set(configurations) == {"lmi", "lmi-optimized"}
    assert "ml.p4d.24xlarge" in configurations["lmi-optimized"]
    assert "ml.g5.xlarge" not in configurations["lmi-optimized"]


def test_benchmark_keys_are_case_insensitive_and_non_numbers_are_skipped() -> None:
    rows = [
        {"Name": "latency", "Unit": "sec", "Value": "0.19", "Concurrency": "1"},
        {"Name": "throughput", "Unit": "tokens/sec", "Value": "n/a", "Concurrency": "1"},
        {"Name": "latency", "Unit": "Tokens/S", "Value": "100", "Concurrency": "2"},
        {"Name": "throughput", "Unit": "tokens/sec", "Value": "12", "Concurrency": None},
    ]
    text = json.dumps({"InferenceConfigs": {"lmi": {"BenchmarkMetrics": {"ml.g5.12xlarge": rows}}}})
    found = Benchmark("published by JumpStart, lmi 1", "ml.g5.12xlarge", 1, 190.0, configuration="lmi")
    assert published(text, "1") == PublishedModel("1", {"lmi": frozenset()}, (found,))


def test_a_hub_document_without_benchmarks_is_valid() -> None:
    assert published("{}", "1") == PublishedModel("1", {}, ())


def test_a_model_s_benchmarks_carry_the_resolved_hub_version(store: Store) -> None:
    account = Account(None, None)
    found = published_model(account, "meta-textgeneration-llama-2-70b", None, [])
    assert found.version == "4.27.0"
    with pytest.raises(DeploymentError, match=r"in version 9\.9\.9"):
        published_model(account, "meta-textgeneration-llama-2-70b", "9.9.9", [])
