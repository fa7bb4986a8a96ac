"""Why an evaluation cannot go on."""

from __future__ import annotations


class EvaluationError(Exception):
    """What stands in the way, and what would help, in words for whoever started the evaluation."""
