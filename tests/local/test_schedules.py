"""EventBridge Scheduler: schedules in templates that fire on the local cloud's clock."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.cloudformation_stacks import Stack
from ..support.local_cloud import ROLE
from ..support.waiting import until

PASS = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}})


@pytest.fixture(scope="module")
def machine(brisk: LocalCloud) -> str:
    made = brisk.client("stepfunctions").create_state_machine(name="scheduled", definition=PASS, roleArn=ROLE)
    return made["stateMachineArn"]


def inputs(cloud: LocalCloud, machine: str, of: str) -> list[dict[str, Any]]:
    """The inputs of the executions that a schedule started, oldest first."""
    states = cloud.client("stepfunctions")
    found = states.list_executions(stateMachineArn=machine)["executions"]
    described = [states.describe_execution(executionArn=execution["executionArn"]) for execution in found]
    given = [json.loads(execution["input"]) for execution in sorted(described, key=lambda e: e["startDate"])]
    return [item for item in given if item.get("of") == of]


def schedule(machine: str, of: str, expression: str, **more: Any) -> dict[str, Any]:
    given = {"of": of, "at": "<aws.scheduler.scheduled-time>"}
    return {
        "Type": "AWS::Scheduler::Schedule",
        "Properties": {
            "ScheduleExpression": expression,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {"Arn": machine, "RoleArn": ROLE, "Input": json.dumps(given)},
            **more,
        },
    }


@pytest.mark.exhaustive
def test_a_rate_schedule_starts_executions_at_the_clocks_pace(brisk: LocalCloud, machine: str) -> None:
    stack = Stack(brisk, "by-rate")
    # Ten minutes are 0.6 seconds here.
    one, other = (schedule(machine, of, "rate(10 minutes)") for of in ("one", "other"))
    assert stack.deploy({"One": one, "Other": other}) == "CREATE_COMPLETE"
    found = until(lambda: inputs(brisk, machine, "one"), lambda given: len(given) >= 2)
    assert found[0]["at"] < found[1]["at"]
    one["Properties"]["State"] = "DISABLED"
    assert stack.deploy({"One": one, "Other": other}) == "UPDATE_COMPLETE"
    before = {of: len(inputs(brisk, machine, of)) for of in ("one", "other")}
    until(lambda: inputs(brisk, machine, "other"), lambda given: len(given) >= before["other"] + 2)
    assert len(inputs(brisk, machine, "one")) == before["one"]
    stack.delete()
    names = [item["Name"] for item in brisk.client("scheduler").list_schedules()["Schedules"]]
    assert not any("by-rate" in name for name in names)


def test_a_cron_schedule_fires_at_the_clocks_pace_in_its_time_zone(brisk: LocalCloud, machine: str) -> None:
    stack = Stack(brisk, "by-cron")
    zone = "Asia/Tokyo"
    resource = schedule(machine, "cron", "cron(30 * * * ? *)", ScheduleExpressionTimezone=zone)
    assert stack.deploy({"It": resource}) == "CREATE_COMPLETE"
    (found, *_) = until(lambda: inputs(brisk, machine, "cron"), lambda given: bool(given))
    assert found["at"].endswith(":30:00Z")
    name = stack.physical_id("It")
    assert brisk.client("scheduler").get_schedule(Name=name)["ScheduleExpressionTimezone"] == zone
    stack.delete()


def test_a_schedule_invokes_a_lambda_function(brisk: LocalCloud, machine: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as folder:
        folder.writestr(
            "index.py",
            "import boto3, json\n"
            "def handler(event, context):\n"
            "    boto3.client('stepfunctions').start_execution("
            "stateMachineArn=event['machine'], input=json.dumps({'of': 'function'}))\n",
        )
    function = brisk.client("lambda").create_function(
        FunctionName="scheduled",
        Runtime="python3.11",
        Role=ROLE,
        Handler="index.handler",
        Code={"ZipFile": packed.getvalue()},
    )
    scheduler = brisk.client("scheduler")
    scheduler.create_schedule(
        Name="function",
        ScheduleExpression="rate(1 hour)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": function["FunctionArn"], "RoleArn": ROLE, "Input": json.dumps({"machine": machine})},
    )
    until(lambda: inputs(brisk, machine, "function"), lambda given: bool(given), seconds=60)
    scheduler.delete_schedule(Name="function")


@pytest.mark.parametrize(
    ("expression", "zone", "said"),
    [
        ("every day", None, "Invalid Schedule Expression every day"),
        ("rate(1 fortnight)", None, "Invalid Schedule Expression"),
        ("at(tomorrow)", None, "Invalid Schedule Expression"),
        ("rate(1 day)", "Mars/Olympus", "Invalid Schedule Expression Timezone"),
    ],
)
def test_an_invalid_schedule_expression_is_refused(
    brisk: LocalCloud, machine: str, expression: str, zone: str | None, said: str
) -> None:
    with pytest.raises(ClientError, match=said):
        brisk.client("scheduler").create_schedule(
            Name="bad",
            ScheduleExpression=expression,
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": machine, "RoleArn": ROLE},
            **({"ScheduleExpressionTimezone": zone} if zone else {}),
        )


def test_an_invalid_schedule_fails_its_stack(brisk: LocalCloud, machine: str) -> None:
    stack = Stack(brisk, "bad-schedule")
    assert stack.deploy({"It": schedule(machine, "bad", "rate(1 fortnight)")}) == "ROLLBACK_COMPLETE"
    stack.delete()
