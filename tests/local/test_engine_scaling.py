"""Scaling by the metrics of serving engines under made loads: ramps, spikes, zero and back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from aws_cdk import Duration

from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling

from ..support.engine_load import EngineFleet, Load, Minute, scaled_fleet
from ..support.sampling import one_in

SLOTS, SECONDS = 8, 8.0
CAPACITY = SLOTS / SECONDS
"""Requests a second that a copy can serve."""
POLICIES: dict[str, Callable[[EndpointScaling], Any]] = {
    "time to first token": lambda scaling: scaling.on_time_to_first_token(target=2),
    "KV cache": lambda scaling: scaling.on_kv_cache(target=70),
    "queue": lambda scaling: scaling.on_queue(target=1),
    # 20 tokens a second for each request.
    "tokens": lambda scaling: scaling.on_tokens_per_second(target=0.7 * SLOTS * 20),
}


def fleet(declare: Callable[[EndpointScaling], Any], *, least: int = 1) -> EngineFleet:
    """A fleet with such policies, whose copies take five minutes to start."""
    return scaled_fleet(declare, slots=SLOTS, request_seconds=SECONDS, least=least)


def steady(copies: float) -> Load:
    """A load that so many copies serve with all of their places taken."""
    return lambda _: copies * CAPACITY


def turns(history: list[Minute]) -> int:
    """How often the desired number changes its direction."""
    changes = [after.desired - before.desired for before, after in pairwise(history) if after.desired != before.desired]
    return sum((left > 0) != (right > 0) for left, right in pairwise(changes))


@pytest.mark.parametrize("name", one_in(len(POLICIES), sorted(POLICIES, key="KV cache".__ne__)))
def test_a_ramp_is_followed_up_and_down(name: str) -> None:
    scaled = fleet(POLICIES[name])
    up = scaled.run(60, lambda second: (0.5 + 4 * second / 3600) * CAPACITY)
    held = scaled.run(40, steady(4.5))
    down = scaled.run(180, lambda second: max(0.5, 4.5 - 4 * second / 3600) * CAPACITY)
    assert up[-1].desired >= 4
    # Between what the load needs and that with room to spare, with nothing left in queues.
    assert 5 <= held[-1].copies <= 9
    assert held[-1].in_flight <= 4.5 * SLOTS + held[-1].copies
    assert down[-1].desired == 1
    assert turns([*up, *held, *down]) <= 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", POLICIES)
def test_a_spike_doubles_the_copies_and_does_not_run_away(name: str) -> None:
    scaled = fleet(POLICIES[name])
    calm = scaled.run(20, steady(0.5))
    spike = scaled.run(60, steady(4))
    assert {minute.desired for minute in calm} == {1}
    assert spike[4].desired >= 2
    assert spike[-1].in_flight <= 4 * SLOTS + spike[-1].copies
    # What piled up while copies started is worked off by more than the load itself needs.
    assert max(minute.desired for minute in spike) <= 12
    after = scaled.run(200, steady(0.5))
    assert after[-1].desired == 1


@pytest.mark.parametrize("name", POLICIES)
def test_copies_go_to_zero_and_a_request_brings_one_back(name: str) -> None:
    scaled = fleet(POLICIES[name], least=0)
    busy = scaled.run(10, steady(0.5))
    idle = scaled.run(40, lambda _: 0.0)
    back = scaled.run(20, steady(0.3))
    assert busy[-1].copies == 1
    # A quarter of an hour without a request.
    assert [minute.desired for minute in idle].index(0) >= 14
    assert idle[-1].copies == 0
    assert back[0].refused > 0
    assert (back[-1].copies, back[-1].refused) == (1, 0)


def test_a_long_prompt_alone_adds_no_copies() -> None:
    scaled = fleet(POLICIES["time to first token"])
    scaled.prefill_seconds = 30
    assert {minute.desired for minute in scaled.run(30, steady(0.3))} == {1}


def test_copies_that_start_are_not_asked_for_again() -> None:
    # Starting takes five minutes; a pause of ten covers them.
    patient = fleet(POLICIES["queue"])
    history = patient.run(9, steady(2))
    assert [minute.desired for minute in history if minute.at <= 300][-1] <= 2
    hasty = fleet(lambda scaling: scaling.on_queue(target=1, scale_out_cooldown=Duration.minutes(1)))
    assert hasty.run(9, steady(2))[-1].desired > history[-1].desired


def test_no_policy_takes_away_what_another_one_needs() -> None:
    both = fleet(lambda scaling: scaling.on_kv_cache(target=70).on_tokens_per_second(target=0.3 * SLOTS * 20))
    both.run(90, steady(2))
    held = both.run(60, steady(2))
    assert turns(held) == 0
    assert held[-1].copies >= 6
