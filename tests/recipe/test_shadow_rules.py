"""Rules about shadows: what each refuses, and what it lets through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.options import CapacityReservation, UpdateSettings
from constructs_optim.recipe.hosting.shadow import AnswerCheck, Shadow
from constructs_optim.recipe.rules import all_rules, check, warnings

TYPE = "ml.g5.12xlarge"
HOSTING = Hosting((TYPE,), capture_percentage=100)
ANSWERED = AnswerCheck.answered()
SHADOW = Shadow(HOSTING, TYPE, 1, 5, 86_400, 0.02, 0.1, (ANSWERED,), 4_000, captures=True)


def shadow(hosting: dict[str, Any] | None = None, **options: Any) -> Shadow:
    return replace(SHADOW, hosting=replace(HOSTING, **(hosting or {})), **options)


RESERVATION = CapacityReservation(arn="arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")
GOOD: dict[str, list[Shadow]] = {
    "OPT190": [shadow(), shadow({"update": UpdateSettings("CANARY", size=10)})],
    "OPT191": [shadow(), shadow({"capture_percentage": 1})],
    "OPT192": [
        shadow(sample_percent=100),
        shadow(sample_percent=0.5),
        shadow(duration_seconds=3 * 3_600),
        shadow(duration_seconds=30 * 86_400),
    ],
    "OPT193": [shadow(promotes=True, is_scaled=True), shadow(promotes=True, instance_type="ml.g6.12xlarge")],
    "OPT194": [shadow(instance_quota=3), shadow(instance_quota=1, instance_type="ml.g6.12xlarge"), shadow()],
    "OPT195": [shadow(), shadow(checks=(ANSWERED, AnswerCheck.reference("s3://bucket/answers.jsonl")))],
}
BAD: list[tuple[str, Shadow, str, str]] = [
    ("OPT190", shadow({"asynchronous": True}), "async_inference", "synchronous"),
    ("OPT190", shadow({"inference_component": True}), "inference_component", "one instance type"),
    ("OPT190", shadow({"pooled": True}), "instance_pools", "one instance type"),
    ("OPT190", shadow({"update": UpdateSettings("ROLLING", size=20)}), "update_policy", "all_at_once"),
    ("OPT190", shadow({"existing_configuration": "by-hand"}), "variant.existing_configuration", "leave it out"),
    ("OPT190", shadow(is_restarted=True), "monitoring.speculation_cure", "no cure"),
    ("OPT190", shadow(task="embed"), "shadow", "min_agreement"),
    ("OPT190", shadow({"variant_name": "Shadow"}), "variant.name", "another"),
    ("OPT190", shadow(instance_type="ml.inf1.xlarge"), "candidate.instance_type", "another"),
    ("OPT191", shadow({"capture_percentage": None}), "data_capture", "DataCapture("),
    ("OPT191", shadow(captures=False), "data_capture", "requests and responses"),
    ("OPT191", shadow({"capture_percentage": 0}), "data_capture.sampling_percentage", "1 to 100"),
    ("OPT192", shadow(sample_percent=0), "sample_percent", "above 0"),
    ("OPT192", shadow(sample_percent=101), "sample_percent", "up to 100"),
    ("OPT192", shadow(sample_percent=True), "sample_percent", "a number"),
    ("OPT192", shadow(duration_seconds=2 * 3_600), "duration", "Duration.hours(3)"),
    ("OPT192", shadow(duration_seconds=31 * 86_400), "duration", "Duration.days(30)"),
    (
        "OPT193",
        shadow(promotes=True, is_scaled=True, instance_type="ml.g6.12xlarge"),
        "candidate.instance_type",
        "promote=False",
    ),
    ("OPT194", shadow(instance_count=0), "candidate.instance_count", "1 or greater"),
    ("OPT194", shadow(instance_quota=2), "instance_quota", "a quota of 3"),
    ("OPT194", shadow({"capacity_reservation": RESERVATION}), "variant.capacity_reservation", "without"),
    ("OPT195", shadow(margin=0), "margin", "0.02"),
    ("OPT195", shadow(margin=0.001, announced_pairs=None), "margin", "larger"),
    ("OPT195", shadow(latency_tolerance=-1), "latency_tolerance", "0.1"),
    ("OPT195", shadow(checks=()), "checks", "1 to 7"),
    ("OPT195", shadow(checks=(ANSWERED, ANSWERED)), "checks", "one check of each kind"),
    ("OPT195", shadow(checks=(AnswerCheck.reference("https://answers"),)), "checks[0].uri", "s3://"),
]


def test_every_shadow_rule_has_valid_and_invalid_cases() -> None:
    rules = {rule.id for rule in all_rules(Shadow) if not rule.advisory}
    assert rules == set(GOOD) == {rule for rule, *_ in BAD}


@pytest.mark.parametrize(("rule", "case"), [(rule, case) for rule, cases in GOOD.items() for case in cases])
def test_what_works_is_let_through(rule: str, case: Shadow) -> None:
    assert check(case) == []


@pytest.mark.parametrize(("rule", "case", "location", "suggestion"), BAD)
def test_what_cannot_work_is_refused(rule: str, case: Shadow, location: str, suggestion: str) -> None:
    found = [violation for violation in check(case) if violation.rule == rule]
    assert [violation.location for violation in found] == [location]
    assert suggestion in found[0].suggestion


def test_a_promotion_without_the_whole_load_is_advised_against() -> None:
    assert [advice.id for advice in warnings(shadow(promotes=True))] == ["constructs-optim:OPT196"]
    assert warnings(shadow(promotes=True, sample_percent=100)) == ()


@pytest.mark.parametrize("share", [0, 1, 1.5])
def test_an_agreement_is_a_share(share: float) -> None:
    with pytest.raises(RecipeError, match="at_least"):
        AnswerCheck.exact_match(at_least=share)
