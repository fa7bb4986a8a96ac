"""Groups of endpoint settings: production variant, monitoring, data capture and asynchronous inference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from aws_cdk import Duration, Size
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct
from pydantic import AfterValidator, Field, model_validator

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.monitoring.endpoint_alarms import (
    RUNBOOK,
    AlarmAction,
    EndpointAlarms,
)
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.stack.arguments import (
    ALARM_ACTION,
    ALARMS,
    BUCKET,
    DURATION,
    KEY,
    MEMORY,
    SIZE,
    TOPIC,
)
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.permissions import Statement, statements_of
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.hosting.options import (
    API,
    CapacityReservation,
    Observability,
    Placement,
    Routing,
    ScaleIn,
)
from constructs_optim.recipe.hosting.scaling import scaling_defaults
from constructs_optim.recipe.hosting.speculation import SpeculationCure
from constructs_optim.recipe.keys import canonical, sha256
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques.captured import CapturedTraffic
from constructs_optim.recipe.tokens import is_token, matches

from .update_policy import watch_statements

Action = Annotated[AlarmAction, ALARM_ACTION]
Bucket = Annotated[s3.IBucket, BUCKET]
Key = Annotated[kms.IKey, KEY]
Prefix = Annotated[str, AfterValidator(lambda prefix: _without_slashes(prefix))]
ContentType = Annotated[str, AfterValidator(lambda text: _content_type(text))]
Time = Annotated[Duration, DURATION]
Topic = Annotated[sns.ITopic, TOPIC]
# The limit of ProductionVariantCoreDumpConfig.DestinationS3Uri; a bucket name has at least 3 characters.
_LONGEST_DUMP_URI, _SHORTEST_BUCKET = 512, 3
# API reference, CaptureContentTypeHeader.
_CONTENT_TYPE = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*/[a-zA-Z0-9](-*[a-zA-Z0-9.])*")
_JSON_TYPES = ("application/json", "application/jsonlines")


class CoreDumps(Settings):
    """Core dumps in S3, written when the process of the model's container crashes.

    Attributes:
        bucket: the bucket for the dumps. A dump contains the process's memory, including prompts and completions:
            encrypt the bucket, and restrict its readers.
        prefix: the prefix of the dumps' object keys. Default: ``core-dumps``.
        encryption_key: the KMS key of the dumps. Default: the account's AWS managed key for Amazon S3.
    """

    rule = "OPT128"
    rule_link = f"{API}ProductionVariantCoreDumpConfig.html"

    bucket: Bucket
    prefix: Prefix = "core-dumps"
    encryption_key: Key | None = None

    @model_validator(mode="after")
    def _is_short_enough(self) -> CoreDumps:
        bucket = self.bucket.bucket_name
        length = len(f"s3:///{self.prefix}") + (_SHORTEST_BUCKET if is_token(bucket) else len(bucket))
        if length > _LONGEST_DUMP_URI:
            raise ValueError(
                f"the URI has {length} characters, and SageMaker allows {_LONGEST_DUMP_URI}: use a shorter prefix"
            )
        return self

    def to_property(self) -> dict[str, Any]:
        """Return the ``coreDumpConfig`` property of a production variant."""
        return drop_none(
            destinationS3Uri=f"s3://{self.bucket.bucket_name}/{self.prefix}", kmsKeyId=_arn_of(self.encryption_key)
        )

    def statements(self) -> Iterator[Statement]:
        """Yield the execution role's permissions (API reference, ProductionVariantCoreDumpConfig.KmsKeyId)."""
        yield Statement(
            "WriteCoreDumps",
            ("s3:AbortMultipartUpload", "s3:PutObject"),
            (f"{self.bucket.bucket_arn}/{self.prefix}/*",),
            wildcard="SageMaker names core dumps when a container crashes",
        )
        if arns := _arns(self.encryption_key, self.bucket.encryption_key):
            yield Statement("EncryptCoreDumps", ("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"), arns)


