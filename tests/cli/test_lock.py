"""``constructs-optim lock --model``: what it records of a model, from a hub on loopback and from S3."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi, constants
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.cli.recipes.model_lookup import NotAModelError, _config, _recorded
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, LockFileError, RecordedArtifact, RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.splits import Split

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
FILES = {
    "config.json": json.dumps(CONFIG).encode(),
    "model.safetensors": bytes(2_000_000),
    "tokenizer.json": b"{}",
}
RECORDED = RecordedModel(
    attention="heads of 128",
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
    model_type="qwen3",
    splits={
        "hidden": Split(width=5120),
        "attention": Split(heads=64, width=8192),
        "key_value": Split(heads=8, width=1024),
    },
)
OF_HUB = RECORDED.model_copy(update={"revision": COMMIT, "gated": False, "license": "apache-2.0"})


def _compressed(*weights: dict[str, Any]) -> dict[str, Any]:
    groups = {f"group_{index}": {"weights": each, "targets": ["Linear"]} for index, each in enumerate(weights)}
    return {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups}}


def _quantized(method: str, **members: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": method, **members}}


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


def test_a_mirror_without_a_scheme_is_refused_for_that(hub: ModelHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "mirror.local")
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 2
    assert result.stderr == "HF_ENDPOINT is mirror.local, which is no URL: begin it with https://\n"


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


@pytest.mark.parametrize("content", [b"[]", b"{", b'"a"', b'{"hidden_size": 4096}'], ids=str)
def test_a_configuration_that_is_not_a_models_ends_the_command_with_the_reason(hub: ModelHub, content: bytes) -> None:
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "config.json": content})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 2
    assert "is not the configuration of a model" in " ".join(result.output.split())
    fault = Lock.read(Path(LOCK_FILE)).models["acme/llama"].fault
    assert fault is not None
    assert "in a copy of the files in S3" in fault.fix


@pytest.mark.parametrize(
    ("config", "unread"),
    [
        ({"num_hidden_layers": "many"}, "num_hidden_layers"),
        ({"hidden_size": "5120", "vocab_size": 10**400}, "hidden_size, vocab_size"),
        ({"intermediate_size": [8192, 16384]}, "intermediate_size"),
        ({"max_position_embeddings": 10**12}, "max_position_embeddings"),
        ({"num_hidden_layers": 10**9, "sliding_window_pattern": 6}, "num_hidden_layers"),
        ({"layer_types": ["full_attention"] * 10_001}, "layer_types"),
        ({"quantization_config": "awq"}, "quantization_config"),
        ({"quantization_config": {"quant_method": "awq", "bits": "four"}}, "bits"),
        ({"text_config": {"head_dim": "wide"}}, "head_dim"),
        ({"architectures": ["no name"]}, "architectures"),
    ],
)
def test_a_field_that_cannot_be_read_is_unknown_and_said(hub: ModelHub, config: dict[str, Any], unread: str) -> None:
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "config.json": json.dumps({**CONFIG, **config}).encode()})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert said == f"Warning: {unread} in the config.json of acme/llama cannot be read, and counts as unknown"
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"].revision == COMMIT


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            ["adapter_config.json", "adapter_model.safetensors"],
            "a LoRA adapter, not a model. What works: serve its base",
        ),
        (["model_index.json", "unet/config.json", "unet/model.safetensors"], "a pipeline of diffusers"),
        (["README.md", "llama.gguf"], "GGUF files"),
        (["config.json"], "there are no weights"),
        (["config.json", "adapter_config.json", "adapter_model.safetensors"], "a LoRA adapter, not a model"),
        (
            [".gitattributes", "config.json", "model-00001-of-00002.safetensors"],
            "it lacks model-00002-of-00002.safetensors",
        ),
    ],
)
def test_files_that_no_engine_loads_are_refused_and_the_plan_refuses_them_with_the_same_reason(
    hub: ModelHub, files: list[str], reason: str
) -> None:
    content = {name: json.dumps(CONFIG).encode() for name in files}
    hub.models["acme/llama"] = HubModel(COMMIT, content)
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 2
    assert reason in " ".join(result.output.split())
    planned = CliRunner().invoke(app, ["plan", "--model", "acme/llama", "--instance-type", "ml.g6e.xlarge"])
    assert planned.exit_code == 2
    said = " ".join(planned.output.split())
    assert reason.partition(". ")[0] in said
    assert "OPT305" in said
    assert "OPT017" not in said


def test_files_that_no_engine_loads_replace_no_record_and_later_ones_replace_them(hub: ModelHub) -> None:
    lock("--model", "acme/llama")
    hub.models["acme/llama"] = HubModel(LATER, {"llama.gguf": b"a"})
    for options in ([], ["--update"]):
        result = CliRunner().invoke(app, ["lock", "--model", "acme/llama", *options])
        assert (result.exit_code, Lock.read(Path(LOCK_FILE)).models) == (2, {"acme/llama": OF_HUB})
    Path(LOCK_FILE).unlink()
    CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"].fault is not None
    assert "no engine loads it: its weights are GGUF files" in " ".join(lock().split())
    hub.models["acme/llama"] = HubModel(COMMIT, FILES)
    lock("--model", "acme/llama")
    assert Lock.read(Path(LOCK_FILE)).models == {"acme/llama": OF_HUB}


def test_a_model_is_recorded_beside_one_that_no_engine_loads(hub: ModelHub) -> None:
    hub.models["acme/other"] = HubModel(COMMIT, {"llama.gguf": b"a"})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/other", "--model", "acme/llama", "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["models.acme/llama"]["preferred"]["revision"] == COMMIT
    assert result.stderr.startswith("No engine loads acme/other: its weights are GGUF files")
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"] == OF_HUB


def test_an_index_that_names_files_that_are_not_there_is_refused(hub: ModelHub) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "other.safetensors"}}
    files = {**FILES, "model.safetensors.index.json": json.dumps(index).encode()}
    hub.models["acme/llama"] = HubModel(COMMIT, files)
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 2
    assert "the model is incomplete: it lacks other.safetensors" in " ".join(result.output.split())
    hub.models["acme/llama"] = HubModel(COMMIT, {**files, "other.safetensors": b""})
    lock("--model", "acme/llama")
    # What is no index says nothing.
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "model.safetensors.index.json": b"[]"})
    lock("--model", "acme/llama")


@pytest.mark.parametrize(
    ("without", "files", "field", "said", "rule"),
    [
        ("tokenizer.json", {".gitattributes": b""}, "has_tokenizer", "has no tokenizer", "OPT305"),
        ("model.safetensors", {"pytorch_model.bin": bytes(2_000_000)}, "pickled", "allow_pickle=True", "OPT306"),
    ],
)
def test_what_a_model_lacks_is_said_recorded_and_refused_by_the_plan(
    hub: ModelHub, without: str, files: dict[str, bytes], field: str, said: str, rule: str
) -> None:
    kept = {name: content for name, content in FILES.items() if name != without}
    hub.models["acme/llama"] = HubModel(COMMIT, {**kept, **files})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 0, result.output
    assert said in " ".join(result.stderr.split())
    recorded = Lock.read(Path(LOCK_FILE)).models["acme/llama"]
    assert recorded == OF_HUB.model_copy(update={field: getattr(recorded, field)})
    assert getattr(recorded, field) is not None
    planned = CliRunner().invoke(app, ["plan", "--model", "acme/llama", "--instance-type", "ml.g6e.xlarge"])
    assert planned.exit_code == 2
    assert rule in planned.output


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["config.json", "tokenizer.json", "model-00001-of-00002.safetensors"], "it lacks model-00002-of-00002"),
        (["config.json", "model.safetensors"], "no tokenizer is listed"),
    ],
)
def test_what_a_mirror_does_not_list_is_said_and_does_not_stop_the_plan(
    hub: ModelHub, files: list[str], said: str
) -> None:
    hub.models["acme/llama"] = HubModel(COMMIT, {name: FILES.get(name, bytes(2_000_000)) for name in files})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert (result.exit_code, said in " ".join(result.stderr.split())) == (0, True)
    planned = CliRunner().invoke(app, ["plan", "--model", "acme/llama", "--instance-type", "ml.g6e.xlarge"])
    assert planned.exit_code == 0, planned.output


def test_a_configuration_without_a_model_type_is_refused_with_what_works(hub: ModelHub) -> None:
    content = json.dumps({name: value for name, value in CONFIG.items() if name != "model_type"}).encode()
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "config.json": content})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    said = " ".join(result.output.split())
    assert result.exit_code == 2
    assert "it has no model_type" in said
    assert "set model_type to that of the model that it was made from in a copy of the files in S3" in said


@pytest.mark.parametrize("name", ["quantization", "quantization_config"])
def test_weights_that_mlx_quantized_are_named_and_refused_by_the_plan(hub: ModelHub, name: str) -> None:
    content = json.dumps({**CONFIG, name: {"group_size": 64, "bits": 4, "mode": "affine"}}).encode()
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "config.json": content})
    lock("--model", "acme/llama")
    planned = CliRunner().invoke(app, ["plan", "--model", "acme/llama", "--instance-type", "ml.g6e.xlarge"])
    assert planned.exit_code == 2
    said = " ".join(planned.output.split())
    assert "does not load the weights of acme/llama, which are quantized with mlx" in said
    assert "the model's weights in 16 bits" in said


def test_a_missing_part_in_s3_is_said(store: Store, cloud: Any) -> None:
    others = {name: content for name, content in FILES.items() if name != "model.safetensors"}
    files = {**others, "model-00001-of-00002.safetensors": bytes(1_000)}
    for name, content in files.items():
        store.s3.put_object(Bucket=store.bucket, Key=f"models/mine/{name}", Body=content)
    uri = f"s3://{store.bucket}/models/mine/"
    result = CliRunner().invoke(app, ["lock", "--model", uri])
    assert result.exit_code == 0, result.output
    assert "it lacks model-00002-of-00002.safetensors" in " ".join(result.stderr.split())
    assert Lock.read(Path(LOCK_FILE)).models[uri].fault is None


def test_weights_in_folders_below_are_not_the_models(hub: ModelHub) -> None:
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "original/model.safetensors": bytes(3_000_000)})
    lock("--model", "acme/llama")
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"] == OF_HUB


def test_a_model_in_mistrals_layout_is_recorded_without_a_configuration(hub: ModelHub) -> None:
    hub.models["acme/llama"] = HubModel(
        COMMIT, {"params.json": b"{}", "consolidated.safetensors": bytes(2_000_000), "tekken.json": b"{}"}
    )
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert "neither its memory nor whether the engine loads it is checked" in " ".join(result.stderr.split())
    recorded = Lock.read(Path(LOCK_FILE)).models["acme/llama"]
    assert (recorded.stored_gb, recorded.hidden_size) == (0.002, None)
    planned = CliRunner().invoke(app, ["plan", "--model", "acme/llama", "--instance-type", "ml.g6e.xlarge"])
    assert planned.exit_code == 0
    assert "no config.json of acme/llama could be read" in " ".join(planned.output.split())


def test_null_is_a_field_that_a_configuration_does_not_have(hub: ModelHub) -> None:
    nulls = dict.fromkeys(["tie_word_embeddings", "sliding_window", "layer_types", "text_config"])
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "config.json": json.dumps({**CONFIG, **nulls}).encode()})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"] == OF_HUB


JUNK = (None, True, 0, 1, -1, 0.5, 1e300, 2**31, 10**12, 10**400, "", "x", "4", [], {}, [[]], [{}])
QUANTIZED: dict[str, Any] = {
    **CONFIG,
    "intermediate_size": 25_600,
    "layer_types": ["full_attention", "sliding_attention"] * 32,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "attn_layer_indices": [1, 2],
    "quantization_config": {
        "quant_method": "awq",
        "bits": 4,
        "group_size": 128,
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
        "ignore": ["lm_head"],
    },
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(item, (*path, key))


def _changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    if not path:
        return to
    changed = copy.copy(value)
    changed[path[0]] = _changed(value[path[0]], path[1:], to)
    return changed


@pytest.mark.parametrize("without", [(), ("layer_types",), ("layer_types", "attn_layer_indices")])
@pytest.mark.parametrize("wrapped", [False, True])
def test_any_configuration_is_recorded_or_refused_with_one_sentence(without: tuple[str, ...], wrapped: bool) -> None:
    whole = {name: value for name, value in QUANTIZED.items() if name not in without}
    whole = {"text_config": whole, **whole} if wrapped else whole
    refused: list[str] = []
    for path in [path for path in _paths(whole) if not (path and isinstance(path[-1], int) and path[-1] > 1)]:
        for junk in JUNK:
            content = json.dumps(_changed(whole, path, junk)).encode()
            try:
                files = {"model.safetensors": 16 * 10**9, "tokenizer.json": 1}
                recorded = _recorded("m", _config("m", content), files)
            except NotAModelError as error:
                refused.append(str(error))
                continue
            assert Lock.model_validate_json(Lock(models={"m": recorded}).model_dump_json()).models["m"] == recorded
    assert len(refused) > 20
    assert max(map(len, refused)) < 400
    assert not any("\n" in sentence for sentence in refused)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (_quantized("awq", bits=0), "weight_bits = 0, which no model has"),
        (_compressed({"num_bits": 0, "type": "int"}), "weight_bits = 0, which no model has"),
    ],
)
def test_numbers_that_no_model_has_end_the_command_with_the_reason(
    hub: ModelHub, config: dict[str, Any], reason: str
) -> None:
    content = json.dumps({**CONFIG, **config}).encode()
    hub.models["acme/llama"] = HubModel(COMMIT, {**FILES, "config.json": content})
    result = CliRunner().invoke(app, ["lock", "--model", "acme/llama"])
    assert result.exit_code == 2, result.output
    assert reason in " ".join(result.output.split())
    fault = Lock.read(Path(LOCK_FILE)).models["acme/llama"].fault
    assert fault is not None
    assert reason in fault.reason


def test_a_configuration_with_a_byte_order_mark_or_an_infinity_is_read() -> None:
    content = b"\xef\xbb\xbf" + json.dumps({**CONFIG, "time_step_limit": [0, float("inf")]}).encode()
    files = {"model.safetensors": 2_000_000, "tokenizer.json": 1}
    assert _recorded("m", _config("m", content), files) == RECORDED


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mit", "mit"),
        (["mit", "apache-2.0"], "mit, apache-2.0"),
        ([], None),
        ([5], None),
        (5, None),
        ({"a": 1}, None),
        (None, None),
    ],
)
def test_a_models_license_is_recorded_however_its_card_writes_it(
    hub: ModelHub, monkeypatch: pytest.MonkeyPatch, given: Any, expected: str | None
) -> None:
    card = SimpleNamespace(to_dict=lambda: {"license": given})
    found = SimpleNamespace(sha=COMMIT, gated=False, card_data=card, safetensors=None, siblings=[])
    monkeypatch.setattr(HfApi, "model_info", lambda *_, **__: found)
    lock("--model", "acme/llama")
    assert Lock.read(Path(LOCK_FILE)).models["acme/llama"].license == expected


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('{"jobs": {"awq": "djl-inference:1", "awq": "djl-inference:2"}}', "awq"),
        ('{"version": 1, "jobs": {}, "version": 1}', "version"),
        ('{"models": {"acme/llama": {"layers": 1, "layers": 2}}}', "layers"),
        ('{"contexts": {"name": 1, "name": 2}}'.replace("name", "x" * 9000), "xxx"),
    ],
)
def test_a_lock_file_with_a_name_twice_is_refused(content: str, name: str) -> None:
    Path(LOCK_FILE).write_text(content)
    with pytest.raises(LockFileError, match=f'has "{name}.*" twice .* delete one of them') as refused:
        Lock.read(Path(LOCK_FILE))
    assert len(str(refused.value)) < 500


def test_a_lock_file_with_a_byte_order_mark_is_read() -> None:
    Path(LOCK_FILE).write_bytes(b'\xef\xbb\xbf{"contexts": {"acme/llama@ml.g5.xlarge": 4096}}')
    assert Lock.read(Path(LOCK_FILE)).contexts == {"acme/llama@ml.g5.xlarge": 4096}
    Path(LOCK_FILE).write_bytes(b'\xef\xbb\xbf{"version": 2}')
    with pytest.raises(LockFileError, match="of a newer release"):
        Lock.read(Path(LOCK_FILE))


def test_the_message_about_a_lock_file_with_many_mistakes_stays_short() -> None:
    contexts: dict[str, Any] = {f"model-{number}": -1 for number in range(20_000)} | {"x" * 9000: "y"}
    Path(LOCK_FILE).write_text(json.dumps({"contexts": contexts}))
    with pytest.raises(LockFileError, match=r"contexts\.model-4: .*; and 19,996 more") as refused:
        Lock.read(Path(LOCK_FILE))
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    "content", ["[" * 5000, '{"jobs":' * 150, '{"contexts": {"a": %s}}' % ("9" * 5000), "", "\0", "[]"]
)
def test_other_content_of_a_lock_file_is_refused_with_one_sentence(content: str) -> None:
    Path(LOCK_FILE).write_text(content)
    with pytest.raises(LockFileError, match="is not a lock file of this release") as refused:
        Lock.read(Path(LOCK_FILE))
    assert len(str(refused.value)) < 1000


def test_a_model_in_s3_is_recorded_with_its_size(store: Store, cloud: Any) -> None:
    for name, content in FILES.items():
        store.s3.put_object(Bucket=store.bucket, Key=f"models/mine/{name}", Body=content)
    uri = f"s3://{store.bucket}/models/mine/"
    lock("--model", uri)
    assert Lock.read(Path(LOCK_FILE)).models == {uri: RECORDED}


def test_an_s3_prefix_without_a_model_ends_the_command_with_the_reason(store: Store, cloud: Any) -> None:
    result = CliRunner().invoke(app, ["lock", "--model", f"s3://{store.bucket}/nothing/"])
    assert result.exit_code == 2
    assert "there are no files. What works: upload the model's files" in " ".join(result.output.split())


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


@pytest.mark.parametrize("options", [[], ["--update"]])
def test_a_lock_file_that_does_not_exist_is_not_called_empty(options: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["lock", *options, "--lock-file", str(tmp_path / "nope.json")])
    assert "nope.json does not exist. Synthesis writes it" in result.output
    assert result.exit_code == (2 if options else 0)
