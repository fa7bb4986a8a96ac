"""Rules on the licences and versions of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from constructs_optim.recipe.catalog import models
from constructs_optim.templates.json_values import as_array, as_object
from constructs_optim.templates.resource_types import METADATA_KEY
from constructs_optim.templates.template import Resource, Template

from .recipes import UNDESCRIBED, recipes
from .registry import Breach, policy_rule
from .settings import PlatformPolicy

_LOCATION = f"Metadata.{METADATA_KEY}.Models"
_OF_THE_LIBRARY = "an OptimizedEndpoint, which says what it serves"


@policy_rule(
    "POL020",
    title="The licences of all models and drafts are accepted",
    looks_at="each model with its drafts, and jobs whose model is elsewhere",
    reason="`accept_eula=True` is one developer's word; a licence binds the company",
)
def _licences_are_accepted(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    accepted = policy.accepted_licenses or ()
    for resource, index, source in _sources(template):
        if index is None:
            yield Breach(resource, _LOCATION, None, UNDESCRIBED, _OF_THE_LIBRARY)
            continue
        names, reason, accept = _licence_of(source)
        if names and not any(fnmatchcase(name, pattern) for name in names for pattern in accepted):
            yield Breach(
                resource, f"{_LOCATION}.{index}", names[0], reason, f"accepted_licenses=[{accept!r}] in the policy"
            )


@policy_rule(
    "POL021",
    title="JumpStart models have a version",
    looks_at="each model with its drafts, and jobs whose model is elsewhere",
    reason="without one, the next deployment may serve another model",
)
def _versions_are_pinned(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for resource, index, source in _sources(template):
        if index is None:
            yield Breach(resource, _LOCATION, None, UNDESCRIBED, _OF_THE_LIBRARY)
        elif "ModelId" in source and source.get("Version") is None:
            model_id = source["ModelId"]
            yield Breach(
                resource,
                f"{_LOCATION}.{index}",
                model_id,
                "it has no version, so the newest is taken when the stack is first deployed",
                f'Model.jumpstart("{model_id}", version="...")',
            )


def _sources(template: Template) -> Iterator[tuple[Resource, int | None, Mapping[str, Any]]]:
    """The sources of each recipe with their indexes; None for a resource that does not describe its recipe."""
    for resource in recipes(template):
        sources = as_array(resource.recipe.get("Models"))
        if not sources:
            yield resource, None, {}
        for index, source in enumerate(sources):
            yield resource, index, as_object(source)


def _licence_of(source: Mapping[str, Any]) -> tuple[list[str], str, str]:
    """By which names a source may be accepted, why that is needed, and the name to accept; no names for a free one."""
    if "ModelId" not in source:
        uri = str(source.get("Uri"))
        return [uri], "nobody but you knows the licence of weights in S3, and the policy does not list the URI", uri
    model_id = str(source["ModelId"])
    row = models.find(model_id)
    if row is not None and row.gated is False:
        return [], "", ""
    if row is None or row.license is None:
        reason = "the catalog knows no licence of it, and the policy does not list the model"
        return [model_id], reason, model_id
    reason = f"its licence is the {row.license.name} ({row.license.url}), which the policy does not list"
    return [model_id, row.license.name], reason, row.license.name
