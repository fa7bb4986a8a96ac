"""``constructs-optim schema``: the JSON Schema of endpoint files."""

from __future__ import annotations

from .node import require_node
from .presentation import print_json, working


def schema_command() -> None:
    """Print the JSON Schema of endpoint files, for editors.

    Examples:
        constructs-optim schema > endpoint.schema.json
    """
    require_node()
    from constructs_optim.constructs.declared_stack.stack_file import schema

    with working("Building the schema"):
        built = schema()
    print_json(built)
