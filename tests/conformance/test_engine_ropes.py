"""Whether vLLM refuses the rope scaling that lacks a field, and only that (``make conformance``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from constructs_optim.recipe.catalog.model_config import ModelConfig

from .builds import question, refusals
from .weight_schemes import LLAMA

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

HOPPER = (9, 0)
FACTORS = [1.0] * 64
# Kinds of rope scaling with all fields that can be stated.
COMPLETE: Mapping[str, Mapping[str, Any]] = {
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2},
    "ntk": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 1024},
    "deepseek_yarn": {"factor": 4.0, "original_max_position_embeddings": 1024},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "longrope": {
        "short_factor": FACTORS,
        "long_factor": FACTORS,
        "factor": 2.0,
        "original_max_position_embeddings": 1024,
    },
    "mrope": {"mrope_section": [16, 24, 24]},
    "bailing_mrope": {"mrope_section": [16, 24, 24]},
    "proportional": {"partial_rotary_factor": 0.5},
    "default": {},
}


def test_vllm_refuses_the_rope_scaling_that_lacks_a_field_and_only_that() -> None:
    ropes = [{"rope_type": kind, **fields} for kind, fields in COMPLETE.items()]
    ropes += [{name: rope[name] for name in rope if name != left_out} for rope in ropes for left_out in rope]
    ropes += [{**rope, "factor": "2.0"} for rope in ropes if rope.get("rope_type") in ("linear", "yarn")]
    ropes += [{**rope, "factor": 2} for rope in ropes if "factor" in rope]
    ropes += [{"rope_type": kind, "factor": 2.0} for kind in ("xpos", "exponential", "su")]
    configs = [{**LLAMA, "rope_scaling": {"rope_theta": 10_000.0, **rope}} for rope in ropes if "rope_type" in rope]
    asked = [(config, question(config, 1, HOPPER)) for config in configs]
    answers = refusals(each for _, each in asked)
    lacking = [
        config["rope_scaling"] for config, _ in asked if ModelConfig.model_validate(config).columns.get("rope_lacks")
    ]
    assert [config["rope_scaling"] for config, each in asked if each in answers] == lacking
    assert 10 < len(lacking) < len(asked) - len(COMPLETE)
