"""What becomes of one endpoint: its parts before and after, compared, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from constructs_optim.templates.resource_types import JOBS
from constructs_optim.templates.template import Resource

from .artifact_jobs import Outlook, outlook
from .capacity import Capacity, MonthlyCost, capacities, monthly_cost
from .evidence import StackEvidence
from .hosted_endpoints import HostedEndpoint, recipes_of
from .job_facts import JobFacts
from .permission_changes import PermissionChange
from .report import Change, RecipeChange
from .resource_changes import Action, ResourceChange
from .update_policies import UpdatePolicy, update_policy


@dataclass(frozen=True)
class Move:
    """How an endpoint (``of`` is empty) or a component moves over, and whether this deployment makes it.

    ``certain``: it does for sure; not where that hangs on what is known only at deployment.
    """

    of: str
    policy: UpdatePolicy
    happens: bool
    certain: bool


@dataclass(frozen=True)
class EndpointChanges:
    """An endpoint before and after; one of the two is there.

    ``changes`` and ``permissions`` are those of the whole stack.
    """

    before: HostedEndpoint | None
    after: HostedEndpoint | None
    changes: Mapping[str, ResourceChange]
    permissions: Sequence[PermissionChange]
    evidence: StackEvidence

    @property
    def endpoint(self) -> HostedEndpoint:
        """As it will be, or was where it is removed."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - one of the two is there
        return found

    @cached_property
    def parts(self) -> dict[str, ResourceChange]:
        """The changes of all that belongs to it."""
        ids = {name for each in (self.before, self.after) if each is not None for name in each.parts}
        return {name: change for name, change in self.changes.items() if name in ids}

    @property
    def change(self) -> Change:
        """What a deployment does with it as a whole."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "removed"
        return "changed" if self.parts else "unchanged"

    @property
    def own(self) -> ResourceChange | None:
        """The change of the endpoint itself."""
        return self.parts.get(self.endpoint.logical_id)

    @property
    def is_interrupted(self) -> bool:
        """Whether requests to it, or to a component that was there, find nothing for a while or for good."""
        gone = [self.endpoint.logical_id]
        if self.before is not None:
            gone += [component.resource.logical_id for component in self.before.components]
        return any(
            change.action in (Action.remove, Action.replace)
            for name in gone
            if (change := self.parts.get(name)) is not None
        )

    @cached_property
    def recipes(self) -> list[RecipeChange]:
        """The recipes before and after: its own, one for each pool, and those of its components."""
        old, new = (_recipes(each) if each is not None else {} for each in (self.before, self.after))
        return [RecipeChange(of=of, before=old.get(of), after=new.get(of)) for of in dict.fromkeys([*new, *old])]

    @cached_property
    def outlooks(self) -> list[Outlook]:
        """What is done for its artifacts."""
        old, new = (_jobs(each) for each in (self.before, self.after))
        return [
            outlook(old.get(name), new.get(name), self.evidence, is_asked_for=name in self.changes)
            for name in dict.fromkeys([*new, *old])
        ]

    @cached_property
    def replaced(self) -> list[ResourceChange]:
        """Its parts in whose place others come, or may."""
        return [
            change
            for change in self.parts.values()
            if change.action in (Action.replace, Action.may_replace) and change.resource.type not in JOBS
        ]

    @cached_property
    def exchanged_models(self) -> list[tuple[Resource, Resource]]:
        """Models that go, each with the one of another type that comes in its place in the app."""
        old, new = (_models(each) if each is not None else [] for each in (self.before, self.after))
        come = {_owner(model): model for model in new if self._happens(model, Action.create)}
        gone = [model for model in old if self._happens(model, Action.remove, Action.keep)]
        found = [(model, come[_owner(model)]) for model in gone if _owner(model) in come]
        return [(model, other) for model, other in found if model.type != other.type]

    def _happens(self, resource: Resource, *actions: Action) -> bool:
        change = self.changes.get(resource.logical_id)
        return change is not None and change.action in actions

    @cached_property
    def moves(self) -> list[Move]:
        """How it, and each of its components, moves over."""
        if self.after is None:
            return []
        template = self.after.template
        movers = [("", self.after.resource, {"EndpointConfigName"})]
        movers += [
            (component_name(self.after, component.resource), component.resource, {"Specification", "Specifications"})
            for component in self.after.components
            if not component.is_adapter
        ]
        found: list[Move] = []
        for of, resource, what in movers:
            change = self.parts.get(resource.logical_id)
            moving = change is not None and change.action is Action.update and bool(what & set(change.properties))
            certain = change is not None and moving and change.is_certain
            found.append(Move(of, update_policy(template, resource), moving, certain))
        return found

    @cached_property
    def capacity(self) -> list[Capacity]:
        """Instances as they will be."""
        return capacities(self.after) if self.after is not None else []

    @cached_property
    def capacity_before(self) -> list[Capacity]:
        """Instances as they are."""
        return capacities(self.before) if self.before is not None else []

    @property
    def cost(self) -> MonthlyCost | None:
        """What it will cost in a month; None where it is removed."""
        return monthly_cost(self.capacity, self.evidence.prices.hosting) if self.after is not None else None

    @property
    def cost_before(self) -> MonthlyCost | None:
        """What it costs in a month now; None where it is new."""
        return monthly_cost(self.capacity_before, self.evidence.prices.hosting) if self.before is not None else None

    @cached_property
    def own_permissions(self) -> list[PermissionChange]:
        """The changes of the roles that SageMaker assumes for it."""
        roles = {name for resource in self.endpoint.parts.values() for name in resource.references}
        return [change for change in self.permissions if change.owner_id in roles and change.kind != "resource policy"]


def component_name(endpoint: HostedEndpoint, resource: Resource) -> str:
    """A component as readers know it: its place in the endpoint."""
    own = endpoint.resource.label
    name = resource.label.removeprefix(own).strip("/")
    # The one of the endpoint's own model has no name but this.
    return name.removesuffix("Component").strip("/") or resource.label


def _models(endpoint: HostedEndpoint) -> list[Resource]:
    """Its own and its components'."""
    return [*endpoint.models, *(model for component in endpoint.components for model in component.models)]


