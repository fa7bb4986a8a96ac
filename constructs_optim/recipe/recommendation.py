"""Ranks the recipes that work for a model by price, latency or throughput.

Figures are those of JumpStart's published benchmarks and of the user's own evaluations; none is carried over to another
instance type or number of users. Recipes without figures follow those with figures: instance families that the vendor
tested first, then by a lower bound of the price or time of a token. To generate a token, all weights are read from the
accelerators' memory once, and the accelerators synchronize in every layer.

Source of the meaning of published figures: SageMaker developer guide, "Deploy a pre-optimized model", and the SageMaker
Python SDK's table of them: latency is the median time to first token, throughput the median tokens a second of a user.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from . import pricing
from .catalog import instances, models
from .catalog.lock import NO_COMMIT, Lock
from .errors import RecipeError, Violation
from .memory import DEFAULT_BATCH_SIZE, estimate
from .model import Model
from .plan_data import MemoryEstimate, Plan
from .planning import plan
from .recipe import Recipe
from .rules import all_rules, check
from .techniques import REGISTRY, Technique
from .techniques.parsing import parse

# Tensor parallelism takes two all-reduces per layer (Shoeybi et al., "Megatron-LM", section 3); the fastest that was
# measured between H100s took 3.7 microseconds (SGLang, pull request 2904).
_REDUCTIONS_A_LAYER, _REDUCTION_SECONDS = 2, 3.7e-6
_FP8 = "fp8"
_CONFIGURATION = "pre_optimized,config="
DEFAULT_CONFIGURATION = "lmi-optimized"
PRICE = "price"
HUB = "hub"
"""In place of a rule's id: a recipe is excluded by its price, or by the model's hub document."""
# Warnings whose content other reasons repeat: no version is pinned, the KV cache does not fit.
_REPEATED = ("constructs-optim:OPT006", "constructs-optim:OPT051")
_Excluded = dict[tuple[tuple[str, ...], str], dict[str, list[str]]]
"""Excluded instance types by techniques and rule, and by reason."""


class Goal(StrEnum):
    """What recipes are ranked by."""

    cost = "cost"
    latency = "latency"
    throughput = "throughput"


class Fit(StrEnum):
    """Whether weights and KV cache fit the accelerators' memory, is unknown, or only the weights fit; best first."""

    fits = "fits"
    unknown = "unknown"
    tight = "tight"


@dataclass(frozen=True)
class Benchmark:
    """One measurement. Figures are None where they are not known.

    ``time_to_first_token_ms`` is the median, ``tokens_per_second`` the total of all users. ``configuration`` names a
    configuration of the model's hub document, None for other recipes; ``served`` is the artifact's key or
    :attr:`Plan.container_key`, None for a configuration. ``with_channels``: whether the model was served with a draft
    or heads.
    """

    source: str
    instance_type: str
    concurrency: int
    time_to_first_token_ms: float | None = None
    tokens_per_second: float | None = None
    instance_count: int = 1
    configuration: str | None = None
    served: str | None = None
    with_channels: bool | None = None

    def blended_price(self, price_per_hour: float | None, discount: float) -> float | None:
        """Dollars per 1,000,000 tokens, at three input tokens per output token; None without price or throughput."""
        if price_per_hour is None or not self.tokens_per_second:
            return None
        hourly = price_per_hour * self.instance_count
        return pricing.blended_price_per_million_tokens(hourly, self.tokens_per_second, discount)


@dataclass(frozen=True)
class AtBest:
    """Lower bounds for all servers: each forward pass reads all weights from the accelerators' memory.

    Without a draft, a pass takes at least ``milliseconds`` and generates one token for each of ``users``;
    ``blended_price`` is the lowest possible price of 1,000,000 tokens, None without an instance price.
    """

    milliseconds: float
    users: int
    blended_price: float | None


@dataclass(frozen=True)
class Baseline:
    """The unoptimized model on the instance type with the lowest bound, for comparison with the recipes.

    ``price_per_hour`` and ``at_best`` are None where they are not known.
    """

    instance_type: str
    memory: MemoryEstimate
    price_per_hour: float | None
    at_best: AtBest | None


