"""The artifact, opened the way Text Generation Inference opens it.

Its sources, read in version 3.3 (January 2026): ``server/text_generation_server/models/__init__.py``,
``layers/speculative.py``, ``layers/medusa.py``, ``utils/weights.py``, ``utils/hub.py``, ``router/src/server.rs``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.nn import functional

from constructs_optim.training.errors import UnusableHeads, UnusableModel
from constructs_optim.training.model.artifact import load_heads, read_heads_configuration, write_artifact
from constructs_optim.training.model.backbone import load_backbone, load_tokenizer
from constructs_optim.training.model.fingerprint import fingerprint
from constructs_optim.training.model.heads import MedusaHeads

from .models import save_small_model, small_model, small_tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling |= {"original_max_position_embeddings": 256}
    return save_small_model("llama", tmp_path_factory.mktemp("base") / "model", rope_scaling=scaling)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    return written(tmp_path_factory.mktemp("artifact") / "model", base, layers=2)


def written(folder: Path, base: Path, *, heads: int = 3, layers: int = 1) -> Path:
    projection = load_file(base / "model.safetensors")["lm_head.weight"]
    made = MedusaHeads.beside(projection, heads=heads, layers=layers)
    torch.manual_seed(1)
    for parameter in made.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    write_artifact(folder, made, base, served_from="/opt/ml/model", dtype=torch.float32, report={})
    return folder


def json_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_server_finds_the_model_by_an_absolute_path_below_its_own(artifact: Path) -> None:
    # get_model: with medusa_num_heads, base_model_name_or_path becomes the model's id, as it is.
    configuration = json_of(artifact / "config.json")
    assert configuration["medusa_num_heads"] == 3
    assert configuration["base_model_name_or_path"] == "/opt/ml/model/base-model"
    assert json_of(artifact / "base-model" / "config.json")["model_type"] == "llama"


def test_the_server_recognizes_the_artifact_as_medusa_only(artifact: Path) -> None:
    # SpeculativeHead.load goes on to Medusa only where "architectures" is missing; the router falls back to the
    # model's tokenizer only where "model_type" is.
    assert not {"architectures", "model_type"} & json_of(artifact / "config.json").keys()


def test_the_server_loads_the_heads_by_name_with_identical_outputs(artifact: Path, base: Path) -> None:
    # MedusaHeadV1.load: every key of the file is routed to it; none may be another file's.
    routing = {}
    with safe_open(artifact / "medusa_lm_head.safetensors", framework="pytorch") as file:
        routing = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
    with safe_open(artifact / "base-model" / "model.safetensors", framework="pytorch") as file:
        assert not set(file.keys()) & routing.keys()
    layers = json_of(artifact / "config.json")["medusa_num_layers"]
    hidden = torch.randn(4, 96)
    answers = []
    for head in range(json_of(artifact / "config.json")["medusa_num_heads"]):
        state = hidden
        for layer in range(layers):
            weight = routing.pop(f"{head}.{layer}.linear.weight")
            bias = routing.pop(f"{head}.{layer}.linear.bias")
            state = state + functional.silu(functional.linear(state, weight, bias))
        answers.append(functional.linear(state, routing.pop(f"{head}.{layers}.weight")))
    assert not routing
    ours = load_heads(artifact, artifact / "base-model", dtype=torch.float32, device=torch.device("cpu"))
    torch.testing.assert_close(torch.stack(answers), ours.logits(hidden))


def test_the_server_finds_the_heads_file_alone_at_the_top(artifact: Path) -> None:
    # download_weights is content with any *.safetensors at the top; files with "args" or "training" in their names
    # are left out.
    top = [path.name for path in artifact.glob("*.safetensors")]
    assert top == ["medusa_lm_head.safetensors"]
    for path in artifact.rglob("*.safetensors"):
        assert not any(word in path.name for word in ("arguments", "args", "training"))


def test_the_router_finds_the_tokenizer_and_its_chat_template_at_the_top(artifact: Path) -> None:
    configuration = json_of(artifact / "tokenizer_config.json")
    assert configuration["chat_template"] == small_tokenizer().chat_template
    assert configuration["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (artifact / "tokenizer.json").is_file()
    assert json_of(artifact / "base-model" / "tokenizer_config.json") == configuration


def test_servers_of_the_release_before_find_the_rotary_embeddings_and_the_precision(artifact: Path) -> None:
    configuration = json_of(artifact / "base-model" / "config.json")
    assert configuration["rope_theta"] == 5000.0
    assert configuration["rope_scaling"]["rope_type"] == "llama3"
    assert configuration["rope_scaling"]["factor"] == 8.0
    assert "rope_theta" not in configuration["rope_scaling"]
    assert configuration["torch_dtype"] == configuration["dtype"] == "float32"


def test_configuration_added_for_servers_leaves_logits_and_tokens_unchanged(artifact: Path, base: Path) -> None:
    prompt = torch.tensor([[5, 6, 7]])
    one, other = (load_backbone(folder, dtype=torch.float32) for folder in (base, artifact / "base-model"))
    assert torch.equal(one(prompt).logits, other(prompt).logits)
    texts = [
        load_tokenizer(folder)("SELECT name")["input_ids"] for folder in (base, artifact, artifact / "base-model")[::2]
    ]
    assert texts[0] == texts[1]


def test_heads_for_another_model_are_refused_by_its_fingerprint(artifact: Path, tmp_path: Path) -> None:
    other = save_small_model("llama", tmp_path / "other", seed=9)
    with pytest.raises(UnusableHeads, match="were trained on other weights than those in"):
        load_heads(artifact, other, dtype=torch.float32, device=torch.device("cpu"))


def test_heads_for_another_vocabulary_size_are_refused_with_both_shapes(artifact: Path, tmp_path: Path) -> None:
    other = save_small_model("llama", tmp_path / "other", vocab_size=600)
    with pytest.raises(UnusableHeads, match=r"vocab_size 600 .*0\.2\.weight is \(512, 96\), not \(600, 96\)"):
        load_heads(artifact, other, dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"medusa_num_heads": None}, "medusa_num_heads is None"),
        ({"medusa_num_layers": 0}, "medusa_num_layers is 0; both must be 1 or more"),
        ({"medusa_num_heads": 4}, r"3\.0\.linear\.weight is missing"),
        ({"medusa_num_heads": 2}, r"2\.0\.linear\.bias is unknown"),
    ],
)
def test_a_configuration_that_does_not_describe_the_heads_is_refused(
    artifact: Path, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(artifact, broken)
    (broken / "config.json").write_text(json.dumps({**json_of(artifact / "config.json"), **change}))
    with pytest.raises(UnusableHeads, match=reason):
        load_heads(broken, broken / "base-model", dtype=torch.float32, device=torch.device("cpu"))


def test_missing_files_are_named(tmp_path: Path, artifact: Path) -> None:
    with pytest.raises(UnusableHeads, match=r"has no config\.json, so it is not an artifact"):
        read_heads_configuration(tmp_path)
    shutil.copy(artifact / "config.json", tmp_path)
    with pytest.raises(UnusableHeads, match=r"has no medusa_lm_head\.safetensors"):
        load_heads(tmp_path, artifact / "base-model", dtype=torch.float32, device=torch.device("cpu"))


def test_the_fingerprint_does_not_depend_on_how_tensors_are_spread_over_files(tmp_path: Path, base: Path) -> None:
    model = load_backbone(base, dtype=torch.float32)
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert fingerprint(tmp_path) == fingerprint(base)


def test_one_changed_weight_changes_the_fingerprint(tmp_path: Path, base: Path) -> None:
    tensors = load_file(base / "model.safetensors")
    tensors["model.norm.weight"][0] += 1e-6
    save_file(tensors, tmp_path / "model.safetensors")
    assert fingerprint(tmp_path) != fingerprint(base)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not a safetensors file"),
        (b"\x02\0\0\0\0\0\0\0[]x", "is not a safetensors file"),
        (b"PK\x03\x04" * 9, "is no"),
    ],
)
def test_an_invalid_safetensors_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UnusableModel, match=reason):
        fingerprint(tmp_path)


def test_a_truncated_safetensors_file_is_refused(tmp_path: Path, base: Path) -> None:
    whole = (base / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-10])
    with pytest.raises(UnusableModel, match=r"model\.safetensors is truncated: tensor \S+ ends 10 bytes early"):
        fingerprint(tmp_path)


def test_heads_round_trip_beside_tied_embeddings(tmp_path: Path) -> None:
    model = small_model("llama", tie_word_embeddings=True)
    model.save_pretrained(tmp_path / "base")
    small_tokenizer().save_pretrained(tmp_path / "base")
    loaded = load_backbone(tmp_path / "base", dtype=torch.float32)
    heads = MedusaHeads.beside(loaded.get_output_embeddings().weight, heads=2, layers=1)
    write_artifact(tmp_path / "a", heads, tmp_path / "base", served_from="/x/", dtype=torch.bfloat16, report={})
    assert json_of(tmp_path / "a" / "config.json")["base_model_name_or_path"] == "/x/base-model"
    back = load_heads(tmp_path / "a", tmp_path / "base", dtype=torch.float32, device=torch.device("cpu"))
    torch.testing.assert_close(back[1][-1].weight, loaded.get_input_embeddings().weight, rtol=1e-2, atol=1e-3)
    assert load_file(tmp_path / "a" / "medusa_lm_head.safetensors")["0.0.linear.bias"].dtype == torch.bfloat16
