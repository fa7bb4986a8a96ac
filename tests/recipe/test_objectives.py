"""What endpoints have to do: durations as text, mistakes, and the text that choices are recorded by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import Duration
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.objectives import CONFIDENCE, Objectives
from tests.support.choices import SETTINGS

LENGTHS = {"input_tokens": 1000, "output_tokens": 300}


def objectives(**changed: Any) -> Objectives:
    return Objectives(**{**LENGTHS, **changed})


def mistakes(**changed: Any) -> list[Violation]:
    with pytest.raises(RecipeError) as refused:
        objectives(**changed)
    return [*refused.value.violations]


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        ("1.5s", 1500),
        ("1s", 1000),
        ("40ms", 40),
        ("2.5 ms", 2.5),
        (" 1 s ", 1000),
        (40, 40),
        (40.5, 40.5),
        (None, None),
    ],
)
@pytest.mark.parametrize("setting", ["time_to_first_token", "inter_token_latency"])
def test_durations_are_milliseconds_or_text_with_a_unit(setting: str, given: object, milliseconds: float) -> None:
    assert getattr(objectives(**{setting: given}), setting) == milliseconds


@pytest.mark.parametrize("given", ["1.5", "fast", "", "-1s", "1m", "1S", ".5s", "1,5s", "1s 5ms", "40 ms per token"])
@pytest.mark.parametrize("setting", ["time_to_first_token", "inter_token_latency"])
def test_a_text_that_is_no_duration_is_refused_with_examples(setting: str, given: str) -> None:
    (mistake,) = mistakes(**{setting: given})
    assert (mistake.rule, mistake.location, mistake.value) == ("OPT230", f"Objectives.{setting}", given)
    assert '"40ms" or "1.5s"' in mistake.suggestion


@pytest.mark.parametrize(
    ("changed", "works"),
    [
        ({"input_tokens": 0}, "1 or more"),
        ({"input_tokens": 1.5}, "a whole number"),
        ({"output_tokens": "300"}, "a whole number"),
        ({"requests_per_second": 0}, "more than 0"),
        ({"requests_per_second": float("inf")}, "100000 or less"),
        ({"input_tokens": 1_000_001}, "1000000 or less"),
        ({"requests_per_second": float("nan")}, ""),
        ({"requests_per_second": "12"}, "a number"),
        ({"time_to_first_token": 0}, "more than 0"),
        ({"time_to_first_token": "0s"}, "more than 0"),
        ({"time_to_first_token": [1]}, "a number"),
        ({"inter_token_latency": -40}, "more than 0"),
        ({"inter_token_latency": True}, "a number"),
        ({"max_price_per_hour": -1}, "more than 0"),
        ({"quality": "best"}, "'lossless', 'near-lossless' or 'any'"),
        ({"confidence": 1}, "less than 1"),
        ({"confidence": 0.4}, "0.5 or more"),
        ({"confidence": 80}, "less than 1"),
        ({"confidences": 0.9}, "did you mean confidence?"),
        ({"latency": 40}, "inter_token_latency"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused_with_what_works(changed: dict[str, Any], works: str) -> None:
    (mistake,) = mistakes(**changed)
    ((setting, value),) = changed.items()
    assert (mistake.rule, mistake.location) == ("OPT230", f"Objectives.{setting}")
    assert mistake.value is value or mistake.value == value
    assert works in mistake.suggestion


def test_lengths_are_needed() -> None:
    with pytest.raises(RecipeError) as refused:
        Objectives()  # type: ignore[call-arg]
    assert [(each.rule, each.location) for each in refused.value.violations] == [
        ("OPT230", "Objectives.input_tokens"),
        ("OPT230", "Objectives.output_tokens"),
    ]


def test_settings_are_passed_by_name() -> None:
    with pytest.raises(RecipeError, match=r"input_tokens=\.\.\., output_tokens=\.\.\."):
        Objectives(1000, 300)  # type: ignore[misc]


def test_all_mistakes_are_reported_at_once() -> None:
    wrong = mistakes(input_tokens=-1, time_to_first_token="fast", quality="best", confidence=2, rps=5)
    assert {each.rule for each in wrong} == {"OPT230"}
    assert [each.location.removeprefix("Objectives.") for each in wrong] == [
        "input_tokens",
        "time_to_first_token",
        "quality",
        "confidence",
        "rps",
    ]


def test_a_default_is_as_if_it_were_stated() -> None:
    stated = objectives(
        requests_per_second=None,
        time_to_first_token=None,
        inter_token_latency=None,
        max_price_per_hour=None,
        quality="near-lossless",
        confidence=CONFIDENCE,
    )
    assert stated == objectives()
    assert str(stated) == str(objectives()) == "requests of 1000+300 tokens"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"requests_per_second": 12}, "12 requests/s of"),
        ({"requests_per_second": 0.25}, "0.25 requests/s of"),
        ({"input_tokens": 50}, "of 50+300 tokens"),
        ({"output_tokens": 50}, "of 1000+50 tokens"),
        ({"time_to_first_token": "1s"}, "first token within 1000 ms"),
        ({"inter_token_latency": 40}, "a token every 40 ms"),
        ({"max_price_per_hour": 7.5}, "at most $7.5 an hour"),
        ({"quality": "lossless"}, "lossless"),
        ({"quality": "any"}, "any quality"),
        ({"confidence": 0.95}, "with 95%"),
    ],
    ids=str,
)
def test_the_text_names_what_differs_from_the_default(changed: dict[str, Any], said: str) -> None:
    assert said in str(objectives(**changed))
    assert said not in str(objectives())


def test_the_text_reads_as_a_sentence() -> None:
    every = objectives(
        requests_per_second=12,
        time_to_first_token="1s",
        inter_token_latency="40ms",
        max_price_per_hour=20,
        quality="any",
        confidence=0.9,
    )
    assert str(every) == (
        "12 requests/s of 1000+300 tokens, first token within 1000 ms, a token every 40 ms, at most $20 an hour, "
        "any quality, with 90%"
    )


# One setting differs, or none: that is where names could be alike.
@given(SETTINGS, SETTINGS, st.sampled_from([*Objectives.model_fields]))
def test_equal_objectives_have_equal_texts_and_different_ones_different_texts(
    one: dict[str, Any], other: dict[str, Any], setting: str
) -> None:
    first, second = Objectives(**one), Objectives(**{**one, setting: other[setting]})
    assert str(first) == str(Objectives(**one))
    assert (str(first) == str(second)) == (first == second)


@given(SETTINGS)
def test_objectives_survive_json(given: dict[str, Any]) -> None:
    asked = Objectives(**given)
    assert Objectives(**json.loads(json.dumps(asked.model_dump(mode="json", exclude_defaults=True)))) == asked


def test_a_duration_of_the_cdk_is_answered_with_its_milliseconds() -> None:
    (found,) = mistakes(time_to_first_token=Duration.seconds(1))
    assert (found.suggestion, "in milliseconds" in found.reason) == ("1000", True)
