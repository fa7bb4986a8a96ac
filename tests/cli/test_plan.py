from __future__ import annotations

import json
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

LLAMA = ("--model", "meta-textgeneration-llama-3-70b-instruct", "--model-version", "2.25.0", "--accept-eula")
ON_G5 = ("--instance-type", "ml.g5.12xlarge")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def planned(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 2, result.output
    return json.loads(result.stdout)["violations"]


def test_a_plan_is_shown_as_a_table() -> None:
    result = run(*LLAMA, *ON_G5, "--technique", "quantization=awq,group_size=64")
    assert result.exit_code == 0, result.output
    assert "AWQ INT4 (group size 64)" in result.stdout
    assert "weights 39 GB" in result.stdout


def test_the_server_is_chosen_with_its_settings() -> None:
    chosen = planned(*LLAMA, *ON_G5, "--technique", "quantization=awq", "--server", "sglang,context_length=4096")
    assert "/sglang:" in chosen["container"]["image"]
    assert chosen["container"]["environment"]["SM_SGLANG_CONTEXT_LENGTH"] == "4096"


def test_a_wrong_server_is_reported_with_the_other_mistakes() -> None:
    rules = refused(
        "--model",
        "meta-textgeneration-lama-3-70b",
        "--instance-type",
        "ml.none",
        "--technique",
        "awq",
        "--server",
        "tgi",
    )
    assert {"OPT002", "OPT010", "OPT020", "OPT037"} <= {violation["rule"] for violation in rules}
    (server,) = [violation for violation in rules if violation["rule"] == "OPT037"]
    assert server["suggestion"].startswith("a server: vllm, ")


def test_planned_job_requests_lack_only_name_and_role() -> None:
    made = planned(*LLAMA, *ON_G5, "--technique", "quantization=awq", "--technique", "sharding=fast_load")
    shape: Any = (
        botocore.session.get_session()
        .get_service_model("sagemaker")
        .operation_model("CreateOptimizationJob")
        .input_shape
    )
    first, second = made["jobs"]
    for job in (first, second):
        named = {"OptimizationJobName": "job", "RoleArn": "arn:aws:iam::111122223333:role/execution"}
        report = ParamValidator().validate({**named, **job["request"]}, shape)
        assert not report.has_errors(), report.generate_report()
    output = first["request"]["OutputConfig"]["S3OutputLocation"]
    assert second["request"]["ModelSource"]["S3"]["S3Uri"] == output
    assert first["request"]["ModelSource"]["S3"]["ModelAccessConfig"] == {"AcceptEula": True}
    assert made["artifact_key"] == second["artifact_key"]


def test_a_custom_draft_is_an_additional_model_data_source_of_the_container() -> None:
    made = planned(
        *LLAMA,
        *ON_G5,
        *("--technique", "quantization=awq"),
        *("--technique", "speculative_decoding=custom_draft,uri=s3://drafts/one/"),
    )
    (source,) = made["container"]["additional_model_data_sources"]
    assert source["ChannelName"] == "draft_model"
    assert source["S3DataSource"]["S3Uri"] == "s3://drafts/one/"
    assert made["container"]["image"].startswith("763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:")
    assert made["estimates"]["memory"]["weights_gb"] == 39.478


def test_a_model_in_s3_is_planned_without_an_artifact_key() -> None:
    made = planned("--model-s3", "s3://models/mine/", *ON_G5, "--technique", "quantization=awq")
    assert made["artifact_key"] is None
    assert made["jobs"][0]["request"]["ModelSource"]["S3"]["S3Uri"] == "s3://models/mine/"


def test_warnings_are_listed_with_the_id_to_acknowledge() -> None:
    made = planned(*LLAMA[:2], "--accept-eula", *ON_G5, "--technique", "quantization=awq")
    assert [warning["id"] for warning in made["warnings"]] == ["constructs-optim:OPT006"]


def test_a_refused_recipe_lists_every_violation() -> None:
    found = refused(
        "--model",
        "meta-textgeneration-lama-3-70b",
        "--instance-type",
        "ml.m5.xlarge",
        "--technique",
        "quantization=awq",
    )
    assert [violation["rule"] for violation in found] == ["OPT002", "OPT011"]
    assert all(violation["message"] and violation["suggestion"] for violation in found)


@pytest.mark.parametrize(
    ("technique", "works"),
    [
        ("quantisation=awq", "quantization"),
        ("quantization=int2", "quantization=awq"),
        ("quantization=awq,colour=red", "group_size"),
        ("speculative_decoding=jumpstart_draft", "model_id=..."),
    ],
)
def test_an_invalid_technique_is_reported_as_a_rule_violation(technique: str, works: str) -> None:
    (violation,) = refused(*LLAMA, *ON_G5, "--technique", technique)
    assert violation["rule"] == "OPT020"
    assert violation["value"] == technique
    assert works in violation["suggestion"]


def test_settings_are_read_as_numbers_booleans_and_lists() -> None:
    made = planned(
        *LLAMA,
        *("--instance-type", "ml.p4d.24xlarge"),
        *("--technique", "quantization=fp8,calibration_size=64,ignored_layers=lm_head,ignored_layers=gate"),
    )
    environment = made["jobs"][0]["request"]["OptimizationConfigs"][0]["ModelQuantizationConfig"]["OverrideEnvironment"]
    assert environment["OPTION_CALIB_SIZE"] == "64"
    assert environment["OPTION_FP8_IGNORE"] == "lm_head,gate"
    compiled = planned(
        *LLAMA,
        *("--instance-type", "ml.p4d.24xlarge"),
        *(
            "--technique",
            "compilation=tensorrt_llm",
            "--technique",
            "quantization=smoothquant,per_token=true,alpha=0.5",
        ),
    )
    environment = compiled["jobs"][0]["request"]["OptimizationConfigs"][0]["ModelQuantizationConfig"][
        "OverrideEnvironment"
    ]
    assert (environment["OPTION_SMOOTHQUANT_PER_TOKEN"], environment["OPTION_SMOOTHQUANT_ALPHA"]) == ("true", "0.5")


def test_exactly_one_model_source_is_required() -> None:
    assert run(*ON_G5, "--technique", "quantization=awq").exit_code == 2
    assert run(*LLAMA, "--model-s3", "s3://m/", *ON_G5, "--technique", "quantization=awq").exit_code == 2


def test_a_refusal_is_readable_without_json() -> None:
    result = run(*LLAMA, "--instance-type", "ml.m5.xlarge", "--technique", "quantization=awq")
    assert result.exit_code == 2
    assert "OPT011" in result.stderr
    assert "what works" in result.stderr
