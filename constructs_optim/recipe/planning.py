"""A plan: all that follows from a recipe, as data. Printing it explains the deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from constructs_optim.training.settings import CODE_VERSION

from .catalog import images
from .errors import RecipeError
from .keys import (
    KEY_SCHEMA,
    artifact_key,
    canonical,
    sha256,
)
from .memory import MAX_MODEL_LEN, context, estimate
from .plan_data import (
    ArtifactSource,
    ChannelPlan,
    ComponentPlan,
    ContainerPlan,
    HubDraftSource,
    HubSource,
    JobPlan,
    Plan,
    S3Source,
    Source,
    TechniquePlan,
)
from .recipe import Model, Recipe
from .rules import check, warnings
from .techniques import (
    Channel,
    Stage,
    Technique,
    Training,
)

_MODEL_PATH = "/opt/ml/model"
# As the SageMaker SDK tags a model with a draft.
_PROVIDER_TAG = "sagemaker-sdk:speculative-draft-model-provider"
_PRE_COMPILED_FOR = frozenset({"ml.inf2.48xlarge", "ml.trn1.32xlarge"})
# An inference component has its share of the instance's memory; half of that leaves room for the container itself.
_COMPONENT_MEMORY_SHARE = 0.5


def plan(recipe: Recipe, *, registry: Callable[[], str] | None = None, identity: Callable[[str], str] = str) -> Plan:
    """Check a recipe and plan it: the one place where its rules run.

    Args:
        recipe: what to do with which model, and where.
        registry: returns the host that container images are pulled from, which may hold tokens; called for a recipe
            that breaks no rule. Default: the host of the recipe's region.
        identity: returns stable text for a URI that holds tokens, whose own text changes from run to run. Default: the
            URI itself.

    Raises:
        RecipeError: with every rule the recipe breaks.
        ValueError: without a registry for a recipe that has no region.
    """
    violations = check(recipe)
    if violations:
        raise RecipeError(violations)
    host = registry() if registry is not None else images.registry_host(recipe.region) if recipe.region else None
    if host is None:
        raise ValueError("plan() needs a region, or the registry that container images are pulled from")
    return _Planner(recipe, host, identity).plan()


_TRAINING = frozenset({"training"})


class _Particular(NamedTuple):
    """What one kind of job has and another has not."""

    decides: dict[str, Any]
    """What decides the artifact's bytes besides techniques and source."""
    fields: dict[str, Any]
    """Of the :class:`JobPlan`."""


