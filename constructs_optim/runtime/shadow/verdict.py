"""The verdict on a candidate: the counts, what they show, and with which certainty.

*Worse*: at least one measure calls the candidate worse. The measures share the level (Bonferroni), so that together
they call an equal candidate worse in at most ``LEVEL`` of the runs. *Pass*: every measure shows that the candidate
is not worse by its margin. Because all must show it, each may use the whole level. Otherwise: *not decided*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from .checks import AGREEMENT, Check
from .sequential_test import (
    ANSWERS_LEVEL,
    ERRORS_LEVEL,
    LATENCY_LEVEL,
    LEVEL,
    Counts,
    Looks,
    announced_pairs,
    interval,
    is_below,
    pairs_needed,
)

Outcome = Literal["worse", "pass", "not decided"]
RATIOS = (0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
"""The latency ratios that can bound the reported interval, besides the accepted one."""
_FEW = 100


@dataclass(frozen=True)
class Criteria:
    """A run's criteria; see ``docs/shadow.md``. ``latency_tolerance`` and ``margin`` are shares."""

    checks: Sequence[Check]
    margin: float
    latency_tolerance: float

    @property
    def answer_level(self) -> float:
        """The significance level of each check of answers."""
        return ANSWERS_LEVEL / max(1, len(self.checks))

    @property
    def announced_pairs(self) -> int | None:
        """The number of pairs that detects a candidate worse by the margin, if a tenth of the pairs differ."""
        return announced_pairs(self.margin, len(self.checks))


class Tally(BaseModel):
    """A measure's pairs, and the state of its sequential test. ``unjudged`` are pairs that could not be compared."""

    worse: int = 0
    equal: int = 0
    better: int = 0
    unjudged: int = 0
    spent: float = 0.0
    called: int | None = None

    @property
    def counts(self) -> Counts:
        """The numbers of pairs in which the candidate is worse, equal and better."""
        return Counts(self.worse, self.equal, self.better)

    def add(self, counted: Counts, level: float, chance: float | None = None) -> None:
        """Add an observation and run the test; ``chance`` is the accepted probability of a disagreement."""
        self.worse, self.equal, self.better = (
            self.worse + counted.worse,
            self.equal + counted.equal,
            self.better + counted.better,
        )
        looks = Looks(level, self.spent, self.called)
        counts = self.counts
        if chance is None:
            looks.look(counts.worse, counts.worse + counts.better, counts.pairs)
        else:
            looks.look(counts.worse, counts.pairs, counts.pairs, chance)
        self.spent, self.called = looks.spent, looks.called


class Errors(BaseModel):
    """Requests and failed requests of both variants."""

    production: int = 0
    production_failed: int = 0
    candidate: int = 0
    candidate_failed: int = 0
    spent: float = 0.0
    called: int | None = None


class Observed(BaseModel):
    """All counts so far, in the order of the checks; ``ratios`` are counts of minutes, by the ratio of latencies."""

    pairs: int = 0
    answers: list[Tally] = []
    ratios: dict[str, Tally] = {}
    errors: Errors = Errors()


@dataclass(frozen=True)
class Finding:
    """A measure's finding. ``low`` and ``high`` are the 95% bounds of the estimate, at all times at once."""

    measure: str
    outcome: Outcome
    observations: int
    unit: str
    estimate: float | None
    low: float | None
    high: float | None
    accepted: str
    level: float
    called_after: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict from all findings."""

    outcome: Outcome
    findings: Sequence[Finding] = field(default_factory=tuple[Finding, ...])


def add_pair(observed: Observed, criteria: Criteria, outcomes: Sequence[Counts | str | None]) -> None:
    """Count a pair; its outcomes are in the order of the checks: None if a check does not apply, text if it failed."""
    observed.pairs += 1
    while len(observed.answers) < len(criteria.checks):
        observed.answers.append(Tally())
    for check, tally, counted in zip(criteria.checks, observed.answers, outcomes, strict=True):
        if isinstance(counted, str):
            tally.unjudged += 1
        elif counted is not None:
            tally.add(counted, criteria.answer_level, _accepted_disagreement(check))


def add_minute(observed: Observed, criteria: Criteria, production: float, candidate: float) -> None:
    """Count a minute in which both variants answered, with their latencies."""
    for ratio in _ratios(criteria):
        is_slower = candidate > ratio * production
        tally = observed.ratios.setdefault(f"{ratio:g}", Tally())
        tally.add(Counts(worse=1) if is_slower else Counts(better=1), LATENCY_LEVEL)


def add_requests(observed: Observed, production: tuple[int, int], candidate: tuple[int, int]) -> None:
    """Count both variants' requests and failed requests."""
    errors = observed.errors
    errors.production += production[0]
    errors.production_failed += min(production)
    before = errors.candidate
    errors.candidate += candidate[0]
    errors.candidate_failed += min(candidate)
    failed, total = errors.candidate_failed, errors.candidate_failed + errors.production_failed
    looks = Looks(ERRORS_LEVEL, errors.spent, errors.called)
    # If both variants are equal, the candidate's share of failures is its share of requests. A minute may pass several
    # looks; only one of them runs.
    share = errors.candidate / max(1, errors.candidate + errors.production)
    looks.look_between(failed, total, before, errors.candidate, share)
    errors.spent, errors.called = looks.spent, looks.called


