"""The metadata of a resource that reviewers and policies read: its recipe, and its artifact's key.

What is known only at deployment is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aws_cdk import CfnResource

from constructs_optim.constructs.stack.stack_facts import is_token
from constructs_optim.recipe import Plan
from constructs_optim.recipe.planning.plan_data import HubSource, S3Source
from constructs_optim.templates.resource_types import METADATA_KEY

if TYPE_CHECKING:
    from constructs_optim.recipe.planning.plan_data import JobPlan

    from .hosted_model import HostedModel


def describe_job(resource: CfnResource, plan: Plan, job: JobPlan) -> None:
    """Say what a job is part of, and what it makes."""
    made = {"Recipe": plan.summary, "Job": job.name}
    resource.add_metadata(METADATA_KEY, made | _ingredients(plan) | _key(job.artifact_key))


def describe_recipe(resource: CfnResource, plan: Plan, given_key: str | None = None) -> None:
    """Say what a resource serves, by the key that was given where one was."""
    resource.add_metadata(METADATA_KEY, _recipe(plan, given_key) | _ingredients(plan))


def describe_hosted(resource: CfnResource, models: Sequence[HostedModel]) -> None:
    """Say what an endpoint, its configuration or a component serves: nothing for one without models of its own."""
    recipes = [_recipe(one.plan, one.artifact_key) for one in models]
    if recipes:
        resource.add_metadata(METADATA_KEY, recipes[0] if len(recipes) == 1 else {"Pools": recipes})


def _ingredients(plan: Plan) -> dict[str, Any]:
    """Models and techniques, each by the name that policies give it (``constructs_optim.policy``)."""
    models: list[dict[str, str]] = []
    for source in dict.fromkeys((plan.source, *plan.container.sources)):
        match source:
            case HubSource(version=None):
                models.append({"ModelId": source.model_id})
            case HubSource():
                models.append({"ModelId": source.model_id, "Version": str(source.version)})
            case S3Source():
                models.append({"Uri": "(known at deployment)" if is_token(source.uri) else source.uri})
            case _:  # A draft that comes with its model, and has its licence and version.
                pass
    known = [one for place, one in enumerate(models) if one not in models[:place]]
    return {"Models": known, "Techniques": [f"{one.kind}={one.name}" for one in plan.techniques]}


def _recipe(plan: Plan, given_key: str | None) -> dict[str, Any]:
    known = given_key is not None and not is_token(given_key)
    return {"Recipe": plan.summary, **_key(given_key if known else plan.artifact_key)}


def _key(artifact_key: str | None) -> dict[str, str]:
    return {"ArtifactKey": artifact_key} if artifact_key is not None else {}
