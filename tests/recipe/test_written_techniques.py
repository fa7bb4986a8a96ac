"""Techniques as texts, and back."""

from __future__ import annotations

import pytest

from constructs_optim.recipe import Model, Quantization, Sharding, SpeculativeDecoding
from constructs_optim.recipe.techniques import Technique
from constructs_optim.recipe.techniques.parsing import parse, written


@pytest.mark.parametrize(
    ("technique", "text"),
    [
        (Quantization.fp8_dynamic(), "quantization=fp8_dynamic"),
        (Quantization.awq(), "quantization=awq"),
        (Quantization.awq(group_size=64), "quantization=awq,group_size=64"),
        (Quantization.awq(group_size=128), "quantization=awq"),
        (
            Quantization.fp8(checkpoint=Model.huggingface("Qwen/Qwen3-32B-FP8", revision="a" * 40)),
            f"quantization=fp8,checkpoint=Qwen/Qwen3-32B-FP8@{'a' * 40}",
        ),
        (
            SpeculativeDecoding.custom_draft(uri="s3://models/draft/"),
            "speculative_decoding=custom_draft,uri=s3://models/draft/",
        ),
        (Sharding.fast_load(tensor_parallel_degree=4), "sharding=fast_load,tensor_parallel_degree=4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_technique_is_written_with_what_differs_from_its_defaults_and_is_read_as_the_same(
    technique: Technique, text: str
) -> None:
    assert written(technique) == text
    assert parse(text) == technique
