"""Captured traffic as training data: periods, prefixes, and when a period no longer grows."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.techniques.captured import CapturedEndpoint, CapturedTraffic

CHAT = CapturedTraffic(uri="s3://captures/captures/chat/AllTraffic")


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("period", "prefix"),
    [
        (None, ""),
        ("2026-11", "2026/11/"),
        ("2026-11-07", "2026/11/07/"),
    ],
)
def test_a_period_is_the_prefix_below_which_data_capture_writes_it(period: str | None, prefix: str) -> None:
    captured = CHAT if period is None else CHAT.during(period)
    assert captured.prefix == f"{CHAT.uri}/{prefix}"


def test_a_period_changes_nothing_else_of_captured_traffic() -> None:
    others = {"requests": True, "responses": False, "encryption_key_arn": "arn:aws:kms:us-west-2:111122223333:key/1"}
    captured = CapturedTraffic(uri=CHAT.uri, **others).during("2026-11")
    assert captured.model_dump() == {"uri": CHAT.uri, "period": "2026-11", **others}


@pytest.mark.parametrize("period", ["2026", "2026-13", "2026-02-30", "2026-11-07/../..", "2026/11", "november", ""])
def test_what_is_no_period_is_refused_with_one_that_works(period: str) -> None:
    with pytest.raises(RecipeError, match=r"OPT210 CapturedTraffic\.period[\s\S]*'2026-11' or '2026-11-07'"):
        CHAT.during(period)


@pytest.mark.parametrize(
    ("period", "last", "over"),
    [
        ("2026-11-07", "2026-11-08T00:59:59", "2026-11-08T01:00:00"),
        ("2026-11", "2026-12-01T00:59:59", "2026-12-01T01:00:00"),
        ("2026-12", "2027-01-01T00:59:59", "2027-01-01T01:00:00"),
        ("2028-02", "2028-03-01T00:59:59", "2028-03-01T01:00:00"),
    ],
)
def test_a_period_grows_until_an_hour_after_its_end(period: str, last: str, over: str) -> None:
    captured = CHAT.during(period)
    assert captured.grows_at(at(last))
    assert not captured.grows_at(at(over))


@given(day=st.dates(dt.date(2020, 1, 1), dt.date(2080, 1, 1)), hours=st.integers(0, 2_000))
def test_a_period_that_is_over_stays_so(day: dt.date, hours: int) -> None:
    now = dt.datetime.combine(day, dt.time(), dt.UTC) + dt.timedelta(hours=hours)
    for period in (f"{day:%Y-%m}", f"{day:%Y-%m-%d}"):
        captured = CHAT.during(period)
        if not captured.grows_at(now):
            assert not captured.grows_at(now + dt.timedelta(hours=1))
    # A day is over before its month is.
    assert CHAT.during(f"{day:%Y-%m-%d}").grows_at(now) <= CHAT.during(f"{day:%Y-%m}").grows_at(now)


PERCENTAGES: list[tuple[int | None, str, str]] = [
    (None, "data_capture", "DataCapture(bucket=...)"),
    (0, "data_capture.sampling_percentage", "1 to 100"),
    (1, "", ""),
    (100, "", ""),
]


@pytest.mark.parametrize(("percentage", "location", "fix"), PERCENTAGES)
def test_an_endpoint_has_captured_traffic_where_it_captures(percentage: int | None, location: str, fix: str) -> None:
    found = [(each.rule, each.location, each.suggestion) for each in check(CapturedEndpoint(percentage))]
    assert found == ([("OPT213", location, fix)] if location else [])
