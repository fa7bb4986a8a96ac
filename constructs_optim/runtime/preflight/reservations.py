"""Capacity reservations: training plans, whose instances jobs and endpoints use.

Source: API reference, DescribeTrainingPlan (``Status``, ``TargetResources``, ``ReservedCapacitySummaries``).
"""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ..jobs.sagemaker_jobs import is_not_found
from ..requests.preflight_properties import ReservationNeed
from .context import Context
from .report import PreflightFinding, advice, problem

_NAME = "reservation"
_TRAINING_PLAN = ":training-plan/"


def check_reservation(need: ReservationNeed, context: Context) -> Iterator[PreflightFinding]:
    """Check that a training plan is active and covers the instance type and the use."""
    if _TRAINING_PLAN not in need.arn:
        yield advice(
            _NAME, f"{need.arn} is not a training plan, so its state was not checked", "make sure that it is active"
        )
        return
    name = need.arn.rpartition("/")[2]
    try:
        plan = context.client("sagemaker").describe_training_plan(TrainingPlanName=name)
    except ClientError as error:
        if not is_not_found(error):
            raise
        yield problem(_NAME, f"there is no training plan {name} in {context.region}", "use an existing plan")
        return
    if plan["Status"] in ("Expired", "Failed"):
        yield problem(
            _NAME, f"the training plan {name} is {plan['Status']}", "buy another one, or remove the reservation"
        )
    elif plan["Status"] != "Active":
        start = f" and starts at {plan['StartTime']:%Y-%m-%d %H:%M} UTC" if "StartTime" in plan else ""
        yield advice(
            _NAME,
            f"the training plan {name} is {plan['Status']}{start}",
            "jobs and endpoints that use it wait until it is active",
        )
    uses = plan.get("TargetResources", [])
    if uses and need.use is not None and need.use not in uses:
        yield problem(
            _NAME, f"the training plan {name} is for {', '.join(uses)}, not for {need.use}", "use another plan"
        )
    types = {each["InstanceType"] for each in plan.get("ReservedCapacitySummaries", ()) if "InstanceType" in each}
    if types and need.instance_type is not None and need.instance_type not in types:
        yield problem(
            _NAME,
            f"the training plan {name} has {', '.join(sorted(types))}, not {need.instance_type}",
            "use an instance type of the plan, or another plan",
        )
