"""The acceptance length of speculative decoding while an evaluation ran, which CloudWatch's PromQL knows.

A benchmark job cannot reach the container's own metrics, and SageMaker publishes them a while after they are collected.
Sources: CloudWatch user guide, "QueryMetrics" (``/api/v1/query``, whose response is Prometheus') and "PromQL querying"
(signed for ``monitoring``).
"""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections.abc import Sequence
from urllib.parse import urlencode

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.httpsession import URLLib3Session

from ..aws import client, session
from ..documents import is_list, list_in, nested
from ..requests.run_properties import EvaluationRequest
from ..telemetry import log
from .benchmark_output import Level

# As often as SageMaker collects them, and how late CloudWatch may have the last ones.
_COLLECTED_SECONDS, _LATE_SECONDS = 60, 180


def seconds_until_published(ended: dt.datetime | None) -> int:
    """How long to wait until CloudWatch has what was collected by then; 0 where it has, or nobody knows."""
    if ended is None:
        return 0
    # SageMaker's clock may be ahead of this function's.
    return min(_LATE_SECONDS, max(0, math.ceil(ended.timestamp() + _LATE_SECONDS - time.time())))


def with_acceptance(request: EvaluationRequest, levels: Sequence[Level]) -> tuple[list[Level], list[str]]:
    """The levels with their acceptance length, as far as it is known, and notes about those without."""
    acceptance, found, missing = request.acceptance, list[Level](), list[str]()
    if acceptance is None:
        return list(levels), []
    for level in levels:
        # What was collected just before and just after belongs to it, too.
        window, at = math.ceil(level.seconds) + 2 * _COLLECTED_SECONDS, (level.ended or 0) + _COLLECTED_SECONDS
        length = _asked(acceptance.length, window, at) if level.ended is not None else None
        if length is None:
            missing.append(str(level.concurrency))
            found.append(level)
            continue
        rate = _asked(acceptance.drafts, window, at) if acceptance.drafts is not None else None
        found.append(level.accepting(length, round(rate * window) if rate is not None else None))
    users = " and ".join(missing)
    notes = [f"CloudWatch has no acceptance length of the time with {users} users."] if missing else []
    return found, notes


def _asked(query: str, window: int, at: float) -> float | None:
    """The one value of a query at a time; None where there is none."""
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
        document: object = json.loads(response.text) if response.status_code == 200 else None
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
