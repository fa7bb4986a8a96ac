"""Choices for objectives: created from a recommendation, recorded in the lock file, read and compared."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from .catalog.lock import Interval, Lock, RecordedChoice, RecordedForecast, RecordedLatencies, RecordedPool
from .errors import RecipeError
from .forecast import Estimate, Forecast
from .model import Model
from .objectives import CONFIDENCE, LIMITS, Intended, Objectives, choice_name, percent, plain
from .recommendation import Candidate
from .rules import check
from .servers import by_name, takes_batch_limit
from .settings import UnknownSettingsError
from .techniques.parsing import parse


def chosen(lock: Lock, model: Model, objectives: Objectives) -> RecordedChoice:
    """Return the recorded choice.

    Raises:
        RecipeError: if there is none, with the command that records one, or if it is not valid.
    """
    recorded: dict[str, list[str]] = {}
    for name, choice in lock.choices.items():
        recorded.setdefault(choice.model, []).append(name)
    choice = lock.choices.get(choice_name(model.name, objectives))
    mistake = _mistake(choice, model, objectives) if choice is not None else None
    intended = Intended(model.name, objectives, recorded, command_of(model, objectives), mistake)
    if refused := check(intended):
        raise RecipeError(refused)
    return lock.choices[intended.name]


def _mistake(choice: RecordedChoice, model: Model, objectives: Objectives) -> str | None:
    """Return the error in a recorded choice, if any."""
    if None not in (model.version, choice.version) and model.version != choice.version:
        return f"it is for version {choice.version} of the model"
    if choice.objectives != objectives.model_dump(mode="json", exclude_defaults=True):
        return "its objectives differ from those in its name"
    for pool in choice.pools:
        server = by_name().get(pool.server or "")
        if pool.server is not None and server is None:
            return f"the library has no server {pool.server!r}"
        if pool.max_concurrent_requests is not None and not (server is not None and takes_batch_limit(server)):
            return f"{pool.server or 'no server'} does not support max_concurrent_requests"
        for technique in pool.techniques:
            try:
                parse(technique)
            except (RecipeError, UnknownSettingsError) as error:
                return f"{technique!r}: {error}"
    return None


def command_of(model: Model, objectives: Objectives) -> str:
    """Return the command that records a choice."""
    options = [f"--input-tokens {objectives.input_tokens} --output-tokens {objectives.output_tokens}"]
    settings = {
        "rate": plain(objectives.requests_per_second) if objectives.requests_per_second else None,
        "ttft": f"{plain(objectives.time_to_first_token)}ms" if objectives.time_to_first_token else None,
        "itl": f"{plain(objectives.inter_token_latency)}ms" if objectives.inter_token_latency else None,
        "max-price": plain(objectives.max_price_per_hour) if objectives.max_price_per_hour else None,
        "quality": objectives.quality if objectives.quality != "near-lossless" else None,
        "confidence": objectives.confidence if objectives.confidence != CONFIDENCE else None,
    }
    options += [f"--{name} {value}" for name, value in settings.items() if value is not None]
    version = f" --model-version {model.version}" if model.version is not None else ""
    return f"constructs-optim recommend {model.name}{version} {' '.join(options)} --update"


def recorded(model: Model, objectives: Objectives, candidates: Sequence[Candidate], today: dt.date) -> RecordedChoice:
    """Create a choice from candidates that meet the objectives, the preferred one first."""
    first = candidates[0]
    forecast, probability = first.forecast, first.probability
    if forecast is None or probability is None or first.target is None:
        raise ValueError(f"{first.plan.summary} has no forecast, so it cannot be a choice")
    record = first.record["inter_token_latency"]
    return RecordedChoice(
        model=model.name,
        version=model.version,
        objectives=objectives.model_dump(mode="json", exclude_defaults=True),
        pools=tuple(_pool(each, first.instances) for each in candidates),
        copies=first.copies,
        instances=first.instances,
        # All pools scale together.
        concurrency=min(each.target for each in candidates if each.target is not None),
        forecast=RecordedForecast(
            rate=_rounded(forecast.rate),
            time_to_first_token_ms=_interval(forecast.time_to_first_token, 1000),
            inter_token_latency_ms=_interval(forecast.inter_token_latency, 1000),
            requests_per_second=_interval(forecast.requests_per_second, 1),
            probability=round(probability, 3),
            measurements=record.measurements,
            with_users={users: _latencies(each) for users, each in first.with_users.items()},
        ),
        date=today,
    )


def differences(before: RecordedChoice, after: RecordedChoice) -> str:
    """Describe the differences between two choices: instances, price, latencies and risk; empty if there are none."""
    return "; ".join(_differences(before, after))


def described(choice: RecordedChoice) -> str:
    """Describe a choice, for example ``2 x ml.p5.4xlarge with quantization=fp8``."""
    first, *others = choice.pools
    several = f", {choice.copies} copies" if first.copies_per_instance > 1 else ""
    more = "".join(f", or {each.instance_type}{_at(each)}, {_recipe(each)}" for each in others)
    return f"{choice.instances} x {first.instance_type}{several}, {_recipe(first)}{more}"


def _at(pool: RecordedPool) -> str:
    return f" at ${pool.price_per_hour:,.2f} an hour" if pool.price_per_hour is not None else ""


def _recipe(pool: RecordedPool) -> str:
    techniques = " + ".join(map(_label, pool.techniques)) or "the unmodified model"
    limit = pool.max_concurrent_requests
    return f"{techniques} in batches of up to {limit}" if limit is not None else techniques


def _label(technique: str) -> str:
    """Return a technique's label, or its text if another release wrote it differently."""
    try:
        return parse(technique).label
    except (RecipeError, UnknownSettingsError):
        return technique


