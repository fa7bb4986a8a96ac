"""The recipes of a template: what resources say they are made of."""

from __future__ import annotations

from collections.abc import Iterator

from .template import JOB_TYPES, METADATA_KEY, MODEL_TYPES, DeclaredResource, Template

UNSAID = f"it does not say what it is made of: it has no {METADATA_KEY} metadata, which this library's constructs write"
"""The reason for a finding at a model of somebody else's: what cannot be seen does not pass."""


def recipes(template: Template) -> Iterator[DeclaredResource]:
    """What is judged for its recipe: every model, and every job whose model is not in this template.

    A chain of jobs is one recipe, judged once.
    """
    said = list[object]()
    for model in template.of_type(*MODEL_TYPES):
        said.append(model.recipe.get("Recipe"))
        yield model
    for job in template.of_type(*JOB_TYPES):
        if job.recipe.get("Recipe") not in said:
            said.append(job.recipe.get("Recipe"))
            yield job
