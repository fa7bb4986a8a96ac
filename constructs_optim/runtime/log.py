"""One JSON object a line, so that CloudWatch Logs Insights can query the fields.

Property values are logged by name, never whole events: a custom resource event carries pre-signed URLs.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def log(message: str, **fields: Any) -> None:
    """Write one structured line to the function's log."""
    sys.stdout.write(json.dumps({"message": message, **fields}, default=str, sort_keys=True) + "\n")
