"""Write the catalog's Hugging Face models, from vLLM's own recipes and the list of speculators.

    git clone https://github.com/vllm-project/recipes
    git clone https://github.com/vllm-project/speculators
    git clone https://github.com/ylnhari/vllm-model-chooser
    python tooling/huggingface_models.py recipes speculators vllm-model-chooser

model_licenses.toml has the licenses and gates. For newer models, update the commits and that file, run this script, and
review the difference.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

RECIPES, DATE = "8959cf64189c71d36e11c6a30335f923f261b1f7", "2026-08-21"
SPECULATORS = "c05b95b303f7d4f21e8d7624e0ffa1c2d9b4d73b"
CHOOSER = "ff538b9470282797e9a374508b09260ebe9e07d7"
_LICENSES = Path(__file__).with_name("model_licenses.toml")
_DATA = Path(__file__).parent.parent / "constructs_optim" / "recipe" / "catalog" / "huggingface_models.json"
_SOURCE = (
    "Written by tooling/huggingface_models.py from the text models of vllm-project/recipes (Apache-2.0) at "
    f"{RECIPES[:8]}, without settings that are only for AMD, Ascend, Intel, or CPUs. Arguments have the names that "
    "`vllm serve` gives them. Left out: tensor_parallel_size, which the plan decides; the quantization of a "
    "checkpoint, which its config.json declares; trust_remote_code, which is needs_code here; plugins, templates, "
    "and loaders that the container lacks; and gpu_memory_utilization, for which the memory check assumes a "
    f"value. More speculators come from README.md of vllm-project/speculators (Apache-2.0) at {SPECULATORS[:8]}. "
    "license and gated: tooling/model_licenses.toml, which gives a source for each. cache_bytes, window_bytes, "
    "and window (KV cache of one token in half precision): data.js of ylnhari/vllm-model-chooser (MIT) at "
    f"{CHOOSER[:8]}, which reads config.json of each model; left out where its formula counts layers that keep no "
    "cache or a bounded one, and where its figure is an estimate. key_value_heads: 1 where every accelerator keeps "
    "the whole latent vector (multi-head latent attention); otherwise given only where it is known to be less than 8, "
    "from the copies of config.json in ai-dynamo/aiconfigurator (Apache-2.0) at 095f58a5. max_position: that of "
    "config.json where the recipe's differs. More columns follow from model_configs.json."
)
_TASK = "text"
_BITS = {"bf16": 16, "fp8": 8, "mxfp8": 8, "int8": 8, "nvfp4": 4, "mxfp4": 4, "fp4": 4, "int4": 4}
_UNITS = {"M": 1e-3, "B": 1.0, "T": 1e3}
_COUNT = re.compile(r"([\d.]+)([MBT])")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# The recipes' names of SageMaker's accelerators, by the catalog's names of their generations.
_GENERATIONS = {"hopper": "hopper", "blackwell": "blackwell", "rtx_pro_6000": "rtx_pro_6000", "nvidia": None}
_NVIDIA = frozenset({"h100", "h200", "b200", "b300", "rtx_pro_6000"})
_LEFT_OUT = frozenset(
    {
        "chat_template",
        "gpu_memory_utilization",
        "host",
        "load_format",
        "model",
        "port",
        "served_model_name",
        "tensor_parallel_size",
        "trust_remote_code",
    }
)
_SPECULATOR = re.compile(r"https://huggingface\.co/(RedHatAI/([\w.-]+?)(?:-speculator)?\.(eagle3|dflash|dspark))\"")
# Members that vLLM 0.30 has removed, according to its own parser (make conformance).
_REMOVED = (("attention_config", "use_fp4_indexer_cache"), ("compilation_config", "use_inductor"))
_GEOMETRY = re.compile(
    r'hf_url: "([^"]+)", kvBytesPerToken: (\d+),(?: kvSlidingBytesPerToken: (\d+),)?(?: kvWindow: (\d+),)?'
    r' kvSource: "(?:config|mirror)"'
)
# With linear or compressed attention, heads of two sizes, or chunks, the formula counts too much; without the keys of
# the indexer of sparse attention (vLLM 0.30, models/deepseek_v2.py, Indexer), too little.
_COUNTED_WRONG = (
    "Qwen/Qwen3-Next",
    "XiaomiMiMo/",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4",
    "google/diffusiongemma",
    "google/gemma-4",
    "inclusionAI/Ling-2.6",
    "inclusionAI/Ring-2.6",
    "meta-llama/Llama-4",
    "MiniMaxAI/MiniMax-M3",
    "moonshotai/Kimi-Linear",
    "stepfun-ai/Step",
    "zai-org/GLM-5",
)
_LATENT = ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3", "moonshotai/Kimi-K2")
# Contexts of config.json (model_configs.json) that differ from the recipe's.
_MAX_POSITIONS = {
    **{f"LiquidAI/LFM2.5-1.2B-{name}": 128_000 for name in ("Base", "Instruct", "JP", "JP-202606", "Thinking")},
    "MiniMaxAI/MiniMax-M2.7": 204_800,
    "google/gemma-4-12B-it": 262_144,
    "google/gemma-4-26B-A4B-it": 262_144,
    "poolside/Laguna-S-2.1": 1_048_576,
}
# Models with fewer than 8 key and value heads, which accelerators share: num_key_value_heads of config.json, from
# copies in ai-dynamo/aiconfigurator at 095f58a5 (Apache-2.0).
_KEY_VALUE_HEADS = {
    "Qwen/Qwen3-235B": 4,
    "Qwen/Qwen3-VL-235B": 4,
    "Qwen/Qwen3.5-122B": 2,
    "Qwen/Qwen3.5-27B": 4,
    "Qwen/Qwen3.5-35B": 2,
    "Qwen/Qwen3.5-397B": 2,
    "Qwen/Qwen3.6-27B": 4,
    "Qwen/Qwen3.6-35B": 2,
    "nvidia/NVIDIA-Nemotron-3-Nano-30B": 2,
    "nvidia/NVIDIA-Nemotron-3-Super": 2,
    "nvidia/NVIDIA-Nemotron-3-Ultra": 2,
    "nvidia/NVIDIA-Nemotron-3.5-Lightning": 2,
}
# File sizes from models.json, for models whose recipe has a rounded size.
_STORED_GB = {"openai/gpt-oss-120b": 65.2, "openai/gpt-oss-20b": 13.8}
# Zero and False are meaningful here.
_KEPT = frozenset({"cache_bytes", "gated"})
# Models with Llama's architecture, which the training code supports: Meta's model cards, MiniCPM5's recipe.
_TRAINABLE = re.compile(r"meta-llama/Llama-3\.|openbmb/MiniCPM5-")
_NOT_FOR_GPUS = re.compile(r"ROCM|AITER|HIP_|HCCL|NPU|VLLM_CPU|XPU|PYTHONNOUSERSITE|OMP_")


def main() -> None:
    """Read the clones given as arguments, and write the file."""
    clone, speculators, chooser = sys.argv[1:]
    names = _git(clone, "ls-tree", "-r", "--name-only", RECIPES, "models/").split()
    recipes = [yaml.safe_load(_git(clone, "show", f"{RECIPES}:{name}")) for name in names if name.endswith(".yaml")]
    rows = [_row(recipe) for recipe in recipes if _TASK in recipe["meta"].get("tasks", ())]
    of_their_own = {row["model_id"] for row in rows}
    published = _SPECULATOR.findall(_git(speculators, "show", f"{SPECULATORS}:README.md"))
    geometry = {
        model_id: bytes_ for model_id, *bytes_ in _GEOMETRY.findall(_git(chooser, "show", f"{CHOOSER}:data.js"))
    }
    licenses = tomllib.loads(_LICENSES.read_text(encoding="utf-8"))
    for row in rows:
        row |= {
            name: value for name, value in licenses.get(row["model_id"], {}).items() if not name.endswith("_source")
        }
        row |= _cache(row["model_id"], geometry.get(row["model_id"]))
        others = [each for each in row.pop("checkpoints", ()) if each["model_id"] not in of_their_own]
        known = {settings.get("model") for settings in row.get("speculation", ())}
        more = [
            {"method": method, "model": speculator}
            for speculator, model, method in published
            if model == row["model_id"].partition("/")[2] and speculator not in known
        ]
        row |= _filled({"checkpoints": others, "speculation": [*row.pop("speculation", ()), *more]})
    lines = ",\n".join(f"  {json.dumps(row)}" for row in sorted(rows, key=lambda row: row["model_id"].lower()))
    head = f' "date": {json.dumps(DATE)},\n "source": {json.dumps(_SOURCE)},\n'
    _DATA.write_text(f'{{\n{head} "models": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def _cache(model_id: str, geometry: Sequence[str] | None) -> dict[str, Any]:
    """Return the KV cache of a token; empty if not known well enough."""
    if geometry is None or model_id.startswith(_COUNTED_WRONG):
        return {}
    everywhere, sliding, window = (int(text or 0) for text in geometry)
    windows = {"window_bytes": sliding, "window": window} if sliding else {}
    heads = 1 if model_id.startswith(_LATENT) else None
    heads = next((count for name, count in _KEY_VALUE_HEADS.items() if model_id.startswith(name)), heads)
    return {"cache_bytes": everywhere, **windows, **({"key_value_heads": heads} if heads is not None else {})}


def _git(clone: str, *arguments: str) -> str:
    command = ["git", "-C", clone, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _row(recipe: Mapping[str, Any]) -> dict[str, Any]:
    model, features = recipe["model"], recipe.get("features") or {}
    own, *others = _checkpoints(recipe)
    base = [*model.get("base_args", ()), *own.pop("args")]
    enabled = [arg for name in ("reasoning", "tool_calling") for arg in features.get(name, {}).get("args", ())]
    version = _VERSION.fullmatch(str(model["min_vllm_version"]))
    return _filled(
        {
            "model_id": model["model_id"],
            "family": recipe["meta"]["provider"],
            "supports": ["trainable"] if _TRAINABLE.match(model["model_id"]) else [],
            "parameters_billion": _billions(model["parameter_count"]),
            "active_parameters_billion": _billions(model.get("active_parameters")),
            "precision": own["precision"],
            "weight_bits": _BITS[own["precision"]],
            "memory_gb": own["memory_gb"],
            "stored_gb": _STORED_GB.get(model["model_id"]),
            "max_position": _MAX_POSITIONS.get(model["model_id"], model.get("context_length")),
            "engine": version.group() if version and not model.get("nightly_required") else None,
            "needs_code": "--trust-remote-code" in base,
            "arguments": _arguments([*base, *enabled]),
            "environment": _environment({**model.get("base_env", {}), **own.pop("env")}),
            "generations": _generations(recipe.get("hardware_overrides"), own.pop("overrides")),
            "checkpoints": [_checkpoint(other) for other in others],
            "speculation": list(_speculation(features.get("spec_decoding") or {})),
        }
    )


def _checkpoints(recipe: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the recipe's variants that NVIDIA's accelerators serve, the model itself first."""
    variants, own_ids = recipe["variants"], (None, recipe["model"]["model_id"])
    # The default of some recipes is a checkpoint in another repository, which is smaller than the model.
    own = min(variants, key=lambda name: (variants[name].get("model_id") not in own_ids, name != "default"))
    for name, variant in sorted(variants.items(), key=lambda each: each[0] != own):
        hardware = set(variant.get("supported_hardware") or _NVIDIA)
        if name != own and (not hardware & _NVIDIA or variant["precision"] not in _BITS):
            continue
        if name != own and variant.get("model_id") in own_ids:
            continue
        yield {
            "model_id": variant.get("model_id"),
            "precision": variant["precision"],
            "memory_gb": variant["vram_minimum_gb"],
            "args": variant.get("extra_args") or [],
            "env": variant.get("extra_env") or {},
            "overrides": variant.get("hardware_overrides"),
        }


