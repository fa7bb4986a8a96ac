"""A variant's failed requests, from what SageMaker counts: ``failed_requests.json``.

The alarms have the same definition, but leave out requests that the model refused with a 4xx status, which is the
callers' mistake (docs/alarms.md). Here they count: both variants get the same requests, so that only the candidate can
be the reason if it refuses more of them. ``tooling/reference_pages.py`` writes the file from
``recipe/metrics/definitions.toml``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from ..formula import calculate


class _Definition(TypedDict):
    formula: str
    metrics: dict[str, str]


_DEFINITION: _Definition = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
METRICS = _DEFINITION["metrics"]
"""CloudWatch's metrics that count failures of a variant, by the names in the formula."""


def failed_requests(counted: Mapping[str, float]) -> float:
    """Return the failed requests of a minute, from the sums of ``METRICS``; SageMaker may publish none of them."""
    sums = {**dict.fromkeys(METRICS, 0.0), **counted}
    return (calculate(_DEFINITION["formula"], sums) or 0.0) + sums["invocation_4xx_errors"]
