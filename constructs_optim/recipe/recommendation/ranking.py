"""Which recipes to try for a model, best first: what fits, what it costs, and what is known of how fast it is.

Numbers come from JumpStart's published benchmarks and from evaluations of one's own; none is carried over to another
instance type or worked out for another number of users. What is not measured comes after what is: what the vendor
tested first, then by what a token costs at best. That is a bound of physics and no measurement: to generate a token,
all weights are read from the accelerators' memory once, and accelerators wait for each other in every layer.

Source of the meaning of published numbers: SageMaker developer guide, "Deploy a pre-optimized model", and the SageMaker
Python SDK's table of them: latency is the median time to first token, throughput the median tokens a second of a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from constructs_optim.recipe import pricing
from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.errors import RecipeError, Violation
from constructs_optim.recipe.memory import DEFAULT_BATCH_SIZE, MemoryEstimate, estimate
from constructs_optim.recipe.plan_data import Plan
from constructs_optim.recipe.planning import plan
from constructs_optim.recipe.recipe import Model, Recipe
from constructs_optim.recipe.rules import all_rules, check
from constructs_optim.recipe.techniques import REGISTRY, PreOptimized, Technique
from constructs_optim.recipe.techniques.parsing import parse

from . import reasons
from .data import (
    AtBest,
    Baseline,
    Benchmark,
    Candidate,
    Evidence,
    Exclusion,
    Fit,
    Goal,
    Recommendation,
    Wish,
)

# Tensor parallelism adds up what accelerators computed twice a layer (Shoeybi et al., "Megatron-LM", section 3), and
# the fastest such reduction between H100s was seen to take 3.7 microseconds (SGLang, pull request 2904).
_REDUCTIONS_A_LAYER, _REDUCTION_SECONDS = 2, 3.7e-6
DEFAULT_CONFIGURATION = "lmi-optimized"
PRICE = "price"
HUB = "hub"
"""Stand for a rule's id where a price or the model's hub document is why a recipe is left out."""


def _recommended() -> list[tuple[str, ...]]:
    """The techniques to try, as ``plan --technique`` takes them. Shards are not: they start faster, not serve so."""
    return [
        (f"{kind}={name}", *filter(None, [beside]))
        for kind, techniques in REGISTRY.items()
        for name, technique in techniques.items()
        for beside in technique.recommended
    ]


def recommend(
    model: Model,
    *,
    region: str,
    instance_types: Sequence[str] = (),
    evidence: Evidence | None = None,
    wish: Wish | None = None,
) -> Recommendation:
    """Rank the sensible recipes for a model.

    Args:
        model: with ``accept_eula`` as if its licence were accepted.
        region: where.
        instance_types: those to choose from. Default: all that host endpoints and have an accelerator.
        evidence: what is known beside the catalog. Default: nothing.
        wish: what the user wants. Default: the lowest blended price.

    Raises:
        RecipeError: where the model, the region or an instance type is wrong whatever the recipe.
        ValueError: for a discount that is no share, or a price or concurrency that is not above zero.
    """
    evidence, wish = evidence or Evidence(), wish or Wish()
    pricing.check_price(None, wish.discount)
    if wish.max_price is not None and not wish.max_price > 0:
        raise ValueError(f"max_price is {wish.max_price}, and it has to be above zero")
    if wish.concurrency is not None and wish.concurrency < 1:
        raise ValueError(f"concurrency is {wish.concurrency}, and it has to be at least 1")
    types = tuple(dict.fromkeys(instance_types)) or _hosting_types()
    _refuse_what_no_recipe_mends(model, types, region)
    found: list[Candidate] = []
    left_out = _LeftOut()
    for techniques in _techniques(evidence.configurations):
        given = [_technique(text) for text in techniques]
        for name in types:
            price = evidence.prices.get(name)
            try:
                made = plan(Recipe(model, given, name, region))
            except RecipeError as refused:
                left_out.add(techniques, name, {broken.rule: broken.reason for broken in refused.violations})
                continue
            if wish.max_price is not None and (price is None or price > wish.max_price):
                left_out.add(techniques, name, {PRICE: _too_dear(price, wish.max_price)})
            elif not _is_offered(techniques, name, evidence):
                left_out.add(techniques, name, {HUB: "the model's hub document does not offer it on that type"})
            else:
                found.append(_candidate(model, techniques, made, evidence, wish))
    found.sort(key=lambda candidate: _rank(candidate, wish))
    tried = {(_configuration(each.techniques), each.plan.instance_type) for each in found}
    elsewhere = [
        each
        for each in evidence.benchmarks
        if each.configuration is not None and (each.configuration, each.instance_type) not in tried
    ]
    baseline = _baseline(model, types, region, evidence, wish)
    return Recommendation(tuple(found), left_out.grouped(), tuple(elsewhere), baseline)


def _hosting_types() -> tuple[str, ...]:
    return tuple(name for name, row in instances.by_name().items() if row.hosts_endpoints)


def _is_offered(techniques: tuple[str, ...], instance_type: str, evidence: Evidence) -> bool:
    """Whether the model's hub document, where it says so, offers a configuration on an instance type."""
    types = evidence.configurations.get(_configuration(techniques) or "")
    return not types or instance_type in types


