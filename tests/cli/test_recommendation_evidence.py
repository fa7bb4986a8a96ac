"""What recommendations build on: JumpStart's real documents, prices, and the artifacts of a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.cli.aws import Account
from constructs_optim.cli.recipes import evidence
from constructs_optim.cli.recipes.evidence import (
    PublishedModel,
    artifact_keys,
    listed_prices,
    measured,
    published_model,
)
from constructs_optim.recipe import Model, Quantization, Recipe
from constructs_optim.recipe.catalog.lock import Lock
from constructs_optim.recipe.forecast import Measured, forecaster, published
from constructs_optim.recipe.recommendation import Benchmark
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.evaluation import price_list
from constructs_optim_local.price_list import hourly_price

from ..support.operator_stores import Store, artifact_key

SPEC = (
    Path(__file__).parent.parent
    / "conformance/jumpstart/community_models/meta-textgeneration-llama-3-1-70b/specs_v2.16.2.json"
)


@pytest.fixture(autouse=True)
def prices_are_asked_for_anew() -> None:
    price_list._cache.clear()


def test_only_artifacts_with_a_manifest_are_listed(store: Store) -> None:
    made = store.made(artifact_key("made"))
    store.running(artifact_key("running"))
    assert artifact_keys(store.s3, store.bucket) == {made}


def test_prices_are_those_of_the_region(store: Store) -> None:
    notes: list[str] = []
    found = listed_prices(Account(None, None), "us-west-2", notes)
    assert found["ml.g5.48xlarge"] == hourly_price("ml.g5.48xlarge")
    assert notes == []


def test_without_an_account_a_note_names_the_option_for_prices() -> None:
    notes: list[str] = []
    assert listed_prices(None, "us-west-2", notes) == {}
    (note,) = notes
    assert "AWS was not called" in note
    assert "--prices" in note


def test_denied_prices_are_noted(store: Store) -> None:
    store.cloud.inject("access_denied", operation="GetProducts")
    notes: list[str] = []
    assert listed_prices(Account(None, None), "us-west-2", notes) == {}
    (note,) = notes
    assert "pricing:GetProducts" in note


def test_each_published_concurrency_is_a_separate_benchmark() -> None:
    found = evidence.published(SPEC.read_text(), "2.16.2").benchmarks
    on_p4d = [each for each in found if (each.configuration, each.instance_type) == ("lmi", "ml.p4d.24xlarge")]
    assert [each.concurrency for each in on_p4d] == [4, 16, 32, 64, 128]
    assert (on_p4d[0].time_to_first_token_ms, on_p4d[0].tokens_per_second) == (pytest.approx(110), 4 * 37.4)


def test_a_configuration_is_offered_on_its_component_s_instance_types() -> None:
    configurations = evidence.published(SPEC.read_text(), "2.16.2").configurations
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
    found = Benchmark("published by JumpStart, lmi 1", "ml.g5.12xlarge", 1, "lmi", time_to_first_token_ms=190.0)
    assert evidence.published(text, "1") == PublishedModel("1", {"lmi": frozenset()}, (found,))


def test_a_hub_document_without_benchmarks_is_valid() -> None:
    assert evidence.published("{}", "1") == PublishedModel("1", {}, ())


def test_a_model_s_benchmarks_carry_the_resolved_hub_version(store: Store) -> None:
    account = Account(None, None)
    found = published_model(account, "meta-textgeneration-llama-2-70b", None, [])
    assert found.version == "4.27.0"
    with pytest.raises(DeploymentError, match=r"in version 9\.9\.9"):
        published_model(account, "meta-textgeneration-llama-2-70b", "9.9.9", [])


def test_without_an_account_a_note_names_the_unread_model() -> None:
    notes: list[str] = []
    assert published_model(None, "meta-textgeneration-llama-2-70b", None, notes) == PublishedModel()
    (note,) = notes
    assert "AWS was not called" in note


def test_a_denied_hub_document_is_noted(store: Store) -> None:
    store.cloud.inject("access_denied", operation="DescribeHubContent")
    notes: list[str] = []
    assert published_model(Account(None, None), "meta-textgeneration-llama-2-70b", None, notes) == PublishedModel()
    (note,) = notes
    assert "sagemaker:DescribeHubContent" in note


def test_a_model_that_the_hub_does_not_have_is_not_asked_for(store: Store) -> None:
    notes: list[str] = []
    assert published_model(Account(None, None), "acme-mine", None, notes) == PublishedModel()
    assert notes == []


QWEN = "Qwen/Qwen3-32B"
LEVEL = {
    "concurrency": 8,
    "metrics": {
        "input_tokens": 800.0,
        "output_tokens": 200.0,
        "time_to_first_token": 300.0,
        "inter_token_latency": 40.0,
        "requests_per_second": 0.9,
    },
    "errors": {},
    "seconds": 60.0,
}


def evaluation(**of_subject: Any) -> dict[str, Any]:
    """A result as the evaluation after a deployment writes it."""
    recipe = {"model": QWEN, "techniques": ["quantization=fp8_dynamic"], "server": "vllm"}
    subject = {"label": "Chat", "instance_type": "ml.g6e.12xlarge", "copies": 1, "recipe": recipe}
    return {
        "schema": 1,
        "subject": {**subject, **of_subject},
        "workload": {"prompts": 64, "tool": "aiperf", "format": "openai", "tokens_counted_by": "tokenizer"},
        "started": "2026-11-26T10:00:00+00:00",
        "levels": [LEVEL],
        "notes": [],
    }


def stored(store: Store, *results: dict[str, Any]) -> list[Measured]:
    for number, result in enumerate(results):
        store.put(f"evaluations/{artifact_key(number)}/result.json", json.dumps(result).encode())
    notes: list[str] = []
    found = measured(store.s3, store.bucket, Lock(), "us-west-2", notes)
    assert notes == []
    return found


def test_an_evaluation_corrects_the_next_forecast_of_its_recipe_and_of_that_alone_nearly_whole(store: Store) -> None:
    found = stored(store, evaluation())
    assert {each.figure: each.measured for each in found} == {
        "time_to_first_token": 0.3,
        "inter_token_latency": 0.04,
        "requests_per_second": 0.9,
    }
    recipe = Recipe(
        Model.huggingface(QWEN, revision="a" * 40), [Quantization.fp8_dynamic()], "ml.g6e.12xlarge", "us-west-2"
    )
    before, after = (forecaster(recipe, (800, 200), each) for each in (published(), published().learning(found)))
    assert before is not None
    assert after is not None
    of_before, of_after = (abs(each.with_users(8).inter_token_latency.value / 0.04 - 1) for each in (before, after))
    assert of_after < of_before / 2
    assert after.track_record("inter_token_latency").own == 1
    other = Recipe(Model.huggingface(QWEN, revision="a" * 40), [], "ml.p5.48xlarge", "us-west-2")
    elsewhere = [forecaster(other, (800, 200), each) for each in (published(), published().learning(found))]
    values = [each.with_users(8).inter_token_latency.value for each in elsewhere if each is not None]
    assert values[0] == values[1], "another accelerator"


@pytest.mark.parametrize(
    "changed",
    [
        {"recipe": None},
        {"instance_type": "ml.z9.large"},
        {"instance_type": None},
        {"recipe": {"model": QWEN, "techniques": ["quantization=of_the_next_release"]}},
        {"recipe": {"model": "acme/not-in-the-catalog"}},
    ],
)
def test_evaluations_of_what_cannot_be_forecast_are_skipped(store: Store, changed: dict[str, Any]) -> None:
    assert stored(store, evaluation(**changed)) == []


def test_loads_that_teach_nothing_are_skipped(store: Store) -> None:
    metrics = LEVEL["metrics"]
    useless = [
        {**LEVEL, "complete": False},
        {**LEVEL, "concurrency": None, "request_rate": 2.0},
        {**LEVEL, "metrics": {**metrics, "output_tokens": 1.0}},
        {**LEVEL, "metrics": {"input_tokens": 800.0, "output_tokens": 200.0}},
    ]
    assert stored(store, *({**evaluation(), "levels": [level]} for level in useless)) == []
