"""Chooses the recipe, the instances and the parallelism that meet objectives at the lowest price.

Every sensible recipe is planned on every instance type, and with a technique also with every smaller tensor parallel
degree that the model fits in. A forecast of each (``constructs_optim.recipe.forecast``) gives the number of copies
that serve the requests within the required latencies with the required confidence, and so the price of the instances.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from . import pricing
from .catalog import instances
from .catalog.lock import NO_COMMIT, Lock
from .errors import RecipeError, Violation
from .forecast import FIGURES, Calibration, Figure, Forecast, Forecaster, TrackRecord, forecaster
from .hosting.scaling import HEADROOM
from .memory import estimate, longest_request, model_context
from .model import Model
from .objectives import Feasibility, Objectives, percent
from .plan_data import MemoryEstimate, Plan
from .planning import plan
from .recipe import Recipe
from .rules import all_rules, check
from .servers import by_name, takes_batch_limit
from .tasks import GENERATE
from .techniques import REGISTRY, SpeculativeDecoding, Technique
from .techniques.parsing import parse

_FP8 = "fp8"
_CONFIGURATION = "pre_optimized,config="
DEFAULT_CONFIGURATION = "lmi-optimized"
HUB, QUALITY, CONTEXT = "hub", "quality", "OPT231"
"""Used instead of a rule's ID if the model's hub document or the requested quality excludes a recipe."""
# Warnings that other reasons repeat: no version is pinned, the KV cache does not fit.
_REPEATED = ("constructs-optim:OPT006", "constructs-optim:OPT051")
# The warning that the context does not fit in the KV cache, so that the server rejects longer requests.
_SHORTENED = "constructs-optim:OPT053"
# Weights with at least this many bits change accuracy by less than 1% (objectives.Quality).
_NEAR_LOSSLESS_BITS = 8
# The share of a copy's highest rate for which a batch limit is chosen if the objectives have no rate.
_NEARLY = 0.95
_Excluded = dict[tuple[tuple[str, ...], str], dict[str, list[str]]]
"""Excluded instance types by techniques and rule, and by reason."""


class Fit(StrEnum):
    """Whether weights and KV cache fit in accelerator memory, best first: yes, unknown, or only the weights."""

    fits = "fits"
    unknown = "unknown"
    tight = "tight"


@dataclass(frozen=True)
class Benchmark:
    """A published measurement of a configuration in the model's hub document. A missing figure is None.

    ``time_to_first_token_ms`` is the median, ``tokens_per_second`` the total of all users. The source does not state
    the lengths of requests.
    """

    source: str
    instance_type: str
    concurrency: int
    configuration: str
    time_to_first_token_ms: float | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True)
class Evidence:
    """Data beyond the catalog: dollars per hour by instance type, keys of existing artifacts, and measurements.

    ``configurations`` are the hub document's configurations with their instance types, if it lists any. ``discount`` is
    a savings plan's share of the price. ``calibration`` is by default the published one.
    """

    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    discount: float = 0.0
    benchmarks: Sequence[Benchmark] = ()
    artifacts: Collection[str] = frozenset()
    configurations: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    calibration: Calibration | None = None


@dataclass(frozen=True)
class Candidate:
    """A recipe that can be planned, with the instances that it needs. None: unknown.

    ``forecast`` is for the rate of the objectives, or for the highest rate of one instance within them, and
    ``probability`` is the probability of meeting them. ``with_users`` has the forecasts to compare with evaluations.
    ``price_per_hour`` is the price of all instances, ``price_per_million`` the price of a million input and output
    tokens at that rate. ``batch_limit`` protects the inter-token latency during bursts, ``target`` is the number of
    requests in flight at which copies scale. ``missed`` lists the objectives that are missed, with their forecasts.
    ``jobs`` are the jobs that must run because their artifacts do not exist. ``tested`` tells whether the vendor tested
    the instance family with all techniques.
    """

    techniques: tuple[str, ...]
    plan: Plan
    fit: Fit
    copies: int
    copies_per_instance: int
    instances: int
    price_per_hour: float | None
    price_per_million: float | None
    forecast: Forecast | None
    with_users: Mapping[int, Forecast]
    probability: float | None
    record: Mapping[Figure, TrackRecord]
    batch_limit: int | None
    target: float | None
    missed: tuple[str, ...]
    jobs: tuple[str, ...]
    reasons: tuple[str, ...]
    tested: bool

    @property
    def is_supported(self) -> bool:
        """Whether measurements of similar models on the accelerator support the forecast."""
        return bool(self.record) and all(
            self.record[figure].error is not None for figure in ("inter_token_latency", "time_to_first_token")
        )

    @property
    def meets(self) -> bool:
        """Whether the candidate meets the objectives with the requested confidence."""
        return self.forecast is not None and not self.missed


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

    ``elsewhere`` are published benchmarks of configurations and instance types that are not candidates.
    """

    objectives: Objectives
    candidates: tuple[Candidate, ...]
    excluded: tuple[Exclusion, ...]
    elsewhere: tuple[Benchmark, ...] = ()

    def pools(self, count: int) -> list[Candidate]:
        """Return the best candidate, and alternatives on other instance types.

        All pools of an endpoint have the same number of instances. An alternative therefore meets the objectives with
        the best candidate's number or fewer, and costs at most the maximum price.
        """
        found: dict[str, Candidate] = {}
        first = self.candidates[0]
        most = self.objectives.max_price_per_hour
        for each in self.candidates:
            if not each.meets or each.copies > first.copies or each.instances > first.instances:
                continue
            price = (each.price_per_hour or 0.0) * first.instances / each.instances
            if (most is None or price <= most) and len(found) < count:
                found.setdefault(each.plan.instance_type, each)
        return [*found.values()]


