"""The declaration of rules, and the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import getdoc, signature
from typing import Any, TypeVar, get_args, get_type_hints

from constructs_optim.recipe.errors import Advice, Violation, shown
from constructs_optim.recipe.evaluation import Benchmark, RecommendationRequest
from constructs_optim.recipe.evaluation.recommendation import RecommendedDeployment
from constructs_optim.recipe.evaluation.sample_size import ComparedVersions, LimitedSample
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.hosting.alarms import Alarms, Evaluated
from constructs_optim.recipe.hosting.arns import ArnUse
from constructs_optim.recipe.hosting.machine_image import MachineImageUse
from constructs_optim.recipe.hosting.options import API as API
from constructs_optim.recipe.hosting.options import DependentOption, StepOfFleet
from constructs_optim.recipe.hosting.roles_and_networks import (
    AssumedRole,
    ForeignGroup,
    NetworkUse,
    SecurityGroupUse,
)
from constructs_optim.recipe.hosting.scaling import ConcurrencyLimit, DeclaredScaling, Scaling
from constructs_optim.recipe.hosting.shadow import Shadow
from constructs_optim.recipe.hosting.speculation import Speculation
from constructs_optim.recipe.metrics.engines import EngineMetricUse
from constructs_optim.recipe.metrics.thresholds import Threshold
from constructs_optim.recipe.objectives import Feasibility, Intended, ServedOtherwise
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques.captured import CapturedEndpoint

Subject = (
    Recipe
    | Hosting
    | Scaling
    | DeclaredScaling
    | DependentOption
    | StepOfFleet
    | Shadow
    | Alarms
    | EngineMetricUse
    | Threshold
    | MachineImageUse
    | CapturedEndpoint
    | Speculation
    | Benchmark
    | LimitedSample
    | ComparedVersions
    | RecommendationRequest
    | RecommendedDeployment
    | Feasibility
    | Intended
    | ServedOtherwise
    | AssumedRole
    | NetworkUse
    | SecurityGroupUse
    | ForeignGroup
    | ArnUse
    | Evaluated
    | ConcurrencyLimit
    | Settings
)
"""The subjects of rules."""
_Subject = TypeVar("_Subject", bound=Subject)
_Check = Callable[[_Subject], Iterator["Finding"]]
# The beginning of links.
GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/"


@dataclass(frozen=True)
class Finding:
    """An invalid value: its location, the value, the fix, and a reason if the rule's own is too general."""

    location: str
    value: object
    suggestion: str
    reason: str | None = None


@dataclass(frozen=True)
class Rule:
    """A rule and the page that documents it. An advisory rule produces a warning; any other rule produces an error."""

    id: str
    title: str
    reason: str
    link: str
    check: Callable[[Any], Iterator[Finding]]
    advisory: bool
    subject: type[Subject]


_RULES: dict[str, Rule] = {}


def rule(rule_id: str, link: str, *, advisory: bool = False) -> Callable[[_Check[_Subject]], _Check[_Subject]]:
    """Register a function as a rule: its docstring is ``Title: reason.``, and it checks the type of its argument.

    The title states the requirement and appears in the list of rules. The reason says what is wrong, or why; a finding
    without a reason of its own shows it.
    """

    def register(check: _Check[_Subject]) -> _Check[_Subject]:
        title, _, reason = " ".join((getdoc(check) or "").split()).removesuffix(".").partition(": ")
        if rule_id in _RULES:
            raise ValueError(f"rule {rule_id} exists twice: {_RULES[rule_id].title!r} and {title!r}")
        subject = get_type_hints(check)[next(iter(signature(check).parameters))]
        _RULES[rule_id] = Rule(rule_id, title, reason, link, check, advisory, subject)
        _rules_of.cache_clear()
        return check

    return register


def all_rules(of: type[Subject] | None = None) -> list[Rule]:
    """Return all rules, sorted by ID, or only those that check ``of``."""
    return [rule for _, rule in sorted(_RULES.items()) if of in (None, rule.subject, *get_args(rule.subject))]


def check(subject: Subject) -> list[Violation]:
    """Return all violations in a subject."""
    return [
        Violation(
            rule=rule.id,
            location=finding.location,
            value=finding.value,
            reason=finding.reason or rule.reason,
            suggestion=finding.suggestion,
            link=rule.link,
        )
        for rule, finding in _findings(subject, advisory=False)
    ]


def warnings(subject: Subject) -> tuple[Advice, ...]:
    """Return the warnings of all advisory rules for a subject."""
    return tuple(
        # Not the rule's title, which states the requirement.
        Advice(
            f"constructs-optim:{rule.id}",
            f"{finding.location} = {shown(finding.value)}: {finding.reason or rule.reason}. {finding.suggestion}",
        )
        for rule, finding in _findings(subject, advisory=True)
    )


def _findings(subject: Subject, *, advisory: bool) -> Iterator[tuple[Rule, Finding]]:
    for rule in _rules_of(type(subject), advisory):
        yield from ((rule, finding) for finding in rule.check(subject))


@cache
def _rules_of(subject: type[Subject], advisory: bool) -> tuple[Rule, ...]:
    """Return the rules that check instances of a type. Cached: a ranking calls this thousands of times."""
    return tuple(rule for rule in all_rules() if rule.advisory is advisory and issubclass(subject, rule.subject))
