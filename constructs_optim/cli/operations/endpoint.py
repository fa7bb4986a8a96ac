"""``constructs-optim endpoint``: stop an endpoint, start it again, and see what it has."""

from __future__ import annotations

from typing import Annotated

import typer

from constructs_optim.explanation.formatting import counted
from constructs_optim.operations.capacity import Component, Endpoint, EndpointCapacity, ScalingRange, Variant

from ..aws import Account, Profile, Region, failed
from ..commands import Commands
from ..presentation import (
    FormatOption,
    YesOption,
    confirmed,
    print_fields,
    print_json,
    print_table,
    say,
)

endpoint_app = Commands()

Name = Annotated[str, typer.Argument(help="The endpoint's name, as the stack's output or the console has it.")]


@endpoint_app.command("show")
def show_command(
    name: Name,
    region: Region = None,
    profile: Profile = None,
    format: FormatOption = "table",
) -> None:
    """Show an endpoint's instances and copies, the ranges that scaling keeps them in, and its schedules."""
    endpoint = _described(_capacity(profile, region), name)
    if format == "json":
        print_json(endpoint.model_dump(mode="json"))
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
    """Take all copies of an endpoint's model away until it is started again. Endpoint and artifact stay.

    Deployments leave it stopped. Only where inference components serve the model.
    """
    capacity = _capacity(profile, region)
    endpoint = _described(capacity, name)
    if endpoint.stopped and not _is_left_running(endpoint):
        say(f"{name} is stopped already; there is nothing to stop.")
        return
    if endpoint.components:
        copies = sum(component.desired_copies for component in endpoint.own_components)
        say(f"{name} has {counted(copies, 'copy').replace('copys', 'copies')}; requests will fail.")
        if endpoint.keeps_instances:
            say(_INSTANCES_STAY)
        if not (yes or confirmed("Stop it?")):
            say("Nothing was stopped.")
            raise typer.Exit(1)
    capacity.stop(endpoint)
    say(f"{name} is stopping. `constructs-optim endpoint start {name}` brings it back.")


@endpoint_app.command("start")
def start_command(
    name: Name,
    copies: Annotated[
        int | None,
        typer.Option(min=1, help="Copies of each component; by default the fewest that scaling allows, at least 1."),
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Bring an endpoint's copies back after a stop, and let scaling go on."""
    capacity = _capacity(profile, region)
    started = capacity.start(_described(capacity, name), copies=copies)
    for component, count in started.items():
        say(f"{component} gets {counted(count, 'copy').replace('copys', 'copies')}.")
    say(f"{name} is starting. The model takes minutes to load; `constructs-optim endpoint show {name}` tells.")


_INSTANCES_STAY = (
    "Its instances go on, and cost as before: managed instance scaling is off, or keeps at least one. With "
    "min_capacity=0, or stop_on(...), a deployment lets them go."
)


def _capacity(profile: str | None, region: str | None) -> EndpointCapacity:
    account = Account(profile, region)
    return EndpointCapacity(
        account.sagemaker(),
        account.client("application-autoscaling"),
        on_wait=lambda component: say(f"{component} is being changed already; waiting for that. Ctrl-C is safe."),
    )


def _described(capacity: EndpointCapacity, name: str) -> Endpoint:
    endpoint = capacity.describe(name)
    if endpoint is None:
        raise failed(
            f"There is no endpoint {name} in this account and region: `aws sagemaker list-endpoints` names them."
        )
    return endpoint


def _is_left_running(endpoint: Endpoint) -> bool:
    """Whether a schedule could still bring it back: it has stopped the endpoint, and nobody else has."""
    return any(c.scaling is not None and not c.scaling.suspended for c in endpoint.own_components)


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
    status = component.status
    if component.failure_reason:
        status = f"{status}: {component.failure_reason}"
    copies = f"{component.current_copies} of {component.desired_copies}"
    if component.is_adapter:
        copies = "those of its base"
    scaling = component.scaling
    return [
        component.name,
        status,
        copies,
        _range(scaling) if scaling is not None else "none",
        "\n".join(_schedules(scaling)) if scaling is not None else "",
    ]


def _range(scaling: ScalingRange) -> str:
    return f"{scaling.min_capacity} to {scaling.max_capacity}" + (", suspended" if scaling.suspended else "")


def _schedules(scaling: ScalingRange) -> list[str]:
    return [
        f"{schedule.name}: {schedule.expression}{f' {schedule.time_zone}' if schedule.time_zone else ''} → "
        f"{_limit(schedule.min_capacity)} to {_limit(schedule.max_capacity)}"
        for schedule in scaling.schedules
    ]


def _limit(capacity: int | None) -> str:
    return "as before" if capacity is None else str(capacity)
