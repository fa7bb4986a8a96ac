"""``constructs-optim dashboard``: preview the dashboards of a synthesized app before they are deployed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.operations.dashboard_preview import SampleMetrics, dashboards_of, picture
from constructs_optim.recipe.metrics import by_name

from ..assemblies import AssemblyArgument, StackOption
from ..aws import failed
from ..commands import Commands
from ..endpoint_file import assembly_of, is_endpoint_file
from ..installation import installing
from ..output_files import writing
from ..presentation import OUTPUT_PANEL, JsonOption, print_json, refusals_printed, say, working

dashboard_app = Commands(help="Preview the dashboards of a synthesized app.")


@dashboard_app.command("preview")
def preview_command(
    assembly: AssemblyArgument = Path("cdk.out"),
    stack: StackOption = None,
    dashboard: Annotated[str | None, typer.Option(help="Only the dashboard with this logical ID.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory to write to. Default: `preview` in ASSEMBLY; in this directory for an endpoint file.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the dashboards of a synthesized app as PNG files, with sample metrics.

    Makes no call to AWS.

    Examples:
        constructs-optim dashboard preview cdk.out
        constructs-optim dashboard preview --stack 'Prod*' --output previews
    """
    folder = output or (Path() if is_endpoint_file(assembly) else assembly) / "preview"
    if importlib.util.find_spec("matplotlib") is None:
        raise failed(f"Drawing is an extra: {installing('plots')}")
    units = {
        (series.namespace, series.metric_name): metric.published_unit.value
        for metric in reversed([*by_name().values()])
        for series in (metric.variant, metric.component)
        if series is not None
    }
    with refusals_printed(as_json=as_json), assembly_of(assembly) as synthesized:
        previews = dashboards_of(synthesized, stacks=stack, dashboard=dashboard)
    written: list[dict[str, object]] = []
    for preview in previews:
        with working(f"Drawing {preview.logical_id}"):
            content = picture(preview, SampleMetrics(preview, units))
        path = folder / f"{preview.name}.png"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        written.append({"stack": preview.stack, "dashboard": preview.logical_id, "file": str(path)})
        if not as_json:
            say(f"{preview.stack} {preview.logical_id}: {len(preview.widgets)} widgets with sample data\n  {path}")
    if as_json:
        print_json(written)