def expected(choice: RecordedChoice) -> str:
    """Describe the price and the forecast of a choice."""
    forecast = choice.forecast
    is_limited = any(choice.objectives.get(name) is not None for name in LIMITS)
    return (
        f"{_price(choice)}, first token after {_shown(forecast.time_to_first_token_ms)} ms, then a token every "
        f"{_shown(forecast.inter_token_latency_ms)} ms, at most {_shown(forecast.requests_per_second)} requests/s"
        + (f", which meets the objectives with a probability of {percent(forecast.probability)}" if is_limited else "")
    )


def _differences(before: RecordedChoice, after: RecordedChoice) -> Iterator[str]:
    if (old := described(before)) != (new := described(after)):
        yield f"{new} instead of {old}"
    if before.pools[0].price_per_hour != after.pools[0].price_per_hour:
        yield f"{_price(after)} instead of {_price(before)}"
    if before.concurrency != after.concurrency:
        yield f"scaled at {after.concurrency:g} requests in flight for each copy instead of {before.concurrency:g}"
    pairs = (
        ("first token after", "ms", before.forecast.time_to_first_token_ms, after.forecast.time_to_first_token_ms),
        ("then a token every", "ms", before.forecast.inter_token_latency_ms, after.forecast.inter_token_latency_ms),
        ("at most", "requests/s", before.forecast.requests_per_second, after.forecast.requests_per_second),
    )
    for name, unit, was, is_ in pairs:
        if was != is_:
            yield f"{name} {_shown(is_)} {unit} instead of {_shown(was)}"
    if before.forecast.probability != after.forecast.probability:
        chances = (percent(each.forecast.probability) for each in (after, before))
        yield "meets the objectives with a probability of {} instead of {}".format(*chances)
    if before.forecast.measurements != after.forecast.measurements:
        numbers = after.forecast.measurements, before.forecast.measurements
        yield "forecast from {} measurements instead of {}".format(*numbers)


def _price(choice: RecordedChoice) -> str:
    price = choice.pools[0].price_per_hour
    return f"${price:,.2f} an hour" if price is not None else "an unknown price"


def _shown(interval: Interval) -> str:
    value, low, high = interval
    return f"{plain(value)} ({plain(low)} to {plain(high)})"


def _pool(candidate: Candidate, instances: int) -> RecordedPool:
    price = candidate.price_per_hour
    return RecordedPool(
        instance_type=candidate.plan.instance_type,
        techniques=candidate.techniques,
        copies_per_instance=candidate.copies_per_instance,
        server=candidate.plan.container.server,
        max_concurrent_requests=candidate.batch_limit,
        price_per_hour=round(price / candidate.instances * instances, 2) if price is not None else None,
    )


def _latencies(forecast: Forecast) -> RecordedLatencies:
    return RecordedLatencies(
        time_to_first_token_ms=_interval(forecast.time_to_first_token, 1000),
        inter_token_latency_ms=_interval(forecast.inter_token_latency, 1000),
    )


def _interval(estimate: Estimate, unit: float) -> Interval:
    return _rounded(estimate.value * unit), _rounded(estimate.low * unit), _rounded(estimate.high * unit)


def _rounded(value: float) -> float:
    """Round to three significant digits, because further digits are noise that would change with every release."""
    return float(f"{value:.3g}")
