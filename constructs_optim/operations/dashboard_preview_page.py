"""A preview as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from .dashboard_preview import DashboardPreview
from .dashboard_preview_drawing import SAMPLE, svg
from .dashboard_preview_graph import Graph

_STYLE = """
body { margin: 0; background: #f2f3f3; color: #16191f; font: 14px/1.45 system-ui, sans-serif }
header { display: flex; justify-content: space-between; padding: 12px 20px; background: #fff }
header b { color: #b7410e }
main { display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: 42px; gap: 6px; padding: 14px 20px }
section { background: #fff; border: 1px solid #e3e6e8; border-radius: 4px; overflow: auto; padding: 6px 12px }
section.plain { background: none; border: 0 }
section.metric { padding: 0; overflow: hidden }
section img { width: 100%; height: 100% }
section h1, section h2, section h3, section p { margin: 2px 0 }
section h4 { margin: 4px 0 }
pre { white-space: pre-wrap; font-size: 12px; color: #687078 }
li { color: #687078 }
"""


def page(preview: DashboardPreview, graphs: Mapping[int, Graph], *, recorded: bool) -> str:
    """The dashboard as a page: text and log queries as text, graphs as pictures with their labels as text.

    Args:
        preview: the dashboard.
        graphs: of its metric widgets, by their place among its widgets.
        recorded: whether the metrics are recorded ones; samples are marked.
    """
    name = escape(f"{preview.stack} / {preview.logical_id}")
    note = "recorded metrics" if recorded else f"{SAMPLE.upper()}: nothing was measured"
    widgets = "\n".join(_widget(widget, graphs.get(place)) for place, widget in enumerate(preview.widgets))
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{name}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body>\n<header><span>{name}</span><b>{note}</b></header>\n"
        f"<main>\n{widgets}\n</main>\n</body>\n</html>\n"
    )


def _widget(widget: Mapping[str, Any], graph: Graph | None) -> str:
    properties = widget["properties"]
    plain = " plain" if properties.get("background") == "transparent" else ""
    place = f"grid-column:{widget['x'] + 1}/span {widget['width']};grid-row:{widget['y'] + 1}/span {widget['height']}"
    inner = _graph(graph, widget) if graph is not None else _described(widget["type"], properties)
    return f'<section class="{escape(widget["type"])}{plain}" style="{place}">{inner}</section>'


def _graph(graph: Graph, widget: Mapping[str, Any]) -> str:
    drawn = base64.b64encode(svg(graph, columns=widget["width"], rows=widget["height"]).encode()).decode()
    notes = "".join(f"<p>{escape(note)}</p>" for note in graph.notes)
    return f'<img alt="{escape(graph.title)}" src="data:image/svg+xml;base64,{drawn}">{notes}'


def _described(kind: str, properties: Mapping[str, Any]) -> str:
    title = f"<h4>{escape(str(properties.get('title', kind)))}</h4>"
    match kind:
        case "text":
            from markdown_it import MarkdownIt

            return MarkdownIt("commonmark", {"html": False}).render(str(properties["markdown"]))
        case "log":
            return f"{title}<pre>{escape(str(properties['query']))}</pre>"
        case "alarm":
            names = [str(arn).rpartition(":alarm:")[2] for arn in properties.get("alarms", [])]
            return title + "<ul>" + "".join(f"<li>{escape(name)}</li>" for name in names) + "</ul>"
        case _:
            return f"{title}<p>drawn in CloudWatch only</p>"
