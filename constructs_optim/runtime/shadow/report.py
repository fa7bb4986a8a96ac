"""A shadow run's report: the compared variants, the number of pairs, the findings, and their error rates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..requests.shadow_properties import ShadowRequest
from .observation import RunState, criteria_of
from .sequential_test import LEVEL, POWER
from .verdict import Verdict, pairs_expected

_HEADINGS = {
    "worse": "The candidate is worse",
    "pass": "The candidate passes",
    "not decided": "Not decided",
}


def document(request: ShadowRequest, state: RunState, found: Verdict, reason: str, now: float) -> dict[str, Any]:
    """Return the report as JSON."""
    criteria = criteria_of(request)
    return {
        "outcome": found.outcome,
        "reason": reason,
        "endpoint_name": request.endpoint_name,
        "label": request.label,
        "production": request.production.model_dump(),
        "candidate": request.candidate.model_dump(),
        "sample_percent": request.sample_percent,
        "began": _time(state.began),
        "ended": _time(now),
        "pairs": state.observed.pairs,
        "effective_pairs": state.observed.effective_pairs,
        "unusable_captures": state.unusable,
        "unjudged_pairs": state.unjudged,
        "announced_pairs": criteria.announced_pairs,
        "needed_pairs": pairs_expected(state.observed, criteria),
        "margin": request.margin,
        "latency_tolerance": request.latency_tolerance,
        "error_rates": {"worse_though_equal": LEVEL, "pass_though_worse_by_the_margin": LEVEL, "power": POWER},
        "findings": [asdict(finding) for finding in found.findings],
    }


def markdown(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    production, candidate, rates = report["production"], report["candidate"], report["error_rates"]
    needed = report["needed_pairs"]
    lines = [
        f"# {_HEADINGS[report['outcome']]}: {report['label']}",
        "",
        f"{report['reason']}.",
        "",
        f"Endpoint `{report['endpoint_name']}`, {report['began']} to {report['ended']}. Production: artifact "
        f"`{production['artifact_key']}` on {production['instance_type']}. Candidate: artifact "
        f"`{candidate['artifact_key']}` on {candidate['instance_type']}, which got {report['sample_percent']:g}% "
        "of the requests.",
        "",
        f"{report['pairs']} pairs of answers, of which a check could not judge {report['unjudged_pairs']}, and "
        f"{report['unusable_captures']} captures that cannot be read as JSON objects. The pairs show as much as "
        f"{report['effective_pairs']} independent ones. Announced: {report['announced_pairs'] or 'more than 16,000'}. "
        f"Expected from the share of pairs that differ in this run: {needed or 'more than 16,000'}.",
        "",
        "| measure | outcome | observations | effective | difference | interval, 95% | accepted |",
        "| --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for finding in report["findings"]:
        low, high = _number(finding["low"]), _number(finding["high"])
        lines.append(
            f"| {finding['measure']} | {finding['outcome']} | {finding['observations']} {finding['unit']} "
            f"| {finding['effective']} | {_number(finding['estimate'])} | {low} to {high} | {finding['accepted']} |"
        )
    return "\n".join(
        [
            *lines,
            "",
            f"Over all measures, at most {rates['worse_though_equal']:.0%} of such runs call an equal candidate worse. "
            f"A candidate that is worse by the margin passes in at most "
            f"{rates['pass_though_worse_by_the_margin']:.0%}. Intervals hold at all times at once. The difference in "
            "latency is the median of the per-minute ratios of the candidate's latency to production's. The candidate "
            f"received {report['sample_percent']:g}% of production's requests.",
            "",
            "A prompt is one observation, however often it was sent. The effective number is that of independent "
            "observations that show as much: it is lower if observations of one conversation, or those that are alike "
            "or close in time, have the same outcome.",
            "",
        ]
    )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _time(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="seconds")
