"""What a deployment does for an artifact: reuse it, wait for a job that makes it, or run one, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from constructs_optim.recipe.keys import artifact_key
from constructs_optim.templates.json_values import as_object, literal, number
from constructs_optim.templates.resource_types import OPTIMIZED_ARTIFACT, TRAINING_JOB
from constructs_optim.templates.template import Resource
from constructs_optim.templates.text import text_of

from .evidence import PastJob, Prices, StackEvidence, StoreContents
from .formatting import between, counted, duration, listed, money
from .report import JobReport, Outcome


@dataclass(frozen=True)
class ArtifactJob:
    """A job of a template, or a reference to an artifact that another stack makes."""

    resource: Resource

    @property
    def is_reference(self) -> bool:
        """Whether no job of this stack makes the artifact."""
        return self.resource.type == OPTIMIZED_ARTIFACT

    @property
    def is_training(self) -> bool:
        """Whether it is a training job, as opposed to an optimization job."""
        return self.resource.type == TRAINING_JOB

    @property
    def request(self) -> Mapping[str, Any]:
        """The job's request to SageMaker."""
        return as_object(self.resource.properties.get("Request"))

    @property
    def recipe(self) -> str:
        """The recipe in one line; from the job's description where a release before metadata made the template."""
        if recipes := recipes_of(self.resource):
            return recipes[0]
        model, techniques, instance_type = self.description
        return f"{model}: {' + '.join(techniques)}, {instance_type}"

    @property
    def description(self) -> tuple[str, tuple[str, ...], str]:
        """Model with version, techniques, and the instance type it is for."""
        description = as_object(self.resource.properties.get("Description"))
        techniques = tuple(text_of(technique) for technique in description.get("Techniques") or ())
        return text_of(description.get("Model", "")), techniques, text_of(description.get("InstanceType", ""))

    @property
    def artifact_key(self) -> str | None:
        """The artifact's key where it is known before the deployment."""
        properties = self.resource.properties
        key = literal(self.resource.recipe.get("ArtifactKey"))
        if key is not None or self.is_reference:
            return key or literal(properties.get("ArtifactKey"))
        source = as_object(properties.get("Source"))
        version, recipe_key = literal(source.get("Version")), literal(properties.get("RecipeKey"))
        # What else a job reads is part of its key, and known only when its files are listed.
        if source.get("Kind") != "hub" or version is None or recipe_key is None or properties.get("Reads"):
            return None
        return artifact_key(recipe_key, f"hub:{source.get('HubName')}/{source.get('ModelId')}@{version}")

    @property
    def artifact_name(self) -> str:
        """The artifact in a sentence, by the digits that the commands on artifacts take for the whole key."""
        return f"artifact {self.artifact_key[:12]}" if self.artifact_key is not None else "the artifact"

    @property
    def max_seconds(self) -> int | None:
        """How long it may run."""
        return number(as_object(self.request.get("StoppingCondition")).get("MaxRuntimeInSeconds"))

    @property
    def key_inputs(self) -> str:
        """What the artifact's key follows from, where it is known only at deployment."""
        source = as_object(self.resource.properties.get("Source"))
        if source.get("Kind") == "artifact":
            return "the artifact of the job before it"
        if source.get("Kind") == "hub" and literal(source.get("Version")) is None:
            return f"the newest version of {text_of(source.get('ModelId'))}"
        inputs = [source, *(self.resource.properties.get("Reads") or ())]
        uris = [literal(item.get("S3Uri")) for item in inputs if "S3Uri" in item]
        if None in uris:
            return "what is before it in the deployment"
        return f"the files below {listed([uri for uri in uris if uri is not None]) or 'its source'}"

    def makes_same(self, other: ArtifactJob | None) -> bool:
        """Whether it makes, in the same store, the artifact that ``other`` makes."""
        if other is None or text_of(self.resource.get("Bucket")) != text_of(other.resource.get("Bucket")):
            return False
        if self.artifact_key is not None and other.artifact_key is not None:
            return self.artifact_key == other.artifact_key
        names = ("RecipeKey", "Source", "Reads", "ArtifactKey")
        return all(self.resource.get(name) == other.resource.get(name) for name in names)


def recipes_of(resource: Resource) -> list[str]:
    """The recipes in a resource's metadata, one line each: several where it has instance pools."""
    recipes = resource.recipe.get("Pools") or [resource.recipe]
    return [str(recipe["Recipe"]) for recipe in recipes if "Recipe" in recipe]


