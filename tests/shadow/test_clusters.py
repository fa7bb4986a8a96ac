"""How much clustered outcomes show: design effects of groups, of spans of time, and of series."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from constructs_optim.runtime.shadow.clusters import Groups, KnownKeys, Spans, design_effect_of_series

KEYS = st.integers(0, 2**80 - 1)


class Record(BaseModel):
    """A record with keys."""

    known: KnownKeys = KnownKeys()


@given(st.lists(KEYS, max_size=30))
def test_a_known_key_is_never_taken_for_a_new_one_also_after_it_was_stored(added: list[int]) -> None:
    record = Record()
    for key in added:
        record.known.add(key)
    stored = Record.model_validate_json(json.dumps(record.model_dump()))
    assert all(key in stored.known for key in added)
    assert Record().known.bits == b"", "records share no keys"


def test_few_of_the_new_keys_are_taken_for_known_and_the_record_stays_small() -> None:
    known, random = KnownKeys(), Random(1)
    keys = [random.getrandbits(80) for _ in range(22_000)]
    for key in keys[:20_000]:
        known.add(key)
    assert sum(key in known for key in keys[20_000:]) / 2_000 < 0.005
    assert len(known.model_dump_json()) < 90_000


def test_a_key_next_to_a_known_one_is_new() -> None:
    known = KnownKeys()
    key = sum((1_000 * each + 500) << 20 * each for each in range(4))
    known.add(key)
    one_less_in_each_part = key - sum(1 << 20 * each for each in range(4))
    assert (key in known, one_less_in_each_part in known) == (True, False)


@pytest.mark.parametrize("stored", ["%", "AAAA", "\u2028", 7, None])
def test_a_damaged_filter_is_refused(stored: object) -> None:
    with pytest.raises(ValidationError):
        KnownKeys.model_validate({"bits": stored})


def outcomes(random: Random, groups: int, size: int, shared: float) -> Iterator[tuple[int, int]]:
    """Groups, and outcomes that are 1 or -1, each with a probability of 5%; with probability ``shared`` the group's."""

    def outcome() -> int:
        drawn = random.random()
        return 1 if drawn < 0.05 else -1 if drawn < 0.1 else 0

    for group in range(groups):
        common = outcome()
        yield from ((group, common if random.random() < shared else outcome()) for _ in range(size))


def grouped(random: Random, groups: int, size: int, shared: float) -> Groups:
    found = Groups()
    for group, outcome in outcomes(random, groups, size, shared):
        found.add(group, 1, outcome)
    return found


@pytest.mark.parametrize("size", [1, 2, 16, 100])
def test_independent_outcomes_seldom_have_a_design_effect(size: int) -> None:
    effects = [grouped(Random(seed), 200, size, 0).design_effect(0.1) for seed in range(100)]
    assert sum(effect > 1 for effect in effects) <= 15
    assert max(effects) < 2.5


@pytest.mark.parametrize(("size", "correlation"), [(5, 0.3), (10, 0.5), (20, 1.0), (200, 0.1)])
def test_the_design_effect_of_groups_is_that_of_their_correlation(size: int, correlation: float) -> None:
    effects = [grouped(Random(seed), 200, size, math.sqrt(correlation)).design_effect(0.1) for seed in range(30)]
    # Kish (1965), section 5.4: 1 + (size - 1) * correlation.
    assert sum(effects) / 30 == pytest.approx(1 + (size - 1) * correlation, rel=0.25)


def talked(random: Random, conversations: int, turns: int, shared: float) -> Groups:
    """Conversations that may share a group by chance."""
    found = Groups()
    for conversation, outcome in outcomes(random, conversations, turns, shared):
        found.add_of(f"conversation {conversation}", outcome)
    return found


