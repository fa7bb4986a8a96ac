"""A command's model: an ID or a URI, whose commit may not be fixed yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from constructs_optim.recipe import Model, Plan
from constructs_optim.recipe.catalog.lock import NO_COMMIT, Lock
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.plan_data import ArtifactSource, HuggingFaceSource
from constructs_optim.recipe.techniques import Technique

MODEL_HELP = "Hugging Face owner/name[@<commit>], an s3:// prefix, or a JumpStart model ID"
VERSION_HELP = "Version of a JumpStart model, or commit of a Hugging Face model. Default: the newest version."


def model_of(text: str, version: str | None, *, accept_eula: bool, token_secret_arn: str | None = None) -> Model:
    """Return the model that a text names; ``version`` is a JumpStart version or a commit."""
    model = Model.of_text(text)
    match model.kind:
        case "huggingface":
            if version is not None and model.revision not in (None, version):
                raise typer.BadParameter(f"{text} names a commit, and --model-version is {version}. Remove one of them")
            changes = {"revision": version or model.revision, "token_secret_arn": token_secret_arn}
        case "hub":
            changes = {"version": version, "accept_eula": accept_eula}
        case "s3" if version is not None:
            raise typer.BadParameter(f"--model-version is for JumpStart and Hugging Face: {text} has no version")
        case "s3":
            changes = {"accept_eula": accept_eula}
    return model.model_copy(update=changes)


@dataclass(frozen=True)
class Commits:
    """The commits of a recipe's models, from the lock file, with placeholders for commits that are not fixed yet."""

    lock: Lock

    def given(self, model: Model) -> Model:
        """Return the model with the recorded commit, or with a placeholder."""
        if model.kind != "huggingface" or model.revision is not None:
            return model
        recorded = self.lock.models.get(model.model_id)
        found = recorded.revision if recorded is not None else None
        return model.model_copy(update={"revision": found or NO_COMMIT})

    def given_in(self, techniques: Iterable[Any]) -> list[Any]:
        """Return the techniques with the commits of their models."""
        return [self._in(technique) if isinstance(technique, Technique) else technique for technique in techniques]

    def _in(self, technique: Technique) -> Technique:
        models = {name: self.given(value) for name, value in technique if isinstance(value, Model)}
        return technique.model_copy(update=models)


def is_missing(source: Model | HuggingFaceSource) -> bool:
    """Return whether the commit is not fixed yet."""
    return source.revision == NO_COMMIT


def without_missing_commits(plan: Plan) -> Plan:
    """Return the plan without the artifact keys that depend on a missing commit; a warning explains the fix."""
    sources = [job.source for job in plan.jobs]
    missing = [each for each in sources if isinstance(each, HuggingFaceSource) and is_missing(each)]
    if not missing:
        return plan
    jobs, unknown = list(plan.jobs), set[int]()
    for number, job in enumerate(jobs):
        if job.source in missing or (isinstance(job.source, ArtifactSource) and job.source.job in unknown):
            unknown.add(number)
            changes: dict[str, Any] = {"artifact_key": None}
            if job.copies:
                parameters = {**job.request["HyperParameters"], "revision": "not recorded yet"}
                changes["request"] = {**job.request, "HyperParameters": parameters}
            jobs[number] = job.model_copy(update=changes)
    return plan.model_copy(update={"jobs": tuple(jobs), "warnings": (*plan.warnings, *_advice(missing))})


def _advice(missing: Sequence[HuggingFaceSource]) -> list[Advice]:
    return [
        Advice(
            "constructs-optim:OPT017",
            f"The commit of {source.model_id} is not recorded yet, so the key of its artifact is unknown. "
            f"`constructs-optim lock --model {source.model_id}` looks it up and records it",
        )
        for source in missing
    ]
