"""Whether a deployment reuses an artifact, joins a running job or runs a new one, and the cost of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from constructs_optim.templates.json_values import as_array, as_object, literal
from constructs_optim.templates.resource_types import OPTIMIZED_ARTIFACT, TRAINING_JOB
from constructs_optim.templates.template import Resource
from constructs_optim.templates.text import text_of

from .formatting import between, capitalized, counted, duration, listed, money
from .report import JobReport, Outcome
from .values import count, objects


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact in a store; ``state`` and ``detail`` as ``constructs-optim artifacts`` prints them."""

    state: str
    detail: str
    made_at: str | None = None


class JobKind(NamedTuple):
    """The properties that make job durations comparable; a step is, for example, ``ModelQuantizationConfig``."""

    model_id: str
    techniques: tuple[str, ...]
    steps: frozenset[str]
    instance_type: str | None

    @staticmethod
    def of(description: Mapping[str, Any], request: Mapping[str, Any]) -> JobKind:
        """Return the kind of a job, from its recipe's description and its request to SageMaker."""
        arguments = as_array(as_object(request.get("AlgorithmSpecification")).get("ContainerArguments"))
        configured = [name for config in objects(request.get("OptimizationConfigs")) for name in config]
        return JobKind(
            text_of(description.get("Model", "")).partition(" ")[0],
            tuple(text_of(technique) for technique in as_array(description.get("Techniques"))),
            # The first argument is the script; the others are what it needs.
            frozenset([*configured, *(PurePosixPath(text_of(argument)).name for argument in arguments[:1])]),
            instance_type_of(request),
        )


class PastJob(NamedTuple):
    """A completed job, its duration, and its billed seconds, which are fewer on Spot Instances.

    Source: Amazon SageMaker developer guide, "Managed Spot Training": BillableTimeInSeconds, at the price on demand.
    """

    kind: JobKind
    seconds: float
    billed_seconds: float | None = None


@dataclass(frozen=True)
class StoreContents:
    """The artifacts of a store by key, and the jobs that produced them."""

    bucket: str
    artifacts: Mapping[str, StoredArtifact]
    past_jobs: Sequence[PastJob] = ()


@dataclass(frozen=True)
class Prices:
    """Hourly prices by instance type, in US dollars, and their source."""

    hosting: Mapping[str, float] = field(default_factory=dict[str, float])
    training: Mapping[str, float] = field(default_factory=dict[str, float])
    optimization: Mapping[str, float] = field(default_factory=dict[str, float])
    source: str = ""


@dataclass(frozen=True)
class StackEvidence:
    """Prices, and the searched stores by the logical ID of the job or reference."""

    prices: Prices = field(default_factory=Prices)
    stores: Mapping[str, StoreContents] = field(default_factory=dict[str, StoreContents])


@dataclass(frozen=True)
class ArtifactJob:
    """A job of a template, or a reference to the artifact of another stack."""

    resource: Resource

    @property
    def is_reference(self) -> bool:
        """Whether another stack produces the artifact."""
        return self.resource.type == OPTIMIZED_ARTIFACT

    @property
    def request(self) -> Mapping[str, Any]:
        """The job's request to SageMaker."""
        return as_object(self.resource.get("Request"))

    @property
    def artifact_key(self) -> str | None:
        """The artifact's key; None if it is resolved at deployment."""
        key = literal(self.resource.recipe.get("ArtifactKey"))
        return key or (literal(self.resource.get("ArtifactKey")) if self.is_reference else None)

    @property
    def artifact_name(self) -> str:
        """The artifact in a sentence, by the first 12 digits of its key."""
        return f"artifact {self.artifact_key[:12]}" if self.artifact_key is not None else "the artifact"

    @property
    def key_inputs(self) -> str:
        """The inputs of an artifact's key that is resolved at deployment."""
        source = as_object(self.resource.get("Source"))
        if source.get("Kind") == "artifact":
            return "the artifact of the job before it"
        if source.get("Kind") == "hub" and literal(source.get("Version")) is None:
            return f"the newest version of {text_of(source.get('ModelId'))}"
        inputs = [source, *objects(self.resource.get("Reads"))]
        uris = [literal(item.get("S3Uri")) for item in inputs if "S3Uri" in item]
        if None in uris:
            return "resources that are created before it"
        return f"the files below {listed([uri for uri in uris if uri is not None]) or 'its source'}"

    def has_artifact_of(self, other: ArtifactJob | None) -> bool:
        """Return whether it has the same artifact in the same store as ``other``."""
        if other is None or text_of(self.resource.get("Bucket")) != text_of(other.resource.get("Bucket")):
            return False
        if self.artifact_key is not None and other.artifact_key is not None:
            return self.artifact_key == other.artifact_key
        names = ("RecipeKey", "Source", "Reads", "ArtifactKey")
        return all(self.resource.get(name) == other.resource.get(name) for name in names)


