"""A model's recipes in a stack, one for each instance pool: their plans, and their resources' metadata.

Instance pools are instance types in order of preference: if one has no capacity, SageMaker uses the next.
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from aws_cdk import CfnResource, Stack
from constructs import Construct

from constructs_optim.constructs.stack.arguments import suggests_keywords
from constructs_optim.constructs.stack.container_registry import ContainerRegistry
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.findings import advise
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe import Model, Plan, Recipe, RecipeError, Violation, errors, plan
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, RecordedChoice, RecordedPool
from constructs_optim.recipe.choices import chosen
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.hosting import Hosting
from constructs_optim.recipe.memory import batch_size, longest_request
from constructs_optim.recipe.objectives import Feasibility, Objectives, ServedOtherwise
from constructs_optim.recipe.plan_data import HubSource, HuggingFaceSource, JobPlan, S3Source
from constructs_optim.recipe.recipe import JobSettings
from constructs_optim.recipe.rules import check, warnings
from constructs_optim.recipe.servers import ServerSettings, by_name
from constructs_optim.recipe.tasks import GENERATE
from constructs_optim.recipe.techniques import Technique
from constructs_optim.recipe.techniques.parsing import parse
from constructs_optim.recipe.tokens import is_token
from constructs_optim.templates.resource_types import METADATA_KEY

LOCK_FILE_CONTEXT = "constructs-optim:lock-file"
"""Context key: the path of the lock file. Default: ``optim.lock.json`` in the current folder."""
# The CDK CLI sets it for apps (aws-cdk-lib, cx-api: OUTDIR_ENV). Unit tests synthesize without it, so they write no
# lock file.
_WRITTEN_BY_CLI = "CDK_OUTDIR"
# The fields of a pool; all pools have the same model.
_LOCATED_FIELDS = ("techniques", "instance_type", "environment", "server")


@suggests_keywords
@dataclass(frozen=True)
class Pool:
    """One instance type of an endpoint, and the techniques that prepare the model for it.

    SageMaker launches instances of the first pool that has capacity. Each pool has its own recipe: its jobs create its
    artifact, and its instances serve it.

    Attributes:
        instance_type: the instance type, for instance ``ml.p5.48xlarge``.
        techniques: the techniques to apply for this type, in order. Default: none, on an endpoint without a model.
        artifact_key: the key of an existing artifact, as for ``OptimizedEndpoint``. Default: jobs create the
            artifacts that are missing from the store.
        environment: environment variables of the container on this type, which override the endpoint's. Default: none.
        server: the model server on this type. Default: the endpoint's.
    """

    instance_type: str
    techniques: Sequence[Technique] = ()
    artifact_key: str | None = None
    environment: Mapping[str, str] | None = None
    server: ServerSettings | None = None


def pools_of(
    model: Model | None,
    techniques: Sequence[Technique] | None,
    instance_type: str | None,
    instance_pools: Sequence[Pool] | None,
    artifact_key: str | None,
) -> tuple[Pool, ...]:
    """Return an endpoint's pools: the given ones, or a single pool of techniques and instance type."""
    options = {"techniques": techniques, "instance_type": instance_type, "artifact_key": artifact_key}
    if instance_pools is not None:
        if names := " and ".join(name for name, value in options.items() if value is not None):
            raise ValueError(f"{names} and instance_pools are set: set them in each Pool instead")
        if not (isinstance(instance_pools, Sequence) and all(isinstance(pool, Pool) for pool in instance_pools)):
            raise ValueError(
                f"instance_pools is {errors.shown(instance_pools)}, and it takes a list of Pools: "
                'instance_pools=[Pool("ml.g5.12xlarge", techniques=[Quantization.awq()])]'
            )
        return tuple(instance_pools)
    if instance_type is None:
        raise ValueError('an endpoint needs instance_type="ml.g5.12xlarge", for instance, or instance_pools')
    return (Pool(instance_type, techniques if techniques is not None else [], artifact_key),)