class _Planner:
    """Carries what all parts of one plan share; the recipe keeps every rule."""

    def __init__(self, recipe: Recipe, host: str, identity: Callable[[str], str]) -> None:
        instance, image, degree = recipe.instance, recipe.image, recipe.tensor_parallel_degree
        assert instance is not None  # noqa: S101 - OPT010 refused the recipe otherwise
        assert image is not None  # noqa: S101 - OPT030 likewise
        assert degree is not None  # noqa: S101 - an instance has a number of accelerators
        self.recipe, self.instance, self.image, self.degree = recipe, instance, image, degree
        self.host, self.image_uri = host, f"{host}/{image.name}"
        self.identity = identity
        self.model: Model = recipe.model
        self.techniques = [technique for _, technique in recipe.located_techniques]
        self.shared = {recipe.tensor_parallel_variable: str(degree)}
        # The stage of each job, in their order.
        self.stages = sorted({t.stage for t in self.techniques if t.stage is not None})

    def plan(self) -> Plan:
        jobs = self._jobs()
        return Plan(
            source=self._source(),
            techniques=tuple(
                TechniquePlan(kind=t.kind, name=t.name, label=t.label, settings=t.model_dump(mode="json"))
                for t in self.techniques
            ),
            instance_type=self.instance.name,
            accelerator=self.instance.accelerator,
            accelerator_count=self.instance.accelerator_count,
            tensor_parallel_degree=self.degree,
            jobs=jobs,
            container=self._container(jobs),
            lossless=all(technique.lossless for technique in self.techniques),
            copy_requirements=self._component(),
            containers=self._containers(),
            memory=estimate(self.recipe),
            warnings=warnings(self.recipe),
        )

    def _containers(self) -> dict[str, str]:
        needed: list[frozenset[str]] = []
        if not any(t.hub_configuration for t in self.techniques):
            needed.append(self.recipe.capabilities)
        if any(t.training() is not None for t in self.techniques):
            needed.append(_TRAINING)
        chosen = (self.recipe.image_for(capabilities) for capabilities in needed)
        return {name: image.name for name, image in chosen if image is not None}

    def _jobs(self) -> tuple[JobPlan, ...]:
        jobs: list[JobPlan] = []
        for stage in self.stages:
            members = sorted((t for t in self.techniques if t.stage == stage), key=lambda t: t.order_in_job)
            jobs.append(self._job(stage, members, jobs))
        return tuple(jobs)

    def _job(self, stage: Stage, members: list[Technique], before: list[JobPlan]) -> JobPlan:
        training = next((found for t in members if (found := t.training()) is not None), None)
        particular = self._optimization(stage, members) if training is None else self._training(stage, training)
        recipe_key = sha256(
            canonical(
                {
                    "schema": KEY_SCHEMA,
                    "techniques": [[t.kind, t.name, t.deciding_settings()] for t in members],
                    **particular.decides,
                }
            )
        )
        source: Source = ArtifactSource(job=len(before) - 1) if before else self._source()
        reads = tuple(S3Source(uri=uri) for t in members for uri in t.reads())
        declared = [before[-1].deployment_hash if before else self._declared()]
        declared += [self.identity(read.uri) for read in reads]
        return JobPlan(
            name="-".join(t.name.replace("_", "-") for t in members),
            recipe_key=recipe_key,
            artifact_key=self._artifact_key(recipe_key, before) if not reads else None,
            source=source,
            deployment_hash=sha256("\n".join([recipe_key, *declared]))[:8],
            reads=reads,
            **particular.fields,
        )

    def _optimization(self, stage: Stage, members: list[Technique]) -> _Particular:
        """An optimization job, which carries out all techniques of a stage."""
        takes_image = any(t.takes_image for t in members)
        row = self.recipe.model_row
        return _Particular(
            decides={
                "accelerator": self.instance.accelerator,
                "image": self.image.name,
                "tensor_parallel_degree": self.degree,
            }
            if takes_image
            else {},
            fields={
                "image": self.image.name if takes_image else None,
                "request": {
                    "DeploymentInstanceType": self.instance.name,
                    "OptimizationConfigs": [{t.job_member: self._part(t)} for t in members],
                    "StoppingCondition": {"MaxRuntimeInSeconds": self._runtime(stage)},
                },
                "pre_compiled": bool(
                    row is not None
                    and "pre_compiled" in row.supports
                    and self.instance.name in _PRE_COMPILED_FOR
                    and any(t.kind == "compilation" for t in members)
                ),
            },
        )

    def _training(self, stage: Stage, training: Training) -> _Particular:
        """A training job. How many processes take part decides how much is learned in a step."""
        image, instance = (
            self.recipe.image_for(_TRAINING)[1],
            self.recipe.training_instance(training.compute),
        )
        assert image is not None  # noqa: S101 - the catalog has one
        assert instance is not None  # noqa: S101 - OPT162 refused the recipe otherwise
        return _Particular(
            decides={
                "code": CODE_VERSION,
                "image": image.name,
                "processes": training.compute.instance_count * instance.accelerator_count,
            },
            fields={
                "kind": "TrainingJob",
                "image": image.name,
                "request": training_request(
                    training,
                    image=f"{self.host}/{image.name}",
                    instance_type=instance.name,
                    max_runtime_seconds=self._runtime(stage),
                ),
                "model_channel": training.model_channel,
                "code_channel": CODE_CHANNEL,
                "keeps_checkpoints": True,
                "recommends_image": False,
            },
        )

    def _runtime(self, stage: Stage) -> int:
        return self.recipe.max_runtime_seconds or stage.runtime_seconds

    def _part(self, technique: Technique) -> dict[str, Any]:
        if not technique.takes_image:
            return technique.job_details()
        return {
            "Image": self.image_uri,
            "OverrideEnvironment": {**technique.job_environment(), **self.shared},
            **technique.job_details(),
        }

    def _artifact_key(self, recipe_key: str, before: list[JobPlan]) -> str | None:
        """The key, where the source's exact bytes are known now: a hub's versions never change."""
        if before:
            previous = before[-1].artifact_key
            return artifact_key(recipe_key, f"artifact:{previous}") if previous is not None else None
        source = self._source()
        if isinstance(source, HubSource) and source.version is not None:
            return artifact_key(recipe_key, f"hub:{source.hub_name}/{source.model_id}@{source.version}")
        return None

    def _container(self, jobs: tuple[JobPlan, ...]) -> ContainerPlan:
        techniques = self.techniques
        channels = [channel for t in techniques if (channel := t.channel()) is not None]
        served_by_hub = any(t.hub_configuration for t in techniques)
        # Heads go beside the model; every other job's artifact is what is served.
        artifacts = [index for index in range(len(jobs)) if self.stages[index].makes_model]
        model: Source = ArtifactSource(job=artifacts[-1]) if artifacts else self._source()
        environment = {
            "HF_MODEL_ID": _MODEL_PATH,
            **self.shared,
            **self._shortened_context(),
            **{name: value for t in techniques for name, value in t.serving_environment().items()},
        }
        return ContainerPlan(
            image=None if served_by_hub else self.image_uri,
            # Not OPTION_QUANTIZE: the artifact's config.json says how its weights are stored, and the variable would
            # keep the faster Marlin kernels from being used (LMI documentation on quantization).
            environment={**({} if served_by_hub else environment), **(self.recipe.environment or {})},
            network_isolation=all(t.network_isolation for t in techniques),
            model=model,
            channels=tuple(self._channel(channel) for channel in channels),
            tags={_PROVIDER_TAG: channels[0].provider} if channels else {},
            component=self._component() if any(t.inference_component for t in techniques) else None,
        )

    def _shortened_context(self) -> dict[str, str]:
        """The longest request, where the model's own does not fit: the server would not start (OPT053 tells of it)."""
        found = context(self.recipe)
        return {} if found is None or found.shortened is None else {MAX_MODEL_LEN: str(found.shortened)}

    def _component(self) -> ComponentPlan:
        share = self.degree / self.instance.parallel_units
        return ComponentPlan(
            accelerators=self.degree, memory_mib=int(self.instance.memory_mib * share * _COMPONENT_MEMORY_SHARE)
        )

    def _channel(self, channel: Channel) -> ChannelPlan:
        source: Source
        match channel.kind:
            case "target_hub":
                model = self.model
                source = HubDraftSource(model_id=model.model_id, version=model.version, accept_eula=model.accept_eula)
            case "hub":
                source = HubSource(model_id=channel.model_id, version=channel.version, accept_eula=channel.accept_eula)
            case "job":
                beside = next(index for index, stage in enumerate(self.stages) if not stage.makes_model)
                source = ArtifactSource(job=beside, suffix=channel.suffix)
            case "s3":
                source = S3Source(uri=channel.uri, accept_eula=channel.accept_eula)
        return ChannelPlan(name=channel.name, source=source)

    def _source(self) -> HubSource | S3Source:
        model = self.model
        if model.kind == "s3":
            return S3Source(
                uri=model.uri,
                accept_eula=model.accept_eula,
                encryption_key_arn=model.encryption_key_arn,
            )
        configuration = next((getattr(t, "config", None) for t in self.techniques if t.hub_configuration), None)
        return HubSource(
            model_id=model.model_id,
            version=model.version,
            accept_eula=model.accept_eula,
            configuration=configuration,
        )

    def _declared(self) -> str:
        model = self.model
        return self.identity(model.uri) if model.kind == "s3" else f"{model.model_id}@{model.version}"


