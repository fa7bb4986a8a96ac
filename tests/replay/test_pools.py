"""Instance pools in the simulation: which type is launched, which goes first, what is paid, and what is short."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from constructs_optim.replay.comparison import replay
from constructs_optim.replay.declaration import Declared
from constructs_optim.replay.simulation import simulate
from constructs_optim.replay.traffic import Traffic

from .declarations import INSTANCE, append, declared, poisson, pool, scaling

HOUR = 3600.0
FIRST = "ml.p5.4xlarge"


def pooled(traffic: Traffic, *available: int | None, copies: int = 1, most: int | None = None) -> Declared:
    """One H100 before four L40S, of which so many are available."""
    pools = (pool(traffic, FIRST, price=7.0), pool(traffic, price=13.0))
    pools = tuple(replace(each, available=count) for each, count in zip(pools, available, strict=True))
    scaled = scaling(traffic, most=most) if most is not None else None
    return replace(declared(traffic, scaled, copies=copies), pools=pools)


def busy_hour() -> Traffic:
    """An hour of few requests, one of many, and three of few."""
    traffic = poisson(0.3, HOUR)
    append(traffic, poisson(8.0, HOUR, seed=2), HOUR)
    append(traffic, poisson(0.3, 3 * HOUR, seed=3), 2 * HOUR)
    return traffic


def test_instances_are_of_the_first_pool_while_it_has_any() -> None:
    traffic = poisson(1.0, HOUR)
    outcome = simulate(pooled(traffic, 2, None, copies=3), traffic)
    duration = traffic.duration / HOUR
    assert outcome.hours == (pytest.approx(2 * duration, rel=0.02), pytest.approx(duration, rel=0.02))
    assert simulate(pooled(traffic, None, None, copies=3), traffic).hours[1] == 0


def test_each_pool_has_its_own_speed_and_price() -> None:
    traffic = poisson(0.5, HOUR)
    alone = [
        statistics.fmean(simulate(pooled(traffic, *available), traffic).served.between)
        for available in ((1, None), (0, None))
    ]
    expected = [pool(traffic, each).forecasts.at_rate(0.5).inter_token_latency.value for each in (FIRST, INSTANCE)]
    assert alone == [pytest.approx(each, rel=0.15) for each in expected]
    (both,) = replay([("a", pooled(traffic, 1, None, copies=2))], traffic)
    assert both.instance_types == (FIRST, INSTANCE)
    assert both.dollars is not None
    assert both.dollars[0] == pytest.approx((7.0 + 13.0) * both.instance_hours[0] / 2, rel=0.02)


def test_a_price_that_is_not_known_makes_the_cost_unknown() -> None:
    traffic = poisson(0.5, 600)
    given = pooled(traffic, 1, None, copies=2)
    unpriced = replace(given, pools=(given.pools[0], replace(given.pools[1], price=None)))
    (replayed,) = replay([("a", unpriced)], traffic)
    assert replayed.dollars is None


def test_prompts_fail_on_a_pool_whose_context_is_too_short() -> None:
    traffic = poisson(0.5, 600)
    given = pooled(traffic, 2, None, copies=2)
    shorter = replace(given, pools=(given.pools[0], replace(given.pools[1], longest=512, price=None)))
    unused = simulate(shorter, traffic)
    assert (unused.served.failed, unused.hours[1]) == (0, 0)
    (replayed,) = replay([("a", shorter)], traffic)
    assert (replayed.instance_types, replayed.dollars is not None) == ((FIRST,), True)
    mixed = replace(shorter, pools=(replace(shorter.pools[0], available=1), shorter.pools[1]))
    assert 0 < simulate(mixed, traffic).served.failed < len(traffic)


def test_what_is_scaled_in_goes_from_the_last_pool_first() -> None:
    traffic = busy_hour()
    outcome = simulate(pooled(traffic, 1, None, most=4), traffic)
    assert outcome.copies[0] == 1
    assert outcome.copies[1] > 1
    duration = traffic.duration / HOUR
    # The one of the first pool stays all the time, and others come and go.
    assert outcome.hours[0] == pytest.approx(duration, rel=0.02)
    assert 0 < outcome.hours[1] < 0.7 * 3 * duration


def test_without_capacity_in_any_pool_no_more_copies_start_and_a_note_reports_it() -> None:
    traffic = busy_hour()
    given = pooled(traffic, 1, 1, most=4)
    outcome = simulate(replace(given, scaling=scaling(traffic, most=4)), traffic)
    assert outcome.copies == (1, 2)
    assert outcome.is_short
    enough = simulate(pooled(traffic, 1, 3, most=4), traffic)
    assert (enough.copies[1] > 2, enough.is_short) == (True, False)
    assert enough.hours[1] > outcome.hours[1] > 0
    (replayed,) = replay([("a", given)], traffic)
    assert replayed.notes == ("Chat/Model needed more instances than are available.",)


def test_copies_of_a_component_share_instances_of_their_pool() -> None:
    traffic = poisson(0.5, HOUR)
    given = pooled(traffic, 1, None, copies=5)
    shared = tuple(replace(each, copies_per_instance=2) for each in given.pools)
    outcome = simulate(replace(given, pools=shared), traffic)
    duration = traffic.duration / HOUR
    on_second = math.ceil((5 - 2) / 2)
    assert outcome.hours == (pytest.approx(duration, rel=0.02), pytest.approx(on_second * duration, rel=0.02))
