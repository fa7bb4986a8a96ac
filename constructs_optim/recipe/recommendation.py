"""Which recipes to try for a model, best first: what fits, what it costs, and what is known of how fast it is.

Numbers come from JumpStart's published benchmarks and from evaluations of one's own; none is carried over to another
instance type or number of users. What is not measured comes after what is: what the vendor tested first, then by the
least that a token can cost. To generate one, all weights are read from the accelerators' memory once, and accelerators
wait for each other in every layer.

Source of the meaning of published numbers: SageMaker developer guide, "Deploy a pre-optimized model", and the SageMaker
Python SDK's table of them: latency is the median time to first token, throughput the median tokens a second of a user.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from . import pricing
from .catalog import instances, models
from .errors import RecipeError, Violation
from .memory import DEFAULT_BATCH_SIZE, estimate
from .plan_data import MemoryEstimate, Plan
from .planning import plan
from .recipe import Model, Recipe
from .rules import all_rules, check
from .techniques import REGISTRY
from .techniques.parsing import parse

# Tensor parallelism adds up what accelerators computed twice a layer (Shoeybi et al., "Megatron-LM", section 3), and
# the fastest such reduction between H100s was seen to take 3.7 microseconds (SGLang, pull request 2904).
_REDUCTIONS_A_LAYER, _REDUCTION_SECONDS = 2, 3.7e-6
_CONFIGURATION = "pre_optimized,config="
DEFAULT_CONFIGURATION = "lmi-optimized"
PRICE = "price"
HUB = "hub"
"""Stand for a rule's id where a price or the model's hub document is why a recipe is left out."""
# Other reasons say that no version is pinned, and that the KV cache does not fit.
_REPEATED = ("constructs-optim:OPT006", "constructs-optim:OPT051")
_LeftOut = dict[tuple[tuple[str, ...], str], dict[str, list[str]]]
"""The instance types on which techniques are left out, by techniques and rule, and by reason."""


class Goal(StrEnum):
    """What a recommendation is about."""

    cost = "cost"
    latency = "latency"
    throughput = "throughput"


class Fit(StrEnum):
    """Whether the accelerators hold weights and KV cache, the weights alone, or nobody knows; in the order of ranks."""

    fits = "fits"
    unknown = "unknown"
    tight = "tight"


@dataclass(frozen=True)
class Benchmark:
    """What somebody measured. Figures are None where they are not known.

    ``time_to_first_token_ms`` is the median, ``tokens_per_second`` of all users. ``configuration`` is that of the
    model's hub document, None for another recipe's; ``served`` is the artifact's key or :attr:`Plan.container_key`,
    None for a configuration. ``with_channels``: whether a draft or heads were beside the model.
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
        """Dollars for 1,000,000 tokens, three of them input for each of output; None without price or throughput."""
        if price_per_hour is None or not self.tokens_per_second:
            return None
        hourly = price_per_hour * self.instance_count
        return pricing.blended_price_per_million_tokens(hourly, self.tokens_per_second, discount)


@dataclass(frozen=True)
class AtBest:
    """What no server does better than: each pass of the model reads all its weights from the accelerators' memory.

    Without a draft, a pass takes ``milliseconds`` at least and brings one token for each of ``users``;
    ``blended_price`` is what 1,000,000 tokens then cost at least, None without a price.
    """

    milliseconds: float
    users: int
    blended_price: float | None


@dataclass(frozen=True)
class Baseline:
    """The model as it is, on the instance type where it costs least at best: what recipes are compared with.

    ``price_per_hour`` and ``at_best`` are None where they are not known.
    """

    instance_type: str
    memory: MemoryEstimate
    price_per_hour: float | None
    at_best: AtBest | None


