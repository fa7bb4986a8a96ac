"""What all rules tell users about the cases of their tests, word for word: a change of a text shows in a file.

``pytest tests/recipe/test_refusals.py --snapshot-update`` writes it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

import constructs_optim
from constructs_optim.recipe import Recipe, RecipeError, rules
from constructs_optim.recipe.errors import Violation
from constructs_optim.recipe.forms import in_code
from constructs_optim.recipe.hosting.alarms import Evaluated
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.rules.registry import Finding, Subject
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import REGISTRY
from constructs_optim.recipe.techniques.captured import CapturedEndpoint

from . import (
    test_benchmark,
    test_captured_traffic,
    test_engine_metrics,
    test_existing_resource_rules,
    test_hosting_rules,
    test_machine_images,
    test_objective_rules,
    test_options_without_effect,
    test_recommendation_request,
    test_recommended_deployment,
    test_role_and_network_rules,
    test_rules,
    test_sample_size,
    test_scaling_effect,
    test_scaling_rules,
    test_shadow_rules,
    test_thresholds,
    test_variables,
)


def told(violations: Iterable[Violation], rule: str | None = None) -> Iterator[str]:
    for each in violations:
        if rule in (None, each.rule):
            yield f"{each.rule} {each.location} = {each.shown_value}: {each.reason}. {each.suggestion} ({each.link})"


def advised(subject: Subject, rule: str | None = None) -> Iterator[str]:
    for each in warnings(subject):
        if rule is None or each.id == f"constructs-optim:{rule}":
            yield f"{each.id} {each.message}"


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
        "engine metrics": test_engine_metrics,
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
            name: [text for rule, case, *_ in module.BAD for text in (*told(check(case), rule), *advised(case, rule))]
            for name, module in modules.items()
        },
        "networks": [text for rule, case in networks for text in told(check(case), rule)],
        "cures": [text for _, case, *_ in test_hosting_rules.CURES for text in told(check(case))],
        "advice on networks": [text for _, case in networks for text in advised(case)],
        "advice on recipes": [
            text
            for rule, changed, *_ in test_rules.ADVISED
            for text in advised(Recipe(**test_rules.recipe(**changed)), rule)
        ],
        "advice on hosting": [
            text for _, given, *_ in test_hosting_rules.ADVISED for text in advised(test_hosting_rules.hosting(**given))
        ],
    }


def cases_without_a_rule() -> dict[str, list[Subject]]:
    """The cases of other tests, of which each is refused or advised on as a whole."""
    networks = test_role_and_network_rules
    canaries = ((update, more) for update, more, message in test_hosting_rules.CANARIES if message is not None)
    return {
        "canaries": [
            test_hosting_rules.hosting(**{"initial_instance_count": 40, **more}, update=update)
            for update, more in canaries
        ],
        "steps": [step for step, *_ in test_hosting_rules.STEPS],
        "machine images": [use for use, *_ in (*test_machine_images.BAD, *test_machine_images.ADVISED)],
        "recommended deployments": [
            *(case for case, *_ in test_recommended_deployment.BAD),
            test_recommended_deployment.OF_ANOTHER_ACCOUNT,
        ],
        "options without effect": [
            *(
                test_options_without_effect.hosting(**options)
                for options, _ in test_options_without_effect.WITHOUT_EFFECT
            ),
            *(option for option, _ in test_options_without_effect.NEEDING),
            *(Evaluated("there", days, schedules) for days, schedules, _ in test_options_without_effect.RARE),
            *test_options_without_effect.OTHERS,
        ],
        "scaling without effect": [
            *(scaling for scaling, *_ in test_scaling_effect.WITHOUT_EFFECT),
            test_scaling_effect.MORE_AT_FIRST,
        ],
        "thresholds": [
            *(each for values, *_ in test_thresholds.UNREACHABLE for each in test_thresholds.alarms(**values)),
            *(each for limits, *_ in test_thresholds.UNREACHABLE_LIMITS for each in test_thresholds.required(**limits)),
            *(each for values, _ in test_thresholds.SHARES for each in test_thresholds.alarms(**values)),
            *(each for limits, _ in test_thresholds.IN_SECONDS for each in test_thresholds.required(**limits)),
        ],
        "servers": [test_objective_rules.LIMITED, test_objective_rules.OTHER, *test_rules.of_a_newer_engine()],
        "captured traffic": [CapturedEndpoint(percentage) for percentage, *_ in test_captured_traffic.PERCENTAGES],
        "samples": [*test_sample_size.doubtful()],
        "roles and groups": [
            networks.UNTRUSTED,
            networks.FOREIGN,
            *(
                networks.in_groups(allowed, is_certain=is_certain, targets=("s3", "huggingface.co", "pypi.org"))
                for allowed in ("nothing", "private")
                for is_certain in (True, False)
            ),
        ],
        "networks without a way": [
            networks.use(without={"s3": ("A", "B")}, is_certain=is_certain, **changed)
            for changed, *_ in networks.WITHOUT_A_WAY
            for is_certain in (True, False)
        ],
    }


def texts_of_other_cases() -> dict[str, list[str]]:
    found = {
        name: [text for case in cases for text in (*told(check(case)), *advised(case))]
        for name, cases in cases_without_a_rule().items()
    }
    variables = [test_variables.recipe_with(name, server) for name, server, _ in test_variables.UNREAD]
    return {**found, "variables": [text for case in variables for text in advised(case, "OPT260")]}


def test_what_other_cases_are_told_reads_as_it_did(snapshot: SnapshotAssertion) -> None:
    assert texts_of_other_cases() == snapshot.use_extension(JSONSnapshotExtension)


def findings_in_code() -> set[tuple[str, int]]:
    """The file and the line of each call in the rules that makes a finding."""
    return {
        (path.name, node.lineno)
        for path in Path(rules.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
    }


def test_each_finding_of_a_rule_is_among_these_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = set[tuple[tuple[str, int], str]](), Finding.__init__

    def record(finding: Finding, *given: Any, **named: Any) -> None:
        make(finding, *given, **named)
        caller = sys._getframe(1)
        made.add(((Path(caller.f_code.co_filename).name, caller.f_lineno), finding.suggestion))

    monkeypatch.setattr(Finding, "__init__", record)
    told = [text for texts in (*refusals().values(), *texts_of_other_cases().values(), advice()) for text in texts]
    places = {place for place, suggestion in made if any(suggestion in text for text in told)}
    assert findings_in_code() - places == set()


def advice() -> list[str]:
    """What advisory rules say about the valid cases."""
    cases: list[Any] = [Recipe(**test_rules.recipe(**each)) for given in test_rules.GOOD.values() for each in given]
    cases += [test_hosting_rules.hosting(**each) for given in test_hosting_rules.GOOD.values() for each in given]
    for module in (test_benchmark, test_existing_resource_rules, test_scaling_rules, test_shadow_rules):
        cases += [each for given in module.GOOD.values() for each in given]
    return sorted({f"{each.id} {each.message}" for case in cases for each in warnings(case)})


def test_all_advice_reads_as_it_did(snapshot: SnapshotAssertion) -> None:
    assert advice() == snapshot.use_extension(JSONSnapshotExtension)


def classes_of_settings() -> list[type[Settings]]:
    """The public classes, the techniques and the servers."""
    public = [getattr(constructs_optim, name) for name in constructs_optim.__all__]
    techniques = [technique for named in REGISTRY.values() for technique in named.values()]
    found = [*public, *techniques, *by_name().values()]
    return [*dict.fromkeys(each for each in found if isinstance(each, type) and issubclass(each, Settings))]


def accepted_values() -> Iterator[str]:
    """What each setting takes instead of a text, a negative number, a large one or a list."""
    for cls in classes_of_settings():
        for name in cls.model_fields:
            for value in ("x", -1, 10**12, []):
                try:
                    cls(**{name: value})
                except RecipeError as refused:
                    of_field = [each for each in refused.violations if each.location.endswith(f".{name}")]
                    yield from (f"{each.location} = {each.shown_value}: {each.suggestion}" for each in of_field)


def test_the_settings_take_what_they_did(snapshot: SnapshotAssertion) -> None:
    assert list(accepted_values()) == snapshot.use_extension(JSONSnapshotExtension)


def test_the_settings_have_the_defaults_that_they_had(snapshot: SnapshotAssertion) -> None:
    defaults = [
        f"{cls.display_name()}.{name} = {in_code(field.get_default(call_default_factory=True))}"
        for cls in classes_of_settings()
        for name, field in cls.model_fields.items()
        if not field.is_required()
    ]
    assert defaults == snapshot.use_extension(JSONSnapshotExtension)


def test_each_refusal_reads_as_it_did(snapshot: SnapshotAssertion) -> None:
    assert refusals() == snapshot.use_extension(JSONSnapshotExtension)
