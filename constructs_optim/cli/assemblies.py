"""Command-line options that name a cloud assembly and its stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AssemblyArgument = Annotated[Path, typer.Argument(help="Directory that `cdk synth` wrote, or an endpoint file.")]
StackOption = Annotated[
    list[str] | None, typer.Option(help="Only these stacks, such as 'Prod/*'. Repeatable. Default: all.")
]