@dataclass(frozen=True)
class Wish:
    """What the user wants. Benchmarks with another ``concurrency`` are not ranked by; None: each candidate's best.

    ``max_price`` is in dollars an hour of an instance, ``discount`` the share that a savings plan takes off.
    """

    goal: Goal = Goal.cost
    concurrency: int | None = None
    max_price: float | None = None
    discount: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """What is known beside the catalog: dollars an hour by instance type, benchmarks, keys of artifacts that exist.

    ``configurations`` of the model's hub document have the instance types it offers each on, none where it does not
    say.
    """

    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    benchmarks: Sequence[Benchmark] = ()
    artifacts: Collection[str] = frozenset()
    configurations: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])


@dataclass(frozen=True)
class Candidate:
    """A recipe that can be planned, with the benchmark it is ranked by. What is None is not known.

    ``jobs`` have to run: those whose artifacts exist do not. ``reasons`` are what is known beside the other fields.
    ``tested``: whether the vendor tested the instance family with all of its techniques.
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
    """Recipes that were left out for one reason: some techniques on some instance types."""

    techniques: tuple[str, ...]
    rule: str
    reason: str
    instance_types: tuple[str, ...]


@dataclass(frozen=True)
class Recommendation:
    """Candidates, best first, and what was left out.

    ``baseline`` is the model without any technique; None where it fits nowhere. ``elsewhere`` are published benchmarks
    of configurations and instance types that are no candidates: what the model does there, optimized or not, is worth a
    look all the same.
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
    wish: Wish | None = None,
) -> Recommendation:
    """Rank the sensible recipes for a model, whose licence is taken to be accepted.

    ``instance_types`` are those to choose from, by default all that host endpoints and have an accelerator. Raises
    RecipeError where model, region or an instance type is wrong whatever the recipe, and ValueError for a wrong wish.
    """
    wish = wish or Wish()
    pricing.check_price(None, wish.discount)
    if wish.max_price is not None and not wish.max_price > 0:
        raise ValueError(f"max_price is {wish.max_price}, and it has to be above zero")
    if wish.concurrency is not None and wish.concurrency < 1:
        raise ValueError(f"concurrency is {wish.concurrency}, and it has to be at least 1")
    every = [name for name, row in instances.by_name().items() if row.hosts_endpoints]
    return _Ranking(model, region, list(dict.fromkeys(instance_types)) or every, evidence or Evidence(), wish).result()


def _configuration(text: str) -> str | None:
    """The configuration of the hub document that a technique deploys unchanged."""
    return text.partition("config=")[2] or None


