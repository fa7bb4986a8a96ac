"""A recipe: a model with the techniques to apply, and the catalog's data about them."""

# The types are promises, which rules hold users to.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from .catalog import images, instances, models
from .catalog.lock import Lock
from .servers import LmiServer, ServerSettings, by_name
from .settings import Settings
from .techniques import Medusa, Technique, TrainedTechnique, TrainingCompute
from .tokens import is_token

_Technique = TypeVar("_Technique", bound=Technique)
TRAINING = "training"
"""What the image of a training job makes."""


class Model(Settings):
    """A model to optimize, created by :meth:`jumpstart` or :meth:`s3`."""

    kind: Literal["hub", "s3"]
    model_id: str = ""
    version: str | None = None
    uri: str = ""
    accept_eula: bool = False
    encryption_key_arn: str | None = None

    @staticmethod
    def jumpstart(model_id: str, *, version: str | None = None, accept_eula: bool = False) -> Model:
        """A model of SageMaker JumpStart, resolved in the public hub when the stack is deployed.

        Args:
            model_id: for instance ``meta-textgeneration-llama-3-70b-instruct``.
            version: for instance ``2.25.0``. Default: the newest when the stack is first deployed; pin it, so that
                every stack builds the same artifact.
            accept_eula: whether you have read and accept the model's licence. Default: you do not.

        Raises:
            RecipeError: for an argument of another type.
        """
        return Model(kind="hub", model_id=model_id, version=version, accept_eula=accept_eula)

    @staticmethod
    def s3(uri: str, *, accept_eula: bool = False, encryption_key_arn: str | None = None) -> Model:
        """Uncompressed model files (Hugging Face layout) under an S3 prefix.

        Args:
            uri: for instance ``s3://bucket/models/llama/``; may be or contain a token.
            accept_eula: passed on for sources that demand it. Default: it is not.
            encryption_key_arn: the customer managed KMS key that the files are encrypted with; may be a token. Default:
                S3's own keys.

        Raises:
            RecipeError: for an argument of another type.
        """
        return Model(kind="s3", uri=uri, accept_eula=accept_eula, encryption_key_arn=encryption_key_arn)

    @property
    def served_name(self) -> str | None:
        """The name by which requests may name it: its id, or the last folder of its prefix; None for a token."""
        name = self.model_id or self.uri.rstrip("/").rpartition("/")[2]
        return name if name and not is_token(self.uri) else None

    def __str__(self) -> str:
        if self.kind == "s3":
            return "a model in S3" if is_token(self.uri) else str(self.uri)
        return f"{self.model_id} {self.version}" if self.version else f"{self.model_id} (newest version)"


@dataclass(frozen=True)
class Recipe:
    """Techniques, in their order, for a model and an instance type. Properties of invalid parts are None.

    ``region`` chooses the registry of the container images; None where it is known only at deployment. ``environment``
    has further variables for the model's container, which override the plan's. ``max_runtime_seconds`` applies to every
    job; by default 36,000 (10 hours, as in the SageMaker SDK), 432,000 for EAGLE heads, and 86,400 for training jobs.
    ``containers`` are the recorded images, of the lock file (:mod:`constructs_optim.recipe.catalog.lock`). ``server``
    serves the model; by default the first that serves all techniques, vLLM before the others.
    """

    model: Model
    techniques: Sequence[Technique]
    instance_type: str
    region: str | None = None
    environment: Mapping[str, str] | None = None
    max_runtime_seconds: int | None = None
    containers: Lock = field(default_factory=Lock)
    server: ServerSettings | None = None

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
        """The catalog's row of a JumpStart model."""
        return models.find(self.hub_model.model_id) if self.hub_model is not None else None

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
        return self.techniques_of(TrainedTechnique)

    def training_instance(self, compute: TrainingCompute) -> instances.InstanceRow | None:
        """The catalog's row of a training's instance type, which is the endpoint's by default."""
        return self.instance if compute.instance_type is None else instances.find(compute.instance_type)

    def runs_on(self, technique: Technique, row: instances.InstanceRow) -> bool:
        """Whether a technique's kernels and jobs support an instance type."""
        if row.kind != technique.accelerators or not row.runs_optimization:
            return False
        lowest, highest = technique.compute_capability
        has_kernels = row.compute_capability is None or lowest <= row.compute_capability <= highest
        return has_kernels and (row.sdk_lists or not technique.sdk_lists_only)

    @cached_property
    def makes(self) -> frozenset[str]:
        """What the image of the optimization jobs must be able to make."""
        return frozenset(name for _, technique in self.located_techniques for name in technique.makes)

    @cached_property
    def serves(self) -> frozenset[str]:
        """What the image that serves the model must be able to read or do."""
        return frozenset(name for _, technique in self.located_techniques for name in technique.serves)

    @cached_property
    def is_served_by_job_image(self) -> bool:
        """Whether only the image that makes the artifact can serve it."""
        return any(technique.served_by_job_image for _, technique in self.located_techniques)

    @cached_property
    def job_image(self) -> images.Choice:
        """The recorded or preferred image of the optimization jobs, in the recipe's region."""
        return self._chosen(images.making(self.makes), images.requirement(self.makes), self.containers.jobs)

    @cached_property
    def training_image(self) -> images.Choice:
        """The recorded or preferred image of training jobs, in the recipe's region."""
        return self._chosen(images.making({TRAINING}), TRAINING, self.containers.jobs)

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

    @cached_property
    def serving_images(self) -> list[images.ImageRow]:
        """The images of any region that serve the model, the newest of the preferred server first."""
        if self.is_served_by_job_image:
            return images.making(self.makes)
        if not isinstance(self.server, ServerSettings):
            return images.serving(self.serves, by_name())
        version = self.server.container_version
        capable = images.serving(self.serves, [self.server.name])
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