def verdict(observed: Observed, criteria: Criteria) -> Verdict:
    """Return the verdict from the observations so far."""
    findings = [
        *(_of_answers(check, tally, criteria) for check, tally in _tallies(observed, criteria)),
        _of_latency(observed, criteria),
        _of_errors(observed.errors, criteria),
    ]
    outcomes = {finding.outcome for finding in findings}
    outcome: Outcome = "worse" if "worse" in outcomes else "pass" if outcomes == {"pass"} else "not decided"
    return Verdict(outcome, findings)


def pairs_expected(observed: Observed, criteria: Criteria) -> int | None:
    """Return the number of needed pairs, from the share of pairs that differ so far."""
    differing = [
        (tally.worse + tally.better) / tally.counts.pairs
        for check, tally in _tallies(observed, criteria)
        if check.kind not in AGREEMENT and tally.counts.pairs >= _FEW
    ]
    if not differing:
        return criteria.announced_pairs
    share = max(criteria.margin, round(max(differing), 2))
    return pairs_needed(criteria.margin, share, criteria.answer_level)


def _tallies(observed: Observed, criteria: Criteria) -> list[tuple[Check, Tally]]:
    missing = [Tally() for _ in range(len(criteria.checks) - len(observed.answers))]
    return list(zip(criteria.checks, [*observed.answers, *missing], strict=True))


def _accepted_disagreement(check: Check) -> float | None:
    return 1 - check.at_least if check.kind in AGREEMENT and check.at_least is not None else None


def _of_answers(check: Check, tally: Tally, criteria: Criteria) -> Finding:
    counts, bound = tally.counts, _accepted_disagreement(check)
    agreement = bound is not None
    # The candidate's answers may be why a check fails, so that these pairs count against a pass.
    passed = is_below(counts + Counts(worse=tally.unjudged), criteria.margin if bound is None else bound)
    low, high = interval(counts) if counts.pairs else (None, None)
    # Disagreement cannot be negative.
    low = max(0.0, low) if agreement and low is not None else low
    accepted = f"disagrees in at most {bound:.3g}" if agreement else f"worse by less than {criteria.margin:.3g}"
    return Finding(
        measure=check.kind,
        outcome=_outcome(tally.called, passed=passed),
        observations=counts.pairs,
        unit="pairs",
        estimate=counts.difference if counts.pairs else None,
        low=low,
        high=high,
        accepted=f"{accepted} of the pairs",
        level=criteria.answer_level,
        called_after=tally.called,
    )


def _of_latency(observed: Observed, criteria: Criteria) -> Finding:
    accepted = 1 + criteria.latency_tolerance
    tally = observed.ratios.get(f"{accepted:g}", Tally())
    slower = {float(name): each.counts for name, each in observed.ratios.items()}
    # The median is above a ratio if more than half of the minutes are shown to be above it, and below it likewise.
    low = max((ratio for ratio, counts in slower.items() if is_below(counts.reversed(), 0, LEVEL / 2)), default=None)
    high = min((ratio for ratio, counts in slower.items() if is_below(counts, 0, LEVEL / 2)), default=None)
    return Finding(
        measure="latency",
        outcome=_outcome(tally.called, passed=is_below(tally.counts, 0)),
        observations=tally.counts.pairs,
        unit="minutes",
        estimate=_median(slower),
        low=low,
        high=high,
        accepted=f"median ratio below {accepted:.3g}",
        level=LATENCY_LEVEL,
        called_after=tally.called,
    )


def _median(slower: Mapping[float, Counts]) -> float | None:
    """Return the highest ratio that at least half of the minutes exceed."""
    return max((ratio for ratio, counts in slower.items() if counts.worse >= counts.better), default=None)


def _of_errors(errors: Errors, criteria: Criteria) -> Finding:
    production = Counts(errors.production_failed, errors.production - errors.production_failed)
    candidate = Counts(errors.candidate_failed, errors.candidate - errors.candidate_failed)
    accepted = f"fails in less than {criteria.margin:.3g} more of the requests"
    if not (production.pairs and candidate.pairs):
        return Finding("errors", "not decided", candidate.pairs, "requests", None, None, None, accepted, ERRORS_LEVEL)
    # Each side has half of the level, so that both bounds hold at once.
    (least, most), (low, high) = interval(production, LEVEL / 2), interval(candidate, LEVEL / 2)
    bound = max(0.0, least) + criteria.margin
    return Finding(
        measure="errors",
        outcome=_outcome(errors.called, passed=is_below(candidate, bound, LEVEL / 2)),
        observations=candidate.pairs,
        unit="requests",
        estimate=candidate.difference - production.difference,
        low=max(0.0, low) - most,
        high=high - max(0.0, least),
        accepted=accepted,
        level=ERRORS_LEVEL,
        called_after=errors.called,
    )


def _outcome(called: int | None, *, passed: bool) -> Outcome:
    return "worse" if called is not None else "pass" if passed else "not decided"


def _ratios(criteria: Criteria) -> list[float]:
    return sorted({*RATIOS, 1 + criteria.latency_tolerance})
