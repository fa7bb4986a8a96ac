"""A recipe as it was given, with what the catalog knows of its parts; this is what rules look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .catalog import images, instances, models
from .model import Model
from .techniques import Technique

TENSOR_PARALLEL_DEGREE = "OPTION_TENSOR_PARALLEL_DEGREE"
"""The variable by which job and container are told how many accelerators a copy takes."""


@dataclass(frozen=True)
class Recipe:
    """Nothing in it is checked yet. A looked-up part is None where the given one is wrong or unknown."""

    model: Any
    techniques: Any
    instance_type: Any
    region: Any = None
    environment: Any = None

    @cached_property
    def model_row(self) -> models.ModelRow | None:
        """The catalog's row of a JumpStart model."""
        model = self.model
        known = isinstance(model, Model) and model.kind == "hub" and isinstance(model.model_id, str)
        return models.find(model.model_id) if known else None

    @cached_property
    def instance(self) -> instances.InstanceRow | None:
        """The catalog's row of the instance type."""
        return instances.find(self.instance_type) if isinstance(self.instance_type, str) else None

    @cached_property
    def known_techniques(self) -> list[tuple[int, Technique]]:
        """The techniques among what was given, with their places."""
        given = self.techniques if isinstance(self.techniques, Sequence) else ()
        return [(place, technique) for place, technique in enumerate(given) if isinstance(technique, Technique)]

    @cached_property
    def all_techniques_are_known(self) -> bool:
        """Whether there is nothing but techniques where techniques belong."""
        return isinstance(self.techniques, Sequence) and len(self.known_techniques) == len(self.techniques)

    @cached_property
    def tensor_parallel_degree(self) -> int | None:
        """GPUs or NeuronCores that one copy of the model takes; None without an instance."""
        asked = (technique.tensor_parallel_degree for _, technique in self.known_techniques)
        return next(filter(None, asked), self.instance.parallel_units if self.instance else None)

    @cached_property
    def image(self) -> images.ImageRow | None:
        """The preferred image that has what every technique needs."""
        return images.select({need for _, technique in self.known_techniques for need in technique.capabilities})

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The given environment, where it is one."""
        given = self.environment
        sound = isinstance(given, Mapping) and all(isinstance(item, str) for pair in given.items() for item in pair)
        return given if sound else {}
