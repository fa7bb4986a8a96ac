"""``constructs-optim endpoint``: shows, stops, and starts an endpoint's capacity."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer

from constructs_optim.explanation.formatting import counted, duration, listed
from constructs_optim.operations.capacity import (
    Component,
    Endpoint,
    EndpointCapacity,
    ScalingRange,
    Variant,
    suspended_text,
)
from constructs_optim.operations.diagnosis import (
    Diagnosis,
    EndpointDiagnosis,
    ScalingState,
    waiting_minutes,
)

from ..aws import Account, Profile, Region, failed
from ..commands import Commands
from ..presentation import (
    JsonOption,
    YesOption,
    confirm,
    print_fields,
    print_json,
    print_table,
    refuse_prompt,
    say,
    working,
)

endpoint_app = Commands(help="Show, stop, and start the capacity of an endpoint.")

Name = Annotated[str, typer.Argument(help="Name of the endpoint, from the stack's outputs or the console.")]


@endpoint_app.command("show")
def show_command(name: Name, region: Region = None, profile: Profile = None, as_json: JsonOption = False) -> None:
    """Show what an endpoint serves, its capacity and scaling, its alarms, and what is wrong with it.

    Compares the endpoint with the stack that declares it: configuration, scaling range and policies, alarms, and
    permissions of its roles. Exits with status 1 if something is wrong.

    Examples:
        constructs-optim endpoint show chat
    """
    account, now = Account(profile, region), dt.datetime.now(dt.UTC)
    with working(f"Looking up {name}"):
        found = EndpointDiagnosis(account.client, now=lambda: now).diagnose(name)
    if found is None:
        raise _unknown(name)
    if as_json:
        print_json({**found.endpoint.model_dump(), **found.model_dump(exclude={"endpoint"})})
    else:
        _show(found, now)
    if found.problems:
        raise typer.Exit(1)


def _show(found: Diagnosis, now: dt.datetime) -> None:
    endpoint = found.endpoint
    stack = [("Stack", f"{found.stack}, {found.stack_status}")] if found.stack is not None else []
    models = [("Model", "\n".join(found.models))] if found.models else []
    modified = endpoint.last_modified
    changed = [("Last change", f"{modified:%Y-%m-%d %H:%M} UTC, {_ago(modified, now)}")] if modified else []
    print_fields(
        [
            ("Endpoint", endpoint.name),
            ("State", _state(found)),
            *stack,
            *([("Configuration", endpoint.config_name)] if endpoint.config_name else []),
            *models,
            *changed,
            *((f"Variant {each.name}", _instances(each, found, now)) for each in endpoint.variants),
            *([("Alarms", _alarms(found))] if found.alarms else []),
            ("Logs", "\n".join(found.log_groups)),
            *([("Dashboard", "\n".join(found.dashboards))] if found.dashboards else []),
        ]
    )
    if endpoint.components:
        say("")
        columns = ["Inference component", "Status", "Copies", "Scaling range", "Policies", "Last scaling", "Schedules"]
        print_table(columns, [_row(component, found, now) for component in endpoint.components], status="Status")
    if found.problems:
        say("")
        say(f"{counted(len(found.problems), 'problem')}:", style="bold red")
        for problem in found.problems:
            say(f"  {problem.text}", style="red")
            if problem.remedy:
                say(f"    Next: {problem.remedy}")
    for gap in found.not_seen:
        say(f"Not seen: {gap}", err=True)


@endpoint_app.command("stop")
def stop_command(
    name: Name,
    yes: YesOption = False,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Remove all copies of an endpoint's models until you start it again.

    The endpoint and its artifacts stay, and deployments leave it stopped. Inference components must serve the models.

    Examples:
        constructs-optim endpoint stop chat
    """
    refuse_prompt(as_json=as_json, yes=yes)
    capacity, endpoint = _described(name, profile, region)
    # A schedule that stopped it could start it again.
    scales = any(c.scaling is not None and not c.scaling.suspended for c in endpoint.own_components)
    if endpoint.stopped and not scales:
        if as_json:
            print_json(endpoint)
        else:
            say(f"{name} is already stopped.")
        return
    if endpoint.components and not as_json:
        say(f"{name} has {_copies(sum(c.desired_copies for c in endpoint.own_components))}. Requests will fail.")
        if endpoint.keeps_instances:
            say(
                "Its instances keep running at the same cost: managed instance scaling is off, or keeps at least one. "
                "To let them go, deploy min_capacity=0 or stop_on(...)."
            )
        confirm("Stop the endpoint?", "stopped", yes=yes)
    with working(f"Stopping {name}"):
        capacity.stop(endpoint, tell=_tell)
    if as_json:
        print_json(capacity.describe(name))
    else:
        say(f"{name} is stopping. `constructs-optim endpoint start {name}` starts it again.")