def steps_of(request: Mapping[str, Any]) -> frozenset[str]:
    """What a job does: the members of an optimization job's configurations, or a training job's arguments."""
    arguments = as_object(request.get("AlgorithmSpecification")).get("ContainerArguments") or ()
    configured = [name for config in request.get("OptimizationConfigs") or () for name in config]
    return frozenset([*configured, *(text_of(argument) for argument in arguments)])


def instance_type_of(request: Mapping[str, Any]) -> str | None:
    """What a job runs on. An optimization job runs on the instance type that serves."""
    resources = as_object(request.get("ResourceConfig"))
    return literal(request.get("DeploymentInstanceType") or resources.get("InstanceType"))


def report_job(
    before: ArtifactJob | None, after: ArtifactJob | None, evidence: StackEvidence, *, is_requested: bool = True
) -> JobReport:
    """Report what a deployment does for one artifact; one of ``before`` and ``after`` is set.

    Args:
        before: as the old template has it.
        after: as the new template has it.
        evidence: prices, and the store where it was searched.
        is_requested: whether CloudFormation requests the artifact again: not where its resource does not change.
    """
    job = after or before
    assert job is not None  # noqa: S101 - one of the two is set
    store = evidence.stores.get(job.resource.logical_id)
    if after is None:
        outcome, sentence = "removed", f"{_artifact(job)} is not used any more; it stays in its store."
    elif not is_requested:
        outcome, sentence = _unrequested(job, store)
    elif job.is_reference:
        outcome, sentence = _referred(before, job, store)
    else:
        outcome, sentence = _requested(before, job, store)
        if before is not None and not job.makes_same(before):
            sentence = f"Another one than before ({before.artifact_name}). {sentence}"
    report = JobReport(
        logical_id=job.resource.logical_id,
        recipe=job.recipe,
        artifact_key=after.artifact_key if after is not None else None,
        artifact_key_before=before.artifact_key if before is not None else None,
        outcome=outcome,
        instance_type=instance_type_of(job.request),
        max_seconds=job.max_seconds,
        sentences=(sentence,),
    )
    may_run = outcome in ("new_job", "decided_at_deployment") and not job.is_reference
    return _with_estimate(report, job, evidence.prices, store) if may_run else report


def _unrequested(job: ArtifactJob, store: StoreContents | None) -> tuple[Outcome, str]:
    """An artifact that nothing requests again, also where it is lost."""
    if store is None or job.artifact_key is None:
        return "stays", f"{_artifact(job)} stays as it is: no job runs."
    stored = store.artifacts.get(job.artifact_key)
    if stored is not None and stored.state == "ready":
        return "stays", f"{_artifact(job)} stays as it is: no job runs."
    state = f"{stored.state} ({stored.detail})" if stored is not None else "not there"
    return (
        "lost",
        f"{_artifact(job)} is {state} in the store {store.bucket}, and no job runs, since its resource does not "
        "change: new instances cannot load it. Any change of the resource, for instance of a tag, has it made anew.",
    )


def _requested(before: ArtifactJob | None, job: ArtifactJob, store: StoreContents | None) -> tuple[Outcome, str]:
    name, kind = job.artifact_name, "training job" if job.is_training else "job"
    is_same = job.makes_same(before)
    if store is None or job.artifact_key is None:
        if is_same:
            return "stays", f"{_artifact(job)} stays as it is: no {kind} runs."
        if job.artifact_key is None:
            return (
                "decided_at_deployment",
                f"Decided at deployment: reused if the artifact is in the store, otherwise built by a new {kind}. The "
                f"artifact's key follows from {job.key_inputs}.",
            )
        return (
            "decided_at_deployment",
            f"Decided at deployment: {name} is reused if it is in the store, otherwise built by a new {kind}.",
        )
    stored = store.artifacts.get(job.artifact_key)
    if stored is None:
        return "new_job", f"A new {kind} runs: {name} is not in the store {store.bucket}."
    match stored.state:
        case "ready" if is_same:
            return "stays", f"{_artifact(job)} stays as it is, and is in the store: no {kind} runs."
        case "ready":
            since = f" since {stored.made_at[:16].replace('T', ' ')} UTC" if stored.made_at else ""
            return "reuse", f"Reused: {name} is in the store{since}. No {kind} runs."
        case "being made":
            return (
                "join_running_job",
                f"Joined: {name} is being made ({stored.detail}); the deployment waits for that and starts no {kind} "
                "of its own.",
            )
        case _:
            return "new_job", f"A new {kind} runs: {name} is {stored.state} ({stored.detail})."


