"""How many drafts of speculative decoding a server verified, and how many of their tokens it accepted.

vLLM counts both at ``/metrics`` (0.30, ``v1/spec_decode/metrics.py``), beside its API and without its key. A server
that has no such page, or does not speculate, says nothing.
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
    """What was counted: drafts, and the tokens of them that were accepted."""

    drafts: float = 0.0
    accepted: float = 0.0

    def since(self, before: Drafts) -> Drafts:
        """What came after ``before``; all of it where the server began anew meanwhile."""
        if self.drafts < before.drafts:
            return self
        return Drafts(self.drafts - before.drafts, self.accepted - before.accepted)


async def count_drafts(url: str | None) -> Drafts:
    """What the server at a URL has counted since it started."""
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
    # Of a URL that the user has named, which is checked to be HTTP.
    with urllib.request.urlopen(url, timeout=_SECONDS) as response:  # noqa: S310
        return response.read(_LARGEST_PAGE).decode("utf-8", "replace")
