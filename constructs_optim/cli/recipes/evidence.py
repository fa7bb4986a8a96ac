"""Looks up what recommendations build on besides the catalog: prices, published benchmarks, and a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from constructs_optim.operations.evaluations import StoredEvaluation, artifact_keys, evaluations
from constructs_optim.operations.published_benchmarks import PublishedModel, published_model
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.recommendation.data import Benchmark
from constructs_optim.runtime.errors import code_of

from ..aws import DENIED, Account


def listed_prices(account: Account | None, region: str, notes: list[str]) -> Mapping[str, float]:
    """The prices of the AWS Price List; none, with a note, where it may not be asked."""
    state = "state prices with --prices"
    if account is None:
        notes.append(f"There are no prices: nothing was asked (--offline); {state}.")
        return {}
    prices = account.prices(region)
    if prices is None:
        notes.append(f"There are no prices: AWS denies pricing:GetProducts; {state}.")
    elif not prices:
        notes.append(f"There are no prices: the AWS Price List has none of {region}; {state}.")
    return prices or {}


def published_of(account: Account | None, model: str, version: str | None, notes: list[str]) -> PublishedModel | None:
    """What the hub says of a model; nothing for one that the catalog does not know, which is refused later."""
    if account is None:
        notes.append("What JumpStart publishes was not asked for (--offline).")
        return None
    if models.find(model) is None:
        return None
    try:
        return published_model(account.sagemaker(), model, version)
    except ClientError as error:
        if code_of(error) not in DENIED:
            raise
        notes.append("What JumpStart publishes is not known: AWS denies sagemaker:DescribeHubContent.")
        return None


def of_jumpstart(published: PublishedModel | None) -> list[Benchmark]:
    """The published benchmarks: a user's tokens a second, times the users."""
    if published is None:
        return []
    return [
        Benchmark(
            source=f"published by JumpStart, {benchmark.configuration} {published.version}",
            instance_type=benchmark.instance_type,
            concurrency=benchmark.concurrency,
            time_to_first_token_ms=benchmark.time_to_first_token_ms,
            tokens_per_second=(
                benchmark.tokens_per_second_of_a_user * benchmark.concurrency
                if benchmark.tokens_per_second_of_a_user is not None
                else None
            ),
            configuration=benchmark.configuration,
        )
        for benchmark in published.benchmarks
    ]


def artifacts_of(account: Account | None, bucket: str | None) -> frozenset[str]:
    """The keys of a store's artifacts."""
    if account is None or bucket is None:
        return frozenset()
    return artifact_keys(account.client("s3", account.region_of(bucket)), bucket)


def of_store(account: Account | None, bucket: str | None, notes: list[str]) -> list[Benchmark]:
    """What evaluations measured; of several of the same, the newest counts."""
    if account is None or bucket is None:
        return []
    s3 = account.client("s3", account.region_of(bucket))
    newest: dict[tuple[Any, ...], tuple[Any, Benchmark]] = {}
    for stored in evaluations(s3, account.sagemaker(bucket), bucket):
        try:
            result = EvaluationResult.model_validate(stored.document)
        except ValidationError:
            notes.append("An evaluation in the store could not be read, and was passed over.")
            continue
        for measured in _measured(result, stored):
            subject = (measured.served, measured.instance_type, measured.concurrency, measured.with_channels)
            if subject not in newest or newest[subject][0] < result.started:
                newest[subject] = (result.started, measured)
    return [measured for _, measured in newest.values()]


def _measured(result: EvaluationResult, stored: StoredEvaluation) -> list[Benchmark]:
    subject = result.subject
    if subject.artifact_key is None or subject.instance_type is None:
        return []
    return [
        Benchmark(
            source=f"your evaluation of {subject.label}, {result.started:%Y-%m-%d}",
            instance_type=subject.instance_type,
            concurrency=level.concurrency,
            time_to_first_token_ms=level.metrics.get("time_to_first_token_p50"),
            tokens_per_second=level.metrics.get("total_throughput"),
            instance_count=subject.instance_count or 1,
            served=subject.artifact_key,
            with_channels=stored.with_channels,
        )
        for level in result.levels
        if level.complete
    ]