def recipes_of(resource: Resource) -> list[str]:
    """Return the recipes in a resource's metadata, one line each; one for every instance pool."""
    recipes = objects(resource.recipe.get("Pools")) or [resource.recipe]
    return [str(recipe["Recipe"]) for recipe in recipes if "Recipe" in recipe]


def instance_type_of(request: Mapping[str, Any]) -> str | None:
    """Return the instance type of a job; for an optimization job, the endpoint's."""
    resources = as_object(request.get("ResourceConfig"))
    return literal(request.get("DeploymentInstanceType") or resources.get("InstanceType"))


def report_job(
    before: ArtifactJob | None, after: ArtifactJob | None, evidence: StackEvidence, *, is_requested: bool = True
) -> JobReport:
    """Return the report on an artifact; ``is_requested`` tells whether its resource changes."""
    job = after or before
    assert job is not None  # noqa: S101 - one of the two is set
    store = evidence.stores.get(job.resource.logical_id)
    if after is None:
        outcome, sentence = "removed", f"{capitalized(job.artifact_name)} is no longer used; it stays in its store."
    else:
        outcome, sentence = _outcome(after, store, is_same=after.has_artifact_of(before), is_requested=is_requested)
        if before is not None and not (after.is_reference or after.has_artifact_of(before)):
            sentence = f"Another artifact than before ({before.artifact_name}). {sentence}"
    report = JobReport(
        logical_id=job.resource.logical_id,
        recipe=next(iter(recipes_of(job.resource)), ""),
        artifact_key=after.artifact_key if after is not None else None,
        artifact_key_before=before.artifact_key if before is not None else None,
        outcome=outcome,
        instance_type=instance_type_of(job.request),
        max_seconds=count(as_object(job.request.get("StoppingCondition")).get("MaxRuntimeInSeconds")),
        sentences=(sentence,),
    )
    may_run = outcome in ("new_job", "decided_at_deployment") and not job.is_reference
    return _with_estimate(report, job, evidence.prices, store) if may_run else report


