from __future__ import annotations

import random

import pytest

from constructs_optim.evaluator.find_limit import (
    Attainment,
    attainment,
    described,
    fewest_requests,
    is_immeasurable,
    limit_of,
    misses_alone,
    next_load,
)
from constructs_optim.evaluator.load import MeasuredLevel, Segment
from constructs_optim.evaluator.options import OpenLoop
from constructs_optim.evaluator.requests import ErrorKind
from constructs_optim.evaluator.streaming import Record
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import RateLimit

OBJECTIVES = LatencyObjectives(time_to_first_token=500)


def level_of(shares: list[float], *, abandoned: str = "", seed: int = 0, lag: float = 0.0) -> MeasuredLevel:
    """Requests each of which meets the objective with its probability, by a machine with a lag in milliseconds."""
    drawn, records = random.Random(seed), list[Record]()
    for start, share in enumerate(shares):
        first = 0.3 if drawn.random() < share else 0.9
        records.append(Record(start, start + 1.0, start + first, start + 1.0, output_tokens=5))
    return MeasuredLevel(records, [Segment(complete=not abandoned, abandoned=abandoned, lags=[lag] * 100)])


@pytest.mark.parametrize(("share", "expected"), [(0.99, "meets"), (0.5, "misses"), (0.9, "undecided")])
def test_a_rate_meets_its_objectives_misses_them_or_is_undecided(share: float, expected: Attainment) -> None:
    assert attainment(level_of([share] * 400), OBJECTIVES) == expected


@pytest.mark.parametrize(
    ("share", "lag", "expected"),
    [
        (0.5, 150.0, "misses"),
        (0.5, 250.0, "too busy"),  # 900 ms, of which the machine may have added 500
        (0.99, 250.0, "meets"),  # a lag makes no first token earlier
        (0.9, 250.0, "undecided"),
    ],
)
def test_a_rate_that_this_machine_s_lag_may_let_miss_is_undecided(
    share: float, lag: float, expected: Attainment
) -> None:
    level = level_of([share] * 400, lag=lag)
    assert attainment(level, OBJECTIVES) == expected
    if expected == "too busy":
        level.segments[0] = Segment(complete=True, delays=[lag] * 100)
        assert attainment(level, OBJECTIVES) == "too busy", "it also sends requests late"
        level.segments[0] = Segment(abandoned="all failed", lags=[lag] * 100)
        assert attainment(level, OBJECTIVES) == "misses"


@pytest.mark.parametrize(("lag", "expected"), [(2.0, "meets"), (8.0, "too busy")])
def test_an_inter_token_latency_that_a_lag_may_have_shortened_is_undecided(lag: float, expected: Attainment) -> None:
    """Four tokens in 0.7 s, 175 ms each, of which the machine may hide a quarter of twice its lag."""
    objectives = LatencyObjectives(inter_token_latency=177)
    assert attainment(level_of([1.0] * 400, lag=lag), objectives) == expected


def test_latency_that_rises_with_this_machine_s_lag_decides_nothing() -> None:
    """From 0.5 to 0.7 s, which is more than any lag explains but one that rises with it."""
    for lags, expected in (([50.0] * 100, "misses"), ([float(share) for share in range(100)], "too busy")):
        level = level_of([1.0] * 200)
        level.segments[0].lags = lags
        for number, record in enumerate(level.records):
            record.end = record.start + 0.5 + 0.001 * number
        assert attainment(level, OBJECTIVES) == expected


def test_failed_requests_do_not_meet_an_objective_and_an_abandoned_rate_misses_it() -> None:
    level = level_of([1.0] * 200)
    for record in level.records[::3]:
        record.fail(ErrorKind.THROTTLED, "")
    assert attainment(level, OBJECTIVES) == "misses"
    assert attainment(level_of([1.0] * 200, abandoned="all failed"), OBJECTIVES) == "misses"


def test_latency_that_keeps_rising_misses_the_objectives_before_it_is_too_long() -> None:
    level = level_of([1.0] * 200)
    for number, record in enumerate(level.records):
        record.end = record.start + 0.5 + 0.01 * number
    assert attainment(level, LatencyObjectives(time_to_first_token=500)) == "misses"


