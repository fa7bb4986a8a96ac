"""``constructs-optim synth``: the cloud assembly of a file that declares endpoints, or its template for any tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .endpoint_file import FileArgument, document_of
from .presentation import refusals_printed, say


def synth_command(
    file: FileArgument,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder to write to. Default: cdk.out.")
    ] = None,
) -> None:
    """Write the cloud assembly of a file that declares endpoints, as `cdk synth` does. Exit status 2 if it is wrong.

    `cdk deploy --app FOLDER` deploys it, as does `constructs-optim deploy FILE`.
    """
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

    with refusals_printed("table"):
        folder = DeclaredStack(document_of(file), outdir=output).synth()
    say(f"{folder} has the assembly: `cdk deploy --app {folder}` deploys it.")
