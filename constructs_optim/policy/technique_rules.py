"""Rules on the techniques that models have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from constructs_optim.templates.json_values import is_array
from constructs_optim.templates.resource_types import METADATA_KEY
from constructs_optim.templates.template import Template

from .recipes import UNDESCRIBED, recipes
from .registry import Breach, policy_rule
from .settings import PlatformPolicy

_LOCATION = f"Metadata.{METADATA_KEY}.Techniques"
_OF_THE_LIBRARY = "an OptimizedEndpoint, which says what it serves"


@policy_rule(
    "POL010",
    title="Models have the required techniques",
    looks_at="each model, and jobs whose model is elsewhere",
    reason="a model that is served as it comes wastes accelerators",
)
def _models_have_required_techniques(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for resource in recipes(template):
        applied = resource.recipe.get("Techniques")
        if not is_array(applied):
            yield Breach(resource, _LOCATION, None, UNDESCRIBED, _OF_THE_LIBRARY)
            continue
        missing = [name for name in policy.required_techniques or () if not _is_among(name, map(str, applied))]
        if missing:
            yield Breach(
                resource,
                _LOCATION,
                ", ".join(map(str, applied)) or None,
                f"the policy requires {' and '.join(missing)}",
                f"techniques=[...] with {' and '.join(missing)}",
            )


@policy_rule(
    "POL011",
    title="Models have no forbidden technique",
    looks_at="each model, and jobs whose model is elsewhere",
    reason="a technique may be unproven, or change answers",
)
def _models_have_no_forbidden_technique(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for resource in recipes(template):
        applied = resource.recipe.get("Techniques")
        if not is_array(applied):
            yield Breach(resource, _LOCATION, None, UNDESCRIBED, _OF_THE_LIBRARY)
            continue
        for technique in map(str, applied):
            if any(_is_among(name, [technique]) for name in policy.forbidden_techniques or ()):
                yield Breach(
                    resource,
                    _LOCATION,
                    technique,
                    "the policy forbids the technique",
                    f"techniques=[...] without {technique}",
                )


def _is_among(name: str, applied: Iterable[str]) -> bool:
    """Whether a kind, or one technique of a kind, is among those applied, which have the form ``kind=method``."""
    return any(technique == name or technique.partition("=")[0] == name for technique in applied)
