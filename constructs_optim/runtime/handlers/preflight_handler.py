"""``Custom::Preflight``: find problems that would fail a deployment hours later, before it starts anything.

It creates nothing, so a deletion does nothing, and it never fails a rollback. It refuses only what the deployment
starts: in an update, only new or changed resources. If it cannot tell what those are, it only advises.
"""

from __future__ import annotations

import os
import time
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError

from ..aws import any_client, client
from ..custom_resource import Event, account_and_region, custom_resource
from ..errors import DeploymentError, InvalidEvent
from ..preflight.checks import run
from ..preflight.context import Context
from ..preflight.report import Report
from ..requests.preflight_properties import PreflightProperties
from ..requests.properties import validate
from ..telemetry import log

STARTED = frozenset({"AWS::SageMaker::Endpoint", "Custom::OptimizationJob", "Custom::TrainingJob"})
"""The resource types that start jobs and launch instances."""
_PHYSICAL_ID = "preflight"
# The permissions of this function and of the roles that it checks were granted only seconds ago.
_PAUSES = (2, 4, 8, 16)


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    if event["RequestType"] == "Update" and _is_rolled_back(event):
        log("preflight skipped", reason="the stack is rolling back")
        return _PHYSICAL_ID, {}
    needs = validate(PreflightProperties, event["ResourceProperties"])
    before = _before(event)
    if isinstance(before, PreflightProperties):
        needs = needs.since(before)
    context = Context(any_client, account_and_region(event)[1], is_update=isinstance(before, PreflightProperties))
    report = run(needs, context)
    for pause in _PAUSES:
        if not report.is_early:
            break
        time.sleep(pause)
        report = run(needs, context)
    if before == "unknown":
        report = report.as_advice()
    _log(report)
    if report.problems:
        raise DeploymentError(report.reason(os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "")))
    return _PHYSICAL_ID, {}


def _before(event: Event) -> PreflightProperties | Literal["nothing", "unknown"]:
    """Return the stack's properties before this deployment."""
    if event["RequestType"] == "Create":
        return "unknown" if _runs_already(event) else "nothing"
    try:
        return validate(PreflightProperties, event.get("OldResourceProperties", {}))
    except InvalidEvent:
        # Another release wrote them.
        return "unknown"


def _runs_already(event: Event) -> bool:
    """Return whether a stack that adds its preflight already has jobs or endpoints; True if that is unknown.

    Jobs and endpoints that this deployment adds are not listed yet, because they wait for the preflight.
    """
    try:
        pages = client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=event["StackId"])
        resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
    except (ClientError, BotoCoreError) as error:
        log("preflight only advises", reason=str(error))
        return True
    return any(each["ResourceType"] in STARTED and each["ResourceStatus"] != "DELETE_COMPLETE" for each in resources)


def _is_rolled_back(event: Event) -> bool:
    """Return whether the stack is rolling back; True if that is unknown, because a rollback must not fail."""
    try:
        (stack,) = client("cloudformation").describe_stacks(StackName=event["StackId"])["Stacks"]
    except (ClientError, BotoCoreError) as error:
        log("preflight skipped", reason=str(error))
        return True
    return "ROLLBACK" in stack["StackStatus"]


def _log(report: Report) -> None:
    for finding in report.findings:
        log(f"preflight {finding.level}", check=finding.check, finding=finding.text, fix=finding.fix)
    log("preflight", asked=report.asked, problems=len(report.problems), advice=len(report.advice))


def _delete(event: Event) -> None:
    log("nothing to delete")


handler = custom_resource(ensure=_ensure, delete=_delete)
