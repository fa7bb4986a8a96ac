"""Formats a report as text for a terminal, or as a comment on a pull request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from constructs_optim.recipe.pricing import HOURS_A_MONTH

from .endpoints import describe_capacity
from .formatting import between, counted, listed, money, wrapped
from .report import EndpointReport, MonthlyCost, RecipeChange, Report, ResourceReport, StackReport

MARKER = "<!-- constructs-optim explain -->"
"""The first line of a comment, which lets a workflow find its comment to update."""

# In the order of the report.
_ACTIONS = {
    "replace": "replaced",
    "may_replace": "may be replaced",
    "remove": "deleted",
    "keep": "left in the account (DeletionPolicy)",
    "create": "created",
    "update": "updated",
}
_MOST_PERMISSIONS = 10
# From this number, resources that endpoints have alike are counted.
_ALIKE = 3
# GitHub's limit for comments is 65,536 characters.
_LONGEST_COMMENT = 65_000
# Control characters, bidirectional controls, and surrogates.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def text_lines(report: Report, width: int) -> list[str]:
    """Format the report in lines of at most ``width``, except for longer names, with indented details."""
    return [
        line
        for indent, text in _outline(report)
        for line in wrapped(
            _printable(text),
            width,
            indent=indent,
            then=f"{indent}  " if indent else "",
        ).splitlines()
    ]


def _printable(text: str) -> str:
    """Return a text on one line, without characters that a terminal does not show or obeys."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def contents(report: Report) -> list[str]:
    """Describe what the stacks of a first deployment contain: recipes, jobs, capacities, number of permissions.

    The lines are not wrapped, and the same for the same templates, so that programs can compare two descriptions.
    """
    paragraphs: list[tuple[str, str]] = []
    for stack in report.stacks:
        for endpoint in stack.endpoints:
            without_resources = endpoint.model_copy(update={"resources": ()})
            paragraphs += [("", endpoint.name), *(("  ", text) for text in _endpoint(without_resources))]
        if stack.artifacts:
            heading = f"Artifacts of {stack.name} that other stacks serve"
            paragraphs += [("", heading), *(("  ", text) for text in _artifacts(stack))]
        if granted := sum(len(change.gained) for change in stack.permissions):
            paragraphs.append(("", f"Permissions of {stack.name}: {granted}"))
    return [f"{indent}{_printable(text)}" for indent, text in paragraphs]


def markdown(report: Report) -> str:
    """Format the report as a comment, in a code block so that text from templates is not Markdown."""
    lines, length = [], 0
    for line in text_lines(report, width=100):
        length += len(line.encode("utf-16-le")) // 2 + 1
        if length > _LONGEST_COMMENT:
            lines.append("(Truncated, because a comment has at most 65,536 characters.)")
            break
        lines.append(line)
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", "\n".join(lines)))])
    caution = ["> [!CAUTION]", "> AWS refuses this deployment.", ""] if report.refusals else []
    heading = [MARKER, "## What this deployment does", "", *caution, f"**{_conclusion(report)}**", ""]
    return "\n".join([*heading, f"{fence}text", *lines, fence, ""])


