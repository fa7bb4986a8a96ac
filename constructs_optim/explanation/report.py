"""The report of ``constructs-optim explain --json``; ``docs/explain.schema.json`` is its JSON schema.

Money is in US dollars, a month has 730 hours, times are in seconds.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

Change = Literal["new", "changed", "unchanged", "removed"]
Action = Literal["create", "update", "replace", "may_replace", "remove", "keep", "refuse"]
Outcome = Literal[
    "stays", "reuse", "join_running_job", "new_job", "decided_at_deployment", "missing", "lost", "removed"
]
PolicyKind = Literal["permissions", "trust policy", "resource policy", "managed policy", "permissions boundary"]


class _Model(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class RecipeChange(_Model):
    """A recipe in one line, before and after."""

    of: str = Field(description="The component or pool; empty for the endpoint itself.")
    before: str | None
    after: str | None


class JobReport(_Model):
    """An artifact, and the job that produces it where one runs."""

    logical_id: str
    recipe: str
    artifact_key: str | None = Field(description="64 hexadecimal digits; null where known at deployment.")
    artifact_key_before: str | None
    outcome: Outcome = Field(
        description=(
            "stays: as before. decided_at_deployment: the store was not searched, or the key is not known yet. "
            "missing: referred to and not in the store, so the deployment fails. lost: no longer in the store, and "
            "nothing requests it again. removed: no longer used."
        )
    )
    instance_type: str | None
    max_seconds: int | None = Field(description="The longest that the job may run; null for a reference.")
    estimated_seconds: tuple[float, float] | None = Field(
        default=None, description="Shortest and longest of the jobs of the same kind; null where the store has none."
    )
    estimated_cost: tuple[float, float] | None = None
    estimate_based_on: int = Field(default=0, description="How many jobs of the same kind completed.")
    max_cost: float | None = None
    price_per_hour: float | None = None
    price_basis: str = Field(default="", description="What the price is of; empty where there is none.")
    sentences: tuple[str, ...]


class ResourceReport(_Model):
    """A resource that changes."""

    name: str
    logical_id: str
    type: str
    action: Action
    certain: bool = Field(description="Whether it changes for sure, whatever is known only at deployment.")
    properties: tuple[str, ...] = Field(description="Those that change; of a replaced resource, those that replace it.")


class Capacity(_Model):
    """The number of instances of a variant; null where it is known only at deployment."""

    instance_types: tuple[str, ...]
    least: int | None
    most: int | None
    reason: str = Field(description="What keeps the number in that range.")
    is_reserved: bool = Field(default=False, description="Whether the instances come out of a capacity reservation.")


class MonthlyCost(_Model):
    """On-demand cost a month at the least and the most capacity; null where a price or a number is not known."""

    least: float | None
    most: float | None
    unpriced: tuple[str, ...] = ()
    source: str = Field(default="", description="Where the prices are from.")


class EndpointReport(_Model):
    """The changes of one endpoint."""

    name: str = Field(description="Its path in the app.")
    endpoint_name: str | None = Field(description="What requests name; null where CloudFormation chooses it.")
    logical_id: str
    change: Change
    is_interrupted: bool = Field(description="Whether requests to it, or a component of it, fail for a while.")
    recipes: tuple[RecipeChange, ...]
    choice: str | None = Field(
        default=None, description="What the choice for its objectives is, or changes; null where nothing changes."
    )
    jobs: tuple[JobReport, ...]
    resources: tuple[ResourceReport, ...] = Field(description="Its parts that change.")
    updates: tuple[str, ...] = Field(description="How the endpoint and its components are updated, where they are.")
    capacity: tuple[Capacity, ...]
    capacity_before: tuple[Capacity, ...]
    monthly_cost: MonthlyCost | None
    monthly_cost_before: MonthlyCost | None

    @property
    def has_news(self) -> bool:
        """Whether it, the choice for its objectives or its artifacts change."""
        return (
            self.change != "unchanged"
            or self.choice is not None
            or any(job.outcome not in ("stays", "decided_at_deployment") for job in self.jobs)
        )


class PermissionChange(_Model):
    """What a role, user, group or resource policy gains and loses."""

    owner: str
    owner_id: str = Field(description="The owner's logical id, or its name where it is not of the template.")
    kind: PolicyKind
    gained: tuple[str, ...] = Field(description="For instance: Allow s3:GetObject on arn:aws:s3:::store/*")
    lost: tuple[str, ...]
    grants_more: bool = Field(description="Whether more is allowed than before, or less denied.")


class StackReport(_Model):
    """The changes of one stack."""

    name: str
    region: str | None
    change: Change = Field(description="A change of outputs alone counts.")
    refusals: tuple[str, ...] = Field(description="What AWS refuses of this change, and what works instead.")
    endpoints: tuple[EndpointReport, ...]
    artifacts: tuple[JobReport, ...] = Field(description="Of jobs and references that no endpoint of the stack serves.")
    permissions: tuple[PermissionChange, ...]
    resources: tuple[ResourceReport, ...] = Field(description="The other resources that change.")


class Report(_Model):
    """The effects of a deployment."""

    schema_version: Literal[1] = 1
    against: str | None = Field(description="What it is compared with; null for nothing.")
    stacks: tuple[StackReport, ...]
    notes: tuple[str, ...]

    @property
    def endpoints(self) -> list[EndpointReport]:
        """The endpoints of all stacks."""
        return [endpoint for stack in self.stacks for endpoint in stack.endpoints]

    @property
    def jobs(self) -> list[JobReport]:
        """The jobs and artifacts of all stacks."""
        return [
            job for stack in self.stacks for job in (*stack.artifacts, *(j for e in stack.endpoints for j in e.jobs))
        ]

    @property
    def permissions(self) -> list[PermissionChange]:
        """The changes of permissions of all stacks."""
        return [change for stack in self.stacks for change in stack.permissions]

    @property
    def refusals(self) -> list[str]:
        """The refusals of all stacks."""
        return [refusal for stack in self.stacks for refusal in stack.refusals]

    @property
    def has_changes(self) -> bool:
        """Whether a deployment changes anything."""
        return any(stack.change != "unchanged" for stack in self.stacks)

    @property
    def may_run_jobs(self) -> bool:
        """Whether a deployment may run a job."""
        # A reference has no job, and so no time limit.
        return any(
            job.outcome == "new_job" or (job.outcome == "decided_at_deployment" and job.max_seconds is not None)
            for job in self.jobs
        )
