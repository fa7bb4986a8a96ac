"""Copies of config.json in the catalog, and the columns of models' rows that follow from them."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog import load, model_configs, models
from constructs_optim.recipe.catalog.engine_models import of_release
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.models import ModelRow

ENTRIES: list[dict[str, Any]] = load("model_configs")["models"]
STATED: list[dict[str, Any]] = load("huggingface_models")["models"]
OF_JUMPSTART: list[dict[str, Any]] = load("models")["models"]
NAMES = [entry["model_id"] for entry in ENTRIES]
# Vendors round: 30.5 billion parameters become 30.
ROUNDED = 0.04


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_copy_can_be_read(name: str) -> None:
    unread = set[str]()
    ModelConfig.model_validate(model_configs.fields(name), context=unread)
    assert unread == set()


def test_copies_are_sorted_and_say_where_they_are_from() -> None:
    assert sorted(NAMES, key=str.lower) == NAMES
    assert len(set(NAMES)) == len(NAMES)
    by_hand = [entry for entry in ENTRIES if "source" in entry]
    assert all(len(entry["source"]) > 10 for entry in by_hand)
    assert not [entry["model_id"] for entry in ENTRIES if "like" in entry and entry["like"] not in NAMES]


def test_most_models_of_hugging_face_have_architectures_and_heads() -> None:
    rows = [row for row in models.of_hugging_face().values() if not row.is_checkpoint]
    assert sum(bool(row.architectures) for row in rows) >= 0.99 * len(rows)
    assert sum(row.attention_heads is not None for row in rows) >= 0.93 * len(rows)
    assert sum(row.key_value_bytes_a_token is not None for row in rows) >= 0.75 * len(rows)


def test_most_models_of_jumpstart_have_architectures() -> None:
    rows = [models.find(row["model_id"]) for row in OF_JUMPSTART]
    assert sum(bool(row and row.architectures) for row in rows) >= 0.92 * len(rows)


def test_vllm_loads_the_models_of_its_own_recipes() -> None:
    newest = of_release("vllm", "0.30.0")
    assert newest is not None
    rows = [row for row in models.of_hugging_face().values() if row.architectures]
    # vLLM 0.26 has removed PLaMo 2.
    assert [row.model_id for row in rows if not newest.loads(row.architectures)] == ["pfnet/plamo-2-translate"]
    assert not [
        row.model_id for row in rows if row.quantization and not newest.quantization.has(row.quantization.method)
    ]


@pytest.mark.parametrize("stated", [*STATED, *OF_JUMPSTART], ids=lambda row: row["model_id"])
def test_what_a_row_states_does_not_contradict_its_configuration(stated: dict[str, Any]) -> None:
    """vLLM's recipes and vllm-model-chooser have read the same config.json."""
    config, derived = model_configs.of_model(stated["model_id"]), model_configs.columns(stated["model_id"])
    billions = derived.pop("parameters_billion", stated["parameters_billion"])
    assert billions == pytest.approx(stated["parameters_billion"], rel=ROUNDED)
    # A configuration without types says nothing of the weights.
    if config is None or (config.quantization_config or config.dtype or config.text_config) is None:
        derived.pop("weight_bits", None)
    # Nor does an architecture alone of the embeddings.
    if "vocabulary_size" not in derived:
        derived.pop("tied_embeddings", None)
    assert {name: value for name, value in derived.items() if stated.get(name, value) != value} == {}


def test_a_model_of_known_width_has_the_longest_context_of_its_configuration() -> None:
    """OPT056 refuses longer contexts for models of known width."""
    found = {row["model_id"]: model_configs.columns(row["model_id"]) for row in STATED}
    assert not [name for name, columns in found.items() if "hidden_size" in columns and "max_position" not in columns]


def test_stated_columns_come_before_those_of_the_configuration() -> None:
    row = models.of_hugging_face()["Qwen/Qwen3-8B"]
    assert (row.parameters_billion, row.attention_heads, row.layers, row.hidden_size) == (8.2, 32, 36, 4096)
    assert row.architectures == ("Qwen3ForCausalLM",)
    assert row.quantization is None


def test_a_checkpoint_has_its_own_quantization_and_the_architecture_of_its_model() -> None:
    rows = models.of_hugging_face()
    names = ("Qwen/Qwen3-32B-FP8", "nvidia/Kimi-K2.6-NVFP4")
    assert [made.method for name in names if (made := rows[name].quantization) is not None] == ["fp8", "modelopt_fp4"]
    # Nobody has copied its configuration.
    published = rows["Qwen/Qwen2.5-VL-7B-Instruct-AWQ"]
    assert (published.quantization, published.architectures) == (None, ("Qwen2_5_VLForConditionalGeneration",))
    assert published.parameters_billion == rows["Qwen/Qwen2.5-VL-7B-Instruct"].parameters_billion


