"""``Custom::ServedConfiguration``: verify that an endpoint serves its stack's configuration, then resume its scaling.

SageMaker rolls an update back if an alarm goes into ALARM or instances do not start, and does not report it once the
endpoint is in service again: https://github.com/hashicorp/terraform-provider-aws/issues/48997. Also, if a configuration
is deleted and created again under the same name, the endpoint keeps serving the old content:
https://github.com/hashicorp/terraform-provider-aws/pull/48993.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..aws import client
from ..custom_resource import Event, custom_resource
from ..errors import DENIED, DeploymentError, code_of, message_of
from ..hosting.serving import ServingEndpoint, is_rolling_back, serving_endpoint
from ..requests.hosting_properties import ServedProperties
from ..requests.properties import validate
from ..telemetry import log
from ..variant_scaling import make_way

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.literals import AlarmTypeType

_ALARM_TYPES: tuple[AlarmTypeType, ...] = ("MetricAlarm", "CompositeAlarm")


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    props = validate(ServedProperties, event["ResourceProperties"])
    physical_id = event.get("PhysicalResourceId") or event["LogicalResourceId"]
    # Unless this deployment moves the endpoint, the end of a shadow run or a restart may have moved it.
    is_moved = event.get("OldResourceProperties", {}).get("EndpointConfigName") != props.endpoint_config_name
    # A rollback may update the endpoint after this resource, and must continue whatever the endpoint serves.
    if is_moved and not is_rolling_back(event["StackId"]):
        if (problem := _problem(props)) is not None:
            raise DeploymentError(problem)
        log("serves", config_name=props.endpoint_config_name)
    return physical_id, make_way(event) if props.variant_name is not None else {}


def _problem(props: ServedProperties) -> str | None:
    endpoint = serving_endpoint(props.endpoint_name)
    if endpoint is None:
        return f"the endpoint {props.endpoint_name} was deleted outside the stack. Next: delete the stack, deploy again"
    if endpoint.config_name != props.endpoint_config_name:
        return (
            f"SageMaker rolled back the update of the endpoint {props.endpoint_name}, which serves "
            f"{endpoint.config_name} instead of {props.endpoint_config_name}: {_cause(endpoint, props)}"
        )
    if endpoint.config_created > endpoint.described["LastModifiedTime"]:
        return (
            f"the configuration {endpoint.config_name} was created at {_time(endpoint.config_created)}, after the "
            f"endpoint {props.endpoint_name} last changed ({_time(endpoint.described['LastModifiedTime'])}): it was "
            "deleted and created again under the same name, but the endpoint still serves the old content. Next: "
            "change the endpoint's recipe or its variant, so that it moves to a configuration with another name"
        )
    return None


def _cause(endpoint: ServingEndpoint, props: ServedProperties) -> str:
    """Return why an update was rolled back: alarms in ALARM since its configuration was created, or its reason."""
    created = client("sagemaker").describe_endpoint_config(EndpointConfigName=props.endpoint_config_name)[
        "CreationTime"
    ]
    if alarms := ", ".join(_tripped(endpoint, created)):
        return f"{alarms} went into ALARM. Next: see the alarm's description, then deploy again"
    reason = endpoint.described.get("FailureReason")
    said = (
        f"SageMaker's reason: {reason}" if reason else "it gives no reason, and no alarm of the update went into ALARM"
    )
    return f"{said}. Next: see the log group of the endpoint's containers, then deploy again"


def _tripped(endpoint: ServingEndpoint, since: dt.datetime) -> list[str]:
    """Return the alarms of the endpoint's last update that were in ALARM after ``since``."""
    rollback = endpoint.described.get("LastDeploymentConfig", {}).get("AutoRollbackConfiguration", {})
    names = [alarm["AlarmName"] for alarm in rollback.get("Alarms", []) if "AlarmName" in alarm]
    if not names:
        return []
    tripped: list[str] = []
    for alarm_type in _ALARM_TYPES:
        try:
            states = {alarm.get("AlarmName"): alarm.get("StateValue") for alarm in _described(alarm_type, names)}
            tripped += [n for n in names if states.get(n) == "ALARM" or _was_in_alarm(alarm_type, n, since)]
            names = [name for name in names if name not in states]
        except ClientError as error:
            if code_of(error) not in DENIED:
                raise
            # Only a permission for all alarms includes composite alarms.
            log("alarms not seen", alarms=", ".join(names), reason=message_of(error))
        if not names:
            break
    return tripped


def _described(alarm_type: AlarmTypeType, names: Sequence[str]) -> list[Mapping[str, Any]]:
    found = client("cloudwatch").describe_alarms(AlarmNames=names, AlarmTypes=[alarm_type])
    return [*found.get("MetricAlarms", []), *found.get("CompositeAlarms", [])]


def _was_in_alarm(alarm_type: AlarmTypeType, name: str, since: dt.datetime) -> bool:
    history = client("cloudwatch").get_paginator("describe_alarm_history")
    pages = history.paginate(AlarmName=name, AlarmTypes=[alarm_type], HistoryItemType="StateUpdate", StartDate=since)
    return any("to ALARM" in item.get("HistorySummary", "") for page in pages for item in page["AlarmHistoryItems"])


def _time(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def _delete(event: Event) -> None:
    """Nothing to delete."""


handler = custom_resource(ensure=_ensure, delete=_delete)
