"""Explains the effects of deploying a synthesized app over another version of it, or as a first deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from constructs_optim.recipe.choices import described, differences, expected
from constructs_optim.recipe.objectives import choice_name
from constructs_optim.templates.endpoints import Variant, targets_of_variant
from constructs_optim.templates.json_values import literal
from constructs_optim.templates.resource_types import (
    ENDPOINT,
    JOBS,
    OPTIMIZED_ARTIFACT,
    SCALING_POLICY,
    VARIANT_SCALING,
)
from constructs_optim.templates.template import Resource, Template
from constructs_optim.templates.text import text_of

from .assembly import StackTemplate
from .endpoints import Endpoint, capacities, describe_update, monthly_cost
from .formatting import listed
from .jobs import ArtifactJob, StackEvidence, recipes_of, report_job
from .permissions import permission_changes
from .report import Change, DriftReport, EndpointReport, JobReport, RecipeChange, Report, StackReport
from .resources import ResourceChange, compare, same_value

# Properties whose change moves an endpoint or a component to new instances.
_MOVING = frozenset({"EndpointConfigName", "Specification", "Specifications"})


def explain(
    after: Sequence[StackTemplate],
    before: Sequence[StackTemplate] | None = None,
    *,
    against: str | None = None,
    deployed: bool = False,
    evidence_of: Callable[[StackTemplate], StackEvidence] = lambda stack: StackEvidence(),
    drift_of: Callable[[StackTemplate], Sequence[DriftReport]] = lambda stack: (),
    notes: Iterable[str] = (),
    with_prices: bool = False,
) -> Report:
    """Explain the effects of deploying ``after`` over ``before``, which is ``deployed`` or synthesized.

    ``drift_of`` returns what was removed or changed by hand of a deployed stack. ``with_prices`` tells whether prices
    were asked for, whatever the evidence has of them.
    """
    old = {stack.path: stack for stack in before or ()}
    all_notes = list(notes)
    if before is None:
        all_notes.insert(0, "Without --against, this report describes a first deployment.")
    stacks = [
        _stack(old.get(stack.path), stack, evidence_of(stack), deployed=deployed).model_copy(
            update={"drift": tuple(drift_of(stack))}
        )
        for stack in after
    ]
    paths = {stack.path for stack in after}
    for path, stack in old.items():
        if path in paths:
            continue
        # A nested stack is deleted with its parent's resource, unless the parent is not deployed.
        if stack.parents and any(path.startswith(f"{parent}/") for parent in paths):
            stacks.append(_stack(stack, None, evidence_of(stack), deployed=deployed))
        elif not stack.parents:
            all_notes.append(
                f"The stack {path} is only in {against}. A deployment does not change it or its endpoints; "
                "`cdk destroy` deletes it."
            )
    report = Report(against=against, stacks=tuple(stacks), notes=())
    return report.model_copy(update={"notes": (*all_notes, *_missing_evidence(report, with_prices=with_prices))})


def _missing_evidence(report: Report, *, with_prices: bool) -> Iterable[str]:
    """Return a note about the options that add prices and stores."""
    costs = [endpoint.monthly_cost for endpoint in report.endpoints if endpoint.change != "unchanged"]
    undecided = [job for job in report.jobs if job.outcome == "decided_at_deployment"]
    options: list[str] = []
    is_unpriced = any(cost is not None and cost.unpriced for cost in costs) or any(
        job.max_seconds is not None and job.price_per_hour is None for job in undecided
    )
    if is_unpriced and not with_prices:
        options.append("costs (--prices aws, or a file)")
    if undecided:
        options.append("whether jobs run, and for how long (--store deployed)")
    return [f"Not looked up: {listed(options)}."] if options else []


def _stack(
    before: StackTemplate | None, after: StackTemplate | None, evidence: StackEvidence, *, deployed: bool
) -> StackReport:
    shown = after or before
    assert shown is not None  # noqa: S101 - one of the two is set
    old, new = sides = [Template(stack.template if stack is not None else {}) for stack in (before, after)]
    changes = compare(old, new, deployed=deployed)
    old_endpoints, new_endpoints = (
        {resource.logical_id: Endpoint(side, resource) for resource in side.of_type(ENDPOINT)} for side in sides
    )
    pairs = [(old_endpoints.get(name), new_endpoints.get(name)) for name in {**new_endpoints, **old_endpoints}]
    # Jobs of an endpoint's artifacts are reported with the endpoint.
    parts = {name for pair in pairs for endpoint in pair if endpoint is not None for name in endpoint.parts}
    old_jobs, new_jobs = (
        {job.logical_id: job for job in side.of_type(*JOBS, OPTIMIZED_ARTIFACT) if job.logical_id not in parts}
        for side in sides
    )
    permissions = permission_changes(old, new)
    outputs_change = not same_value(old.section("Outputs"), new.section("Outputs"), deployed=deployed)
    change: Change = "changed" if changes or permissions or outputs_change else "unchanged"
    return StackReport(
        name=shown.path,
        region=shown.region,
        change="new" if before is None else "removed" if after is None else change,
        refusals=(
            *(change.refusal for change in changes.values() if change.refusal),
            *(text for old, new in pairs if old and new for text in _scaling_refusals(old, new, changes)),
        ),
        endpoints=tuple(_endpoint(shown.path, *pair, changes, evidence) for pair in pairs),
        artifacts=tuple(_jobs(old_jobs, new_jobs, changes, evidence)),
        permissions=tuple(permissions),
        resources=tuple(
            change.report for name, change in changes.items() if name not in parts | old_jobs.keys() | new_jobs.keys()
        ),
    )


def _jobs(
    before: Mapping[str, Resource],
    after: Mapping[str, Resource],
    changes: Mapping[str, ResourceChange],
    evidence: StackEvidence,
) -> Iterator[JobReport]:
    for name in {**after, **before}:
        old, new = (ArtifactJob(side[name]) if name in side else None for side in (before, after))
        yield report_job(old, new, evidence, is_requested=name in changes)


def _endpoint(
    stack: str,
    before: Endpoint | None,
    after: Endpoint | None,
    changes: Mapping[str, ResourceChange],
    evidence: StackEvidence,
) -> EndpointReport:
    endpoint = after or before
    assert endpoint is not None  # noqa: S101 - one of the two is set
    ids = {name for side in (after, before) if side is not None for name in side.parts}
    parts = {name: change for name, change in changes.items() if name in ids}
    names = [endpoint.resource, *(before.components.values() if before is not None else ())]
    own = [parts[resource.logical_id] for resource in names if resource.logical_id in parts]
    old_capacity, new_capacity = (tuple(capacities(side)) if side is not None else () for side in (before, after))
    prices = evidence.prices
    change: Change = "changed" if parts else "unchanged"
    old_recipes, new_recipes = (_recipes(side) if side is not None else {} for side in (before, after))
    old_jobs, new_jobs = (side.jobs if side is not None else {} for side in (before, after))
    return EndpointReport(
        name=f"{stack}/{endpoint.resource.label}",
        endpoint_name=literal(endpoint.resource.get("EndpointName")),
        logical_id=endpoint.resource.logical_id,
        change="new" if before is None else "removed" if after is None else change,
        is_interrupted=before is not None and any(change.action in ("remove", "replace") for change in own),
        recipes=tuple(
            RecipeChange(of=name, before=old_recipes.get(name), after=new_recipes.get(name))
            for name in {**new_recipes, **old_recipes}
        ),
        choice=_choice(before, after),
        jobs=tuple(_jobs(old_jobs, new_jobs, changes, evidence)),
        resources=tuple(change.report for change in parts.values()),
        updates=tuple(_updates(after, parts)) if after is not None else (),
        scaling=tuple(_policies(before, after)) if before is not None and after is not None else (),
        capacity=new_capacity,
        capacity_before=old_capacity,
        monthly_cost=monthly_cost(new_capacity, prices.hosting, prices.source) if after is not None else None,
        monthly_cost_before=monthly_cost(old_capacity, prices.hosting, prices.source) if before is not None else None,
    )


def _choice(before: Endpoint | None, after: Endpoint | None) -> str | None:
    """Describe the choice for an endpoint's objectives, or its changes."""
    old, new = (side.choice if side is not None else None for side in (before, after))
    if new is None:
        return "the endpoint no longer has objectives" if old is not None else None
    (choice, objectives) = new
    if old is not None and old[1] == objectives and old[0].model == choice.model:
        return differences(old[0], choice) or None
    return f"chosen for {choice_name(choice.model, objectives)}: {described(choice)}; {expected(choice)}"