def test_a_checkpoint_of_another_size_has_the_size_of_its_own_configuration() -> None:
    guard = models.of_hugging_face()["Qwen/Qwen3Guard-Gen-0.6B"]
    assert guard.parameters_billion == pytest.approx(0.6, rel=0.01)
    assert (guard.layers, guard.hidden_size, guard.cache_bytes) == (28, 1024, None)
    assert guard.key_value_bytes_a_token == 2 * 2 * 28 * 8 * 128


def test_a_recipe_for_a_checkpoint_in_another_repository_does_not_describe_the_model() -> None:
    """The defaults of these recipes are the quantized checkpoints."""
    rows = models.of_hugging_face()
    for name, checkpoint in (
        ("zai-org/GLM-5.2", "zai-org/GLM-5.2-FP8"),
        ("dots-studio/dots3-note-prev", "dots-studio/dots3-note-prev-fp8"),
        ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"),
    ):
        assert (rows[name].weight_bits, rows[name].precision) == (16, "bf16")
        assert rows[checkpoint].is_checkpoint
        assert (rows[name].memory_gb or 0) > 1.9 * (rows[checkpoint].memory_gb or 0)


def test_a_period_of_layers_stands_for_the_list() -> None:
    fields = model_configs.fields("stepfun-ai/Step-3.5-Flash") or {}
    assert len(fields["layer_types"]) == fields["num_hidden_layers"] == 45
    assert [index for index, kind in enumerate(fields["layer_types"]) if kind == "full_attention"] == [*range(0, 45, 4)]
    fields = model_configs.fields("poolside/Laguna-XS.2") or {}
    assert fields["num_attention_heads_per_layer"][:5] == [48, 64, 64, 64, 48]


def test_a_model_without_a_copy_has_no_columns() -> None:
    assert model_configs.fields("acme/mine") is None
    assert model_configs.of_model("acme/mine") is None
    assert model_configs.columns("acme/mine") == {}


def test_every_column_is_one_of_a_row() -> None:
    columns = set[str]().union(*(model_configs.columns(name) for name in NAMES))
    assert columns <= {*ModelRow.__dataclass_fields__}


def test_the_document_says_how_old_each_file_is() -> None:
    """docs/catalog.md lists the dates of the catalog's files."""
    files = [*resources.files("constructs_optim.recipe.catalog").iterdir()]
    dates = {each.name: json.loads(each.read_text())["date"] for each in files if each.name.endswith(".json")}
    table = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text(encoding="utf-8").split("| file | as of |")[1]
    rows = re.findall(r"^\| (`.*) \| (\d{4}-\d\d-\d\d) \|", table, re.MULTILINE)
    assert {name: date for names, date in rows for name in re.findall(r"`([\w.]+)`", names)} == dates


@pytest.mark.parametrize(
    ("rope", "lacking"),
    [
        ({"rope_type": "yarn", "factor": 4}, ()),
        ({"rope_type": "yarn", "factor": "4.0"}, ("yarn.factor",)),
        ({"type": "linear"}, ("linear.factor",)),
        ({"rope_type": "llama3", "factor": 8.0}, ("llama3.low_freq_factor", "llama3.high_freq_factor")),
        ({"rope_type": "longrope", "short_factor": [1.0]}, ("longrope.long_factor",)),
        ({"rope_type": "deepseek_yarn", "factor": 4.0}, ("deepseek_yarn.original_max_position_embeddings",)),
        (
            {"full_attention": {"rope_type": "linear"}, "sliding_attention": {"rope_type": "default"}},
            ("linear.factor",),
        ),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, ()),
        ({"type": "mrope"}, ("mrope.mrope_section",)),
        ({"rope_type": "default"}, ()),
        ({"rope_type": "linear", "factor": 2}, ("linear.factor_with_a_decimal_point",)),
        ({"rope_type": "yarn", "factor": 2}, ()),
        ({"type": "su"}, ("su.short_factor", "su.long_factor")),
        ({"type": "xpos", "factor": 2.0}, ("xpos",)),
    ],
)
def test_a_configuration_lacks_what_its_rope_scaling_needs(rope: dict[str, Any], lacking: tuple[str, ...]) -> None:
    columns = ModelConfig.model_validate({"model_type": "llama", "rope_scaling": rope}).columns
    assert columns.get("rope_lacks", ()) == lacking
