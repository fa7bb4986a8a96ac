"""The report of a preflight."""

from __future__ import annotations

from constructs_optim.runtime.preflight.report import Report, advice, problem


def test_a_finding_is_final_unless_a_new_permission_may_be_its_cause() -> None:
    """A report that is not final is made again until permissions are effective."""
    found = (problem("quotas", "too few", "ask for more"), advice("networks", "not known", "look"))
    assert not Report(found, 2).is_early
    assert Report((*found, problem("role", "it may not", "allow it", is_early=True)), 3).is_early