class VariantOptions(Settings):
    """The endpoint's production variant, in the terms of SageMaker's ``ProductionVariant``.

    Attributes:
        name: the variant's name. Default: ``AllTraffic``.
        initial_instance_count: the initial number of instances. Default: 1; with inference components, as many as their
            copies need.
        min_instance_count: the minimum number of instances that SageMaker keeps for inference components. Default: what
            the minimum number of copies needs.
        max_instance_count: the maximum number of instances for inference components. Default: what their copies need,
            plus one for updates.
        inference_ami_version: the instances' machine image. Default: SageMaker's choice.
        capacity_reservation: a reservation that the instances are launched into. Default: none.
        container_startup_timeout: how long loading the model may take, 1 minute to 1 hour. Default: the timeout in the
            model's JumpStart document; for other models 1 hour, and 45 minutes for an inference component.
        model_data_download_timeout: how long downloading the model may take, 1 minute to 1 hour. Default: the same as
            for ``container_startup_timeout``.
        instance_provision_timeout: how long SageMaker tries to provision an instance, 5 minutes to 1 hour. Default:
            SageMaker's default.
        volume_size: the size of each instance's volume, for types without NVMe disks. Default: SageMaker's default.
        routing: how requests are routed to instances. Default: to the instance with the fewest outstanding requests.
        scale_in: how SageMaker removes instances that inference components no longer need. Default: SageMaker's
            default.
        ssm_access: whether AWS Systems Manager sessions can be opened in the containers, which are then not isolated
            from the network. For tests only; AWS Support must enable it for the account. Default: no.
        core_dumps: where the core dump of a crashed container is stored. Default: nowhere.
        accelerator_partitions: the Multi-Instance GPU partitions of each GPU, for inference components that need less
            than a GPU, for instance ``["mig-3g.40gb", "mig-3g.40gb"]``. SageMaker cannot change an endpoint's
            partitions, so changing this list replaces the endpoint. Default: no partitions.
        existing_configuration: the name of the configuration that an imported endpoint keeps (``constructs-optim
            adopt``). While it is set, deleting the stack retains the endpoint. When you remove it, the endpoint is
            updated to the configuration that this construct declares, according to its update policy. Default: the
            declared configuration.
    """

    name: str = "AllTraffic"
    initial_instance_count: int | None = None
    min_instance_count: int | None = None
    max_instance_count: int | None = None
    inference_ami_version: str | None = None
    capacity_reservation: CapacityReservation | None = None
    container_startup_timeout: Time | None = None
    model_data_download_timeout: Time | None = None
    instance_provision_timeout: Time | None = None
    volume_size: Annotated[Size, SIZE] | None = None
    routing: Routing | None = None
    scale_in: ScaleIn | None = None
    ssm_access: bool = False
    core_dumps: CoreDumps | None = None
    accelerator_partitions: Sequence[str] = ()
    existing_configuration: str | None = None

    @property
    def partition_digest(self) -> str:
        """The suffix of endpoint and component names, which replaces them when the partitions change."""
        return f"-{sha256(canonical(list(self.accelerator_partitions)))[:6]}" if self.accelerator_partitions else ""

    def statements(self) -> Iterator[Statement]:
        """Yield the execution role's permissions for sessions and core dumps."""
        if self.ssm_access:
            yield from statements_of("open sessions")
        if self.core_dumps is not None:
            yield from self.core_dumps.statements()


