"""The whole way with a Mistral model. A file a family, so that each is trained once, on one worker."""

from __future__ import annotations

from .end_to_end import *  # noqa: F403 - the same tests

FAMILY = "mistral"
