"""Plans a recipe: its jobs and its container as data.

Source of training jobs' requests: Amazon SageMaker API reference, CreateTrainingJob; developer guide, "Use a custom
entrypoint for training algorithms" (AlgorithmSpecification.ContainerEntrypoint), "Managed Spot Training",
"SageMaker-managed warm pools".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from constructs_optim.training.settings import COPY_VERSION, VERSION_HYPERPARAMETER

from .catalog import images, machine_images
from .catalog.lock import Lock, RecordedArtifact
from .catalog.models import ModelRow
from .compute import TrainingCompute
from .errors import RecipeError
from .keys import KEY_SCHEMA, artifact_key, canonical, sha256
from .memory import MAX_MODEL_LEN, batch_size, context_name, engine_setting, estimate, planned_context
from .model import Model
from .plan_data import (
    TOKEN_VARIABLE,
    ArtifactSource,
    ChannelPlan,
    ComponentPlan,
    ContainerPlan,
    HubSource,
    HuggingFaceSource,
    JobPlan,
    ModelSource,
    Plan,
    S3Source,
    Source,
    TechniquePlan,
    TokenSecret,
)
from .recipe import Recipe
from .rules import check, warnings
from .servers import MODEL_PATH, LmiServer
from .settings import as_text
from .techniques import PreOptimized, Stage, Technique, TrainedTechnique

# The SageMaker SDK's tag for a model with a draft.
_PROVIDER_TAG = "sagemaker-sdk:speculative-draft-model-provider"
_PRE_COMPILED_FOR = frozenset({"ml.inf2.48xlarge", "ml.trn1.32xlarge"})
# The component's share of the instance's memory is halved, because the container itself needs memory too.
_COMPONENT_MEMORY_SHARE = 0.5

# The folder of the scripts and requirements in the archive with a job's code.
_CODE_FOLDER = "training"
_COPY_SCRIPT = "copy_model.py"
_COPYING_INSTANCE, _COPYING_SECONDS, _UNKNOWN_GB = "ml.m5.2xlarge", 86_400, 1_000
_RESERVE_GB = 100
_NO_NAME = re.compile("[^a-z0-9]+")
# At most 256 characters (API reference, AlgorithmSpecification.ContainerEntrypoint), whatever the files' names are: $0
# and $1 are ContainerArguments. SageMaker reads the failure reason from the file output/failure. SAGEMAKER_BASE_DIR
# replaces /opt/ml outside of containers. The requirements are complete, have --require-hashes, and leave PyTorch to the
# image; without --no-deps, pip would require PyTorch's hash.
_START = (
    "cd ${SAGEMAKER_BASE_DIR:-/opt/ml} && python -m zipfile -e input/data/code/*.zip code && "
    "python -m pip install --no-deps -qr code/$1 || "
    "{ echo cannot install code or $1, see the log >output/failure; exit 1; }; "
    "exec python code/$0"
)
_COPYING_REQUIREMENTS = "copying.txt"


def plan(recipe: Recipe, *, registry: Callable[[], str] | None = None, identity: Callable[[str], str] = str) -> Plan:
    """Check and plan a recipe.

    Args:
        recipe: the recipe.
        registry: returns the host of the registry with the container images, which can contain tokens. Default: the
            host in the recipe's Region.
        identity: returns stable text for a URI with tokens, because the text of tokens differs between syntheses.

    Raises:
        RecipeError: if the recipe breaks rules; lists all of them.
        ValueError: if there is neither a Region nor a registry.
    """
    violations = check(recipe)
    if violations:
        raise RecipeError(violations)
    host = registry() if registry is not None else images.registry_host(recipe.region) if recipe.region else None
    if host is None:
        raise ValueError("plan() needs a region, or the registry of the container images")
    return _Planner(recipe, host, identity).plan()


class _Planner:
    """Plans a recipe that follows all rules."""

    def __init__(self, recipe: Recipe, host: str, identity: Callable[[str], str]) -> None:
        instance, image, degree = recipe.instance, recipe.serving_image.image, recipe.tensor_parallel_degree
        assert instance is not None  # noqa: S101 - OPT010 rejects such a recipe
        assert image is not None  # noqa: S101 - OPT030 does too
        assert degree is not None  # noqa: S101 - an instance has a number of accelerators
        self.recipe, self.instance, self.image, self.degree = recipe, instance, image, degree
        self.host, self.identity = host, identity
        self.techniques = [technique for _, technique in recipe.located_techniques]
        self.served_by_hub = any(technique.hub_configuration for technique in self.techniques)
        # The jobs' stages in order.
        self.stages = sorted({t.job_stage for t in self.techniques if t.job_stage is not None})
        self.source = self._source(recipe.served_model)
        # Jobs first copy Hugging Face models into the store: models served next to the model, then the model.
        beside = [t.beside for t in self.techniques if t.beside is not None]
        self.copied = {
            self._source(model): model for model in (*beside, recipe.served_model) if model.kind == "huggingface"
        }
        self.artifacts: dict[str, RecordedArtifact] = {}
        self.component = ComponentPlan(
            accelerators=degree,
            memory_mib=int(instance.memory_mib * (degree / instance.parallel_units) * _COMPONENT_MEMORY_SHARE),
        )

    def plan(self) -> Plan:
        jobs = [self._copy(model) for model in self.copied.values()]
        model, heads = self._in_store(self.source), 0
        for stage in self.stages:
            members = sorted((t for t in self.techniques if t.job_stage == stage), key=lambda t: t.order_in_job)
            jobs.append(self._job(stage, members, model, jobs))
            # Heads are served next to the model; every other job's artifact is the served model.
            if stage.makes_model:
                model = ArtifactSource(job=len(jobs) - 1)
            else:
                heads = len(jobs) - 1
        return Plan(
            source=self.source,
            task=self.recipe.task.name,
            techniques=tuple(
                TechniquePlan(kind=t.kind, name=t.name, label=t.label, settings=t.model_dump(mode="json"))
                for t in self.techniques
            ),
            instance_type=self.instance.name,
            accelerator=self.instance.accelerator,
            accelerator_count=self.instance.accelerator_count,
            tensor_parallel_degree=self.degree,
            jobs=tuple(jobs),
            container=self._container(model, heads),
            lossless=all(technique.lossless for technique in self.techniques),
            copy_requirements=self.component,
            containers=self._containers(jobs),
            memory=estimate(self.recipe),
            warnings=warnings(self.recipe),
        )

    def _containers(self, jobs: list[JobPlan]) -> Lock:
        """Return what the lock file records: all choices of the catalog or the library that nothing else pins."""
        recipe = self.recipe
        of_jobs = [recipe.job_image] if any(job.image and not job.trains for job in jobs) else []
        of_jobs += [recipe.copying_image] if any(job.copies for job in jobs) else []
        of_jobs += [recipe.training_image(technique) for _, technique in recipe.trained_techniques]
        lock = Lock(
            jobs={choice.name: choice.image.name for choice in of_jobs if choice.image is not None},
            artifacts=self.artifacts,
        )
        if self.served_by_hub:
            return lock
        pinned = recipe.server is not None and recipe.server.container_version == self.image.tag
        fixed = pinned or recipe.is_served_by_job_image
        length = context_name(recipe)
        return lock.adding(
            Lock(
                servers={} if fixed else {recipe.serving_image.name: self.image.name},
                tuning={name: tuning for name, tuning in (recipe.recommended, recipe.speculation) if name},
                contexts={length: planned_context(recipe) or 0} if length is not None else {},
            )
        )

    def _artifact(self, name: str, decided: RecordedArtifact) -> RecordedArtifact:
        """Return the recorded settings of an artifact, or this release's settings."""
        return self.artifacts.setdefault(name, self.recipe.containers.artifacts.get(name, decided))

    def _source(self, model: Model) -> ModelSource:
        if model.kind == "s3":
            return S3Source(
                uri=model.uri,
                accept_eula=model.accept_eula,
                encryption_key_arn=model.encryption_key_arn,
                manifest_uri=model.manifest_uri,
                manifest_etag=model.manifest_etag,
            )
        if model.kind == "huggingface":
            return HuggingFaceSource(model_id=model.model_id, revision=str(self.recipe.revision(model)))
        chosen = next((technique for technique in self.techniques if isinstance(technique, PreOptimized)), None)
        return HubSource(
            model_id=model.model_id,
            version=model.version,
            accept_eula=model.accept_eula,
            configuration=chosen.config if chosen is not None else None,
            accept_draft_eula=chosen is not None and chosen.accept_draft_eula,
        )

    def _in_store(self, source: ModelSource) -> Source:
        """Return the copy of a Hugging Face model; any other source is unchanged."""
        return ArtifactSource(job=[*self.copied].index(source)) if source in self.copied else source

    def _copy(self, model: Model) -> JobPlan:
        """Return the job that copies a Hugging Face model into the store."""
        source, host = self._source(model), self.host
        assert isinstance(source, HuggingFaceSource)  # noqa: S101 - no other source is copied
        image = self.recipe.copying_image.image
        assert image is not None  # noqa: S101 - the catalog has one
        compute = model.compute or TrainingCompute()
        settings = {"allow_pickle": model.allow_pickle, "allow_code": model.allow_code}
        artifact = self._artifact(model.model_id, copied(self.recipe.row(model)))
        recipe_key = sha256(canonical({"schema": KEY_SCHEMA, "copy": artifact.version, **settings}))
        token = None
        if model.token_secret_arn is not None:
            token = TokenSecret(arn=model.token_secret_arn, encryption_key_arn=model.encryption_key_arn)
        secret = {TOKEN_VARIABLE: token.arn} if token is not None else {}
        environment = {**secret, **(compute.environment or {})}
        request = {
            "AlgorithmSpecification": {
                **_start(_COPY_SCRIPT, _COPYING_REQUIREMENTS),
                "TrainingImage": f"{host}/{image.name}",
                "TrainingInputMode": "File",
            },
            **({"Environment": environment} if environment else {}),
            "HyperParameters": {
                "model_id": source.model_id,
                "revision": source.revision,
                **{name: as_text(value) for name, value in settings.items()},
                **_version(artifact),
            },
            "ResourceConfig": {
                "InstanceCount": 1,
                "InstanceType": compute.instance_type or _COPYING_INSTANCE,
                "VolumeSizeInGB": max(compute.volume_size_gb, artifact.storage_gb),
            },
            "StoppingCondition": self._stopping(_COPYING_SECONDS),
        }
        return JobPlan(
            kind="TrainingJob",
            name=f"copy-{_NO_NAME.sub('-', source.model_id.lower()).strip('-')}",
            recipe_key=recipe_key,
            artifact_key=artifact_key(recipe_key, source.identity),
            image=image.name,
            source=source,
            deployment_hash=sha256(f"{recipe_key}\n{source.identity}")[:8],
            request=request,
            token=token,
        )

    def _stopping(self, runtime_seconds: int) -> dict[str, int]:
        """Return a job's maximum runtime, with a default in seconds, and its maximum wait for instances."""
        jobs = self.recipe.jobs
        pending = {} if jobs.max_pending_seconds is None else {"MaxPendingTimeInSeconds": jobs.max_pending_seconds}
        return {"MaxRuntimeInSeconds": jobs.max_runtime_seconds or runtime_seconds, **pending}

    def _job(self, stage: Stage, members: list[Technique], source: Source, before: list[JobPlan]) -> JobPlan:
        """Return the job of a stage, with all its techniques."""
        stopping = self._stopping(stage.runtime_seconds)
        training = next((t for t in members if isinstance(t, TrainedTechnique)), None)
        # The inputs of the key besides techniques and source, and the fields of this kind of job.
        decides, fields = (
            self._optimization(members, stopping) if training is None else self._training(training, stopping)
        )
        techniques = [[t.kind, t.name, t.deciding_settings()] for t in members]
        recipe_key = sha256(canonical({"schema": KEY_SCHEMA, "techniques": techniques, **decides}))
        key, declared = None, f"{self.recipe.model.model_id}@{self.recipe.model.version}"
        if isinstance(source, ArtifactSource):
            previous = before[source.job]
            declared = previous.deployment_hash
            key = previous.artifact_key and artifact_key(recipe_key, f"artifact:{previous.artifact_key}")
        elif isinstance(source, S3Source):
            declared = self.identity(source.uri)
        elif isinstance(source, HubSource) and source.version is not None:
            # A hub's versions never change: the source's exact bytes are known now.
            key = artifact_key(recipe_key, f"hub:{source.hub_name}/{source.model_id}@{source.version}")
        reads = tuple(read for t in members for read in t.reads())
        identities = [recipe_key, declared, *(self.identity(read.uri) for read in reads)]
        return JobPlan(
            name="-".join(t.name.replace("_", "-") for t in members),
            recipe_key=recipe_key,
            artifact_key=key if not reads else None,
            source=source,
            deployment_hash=sha256("\n".join(identities))[:8],
            reads=reads,
            **fields,
        )

    def _optimization(
        self, members: list[Technique], stopping: dict[str, int]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return key inputs and fields of an optimization job, which runs all techniques of a stage."""
        configurations: list[dict[str, Any]] = []
        image = self.recipe.job_image.image
        assert image is not None  # noqa: S101 - OPT030 rejects such a recipe
        shared = {LmiServer.variable("tensor_parallel_size"): str(self.degree)}
        for technique in members:
            environment = {**technique.job_environment(), **shared}
            container = {"Image": f"{self.host}/{image.name}", "OverrideEnvironment": environment}
            details = technique.job_details()
            configurations.append(
                {technique.job_member: {**container, **details} if technique.takes_image else details}
            )
        reservation = self.recipe.jobs.training_plan_arn
        row, compiles = self.recipe.model_row, any(t.kind == "compilation" for t in members)
        takes_image = any(t.takes_image for t in members)
        decides = {
            "accelerator": self.instance.accelerator,
            "image": image.name,
            "tensor_parallel_degree": self.degree,
        }
        return decides if takes_image else {}, {
            "image": image.name if takes_image else None,
            "request": {
                "DeploymentInstanceType": self.instance.name,
                "OptimizationConfigs": configurations,
                "StoppingCondition": stopping,
                **({"TrainingPlanArns": [reservation]} if reservation is not None else {}),
            },
            "pre_compiled": row is not None
            and "pre_compiled" in row.supports
            and self.instance.name in _PRE_COMPILED_FOR
            and compiles,
        }

    def _training(self, training: TrainedTechnique, stopping: dict[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return key inputs and fields of a training job. The number of processes determines a step's batch size."""
        image, instance = self.recipe.training_image(training).image, self.recipe.training_instance(training.compute)
        assert image is not None  # noqa: S101 - the catalog has one
        assert instance is not None  # noqa: S101 - OPT162 rejects such a recipe
        compute, reservation = training.compute, self.recipe.jobs.training_plan_arn
        # If the model's name is known only at deployment, the record has only the technique's name.
        name = ":".join(filter(None, [self.recipe.recorded_name, training.name]))
        artifact = self._artifact(name, made(type(training), self.recipe.row(self.recipe.served_model)))
        if compute.spot:
            stopping["MaxWaitTimeInSeconds"] = stopping["MaxRuntimeInSeconds"] + compute.spot_wait_seconds
        request = {
            "AlgorithmSpecification": {
                **_start(training.script, training.requirements),
                "MetricDefinitions": [{"Name": metric.name, "Regex": metric.regex} for metric in training.metrics],
                "TrainingImage": f"{self.host}/{image.name}",
                "TrainingInputMode": "File",
            },
            # The processes of several instances communicate over the network.
            **({"EnableInterContainerTrafficEncryption": True} if compute.instance_count > 1 else {}),
            **({"EnableManagedSpotTraining": True} if compute.spot else {}),
            **({"Environment": dict(compute.environment)} if compute.environment else {}),
            "HyperParameters": {**training.all_hyperparameters, **_version(artifact)},
            "InputDataConfig": [channel(name, uri) for name, uri in training.channels.items()],
            "ResourceConfig": {
                "InstanceCount": compute.instance_count,
                "InstanceType": instance.name,
                **({"KeepAlivePeriodInSeconds": compute.keep_alive_seconds} if compute.keep_alive_seconds else {}),
                **({"TrainingPlanArn": reservation} if reservation is not None else {}),
                "VolumeSizeInGB": max(compute.volume_size_gb, artifact.storage_gb),
            },
            "StoppingCondition": stopping,
        }
        processes = {"processes": compute.instance_count * instance.accelerator_count} if training.distributed else {}
        return {"code": artifact.version, "image": image.name, **processes}, {
            "kind": "TrainingJob",
            "image": image.name,
            "request": request,
            "model_channel": training.model_channel,
        }

    def _container(self, model: Source, heads: int) -> ContainerPlan:
        techniques = self.techniques
        provider = next((t.draft_provider for t in techniques if t.draft_provider), None)
        environment = {} if self.served_by_hub else self._serving_environment()
        return ContainerPlan(
            image=None if self.served_by_hub else f"{self.host}/{self.image.name}",
            server=self.recipe.serving_settings.name if not self.served_by_hub else None,
            inference_ami_version=machine_images.needed(self.image.cuda, self.instance)
            if not self.served_by_hub
            else None,
            environment=self.recipe.serving_settings.overridden(
                environment, self.recipe.environment or {}, self.recipe.engine
            ),
            network_isolation=all(t.network_isolation for t in techniques),
            model=model,
            channels=tuple(self._channels(heads)),
            tags={_PROVIDER_TAG: provider} if provider is not None else {},
            component=self.component if any(t.inference_component for t in techniques) else None,
            max_concurrent_requests=batch_size(self.recipe),
            loads_adapters=self.recipe.serving_settings.loads_adapters
            and engine_setting(self.recipe, "enable_lora") == "true",
        )

    def _channels(self, heads: int) -> Iterator[ChannelPlan]:
        for technique in self.techniques:
            if technique.beside is not None:
                yield ChannelPlan(name=technique.name, source=self._in_store(self._source(technique.beside)))
            elif (channel := technique.channel(self.source, heads)) is not None:
                yield channel

    def _serving_environment(self) -> dict[str, str]:
        """Return the container's variables, except the user's own."""
        # No quantization: the artifact's config.json declares it, and naming the method would prevent the faster Marlin
        # kernels (LMI documentation on quantization).
        server = self.recipe.serving_settings
        arguments: dict[str, Any] = {"model": MODEL_PATH, "tensor_parallel_size": self.degree}
        if (name := self.recipe.model.served_name) is not None:
            arguments["served_model_name"] = name
        if engine_setting(self.recipe, "enable_lora") == "true":
            # A variable of the user's can turn on LoRA too, and the server needs more arguments for it.
            arguments["enable_lora"] = True
        if (length := planned_context(self.recipe)) is not None:
            # The server would not start with the model's maximum (OPT053 warns about it).
            arguments[MAX_MODEL_LEN] = length
        environment = server.environment(arguments | self.recipe.engine_arguments | arguments | server.arguments())
        environment |= self.recipe.tuning.environment
        for technique in self.techniques:
            environment |= technique.serving_environment()
        return environment


def copied(row: ModelRow | None) -> RecordedArtifact:
    """Return this release's settings for a copy: storage for the files, or a default if the size is unknown.

    A copy job downloads each file once. The reserve is as large as the weights, but at most a tenth of them and 100 GB:
    an account's default quota for a job's volume is 1,024 GB (runtime/preflight/quotas.py).
    """
    stored = _stored_gb(row)
    reserved = _UNKNOWN_GB if stored is None else math.ceil(stored + min(stored, 0.1 * stored + _RESERVE_GB))
    return RecordedArtifact(version=COPY_VERSION, storage_gb=reserved)


def made(technique: type[TrainedTechnique], row: ModelRow | None) -> RecordedArtifact:
    """Return this release's settings for a technique's training job, by the size of the model."""
    return RecordedArtifact(version=technique.code_version, storage_gb=technique.storage_gb(_stored_gb(row) or 0))


def _stored_gb(row: ModelRow | None) -> float | None:
    """Return the stored size of a model's weights in GB; None if unknown."""
    if row is None or row.parameters_billion is None:
        return None
    return row.stored_gb or row.parameters_billion * row.weight_bits / 8


def _version(artifact: RecordedArtifact) -> dict[str, str]:
    """Return the hyperparameter for a job that must build another version than the first."""
    return {VERSION_HYPERPARAMETER: str(artifact.version)} if artifact.version > 1 else {}


def _start(script: str, requirements: str) -> dict[str, list[str]]:
    """Return the command of a job that installs ``requirements`` and runs a script."""
    files = [f"{_CODE_FOLDER}/{name}" for name in (script, requirements)]
    return {"ContainerArguments": files, "ContainerEntrypoint": ["/bin/bash", "-c", _START]}


def channel(name: str, uri: str) -> dict[str, Any]:
    """Return an input channel: all objects under an S3 prefix, on every instance."""
    prefix = uri if uri.endswith(("/", "}")) else f"{uri}/"
    return {"ChannelName": name, "DataSource": data_source(prefix)}


def data_source(uri: str) -> dict[str, Any]:
    """Return an input channel's ``DataSource``: all objects whose keys start with the URI's prefix."""
    source = {"S3DataDistributionType": "FullyReplicated", "S3DataType": "S3Prefix", "S3Uri": uri}
    return {"S3DataSource": source}
