"""The whole way with a Llama model. A file a family, so that each is trained once, on one worker."""

from __future__ import annotations

import pytest

from .end_to_end import *  # noqa: F403 - the same tests

FAMILY = "llama"

pytestmark = pytest.mark.exhaustive
