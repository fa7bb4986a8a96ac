"""Rules on the techniques, licences and versions of models, as this library's resources describe their recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from constructs_optim.recipe.catalog import models
from constructs_optim.templates.json_values import as_object, is_array
from constructs_optim.templates.resource_types import JOBS, METADATA_KEY, MODELS
from constructs_optim.templates.template import Resource, Template

from .registry import PolicyFinding, policy_rule
from .settings import PlatformPolicy, matches

_EVERY_RECIPE = "each model, and jobs whose model is elsewhere"
_WITH_DRAFTS = "each model with its drafts, and jobs whose model is elsewhere"


@policy_rule(
    "POL010",
    title="Models have the required techniques",
    looks_at=_EVERY_RECIPE,
    reason="a model that is served as it comes wastes accelerators",
)
def _models_have_required_techniques(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for resource, location, applied in _described(template, "Techniques"):
        if applied is None:
            yield _undescribed(resource, location)
            continue
        missing = " and ".join(name for name in policy.required_techniques or () if not _is_among(name, *applied))
        if missing:
            value, fix = ", ".join(applied) or None, f"techniques=[...] with {missing}"
            yield PolicyFinding(resource, location, value, f"the policy requires {missing}", fix)


@policy_rule(
    "POL011",
    title="Models have no forbidden technique",
    looks_at=_EVERY_RECIPE,
    reason="a technique may be unproven, or change answers",
)
def _models_have_no_forbidden_technique(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for resource, location, applied in _described(template, "Techniques"):
        if applied is None:
            yield _undescribed(resource, location)
        for technique in applied or ():
            if any(_is_among(name, technique) for name in policy.forbidden_techniques or ()):
                fix = f"techniques=[...] without {technique}"
                yield PolicyFinding(resource, location, technique, "the policy forbids the technique", fix)


@policy_rule(
    "POL020",
    title="The licences of all models and drafts are accepted",
    looks_at=_WITH_DRAFTS,
    reason="`accept_eula=True` is one developer's word; a licence binds the company",
)
def _licences_are_accepted(policy: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for resource, location, sources in _described(template, "Models"):
        if not sources:
            yield _undescribed(resource, location)
        for index, source in enumerate(map(as_object, sources or ())):
            names, reason = _licence_of(source)
            if names and not any(matches(name, policy.accepted_licenses or ()) for name in names):
                fix = f"accepted_licenses=[{names[-1]!r}] in the policy"
                yield PolicyFinding(resource, f"{location}.{index}", names[0], reason, fix)


@policy_rule(
    "POL021",
    title="JumpStart models have a version",
    looks_at=_WITH_DRAFTS,
    reason="without one, the next deployment may serve another model",
)
def _versions_are_pinned(_: PlatformPolicy, template: Template) -> Iterator[PolicyFinding]:
    for resource, location, sources in _described(template, "Models"):
        if not sources:
            yield _undescribed(resource, location)
        for index, source in enumerate(map(as_object, sources or ())):
            if "ModelId" in source and source.get("Version") is None:
                model_id = source["ModelId"]
                reason = "it has no version, so the newest is taken when the stack is first deployed"
                fix = f'Model.jumpstart("{model_id}", version="...")'
                yield PolicyFinding(resource, f"{location}.{index}", model_id, reason, fix)


def _described(template: Template, name: str) -> Iterator[tuple[Resource, str, list[Any] | None]]:
    """The list ``name`` of each recipe, with its location; None where a resource does not describe its recipe.

    Of every model, and of every job whose model is not in this template. A chain of jobs is one recipe, checked once.
    """
    seen = list[object]()
    for resource in (*template.of_type(*MODELS), *template.of_type(*JOBS)):
        recipe = resource.recipe.get("Recipe")
        if resource.type in MODELS or recipe not in seen:
            described = resource.recipe.get(name)
            items = list(described) if is_array(described) else None
            if name == "Techniques" and items is not None:
                items = [str(item) for item in items]
            yield resource, f"Metadata.{METADATA_KEY}.{name}", items
        seen.append(recipe)


def _undescribed(resource: Resource, location: str) -> PolicyFinding:
    """What cannot be seen does not pass: a model of another library."""
    reason = (
        f"it does not say what it is made of: it has no {METADATA_KEY} metadata, which this library's constructs write"
    )
    return PolicyFinding(resource, location, None, reason, "an OptimizedEndpoint, which says what it serves")


def _is_among(name: str, *applied: object) -> bool:
    """Whether a kind, or one technique of a kind, is among those applied, which have the form ``kind=method``."""
    return any(name in (technique, str(technique).partition("=")[0]) for technique in applied)


def _licence_of(source: Mapping[str, Any]) -> tuple[list[str], str]:
    """The names that a source is accepted by, none for a free one, the best of them last; and why it needs that."""
    if "ModelId" not in source:
        return [str(source.get("Uri"))], (
            "nobody but you knows the licence of weights in S3, and the policy does not list the URI"
        )
    model_id = str(source["ModelId"])
    row = models.find(model_id)
    if row is not None and row.gated is False:
        return [], ""
    if row is None or row.license is None:
        return [model_id], "the catalog knows no licence of it, and the policy does not list the model"
    return [model_id, row.license.name], (
        f"its licence is the {row.license.name} ({row.license.url}), which the policy does not list"
    )