def test_an_objective_that_cannot_be_measured_decides_nothing() -> None:
    level = level_of([1.0] * 200)
    for record in level.records[::10]:
        record.output_tokens = None
    both = LatencyObjectives(time_to_first_token=500, inter_token_latency=1000)
    assert attainment(level, both) == "undecided"
    assert attainment(level, OBJECTIVES) == "meets"


def test_where_single_requests_miss_the_objectives_no_lower_rate_meets_them() -> None:
    """Each request takes a second, and one is sent each second, or each half."""
    assert misses_alone(level_of([0.2] * 40), OBJECTIVES)
    assert not misses_alone(level_of([0.95] * 40), OBJECTIVES)
    assert misses_alone(level_of([0.2] * 40, lag=150.0), OBJECTIVES)
    assert not misses_alone(level_of([0.2] * 40, lag=250.0), OBJECTIVES), "this machine may be why"
    crowded = level_of([0.2] * 40)
    for record in crowded.records:
        record.end += 1
    assert not misses_alone(crowded, OBJECTIVES), "they may have waited for each other"


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_the_fewest_requests_decide_that_all_of_them_meet_the_objectives(share: float) -> None:
    objectives = LatencyObjectives(time_to_first_token=500, attainment=share)
    assert attainment(level_of([1.0] * fewest_requests(objectives)), objectives) == "meets"


def test_requests_that_share_a_queue_decide_less_than_independent_ones() -> None:
    """94% of 200 requests meet it: enough where each is by itself, and not where those that do not are together."""
    apart = level_of([1.0] * 400)
    for record in apart.records[::17]:
        record.first_token = record.start + 0.9
    together = level_of([1.0] * 400)
    for record in together.records[180:204]:
        record.first_token = record.start + 0.9
    assert attainment(apart, OBJECTIVES) == "meets"
    assert attainment(together, OBJECTIVES) == "undecided"


def searched(limit: float, start: float, *, blurred: float = 0.0) -> tuple[RateLimit, list[OpenLoop]]:
    """A search of a server that meets the objectives up to a rate, and is undecided around it."""
    like, found, sent = OpenLoop(request_rate=start), dict[float, Attainment](), list[OpenLoop]()
    rates: dict[float, OpenLoop] = {}
    while (load := next_load(found, rates, like)) is not None:
        sent.append(load)
        assert len(sent) < 40, "the search ends"
        rate = load.request_rate
        rates[rate] = load
        is_near = abs(rate / limit - 1) < blurred
        found[rate] = "undecided" if is_near else "meets" if rate <= limit else "misses"
    return limit_of(found), sent


@pytest.mark.parametrize("limit", [0.013, 0.7, 3.3, 47.0, 800.0])
@pytest.mark.parametrize("start", [1.0, 4.0])
def test_the_search_ends_close_around_the_limit(limit: float, start: float) -> None:
    found, sent = searched(limit, start)
    assert found.meets is not None
    assert found.misses is not None
    assert found.meets <= limit < found.misses <= found.meets * 1.06
    assert len(sent) <= 18


def test_an_undecided_rate_is_sent_more_requests_and_stays_undecided_then() -> None:
    found, sent = searched(10.0, 1.0, blurred=0.15)
    assert found.meets is not None
    assert found.misses is not None
    assert found.meets <= 8.5
    assert found.misses >= 11.5
    again = [load for load in sent if load.requests is not None]
    assert again
    assert all((load.total or 0) > OpenLoop(request_rate=load.request_rate).default_total for load in again)


@pytest.mark.parametrize(
    ("start", "limit", "visited"),
    [
        (10, 40, [10, 20, 40, 80, 28.3, 33.6, 56.6, 47.6]),
        (10, 10, [10, 5, 20, 7.07, 8.41, 14.1, 11.9]),
        (80, 40, [80, 40, 20, 28.3, 33.6, 56.6, 47.6]),
    ],
)
def test_the_search_goes_past_an_undecided_rate(start: float, limit: float, visited: list[float]) -> None:
    """A rate at the limit itself is undecided, however many requests are sent."""
    like, found, sent = OpenLoop(request_rate=start), dict[float, Attainment](), dict[float, OpenLoop]()
    while (load := next_load(found, sent, like)) is not None:
        rate = load.request_rate
        sent[rate], found[rate] = load, "undecided" if rate == limit else "meets" if rate < limit else "misses"
        assert len(sent) < 40, "the search ends"
    assert list(sent) == visited
    around = limit_of(found)
    assert around.meets is not None
    assert around.misses is not None
    assert around.undecided == (limit,)
    assert around.misses / limit <= 1.2
    assert limit / around.meets <= 1.2