class _Ranking:
    """One recommendation."""

    def __init__(self, model: Model, region: str, types: list[str], evidence: Evidence, wish: Wish) -> None:
        self.model, self.region, self.types, self.evidence, self.wish = model, region, types, evidence, wish

    def result(self) -> Recommendation:
        configurations = [*self.evidence.configurations] or [DEFAULT_CONFIGURATION]
        # Shards are not recommended: they start faster, not serve so.
        recommended = [
            (f"{kind}={name}", *filter(None, [beside]))
            for kind, techniques in REGISTRY.items()
            for name, technique in techniques.items()
            for beside in technique.recommended
        ]
        self._refuse_common_mistakes(recommended[0])
        candidates: list[Candidate] = []
        left_out: _LeftOut = {}
        for texts in [*((f"{_CONFIGURATION}{name}",) for name in configurations), *recommended]:
            for name in self.types:
                try:
                    planned = plan(self._recipe(texts, name))
                except RecipeError as error:
                    broken = {violation.rule: violation.reason for violation in error.violations}
                else:
                    broken = self._unwanted(texts, name)
                    candidates += [self._candidate(texts, planned)] if not broken else []
                for rule, reason in broken.items():
                    left_out.setdefault((texts, rule), {}).setdefault(reason, []).append(name)
        candidates.sort(key=self._rank)
        tried = {(_configuration(listed.techniques[0]), listed.plan.instance_type) for listed in candidates}
        elsewhere = [
            benchmark
            for benchmark in self.evidence.benchmarks
            if benchmark.configuration is not None and (benchmark.configuration, benchmark.instance_type) not in tried
        ]
        return Recommendation(tuple(candidates), _exclusions(left_out), tuple(elsewhere), self._baseline())

    def _recipe(self, texts: Sequence[str], instance_type: str) -> Recipe:
        return Recipe(self.model, [parse(text) for text in texts], instance_type, self.region)

    def _refuse_common_mistakes(self, texts: tuple[str, ...]) -> None:
        """Refuse what every candidate would be left out for: one refusal says it better than all of them."""
        broken: dict[tuple[str, str], Violation] = {}
        for name in self.types:
            for violation in check(self._recipe(texts, name)):
                subject = violation.location.partition(".")[0]
                if subject in ("model", "region") or violation.rule in ("OPT010", "OPT011"):
                    broken[violation.rule, str(violation.value)] = violation
        if broken:
            raise RecipeError(broken.values())

    def _unwanted(self, texts: tuple[str, ...], instance_type: str) -> dict[str, str]:
        """Why a recipe that works is left out."""
        if self._is_too_dear(instance_type):
            known = instance_type in self.evidence.prices
            dear = "an hour costs more than" if known else "its price is not known, and an hour may cost"
            return {PRICE: f"{dear} {self.wish.max_price:g} dollars"}
        offered = self.evidence.configurations.get(_configuration(texts[0]) or "")
        if offered and instance_type not in offered:
            return {HUB: "the model's hub document does not offer it on that type"}
        return {}

    def _is_too_dear(self, instance_type: str) -> bool:
        price, most = self.evidence.prices.get(instance_type), self.wish.max_price
        return most is not None and (price is None or price > most)

    def _candidate(self, texts: tuple[str, ...], planned: Plan) -> Candidate:
        price, memory = self.evidence.prices.get(planned.instance_type), planned.memory
        measured, ambiguous = self._benchmarks(texts, planned)
        usable = [benchmark for benchmark in measured if self.wish.concurrency in (None, benchmark.concurrency)]
        # Other figures may be known where the one that is ranked by is not: those with the fewest users are shown.
        ranked = [(figure, mark) for mark in usable if (figure := self._figure(mark, price)) is not None]
        ranked = ranked or [(mark.concurrency, mark) for mark in usable]
        shown = min(ranked, key=lambda pair: pair[0])[1] if ranked else None
        blended = shown.blended_price(price, self.wish.discount) if shown is not None else None
        jobs = tuple(job.name for job in planned.jobs if job.artifact_key not in self.evidence.artifacts)
        at_best = self._at_best(memory, planned.instance_type, planned.tensor_parallel_degree)
        speed = [_measured(shown, blended)] if shown is not None else []
        if not measured:
            speed.append("No published benchmark.")
        elif not usable:
            users = ", ".join(map(str, sorted({benchmark.concurrency for benchmark in measured})))
            speed.append(f"measured with {users} users, and not with {self.wish.concurrency}")
        if ambiguous:
            speed.append("there is an evaluation of its artifact which does not tell whether a draft was beside it")
        needed = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'} ({', '.join(jobs)})"
        rest = [needed if jobs else "no job: the artifact exists" if planned.jobs else "no job"]
        rest += [
            f"{warning.id.rpartition(':')[2]}: {warning.message}"
            for warning in planned.warnings
            if warning.id not in _REPEATED
        ]
        fit = _fit(memory)
        tight = ["tight: its usual requests do not fit the KV cache together, and wait for each other"]
        return Candidate(
            techniques=texts,
            plan=planned,
            fit=fit,
            price_per_hour=price,
            benchmark=shown,
            blended_price=blended,
            jobs=jobs,
            reasons=(*speed, *(tight if fit is Fit.tight else []), *rest),
            at_best=at_best,
            tested=all(warning.id != "constructs-optim:OPT013" for warning in planned.warnings),
        )

    def _benchmarks(self, texts: tuple[str, ...], planned: Plan) -> tuple[list[Benchmark], bool]:
        """The benchmarks of a recipe, and whether there are others that may be its."""
        served = planned.artifact_key if planned.jobs else planned.container_key
        configuration, channels = _configuration(texts[0]), bool(planned.container.channels)
        of_type = [mark for mark in self.evidence.benchmarks if mark.instance_type == planned.instance_type]
        published = [mark for mark in of_type if configuration is not None and configuration == mark.configuration]
        own = [mark for mark in of_type if mark.served is not None and mark.served == served]
        # A model without a job is known by all of its container; an artifact may be served with a draft and without.
        certain = [mark for mark in own if not planned.jobs or mark.with_channels == channels]
        return [*certain, *published], any(planned.jobs and mark.with_channels is None for mark in own)

    def _figure(self, benchmark: Benchmark, price: float | None) -> float | None:
        """What a benchmark is ranked by, the smaller the better; None where it is not known."""
        match self.wish.goal:
            case Goal.cost:
                return benchmark.blended_price(price, self.wish.discount)
            case Goal.latency:
                return benchmark.time_to_first_token_ms
            case Goal.throughput:
                return -benchmark.tokens_per_second if benchmark.tokens_per_second else None

    def _at_best(self, memory: MemoryEstimate | None, instance_type: str, degree: int) -> AtBest | None:
        """What memory bandwidth allows: of a mixture of experts, one token reads its own experts alone."""
        row, instance = models.find(self.model.model_id), instances.by_name()[instance_type]
        if memory is None or row is None or not row.parameters_billion:
            return None
        read = memory.weights_gb * (row.active_parameters_billion or row.parameters_billion) / row.parameters_billion
        speed = instance.memory_bandwidth * instance.accelerator_count * degree / instance.parallel_units
        users, seconds = self.wish.concurrency or DEFAULT_BATCH_SIZE, (read + memory.draft_gb) / speed
        if degree > 1:
            seconds += _REDUCTIONS_A_LAYER * (row.layers or 0) * _REDUCTION_SECONDS
        bound = Benchmark("at best", instance_type, users, tokens_per_second=users / seconds)
        blended = bound.blended_price(self.evidence.prices.get(instance_type), self.wish.discount)
        return AtBest(milliseconds=seconds * 1000, users=users, blended_price=blended)

    def _baseline(self) -> Baseline | None:
        """The model without techniques, which no recipe declares, where it would start."""
        baselines: list[Baseline] = []
        for name in self.types:
            unmodified = self._recipe((), name)
            memory, degree = estimate(unmodified), unmodified.tensor_parallel_degree
            # Neuron devices take what was compiled for them.
            if memory is None or degree is None or unmodified.instance is None or unmodified.instance.kind != "gpu":
                continue
            if _fit(memory) is not Fit.fits or self._is_too_dear(name):
                continue
            # Of all rules, one asks for a technique.
            if {broken.rule for broken in check(unmodified)} <= {"OPT020"}:
                bound = self._at_best(memory, name, degree)
                baselines.append(Baseline(name, memory, self.evidence.prices.get(name), bound))
        key = self._bound
        return min(baselines, key=lambda b: (*key(b.at_best, b.price_per_hour), b.instance_type), default=None)

    def _bound(self, at_best: AtBest | None, price: float | None) -> tuple[object, ...]:
        """What is ranked by where nothing is measured: the less the better."""
        by_price = self.wish.goal is Goal.cost
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
            # Heads are trained for days before anything is served.
            trains and bool(candidate.jobs),
            *self._bound(candidate.at_best, candidate.price_per_hour),
            # Without a price, what has less of everything costs less.
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


def _exclusions(left_out: _LeftOut) -> tuple[Exclusion, ...]:
    """What is left out; where instance types differ in why they break a rule, with the rule's own reason."""
    general = {rule.id: rule.reason for rule in all_rules()}
    exclusions: list[Exclusion] = []
    for (techniques, rule), by_reason in left_out.items():
        if len(by_reason) > 1 and rule in general:
            by_reason = {general[rule]: [name for types in by_reason.values() for name in types]}
        exclusions += [Exclusion(techniques, rule, reason, tuple(types)) for reason, types in by_reason.items()]
    return tuple(exclusions)
