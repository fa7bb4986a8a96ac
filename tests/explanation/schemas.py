"""What CloudFormation's schemas say of replacing, from cfn-lint's copy of them.

``python -m tests.explanation.schemas`` writes ``constructs_optim/explanation/create_only.json`` anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

import constructs_optim.explanation

# The region that has all types.
_REGION = "us-east-1"
FILE = Path(constructs_optim.explanation.__file__).parent / "create_only.json"


def create_only(type_name: str) -> list[str]:
    """The paths of what replaces a resource, and with a question mark of what may."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(_REGION, type_name).schema
    return [
        *sorted(_paths(schema.get("createOnlyProperties", []))),
        *(f"?{path}" for path in sorted(_paths(schema.get("conditionalCreateOnlyProperties", [])))),
    ]


def _paths(pointers: Iterable[str]) -> set[str]:
    return {pointer.removeprefix("/properties/") for pointer in pointers}


def main() -> None:
    """Write all types, one a line."""
    names = sorted(name for name in PROVIDER_SCHEMA_MANAGER.get_resource_types(_REGION) if name.startswith("AWS::"))
    lines = [f"{json.dumps(name)}: {json.dumps(create_only(name))}" for name in names]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
