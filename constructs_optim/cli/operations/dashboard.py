"""``constructs-optim dashboard``: preview the dashboards of a synthesized app before they are deployed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.operations.dashboard_preview import SampleMetrics, dashboards_of, picture
from constructs_optim.recipe.metrics import by_name

from ..aws import failed
from ..commands import Commands
from ..presentation import say

dashboard_app = Commands()


@dashboard_app.command("preview")
def preview_command(
    assembly: Annotated[Path, typer.Argument(help="The folder that `cdk synth` wrote.")] = Path("cdk.out"),
    stack: Annotated[str | None, typer.Option(help="Only the dashboards of this stack.")] = None,
    dashboard: Annotated[str | None, typer.Option(help="Only this dashboard, by its logical id.")] = None,
    output: Annotated[Path | None, typer.Option(metavar="PATH", help="By default `preview` below the folder.")] = None,
) -> None:
    """Draw the dashboards of a synthesized app, as PNG, with sample metrics. It makes no call to AWS."""
    folder = output or assembly / "preview"
    if importlib.util.find_spec("matplotlib") is None:
        raise failed('Drawing is an extra: pip install "constructs-optim[plots]"')
    units = {
        (series.namespace, series.metric_name): metric.published_unit.value
        for metric in reversed([*by_name().values()])
        for series in (metric.variant, metric.component)
        if series is not None
    }
    for preview in dashboards_of(assembly, stack=stack, dashboard=dashboard):
        content = picture(preview, SampleMetrics(preview, units))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{preview.name}.png"
        path.write_bytes(content)
        say(f"{preview.stack} {preview.logical_id}: {len(preview.widgets)} widgets with sample data\n  {path}")
