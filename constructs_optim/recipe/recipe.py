"""A recipe: a model with the techniques to apply, and the catalog's data about them."""

# Users can pass values of other types, which rules report.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, TypeVar

from . import tasks
from .catalog import engine_arguments, engine_models, images, instances, models
from .catalog.lock import Lock
from .compute import TrainingCompute
from .model import Model
from .servers import LmiServer, ServerSettings, VllmServer, by_name
from .techniques import REGISTRY, KvCache, Medusa, Technique, TrainedTechnique
from .tokens import is_token

_Technique = TypeVar("_Technique", bound=Technique)
_Result = TypeVar("_Result")
TRAINABLE = "trainable"
"""The catalog's name for support of models with the Llama and Mistral architectures."""
COPYING = "copying"
"""The capability of an image for jobs that copy models."""
_WITH_EXPERT_PARALLELISM = "deep_gemm_mega_moe"
# The least compute capability of GPUs with FlashInfer's kernels for experts.
_FLASHINFER = 9.0


def is_fp8_cache(argument: str, value: object) -> bool:
    """Return whether an engine argument selects an FP8 KV cache."""
    return argument == "kv_cache_dtype" and str(value).startswith("fp8")


@dataclass(frozen=True)
class JobSettings:
    """How every job of a recipe runs. These settings do not affect the artifact. None: the default.

    By default a job runs for at most 36,000 seconds (10 hours, as in the SageMaker SDK), 432,000 for EAGLE heads, and
    86,400 for training jobs. ``max_pending_seconds`` is how long it waits for instances, ``training_plan_arn`` the
    reservation that provides them.
    """

    max_runtime_seconds: int | None = None
    max_pending_seconds: int | None = None
    training_plan_arn: str | None = None


