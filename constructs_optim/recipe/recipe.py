"""A recipe: a model with the techniques to apply, and the catalog's data about them."""

# The types are promises, which rules hold users to.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from .catalog import engine_arguments, images, instances, models
from .catalog.lock import Lock
from .compute import TrainingCompute
from .model import Model
from .servers import LmiServer, ServerSettings, VllmServer, by_name
from .techniques import REGISTRY, Medusa, Technique, TrainedTechnique

_Technique = TypeVar("_Technique", bound=Technique)
COPYING = "copying"
"""What the image of a job that copies a model makes."""


@dataclass(frozen=True)
class JobSettings:
    """How every job of a recipe runs, which decides nothing of what it makes. None: the default.

    By default a job runs for 36,000 seconds (10 hours, as in the SageMaker SDK), 432,000 for EAGLE heads, and 86,400
    for training jobs. ``max_pending_seconds`` is how long it waits for instances, ``training_plan_arn`` the reservation
    that they are taken from.
    """

    max_runtime_seconds: int | None = None
    max_pending_seconds: int | None = None
    training_plan_arn: str | None = None


@dataclass(frozen=True)
class Recipe:
    """Techniques, in their order, for a model and an instance type. Properties of invalid parts are None.

    ``region`` chooses the registry of the container images; None where it is known only at deployment. ``environment``
    has further variables for the model's container, which override the plan's. ``containers`` are the recorded images,
    of the lock file (:mod:`constructs_optim.recipe.catalog.lock`). ``server`` serves the model; by default the first
    that serves all techniques, vLLM before the others.
    """

    model: Model
    techniques: Sequence[Technique]
    instance_type: str
    region: str | None = None
    environment: Mapping[str, str] | None = None
    jobs: JobSettings = field(default_factory=JobSettings)
    containers: Lock = field(default_factory=Lock)
    server: ServerSettings | None = None

    @cached_property
    def served_model(self) -> Model:
        """The model that jobs start from and that is served: a technique's ready-made checkpoint, or the model."""
        checkpoints = (technique.ready_made for _, technique in self.located_techniques)
        return next((checkpoint for checkpoint in checkpoints if checkpoint is not None), self.model)

    @cached_property
    def located_models(self) -> list[tuple[str, Model]]:
        """The model, ready-made checkpoints and what is served beside them, with their locations."""
        located = [("model", self.model)] if isinstance(self.model, Model) else []
        for location, technique in self.located_techniques:
            for setting, model in (("checkpoint", technique.ready_made), ("model", technique.beside)):
                if model is not None:
                    located.append((f"{location}.{setting}", model))
        return located

    @property
    def copies_models(self) -> bool:
        """Whether a model of Hugging Face is copied into the store."""
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
        """What the catalog and the lock file know of the served model, or of the model that it is a checkpoint of."""
        if not isinstance(self.model, Model):
            return None
        rows = [self.row(model) for model in (self.served_model, self.model)]
        return next((row for row in rows if row is not None), None)

    def row(self, model: Model) -> models.ModelRow | None:
        """What the catalog and the lock file know of a model."""
        known = models.by_id() if model.kind == "hub" else models.of_hugging_face()
        return self.containers.row(model.name, known.get(model.name))

    def revision(self, model: Model) -> str | None:
        """The commit of a model of Hugging Face: its own, or the recorded one."""
        recorded = self.containers.models.get(model.model_id)
        return model.revision or (recorded.revision if recorded is not None else None)

    @cached_property
    def instance(self) -> instances.InstanceRow | None:
        """The catalog's row of the instance type."""
        return instances.find(self.instance_type)

    @cached_property
    def located_techniques(self) -> list[tuple[str, Technique]]:
        """The techniques with their locations, such as ``techniques[0]``.

        The fine-tuning below Medusa heads precedes them, as ``techniques[0].base``.
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
        """Whether ``techniques`` is a list of techniques only."""
        return isinstance(self.techniques, Sequence) and all(isinstance(item, Technique) for item in self.techniques)

    def techniques_of(self, kind: type[_Technique]) -> list[tuple[str, _Technique]]:
        """The techniques of a class, with their locations."""
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
        """What the user says of training jobs' compute resources: those of techniques, and those that copy models."""
        trained = [(f"{location}.compute", technique.compute) for location, technique in self.trained_techniques]
        copied = [(f"{place}.compute", model.compute) for place, model in self.located_models]
        return [*trained, *((place, compute) for place, compute in copied if compute is not None)]

    def training_instance(self, compute: TrainingCompute) -> instances.InstanceRow | None:
        """The catalog's row of a training's instance type, which is the endpoint's by default."""
        return self.instance if compute.instance_type is None else instances.find(compute.instance_type)

    def runs_on(self, technique: Technique, row: instances.InstanceRow) -> bool:
        """Whether a technique's kernels and jobs support an instance type."""
        # Training jobs have instances of their own.
        has_job = technique.job_stage is not None and not isinstance(technique, TrainedTechnique)
        if row.kind != technique.accelerators or (has_job and not row.runs_optimization):
            return False
        lowest, highest = technique.compute_capability
        has_kernels = row.compute_capability is None or lowest <= row.compute_capability <= highest
        if has_job and technique.makes and row.compute_capability is not None:
            has_kernels &= any(image.runs_on(row.compute_capability) for image in images.making(technique.makes))
        return has_kernels

    @cached_property
    def unnamed_technique(self) -> Technique | None:
        """The technique that the model itself is a checkpoint of; None where there is none, or the recipe names it.

        INT4 weights have several formats, which the catalog does not tell apart: nothing is required of them.
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
        """What the image of the optimization jobs must be able to make."""
        makers = (technique for _, technique in self.located_techniques if technique.job_stage is not None)
        return frozenset(name for technique in makers for name in technique.makes)

    @cached_property
    def serves(self) -> frozenset[str]:
        """What the image that serves the model must be able to read or do."""
        served = [technique for _, technique in self.located_techniques]
        served += [self.unnamed_technique] if self.unnamed_technique is not None else []
        return frozenset(name for technique in served for name in technique.serves)

    @cached_property
    def is_served_by_job_image(self) -> bool:
        """Whether only the image that makes the artifact can serve it."""
        return any(technique.served_by_job_image for _, technique in self.located_techniques)

    @cached_property
    def job_image(self) -> images.Choice:
        """The recorded or preferred image of the optimization jobs, in the recipe's region."""
        return self._chosen(self.job_images, images.requirement(self.makes), self.containers.jobs)

    @cached_property
    def job_images(self) -> list[images.ImageRow]:
        """The images of any region that make the artifact on the accelerator, the preferred one first."""
        capability = self.instance.compute_capability if self.instance is not None else None
        return [image for image in images.making(self.makes) if capability is None or image.runs_on(capability)]

    def training_image(self, technique: TrainedTechnique) -> images.Choice:
        """The recorded or preferred image of a technique's training job, in the recipe's region."""
        return self._chosen(images.making({technique.job_image}), technique.job_image, self.containers.jobs)

    @cached_property
    def copying_image(self) -> images.Choice:
        """The recorded or preferred image of jobs that copy models, in the recipe's region."""
        return self._chosen(images.making({COPYING}), COPYING, self.containers.jobs)

    @cached_property
    def serving_image(self) -> images.Choice:
        """The image that serves the model in the recipe's region: pinned, that of its job, recorded, or the newest."""
        if self.is_served_by_job_image:
            return self.job_image
        name = images.requirement(self.serves)
        if not isinstance(self.server, ServerSettings):
            return self._chosen(self.serving_images, name, self.containers.servers)
        recorded = self.containers.servers if self.server.container_version is None else {}
        return self._chosen(self.serving_images, f"{self.server.name}:{name}", recorded)

    @property
    def least_engine(self) -> str | None:
        """The least release of vLLM that serves the model, by vLLM's recipe of it; None where none is named."""
        row = self.model_row
        return row.recipe.engine if row is not None and row.recipe is not None else None

    @cached_property
    def serving_images(self) -> list[images.ImageRow]:
        """The images of any region that serve the model, the newest of the preferred server first."""
        if self.is_served_by_job_image:
            return self.job_images
        servers = [*by_name()] if not isinstance(self.server, ServerSettings) else [self.server.name]
        of_vllm = [VllmServer.name, LmiServer.name]
        # A release of vLLM says nothing about other engines.
        if self.least_engine is not None and self.server is None and images.serving(self.serves, of_vllm):
            servers = of_vllm
        capable = [image for image in images.serving(self.serves, servers) if image.has_engine(self.least_engine)]
        if not isinstance(self.server, ServerSettings):
            return capable
        version = self.server.container_version
        if version is None or not capable:
            return capable
        pinned = [row for row in capable if row.has_version(version)]
        is_new_tag = "-" in version and not any(row.has_version(version) for row in images.rows())
        return [images.uncatalogued(version, capable[0])] if is_new_tag else pinned

    def _chosen(self, capable: Sequence[images.ImageRow], name: str, recorded: Mapping[str, str]) -> images.Choice:
        return images.choose(capable, name, self.region if isinstance(self.region, str) else None, recorded)

    @cached_property
    def serving_settings(self) -> ServerSettings:
        """The server with its settings: the requested one, or that of the image that serves the model."""
        if isinstance(self.server, ServerSettings):
            return self.server
        image = self.serving_image.image
        return by_name()[image.server]() if image is not None and image.server is not None else LmiServer()

    @cached_property
    def recommended(self) -> tuple[str, models.Tuning]:
        """The name that the arguments by vLLM's recipe of the model are recorded by, and the arguments.

        Those that are recorded come before the catalog's. Without a name where there are none.
        """
        row = self.model_row
        if row is None or row.recipe is None or self.serving_settings.name != VllmServer.name:
            return "", models.Tuning()
        generation = self.instance.generation if self.instance is not None else None
        name = f"{row.model_id}@{generation}" if generation in row.recipe.generations else row.model_id
        tuned = self.containers.tuning.get(name, row.recipe.tuned(generation))
        return name if tuned else "", tuned

    @cached_property
    def tuning(self) -> models.Tuning:
        """The arguments by vLLM's recipe of the model that the engine's release has."""
        _, tuned = self.recommended
        known = engine_arguments.of_release(self.engine)
        arguments = {name: value for name, value in tuned.arguments.items() if known is None or name in known}
        return tuned.model_copy(update={"arguments": arguments})

    @property
    def engine(self) -> str | None:
        """The release of the engine that serves the model; None where it is not known."""
        return self.serving_image.image.engine if self.serving_image.image is not None else None

    @cached_property
    def engine_arguments(self) -> dict[str, Any]:
        """The engine's arguments by vLLM's names: of the model's recipe, the techniques, and the server's settings."""
        arguments = dict(self.tuning.arguments)
        if isinstance(self.model, Model) and self.served_model.allow_code:
            arguments["trust_remote_code"] = True
        for _, technique in self.located_techniques:
            arguments |= technique.engine_arguments()
        return {**arguments, **self.serving_settings.arguments()}

    def variable(self, argument: str) -> str:
        """The container's variable for an argument of the engine."""
        return self.serving_settings.variable(argument)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The environment; empty where it does not map text to text."""
        environment = self.environment
        if not isinstance(environment, Mapping):
            return {}
        return environment if all(isinstance(text, str) for pair in environment.items() for text in pair) else {}