def choice_of(
    scope: Construct, model: Model | None, objectives: Objectives, given: Mapping[str, object]
) -> RecordedChoice:
    """Return the lock file's choice for a model; ``given`` are the arguments that the choice replaces.

    Raises RecipeError if the file has no choice, and ValueError if arguments exclude each other.
    """
    if names := " and ".join(name for name, value in given.items() if value is not None):
        raise ValueError(f"{names} and objectives are set: the choice for the objectives determines these values")
    if not isinstance(objectives, Objectives):
        raise ValueError(f"objectives is {errors.shown(objectives)}, and it takes Objectives(input_tokens=..., ...)")
    if model is None:
        raise ValueError('objectives need a model: model=Model.huggingface("Qwen/Qwen3-32B"), for instance')
    return chosen(_lock_file_of(scope).lock, model, objectives)


def pools_of_choice(
    choice: RecordedChoice, server: ServerSettings | None, artifact_key: str | None
) -> tuple[Pool, ...]:
    """Return the pools of a choice; a batch limit set in the endpoint's ``server`` takes precedence."""
    if artifact_key is not None and len(choice.pools) > 1:
        raise ValueError(
            f"artifact_key is a single key, and the choice has {len(choice.pools)} instance types, each with its own "
            "artifact"
        )
    return tuple(
        Pool(
            each.instance_type,
            [parse(technique) for technique in each.techniques],
            artifact_key,
            server=_limited(each, server),
        )
        for each in choice.pools
    )


def violations_of_choice(scope: Construct, objectives: Objectives, recipes: Sequence[ModelRecipe]) -> list[Violation]:
    """Return the violations of recipes whose additional settings leave no room for the objectives' requests."""
    served = [recipe.recipe_in(scope) for recipe in recipes]
    longest = min((each for each in map(longest_request, served) if each is not None), default=None)
    return check(Feasibility(objectives, longest, task=served[0].task.name if served else GENERATE))


def advice_on_choice(scope: Construct, choice: RecordedChoice, recipes: Sequence[ModelRecipe]) -> Iterator[Advice]:
    """Yield advice if models are served differently from the choice's forecast."""
    for pool, declared in zip(choice.pools, recipes, strict=True):
        recipe, limit = declared.recipe_in(scope), pool.max_concurrent_requests
        served = (recipe.serving_settings.name, batch_size(recipe) if limit is not None else None)
        yield from warnings(ServedOtherwise(served, (pool.server or served[0], limit)))


def _limited(pool: RecordedPool, server: ServerSettings | None) -> ServerSettings | None:
    limit = pool.max_concurrent_requests
    kind = by_name().get(pool.server or "")
    if limit is None or kind is None:
        return server
    declared = server or kind()
    if getattr(declared, "max_concurrent_requests", limit) is not None:
        return server
    # Not among the settings that are set: a variable may contradict it, which OPT236 advises on.
    settings = {**dict(declared), "max_concurrent_requests": limit}
    return type(declared).model_construct(declared.model_fields_set, **settings)


def pools_of_component(
    hosting: Hosting,
    model: Model,
    techniques: Sequence[Technique] | None,
    instance_pools: Sequence[Pool] | None,
    artifact_key: str | None,
) -> tuple[Pool, ...]:
    """Return a component's pools: the endpoint's instance types with the component's techniques."""
    if not hosting.pooled and instance_pools is not None:
        raise ValueError("instance_pools require an endpoint with instance pools: set techniques for its instance type")
    if not hosting.pooled:
        return pools_of(model, techniques, hosting.instance_types[0], None, artifact_key)
    pools = pools_of(model, techniques, None, instance_pools or (), artifact_key)
    if tuple(pool.instance_type for pool in pools) != tuple(hosting.instance_types):
        raise ValueError(
            f"instance_pools are of {', '.join(pool.instance_type for pool in pools) or 'no type'}, and the endpoint's "
            f"are of {', '.join(hosting.instance_types)}: set one for each, in the same order"
        )
    return pools