def _outcome(
    job: ArtifactJob, store: StoreContents | None, *, is_same: bool, is_requested: bool
) -> tuple[Outcome, str]:
    name, kind = job.artifact_name, "training job" if job.resource.type == TRAINING_JOB else "job"
    subject = capitalized(name)
    stays: tuple[Outcome, str] = ("stays", f"{subject} stays as it is: no {kind} runs.")
    if store is None or job.artifact_key is None:
        if is_same or not is_requested:
            return stays
        if job.is_reference:
            text = (
                f"{subject} is referenced by its key: no job runs, and the deployment fails if it is not in the store."
            )
        else:
            artifact = "reused if the artifact" if job.artifact_key is None else f"{name} is reused if it"
            text = f"Decided at deployment: {artifact} is in the store, otherwise built by a new {kind}."
            text += f" The artifact's key depends on {job.key_inputs}." if job.artifact_key is None else ""
        return "decided_at_deployment", text
    stored = store.artifacts.get(job.artifact_key)
    state = f"{stored.state} ({stored.detail})" if stored is not None else f"not in the store {store.bucket}"
    is_ready = stored is not None and stored.state == "ready"
    if is_ready and (is_same or not is_requested) and not (is_requested and job.is_reference):
        return stays
    if not is_requested:
        return (
            "lost",
            f"{subject} is {state}, and no job runs, since its resource does not change: new instances cannot load "
            "it. Any change of the resource, such as a tag, starts a new job.",
        )
    if job.is_reference:
        if is_ready:
            return "reuse", f"{subject} is referenced by its key and is in the store: no job runs."
        return "missing", f"{subject} is referenced by its key but is {state}: the deployment fails."
    if stored is None or stored.state not in ("ready", "in progress"):
        return "new_job", f"A new {kind} runs: {name} is {state}."
    if is_ready:
        since = f" since {stored.made_at[:16].replace('T', ' ')} UTC" if stored.made_at else ""
        return "reuse", f"Reused: {name} is in the store{since}. No {kind} runs."
    return "join_running_job", f"Joined: a {kind} for {name} is {state}; the deployment waits for it."


def _with_estimate(report: JobReport, job: ArtifactJob, prices: Prices, store: StoreContents | None) -> JobReport:
    """Add the duration and cost of the job, estimated from the store's past jobs of the same kind."""
    kind = JobKind.of(as_object(job.resource.get("Description")), job.request)
    past_jobs = [past for past in (store.past_jobs if store is not None else ()) if past.kind == kind]
    durations = sorted(past.seconds for past in past_jobs)
    billed = sorted(past.seconds if past.billed_seconds is None else past.billed_seconds for past in past_jobs)
    price, basis = _price(job, prices)
    sentence, max_cost, costs = "no time limit", None, None
    if report.max_seconds is not None:
        sentence = f"at most {duration(report.max_seconds)}"
        if price is not None:
            max_cost = _cost(report.max_seconds, price)
            sentence += f" and {money(max_cost)}, by the {basis}"
        sentence += "; Spot Instances cost less" if job.request.get("EnableManagedSpotTraining") is True else ""
    if durations:
        costs = (_cost(billed[0], price), _cost(billed[-1], price)) if price is not None else None
        cost_text = f", for {between(*map(money, costs))}" if costs is not None else ""
        times = between(duration(durations[0]), duration(durations[-1]))
        jobs = f"{counted(len(durations), 'job')} of the same kind"
        sentence = f"about {times}{cost_text}, as {jobs} took; {sentence}"
    sentence = f"{capitalized(sentence)}."
    if price is None and prices.source and report.instance_type is not None:
        sentence += f" The price list has no {report.instance_type}."
    return report.model_copy(
        update={
            "estimated_seconds": (durations[0], durations[-1]) if durations else None,
            "estimated_cost": costs,
            "estimate_based_on": len(durations),
            "max_cost": max_cost,
            "price_per_hour": price,
            "price_basis": basis,
            "sentences": (*report.sentences, sentence),
        }
    )


def _cost(seconds: float, price_per_hour: float) -> float:
    return round(seconds / 3600 * price_per_hour, 2)


def _price(job: ArtifactJob, prices: Prices) -> tuple[float | None, str]:
    """Return the hourly price of the job's instances, and its description."""
    name = instance_type_of(job.request) or ""
    if job.resource.type == TRAINING_JOB:
        instances = count(as_object(job.request.get("ResourceConfig")).get("InstanceCount")) or 1
        return (
            (prices.training[name] * instances, f"training price of {name}") if name in prices.training else (None, "")
        )
    if name in prices.optimization:
        return prices.optimization[name], f"price of jobs on {name}"
    if name in prices.hosting:
        # AWS does not document which component of the price list covers optimization jobs.
        return prices.hosting[name], f"hosting price of {name}, because the job's own price is unknown"
    return None, ""
