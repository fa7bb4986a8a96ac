"""``constructs-optim mcp``: a server for coding agents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from .aws import failed
from .installation import installing


def mcp_command(
    directory: Annotated[
        Path,
        typer.Option(
            exists=True, file_okay=False, metavar="DIR", help="Directory of the app: its lock file and cdk.out."
        ),
    ] = Path(),
) -> None:
    """Serve plan, recommend, explain, rules, and catalog to coding agents.

    Speaks the Model Context Protocol on standard input and output.

    Examples:
        claude mcp add constructs-optim -- constructs-optim mcp --directory .
    """
    try:
        from .agent_tools import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise failed(f"The server is an extra: {installing('mcp')}") from None
    os.chdir(directory)
    serve()
