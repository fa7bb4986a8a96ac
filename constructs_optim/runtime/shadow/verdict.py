"""The verdict on a candidate: the counts, what they show, and with which certainty.

*Worse*: at least one measure calls the candidate worse. The measures share the level (Bonferroni), so that together
they call an equal candidate worse in at most ``LEVEL`` of the runs. *Pass*: every measure shows that the candidate
is not worse by its margin. Because all must show it, each may use the whole level. Otherwise: *not decided*.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from pydantic import BaseModel

from .captures import Document
from .checks import AGREEMENT, Check
from .clusters import Groups, KnownKeys, Spans, design_effect_of_series
from .sequential_test import (
    ANSWERS_LEVEL,
    ERRORS_LEVEL,
    LATENCY_LEVEL,
    LEVEL,
    LOOKS,
    Counts,
    Looks,
    announced_pairs,
    interval,
    is_below,
    pairs_needed,
)
from .units import Beginnings, Unit, unit_of

Outcome = Literal["worse", "pass", "not decided"]
FEWEST_MINUTES = 125
"""The number of minutes after which latency and errors are judged: fewer do not show whether a difference lasts."""
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
    """A check's outcomes, one for each prompt, and the state of its sequential test.

    ``unjudged`` are prompts that could not be compared. ``known`` are the prompts that were counted. ``conversations``,
    ``templates`` and ``spans`` are the outcomes by conversation, by the template of the prompt, and by time.
    """

    worse: int = 0
    equal: int = 0
    better: int = 0
    unjudged: int = 0
    known: KnownKeys = KnownKeys()
    conversations: Groups = Groups()
    templates: Groups = Groups()
    spans: Spans = Spans()
    spent: float = 0.0
    called: int | None = None

    @property
    def number(self) -> int:
        """The number of prompts that were compared."""
        return self.worse + self.equal + self.better

    @property
    def counts(self) -> Counts:
        """The numbers of prompts for which the candidate is worse, equal and better."""
        return Counts(self.worse, self.equal, self.better)

    @property
    def design_effect(self) -> float:
        """The design effect of conversations, templates or time, whichever is the largest."""
        return max(self.conversations.design_effect_with_one_more(self.counts.variance), self._other_design_effect)

    @property
    def _other_design_effect(self) -> float:
        variance = self.counts.variance
        return max(self.templates.design_effect(variance), self.spans.design_effect(variance))

    def _design_effect_if_equal(self, chance: float | None) -> float:
        """Return the design effect if the candidate is not worse, as the test of whether it is worse assumes."""
        mean = chance or 0.0
        variance = (self.worse + self.better) / self.number if chance is None else chance * (1 - chance)
        return max(self.conversations.design_effect_around(mean, variance), self._other_design_effect)

    def add(self, unit: Unit, minute: int, found: Counts | str, level: float, chance: float | None = None) -> None:
        """Add a prompt's outcome and run the test; ``chance`` is the accepted probability of a disagreement."""
        self.known.add(unit.key)
        if isinstance(found, str):
            self.unjudged += 1
            return
        value = int(found.worse - found.better)
        if value > 0:
            self.worse += 1
        elif value < 0:
            self.better += 1
        else:
            self.equal += 1
        self.conversations.add_of(unit.conversation, value)
        self.templates.add_of(unit.template, value)
        self.spans.add(minute, 1, value)
        if self.number not in LOOKS:
            return
        looks, counts = Looks(level, self.spent, self.called), self.counts.over(self._design_effect_if_equal(chance))
        if chance is None:
            looks.look(counts.worse, counts.worse + counts.better, self.number)
        else:
            looks.look(counts.worse, counts.pairs, self.number, chance)
        self.spent, self.called = looks.spent, looks.called


class Latency(BaseModel):
    """The logarithm of the candidate's latency by production's in each minute, and the state of the test."""

    ratios: list[float] = []
    spent: float = 0.0
    called: int | None = None

    @property
    def design_effect(self) -> float:
        """The design effect of time."""
        return design_effect_of_series(self.ratios)

    def above(self, ratio: float) -> Counts:
        """Return the number of minutes with a higher ratio, as ``worse``, and that of the others, as ``better``."""
        higher = sum(each > math.log(ratio) for each in self.ratios)
        return Counts(worse=higher, better=len(self.ratios) - higher)