class ComponentOptions(Settings):
    """Resources of an inference component's copies besides accelerators, and their placement.

    Attributes:
        cpu_cores: vCPUs that a copy reserves, 0.25 or more. Default: none.
        max_memory: the maximum host memory of a copy. Default: SageMaker's limit.
        caching: whether instances cache the model's files and the container image, so that more copies start faster.
            Default: SageMaker's default, which is yes for instance types with more than 232 GiB of NVMe disks.
        placement: the instances that copies are placed on. Default: SageMaker's default.
        accelerator_partition: the partition type that a copy occupies, one of the endpoint's
            ``accelerator_partitions``. Default: the endpoint's only type; without partitions, a copy uses whole GPUs.
    """

    rule = "OPT127"
    rule_link = f"{API}InferenceComponentSpecification.html"

    cpu_cores: float | None = Field(default=None, ge=0.25, allow_inf_nan=False)
    max_memory: Annotated[Size, MEMORY] | None = None
    caching: bool | None = None
    placement: Placement | None = None
    accelerator_partition: str | None = None

    def partition_of(self, variant: VariantOptions) -> str | None:
        """Return the partition type of a copy: the requested one, or the variant's only one."""
        kinds = set(variant.accelerator_partitions)
        return self.accelerator_partition or (next(iter(kinds)) if len(kinds) == 1 else None)

    def to_property(self) -> dict[str, Any]:
        """Return the options as part of a component's specification, without the resources of a copy."""
        placement = self.placement
        return drop_none(
            dataCacheConfig={"enableCaching": self.caching} if self.caching is not None else None,
            # CloudFormation's schema requires both members (InferenceComponentSchedulingConfig), the API only one.
            schedulingConfig={
                "availabilityZoneBalance": {
                    "enforcementMode": "PERMISSIVE",
                    "maxImbalance": placement.max_zone_imbalance,
                },
                "placementStrategy": placement.strategy,
            }
            if placement is not None
            else None,
        )


class MonitoringOptions(Settings):
    """The alarms and metrics of an endpoint, and the instance price for its dashboard.

    Attributes:
        alarms: the alarms and their settings. Those on errors, latency and lost capacity roll the endpoint's updates
            back. Default: all alarms except the one on latency, which needs a threshold.
        alarm_actions: at most 5 actions of alarms that go into ALARM. Default: none.
        ok_actions: at most 5 actions of alarms that return to OK. Default: none.
        observability: additional metrics. Default: none.
        instance_price_per_hour: the price of one instance in US dollars an hour, for the dashboard's costs. Default: no
            live costs, only the prices that evaluations published.
        discount: the discount of a savings plan on that price, as a share. Default: 0.
        speculation_cure: the action when the acceptance of draft tokens decays; enables the alarm on it. Default: none.
        runbook: the page that alarms link to, with a section for each alarm. Default: this library's
            https://constructs-optim.dev/alarms/.
    """

    alarms: Annotated[Alarms, ALARMS] | None = None
    alarm_actions: Sequence[Action] = ()
    ok_actions: Sequence[Action] = ()
    observability: Observability | None = None
    instance_price_per_hour: float | None = Field(default=None, gt=0)
    discount: float = Field(default=0, ge=0, lt=1)
    speculation_cure: SpeculationCure | None = None
    runbook: str = RUNBOOK

    @property
    def chosen_alarms(self) -> Alarms:
        """The alarms, including the one that triggers the cure."""
        alarms = self.alarms or Alarms()
        if self.speculation_cure is None or "acceptance_decay" in alarms.model_fields_set:
            return alarms
        return alarms.model_copy(update={"acceptance_decay": True})


