"""The properties of ``Custom::EndpointEvaluation`` and ``Custom::ModelRecommendation``, and of their executions."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from .properties import (
    Bucket,
    Delivered,
    InstanceType,
    KeyArn,
    Properties,
    ResourceName,
    RoleArn,
    S3Prefix,
    S3Uri,
    Sha256,
    Tag,
    Tags,
    VpcConfig,
    Watch,
    WatchedProperties,
    pattern,
)

_Text = Annotated[str, pattern(r"[^\x00-\x1f\x7f]{1,200}")]
_Formula = Annotated[str, pattern("[a-z0-9_ +*/().-]{1,200}")]
_Promql = Annotated[str, Field(min_length=1, max_length=5_000)]
_Metric = Annotated[str, pattern("[a-z][a-z0-9_]{1,80}")]
_Dimension = Annotated[str, pattern("[A-Za-z]{1,64}")]
_Users = Annotated[int, Field(ge=1, le=999_999)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Reservation = Annotated[
    str, pattern(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:[a-z0-9-]{1,14}/\S+", max_length=256)
]


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


class RunRequest(Properties):
    """The properties that evaluations and recommendations share."""

    role_arn: RoleArn
    bucket: Bucket
    kms_key_arn: KeyArn | None = None


class ServedRecipe(Properties):
    """The served recipe in the command line's terms, so that its measurement can correct later forecasts."""

    model: _Text
    techniques: Annotated[tuple[_Text, ...], Field(max_length=20)] = ()
    server: Annotated[str, pattern("[a-z_]{1,40}")] | None = None
    image: Annotated[str, pattern(r"\S{1,512}")] | None = None


class Subject(Properties):
    """The artifact on instances of one type, and its container's server; None for JumpStart's container."""

    instance_type: InstanceType
    artifact_key: Sha256
    price_per_hour: float | None = None
    server: Annotated[str, pattern("[a-z_]{1,40}")] | None = None
    recipe: ServedRecipe | None = None


class Limit(Properties):
    """A value's maximum or minimum."""

    formula: _Formula
    title: str = ""
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _has_one_bound(self) -> Limit:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("it must have either AtMost or AtLeast")
        return self


class Comparison(Properties):
    """A metric to compare with the replaced endpoint's."""

    metric: _Metric
    title: str = ""
    better: Literal["higher", "lower"] = "lower"


def _names_object(uri: str) -> str:
    if uri.count("/") < 3 or uri.endswith("/"):
        raise ValueError("it does not name an object")
    return uri


class Quality(Properties):
    """Requirements for the completions of prompts in S3."""

    prompts: Annotated[S3Uri, AfterValidator(_names_object)]
    min_identical: _Share
    max_difference: _Share
    min_agreement: _Share = 0.99
    max_tokens: Annotated[int, Field(ge=1, le=100_000)]
    most_prompts: Annotated[int, Field(ge=1, le=10_000)]


class Forecast(Properties):
    """A metric's expected value, for a concurrency and a number of copies on an instance type.

    ``low`` and ``high`` are the interval that contains it with a probability of 90%.
    """

    instance_type: InstanceType
    copies: Annotated[int, Field(ge=1, le=1_000_000)]
    concurrency: _Users
    metric: _Metric
    title: _Text
    unit: _Text
    value: Annotated[float, Field(gt=0)]
    low: Annotated[float, Field(gt=0)]
    high: Annotated[float, Field(gt=0)]

    @model_validator(mode="after")
    def _is_within(self) -> Forecast:
        if not self.low <= self.value <= self.high:
            raise ValueError("Value is not between Low and High")
        return self


class Gate(Properties):
    """All requirements of an evaluation; ``forecast`` requires it to stay within the forecasts' intervals."""

    limits: tuple[Limit, ...] = ()
    max_regression: _Share | None = None
    compared: tuple[Comparison, ...] = ()
    at_concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    quality: Quality | None = None
    forecast: bool = False


class Acceptance(Properties):
    """PromQL over ``$window``: the acceptance length, and the number of drafts per second in this mean."""

    length: _Promql
    drafts: _Promql | None = None


class PooledLoad(Properties):
    """The requests that are measured of a model that computes embeddings, scores or classes.

    ``prompts`` is a JSON Lines file with the inputs of each request; None for random words.
    """

    inputs_per_request: Annotated[int, Field(ge=1, le=2_048)] = 1
    input_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    input_tokens_stddev: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    requests: Annotated[int, Field(ge=1, le=100_000)] | None = None
    duration_seconds: Annotated[int, Field(ge=1, le=100)] | None = None
    request_timeout_seconds: Annotated[int, Field(ge=1, le=60)] = 60
    seed: Annotated[int, Field(ge=0)]
    prompts: Annotated[S3Uri, AfterValidator(_names_object)] | None = None


