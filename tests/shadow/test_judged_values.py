"""The numbers of shadow verdicts on runs that are made from seeds: a change shows in a file.

``pytest tests/shadow/test_judged_values.py --snapshot-update`` writes it. Whether the numbers are right is told by
test_verdict.py, test_sequential_test.py and ``bench/verdicts``.
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import asdict
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.runtime.shadow.checks import Check
from constructs_optim.runtime.shadow.sequential_test import (
    ANSWERS_LEVEL,
    LOOKS,
    Counts,
    Looks,
    announced_pairs,
    interval,
    pairs_needed,
)
from constructs_optim.runtime.shadow.verdict import (
    Criteria,
    Observed,
    add_minute,
    add_pair,
    add_requests,
    pairs_expected,
    verdict,
)

from ..support.rounding import rounded

CRITERIA = Criteria([Check("reference"), Check("exact_match", at_least=0.9)], margin=0.02, latency_tolerance=0.1)
PAIRS_A_MINUTE, REQUESTS_A_MINUTE = 15, 40
# The share of worse answers, of answers that cannot be judged, how much slower, the shares of failures, turns, minutes.
RUNS: dict[str, tuple[float, float, float, float, float, int, int]] = {
    "equal": (0.01, 0.0, 1.0, 0.01, 0.01, 1, 200),
    "equal for long": (0.005, 0.0, 1.0, 0.001, 0.001, 1, 700),
    "worse answers": (0.06, 0.0, 1.0, 0.01, 0.01, 1, 200),
    "slower": (0.01, 0.0, 1.4, 0.01, 0.01, 1, 200),
    "failing": (0.01, 0.0, 1.0, 0.01, 0.06, 1, 200),
    "without failures": (0.01, 0.0, 1.0, 0.0, 0.0, 1, 130),
    "unjudged": (0.01, 0.05, 1.0, 0.01, 0.01, 1, 200),
    "conversations": (0.02, 0.0, 1.0, 0.01, 0.01, 6, 200),
    "conversations, worse": (0.1, 0.01, 1.05, 0.02, 0.03, 6, 300),
    "few minutes": (0.05, 0.0, 1.5, 0.0, 0.2, 1, 20),
}


def observed_in(
    seed: str, worse: float, unjudged: float, slower: float, failing: float, candidate: float, turns: int, minutes: int
) -> Observed:
    """A run's observations. Outcomes are alike in a conversation, and requests fail together in some minutes."""
    chance, observed = random.Random(seed), Observed()
    outcomes: dict[int, Counts | str] = {}
    for minute in range(minutes):
        for pair in range(PAIRS_A_MINUTE):
            number = minute * PAIRS_A_MINUTE + pair
            conversation, turn = divmod(number, turns)
            drawn = chance.random()
            found = Counts(worse=1) if drawn < worse else Counts(better=1) if drawn < 1.2 * worse else Counts(equal=1)
            kept = outcomes.setdefault(conversation, "no answer" if chance.random() < unjudged else found)
            texts = [f"Conversation {conversation}", *(f"turn {each}" for each in range(2 * turn))]
            roles = itertools.cycle(("user", "assistant"))
            request: dict[str, object] = {
                "messages": [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
            }
            add_pair(observed, CRITERIA, request, minute, lambda _, kept=kept: kept)
        latencies = [chance.lognormvariate(0, 0.1) for _ in range(2)]
        add_minute(observed, CRITERIA, latencies[0], latencies[1] * slower)
        bad = 4 if minute % 10 == 0 else 2 / 3
        failed = [
            sum(chance.random() < share * bad for _ in range(REQUESTS_A_MINUTE)) for share in (failing, candidate)
        ]
        add_requests(observed, minute, (REQUESTS_A_MINUTE, failed[0]), (REQUESTS_A_MINUTE + 1, failed[1]))
    return observed


def test_each_run_has_the_findings_that_it_had(snapshot: SnapshotAssertion) -> None:
    found: dict[str, Any] = {}
    for name, given in RUNS.items():
        observed = observed_in(name, *given)
        # What is stored between polls is all that a verdict needs.
        observed = Observed.model_validate_json(observed.model_dump_json())
        judged = verdict(observed, CRITERIA)
        found[name] = {
            "outcome": judged.outcome,
            "pairs": [observed.pairs, observed.effective_pairs, pairs_expected(observed, CRITERIA)],
            **{each.measure: {key: rounded(of) for key, of in asdict(each).items()} for each in judged.findings},
        }
    assert found == snapshot.use_extension(JSONSnapshotExtension)


def test_each_test_has_the_bounds_that_it_had(snapshot: SnapshotAssertion) -> None:
    counts = [Counts(worse, equal, better) for worse in (0, 3, 40) for equal in (0, 25, 500) for better in (0, 7)]
    found: dict[str, Any] = {
        "intervals": {
            json.dumps(asdict(each)): [rounded(end) for end in interval(each)] for each in counts if each.pairs
        },
        "announced": {
            f"{margin:g}, {checks}": announced_pairs(margin, checks) for margin in (0.01, 0.05) for checks in (1, 3)
        },
        "needed": {
            f"{margin:g}, {share:g}": pairs_needed(margin, share, ANSWERS_LEVEL)
            for margin in (0.01, 0.03)
            for share in (0.03, 0.2)
        },
        "called": {},
    }
    for share in (0.5, 0.6, 0.8):
        looks = Looks(ANSWERS_LEVEL, 0.0, None)
        for number in range(1, 600):
            if number in LOOKS:
                looks.look(share * number, number, number)
        found["called"][f"{share:g}"] = [looks.called, rounded(looks.spent)]
    assert found == snapshot.use_extension(JSONSnapshotExtension)
