"""A plan: all that follows from a recipe, as data. Printing it explains the deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .catalog import images
from .errors import RecipeError, Violation
from .keys import KEY_SCHEMA, artifact_key, canonical, sha256
from .model import Model, is_token
from .recipe import TENSOR_PARALLEL_DEGREE, Recipe
from .rules import Advice, check, warnings
from .techniques import Technique, settings

PUBLIC_HUB = "SageMakerPublicHub"
_MODEL_PATH = "/opt/ml/model"
# The API's upper limit: weights of 35 GB and more are downloaded and loaded at the start of every instance.
_STARTUP_SECONDS = 3600


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def __hash__(self) -> int:
        return hash(canonical(self.model_dump(mode="json")))


class HubSource(_Data):
    """A model of a SageMaker hub; the newest version where ``version`` is None."""

    kind: Literal["hub"] = "hub"
    hub_name: str = PUBLIC_HUB
    model_id: str
    version: str | None = None
    accept_eula: bool = False


class S3Source(_Data):
    """Uncompressed files under an S3 prefix; ``uri`` may hold tokens."""

    kind: Literal["s3"] = "s3"
    uri: str
    accept_eula: bool = False


class OptimizationJobPlan(_Data):
    """One optimization job.

    Attributes:
        recipe_key: SHA-256 of what decides the artifact's bytes, except the source.
        artifact_key: the artifact's key where the source is pinned; None where it is known only at deployment.
        image: ``repository:tag`` of the container the job runs.
        request: the body of CreateOptimizationJob without name, role, model source and output, which are filled in
            when the stack is deployed.
    """

    recipe_key: str
    artifact_key: str | None
    image: str
    request: dict[str, Any]


class ContainerPlan(_Data):
    """How the artifact is served. Timeouts are in seconds.

    ``image`` is what the plan expects; the service recommends one when the job has run, and that one is used.
    """

    image: str
    environment: dict[str, str]
    network_isolation: bool = True
    model_data_download_timeout_seconds: int = _STARTUP_SECONDS
    container_startup_timeout_seconds: int = _STARTUP_SECONDS


class TechniquePlan(_Data):
    """A technique with every effective setting."""

    kind: str
    method: str
    label: str
    settings: dict[str, Any]


class Plan(_Data):
    """What a recipe comes to.

    Attributes:
        source: where the jobs read the model from.
        techniques: what is applied, in order.
        instance_type: what the endpoint runs on.
        accelerator: name of its accelerator, for instance ``a10g``.
        accelerator_count: how many of them an instance has.
        tensor_parallel_degree: how many of them one copy of the model takes.
        jobs: the jobs, each from the artifact of the one before; the last one's artifact is served.
        container: how that is served.
        deployment_hash: 8 hexadecimal digits that change exactly when another artifact is meant.
        warnings: what works and is worth a second look.
    """

    source: Annotated[HubSource | S3Source, Field(discriminator="kind")]
    techniques: tuple[TechniquePlan, ...]
    instance_type: str
    accelerator: str
    accelerator_count: int
    tensor_parallel_degree: int
    jobs: tuple[OptimizationJobPlan, ...]
    container: ContainerPlan
    deployment_hash: str
    warnings: tuple[Advice, ...] = ()

    @property
    def description(self) -> dict[str, Any]:
        """What people call it: model, techniques and instance type, as the manifest keeps them."""
        source = self.source
        if isinstance(source, HubSource):
            model = f"{source.model_id} {source.version or '(newest version)'}"
        else:
            model = "a model in S3" if is_token(source.uri) else source.uri
        return {
            "Model": model,
            "Techniques": [technique.label for technique in self.techniques],
            "InstanceType": self.instance_type,
        }


def violations(
    *,
    model: Any,
    techniques: Any,
    instance_type: Any,
    region: Any = None,
    environment: Any = None,
) -> list[Violation]:
    """All the rules a recipe breaks, whatever it is made of; an empty list where it can be planned."""
    return check(Recipe(model, techniques, instance_type, region, environment))


def plan(
    *,
    model: Model,
    techniques: Sequence[Technique],
    instance_type: str,
    region: str | None = None,
    registry: str | None = None,
    environment: Mapping[str, str] | None = None,
    max_runtime_seconds: int = 36_000,
    source_identity: str | None = None,
) -> Plan:
    """Plan a recipe.

    Args:
        model: where the weights come from.
        techniques: what to do with them, in order.
        instance_type: what the endpoint runs on, for instance ``ml.g5.12xlarge``.
        region: where; chooses the registry of the container images.
        registry: the registry's host, instead of the region's; may hold tokens.
        environment: more variables for the model's container; they win over the plan's own. Default: none.
        max_runtime_seconds: how long a job may run. Default: 36,000 (10 hours, as in the SageMaker SDK).
        source_identity: stable text for a source whose URI holds tokens, whose own text changes from run to run.

    Raises:
        RecipeError: with every rule the recipe breaks.
        ValueError: when neither ``region`` nor ``registry`` says where images are pulled from.
    """
    recipe = Recipe(model, techniques, instance_type, region, environment)
    broken = check(recipe)
    if broken:
        raise RecipeError(broken)
    host = registry or (images.registry_host(region) if region else None)
    if host is None:
        raise ValueError("plan() needs a region, or the registry that container images are pulled from")
    instance, image, degree = recipe.instance, recipe.image, recipe.tensor_parallel_degree
    assert instance is not None  # noqa: S101 - OPT010 refused the recipe otherwise
    assert image is not None  # noqa: S101 - OPT030 likewise
    assert degree is not None  # noqa: S101 - an instance has a number of accelerators

    chosen = [type(technique).model_validate(settings(technique)) for technique in techniques]
    recipe_key = sha256(
        canonical(
            {
                "schema": KEY_SCHEMA,
                "techniques": [[t.kind, t.method, _deciding_settings(t)] for t in chosen],
                "accelerator": instance.accelerator,
                "image": image.name,
                "tensor_parallel_degree": degree,
            }
        )
    )
    shared = {TENSOR_PARALLEL_DEGREE: str(degree)}
    job = OptimizationJobPlan(
        recipe_key=recipe_key,
        artifact_key=_artifact_key(recipe_key, model),
        image=image.name,
        request={
            "DeploymentInstanceType": instance_type,
            "OptimizationConfigs": [
                {
                    t.job_member: {
                        "Image": f"{host}/{image.name}",
                        "OverrideEnvironment": {**t.job_environment(), **shared},
                    }
                }
                for t in chosen
            ],
            "StoppingCondition": {"MaxRuntimeInSeconds": max_runtime_seconds},
        },
    )
    declared = source_identity or (model.uri if model.kind == "s3" else f"{model.model_id}@{model.version}")
    return Plan(
        source=_source(model),
        techniques=tuple(
            TechniquePlan(kind=t.kind, method=t.method, label=t.label, settings=t.model_dump(mode="json"))
            for t in chosen
        ),
        instance_type=instance_type,
        accelerator=instance.accelerator,
        accelerator_count=instance.accelerator_count,
        tensor_parallel_degree=degree,
        jobs=(job,),
        container=ContainerPlan(
            image=f"{host}/{image.name}",
            # Not OPTION_QUANTIZE: the artifact's serving.properties says how its weights are stored, and the variable
            # would keep the faster Marlin kernels from being used (LMI documentation on quantization).
            environment={"HF_MODEL_ID": _MODEL_PATH, **shared, **(environment or {})},
        ),
        deployment_hash=sha256(f"{recipe_key}\n{declared}")[:8],
        warnings=warnings(recipe),
    )


def _deciding_settings(technique: Technique) -> dict[str, Any]:
    """The settings that differ from their defaults: a setting that is added later leaves the keys there are.

    The tensor parallel degree is part of the key by itself, whoever chose it.
    """
    return technique.model_dump(mode="json", exclude_defaults=True, exclude={"tensor_parallel_degree"})


def _source(model: Model) -> HubSource | S3Source:
    accepted = model.accept_eula is True
    if model.kind == "s3":
        return S3Source(uri=model.uri, accept_eula=accepted)
    return HubSource(model_id=model.model_id, version=model.version, accept_eula=accepted)


def _artifact_key(recipe_key: str, model: Model) -> str | None:
    """The key, where the source's exact bytes are known now: a hub's versions never change."""
    if model.kind == "hub" and model.version is not None:
        return artifact_key(recipe_key, f"hub:{PUBLIC_HUB}/{model.model_id}@{model.version}")
    return None