def _recipes(endpoint: Endpoint) -> dict[str, str]:
    """Return the recipes, one line each, by the name of the pool or component; empty name for the endpoint's own."""
    own = recipes_of(endpoint.resource)
    pools = [
        str(name)
        for variant in endpoint.variants
        if "InstancePools" in variant.properties
        for _, name in variant.instance_types
    ]
    recipes = {pools[index] if len(own) > 1 and index < len(pools) else "": recipe for index, recipe in enumerate(own)}
    for name, component in endpoint.components.items():
        lines = recipes_of(component)
        # The endpoint's own recipe is the recipe of its only component.
        if lines and lines != own:
            recipes[name] = "; ".join(lines)
    return recipes


def _updates(endpoint: Endpoint, parts: Mapping[str, ResourceChange]) -> Iterator[str]:
    for name, resource in {"": endpoint.resource, **endpoint.components}.items():
        change = parts.get(resource.logical_id)
        if change is not None and change.action == "update" and _MOVING & {*change.properties}:
            text = f"{name}: " if name else ""
            yield f"{text}{'' if change.is_certain else 'possibly '}{describe_update(endpoint.template, resource)}"


def _policies(before: Endpoint, after: Endpoint) -> Iterator[str]:
    """Describe the policies of an endpoint that are added, removed, or get another target."""
    old, new = (
        {name: part for name, part in side.parts.items() if part.type == SCALING_POLICY} for side in (before, after)
    )
    for name, policy in {**new, **old}.items():
        label = (new.get(name) or policy).label.rpartition("/")[2].removeprefix(after.resource.label)
        label = label.removeprefix("Scaling") or label
        was, is_ = (_target_of(side[name]) if name in side else None for side in (old, new))
        if name not in new:
            yield f"{label} is removed"
        elif name not in old:
            yield f"{label} is new{f', target {is_}' if is_ is not None else ''}"
        elif was != is_ and None not in (was, is_):
            yield f"{label}: target {was} becomes {is_}"


