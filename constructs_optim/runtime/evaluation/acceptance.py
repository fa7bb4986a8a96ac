"""The acceptance length of speculative decoding during an evaluation, from CloudWatch's PromQL.

A benchmark job cannot reach the container's own metrics, and SageMaker publishes them some time after it collects them.
Sources: CloudWatch user guide, "QueryMetrics" (``/api/v1/query``, with Prometheus's response) and "PromQL querying"
(signed for ``monitoring``).
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Sequence
from urllib.parse import urlencode

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.httpsession import URLLib3Session

from ..aws import client, session
from ..documents import is_list, json_value, list_in, nested
from ..requests.run_properties import EvaluationRequest
from ..telemetry import log
from .benchmark_output import Level

# The interval at which SageMaker collects the metrics, and the longest delay until CloudWatch has them.
_COLLECTED_SECONDS, _LATE_SECONDS = 60, 180
# SageMaker developer guide, "Getting started with detailed observability".
_WHY = (
    "PromQL finds the metrics of engines only while OTel enrichment is running in this account and Region "
    "(aws cloudwatch get-otel-enrichment), and the function's log says if CloudWatch refused the query."
)


def seconds_until_published(ended: dt.datetime | None) -> int:
    """Return the seconds until CloudWatch has the metrics up to ``ended``; 0 if it has them or ``ended`` is unknown."""
    if ended is None:
        return 0
    # SageMaker's clock may be ahead of this function's.
    return min(_LATE_SECONDS, max(0, math.ceil(ended.timestamp() + _LATE_SECONDS - time.time())))


def with_acceptance(request: EvaluationRequest, levels: Sequence[Level]) -> tuple[list[Level], list[str]]:
    """Return the levels with their acceptance length where it is known, and notes about the other levels."""
    acceptance, found, missing = request.acceptance, list[Level](), list[str]()
    if acceptance is None:
        return list(levels), []
    for level in levels:
        # Values collected just before and just after the level belong to it, too.
        window, at = math.ceil(level.seconds) + 2 * _COLLECTED_SECONDS, (level.ended or 0) + _COLLECTED_SECONDS
        length = _asked(acceptance.length, window, at) if level.ended is not None else None
        if length is None:
            missing.append(str(level.concurrency))
            found.append(level)
            continue
        rate = _asked(acceptance.drafts, window, at) if acceptance.drafts is not None else None
        found.append(level.accepting(length, round(rate * window) if rate is not None else None))
    users = " and ".join(missing)
    notes = [f"CloudWatch has no acceptance length for the time with {users} users. {_WHY}"] if missing else []
    return found, notes


def _asked(query: str, window: int, at: float) -> float | None:
    """Return the single value of a query at time ``at``; None if there is none."""
    cloudwatch = client("cloudwatch")
    body = urlencode({"query": query.replace("$window", f"{window}s"), "time": f"{at:.0f}"})
    request = AWSRequest(
        "POST",
        f"{cloudwatch.meta.endpoint_url}/api/v1/query",
        data=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    credentials = session().get_credentials()
    if credentials is None:
        return None
    SigV4Auth(credentials, "monitoring", cloudwatch.meta.region_name).add_auth(request)
    try:
        response = URLLib3Session(timeout=20).send(request.prepare())
        document = json_value(response.content) if response.status_code == 200 else None
    except (BotoCoreError, ValueError) as error:
        log("no acceptance length", reason=str(error))
        return None
    if document is None:
        log("no acceptance length", status=response.status_code, reason=response.text[:500])
        return None
    results = list_in(nested(document, "data", "result"))
    value = nested(results[0], "value") if results else None
    try:
        number = float(str(value[1])) if is_list(value) and len(value) > 1 else math.nan
    except ValueError:
        number = math.nan
    return number if math.isfinite(number) else None
