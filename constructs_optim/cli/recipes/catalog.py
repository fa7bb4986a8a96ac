"""``constructs-optim catalog``: the planner's tables of models, instances, images, metrics and rules."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Annotated, Any, Literal

import typer

from constructs_optim.recipe.report import catalog_report

from ..presentation import FormatOption, print_table

Part = Literal["models", "instances", "images", "metrics", "rules"]


_USES = {"hosts_endpoints": "endpoints", "runs_optimization": "optimization jobs", "runs_training": "training jobs"}
# The headings of each part's table, with the fields below them.
_TABLES: dict[Part, dict[str, str]] = {
    "models": {
        "model": "model_id",
        "params (B)": "parameters_billion",
        "family": "family",
        "supports": "supports",
        "ready-made": "ready_made",
    },
    "instances": {
        "instance type": "name",
        "accelerators": "accelerator_count",
        "MiB of each": "accelerator_memory_mib",
        "vCPUs": "vcpu",
        "memory (MiB)": "memory_mib",
        "NVMe (GB)": "nvme_gb",
        "accelerator": "accelerator",
        "for": "uses",
    },
    "images": {"repository": "repository", "tag": "tag", "makes": "makes", "serves": "serves"},
    "metrics": {"metric": "title", "statistic": "statistic", "unit": "shown_unit", "definition": "definition"},
    "rules": {"id": "id", "rule": "title", "why": "reason", "source": "link"},
}


# The last columns that have lines of their own in a narrow terminal.
_LONG = {"images": 2, "instances": 2, "models": 3, "rules": 2}


def catalog_command(
    part: Annotated[Part, typer.Argument(help="models, instances, images, metrics or rules.")],
    family: Annotated[str | None, typer.Option(help="Only models or instance types of it: Llama or g5.")] = None,
    supports: Annotated[
        list[str] | None,
        typer.Option(metavar="FEATURE", help="Only models that support this, as fp8 or fast-load. Repeatable."),
    ] = None,
    format: FormatOption = "table",
) -> None:
    """List the models, instance types, container images, metrics or rules that the planner knows."""
    rows = catalog_rows(part, family, supports or ())
    if format == "json":
        typer.echo(json.dumps(rows, indent=1))
        return
    fields = _TABLES[part]
    for row in rows:
        row["uses"] = [use for field, use in _USES.items() if row.get(field)]
    cells = [[_cell(row[field]) for field in fields.values()] for row in rows]
    print_table([*fields], cells, long=_LONG.get(part, 1))


def catalog_rows(part: Part, family: str | None = None, supports: Collection[str] = ()) -> list[dict[str, Any]]:
    """The rows of a part of the catalog, of a family and with support of features where they are given.

    Raises:
        typer.BadParameter: where the part has no such thing.
    """
    if family is not None and part not in ("models", "instances"):
        raise typer.BadParameter("--family is for models and instances")
    if supports and part != "models":
        raise typer.BadParameter("--supports is for models")
    rows = catalog_report(part)
    required = {feature.replace("-", "_") for feature in supports}
    known = {feature for row in rows if part == "models" for feature in row["supports"]}
    if not required <= known:
        raise typer.BadParameter(f"--supports: models support {_cell(sorted(known))}")
    return [
        row
        for row in rows
        if (family is None or str(row["family"]).lower() == family.lower()) and required <= {*row.get("supports", ())}
    ]


def _cell(value: Any) -> str:
    match value:
        case float():
            return f"{value:g}"
        case list():
            return ", ".join(item if "/" in item else item.replace("_", "-") for item in map(str, value))
        case _:
            return str(value or "")
