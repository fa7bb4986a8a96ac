"""Validates a policy's settings, and reports all mistakes at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, Literal, TypeGuard, get_args

from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.techniques import REGISTRY

Severity = Literal["error", "warning", "fatal"]
"""What a finding does: ``error`` fails synthesis until it is acknowledged, ``fatal`` whether it is or not, and
``warning`` is shown."""

_SWITCHES = (
    "pinned_model_versions",
    "kms_required",
    "vpc_required",
    "network_isolation_required",
    "autoscaling_required",
    "alarm_actions_required",
    "evaluation_gate_required",
)
_PATTERN_CHARACTERS = "*?["


@dataclass(frozen=True)
class Mistake:
    """A mistake in a policy: the location, the value there, why it does not work, and what would."""

    location: str
    value: Any
    reason: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.location} = {self.value!r}\n    why:        {self.reason}\n    what works: {self.suggestion}"


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Whether a setting is a mapping."""
    return isinstance(value, Mapping)


def is_list_or_tuple(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Whether a setting is a list or a tuple."""
    return isinstance(value, (list, tuple))


def mistakes_in(settings: Mapping[str, Any], rules: Mapping[str, str], switched_on: Set[str]) -> list[Mistake]:
    """All mistakes in a policy's settings.

    Args:
        settings: by name.
        rules: the setting that switches a rule on, by the rule's id.
        switched_on: the settings that do.
    """
    return list(
        chain(
            _nothing_on(rules, switched_on),
            _instance_types(settings, "allowed_instance_types"),
            _instance_types(settings, "allowed_job_instance_types"),
            _ceiling(settings, "max_price_per_hour"),
            _ceiling(settings, "max_monthly_cost"),
            _prices(settings),
            _techniques(settings, "required_techniques"),
            _techniques(settings, "forbidden_techniques"),
            _contradictions(settings),
            _licenses(settings),
            _switches(settings),
            _severities(settings, rules, switched_on),
            _reasons(settings, rules, switched_on),
        )
    )


def _nothing_on(rules: Mapping[str, str], switched_on: Set[str]) -> Iterator[Mistake]:
    if not switched_on:
        suggestion = f"one of {', '.join(rules.values())}"
        yield Mistake("PlatformPolicy", "no rule", "a policy without a rule passes everything", suggestion)


def _texts(settings: Mapping[str, Any], setting: str, example: str) -> Iterator[tuple[str, str] | Mistake]:
    """Each text of a list, with its location; a mistake for what is none."""
    value = settings[setting]
    if value is None:
        return
    if not is_list_or_tuple(value):
        yield Mistake(setting, value, "it is a list of texts", f"a list, such as [{example!r}]")
        return
    for index, text in enumerate(value):
        location = f"{setting}[{index}]"
        if isinstance(text, str) and text.strip() == text and text:
            yield location, text
        else:
            yield Mistake(
                location, text, "it is no text, an empty one, or has spaces around it", f"such as {example!r}"
            )


def _instance_types(settings: Mapping[str, Any], setting: str) -> Iterator[Mistake]:
    known = instances.by_name().keys() | instances.other_names()
    for found in _texts(settings, setting, "ml.g5.*"):
        if isinstance(found, Mistake):
            yield found
        elif not any(fnmatchcase(name, found[1]) for name in known):
            spelled = found[1] if found[1].startswith("ml.") else f"ml.{found[1]}"
            as_pattern = [spelled] if any(fnmatchcase(name, spelled) for name in known) else []
            meant = as_pattern or close_matches(spelled, known)
            yield Mistake(
                found[0],
                found[1],
                "no instance type of SageMaker endpoints matches it",
                f"did you mean {' or '.join(meant)}?" if meant else "a type or a pattern, such as ml.g5.*",
            )


def _ceiling(settings: Mapping[str, Any], setting: str) -> Iterator[Mistake]:
    value = settings[setting]
    if value is None:
        return
    if not _is_amount(value):
        yield Mistake(setting, value, "it is no amount of US dollars above zero", "a number, such as 12.5")
    if not settings["instance_prices"]:
        yield Mistake(
            "instance_prices",
            settings["instance_prices"],
            f"{setting} needs to know what instances cost, and synthesis calls no price list",
            "the prices that you pay, in US dollars an hour, such as {'ml.g5.12xlarge': 7.09}",
        )


def _prices(settings: Mapping[str, Any]) -> Iterator[Mistake]:
    prices = settings["instance_prices"]
    if not is_mapping(prices):
        yield Mistake("instance_prices", prices, "it is no mapping", "such as {'ml.g5.12xlarge': 7.09}")
        return
    for name, price in prices.items():
        location = f"instance_prices[{name!r}]"
        if not (isinstance(name, str) and name.startswith("ml.")) or any(mark in name for mark in _PATTERN_CHARACTERS):
            yield Mistake(
                location, price, "SageMaker's instance types begin with ml., and a price is of one type", "ml.…"
            )
        if not _is_amount(price):
            yield Mistake(location, price, "it is no amount of US dollars above zero", "a number, such as 7.09")


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _techniques(settings: Mapping[str, Any], setting: str) -> Iterator[Mistake]:
    known = [*REGISTRY, *(f"{kind}={method}" for kind, methods in REGISTRY.items() for method in methods)]
    for found in _texts(settings, setting, "quantization"):
        if isinstance(found, Mistake):
            yield found
        elif found[1] not in known:
            meant = [name for name in known if name.endswith(f"={found[1]}")] or close_matches(found[1], known)
            yield Mistake(
                found[0],
                found[1],
                "there is no technique of that name",
                f"did you mean {' or '.join(meant)}?" if meant else f"one of {', '.join(known)}",
            )


def _contradictions(settings: Mapping[str, Any]) -> Iterator[Mistake]:
    required, forbidden = settings["required_techniques"], settings["forbidden_techniques"]
    if not is_list_or_tuple(required) or not is_list_or_tuple(forbidden):
        return
    for text in required:
        if isinstance(text, str) and (text in forbidden or text.partition("=")[0] in forbidden):
            yield Mistake("required_techniques", text, "forbidden_techniques forbids it", "to name it in one of them")


def _licenses(settings: Mapping[str, Any]) -> Iterator[Mistake]:
    licences = sorted({row.license.name for row in models.by_id().values() if row.license is not None})
    known = [*licences, *models.by_id()]
    for found in _texts(settings, "accepted_licenses", licences[0]):
        if isinstance(found, Mistake):
            yield found
        elif not found[1].startswith("s3://") and not any(fnmatchcase(name, found[1]) for name in known):
            by_lower_case = {name.lower(): name for name in known}
            spelled = [by_lower_case[name] for name in close_matches(found[1], by_lower_case)]
            yield Mistake(
                found[0],
                found[1],
                "it is no licence, JumpStart model or S3 URI that the catalog knows, and no pattern of one",
                f"did you mean {' or '.join(spelled)}?"
                if spelled
                else f"one of {', '.join(licences)}, or a model's id",
            )


def _switches(settings: Mapping[str, Any]) -> Iterator[Mistake]:
    for setting in _SWITCHES:
        if not isinstance(settings[setting], bool):
            yield Mistake(setting, settings[setting], "it is on or off", "True or False")


def _severities(settings: Mapping[str, Any], rules: Mapping[str, str], switched_on: Set[str]) -> Iterator[Mistake]:
    allowed = get_args(Severity)
    for location, severity in _by_rule(settings, rules, switched_on, "severities"):
        if isinstance(severity, Mistake):
            yield severity
        elif severity not in allowed:
            yield Mistake(location, severity, "there is no such severity", f"one of {', '.join(allowed)}")


def _reasons(settings: Mapping[str, Any], rules: Mapping[str, str], switched_on: Set[str]) -> Iterator[Mistake]:
    for location, reason in _by_rule(settings, rules, switched_on, "reasons"):
        if isinstance(reason, Mistake):
            yield reason
        elif not isinstance(reason, str) or not reason.strip():
            yield Mistake(location, reason, "a reason is a text", "such as 'cost agreement of May, section 3'")


def _by_rule(
    settings: Mapping[str, Any], rules: Mapping[str, str], switched_on: Set[str], setting: str
) -> Iterator[tuple[str, Any]]:
    """What a setting has for rules that are on, with its location; mistakes for other rules."""
    value = settings[setting]
    if not is_mapping(value):
        yield setting, Mistake(setting, value, "it is no mapping of rules' ids", "such as {'POL001': ...}")
        return
    for rule_id, one in value.items():
        location, switch = f"{setting}[{rule_id!r}]", rules.get(rule_id) if isinstance(rule_id, str) else None
        if switch is None:
            yield location, Mistake(location, one, "there is no such rule", f"one of {', '.join(rules)}")
        elif switch not in switched_on:
            yield location, Mistake(location, one, "the rule is not switched on", f"to give {switch} as well")
        else:
            yield location, one