def test_a_rate_for_which_this_machine_was_too_busy_is_not_measured_again() -> None:
    like, found, sent = OpenLoop(request_rate=8), dict[float, Attainment](), dict[float, OpenLoop]()
    while (load := next_load(found, sent, like)) is not None:
        rate = load.request_rate
        sent[rate], found[rate] = load, "meets" if rate < 11 else "too busy" if rate < 20 else "misses"
        assert load.requests is None
    assert limit_of(found) == RateLimit(meets=9.51, misses=22.6, undecided=(11.3, 16, 19), too_busy=(11.3, 16, 19))


def test_with_two_undecided_rates_the_side_whose_bound_is_known_is_narrowed() -> None:
    like, found, sent = OpenLoop(request_rate=8), dict[float, Attainment](), dict[float, OpenLoop]()
    while (load := next_load(found, sent, like)) is not None:
        rate = load.request_rate
        sent[rate], found[rate] = load, "meets" if rate < 11 else "undecided"
    assert list(sent) == [8, 16, 32, 11.3, 9.51]
    assert limit_of(found) == RateLimit(meets=9.51, undecided=(11.3, 16, 32))


def test_an_objective_that_no_rate_can_show_is_immeasurable() -> None:
    level = level_of([1.0] * 200)
    both = LatencyObjectives(time_to_first_token=500, inter_token_latency=1000)
    assert not is_immeasurable(level, both)
    level.records[7].output_tokens = None
    assert is_immeasurable(level, both)
    assert not is_immeasurable(level, OBJECTIVES)


def test_a_search_without_a_decided_rate_ends() -> None:
    found, sent = searched(10.0, 10.0, blurred=1e6)
    assert (found.meets, found.misses) == (None, None)
    assert found.undecided == (5, 10)
    assert len(sent) == 2 * 3, "twice as many requests, twice"


def test_a_search_that_meets_or_misses_everything_ends() -> None:
    found, sent = searched(1e9, 1.0)
    assert found.misses is None
    assert found.meets == pytest.approx(1024, rel=0.01)
    assert len(sent) == 11
    found, _ = searched(1e-9, 1.0)
    assert found.meets is None


def test_a_rate_that_meets_above_one_that_misses_was_luck() -> None:
    assert limit_of({1: "meets", 2: "misses", 4: "meets"}) == RateLimit(meets=1, misses=2)


def test_the_limit_is_described_in_a_sentence() -> None:
    both = LatencyObjectives(time_to_first_token=500, inter_token_latency=40)
    kept = "90% of the requests have first token within 500 ms, each further token within 40 ms"
    assert described(RateLimit(meets=4, misses=4.2), both) == f"{kept} up to 4 requests/s, and fewer at 4.2"
    assert described(RateLimit(misses=1), both) == f"fewer than {kept}, even at 1 request/s"
    undecided = described(RateLimit(undecided=(2,)), both)
    assert undecided == f"whether {kept} is undecided at 2 requests/s"
    assert described(RateLimit(meets=9), both) == f"{kept} at 9 requests/s, the highest measured rate"
    some = described(RateLimit(meets=9, undecided=(10, 11)), both)
    assert some == f"{kept} at 9 requests/s; undecided at 10, 11 requests/s"
    some = described(RateLimit(misses=9, undecided=(1,)), both)
    assert some == f"fewer than {kept} at 9 requests/s; undecided at 1 request/s"
    some = described(RateLimit(meets=8, misses=10, undecided=(9,)), both)
    assert some == f"{kept} up to 8 requests/s, and fewer at 10; undecided at 9 requests/s"
    some = described(RateLimit(meets=8, undecided=(9, 10), too_busy=(9, 10)), both)
    assert some == f"{kept} at 8 requests/s; undecided at 9, 10 requests/s (this machine was too busy)"
    some = described(RateLimit(meets=8, undecided=(9, 10), too_busy=(10,)), both)
    assert some == f"{kept} at 8 requests/s; undecided at 9, 10 requests/s (this machine was too busy at 10)"
    assert described(RateLimit(), both) == f"whether {kept} is undecided"
