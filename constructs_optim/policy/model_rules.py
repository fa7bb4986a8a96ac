"""Which models there may be: their licences and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from constructs_optim.recipe.catalog import models

from .recipes import UNSAID, recipes
from .registry import Breach, policy_rule
from .template import METADATA_KEY, DeclaredResource, Template, listed, mapping

if TYPE_CHECKING:
    from .settings import PlatformPolicy

_LOCATION = f"Metadata.{METADATA_KEY}.Models"
_OF_THE_LIBRARY = "an OptimizedEndpoint, which says what it serves"


@policy_rule(
    "POL020",
    setting="accepted_licenses",
    title="The licences of all models and drafts are accepted",
    looks_at="each model with its drafts, and jobs whose model is elsewhere",
    reason="`accept_eula=True` is one developer's word; a licence binds the company",
)
def _licences_are_accepted(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    accepted = policy.accepted_licenses or ()
    for made, place, source in _sources(template):
        if place is None:
            yield Breach(made, _LOCATION, None, UNSAID, _OF_THE_LIBRARY)
            continue
        names, reason, meant = _licence_of(source)
        if names and not any(fnmatchcase(name, pattern) for name in names for pattern in accepted):
            yield Breach(made, f"{_LOCATION}.{place}", names[0], reason, f"accepted_licenses=[{meant!r}] in the policy")


@policy_rule(
    "POL021",
    setting="pinned_model_versions",
    title="JumpStart models have a version",
    looks_at="each model with its drafts, and jobs whose model is elsewhere",
    reason="without one, the next deployment may serve another model",
)
def _versions_are_pinned(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for made, place, source in _sources(template):
        if place is None:
            yield Breach(made, _LOCATION, None, UNSAID, _OF_THE_LIBRARY)
        elif "ModelId" in source and source.get("Version") is None:
            model_id = source["ModelId"]
            yield Breach(
                made,
                f"{_LOCATION}.{place}",
                model_id,
                "it has no version, so the newest is taken when the stack is first deployed",
                f'Model.jumpstart("{model_id}", version="...")',
            )


def _sources(template: Template) -> Iterator[tuple[DeclaredResource, int | None, Mapping[str, Any]]]:
    """What each recipe is made from, with its place; None for what does not say."""
    for made in recipes(template):
        said = listed(made.recipe.get("Models"))
        if not said:
            yield made, None, {}
        for place, source in enumerate(said):
            yield made, place, mapping(source)


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
