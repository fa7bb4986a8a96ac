"""How often schedules run."""

from __future__ import annotations

import pytest

from constructs_optim.recipe.hosting.schedules import longest_interval_days


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("rate(1 day)", 1),
        ("rate(12 hours)", 0.5),
        ("rate(90 minutes)", 90 / 1_440),
        ("cron(0 6 * * ? *)", 1),
        ("cron(0 6 ? * MON-FRI *)", 3),
        # Every day but Tuesday to Thursday.
        ("cron(0 6 ? * FRI-MON *)", 4),
        ("cron(0 6 ? * SUN,WED *)", 4),
        ("cron(0 6 ? * 2/3 *)", 4),
        ("cron(0 6 1,15 * ? *)", 17),
        ("cron(0 6 1 * ? *)", 31),
        ("cron(0 6 ? NOV-FEB MON *)", 252),
        # From January to December of a leap year.
        ("cron(0 6 10 DEC-JAN ? *)", 335),
        ("cron(0 6 29 2 ? *)", 1_461),
        ("cron(0 6 L * ? *)", 28),
        ("cron(0 6 ? * 6L *)", 28),
        ("cron(0 6 L,15 * ? *)", None),
        ("at(2027-01-31T07:00:00)", None),
    ],
)
def test_the_longest_time_between_two_runs_is_known(expression: str, days: float | None) -> None:
    assert longest_interval_days(expression) == days
