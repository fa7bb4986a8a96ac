from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import (
    Model,
    Quantization,
    Recipe,
    RecipeError,
    plan,
)
from constructs_optim.recipe.forms import in_code, meant
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.secrets import NOT_SHOWN, without_secrets

from .recipes import broken_rules, recipe

ALL_WRONG = {
    "model": Model.jumpstart("meta-textgeneration-lama-3-70b", version="newest"),
    "techniques": [Quantization.awq(tensor_parallel_degree=3), Quantization.awq()],
    "instance_type": "ml.g5.12xlage",
    "region": "us-wset-2",
    "environment": {"A-B": "c"},
}


def test_all_violations_are_reported_in_one_error() -> None:
    with pytest.raises(RecipeError) as caught:
        plan(Recipe(**recipe(**ALL_WRONG)))
    found = [violation.rule for violation in caught.value.violations]
    assert found == ["OPT002", "OPT003", "OPT010", "OPT014", "OPT022", "OPT031"]


def test_the_error_message_lists_rule_location_value_reason_and_suggestion() -> None:
    with pytest.raises(RecipeError) as caught:
        plan(Recipe(**recipe(**ALL_WRONG)))
    text = str(caught.value)
    assert text.startswith("the recipe breaks 6 rules:")
    for violation in caught.value.violations:
        for part in (violation.rule, violation.location, repr(violation.value), violation.reason, violation.suggestion):
            assert part in text


class _Nameless:
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Quantization.awq, "OPT010 instance_type = AwqQuantization\n"),
        (Quantization, "OPT010 instance_type = Quantization\n"),
        (_Nameless(), f"OPT010 instance_type = an object of {__name__}._Nameless\n"),
        (["x" * 500], f"OPT010 instance_type = ['{'x' * 198}…\n"),
    ],
)
def test_an_invalid_value_is_shown_truncated_and_without_memory_address(value: object, message: str) -> None:
    (violation,) = check(Recipe(**recipe(instance_type=value)))
    assert str(violation).startswith(message)
    assert violation.value is value


def test_a_violation_is_reported_once() -> None:
    with pytest.raises(RecipeError) as caught:
        plan(Recipe(**recipe(instance_type="ml.m5.xlarge")))
    (violation,) = caught.value.violations
    assert RecipeError([violation, violation]).violations == (violation,)


def test_violations_are_available_as_data() -> None:
    with pytest.raises(RecipeError) as caught:
        plan(Recipe(**recipe(instance_type="ml.m5.xlarge")))
    (violation,) = caught.value.violations
    assert (violation.rule, violation.location, violation.value) == ("OPT011", "instance_type", "ml.m5.xlarge")


def test_the_code_for_a_dictionary_has_those_of_its_members_that_are_settings() -> None:
    given: dict[str, Any] = {"compute": {"instance_type": "ml.g5.12xlarge", "volumes": 5}}
    with pytest.raises(RecipeError) as caught:
        Quantization.awq(**given)
    assert "TrainingCompute(instance_type='ml.g5.12xlarge')" in caught.value.violations[0].suggestion


