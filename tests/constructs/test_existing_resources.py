"""Existing resources that an endpoint refers to by ARN, in a stack whose account and Region are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match
from aws_cdk.aws_cloudwatch_actions import SnsAction

from constructs_optim import (
    AsyncInference,
    CapacityReservation,
    CoreDumps,
    DataCapture,
    EndpointMonitoring,
    JobOptions,
    MonitoringOptions,
    OptimizationJob,
    Quantization,
    RecipeError,
    UpdatePolicy,
    VariantOptions,
)

from ..support.construct_stacks import endpoint, llama, stack
from ..support.sampling import one_in

_KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
_TOPIC = "arn:aws:sns:eu-west-1:111122223333:pages"
_ALARM = "arn:aws:cloudwatch:eu-west-1:111122223333:alarm:errors"
_PLAN = "arn:aws:sagemaker:eu-west-1:111122223333:training-plan/llama"


def _topic(scope: Stack) -> sns.ITopic:
    return sns.Topic.from_topic_arn(scope, "Topic", _TOPIC)


def _role(scope: Stack) -> iam.IRole:
    return iam.Role.from_role_arn(scope, "Role", "arn:aws:iam::444455556666:role/chat")


def _bucket(scope: Stack) -> s3.IBucket:
    return s3.Bucket.from_bucket_name(scope, "Bucket", "captures-of-chat")


def _key(scope: Stack) -> kms.IKey:
    return kms.Key.from_key_arn(scope, "Key", _KEY)


REFUSED: dict[str, Callable[[Stack], dict[str, Any]]] = {
    "monitoring.alarm_actions": lambda scope: {
        "monitoring": MonitoringOptions(alarm_actions=[SnsAction(_topic(scope))])
    },
    "update_policy.rollback_alarms[0]": lambda scope: {
        "update_policy": UpdatePolicy.all_at_once(
            rollback_alarms=[cloudwatch.Alarm.from_alarm_arn(scope, "Alarm", _ALARM)]
        )
    },
    "variant.capacity_reservation.arn": lambda scope: {
        "variant": VariantOptions(capacity_reservation=CapacityReservation(arn=_PLAN))
    },
    "role": lambda scope: {"role": _role(scope)},
    "jobs.role": lambda scope: {"jobs": JobOptions(role=_role(scope))},
    "jobs.capacity_reservation.arn": lambda scope: {
        "jobs": JobOptions(capacity_reservation=CapacityReservation(arn=_PLAN))
    },
}
ADVISED: dict[str, Callable[[Stack], dict[str, Any]]] = {
    "data_capture.encryption_key": lambda scope: {
        "data_capture": DataCapture(bucket=_bucket(scope), encryption_key=_key(scope))
    },
    "async_inference.success_topic": lambda scope: {
        "async_inference": AsyncInference(bucket=_bucket(scope), success_topic=_topic(scope))
    },
    "async_inference.error_topic": lambda scope: {
        "async_inference": AsyncInference(bucket=_bucket(scope), error_topic=_topic(scope))
    },
    "async_inference.encryption_key": lambda scope: {
        "async_inference": AsyncInference(bucket=_bucket(scope), encryption_key=_key(scope))
    },
    "variant.core_dumps.encryption_key": lambda scope: {
        "variant": VariantOptions(core_dumps=CoreDumps(bucket=_bucket(scope), encryption_key=_key(scope)))
    },
}


@pytest.mark.parametrize("location", REFUSED)
def test_a_resource_that_aws_refuses_from_elsewhere_is_refused(location: str) -> None:
    scope = stack()
    with pytest.raises(RecipeError, match="OPT280") as refused:
        endpoint(scope, **REFUSED[location](scope))
    assert location in {each.location for each in refused.value.violations}


def test_a_reservation_of_a_variant_has_an_arn() -> None:
    with pytest.raises(RecipeError) as refused:
        endpoint(stack(), variant=VariantOptions(capacity_reservation=CapacityReservation(arn="llama")))
    assert [(each.rule, each.location) for each in refused.value.violations] == [
        ("OPT109", "variant.capacity_reservation.arn")
    ]


def test_a_key_of_volumes_in_another_region_is_refused() -> None:
    scope = stack()
    with pytest.raises(RecipeError) as refused:
        endpoint(scope, encryption_key=_key(scope))
    # The type's disks have no such key either (OPT107).
    assert ("OPT280", "encryption_key") in {(each.rule, each.location) for each in refused.value.violations}


@pytest.mark.parametrize("location", one_in(3, [*REFUSED, *ADVISED]))
def test_nothing_is_said_about_a_stack_whose_account_and_region_are_not_known(location: str) -> None:
    scope = stack(env=None)
    endpoint(scope, **{**REFUSED, **ADVISED}[location](scope))
    Annotations.from_stack(scope).has_no_warning("*", Match.string_like_regexp("OPT281"))


@pytest.mark.parametrize("location", ADVISED)
def test_a_key_or_topic_of_another_region_has_a_warning(location: str) -> None:
    scope = stack()
    endpoint(scope, **ADVISED[location](scope))
    Annotations.from_stack(scope).has_warning("*", Match.string_like_regexp(f"{location} = .*eu-west-1.*OPT281"))


def test_a_job_without_an_endpoint_refuses_a_role_of_another_account() -> None:
    scope = stack()
    with pytest.raises(RecipeError, match="OPT280"):
        OptimizationJob(
            scope,
            "Job",
            model=llama(),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            role=_role(scope),
        )


def test_monitoring_of_an_existing_endpoint_refuses_an_action_in_another_region() -> None:
    scope = stack()
    declared = sagemaker.CfnEndpoint(scope, "Chat", endpoint_config_name="chat")
    with pytest.raises(RecipeError, match="OPT280"):
        EndpointMonitoring.of(
            declared,
            variant_name="AllTraffic",
            instance_type="ml.g5.12xlarge",
            monitoring=MonitoringOptions(alarm_actions=[SnsAction(_topic(scope))]),
        )
