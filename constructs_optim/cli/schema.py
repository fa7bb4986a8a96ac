"""``constructs-optim schema``: the JSON Schema of files that declare endpoints."""

from __future__ import annotations

from .presentation import print_json


def schema_command() -> None:
    """Print the JSON Schema of files that declare endpoints, for editors."""
    from constructs_optim.constructs.declared_stack.stack_file import schema

    print_json(schema())
