"""One dashboard for all endpoints of a team: totals, and a row for each endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from aws_cdk import Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct, IConstruct, Node

from constructs_optim.constructs.stack.late_value import late_text
from constructs_optim.constructs.stack.stack_facts import PSEUDO
from constructs_optim.recipe import pricing

from .dashboard_body import dashboard_body
from .dashboard_graph import BLUE, GREEN, OF_STATISTICS, ORANGE, RED, Line, Place, graph, total
from .dashboard_widget import Segment, Widget, arranged, text
from .served_model import ServedModel

_NAME_WIDTH, _GRAPH_WIDTH, _ROW_HEIGHT = 4, 4, 5


class ServesModel(Protocol):
    """An endpoint of this library, or one like it: a construct that says what it serves."""

    @property
    def served(self) -> ServedModel:
        """What serves the model."""
        ...

    @property
    def node(self) -> Node:
        """The construct's place in its app."""
        ...


@dataclass(frozen=True)
class FleetEndpoint:
    """An endpoint of a fleet, by the names that CloudWatch knows it by.

    Attributes:
        label: what people call it.
        served: what serves its model.
        region: where it is. Default: the dashboard's own.
        account: whose it is; the dashboard's account has to be a monitoring account of it. Default: the same.
        instance_price_per_hour: of one of its instances, in US dollars. Default: no costs are shown.
    """

    label: str
    served: ServedModel
    region: str | None = None
    account: str | None = None
    instance_price_per_hour: float | None = None


