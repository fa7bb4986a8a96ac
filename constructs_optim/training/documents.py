"""JSON documents of users, models, and hubs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .errors import TrainingError

# An escape in a JSON string; the group is half of a surrogate pair without its other half.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def json_value(content: bytes) -> Any:
    """Return the value of a JSON document.

    Raises:
        ValueError: if it is not JSON in UTF-8 (which has no byte order mark), has more nested levels than Python's
            parser allows, or text that cannot be written as UTF-8 (half a surrogate pair).
    """
    # Python's parser would also read UTF-16, UTF-32, and a byte order mark from bytes, but no server reads such a file.
    text = content.decode()
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark (EF BB BF): save it as UTF-8 without one")
    if (zero := text.find("\0")) >= 0:
        raise ValueError(f"it has a zero byte {_place(text, zero)}, as in UTF-16: save it as UTF-8")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it has too many nested levels") from None
    # Tokenizers refuse such text much later, without a line. Python's parser makes it from escapes.
    escapes = _ESCAPE.finditer(text) if "\\ud" in text.lower() else ()
    if (half := next((escape for escape in escapes if escape[1]), None)) is not None:
        raise ValueError(f"its text has half a surrogate pair, {half[0]}, {_place(text, half.start())}")
    return value


def json_object(path: Path, error: type[TrainingError]) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        TrainingError: of the type ``error``, if it is not a JSON object that ``json_value`` returns.
    """
    name = f"{path.parent.name}/{path.name}"
    try:
        value = json_value(path.read_bytes())
    except ValueError as problem:
        raise error(f"{name} is not JSON in UTF-8: {problem}") from None
    if not isinstance(value, dict):
        raise error(f"{name} is not a JSON object but {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """Return what a JSON value is, as messages say it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds[type(value)]


def _place(text: str, position: int) -> str:
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    return f"at line {line} column {column}"
