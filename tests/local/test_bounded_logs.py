"""What a local cloud records of its past: the newest, however long it runs."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from constructs_optim_local.access.authorization import ALLOW, AuthorizationLog
from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.autoscaling import engine
from constructs_optim_local.autoscaling.decisions import Breach
from constructs_optim_local.clock import Clock

from ..support.waiting import until

LOCATION = ("000000000000", "us-west-2")


class Endpoint:
    """A variant that takes any capacity at once, and its scalable target."""

    def __init__(self) -> None:
        self._capacity = 1
        self.target: dict[str, Any] = {
            "ServiceNamespace": "sagemaker",
            "ResourceId": "endpoint/chat/variant/AllTraffic",
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        }

    def targets(self, location: engine.Location) -> list[engine.Target]:
        return [self.target]

    def scheduled(self, location: engine.Location) -> list[dict[str, Any]]:
        return []

    def limit(self, location: engine.Location, target: engine.Target, limits: Any) -> None:
        raise NotImplementedError

    def policies(self, location: engine.Location, target: engine.Target) -> list[dict[str, Any]]:
        return []

    def breaches(self, location: engine.Location, policies: Sequence[Any]) -> list[Breach]:
        return []

    def capacity(self, resource_id: str, *, account: str, region: str) -> engine.Capacity | None:
        return engine.Capacity(self._capacity, self._capacity, dt.datetime.now(dt.UTC))

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        self._capacity = request["DesiredWeightsAndCapacities"][0]["DesiredInstanceCount"]
        return {}

    def scaled(self, resource_id: str, *, registered: bool, account: str, region: str) -> None: ...


def test_calls_beyond_the_most_replace_the_oldest() -> None:
    log = CallLog(most=2)
    for name in ("First", "Second", "Third"):
        log.add("sagemaker", name, {}, "OK")
    assert [call["operation"] for call in log.to_json()] == ["Second", "Third"]


def test_authorizations_beyond_the_most_replace_the_oldest() -> None:
    log = AuthorizationLog(most=2)
    for name in ("First", "Second", "Third"):
        log.add("000000000000", name, "s3:GetObject", "*", ALLOW, "")
    assert [found["role"] for found in log.to_json()] == ["Second", "Third"]


def test_scaling_activities_beyond_the_most_replace_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MOST_ACTIVITIES", 2)
    endpoint = Endpoint()
    scaling = engine.ScalingEngine(endpoint, endpoint, 1.0, threading.RLock(), Clock())

    def newest() -> list[str]:
        return [activity["Description"] for activity in scaling.activities(LOCATION, {})["ScalingActivities"]]

    for count in (2, 3, 4):
        endpoint.target = {**endpoint.target, "MinCapacity": count, "MaxCapacity": count}
        scaling.registered(LOCATION, endpoint.target)
        until(newest, lambda found, count=count: found[:1] == [f"Setting desired instance count to {count}."])
    assert newest() == ["Setting desired instance count to 4.", "Setting desired instance count to 3."]
