"""Looks up what an explanation needs besides templates: deployed templates, artifact stores and prices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, TypeAdapter, ValidationError

from constructs_optim.explanation.assembly import ExplanationError, StackTemplate
from constructs_optim.explanation.jobs import (
    PastJob,
    Prices,
    StackEvidence,
    StoreContents,
    StoredArtifact,
    instance_type_of,
    steps_of,
)
from constructs_optim.operations.artifacts import Artifact
from constructs_optim.operations.stacks import DeployedTemplates
from constructs_optim.templates.resource_types import JOBS, OPTIMIZED_ARTIFACT, TRAINING_JOB
from constructs_optim.templates.template import Resource, Template

from ..aws import Account

DEPLOYED = "deployed"
LISTED = "aws"
_USES = ("hosting", "training", "optimization")


_Dollars = Annotated[float, Field(gt=0, strict=True)]
_PRICES_BY_USE: TypeAdapter[dict[str, dict[str, _Dollars]]] = TypeAdapter(dict[str, dict[str, _Dollars]])


def stated_prices(path: Path) -> Prices:
    """The prices of a file: ``{"ml.g5.12xlarge": 7.09}``, or such objects under hosting, training and optimization."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    by_use = isinstance(content, dict) and content and {*content} <= {*_USES}
    try:
        prices = _PRICES_BY_USE.validate_python(content if by_use else {"hosting": content})
    except ValidationError as error:
        wrong = dict.fromkeys(str(detail["loc"][1]) if len(detail["loc"]) > 1 else "it" for detail in error.errors())
        raise typer.BadParameter(
            f'{path} has to be an object of dollars an hour above zero, {{"ml.g5.12xlarge": 7.09}}, or one of such '
            f"objects under {', '.join(_USES)}; wrong: {', '.join(wrong)}"
        ) from None
    return Prices(**prices, source=f"prices of {path.name}")


class Evidence:
    """Looks up what an explanation needs, each store once; ``notes`` are about what could not be looked up."""

    def __init__(self, account: Account | None, store: str | None, prices: Prices | None, *, listed: bool) -> None:
        """Store the command's choices.

        Args:
            account: the account; None where AWS is not called.
            store: the bucket of all artifacts, or ``deployed`` for the one that each job names; None to search none.
            prices: the user's prices.
            listed: whether to query the AWS Price List.
        """
        self._account, self._store, self._prices, self._listed = account, store, prices, listed
        self._contents: dict[str, StoreContents] = {}
        self._denied = False
        self._deployed = DeployedTemplates(lambda region: account.client("cloudformation", region)) if account else None
        self.notes: list[str] = []

    def deployed(self, stacks: Sequence[StackTemplate]) -> list[StackTemplate]:
        """The stacks as they are deployed; without those that are not there.

        Raises:
            ExplanationError: for stacks of other accounts, which these credentials do not show.
        """
        assert self._account is not None  # noqa: S101 - the command gave one
        assert self._deployed is not None  # noqa: S101 - there is an account
        elsewhere = [stack for stack in stacks if self._is_elsewhere(stack)]
        if elsewhere:
            named = ", ".join(f"{stack.path} ({stack.account})" for stack in elsewhere)
            raise ExplanationError(
                f"the credentials are of account {self._account.id}, and these stacks are of others: {named}. Choose "
                "stacks of one account with --stack, and its credentials with --profile"
            )
        deployed = []
        for stack in stacks:
            template = self._deployed.template(stack.stack_name, stack.region, stack.parents)
            if template is not None:
                deployed.append(replace(stack, template=template))
        return deployed

    def of(self, stack: StackTemplate) -> StackEvidence:
        """The facts about a stack."""
        jobs = Template(stack.template).of_type(*JOBS, OPTIMIZED_ARTIFACT)
        stores = {job.logical_id: store for job in jobs if (store := self._store_of(stack, job)) is not None}
        return StackEvidence(self._prices_of(stack, jobs), stores)

    def _prices_of(self, stack: StackTemplate, jobs: Sequence[Resource]) -> Prices:
        if self._prices is not None:
            return self._prices
        region = stack.region or (self._account.region if self._account is not None else None)
        if self._account is None or not self._listed or self._denied:
            return Prices()
        if region is None:
            self._note(f"There are no prices for {stack.path}: its region is known only at deployment; give --region.")
            return Prices()
        trains = any(job.type == TRAINING_JOB for job in jobs)
        hosting = self._account.prices(region)
        training = self._account.prices(region, "Training") if trains else {}
        if hosting is None or training is None:
            self._denied = True
            self._note("There are no prices: AWS denies pricing:GetProducts; state prices with --prices FILE.")
            return Prices()
        return Prices(hosting, training, source=f"AWS Price List of {region}")

    def _is_elsewhere(self, stack: StackTemplate) -> bool:
        return self._account is not None and stack.account not in (None, self._account.id)

    def _store_of(self, stack: StackTemplate, job: Resource) -> StoreContents | None:
        if self._store is None or self._account is None:
            return None
        if self._store == DEPLOYED and self._is_elsewhere(stack):
            self._note(f"The stores of {stack.path} were not looked into: it is of account {stack.account}.")
            return None
        if self._store != DEPLOYED:
            return self._contents_of(self._store)
        return self._named(stack, job.properties.get("Bucket"), job.label)

    def _named(self, stack: StackTemplate, bucket: Any, label: str) -> StoreContents | None:
        """The store that a job names: by its name, as a resource of its stack, or as another stack's export."""
        assert self._deployed is not None  # noqa: S101 - there is an account
        name: str | None = None
        match bucket:
            case str():
                name = bucket
            case {"Ref": str(logical_id)} if logical_id in stack.template.get("Resources", {}):
                name = self._deployed.physical_id(stack.stack_name, stack.region, logical_id, stack.parents)
                if name is None:
                    return StoreContents("that this deployment creates", {})
            case {"Fn::ImportValue": str(export)}:
                name = self._deployed.exported(export, stack.region)
            case _:
                pass
        if name is None:
            self._note(f"The store of {label} in {stack.path} was not found: name it with --store BUCKET.")
            return None
        return self._contents_of(name)

    def _contents_of(self, bucket: str) -> StoreContents:
        assert self._account is not None  # noqa: S101 - there is an account
        if bucket not in self._contents:
            stored: dict[str, StoredArtifact] = {}
            past: list[PastJob] = []
            for artifact in self._account.inventory(bucket).all():
                stored[artifact.key] = StoredArtifact(artifact.state.value, artifact.detail, artifact.made_at)
                if (job := _past_job(artifact)) is not None:
                    past.append(job)
            self._contents[bucket] = StoreContents(bucket, stored, tuple(past))
        return self._contents[bucket]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _past_job(artifact: Artifact) -> PastJob | None:
    """How long an artifact's job took, where its manifest tells."""
    manifest: Mapping[str, Any] = artifact.manifest or {}
    seconds, request = manifest.get("duration_seconds"), manifest.get("request") or {}
    if not isinstance(seconds, int | float) or not artifact.is_complete:
        return None
    described = artifact.description
    return PastJob(
        model_id=str(described.get("Model", "")).partition(" ")[0],
        techniques=tuple(str(technique) for technique in described.get("Techniques") or ()),
        steps=steps_of(request),
        instance_type=instance_type_of(request) or "",
        seconds=float(seconds),
    )