CODE_CHANNEL = "code"
"""The input channel that brings the training code, as one zip archive."""

# At most 256 characters; $0 is the first of ContainerArguments. What cannot be installed is written where SageMaker
# reads the reason of a failure. SAGEMAKER_BASE_DIR stands for /opt/ml where there is no container. requirements.txt is
# complete, says --require-hashes, and leaves PyTorch to the image: without --no-deps, pip would ask for a hash of it.
_START = (
    "cd ${SAGEMAKER_BASE_DIR:-/opt/ml} && python -m zipfile -e input/data/code/*.zip code && "
    "python -m pip install --no-deps -qr code/requirements.txt || "
    "{ echo cannot install code or requirements.txt, see the log >output/failure; exit 1; }; "
    "exec python code/$0"
)


def training_request(training: Training, *, image: str, instance_type: str, max_runtime_seconds: int) -> dict[str, Any]:
    """The body of CreateTrainingJob without name, role, the channels of model and code, output and checkpoints.

    Args:
        training: the job.
        image: the container's image, which has PyTorch.
        instance_type: what it runs on.
        max_runtime_seconds: how long it may run; with spot capacity, waiting comes on top.
    """
    compute = training.compute
    stopping = {"MaxRuntimeInSeconds": max_runtime_seconds}
    if compute.spot:
        stopping["MaxWaitTimeInSeconds"] = max_runtime_seconds + compute.spot_wait_seconds
    return {
        "AlgorithmSpecification": {
            "ContainerArguments": [training.script],
            "ContainerEntrypoint": ["/bin/bash", "-c", _START],
            "MetricDefinitions": [{"Name": name, "Regex": regex} for name, regex in training.metrics],
            "TrainingImage": image,
            "TrainingInputMode": "File",
        },
        # What the processes of several instances tell each other crosses the network.
        **({"EnableInterContainerTrafficEncryption": True} if compute.instance_count > 1 else {}),
        **({"EnableManagedSpotTraining": True} if compute.spot else {}),
        **({"Environment": dict(compute.environment)} if compute.environment else {}),
        "HyperParameters": dict(training.hyperparameters),
        "InputDataConfig": [channel(name, uri) for name, uri in training.channels.items()],
        "ResourceConfig": {
            "InstanceCount": compute.instance_count,
            "InstanceType": instance_type,
            **({"KeepAlivePeriodInSeconds": compute.keep_alive_seconds} if compute.keep_alive_seconds else {}),
            "VolumeSizeInGB": compute.volume_size_gb,
        },
        "StoppingCondition": stopping,
    }


def channel(name: str, uri: str) -> dict[str, Any]:
    """An input channel: all objects below an S3 prefix, on every instance."""
    prefix = uri if uri.endswith(("/", "}")) else f"{uri}/"
    return {"ChannelName": name, "DataSource": data_source(prefix)}


def data_source(uri: str) -> dict[str, Any]:
    """An input channel's ``DataSource``: all objects whose keys begin as the URI does."""
    source = {"S3DataDistributionType": "FullyReplicated", "S3DataType": "S3Prefix", "S3Uri": uri}
    return {"S3DataSource": source}