def _outline(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the indentation and text of the report's paragraphs."""
    for refusal in report.refusals:
        yield "", refusal
    if report.against is not None:
        yield "", f"Compared with {report.against}."
    for stack in report.stacks:
        for heading, details in _stack(stack):
            yield "", heading
            for detail in details:
                yield "  ", detail
    for note in report.notes:
        yield "", note
    yield "", _conclusion(report)


def _stack(stack: StackReport) -> Iterator[tuple[str, Iterable[str]]]:
    is_new = stack.change == "new"
    for is_missing, what in ((True, "missing"), (False, "changed")):
        if drifted := [each for each in stack.drift if each.is_missing == is_missing]:
            details = [f"{each.name} {each.text}. Next: {each.remedy}" for each in drifted]
            yield f"Deployed, but {what} in the account ({stack.name})", details
    region = f" in {stack.region}" if stack.region is not None else ""
    for endpoints, details in _alike(stack.endpoints):
        first = endpoints[0]
        interrupted = ", interrupted" if first.is_interrupted else ""
        others = [endpoint.name.removeprefix(f"{stack.name}/") for endpoint in endpoints]
        names = first.name if len(endpoints) == 1 else f"{len(others)} endpoints of {stack.name} ({', '.join(others)})"
        yield f"{names}: {first.change}{interrupted}{region}", details
    unchanged = [endpoint.name for endpoint in stack.endpoints if not endpoint.has_news]
    if unchanged and stack.change != "unchanged":
        yield f"Unchanged: {', '.join(unchanged)}.", ()
    if any(job.outcome != "stays" for job in stack.artifacts):
        yield f"Artifacts of {stack.name} that other stacks serve", _artifacts(stack)
    if stack.permissions:
        yield f"Permissions of {stack.name}", _permissions(stack)
    if any(resource.action != "refuse" for resource in stack.resources):
        labels = [endpoint.name.removeprefix(f"{stack.name}/") for endpoint in stack.endpoints]
        yield f"Other resources of {stack.name}", _resources(stack.resources, is_new=is_new, endpoints=labels)


def _alike(endpoints: Iterable[EndpointReport]) -> Iterator[tuple[list[EndpointReport], tuple[str, ...]]]:
    """Yield the endpoints with news and their details; endpoints whose details only differ in their resources' names
    together. The name of an endpoint can also be in the name of a model, which has to be the same.
    """
    groups: dict[tuple[str, bool, tuple[str, ...]], list[EndpointReport]] = {}
    for endpoint in endpoints:
        if endpoint.has_news:
            label = endpoint.name.rpartition("/")[2]
            resources = tuple(
                each.model_copy(update={"name": f"*{each.name[len(label) :]}"}) if each.name.startswith(label) else each
                for each in endpoint.resources
            )
            nameless = tuple(_endpoint(endpoint.model_copy(update={"resources": resources})))
            groups.setdefault((endpoint.change, endpoint.is_interrupted, nameless), []).append(endpoint)
    for (_, _, nameless), group in groups.items():
        yield group, tuple(_endpoint(group[0])) if len(group) == 1 else nameless


def _artifacts(stack: StackReport) -> Iterator[str]:
    for job in stack.artifacts:
        yield f"artifact: {job.recipe}. {' '.join(job.sentences)}"


def _endpoint(endpoint: EndpointReport) -> Iterator[str]:
    for recipe in endpoint.recipes:
        yield f"recipe: {_recipe(recipe)}"
    if endpoint.choice is not None:
        yield f"objectives: {endpoint.choice}"
    for job in endpoint.jobs:
        of = f"{job.recipe}: " if len(endpoint.jobs) > 1 else ""
        yield f"artifact: {of}{' '.join(job.sentences)}"
    for text in _resources(endpoint.resources, is_new=endpoint.change == "new"):
        yield f"resources {text}"
    for update in endpoint.updates:
        yield f"update: {update}"
    for change in endpoint.scaling:
        yield f"scaling: {change}"
    new, old = (" and ".join(map(describe_capacity, some)) for some in (endpoint.capacity, endpoint.capacity_before))
    if new:
        yield f"capacity: {new}{f'; before: {old}' if old and old != new else ''}"
    yield from _cost(endpoint)


def _recipe(recipe: RecipeChange) -> str:
    of = f"{recipe.of}: " if recipe.of else ""
    if recipe.after is None or recipe.before is None:
        return f"{of}{recipe.after or f'{recipe.before}, no longer'}"
    if recipe.before == recipe.after:
        return f"{of}{recipe.after}, as before"
    return f"{of}{recipe.before} becomes {recipe.after}"


def _resources(resources: Sequence[ResourceReport], *, is_new: bool, endpoints: Sequence[str] = ()) -> Iterator[str]:
    """Yield the names of resources by change, or only their number for a new endpoint or stack.

    Resources that several of ``endpoints`` have alike are named once.
    """
    for action, phrase in _ACTIONS.items():
        for certain, verb in ((True, phrase), (False, phrase if phrase.startswith("may") else f"may be {phrase}")):
            changed = [each for each in resources if (each.action, each.certain) == (action, certain)]
            if changed:
                yield f"{verb}: {len(changed) if is_new else ', '.join(_names(changed, endpoints))}"


def _names(resources: Sequence[ResourceReport], endpoints: Sequence[str]) -> Iterator[str]:
    """Yield the names of resources with their properties, and once for the endpoints that have it alike."""
    by_length = sorted(endpoints, key=len, reverse=True)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for resource in resources:
        owner = next((each for each in by_length if resource.name.startswith(each)), "")
        alike.setdefault((resource.name[len(owner) :], resource.properties), []).append(resource.name)
    for (name, properties), names in alike.items():
        several = len(names) >= _ALIKE
        for shown in [f"{name.strip('/')} of {len(names)} endpoints"] if several else names:
            yield f"{shown} ({', '.join(properties)})" if properties else shown


def _permissions(stack: StackReport) -> Iterator[str]:
    if stack.change == "new":
        granting = [change for change in stack.permissions if change.grants_more]
        permissions = sum(len(change.gained) for change in granting)
        yield f"{len(granting)} new policies with {permissions} permissions: `explain --json` lists them"
        return
    for change in stack.permissions:
        kind = "" if change.kind == "permissions" else f" ({change.kind})"
        more = "grants more than before" if change.grants_more else "grants no more than before"
        yield f"{change.owner}{kind}: {more}, {len(change.gained)} added and {len(change.lost)} removed"
        texts = [*(f"+ {text}" for text in change.gained), *(f"- {text}" for text in change.lost)]
        yield from texts[:_MOST_PERMISSIONS]
        if len(texts) > _MOST_PERMISSIONS:
            yield f"{len(texts) - _MOST_PERMISSIONS} more: `explain --json` lists them"


def _cost(endpoint: EndpointReport) -> Iterator[str]:
    cost, before = endpoint.monthly_cost, _cost_range(endpoint.monthly_cost_before)
    if cost is None:
        if before:
            yield f"cost: {before} per month until now"
        return
    if after := _cost_range(cost):
        basis = f"{HOURS_A_MONTH} hours on demand{f', {cost.source}' if cost.source else ''}"
        change = "" if not before else "; as before" if before == after else f"; before: {before}"
        yield f"cost: {after} per month ({basis}){change}"
    elif not cost.unpriced:
        yield "cost: unknown, because the number of instances is known only at deployment"
    elif cost.source:
        # Without prices, a note of the report names the option.
        yield f"cost: unknown, because the price list has no {listed(cost.unpriced)}"
    if any(capacity.is_reserved for capacity in endpoint.capacity):
        yield "cost: the instances are in a capacity reservation, which you pay for separately"


def _cost_range(cost: MonthlyCost | None) -> str:
    """Format a cost as ``$5,176 to $20,703``; empty if it is unknown."""
    if cost is None or cost.least is None or cost.most is None:
        return ""
    return between(money(cost.least), money(cost.most))


def _conclusion(report: Report) -> str:
    if report.refusals:
        return f"AWS refuses this deployment for {counted(len(report.refusals), 'reason')}: see the top."
    drift = f" {counted(len(report.drift), 'resource')} drifted: see the top." if report.drift else ""
    if not report.has_changes:
        return f"Nothing changes.{drift}"
    changes = Counter(endpoint.change for endpoint in report.endpoints)
    parts = [", ".join(f"{counted(count, 'endpoint')} {change}" for change, count in changes.items()) or "No endpoint"]
    if any(endpoint.is_interrupted for endpoint in report.endpoints):
        parts.append("requests are interrupted")
    if not report.may_run_jobs:
        parts.append("no job runs")
    else:
        parts.append("a new job runs" if any(job.outcome == "new_job" for job in report.jobs) else "a job may run")
    granted = sum(change.grants_more for change in report.permissions)
    parts.append(f"{granted or 'no'} {'policy grants' if granted == 1 else 'policies grant'} new permissions")
    return f"{'; '.join(parts)}.{drift}"
