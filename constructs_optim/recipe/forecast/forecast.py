"""The forecast of a recipe: latencies at a request rate, and the highest possible rate, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from statistics import NormalDist, median
from typing import Any, NamedTuple

from constructs_optim.recipe.catalog.instances import InstanceRow
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.memory import (
    batch_size,
    cache_room_gb,
    cache_share,
    estimate,
    served_precision,
)
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.techniques import Medusa, Technique
from constructs_optim.recipe.techniques.parsing import written

from .calibration import CONFIDENCE, Calibration, Figure, Measured, published
from .copies import copy_of, engine_limit, group_of, operand_bits
from .queueing import LEAST_BATCH, Server, Steady
from .roofline import PHYSICS, Copy, Draft

# The probability that a draft token is accepted, given that all before it were. It depends on prompts and draft; these
# are typical values by method. EAGLE-3: 71% of the first tokens, 2.0 of 3 draft tokens
# (Ichigec/a1-agents-eagle3-speculator on Hugging Face); 2.4 times the tokens per second of Llama 3.1 8B on an H100
# (SGLang, "Speculative Decoding"). MTP: 85 to 90% of second tokens (DeepSeek-V3 technical report, section 5.4.3).
# Draft models: 0.5 to 0.9 (Leviathan et al., 2023, table 3).
_ACCEPTANCE = {"mtp": 0.85, "eagle3": 0.6, "medusa": 0.6, "draft_model": 0.7, "ngram": 0.3}
_HEADS = 0.6
# The standard deviation of log(time) that these differences in acceptance cause.
_ACCEPTED_SPREAD = 0.25
_ENGINES = {"lmi": "vllm", "text_generation_inference": "tgi"}
_HALVINGS = 20
_NORMAL = NormalDist()
_NORMAL_QUANTILE = _NORMAL.inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class Estimate:
    """A figure with its 90% interval; ``spread`` is the standard deviation of its logarithm.

    ``bound`` is the best value that physics allows.
    """

    value: float
    low: float
    high: float
    spread: float
    bound: float

    def probability(self, *, at_most: float | None = None, at_least: float | None = None) -> float:
        """Return the probability that the figure is within limits; 0 for limits that physics does not allow."""
        if at_most is not None:
            return _NORMAL.cdf(math.log(at_most / self.value) / self.spread) if at_most >= self.bound else 0.0
        if at_least is not None:
            return _NORMAL.cdf(math.log(self.value / at_least) / self.spread) if at_least <= self.bound else 0.0
        return 1.0

    def quantile(self, probability: float) -> float:
        """Return the value that the figure does not exceed with this probability."""
        value = self.value * math.exp(_NORMAL.inv_cdf(probability) * self.spread)
        # The bound of a latency is a lower bound, the bound of a rate an upper one.
        return max(value, self.bound) if self.high > self.bound else min(value, self.bound)


@dataclass(frozen=True)
class TrackRecord:
    """The measurements of a figure for the model family on the accelerator, and the error of their forecasts.

    ``own`` is the number of the user's own among them. ``error`` is the median error without correction, as a share, of
    the user's own measurements if there are any; None without measurements.
    """

    measurements: int
    own: int
    error: float | None


@dataclass(frozen=True)
class Forecast:
    """Mean latencies in seconds at a ``rate`` of requests per second, and the highest possible rate.

    ``in_flight`` is the number of concurrent requests on each copy.
    """

    time_to_first_token: Estimate
    inter_token_latency: Estimate
    requests_per_second: Estimate
    rate: float
    in_flight: float

    def probability(self, objectives: Objectives) -> float:
        """Return a lower bound for the probability of meeting the objectives, whatever the correlation of errors."""
        first, between = objectives.time_to_first_token, objectives.inter_token_latency
        missed = [
            1 - self.requests_per_second.probability(at_least=self.rate),
            1 - self.time_to_first_token.probability(at_most=first / 1000 if first is not None else None),
            1 - self.inter_token_latency.probability(at_most=between / 1000 if between is not None else None),
        ]
        return max(0.0, 1 - sum(missed))


class _Error(NamedTuple):
    """The error of a figure: the factor that corrects it, the factors to its interval's ends, and its spread."""

    factor: float
    below: float
    above: float
    spread: float


