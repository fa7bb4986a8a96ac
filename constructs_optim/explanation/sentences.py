"""Describes the changes of one endpoint in sentences for a reviewer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from constructs_optim.recipe.pricing import HOURS_A_MONTH
from constructs_optim.templates.json_values import number
from constructs_optim.templates.resource_types import (
    COMPONENT_CAPACITY,
    ENDPOINT,
    ENDPOINT_CONFIG,
    INFERENCE_COMPONENT,
    JOBS,
    MODELS,
    OPTIMIZED_MODEL,
    SCALABLE_TARGET,
    SCALING_POLICY,
)
from constructs_optim.templates.text import text_of

from .comparison import Comparison
from .endpoints import (
    component_name,
    describe_capacity,
    describe_policy,
    describe_rollback,
    own_components,
    scaled_range,
    update_policy,
)
from .formatting import between, capitalized, counted, listed, money
from .report import EndpointReport, MonthlyCost, RecipeChange, Sentence, Topic, UpdateReport
from .resources import ResourceChange, value_differences

_KINDS = {
    ENDPOINT: "endpoint",
    ENDPOINT_CONFIG: "endpoint config",
    INFERENCE_COMPONENT: "inference component",
    **dict.fromkeys(MODELS, "model"),
    SCALABLE_TARGET: "scaling range",
    SCALING_POLICY: "scaling policy",
    COMPONENT_CAPACITY: "look-up of copies",
}

# RecipePlan.summary, also of the release that did not state the degree.
_RECIPE = re.compile(
    r"(?P<model>.+?): (?P<techniques>.+), (?P<instance_type>ml\.[^,\s]+)"
    r"(?:, tensor parallel degree (?P<tensor_parallel_degree>\d+))?"
)


def describe(comparison: Comparison) -> EndpointReport:
    """The report of an endpoint with its sentences, in the order in which they are read."""
    report = comparison.report
    topics: tuple[tuple[Topic, Iterator[str]], ...] = (
        ("recipe", _recipes(comparison, report)),
        ("artifact", _artifacts(comparison, report)),
        ("replacement", _replacements(comparison, report)),
        ("update", _updates(comparison, report)),
        ("settings", _settings(comparison, report)),
        ("capacity", _capacity(comparison, report)),
        ("cost", _cost(report, comparison.evidence.prices.source)),
        ("permissions", _permissions(comparison, report)),
    )
    sentences = tuple(Sentence(topic=topic, text=text) for topic, texts in topics for text in texts)
    return report.model_copy(update={"sentences": sentences})


def _recipes(comparison: Comparison, report: EndpointReport) -> Iterator[str]:
    for recipe in report.recipes:
        yield _recipe(recipe)
    if not report.recipes and comparison.after is not None and not comparison.after.components:
        yield "What it serves is not known: its resources have no metadata of constructs-optim."


def _recipe(recipe: RecipeChange) -> str:
    subject = recipe.of or "It"
    if recipe.before is None:
        return f"{subject} serves {recipe.after}."
    if recipe.after is None:
        return f"{subject} served {recipe.before}."
    if recipe.before == recipe.after:
        return f"{subject} serves {recipe.after}, as before."
    old, new = (_RECIPE.fullmatch(text) for text in (recipe.before, recipe.after))
    if old is None or new is None:
        differences = f"{recipe.before} becomes {recipe.after}"
    else:
        differences = "; ".join(
            f"{name.replace('_', ' ')}: {old[name] or 'not stated'} becomes {new[name] or 'not stated'}"
            for name in _RECIPE.groupindex
            if old[name] != new[name]
        )
    return f"{recipe.of}: {differences}." if recipe.of else f"{capitalized(differences)}."


def _artifacts(comparison: Comparison, report: EndpointReport) -> Iterator[str]:
    for job in report.jobs:
        text = " ".join(job.sentences)
        before, after = comparison.jobs[job.logical_id]
        shown = after or before
        yield f"{shown.resource.label}: {text}" if len(report.jobs) > 1 and shown is not None else text


def _replacements(comparison: Comparison, report: EndpointReport) -> Iterator[str]:
    own = comparison.own
    name = f"{report.endpoint_name} " if report.endpoint_name is not None else ""
    match report.change:
        case "new":
            yield f"The endpoint {name}is created, with its config{_counted_models(comparison)}."
        case "removed" if own is not None and own.action == "keep":
            yield "The endpoint leaves the stack and stays as it is, by its DeletionPolicy; it goes on costing money."
        case "removed":
            yield f"The endpoint {name}is deleted: requests to it fail from then on."
        case "changed":
            yield from _replaced_parts(comparison)
        case "unchanged":
            pass


def _counted_models(comparison: Comparison) -> str:
    models, components = len(comparison.endpoint.all_models), len(comparison.endpoint.components)
    parts = [counted(models, "model")] if models else []
    parts += [counted(components, "inference component")] if components else []
    return f" and {parts[0]}" if len(parts) == 1 else f", {listed(parts)}" if parts else ""


def _replaced_parts(comparison: Comparison) -> Iterator[str]:
    own = comparison.own
    for model, other in comparison.exchanged_models:
        kind = "a custom resource" if other.type == OPTIMIZED_MODEL else f"an {other.type}"
        yield f"The model {model.label} is replaced by {other.label}, {kind}."
    for change in comparison.replaced:
        if change is not own:
            yield _replaced(comparison, change)
    for change in comparison.parts.values():
        if change.resource.type == INFERENCE_COMPONENT:
            yield from _component_change(component_name(comparison.endpoint.resource, change.resource), change)
    if own is not None and own.before is not None and own.after is not None and own.action == "replace":
        old, new = (text_of(resource.properties.get("EndpointName")) for resource in (own.before, own.after))
        yield (
            f"The endpoint itself is replaced, as its name changes from {old} to {new}: it starts anew beside the old "
            "one, which is deleted after that. Whoever names the old one finds nothing then."
        )
    elif comparison.replaced or comparison.exchanged_models:
        yield "The endpoint itself stays, with its name."


def _component_change(name: str, change: ResourceChange) -> Iterator[str]:
    match change.action:
        case "create":
            yield f"The inference component {name} is created."
        case "keep":
            yield f"The inference component {name} leaves the stack and stays as it is, by its DeletionPolicy."
        case "remove":
            yield f"The inference component {name} is deleted: requests that name it fail from then on."
        case _:
            pass


def _replaced(comparison: Comparison, change: ResourceChange) -> str:
    kind = _kind(change)
    is_only = sum(_kind(other) == kind for other in comparison.replaced) == 1
    subject = f"The {kind}" if is_only else f"The {kind} {change.resource.label}"
    certain = change.action == "replace"
    verb = "may change" if not certain else "changes" if len(change.replacing) == 1 else "change"
    causes = [cause for name in change.causes if (cause := comparison.changes.get(name)) is not None]
    # What certainly changes, where there is any such cause.
    causes = [cause for cause in causes if cause.action == "replace"] or causes
    reasons = listed(list(dict.fromkeys(_cause(cause) for cause in causes)) or [*change.causes])
    return (
        f"{subject} {'is' if certain else 'may be'} replaced: {listed(change.replacing)} {verb}"
        f"{f' with {reasons}' if reasons else ''}, and cannot be changed in place."
    )


def _kind(change: ResourceChange) -> str:
    return _KINDS.get(change.resource.type, change.resource.type)


def _cause(change: ResourceChange) -> str:
    if change.resource.type in JOBS:
        return "the attributes of its artifact's job"
    return f"the {_KINDS[change.resource.type]}" if change.resource.type in _KINDS else change.resource.label


def _updates(comparison: Comparison, report: EndpointReport) -> Iterator[str]:
    if report.change == "new":
        # A component's updates are reported when there is one.
        for update in report.updates[:1]:
            yield f"Later changes update it by {describe_policy(update)}. {describe_rollback(update)}"
    elif report.change == "changed":
        for update in report.updates:
            if update.happens:
                yield _update(comparison, update)
        if not any(update.happens for update in report.updates) and not comparison.is_replaced:
            yield "Its fleet stays as it is: no update of the endpoint moves traffic."


def _update(comparison: Comparison, update: UpdateReport) -> str:
    subject = f"The component {update.of}" if update.of else "The endpoint"
    verb = "updates" if update.certain else "may update"
    text = f"{subject} {verb} by {describe_policy(update)}. {describe_rollback(update)}"
    if not update.of:
        if update.strategy != "rolling":
            text += " Until the old fleet is gone, both are paid for."
        if text_of(comparison.endpoint.resource.get("RetainAllVariantProperties")) == "true":
            text += " The number of instances stays as scaling has set it."
    return text


def _settings(comparison: Comparison, report: EndpointReport) -> Iterator[str]:
    for change in comparison.parts.values() if report.change == "changed" else ():
        kind, label = _KINDS.get(change.resource.type), change.resource.label
        if change.resource.type in JOBS:
            yield from _job_settings(comparison, change)
        elif kind is None or change.action == "refuse":
            continue
        elif change.action in ("create", "remove"):
            if change.resource.type in (SCALABLE_TARGET, SCALING_POLICY):
                yield f"{kind} {label} is {'added' if change.action == 'create' else 'removed'}.".capitalize()
        else:
            policy = _policy_change(comparison, report, change)
            if policy is not None:
                yield policy
            if differences := value_differences(change, () if policy is None else ("DeploymentConfig",)):
                yield f"{capitalized(kind)} {label}: {'; '.join(differences)}."
            for name in change.attributes:
                yield f"{capitalized(kind)} {label}: {name} changes."


def _policy_change(comparison: Comparison, report: EndpointReport, change: ResourceChange) -> str | None:
    """A changed update policy; None where it stays."""
    before, after = comparison.before, comparison.after
    if before is None or after is None or change.before is None or change.after is None:
        return None
    old, new = update_policy(before.template, change.before), update_policy(after.template, change.after)
    if old == new:
        return None
    # Alarms are listed where they change as well.
    old_text, new_text = (
        f"{describe_policy(policy)}. {describe_rollback(policy)}"
        if old.alarms != new.alarms
        else f"{describe_policy(policy)}."
        for policy in (old, new)
    )
    is_own = change.logical_id == report.logical_id
    name = "" if is_own else component_name(comparison.endpoint.resource, change.resource)
    if any(update.happens and update.of == name for update in report.updates):
        return f"Until now, updates of {change.resource.label} went by {old_text}"
    return f"Updates of {change.resource.label} go by {new_text} Before: by {old_text}"


def _job_settings(comparison: Comparison, change: ResourceChange) -> Iterator[str]:
    """How a job runs, where the artifact is the same."""
    before, after = comparison.jobs.get(change.logical_id, (None, None))
    if after is not None and after.makes_same(before) and (differences := value_differences(change)):
        yield f"How the job would run changes, and not what it makes: {'; '.join(differences)}."


def _capacity(comparison: Comparison, report: EndpointReport) -> Iterator[str]:
    if comparison.after is None:
        return
    new, old = (" and ".join(map(describe_capacity, some)) for some in (report.capacity, report.capacity_before))
    if new:
        changed = comparison.before is not None and old != new
        yield f"{capitalized(new)}; before: {old}." if changed else f"{capitalized(new)}."
    for component in own_components(comparison.after):
        if component.target is not None:
            least, most, reason = scaled_range(component.target)
            copies = between(*(str(bound) if bound is not None else "?" for bound in (least, most)))
        else:
            count = number(component.resource.get("RuntimeConfig", "CopyCount"))
            copies, reason = str(count) if count is not None else "known at deployment", "not scaled"
        yield f"Copies of {component.name}: {copies} ({reason})."


def _cost(report: EndpointReport, source: str) -> Iterator[str]:
    cost, before = report.monthly_cost, report.monthly_cost_before
    if cost is None:
        if before is not None and (text := cost_range(before)):
            yield f"It cost {text} a month."
        return
    if cost.unpriced:
        # Without prices, a note of the whole report says how to give some.
        if not source:
            return
        yield f"What it costs in a month is not known: there is no price of {listed(cost.unpriced)}."
    elif cost.least is None or cost.most is None:
        yield "What it costs in a month is not known: the number of instances is known only at deployment."
    else:
        basis = f"{HOURS_A_MONTH} hours on demand{f', {source}' if source else ''}"
        text = f"{money(cost.least)} a month at the least capacity and {money(cost.most)} at the most ({basis})."
        if cost.least == cost.most:
            text = f"{money(cost.most)} a month ({basis})."
        if before is not None and cost_range(before):
            same = (cost.least, cost.most) == (before.least, before.most)
            text += " As before." if same else f" Before: {cost_range(before)}."
        yield text
    if any(capacity.is_reserved for capacity in report.capacity):
        yield "The instances come out of a capacity reservation, which is paid for by itself, whatever on-demand costs."


def cost_range(cost: MonthlyCost) -> str:
    """``$5,176 to $20,703``; empty where it is not known."""
    return between(money(cost.least), money(cost.most)) if cost.least is not None and cost.most is not None else ""


def _permissions(comparison: Comparison, report: EndpointReport) -> Iterator[str]:
    if report.change in ("new", "removed"):
        return
    by_owner: dict[str, Counter[str]] = {}
    for change in comparison.own_permissions:
        by_owner.setdefault(change.owner, Counter())[change.direction] += 1
    for owner, counts in by_owner.items():
        directions = listed([f"{count} {direction}" for direction, count in counts.items()])
        noun = "statement" if counts.total() == 1 else "statements"
        yield f"What {owner} may do changes: {directions} {noun} (see permissions)."
