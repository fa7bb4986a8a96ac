"""``constructs-optim catalog``: the planner's tables of models, instances, images, metrics, and rules."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

import typer

from constructs_optim.recipe.errors import close_matches, did_you_mean
from constructs_optim.recipe.report import catalog_report

from .. import completion
from ..presentation import JsonOption, print_json, print_table

Part = Literal["models", "instances", "images", "metrics", "rules"]


_USES = {"hosts_endpoints": "endpoints", "runs_optimization": "optimization", "runs_training": "training"}
# The headings and fields of each part's table.
_TABLES: dict[Part, dict[str, str]] = {
    "models": {
        "Model": "model_id",
        "Params (B)": "parameters_billion",
        "Family": "family",
        "Supports": "supports",
        "Ready-made": "ready_made",
    },
    "instances": {
        "Instance type": "name",
        "Accelerators": "accelerators",
        "GB each": "accelerator_memory_gb",
        "vCPU": "vcpu",
        "RAM (GB)": "memory_gb",
        "NVMe (GB)": "nvme_gb",
        "Not for": "excluded",
    },
    "images": {"Image": "image", "Makes": "makes", "Serves": "serves"},
    "metrics": {"Metric": "title", "Statistic": "statistic", "Unit": "shown_unit", "Definition": "definition"},
    "rules": {"ID": "id", "Rule": "title", "Reason": "reason", "Source": "link"},
}


# The number of last columns that get lines of their own in a narrow terminal.
_LONG = {"images": 2, "models": 2, "rules": 2}


def catalog_command(
    part: Annotated[Part, typer.Argument(help="models, instances, images, metrics, or rules.")],
    family: Annotated[str | None, typer.Option(help="Only this family of models or instance types: Llama, g5.")] = None,
    supports: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE",
            help="Only models that support this: fp8, fast-load. Repeatable.",
            autocompletion=completion.features,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List supported models, instance types, images, metrics, or rules.

    Examples:
        constructs-optim catalog models --family llama --supports eagle
        constructs-optim catalog instances --family g6
        constructs-optim catalog rules --json
    """
    rows = catalog_rows(part, family, supports or ())
    if as_json:
        print_json(rows)
        return
    fields = _TABLES[part]
    for row in rows if part == "instances" else ():
        row["accelerators"] = f"{row['accelerator_count']} x {row['accelerator']}"
        row |= {f"{what}_gb": f"{row[f'{what}_mib'] / 1024:.0f}" for what in ("accelerator_memory", "memory")}
        row["excluded"] = [use for field, use in _USES.items() if not row.get(field)]
    for row in rows if part == "images" else ():
        row["image"] = f"{row['repository']}:{row['tag']}"
    cells = [[_cell(row[field]) for field in fields.values()] for row in rows]
    print_table([*fields], cells, long=_LONG.get(part, 1))


def catalog_rows(part: Part, family: str | None = None, supports: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the rows of a part of the catalog, filtered by family and supported features.

    Raises:
        typer.BadParameter: if the part has no such filter, the family is unknown, or no model supports a feature.
    """
    if family is not None and part not in ("models", "instances"):
        raise typer.BadParameter("--family filters models and instances only")
    if supports and part != "models":
        raise typer.BadParameter("--supports filters models only")
    rows = catalog_report(part)
    families = {str(row.get("family")).lower() for row in rows}
    if family is not None and family.lower() not in families:
        choices = f"choose from {', '.join(sorted(families))}"
        raise typer.BadParameter(f"no {part} of the family {family}: {did_you_mean(family, families, choices)}")
    required = {feature.replace("-", "_") for feature in supports}
    known = {feature for row in rows if part == "models" for feature in row["supports"]}
    if unknown := sorted(required - known):
        near = sorted({name for each in unknown for name in close_matches(each, known)})
        hint = f"did you mean {_cell(near)}?" if near else f"choose from {_cell(sorted(known))}"
        raise typer.BadParameter(f"no model supports {_cell(unknown)}: {hint}")
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
