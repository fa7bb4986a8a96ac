"""Compares an endpoint before and after a deployment, and reports what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from constructs_optim.templates.json_values import literal
from constructs_optim.templates.resource_types import JOBS, WAITING
from constructs_optim.templates.template import Resource

from .endpoints import (
    Component,
    Endpoint,
    capacities,
    monthly_cost,
    own_components,
    update_policy,
)
from .evidence import StackEvidence
from .formatting import listed
from .jobs import ArtifactJob, recipes_of, report_job
from .report import (
    Action,
    Change,
    EndpointReport,
    PermissionChange,
    RecipeChange,
    ReplacementReport,
    UpdateReport,
)
from .resources import ResourceChange

_DEPLOY_TWICE = (
    "Deploy twice: first without auto_scale(...) and with nothing else changed, which deregisters the variant; then "
    "with the change, and with auto_scale(...) again."
)


@dataclass(frozen=True)
class Comparison:
    """An endpoint before and after a deployment; one of the two is set.

    ``changes`` and ``permissions`` are those of the whole stack ``stack``.
    """

    stack: str
    before: Endpoint | None
    after: Endpoint | None
    changes: Mapping[str, ResourceChange]
    permissions: Sequence[PermissionChange]
    evidence: StackEvidence

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint after the deployment, or before where it is removed."""
        endpoint = self.after or self.before
        assert endpoint is not None  # noqa: S101 - one of the two is set
        return endpoint

    @property
    def sides(self) -> list[Endpoint]:
        """The endpoint after and before, as far as there is one."""
        return [endpoint for endpoint in (self.after, self.before) if endpoint is not None]

    @cached_property
    def parts(self) -> dict[str, ResourceChange]:
        """The changes of everything that belongs to the endpoint."""
        ids = {name for endpoint in self.sides for name in endpoint.parts}
        return {name: change for name, change in self.changes.items() if name in ids}

    @property
    def own(self) -> ResourceChange | None:
        """The change of the endpoint's own resource."""
        return self.parts.get(self.endpoint.logical_id)

    @property
    def is_replaced(self) -> bool:
        """Whether the endpoint itself is replaced."""
        return self.own is not None and self.own.action == "replace"

    @cached_property
    def jobs(self) -> dict[str, tuple[ArtifactJob | None, ArtifactJob | None]]:
        """The jobs before and after, by logical id."""
        new, old = (
            {name: ArtifactJob(job) for name, job in endpoint.all_jobs.items()} if endpoint is not None else {}
            for endpoint in (self.after, self.before)
        )
        return {name: (old.get(name), new.get(name)) for name in {**new, **old}}

    @cached_property
    def replaced(self) -> list[ResourceChange]:
        """The changes of its parts that are replaced, or may be."""
        return [
            change
            for change in self.parts.values()
            if change.action in ("replace", "may_replace") and change.resource.type not in JOBS
        ]

    @cached_property
    def exchanged_models(self) -> list[tuple[Resource, Resource]]:
        """Models that are removed, each with the one of another type that is created at the same path."""
        created = {_owner(model): model for model in self._models(self.after, "create")}
        removed = self._models(self.before, "remove", "keep")
        pairs = [(model, created[_owner(model)]) for model in removed if _owner(model) in created]
        return [(model, other) for model, other in pairs if model.type != other.type]

    def _models(self, endpoint: Endpoint | None, *actions: Action) -> list[Resource]:
        models = endpoint.all_models.values() if endpoint is not None else ()
        return [
            model
            for model in models
            if model.logical_id in self.changes and self.changes[model.logical_id].action in actions
        ]

    @cached_property
    def own_permissions(self) -> list[PermissionChange]:
        """The changes of the roles that SageMaker assumes for it."""
        roles = {name for resource in self.endpoint.parts.values() for name in resource.references}
        return [change for change in self.permissions if change.owner_id in roles and change.kind != "resource policy"]

    @cached_property
    def report(self) -> EndpointReport:
        """The report of the endpoint, without its sentences."""
        before, after, prices = self.before, self.after, self.evidence.prices.hosting
        capacity = capacities(after) if after is not None else ()
        capacity_before = capacities(before) if before is not None else ()
        change: Change = "changed" if self.parts else "unchanged"
        return EndpointReport(
            name=f"{self.stack}/{self.endpoint.resource.label}",
            endpoint_name=self.endpoint.name,
            logical_id=self.endpoint.logical_id,
            change="new" if before is None else "removed" if after is None else change,
            is_interrupted=self._is_interrupted,
            recipes=tuple(self._recipes()),
            jobs=tuple(
                report_job(*job, self.evidence, is_requested=name in self.changes) for name, job in self.jobs.items()
            ),
            replaced=tuple(
                ReplacementReport(
                    logical_id=change.logical_id,
                    type=change.resource.type,
                    certain=change.action == "replace",
                    properties=change.replacing,
                )
                for change in self.replaced
            ),
            updates=tuple(self._updates(after)) if after is not None else (),
            capacity=capacity,
            capacity_before=capacity_before,
            monthly_cost=monthly_cost(capacity, prices) if after is not None else None,
            monthly_cost_before=monthly_cost(capacity_before, prices) if before is not None else None,
        )

    @property
    def _is_interrupted(self) -> bool:
        components: tuple[Component, ...] = self.before.components if self.before is not None else ()
        names = [self.endpoint.logical_id, *(component.resource.logical_id for component in components)]
        return any(self.parts[name].action in ("remove", "replace") for name in names if name in self.parts)

    def _recipes(self) -> Iterator[RecipeChange]:
        old, new = (_recipes(endpoint) if endpoint is not None else {} for endpoint in (self.before, self.after))
        for name in {**new, **old}:
            yield RecipeChange(of=name, before=old.get(name), after=new.get(name))

    def _updates(self, after: Endpoint) -> Iterator[UpdateReport]:
        updated = [("", after.resource, {"EndpointConfigName"})]
        updated += [
            (component.name, component.resource, {"Specification", "Specifications"})
            for component in own_components(after)
        ]
        for name, resource, properties in updated:
            change = self.parts.get(resource.logical_id)
            happens = change is not None and change.action == "update" and bool(properties & {*change.properties})
            certain = change is not None and happens and change.is_certain
            policy = update_policy(after.template, resource)
            yield UpdateReport(of=name, happens=happens, certain=certain, **policy.model_dump())

    def refusals(self) -> Iterator[str]:
        """Changes of the endpoint that SageMaker refuses: other instances for a scaled variant, or no variant.

        Source: SageMaker developer guide, "Update endpoints that use auto scaling". CloudFormation updates the endpoint
        before it deletes a scaling target, so the same deployment cannot deregister the variant.
        """
        before, after = self.before, self.after
        # A new endpoint has no targets yet.
        if before is None or after is None or before.target is None or self.is_replaced:
            return
        new = _instance_types(after)
        for name, types in _instance_types(before).items():
            if name not in new:
                change = f"the variant {name} is removed"
            elif None in (*types, *new[name]) or types == new[name]:
                continue
            else:
                old, wanted = (listed([name for name in some if name is not None]) for some in (types, new[name]))
                change = f"the instance type of {name} changes from {old} to {wanted}"
            yield (
                f"SageMaker refuses the update of {self.endpoint.resource.label}: {change} while Application Auto "
                f"Scaling scales it. {_DEPLOY_TWICE}"
            )