def _checkpoint(variant: dict[str, Any]) -> dict[str, Any]:
    arguments = _arguments(variant.pop("args"))
    arguments.pop("quantization", None)
    return _filled(
        {
            "model_id": variant["model_id"],
            "precision": variant["precision"],
            "weight_bits": _BITS[variant["precision"]],
            "memory_gb": variant["memory_gb"],
            "arguments": arguments,
            "environment": _environment(variant["env"]),
            "generations": _generations(variant["overrides"]),
        }
    )


def _generations(*overrides: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in overrides:
        for name, override in (each or {}).items():
            targets = [_GENERATIONS[name]] if name in _GENERATIONS else []
            for generation in ["hopper", "blackwell", "rtx_pro_6000"] if targets == [None] else targets:
                settings = found.setdefault(str(generation), {"arguments": {}, "environment": {}})
                settings["arguments"] |= _arguments(override.get("extra_args") or [])
                settings["environment"] |= _environment(override.get("extra_env") or {})
    return {name: filled for name, settings in sorted(found.items()) if (filled := _filled(settings))}


def _speculation(feature: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the engine's settings for each speculative decoding method, the recommended one first."""
    modes = feature.get("modes") or {"": feature}
    default = feature.get("default_mode")
    for name in sorted(modes, key=lambda name: name != default):
        variants = modes[name].get("variants")
        settings = _arguments(modes[name].get("args") or []).get("speculative_config")
        if settings and not (variants and all("ascend" in variant for variant in variants)):
            yield settings


def _environment(variables: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in variables.items() if not _NOT_FOR_GPUS.search(name)}


def _arguments(words: Sequence[str]) -> dict[str, Any]:
    """Return arguments by name with underscores, and members of a setting (`--a.b c`) as data."""
    found: dict[str, Any] = {}
    for word in words:
        if word.startswith("--"):
            flag, _, text = word.removeprefix("--").partition("=" if "=" in word else " ")
            path = [part.replace("-", "_") for part in flag.split(".")]
            value: Any = _value(text) if text else True
            if path[0].startswith("no_"):
                path, value = [path[0].removeprefix("no_")], False
            _set(found, path, value)
            last = path
        else:
            value = _value(word)
            current = _get(found, last)
            several = current if isinstance(current, list) else [current]
            _set(found, last, value if current is True else [*several, value])
    for name, member in _REMOVED:
        if isinstance(found.get(name), dict):
            found[name].pop(member, None)
            found = {key: value for key, value in found.items() if value != {}}
    for parser in ("reasoning_parser", "tool_call_parser"):
        # A plugin is a code file in the model's repository.
        if found.pop(f"{parser}_plugin", None):
            del found[parser]
    if "tool_call_parser" not in found:
        found.pop("enable_auto_tool_choice", None)
    return {name: value for name, value in sorted(found.items()) if name not in _LEFT_OUT and value != "auto"}


def _get(data: dict[str, Any], path: list[str]) -> Any:
    return data[path[0]] if len(path) == 1 else _get(data[path[0]], path[1:])


def _set(data: dict[str, Any], path: list[str], value: Any) -> None:
    if len(path) == 1:
        data[path[0]] = value
    else:
        _set(data.setdefault(path[0], {}), path[1:], value)


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text


def _billions(text: str | None) -> float | None:
    count = _COUNT.fullmatch(text or "")
    return round(float(count[1]) * _UNITS[count[2]], 3) if count else None


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row without missing values and defaults."""
    return {name: value for name, value in row.items() if value not in (None, False, {}, []) or name in _KEPT}


if __name__ == "__main__":
    main()
