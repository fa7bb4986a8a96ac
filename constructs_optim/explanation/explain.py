"""Two synthesized apps, or one and nothing, explained: a report of what deploying the one comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from constructs_optim.templates.template import Template

from .artifact_jobs import Outlook, outlook
from .assembly import StackTemplate
from .capacity import Capacity, MonthlyCost
from .endpoint_changes import EndpointChanges, pairs
from .endpoint_sentences import sentences
from .evidence import StackEvidence
from .hosted_endpoints import HostedEndpoint, hosted_endpoints, jobs_of_no_endpoint
from .job_facts import JobFacts
from .permission_changes import PermissionChange, Statement, permission_changes
from .refusals import refusals
from .report import (
    CapacityReport,
    Change,
    CostReport,
    EndpointReport,
    JobReport,
    PermissionReport,
    ReplacementReport,
    Report,
    StackReport,
    StatementReport,
    UpdateReport,
)
from .resource_changes import Action, ResourceChange, compare, same_value
from .stack_resources import other_resources
from .words import listed


def explain(
    after: Sequence[StackTemplate],
    before: Sequence[StackTemplate] | None = None,
    *,
    against: str | None = None,
    deployed: bool = False,
    evidence_of: Callable[[StackTemplate], StackEvidence] = lambda stack: StackEvidence(),
    notes: Iterable[str] = (),
) -> Report:
    """What deploying an app comes to.

    Args:
        after: the app's stacks.
        before: the stacks it is compared with; None where there is nothing to compare with.
        against: what ``before`` is, for readers.
        deployed: whether ``before`` is what CloudFormation gave back. Default: another synthesized app.
        evidence_of: what is known of a stack besides its template. Default: nothing.
        notes: what is to be said beside the report's own notes.
    """
    old = {stack.path: stack for stack in before or ()}
    said = list(notes)
    if before is None:
        said.insert(0, "It is compared with nothing, so this is what a first deployment comes to: see --against.")
    stacks = [_stack(old.get(stack.path), stack, evidence_of(stack), deployed=deployed) for stack in after]
    paths = {stack.path for stack in after}
    for path, stack in old.items():
        if path in paths:
            continue
        # A nested stack goes when its parent's template no longer has it; where the parent is left, so is what it has.
        if any(path.startswith(f"{other}/") for other in paths if stack.parents):
            stacks.append(_stack(stack, None, evidence_of(stack), deployed=deployed))
        elif not stack.parents:
            said.append(
                f"The stack {path} is in {against} alone. A deployment leaves it as it is, endpoints and all: "
                "`cdk destroy` deletes it."
            )
    report = Report(against=against, stacks=tuple(stacks), notes=tuple(said))
    hint = _hint(report)
    return report.model_copy(update={"notes": (*report.notes, hint)}) if hint is not None else report


def _hint(report: Report) -> str | None:
    """How to know what is not known, once for all endpoints and jobs."""
    costs = [each.monthly_cost for each in report.endpoints if each.change != "unchanged"]
    unpriced = any(cost is not None and cost.unpriced for cost in costs)
    undecided = [job for job in report.jobs if job.outcome == "decided_at_deployment"]
    unpriced = unpriced or any(job.max_seconds is not None and job.price_per_hour is None for job in undecided)
    parts = ["costs (--prices aws, or a file)"] if unpriced else []
    parts += ["whether jobs run, and for how long (--store deployed)"] if undecided else []
    return f"Not looked up: {listed(parts)}." if parts else None


def _stack(
    before: StackTemplate | None, after: StackTemplate | None, evidence: StackEvidence, *, deployed: bool
) -> StackReport:
    shown = after or before
    assert shown is not None  # noqa: S101 - one of the two is there
    old, new = (Template(each.template) if each is not None else None for each in (before, after))
    changes = compare(old, new, deployed=deployed)
    permissions = permission_changes(old, new)
    endpoints = [
        EndpointChanges(was, will, changes, permissions, evidence)
        for was, will in pairs(*(hosted_endpoints(each) if each is not None else [] for each in (old, new)))
    ]
    apart = list(_artifacts(old, new, endpoints, changes, evidence))
    told = {name for each in endpoints for name in each.parts}
    told |= {found.facts.resource.logical_id for found in apart}
    outputs = [each.section("Outputs") if each is not None else {} for each in (old, new)]
    names = dict.fromkeys([*outputs[1], *outputs[0]])
    differing = [name for name in names if not same_value(*(each.get(name) for each in outputs), deployed=deployed)]
    change: Change = "changed" if changes or permissions or differing else "unchanged"
    return StackReport(
        name=shown.path,
        region=shown.region,
        change="new" if before is None else "removed" if after is None else change,
        refusals=tuple(refusals(changes, endpoints)),
        endpoints=tuple(_endpoint(shown, each) for each in endpoints),
        artifacts=tuple(_job(found) for found in apart),
        permissions=tuple(_permission(each) for each in permissions),
        resources=tuple(other_resources(changes, told)),
        outputs=tuple(differing),
    )


def _artifacts(
    before: Template | None,
    after: Template | None,
    endpoints: Iterable[EndpointChanges],
    changes: Mapping[str, ResourceChange],
    evidence: StackEvidence,
) -> Iterator[Outlook]:
    """The jobs, and references to artifacts, that no endpoint of the stack serves: before or after."""

    def apart(template: Template | None, some: Iterable[HostedEndpoint]) -> dict[str, JobFacts]:
        found = jobs_of_no_endpoint(template, some) if template is not None else []
        return {job.logical_id: JobFacts(job) for job in found}

    listed = list(endpoints)
    old = apart(before, [each.before for each in listed if each.before is not None])
    new = apart(after, [each.after for each in listed if each.after is not None])
    served = {
        job.logical_id
        for each in listed
        for endpoint in (each.before, each.after)
        if endpoint is not None
        for job in endpoint.all_jobs
    }
    for name in dict.fromkeys([*new, *old]):
        # One that an endpoint serves, on one side at least, is that endpoint's to tell of.
        if name not in served:
            yield outlook(old.get(name), new.get(name), evidence, is_asked_for=name in changes)


def _endpoint(stack: StackTemplate, changes: EndpointChanges) -> EndpointReport:
    endpoint = changes.endpoint
    return EndpointReport(
        name=f"{stack.path}/{endpoint.resource.label}",
        endpoint_name=endpoint.name,
        logical_id=endpoint.logical_id,
        change=changes.change,
        is_interrupted=changes.is_interrupted,
        recipes=tuple(changes.recipes),
        jobs=tuple(_job(found) for found in changes.outlooks),
        replaced=tuple(_replacement(change) for change in changes.replaced),
        updates=tuple(
            UpdateReport(
                of=move.of,
                happens=move.happens,
                strategy=move.policy.strategy.value,
                step=move.policy.step,
                bake_seconds=move.policy.bake_seconds,
                termination_seconds=move.policy.termination_seconds,
                alarms=move.policy.alarms,
            )
            for move in changes.moves
        ),
        capacity=tuple(_capacity(one) for one in changes.capacity),
        capacity_before=tuple(_capacity(one) for one in changes.capacity_before),
        monthly_cost=_cost(changes.cost),
        monthly_cost_before=_cost(changes.cost_before),
        sentences=tuple(sentences(changes)),
    )


def _replacement(change: ResourceChange) -> ReplacementReport:
    return ReplacementReport(
        logical_id=change.logical_id,
        type=change.resource.type,
        certain=change.action is Action.replace,
        properties=change.replacing,
    )


def _job(found: Outlook) -> JobReport:
    facts, estimate = found.facts, found.estimate
    seconds = costs = None
    if estimate is not None and estimate.low_seconds is not None and estimate.high_seconds is not None:
        seconds = (estimate.low_seconds, estimate.high_seconds)
        low, high = (estimate.cost(each) for each in seconds)
        costs = (round(low, 2), round(high, 2)) if low is not None and high is not None else None
    most = estimate.cost(estimate.max_seconds) if estimate is not None else None
    return JobReport(
        logical_id=facts.resource.logical_id,
        recipe=facts.recipe,
        artifact_key=found.after.artifact_key if found.after is not None else None,
        artifact_key_before=found.before.artifact_key if found.before is not None else None,
        outcome=found.outcome.value,
        instance_type=facts.instance_type,
        max_seconds=facts.max_seconds,
        estimated_seconds=seconds,
        estimated_cost=costs,
        estimate_based_on=estimate.based_on if estimate is not None else 0,
        max_cost=round(most, 2) if most is not None else None,
        price_per_hour=estimate.price_per_hour if estimate is not None else None,
        price_basis=estimate.price_basis if estimate is not None else "",
        sentences=(found.sentence, *([estimate.words] if estimate is not None else [])),
    )


def _capacity(one: Capacity) -> CapacityReport:
    return CapacityReport(instance_types=one.types, least=one.least, most=one.most)


def _cost(cost: MonthlyCost | None) -> CostReport | None:
    if cost is None:
        return None
    least, most = (round(bound, 2) if bound is not None else None for bound in (cost.least, cost.most))
    return CostReport(least=least, most=most, unpriced=cost.unpriced)


def _permission(change: PermissionChange) -> PermissionReport:
    return PermissionReport(
        owner=change.owner,
        kind=change.kind.value,
        direction=change.direction.value,
        grants_more=change.grants_more,
        before=_statement(change.before),
        after=_statement(change.after),
    )


def _statement(statement: Statement | None) -> StatementReport | None:
    if statement is None:
        return None
    return StatementReport(
        sid=statement.sid,
        effect=statement.effect,
        actions=statement.actions,
        resources=statement.resources,
        principals=statement.principals,
        conditions=statement.conditions,
    )
