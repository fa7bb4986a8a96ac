"""Reads what a server counts itself: completed requests, and drafts of speculative decoding.

vLLM publishes the counters at ``/metrics`` (0.30, ``v1/metrics/loggers.py`` and ``v1/spec_decode/metrics.py``), on its
API's port and without the API key. A server without this page has no counters, and one without speculative decoding has
none of drafts.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from urllib.parse import urlsplit

_NAMES = {
    "spec_decode_num_drafts": "drafts",
    "spec_decode_num_accepted_tokens": "accepted",
    "request_success": "requests",
}
_SAMPLE = re.compile(rf"^vllm:({'|'.join(_NAMES)})_total(?:\{{[^\n]*\}})? ([0-9.e+]+)$", re.MULTILINE)
_LARGEST_PAGE, _SECONDS = 10_000_000, 5


@dataclass(frozen=True)
class ServerCounters:
    """The numbers of completed requests, of drafts, and of their accepted tokens."""

    drafts: float = 0.0
    accepted: float = 0.0
    requests: float = 0.0

    def since(self, before: ServerCounters) -> ServerCounters:
        """Return the counts since ``before``; all counts if the server restarted in the meantime."""
        if self.drafts < before.drafts or self.requests < before.requests:
            return self
        return ServerCounters(
            self.drafts - before.drafts, self.accepted - before.accepted, self.requests - before.requests
        )


async def read_counters(url: str | None) -> ServerCounters | None:
    """Return the counters of the server at a URL since its start; None if it has no readable page."""
    if url is None:
        return None
    parts = urlsplit(url)
    try:
        page = await asyncio.to_thread(_read, f"{parts.scheme}://{parts.netloc}/metrics")
    except (OSError, ValueError, HTTPException):
        return None
    counts = dict.fromkeys(_NAMES.values(), 0.0)
    for name, value in _SAMPLE.findall(page):
        counts[_NAMES[name]] += float(value)
    return ServerCounters(**counts)


def _read(url: str) -> str:
    # The URL comes from the user, and is checked to be HTTP.
    with urllib.request.urlopen(url, timeout=_SECONDS) as response:  # noqa: S310
        return response.read(_LARGEST_PAGE).decode("utf-8", "replace")