@dataclass(frozen=True)
class ModelRecipe:
    """The recipe of a model as the user declared it; planning checks it.

    Attributes:
        model: as for ``OptimizedEndpoint``, like all other attributes.
        accelerator_partition: the GPU partition type that a copy occupies.
        location: the prefix of its fields in violations: ``instance_pools[0].``, or empty.
    """

    model: Model
    techniques: Sequence[Technique]
    instance_type: str
    artifact_key: str | None = None
    environment: Mapping[str, str] | None = None
    server: ServerSettings | None = None
    accelerator_partition: str | None = None
    location: str = ""

    def violations(self, scope: Construct, jobs: JobSettings | None = None) -> list[Violation]:
        """Return all rules that the recipe breaks in the Region of ``scope``, with these job settings."""
        try:
            self.plan_in(scope, jobs)
        except RecipeError as refused:
            return [
                violation.model_copy(update={"location": self.location + violation.location})
                if violation.location.startswith(_LOCATED_FIELDS)
                else violation
                for violation in refused.violations
            ]
        return []

    def recipe_in(self, scope: Construct, settings: JobSettings | None = None) -> Recipe:
        """Return the recipe as data, with the containers recorded in the app's lock file."""
        region, recorded = StackContext.of(scope).known_region, _lock_file_of(scope).lock
        fixed = (self.model, self.techniques, self.instance_type, region, self.environment)
        return Recipe(*fixed, settings or JobSettings(), recorded, self.server, self.accelerator_partition)

    def plan_in(self, scope: Construct, jobs: JobSettings | None = None) -> Plan:
        """Return the plan for the stack's Region, or for any Region; planned once per stack."""
        context = StackContext.of(scope)
        stack, region = context.stack, context.known_region
        settings = jobs if jobs is not None and self.artifact_key is None else JobSettings()
        served = (self.server, self.accelerator_partition)
        key = (self.model, self.techniques, self.instance_type, self.environment, *served, settings)
        plans = context.once("plans", list[tuple[Any, Plan]])
        for known, planned in plans:
            if known == key:
                return planned
        recipe = self.recipe_in(scope, settings)

        def identity(uri: str) -> str:
            # A token's text has a different number in every run; its resolved value stays the same.
            resolved = context.resolve(uri)
            return uri if resolved == uri else json.dumps(resolved, sort_keys=True, separators=(",", ":"))

        registry = (lambda: ContainerRegistry.of(stack).host) if region is None else None
        planned = plan(recipe, registry=registry, identity=identity)
        # Copies, because the app may change its lists and dictionaries to declare another recipe.
        plans.append(((key[0], copy(key[1]), key[2], copy(key[3]), *key[4:]), planned))
        return planned


def recipes_of(
    model: Model | None,
    pools: Sequence[Pool],
    environment: Mapping[str, str] | None,
    server: ServerSettings | None,
    *,
    pooled: bool,
    partition: str | None = None,
) -> list[ModelRecipe]:
    """Return one recipe for each pool; without a model, return none and refuse all other settings."""
    if model is None:
        settings: dict[str, object] = {"environment": environment, "server": server}
        for pool in pools:
            settings |= {name: value for name, value in vars(pool).items() if value and name != "instance_type"}
        if unused := [name for name, value in settings.items() if value]:
            raise ValueError(
                f'{" and ".join(unused)} cannot be set without a model: set model=Model.jumpstart("<model id>") or '
                'Model.s3("s3://<bucket>/<prefix>/")'
            )
        return []
    return [
        ModelRecipe(
            model,
            pool.techniques,
            pool.instance_type,
            pool.artifact_key,
            _merged(environment, pool.environment),
            pool.server or server,
            partition,
            location=f"instance_pools[{index}]." if pooled else "",
        )
        for index, pool in enumerate(pools)
    ]