class EvaluationRequest(RunRequest):
    """An endpoint to evaluate, the workload, and the requirements.

    A benchmark job sends the workload to a model that generates text. Of another ``task``, it sends none, and the
    function sends ``load`` itself.
    """

    workload_config_name: ResourceName | None = None
    task: Literal["generate", "embed", "rerank", "classify"] = "generate"
    load: PooledLoad | None = None

    # The endpoint's name in messages.
    label: _Text
    endpoint_name: ResourceName
    variant_name: ResourceName | None = None
    inference_component_name: ResourceName | None = None
    endpoint_config_name: ResourceName
    model_names: tuple[ResourceName, ...] = ()
    subjects: Annotated[tuple[Subject, ...], Field(min_length=1, max_length=5)]
    # The share of an instance that one copy of a component uses.
    share_of_instance: _Share | None = None
    # Whether the techniques keep the model's output unchanged.
    lossless: bool = False
    workload: Delivered = Field(default_factory=dict)
    concurrencies: Annotated[
        tuple[_Users, ...], Field(min_length=1, max_length=50), AfterValidator(lambda users: tuple(sorted(set(users))))
    ]
    discount: _Share = 0.0
    # The dimensions of its metrics, except concurrency and artifact key.
    dimensions: dict[_Dimension, _Text] = Field(default_factory=dict)
    vpc_config: VpcConfig | None = None
    # None if the recipe does not use speculative decoding, or its engine does not publish such metrics.
    acceptance: Acceptance | None = None
    # The forecasts of the choice for the endpoint's objectives.
    forecasts: Annotated[tuple[Forecast, ...], Field(max_length=50)] = ()
    # None if the deployment does not depend on the results.
    gate: Gate | None = None
    tags: Tags = Field(default_factory=list[Tag])

    @model_validator(mode="after")
    def _has_one_workload(self) -> EvaluationRequest:
        if (self.task == "generate") != (self.workload_config_name is not None) or (self.task == "generate") != (
            self.load is None
        ):
            raise ValueError("it has WorkloadConfigName, or another task than generate and Load")
        return self

    def key(self, account: str, region: str) -> str:
        """Return the SHA-256 of the inputs that determine the results, so that no evaluation is repeated."""
        quality = self.gate.quality if self.gate is not None else None
        artifacts = [subject.artifact_key for subject in self.subjects]
        sent = [self.workload_config_name, self.workload]
        if self.load is not None:
            sent = [self.task, self.load.model_dump(mode="json"), list(self.concurrencies)]
        return _digest(
            {
                "where": [account, region, self.endpoint_name, self.variant_name, self.inference_component_name],
                "served": [self.endpoint_config_name, *self.model_names, *artifacts],
                "workload": sent,
                "prompts": [quality.prompts, quality.max_tokens, quality.most_prompts] if quality is not None else None,
            }
        )


class EvaluationProperties(WatchedProperties):
    """One ``Custom::EndpointEvaluation``."""

    request: EvaluationRequest


def _seconds(issued: object) -> object:
    """Return a time in seconds since 1970; a schedule gives it in ISO 8601."""
    if isinstance(issued, str) and not issued.isdecimal():
        return int(dt.datetime.fromisoformat(issued.replace("Z", "+00:00")).timestamp())
    return issued


class EvaluationWatch(Watch):
    """The input of an evaluation's execution; ``before`` is the key of the replaced version's evaluation."""

    request: EvaluationRequest
    run: Annotated[str, pattern("[a-zA-Z0-9-]{1,64}")]
    issued: Annotated[int, BeforeValidator(_seconds)]
    before: Sha256 | None = None


class RecommendationRequest(RunRequest):
    """The model, workload, and metric to recommend instances and optimizations for; the service chooses the rest."""

    workload_config_name: ResourceName
    model_uri: S3Prefix
    workload: Delivered
    prompts: S3Uri | None = None
    metric: Annotated[str, pattern("[a-z][a-z-]{1,40}")]
    instance_types: Annotated[tuple[InstanceType, ...], Field(max_length=3)] = ()
    framework: Annotated[str, pattern("[A-Z][A-Z0-9_]{1,40}")] | None = None
    optimize_model: bool = True
    reservation_arns: Annotated[tuple[_Reservation, ...], Field(max_length=20)] = ()

    def key(self, account: str, region: str) -> str:
        """Return the SHA-256 of the recommendation's inputs: a store keeps one result for equal requests."""
        return _digest({"where": [account, region, self.bucket], "what": self.question})

    @property
    def question(self) -> dict[str, object]:
        """Return the inputs in the form that the result records."""
        return {
            "model": self.model_uri,
            "workload": self.workload,
            **({"prompts": self.prompts} if self.prompts is not None else {}),
            "metric": self.metric,
            "instance_types": list(self.instance_types),
            **({"framework": self.framework} if self.framework is not None else {}),
            "optimize_model": self.optimize_model,
            "capacity_reservations": list(self.reservation_arns),
        }


class RecommendationProperties(WatchedProperties):
    """One ``Custom::ModelRecommendation``."""

    request: RecommendationRequest
    tags: Tags = Field(default_factory=list[Tag])


class RecommendationWatch(Watch):
    """The input of a recommendation's execution; ``fingerprint`` identifies the model's files."""

    request: RecommendationRequest
    run: Annotated[str, pattern("[0-9a-f]{16}")]
    fingerprint: str | None = None