class DataCapture(Settings):
    """Capture of requests and responses to S3, for monitoring and evaluation.

    Attributes:
        bucket: the bucket for the captures. They contain prompts and completions: encrypt the bucket, and restrict its
            readers.
        prefix: the prefix of the captures' object keys. Default: ``captures``.
        sampling_percentage: the percentage of requests to capture, 0 to 100. Default: 100.
        requests: whether requests are captured. Default: they are.
        responses: whether responses are captured. Default: they are.
        encryption_key: the KMS key of the captured files. Default: the bucket's own encryption.
        json_content_types: content types that are stored as text; others are stored in base64. Default:
            ``application/json`` and ``application/jsonlines``.

    Raises:
        RecipeError: if neither requests nor responses are captured.
    """

    bucket: Bucket
    prefix: Prefix = "captures"
    sampling_percentage: int = 100
    requests: bool = True
    responses: bool = True
    encryption_key: Key | None = None
    json_content_types: Annotated[Sequence[ContentType], Field(min_length=1, max_length=10)] = _JSON_TYPES

    @model_validator(mode="after")
    def _captures_something(self) -> DataCapture:
        if not (self.requests or self.responses):
            raise ValueError("requests=False and responses=False captures nothing: leave data_capture out")
        return self

    def captured(self, endpoint_name: str, *, variant_name: str = "AllTraffic") -> CapturedTraffic:
        """Return an endpoint's traffic captured with these settings, as training data for EAGLE heads.

        Use it for an endpoint that trains on its own captures; for all others, use ``endpoint.captured``.

        Args:
            endpoint_name: the endpoint's name.
            variant_name: the production variant's name. Default: ``AllTraffic``.
        """
        key = self.encryption_key
        return CapturedTraffic(
            uri=f"s3://{self.bucket.bucket_name}/{self.prefix}/{endpoint_name}/{variant_name}",
            requests=self.requests,
            responses=self.responses,
            encryption_key_arn=key.key_arn if key is not None else None,
        )

    @property
    def key_arns(self) -> tuple[str, ...]:
        """The KMS keys of the captured files."""
        return _arns(self.encryption_key, self.bucket.encryption_key)

    def to_property(self) -> dict[str, Any]:
        """Return the ``dataCaptureConfig`` property of an endpoint configuration."""
        modes = [mode for mode, captured in (("Input", self.requests), ("Output", self.responses)) if captured]
        return drop_none(
            captureContentTypeHeader={"jsonContentTypes": list(self.json_content_types)},
            captureOptions=[{"captureMode": mode} for mode in modes],
            destinationS3Uri=f"s3://{self.bucket.bucket_name}/{self.prefix}",
            enableCapture=True,
            initialSamplingPercentage=self.sampling_percentage,
            kmsKeyId=_arn_of(self.encryption_key),
        )

    def statements(self) -> Iterator[Statement]:
        """Yield the execution role's permissions for data capture."""
        yield Statement(
            "WriteCaptures",
            ("s3:PutObject",),
            (f"{self.bucket.bucket_arn}/{self.prefix}/*",),
            wildcard="SageMaker names captured files after endpoint, variant and time",
        )
        if arns := self.key_arns:
            yield Statement("EncryptCaptures", ("kms:GenerateDataKey",), arns)


class AsyncInference(Settings):
    """A request queue with responses in S3. Clients invoke the endpoint with ``InvokeEndpointAsync``.

    Attributes:
        bucket: the bucket for responses.
        prefix: the prefix of the responses' object keys; failures go to ``<prefix>-failures``. Default: ``async``.
        input_bucket: the bucket of the requests. Default: ``bucket``.
        max_concurrent_invocations_per_instance: the number of requests that an instance receives at once, 1 to 1,000.
            Default: SageMaker's choice.
        success_topic: an SNS topic for a notification of each response. Default: none.
        error_topic: an SNS topic for a notification of each failure. Default: none.
        include_responses_in: the topics whose messages include the response, ``SUCCESS_NOTIFICATION_TOPIC`` and
            ``ERROR_NOTIFICATION_TOPIC``. Default: none.
        encryption_key: the KMS key of the responses. Default: the bucket's own encryption.
    """

    bucket: Bucket
    prefix: Prefix = "async"
    input_bucket: Bucket | None = None
    max_concurrent_invocations_per_instance: int | None = None
    success_topic: Topic | None = None
    error_topic: Topic | None = None
    include_responses_in: Sequence[Literal["SUCCESS_NOTIFICATION_TOPIC", "ERROR_NOTIFICATION_TOPIC"]] = ()
    encryption_key: Key | None = None

    @property
    def unsent_responses(self) -> list[str]:
        """The topics of ``include_responses_in`` that are not set."""
        topics = {"SUCCESS_NOTIFICATION_TOPIC": self.success_topic, "ERROR_NOTIFICATION_TOPIC": self.error_topic}
        return [name for name in self.include_responses_in if topics[name] is None]

    def to_property(self) -> dict[str, Any]:
        """Return the ``asyncInferenceConfig`` property of an endpoint configuration."""
        most = self.max_concurrent_invocations_per_instance
        topics = drop_none(
            errorTopic=self.error_topic.topic_arn if self.error_topic is not None else None,
            includeInferenceResponseIn=list(self.include_responses_in) or None,
            successTopic=self.success_topic.topic_arn if self.success_topic is not None else None,
        )
        path = f"s3://{self.bucket.bucket_name}/{self.prefix}"
        return drop_none(
            clientConfig={"maxConcurrentInvocationsPerInstance": most} if most is not None else None,
            outputConfig=drop_none(
                kmsKeyId=_arn_of(self.encryption_key),
                notificationConfig=topics or None,
                s3FailurePath=f"{path}-failures",
                s3OutputPath=path,
            ),
        )

    def statements(self) -> Iterator[Statement]:
        """Yield the execution role's permissions (developer guide, "Asynchronous inference", prerequisites)."""
        source = self.input_bucket or self.bucket
        written = tuple(f"{self.prefix}{suffix}/*" for suffix in ("", "-failures"))
        yield Statement(
            "WriteAnswers",
            ("s3:AbortMultipartUpload", "s3:PutObject"),
            tuple(f"{self.bucket.bucket_arn}/{keys}" for keys in written),
            wildcard="SageMaker names responses after their requests",
        )
        if self.input_bucket is not None:
            yield Statement("ListAnswers", ("s3:ListBucket",), (self.bucket.bucket_arn,), prefixes=written)
        yield Statement("ListRequests", ("s3:ListBucket",), (source.bucket_arn,))
        yield Statement(
            "ReadRequests",
            ("s3:GetObject",),
            (f"{source.bucket_arn}/*",),
            wildcard="the callers of the endpoint name the requests' objects",
        )
        bucket_keys = [bucket.encryption_key for bucket in (self.bucket, self.input_bucket) if bucket is not None]
        if arns := _arns(self.encryption_key, *bucket_keys):
            yield Statement("EncryptAnswers", ("kms:Decrypt", "kms:GenerateDataKey"), arns)
        if topics := tuple(topic.topic_arn for topic in (self.success_topic, self.error_topic) if topic is not None):
            yield Statement("NotifyOfAnswers", ("sns:Publish",), topics)