class Forecaster:
    """Forecasts of one recipe for requests of one length, in tokens."""

    def __init__(
        self,
        recipe: Recipe,
        row: ModelRow,
        instance: InstanceRow,
        lengths: tuple[float, float],
        calibration: Calibration,
    ) -> None:
        """Prepare the forecasts, with the batch limit of the recipe or its engine."""
        self._calibration, self._lengths = calibration, lengths
        self.copy, engine, bits = _described(recipe, row, instance)
        self.group = group_of(row, instance.accelerator)
        techniques = [technique for _, technique in recipe.located_techniques]
        named = [f"{recipe.model.name} on {instance.name}", *sorted(map(written, techniques))]
        self.recipe = f"{' + '.join(named)} for {' + '.join(map(about, lengths))}"
        """The key that distinguishes it within its group, including the approximate length of requests."""
        self.copies_per_instance = max(1, instance.parallel_units // self.copy.tensor_parallel)
        compiled, _ = recipe.compiled_shape or (None, None)
        self._efficiency = calibration.efficiency(self.copy, instance.accelerator, engine, bits)
        # At best, every drafted token is accepted.
        draft = replace(self.copy.draft, acceptance=1.0) if self.copy.draft is not None else None
        self._copy_at_best = replace(self.copy, draft=draft)
        self._errors = {figure: self._error(figure) for figure in calibration.errors}
        ideal = self._limit_batch(compiled or batch_size(recipe) or engine_limit(engine, instance))
        self.best = ideal.with_users(1)
        """The latencies that physics allows for a single request."""
        self._prompt_at_best = ideal.prompt

    def _limit_batch(self, most_requests: float) -> Server:
        """Prepare everything that depends on the batch limit; return the ideal server that physics allows."""
        self._server = Server(self.copy, self._efficiency, *self._lengths, most_requests)
        ideal = Server(self._copy_at_best, PHYSICS, *self._lengths, most_requests)
        self.most_requests = self._server.most_requests
        self.most_possible = ideal.most_possible
        """The requests per second that physics allows for one copy."""
        self._limit = self._server.at_limit()
        return ideal

    def with_limit(self, most_requests: int) -> Forecaster:
        """Return the forecasts of the same recipe with another batch limit."""
        limited = copy(self)
        limited._limit_batch(most_requests)  # noqa: SLF001 - same class
        return limited

    @property
    def capacity(self) -> Estimate:
        """The maximum requests per second of one copy."""
        return self._estimate("requests_per_second", self._limit.requests_per_second, self.most_possible)

    def at_rate(self, requests_per_second: float, copies: int = 1) -> Forecast:
        """Return the forecast for requests that arrive at random and go to the copy with the fewest requests."""
        return self._forecast(self._server.at_rate(requests_per_second / copies), copies)

    def with_users(self, users: float, copies: int = 1) -> Forecast:
        """Return the forecast for users who each send a request when the previous response is complete."""
        return self._forecast(self._server.with_users(max(1.0, users / copies)), copies)

    def measured(self, users: float, copies: int, figures: Mapping[Figure, float]) -> list[Measured]:
        """Return an evaluation's measurements for calibration; ``figures`` are in seconds and requests per second."""
        state = self._server.with_users(max(1.0, users / copies))
        response = state.time_to_first_token + (self._lengths[1] - 1) * state.inter_token_latency
        forecast: dict[Figure, float] = {
            "time_to_first_token": state.time_to_first_token,
            "inter_token_latency": state.inter_token_latency,
            "requests_per_second": users / response,
        }
        return [Measured(figure, self.group, self.recipe, value, forecast[figure]) for figure, value in figures.items()]

    @property
    def holds_a_request(self) -> bool:
        """Whether the KV cache has room for one request."""
        return self.copy.request_bytes(sum(self._lengths)) <= self.copy.cache_room

    def at_batch(self, batch: float) -> tuple[float, float]:
        """Return the corrected seconds to the first token, for a request that waits for no other, and between tokens,
        with a batch of this size.
        """
        first, _ = self.correction("time_to_first_token")
        between, _ = self.correction("inter_token_latency")
        latency = self._server.with_batch(batch).inter_token_latency
        return self._server.first_token_alone(batch) * first, latency * between

    def prompt(self, input_tokens: float, slower: float = 1.0) -> float:
        """Return the corrected seconds for which a prompt of another length delays later ones, times ``slower``."""
        corrected = self._server.prompt(input_tokens) * self.correction("time_to_first_token")[0]
        return max(corrected * slower, self._prompt_at_best(input_tokens))

    def correction(self, figure: Figure) -> tuple[float, float]:
        """Return the factor by which measurements correct a figure, and the factor to its interval's upper end."""
        error = self._errors[figure]
        return error.factor, error.above

    def within(self, objectives: Objectives) -> Forecast | None:
        """Return the forecast of one copy at the highest rate that meets the objectives; None if no rate does."""

        def meets(batch: float) -> bool:
            return self._forecast(self._server.with_batch(batch), 1).probability(objectives) >= objectives.confidence

        low, high = LEAST_BATCH, self.most_requests
        if not meets(low):
            return None
        for _ in range(_HALVINGS):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if meets(middle) else (low, middle)
        return self._forecast(self._server.with_batch(low), 1)

    def batch_limit(self, inter_token_latency: float, confidence: float) -> int | None:
        """Return the largest batch that keeps an inter-token latency in seconds; None if every batch does."""
        low, high = 1, int(self.most_requests)
        while low < high:
            middle = (low + high + 1) // 2
            latency = self._forecast(self._server.with_batch(middle), 1).inter_token_latency
            keeps = latency.probability(at_most=inter_token_latency) >= confidence
            low, high = (middle, high) if keeps else (low, middle - 1)
        return low if low < int(self.most_requests) else None

    def _forecast(self, state: Steady, copies: int) -> Forecast:
        figures: dict[Figure, tuple[float, float]] = {
            "time_to_first_token": (state.time_to_first_token, self.best.time_to_first_token),
            "inter_token_latency": (state.inter_token_latency, self.best.inter_token_latency),
            "requests_per_second": (
                self._limit.requests_per_second * copies,
                self.most_possible * copies,
            ),
        }
        estimates = {figure: self._estimate(figure, *given) for figure, given in figures.items()}
        response = state.time_to_first_token + max(0.0, self._lengths[1] - 1) * state.inter_token_latency
        return Forecast(
            **estimates,
            rate=state.requests_per_second * copies,
            in_flight=min(state.requests_per_second * response, self.most_requests),
        )

    def _estimate(self, figure: Figure, forecast: float, bound: float) -> Estimate:
        error = self._errors[figure]
        value = forecast * error.factor
        # No server is faster than physics allows.
        clip = min if figure == "requests_per_second" else max
        return Estimate(
            clip(value, bound), clip(value * error.below, bound), clip(value * error.above, bound), error.spread, bound
        )

    def _error(self, figure: Figure) -> _Error:
        errors = self._calibration.errors[figure]
        shared, deviation = errors.of(self.group, self.recipe)
        if self.copy.draft is not None and figure != "time_to_first_token":
            deviation = math.hypot(deviation, _ACCEPTED_SPREAD)
        width = errors.quantile * deviation
        return _Error(math.exp(shared), math.exp(-width), math.exp(width), width / _NORMAL_QUANTILE)

    def track_record(self, figure: Figure) -> TrackRecord:
        """Return the measurements that a figure uses."""
        errors = self._calibration.errors[figure]
        published, own = errors.groups.get(self.group, ()), errors.own_groups.get(self.group, ())
        missed = [math.expm1(abs(error)) for error in own or published]
        return TrackRecord(len(published) + len(own), len(own), median(missed) if missed else None)


def about(tokens: float) -> str:
    """Return the nearest power of two, because a measurement tells less about requests of other lengths."""
    return f"{2 ** round(math.log2(max(1.0, tokens)))} tokens"


def forecaster(
    recipe: Recipe, lengths: tuple[float, float], calibration: Calibration | None = None
) -> Forecaster | None:
    """Return forecasts for input and output tokens; None if the model's size or the instance is unknown."""
    row, instance, memory = recipe.model_row, recipe.instance, estimate(recipe)
    if row is None or instance is None or memory is None:
        return None
    return Forecaster(recipe, row, instance, lengths, calibration or published())


def _described(recipe: Recipe, row: ModelRow, instance: InstanceRow) -> tuple[Copy, str, str]:
    """Return a recipe's copy, its engine, and the bits of its operands."""
    techniques = [technique for _, technique in recipe.located_techniques]
    memory = estimate(recipe)
    assert memory is not None  # noqa: S101 - forecaster() returned None otherwise
    precision = served_precision(row, techniques)
    if precision is None and any(technique.name == "smoothquant" for technique in techniques):
        precision = "int8"
    share, room = cache_share(recipe), cache_room_gb(recipe)
    copy = copy_of(
        row,
        instance,
        weight_bytes=memory.weights_gb * 1e9,
        precision=precision,
        units=recipe.tensor_parallel_degree or 1,
        cache_share=share if share is not None else 1.0,
        cache_room=(room or 0.0) * 1e9,
        draft=_draft(recipe, techniques, row, memory.draft_gb * 1e9),
    )
    return copy, _engine(recipe, techniques), operand_bits(precision, instance)


def _engine(recipe: Recipe, techniques: list[Technique]) -> str:
    compiled = next((technique.name for technique in techniques if technique.kind == "compilation"), None)
    named = {"neuron": "vllm-neuron", "tensorrt_llm": "tensorrt-llm"}.get(compiled or "")
    name = recipe.serving_settings.name
    return named or _ENGINES.get(name, name)


def _draft(recipe: Recipe, techniques: list[Technique], row: ModelRow, weight_bytes: float) -> Draft | None:
    """Return a recipe's speculation with a typical acceptance; None without speculation."""
    technique = next((each for each in techniques if each.kind == "speculative_decoding"), None)
    if technique is None:
        return None
    if isinstance(technique, Medusa):
        # Each head drafts one token.
        return Draft(technique.heads, _ACCEPTANCE["medusa"], weight_bytes / technique.heads)
    settings: Mapping[str, Any] = recipe.engine_arguments.get("speculative_config") or {}
    tokens = int(settings.get("num_speculative_tokens") or 1)
    method = str(settings.get("method") or ("draft_model" if technique.draft_provider else ""))
    if method == "mtp" and row.parameters_billion:
        # The draft is one more layer.
        weight_bytes = weight_bytes or 2e9 * (row.active_parameters_billion or row.parameters_billion) / (
            row.layers or 60
        )
    return Draft(tokens, _ACCEPTANCE.get(method, _HEADS), weight_bytes)
