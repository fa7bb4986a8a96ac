"""Keys of artifacts: hashes of exactly the inputs that determine their bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

# Part of every key. Do not change it: code that writes other bytes increases its own version, which apps record
# (training/settings.py). Another schema would rebuild every artifact.
KEY_SCHEMA = 1


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and without white space, so that equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sha256(text: str) -> str:
    """Return 64 lowercase hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def artifact_key(recipe_key: str, source_identity: str) -> str:
    """Return the artifact key for a recipe (``JobPlan.recipe_key``) and a source.

    ``source_identity`` is ``hub:<hub>/<model id>@<version>`` or ``s3:<uri>#<fingerprint of the objects>``, followed by
    a line for each further input of the job.
    """
    return sha256(f"{recipe_key}\n{source_identity}")
