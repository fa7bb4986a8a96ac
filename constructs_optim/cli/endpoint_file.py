"""``endpoint.yaml`` on the command line: read from a file or standard input, and synthesized."""

from __future__ import annotations

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

from constructs_optim.runtime.documents import json_value, object_in

from .node import require_node
from .presentation import say

if TYPE_CHECKING:
    # The CDK takes a second to load, so it is imported only if needed.
    from constructs_optim.constructs.declaration.document import Document
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml", ".json")

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Endpoint file, or - for standard input.")]


def is_endpoint_file(text: str | Path) -> bool:
    """Return whether an argument names an endpoint file, and not a model or a folder."""
    # Path.is_dir raises an error for a name that is too long.
    is_folder = os.path.isdir(text)  # noqa: PTH112
    return str(text) == STANDARD_INPUT or (Path(text).suffix in _SUFFIXES and not is_folder)


def document_of(file: str | Path) -> Document:
    """Return the document from a file or from standard input, which may be a query by Terraform's external data source.

    Raises:
        DeclarationError: if there is no document.
        NodeError: if Node.js is missing.
    """
    require_node()
    from constructs_optim.constructs.declaration.document import Document

    if str(file) != STANDARD_INPUT:
        return Document.read(Path(file))
    text, is_query = sys.stdin.read(), False
    # A query is a mapping of text (documentation of hashicorp/external, "Data Source: external").
    with suppress(ValueError):
        query = object_in(json_value(text)).get("query")
        text, is_query = (query, True) if isinstance(query, str) else (text, False)
    document = Document.parsed(text, "standard input")
    return document.without_places() if is_query else document


def declared_or(document: Document, name: Literal["account", "region"], option: str | None) -> str | None:
    """Return the account or the Region from a file or the option ``--name``.

    Raises:
        typer.BadParameter: if both are given and differ.
    """
    declared = document.value_at((name,))
    if declared is not None and option not in (None, declared):
        raise typer.BadParameter(f"{document.name} declares {name} {declared}, and --{name} is {option}: remove one")
    return declared or option


def changed(document: Document, *, stack: str | None, tags: Mapping[str, str]) -> Document:
    """Return the document with the options ``--stack-name`` and ``--tag`` applied."""
    data: Any = document.data
    options: dict[str, str] = {}
    # Validation of the document refuses anything but a mapping.
    if isinstance(data, dict) and stack is not None:
        data, options = {**data, "stack": stack}, {"stack": "--stack-name"}
    if isinstance(data, dict) and tags and isinstance(given := data.get("tags") or {}, dict):
        data = {**data, "tags": {**given, **tags}}
    return replace(document, data=data, options=options)


def _in_region(document: Document, region: str | None) -> Document:
    """Return the document in the Region of --region, or of the CDK CLI, unless the document declares one."""
    found = region or os.environ.get("CDK_DEFAULT_REGION")
    data: Any = document.data
    if not found or not isinstance(data, dict) or data.get("region") is not None:
        return document
    option = "--region" if region else "CDK_DEFAULT_REGION"
    return replace(document, data={**data, "region": found}, options={**document.options, "region": option})


class SynthesisError(ValueError):
    """The CDK refuses a file's declaration. The message has the policies' findings unless they were printed before."""

    def __init__(self, error: Exception) -> None:
        from constructs_optim.constructs.declaration.wording import in_yaml

        # Removes Node's stack frames, the path of a report in a deleted temporary folder, and the CDK's heading.
        text = re.sub(r" A copy of this report.*|\n +at .*", "", str(error))
        heading = r"^(?:\w+: )*Validation failed with the following errors:\s+(?:\[[^\]]*\] )?"
        super().__init__(in_yaml(re.sub(heading, "", text)).strip())


def synthesized(
    document: Document,
    output: Path,
    region: str | None = None,
    account: str | None = None,
    *,
    is_temporary: bool = False,
    warn: Callable[[str], None] | None = None,
) -> DeclaredStack:
    """Synthesize a document to a cloud assembly in a folder, which may be temporary, and return the stack.

    The account and Region default to those of the credentials, as the CDK CLI passes them. ``warn`` receives the
    constructs' warnings; their errors are raised.

    Raises:
        DeclarationError: if the document has mistakes; lists all of them.
        SynthesisError: if the CDK or a policy refuses the document.
    """
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack
    from constructs_optim.constructs.stack.findings import policy_warnings_of

    account = account or os.environ.get("CDK_DEFAULT_ACCOUNT")
    document = _in_region(document, region)
    try:
        # Node may have been started in another directory.
        stack = DeclaredStack(document, outdir=output.absolute(), is_temporary=is_temporary, account=account)
        stack.synth()
        for finding in policy_warnings_of(output) if is_temporary else ():
            say(f"Warning: {finding}", err=True)
        if warn is not None:
            for warning in stack.warnings:
                warn(warning)
    except RuntimeError as error:
        raise SynthesisError(error) from None
    return stack


@contextmanager
def assembly_of(path: Path) -> Iterator[Path]:
    """Yield the folder of a cloud assembly: ``path``, or a temporary folder for an endpoint file.

    Raises:
        DeclarationError: if the file has mistakes; lists all of them.
    """
    if not is_endpoint_file(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        yield synthesized(document_of(path), Path(folder), is_temporary=True).synth()