def _referred(before: ArtifactJob | None, job: ArtifactJob, store: StoreContents | None) -> tuple[Outcome, str]:
    name = _artifact(job)
    if store is not None and job.artifact_key is not None:
        stored = store.artifacts.get(job.artifact_key)
        if stored is not None and stored.state == "ready":
            return "reuse", f"{name} is referred to by its key, and is in the store: no job runs."
        state = f"is {stored.state} ({stored.detail})" if stored is not None else f"is not in the store {store.bucket}"
        return "missing", f"{name} is referred to by its key, and {state}: the deployment fails."
    if job.makes_same(before):
        return "stays", f"{name} stays as it is, referred to by its key: no job runs."
    return (
        "decided_at_deployment",
        f"{name} is referred to by its key: no job runs, and the deployment fails where the store has it not.",
    )


def _artifact(job: ArtifactJob) -> str:
    return job.artifact_name.capitalize()


def _with_estimate(report: JobReport, job: ArtifactJob, prices: Prices, store: StoreContents | None) -> JobReport:
    """Add how long the job takes, by the store's past jobs of the same kind, and what that costs."""
    took = sorted(past.seconds for past in (store.past_jobs if store is not None else ()) if _is_alike(job, past))
    price, basis = _price(job, prices)

    def cost(seconds: float) -> float | None:
        return round(seconds / 3600 * price, 2) if price is not None else None

    limit = _limit(job, cost(job.max_seconds) if job.max_seconds is not None else None, basis)
    if took:
        low, high = cost(took[0]), cost(took[-1])
        costs = (low, high) if low is not None and high is not None else None
        cost_text = f", for {between(*map(money, costs))}" if costs is not None else ""
        times = between(duration(took[0]), duration(took[-1]))
        jobs = f"{counted(len(took), 'job')} of the same kind"
        sentence = f"About {times}{cost_text}, as {jobs} took{f'; {limit}' if limit else ''}."
    else:
        costs = None
        sentence = f"{limit[:1].upper()}{limit[1:]}." if limit else "It has no time limit."
    if price is None and prices.source and report.instance_type is not None:
        sentence += f" There is no price of {report.instance_type}."
    return report.model_copy(
        update={
            "estimated_seconds": (took[0], took[-1]) if took else None,
            "estimated_cost": costs,
            "estimate_based_on": len(took),
            "max_cost": cost(job.max_seconds) if job.max_seconds is not None else None,
            "price_per_hour": price,
            "price_basis": basis,
            "sentences": (*report.sentences, sentence),
        }
    )


def _limit(job: ArtifactJob, cost: float | None, basis: str) -> str:
    """The longest that a job may run, and the most that it may cost."""
    if job.max_seconds is None:
        return ""
    priced = f" and {money(cost)}, by the {basis}" if cost is not None else ""
    spot = "; spot capacity costs less" if job.request.get("EnableManagedSpotTraining") is True else ""
    return f"at most {duration(job.max_seconds)}{priced}{spot}"


def _is_alike(job: ArtifactJob, past: PastJob) -> bool:
    """Whether a completed job did the same, on the same instance type, with any version of the same model."""
    model, techniques, _ = job.description
    kind = (model.partition(" ")[0], techniques, steps_of(job.request), instance_type_of(job.request))
    return kind == (past.model_id, past.techniques, past.steps, past.instance_type)


def _price(job: ArtifactJob, prices: Prices) -> tuple[float | None, str]:
    """The price of an hour of the job's instances, and which price it is."""
    name = instance_type_of(job.request) or ""
    if job.is_training:
        count = number(as_object(job.request.get("ResourceConfig")).get("InstanceCount")) or 1
        return (prices.training[name] * count, f"training price of {name}") if name in prices.training else (None, "")
    if name in prices.optimization:
        return prices.optimization[name], f"price of jobs on {name}"
    if name in prices.hosting:
        # The price list has no component of optimization jobs that could be verified.
        return prices.hosting[name], f"hosting price of {name}, which stands in for the job's own"
    return None, ""
