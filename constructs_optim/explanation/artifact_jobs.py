"""What a deployment does for an artifact: reuse it, wait for a job that makes it, or run one, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constructs_optim.recipe.keys import artifact_key

from .evidence import PastJob, Prices, StackEvidence, StoreContents, Stored, StoredArtifact
from .hosted_endpoints import ARTIFACT, METADATA_KEY, TRAINING_JOB, recipes_of
from .template import Resource, literal, number, text_of
from .words import between, listed, money, short_key, span


class Outcome(StrEnum):
    """What becomes of a job or of a reference to an artifact.

    ``stays``: it is as it was. ``decided_at_deployment``: the store was not asked, or the key is not known yet.
    ``missing``: it is referred to and not there, so the deployment fails. ``lost``: nobody asks for it anew, and its
    store has it no more. ``removed``: nothing of the stack wants it.
    """

    stays = "stays"
    reuse = "reuse"
    join_running_job = "join_running_job"
    new_job = "new_job"
    decided_at_deployment = "decided_at_deployment"
    missing = "missing"
    lost = "lost"
    removed = "removed"


@dataclass(frozen=True)
class JobFacts:
    """A job of a template, or a reference to an artifact that another stack makes."""

    resource: Resource

    @property
    def is_reference(self) -> bool:
        """Whether no job of this stack makes the artifact."""
        return self.resource.type == ARTIFACT

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
        said = literal((self.resource.metadata.get(METADATA_KEY) or {}).get("ArtifactKey"))
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


@dataclass(frozen=True)
class Estimate:
    """How long a job takes, and what it costs in US dollars.

    ``low_seconds`` and ``high_seconds`` are those of ``based_on`` jobs of the same kind that completed; None where
    there was none. ``price_basis`` says what the price per hour is of.
    """

    low_seconds: float | None
    high_seconds: float | None
    based_on: int
    max_seconds: int | None
    price_per_hour: float | None
    price_basis: str
    is_spot: bool = False

    def cost(self, seconds: float | None) -> float | None:
        """What that much time costs; None where time or price is not known."""
        return None if seconds is None or self.price_per_hour is None else seconds / 3600 * self.price_per_hour

    @property
    def words(self) -> str:
        """Time and cost as sentences."""
        most = self._most
        if self.low_seconds is None or self.high_seconds is None:
            return f"How long it takes is not known{most}.{self._unpriced}"
        took = between(span(self.low_seconds), span(self.high_seconds))
        costs = [self.cost(seconds) for seconds in (self.low_seconds, self.high_seconds)]
        cost = f", for {between(*(money(each) for each in costs if each is not None))}" if None not in costs else ""
        jobs = "1 job of the same kind" if self.based_on == 1 else f"{self.based_on} jobs of the same kind"
        return f"About {took}{cost}, as {jobs} took{most}.{self._unpriced}"

    @property
    def _most(self) -> str:
        if self.max_seconds is None:
            return ""
        cost = self.cost(self.max_seconds)
        priced = f" and {money(cost)}, by the {self.price_basis}" if cost is not None else ""
        return f"; at most {span(self.max_seconds)}{priced}{'; spot capacity costs less' if self.is_spot else ''}"

    @property
    def _unpriced(self) -> str:
        return " What it costs is not known: no price was given." if self.price_per_hour is None else ""


@dataclass(frozen=True)
class Outlook:
    """What a deployment does for one artifact. ``estimate`` is of the job that runs, or may run."""

    before: JobFacts | None
    after: JobFacts | None
    outcome: Outcome
    sentence: str
    estimate: Estimate | None = None

    @property
    def facts(self) -> JobFacts:
        """As it will be, or was where it is removed."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - an outlook is on something
        return found


def parts_of(request: Mapping[str, Any]) -> frozenset[str]:
    """What a job does: the members of an optimization job's configurations, or what a training job runs."""
    training = request.get("AlgorithmSpecification") or {}
    configured = [name for each in request.get("OptimizationConfigs") or () for name in each]
    return frozenset([*configured, *(text_of(each) for each in training.get("ContainerArguments") or ())])


def runs_on(request: Mapping[str, Any]) -> str | None:
    """The instance type in a job's request."""
    return literal(request.get("DeploymentInstanceType") or (request.get("ResourceConfig") or {}).get("InstanceType"))


def outlook(
    before: JobFacts | None, after: JobFacts | None, evidence: StackEvidence, *, is_asked_for: bool = True
) -> Outlook:
    """What a deployment does, by all that is known.

    Args:
        before: as the template has it that is there; None for one that is new.
        after: as the template has it that is wanted; None for one that is removed.
        evidence: prices, and the store where it was looked into.
        is_asked_for: whether CloudFormation asks for it anew: not where its resource is as it was.
    """
    if after is None:
        assert before is not None  # noqa: S101 - one of the two is there
        return Outlook(
            before, None, Outcome.removed, f"{_artifact(before)} is not used any more; it stays in its store."
        )
    store = evidence.stores.get(after.resource.logical_id)
    if not is_asked_for:
        return Outlook(before, after, *_untouched(after, store))
    if after.is_reference:
        return _referred(before, after, store)
    outcome, sentence = _decided(before, after, store)
    if before is not None and not after.makes_what(before):
        sentence = f"Another one than before ({_artifact(before)[:1].lower()}{_artifact(before)[1:]}). {sentence}"
    open_ended = outcome in (Outcome.new_job, Outcome.decided_at_deployment)
    return Outlook(before, after, outcome, sentence, _estimate(after, evidence, store) if open_ended else None)


