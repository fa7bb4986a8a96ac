"""Sends a custom resource's response and a wait condition's signal to CloudFormation.

Both are PUT requests to pre-signed URLs, which are secrets. Reasons are redacted like log lines.
Sources: AWS CloudFormation user guide, "Custom resource response objects" and "Create wait conditions".
"""

from __future__ import annotations

import datetime as dt
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import NotRequired, TypedDict
from urllib.parse import parse_qs, urlsplit

from .telemetry import log, redacted

# "The total size of the response body can't exceed 4096 bytes" (Custom resource response objects), as for a wait
# condition (CloudFormation quotas, "Wait condition data").
_BODY_LIMIT = 4000
_ATTEMPTS = 5


class Event(TypedDict):
    """A request of CloudFormation's (user guide, "Custom resource request objects")."""

    RequestType: str
    RequestId: str
    ResponseURL: str
    StackId: str
    LogicalResourceId: str
    PhysicalResourceId: NotRequired[str]
    ResourceProperties: Mapping[str, object]
    OldResourceProperties: NotRequired[Mapping[str, object]]


def issued_at(response_url: str) -> int:
    """When a request was sent, in seconds since 1970, by its pre-signed URL; 0 without a date."""
    query = parse_qs(urlsplit(response_url).query)
    try:
        date = dt.datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ")
    except (KeyError, ValueError):
        return 0
    return int(date.replace(tzinfo=dt.UTC).timestamp())


def account_and_region(event: Event) -> tuple[str, str]:
    """The account and region of the stack."""
    region, account = event["StackId"].split(":")[3:5]
    return account, region


def respond(
    event: Event, *, physical_id: str, failure: str | None = None, data: Mapping[str, str] | None = None
) -> None:
    """Respond to a custom resource event with SUCCESS, or with FAILED and the reason ``failure``."""
    _put(
        event["ResponseURL"],
        {
            "Status": "SUCCESS" if failure is None else "FAILED",
            "Reason": redacted(failure or "done"),
            "PhysicalResourceId": physical_id,
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
            "Data": dict(data or {}),
        },
    )


def signal(handle: str, *, failure: str | None = None, data: str = "") -> None:
    """Signal a wait condition, which may have been deleted with its stack."""
    body = {
        "Status": "SUCCESS" if failure is None else "FAILURE",
        "Reason": redacted(failure or "the artifact is ready"),
        # CloudFormation treats a signal with the same id as a retransmission.
        "UniqueId": "artifact",
        "Data": data,
    }
    try:
        _put(handle, body)
    except urllib.error.HTTPError as error:
        if error.code not in (403, 404):
            raise
        log("wait condition is gone", status=error.code)


def _fitting(body: Mapping[str, object]) -> bytes:
    """The body as JSON, with its reason shortened to the size limit."""
    reason, end = str(body["Reason"]), ""
    while True:
        # UTF-8 is shorter than \\uXXXX; surrogates become question marks.
        payload = json.dumps({**body, "Reason": reason + end}, ensure_ascii=False).encode(errors="replace")
        beyond = len(payload) - _BODY_LIMIT
        if beyond <= 0 or not reason:
            return payload
        # A character takes six bytes at most.
        reason, end = reason[: min(_BODY_LIMIT, len(reason) - max(1, beyond // 6))], "..."


def _put(url: str, body: Mapping[str, object]) -> None:
    payload = _fitting(body)
    # S3's pre-signed URLs are signed for an empty Content-Type. Handles are checked in requests/fields.py; response
    # URLs come from CloudFormation.
    request = urllib.request.Request(url, data=payload, method="PUT", headers={"Content-Type": ""})  # noqa: S310
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=10):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == _ATTEMPTS:
                raise
        except OSError:
            if attempt == _ATTEMPTS:
                raise
        time.sleep(0.2 * 2**attempt)
