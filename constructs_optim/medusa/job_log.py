"""The job's log: what is printed here is in CloudWatch Logs, and metrics are read from it."""

from __future__ import annotations


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - a job's log is its standard output
