"""A recipe as it was given, with what the catalog knows of its parts; this is what rules look at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from .catalog import images, instances, models
from .given import as_given, is_mapping, is_sequence
from .model import Model
from .techniques import Technique, TrainedTechnique, TrainingCompute


@dataclass(frozen=True)
class Recipe:
    """Nothing in it is checked yet. A looked-up part is None where the given one is wrong or unknown."""

    model: Any
    techniques: Any
    instance_type: Any
    region: Any = None
    environment: Any = None
    max_runtime_seconds: Any = None
    containers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The recorded images, by requirement (:class:`constructs_optim.recipe.lock.Lock`)."""

    @cached_property
    def model_row(self) -> models.ModelRow | None:
        """The catalog's row of a JumpStart model."""
        model = self.model
        return models.find(model.model_id) if isinstance(model, Model) and model.kind == "hub" else None

    @cached_property
    def instance(self) -> instances.InstanceRow | None:
        """The catalog's row of the instance type."""
        return instances.find(self.instance_type)

    @cached_property
    def known_techniques(self) -> list[tuple[str, Technique]]:
        """The techniques among what was given, with their places, such as ``techniques[0]``.

        One that was declared within another stands before it, as ``techniques[0].base``.
        """
        given = self.techniques if is_sequence(self.techniques) else ()
        found: list[tuple[str, Technique]] = []
        for place, technique in enumerate(given):
            if isinstance(technique, Technique):
                within = (part for part in map(as_given, technique.before()) if isinstance(part, Technique))
                found += [(f"techniques[{place}].base", part) for part in within]
                found.append((f"techniques[{place}]", technique))
        return found

    @cached_property
    def all_techniques_are_known(self) -> bool:
        """Whether there is nothing but techniques where techniques belong."""
        return is_sequence(self.techniques) and all(isinstance(technique, Technique) for technique in self.techniques)

    @cached_property
    def tensor_parallel_degree(self) -> int | None:
        """GPUs or NeuronCores that one copy of the model takes; None without an instance."""
        asked = (technique.tensor_parallel_degree for _, technique in self.known_techniques)
        return next(filter(None, asked), self.instance.parallel_units if self.instance else None)

    @cached_property
    def trained_techniques(self) -> list[tuple[str, TrainedTechnique]]:
        """Those that a training job carries out, with their places."""
        return [(place, found) for place, found in self.known_techniques if isinstance(found, TrainedTechnique)]

    def training_instance(self, compute: TrainingCompute) -> instances.InstanceRow | None:
        """The catalog's row of what a training runs on: the endpoint's instance type where it names none."""
        return self.instance if compute.instance_type is None else instances.find(compute.instance_type)

    def runs_on(self, technique: Technique, row: instances.InstanceRow) -> bool:
        """Whether a technique runs on an instance type: its kernels, and the service's jobs."""
        if row.kind != technique.accelerators or not row.runs_optimization:
            return False
        lowest, highest = technique.compute_capability
        built = row.compute_capability is None or lowest <= row.compute_capability <= highest
        return built and (row.sdk_lists or not technique.sdk_lists_only)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """What the techniques need of an image."""
        return frozenset(need for _, technique in self.known_techniques for need in technique.capabilities)

    @cached_property
    def image(self) -> images.ImageRow | None:
        """The recorded image, or the preferred one, that has what every technique needs, in the recipe's region."""
        return self.image_for(self.capabilities)[1]

    def image_for(self, capabilities: Collection[str]) -> tuple[str, images.ImageRow | None]:
        """An image that is capable of that, with the name that it is recorded by."""
        return images.choose(capabilities, self.region if isinstance(self.region, str) else None, self.containers)

    @cached_property
    def tensor_parallel_variable(self) -> str:
        """The variable by which the container is told how many accelerators a copy takes."""
        server = self.image.server if self.image is not None else None
        return server.tensor_parallel_degree if server is not None else "OPTION_TENSOR_PARALLEL_DEGREE"

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The given environment, where it is one."""
        return self.environment if _is_environment(self.environment) else {}


def _is_environment(given: object) -> TypeGuard[Mapping[str, str]]:
    return is_mapping(given) and all(isinstance(item, str) for pair in given.items() for item in pair)
