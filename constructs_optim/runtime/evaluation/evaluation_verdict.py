"""What becomes of an evaluation: what it is compared with, whether it is let through, and what the stack is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..requests.evaluation_properties import EvaluationRequest
from ..store.evaluation_records import EvaluationRecords
from .endpoint_answers import compare
from .gate import Answers, misses

_NEXT_STEP = "Next: keep the recipe that was in service, or change requirements and recipe, and deploy again"
Values = Mapping[int, Mapping[str, float]]


class Verdict:
    """Judges the run of an evaluation that counts.

    Args:
        request: what was asked for.
        records: of this evaluation.
        before: of what it replaces; None where it replaces nothing.
    """

    def __init__(
        self, request: EvaluationRequest, records: EvaluationRecords, before: EvaluationRecords | None
    ) -> None:
        self._request, self._records = request, records
        decision = before.current() if before is not None else None
        # What was not let through is no measure for what comes after it.
        self._before = before if decision is not None and decision.get("accepted") else None
        self._decision_before = decision if self._before is not None else None

    def misses(self, run: str) -> list[str]:
        """All that is not as required; empty where nothing is required."""
        gate = self._request.gate
        if gate is None:
            return []
        result = self._records.run_result(run)
        earlier = self._before.result() if self._before is not None else None
        return misses(gate, _values(result), _values(earlier), self._answers(run))

    def refusal(self, found: list[str]) -> str | None:
        """What the stack is told; None where nothing is missed."""
        if not found:
            return None
        place = f"evaluations/{self._records.key}/"
        return (
            f"{self._request.label} does not come to what is required: {'; '.join(found)}. Report: "
            f"s3://{self._records.bucket}/{place}. {_NEXT_STEP}"
        )

    def decision(self, run: str, found: list[str]) -> dict[str, Any]:
        """What is written down."""
        return {
            "accepted": not found,
            "before": self._before.key if self._before is not None else None,
            "lossless": self._request.lossless,
            "misses": found,
            "run": run,
        }

    def _answers(self, run: str) -> Answers | None:
        kept = self._records.answers(run)
        if kept is None or self._request.gate is None or self._request.gate.quality is None:
            return None
        answers, references = kept["answers"], kept["references"]
        if any(reference is not None for reference in references):
            return compare(answers, references, same_weights=False, with_what="the reference answers")
        decision = self._decision_before
        earlier = self._before.answers(decision["run"]) if self._before is not None and decision is not None else None
        if earlier is None or earlier.get("prompts_digest") != kept["prompts_digest"]:
            # Nothing to compare with: all there is to require is that there are answers.
            return compare(answers, [], same_weights=False, with_what="nothing")
        same_weights = self._request.lossless and bool(decision and decision.get("lossless"))
        return compare(answers, earlier["answers"], same_weights=same_weights, with_what="those of what it replaces")


def _values(result: Mapping[str, Any] | None) -> dict[int, dict[str, float]]:
    return {level["concurrency"]: level["metrics"] for level in (result or {}).get("levels", [])}
