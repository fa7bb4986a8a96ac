"""``constructs-optim catalog``: what the planner knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from constructs_optim.recipe.metrics import metrics_page
from constructs_optim.recipe.report import catalog_report, rules_page

from ..presentation import print_table

Row = dict[str, Any]


class What(StrEnum):
    """A part of the catalog."""

    models = "models"
    instances = "instances"
    images = "images"
    metrics = "metrics"
    rules = "rules"


class Format(StrEnum):
    """How it is printed; markdown for metrics and rules only."""

    table = "table"
    json = "json"
    markdown = "markdown"


class Supported(StrEnum):
    """What SageMaker supports of a model."""

    quantization = "quantization"
    speculative_decoding = "speculative-decoding"
    sagemaker_draft_model = "sagemaker-draft-model"
    pre_optimized = "pre-optimized"
    pre_compiled = "pre-compiled"
    fp8 = "fp8"
    smoothquant = "smoothquant"
    fast_load = "fast-load"
    neuron = "neuron"
    tensorrt_llm = "tensorrt-llm"
    eagle = "eagle"
    trainable = "trainable"


_PAGES = {What.metrics: metrics_page, What.rules: rules_page}
_USES = {"hosts_endpoints": "endpoints", "runs_optimization": "optimization jobs", "runs_training": "training jobs"}


def catalog_command(
    what: Annotated[What, typer.Argument(help="models, instances, images, metrics or rules.")],
    family: Annotated[
        str | None, typer.Option(help="Only models or instance types of this family, for instance Llama or g5.")
    ] = None,
    supports: Annotated[
        list[Supported] | None,
        typer.Option(metavar="WHAT", help=f"Only models that support this: {', '.join(Supported)}. Repeatable."),
    ] = None,
    format: Annotated[
        Format, typer.Option(metavar="FORMAT", help="table, json, or markdown for metrics and rules.")
    ] = Format.table,
) -> None:
    """List the models, instance types, container images, metrics or rules that the planner knows."""
    if family is not None and what not in (What.models, What.instances):
        raise typer.BadParameter("--family is for models and instances")
    if supports and what is not What.models:
        raise typer.BadParameter("--supports is for models")
    if format is Format.markdown:
        if what not in _PAGES:
            raise typer.BadParameter("only metrics and rules are printed as markdown")
        typer.echo(_PAGES[what](), nl=False)
        return
    rows = [row for row in catalog_report(what.value) if _is_wanted(row, family, supports or ())]
    if format is Format.json:
        typer.echo(json.dumps(rows, indent=1))
        return
    columns, shown, long = _TABLES[what]
    print_table(columns, [shown(row) for row in rows], long=long)


def _is_wanted(row: Row, family: str | None, supports: Sequence[Supported]) -> bool:
    if family is not None and str(row["family"]).lower() != family.lower():
        return False
    return all(feature.name in row["supports"] for feature in supports)


def _model(row: Row) -> list[str]:
    supported = [feature.value for feature in Supported if feature.name in row["supports"]]
    return [
        row["model_id"],
        row["family"],
        f"{row['parameters_billion']:g}" if row["parameters_billion"] is not None else "",
        ", ".join(supported),
    ]


def _instance(row: Row) -> list[str]:
    return [
        row["name"],
        f"{row['accelerator_count']} x {row['accelerator']}",
        f"{row['accelerator_memory_mib'] / 1024:.0f} GiB",
        str(row["vcpu"]),
        f"{row['memory_mib'] / 1024:.0f} GiB",
        f"{row['nvme_gb']} GB" if row["nvme_gb"] else "",
        ", ".join(use for name, use in _USES.items() if row[name]),
    ]


def _image(row: Row) -> list[str]:
    return [row["repository"], row["tag"], ", ".join(row["capabilities"])]


def _metric(row: Row) -> list[str]:
    return [row["title"], row["statistic"], row["shown_unit"], row["definition"]]


def _rule(row: Row) -> list[str]:
    return [row["id"], row["title"], row["reason"], row["link"]]


_TABLES: dict[What, tuple[Sequence[str], Callable[[Row], list[str]], int]] = {
    What.models: (("model", "family", "parameters (billion)", "supports"), _model, 1),
    What.instances: (
        ("instance type", "accelerators", "memory of each", "vCPUs", "memory", "NVMe", "for"),
        _instance,
        1,
    ),
    What.images: (("repository", "tag", "capabilities"), _image, 1),
    What.metrics: (("metric", "statistic", "unit", "definition"), _metric, 1),
    What.rules: (("id", "rule", "why", "source"), _rule, 2),
}
