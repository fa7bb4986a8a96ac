"""A dashboard for all endpoints of a team: totals, and a row for each endpoint."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from aws_cdk import Stack, Token
from constructs import Construct

from constructs_optim.constructs.stack.arguments import suggests_keywords
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.stack_context import PSEUDO
from constructs_optim.recipe import pricing

from .endpoint_metrics import MeasuredResource
from .graphs import GraphContext, dashboards, graph_properties
from .served_model import ServedModel
from .widgets import Dashboard, Segment, Widget, arranged, dashboard_body, text

_WIDTH, _ROW_HEIGHT = 4, 5


@suggests_keywords
@dataclass(frozen=True)
class FleetEndpoint:
    """An endpoint of a fleet, by its names in CloudWatch.

    Attributes:
        label: its name on the dashboard.
        served: the variant or component that serves its model.
        region: the endpoint's Region. Default: the dashboard's Region.
        account: the endpoint's account; the dashboard's account must be a monitoring account for it. Default: the
            dashboard's account.
        instance_price_per_hour: the price of one of its instances in US dollars. Default: no costs are shown.
    """

    label: str
    served: ServedModel
    region: str | None = None
    account: str | None = None
    instance_price_per_hour: float | None = None


@suggests_keywords
class FleetDashboard(Dashboard):
    """Requests, errors, instances and costs of all endpoints together, and a row of graphs for each.

    Endpoints may be in other stacks, other Regions and, with CloudWatch cross-account observability, other accounts.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoints: Sequence[MeasuredResource | FleetEndpoint] = (),
        dashboard_name: str | None = None,
        discount: float = 0,
    ) -> None:
        """Declare the dashboard.

        Args:
            scope: the construct to create it in.
            id: its ID in that scope.
            endpoints: the endpoints to show, in this order; ``add_endpoint`` adds more.
            dashboard_name: the dashboard's name. Default: CloudFormation generates one.
            discount: the discount of a savings plan, as a share. Default: 0.

        Raises:
            ValueError: if an endpoint's name is not known here, a price is not above zero, or there are more endpoints
                than a CloudWatch dashboard can show.
        """
        pricing.check_price(None, discount)
        super().__init__(scope, id, dashboard_name)
        self._discount = discount
        self._endpoints: list[FleetEndpoint] = [self._known(endpoint) for endpoint in endpoints]
        arranged(self.segments)

    def add_endpoint(
        self,
        endpoint: MeasuredResource | FleetEndpoint,
        *,
        label: str | None = None,
        instance_price_per_hour: float | None = None,
    ) -> FleetDashboard:
        """Show one more endpoint.

        Args:
            endpoint: an endpoint of this library, or a ``FleetEndpoint`` for any other.
            label: its name on the dashboard. Default: its path in the app.
            instance_price_per_hour: the price of one of its instances in US dollars. Default: no costs are shown.

        Raises:
            ValueError: if the endpoint's name is not known here, the price is not above zero, or the dashboard is full.
        """
        self._endpoints.append(self._known(endpoint, label, instance_price_per_hour))
        arranged(self.segments)
        return self

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its segments, from top to bottom."""
        if not self._endpoints:
            return (Segment("totals", None, (text("empty", "No endpoints: add some with `add_endpoint(...)`."),)),)
        rows = [widget for number, endpoint in enumerate(self._endpoints, 1) for widget in self._row(endpoint, number)]
        return (self._totals(), Segment("endpoints", "Endpoints", tuple(rows)))

    def _known(
        self, endpoint: MeasuredResource | FleetEndpoint, label: str | None = None, price: float | None = None
    ) -> FleetEndpoint:
        if isinstance(endpoint, MeasuredResource):
            here, there = Stack.of(self), Stack.of(endpoint)
            region, account = (
                known if known != own and not Token.is_unresolved(known) else None
                for known, own in ((there.region, here.region), (there.account, here.account))
            )
            if (region or account) and Token.is_unresolved(endpoint.served.endpoint_name):
                raise ValueError(
                    f"{endpoint.node.path} is in {there.account}/{there.region}, where CloudFormation generates its "
                    f"name, so {self.node.path} does not know it: set endpoint_name=..., and also a name for an "
                    "inference component"
                )
            endpoint = FleetEndpoint(endpoint.node.path, endpoint.served, region, account)
        elif not isinstance(endpoint, FleetEndpoint):
            raise TypeError(
                f"{endpoint!r} is not an endpoint: pass one of this library's, or FleetEndpoint(label=..., served=...)"
            )
        endpoint = replace(endpoint, **drop_none(label=label, instance_price_per_hour=price))
        pricing.check_price(endpoint.instance_price_per_hour, 0)
        return endpoint

    def _totals(self) -> Segment:
        contexts = [(endpoint.label, self._context(endpoint)) for endpoint in self._endpoints]
        widgets: list[Widget] = []
        for graph in dashboards().totals:
            drawn = [
                (label, context)
                for label, context in contexts
                if context.publishes(graph) and (graph.name != "total_cost" or context.price is not None)
            ]
            lines = [
                (context, replace(graph.lines[0], label=label, suffix=f"_{number}"))
                for number, (label, context) in enumerate(drawn, 1)
            ]
            if lines:
                properties = graph_properties(graph.title, lines, PSEUDO.region, stacked=True)
                widgets.append(Widget(graph.name, "metric", properties, 6, 6))
        return Segment("totals", "All endpoints", tuple(widgets))

    def _row(self, endpoint: FleetEndpoint, number: int) -> list[Widget]:
        served, context, name = endpoint.served, self._context(endpoint), f"endpoint_{number}"
        facts = [f"### {endpoint.label}", served.endpoint_name, served.instance_type or "", endpoint.region or ""]
        heading = text(name, "\n\n".join(fact for fact in facts if fact), width=_WIDTH, height=_ROW_HEIGHT)
        # If several graphs have the same name, the first one with lines is used.
        graphs = {graph.name: graph for graph in reversed(dashboards().row) if context.publishes(graph)}
        return [
            heading,
            *(context.graph(graph, f"{name}_{graph.name}", _WIDTH, _ROW_HEIGHT) for graph in reversed(graphs.values())),
        ]

    def _context(self, endpoint: FleetEndpoint) -> GraphContext:
        return GraphContext(
            endpoint.served,
            endpoint.region or PSEUDO.region,
            endpoint.account,
            price=endpoint.instance_price_per_hour,
            discount=self._discount,
        )

    def _body(self) -> dict[str, Any]:
        names: dict[str, str] = {}
        for number, endpoint in enumerate(self._endpoints, 1):
            names[endpoint.served.endpoint_name] = f"EndpointName{number}"
            if endpoint.served.inference_component_name is not None:
                names[endpoint.served.inference_component_name] = f"InferenceComponentName{number}"
        return dashboard_body(self.segments, names)
