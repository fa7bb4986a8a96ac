"""What becomes of one endpoint, in sentences for whoever reviews it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

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

from .capacity import Capacity, scaled_range
from .endpoint_changes import EndpointChanges, Move, component_name
from .report import RecipeChange, Sentence, Topic
from .resource_changes import Action, ResourceChange
from .update_policies import Strategy, update_policy
from .value_differences import value_differences
from .words import between, listed, money

_KINDS = {
    ENDPOINT: "endpoint",
    ENDPOINT_CONFIG: "endpoint config",
    INFERENCE_COMPONENT: "inference component",
    **dict.fromkeys(MODELS, "model"),
    SCALABLE_TARGET: "scaling range",
    SCALING_POLICY: "scaling policy",
    COMPONENT_CAPACITY: "look-up of copies",
}

# RecipePlan.summary, also of the release before it told the degree.
_RECIPE = re.compile(
    r"(?P<model>.+?): (?P<techniques>.+), (?P<instance_type>ml\.[^,\s]+)"
    r"(?:, tensor parallel degree (?P<tensor_parallel_degree>\d+))?"
)


def sentences(changes: EndpointChanges) -> list[Sentence]:
    """All there is to say, in the order in which it is read; one sentence of its being unchanged, where it is."""
    parts: tuple[tuple[Topic, Iterator[str]], ...] = (
        ("recipe", _recipes(changes)),
        ("artifact", _artifacts(changes)),
        ("replacement", _replacements(changes)),
        ("update", _moves(changes)),
        ("settings", _settings(changes)),
        ("capacity", _capacity(changes)),
        ("cost", _cost(changes)),
        ("permissions", _permissions(changes)),
    )
    return [Sentence(topic=topic, text=text) for topic, texts in parts for text in texts]


def _recipes(changes: EndpointChanges) -> Iterator[str]:
    for recipe in changes.recipes:
        yield _recipe(recipe)
    if not changes.recipes and changes.after is not None and not changes.after.components:
        yield "What it serves is not told: its resources have no metadata of constructs-optim."


def _recipe(recipe: RecipeChange) -> str:
    who = f"{recipe.of} serves" if recipe.of else "It serves"
    if recipe.before is None:
        return f"{who} {recipe.after}."
    if recipe.after is None:
        return f"{recipe.of or 'It'} served {recipe.before}."
    if recipe.before == recipe.after:
        return f"{who} {recipe.after}, as before."
    differences = "; ".join(_recipe_differences(recipe.before, recipe.after))
    return f"{recipe.of}: {differences}." if recipe.of else f"{_first_up(differences)}."


def _recipe_differences(before: str, after: str) -> Iterator[str]:
    """What differs between two recipes, ``instance type: ml.g5.12xlarge becomes ml.g6.12xlarge``."""
    old, new = (_RECIPE.fullmatch(each) for each in (before, after))
    if old is None or new is None:
        yield f"{before} becomes {after}"
        return
    for name in _RECIPE.groupindex:
        if old[name] != new[name]:
            yield f"{name.replace('_', ' ')}: {old[name] or 'not stated'} becomes {new[name] or 'not stated'}"


def _artifacts(changes: EndpointChanges) -> Iterator[str]:
    several = len(changes.outlooks) > 1
    for found in changes.outlooks:
        said = found.sentence if found.estimate is None else f"{found.sentence} {found.estimate.words}"
        yield f"{found.facts.resource.label}: {said}" if several else said


def _replacements(changes: EndpointChanges) -> Iterator[str]:
    match changes.change:
        case "new":
            yield f"The endpoint {_named(changes)}is created, with its config{_counted_models(changes)}."
            return
        case "removed":
            yield _removed(changes)
            return
        case "unchanged":
            return
        case _:
            pass
    own = changes.own
    for model, other in changes.exchanged_models:
        how = "a custom resource" if other.type == OPTIMIZED_MODEL else f"an {other.type}"
        yield f"The model {model.label} is replaced by {other.label}, {how}."
    for change in changes.replaced:
        if change is not own:
            yield _replaced(changes, change)
    for change in changes.parts.values():
        if change.resource.type == INFERENCE_COMPONENT and change.action in (Action.create, Action.remove, Action.keep):
            yield _component_came_or_went(changes, change)
    if own is not None and own.action is Action.replace:
        old, new = (
            text_of(each.properties.get("EndpointName")) for each in (own.before, own.after) if each is not None
        )
        yield (
            f"The endpoint itself is replaced, as its name changes from {old} to {new}: it starts anew beside the old "
            "one, which is deleted after that. Whoever names the old one finds nothing then."
        )
    elif changes.replaced or changes.exchanged_models:
        yield "The endpoint itself stays, with its name."


def _removed(changes: EndpointChanges) -> str:
    own = changes.own
    if own is not None and own.action is Action.keep:
        return "The endpoint leaves the stack and stays as it is, by its DeletionPolicy; it goes on costing money."
    return f"The endpoint {_named(changes)}is deleted: requests to it fail from then on."


def _replaced(changes: EndpointChanges, change: ResourceChange) -> str:
    kind = _KINDS.get(change.resource.type, change.resource.type)
    certain = change.action is Action.replace
    may = "is replaced" if certain else "may be replaced"
    names = listed(change.replacing)
    which = f"The {kind}" if _is_only(changes, change) else f"The {kind} {change.resource.label}"
    why = listed(list(dict.fromkeys(_cause(changes, name) for name in _telling_causes(changes, change))))
    follows = f" with {why}" if why else ""
    verb = "may change" if not certain else "changes" if len(change.replacing) == 1 else "change"
    return f"{which} {may}: {names} {verb}{follows}, and cannot be changed in place."


def _telling_causes(changes: EndpointChanges, change: ResourceChange) -> Sequence[str]:
    """What a replacement follows from: what certainly changes, where there is any such thing."""
    found = {name: changes.changes.get(name) for name in change.causes}
    certain = [name for name, cause in found.items() if cause is not None and cause.is_replaced]
    return certain or list(found)


def _is_only(changes: EndpointChanges, change: ResourceChange) -> bool:
    kind = _KINDS.get(change.resource.type)
    return sum(_KINDS.get(other.resource.type) == kind for other in changes.replaced) == 1


def _cause(changes: EndpointChanges, name: str) -> str:
    found = changes.changes.get(name)
    if found is None:
        return name
    if found.resource.type in JOBS:
        return "what its artifact's job answers"
    kind = _KINDS.get(found.resource.type)
    return f"the {kind}" if kind is not None else found.resource.label


def _component_came_or_went(changes: EndpointChanges, change: ResourceChange) -> str:
    name = component_name(changes.endpoint, change.resource)
    match change.action:
        case Action.create:
            return f"The inference component {name} is created."
        case Action.keep:
            return f"The inference component {name} leaves the stack and stays as it is, by its DeletionPolicy."
        case _:
            return f"The inference component {name} is deleted: requests that name it fail from then on."


def _moves(changes: EndpointChanges) -> Iterator[str]:
    if changes.change in ("removed", "unchanged"):
        return
    for move in changes.moves:
        if changes.change == "new":
            # A component's updates are told of when there is one.
            if not move.of:
                yield f"Later changes move it over by {move.policy.words}. {move.policy.rollback_words}"
        elif move.happens:
            yield _moved(changes, move)
    if changes.change == "changed" and not any(move.happens for move in changes.moves):
        own = changes.own
        if own is None or own.action is not Action.replace:
            yield "Its fleet stays as it is: no update of the endpoint moves traffic."


def _moved(changes: EndpointChanges, move: Move) -> str:
    who = f"The component {move.of}" if move.of else "The endpoint"
    said = f"{who} {'updates' if move.certain else 'may update'} by {move.policy.words}. {move.policy.rollback_words}"
    if not move.of:
        if move.policy.strategy is not Strategy.rolling:
            said += " Until the old fleet is gone, both are paid for."
        properties = changes.endpoint.resource.properties
        if text_of(properties.get("RetainAllVariantProperties", False)) == "true":
            said += " The number of instances stays as scaling has set it."
    return said


def _settings(changes: EndpointChanges) -> Iterator[str]:
    if changes.change != "changed":
        return
    for change in changes.parts.values():
        kind = _KINDS.get(change.resource.type)
        if change.resource.type in JOBS:
            yield from _job_settings(changes, change)
        elif kind is None or change.action is Action.refuse:
            continue
        elif change.action in (Action.create, Action.remove):
            if change.resource.type.startswith("AWS::ApplicationAutoScaling"):
                verb = "added" if change.action is Action.create else "removed"
                yield f"{kind} {change.resource.label} is {verb}.".capitalize()
        else:
            policy = _policy_change(changes, change)
            if policy is not None:
                yield policy
            found = value_differences(change, () if policy is None else ("DeploymentConfig",))
            if found:
                yield f"{_first_up(kind)} {change.resource.label}: {'; '.join(found)}."
            for name in change.attributes:
                yield f"{_first_up(kind)} {change.resource.label}: {name} changes."


def _policy_change(changes: EndpointChanges, change: ResourceChange) -> str | None:
    """How it moves over from now on, where that is what changes."""
    if "DeploymentConfig" not in change.properties or changes.before is None or changes.after is None:
        return None
    policies = [
        update_policy(endpoint.template, resource)
        for endpoint, resource in ((changes.before, change.before), (changes.after, change.after))
        if resource is not None
    ]
    before, after = policies
    if before == after:
        return None
    # What watches an update is told of where that changes as well.
    watched = before.alarms != after.alarms
    old, new = (f"{each.words}. {each.rollback_words}" if watched else f"{each.words}." for each in policies)
    own = change.logical_id == changes.endpoint.logical_id
    name = "" if own else component_name(changes.after, change.resource)
    if any(move.happens and move.of == name for move in changes.moves):
        return f"Until now, updates of {change.resource.label} went by {old}"
    return f"Updates of {change.resource.label} go by {new} Before: by {old}"


def _job_settings(changes: EndpointChanges, change: ResourceChange) -> Iterator[str]:
    """How a job runs, where the artifact is the same; of another artifact the recipe tells."""
    same = any(
        found.before is not None and found.after is not None and found.after.makes_what(found.before)
        for found in changes.outlooks
        if found.facts.resource.logical_id == change.logical_id
    )
    differences = value_differences(change) if same else []
    if differences:
        yield f"How the job would run changes, and not what it makes: {'; '.join(differences)}."


def _capacity(changes: EndpointChanges) -> Iterator[str]:
    if changes.after is None:
        return
    new, old = (_words(some) for some in (changes.capacity, changes.capacity_before))
    if new:
        yield f"{_first_up(new)}; before: {old}." if changes.before is not None and old != new else f"{_first_up(new)}."
    for component in changes.after.components:
        if component.is_adapter:
            continue
        name = component_name(changes.after, component.resource)
        if component.target is not None:
            least, most, why = scaled_range(component.target)
            bounds = between(*(str(bound) if bound is not None else "?" for bound in (least, most)))
            yield f"Copies of {name}: {bounds} ({why})."
        else:
            copies = number(component.resource.get("RuntimeConfig", "CopyCount"))
            yield f"Copies of {name}: {copies if copies is not None else 'known at deployment'} (not scaled)."


def _words(some: Sequence[Capacity]) -> str:
    return " and ".join(one.words for one in some)


def _cost(changes: EndpointChanges) -> Iterator[str]:
    cost, before = changes.cost, changes.cost_before
    if cost is None:
        if before is not None and before.least is not None and before.most is not None:
            yield f"It cost {between(money(before.least), money(before.most))} a month."
        return
    if cost.unpriced and not changes.evidence.prices.source:
        # The report's note says once how to give prices.
        return
    if cost.unpriced:
        yield f"What it costs in a month is not known: there is no price of {listed(cost.unpriced)}."
    elif cost.least is None or cost.most is None:
        yield "What it costs in a month is not known: the number of instances is known only at deployment."
    else:
        yield f"{_priced(changes, cost.least, cost.most)}{_difference(changes)}"
    if any(one.is_reserved for one in changes.capacity):
        yield "The instances come out of a capacity reservation, which is paid for by itself, whatever on-demand costs."


def _priced(changes: EndpointChanges, least: float, most: float) -> str:
    source = changes.evidence.prices.source
    basis = f"{HOURS_A_MONTH} hours on demand, {source}" if source else f"{HOURS_A_MONTH} hours on demand"
    if least == most:
        return f"{money(most)} a month ({basis})."
    return f"{money(least)} a month at the least capacity and {money(most)} at the most ({basis})."


def _difference(changes: EndpointChanges) -> str:
    cost, before = changes.cost, changes.cost_before
    if cost is None or before is None or None in (cost.least, cost.most, before.least, before.most):
        return ""
    if (cost.least, cost.most) == (before.least, before.most):
        return " As before."
    assert before.least is not None  # noqa: S101 - just seen
    assert before.most is not None  # noqa: S101 - just seen
    return f" Before: {between(money(before.least), money(before.most))}."


def _permissions(changes: EndpointChanges) -> Iterator[str]:
    if changes.change not in ("changed", "unchanged"):
        return
    by_owner: dict[str, Counter[str]] = {}
    for change in changes.own_permissions:
        by_owner.setdefault(change.owner, Counter())[change.direction.value] += 1
    for owner, counts in by_owner.items():
        total = sum(counts.values())
        said = listed([f"{count} {direction}" for direction, count in counts.items()])
        yield f"What {owner} may do changes: {said} {'statement' if total == 1 else 'statements'} (see permissions)."


def _named(changes: EndpointChanges) -> str:
    name = changes.endpoint.name
    return f"{name} " if name is not None else ""


def _counted_models(changes: EndpointChanges) -> str:
    endpoint = changes.endpoint
    models = {model.logical_id for model in endpoint.models}
    models |= {model.logical_id for component in endpoint.components for model in component.models}
    components = len(endpoint.components)
    parts = [f"{len(models)} model{'s' if len(models) != 1 else ''}"] if models else []
    parts += [f"{components} inference component{'s' if components != 1 else ''}"] if components else []
    return f" and {listed(parts)}" if len(parts) == 1 else f", {listed(parts)}" if parts else ""


def _first_up(text: str) -> str:
    return text[:1].upper() + text[1:]