def test_an_unaccepted_license_is_reported_with_its_url_and_the_fix() -> None:
    (violation,) = check(Recipe(**recipe(model=Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.0.0"))))
    assert "Llama 2" in violation.reason
    assert "https://" in violation.suggestion
    assert (
        'Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.0.0", accept_eula=True)' in violation.suggestion
    )


def test_a_plan_requires_a_region_or_a_registry() -> None:
    with pytest.raises(ValueError, match="region"):
        plan(Recipe(**recipe(region=None)))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(settings=st.dictionaries(st.sampled_from(["group_size", "ignored_layers", "layers"]), anything))
def test_arbitrary_settings_give_a_technique_or_violations(settings: dict[str, Any]) -> None:
    wrong: set[str] = set()
    try:
        Quantization.awq(**settings)
    except RecipeError as error:
        wrong = {violation.location.split(".")[2] for violation in error.violations}
    assert wrong <= set(settings)
    assert "layers" not in settings or "layers" in wrong


@given(
    model=anything | st.builds(Model.jumpstart, st.text()) | st.builds(Model.s3, st.text()),
    techniques=anything | st.lists(anything | st.builds(Quantization.awq), max_size=3),
    instance_type=anything,
    region=anything,
    environment=anything,
)
def test_arbitrary_recipe_arguments_only_give_violations(
    model: object, techniques: object, instance_type: object, region: object, environment: object
) -> None:
    found = check(
        Recipe(model=model, techniques=techniques, instance_type=instance_type, region=region, environment=environment)
    )
    assert str(RecipeError(found))


@given(text=st.text(min_size=1))
def test_a_model_id_with_invalid_characters_is_refused(text: str) -> None:
    assert "OPT002" in broken_rules(model=Model.jumpstart(f"?{text}"))


def test_the_value_of_an_error_is_the_beginning_of_a_long_one() -> None:
    assert without_secrets("x" * 50_000_000) == "x" * 100_000
    assert without_secrets({"a": [*range(5_000)]}) == {"a": [*range(1_000), NOT_SHOWN]}
    assert without_secrets(dict.fromkeys(range(5_000))) == dict.fromkeys(range(1_000)) | {NOT_SHOWN: NOT_SHOWN}


@pytest.mark.parametrize(
    "secret",
    [
        f"eyJhbGciOiJIUzI1NiJ9.{'b' * 65_000}.c2lnbmF0dXJl",
        f'{{"password": "{"b" * 65_000}"}}',
        f"https://user:{'b' * 65_000}@example.com",
    ],
    ids=["a JSON Web Token", "a password in quotes", "a URL with a password"],
)
def test_a_secret_recognized_by_its_end_is_not_shown_however_long_it_may_be(secret: str) -> None:
    assert without_secrets(secret) == NOT_SHOWN


def test_code_for_a_value_never_lacks_some_of_its_members() -> None:
    assert in_code(without_secrets([*range(1_000)], instead=...)) == str([*range(1_000)])
    assert in_code(without_secrets([*range(1_001)], instead=...)) == "..."


@pytest.mark.parametrize(
    ("word", "settings"),
    # Of SageMaker's API, CloudFormation, vLLM, Kubernetes and ECS.
    [
        ("async", ["async_inference"]),
        ("asynchronous", ["async_inference"]),
        ("blue_green", ["update_policy"]),
        ("container", ["server"]),
        ("deployment_config", ["update_policy"]),
        ("desired_count", ["copies", "initial_instance_count"]),
        ("enable_chunked_prefill", ["chunked_prefill"]),
        ("enable_prefix_caching", ["prefix_caching"]),
        ("engine", ["server"]),
        ("env", ["environment"]),
        ("execution_role", ["role"]),
        ("execution_role_arn", ["role"]),
        ("fine_tuning", ["fine_tune"]),
        ("finetuning", ["fine_tune"]),
        ("float8", ["fp8"]),
        ("framework", ["server"]),
        ("gptq", ["w4a16"]),
        ("hf_token", ["token_secret_arn"]),
        ("image", ["container_version"]),
        ("int4", ["awq"]),
        ("int8", ["smoothquant"]),
        ("kms_key", ["encryption_key"]),
        ("lora", ["fine_tune", "adapters"]),
        ("max_instances", ["max_capacity"]),
        ("max_lora_rank", ["max_rank"]),
        ("max_loras", ["max_loaded"]),
        ("max_model_len", ["context_length"]),
        ("max_num_seqs", ["max_concurrent_requests"]),
        ("min_instances", ["min_capacity"]),
        ("quantize", ["quantization"]),
        ("replicas", ["copies", "initial_instance_count"]),
        ("sampling_percentage", ["sample_percent"]),
        ("security_group_ids", ["security_groups"]),
        ("sns_topic", ["alarm_actions"]),
        ("subnets", ["vpc_subnets", "subnet_ids"]),
        ("tgi", ["text_generation_inference"]),
        ("topic", ["alarm_actions"]),
        ("vpc_id", ["vpc"]),
        ("auto_scale", ["scaling"]),
        ("evaluate", ["evaluations"]),
    ],
)
def test_a_word_of_another_tool_means_the_setting(word: str, settings: list[str]) -> None:
    others = ["instance_type", "techniques", "monitoring"]
    assert meant(word, [*others, *settings]) == settings
    assert meant(word.upper(), [*settings, *others]) == settings
