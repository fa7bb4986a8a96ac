from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from constructs_optim.recipe import (
    Model,
    Quantization,
    Recipe,
    RecipeError,
    plan,
)
from constructs_optim.recipe.durations import duration
from constructs_optim.recipe.errors import Violation, listed_mistakes
from constructs_optim.recipe.forms import VALUE, Form, in_code, meant, meant_name
from constructs_optim.recipe.hosting.shadow import AnswerCheck
from constructs_optim.recipe.report import refusal_report
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.secrets import NOT_SHOWN, without_secrets
from constructs_optim.recipe.settings import arguments_of, expected, needed_by

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


def test_a_violation_has_the_page_of_its_rule_and_the_source() -> None:
    (violation,) = check(Recipe(**recipe(instance_type="g5.12xlarge")))
    assert str(violation) == (
        "OPT010 instance_type = 'g5.12xlarge'\n"
        "    why:        SageMaker has no endpoint instance type with this name\n"
        "    what works: did you mean ml.g5.12xlarge?\n"
        "    see:        https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateOptimizationJob.html\n"
        "                https://constructs-optim.dev/rules/#opt010"
    )


def test_a_refusal_as_data_has_a_message_in_place_of_a_reason() -> None:
    (violation,) = check(Recipe(**recipe(instance_type=["ml.g5.12xlarge"])))
    assert refusal_report(RecipeError([violation])) == {
        "violations": [
            {
                "rule": "OPT010",
                "location": "instance_type",
                "value": "['ml.g5.12xlarge']",
                "message": "an instance type is a string",
                "suggestion": 'a string such as "ml.g5.12xlarge"',
                "link": violation.link,
            }
        ]
    }


def test_a_violation_is_reported_once() -> None:
    with pytest.raises(RecipeError) as caught:
        plan(Recipe(**recipe(instance_type="ml.m5.xlarge")))
    (violation,) = caught.value.violations
    assert RecipeError([violation, violation]).violations == (violation,)


@pytest.mark.parametrize(
    ("more", "begins", "ends"),
    [
        (0, "the recipe breaks 2 rules:\n", "(b)"),
        (1_500, "the recipe breaks 1,502 rules:\n", "\n  and 1,500 more"),
        (None, "the recipe breaks more than 2 rules:\n", "\n  and more"),
    ],
)
def test_an_error_tells_how_many_violations_it_leaves_out(more: int | None, begins: str, ends: str) -> None:
    found = [
        Violation(rule="mine", location=name, value=1, reason="", suggestion="", link=f"({name})") for name in "ab"
    ]
    error = RecipeError(found, more=more)
    assert str(error).startswith(begins)
    assert str(error).rstrip().endswith(ends)
    assert (error.more, [*error.violations]) == (more, found)


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
        ("container_image", ["container_version"]),
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
        ("image_tag", ["container_version"]),
        ("image_uri", ["container_version"]),
        ("initial_instance_count", ["copies", "instance_count"]),
        ("instance_count", ["copies", "initial_instance_count"]),
        ("instances", ["initial_instance_count"]),
        ("int4", ["awq"]),
        ("int8", ["smoothquant"]),
        ("key", ["encryption_key"]),
        ("kms_key", ["encryption_key"]),
        ("kms_key_arn", ["encryption_key", "encryption_key_arn"]),
        ("kms_key_id", ["encryption_key"]),
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
        ("subnet_ids", ["vpc_subnets"]),
        ("subnets", ["vpc_subnets", "subnet_ids"]),
        ("tgi", ["text_generation_inference"]),
        ("topic", ["alarm_actions"]),
        ("vpc_config", ["vpc"]),
        ("vpc_id", ["vpc"]),
        ("vpc_subnets", ["subnet_ids"]),
        ("add_adapter", ["adapters"]),
        ("add_component", ["components"]),
        ("auto_scale", ["scaling"]),
        ("evaluate", ["evaluations"]),
    ],
)
def test_a_word_of_another_tool_means_the_setting(word: str, settings: list[str]) -> None:
    others = ["instance_type", "techniques", "monitoring"]
    assert meant(word, [*others, *settings]) == settings
    assert meant(word.upper(), [*settings, *others]) == settings
    assert Form(dict.fromkeys(settings, ())).own(word) == settings


