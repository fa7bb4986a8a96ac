"""``constructs-optim endpoint`` against the local cloud."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.operations.capacity import EndpointCapacity

from ..support.denials import deny
from ..support.operator_endpoints import Served
from ..support.operator_stores import Store
from ..support.waiting import until
from ..support.watched_endpoints import Watched

pytestmark = pytest.mark.local


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["endpoint", *arguments], input=answer)


@pytest.fixture
def served(store: Store) -> Served:
    """An endpoint with a component that scales; the store's environment leads the commands to its cloud."""
    made = Served.by_components(store.cloud)
    name = made.component(copies=2)
    made.scale(name, 1, 4)
    return made


def test_an_endpoint_is_stopped_shown_and_started(served: Served) -> None:
    stopped = run("stop", served.name, answer="y\n")
    assert stopped.exit_code == 0, stopped.output
    assert "has 2 copies. Requests will fail" in stopped.stdout
    assert "Its instances keep running" not in stopped.stdout
    component = f"{served.name}-llama"
    assert served.copies(component) == 0
    shown = json.loads(run("show", served.name, "--json").stdout)
    assert shown["stopped"] is True
    assert shown["components"][0]["scaling"]["suspended"] is True
    again = run("stop", served.name)
    assert (again.exit_code, "already stopped" in again.stdout) == (0, True)
    started = run("start", served.name)
    assert started.exit_code == 0, started.output
    assert re.search(rf"^{component} has [01] of 1 copy, (Updating|InService)\.$", started.stdout, re.MULTILINE)
    assert served.copies(component) == 1


def test_an_endpoint_is_stopped_only_after_confirmation(served: Served) -> None:
    refused = run("stop", served.name, answer="n\n")
    assert (refused.exit_code, "Nothing was stopped" in refused.stdout) == (1, True)
    assert served.copies(f"{served.name}-llama") == 2


def test_an_interrupted_stop_says_that_scaling_is_as_before(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EndpointCapacity, "_set_copies", interrupted)
    result = run("stop", served.name, "--yes")
    assert result.exit_code != 0
    assert f"Scaling of {served.name}-llama is as before the command." in " ".join(result.stderr.split())
    shown = json.loads(run("show", served.name, "--json").stdout)
    assert shown["components"][0]["scaling"]["suspended"] is False


def test_an_endpoint_is_shown_in_tables(served: Served) -> None:
    served.schedule(f"{served.name}-llama", "Start", 1, 4)
    result = run("show", served.name)
    assert result.exit_code == 0, result.output
    row = next(line for line in result.stdout.splitlines() if line.startswith(f"{served.name}-llama"))
    assert "2 of 2" in row
    assert "1 to 4" in row
    assert "Start: cron(0 7 ? * MON-FRI *) Europe/Berlin → 1 to 4" in row
    assert "managed by SageMaker: 0 to 4" in result.stdout


def test_stopping_an_endpoint_warns_that_its_minimum_instances_keep_running(store: Store) -> None:
    served = Served.by_components(store.cloud, least_instances=1)
    served.component(copies=1)
    result = run("stop", served.name, "--yes")
    assert result.exit_code == 0, result.output
    assert "Its instances keep running" in result.stdout


def test_stopping_an_endpoint_without_components_is_refused_with_the_reason(store: Store) -> None:
    result = run("stop", Served.by_a_variant(store.cloud).name, "--yes")
    assert result.exit_code == 2
    assert "inference component" in result.stderr
    assert "the artifact stays in its store" in result.stderr


@pytest.mark.parametrize("command", ["show", "stop", "start"])
def test_an_unknown_endpoint_is_an_error_that_suggests_list_endpoints(store: Store, command: str) -> None:
    result = run(command, "nobody")
    assert result.exit_code == 2
    assert "list-endpoints" in result.stderr


@pytest.fixture
def watched(store: Store) -> Iterator[Watched]:
    """An endpoint of a stack, with scaling, alarms, and a role."""
    made = Watched(store.cloud)
    yield made
    made.stack.delete()


def test_a_healthy_endpoint_is_shown_on_one_screen_with_what_it_serves(watched: Watched) -> None:
    result = run("show", watched.name)
    assert result.exit_code == 0, result.output
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert len(lines) < 15
    shown = {name: value for name, value in lines if name != "Variant"}
    stack = watched.stack
    assert shown["Stack"] == f"{stack.name}, CREATE_COMPLETE"
    assert shown["Configuration"].lower() == stack.physical_id("Config").rpartition("/")[2]
    assert shown["Model"].lower() == stack.physical_id("Model").rpartition("/")[2]
    assert shown["Alarms"] == "3 OK"
    assert shown["Logs"] == f"/aws/sagemaker/Endpoints/{watched.name}"
    assert shown["Dashboard"].endswith(f"#dashboards/dashboard/{stack.physical_id('Dashboard')}")
    assert "policies: OnInvocations" in result.stdout
    assert result.stderr == ""


