"""``Custom::Preflight``: look, before anything is started, at what would fail hours later.

It makes nothing: a deletion does nothing, and a rollback is never failed by it. It refuses only what its deployment
starts: of an update, what is new or changed. Where nobody can tell what that is, it advises.
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
"""The types of the resources that start jobs and launch instances."""
_PHYSICAL_ID = "preflight"
# Permissions of this function and of the roles that it asks about were granted seconds ago.
_PAUSES = (2, 4, 8, 16)
# Of an attribute, of a response of 4,000 bytes.
_ADVICE_CHARACTERS = 1000


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    if event["RequestType"] == "Update" and _is_rolled_back(event):
        log("preflight skipped", reason="the stack is rolled back")
        return _PHYSICAL_ID, {"Advice": "none: the stack was rolled back"}
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
    return _PHYSICAL_ID, {"Advice": _shortened(report)}


def _before(event: Event) -> PreflightProperties | Literal["nothing", "unknown"]:
    """What the stack had before this deployment."""
    if event["RequestType"] == "Create":
        return "unknown" if _runs_already(event) else "nothing"
    try:
        return validate(PreflightProperties, event.get("OldResourceProperties", {}))
    except InvalidEvent:
        # Of another release.
        return "unknown"


def _runs_already(event: Event) -> bool:
    """Whether a stack that gains its preflight has jobs or endpoints; also where CloudFormation does not say.

    What this deployment adds of them is not listed yet, for it waits for the preflight.
    """
    try:
        pages = client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=event["StackId"])
        resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
    except (ClientError, BotoCoreError) as error:
        log("preflight only advises", reason=str(error))
        return True
    return any(each["ResourceType"] in STARTED and each["ResourceStatus"] != "DELETE_COMPLETE" for each in resources)


def _is_rolled_back(event: Event) -> bool:
    """Whether the stack goes back to what it was; also where CloudFormation does not say, for that must not fail."""
    try:
        (stack,) = client("cloudformation").describe_stacks(StackName=event["StackId"])["Stacks"]
    except (ClientError, BotoCoreError) as error:
        log("preflight skipped", reason=str(error))
        return True
    return "ROLLBACK" in stack["StackStatus"]


def _shortened(report: Report) -> str:
    text = " ".join(f"({number}) {each}." for number, each in enumerate(report.advice, 1)) or "none"
    return text if len(text) <= _ADVICE_CHARACTERS else f"{text[: _ADVICE_CHARACTERS - 3]}..."


def _log(report: Report) -> None:
    for finding in report.findings:
        log(f"preflight {finding.level}", check=finding.check, finding=finding.text, fix=finding.fix)
    log("preflight", asked=report.asked, problems=len(report.problems), advice=len(report.advice))


def _delete(event: Event) -> None:
    log("nothing to delete")


handler = custom_resource(ensure=_ensure, delete=_delete)