@dataclass(frozen=True)
class Recipe:
    """Techniques, in their order, for a model and an instance type. Properties of invalid parts are None.

    ``region`` determines the registry of the container images; None if the Region is known only at deployment.
    ``environment`` has additional variables for the model's container, which override the plan's. ``containers`` is the
    lock file's content (``constructs_optim.recipe.catalog.lock``). ``server`` serves the model; by default it is the
    first server that supports all techniques, with vLLM before the others. ``partition`` is the type of GPU partition
    that a copy of the model occupies.
    """

    model: Model
    techniques: Sequence[Technique]
    instance_type: str
    region: str | None = None
    environment: Mapping[str, str] | None = None
    jobs: JobSettings = field(default_factory=JobSettings)
    containers: Lock = field(default_factory=Lock)
    server: ServerSettings | None = None
    partition: str | None = None

    @cached_property
    def served_model(self) -> Model:
        """The model that jobs start from and that is served: a technique's ready-made checkpoint, or the model."""
        checkpoints = (technique.ready_made for _, technique in self.located_techniques)
        return next((checkpoint for checkpoint in checkpoints if checkpoint is not None), self.model)

    @cached_property
    def located_models(self) -> list[tuple[str, Model]]:
        """The model, ready-made checkpoints and additional models, with their locations."""
        located = [("model", self.model)] if isinstance(self.model, Model) else []
        for location, technique in self.located_techniques:
            for setting, model in (("checkpoint", technique.ready_made), ("model", technique.beside)):
                if model is not None:
                    located.append((f"{location}.{setting}", model))
        return located

    @cached_property
    def task(self) -> tasks.Task:
        """What the model is served for: as declared, or else as its files and its architecture say."""
        if isinstance(self.model, Model) and self.model.task is not None:
            return tasks.find(self.model.task)
        row = self.model_row
        if row is None:
            return tasks.find(tasks.GENERATE)
        own = tasks.of_architectures(row.architectures, row.labels)
        return tasks.find("embed" if row.pools and own == tasks.GENERATE else own)

    @property
    def is_converted(self) -> bool:
        """Whether the model's architecture generates text, and the engine is to pool its outputs."""
        row = self.model_row
        architectures = row.architectures if row is not None else ()
        return not self.task.generates and tasks.of_architectures(architectures, None) == tasks.GENERATE

    @property
    def copies_models(self) -> bool:
        """Whether a job copies a Hugging Face model into the store."""
        return any(model.kind == "huggingface" for _, model in self.located_models)

    @property
    def hub_model(self) -> Model | None:
        """The model, if it is a JumpStart model."""
        return self.model if isinstance(self.model, Model) and self.model.kind == "hub" else None

    @property
    def s3_model(self) -> Model | None:
        """The model, if it is in S3."""
        return self.model if isinstance(self.model, Model) and self.model.kind == "s3" else None

    @cached_property
    def model_row(self) -> models.ModelRow | None:
        """The row, in catalog and lock file, of the served model, or of the model that it is a checkpoint of."""
        if not isinstance(self.model, Model):
            return None
        rows = [self.row(model) for model in (self.served_model, self.model)]
        return next((row for row in rows if row is not None), None)

    def row(self, model: Model) -> models.ModelRow | None:
        """Return the row of a model in catalog and lock file."""
        known = models.by_id() if model.kind == "hub" else models.of_hugging_face()
        return self.containers.row(model.name, known.get(model.name))

    def published(self, technique: Technique) -> list[str]:
        """Return the IDs of the model's ready-made checkpoints that have the same precision as the technique's."""
        known = models.of_hugging_face()
        checkpoints = [each for name in models.published_for(self.model.name) for each in known[name].checkpoints]
        return [each.model_id for each in checkpoints if each.precision in technique.precisions]

    def revision(self, model: Model) -> str | None:
        """Return the commit of a Hugging Face model: its own, or the recorded one."""
        recorded = self.containers.models.get(model.model_id)
        return model.revision or (recorded.revision if recorded is not None else None)

    @cached_property
    def instance(self) -> instances.InstanceRow | None:
        """The catalog's row of the instance type, or of its partition."""
        row = instances.find(self.instance_type)
        return row.partitioned(self.partition) if row is not None and self.partition in row.partitions else row

    @cached_property
    def located_techniques(self) -> list[tuple[str, Technique]]:
        """The techniques with their locations, such as ``techniques[0]``.

        The fine-tuning that Medusa heads build on precedes them, as ``techniques[0].base``.
        """
        located: list[tuple[str, Technique]] = []
        for index, technique in enumerate(self.techniques if isinstance(self.techniques, Sequence) else ()):
            if isinstance(technique, Technique):
                if isinstance(technique, Medusa) and technique.base is not None:
                    located.append((f"techniques[{index}].base", technique.base))
                located.append((f"techniques[{index}]", technique))
        return located

    @cached_property
    def has_only_techniques(self) -> bool:
        """Whether ``techniques`` is a sequence that contains only techniques."""
        return isinstance(self.techniques, Sequence) and all(isinstance(item, Technique) for item in self.techniques)

    def techniques_of(self, kind: type[_Technique]) -> list[tuple[str, _Technique]]:
        """Return the techniques of a class, with their locations."""
        return [(location, technique) for location, technique in self.located_techniques if isinstance(technique, kind)]

    @cached_property
    def tensor_parallel_degree(self) -> int | None:
        """GPUs or NeuronCores per copy of the model; None without an instance."""
        chosen = (technique.tensor_parallel_degree for _, technique in self.located_techniques)
        return next(filter(None, chosen), self.instance.parallel_units if self.instance else None)

    @cached_property
    def trained_techniques(self) -> list[tuple[str, TrainedTechnique]]:
        """The techniques that need a training job, with their locations."""
        return [each for each in self.techniques_of(TrainedTechnique) if each[1].job_stage is not None]

    @cached_property
    def located_compute(self) -> list[tuple[str, TrainingCompute]]:
        """The user's compute settings for training jobs and for jobs that copy models, with their locations."""
        trained = [(f"{location}.compute", technique.compute) for location, technique in self.trained_techniques]
        copied = [(f"{place}.compute", model.compute) for place, model in self.located_models]
        return [*trained, *((place, compute) for place, compute in copied if compute is not None)]

    def training_instance(self, compute: TrainingCompute) -> instances.InstanceRow | None:
        """Return the catalog's row of a training job's instance type, by default the endpoint's."""
        return self.instance if compute.instance_type is None else instances.find(compute.instance_type)

    def runs_on(self, technique: Technique, row: instances.InstanceRow) -> bool:
        """Return whether a technique's kernels and jobs support an instance type."""
        # Training jobs have their own instances.
        has_job = technique.job_stage is not None and not isinstance(technique, TrainedTechnique)
        if row.kind != technique.accelerators or (has_job and not row.runs_optimization):
            return False
        lowest, highest = technique.compute_capability
        if row.compute_capability is None:
            return True
        if not lowest <= row.compute_capability <= highest:
            return False
        if not has_job or not technique.makes:
            return True
        makers = [*images.making(technique.makes), *self._kept_makers]
        return any(image.runs_on(row.compute_capability) for image in makers)

    @property
    def compiled_shape(self) -> tuple[int, int] | None:
        """The batch size and request length that a compiled artifact is limited to; None without a limit."""
        return next(filter(None, (technique.shape() for _, technique in self.located_techniques)), None)

    @cached_property
    def unnamed_technique(self) -> Technique | None:
        """The technique that the model itself is a checkpoint of; None if there is none, or the recipe includes it.

        INT4 weights exist in several formats, which the catalog does not distinguish, so they require nothing.
        """
        if any(technique.weight_bits is not None for _, technique in self.located_techniques):
            return None
        row = self.row(self.model) if isinstance(self.model, Model) else None
        precision = row.precision if row is not None else None
        made = [each for each in REGISTRY["quantization"].values() if precision in each.precisions]
        is_one = len({each.serves for each in made}) == 1
        return made[0].model_validate({"checkpoint": self.model}) if is_one else None

    @cached_property
    def makes(self) -> frozenset[str]:
        """The capabilities that the image of optimization jobs needs."""
        makers = (technique for _, technique in self.located_techniques if technique.job_stage is not None)
        return frozenset(name for technique in makers for name in technique.makes)

    @cached_property
    def serves(self) -> frozenset[str]:
        """The capabilities that the serving image needs."""
        served = [technique.serves for _, technique in self.located_techniques]
        if self.unnamed_technique is not None:
            row = self.row(self.model)
            # The format is unknown for a checkpoint, and for a model without a recipe of vLLM.
            is_published = row is not None and row.recipe is not None and not row.is_checkpoint
            made = self.unnamed_technique
            served.append(made.serves_published or made.serves if is_published else made.serves)
        return frozenset(name for names in served for name in names)

    @cached_property
    def is_served_by_job_image(self) -> bool:
        """Whether only the image that builds the artifact can serve it."""
        return any(technique.served_by_job_image for _, technique in self.located_techniques)

    @cached_property
    def job_image(self) -> images.Choice:
        """The recorded or preferred image of the optimization jobs, in the recipe's Region."""
        own, earlier = self._job_names
        return self._chosen(self.job_images, own, self.containers.jobs, self._kept_makers, earlier)

    @cached_property
    def _job_names(self) -> tuple[str, str | None]:
        """The lock file's name for the image of the optimization jobs, and the name that earlier releases used.

        Jobs for Blackwell, and jobs for models that need a newer engine, can need other images than the app's other
        jobs.
        """
        name = images.requirement(self.makes)
        if self.job_engine is not None:
            return f"vllm-{self.job_engine}:{name}", None
        capability = self.instance.compute_capability if self.instance is not None else None
        is_blackwell = capability is not None and capability >= images.BLACKWELL
        return (f"{images.FOR_BLACKWELL}:{name}", name) if is_blackwell else (name, None)

    @cached_property
    def _kept_makers(self) -> list[images.ImageRow]:
        recorded = self.containers.jobs
        kept = [image for name in self._job_names if name is not None for image in self._kept(name, recorded)]
        return [image for image in kept if self._accelerates(image)]

    @cached_property
    def job_images(self) -> list[images.ImageRow]:
        """The images, in any Region, that make the artifact on the accelerator, the preferred one first."""
        return [image for image in self._makers if image.has_engine(self.job_engine)]

    @cached_property
    def _makers(self) -> list[images.ImageRow]:
        return [image for image in images.making(self.makes) if self._accelerates(image)]

    @cached_property
    def job_engine(self) -> str | None:
        """The lowest vLLM release in an image that can quantize the model; None if the preferred image is new enough.

        A job loads the model with the libraries of that release.
        """
        if self.is_served_by_job_image or not self.makes:
            return None
        return None if all(image.has_engine(self._loads_from) for image in self._makers[:1]) else self._loads_from

    @property
    def _loads_from(self) -> str | None:
        """The lowest vLLM release that supports the model's architecture; None if all do, or it is unknown.

        For models with the Llama and Mistral architectures, vLLM's recipes name newer releases than the models need.
        """
        return None if self.model_row is None or TRAINABLE in self.model_row.supports else self.least_engine

    @cached_property
    def outdated_jobs(self) -> list[tuple[str, Technique, str]]:
        """The techniques whose jobs do not support the model, with the newest vLLM release that they support."""
        least, found = self._loads_from, list[tuple[str, Technique, str]]()
        for location, technique in self.located_techniques if least is not None else ():
            assert least is not None  # noqa: S101 - for the type checker
            # Jobs that compile have a single image, which also quantizes by other means.
            if technique.job_stage is None or technique.served_by_job_image is not self.is_served_by_job_image:
                continue
            newest = technique.newest_engine
            if newest is None and technique.makes and not self.is_served_by_job_image and not self.job_images:
                newest = max(self._makers, key=lambda image: image.release).engine if self._makers else None
            if newest is not None and not images.is_from(newest, least):
                found.append((location, technique, newest))
        return found

    def _accelerates(self, image: images.ImageRow) -> bool:
        capability = self.instance.compute_capability if self.instance is not None else None
        return capability is None or image.runs_on(capability)

    def training_image(self, technique: TrainedTechnique) -> images.Choice:
        """Return the recorded or preferred image of a technique's training job, in the recipe's Region."""
        return self._chosen_for(technique.job_image)

    @cached_property
    def copying_image(self) -> images.Choice:
        """The recorded or preferred image of jobs that copy models, in the recipe's Region."""
        return self._chosen_for(COPYING)

    def _chosen_for(self, job: str) -> images.Choice:
        recorded = self.containers.jobs
        return self._chosen(images.making({job}), job, recorded, self._kept(job, recorded))

    @cached_property
    def serving_image(self) -> images.Choice:
        """The image that serves the model in the recipe's Region: pinned, the job's, recorded, or the newest."""
        if self.is_served_by_job_image:
            return self.job_image
        name, recorded = images.requirement(self.serves), self.containers.servers
        servers = {*by_name()}
        if isinstance(self.server, ServerSettings):
            version = self.server.container_version
            name = ":".join([self.server.name, *([version] if version is not None else []), name])
            servers = {self.server.name}
        kept = [image for image in self._kept(name, recorded) if image.server in servers]
        if self._recorded_tuning is not None:
            # This image served the model before the catalog named a newer release of the engine.
            images_before = images.recorded_for(name, recorded).values()
            kept += [image for image in images.serving(self.serves, servers) if image.name in images_before]
        return self._chosen(self.serving_images, name, recorded, kept)

    @cached_property
    def choices(self) -> list[tuple[str, images.Choice]]:
        """The images of jobs and of the model, each with the section of the lock file that records it."""
        chosen = [("jobs", self.job_image)]
        chosen += [("jobs", self.training_image(technique)) for _, technique in self.trained_techniques]
        chosen += [("jobs", self.copying_image)] if self.copies_models else []
        return chosen if self.is_served_by_job_image else [*chosen, ("servers", self.serving_image)]

    @property
    def least_engine(self) -> str | None:
        """The lowest vLLM release that serves the model, according to vLLM's recipe; None if it names none."""
        row = self.model_row
        return row.recipe.engine if row is not None and row.recipe is not None else None

    @cached_property
    def serving_images(self) -> list[images.ImageRow]:
        """The images of servers, in any Region, that serve the model, the newest of the preferred server first."""
        servers = [*by_name()] if not isinstance(self.server, ServerSettings) else [self.server.name]
        of_vllm = [VllmServer.name, LmiServer.name]
        if not self.task.generates and self.server is None:
            servers = [VllmServer.name]
        # A release of vLLM says nothing about other engines.
        elif self.least_engine is not None and self.server is None and images.serving(self.serves, of_vllm):
            servers = of_vllm
        capable = [image for image in images.serving(self.serves, servers) if image.has_engine(self.least_engine)]
        version = self.server.container_version if isinstance(self.server, ServerSettings) else None
        if version is None:
            return self._loading_images(capable)
        pinned = [row for row in capable if row.has_version(version)]
        is_new_tag = "-" in version and not any(row.has_version(version) for row in images.rows())
        repositories = {row.repository for row in capable[:1]} if is_new_tag else ()
        return pinned + [images.uncataloged(f"{repository}:{version}") for repository in repositories]

    def _loading_images(self, capable: list[images.ImageRow]) -> list[images.ImageRow]:
        """Return the images without those whose engine dropped the model's architecture; OPT289 is for the others."""
        architectures = self.model_row.architectures if self.model_row is not None else ()
        if not architectures:
            return capable
        known = [(image, engine_models.of_image(image)) for image in capable]
        loads = {image.name: models.loads(architectures) for image, models in known if models is not None}
        is_somewhere = True in loads.values()
        return [image for image in capable if not is_somewhere or loads.get(image.name) is not False]

    def _kept(self, name: str, recorded: Mapping[str, str]) -> list[images.ImageRow]:
        """Return recorded images with this name that are not in the catalog: they remain in use, but are untested."""
        entries = images.recorded_for(name, recorded).values()
        return [images.uncataloged(image) for image in entries if images.find(image) is None]

    def _chosen(
        self,
        capable: Sequence[images.ImageRow],
        name: str,
        recorded: Mapping[str, str],
        kept: Sequence[images.ImageRow],
        earlier: str | None = None,
    ) -> images.Choice:
        region = self.region if isinstance(self.region, str) else None
        return images.choose(capable, name, region, recorded, kept, earlier)

    @cached_property
    def serving_settings(self) -> ServerSettings:
        """The server with its settings: the requested one, or the server of the image that serves the model."""
        if isinstance(self.server, ServerSettings):
            return self.server
        image = self.serving_image.image
        return by_name()[image.server]() if image is not None and image.server is not None else LmiServer()

    @property
    def recorded_name(self) -> str | None:
        """The name of the served model in the lock file; None if its location is known only at deployment."""
        models_here = (self.served_model, self.model) if isinstance(self.model, Model) else ()
        return next((model.name for model in models_here if model.name and not is_token(model.name)), None)

    @cached_property
    def _recorded_tuning(self) -> models.Tuning | None:
        """The recorded arguments of the model on the accelerator, which can be empty; None if nothing is recorded.

        Earlier releases recorded them by the catalog's row, for a generation of GPUs or for all GPUs.
        """
        name, row, instance = self.recorded_name, self.model_row, self.instance
        if name is None or instance is None:
            return None
        earlier = [name, row.model_id] if row is not None else [name]
        names = [f"{name}@{instance.accelerator}"]
        names += [known + suffix for known in earlier for suffix in (f"@{instance.generation}", "")]
        return next((self.containers.tuning[known] for known in names if known in self.containers.tuning), None)

    @cached_property
    def recommended(self) -> tuple[str, models.Tuning]:
        """The lock file's name for the arguments from vLLM's recipe of the model, and the arguments.

        Recorded arguments override the catalog's. Models without arguments are recorded too. The name is empty for
        other servers, and for a model that is known only at deployment.
        """
        if self.instance is None or self.recorded_name is None or self.serving_settings.name != VllmServer.name:
            return "", models.Tuning()
        name, row = f"{self.recorded_name}@{self.instance.accelerator}", self.model_row
        if self._recorded_tuning is not None:
            return name, self._recorded_tuning
        tuned = row.recipe.tuned(self.instance.generation) if row is not None and row.recipe is not None else None
        return name, tuned or models.Tuning()

    @cached_property
    def tuning(self) -> models.Tuning:
        """The arguments from vLLM's recipe that the engine's release has and the accelerators support."""
        _, tuned = self.recommended
        known = engine_arguments.of_release(VllmServer.name, self.engine)
        arguments = {name: value for name, value in tuned.arguments.items() if known is None or name in known.rows}
        if self.instance is not None and not self.runs_on(KvCache.fp8(), self.instance):
            # The recipe is for GPUs with FP8.
            arguments = {name: value for name, value in arguments.items() if not is_fp8_cache(name, value)}
        tuned = tuned.model_copy(update={"arguments": arguments})
        return tuned if self._has_kernels(arguments) else tuned.without_kernels()

    def _has_kernels(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the kernels that vLLM's recipe chooses run the served weights on the accelerators.

        Source: vLLM 0.30, ``models/deepseek_v4/nvidia/model.py``, and ``model_executor/layers/fused_moe`` for
        FlashInfer's kernels.
        """
        if any(each.weight_bits is not None and each.ready_made is None for _, each in self.located_techniques):
            return False
        chosen = [str(arguments.get(name, "")) for name in ("moe_backend", "linear_backend")]
        if _WITH_EXPERT_PARALLELISM in chosen and not arguments.get("enable_expert_parallel"):
            return False
        capability = self.instance.compute_capability if self.instance is not None else None
        return capability is None or capability >= _FLASHINFER or not any("flashinfer" in name for name in chosen)

    @cached_property
    def speculation(self) -> tuple[str, models.Tuning]:
        """The lock file's name for vLLM's recommendation for a speculative technique, and the recommendation.

        The name is empty if vLLM's recipe has no recommendation, or the technique has its own settings.
        """
        row = self.model_row
        if row is None or row.recipe is None:
            return "", models.Tuning()
        for _, technique in self.located_techniques:
            settings = next(filter(technique.is_described_by, row.recipe.speculation), None)
            if settings is not None and (tokens := settings.get("num_speculative_tokens")) is not None:
                name = f"{row.model_id}+{technique.name}"
                known = models.Tuning(arguments={"num_speculative_tokens": tokens})
                return name, self.containers.tuning.get(name, known)
        return "", models.Tuning()

    @property
    def engine(self) -> str | None:
        """The release of the engine that serves the model; None if unknown."""
        return self.serving_image.image.engine if self.serving_image.image is not None else None

    @cached_property
    def engine_arguments(self) -> dict[str, Any]:
        """The engine's arguments by vLLM's names: of the model's recipe, techniques, and server."""
        arguments = dict(self.tuning.arguments)
        if isinstance(self.model, Model) and self.served_model.allow_code:
            arguments["trust_remote_code"] = True
        arguments |= self.task.arguments(converted=self.is_converted)
        for _, technique in self.located_techniques:
            arguments |= technique.engine_arguments()
        _, known = self.speculation
        if known:
            arguments["speculative_config"] = {**arguments["speculative_config"], **known.arguments}
        return {**arguments, **self.serving_settings.arguments()}

    def variable(self, argument: str) -> str:
        """Return the container's variable for an engine argument."""
        return self.serving_settings.variable(argument)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The environment; empty if it does not map text to text."""
        environment = self.environment
        if not isinstance(environment, Mapping):
            return {}
        return environment if all(isinstance(text, str) for pair in environment.items() for text in pair) else {}

    @cached_property
    def results(self) -> dict[Callable[[Recipe], Any], Any]:
        """The cached results of functions of the recipe (``once``)."""
        return {}


def once(function: Callable[[Recipe], _Result]) -> Callable[[Recipe], _Result]:
    """Compute a function once per recipe, like a cached property, because many rules call it."""

    @wraps(function)
    def found(recipe: Recipe) -> _Result:
        # The key is the wrapper, which has its module's name, so that a recipe can be pickled.
        if found not in recipe.results:
            recipe.results[found] = function(recipe)
        return recipe.results[found]

    return found
