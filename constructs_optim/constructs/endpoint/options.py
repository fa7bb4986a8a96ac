"""The groups of an endpoint's settings: its production variant, its monitoring, data capture and queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from aws_cdk import Duration, Size
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct
from pydantic import AfterValidator, Field, model_validator

from constructs_optim.constructs.artifacts.hosted_model import HostedModel
from constructs_optim.constructs.monitoring.endpoint_alarms import RUNBOOK, AlarmAction, EndpointAlarms
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
from constructs_optim.recipe.tokens import is_token

from .update_policy import watch_statements

Action = Annotated[AlarmAction, ALARM_ACTION]
Bucket = Annotated[s3.IBucket, BUCKET]
Key = Annotated[kms.IKey, KEY]
Prefix = Annotated[str, AfterValidator(lambda prefix: _without_slashes(prefix))]
Time = Annotated[Duration, DURATION]
Topic = Annotated[sns.ITopic, TOPIC]
# Of ProductionVariantCoreDumpConfig.DestinationS3Uri; a name of a bucket has 3 characters or more.
_LONGEST_DUMP_URI, _SHORTEST_BUCKET = 512, 3
_JSON_TYPES = ("application/json", "application/jsonlines")


class CoreDumps(Settings):
    """Core dumps of the model's container in S3, written when its process crashes.

    Attributes:
        bucket: the bucket that they are written to. A dump has the memory of the process, and so prompts and
            completions: keep it encrypted, and its readers few.
        prefix: the prefix of their keys. Default: ``core-dumps``.
        encryption_key: the KMS key of the dumps. Default: the account's own key of Amazon S3.
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
                f"the URI has {length} characters, and SageMaker takes {_LONGEST_DUMP_URI}: a shorter prefix"
            )
        return self

    def to_property(self) -> dict[str, Any]:
        """The ``coreDumpConfig`` property of a production variant."""
        return drop_none(
            destinationS3Uri=f"s3://{self.bucket.bucket_name}/{self.prefix}", kmsKeyId=_arn_of(self.encryption_key)
        )

    def statements(self) -> Iterator[Statement]:
        """The permissions of the execution role for it (API reference, ProductionVariantCoreDumpConfig.KmsKeyId)."""
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
        name: name of the variant. Default: ``AllTraffic``.
        initial_instance_count: instances to start with. Default: 1, and with inference components as many as their
            copies take.
        min_instance_count: the fewest instances that SageMaker keeps for inference components. Default: what the fewest
            copies take.
        max_instance_count: the most that it launches for them. Default: what their copies take, and one more for
            updates.
        inference_ami_version: the instances' machine image. Default: the service's choice.
        capacity_reservation: a reservation that the instances are launched into. Default: none.
        container_startup_timeout: how long loading the model may take, 1 minute to 1 hour. Default: what the model's
            JumpStart document says; for other models 1 hour, and 45 minutes for an inference component.
        model_data_download_timeout: how long downloading the model may take, 1 minute to 1 hour. Default: as for
            ``container_startup_timeout``.
        instance_provision_timeout: how long SageMaker tries to provision an instance, 5 minutes to 1 hour. Default: the
            service's own.
        volume_size: size of each instance's volume, for types without NVMe disks. Default: the service's own.
        routing: how requests are spread. Default: to where the fewest requests wait.
        scale_in: how instances are released that inference components no longer take. Default: the service's own.
        ssm_access: whether a session of AWS Systems Manager may be opened in the containers, which are not isolated
            from the network then; for tests, after AWS Support has enabled it for the account. Default: no.
        core_dumps: where the core dump of a container that crashes is kept. Default: nowhere.
        accelerator_partitions: the partitions (Multi-Instance GPU) that each GPU is divided into, for inference
            components that take less than a GPU, for instance ``["mig-3g.40gb", "mig-3g.40gb"]``. SageMaker cannot
            change the partitions of an endpoint: another list makes another endpoint. Default: GPUs are whole.
        existing_configuration: the name of the configuration that an endpoint which was imported keeps
            (``constructs-optim adopt``); the endpoint is retained when its stack is deleted then. Its own configuration
            is declared beside it, and the endpoint moves over to that, as its update policy says, when this setting is
            removed. Default: its own configuration.
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
        """What names of endpoint and components end in: they are others wherever the partitions are."""
        return f"-{sha256(canonical(list(self.accelerator_partitions)))[:6]}" if self.accelerator_partitions else ""

    def statements(self) -> Iterator[Statement]:
        """The permissions of the execution role for sessions and core dumps."""
        if self.ssm_access:
            yield from statements_of("open sessions")
        if self.core_dumps is not None:
            yield from self.core_dumps.statements()


