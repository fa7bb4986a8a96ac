"""The report of a preflight."""

from __future__ import annotations

from constructs_optim.runtime.preflight.report import Report, advice, problem


def test_a_finding_is_final_unless_a_new_permission_may_be_its_cause() -> None:
    """A report that is not final is made again until permissions are effective."""
    found = (problem("quotas", "too few", "ask for more"), advice("networks", "not known", "look"))
    assert not Report(found, 2).is_early
    assert Report((*found, problem("role", "it may not", "allow it", is_early=True)), 3).is_early


def test_the_reason_of_one_problem() -> None:
    report = Report((problem("quota", "too few", "ask for more"), advice("network", "not known", "look")), 2)
    expected = "preflight found 1 problem; nothing was started. (1) quota: too few. Next: ask for more."
    assert report.reason("/aws/lambda/preflight") == expected


def test_a_deployment_that_may_not_start_the_subjects_gets_advice_alone() -> None:
    report = Report((problem("quota", "too few", "ask for more"), advice("network", "not known", "look")), 2)
    assert report.as_advice().problems == ()
    assert [each.text for each in report.as_advice().advice] == ["too few", "not known"]
    assert [each.text for each in report.advice] == ["not known"]
