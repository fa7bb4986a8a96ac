"""The properties of ``Custom::EndpointEvaluation``; the input of a scheduled execution has the same request."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .fields import (
    Bucket,
    Delivered,
    InstanceType,
    KeyArn,
    Properties,
    ResourceName,
    RoleArn,
    S3Uri,
    Seconds,
    Sha256,
    StateMachineArn,
    Tag,
    Tags,
    VpcConfig,
    WaitHandle,
    pattern,
)

_Text = Annotated[str, pattern(r"[^\x00-\x1f\x7f]{1,200}")]
_Formula = Annotated[str, pattern("[a-z0-9_ +*/().-]{1,200}")]
_Metric = Annotated[str, pattern("[a-z][a-z0-9_]{1,80}")]
_Dimension = Annotated[str, pattern("[A-Za-z]{1,64}")]
_Users = Annotated[int, Field(ge=1, le=999_999)]
_Share = Annotated[float, Field(ge=0, le=1)]


class Subject(Properties):
    """What instances of one type serve."""

    instance_type: InstanceType
    artifact_key: Sha256
    price_per_hour: float | None = None


class Limit(Properties):
    """The most or the least that a value may be."""

    formula: _Formula
    title: str = ""
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _has_one_bound(self) -> Limit:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("it needs either AtMost or AtLeast")
        return self


class Comparison(Properties):
    """A metric that may not get worse than it was before."""

    metric: _Metric
    title: str = ""
    better: Literal["higher", "lower"] = "lower"


def _names_object(uri: str) -> str:
    if uri.count("/") < 3 or uri.endswith("/"):
        raise ValueError("it names no object")
    return uri


class Quality(Properties):
    """Requirements of the completions of prompts in S3."""

    prompts: Annotated[S3Uri, AfterValidator(_names_object)]
    min_identical: _Share
    max_difference: _Share
    max_tokens: Annotated[int, Field(ge=1, le=100_000)]
    most_prompts: Annotated[int, Field(ge=1, le=10_000)]

    @property
    def bucket(self) -> str:
        """The bucket of the prompts."""
        return self.prompts.split("/")[2]

    @property
    def key(self) -> str:
        """The key of the prompts."""
        return self.prompts.split("/", 3)[3]


class Gate(Properties):
    """All requirements of an evaluation."""

    limits: tuple[Limit, ...] = ()
    max_regression: _Share | None = None
    compared: tuple[Comparison, ...] = ()
    at_concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    quality: Quality | None = None


class EvaluationRequest(Properties):
    """What to evaluate, how, and what is required of the results.

    Attributes:
        label: name of the endpoint in messages.
        endpoint_name: its name.
        variant_name: the variant that serves the model.
        inference_component_name: the inference component that does, if one does.
        endpoint_config_name: the configuration in service: another one is evaluated anew.
        model_names: the models in service.
        subjects: what each of its instance types serves.
        share_of_instance: the share of an instance that one copy of a component takes.
        lossless: whether the techniques leave the model's output as it is.
        workload_config_name: of the AI workload configuration.
        workload: its specification, for the report.
        concurrencies: users at the same time.
        discount: what a savings plan takes off, as a share.
        dimensions: those of its metrics, except concurrency and artifact key.
        role_arn: what the benchmark job assumes.
        vpc_config: where the job reaches the network from.
        bucket: the store.
        kms_key_arn: its key.
        gate: the requirements; None where nothing depends on the results.
        tags: of the job.
    """

    label: _Text
    endpoint_name: ResourceName
    variant_name: ResourceName | None = None
    inference_component_name: ResourceName | None = None
    endpoint_config_name: ResourceName
    model_names: tuple[ResourceName, ...] = ()
    subjects: Annotated[tuple[Subject, ...], Field(min_length=1, max_length=5)]
    share_of_instance: _Share | None = None
    lossless: bool = False
    workload_config_name: ResourceName
    workload: Delivered = Field(default_factory=dict)
    concurrencies: Annotated[
        tuple[_Users, ...], Field(min_length=1, max_length=50), AfterValidator(lambda users: tuple(sorted(set(users))))
    ]
    discount: _Share = 0.0
    dimensions: dict[_Dimension, _Text] = Field(default_factory=dict)
    role_arn: RoleArn
    vpc_config: VpcConfig | None = None
    bucket: Bucket
    kms_key_arn: KeyArn | None = None
    gate: Gate | None = None
    tags: Tags = Field(default_factory=list[Tag])

    def key(self, account: str, region: str) -> str:
        """SHA-256 of what decides the results: the same evaluation is not run twice for one deployment."""
        quality = self.gate.quality if self.gate is not None else None
        decides = {
            "where": [account, region, self.endpoint_name, self.variant_name, self.inference_component_name],
            "served": [
                self.endpoint_config_name,
                *self.model_names,
                *(subject.artifact_key for subject in self.subjects),
            ],
            "workload": [self.workload_config_name, self.workload],
            "prompts": [quality.prompts, quality.max_tokens, quality.most_prompts] if quality is not None else None,
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


class EvaluationProperties(Properties):
    """One ``Custom::EndpointEvaluation``."""

    request: EvaluationRequest
    state_machine_arn: StateMachineArn
    wait_handle: WaitHandle | None = None
    wait_seconds: Seconds | None = None