@pytest.mark.parametrize(("turns", "correlation"), [(1, 0.0), (5, 0.0), (5, 0.3), (10, 0.5), (20, 1.0)])
@pytest.mark.parametrize("number", [400, 8_000])
def test_conversations_that_share_groups_show_their_correlation(turns: int, correlation: float, number: int) -> None:
    effects = [
        talked(Random(seed), number // turns, turns, math.sqrt(correlation)).design_effect_around(0.0, 0.1)
        for seed in range(30)
    ]
    assert sum(effects) / 30 == pytest.approx(1 + (turns - 1) * correlation, rel=0.2)


@pytest.mark.parametrize(("conversations", "turns"), [(1, 31), (3, 40), (15, 500)])
@pytest.mark.parametrize("outcome", [0, 1])
def test_conversations_with_one_outcome_show_no_more_than_their_number(
    conversations: int, turns: int, outcome: int
) -> None:
    groups = Groups()
    for number in range(conversations * turns):
        groups.add_of(f"conversation {number % conversations}", outcome)
    total = sum(groups.sizes)
    assert total / groups.design_effect_with_one_more(0.0) == pytest.approx(conversations, rel=0.05)
    # Outcomes that do not differ at all have no variance.
    assert total / groups.design_effect_around(0.0, outcome) == pytest.approx(conversations if outcome else total)


def test_design_effects_of_few_groups_are_those_computed_by_hand() -> None:
    assert Groups().design_effect_with_one_more(0.25) == 1
    # 40 outcomes with the mean 0.75. One more cluster would have (10**2 + 30**2) / 40 - 40 / 1024 outcomes.
    found = Groups(sizes=[10, 30], sums=[0, 30]).design_effect_with_one_more(0.25)
    assert found == pytest.approx((7.5**2 + 7.5**2 + 24.96**2) / (0.25 * (10 * 0.75 + 30 * 0.25) + 24.96), rel=1e-3)
    # Of 20 groups with 10 outcomes each, one differs in all: the mean is 0.05.
    alone = Groups(sizes=[10] * 20, sums=[10] + [0] * 19)
    assert alone.design_effect(0.05 * 0.95) == pytest.approx((9.5**2 + 19 * 0.5**2) / (200 * 0.05 * 0.95 * 0.95))


def test_one_more_conversation_makes_little_of_a_difference_among_many() -> None:
    assert talked(Random(1), 8_000, 1, 0.0).design_effect_with_one_more(0.1) < 1.1
    assert talked(Random(1), 1_000, 8, 0.0).design_effect_with_one_more(0.1) < 1.3


@pytest.mark.parametrize("groups", [0, 1])
def test_a_single_group_has_no_design_effect(groups: int) -> None:
    assert grouped(Random(1), groups, 500, 1.0).design_effect(0.1) == 1


@pytest.mark.parametrize(
    ("share", "worse", "is_cluster"), [(0.05, 0.5, True), (0.3, 0.5, False), (0.3, 1.0, True), (0.7, 1.0, False)]
)
def test_a_large_group_is_a_cluster_only_if_its_outcomes_are_the_same(
    share: float, worse: float, is_cluster: bool
) -> None:
    groups, large = Groups(), round(1_000 * share)
    for number in range(large):
        groups.add_of("template", int(number < worse * large))
    for number in range(1_000 - large):
        groups.add_of(f"text {number}", (number % 20 == 0) - (number % 20 == 1))
    differing = worse * large + 0.1 * (1_000 - large)
    effect = groups.design_effect(differing / 1_000 - (worse * share) ** 2)
    assert (effect > 5) is is_cluster
    assert is_cluster or effect < 2


def failures(minutes: int, bursts: dict[int, int], length: int, failing: float = 1.0) -> tuple[Spans, int]:
    """Twenty requests a minute, and bursts of failures by the minute at which they begin; the spans and failures."""
    spans, random, failed = Spans(), Random(2), 0
    for minute in range(minutes):
        is_burst = any(0 <= minute - start < length for start in bursts)
        found = sum(random.random() < failing for _ in range(20)) if is_burst else 0
        spans.add(minute, 20, found)
        failed += found
    return spans, failed


@pytest.mark.parametrize("length", [1, 5, 30, 60])
@pytest.mark.parametrize("minutes", [125, 1_000, 10_000])
def test_a_burst_is_one_failure(minutes: int, length: int) -> None:
    spans, failed = failures(minutes, {minutes // 3: 1}, length)
    share = failed / minutes / 20
    assert failed == 20 * length
    assert failed / spans.design_effect(share * (1 - share)) < 3


def test_failures_that_come_alone_count_each() -> None:
    spans, failed = failures(1_000, {0: 1}, 1_000, failing=0.02)
    share = failed / 20_000
    assert spans.design_effect(share * (1 - share)) < 1.5
    always, _ = failures(1_000, {0: 1}, 1_000)
    assert always.design_effect(0.0) == 1


def test_spans_stay_few_and_keep_their_sums() -> None:
    spans = Spans()
    for minute in range(43_200):
        spans.add(minute, 2, 1)
    assert len(spans.groups.sizes) <= 512
    assert (sum(spans.groups.sizes), sum(spans.groups.sums), spans.minutes) == (86_400, 43_200, 128)
    # Late captures have earlier minutes.
    spans.add(0, 2, 1)
    assert sum(spans.groups.sizes) == 86_402


def autoregression(random: Random, correlation: float, number: int) -> Iterator[float]:
    value = random.gauss(0, 1)
    for _ in range(number):
        yield value
        value = correlation * value + random.gauss(0, math.sqrt(1 - correlation**2))


@pytest.mark.parametrize("correlation", [0.5, 0.8, 0.9])
def test_the_design_effect_of_a_series_is_that_of_its_autocorrelation(correlation: float) -> None:
    effects = sorted(design_effect_of_series([*autoregression(Random(seed), correlation, 2_000)]) for seed in range(20))
    # Bayley and Hammersley, Supplement to the Journal of the Royal Statistical Society 8 (1946), 184-197.
    assert effects[10] == pytest.approx((1 + correlation) / (1 - correlation), rel=0.4)


@pytest.mark.parametrize("correlation", [0.98, 0.999, 0.99999])
def test_a_series_that_hardly_returns_shows_next_to_nothing(correlation: float) -> None:
    numbers = [250 / design_effect_of_series([*autoregression(Random(seed), correlation, 250)]) for seed in range(60)]
    # At a level of 0.5%, eight observations that all say the same are the fewest that are called worse.
    assert sum(number >= 8 for number in numbers) <= 3


@pytest.mark.parametrize("change", [lambda value: value, math.exp, lambda value: -3 * value, lambda value: value**9])
def test_the_design_effect_of_a_series_depends_on_its_order_alone(change: Callable[[float], float]) -> None:
    series = [*autoregression(Random(3), 0.7, 300)]
    assert design_effect_of_series([change(value) for value in series]) == pytest.approx(
        design_effect_of_series(series)
    )


@pytest.mark.parametrize("series", [[], [1.0], [2.0] * 500, [1.0, 2.0] * 250])
def test_a_series_that_does_not_wander_has_no_design_effect(series: list[float]) -> None:
    assert design_effect_of_series(series) == 1
