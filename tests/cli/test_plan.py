from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, RecordedModel

LLAMA = ("--model", "meta-textgeneration-llama-3-70b-instruct", "--model-version", "2.25.0", "--accept-eula")
ON_G5 = ("--instance-type", "ml.g5.12xlarge")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def planned(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments, "--json")
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
    assert server["suggestion"] == "did you mean text_generation_inference?"


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
        ("quantization=awq,color=red", "group_size"),
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


QWEN = ("--model", "Qwen/Qwen3-32B", "--instance-type", "ml.p5.48xlarge")


def test_a_model_of_hugging_face_is_planned_before_its_commit_is_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = planned(*QWEN)
    assert [job["name"] for job in made["jobs"]] == ["copy-qwen-qwen3-32b"]
    assert made["artifact_key"] is None
    assert made["jobs"][0]["request"]["HyperParameters"]["revision"] == "not recorded yet"
    (warning,) = [each for each in made["warnings"] if each["id"] == "constructs-optim:OPT017"]
    assert "`constructs-optim lock --model Qwen/Qwen3-32B`" in warning["message"]
    assert "0000" not in run(*QWEN).stdout
    chained = planned(*QWEN, "--technique", "quantization=fp8_block")
    assert [job["artifact_key"] for job in chained["jobs"]] == [None, None]


def test_a_commit_is_of_the_command_or_of_the_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = planned("--model", f"Qwen/Qwen3-32B@{'a' * 40}", *QWEN[2:])
    assert given["artifact_key"] is not None
    assert planned(*QWEN, "--model-version", "a" * 40) == given
    Lock(models={"Qwen/Qwen3-32B": RecordedModel(revision="a" * 40)}).write(Path(LOCK_FILE))
    assert planned(*QWEN) == given


def test_a_checkpoint_and_a_speculator_are_named_by_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = planned(
        *("--model", "google/gemma-4-31B-it", "--instance-type", "ml.g7e.12xlarge"),
        *("--technique", "quantization=nvfp4,checkpoint=nvidia/gemma-4-31B-it-NVFP4"),
        *("--technique", "speculative_decoding=speculator,model=RedHatAI/gemma-4-31B-it-speculator.eagle3"),
    )
    assert [job["name"] for job in made["jobs"]] == [
        "copy-redhatai-gemma-4-31b-it-speculator-eagle3",
        "copy-nvidia-gemma-4-31b-it-nvfp4",
    ]
    warned = [each["message"] for each in made["warnings"] if each["id"] == "constructs-optim:OPT017"]
    assert len(warned) == 2
    in_s3 = planned(*QWEN, "--technique", "quantization=nvfp4,checkpoint=s3://models/nvfp4/")
    assert in_s3["container"]["model_data_source"]["S3DataSource"]["S3Uri"] == "s3://models/nvfp4/"


def test_an_s3_prefix_is_a_model_as_well() -> None:
    arguments = (*ON_G5, "--technique", "quantization=awq")
    assert planned("--model", "s3://models/mine/", *arguments) == planned("--model-s3", "s3://models/mine/", *arguments)


@pytest.mark.parametrize(
    ("model", "technique", "rule"),
    [
        ("Qwen/Qwen3-32B@main", "quantization=fp8_block", "OPT017"),
        ("a/b/c", "quantization=fp8_block", "OPT008"),
        ("s3://M/", "quantization=fp8_block", "OPT005"),
        ("", "quantization=fp8_block", "OPT002"),
        ("Qwen/Qwen3-32B", "quantization=nvfp4,checkpoint=llama", "OPT001"),
        ("Qwen/Qwen3-32B", "quantization=nvfp4,checkpoint=acme/x@main", "OPT017"),
        ("Qwen/Qwen3-32B", "quantization=fp8_block,compute=ml.g5.xlarge", "OPT021"),
        ("Qwen/Qwen3-32B", "speculative_decoding=speculator", "OPT020"),
    ],
)
def test_a_mistake_is_reported_with_its_rule(model: str, technique: str, rule: str) -> None:
    found = refused("--model", model, "--instance-type", "ml.p5.48xlarge", "--technique", technique)
    assert rule in {violation["rule"] for violation in found}


def test_exactly_one_model_source_is_required() -> None:
    assert run(*ON_G5, "--technique", "quantization=awq").exit_code == 2
    assert run(*LLAMA, "--model-s3", "s3://m/", *ON_G5, "--technique", "quantization=awq").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--model", "s3://m/x/", "--token-secret-arn", "arn"), "is for Hugging Face models only"),
        ((*LLAMA, "--token-secret-arn", "arn"), "is for Hugging Face models only"),
        ((*QWEN, "--accept-eula"), "Accept the license of a Hugging Face model on the model's page"),
        (("--model-s3", "s3://m/x/", "--model-version", "2.0.0"), "models in S3 have no version"),
        (("--model", f"Qwen/Qwen3-32B@{'a' * 40}", "--model-version", "b" * 40), "names a commit, and"),
    ],
)
def test_an_option_without_effect_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments, *(() if "--instance-type" in arguments else ON_G5))
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.replace("│", " ").split())


def test_a_refusal_is_readable_without_json() -> None:
    result = run(*LLAMA, "--instance-type", "ml.m5.xlarge", "--technique", "quantization=awq")
    assert result.exit_code == 2
    assert "OPT011" in result.stderr
    assert "what works" in result.stderr


def test_a_branch_is_refused_with_what_works_after_the_commit_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Lock(models={"Qwen/Qwen3-32B": RecordedModel(revision="a" * 40)}).write(Path(LOCK_FILE))
    arguments = ["plan", "--model", "Qwen/Qwen3-32B", "--instance-type", "ml.p5.4xlarge"]
    refused = CliRunner().invoke(app, [*arguments, "--model-version", "main"])
    assert refused.exit_code == 2
    assert "leave revision out" in " ".join(refused.output.split())
    assert CliRunner().invoke(app, arguments).exit_code == 0
