"""``endpoint.yaml`` at the command line: read from a file or from standard input, and synthesized."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from .presentation import refusals_printed

if TYPE_CHECKING:
    # The CDK takes a second to load.
    from constructs_optim.constructs.declaration.document import Document

STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml", ".json")

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The file that declares the endpoints, or - for standard input.")
]


def is_endpoint_file(text: str | Path | None) -> bool:
    """Whether an argument names a file that declares endpoints, and no model or folder."""
    return text is not None and (str(text) == STANDARD_INPUT or Path(text).suffix in _SUFFIXES)


def document_of(file: str | Path) -> Document:
    """The document of a file, or of standard input.

    Raises:
        DeclarationError: where there is none.
    """
    from constructs_optim.constructs.declaration.document import Document

    if str(file) == STANDARD_INPUT:
        return Document.parsed(sys.stdin.read(), "standard input")
    return Document.read(Path(file))


@contextmanager
def assembly_of(path: Path) -> Iterator[Path]:
    """The folder of a cloud assembly: ``path``, or a temporary one for a file that declares endpoints."""
    if not is_endpoint_file(path) or path.is_dir():
        yield path
        return
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

    with TemporaryDirectory() as folder, refusals_printed("table"):
        yield DeclaredStack(document_of(path), outdir=Path(folder)).synth()