def refusal(change: ResourceChange) -> str | None:
    """Why CloudFormation refuses a change, and what works instead; None where it does not."""
    if change.action != "refuse":
        return None
    label = change.resource.label
    if change.resource.type in WAITING:
        # CloudFormation template reference, AWS::CloudFormation::WaitCondition: "Update requires: Updates are not
        # supported."
        return (
            f"CloudFormation refuses the deployment: it cannot update wait conditions, and {listed(change.properties)} "
            f"of {label} changes. Give the construct another id, which replaces the wait condition."
        )
    old, new = (resource.type for resource in (change.before, change.after) if resource is not None)
    # "Update of resource type is not permitted. The new template modifies resource type of the following resources"
    return (
        f"CloudFormation refuses the deployment: {label} changes its type from {old} to {new}. Give the construct "
        "another id: CloudFormation then creates the new resource and deletes the old one."
    )


def _instance_types(endpoint: Endpoint) -> dict[str, tuple[str | None, ...]]:
    """The instance types of each variant by its name; None for a type that is known only at deployment."""
    return {
        str(variant.properties.get("VariantName")): tuple(literal(value) for _, value in variant.instance_types)
        or (None,)
        for variant in endpoint.variants
    }


def _owner(model: Resource) -> str:
    """The path of a model's construct: ``Chat/Model`` and ``Chat/OptimizedModel`` have the same."""
    return model.label.removesuffix("Model").removesuffix("Optimized")


def _recipes(endpoint: Endpoint) -> dict[str, str]:
    """The recipes in one line each: by pool, by component, and with an empty name for the endpoint's own."""
    own = _recipe_lines(endpoint.resource, endpoint.jobs)
    pools = [
        str(name)
        for variant in endpoint.variants
        if "InstancePools" in variant.properties
        for _, name in variant.instance_types
    ]
    recipes = {pools[index] if len(own) > 1 and index < len(pools) else "": recipe for index, recipe in enumerate(own)}
    for component in endpoint.components:
        lines = _recipe_lines(component.resource, component.jobs)
        # The endpoint's own recipe is that of its only component.
        if lines and lines != own:
            recipes[component.name] = "; ".join(lines)
    return recipes


def _recipe_lines(resource: Resource, jobs: Sequence[Resource]) -> list[str]:
    """The recipes in a resource's metadata; those of its jobs where a release before metadata made the template."""
    return recipes_of(resource) or list(dict.fromkeys(ArtifactJob(job).recipe for job in jobs))