_TIME = "a time such as 2030-01-31T12:00:00Z"


class _Made(BaseModel):
    pass


@dataclass
class _Data:
    pass


def _refusing(value: int) -> int:
    raise ValueError("an even number")


@pytest.mark.parametrize(
    ("annotation", "value", "kind", "valid"),
    [
        (bool, "maybe", "bool_parsing", "true or false"),
        (bool, [], "bool_type", "True or False"),
        (float, "much", "float_parsing", "a number"),
        (float, [], "float_type", "a number"),
        (int, "many", "int_parsing", "a whole number"),
        (int, [], "int_type", "a whole number"),
        (int, 1.5, "int_from_float", "a whole number"),
        (dt.datetime, "soon", "datetime_from_date_parsing", _TIME),
        (dt.datetime, float("nan"), "datetime_parsing", _TIME),
        (dt.datetime, [], "datetime_type", _TIME),
        (list[int], 1, "list_type", "a list"),
        (tuple[int, ...], 1, "tuple_type", "a list"),
        (Sequence[str], "a", "sequence_str", "a list"),
        (Sequence[str], 1, "is_instance_of", "a list"),
        (dict[str, str], 1, "dict_type", 'a dictionary such as {"NAME": "value"}'),
        (str, 1, "string_type", "text"),
        (Annotated[list[int], Field(min_length=1)], [], "too_short", "a list with at least 1 item"),
        (Annotated[list[int], Field(min_length=2)], [], "too_short", "a list with at least 2 items"),
        (Annotated[list[int], Field(max_length=2)], [1, 2, 3], "too_long", "a list with at most 2 items"),
        (Annotated[str, Field(min_length=1)], "", "string_too_short", "text of at least 1 character"),
        (Annotated[str, Field(min_length=3)], "", "string_too_short", "text of at least 3 characters"),
        (Annotated[str, Field(max_length=2)], "abc", "string_too_long", "text of at most 2 characters"),
        (Annotated[str, Field(pattern="^a$")], "b", "string_pattern_mismatch", "text that matches ^a$"),
        (Annotated[int, Field(multiple_of=5)], 3, "multiple_of", "a multiple of 5"),
        (Annotated[float, Field(allow_inf_nan=False)], float("nan"), "finite_number", "a finite number"),
        (Annotated[int, Field(gt=3)], 3, "greater_than", "more than 3"),
        (Annotated[int, Field(ge=3)], 2, "greater_than_equal", "3 or more"),
        (Annotated[float, Field(lt=0.5)], 0.5, "less_than", "less than 0.5"),
        (Annotated[float, Field(le=3)], 4.0, "less_than_equal", "3 or less"),
        (_Nameless, 1, "is_instance_of", "_Nameless(...)"),
        (_Made, 1, "model_type", "_Made(...)"),
        (_Data, 1, "dataclass_type", "_Data(...)"),
        (Literal["a", "b"], "c", "literal_error", "one of 'a' or 'b'"),
        (Literal[1, 2], "1", "literal_error", "one of 1 or 2, as a number and not as text"),
        (Literal[1, 2], 3, "literal_error", "one of 1 or 2"),
        (Annotated[int, AfterValidator(_refusing)], 1, "value_error", "an even number"),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value else "",
)
def test_an_error_of_pydantic_names_what_is_valid(annotation: Any, value: object, kind: str, valid: str) -> None:
    config: Any = None if annotation in (_Made, _Data) else ConfigDict(arbitrary_types_allowed=True)
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(annotation, config=config).validate_python(value)
    (problem,) = refused.value.errors()
    assert (problem["type"], expected(problem)) == (kind, valid)


@pytest.mark.parametrize(("many", "valid"), [(10, "one of 'name0', "), (11, "did you mean 'name10'")])
def test_of_more_names_than_ten_the_similar_ones_are_proposed(many: int, valid: str) -> None:
    names = tuple(f"name{number}" for number in range(many))
    one_of_them: Any = Literal[names]
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(one_of_them).validate_python("nam10")
    assert valid.replace("'", "") in expected(refused.value.errors()[0]).replace("'", "")


class _Time:
    def __init__(self, seconds: int | None) -> None:
        self._seconds = seconds

    def to_seconds(self) -> int:
        if self._seconds is None:
            raise RuntimeError("not a whole number of seconds")
        return self._seconds


class _Room:
    def to_mebibytes(self) -> int:
        return 1024


class _Topic:
    topic_arn = "arn:aws:sns:us-west-2:111122223333:pages"
    _own_id = ""


class _Bucket:
    bucket_arn = bucket_regional_arn = ""


class _Network:
    vpc_id = "vpc-0a1b"


class _Other:
    bucket_arn = secret_arn = ""


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "None"),
        (1.5, "1.5"),
        ([1, "a"], "[1, 'a']"),
        ((1, "a"), "[1, 'a']"),
        ([1, _Nameless()], "..."),
        ({"a": [1]}, "{'a': [1]}"),
        ("x" * 78, f"'{'x' * 78}'"),
        ("x" * 79, "..."),
        ("${Token[T.1]}", "..."),
        (_Time(120), "Duration.seconds(120)"),
        (_Time(None), "..."),
        (_Time, "..."),
        (_Room(), "Size.mebibytes(1024)"),
        (_Topic(), "topic"),
        (_Bucket(), "bucket"),
        (_Network(), "vpc"),
        (_Other(), "..."),
        (_Nameless(), "..."),
    ],
)
def test_a_value_is_written_as_code_or_as_the_name_of_its_construct(value: object, code: str) -> None:
    assert in_code(value) == code


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("instancetype", "did you mean instance_type?"),
        ("instance_typ", "did you mean instance_type or instance_types?"),
        ("count", "did you mean initial_count or maximum_count?"),
        (
            "xylophone",
            "it has instance_type, instance_types, instance_typed, initial_count, maximum_count, accumulated_count",
        ),
    ],
)
def test_a_hint_has_two_similar_names_or_all(name: str, hint: str) -> None:
    names = ["instance_type", "instance_types", "instance_typed", "initial_count", "maximum_count", "accumulated_count"]
    assert meant_name([*names, *names], name) == hint


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (["a"], "did you mean a=1?"),
        (list("abcde"), "did you mean a=1 or b=1 or c=1 or d=1 or e=1?"),
        (list("abcdef"), "did you mean a=1 or b=1 and 4 others?"),
    ],
)
def test_of_many_places_of_a_word_the_first_are_named(places: list[str], said: str) -> None:
    inner = Form({}, words=["awq"], around="1")
    assert Form({each: [inner] for each in places}).hint("awq") == said


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"bits": 4}, "Awq(data=..., bits=4)"),
        ({"data": "s3://b/", "bits": 4}, "Awq(data='s3://b/', bits=4)"),
        ({"compute": {"spot": True}}, "Awq(data=..., compute=Compute(spot=True))"),
        # Settings of something else say nothing about these.
        ({"bits": 4, "colour": "red"}, "Awq(data=...)"),
        ({"compute": {"colour": "red"}}, "Awq(data=..., compute={'colour': 'red'})"),
        (True, "Awq(data=...)"),
    ],
)
def test_the_settings_that_a_word_is_given_are_written_where_it_belongs(value: object, written: str) -> None:
    compute = Form({"spot": []}, around="Compute({})")
    awq = Form({"data": [], "bits": [], "compute": [compute]}, needed=["data"], words=["awq"], around="Awq({})")
    assert Form({"techniques": [awq]}).hint("awq", value) == f"did you mean techniques={written}?"


