"""Files and folders that commands write where an option says."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .aws import failed


@contextmanager
def writing(path: Path, option: str = "--output") -> Generator[None]:
    """End the command with status 2 if the block cannot write to ``path``, of which ``option`` names another."""
    try:
        yield
    except OSError as error:
        raise failed(f"Cannot write to {path}: {error.strerror}. Name another path with {option}.") from None
