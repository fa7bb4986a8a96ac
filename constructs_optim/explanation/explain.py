"""Explains the effects of deploying a synthesized app, compared with another one, with what is deployed, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from constructs_optim.templates.resource_types import JOBS, OPTIMIZED_ARTIFACT
from constructs_optim.templates.template import Template

from .assembly import StackTemplate
from .comparison import Comparison, refusal
from .endpoints import endpoints_in
from .evidence import StackEvidence
from .formatting import listed
from .jobs import ArtifactJob, report_job
from .permissions import permission_changes
from .report import Change, EndpointReport, JobReport, Report, StackReport
from .resources import compare, other_resources, same_value
from .sentences import describe


def explain(
    after: Sequence[StackTemplate],
    before: Sequence[StackTemplate] | None = None,
    *,
    against: str | None = None,
    deployed: bool = False,
    evidence_of: Callable[[StackTemplate], StackEvidence] = lambda stack: StackEvidence(),
    notes: Iterable[str] = (),
) -> Report:
    """Explain the effects of deploying an app.

    Args:
        after: the app's stacks.
        before: the stacks it is compared with; None where there is nothing to compare with.
        against: what ``before`` is, for readers.
        deployed: whether ``before`` is what CloudFormation returned. Default: another synthesized app.
        evidence_of: facts about a stack besides its template. Default: none.
        notes: notes beside the report's own.
    """
    old = {stack.path: stack for stack in before or ()}
    all_notes = list(notes)
    if before is None:
        all_notes.insert(0, "It is compared with nothing, so this is what a first deployment comes to: see --against.")
    stacks = [_stack(old.get(stack.path), stack, evidence_of(stack), deployed=deployed) for stack in after]
    paths = {stack.path for stack in after}
    for path, stack in old.items():
        if path in paths:
            continue
        # A nested stack is deleted with its parent's resource; where the parent is left, so are its nested stacks.
        if any(path.startswith(f"{other}/") for other in paths if stack.parents):
            stacks.append(_stack(stack, None, evidence_of(stack), deployed=deployed))
        elif not stack.parents:
            all_notes.append(
                f"The stack {path} is in {against} alone. A deployment leaves it as it is, endpoints and all: "
                "`cdk destroy` deletes it."
            )
    report = Report(against=against, stacks=tuple(stacks), notes=())
    return report.model_copy(update={"notes": (*all_notes, *_missing_evidence(report))})


def _missing_evidence(report: Report) -> Iterable[str]:
    """A note on the options that would add prices and stores, once for all endpoints and jobs."""
    costs = [endpoint.monthly_cost for endpoint in report.endpoints if endpoint.change != "unchanged"]
    undecided = [job for job in report.jobs if job.outcome == "decided_at_deployment"]
    options: list[str] = []
    if any(cost is not None and cost.unpriced for cost in costs) or any(
        job.max_seconds is not None and job.price_per_hour is None for job in undecided
    ):
        options.append("costs (--prices aws, or a file)")
    if undecided:
        options.append("whether jobs run, and for how long (--store deployed)")
    return [f"Not looked up: {listed(options)}."] if options else []


def _stack(
    before: StackTemplate | None, after: StackTemplate | None, evidence: StackEvidence, *, deployed: bool
) -> StackReport:
    shown = after or before
    assert shown is not None  # noqa: S101 - one of the two is set
    old, new = (Template(stack.template) if stack is not None else Template({}) for stack in (before, after))
    changes = compare(old if before else None, new if after else None, deployed=deployed)
    permissions = permission_changes(old, new)
    old_endpoints, new_endpoints = (
        {endpoint.logical_id: endpoint for endpoint in endpoints_in(side)} for side in (old, new)
    )
    comparisons = [
        Comparison(shown.path, old_endpoints.get(name), new_endpoints.get(name), changes, permissions, evidence)
        for name in {**new_endpoints, **old_endpoints}
    ]
    endpoints: list[EndpointReport] = [describe(comparison) for comparison in comparisons]
    # A job that an endpoint serves, before or after, is reported with that endpoint.
    served = {name for comparison in comparisons for name in comparison.jobs}
    old_jobs, new_jobs = (
        {
            job.logical_id: ArtifactJob(job)
            for job in side.of_type(*JOBS, OPTIMIZED_ARTIFACT)
            if job.logical_id not in served
        }
        for side in (old, new)
    )
    artifacts: list[JobReport] = [
        report_job(old_jobs.get(name), new_jobs.get(name), evidence, is_requested=name in changes)
        for name in {**new_jobs, **old_jobs}
    ]
    reported = {name for comparison in comparisons for name in comparison.parts} | {*old_jobs, *new_jobs}
    outputs, old_outputs = new.section("Outputs"), old.section("Outputs")
    changed_outputs = [
        name
        for name in {**outputs, **old_outputs}
        if not same_value(old_outputs.get(name), outputs.get(name), deployed=deployed)
    ]
    refused = [text for change in changes.values() if (text := refusal(change)) is not None]
    change: Change = "changed" if changes or permissions or changed_outputs else "unchanged"
    return StackReport(
        name=shown.path,
        region=shown.region,
        change="new" if before is None else "removed" if after is None else change,
        refusals=(*refused, *(text for comparison in comparisons for text in comparison.refusals())),
        endpoints=tuple(endpoints),
        artifacts=tuple(artifacts),
        permissions=tuple(permissions),
        resources=tuple(other_resources(changes, reported)),
        outputs=tuple(changed_outputs),
    )
