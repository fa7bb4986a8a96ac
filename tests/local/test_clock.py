"""The clock of a local cloud."""

from __future__ import annotations

import datetime as dt

import pytest

from constructs_optim_local.clock import Clock
from constructs_optim_local.cloud import LocalCloud, LocalCloudError

from ..support.hosting import make_config, make_model


def test_a_stopped_clock_moves_only_by_advances_and_sleeps() -> None:
    clock = Clock(runs=False)
    at, since = clock.now(), clock.monotonic()
    assert (clock.now(), clock.monotonic()) == (at, since)
    clock.advance(60)
    clock.sleep(0.5)
    assert (clock.now() - at).total_seconds() == clock.monotonic() - since == 60.5


def test_a_running_clock_is_ahead_of_the_machine_by_its_advances() -> None:
    clock, machine, hour = Clock(), Clock(), dt.timedelta(hours=1)
    clock.advance(hour.total_seconds())
    before, ahead, after = machine.now(), clock.now(), machine.now()
    assert before + hour <= ahead <= after + hour


def test_subscribers_are_notified_when_the_clock_is_advanced() -> None:
    clock, told = Clock(runs=False), list[float]()
    clock.subscribe(lambda: told.append(clock.monotonic()))
    began = clock.monotonic()
    clock.advance(2)
    assert told == [began + 2]


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e300])
def test_a_clock_cannot_be_advanced_by_a_negative_or_endless_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="0 to 315,360,000 seconds"):
        Clock().advance(seconds)


def test_the_clock_of_a_local_cloud_is_advanced_through_its_control_api(cloud: LocalCloud) -> None:
    sagemaker = cloud.client("sagemaker")
    make_model(sagemaker, "advanced")
    make_config(sagemaker, "advanced", "advanced")
    sagemaker.create_endpoint(EndpointName="advanced", EndpointConfigName="advanced")
    cloud.advance(10)
    assert sagemaker.describe_endpoint(EndpointName="advanced")["EndpointStatus"] == "InService"
    with pytest.raises(LocalCloudError, match="invalid number of seconds"):
        cloud.advance(-1)
