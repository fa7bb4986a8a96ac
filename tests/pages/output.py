"""What a page shows, compared with what a command printed, without what differs from run to run."""

from __future__ import annotations

import difflib
import re
from collections import Counter

from .page import ELISION

_VARYING = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:port"),
    # How long the command itself took. Other durations are figures, which the page must have right.
    (r"\b((?:Done|passed) in) \d+(?:\.\d+)? ?s\b", r"\1 seconds"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00:00|Z)?", "time"),
    (r"(SECRET_ACCESS_KEY=)\S+", r"\1secret"),
    # The reader's own account.
    (r"\b\d{12}\b", "account"),
    # The store's part of a job's name; the random end of names that CloudFormation gives.
    (r"(optim-[0-9a-f]{32})-[0-9a-f]{8}", r"\1-store"),
    (r"(s3://[a-z0-9]+-[a-z0-9]+)-[0-9a-f]{13}", r"\1-bucket"),
    (r"\b([A-Z]\w*-\w+)-[0-9A-F]{12,13}\b", r"\1-name"),
    # The handlers' code.
    (r"[0-9a-f]{64}\.zip", "code.zip"),
)
_DURATION = (r"\b\d+(?:\.\d+)? s\b", "seconds")


def normalized(text: str, *, durations_vary: bool = False) -> list[str]:
    """The lines of a text, with a word in place of each time, port and generated name."""
    for pattern, same in (*_VARYING, *([_DURATION] if durations_vary else [])):
        text = re.sub(pattern, same, text)
    if durations_vary:
        # Durations of another length move the columns of a table.
        text = re.sub(r"  +", "  ", text)
    lines = [re.sub(r" +#", " #", line.rstrip()) for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def difference(shown: str, printed: str, *, any_order: bool = False, durations_vary: bool = False) -> str:
    """How a command's output differs from what the page shows; empty if it does not.

    A line ``...`` of the page stands for any number of lines, also none.
    """
    expected, actual = (normalized(text, durations_vary=durations_vary) for text in (shown, printed))
    has_elisions = any(line.strip() == ELISION for line in expected)
    if any_order:
        wanted = Counter(line for line in expected if line.strip() != ELISION)
        found = Counter(actual)
        is_same = wanted <= found if has_elisions else wanted == found
    else:
        pattern = "".join(r"(?:.*\n)*?" if line.strip() == ELISION else re.escape(line) + r"\n" for line in expected)
        is_same = re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)) is not None
    if is_same:
        return ""
    return "\n".join(difflib.unified_diff(expected, actual, "the page", "the command", lineterm=""))


def contains(printed: str, part: str) -> bool:
    """Whether an output has the lines of a part, one after the other. Their indentation does not matter."""
    actual = "\n".join(line.strip() for line in normalized(printed))
    wanted = "\n".join(line.strip() for line in normalized(part))
    return wanted in actual