@dataclass(frozen=True)
class Preferences:
    """How to rank. Only benchmarks with this ``concurrency`` are ranked by; None: each candidate's best.

    ``max_price`` is in dollars per hour of an instance, ``discount`` the share that a savings plan takes off.
    """

    goal: Goal = Goal.cost
    concurrency: int | None = None
    max_price: float | None = None
    discount: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """Data beyond the catalog: dollars per hour by instance type, benchmarks, keys of existing artifacts.

    ``configurations`` are those of the model's hub document with their instance types, none where it lists none.
    """

    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    benchmarks: Sequence[Benchmark] = ()
    artifacts: Collection[str] = frozenset()
    configurations: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])


@dataclass(frozen=True)
class Candidate:
    """A recipe that can be planned, with the benchmark it is ranked by. None: not known.

    ``jobs`` are those that have to run, as their artifacts do not exist. ``reasons`` explain the rank beyond the other
    fields. ``tested``: whether the vendor tested the instance family with all of its techniques.
    """

    techniques: tuple[str, ...]
    plan: Plan
    fit: Fit
    price_per_hour: float | None
    benchmark: Benchmark | None
    blended_price: float | None
    jobs: tuple[str, ...]
    reasons: tuple[str, ...]
    at_best: AtBest | None
    tested: bool


@dataclass(frozen=True)
class Exclusion:
    """Techniques that were excluded on some instance types for the same reason."""

    techniques: tuple[str, ...]
    rule: str
    reason: str
    instance_types: tuple[str, ...]


@dataclass(frozen=True)
class Recommendation:
    """Candidates, best first, and excluded recipes.

    ``baseline`` is the model without any technique; None where it fits no instance type. ``elsewhere`` are published
    benchmarks of configurations and instance types that are not candidates.
    """

    candidates: tuple[Candidate, ...]
    excluded: tuple[Exclusion, ...]
    elsewhere: tuple[Benchmark, ...] = ()
    baseline: Baseline | None = None


def recommend(
    model: Model,
    *,
    region: str,
    instance_types: Sequence[str] = (),
    evidence: Evidence | None = None,
    preferences: Preferences | None = None,
    known: Lock | None = None,
) -> Recommendation:
    """Rank the sensible recipes for a model whose licence is accepted.

    ``instance_types`` are the candidates, by default all that host endpoints and have an accelerator; ``known`` has
    what has been looked up of models. Raises RecipeError where model, region or an instance type is wrong for every
    recipe, and ValueError for wrong preferences.
    """
    preferences = preferences or Preferences()
    pricing.check_price(None, preferences.discount)
    if preferences.max_price is not None and not preferences.max_price > 0:
        raise ValueError(f"max_price is {preferences.max_price}, and it has to be above zero")
    if preferences.concurrency is not None and preferences.concurrency < 1:
        raise ValueError(f"concurrency is {preferences.concurrency}, and it has to be at least 1")
    hosting = [name for name, row in instances.by_name().items() if row.hosts_endpoints]
    candidates = list(dict.fromkeys(instance_types)) or hosting
    return _Ranking(model, region, candidates, evidence or Evidence(), preferences, known or Lock()).result()


def _configuration(technique: str) -> str | None:
    """The configuration of the hub document that a technique deploys unchanged."""
    return technique.partition("config=")[2] or None


