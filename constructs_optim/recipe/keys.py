"""Keys of artifacts: hashes of exactly the inputs that determine their bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

# Part of every key. It stays: what comes to other bytes raises a version of its own, which apps record
# (training/settings.py). Another schema would make every artifact again.
KEY_SCHEMA = 1


def canonical(value: Any) -> str:
    """JSON with sorted keys and without white space: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sha256(text: str) -> str:
    """64 lowercase hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def artifact_key(recipe_key: str, source_identity: str) -> str:
    """The key of the artifact of a recipe (:attr:`JobPlan.recipe_key`) and a source.

    ``source_identity`` is ``hub:<hub>/<model id>@<version>`` or ``s3:<uri>#<fingerprint of the objects>``, followed by
    a line for each further input of the job.
    """
    return sha256(f"{recipe_key}\n{source_identity}")
