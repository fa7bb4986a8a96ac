"""The report of ``constructs-optim explain --json``; ``docs/explain.schema.json`` is its JSON schema.

Money is in US dollars, a month has 730 hours, and times are in seconds.
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
    """An artifact, and the job that builds it, if a job runs."""

    logical_id: str
    recipe: str
    artifact_key: str | None = Field(description="64 hexadecimal digits; null if known only at deployment.")
    artifact_key_before: str | None
    outcome: Outcome = Field(
        description=(
            "stays: as before. decided_at_deployment: the store was not searched, or the key is not known yet. "
            "missing: referenced but not in the store, so the deployment fails. lost: no longer in the store, and "
            "nothing requests it again. removed: no longer used."
        )
    )
    instance_type: str | None
    max_seconds: int | None = Field(description="Maximum runtime of the job; null for a reference.")
    estimated_seconds: tuple[float, float] | None = Field(
        default=None, description="Shortest and longest duration of jobs of the same kind; null if the store has none."
    )
    estimated_cost: tuple[float, float] | None = None
    estimate_based_on: int = Field(default=0, description="Number of completed jobs of the same kind.")
    max_cost: float | None = None
    price_per_hour: float | None = None
    price_basis: str = Field(default="", description="What the price applies to; empty if there is no price.")
    sentences: tuple[str, ...]


class ResourceReport(_Model):
    """A resource that changes."""

    name: str
    logical_id: str
    type: str
    action: Action
    certain: bool = Field(description="Whether the change is certain, independent of values known only at deployment.")
    properties: tuple[str, ...] = Field(
        description="Properties that change; for a replaced resource, the properties that replace it."
    )


class Capacity(_Model):
    """The number of instances of a variant; null if known only at deployment."""

    instance_types: tuple[str, ...]
    least: int | None
    most: int | None
    reason: str = Field(description="What limits the number to this range.")
    is_reserved: bool = Field(default=False, description="Whether the instances are in a capacity reservation.")


class MonthlyCost(_Model):
    """On-demand cost per month at minimum and maximum capacity; null if a price or a number is unknown."""

    least: float | None
    most: float | None
    unpriced: tuple[str, ...] = ()
    source: str = Field(default="", description="The source of the prices.")


class EndpointReport(_Model):
    """The changes of one endpoint."""

    name: str = Field(description="Its path in the app.")
    endpoint_name: str | None = Field(description="The endpoint's name in requests; null if CloudFormation chooses it.")
    logical_id: str
    change: Change
    is_interrupted: bool = Field(description="Whether requests to it, or to one of its components, fail for some time.")
    recipes: tuple[RecipeChange, ...]
    choice: str | None = Field(
        default=None, description="The choice for its objectives, or its changes; null if nothing changes."
    )
    jobs: tuple[JobReport, ...]
    resources: tuple[ResourceReport, ...] = Field(description="Its parts that change.")
    updates: tuple[str, ...] = Field(
        description="How SageMaker updates the endpoint and its components, if they are updated."
    )
    scaling: tuple[str, ...] = Field(default=(), description="Policies that are added, removed, or get another target.")
    capacity: tuple[Capacity, ...]
    capacity_before: tuple[Capacity, ...]
    monthly_cost: MonthlyCost | None
    monthly_cost_before: MonthlyCost | None

    @property
    def has_news(self) -> bool:
        """Whether the endpoint, the choice for its objectives or its artifacts change."""
        return (
            self.change != "unchanged"
            or self.choice is not None
            or any(job.outcome not in ("stays", "decided_at_deployment") for job in self.jobs)
        )


class PermissionChange(_Model):
    """What a role, user, group or resource policy gains and loses."""

    owner: str
    owner_id: str = Field(description="The owner's logical ID, or its name if it is not in the template.")
    kind: PolicyKind
    gained: tuple[str, ...] = Field(description="For example: Allow s3:GetObject on arn:aws:s3:::store/*")
    lost: tuple[str, ...]
    grants_more: bool = Field(description="Whether the change allows more, or denies less, than before.")


class DriftReport(_Model):
    """A deployed resource that is gone from the account, or is otherwise there than the deployed template declares."""

    name: str
    logical_id: str
    type: str
    is_missing: bool
    text: str = Field(description="What is missing or different.")
    remedy: str = Field(description="What restores it.")


class StackReport(_Model):
    """The changes of one stack."""

    name: str
    region: str | None
    change: Change = Field(description="A change of only the outputs also counts.")
    refusals: tuple[str, ...] = Field(description="Changes that AWS refuses, and what works instead.")
    endpoints: tuple[EndpointReport, ...]
    artifacts: tuple[JobReport, ...] = Field(
        description="Jobs and references whose artifacts no endpoint of the stack serves."
    )
    permissions: tuple[PermissionChange, ...]
    resources: tuple[ResourceReport, ...] = Field(description="The other resources that change.")
    drift: tuple[DriftReport, ...] = Field(
        default=(), description="What is deployed and was removed or changed by hand; only with --against deployed."
    )


class Report(_Model):
    """The effects of a deployment."""

    schema_version: Literal[1] = 1
    against: str | None = Field(description="What the report compares with; null for a first deployment.")
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
        """The refused changes of all stacks."""
        return [refusal for stack in self.stacks for refusal in stack.refusals]

    @property
    def drift(self) -> list[DriftReport]:
        """What was removed or changed by hand of all stacks."""
        return [drift for stack in self.stacks for drift in stack.drift]

    @property
    def has_changes(self) -> bool:
        """Whether a deployment changes anything."""
        return any(stack.change != "unchanged" for stack in self.stacks)

    @property
    def may_run_jobs(self) -> bool:
        """Whether a deployment can run a job."""
        # A reference has no job, and so no time limit.
        return any(
            job.outcome == "new_job" or (job.outcome == "decided_at_deployment" and job.max_seconds is not None)
            for job in self.jobs
        )
