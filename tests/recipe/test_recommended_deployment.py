"""Recommendations as files: what is wrong in one, and where it does not fit the stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.evaluation.recommendation import Recommendation, RecommendedDeployment
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings
from constructs_optim.recipe.rules import check, warnings

from ..support.recommendation_files import PREFIX, recommendation


def findings(deployment: RecommendedDeployment) -> list[tuple[str, str]]:
    return [(found.rule, found.location) for found in check(deployment)]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = recommendation(environment={"A": "1"}, expected_performance=[{"metric": "cost", "value": "0.9"}])
    (tmp_path / "chat.json").write_text(written.model_dump_json(indent=2))
    assert Recommendation.from_file(tmp_path / "chat.json").model_dump(mode="json") == written.model_dump(mode="json")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(recommendation().model_dump_json(), encoding="utf-8-sig")
    read = Recommendation.from_file(tmp_path / "chat.json")
    assert read.model_dump(mode="json") == recommendation().model_dump(mode="json")


@pytest.mark.parametrize("name", ["self", "a b", "cls", "__class__"])
def test_any_unknown_name_of_a_file_is_a_mistake(tmp_path: Path, name: str) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(recommendation().model_dump(mode="json") | {name: 1}))
    with pytest.raises(RecipeError) as refused:
        Recommendation.from_file(tmp_path / "chat.json")
    assert [violation.location.rpartition(".")[2] for violation in refused.value.violations] == [name]


def test_one_error_lists_all_mistakes_of_a_file(tmp_path: Path) -> None:
    wrong = recommendation().model_dump(mode="json") | {"chosen": 0, "schema_version": 2, "color": "red"}
    (tmp_path / "chat.json").write_text(json.dumps(wrong))
    with pytest.raises(RecipeError) as refused:
        Recommendation.from_file(tmp_path / "chat.json")
    assert {violation.location.rpartition(".")[2] for violation in refused.value.violations} == {
        "chosen",
        "schema_version",
        "color",
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"chosen": NaN}', None])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "chat.json").write_text(text)
    with pytest.raises(RecipeError, match="cannot be read"):
        Recommendation.from_file(tmp_path / "chat.json")


@pytest.mark.parametrize(
    "good",
    [
        RecommendedDeployment(recommendation(), "us-west-2", "111122223333"),
        RecommendedDeployment(recommendation()),
        RecommendedDeployment(recommendation(copies_per_instance=2, min_memory_mib=1024)),
        RecommendedDeployment(recommendation(), alarms=Alarms(saturation=AlarmSettings(threshold=16))),
        RecommendedDeployment(recommendation(instance_type="ml.g9.new", instance_types=["ml.g9.new"])),
    ],
)
def test_recommendations_that_fit(good: RecommendedDeployment) -> None:
    assert findings(good) == []
    assert not list(warnings(good))


BAD: list[tuple[RecommendedDeployment, str, str]] = [
    (RecommendedDeployment(recommendation(), "eu-west-1"), "OPT205", "recommendation.model_package_arn"),
    (
        RecommendedDeployment(recommendation(instance_type="ml.p5.48xlarge")),
        "OPT207",
        "recommendation.instance_type",
    ),
    (
        RecommendedDeployment(recommendation(), alarms=Alarms(saturation=True)),
        "OPT217",
        "monitoring.alarms.saturation.threshold",
    ),
    (RecommendedDeployment(recommendation(copies_per_instance=3)), "OPT208", "recommendation.copies_per_instance"),
    (
        RecommendedDeployment(recommendation(copies_per_instance=2, min_memory_mib=500_000)),
        "OPT208",
        "recommendation.min_memory_mib",
    ),
    (
        RecommendedDeployment(
            recommendation(copies_per_instance=2, instance_type="ml.g9.new", instance_types=["ml.g9.new"])
        ),
        "OPT208",
        "recommendation.instance_type",
    ),
]


@pytest.mark.parametrize(("bad", "rule", "location"), BAD)
def test_recommendations_that_do_not_fit(bad: RecommendedDeployment, rule: str, location: str) -> None:
    assert findings(bad) == [(rule, location)]


OF_ANOTHER_ACCOUNT = RecommendedDeployment(recommendation(), account="444455556666")


def test_a_package_of_another_account_is_advised_against() -> None:
    (advice,) = warnings(OF_ANOTHER_ACCOUNT)
    assert "OPT206" in advice.id


JOB: dict[str, Any] = {
    "AIRecommendationJobArn": f"{PREFIX}:ai-recommendation-job/chat",
    "PerformanceTarget": {"Constraints": [{"Metric": "ttft-ms"}, {"Metric": "cost"}]},
    "Recommendations": [
        {
            "ModelDetails": {
                "ModelPackageArn": f"{PREFIX}:model-package/chat/1",
                "InferenceSpecificationName": "recommendation-1",
                "InstanceDetails": [{"InstanceType": "ml.g5.12xlarge"}, {"InstanceType": "ml.g6.12xlarge"}],
            },
            "DeploymentConfiguration": {
                "InstanceType": "ml.g5.12xlarge",
                "InstanceCount": 2,
                "CopyCountPerInstance": 4,
                "MinCpuMemoryRequiredInMb": 4096,
                "S3": [{"ChannelName": "model", "Uri": "s3://models/chat/"}],
                "ImageUri": "763104351884.dkr.ecr.us-west-2.amazonaws.com/lmi:1",
                "EnvironmentVariables": {"OPTION_QUANTIZE": "awq"},
            },
            "OptimizationDetails": [{"OptimizationType": "SpeculativeDecoding"}, {"OptimizationType": "Quantization"}],
            "ExpectedPerformance": [
                {"Metric": "ttft-ms", "Value": "120", "Stat": "p50", "Unit": "Milliseconds"},
                {"Metric": "cost", "Value": "0.9"},
            ],
        },
        {
            "ModelDetails": {
                "ModelPackageArn": f"{PREFIX}:model-package/chat/2",
                "InferenceSpecificationName": "recommendation-2",
            },
            "DeploymentConfiguration": {
                "InstanceType": "ml.p4d.24xlarge",
                "S3": [{"ChannelName": "model", "Uri": "s3://models/chat/"}],
            },
        },
    ],
}


def test_a_recommendation_of_a_job_has_all_that_sagemaker_says_of_it() -> None:
    assert Recommendation.of_job(JOB, chosen=1, reason="the cheapest") == recommendation(
        optimized_for="ttft-ms, cost",
        instance_types=["ml.g5.12xlarge", "ml.g6.12xlarge"],
        instance_count=2,
        copies_per_instance=4,
        min_memory_mib=4096,
        image="763104351884.dkr.ecr.us-west-2.amazonaws.com/lmi:1",
        environment={"OPTION_QUANTIZE": "awq"},
        optimizations=["SpeculativeDecoding", "Quantization"],
        expected_performance=[
            {"metric": "ttft-ms", "value": "120", "statistic": "p50", "unit": "Milliseconds"},
            {"metric": "cost", "value": "0.9", "statistic": None, "unit": None},
        ],
    )


def test_what_sagemaker_does_not_say_of_a_recommendation_has_defaults() -> None:
    assert Recommendation.of_job(JOB, chosen=2, reason=None) == recommendation(
        optimizations=[],
        expected_performance=[],
        chosen=2,
        reason="number 2 of 2 in the service's ranking by ttft-ms, cost",
        optimized_for="ttft-ms, cost",
        model_package_arn=f"{PREFIX}:model-package/chat/2",
        inference_specification_name="recommendation-2",
        instance_type="ml.p4d.24xlarge",
        instance_types=["ml.p4d.24xlarge"],
    )
