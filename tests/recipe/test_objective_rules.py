"""The rules about objectives: valid and invalid cases, and the error messages."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.objectives import Feasibility, Intended, Objectives, ServedOtherwise, choice_name
from constructs_optim.recipe.rules import all_rules, check, warnings

MODEL, COMMAND = "Qwen/Qwen3-32B", "constructs-optim recommend Qwen/Qwen3-32B --update"


def objectives(**changed: Any) -> Objectives:
    return Objectives(**{"input_tokens": 1000, "output_tokens": 300, **changed})


def feasible(asked: dict[str, Any] | None = None, **best: Any) -> Feasibility:
    return Feasibility(objectives(**(asked or {})), **best)


def intended(
    *recorded: Objectives, model: str = MODEL, asked: Objectives | None = None, mistake: str | None = None
) -> Intended:
    names = {model: [choice_name(model, each) for each in recorded]} if recorded else {}
    return Intended(MODEL, asked or objectives(), names, COMMAND, mistake)


GOOD: dict[str, list[Feasibility | Intended]] = {
    "OPT231": [feasible(context_length=1300), feasible({"input_tokens": 10**6})],
    "OPT301": [feasible(), feasible(task="generate")],
    "OPT232": [
        feasible({"time_to_first_token": "50ms"}, time_to_first_token_ms=50.0),
        feasible({"time_to_first_token": 1}),
        feasible(time_to_first_token_ms=50.0),
    ],
    "OPT233": [
        feasible({"inter_token_latency": "5ms"}, inter_token_latency_ms=5.0),
        feasible({"inter_token_latency": 0.1}),
        feasible(inter_token_latency_ms=5.0),
    ],
    "OPT234": [
        feasible({"max_price_per_hour": 7.09}, price_per_hour=7.09),
        feasible({"max_price_per_hour": 0.01}),
        feasible(price_per_hour=7.09),
    ],
    "OPT235": [
        intended(objectives()),
        intended(objectives(confidence=0.9), objectives()),
        intended(objectives(), asked=objectives(confidence=0.8)),
    ],
}
BAD: list[tuple[str, Feasibility | Intended, str, str]] = [
    ("OPT301", feasible(task="embed"), "objectives", "evaluate() with requirements"),
    ("OPT231", feasible(context_length=1299), "objectives.input_tokens", "at most 1299 tokens"),
    (
        "OPT232",
        feasible({"time_to_first_token": "50ms"}, time_to_first_token_ms=50.5),
        "objectives.time_to_first_token",
        "50.5 ms or more",
    ),
    (
        "OPT233",
        feasible({"inter_token_latency": "5ms"}, inter_token_latency_ms=5.251),
        "objectives.inter_token_latency",
        "5.26 ms or more",
    ),
    (
        "OPT234",
        feasible({"max_price_per_hour": 7}, price_per_hour=7.09),
        "objectives.max_price_per_hour",
        "$7.09 or more",
    ),
    ("OPT235", intended(), "objectives", COMMAND),
    ("OPT235", intended(objectives(confidence=0.9)), "objectives", COMMAND),
    ("OPT235", intended(objectives(), model="Qwen/Qwen3-8B"), "objectives", COMMAND),
    ("OPT235", intended(objectives(), mistake="it has no technique awq2"), "objectives", COMMAND),
]


def test_every_rule_of_objectives_has_valid_and_invalid_cases() -> None:
    rules = {rule.id for subject in (Feasibility, Intended) for rule in all_rules(subject)}
    assert rules == set(GOOD) == {rule for rule, *_ in BAD}


@pytest.mark.parametrize(("rule", "case"), [(rule, case) for rule, cases in GOOD.items() for case in cases])
def test_what_is_possible_is_let_through(rule: str, case: Feasibility | Intended) -> None:
    assert check(case) == []


@pytest.mark.parametrize(("rule", "case", "location", "suggestion"), BAD)
def test_what_is_impossible_is_refused_with_its_location_and_what_works(
    rule: str, case: Feasibility | Intended, location: str, suggestion: str
) -> None:
    (violation,) = check(case)
    assert (violation.rule, violation.location) == (rule, location)
    assert suggestion in violation.suggestion
    assert violation.reason
    assert violation.link


def test_wrong_settings_of_objectives_break_a_rule_that_is_listed() -> None:
    (listed,) = [rule for rule in all_rules(Objectives) if rule.id == "OPT230"]
    with pytest.raises(RecipeError) as refused:
        objectives(input_tokens=0)
    assert [(each.rule, each.link) for each in refused.value.violations] == [("OPT230", listed.link)]
    assert check(objectives()) == []


def test_a_missing_choice_error_lists_the_choices_of_the_file() -> None:
    (violation,) = check(intended(objectives(confidence=0.9), objectives(quality="any")))
    assert "with 90%" in violation.reason
    assert "any quality" in violation.reason
    assert violation.value == str(objectives())
    (violation,) = check(intended())
    assert "it records no choices" in violation.reason


LIMITED = ServedOtherwise(("vllm", 5), ("vllm", 84))
OTHER = ServedOtherwise(("sglang", None), ("vllm", None))


def test_another_server_than_the_forecast_one_is_advised_against() -> None:
    assert warnings(ServedOtherwise(("vllm", 84), ("vllm", 84))) == ()
    (limited,) = warnings(LIMITED)
    assert limited.id == "constructs-optim:OPT236"
    assert "server = 'vllm, 5 at a time'" in limited.message
    assert "The forecast is for vllm in batches of up to 84" in limited.message
    (other,) = warnings(OTHER)
    assert other.message.endswith("The forecast is for vllm")