class _Ranking:
    """One recommendation."""

    def __init__(
        self,
        model: Model,
        region: str,
        instance_types: list[str],
        evidence: Evidence,
        preferences: Preferences,
        known: Lock,
    ) -> None:
        self.model, self.region, self.instance_types = model, region, instance_types
        self.evidence, self.preferences, self.known = evidence, preferences, known

    def result(self) -> Recommendation:
        configurations = [*self.evidence.configurations] or [DEFAULT_CONFIGURATION]
        # Sharding is not recommended: it speeds up starts, not serving.
        recommended = [
            (f"{kind}={name}", *filter(None, [second]))
            for kind, by_name in REGISTRY.items()
            for name, technique in by_name.items()
            for second in technique.recommended
        ]
        self._refuse_common_mistakes(recommended[0])
        candidates: list[Candidate] = []
        excluded: _Excluded = {}
        configured = [(f"{_CONFIGURATION}{name}",) for name in configurations]
        for techniques in [*configured, *self._without_sagemakers_jobs(), *recommended]:
            for instance_type in self.instance_types:
                try:
                    planned = plan(self._recipe(techniques, instance_type))
                except RecipeError as error:
                    broken = {violation.rule: violation.reason for violation in error.violations}
                else:
                    broken = self._violated_preferences(techniques, instance_type)
                    candidates += [self._candidate(techniques, planned)] if not broken else []
                for rule, reason in broken.items():
                    excluded.setdefault((techniques, rule), {}).setdefault(reason, []).append(instance_type)
        candidates.sort(key=self._rank)
        listed = {(_configuration(c.techniques[0]), c.plan.instance_type) for c in candidates}
        elsewhere = [
            benchmark
            for benchmark in self.evidence.benchmarks
            if benchmark.configuration is not None and (benchmark.configuration, benchmark.instance_type) not in listed
        ]
        return Recommendation(tuple(candidates), _exclusions(excluded), tuple(elsewhere), self._baseline())

    def _recipe(self, techniques: Sequence[str], instance_type: str) -> Recipe:
        named = [self._with_commit(parse(technique)) for technique in techniques]
        return Recipe(self.model, named, instance_type, self.region, containers=self.known)

    def _with_commit(self, technique: Technique) -> Technique:
        """The technique with a commit of its checkpoint, or with what stands for one that is not recorded."""
        checkpoint = technique.ready_made
        recorded = self.known.models.get(checkpoint.model_id) if checkpoint is not None else None
        if checkpoint is None or (recorded is not None and recorded.revision is not None):
            return technique
        return technique.model_copy(update={"checkpoint": checkpoint.model_copy(update={"revision": NO_COMMIT})})

    def _without_sagemakers_jobs(self) -> list[tuple[str, ...]]:
        """The model's ready-made checkpoints; where none is in FP8 and SageMaker's jobs do not know the model, a job of
        llm-compressor, which takes every architecture and needs no samples.
        """
        row = self._recipe((), self.instance_types[0]).model_row
        checkpoints = row.checkpoints if row is not None else ()
        # Several techniques make some precisions: the first is the usual one.
        made = {precision: t.name for t in [*REGISTRY["quantization"].values()][::-1] for precision in t.precisions}
        found = [
            (f"quantization={made[each.precision]},checkpoint={each.model_id}",)
            for each in checkpoints
            if each.precision in made
        ]
        of_sagemaker = (f"quantization={made[_FP8]}",)
        if any(each.precision == _FP8 for each in checkpoints):
            return found
        is_known = not any(self._recipe(of_sagemaker, name).outdated_jobs for name in self.instance_types)
        return found if is_known else [*found, ("quantization=fp8_block",)]

    def _refuse_common_mistakes(self, techniques: tuple[str, ...]) -> None:
        """Raise RecipeError for mistakes that would exclude every candidate."""
        broken: dict[tuple[str, str], Violation] = {}
        for instance_type in self.instance_types:
            for violation in check(self._recipe(techniques, instance_type)):
                subject = violation.location.partition(".")[0]
                if subject in ("model", "region") or violation.rule in ("OPT010", "OPT011"):
                    broken[violation.rule, str(violation.value)] = violation
        if broken:
            raise RecipeError(broken.values())

    def _violated_preferences(self, techniques: tuple[str, ...], instance_type: str) -> dict[str, str]:
        """Why a recipe that works is excluded."""
        if self._is_too_expensive(instance_type):
            known = instance_type in self.evidence.prices
            limit = "an hour costs more than" if known else "its price is not known, and an hour may cost"
            return {PRICE: f"{limit} {self.preferences.max_price:g} dollars"}
        offered = self.evidence.configurations.get(_configuration(techniques[0]) or "")
        if offered and instance_type not in offered:
            return {HUB: "the model's hub document does not offer it on that type"}
        return {}

    def _is_too_expensive(self, instance_type: str) -> bool:
        price, max_price = self.evidence.prices.get(instance_type), self.preferences.max_price
        return max_price is not None and (price is None or price > max_price)

    def _candidate(self, techniques: tuple[str, ...], planned: Plan) -> Candidate:
        price, memory = self.evidence.prices.get(planned.instance_type), planned.memory
        measured, ambiguous = self._benchmarks(techniques, planned)
        usable = [benchmark for benchmark in measured if self.preferences.concurrency in (None, benchmark.concurrency)]
        # Without the figure to rank by, the benchmark with the fewest users is shown for its other figures.
        ranked = [(figure, bench) for bench in usable if (figure := self._figure(bench, price)) is not None]
        ranked = ranked or [(bench.concurrency, bench) for bench in usable]
        shown = min(ranked, key=lambda pair: pair[0])[1] if ranked else None
        blended = shown.blended_price(price, self.preferences.discount) if shown is not None else None
        jobs = tuple(job.name for job in planned.jobs if job.artifact_key not in self.evidence.artifacts)
        at_best = self._at_best(memory, planned.instance_type, planned.tensor_parallel_degree)
        reasons = [_measured(shown, blended)] if shown is not None else []
        if not measured:
            reasons.append("No published benchmark.")
        elif not usable:
            users = ", ".join(map(str, sorted({benchmark.concurrency for benchmark in measured})))
            reasons.append(f"measured with {users} users, and not with {self.preferences.concurrency}")
        if ambiguous:
            reasons.append("an evaluation of its artifact does not record whether it was served with a draft")
        fit = _fit(memory)
        if fit is Fit.tight:
            reasons.append("tight: its usual requests do not fit the KV cache together, and wait for each other")
        needed = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'} ({', '.join(jobs)})"
        reasons.append(needed if jobs else "no job: the artifact exists" if planned.jobs else "no job")
        reasons += [
            f"{warning.id.rpartition(':')[2]}: {warning.message}"
            for warning in planned.warnings
            if warning.id not in _REPEATED
        ]
        return Candidate(
            techniques=techniques,
            plan=planned,
            fit=fit,
            price_per_hour=price,
            benchmark=shown,
            blended_price=blended,
            jobs=jobs,
            reasons=tuple(reasons),
            at_best=at_best,
            tested=all(warning.id != "constructs-optim:OPT013" for warning in planned.warnings),
        )

    def _benchmarks(self, techniques: tuple[str, ...], planned: Plan) -> tuple[list[Benchmark], bool]:
        """The benchmarks of a recipe, and whether an evaluation of its artifact may be of another container."""
        served = planned.artifact_key if planned.jobs else planned.container_key
        configuration, channels = _configuration(techniques[0]), bool(planned.container.channels)
        benchmarks = [bench for bench in self.evidence.benchmarks if bench.instance_type == planned.instance_type]
        published = [bench for bench in benchmarks if configuration and configuration == bench.configuration]
        own = [bench for bench in benchmarks if bench.served is not None and bench.served == served]
        # The key of a container covers its channels; the same artifact may be served with a draft and without.
        certain = [bench for bench in own if not planned.jobs or bench.with_channels == channels]
        return [*certain, *published], any(planned.jobs and bench.with_channels is None for bench in own)

    def _figure(self, benchmark: Benchmark, price: float | None) -> float | None:
        """The figure to rank by, the smaller the better; None where it is not known."""
        match self.preferences.goal:
            case Goal.cost:
                return benchmark.blended_price(price, self.preferences.discount)
            case Goal.latency:
                return benchmark.time_to_first_token_ms
            case Goal.throughput:
                return -benchmark.tokens_per_second if benchmark.tokens_per_second else None

    def _at_best(self, memory: MemoryEstimate | None, instance_type: str, degree: int) -> AtBest | None:
        """The bounds by memory bandwidth: a token of a mixture of experts reads only its own experts."""
        row, instance = models.find(self.model.model_id), instances.by_name()[instance_type]
        if memory is None or row is None or not row.parameters_billion:
            return None
        read = memory.weights_gb * (row.active_parameters_billion or row.parameters_billion) / row.parameters_billion
        speed = instance.memory_bandwidth * instance.accelerator_count * degree / instance.parallel_units
        users, seconds = self.preferences.concurrency or DEFAULT_BATCH_SIZE, (read + memory.draft_gb) / speed
        if degree > 1:
            seconds += _REDUCTIONS_A_LAYER * (row.layers or 0) * _REDUCTION_SECONDS
        bound = Benchmark("at best", instance_type, users, tokens_per_second=users / seconds)
        blended = bound.blended_price(self.evidence.prices.get(instance_type), self.preferences.discount)
        return AtBest(milliseconds=seconds * 1000, users=users, blended_price=blended)

    def _baseline(self) -> Baseline | None:
        """The model without techniques on the instance type with the lowest bound, of those where it would start."""
        baselines: list[Baseline] = []
        for name in self.instance_types:
            unmodified = self._recipe((), name)
            memory, degree = estimate(unmodified), unmodified.tensor_parallel_degree
            if memory is None or degree is None:
                continue
            if _fit(memory) is not Fit.fits or self._is_too_expensive(name):
                continue
            # OPT020 requires a technique.
            if {broken.rule for broken in check(unmodified)} <= {"OPT020"}:
                bound = self._at_best(memory, name, degree)
                baselines.append(Baseline(name, memory, self.evidence.prices.get(name), bound))
        key = self._bound
        return min(baselines, key=lambda b: (*key(b.at_best, b.price_per_hour), b.instance_type), default=None)

    def _bound(self, at_best: AtBest | None, price: float | None) -> tuple[object, ...]:
        """The figures to rank by without a benchmark, the smaller the better."""
        by_price = self.preferences.goal is Goal.cost
        figure = None if at_best is None else at_best.blended_price if by_price else at_best.milliseconds
        return figure is None, figure or 0.0, price is None, price or 0.0

    def _rank(self, candidate: Candidate) -> tuple[object, ...]:
        benchmark, planned = candidate.benchmark, candidate.plan
        figure = self._figure(benchmark, candidate.price_per_hour) if benchmark is not None else None
        instance = instances.by_name()[planned.instance_type]
        trains = any(technique.name == "eagle" for technique in planned.techniques)
        return (
            figure is None,
            figure if figure is not None else 0.0,
            not candidate.tested,
            [*Fit].index(candidate.fit),
            # Training of heads takes days.
            trains and bool(candidate.jobs),
            *self._bound(candidate.at_best, candidate.price_per_hour),
            # Without prices, smaller instances are taken to cost less.
            instance.total_accelerator_memory_gb,
            instance.vcpu,
            len(candidate.jobs),
            planned.memory.fixed_gb if planned.memory is not None else 0.0,
            candidate.techniques,
            planned.instance_type,
        )


