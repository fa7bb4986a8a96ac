"""Reads how many drafts of speculative decoding a server verified, and how many of their tokens it accepted.

vLLM counts both at ``/metrics`` (0.30, ``v1/spec_decode/metrics.py``), on its API's port and without the API key. A
server without this page, or without speculative decoding, has no counts.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from urllib.parse import urlsplit

_SAMPLE = re.compile(r"^vllm:spec_decode_num_(drafts|accepted_tokens)_total(?:\{[^\n]*\})? ([0-9.e+]+)$", re.MULTILINE)
_LARGEST_PAGE, _SECONDS = 10_000_000, 5


@dataclass(frozen=True)
class Drafts:
    """The numbers of drafts, and of their accepted tokens."""

    drafts: float = 0.0
    accepted: float = 0.0

    def since(self, before: Drafts) -> Drafts:
        """Return the counts since ``before``; all counts if the server restarted in the meantime."""
        if self.drafts < before.drafts:
            return self
        return Drafts(self.drafts - before.drafts, self.accepted - before.accepted)


async def count_drafts(url: str | None) -> Drafts:
    """Return the counts of the server at a URL since its start."""
    if url is None:
        return Drafts()
    parts = urlsplit(url)
    try:
        page = await asyncio.to_thread(_read, f"{parts.scheme}://{parts.netloc}/metrics")
    except (OSError, ValueError, HTTPException):
        return Drafts()
    counts = {"drafts": 0.0, "accepted_tokens": 0.0}
    for name, value in _SAMPLE.findall(page):
        counts[name] += float(value)
    return Drafts(counts["drafts"], counts["accepted_tokens"])


def _read(url: str) -> str:
    # The URL comes from the user, and is checked to be HTTP.
    with urllib.request.urlopen(url, timeout=_SECONDS) as response:  # noqa: S310
        return response.read(_LARGEST_PAGE).decode("utf-8", "replace")
