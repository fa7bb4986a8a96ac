"""A value for every option of an endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    Adapters,
    Alarms,
    AsyncInference,
    CapacityReservation,
    CoreDumps,
    DataCapture,
    JobOptions,
    MonitoringOptions,
    NetworkOptions,
    Observability,
    Pool,
    Quantization,
    Routing,
    ScaleIn,
    Server,
    SpeculationCure,
    SpeculativeDecoding,
    UpdatePolicy,
    VariantOptions,
)

Props = dict[str, Any]


KEY = "arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d-1111-2222-3333-444455556666"


RESERVATION = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"


POOLS = [
    Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
    Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
]


def bucket(scope: Stack, id: str = "Bucket") -> s3.IBucket:
    return s3.Bucket.from_bucket_name(scope, id, "bucket-of-mine")


def alarm(scope: Stack) -> cloudwatch.IAlarm:
    arn = "arn:aws:cloudwatch:us-west-2:111122223333:alarm:checkout"
    return cloudwatch.Alarm.from_alarm_arn(scope, "Checkout", arn)


def vpc(scope: Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        scope,
        "Vpc",
        vpc_id="vpc-11111111",
        availability_zones=["us-west-2a", "us-west-2b"],
        private_subnet_ids=["subnet-11111111", "subnet-22222222"],
    )


# What is given when a prop is switched on. A prop that this table lacks is found by a test below.
ON: dict[str, Callable[[Stack], Props]] = {
    "server": lambda _: {"server": Server.vllm(adapters=Adapters())},
    "monitoring.alarm_actions": lambda _: {"monitoring.alarm_actions": ()},
    "monitoring.alarms": lambda _: {"monitoring.alarms": Alarms.none()},
    "async_inference": lambda scope: {"async_inference": AsyncInference(bucket=bucket(scope, "Answers"))},
    "variant.capacity_reservation": lambda _: {"variant.capacity_reservation": CapacityReservation(arn=RESERVATION)},
    "variant.container_startup_timeout": lambda _: {"variant.container_startup_timeout": Duration.minutes(20)},
    "data_capture": lambda scope: {"data_capture": DataCapture(bucket=bucket(scope), sampling_percentage=10)},
    "monitoring.runbook": lambda _: {"monitoring.runbook": "https://runbooks.example/chat"},
    "monitoring.discount": lambda _: {"monitoring.discount": 0.2},
    "encryption_key": lambda scope: {"encryption_key": kms.Key.from_key_arn(scope, "Key", KEY)},
    # Filled in for each case: no two endpoints of a stack have one name.
    "endpoint_name": lambda _: {"endpoint_name": "chat-llama-70b-{}"},
    "environment": lambda _: {"environment": {"SM_VLLM_MAX_MODEL_LEN": "8192"}},
    "variant.existing_configuration": lambda _: {
        "variant.existing_configuration": "chat-by-hand",
        "endpoint_name": "chat-llama-70b-{}",
    },
    "variant.inference_ami_version": lambda _: {
        "variant.inference_ami_version": "al2023-ami-sagemaker-inference-gpu-4-1"
    },
    "inference_component": lambda _: {"inference_component": True},
    "variant.initial_instance_count": lambda _: {"variant.initial_instance_count": 2},
    "instance_pools": lambda _: {"instance_pools": POOLS, "instance_type": None, "techniques": None},
    "monitoring.instance_price_per_hour": lambda _: {"monitoring.instance_price_per_hour": 7.09},
    "variant.instance_provision_timeout": lambda _: {"variant.instance_provision_timeout": Duration.minutes(30)},
    "jobs.role": lambda scope: {
        "jobs.role": iam.Role(scope, "JobRole", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    },
    "variant.max_instance_count": lambda _: {"variant.max_instance_count": 4},
    "jobs.max_runtime": lambda _: {"jobs.max_runtime": Duration.hours(2)},
    "jobs.max_pending": lambda _: {"jobs.max_pending": Duration.hours(6)},
    "jobs.capacity_reservation": lambda _: {"jobs.capacity_reservation": CapacityReservation(arn=RESERVATION)},
    "variant.min_instance_count": lambda _: {"variant.min_instance_count": 1},
    "variant.model_data_download_timeout": lambda _: {"variant.model_data_download_timeout": Duration.minutes(30)},
    "network.isolation": lambda _: {"network.isolation": False},
    "monitoring.observability": lambda _: {
        "monitoring.observability": Observability(frequency_seconds=10, enhanced=True, detailed=True)
    },
    "monitoring.speculation_cure": lambda _: {
        "monitoring.speculation_cure": SpeculationCure.restart(),
        "techniques": [Quantization.awq(), SpeculativeDecoding.ngram()],
    },
    "monitoring.ok_actions": lambda _: {"monitoring.ok_actions": ()},
    "removal_policy": lambda _: {"removal_policy": RemovalPolicy.RETAIN},
    "role": lambda scope: {"role": iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))},
    "variant.routing": lambda _: {"variant.routing": Routing.prefix_aware()},
    "jobs.timeout": lambda _: {"jobs.timeout": Duration.hours(2)},
    "update_policy": lambda scope: {
        "update_policy": UpdatePolicy.rolling(rollback_alarms=[alarm(scope)]),
        "variant.initial_instance_count": 2,
    },
    "variant.scale_in": lambda _: {"variant.scale_in": ScaleIn.consolidation()},
    "variant.ssm_access": lambda _: {"variant.ssm_access": True, "network.isolation": False},
    "variant.core_dumps": lambda scope: {"variant.core_dumps": CoreDumps(bucket=bucket(scope, "Dumps"))},
    "variant.name": lambda _: {"variant.name": "main"},
    "variant.volume_size": lambda _: {"variant.volume_size": Size.gibibytes(256)},
    "network.vpc": lambda scope: {"network.vpc": vpc(scope)},
}


GROUPS: dict[str, type[Any]] = {
    "variant": VariantOptions,
    "jobs": JobOptions,
    "monitoring": MonitoringOptions,
    "network": NetworkOptions,
}


def grouped(props: Props) -> Props:
    """Keyword arguments of an endpoint: ``variant.name`` is the ``name`` of its VariantOptions."""
    arguments: Props = {name: value for name, value in props.items() if "." not in name}
    for group, options in GROUPS.items():
        own = {name.partition(".")[2]: value for name, value in props.items() if name.startswith(f"{group}.")}
        if own:
            arguments[group] = options(**own)
    return arguments