def recommend(
    model: Model,
    objectives: Objectives,
    *,
    region: str,
    instance_types: Sequence[str] = (),
    evidence: Evidence | None = None,
    known: Lock | None = None,
) -> Recommendation:
    """Rank the sensible recipes for a model, assuming that its license is accepted.

    Args:
        model: the model.
        objectives: the objectives to meet.
        region: the Region.
        instance_types: the candidates. Default: all types with an accelerator that host endpoints.
        evidence: data beyond the catalog. Default: none.
        known: recorded data of models. Default: none.

    Raises:
        RecipeError: if the model, the Region or an instance type is wrong for every recipe, or if the objectives are
            physically impossible on all types.
        ValueError: if the discount is not a share.
    """
    evidence = evidence or Evidence()
    pricing.check_price(None, evidence.discount)
    hosting = [name for name, row in instances.by_name().items() if row.hosts_endpoints]
    candidates = list(dict.fromkeys(instance_types)) or hosting
    return _Ranking(model, objectives, region, candidates, evidence, known or Lock()).result()


def _configuration(techniques: Sequence[str]) -> str | None:
    """Return the hub document's configuration that is deployed unchanged."""
    return techniques[0].partition("config=")[2] or None if techniques else None


class _Ranking:
    """One recommendation."""

    def __init__(
        self,
        model: Model,
        objectives: Objectives,
        region: str,
        instance_types: list[str],
        evidence: Evidence,
        known: Lock,
    ) -> None:
        self.model, self.objectives, self.region, self.instance_types = model, objectives, region, instance_types
        self.evidence, self.known = evidence, known
        self.lengths = (float(objectives.input_tokens), float(objectives.output_tokens))
        # Parsed techniques by text, because each is tried on every instance type.
        self.techniques: dict[str, Technique] = {}

    def result(self) -> Recommendation:
        self._refuse_common_mistakes()
        candidates: list[Candidate] = []
        excluded: _Excluded = {}
        best: list[tuple[str, Forecaster]] = []
        for techniques in self._combinations():
            for instance_type in self.instance_types:
                whole = self._recipe(techniques, instance_type)
                try:
                    broken = self._violated_preferences(techniques, whole)
                    planned = plan(whole) if not broken else None
                except RecipeError as error:
                    planned, broken = None, {violation.rule: violation.reason for violation in error.violations}
                for rule, reason in broken.items():
                    excluded.setdefault((techniques, rule), {}).setdefault(reason, []).append(instance_type)
                found = [(techniques, whole, planned)] if planned is not None else []
                for each, recipe, its_plan in [*found, *self._smaller(techniques, instance_type, broken)]:
                    forecasts = forecaster(recipe, self.lengths, self.evidence.calibration)
                    best += [(instance_type, forecasts)] if forecasts is not None else []
                    if (reason := self._too_long(recipe, forecasts)) is not None:
                        excluded.setdefault((each, CONTEXT), {}).setdefault(reason, []).append(instance_type)
                        continue
                    candidates.append(self._candidate(each, its_plan, forecasts))
        if impossible := check(self._feasibility(best)):
            raise RecipeError(impossible)
        candidates.sort(key=self._rank)
        listed = {(_configuration(each.techniques), each.plan.instance_type) for each in candidates}
        elsewhere = [
            each for each in self.evidence.benchmarks if (each.configuration, each.instance_type) not in listed
        ]
        return Recommendation(self.objectives, tuple(candidates), _exclusions(excluded), tuple(elsewhere))

    def _too_long(self, recipe: Recipe, forecasts: Forecaster | None) -> str | None:
        """Return why a recipe cannot serve requests of these lengths; None if it can."""
        given, longest = sum(self.lengths), longest_request(recipe)
        if longest is not None and given > longest:
            return f"a request has {given:g} tokens, but the context has {longest}"
        if forecasts is not None and not forecasts.holds_a_request:
            return f"one request of {given:g} tokens does not fit in the KV cache"
        return None

    def _combinations(self) -> Iterator[tuple[str, ...]]:
        """Yield the techniques of every recipe: none, the hub's configurations, checkpoints, speculation and jobs."""
        # Sharding is not recommended: it speeds up starts, not serving.
        recommended = [
            (f"{kind}={name}", *filter(None, [second]))
            for kind, by_name in REGISTRY.items()
            for name, technique in by_name.items()
            for second in technique.recommended
        ]
        checkpoints = self._without_sagemakers_jobs()
        configured = [(f"{_CONFIGURATION}{name}",) for name in self.evidence.configurations or [DEFAULT_CONFIGURATION]]
        speculation = self._speculation()
        beside = [(*techniques, each) for techniques in [(), *checkpoints] for each in speculation]
        yield from dict.fromkeys([(), *configured, *checkpoints, *beside, *recommended])

    def _recipe(self, techniques: Sequence[str], instance_type: str) -> Recipe:
        named = [self._technique(each) for each in techniques]
        return Recipe(self.model, named, instance_type, self.region, containers=self.known)

    def _technique(self, text: str) -> Technique:
        if text not in self.techniques:
            self.techniques[text] = self._with_commit(parse(text))
        return self.techniques[text]

    def _with_commit(self, technique: Technique) -> Technique:
        """Return the technique with commits for the models that it names, or a placeholder if none is recorded."""
        changed: dict[str, Model] = {}
        for name, model in (("checkpoint", technique.ready_made), ("model", technique.beside)):
            recorded = self.known.models.get(model.model_id) if model is not None else None
            if model is not None and (recorded is None or recorded.revision is None):
                changed[name] = model.model_copy(update={"revision": NO_COMMIT})
        return technique.model_copy(update=changed) if changed else technique

    def _smaller(
        self, techniques: tuple[str, ...], instance_type: str, broken: Mapping[str, str]
    ) -> Iterator[tuple[tuple[str, ...], Recipe, Plan]]:
        """Yield recipes whose copies take a part of an instance, if the model fits in it."""
        row = instances.find(instance_type)
        if row is None or not techniques or _configuration(techniques) or {HUB, QUALITY} & broken.keys():
            return
        degree = row.parallel_units // 2
        while degree >= 1:
            smaller = (f"{techniques[0]},tensor_parallel_degree={degree}", *techniques[1:])
            recipe = self._recipe(smaller, instance_type)
            memory = estimate(recipe)
            if memory is None or memory.total_gb > memory.available_gb:
                return
            # Violations with all accelerators are already listed, and this is only one of several ways to place copies.
            with suppress(RecipeError):
                yield smaller, recipe, plan(recipe)
            degree //= 2

    def _without_sagemakers_jobs(self) -> list[tuple[str, ...]]:
        """Return the model's ready-made checkpoints. If none is in FP8 and SageMaker's jobs do not support the model,
        add a job of llm-compressor, which supports every architecture and needs no samples.
        """
        row = self._recipe((), self.instance_types[0]).model_row
        checkpoints = row.checkpoints if row is not None else ()
        # Several techniques can produce a precision; the first is the usual one.
        made = {precision: t.name for t in [*REGISTRY["quantization"].values()][::-1] for precision in t.precisions}
        found = [
            (f"quantization={made[each.precision]},checkpoint={each.model_id}",)
            for each in checkpoints
            # A checkpoint in the model's own precision is another release of the model.
            if each.precision in made and (row is None or each.precision != row.precision)
        ]
        of_sagemaker = (f"quantization={made[_FP8]}",)
        if any(each.precision == _FP8 for each in checkpoints):
            return found
        is_known = not any(self._recipe(of_sagemaker, name).outdated_jobs for name in self.instance_types)
        return found if is_known else [*found, ("quantization=fp8_block",)]

    def _speculation(self) -> list[str]:
        """Return the speculation that vLLM's recipe recommends: a speculator, or the model's own heads."""
        row = self._recipe((), self.instance_types[0]).model_row
        named: list[str] = []
        for settings in row.recipe.speculation if row is not None and row.recipe is not None else ():
            if "model" in settings:
                named.append(f"speculative_decoding={SpeculativeDecoding.speculator.name},model={settings['model']}")
            elif settings.get("method") == "mtp":
                named.append(f"speculative_decoding={SpeculativeDecoding.mtp.name}")
        return named[:1]

    def _refuse_common_mistakes(self) -> None:
        """Raise RecipeError for mistakes that would exclude every candidate."""
        broken: dict[tuple[str, str], Violation] = {}
        for instance_type in self.instance_types:
            for violation in check(self._recipe((), instance_type)):
                subject = violation.location.partition(".")[0]
                if subject in ("model", "region") or violation.rule in ("OPT010", "OPT011"):
                    broken[violation.rule, str(violation.value)] = violation
        if broken:
            raise RecipeError(broken.values())
        task = self._recipe((), self.instance_types[0]).task.name if self.instance_types else GENERATE
        if unsuited := check(Feasibility(self.objectives, task=task)):
            raise RecipeError(unsuited)

    def _violated_preferences(self, techniques: tuple[str, ...], recipe: Recipe) -> dict[str, str]:
        """Return why a recipe is excluded, by rule; empty if it is not."""
        if techniques and (lossy := self._too_lossy(recipe)) is not None:
            return {QUALITY: lossy}
        configuration = _configuration(techniques)
        offered = self.evidence.configurations.get(configuration or "")
        if offered and recipe.instance_type not in offered:
            return {HUB: "the model's hub document does not offer it on this instance type"}
        return {}

    def _too_lossy(self, recipe: Recipe) -> str | None:
        asked = self.objectives.quality
        for _, technique in recipe.located_techniques:
            bits = technique.weight_bits
            if asked == "any" or technique.lossless:
                continue
            if asked == "lossless" or (bits is not None and bits < _NEAR_LOSSLESS_BITS):
                return f"completions differ from the model's own, but the objectives require {asked} completions"
        return None

    def _feasibility(self, forecasters: Sequence[tuple[str, Forecaster]]) -> Feasibility:
        best = [each.best for _, each in forecasters]
        rate = self.objectives.requests_per_second or 0.0
        prices = [
            price * max(1, math.ceil(rate / (each.most_possible * each.copies_per_instance)))
            for name, each in forecasters
            if (price := self.evidence.prices.get(name)) is not None
        ]
        return Feasibility(
            objectives=self.objectives,
            context_length=model_context(self._recipe((), self.instance_types[0])),
            time_to_first_token_ms=min((each.time_to_first_token * 1000 for each in best), default=None),
            inter_token_latency_ms=min((each.inter_token_latency * 1000 for each in best), default=None),
            price_per_hour=min(prices) * (1 - self.evidence.discount) if prices else None,
        )

    def _candidate(self, techniques: tuple[str, ...], planned: Plan, forecasts: Forecaster | None) -> Candidate:
        objectives, memory = self.objectives, planned.memory
        units = instances.by_name()[planned.instance_type].parallel_units
        on_each = units // planned.tensor_parallel_degree
        within = forecasts.within(objectives) if forecasts is not None else None
        limit = None
        if forecasts is not None and within is not None:
            forecasts, within, limit = self._limited(planned, forecasts, within, on_each)
        copies, forecast, probability = self._sized(forecasts, within, on_each)
        count = math.ceil(copies / on_each)
        one = self.evidence.prices.get(planned.instance_type)
        price = one * count * (1 - self.evidence.discount) if one is not None else None
        tokens = sum(self.lengths)
        jobs = tuple(job.name for job in planned.jobs if job.artifact_key not in self.evidence.artifacts)
        return Candidate(
            techniques=techniques,
            plan=planned,
            fit=_fit(memory),
            copies=copies,
            copies_per_instance=on_each,
            instances=count,
            price_per_hour=price,
            price_per_million=pricing.price_per_million_tokens(price, forecast.rate * tokens)
            if price is not None and forecast is not None
            else None,
            forecast=forecast,
            with_users=_evaluated(forecasts, forecast, copies),
            probability=probability,
            record={figure: forecasts.track_record(figure) for figure in FIGURES} if forecasts is not None else {},
            batch_limit=limit,
            target=max(1.0, round(within.in_flight * HEADROOM, 1)) if within is not None else None,
            missed=tuple(self._missed(forecast, price, within is not None)),
            jobs=jobs,
            reasons=tuple(self._reasons(techniques, planned, jobs)),
            tested=all(warning.id != "constructs-optim:OPT013" for warning in planned.warnings),
        )

    def _limited(
        self, planned: Plan, forecasts: Forecaster, within: Forecast, on_each: int
    ) -> tuple[Forecaster, Forecast, int | None]:
        """Return the forecasts with the lowest batch limit that needs no additional copy, if the server has a limit.

        A limit protects the inter-token latency during bursts, and makes requests wait instead. The search starts with
        the limit that keeps this latency, and doubles it until the copies serve the rate with the required confidence.
        """
        objectives, server = self.objectives, by_name().get(planned.container.server or "")
        between, rate = objectives.inter_token_latency, objectives.requests_per_second
        if between is None or server is None or not takes_batch_limit(server):
            return forecasts, within, None
        limit = forecasts.batch_limit(between / 1000, objectives.confidence)
        copies = math.ceil(rate / within.rate) if rate is not None else on_each
        rate = rate if rate is not None else within.rate * on_each * _NEARLY
        limit = max(limit, math.ceil(within.in_flight)) if limit is not None else math.inf
        while limit < forecasts.most_requests:
            limited = forecasts.with_limit(int(limit))
            if limited.at_rate(rate, copies).probability(objectives) >= objectives.confidence:
                return limited, limited.within(objectives) or within, int(limit)
            limit *= 2
        return forecasts, within, None

    def _sized(
        self, forecasts: Forecaster | None, within: Forecast | None, on_each: int
    ) -> tuple[int, Forecast | None, float | None]:
        """Return the number of copies, their forecast, and the probability that it meets the objectives."""
        if forecasts is None:
            return on_each, None, None
        rate = self.objectives.requests_per_second
        if within is None:
            # No number of copies meets the latencies, so size for half of the capacity.
            limit = forecasts.capacity.value
            copies = max(1, math.ceil(2 * rate / limit)) if rate is not None else on_each
            rate = rate if rate is not None else copies * limit / 2
        elif rate is None:
            copies, rate = on_each, within.rate * on_each
        else:
            copies = max(1, math.ceil(rate / within.rate))
        forecast = forecasts.at_rate(rate, copies)
        return copies, forecast, forecast.probability(self.objectives)

    def _missed(self, forecast: Forecast | None, price: float | None, is_within: bool) -> Iterator[str]:
        """Yield the objectives that a candidate misses."""
        objectives = self.objectives
        if forecast is not None and not is_within:
            latencies = (
                ("time to first token", objectives.time_to_first_token, forecast.time_to_first_token),
                ("inter-token latency", objectives.inter_token_latency, forecast.inter_token_latency),
            )
            is_one = False
            for name, limit, estimate_ in latencies:
                if limit is not None and estimate_.probability(at_most=limit / 1000) < objectives.confidence:
                    is_one = True
                    yield f"{name}: {estimate_.quantile(objectives.confidence) * 1000:,.0f} ms instead of {limit:g}"
            if not is_one:
                probability = percent(round(forecast.probability(objectives), 3))
                yield f"confidence: {probability} instead of {percent(objectives.confidence)}"
        if (most := objectives.max_price_per_hour) is not None and (price is None or price > most):
            yield f"price: ${price:,.2f} per hour instead of ${most:g}" if price is not None else "price: unknown"

    def _reasons(self, techniques: tuple[str, ...], planned: Plan, jobs: Sequence[str]) -> Iterator[str]:
        configuration = _configuration(techniques)
        for each in self.evidence.benchmarks:
            if (each.configuration, each.instance_type) == (configuration, planned.instance_type):
                yield _measured(each)
        if configuration is not None:
            yield "the forecast treats JumpStart's configuration as vLLM with the unchanged model"
        if _fit(planned.memory) is Fit.tight:
            yield "tight: typical requests do not fit in the KV cache together, and wait for each other"
        needed = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'} ({', '.join(jobs)})"
        yield needed if jobs else "no job: the artifact exists" if planned.jobs else "no job"
        for warning in planned.warnings:
            if warning.id not in _REPEATED:
                yield f"{warning.id.rpartition(':')[2]}: {warning.message}"

    def _rank(self, candidate: Candidate) -> tuple[object, ...]:
        planned = candidate.plan
        instance = instances.by_name()[planned.instance_type]
        trains = any(technique.name == "eagle" for technique in planned.techniques)
        by_rate, forecast = self.objectives.requests_per_second is not None, candidate.forecast
        price = candidate.price_per_hour
        # Without prices, assume that instances with less memory cost less.
        size = candidate.instances * instance.total_accelerator_memory_gb
        return (
            not candidate.meets,
            self._distance(candidate) if not candidate.meets else 0.0,
            price is None,
            # With a rate, the required confidence takes the larger error of an unsupported forecast into account.
            not by_rate and not candidate.is_supported,
            price if price is not None else size,
            instance.vcpu if price is None and not by_rate else 0,
            [*Fit].index(candidate.fit),
            -forecast.rate if forecast is not None and not by_rate else 0.0,
            any(warning.id == _SHORTENED for warning in planned.warnings),
            # Training heads takes days.
            trains and bool(candidate.jobs),
            not candidate.tested,
            len(candidate.jobs),
            instance.vcpu,
            candidate.techniques,
            planned.instance_type,
        )

    def _distance(self, candidate: Candidate) -> float:
        """Return how far a candidate misses its objectives, as the logarithm of the largest factor."""
        forecast, objectives = candidate.forecast, self.objectives
        if forecast is None:
            return math.inf
        pairs = [
            (forecast.time_to_first_token.quantile(objectives.confidence) * 1000, objectives.time_to_first_token),
            (forecast.inter_token_latency.quantile(objectives.confidence) * 1000, objectives.inter_token_latency),
            (candidate.price_per_hour, objectives.max_price_per_hour),
        ]
        factors = [value / limit if value is not None else math.inf for value, limit in pairs if limit is not None]
        return round(math.log(max(factors, default=1.0)), 3)