def _configuration(techniques: tuple[str, ...]) -> str | None:
    """The configuration of the hub document that is deployed as it is."""
    return techniques[0].partition("config=")[2] or None


def _techniques(configurations: Iterable[str]) -> list[tuple[str, ...]]:
    pre_optimized = [(f"pre_optimized,config={name}",) for name in [*configurations] or [DEFAULT_CONFIGURATION]]
    return [*pre_optimized, *_recommended()]


def _technique(text: str) -> Technique:
    # A configuration's name is text, whatever it looks like; the parser would read numbers.
    if text.startswith("pre_optimized,config="):
        return PreOptimized(config=text.partition("config=")[2])
    return parse(text)


def _refuse_what_no_recipe_mends(model: Model, types: Iterable[str], region: str) -> None:
    """Refuse what every candidate would be left out for: one refusal says it better than all of them."""
    broken: dict[tuple[str, str], Violation] = {}
    for name in types:
        for found in check(Recipe(model, [_technique(_recommended()[0][0])], name, region)):
            about = found.location.partition(".")[0]
            if about in ("model", "region") or found.rule in ("OPT010", "OPT011"):
                broken[found.rule, str(found.value)] = found
    if broken:
        raise RecipeError(broken.values())


def _candidate(model: Model, techniques: tuple[str, ...], made: Plan, evidence: Evidence, wish: Wish) -> Candidate:
    price = evidence.prices.get(made.instance_type)
    measured, ambiguous = _benchmarks(techniques, made, evidence)
    usable = [found for found in measured if wish.concurrency in (None, found.concurrency)]
    known = [found for found in usable if _figure(found, price, wish) is not None]
    best = min(known, key=lambda found: _figure(found, price, wish) or 0.0, default=None)
    # Something may be known, if not what is ranked by: the fewest users come first.
    shown = best or min(usable, key=lambda found: found.concurrency, default=None)
    jobs = tuple(job.name for job in made.jobs if job.artifact_key not in evidence.artifacts)
    blended = shown.blended_price(price, wish.discount) if shown is not None else None
    at_best = _at_best(model, made.memory, made.instance_type, made.tensor_parallel_degree, price, wish)
    tested = not any(warning.id.endswith(":OPT013") for warning in made.warnings)
    fit = _fit(made.memory)
    speed = [reasons.performance(shown, blended), *reasons.unranked(measured, usable, ambiguous, wish)]
    hosted = [
        reasons.at_best_in_words(at_best),
        reasons.fit_in_words(fit, made.memory),
        f"${price:.2f} an hour" if price is not None else "its price is not known",
    ]
    rest = [reasons.jobs_in_words(made, jobs), *reasons.warnings(made)]
    tight = [reasons.tight_in_words()] if fit is Fit.tight else []
    why, remarks = filter(None, [*speed, *hosted, *rest]), filter(None, [*speed, *tight, *rest])
    return Candidate(
        techniques, made, fit, price, shown, blended, jobs, tuple(why), tuple(remarks), at_best=at_best, tested=tested
    )


def _at_best(
    model: Model, memory: MemoryEstimate | None, instance_type: str, degree: int, price: float | None, wish: Wish
) -> AtBest | None:
    """What memory bandwidth allows: of a mixture of experts, one token reads its own experts alone."""
    row, instance = models.find(model.model_id), instances.by_name()[instance_type]
    if memory is None or row is None or not row.parameters_billion:
        return None
    read = memory.weights_gb * (row.active_parameters_billion or row.parameters_billion) / row.parameters_billion
    speed = instance.memory_bandwidth * instance.accelerator_count * degree / instance.parallel_units
    users, seconds = wish.concurrency or DEFAULT_BATCH_SIZE, (read + memory.draft_gb) / speed
    if degree > 1:
        seconds += _REDUCTIONS_A_LAYER * (row.layers or 0) * _REDUCTION_SECONDS
    blended = (
        pricing.blended_price_per_million_tokens(
            instance_price_per_hour=price, total_throughput=users / seconds, discount=wish.discount
        )
        if price is not None
        else None
    )
    return AtBest(milliseconds=seconds * 1000, users=users, blended_price=blended)


