"""Names for artifacts: hashes of what decides their bytes, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from typing import Any

# Part of every key: raised when the same recipe comes to mean other bytes, for instance by another default.
KEY_SCHEMA = 1


def canonical(value: Any) -> str:
    """JSON with sorted keys and no white space: one text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sha256(text: str) -> str:
    """64 lower-case hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def artifact_key(recipe_key: str, source_identity: str) -> str:
    """The key of the artifact that the recipe of :attr:`JobPlan.recipe_key` has from exactly that source.

    ``source_identity`` is ``hub:<hub>/<model id>@<version>`` or ``s3:<uri>#<fingerprint of the objects>``, followed by
    a line for everything else that the job reads.
    """
    return sha256(f"{recipe_key}\n{source_identity}")
