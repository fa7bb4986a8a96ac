"""Readers of the dashboards in a template."""

from __future__ import annotations

import json
from typing import Any

from ..support.construct_stacks import resources

Body = dict[str, Any]


def bodies(template: dict[str, Any]) -> list[tuple[Body, dict[str, Any]]]:
    """Each dashboard's body, and the values of its placeholders."""
    found = []
    for properties in resources(template, "AWS::CloudWatch::Dashboard"):
        substituted = properties["DashboardBody"]["Fn::Sub"]
        text, variables = substituted if isinstance(substituted, list) else (substituted, {})
        for name, value in variables.items():
            if isinstance(value, str):
                text = text.replace(f"${{{name}}}", value)
        body = json.loads(text)
        for graph in graphs(body):
            if "metrics" in graph:
                graph["metrics"] = at_length(graph["metrics"])
        found.append((body, variables))
    return found


def at_length(rows: list[list[Any]]) -> list[list[Any]]:
    """A graph's rows with each dot expanded to the value at that position in the metric row above."""
    found: list[list[Any]] = []
    above: list[Any] = []
    for row in rows:
        found.append([above[place] if part == "." else part for place, part in enumerate(row)])
        above = found[-1] if isinstance(row[0], str) else above
    return found


def graphs(body: Body) -> list[dict[str, Any]]:
    return [widget["properties"] for widget in body["widgets"] if widget["type"] == "metric"]


def titled(body: Body, title: str) -> dict[str, Any]:
    (found,) = [widget["properties"] for widget in body["widgets"] if widget["properties"].get("title") == title]
    return found


def series(graph: dict[str, Any]) -> list[list[Any]]:
    """The rows of a graph that are metrics, without their rendering."""
    return [row[:-1] for row in graph["metrics"] if len(row) > 1]


def expressions(graph: dict[str, Any]) -> list[str]:
    return [row[-1]["expression"] for row in graph["metrics"] if "expression" in row[-1]]


def texts(body: Body) -> list[str]:
    return [widget["properties"]["markdown"] for widget in body["widgets"] if widget["type"] == "text"]


def overlapping(body: Body) -> list[dict[str, Any]]:
    """Widgets that overlap others or extend beyond the grid."""
    taken: set[tuple[int, int]] = set()
    wrong = []
    for widget in body["widgets"]:
        cells = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        if cells & taken or max(x for x, _ in cells) >= 24:
            wrong.append(widget)
        taken |= cells
    return wrong