class Requests(BaseModel):
    """A variant's requests and failed requests."""

    number: int = 0
    failed: int = 0
    spans: Spans = Spans()

    @property
    def counts(self) -> Counts:
        """The number of failed requests, as ``worse``, and that of the others, as ``equal``."""
        return Counts(worse=self.failed, equal=self.number - self.failed)

    def add(self, minute: int, number: int, failed: int) -> None:
        """Add a minute's requests."""
        self.number += number
        self.failed += min(number, failed)
        self.spans.add(minute, number, min(number, failed))


class Errors(BaseModel):
    """Both variants' requests in ``minutes``, and the state of the test."""

    minutes: int = 0
    production: Requests = Requests()
    candidate: Requests = Requests()
    spent: float = 0.0
    called: int | None = None

    @property
    def design_effect(self) -> float:
        """The larger of both design effects of time: a variant without failures does not show how they cluster."""
        return max(each.spans.design_effect(each.counts.variance) for each in (self.production, self.candidate))


class Observed(BaseModel):
    """All outcomes so far, those of the answers in the order of the checks. ``pairs`` are all pairs that were read."""

    pairs: int = 0
    beginnings: Beginnings = Beginnings()
    answers: list[Tally] = []
    latency: Latency = Latency()
    errors: Errors = Errors()

    @property
    def effective_pairs(self) -> int:
        """The number of independent pairs that show as much, for the check that has the most."""
        return max((int(tally.number / tally.design_effect) for tally in self.answers), default=0)


@dataclass(frozen=True)
class Finding:
    """A measure's finding.

    ``observations`` are those that are counted, and ``effective`` is how many independent ones show as much. ``low``
    and ``high`` are the 95% bounds of the estimate, at all times at once.
    """

    measure: str
    outcome: Outcome
    observations: int
    effective: int
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


def add_pair(
    observed: Observed,
    criteria: Criteria,
    request: Document,
    minute: int,
    outcome_of: Callable[[Check], Counts | str | None],
) -> list[str]:
    """Count a pair, unless its prompt is counted already; return why checks failed.

    ``minute`` is when it was sent, in minutes since the run began. ``outcome_of`` gives a check's outcome: None if the
    check does not apply, text if it failed.
    """
    observed.pairs += 1
    observed.answers += [Tally() for _ in range(len(criteria.checks) - len(observed.answers))]
    unit, failures = unit_of(request, observed.beginnings), list[str]()
    for check, tally in zip(criteria.checks, observed.answers, strict=True):
        found = outcome_of(check) if unit.key not in tally.known else None
        if found is not None:
            tally.add(unit, minute, found, criteria.answer_level, _accepted_disagreement(check))
        if isinstance(found, str):
            failures.append(found)
    return failures


def add_minute(observed: Observed, criteria: Criteria, production: float, candidate: float) -> None:
    """Count a minute in which both variants answered, with their latencies."""
    if production <= 0 or candidate <= 0:
        return
    latency = observed.latency
    latency.ratios.append(round(math.log(candidate / production), 4))
    minutes = len(latency.ratios)
    if minutes < FEWEST_MINUTES or minutes not in LOOKS:
        return
    looks = Looks(LATENCY_LEVEL, latency.spent, latency.called)
    slower = latency.above(1 + criteria.latency_tolerance).over(latency.design_effect)
    looks.look(slower.worse, slower.pairs, minutes)
    latency.spent, latency.called = looks.spent, looks.called


def add_requests(observed: Observed, minute: int, production: tuple[int, int], candidate: tuple[int, int]) -> None:
    """Count both variants' requests and failed requests in a minute since the run began."""
    errors = observed.errors
    errors.minutes += 1
    errors.production.add(minute, *production)
    errors.candidate.add(minute, *candidate)
    if errors.minutes < FEWEST_MINUTES or errors.minutes not in LOOKS:
        return
    looks, effect = Looks(ERRORS_LEVEL, errors.spent, errors.called), errors.design_effect
    # If both variants are equal, the candidate's share of failures is its share of requests.
    share = errors.candidate.number / max(1, errors.candidate.number + errors.production.number)
    failed = errors.candidate.failed / effect
    looks.look(failed, failed + errors.production.failed / effect, errors.minutes, share)
    errors.spent, errors.called = looks.spent, looks.called