def _merged(*environments: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Merge environments; return one that is not a mapping unchanged, for the rules to refuse."""
    merged: dict[str, str] = {}
    for environment in environments:
        if environment is not None and not isinstance(environment, Mapping):
            return environment
        merged |= environment or {}
    return merged or None


def pool_scope(scope: Construct, recipe: ModelRecipe) -> Construct:
    """Return the scope of a recipe's resources: the pool, whose ID does not change with its index."""
    if not recipe.location:
        return scope
    return Construct(scope, "".join(part.capitalize() for part in recipe.instance_type.removeprefix("ml.").split(".")))


class _LockFile:
    """The app's lock file, read once per stack; it keeps the containers the same in the next synthesis."""

    def __init__(self, stack: Stack) -> None:
        self.path = Path(stack.node.try_get_context(LOCK_FILE_CONTEXT) or LOCK_FILE)
        self.pending: list[Lock] | None = None
        """What ``write_containers`` writes; None to write at once, under the CDK CLI."""

    @cached_property
    def lock(self) -> Lock:
        """The file's content.

        Raises:
            LockFileError: if it is not a lock file.
        """
        return Lock.read(self.path)

    def write(self, containers: Lock) -> str | None:
        """Add containers to the file; return what to do if it cannot be written."""
        # Another stack of the app may have recorded them in the meantime.
        lock = Lock.read(self.path)
        known = lock.entries()
        new = {name: entry for name, entry in containers.entries().items() if name not in known}
        added = [f"{name}: {entry}" if isinstance(entry, str) else name for name, entry in new.items()]
        self.lock = lock.adding(containers)
        if not added:
            return None
        try:
            self.lock.write(self.path)
        except OSError as error:
            return (
                f"{self.path} cannot be written ({error.strerror}), and does not contain {', '.join(added)}. A newer "
                "release of constructs-optim may choose other containers and create artifacts again: synthesize once "
                "where the file is writable, and commit it"
            )
        # Not an annotation, because the CDK's validation would report it as a finding to acknowledge.
        sys.stderr.write(f"{self.path} records {', '.join(added)}: commit it with the app\n")
        return None


def _lock_file_of(scope: Construct) -> _LockFile:
    context = StackContext.of(scope)
    return context.once(_LockFile, lambda: _LockFile(context.stack))


def record_containers(scope: Construct, containers: Lock) -> None:
    """Record new images and arguments in the lock file if the CDK CLI runs the app, or for ``write_containers``."""
    file = _lock_file_of(scope)
    if containers.entries().keys() <= file.lock.entries().keys():
        return
    if file.pending is not None:
        file.pending.append(containers)
    elif _WRITTEN_BY_CLI in os.environ and (problem := file.write(containers)) is not None:
        advise(scope, Advice("constructs-optim:lock-file", problem))


def keep_containers(stack: Stack) -> None:
    """Keep the stack's containers for ``write_containers``, because a refused synthesis records nothing."""
    _lock_file_of(stack).pending = []


def write_containers(stack: Stack) -> str | None:
    """Write the kept containers to the lock file; return what to do if it cannot be written."""
    file = _lock_file_of(stack)
    return file.write(reduce(Lock.adding, file.pending)) if file.pending else None


def shown(text: str) -> str:
    """Return text for messages; a token's own text means nothing to a reader."""
    return "(known when the stack is deployed)" if is_token(text) else text


def add_job_metadata(resource: CfnResource, plan: Plan, job: JobPlan) -> None:
    """Add a job's recipe and its artifact's key to the metadata."""
    metadata = drop_none(Recipe=plan.summary_of(job), Job=job.name, **_ingredients(plan), ArtifactKey=job.artifact_key)
    resource.add_metadata(METADATA_KEY, metadata)


def add_recipe_metadata(resource: CfnResource, plan: Plan, artifact_key: str | None = None) -> None:
    """Add a resource's recipe and its artifact's key to the metadata."""
    resource.add_metadata(METADATA_KEY, recipe_metadata(plan, artifact_key) | _ingredients(plan))


def recipe_metadata(plan: Plan, artifact_key: str | None) -> dict[str, Any]:
    """Return a recipe's summary, and its artifact's key unless it is only known at deployment."""
    is_known = artifact_key is not None and not is_token(artifact_key)
    return drop_none(Recipe=plan.summary, ArtifactKey=artifact_key if is_known else plan.artifact_key)


def _ingredients(plan: Plan) -> dict[str, Any]:
    """Return models and techniques by their names in policies (``constructs_optim.policy``)."""
    models: list[dict[str, str]] = []
    # A draft model that ships with its model has the same license and version, and is omitted.
    copied = [job.source for job in plan.jobs if job.copies]
    for source in (plan.source, *copied, *plan.container.sources):
        if isinstance(source, HuggingFaceSource):
            models.append({"ModelId": source.model_id, "Revision": source.revision})
        elif isinstance(source, HubSource):
            version = {"Version": str(source.version)} if source.version is not None else {}
            models.append({"ModelId": source.model_id, **version})
        elif isinstance(source, S3Source):
            models.append({"Uri": "(known at deployment)" if is_token(source.uri) else source.uri})
    distinct = [model for index, model in enumerate(models) if model not in models[:index]]
    return {"Models": distinct, "Techniques": [f"{technique.kind}={technique.name}" for technique in plan.techniques]}
