"""The ``constructs-optim`` command."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    from .main import app

    app()