def test_of_several_kinds_the_value_names_one() -> None:
    kinds = [Form({}, words=["quantization", name], around=f"Quantization.{name}({{}})") for name in ("awq", "fp8")]
    form = Form({"techniques": kinds})
    assert form.hint("quantization", "fp8") == "did you mean techniques=Quantization.fp8()?"
    assert form.hint("quantization", "int3") == (
        "did you mean techniques=Quantization.awq() or techniques=Quantization.fp8()?"
    )


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("image_uri", "acme.example/mine:1", "did you mean container_version?"),
        ("tags", {"team": "ml"}, "Tags.of(construct).add('team', 'ml') adds tags"),
        ("tags", None, "Tags.of(construct).add('team', 'nlp') adds tags"),
        ("version", "1", "did you mean container_version?"),
        ("fly", 3, "call its method fly_to(3)"),
        ("xylophone", 1, "it has container_version"),
    ],
)
def test_an_unknown_word_is_answered_with_what_it_means(word: str, value: object, said: str) -> None:
    assert Form({"container_version": []}, methods={"fly": f"fly_to({VALUE})"}).hint(word, value) == said


@pytest.mark.parametrize(
    ("word", "said"),
    [
        # A similar name of this form is likelier to be meant than the end of a name inside of another setting.
        ("timeot", "did you mean timeout?"),
        ("bound", "did you mean options=Options(lower_bound=3) or options=Options(upper_bound=3)?"),
    ],
)
def test_the_end_of_a_name_in_another_setting_is_meant_if_no_name_is_similar(word: str, said: str) -> None:
    options = Form({"startup_timeot": [], "lower_bound": [], "upper_bound": []}, around="Options({})")
    assert Form({"timeout": [], "options": [options]}).hint(word, 3) == said


