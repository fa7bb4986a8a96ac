"""A recipe planned for the stack it is declared in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration, Stack
from constructs import Construct

from constructs_optim.constructs.stack.container_registry import ContainerRegistry
from constructs_optim.constructs.stack.lock_file import record_containers, recorded_containers
from constructs_optim.constructs.stack.stack_facts import facts_of, is_token
from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.planning.plan import plan
from constructs_optim.recipe.techniques import Technique

from . import model_source


def plan_for(
    stack: Stack,
    registry: ContainerRegistry,
    *,
    model: Model,
    techniques: Sequence[Technique],
    instance_type: str,
    environment: Mapping[str, str] | None,
    max_runtime: Duration | None = None,
) -> Plan:
    """Plan a recipe for the stack's region, or for any where the stack has none.

    Raises:
        RecipeError: with every rule the recipe breaks.
    """
    region = region_of(stack)
    planned = plan(
        model=model,
        techniques=techniques,
        instance_type=instance_type,
        region=region,
        registry=registry.host if region is None else None,
        environment=environment,
        max_runtime_seconds=int(max_runtime.to_seconds()) if max_runtime is not None else None,
        identity=lambda uri: model_source.identity(stack, uri),
        containers=recorded_containers(stack),
    )
    record_containers(stack, planned.containers)
    return planned


def region_of(scope: Construct) -> str | None:
    """The region of ``scope``'s stack; None for one that may be deployed to any."""
    return facts_of(scope).known_region


def shown(text: str) -> str:
    """Text for people: a token's own text says nothing to them."""
    return "(known when the stack is deployed)" if is_token(text) else text