def verdict(observed: Observed, criteria: Criteria) -> Verdict:
    """Return the verdict from the observations so far."""
    findings = [
        *(_of_answers(check, tally, criteria) for check, tally in _tallies(observed, criteria)),
        _of_latency(observed.latency, criteria),
        _of_errors(observed.errors, criteria),
    ]
    outcomes = {finding.outcome for finding in findings}
    outcome: Outcome = "worse" if "worse" in outcomes else "pass" if outcomes == {"pass"} else "not decided"
    return Verdict(outcome, findings)


def pairs_expected(observed: Observed, criteria: Criteria) -> int | None:
    """Return the number of needed pairs, from the share of pairs that differ so far."""
    differing = [
        (tally.worse + tally.better) / tally.number
        for check, tally in _tallies(observed, criteria)
        if check.kind not in AGREEMENT and tally.number >= _FEW
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
    bound, effect = _accepted_disagreement(check), tally.design_effect
    agreement, counts = bound is not None, tally.counts.over(effect)
    # The candidate's answers may be why a check fails, so that these pairs count against a pass.
    all_counts = (tally.counts + Counts(worse=tally.unjudged)).over(effect)
    passed = is_below(all_counts, criteria.margin if bound is None else bound)
    low, high = interval(counts) if tally.number else (None, None)
    # Disagreement cannot be negative.
    low = max(0.0, low) if agreement and low is not None else low
    accepted = f"disagrees in at most {bound:.3g}" if agreement else f"worse by less than {criteria.margin:.3g}"
    return Finding(
        measure=check.kind,
        outcome=_outcome(tally.called, passed=passed),
        observations=tally.number,
        effective=int(counts.pairs),
        unit="pairs",
        estimate=counts.difference if tally.number else None,
        low=low,
        high=high,
        accepted=f"{accepted} of the pairs",
        level=criteria.answer_level,
        called_after=tally.called,
    )


def _of_latency(latency: Latency, criteria: Criteria) -> Finding:
    accepted, minutes, effect = 1 + criteria.latency_tolerance, len(latency.ratios), latency.design_effect
    passed = minutes >= FEWEST_MINUTES and is_below(latency.above(accepted).over(effect), 0)
    # The median is below a ratio if it is shown that less than half of the minutes are above it.
    most = bisect_left(
        range(minutes // 2 + 1),
        True,
        key=lambda above: not is_below(Counts(worse=above, better=minutes - above).over(effect), 0, LEVEL / 2),
    )
    ordered = sorted(latency.ratios)
    return Finding(
        measure="latency",
        outcome=_outcome(latency.called, passed=passed),
        observations=minutes,
        effective=int(minutes / effect),
        unit="minutes",
        estimate=math.exp(median(ordered)) if ordered else None,
        low=math.exp(ordered[most - 1]) if most else None,
        high=math.exp(ordered[-most]) if most else None,
        accepted=f"median ratio below {accepted:.3g}",
        level=LATENCY_LEVEL,
        called_after=latency.called,
    )


def _of_errors(errors: Errors, criteria: Criteria) -> Finding:
    minutes, effect = errors.minutes, errors.design_effect
    production, candidate = errors.production.counts.over(effect), errors.candidate.counts.over(effect)
    known = bool(production.pairs and candidate.pairs)
    # Each side has half of the level, so that both bounds hold at once.
    (least, most), (low, high) = interval(production, LEVEL / 2), interval(candidate, LEVEL / 2)
    bound = max(0.0, least) + criteria.margin
    passed = known and minutes >= FEWEST_MINUTES and is_below(candidate, bound, LEVEL / 2)
    return Finding(
        measure="errors",
        outcome=_outcome(errors.called, passed=passed),
        observations=minutes,
        effective=int(minutes / effect),
        unit="minutes",
        estimate=candidate.difference - production.difference if known else None,
        low=max(0.0, low) - most if known else None,
        high=high - max(0.0, least) if known else None,
        accepted=f"fails in less than {criteria.margin:.3g} more of the requests",
        level=ERRORS_LEVEL,
        called_after=errors.called,
    )


def _outcome(called: int | None, *, passed: bool) -> Outcome:
    return "worse" if called is not None else "pass" if passed else "not decided"