def test_a_setting_beside_the_form_is_written_with_its_value() -> None:
    inner, outer = Form({"copies": []}), Form({"model": [], "instance_type": [], "scaling": []})
    assert inner.hint("instancetype", "ml.g5.xlarge", [("scaling", outer)]) == (
        "did you mean instance_type='ml.g5.xlarge' beside scaling?"
    )


@pytest.mark.parametrize(
    ("word", "setting"),
    [
        ("image", "container_version"),
        ("image_uri", "container_version"),
        ("container_image", "container_version"),
        ("hf_token", "token_secret_arn"),
        ("lora", "fine_tune"),
    ],
)
def test_a_setting_of_another_kind_of_value_is_written_without_the_value(word: str, setting: str) -> None:
    hint = Form({"copies": []}).hint(word, "mine:1", [("scaling", Form({setting: []}))])
    assert hint == f"did you mean {setting}=... beside scaling?"


def test_at_most_two_similar_names_are_meant() -> None:
    assert len(meant("instance_typ", ["instance_type", "instance_types", "instance_typed"])) == 2


class _Members(BaseModel):
    numbers: list[int]


@pytest.mark.parametrize(("wrong", "more"), [(5, ""), (6, "; and 1 more"), (2_006, "; and 2,001 more")])
def test_the_first_mistakes_of_a_document_are_listed_and_the_others_counted(wrong: int, more: str) -> None:
    with pytest.raises(ValidationError) as refused:
        _Members.model_validate({"numbers": ["x"] * wrong})
    listed = listed_mistakes(refused.value)
    first = "; ".join(f"numbers.{number}: Input should be a valid integer" for number in range(5))
    assert listed.replace(", unable to parse string as an integer", "") == f"{first}{more}"


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (0, "Duration.seconds(0)"),
        (59, "Duration.seconds(59)"),
        (60, "Duration.minutes(1)"),
        (90, "Duration.seconds(90)"),
        (3600, "Duration.hours(1)"),
        (5400, "Duration.minutes(90)"),
        (172_800, "Duration.days(2)"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_that_divides_it(seconds: int, code: str) -> None:
    assert duration(seconds) == code


def test_the_class_of_a_factory_is_no_argument_of_it() -> None:
    factory = AnswerCheck.exact_match.__func__
    assert (needed_by(factory), [*arguments_of(factory)]) == (["at_least"], ["at_least"])