class ComponentOptions(Settings):
    """What a copy of an inference component takes besides accelerators, and where its copies are placed.

    Attributes:
        cpu_cores: vCPUs that a copy reserves, 0.25 or more. Default: none.
        max_memory: the most host memory that a copy may use. Default: the service's own limit.
        caching: whether instances keep the model's files and the container's image, which starts further copies sooner.
            Default: the service's own, which is yes for instance types with more than 232 GiB of NVMe disks.
        placement: which instances copies are placed on. Default: the service's own.
        accelerator_partition: the type of partition that a copy occupies, of those that the endpoint's
            ``accelerator_partitions`` has. Default: the endpoint's only type; without partitions, a copy takes GPUs.
    """

    rule = "OPT127"
    rule_link = f"{API}InferenceComponentSpecification.html"

    cpu_cores: float | None = Field(default=None, ge=0.25, allow_inf_nan=False)
    max_memory: Annotated[Size, MEMORY] | None = None
    caching: bool | None = None
    placement: Placement | None = None
    accelerator_partition: str | None = None

    def partition_of(self, variant: VariantOptions) -> str | None:
        """The type of partition of a copy: the requested one, or the only one of the variant."""
        kinds = set(variant.accelerator_partitions)
        return self.accelerator_partition or (next(iter(kinds)) if len(kinds) == 1 else None)

    def to_property(self) -> dict[str, Any]:
        """Its part of an inference component's specification, except the resources of a copy."""
        placement = self.placement
        return drop_none(
            dataCacheConfig={"enableCaching": self.caching} if self.caching is not None else None,
            # CloudFormation's schema requires both members (InferenceComponentSchedulingConfig), the API one alone.
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
    """The alarms and metrics of an endpoint, and the price that its dashboard calculates costs with.

    Attributes:
        alarms: which alarms there are, and how they are tuned; the endpoint's own updates are rolled back by those on
            errors, latency and lost capacity. Default: all but the one on latency, which needs a threshold.
        alarm_actions: what alarms do when something is wrong, 5 at most. Default: they only show their state.
        ok_actions: what alarms do when all is right again, 5 at most. Default: nothing.
        observability: metrics beyond the usual ones. Default: none.
        instance_price_per_hour: what one instance costs in an hour, in US dollars, for the dashboard's costs. Default:
            no live costs, and the prices that an evaluation published.
        discount: what a savings plan takes off that price, as a share. Default: 0.
        speculation_cure: what is done when drafts are accepted less often than they were; the alarm on it is on then.
            Default: nothing.
        runbook: the page with a section on each alarm that alarms link to. Default: ``docs/alarms.md`` of this library.
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
        """The alarms, with the one that calls for the cure."""
        alarms = self.alarms or Alarms()
        if self.speculation_cure is None or "acceptance_decay" in alarms.model_fields_set:
            return alarms
        return alarms.model_copy(update={"acceptance_decay": True})


class DataCapture(Settings):
    """Requests and responses that are kept in S3, for monitoring and evaluation.

    Attributes:
        bucket: the bucket that they are written to. It holds prompts and completions: keep it encrypted, and its
            readers few.
        prefix: the prefix of their keys. Default: ``captures``.
        sampling_percentage: the share of requests, 0 to 100. Default: 100.
        requests: whether requests are captured. Default: they are.
        responses: whether responses are captured. Default: they are.
        encryption_key: the KMS key of the captured files. Default: the bucket's own encryption.
        json_content_types: content types that are kept as text; others are written in base64. Default:
            ``application/json`` and ``application/jsonlines``.

    Raises:
        RecipeError: when neither requests nor responses are captured.
    """

    bucket: Bucket
    prefix: Prefix = "captures"
    sampling_percentage: int = 100
    requests: bool = True
    responses: bool = True
    encryption_key: Key | None = None
    json_content_types: Annotated[Sequence[str], Field(min_length=1, max_length=10)] = _JSON_TYPES

    @model_validator(mode="after")
    def _captures_something(self) -> DataCapture:
        if not (self.requests or self.responses):
            raise ValueError("requests=False and responses=False captures nothing: leave data_capture out")
        return self

    def captured(self, endpoint_name: str, *, variant_name: str = "AllTraffic") -> CapturedTraffic:
        """What an endpoint with this data capture has captured, as training data of EAGLE heads.

        An endpoint that trains on its own captures names itself here; ``endpoint.captured`` is for all others.

        Args:
            endpoint_name: the endpoint's name.
            variant_name: its production variant. Default: ``AllTraffic``.
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
        """The ``dataCaptureConfig`` property of an endpoint configuration."""
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
        """The permissions of the execution role for it."""
        yield Statement(
            "WriteCaptures",
            ("s3:PutObject",),
            (f"{self.bucket.bucket_arn}/{self.prefix}/*",),
            wildcard="SageMaker names captured files after endpoint, variant and time",
        )
        if arns := self.key_arns:
            yield Statement("EncryptCaptures", ("kms:GenerateDataKey",), arns)


class AsyncInference(Settings):
    """A queue of requests, with responses in S3. Such an endpoint is invoked with ``InvokeEndpointAsync``.

    Attributes:
        bucket: the bucket that responses are written to.
        prefix: the prefix of their keys; failures go to ``<prefix>-failures``. Default: ``async``.
        input_bucket: the bucket that requests are read from. Default: ``bucket``.
        max_concurrent_invocations_per_instance: requests that an instance is sent at once, 1 to 1,000. Default: the
            service's choice.
        success_topic: an SNS topic that is notified of each response. Default: none.
        error_topic: an SNS topic that is notified of each failure. Default: none.
        include_responses_in: the topics whose messages carry the response itself, ``SUCCESS_NOTIFICATION_TOPIC`` and
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

    def to_property(self) -> dict[str, Any]:
        """The ``asyncInferenceConfig`` property of an endpoint configuration."""
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
        """The permissions of the execution role (developer guide, "Asynchronous inference", prerequisites)."""
        source = self.input_bucket or self.bucket
        written = tuple(f"{self.prefix}{suffix}/*" for suffix in ("", "-failures"))
        yield Statement(
            "WriteAnswers",
            ("s3:AbortMultipartUpload", "s3:PutObject"),
            tuple(f"{self.bucket.bucket_arn}/{keys}" for keys in written),
            wildcard="SageMaker names answers after their requests",
        )
        if self.input_bucket is not None:
            yield Statement("ListAnswers", ("s3:ListBucket",), (self.bucket.bucket_arn,), prefixes=written)
        yield Statement("ListRequests", ("s3:ListBucket",), (source.bucket_arn,))
        yield Statement(
            "ReadRequests",
            ("s3:GetObject",),
            (f"{source.bucket_arn}/*",),
            wildcard="whoever invokes the endpoint names the request's object",
        )
        bucket_keys = [bucket.encryption_key for bucket in (self.bucket, self.input_bucket) if bucket is not None]
        if arns := _arns(self.encryption_key, *bucket_keys):
            yield Statement("EncryptAnswers", ("kms:Decrypt", "kms:GenerateDataKey"), arns)
        if topics := tuple(topic.topic_arn for topic in (self.success_topic, self.error_topic) if topic is not None):
            yield Statement("NotifyOfAnswers", ("sns:Publish",), topics)


def _without_slashes(prefix: str) -> str:
    if not prefix.strip("/"):
        raise ValueError("files are written below a prefix, which permissions name: a prefix such as 'captures'")
    return prefix.strip("/")


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
    is_asynchronous: bool = False,
    cure: str | None = None,
) -> EndpointAlarms:
    """The alarms of a variant or component; of several models, the one that is sized for the fewest requests decides.

    ``served`` has names that are known before its resources exist. ``accelerators`` are those of a copy, and ``cure``
    is what the alarm on decaying drafts says of their cure.
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
        is_asynchronous=is_asynchronous,
        runs_jobs=any(model.artifact.job_role is not None for model in models),
        alarm_actions=options.alarm_actions,
        ok_actions=options.ok_actions,
        name_prefix=served.inference_component_name or served.endpoint_name,
    )
    for model in models:
        # By names that are known: the role is there before the model, and the alarms come after it.
        model.artifact.execution_role.permit(watch_statements(alarms.rollback_alarm_arns))
    return alarms