def _untouched(after: JobFacts, store: StoreContents | None) -> tuple[Outcome, str]:
    """What becomes of an artifact that nobody asks for anew, also where it is no longer what it was."""
    named, key = _artifact(after), after.artifact_key
    found = store.artifacts.get(key) if store is not None and key is not None else None
    if store is None or key is None or (found is not None and found.state is Stored.ready):
        return Outcome.stays, f"{named} stays as it is: no job runs."
    what = f"{found.state} ({found.detail})" if found is not None else "not there"
    return (
        Outcome.lost,
        f"{named} is {what} in the store {store.bucket}, and no job runs, since its resource does not change: new "
        "instances cannot load it. Any change of the resource, for instance of a tag, has it made anew.",
    )


def _decided(before: JobFacts | None, after: JobFacts, store: StoreContents | None) -> tuple[Outcome, str]:
    named, key = _artifact(after), after.artifact_key
    job = "training job" if after.is_training else "job"
    same = before is not None and after.makes_what(before)
    if store is None or key is None:
        if same:
            return Outcome.stays, f"{named} stays as it is: no {job} runs."
        if key is None:
            return (
                Outcome.decided_at_deployment,
                f"Reuse or a new {job}: the deployment finds out. The artifact's key follows from {after.decided_by}, "
                "which is looked at then.",
            )
        return (
            Outcome.decided_at_deployment,
            f"Reuse or a new {job}: the deployment finds out. {named} is reused where the store has it, and made where "
            "it has not.",
        )
    return _by_store(named, job, store, store.artifacts.get(key), stays=same)


def _by_store(
    named: str, job: str, store: StoreContents, found: StoredArtifact | None, *, stays: bool
) -> tuple[Outcome, str]:
    if found is None:
        return Outcome.new_job, f"A new {job} runs: {named[:1].lower()}{named[1:]} is not in the store {store.bucket}."
    match found.state:
        case Stored.ready if stays:
            return Outcome.stays, f"{named} stays as it is, and is in the store: no {job} runs."
        case Stored.ready:
            since = f" since {found.made_at[:16].replace('T', ' ')} UTC" if found.made_at else ""
            return Outcome.reuse, f"Reused: {named[:1].lower()}{named[1:]} is in the store{since}. No {job} runs."
        case Stored.being_made:
            return (
                Outcome.join_running_job,
                f"Joined: {named[:1].lower()}{named[1:]} is being made ({found.detail}); the deployment waits for that "
                f"and starts no {job} of its own.",
            )
        case _:
            return (
                Outcome.new_job,
                f"A new {job} runs: {named[:1].lower()}{named[1:]} is {found.state} ({found.detail}).",
            )


def _referred(before: JobFacts | None, after: JobFacts, store: StoreContents | None) -> Outlook:
    named, key = _artifact(after), after.artifact_key
    if store is not None and key is not None:
        found = store.artifacts.get(key)
        if found is not None and found.state is Stored.ready:
            sentence = f"{named} is referred to by its key, and is in the store: no job runs."
            return Outlook(before, after, Outcome.reuse, sentence)
        why = f"is {found.state} ({found.detail})" if found is not None else f"is not in the store {store.bucket}"
        sentence = f"{named} is referred to by its key, and {why}: the deployment fails."
        return Outlook(before, after, Outcome.missing, sentence)
    if before is not None and after.makes_what(before):
        return Outlook(before, after, Outcome.stays, f"{named} stays as it is, referred to by its key: no job runs.")
    sentence = f"{named} is referred to by its key: no job runs, and the deployment fails where the store has it not."
    return Outlook(before, after, Outcome.decided_at_deployment, sentence)


def _artifact(facts: JobFacts) -> str:
    key = facts.artifact_key
    return f"Artifact {short_key(key)}" if key is not None else "The artifact"


def _estimate(after: JobFacts, evidence: StackEvidence, store: StoreContents | None) -> Estimate:
    took = sorted(job.seconds for job in (store.past_jobs if store is not None else ()) if _is_alike(after, job))
    price, basis = _price(after, evidence.prices)
    return Estimate(
        low_seconds=took[0] if took else None,
        high_seconds=took[-1] if took else None,
        based_on=len(took),
        max_seconds=after.max_seconds,
        price_per_hour=price,
        price_basis=basis,
        is_spot=after.is_spot,
    )


def _is_alike(after: JobFacts, job: PastJob) -> bool:
    """Whether a job that completed did the same, on the same instance type, with any version of the same model."""
    model, techniques, _ = after.described
    wanted = (model.partition(" ")[0], techniques, after.parts, after.instance_type)
    return (job.model_id, job.techniques, job.parts, job.instance_type) == wanted


def _price(after: JobFacts, prices: Prices) -> tuple[float | None, str]:
    name = after.instance_type
    if name is None:
        return None, ""
    if after.is_training:
        found = prices.training.get(name)
        return (found * after.instance_count, f"training price of {name}") if found is not None else (None, "")
    if name in prices.optimization:
        return prices.optimization[name], f"price of jobs on {name}"
    if name in prices.hosting:
        # The price list has no component of optimization jobs that could be verified.
        return prices.hosting[name], f"hosting price of {name}, which stands in for the job's own"
    return None, ""
