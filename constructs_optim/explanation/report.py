"""An explanation as data: what ``constructs-optim explain --format json`` prints, and what texts are made of.

Money is in US dollars, a month has 730 hours, times are in seconds. ``docs/explain.schema.json`` is the JSON schema of
:class:`Report`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

Change = Literal["new", "changed", "unchanged", "removed"]


Topic = Literal["recipe", "artifact", "replacement", "update", "settings", "capacity", "cost", "permissions"]


class _Data(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class RecipeChange(_Data):
    """A recipe in one line, before and after; ``of`` is the component or pool that it is of, empty for an endpoint."""

    of: str
    before: str | None
    after: str | None


class JobReport(_Data):
    """An artifact, and the job that makes it where one runs."""

    logical_id: str
    recipe: str
    artifact_key: str | None = Field(description="64 hexadecimal digits; null where known at deployment.")
    artifact_key_before: str | None
    outcome: Literal[
        "stays", "reuse", "join_running_job", "new_job", "decided_at_deployment", "missing", "lost", "removed"
    ]
    instance_type: str | None
    max_seconds: int | None
    estimated_seconds: tuple[float, float] | None = Field(
        description="Shortest and longest of the jobs of the same kind; null where the store has none."
    )
    estimated_cost: tuple[float, float] | None
    estimate_based_on: int = Field(description="How many jobs of the same kind completed.")
    max_cost: float | None
    price_per_hour: float | None
    price_basis: str = Field(description="What the price is of; empty where there is none.")
    sentences: tuple[str, ...]


class ReplacementReport(_Data):
    """A part of an endpoint in whose place another one comes."""

    logical_id: str
    type: str
    certain: bool
    properties: tuple[str, ...]


class UpdateReport(_Data):
    """How an endpoint or component moves over; ``happens``: this deployment makes it move."""

    of: str
    happens: bool
    strategy: Literal["rolling", "all_at_once", "canary", "linear"]
    step: str
    bake_seconds: int
    termination_seconds: int
    alarms: tuple[str, ...]


class CapacityReport(_Data):
    """How many instances there may be; null where the number is known only at deployment."""

    instance_types: tuple[str, ...]
    least: int | None
    most: int | None


class CostReport(_Data):
    """What that costs in a month; null where a price or a number is not known."""

    least: float | None
    most: float | None
    unpriced: tuple[str, ...]


class Sentence(_Data):
    """A sentence for people, and what it is about."""

    topic: Topic
    text: str


class EndpointReport(_Data):
    """What becomes of one endpoint."""

    name: str = Field(description="Its place in the app.")
    endpoint_name: str | None = Field(description="What requests name; null where CloudFormation chooses it.")
    logical_id: str
    change: Change
    is_interrupted: bool = Field(description="Whether requests to it, or a component of it, find nothing for a while.")
    recipes: tuple[RecipeChange, ...]
    jobs: tuple[JobReport, ...]
    replaced: tuple[ReplacementReport, ...]
    updates: tuple[UpdateReport, ...]
    capacity: tuple[CapacityReport, ...]
    capacity_before: tuple[CapacityReport, ...]
    monthly_cost: CostReport | None
    monthly_cost_before: CostReport | None
    sentences: tuple[Sentence, ...]


class StatementReport(_Data):
    """A statement of a policy."""

    sid: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: tuple[str, ...]
    conditions: tuple[str, ...]


class PermissionReport(_Data):
    """A statement that changes; ``widened`` allows more than before."""

    owner: str
    kind: Literal["permissions", "trust policy", "resource policy", "managed policy", "permissions boundary"]
    direction: Literal["added", "removed", "widened", "narrowed", "changed"]
    grants_more: bool
    before: StatementReport | None
    after: StatementReport | None


class ResourceReport(_Data):
    """A resource beside the endpoints."""

    name: str
    logical_id: str
    type: str
    action: Literal["create", "update", "replace", "may_replace", "remove", "keep", "refuse"]
    certain: bool
    properties: tuple[str, ...]
    sentence: str


class StackReport(_Data):
    """What becomes of one stack."""

    name: str
    region: str | None
    change: Change
    refusals: tuple[str, ...] = Field(description="What AWS refuses of this change, and what works instead.")
    endpoints: tuple[EndpointReport, ...]
    artifacts: tuple[JobReport, ...] = Field(description="Of jobs and references that no endpoint of the stack serves.")
    permissions: tuple[PermissionReport, ...]
    resources: tuple[ResourceReport, ...]
    outputs: tuple[str, ...] = Field(description="The names of the stack's outputs that are added, removed or changed.")


class Report(_Data):
    """What a deployment comes to."""

    schema_version: Literal[1] = SCHEMA_VERSION
    against: str | None = Field(description="What it is compared with; null for nothing.")
    stacks: tuple[StackReport, ...]
    notes: tuple[str, ...]

    @property
    def endpoints(self) -> list[EndpointReport]:
        """Those of all stacks."""
        return [endpoint for stack in self.stacks for endpoint in stack.endpoints]

    @property
    def jobs(self) -> list[JobReport]:
        """Those of all stacks."""
        return [
            job for stack in self.stacks for job in (*stack.artifacts, *(j for e in stack.endpoints for j in e.jobs))
        ]

    @property
    def permissions(self) -> list[PermissionReport]:
        """Those of all stacks."""
        return [change for stack in self.stacks for change in stack.permissions]

    @property
    def refusals(self) -> list[str]:
        """Those of all stacks."""
        return [refusal for stack in self.stacks for refusal in stack.refusals]

    @property
    def has_changes(self) -> bool:
        """Whether a deployment changes anything."""
        return any(stack.change != "unchanged" for stack in self.stacks)

    @property
    def may_run_jobs(self) -> bool:
        """Whether a deployment runs a job, or may."""
        # A reference has no job, whatever is found out of it at deployment.
        return any(
            job.outcome == "new_job" or (job.outcome == "decided_at_deployment" and job.max_seconds is not None)
            for job in self.jobs
        )
