"""``endpoint.yaml`` at the command line: read from a file or from standard input, and synthesized."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    # The CDK takes a second to load.
    from constructs_optim.constructs.declaration.document import Document

STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml", ".json")

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Endpoint file, or - for standard input.")]


def is_endpoint_file(text: str | Path) -> bool:
    """Whether an argument names a file that declares endpoints, and no model or folder."""
    return str(text) == STANDARD_INPUT or (Path(text).suffix in _SUFFIXES and not Path(text).is_dir())


def document_of(file: str | Path) -> Document:
    """The document of a file, or of standard input, which may be the query of Terraform's external data source.

    Raises:
        DeclarationError: where there is none.
    """
    from constructs_optim.constructs.declaration.document import Document

    if str(file) != STANDARD_INPUT:
        return Document.read(Path(file))
    text, is_query = sys.stdin.read(), False
    # A query is a mapping of text (docs of hashicorp/external, "Data Source: external").
    with suppress(KeyError, TypeError, ValueError):
        text, is_query = json.loads(text)["query"], True
    document = Document.parsed(text, "standard input")
    return document.without_places() if is_query else document


def declared_or(document: Document, name: Literal["account", "region"], option: str | None) -> str | None:
    """The account or the Region of a file, or that of the option of its name; a usage error where they differ."""
    declared = document.value_at((name,))
    if declared is not None and option not in (None, declared):
        raise typer.BadParameter(f"{document.name} declares {name} {declared}, and --{name} is {option}: remove one")
    return declared or option


def changed(document: Document, *, stack: str | None, tags: Mapping[str, str]) -> Document:
    """The document with the options ``--stack-name`` and ``--tag`` in it."""
    data: Any = document.data
    # What is no mapping is refused where the document is validated.
    if isinstance(data, dict) and stack is not None:
        data = {**data, "stack": stack}
    if isinstance(data, dict) and tags and isinstance(given := data.get("tags") or {}, dict):
        data = {**data, "tags": {**given, **tags}}
    return replace(document, data=data)


class SynthesisError(ValueError):
    """The CDK refuses what a file declares; its message has the findings of policies, or they were printed before."""

    def __init__(self, error: Exception) -> None:
        # Node's frames say nothing, and the report of a temporary folder is gone.
        super().__init__(re.sub(r" A copy of this report.*|\n +at .*", "", str(error)).strip())


def synthesized(
    document: Document,
    output: Path,
    region: str | None = None,
    account: str | None = None,
    *,
    warn: Callable[[str], None] | None = None,
    record: bool = False,
) -> Path:
    """The folder of the document's cloud assembly, for account and Region of the credentials, as the CDK CLI has them.

    ``region`` and ``account`` take the place of those. ``warn`` gets the warnings of constructs, whose errors are
    raised then. ``record`` has ``optim.lock.json`` written.

    Raises:
        DeclarationError: with everything that is wrong in the document.
        SynthesisError: where the CDK, or a policy, refuses it.
    """
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

    account = account or os.environ.get("CDK_DEFAULT_ACCOUNT")
    region = region or os.environ.get("CDK_DEFAULT_REGION")
    try:
        # Node may have been started elsewhere.
        stack = DeclaredStack(document, outdir=output.absolute(), account=account, region=region, record=record)
        folder = stack.synth()
        if warn is not None:
            for warning in stack.warnings:
                warn(warning)
    except RuntimeError as error:
        raise SynthesisError(error) from None
    return folder


@contextmanager
def assembly_of(path: Path) -> Iterator[Path]:
    """The folder of a cloud assembly: ``path``, or a temporary one for a file that declares endpoints.

    Raises:
        DeclarationError: with everything that is wrong in the file.
    """
    if not is_endpoint_file(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        yield synthesized(document_of(path), Path(folder))
