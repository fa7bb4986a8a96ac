"""Writes how vLLM splits encoders of images and sound: ``python -m tests.conformance.towers``.

The catalog's ``towers.json`` has the answers of vLLM in the engines' environment, which ``make conformance`` installs.
It is asked about the default configuration of every architecture, with encoders that a degree of 8 cannot split.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AliasChoices

from constructs_optim.recipe.catalog import engine_models, model_configs
from constructs_optim.recipe.catalog.towers import Encoder, EncoderConfig

from .builds import PYTHON, Question, question, refusals
from .weight_schemes import LLAMA


def names_of(field: str) -> tuple[str, ...]:
    """The names under which the library reads a field of an encoder."""
    alias = EncoderConfig.model_fields[field].validation_alias
    assert isinstance(alias, AliasChoices)
    return tuple(str(each) for each in alias.choices)


FILE = Path(__file__).parents[2] / "constructs_optim" / "recipe" / "catalog" / "towers.json"
PROGRAM = Path(__file__).with_name("default_configurations.py")
RELEASE = engine_models.transformers().vllm
DATE = "2026-12-01"
SOURCE = (
    "Written by tests/conformance/towers.py, which asks vLLM to build the default configuration of each architecture "
    "on 8 accelerators. heads: it refuses an encoder of 12 heads; width: one whose MLPs are 4100 wide; copied: it "
    "does not if both are so, because every accelerator then has the whole encoder; data: it builds all of these with "
    "--mm-encoder-tp-mode data. Encoders that it does not split are left out."
)
DEGREE, HOPPER = 8, (9, 0)
# Numbers of heads and widths: those that 8 accelerators split, and others. 1536 is a multiple of all heads.
SPLIT, UNSPLIT = {"heads": 16, "width": 4096, "hidden": 1536}, {"heads": 12, "width": 4100, "hidden": 1536}
# The names of the fields that the library reads, and of others that these sizes depend on.
NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("vt_hidden_size", "qkv_hidden_size", "hidden_size", "embed_dim", "d_model", "width"),
    **{name: names_of(name) for name in ("heads", "width")},
}
ENCODERS: Mapping[Encoder, tuple[tuple[str, ...], ...]] = {
    "vision": (("vision_config",), ("vit_config",), ("thinker_config", "vision_config")),
    "audio": (("audio_config",), ("thinker_config", "audio_config")),
}
KIMI_K3: Mapping[str, Any] = model_configs.fields("moonshotai/Kimi-K3") or {}
# What the default configurations lack of what vLLM reads, and numbers of other parts that 8 accelerators split.
CORRECTED: Mapping[str, Mapping[str, Any]] = {
    "BailingMoeV3VLForConditionalGeneration": {"text_config.no_kda_lora": True},
    "Blip2ForConditionalGeneration": {"text_config.num_attention_heads": 16, "text_config.hidden_size": 1024},
    "CohereCompassForConditionalGeneration": {"tie_word_embeddings": True},
    "Cosmos3EdgeForConditionalGeneration": {"text_config.rope_parameters": {"rope_theta": 10_000.0}},
    "Exaone4_5_ForConditionalGeneration": {"vision_config.num_key_value_heads": 4},
    "FunAudioChatForConditionalGeneration": {
        "audio_config.codebook_size": 6565,
        "audio_config.pad_token_id": 0,
        "audio_config.bos_token_id": 0,
        "audio_config.eos_token_id": 0,
    },
    "GlmAsrForConditionalGeneration": {"audio_config.num_key_value_heads": 4},
    "Glm4vMoeForConditionalGeneration": {"text_config.head_dim": 128, "text_config.use_qk_norm": False},
    "Glm5NextForConditionalGeneration": {"text_config.swiglu_limit": 7.0},
    "KimiK3ForConditionalGeneration": {"text_config": KIMI_K3["text_config"]},
    "KimiVLForConditionalGeneration": {
        "text_config.n_group": 1,
        "text_config.topk_group": 1,
        "text_config.moe_intermediate_size": 1408,
    },
    "Lfm2VlForConditionalGeneration": {"text_config.block_dim": 2560},
    "Qwen2_5OmniForConditionalGeneration": {
        f"thinker_config.text_config.{name}": number
        for name, number in {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}.items()
    },
    "Qwen3OmniMoeForConditionalGeneration": {
        "thinker_config.text_config.num_attention_heads": 32,
        "thinker_config.text_config.num_key_value_heads": 8,
        "thinker_config.text_config.tie_word_embeddings": False,
        "thinker_config.vision_config.image_size": 768,
        "thinker_config.vision_config.apply_vit_abs_pos_embed": True,
    },
    "Qwen3VLMoeForConditionalGeneration": {"text_config.norm_topk_prob": True},
    "SiglipModel": {"text_config.num_attention_heads": 16, "text_config.hidden_size": 1024},
    "Step3VLForConditionalGeneration": {
        "text_config.architectures": ["Step3TextForCausalLM"],
        "text_config.moe_layers_enum": "4,5",
    },
    "UltravoxModel": {
        "text_config": LLAMA,
        "vocab_size": LLAMA["vocab_size"],
        "wrapped_model_config": None,
        "text_model_id": None,
        "audio_model_id": None,
    },
    "VoxtralForConditionalGeneration": {
        "audio_config.downsample_factor": 4,
        "audio_config.window_size": 400,
        "audio_config.sampling_rate": 16_000,
    },
}


class Case(NamedTuple):
    """An encoder of an architecture, with the sizes that are asked about."""

    architecture: str
    encoder: Encoder
    sizes: str
    mode: str


def defaults() -> dict[str, dict[str, Any]]:
    """The default configurations, by architecture."""
    ended = subprocess.run([str(PYTHON), str(PROGRAM)], capture_output=True, text=True, timeout=600, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


def part(config: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    """A part of a configuration; None if it has none."""
    found: Any = config
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def resized(config: Mapping[str, Any], path: tuple[str, ...], sizes: Mapping[str, int]) -> dict[str, Any]:
    """A configuration with other sizes of an encoder."""
    changed = copy.deepcopy(dict(config))
    encoder = part(changed, path)
    assert encoder is not None
    for size, number in sizes.items():
        encoder |= {name: number for name in NAMES[size] if encoder.get(name) is not None}
    return changed


def corrected(architecture: str, config: dict[str, Any]) -> dict[str, Any]:
    """A default configuration that vLLM builds."""
    config |= {"architectures": [architecture], "dtype": "bfloat16"}
    for path, value in CORRECTED.get(architecture, {}).items():
        *parents, name = path.split(".")
        parent = part(config, tuple(parents))
        assert parent is not None, path
        if value is None:
            parent.pop(name)
        else:
            parent[name] = value
    return config


def encoders() -> Iterator[tuple[str, Encoder, tuple[str, ...], dict[str, Any]]]:
    """The encoders of every architecture, where they are in its configuration, and that configuration."""
    for architecture, default in defaults().items():
        config = corrected(architecture, default)
        found = {
            encoder: path for encoder, paths in ENCODERS.items() for path in paths if part(config, path) is not None
        }
        # An encoder is asked about while the others can be split.
        for path in found.values():
            config = resized(config, path, SPLIT)
        for encoder, path in found.items():
            yield architecture, encoder, path, config


def questions() -> Iterator[tuple[Case, Question]]:
    """What vLLM is asked about every encoder."""
    wrong = {"none": {}, "both": UNSPLIT} | {name: {name: UNSPLIT[name]} for name in ("heads", "width")}
    for architecture, encoder, path, config in encoders():
        for sizes, mode in product(wrong, ("weights", "data")):
            changed = resized(config, path, wrong[sizes])
            asked = question(changed, DEGREE, HOPPER, {"SM_VLLM_MM_ENCODER_TP_MODE": mode})
            yield Case(architecture, encoder, sizes, mode), asked


def rows() -> Iterator[dict[str, Any]]:
    """The rows of the file, with vLLM's answers of today; what it does not build at all is printed."""
    asked = dict(questions())
    refused = refusals(asked.values())
    for architecture, encoder in dict.fromkeys((case.architecture, case.encoder) for case in asked):
        answers = {
            (sizes, mode): refused.get(asked[Case(architecture, encoder, sizes, mode)])
            for sizes in ("none", "heads", "width", "both")
            for mode in ("weights", "data")
        }
        if (unbuilt := answers["none", "weights"]) is not None:
            sys.stderr.write(f"{architecture}, {encoder}: not asked, {unbuilt}\n")
            continue
        split = {name: answers[name, "weights"] is not None for name in ("heads", "width")}
        if not any(split.values()):
            continue
        others = {
            "copied": answers["both", "weights"] is None,
            "data": all(answers[sizes, "data"] is None for sizes in ("heads", "width", "both")),
        }
        kept = {name: True for name, value in {**split, **others}.items() if value}
        yield {"architecture": architecture, "encoder": encoder, **kept}


def main() -> None:
    """Write the file."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows())
    stated = "".join(
        f" {json.dumps(name)}: {json.dumps(value)},\n"
        for name, value in {"date": DATE, "source": SOURCE, "release": RELEASE}.items()
    )
    FILE.write_text(f'{{\n{stated} "towers": [\n{lines}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