def _owner(model: Resource) -> str:
    """What has the model, by its place in the app: ``Chat/Model`` and ``Chat/OptimizedModel`` have the same."""
    return model.label.removesuffix("Model").removesuffix("Optimized")


def _recipes(endpoint: HostedEndpoint) -> dict[str, str]:
    found: dict[str, str] = {}
    own = recipes_of(endpoint.resource) or _of_jobs(endpoint.jobs)
    pools = [
        str(name)
        for variant in endpoint.variants
        if "InstancePools" in variant.properties
        for _, name in variant.instance_types
    ]
    for place, recipe in enumerate(own):
        found[pools[place] if len(own) > 1 and place < len(pools) else ""] = recipe
    for component in endpoint.components:
        name = component_name(endpoint, component.resource)
        lines = recipes_of(component.resource) or _of_jobs(component.jobs)
        # What the endpoint itself says of its only component is said.
        if lines and lines != own:
            found[name] = "; ".join(lines)
    return found


def _of_jobs(jobs: Sequence[Resource]) -> list[str]:
    """The recipes that jobs are part of, where a release before metadata made the template."""
    return list(dict.fromkeys(JobFacts(job).recipe for job in jobs))


def _jobs(endpoint: HostedEndpoint | None) -> dict[str, JobFacts]:
    return {job.logical_id: JobFacts(job) for job in (endpoint.all_jobs if endpoint is not None else ())}


def pairs(
    before: Sequence[HostedEndpoint], after: Sequence[HostedEndpoint]
) -> Iterator[tuple[HostedEndpoint | None, HostedEndpoint | None]]:
    """Endpoints with the same logical id, first those that will be, then those that go."""
    old, new = ({each.logical_id: each for each in some} for some in (before, after))
    for name in dict.fromkeys([*new, *old]):
        yield old.get(name), new.get(name)
