"""Techniques as texts, and back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic.fields import FieldInfo

from constructs_optim.recipe import Model, Quantization, Sharding, SpeculativeDecoding
from constructs_optim.recipe.settings import UnknownSettingsError, listed, number_in, settings_of
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


@pytest.mark.parametrize(
    ("parts", "settings"),
    [
        ([], {}),
        (["group_size=64"], {"group_size": 64}),
        (["group_size=many"], {"group_size": "many"}),
        (["group_size=[64]"], {"group_size": "[64]"}),
        (["group_size=NaN"], {"group_size": "NaN"}),
        (["group_size=1.5"], {"group_size": 1.5}),
        (["group_size=true"], {"group_size": True}),
        (["ignored_layers=a=b", "ignored_layers=c"], {"ignored_layers": ["a=b", "c"]}),
        (["checkpoint=s3://models/awq/"], {"checkpoint": Model.s3("s3://models/awq/")}),
    ],
)
def test_settings_in_text_are_numbers_true_and_false_and_repeated_lists(
    parts: list[str], settings: dict[str, object]
) -> None:
    found = settings_of(Quantization.awq, "awq", parts)
    assert found == settings
    assert [type(each) for each in found.values()] == [type(each) for each in settings.values()]


@pytest.mark.parametrize(
    ("parts", "fix", "reason"),
    [
        (["version"], "settings of draft: tensor_parallel_degree, ", "'version' is not setting=value"),
        (["versoin=1"], "did you mean version?", "draft has no setting 'versoin'"),
        (["version=1"], "draft needs model_id=...", "draft lacks model_id"),
    ],
)
def test_text_that_is_no_setting_is_refused_with_what_is(parts: list[str], fix: str, reason: str) -> None:
    with pytest.raises(UnknownSettingsError) as refused:
        settings_of(SpeculativeDecoding.jumpstart_draft, "draft", parts)
    assert str(refused.value).startswith(fix)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        ("-8", -8),
        ("+8", 8),
        ("1.5", 1.5),
        ("9" * 15, 10**15 - 1),
        ("9" * 16, None),
        (f"1.{'5' * 16}", None),
        ("1e3", None),
        ("8k", None),
        (" 8", None),
        (".5", None),
        ("", None),
    ],
)
def test_a_number_in_text_has_digits_and_a_point(text: str, number: float | None) -> None:
    assert number_in(text) == number
    assert type(number_in(text)) is type(number)


@pytest.mark.parametrize(
    ("annotation", "value", "items"),
    [
        (Sequence[int], 8, [8]),
        (Sequence[int], "1,8, 32", [1, 8, 32]),
        (Sequence[int], " 1 8 ", [1, 8]),
        (Sequence[int], "1;8", None),
        (Sequence[int], "1,x", None),
        (Sequence[float], "1,1.5", [1, 1.5]),
        (Sequence[str], "1,8", ["1,8"]),
        (Sequence[int | str], "1,8", ["1,8"]),
        (int, 8, None),
    ],
)
def test_a_value_in_place_of_a_list_is_its_item_or_its_numbers(
    annotation: object, value: object, items: list[object] | None
) -> None:
    assert listed(FieldInfo(annotation=annotation), value) == items  # type: ignore[arg-type]
