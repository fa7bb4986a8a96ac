"""What a deployment does for an artifact: reuse it, wait for a job that makes it, or run one, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .evidence import StackEvidence, StoreContents, Stored, StoredArtifact
from .job_estimates import Estimate, estimate
from .job_facts import JobFacts
from .words import short_key


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
    return Outlook(before, after, outcome, sentence, estimate(after, evidence, store) if open_ended else None)


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
                f"Decided at deployment: reused if the artifact is in the store, otherwise built by a new {job}. The "
                f"artifact's key follows from {after.decided_by}.",
            )
        return (
            Outcome.decided_at_deployment,
            f"Decided at deployment: {named[:1].lower()}{named[1:]} is reused if it is in the store, otherwise built "
            f"by a new {job}.",
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
