"""Techniques as texts, and back."""

from __future__ import annotations

import pytest

from constructs_optim.recipe import Model, Quantization, Sharding, SpeculativeDecoding
from constructs_optim.recipe.settings import UnknownSettingsError
from constructs_optim.recipe.techniques import REGISTRY, Technique
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


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("quantisation=awq", "did you mean quantization=awq?"),
        ("quantisation=aqw", "did you mean quantization=awq?"),
        ("quantization=aqw", "did you mean quantization=awq?"),
        ("Quantisation=AWQ,group_size=64", "did you mean quantization=awq,group_size=64?"),
        ("quantisation", "did you mean a technique of quantization: quantization=awq, quantization=fp8,"),
        ("quantization", "a technique of quantization: quantization=awq, quantization=fp8,"),
        ("quantisation=smaller", "did you mean a technique of quantization: quantization=awq,"),
        ("awq", "did you mean quantization=awq? In Python: Quantization.awq()"),
        ("Quantization.awq()", "did you mean quantization=awq?"),
        ("SpeculativeDecoding.eagle", "did you mean speculative_decoding=eagle?"),
        ("speculative=eagle", "did you mean speculative_decoding=eagle?"),
        ("quantization=eagle", "did you mean speculative_decoding=eagle?"),
        ("eagel", "did you mean speculative_decoding=eagle?"),
        ("fp8", "did you mean kv_cache=fp8 or quantization=fp8? In Python: KvCache.fp8() or Quantization.fp8()"),
        ("int4", "did you mean quantization=awq?"),
        ("smaller", "a kind of technique: compilation, kv_cache,"),
        ("", "a kind of technique: compilation, kv_cache,"),
        ("=,=", "a kind of technique: compilation, kv_cache,"),
    ],
)
def test_a_misspelled_technique_is_answered_with_what_it_can_mean(text: str, meant: str) -> None:
    with pytest.raises(UnknownSettingsError) as refused:
        parse(text)
    assert str(refused.value).startswith(meant)
    assert refused.value.reason == "no technique has this name"


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, by_name in REGISTRY.items() for name in by_name if len(name) > 3]
)
def test_every_technique_is_found_without_a_letter(kind: str, name: str) -> None:
    for text in (f"{kind[:-2]}{kind[-1]}={name}", f"{kind}={name[:-2]}{name[-1]}", f"{name[:-2]}{name[-1]}"):
        with pytest.raises(UnknownSettingsError) as refused:
            parse(text)
        assert f"{kind}={name}" in str(refused.value).partition("?")[0], text


def test_only_techniques_that_keep_the_model_s_completions_are_lossless() -> None:
    lossless = {kind: {each.lossless for each in by_name.values()} for kind, by_name in REGISTRY.items()}
    assert lossless == {
        "compilation": {True},
        "kv_cache": {False},
        "pre_optimized": {False},
        "quantization": {False},
        "sharding": {True},
        # Drafts change the speed, and the model still chooses each token.
        "speculative_decoding": {True},
        "fine_tuning": {False},
    }


def test_only_models_whose_container_loads_files_at_its_start_have_a_network() -> None:
    every = [each for by_name in REGISTRY.values() for each in by_name.values()]
    assert {each.name for each in every if each.inference_component} == {"fast_load"}
    assert {each.name for each in every if not each.network_isolation} == {"fast_load"}
