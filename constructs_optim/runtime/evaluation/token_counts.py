"""When a server's count of tokens and a tokenizer's differ: for evaluations in the cloud and on a laptop alike."""

from __future__ import annotations

NOTABLE_DIFFERENCE = 0.02
"""The largest relative difference between two counts of tokens that an evaluation does not mention."""
CONTRADICTION = 1.5
"""A server's count is wrong if the text has more than this many times as many tokens. A smaller excess may come from
text that tokenizes differently from how it was generated."""