def _fit(memory: MemoryEstimate | None) -> Fit:
    if memory is None:
        return Fit.unknown
    return Fit.fits if memory.total_gb <= memory.available_gb else Fit.tight


def _measured(benchmark: Benchmark, blended: float | None) -> str:
    first, tokens = benchmark.time_to_first_token_ms, benchmark.tokens_per_second
    parts = [
        f"${blended:.2f} for a million tokens" if blended is not None else "",
        f"{tokens:,.0f} tokens/s" if tokens else "",
        f"first token after {first:,.0f} ms" if first else "",
    ]
    users = f"{benchmark.concurrency} user{'' if benchmark.concurrency == 1 else 's'}"
    return f"{', '.join(filter(None, parts))} with {users} ({benchmark.source})"


def _exclusions(excluded: _Excluded) -> tuple[Exclusion, ...]:
    """Exclusions with their reasons; the rule's general reason where those of the instance types differ."""
    general = {rule.id: rule.reason for rule in all_rules()}
    exclusions: list[Exclusion] = []
    for (techniques, rule), by_reason in excluded.items():
        if len(by_reason) > 1 and rule in general:
            by_reason = {general[rule]: [name for types in by_reason.values() for name in types]}
        exclusions += [Exclusion(techniques, rule, reason, tuple(types)) for reason, types in by_reason.items()]
    return tuple(exclusions)