FAULTS: dict[str, Callable[[Watched], object]] = {
    "is not registered, so nothing scales": Watched.deregister,
    "does not scale by it": Watched.delete_policy,
    "instead of 1 to 4": Watched.narrow,
    "does not exist": lambda watched: watched.delete_alarm("Outage"),
    "its actions are disabled": Watched.silence,
    "lacks the action arn:aws:sns": Watched.empty,
    "has scaling in of": lambda watched: watched.suspend("DynamicScalingInSuspended"),
    "(the policy grant is gone): Allow s3:GetObject": lambda watched: watched.delete_role_policy("grant"),
    "serves the configuration by-hand": Watched.move,
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_somebody_changed_by_hand_is_a_problem_with_its_next_step(watched: Watched, text: str) -> None:
    FAULTS[text](watched)
    result = run("show", watched.name)
    assert result.exit_code == 1, result.output
    assert re.search(r"^\d problems?:$", result.stdout, re.MULTILINE)
    assert text in result.stdout
    assert "    Next: " in result.stdout
    shown = json.loads(run("show", watched.name, "--json").stdout)
    assert any(text in problem["text"] and problem["remedy"] for problem in shown["problems"])


def test_an_alarm_in_alarm_is_a_problem_with_its_description(watched: Watched) -> None:
    name = watched.stack.physical_id("ErrorRate")
    watched.client("cloudwatch").set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a test")
    result = run("show", watched.name)
    assert result.exit_code == 1
    assert f"{name} is in ALARM: Chat fails. First: read the log." in result.stdout


def test_a_scaling_activity_that_failed_is_a_problem_with_its_reason(watched: Watched) -> None:
    cloud, scaling = watched.cloud, watched.client("application-autoscaling")
    cloud.inject("server_error", operation="UpdateEndpointWeightsAndCapacities")
    scaling.register_scalable_target(**watched.target, MinCapacity=2)
    until(
        lambda: scaling.describe_scaling_activities(**watched.target)["ScalingActivities"],
        lambda activities: bool(activities) and activities[0]["StatusCode"] == "Failed",
    )
    result = run("show", watched.name)
    assert result.exit_code == 1
    assert "the last scaling of" in result.stdout


def test_a_component_without_copies_waits_for_capacity(store: Store) -> None:
    served = Served.by_components(store.cloud)
    component = served.component(copies=1)
    served.sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=component, DesiredRuntimeConfig={"CopyCount": 0}
    )
    served.copies(component)
    store.cloud.inject("no_capacity")
    served.sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=component, DesiredRuntimeConfig={"CopyCount": 1}
    )
    served.copies(component)
    result = run("show", served.name)
    assert result.exit_code == 1, result.output
    assert f"InService, but {component} waits for capacity" in result.stdout
    assert f"{component} has 0 of 1 copies and waits for capacity (0 min): There is not enough" in result.stdout
    assert "waiting for capacity (0 min)" in result.stdout
    assert f"`constructs-optim endpoint start {served.name}` requests its copies again" in result.stdout
    # There is still none.
    again = run("start", served.name)
    assert (again.exit_code, "is starting" in again.stdout) == (0, False), again.output
    served.copies(component)
    assert f"{component} has 0 of 1 copies" in run("show", served.name).stdout
    store.cloud.clear_faults()
    assert run("start", served.name).exit_code == 0
    until(lambda: served.settled(component)["RuntimeConfig"]["CurrentCopyCount"], lambda copies: copies == 1)
    assert run("show", served.name).exit_code == 0


def test_copies_that_run_stay_while_others_are_requested_again(store: Store) -> None:
    served = Served.by_components(store.cloud)
    component = served.component(copies=1)
    store.cloud.inject("no_capacity")
    served.sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=component, DesiredRuntimeConfig={"CopyCount": 8}
    )
    current = served.settled(component)["RuntimeConfig"]["CurrentCopyCount"]
    before = len(store.cloud.calls())
    assert run("start", served.name).exit_code == 0
    asked = [
        call["request"]["DesiredRuntimeConfig"]["CopyCount"]
        for call in store.cloud.calls()[before:]
        if call["operation"] == "UpdateInferenceComponentRuntimeConfig"
    ]
    assert 1 <= current < 8
    # A request during the update is repeated.
    assert [*dict.fromkeys(asked)] == [current, 8]


def test_an_endpoint_without_a_stack_is_shown(served: Served) -> None:
    result = run("show", served.name)
    assert "Stack" not in result.stdout
    # Its component is registered with a range, and nothing else.
    assert result.exit_code == 1, result.output
    assert "nothing scales inference-component/" in result.stdout


def test_what_may_not_be_looked_up_is_named_and_the_rest_is_shown(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny(monkeypatch, "DescribeStackResources", "DescribeAlarms")
    result = run("show", watched.name)
    assert result.exit_code == 0, result.output
    assert "Not seen: its stack was not found: DescribeStackResources is denied" in result.stderr
    assert "Not seen: the alarms were not looked up: DescribeAlarms is denied" in result.stderr
    assert "scaling range: 1 to 4" in result.stdout


def test_an_endpoint_of_a_stack_in_yaml_is_shown(store: Store) -> None:
    served = Served.by_a_variant(store.cloud)
    config = served.sagemaker.describe_endpoint(EndpointName=served.name)["EndpointConfigName"]
    template = f"""
Resources:
  Endpoint:
    Type: AWS::SageMaker::Endpoint
    Properties: {{EndpointName: {served.name}-yaml, EndpointConfigName: {config}}}
"""
    cloudformation = store.cloud.client("cloudformation")
    cloudformation.create_stack(StackName=served.name, TemplateBody=template)
    until(
        lambda: cloudformation.describe_stacks(StackName=served.name)["Stacks"][0]["StackStatus"],
        lambda status: status == "CREATE_COMPLETE",
    )
    result = run("show", f"{served.name}-yaml")
    assert result.exit_code == 0, result.output
    assert "Not seen: its stack was not found: the template of the stack" in result.stderr
    assert "is not JSON" in result.stderr
    cloudformation.delete_stack(StackName=served.name)
