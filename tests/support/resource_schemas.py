"""What CloudFormation's schemas say of replacing, from cfn-lint's copy of them, and the schema of explanations.

``python -m tests.support.resource_schemas`` writes ``constructs_optim/explanation/create_only.json`` and the schemas of
``docs`` anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from pydantic import BaseModel

import constructs_optim.explanation
from constructs_optim.constructs.declared_stack.stack_file import schema
from constructs_optim.evaluator.comparison import ComparisonDocument
from constructs_optim.explanation.report import Report
from constructs_optim.recipe.evaluation.result import EvaluationResult

# The region that has all types.
_REGION = "us-east-1"
FILE = Path(constructs_optim.explanation.__file__).parent / "create_only.json"
_DOCS = Path(__file__).parent.parent.parent / "docs"
DOCUMENTED: dict[Path, type[BaseModel]] = {
    _DOCS / "explain.schema.json": Report,
    _DOCS / "evaluation.schema.json": EvaluationResult,
    _DOCS / "comparison.schema.json": ComparisonDocument,
}
"""The schemas of the documents that commands print and write."""
ENDPOINT_FILE = _DOCS / "endpoint.schema.json"
"""The schema of the file that declares endpoints."""


def create_only(type_name: str) -> list[str]:
    """The paths of what replaces a resource, and with a question mark of what may."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(_REGION, type_name).schema
    return [
        *sorted(_paths(schema.get("createOnlyProperties", []))),
        *(f"?{path}" for path in sorted(_paths(schema.get("conditionalCreateOnlyProperties", [])))),
    ]


def _paths(pointers: Iterable[str]) -> set[str]:
    return {pointer.removeprefix("/properties/") for pointer in pointers}


def documented(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a document."""
    return model.model_json_schema(mode="serialization")


def main() -> None:
    """Write both: of CloudFormation's all types, one a line."""
    names = sorted(name for name in PROVIDER_SCHEMA_MANAGER.get_resource_types(_REGION) if name.startswith("AWS::"))
    lines = [f"{json.dumps(name)}: {json.dumps(create_only(name))}" for name in names]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for path, model in DOCUMENTED.items():
        path.write_text(f"{json.dumps(documented(model), indent=2)}\n", encoding="utf-8")
    ENDPOINT_FILE.write_text(f"{json.dumps(schema(), indent=2)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
