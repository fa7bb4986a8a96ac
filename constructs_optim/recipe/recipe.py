"""A recipe: what to do with which model, and what the catalog says of its parts."""

# The types are promises, which rules hold users to.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from .catalog import images, instances, models
from .settings import Settings
from .techniques import Medusa, Technique, TrainedTechnique, TrainingCompute
from .tokens import is_token

_Technique = TypeVar("_Technique", bound=Technique)


class Model(Settings):
    """A model to optimize. Made by :meth:`jumpstart` or :meth:`s3`."""

    kind: Literal["hub", "s3"]
    model_id: str = ""
    version: str | None = None
    uri: str = ""
    accept_eula: bool = False
    encryption_key_arn: str | None = None

    @staticmethod
    def jumpstart(model_id: str, *, version: str | None = None, accept_eula: bool = False) -> Model:
        """A model of SageMaker JumpStart, looked up in the public hub when the stack is deployed.

        Args:
            model_id: for instance ``meta-textgeneration-llama-3-70b-instruct``.
            version: for instance ``2.25.0``. Default: the newest when the stack is first deployed; pin it, so
                that the next deployment elsewhere makes the same artifact.
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
            encryption_key_arn: the KMS key that the files are encrypted with, where it is a customer's own; may be a
                token. Default: S3's own keys.

        Raises:
            RecipeError: for an argument of another type.
        """
        return Model(kind="s3", uri=uri, accept_eula=accept_eula, encryption_key_arn=encryption_key_arn)

    def __str__(self) -> str:
        if self.kind == "s3":
            return "a model in S3" if is_token(self.uri) else str(self.uri)
        return f"{self.model_id} {self.version}" if self.version else f"{self.model_id} (newest version)"


@dataclass(frozen=True)
class Recipe:
    """Techniques, in their order, for a model and an instance type. A property is None where its part is wrong.

    ``region`` chooses the registry of the container images; None where only the deployment knows it. ``environment``
    has more variables for the model's container, which win over the plan's own. ``max_runtime_seconds`` is that of
    every job; by default 36,000 (10 hours, as in the SageMaker SDK), 432,000 for EAGLE heads, and 86,400 for training
    jobs. ``containers`` are the images of the lock file (:mod:`constructs_optim.recipe.catalog.lock`): preferred.
    """

    model: Model
    techniques: Sequence[Technique]
    instance_type: str
    region: str | None = None
    environment: Mapping[str, str] | None = None
    max_runtime_seconds: int | None = None
    containers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def hub_model(self) -> Model | None:
        """The model, where it is one of JumpStart."""
        return self.model if isinstance(self.model, Model) and self.model.kind == "hub" else None

    @property
    def s3_model(self) -> Model | None:
        """The model, where it is in S3."""
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

        The fine-tuning whose model Medusa heads are trained on stands before them, as ``techniques[0].base``.
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
        """Whether its techniques are a list of techniques."""
        return isinstance(self.techniques, Sequence) and all(isinstance(item, Technique) for item in self.techniques)

    def techniques_of(self, kind: type[_Technique]) -> list[tuple[str, _Technique]]:
        """The techniques of a class, with their locations."""
        return [(location, technique) for location, technique in self.located_techniques if isinstance(technique, kind)]

    @cached_property
    def tensor_parallel_degree(self) -> int | None:
        """GPUs or NeuronCores that one copy of the model takes; None without an instance."""
        chosen = (technique.tensor_parallel_degree for _, technique in self.located_techniques)
        return next(filter(None, chosen), self.instance.parallel_units if self.instance else None)

    @cached_property
    def trained_techniques(self) -> list[tuple[str, TrainedTechnique]]:
        """The techniques that need a training job, with their locations."""
        return self.techniques_of(TrainedTechnique)

    def training_instance(self, compute: TrainingCompute) -> instances.InstanceRow | None:
        """The catalog's row of what a training runs on: the endpoint's instance type where it names none."""
        return self.instance if compute.instance_type is None else instances.find(compute.instance_type)

    def runs_on(self, technique: Technique, row: instances.InstanceRow) -> bool:
        """Whether a technique runs on an instance type: its kernels, and the service's jobs."""
        if row.kind != technique.accelerators or not row.runs_optimization:
            return False
        lowest, highest = technique.compute_capability
        has_kernels = row.compute_capability is None or lowest <= row.compute_capability <= highest
        return has_kernels and (row.sdk_lists or not technique.sdk_lists_only)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """What the techniques need of an image."""
        return frozenset(need for _, technique in self.located_techniques for need in technique.capabilities)

    @cached_property
    def image(self) -> images.ImageRow | None:
        """The recorded image, or the preferred one, that has what every technique needs, in the recipe's region."""
        return self.image_for(self.capabilities)[1]

    def image_for(self, capabilities: Collection[str]) -> tuple[str, images.ImageRow | None]:
        """An image that is capable of that, with the name that it is recorded by."""
        return images.choose(capabilities, self.region if isinstance(self.region, str) else None, self.containers)

    @cached_property
    def tensor_parallel_variable(self) -> str:
        """The container's variable for how many accelerators a copy takes."""
        variable = self.image.degree_variable if self.image is not None else None
        return variable or "OPTION_TENSOR_PARALLEL_DEGREE"

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The environment, where it maps text to text."""
        environment = self.environment
        if not isinstance(environment, Mapping):
            return {}
        return environment if all(isinstance(text, str) for pair in environment.items() for text in pair) else {}
