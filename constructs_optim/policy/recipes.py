"""The recipes of a template, as this library's resources describe them."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.templates.resource_types import JOBS, METADATA_KEY, MODELS
from constructs_optim.templates.template import Resource, Template

UNDESCRIBED = (
    f"it does not say what it is made of: it has no {METADATA_KEY} metadata, which this library's constructs write"
)
"""The reason of a breach at a model of another library: what cannot be seen does not pass."""


def recipes(template: Template) -> Iterator[Resource]:
    """The resources whose recipes are checked: every model, and every job whose model is not in this template.

    A chain of jobs is one recipe, checked once.
    """
    seen = list[object]()
    for model in template.of_type(*MODELS):
        seen.append(model.recipe.get("Recipe"))
        yield model
    for job in template.of_type(*JOBS):
        if job.recipe.get("Recipe") not in seen:
            seen.append(job.recipe.get("Recipe"))
            yield job
