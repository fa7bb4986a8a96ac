"""A job of a template, or a reference to an artifact: what it makes, from what, and how it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe.keys import artifact_key
from constructs_optim.templates.json_values import literal, number
from constructs_optim.templates.resource_types import OPTIMIZED_ARTIFACT, TRAINING_JOB
from constructs_optim.templates.template import Resource
from constructs_optim.templates.text import text_of

from .hosted_endpoints import recipes_of
from .words import listed


@dataclass(frozen=True)
class JobFacts:
    """A job of a template, or a reference to an artifact that another stack makes."""

    resource: Resource

    @property
    def is_reference(self) -> bool:
        """Whether no job of this stack makes the artifact."""
        return self.resource.type == OPTIMIZED_ARTIFACT

    @property
    def recipe(self) -> str:
        """The recipe in one line; from the job's description where a release before metadata made the template."""
        if found := recipes_of(self.resource):
            return found[0]
        model, techniques, instance = self.described
        return f"{model}: {' + '.join(techniques)}, {instance}"

    @property
    def described(self) -> tuple[str, tuple[str, ...], str]:
        """Model with version, techniques, and the instance type it is for."""
        given = self.resource.properties.get("Description") or {}
        techniques = tuple(text_of(each) for each in given.get("Techniques") or ())
        return text_of(given.get("Model", "")), techniques, text_of(given.get("InstanceType", ""))

    @property
    def artifact_key(self) -> str | None:
        """The artifact's key where it is known before the deployment."""
        properties = self.resource.properties
        said = literal(self.resource.recipe.get("ArtifactKey"))
        if said is not None or self.is_reference:
            return said or literal(properties.get("ArtifactKey"))
        source = properties.get("Source") or {}
        version, recipe_key = literal(source.get("Version")), literal(properties.get("RecipeKey"))
        # What else a job reads is part of its key, and known only when its files are looked at.
        if source.get("Kind") != "hub" or version is None or recipe_key is None or properties.get("Reads"):
            return None
        return artifact_key(recipe_key, f"hub:{source.get('HubName')}/{source.get('ModelId')}@{version}")

    @property
    def is_training(self) -> bool:
        """Whether it is a training job, as opposed to an optimization job."""
        return self.resource.type == TRAINING_JOB

    @property
    def instance_type(self) -> str | None:
        """What the job runs on. An optimization job's request has no other than the one that serves."""
        return runs_on(self._request)

    @property
    def is_spot(self) -> bool:
        """Whether it takes spot capacity."""
        return self._request.get("EnableManagedSpotTraining") is True

    @property
    def instance_count(self) -> int:
        """How many instances it takes."""
        return number(self._resources.get("InstanceCount")) or 1

    @property
    def parts(self) -> frozenset[str]:
        """What it does, by its request: a chain's jobs have one description."""
        return parts_of(self._request)

    @property
    def max_seconds(self) -> int | None:
        """How long it may run."""
        return number((self._request.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds"))

    @property
    def decided_by(self) -> str:
        """What the artifact's key follows from, where it is known only at deployment."""
        properties = self.resource.properties
        source = properties.get("Source") or {}
        reads = [source, *(properties.get("Reads") or ())]
        places = [literal(each.get("S3Uri")) for each in reads if "S3Uri" in each]
        if source.get("Kind") == "artifact":
            return "the artifact of the job before it"
        if source.get("Kind") == "hub" and literal(source.get("Version")) is None:
            return f"the newest version of {text_of(source.get('ModelId'))}"
        if any(place is None for place in places):
            return "what is before it in the deployment"
        return f"the files below {listed([place for place in places if place is not None]) or 'its source'}"

    @property
    def decides(self) -> tuple[Any, ...]:
        """What another artifact follows from, where the key is not known."""
        given = self.resource.properties
        return tuple(given.get(name) for name in ("RecipeKey", "Source", "Reads", "ArtifactKey"))

    @property
    def _request(self) -> Mapping[str, Any]:
        return self.resource.properties.get("Request") or {}

    @property
    def _resources(self) -> Mapping[str, Any]:
        return self._request.get("ResourceConfig") or {}

    def makes_what(self, other: JobFacts) -> bool:
        """Whether it makes, in the same store, the artifact that ``other`` makes."""
        if text_of(self.resource.properties.get("Bucket")) != text_of(other.resource.properties.get("Bucket")):
            return False
        keys = self.artifact_key, other.artifact_key
        return keys[0] == keys[1] if None not in keys else self.decides == other.decides


def parts_of(request: Mapping[str, Any]) -> frozenset[str]:
    """What a job does: the members of an optimization job's configurations, or what a training job runs."""
    training = request.get("AlgorithmSpecification") or {}
    configured = [name for each in request.get("OptimizationConfigs") or () for name in each]
    return frozenset([*configured, *(text_of(each) for each in training.get("ContainerArguments") or ())])


def runs_on(request: Mapping[str, Any]) -> str | None:
    """The instance type in a job's request."""
    return literal(request.get("DeploymentInstanceType") or (request.get("ResourceConfig") or {}).get("InstanceType"))