class FleetDashboard(Construct):
    """Requests, errors, instances and costs of all endpoints together, and a row of graphs for each.

    Endpoints may be of other stacks, regions and, with CloudWatch's cross-account observability, accounts.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoints: Sequence[ServesModel | FleetEndpoint] = (),
        dashboard_name: str | None = None,
        discount: float = 0,
    ) -> None:
        """Declare the dashboard.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            endpoints: what it shows, in this order; more come with ``add_endpoint``.
            dashboard_name: default: CloudFormation makes one up.
            discount: what a savings plan takes off prices, as a share. Default: 0.

        Raises:
            ValueError: for an endpoint whose name cannot be known here, for a price that is not above zero, or for
                more endpoints than CloudWatch shows.
        """
        pricing.check_price(None, discount)
        super().__init__(scope, id)
        self._discount = discount
        self._endpoints: list[FleetEndpoint] = [self._known(endpoint) for endpoint in endpoints]
        arranged(self.segments)
        self._resource = cloudwatch.CfnDashboard(
            self, "Resource", dashboard_body=late_text(self._body), dashboard_name=dashboard_name
        )

    @property
    def dashboard_name(self) -> str:
        """The dashboard's name (a token)."""
        return self._resource.ref

    def add_endpoint(
        self,
        endpoint: ServesModel | FleetEndpoint,
        *,
        label: str | None = None,
        instance_price_per_hour: float | None = None,
    ) -> FleetDashboard:
        """Show one more endpoint.

        Args:
            endpoint: an endpoint of this library, or a ``FleetEndpoint`` for any other.
            label: what people call it. Default: its path in the app.
            instance_price_per_hour: of one of its instances, in US dollars. Default: no costs are shown.

        Raises:
            ValueError: as for ``endpoints``.
        """
        self._endpoints.append(self._known(endpoint, label, instance_price_per_hour))
        arranged(self.segments)
        return self

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What it shows, from top to bottom."""
        shown = self._endpoints
        if not shown:
            return (Segment("totals", None, (text("empty", "No endpoints: add some with `add_endpoint(...)`."),)),)
        rows = [widget for number, endpoint in enumerate(shown, 1) for widget in self._row(endpoint, number)]
        return (self._totals(shown), Segment("endpoints", "Endpoints", tuple(rows)))

    @property
    def widgets(self) -> Mapping[str, Widget]:
        """Its widgets by name, to take singly: ``total_invocations``, ``endpoint_1_latency`` and so on."""
        return MappingProxyType({widget.name: widget for segment in self.segments for widget in segment.widgets})

    def _known(
        self, endpoint: ServesModel | FleetEndpoint, label: str | None = None, price: float | None = None
    ) -> FleetEndpoint:
        if isinstance(endpoint, FleetEndpoint):
            found = endpoint
        else:
            here, there = Stack.of(self), Stack.of(_construct(endpoint))
            found = FleetEndpoint(
                endpoint.node.path,
                endpoint.served,
                _elsewhere(there.region, here.region),
                _elsewhere(there.account, here.account),
            )
            if (found.region or found.account) and Token.is_unresolved(endpoint.served.endpoint_name):
                raise ValueError(
                    f"{endpoint.node.path} is in {there.account}/{there.region}, and CloudFormation makes its name up "
                    f"there, so that {self.node.path} cannot know it: give it a name with endpoint_name=..., and an "
                    "inference component one as well"
                )
        found = FleetEndpoint(
            label or found.label,
            found.served,
            found.region,
            found.account,
            price if price is not None else found.instance_price_per_hour,
        )
        pricing.check_price(found.instance_price_per_hour, 0)
        return found

    def _totals(self, shown: Sequence[FleetEndpoint]) -> Segment:
        each = [(endpoint.label, endpoint.served, self._place(endpoint)) for endpoint in shown]
        priced = [entry for entry in each if entry[2].price is not None]
        return Segment(
            "totals",
            "All endpoints",
            (
                *total(each, PSEUDO.region, "total_invocations", "Invocations", "invocations"),
                *total(each, PSEUDO.region, "total_errors", "5xx errors", "invocation_5xx_errors"),
                *total(each, PSEUDO.region, "total_instances", "Instances", "instances"),
                *total(priced, PSEUDO.region, "total_cost", "Cost per hour", "cost_per_hour"),
            ),
        )

    def _row(self, endpoint: FleetEndpoint, number: int) -> list[Widget]:
        served, place = endpoint.served, self._place(endpoint)
        facts = [f"### {endpoint.label}", f"{served.endpoint_name}", served.instance_type or "", endpoint.region or ""]
        drawn = {
            "invocations": ("Invocations", [Line("invocations", label="requests", color=BLUE)]),
            "latency": (
                "Model latency",
                [Line("model_latency", name, color=OF_STATISTICS[name]) for name in ("p50", "p99")],
            ),
            "errors": (
                "Errors",
                [
                    Line("invocation_4xx_errors", label="4xx", color=ORANGE),
                    Line("invocation_5xx_errors", label="5xx", color=RED),
                ],
            ),
            "concurrency": ("Concurrent requests", [Line("concurrent_requests", label="maximum", color=BLUE)]),
            "load": (
                "GPU utilization" if served.has_gpus else "CPU utilization",
                [Line("gpu_utilization" if served.has_gpus else "cpu_utilization", label="average", color=GREEN)],
            ),
        }
        name = text(
            f"endpoint_{number}", "\n\n".join(fact for fact in facts if fact), width=_NAME_WIDTH, height=_ROW_HEIGHT
        )
        graphs = [
            widget
            for kind, (title, lines) in drawn.items()
            for widget in graph(
                served,
                place,
                f"endpoint_{number}_{kind}",
                title,
                lines,
                width=_GRAPH_WIDTH,
                height=_ROW_HEIGHT,
            )
        ]
        return [name, *graphs]

    def _place(self, endpoint: FleetEndpoint) -> Place:
        return Place(
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


def _construct(endpoint: ServesModel) -> IConstruct:
    if not isinstance(endpoint, Construct):
        raise TypeError(
            f"{endpoint!r} is no construct: give an endpoint of this library, or FleetEndpoint(label=..., served=...)"
        )
    return endpoint


def _elsewhere(there: str, here: str) -> str | None:
    """The region or account of an endpoint where it is known, and not that of the dashboard."""
    return there if there != here and not Token.is_unresolved(there) else None
