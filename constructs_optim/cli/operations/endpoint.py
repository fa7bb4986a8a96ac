"""``constructs-optim endpoint``: show an endpoint's capacity, stop it and start it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from constructs_optim.explanation.formatting import counted
from constructs_optim.operations.capacity import Component, Endpoint, EndpointCapacity, ScalingRange, Variant

from ..aws import Account, Profile, Region, failed
from ..commands import Commands
from ..presentation import FormatOption, YesOption, confirm, print_fields, print_json, print_table, say

endpoint_app = Commands()

Name = Annotated[str, typer.Argument(help="The endpoint's name, as the stack's output or the console has it.")]


@endpoint_app.command("show")
def show_command(name: Name, region: Region = None, profile: Profile = None, format: FormatOption = "table") -> None:
    """Show an endpoint's instances and copies, the ranges that scaling keeps them in, and its schedules."""
    _, endpoint = _described(name, profile, region)
    if format == "json":
        print_json(endpoint)
        return
    state = "stopped" if endpoint.stopped else endpoint.status
    print_fields(
        [
            ("endpoint", endpoint.name),
            ("state", f"{state}: {endpoint.failure_reason}" if endpoint.failure_reason else state),
            *((f"variant {variant.name}", _instances(variant)) for variant in endpoint.variants),
        ]
    )
    if endpoint.components:
        columns = ["inference component", "status", "copies", "scaling range", "schedules"]
        print_table(columns, [_row(component) for component in endpoint.components])


@endpoint_app.command("stop")
def stop_command(name: Name, yes: YesOption = False, region: Region = None, profile: Profile = None) -> None:
    """Remove all copies of an endpoint's model until it is started again. Endpoint and artifact stay.

    Deployments leave it stopped. Only where inference components serve the model.
    """
    capacity, endpoint = _described(name, profile, region)
    # A schedule that has stopped it could start it again.
    scales = any(c.scaling is not None and not c.scaling.suspended for c in endpoint.own_components)
    if endpoint.stopped and not scales:
        say(f"{name} is stopped already; there is nothing to stop.")
        return
    if endpoint.components:
        say(f"{name} has {_copies(sum(c.desired_copies for c in endpoint.own_components))}; requests will fail.")
        if endpoint.keeps_instances:
            say(
                "Its instances keep running and cost as before: managed instance scaling is off or keeps at least one. "
                "With min_capacity=0, or stop_on(...), a deployment lets them go."
            )
        confirm("Stop it?", "stopped", yes=yes)
    capacity.stop(endpoint)
    say(f"{name} is stopping. `constructs-optim endpoint start {name}` brings it back.")


@endpoint_app.command("start")
def start_command(
    name: Name,
    copies: Annotated[
        int | None, typer.Option(min=1, help="Copies of each component; by default the minimum of its scaling range.")
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Bring an endpoint's copies back after a stop, and resume its scaling."""
    capacity, endpoint = _described(name, profile, region)
    for component, count in capacity.start(endpoint, copies=copies).items():
        say(f"{component} gets {_copies(count)}.")
    say(f"{name} is starting. The model takes minutes to load; `constructs-optim endpoint show {name}` shows it.")


def _described(name: str, profile: str | None, region: str | None) -> tuple[EndpointCapacity, Endpoint]:
    account = Account(profile, region)
    capacity = EndpointCapacity(
        account.sagemaker(),
        account.client("application-autoscaling"),
        on_wait=lambda component: say(f"{component} is being changed already; waiting for that. Ctrl-C is safe."),
    )
    endpoint = capacity.describe(name)
    if endpoint is None:
        raise failed(
            f"There is no endpoint {name} in this account and region: `aws sagemaker list-endpoints` names them."
        )
    return capacity, endpoint


def _copies(count: int) -> str:
    return f"{count} {'copy' if count == 1 else 'copies'}"


def _instances(variant: Variant) -> str:
    current, desired = variant.current_instances, variant.desired_instances
    lines = [f"{current} of {desired} instances" if current != desired else counted(current or 0, "instance")]
    if variant.managed_instances is not None:
        lines.append("managed by SageMaker: {} to {}".format(*variant.managed_instances))
    if variant.scaling is not None:
        lines.append(f"scaling range: {_range(variant.scaling)}")
        lines += _schedules(variant.scaling)
    return "\n".join(lines)


def _row(component: Component) -> list[str]:
    reason, scaling = component.failure_reason, component.scaling
    copies = f"{component.current_copies} of {component.desired_copies}"
    return [
        component.name,
        f"{component.status}: {reason}" if reason else component.status,
        "those of its base" if component.is_adapter else copies,
        _range(scaling) if scaling is not None else "none",
        "\n".join(_schedules(scaling)) if scaling is not None else "",
    ]


def _range(scaling: ScalingRange) -> str:
    return f"{scaling.min_capacity} to {scaling.max_capacity}" + (", suspended" if scaling.suspended else "")


def _schedules(scaling: ScalingRange) -> Iterator[str]:
    for schedule in scaling.schedules:
        limits = (schedule.min_capacity, schedule.max_capacity)
        least, most = ("as before" if limit is None else limit for limit in limits)
        zone = f" {schedule.time_zone}" if schedule.time_zone else ""
        yield f"{schedule.name}: {schedule.expression}{zone} → {least} to {most}"
