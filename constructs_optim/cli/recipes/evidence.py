"""Reads the evidence of recommendations: prices, JumpStart's published benchmarks, and a store's contents.

Source: JumpStart's documents (``DescribeHubContent``), in which ``inference_configs`` has ``benchmark_metrics`` by
instance type: lists of ``{"name", "unit", "value", "concurrency"}``, with values and concurrency as text. According to
the SageMaker Python SDK's table, latency is the median time to first token, and throughput one user's median tokens/s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from constructs_optim.recipe import Recipe, RecipeError
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.catalog.lock import Lock
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.forecast import Figure, Measured, forecaster
from constructs_optim.recipe.objectives import MOST_TOKENS
from constructs_optim.recipe.plan_data import PUBLIC_HUB
from constructs_optim.recipe.recommendation import Benchmark
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.settings import UnknownSettingsError
from constructs_optim.recipe.techniques.parsing import parse
from constructs_optim.runtime.documents import json_value, list_in, object_in
from constructs_optim.runtime.errors import DENIED, code_of
from constructs_optim.runtime.jobs.hub_document import hub_content
from constructs_optim.runtime.store.json_records import objects

from ..aws import Account
from .model_of_text import model_of

_MILLISECONDS = {"s": 1000.0, "sec": 1000.0, "seconds": 1000.0, "ms": 1.0, "milliseconds": 1.0}
_RESULT = re.compile(r"evaluations/[0-9a-f]{64}/result\.json")
_MANIFEST = re.compile(r"artifacts/([0-9a-f]{64})/manifest\.json")
# The forecast's figures (seconds, requests per second), with the factor from each to the metric of the same name.
_FIGURES: Mapping[Figure, float] = {"time_to_first_token": 1000, "inter_token_latency": 1000, "requests_per_second": 1}
# The fewest output tokens for a meaningful inter-token latency.
_LEAST_OUTPUT = 4


@dataclass(frozen=True)
class PublishedModel:
    """A model in the public hub: the instance types of each configuration, none if the document has no list."""

    version: str | None = None
    configurations: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    benchmarks: tuple[Benchmark, ...] = ()


def listed_prices(account: Account | None, region: str, notes: list[str]) -> Mapping[str, float]:
    """Return the prices of the AWS Price List; none, with a note, if it cannot be read."""
    prices, reason = None, "AWS was not called"
    if account is not None:
        prices = account.prices(region)
        reason = "AWS denies pricing:GetProducts" if prices is None else f"the AWS Price List has none for {region}"
    if not prices:
        notes.append(f"No prices: {reason}. State prices with --prices FILE.")
    return prices or {}


def published_model(account: Account | None, model: str, version: str | None, notes: list[str]) -> PublishedModel:
    """Return a model's configurations and benchmarks in the hub; none, with a note, if they cannot be read."""
    if account is None:
        notes.append("JumpStart's benchmarks are unknown: AWS was not called.")
        return PublishedModel()
    if models.find(model) is None:
        return PublishedModel()
    try:
        text, current = hub_content(account.sagemaker(), PUBLIC_HUB, model, version)
    except ClientError as error:
        if code_of(error) not in DENIED:
            raise
        notes.append("JumpStart's benchmarks are unknown: AWS denies sagemaker:DescribeHubContent.")
        return PublishedModel()
    try:
        return published(text, current)
    except ValueError as error:
        notes.append(f"JumpStart's benchmarks are unknown: the model's document cannot be read: {error}.")
        return PublishedModel()


def published(text: str, version: str) -> PublishedModel:
    """Return a document's configurations and benchmarks; the case of keys varies between documents.

    Raises:
        ValueError: if the document is not JSON.
    """
    document = object_in(json_value(text))
    configurations = object_in(_member(document, "inferenceconfigs"))
    components = object_in(_member(document, "inferenceconfigcomponents"))
    benchmarks: list[Benchmark] = []
    instance_types: dict[str, frozenset[str]] = {}
    for name, config in configurations.items():
        for instance_type, rows in object_in(_member(config, "benchmarkmetrics")).items():
            benchmarks += _benchmarks(name, version, instance_type, list_in(rows))
        # The last component with a list determines the instance types.
        listed: list[object] = []
        for component in list_in(_member(config, "componentnames")):
            listed = list_in(_member(components.get(str(component)), "supportedinferenceinstancetypes")) or listed
        instance_types[name] = frozenset(map(str, listed))
    return PublishedModel(version, instance_types, tuple(benchmarks))


