"""What is done to models, and what must not be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from constructs_optim.recipe.given import is_list

from .recipes import UNSAID, recipes
from .registry import Breach, policy_rule
from .template import METADATA_KEY, Template

if TYPE_CHECKING:
    from .settings import PlatformPolicy

_LOCATION = f"Metadata.{METADATA_KEY}.Techniques"
_OF_THE_LIBRARY = "an OptimizedEndpoint, which says what it serves"


@policy_rule(
    "POL010",
    setting="required_techniques",
    title="Models have the required techniques",
    looks_at="each model, and jobs whose model is elsewhere",
    reason="a model that is served as it comes wastes accelerators",
)
def _models_have_required_techniques(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for made in recipes(template):
        applied = made.recipe.get("Techniques")
        if not is_list(applied):
            yield Breach(made, _LOCATION, None, UNSAID, _OF_THE_LIBRARY)
            continue
        missing = [name for name in policy.required_techniques or () if not _is_among(name, map(str, applied))]
        if missing:
            yield Breach(
                made,
                _LOCATION,
                ", ".join(map(str, applied)) or None,
                f"the policy requires {' and '.join(missing)}",
                f"techniques=[...] with {' and '.join(missing)}",
            )


@policy_rule(
    "POL011",
    setting="forbidden_techniques",
    title="Models have no forbidden technique",
    looks_at="each model, and jobs whose model is elsewhere",
    reason="a technique may be unproven, or change answers",
)
def _models_have_no_forbidden_technique(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for made in recipes(template):
        applied = made.recipe.get("Techniques")
        if not is_list(applied):
            yield Breach(made, _LOCATION, None, UNSAID, _OF_THE_LIBRARY)
            continue
        for technique in map(str, applied):
            if any(_is_among(name, [technique]) for name in policy.forbidden_techniques or ()):
                yield Breach(
                    made,
                    _LOCATION,
                    technique,
                    "the policy forbids the technique",
                    f"techniques=[...] without {technique}",
                )


def _is_among(name: str, applied: Iterable[str]) -> bool:
    """Whether a kind, or one technique of a kind, is among those applied, which have the form ``kind=method``."""
    return any(technique == name or technique.partition("=")[0] == name for technique in applied)
