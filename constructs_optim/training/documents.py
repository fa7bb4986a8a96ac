"""JSON documents of users, models, and hubs."""

from __future__ import annotations

import json
from typing import Any


def json_value(content: str | bytes) -> Any:
    """Return the value of a JSON document.

    Raises:
        ValueError: if it is not JSON in UTF-8, has more nested levels than Python's parser allows, or text that cannot
            be written as UTF-8 (half a surrogate pair).
    """
    try:
        value = json.loads(content)
        # Tokenizers refuse such text much later, without a line. The parser makes it from escapes alone.
        if ("\\ud" if isinstance(content, str) else b"\\ud") in content.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it has too many nested levels") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"its text has half a surrogate pair, {error.object[error.start]!r}") from None
    return value