def _baseline(model: Model, types: Iterable[str], region: str, evidence: Evidence, wish: Wish) -> Baseline | None:
    """The model without techniques, which no recipe declares, where it would start."""
    found: list[Baseline] = []
    for name in types:
        unmodified = Recipe(model, [], name, region)
        if unmodified.instance is None or unmodified.instance.kind != "gpu":
            # Neuron devices take what was compiled for them.
            continue
        memory, price = estimate(unmodified), evidence.prices.get(name)
        # Of all rules, one asks for a technique.
        starts = not {broken.rule for broken in check(unmodified)} - {"OPT020"}
        if memory is None or not starts or _fit(memory) is not Fit.fits or unmodified.tensor_parallel_degree is None:
            continue
        if wish.max_price is not None and (price is None or price > wish.max_price):
            continue
        bound = _at_best(model, memory, name, unmodified.tensor_parallel_degree, price, wish)
        found.append(Baseline(name, memory, price, bound))
    return min(
        found, key=lambda each: (*_bound(each.at_best, each.price_per_hour, wish), each.instance_type), default=None
    )


def _bound(at_best: AtBest | None, price: float | None, wish: Wish) -> tuple[object, ...]:
    """What is ranked by where nothing is measured: the less the better."""
    figure = None if at_best is None else at_best.blended_price if wish.goal is Goal.cost else at_best.milliseconds
    return figure is None, figure or 0.0, price is None, price or 0.0


def _benchmarks(techniques: tuple[str, ...], made: Plan, evidence: Evidence) -> tuple[list[Benchmark], bool]:
    """The benchmarks of a recipe, and whether there are others that may be its."""
    served = made.artifact_key if made.jobs else made.container_key
    configuration = _configuration(techniques)
    channels = bool(made.container.channels)
    of_type = [found for found in evidence.benchmarks if found.instance_type == made.instance_type]
    published = [found for found in of_type if configuration is not None and configuration == found.configuration]
    own = [found for found in of_type if found.served is not None and found.served == served]
    # A model without a job is known by all of its container; an artifact may be served with a draft and without.
    certain = [found for found in own if not made.jobs or found.with_channels == channels]
    return [*certain, *published], any(made.jobs and found.with_channels is None for found in own)


def _figure(found: Benchmark, price: float | None, wish: Wish) -> float | None:
    """What a benchmark is ranked by, the smaller the better; None where it is not known."""
    match wish.goal:
        case Goal.cost:
            return found.blended_price(price, wish.discount)
        case Goal.latency:
            return found.time_to_first_token_ms
        case Goal.throughput:
            return -found.tokens_per_second if found.tokens_per_second else None


def _fit(memory: MemoryEstimate | None) -> Fit:
    if memory is None:
        return Fit.unknown
    return Fit.fits if memory.total_gb <= memory.available_gb else Fit.tight


_FITS = {Fit.fits: 0, Fit.unknown: 1, Fit.tight: 2}


def _rank(candidate: Candidate, wish: Wish) -> tuple[object, ...]:
    benchmark, made = candidate.benchmark, candidate.plan
    figure = _figure(benchmark, candidate.price_per_hour, wish) if benchmark is not None else None
    instance = instances.by_name()[made.instance_type]
    trains = any(technique.name == "eagle" for technique in made.techniques)
    return (
        figure is None,
        figure if figure is not None else 0.0,
        not candidate.tested,
        _FITS[candidate.fit],
        # Heads are trained for days before anything is served.
        trains and bool(candidate.jobs),
        *_bound(candidate.at_best, candidate.price_per_hour, wish),
        # Without a price, what has less of everything costs less.
        instance.total_accelerator_memory_gb,
        instance.vcpu,
        len(candidate.jobs),
        made.memory.fixed_gb if made.memory is not None else 0.0,
        candidate.techniques,
        made.instance_type,
    )


def _too_dear(price: float | None, most: float) -> str:
    if price is None:
        return f"its price is not known, and an hour may cost {most:g} dollars"
    return f"an hour costs more than {most:g} dollars"


class _LeftOut:
    """What is left out, gathered by techniques and rule."""

    def __init__(self) -> None:
        # By techniques and rule: the instance types by reason, in their order.
        self._found: dict[tuple[tuple[str, ...], str], dict[str, list[str]]] = {}

    def add(self, techniques: tuple[str, ...], instance_type: str, why: Mapping[str, str]) -> None:
        """Leave techniques out on an instance type, for reasons by rule."""
        for rule, reason in why.items():
            self._found.setdefault((techniques, rule), {}).setdefault(reason, []).append(instance_type)

    def grouped(self) -> tuple[Exclusion, ...]:
        """All of it; where instance types differ in why they break a rule, with the rule's own reason."""
        general = {each.id: each.reason for each in all_rules()}
        return tuple(
            Exclusion(techniques, rule, reason, tuple(types))
            for (techniques, rule), by_reason in self._found.items()
            for reason, types in (
                by_reason.items()
                if len(by_reason) == 1 or rule not in general
                else [(general[rule], [name for types in by_reason.values() for name in types])]
            )
        )
