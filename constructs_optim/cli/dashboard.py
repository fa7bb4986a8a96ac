"""``constructs-optim dashboard``: dashboards of a synthesized app, seen before they are deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.operations.dashboard_preview import DashboardPreview, PreviewError, dashboards_of
from constructs_optim.operations.dashboard_preview_data import (
    MetricSource,
    RecordedMetrics,
    SampleMetrics,
    metric_data_queries,
)
from constructs_optim.operations.dashboard_preview_graph import graph_of
from constructs_optim.recipe.metrics import by_name

from .commands import Commands
from .presentation import say

dashboard_app = Commands()
_NOTHING = 2

_Assembly = Annotated[Path, typer.Argument(help="The folder that `cdk synth` wrote.")]
_Stack = Annotated[str | None, typer.Option(help="Only the dashboards of this stack.")]
_Dashboard = Annotated[str | None, typer.Option(help="Only this dashboard, by its logical id.")]
_Value = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="NAME=VALUE: what a placeholder stands for, as EndpointName=chat. Repeatable."
    ),
]


@dashboard_app.command("preview")
def preview_command(
    assembly: _Assembly = Path("cdk.out"),
    stack: _Stack = None,
    dashboard: _Dashboard = None,
    output: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to write; `preview` below the folder by default.")
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Recorded metrics: what `aws cloudwatch get-metric-data` answered, as JSON."),
    ] = None,
    value: _Value = None,
) -> None:
    """Draw the dashboards of a synthesized app, as HTML and PNG, with sample or recorded metrics. No AWS is needed."""
    try:
        import markdown_it  # noqa: F401 - only whether it is there
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as missing:
        if missing.name not in ("matplotlib", "markdown_it"):
            raise
        typer.echo('Drawing is an extra: pip install "constructs-optim[evaluate]"', err=True)
        raise typer.Exit(_NOTHING) from None
    try:
        source = RecordedMetrics.read(metrics) if metrics is not None else SampleMetrics(_units())
        folder = output or assembly / "preview"
        for found in _chosen(assembly, stack, dashboard, value):
            _write(found, source, folder)
    except PreviewError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_NOTHING) from None


@dashboard_app.command("queries")
def queries_command(
    assembly: _Assembly = Path("cdk.out"),
    stack: _Stack = None,
    dashboard: _Dashboard = None,
    value: _Value = None,
) -> None:
    """Print the queries that record what a dashboard shows: for `aws cloudwatch get-metric-data`, and `preview`."""
    try:
        found = _chosen(assembly, stack, dashboard, value)
    except PreviewError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_NOTHING) from None
    if len(found) > 1:
        named = ", ".join(f"--stack {one.stack} --dashboard {one.logical_id}" for one in found)
        typer.echo(f"choose one dashboard: {named}", err=True)
        raise typer.Exit(_NOTHING)
    typer.echo(json.dumps(metric_data_queries(found[0]), indent=1))


def _chosen(
    assembly: Path, stack: str | None, dashboard: str | None, value: list[str] | None
) -> list[DashboardPreview]:
    values: dict[str, str] = {}
    for pair in value or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--value {pair!r}: use NAME=VALUE, for instance EndpointName=chat")
        values[name] = text
    return dashboards_of(assembly, stack=stack, dashboard=dashboard, values=values)


def _write(found: DashboardPreview, source: MetricSource, folder: Path) -> None:
    from constructs_optim.operations.dashboard_preview_drawing import png
    from constructs_optim.operations.dashboard_preview_page import page

    span = source.time_range(found)
    graphs = {
        place: graph_of(widget["properties"], source, span)
        for place, widget in enumerate(found.widgets)
        if widget["type"] == "metric"
    }
    folder.mkdir(parents=True, exist_ok=True)
    html, picture = folder / f"{found.name}.html", folder / f"{found.name}.png"
    html.write_text(page(found, graphs, recorded=span.recorded), encoding="utf-8")
    picture.write_bytes(png(found, graphs, recorded=span.recorded))
    empty = [graph.title for graph in graphs.values() if graph.is_empty]
    what = "recorded metrics" if span.recorded else "sample data"
    say(f"{found.stack} {found.logical_id}: {len(found.widgets)} widgets with {what}\n  {html}\n  {picture}")
    if empty:
        say(f"  nothing to draw in: {', '.join(empty)}")


def _units() -> dict[tuple[str, str], str]:
    return {
        (series.namespace, series.metric_name): metric.published_unit.value
        for metric in reversed(list(by_name().values()))
        for series in (metric.variant, metric.component)
        if series is not None
    }