def _without_slashes(prefix: str) -> str:
    if prefix.startswith("s3://"):
        meant = prefix.removeprefix("s3://").partition("/")[2].strip("/") or "captures"
        raise ValueError(f"this is a URI, and the prefix follows the bucket's name: use {meant!r}")
    if not prefix.strip("/"):
        raise ValueError("the prefix is empty, and permissions need a prefix: use one such as 'captures'")
    return prefix.strip("/")


def _content_type(text: str) -> str:
    if not matches(_CONTENT_TYPE, text):
        raise ValueError(
            f"this is not a content type such as application/json: use {f'application/{text}'!r}"
            if re.fullmatch(r"[a-z0-9]+", text)
            else "this is not a content type: use one such as 'application/json'"
        )
    return text


def _arn_of(key: kms.IKey | None) -> str | None:
    return key.key_arn if key is not None else None


def _arns(*keys: kms.IKey | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key.key_arn for key in keys if key is not None))


def declare_alarms(
    scope: Construct,
    options: MonitoringOptions,
    served: ServedModel,
    models: Sequence[HostedModel],
    *,
    label: str,
    accelerators: int | None = None,
    cure: str | None = None,
) -> EndpointAlarms:
    """Declare the alarms of a variant or component; with several models, the smallest request capacity counts.

    The names in ``served`` are known before its resources exist. ``accelerators`` is the number for each copy. ``cure``
    is the cure that the description of the alarm on decaying drafts names.
    """
    alarms = EndpointAlarms(
        scope,
        "Alarms",
        served=served,
        endpoint=label,
        capacity=min(scaling_defaults(model.plan, accelerators=accelerators).capacity for model in models),
        alarms=options.chosen_alarms if cure is not None else options.alarms,
        cure=cure,
        runbook=options.runbook,
        runs_jobs=any(model.artifact.job_role is not None for model in models),
        alarm_actions=options.alarm_actions,
        ok_actions=options.ok_actions,
        name_prefix=served.inference_component_name or served.endpoint_name,
    )
    for model in models:
        # The ARNs consist of known names, because the role is created before the model, and the alarms after it.
        model.artifact.execution_role.permit(watch_statements(alarms.rollback_alarm_arns))
    return alarms
