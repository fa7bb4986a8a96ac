"""Options of an endpoint that are valid and have no effect."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe.hosting import Hosting, UpdateSettings
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.hosting.options import DependentOption
from constructs_optim.recipe.rules import warnings

_CANARY = UpdateSettings("CANARY", 10, bake_seconds=600)


def advice(**options: Any) -> list[str]:
    settings = {"instance_types": ["ml.g5.12xlarge"], "initial_instance_count": 2, **options}
    return [each.message for each in warnings(Hosting(**settings)) if each.id == "constructs-optim:OPT238"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capture_percentage": 0}, "data_capture.sampling_percentage = 0"),
        ({"alarms": Alarms.none(), "alarm_actions": 2}, "monitoring.alarm_actions = '2 actions'"),
        ({"alarms": Alarms.none(), "ok_actions": 1}, "monitoring.ok_actions = '1 action'"),
        ({"alarms": Alarms.none(), "update": _CANARY}, "update_policy = 'CANARY'"),
        ({"alarms": Alarms(error_rate=False, zero_capacity=False), "update": _CANARY}, "Alarms(error_rate=True)"),
        ({"update": UpdateSettings("CANARY", 10), "rollback_alarms": 2}, "update_policy.rollback_alarms = '2 alarms'"),
        ({"update": UpdateSettings(), "rollback_alarms": 1}, "Set bake_time=Duration.minutes(10), or leave"),
        ({"asynchronous": True, "unsent_responses": ["SUCCESS_NOTIFICATION_TOPIC"]}, "success_topic"),
        ({"asynchronous": True, "unsent_responses": ["ERROR_NOTIFICATION_TOPIC"]}, "error_topic"),
    ],
)
def test_an_option_without_effect_is_advised_against(options: dict[str, Any], message: str) -> None:
    (found,) = advice(**options)
    assert message in found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"capture_percentage": 1},
        {"alarm_actions": 2},
        {"alarms": Alarms.none()},
        {"update": _CANARY},
        {"alarms": Alarms.none(), "update": _CANARY, "rollback_alarms": 1},
        {"alarms": Alarms.none(), "update": UpdateSettings(termination_wait_seconds=600)},
        {"update": UpdateSettings(termination_wait_seconds=600), "rollback_alarms": 1},
        {"alarms": Alarms.none(), "update": UpdateSettings("ROLLING", 25)},
    ],
)
def test_options_with_an_effect_have_no_advice(options: dict[str, Any]) -> None:
    assert advice(**options) == []


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (DependentOption("model", None, "add_component"), "add_component("),
        (DependentOption("server.adapters", "set", "add_adapter"), "add_adapter("),
        (DependentOption("alarms.stale_evaluation", "set", "evaluate"), "evaluate("),
    ],
)
def test_an_option_that_needs_another_call_is_advised_on(option: DependentOption, message: str) -> None:
    (found,) = warnings(option)
    assert (found.id, message in found.message) == ("constructs-optim:OPT239", True)
