"""The ``constructs-optim`` command."""

from __future__ import annotations

import sys

_EXTRA = ("click", "rich", "typer")


def main() -> None:
    """Run the console script; exit with status 2 if the extra ``[cli]`` is not installed."""
    try:
        from .main import app
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in _EXTRA:
            raise
        from .installation import installing

        print(f"The command is an extra: {installing('cli')}", file=sys.stderr)  # noqa: T201 # no typer
        raise SystemExit(2) from None
    app()
