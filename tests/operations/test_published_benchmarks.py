"""What JumpStart publishes, read from its real documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from constructs_optim.operations.published_benchmarks import PublishedBenchmark, published, published_model
from constructs_optim.runtime.errors import DeploymentError

from .stores import Store

SPEC = (
    Path(__file__).parent.parent
    / "conformance/jumpstart/community_models/meta-textgeneration-llama-3-1-70b/specs_v2.16.2.json"
)


def test_each_number_of_users_is_a_benchmark_in_milliseconds_and_tokens_of_a_user() -> None:
    _, found = published(SPEC.read_text())
    on_p4d = [each for each in found if (each.configuration, each.instance_type) == ("lmi", "ml.p4d.24xlarge")]
    assert [each.concurrency for each in on_p4d] == [4, 16, 32, 64, 128]
    assert on_p4d[0] == PublishedBenchmark("lmi", "ml.p4d.24xlarge", 4, pytest.approx(110), 37.4)


def test_a_configuration_is_offered_on_what_its_component_lists() -> None:
    configurations, _ = published(SPEC.read_text())
    assert set(configurations) == {"lmi", "lmi-optimized"}
    assert "ml.p4d.24xlarge" in configurations["lmi-optimized"]
    assert "ml.g5.xlarge" not in configurations["lmi-optimized"]


def test_keys_are_read_in_any_case_and_what_is_no_number_is_passed_over() -> None:
    rows = [
        {"Name": "latency", "Unit": "sec", "Value": "0.19", "Concurrency": "1"},
        {"Name": "throughput", "Unit": "tokens/sec", "Value": "n/a", "Concurrency": "1"},
        {"Name": "latency", "Unit": "Tokens/S", "Value": "100", "Concurrency": "2"},
        {"Name": "throughput", "Unit": "tokens/sec", "Value": "12", "Concurrency": None},
    ]
    text = json.dumps({"InferenceConfigs": {"lmi": {"BenchmarkMetrics": {"ml.g5.12xlarge": rows}}}})
    configurations, found = published(text)
    assert configurations == {"lmi": frozenset()}
    assert found == (PublishedBenchmark("lmi", "ml.g5.12xlarge", 1, pytest.approx(190), None),)


def test_a_document_may_publish_nothing() -> None:
    assert published("{}") == ({}, ())


def test_a_model_is_looked_up_in_the_hub_with_the_version_that_was_found(store: Store) -> None:
    assert published_model(store.sagemaker, "meta-textgeneration-llama-2-70b").version == "4.27.0"
    with pytest.raises(DeploymentError, match=r"in version 9\.9\.9"):
        published_model(store.sagemaker, "meta-textgeneration-llama-2-70b", "9.9.9")