def _benchmarks(configuration: str, version: str, instance_type: str, rows: Sequence[object]) -> Iterator[Benchmark]:
    by_users: dict[int, dict[str, float]] = {}
    for row in rows:
        users, value = _number(_member(row, "concurrency")), _number(_member(row, "value"))
        name, unit = (str(_member(row, member) or "").lower() for member in ("name", "unit"))
        if users is None or users < 1 or value is None or value <= 0:
            continue
        level = by_users.setdefault(int(users), {})
        if name == "latency" and unit in _MILLISECONDS:
            level["latency"] = value * _MILLISECONDS[unit]
        elif name == "throughput" and unit.startswith("tokens/s"):
            # JumpStart publishes throughput per user.
            level["throughput"] = value * int(users)
    for users, level in sorted(by_users.items()):
        if level:
            yield Benchmark(
                source=f"published by JumpStart, {configuration} {version}",
                instance_type=instance_type,
                concurrency=users,
                time_to_first_token_ms=level.get("latency"),
                tokens_per_second=level.get("throughput"),
                configuration=configuration,
            )


def _member(value: object, name: str) -> Any:
    return next((item for key, item in object_in(value).items() if key.replace("_", "").lower() == name), None)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def artifact_keys(s3: Any, bucket: str) -> frozenset[str]:
    """Return the keys of complete artifacts, which have a manifest."""
    return frozenset(match[1] for match in _matches(s3, bucket, "artifacts/", _MANIFEST))


def measured(s3: Any, bucket: str, lock: Lock, region: str, notes: list[str]) -> list[Measured]:
    """Return the measurements of recipes by a store's evaluations, with their uncorrected forecasts."""
    found: list[Measured] = []
    for match in _matches(s3, bucket, "evaluations/", _RESULT):
        try:
            content = s3.get_object(Bucket=bucket, Key=match[0])["Body"].read()
            found += _measured(EvaluationResult.model_validate_json(content), lock, region)
        except ValidationError:
            notes.append("Skipped an evaluation in the store that cannot be read.")
    return found


def _measured(result: EvaluationResult, lock: Lock, region: str) -> Iterator[Measured]:
    served, instance_type = result.subject.recipe, result.subject.instance_type
    if served is None or instance_type is None:
        return
    try:
        techniques = [parse(technique) for technique in served.techniques]
    except (RecipeError, UnknownSettingsError):
        # Another release used other names.
        return
    model = model_of(served.model, None, accept_eula=True)
    server = by_name().get(served.server or "")
    recipe = Recipe(model, techniques, instance_type, region, containers=lock, server=server() if server else None)
    for level in result.levels:
        metrics, users = level.metrics, level.concurrency
        given, expected = metrics.get("input_tokens", 0.0), metrics.get("output_tokens", 0.0)
        if not level.complete or users is None or not 1 <= given <= MOST_TOKENS:
            continue
        if not _LEAST_OUTPUT <= expected <= MOST_TOKENS:
            continue
        forecasts = forecaster(recipe, (given, expected))
        if forecasts is None:
            return
        figures: dict[Figure, float] = {}
        for figure, unit in _FIGURES.items():
            if 0 < (value := metrics.get(figure, 0.0)) < math.inf:
                figures[figure] = value / unit
        yield from forecasts.measured(users, result.subject.copies or 1, figures)


def _matches(s3: Any, bucket: str, prefix: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    return filter(None, (pattern.fullmatch(name) for name, _, _ in objects(s3, bucket, prefix)))
