"""``constructs-optim lock --model``: what it records of a model, from a hub on loopback and from S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, RecordedArtifact, RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig

from ..support.choices import CHOICE, NAME
from ..support.model_hub import HubModel, ModelHub, serving
from ..support.operator_stores import Store

COMMIT, LATER = "1" * 40, "2" * 40
CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 5120,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
}
FILES = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": bytes(2_000_000)}
RECORDED = RecordedModel(
    weight_bits=16,
    layers=64,
    key_value_heads=8,
    head_dimension=128,
    hidden_size=5120,
    vocabulary_size=151_936,
    tied_embeddings=False,
    attention_heads=64,
    max_position=40_960,
    stored_gb=0.002,
    parameters_billion=0.001,
)
OF_HUB = RECORDED.model_copy(update={"revision": COMMIT, "gated": False, "license": "apache-2.0"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An app's folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelHub]:
    with serving({"acme/llama": HubModel(COMMIT, FILES)}) as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        template = f"{running.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield running


def lock(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["lock", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_model_of_hugging_face_is_recorded_with_its_commit_and_size(hub: ModelHub) -> None:
    assert COMMIT in lock("--model", "acme/llama")
    assert Lock.read(Path(LOCK_FILE)).models == {"acme/llama": OF_HUB}


def test_a_branch_that_has_moved_is_reported_and_recorded_where_it_is_asked_for(hub: ModelHub) -> None:
    lock("--model", "acme/llama")
    hub.models["acme/llama"] = HubModel(LATER, FILES)
    assert "Add --update to record it" in lock("--model", "acme/llama")
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"].revision == COMMIT
    lock("--model", "acme/llama", "--update")
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"].revision == LATER


def test_of_a_gated_model_without_a_token_the_commit_is_recorded(hub: ModelHub) -> None:
    hub.models["acme/llama"] = HubModel(COMMIT, FILES, token="hf_1")
    lock("--model", "acme/llama")
    recorded = Lock.read(Path(LOCK_FILE)).models["acme/llama"]
    assert (recorded.revision, recorded.gated, recorded.layers) == (COMMIT, True, None)
    assert recorded.stored_gb == 0.002


def test_entries_beside_a_model_to_look_up_are_refused() -> None:
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama", "models.acme/llama"])
    assert result.exit_code == 2
    assert "Remove one of them" in result.output


def test_other_entries_stay_as_they_are(hub: ModelHub) -> None:
    before = Lock(jobs={"awq": "image:1"})
    before.write(Path(LOCK_FILE))
    lock("--model", "acme/llama")
    assert Lock.read(Path(LOCK_FILE)).jobs == before.jobs


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("acme/lama",), "Hugging Face has no model acme/lama"),
        (("acme/llama", "--model-version", "v9"), "has no revision v9"),
        (("acme/llama@v9",), "has no revision v9"),
        (("a/b/c",), "OPT008"),
        (("meta-textgeneration-llama-3-8b",), "OPT008"),
        (("s3://UPPER/models/",), "OPT005"),
    ],
)
def test_an_unknown_model_or_revision_ends_the_command_with_the_reason(
    hub: ModelHub, arguments: tuple[str, ...], reason: str
) -> None:
    result = CliRunner().invoke(app, ["lock", "--model", *arguments])
    assert result.exit_code == 2
    assert reason in " ".join(result.output.replace("│", "").split())
    assert not Path(LOCK_FILE).exists()


def test_a_hub_that_cannot_be_reached_ends_the_command_with_one_line(
    hub: ModelHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "Cannot look up acme/llama" in result.stderr
    assert "HF_ENDPOINT" in result.stderr


def test_a_lock_file_that_cannot_be_written_ends_the_command_with_one_line(hub: ModelHub) -> None:
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama", "--lock-file", "no/such/folder/optim.lock.json"])
    assert result.exit_code == 2
    assert "Cannot write" in result.stderr


def test_what_follows_from_a_models_size_is_decided_anew_when_it_is_recorded(hub: ModelHub) -> None:
    of_model = {"acme/llama@ml.g5.xlarge": 0, "acme/llama@ml.g5.xlarge+awq": 4096, "acme/other@ml.g5.xlarge": 8192}
    copies = {"acme/llama": RecordedArtifact(version=1, storage_gb=1000)}
    Lock(contexts=of_model, artifacts=copies).write(Path(LOCK_FILE))
    assert "artifacts.acme/llama: version 1, 1000 GB -> version 1, 1 GB" in lock("--model", "acme/llama")
    recorded = Lock.read(Path(LOCK_FILE))
    assert recorded.contexts == {"acme/other@ml.g5.xlarge": 8192}
    assert recorded.artifacts == {"acme/llama": RecordedArtifact(version=1, storage_gb=1)}
    # Nothing new is found the second time.
    assert "artifacts" not in lock("--model", "acme/llama")


def test_choices_are_shown_and_no_update_changes_them(hub: ModelHub) -> None:
    Lock(choices={NAME: CHOICE}, contexts={"acme/llama@ml.g5.xlarge": 0}).write(Path(LOCK_FILE))
    (shown,) = [line for line in lock().splitlines() if NAME in line]
    assert shown.count("2 x ml.p5.48xlarge, FP8") == 2, "recorded, and preferred by the catalog"
    lock("--update", f"choices.{NAME}")
    lock("--update")
    lock("--model", "acme/llama", "--update")
    assert Lock.read(Path(LOCK_FILE)).choices == {NAME: CHOICE}


def test_a_choice_is_recorded_by_its_own_command(hub: ModelHub) -> None:
    Lock(choices={NAME: CHOICE}).write(Path(LOCK_FILE))
    assert f"Updated 0 of 1 entries in {LOCK_FILE}" in lock("--update", f"choices.{NAME}")


def test_a_configuration_that_is_not_a_models_ends_the_command_with_the_reason(hub: ModelHub) -> None:
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "config.json": b'{"num_hidden_layers": "many"}'})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 2
    assert "num_hidden_layers" in result.output


def test_a_model_in_s3_is_recorded_with_its_size(store: Store, cloud: Any) -> None:
    for name, content in FILES.items():
        store.s3.put_object(Bucket=store.bucket, Key=f"models/mine/{name}", Body=content)
    uri = f"s3://{store.bucket}/models/mine/"
    lock("--model", uri)
    assert Lock.read(Path(LOCK_FILE)).models == {uri: RECORDED}


def test_an_s3_prefix_without_a_model_ends_the_command_with_the_reason(store: Store, cloud: Any) -> None:
    result = CliRunner().invoke(app, ["lock", "--model", f"s3://{store.bucket}/nothing/"])
    assert result.exit_code == 2
    assert "config.json" in result.output


def _compressed(*weights: dict[str, Any]) -> dict[str, Any]:
    groups = {f"group_{index}": {"weights": each, "targets": ["Linear"]} for index, each in enumerate(weights)}
    return {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups}}


def _quantized(method: str, **members: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": method, **members}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"torch_dtype": "float32"}, {"weight_bits": 32}),
        ({"quantization_config": {"quant_method": "fp8"}}, {"weight_bits": 8, "precision": "fp8"}),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, {"weight_bits": 4, "precision": "int4"}),
        (
            {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
            {"weight_bits": 4, "precision": "nvfp4"},
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": {"weights": {"num_bits": 4}, "targets": ["Linear"]}},
                }
            },
            {"weight_bits": 4},
        ),
        (_compressed({"num_bits": 4, "type": "float", "group_size": 16}), {"precision": "nvfp4"}),
        (_compressed({"num_bits": 4, "type": "float", "group_size": 32}), {"precision": "mxfp4"}),
        (_compressed({"num_bits": 8, "type": "float"}), {"precision": "fp8"}),
        (_compressed({"num_bits": 4, "type": "int", "group_size": 128}), {"precision": "int4"}),
        (_compressed({"num_bits": 8, "type": "float"}, {"num_bits": 4, "type": "int"}), {"precision": None}),
        (_compressed(), {"weight_bits": 16, "precision": None}),
        (_quantized("bitsandbytes", load_in_4bit=True, load_in_8bit=False), {"weight_bits": 4}),
        (_quantized("bitsandbytes", load_in_8bit=True), {"weight_bits": 8, "precision": "bitsandbytes"}),
        (_quantized("eetq"), {"weight_bits": 8, "precision": "eetq"}),
        (
            _quantized("hqq", quant_config={"weight_quant_params": {"nbits": 3}}),
            {"weight_bits": 3, "precision": "hqq"},
        ),
        (
            _quantized("torchao", quant_type={"default": {"_type": "Int8DynamicActivationInt4WeightConfig"}}),
            {"weight_bits": 4, "precision": "torchao"},
        ),
        (_quantized("torchao", quant_type="float8_weight_only"), {"weight_bits": 8}),
        (_quantized("torchao", quant_type={"default": {"_type": "AutoQuant"}}), {"weight_bits": None}),
        (
            _quantized("quark", global_quant_config={"weight": {"dtype": "fp8_e4m3"}}),
            {"weight_bits": 8, "precision": "quark"},
        ),
        (_quantized("quark", global_quant_config={"weight": [{"dtype": "fp8_e4m3"}]}), {"weight_bits": None}),
        (
            {**_quantized("new"), **CONFIG, "intermediate_size": 25_600},
            {"weight_bits": None, "precision": None, "parameters_billion": None, "stored_gb": None},
        ),
        ({"text_config": CONFIG}, {"layers": 64, "weight_bits": 16}),
        ({**CONFIG, "kv_lora_rank": 512}, {"layers": None, "key_value_heads": None}),
        ({"layer_types": ["full_attention", "sliding_attention"] * 3}, {"full_attention_layers": 3}),
        ({"num_attention_heads": 32, "hidden_size": 4096}, {"key_value_heads": 32, "head_dimension": 128}),
    ],
)
def test_columns_follow_from_the_configuration(config: dict[str, Any], expected: dict[str, Any]) -> None:
    columns = ModelConfig.model_validate(config).columns
    assert {name: columns.get(name) for name in expected} == expected
