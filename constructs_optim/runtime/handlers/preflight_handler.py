"""``Custom::Preflight``: look, before anything is started, at what would fail hours later.

It makes nothing: a deletion does nothing, and a rollback is never failed by it. An update of it runs when its
properties change, which carry what starts a job or launches instances.
"""

from __future__ import annotations

import os
import time

from botocore.exceptions import BotoCoreError, ClientError

from ..aws import any_client, client
from ..custom_resource import Event, account_and_region, custom_resource
from ..errors import DeploymentError, InvalidEvent
from ..preflight.checks import run
from ..preflight.context import Context
from ..preflight.report import Report
from ..requests.preflight_properties import FleetNeed, PreflightProperties
from ..requests.properties import validate
from ..telemetry import log

_PHYSICAL_ID = "preflight"
# Permissions of this function and of the roles that it asks about were granted seconds ago.
_PAUSES = (2, 4, 8)
# Of an attribute, of a response of 4,000 bytes.
_ADVICE_CHARACTERS = 2000


def _ensure(event: Event) -> tuple[str, dict[str, str]]:
    if event["RequestType"] == "Update" and _is_rolled_back(event):
        log("preflight skipped", reason="the stack is rolled back")
        return _PHYSICAL_ID, {"Advice": ""}
    needs = validate(PreflightProperties, event["ResourceProperties"])
    context = Context(any_client, account_and_region(event)[1], _changed(event, needs))
    report = run(needs, context)
    for pause in _PAUSES:
        if not report.is_early:
            break
        time.sleep(pause)
        report = run(needs, context)
    _log(report)
    if report.problems:
        raise DeploymentError(report.reason(os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "")))
    advice = " ".join(f"({number}) {each}." for number, each in enumerate(report.advice, 1))
    return _PHYSICAL_ID, {"Advice": advice[:_ADVICE_CHARACTERS]}


def _changed(event: Event, needs: PreflightProperties) -> frozenset[str] | None:
    """The endpoints whose instances an update replaces; None for a creation, whose endpoints may be older than it."""
    old = event.get("OldResourceProperties")
    if event["RequestType"] != "Update" or old is None:
        return None
    try:
        before = {fleet.endpoint_name: fleet for fleet in validate(PreflightProperties, old).fleets}
    except InvalidEvent:
        # Of another release.
        return None
    return frozenset(fleet.endpoint_name for fleet in needs.fleets if _is_new(fleet, before.get(fleet.endpoint_name)))


def _is_new(fleet: FleetNeed, before: FleetNeed | None) -> bool:
    return before is None or before.definition != fleet.definition


def _is_rolled_back(event: Event) -> bool:
    """Whether the stack goes back to what it was; also where CloudFormation does not say, for that must not fail."""
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
