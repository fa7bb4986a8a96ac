"""What all rules tell users about the cases of their tests, word for word: a change of a text shows in a file.

``pytest tests/recipe/test_refusals.py --snapshot-update`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

import constructs_optim
from constructs_optim.recipe import Recipe, RecipeError
from constructs_optim.recipe.errors import Violation
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.settings import Settings

from . import (
    test_benchmark,
    test_existing_resource_rules,
    test_hosting_rules,
    test_objective_rules,
    test_recommendation_request,
    test_role_and_network_rules,
    test_rules,
    test_scaling_rules,
    test_shadow_rules,
)


def told(violations: Iterable[Violation], rule: str) -> Iterator[str]:
    for each in violations:
        if each.rule == rule:
            yield f"{rule} {each.location} = {each.shown_value}: {each.reason}. {each.suggestion} ({each.link})"


def of_settings() -> Iterator[str]:
    for build, rule, *_ in test_rules.WRONG_SETTINGS:
        with pytest.raises(RecipeError) as refused:
            build()
        yield from told(refused.value.violations, rule)


def refusals() -> dict[str, list[str]]:
    """What the rules of each kind of subject say, in the order of the cases."""
    recipes = [(rule, check(Recipe(**test_rules.recipe(**changed)))) for rule, changed, *_ in test_rules.BAD]
    hostings = [(rule, check(test_hosting_rules.hosting(**given))) for rule, given, *_ in test_hosting_rules.BAD]
    modules = {
        "benchmarks": test_benchmark,
        "existing resources": test_existing_resource_rules,
        "objectives": test_objective_rules,
        "recommendations": test_recommendation_request,
        "scaling": test_scaling_rules,
        "shadows": test_shadow_rules,
    }
    networks = [(rule, case) for rule, case in test_role_and_network_rules.NETWORKS if rule]
    return {
        "recipes": [text for rule, found in recipes for text in told(found, rule)],
        "settings": list(of_settings()),
        "hosting": [text for rule, found in hostings for text in told(found, rule)],
        **{
            name: [text for rule, case, *_ in module.BAD for text in told(check(case), rule)]
            for name, module in modules.items()
        },
        "networks": [text for rule, case in networks for text in told(check(case), rule)],
        "advice on networks": [f"{each.id} {each.message}" for _, case in networks for each in warnings(case)],
    }


def advice() -> list[str]:
    """What advisory rules say about the valid cases."""
    cases: list[Any] = [Recipe(**test_rules.recipe(**each)) for given in test_rules.GOOD.values() for each in given]
    cases += [test_hosting_rules.hosting(**each) for given in test_hosting_rules.GOOD.values() for each in given]
    for module in (test_benchmark, test_existing_resource_rules, test_scaling_rules, test_shadow_rules):
        cases += [each for given in module.GOOD.values() for each in given]
    return sorted({f"{each.id} {each.message}" for case in cases for each in warnings(case)})


def test_all_advice_reads_as_it_did(snapshot: SnapshotAssertion) -> None:
    assert advice() == snapshot.use_extension(JSONSnapshotExtension)


def accepted_values() -> Iterator[str]:
    """What each setting of the public classes takes instead of a text, a negative number or a list."""
    public = [getattr(constructs_optim, name) for name in constructs_optim.__all__]
    for cls in (each for each in public if isinstance(each, type) and issubclass(each, Settings)):
        for name in cls.model_fields:
            for value in ("x", -1, []):
                try:
                    cls(**{name: value})
                except RecipeError as refused:
                    of_field = [each for each in refused.violations if each.location.endswith(f".{name}")]
                    yield from (f"{each.location} = {each.shown_value}: {each.suggestion}" for each in of_field)


def test_the_settings_take_what_they_did(snapshot: SnapshotAssertion) -> None:
    assert list(accepted_values()) == snapshot.use_extension(JSONSnapshotExtension)


def test_each_refusal_reads_as_it_did(snapshot: SnapshotAssertion) -> None:
    assert refusals() == snapshot.use_extension(JSONSnapshotExtension)
