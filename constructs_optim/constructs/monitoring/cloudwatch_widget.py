"""A widget for the CDK's own dashboards, which is as it was written: CDK's graphs know no properties but theirs."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch

from .dashboard_widget import Widget


class CloudWatchWidget(cloudwatch.ConcreteWidget):
    """One widget of ``EndpointDashboard`` or ``FleetDashboard`` for an ``aws_cloudwatch.Dashboard``."""

    def __init__(self, widget: Widget) -> None:
        super().__init__(widget.width, widget.height)
        self._widget = widget

    def to_json(self) -> list[Any]:
        """What the dashboard's body holds, where the CDK has placed it."""
        return [self._widget.to_json(x=int(self._x or 0), y=int(self._y or 0))]