def _target_of(policy: Resource) -> str | None:
    """Return the target of a policy; None if it has none."""
    target = policy.get("TargetTrackingScalingPolicyConfiguration", "TargetValue")
    return text_of(target) if target is not None else None


def _scaling_refusals(before: Endpoint, after: Endpoint, changes: Mapping[str, ResourceChange]) -> Iterator[str]:
    """Find changes of a scaled variant that SageMaker refuses: another instance type, or its removal.

    Source: SageMaker developer guide, "Update endpoints that use auto scaling". CloudFormation updates the endpoint
    before it deletes a scaling target: the stack needs resources that deregister the variant, before and after.
    """
    own = changes.get(after.resource.logical_id)
    # A new endpoint has no targets yet.
    if own is not None and own.action == "replace":
        return
    if all(_makes_way(endpoint) for endpoint in (before, after)):
        return
    advice = (
        "first without auto_scale(...) and without other changes, which deregisters the variant; then with the "
        "change and with auto_scale(...)."
        if not _makes_way(after)
        else "first without other changes, which adds a resource that deregisters the variant; then with the change."
    )
    new = {variant.properties.get("VariantName"): _instance_types(variant) for variant in after.variants}
    for variant in before.variants:
        name, types = variant.properties.get("VariantName"), _instance_types(variant)
        if not targets_of_variant(before.template, variant):
            continue
        if name not in new:
            change = f"the variant {name} is removed"
        elif not types or new[name] in ([], types):
            continue
        else:
            change = f"the instance type of {name} changes from {listed(types)} to {listed(new[name])}"
        yield (
            f"SageMaker refuses the update of {after.resource.label}: {change} while Application Auto Scaling scales "
            f"it. Deploy twice: {advice}"
        )


def _makes_way(endpoint: Endpoint) -> bool:
    """Return whether the stack deregisters the endpoint's variant during its update, and registers it again."""
    name = text_of(endpoint.resource.get("EndpointName"))
    return any(text_of(each.get("EndpointName")) == name for each in endpoint.template.of_type(VARIANT_SCALING))


def _instance_types(variant: Variant) -> list[str]:
    """Return the instance types of a variant; empty if one is resolved at deployment."""
    types = [literal(value) for _, value in variant.instance_types]
    return [name for name in types if name is not None] if None not in types else []