@endpoint_app.command("start")
def start_command(
    name: Name,
    copies: Annotated[
        int | None, typer.Option(min=1, help="Copies of each component. Default: the minimum of its scaling range.")
    ] = None,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Start a stopped endpoint: bring its copies back and resume its scaling.

    Copies that did not start because there was no capacity are requested again.

    Examples:
        constructs-optim endpoint start chat --copies 2
    """
    capacity, endpoint = _described(name, profile, region)
    with working(f"Starting {name}"):
        capacity.start(endpoint, copies=copies, tell=_tell)
        found = capacity.describe(name)
    if found is None:
        raise _unknown(name)
    if as_json:
        print_json(found)
        return
    for component in found.own_components:
        have = f"{component.current_copies} of {_copies(component.desired_copies)}"
        waiting = "waiting for capacity" if component.waits_for_capacity else component.status
        reason = f": {component.failure_reason}" if component.failure_reason else ""
        say(f"{component.name} has {have}, {waiting}{reason}.")
    if any(component.current_copies < component.desired_copies for component in found.own_components):
        say(f"A model takes minutes to load: `constructs-optim endpoint show {name}` shows the copies.")


def _tell(sentence: str) -> None:
    # Beside the JSON, which is the output.
    say(sentence, err=True)


def _described(name: str, profile: str | None, region: str | None) -> tuple[EndpointCapacity, Endpoint]:
    account = Account(profile, region)
    capacity = EndpointCapacity(
        account.sagemaker(),
        account.client("application-autoscaling"),
        on_wait=lambda component: say(f"Waiting for another change of {component}. Ctrl-C is safe.", err=True),
    )
    with working(f"Looking up {name}"):
        endpoint = capacity.describe(name)
    if endpoint is None:
        raise _unknown(name)
    return capacity, endpoint


def _unknown(name: str) -> typer.Exit:
    return failed(f"No endpoint {name} in this account and Region. `aws sagemaker list-endpoints` lists the endpoints.")


def _copies(count: int) -> str:
    return f"{count} {'copy' if count == 1 else 'copies'}"


def _state(found: Diagnosis) -> str:
    endpoint = found.endpoint
    state = "stopped" if endpoint.stopped else endpoint.status
    if endpoint.failure_reason:
        return f"{state}: {endpoint.failure_reason}"
    waiting = [each.name for each in endpoint.waiting]
    return (
        f"{state}, but {listed(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for capacity" if waiting else state
    )


def _alarms(found: Diagnosis) -> str:
    states = Counter(alarm.state for alarm in found.alarms)
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def _ago(moment: dt.datetime, now: dt.datetime) -> str:
    return f"{duration(max(0.0, (now - moment).total_seconds()))} ago"


def _instances(variant: Variant, found: Diagnosis, now: dt.datetime) -> str:
    current, desired = variant.current_instances, variant.desired_instances
    lines = [f"{current} of {desired} instances" if current != desired else counted(current or 0, "instance")]
    if variant.managed_instances is not None:
        lines.append("managed by SageMaker: {} to {}".format(*variant.managed_instances))
    if variant.scaling is not None:
        lines.append(f"scaling range: {_range(variant.scaling)}")
        state = found.scaling.get(f"endpoint/{found.endpoint.name}/variant/{variant.name}")
        if state is not None:
            lines.append(f"policies: {', '.join(state.policies) or 'none, so nothing scales it'}")
        if last := _last_activity(state, now):
            lines.append(f"last scaling: {last}")
        lines += _schedules(variant.scaling)
    return "\n".join(lines)


def _last_activity(state: ScalingState | None, now: dt.datetime) -> str:
    last = state.last_activity if state is not None else None
    return f"{last.status}, {_ago(last.started, now)}: {last.message or last.description}" if last is not None else ""


def _row(component: Component, found: Diagnosis, now: dt.datetime) -> list[str]:
    reason, scaling = component.failure_reason, component.scaling
    copies = f"{component.current_copies} of {component.desired_copies}"
    status = component.status
    if component.waits_for_capacity:
        status = f"{status}, waiting for capacity{waiting_minutes(component, now)}"
    state = found.scaling.get(f"inference-component/{component.name}")
    return [
        component.name,
        f"{status}: {reason}" if reason else status,
        "with its base" if component.is_adapter else copies,
        _range(scaling) if scaling is not None else "none",
        ", ".join(state.policies) if state is not None else "",
        _last_activity(state, now),
        "\n".join(_schedules(scaling)) if scaling is not None else "",
    ]


def _range(scaling: ScalingRange) -> str:
    limits = f"{scaling.min_capacity} to {scaling.max_capacity}"
    if scaling.suspended:
        return f"{limits}, suspended"
    return f"{limits}, {suspended_text(scaling.suspensions)} suspended" if scaling.suspensions else limits


def _schedules(scaling: ScalingRange) -> Iterator[str]:
    for schedule in scaling.schedules:
        limits = (schedule.min_capacity, schedule.max_capacity)
        least, most = ("as before" if limit is None else limit for limit in limits)
        zone = f" {schedule.time_zone}" if schedule.time_zone else ""
        yield f"{schedule.name}: {schedule.expression}{zone} → {least} to {most}"