def _evaluated(forecasts: Forecaster | None, forecast: Forecast | None, copies: int) -> dict[int, Forecast]:
    """Return the forecasts that evaluations are compared with: one user, and the expected requests in flight."""
    if forecasts is None or forecast is None:
        return {}
    numbers = sorted({1, max(1, round(forecast.in_flight * copies))})
    return {users: forecasts.with_users(users, copies) for users in numbers}


def _fit(memory: MemoryEstimate | None) -> Fit:
    if memory is None:
        return Fit.unknown
    return Fit.fits if memory.total_gb <= memory.available_gb else Fit.tight


def _measured(benchmark: Benchmark) -> str:
    first, tokens = benchmark.time_to_first_token_ms, benchmark.tokens_per_second
    parts = [f"{tokens:,.0f} tokens/s" if tokens else "", f"first token after {first:,.0f} ms" if first else ""]
    users = f"{benchmark.concurrency} user{'' if benchmark.concurrency == 1 else 's'}"
    return f"{', '.join(filter(None, parts))} with {users} ({benchmark.source}, lengths not stated)"


def _exclusions(excluded: _Excluded) -> tuple[Exclusion, ...]:
    """Return exclusions with reasons, or the rule's general reason if reasons differ between instance types."""
    general = {rule.id: rule.reason for rule in all_rules()}
    exclusions: list[Exclusion] = []
    for (techniques, rule), by_reason in excluded.items():
        if len(by_reason) > 1 and rule in general:
            by_reason = {general[rule]: [name for types in by_reason.values() for name in types]}
        exclusions += [Exclusion(techniques, rule, reason, tuple(types)) for reason, types in by_reason.items()]
    return tuple(exclusions)
