"""Stopping endpoints and starting them again."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.operations.capacity import Endpoint, EndpointCapacity
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim_local.cloud import LocalCloud

from ..support.operator_endpoints import COPIES, Served
from ..support.sampling import one_in


@pytest.fixture
def served(cloud: LocalCloud) -> Served:
    return Served.by_components(cloud)


def described(served: Served) -> Endpoint:
    found = capacity(served).describe(served.name)
    assert found is not None
    return found


def capacity(served: Served) -> EndpointCapacity:
    return EndpointCapacity(served.sagemaker, served.autoscaling, poll_seconds=0.3)


def test_an_endpoint_is_shown_with_its_instances_copies_range_and_schedules(served: Served) -> None:
    name = served.component(copies=2)
    served.scale(name, 1, 4)
    served.schedule(name, "Day", 1, 4)
    found = described(served)
    (variant,), (component,) = found.variants, found.components
    assert (found.status, found.stopped) == ("InService", False)
    assert variant.managed_instances == (0, 4)
    assert (component.name, component.desired_copies, component.current_copies) == (name, 2, 2)
    assert component.scaling is not None
    assert (component.scaling.min_capacity, component.scaling.max_capacity, component.scaling.suspended) == (
        1,
        4,
        False,
    )
    (schedule,) = component.scaling.schedules
    assert (schedule.name, schedule.time_zone, schedule.max_capacity) == ("Day", "Europe/Berlin", 4)


def test_describing_an_endpoint_that_does_not_exist_returns_none(served: Served) -> None:
    assert capacity(served).describe("nobody") is None


def test_stopping_an_endpoint_removes_its_copies_and_suspends_scaling(served: Served) -> None:
    names = [served.component("llama"), served.component("other", copies=1)]
    served.scale(names[0], 1, 4)
    capacity(served).stop(described(served))
    assert [served.copies(name) for name in names] == [0, 0]
    found = described(served)
    assert found.stopped
    scaling = {component.name: component.scaling for component in found.components}[names[0]]
    assert scaling is not None
    assert (scaling.min_capacity, scaling.max_capacity, scaling.suspended) == (1, 4, True)


def test_stopping_an_endpoint_twice_changes_nothing_more(served: Served, cloud: LocalCloud) -> None:
    name = served.component(copies=1)
    served.scale(name, 1, 4)
    capacity(served).stop(described(served))
    served.copies(name)
    before = len(cloud.calls("UpdateInferenceComponentRuntimeConfig"))
    capacity(served).stop(described(served))
    assert len(cloud.calls("UpdateInferenceComponentRuntimeConfig")) == before


@pytest.mark.parametrize(("least", "asked", "copies"), [(0, None, 1), (2, None, 2), (0, 3, 3)])
def test_starting_an_endpoint_sets_its_copies_and_resumes_scaling(
    served: Served, least: int, asked: int | None, copies: int
) -> None:
    name = served.component(copies=1)
    served.scale(name, least, 4)
    capacity(served).stop(described(served))
    served.copies(name)
    assert capacity(served).start(described(served), copies=asked) == {name: copies}
    assert served.copies(name) == copies
    found = described(served)
    (component,) = found.components
    assert not found.stopped
    assert component.scaling is not None
    assert not component.scaling.suspended


def test_an_endpoint_stopped_by_a_schedule_starts_with_the_range_of_its_start_schedule(served: Served) -> None:
    name = served.component(copies=1)
    served.scale(name, 0, 0)
    served.schedule(name, "Stop", 0, 0)
    served.schedule(name, "Start", 2, 3)
    served.copies(name)
    assert capacity(served).start(described(served)) == {name: 2}
    (component,) = described(served).components
    assert component.scaling is not None
    assert (component.scaling.min_capacity, component.scaling.max_capacity) == (2, 3)


def test_starting_with_a_scaling_range_of_zero_and_no_schedule_is_an_error(served: Served) -> None:
    name = served.component(copies=1)
    served.scale(name, 0, 0)
    with pytest.raises(DeploymentError, match="0 to 0"):
        capacity(served).start(described(served))


def test_starting_more_copies_than_the_scaling_range_allows_is_an_error(served: Served) -> None:
    served.scale(served.component(copies=1), 1, 2)
    with pytest.raises(DeploymentError, match="its scaling range is 1 to 2"):
        capacity(served).start(described(served), copies=5)


def test_an_endpoint_without_scaling_starts_with_the_requested_copies(served: Served) -> None:
    name = served.component(copies=2)
    capacity(served).stop(described(served))
    served.copies(name)
    assert capacity(served).start(described(served), copies=2) == {name: 2}
    assert served.copies(name) == 2


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_an_endpoint_with_the_model_on_a_variant_cannot_be_stopped_or_started(cloud: LocalCloud, verb: str) -> None:
    served = Served.by_a_variant(cloud)
    with pytest.raises(DeploymentError, match="keeps at least one instance"):
        getattr(capacity(served), verb)(described(served))


def test_an_endpoint_reports_whether_instances_keep_running_without_copies(cloud: LocalCloud, served: Served) -> None:
    assert not described(served).keeps_instances
    assert described(Served.by_components(cloud, least_instances=1)).keeps_instances


IN, OUT, SCHEDULED = "DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended"
BY_HAND = [(), (IN,), (OUT,), (IN, SCHEDULED), (IN, OUT, SCHEDULED)]


class Failing:
    """A client whose calls of some operations raise an error."""

    def __init__(self, inner: Any, **errors: BaseException) -> None:
        self._inner, self._errors = inner, errors

    def __getattr__(self, name: str) -> Any:
        if (error := self._errors.get(name)) is None:
            return getattr(self._inner, name)

        def fail(**_: Any) -> Any:
            raise error

        return fail


def denied(action: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": f"not authorized: {action}"}}, action)


def suspended(served: Served, name: str, *suspensions: str) -> None:
    served.autoscaling.register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId=f"inference-component/{name}",
        ScalableDimension=COPIES,
        SuspendedState={each: each in suspensions for each in (IN, OUT, SCHEDULED)},
    )


def suspensions(served: Served, name: str) -> tuple[str, ...]:
    [target] = served.autoscaling.describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=[f"inference-component/{name}"]
    )["ScalableTargets"]
    return tuple(each for each in (IN, OUT, SCHEDULED) if target.get("SuspendedState", {}).get(each))


@pytest.mark.parametrize("by_hand", BY_HAND)
@pytest.mark.parametrize("error", [denied("UpdateInferenceComponentRuntimeConfig"), KeyboardInterrupt()])
def test_scaling_is_as_before_a_stop_that_fails_or_is_interrupted(
    served: Served, by_hand: tuple[str, ...], error: BaseException
) -> None:
    name = served.component(copies=2)
    served.scale(name, 1, 4)
    suspended(served, name, *by_hand)
    told: list[str] = []
    failing = Failing(served.sagemaker, update_inference_component_runtime_config=error)
    with pytest.raises(type(error)):
        EndpointCapacity(failing, served.autoscaling, poll_seconds=0).stop(described(served), tell=told.append)
    assert suspensions(served, name) == by_hand
    assert served.copies(name) == 2
    assert told == [f"Scaling of {name} is as before the command."]


def test_scaling_is_as_before_a_stop_whose_copies_something_else_sets(served: Served) -> None:
    name = served.component(copies=2)
    served.scale(name, 1, 4)

    class Ignoring(Failing):
        def update_inference_component_runtime_config(self, **_: Any) -> None:
            """Set nothing, as if another caller set the number again."""

    told: list[str] = []
    capacity = EndpointCapacity(Ignoring(served.sagemaker), served.autoscaling, poll_seconds=0)
    with pytest.raises(DeploymentError, match="does not stay at zero"):
        capacity.stop(described(served), tell=told.append)
    assert suspensions(served, name) == ()
    assert f"constructs-optim endpoint start {served.name}" in told[-1]


@pytest.mark.parametrize("again", [denied("RegisterScalableTarget"), KeyboardInterrupt()])
def test_a_stop_that_cannot_resume_scaling_says_what_stays_suspended_and_what_resumes_it(
    served: Served, again: BaseException
) -> None:
    name = served.component(copies=2)
    served.scale(name, 1, 4)
    suspended(served, name, IN)
    told: list[str] = []

    class Once(Failing):
        calls = 0

        def register_scalable_target(self, **given: Any) -> None:
            self.calls += 1
            if self.calls > 1:
                raise again
            served.autoscaling.register_scalable_target(**given)

    failing = Failing(served.sagemaker, update_inference_component_runtime_config=denied("Update"))
    with pytest.raises((ClientError, KeyboardInterrupt)):
        EndpointCapacity(failing, Once(served.autoscaling), poll_seconds=0).stop(described(served), tell=told.append)
    assert suspensions(served, name) == (IN, OUT, SCHEDULED)
    [said] = told
    assert f"Scaling of {name} could not be resumed and stays suspended ({OUT}, {SCHEDULED})" in said
    assert f"--resource-id inference-component/{name}" in said
    assert f"{IN}=true,{OUT}=false,{SCHEDULED}=false" in said
    # Another start resumes it as well.
    capacity(served).start(described(served))
    assert suspensions(served, name) == (IN,)


def test_a_stop_that_may_not_suspend_changes_nothing(served: Served) -> None:
    name = served.component(copies=2)
    served.scale(name, 1, 4)
    told: list[str] = []
    failing = Failing(served.autoscaling, register_scalable_target=denied("RegisterScalableTarget"))
    with pytest.raises(ClientError):
        EndpointCapacity(served.sagemaker, failing, poll_seconds=0).stop(described(served), tell=told.append)
    assert (suspensions(served, name), served.copies(name)) == ((), 2)
    assert told == [f"Scaling of {name} is as before the command."]


def test_a_stop_without_permission_to_tag_still_stops_and_says_what_the_start_does(served: Served) -> None:
    name = served.component(copies=2)
    served.scale(name, 1, 4)
    suspended(served, name, IN)
    told: list[str] = []
    failing = Failing(served.autoscaling, tag_resource=denied("TagResource"))
    EndpointCapacity(served.sagemaker, failing, poll_seconds=0).stop(described(served), tell=told.append)
    assert (suspensions(served, name), served.copies(name)) == ((IN, OUT, SCHEDULED), 0)
    [said] = told
    assert "not recorded (not authorized: TagResource): the start resumes all of its scaling" in said
    capacity(served).start(described(served))
    assert suspensions(served, name) == ()


def test_a_start_without_permission_for_tags_resumes_all_scaling(served: Served) -> None:
    name = served.component(copies=1)
    served.scale(name, 1, 4)
    refused = {name: denied(name) for name in ("tag_resource", "list_tags_for_resource", "untag_resource")}
    limited = EndpointCapacity(served.sagemaker, Failing(served.autoscaling, **refused), poll_seconds=0)
    limited.stop(described(served))
    assert served.copies(name) == 0
    limited.start(described(served))
    assert (served.copies(name), suspensions(served, name)) == (1, ())


def test_a_stopped_endpoint_whose_scaling_was_resumed_in_part_starts_as_before_its_stop(served: Served) -> None:
    name = served.component(copies=1)
    served.scale(name, 1, 4)
    capacity(served).stop(described(served))
    assert served.copies(name) == 0
    suspended(served, name, IN, OUT)
    capacity(served).start(described(served))
    assert suspensions(served, name) == ()


def test_a_start_says_how_to_resume_what_no_stop_recorded_of_a_running_component(served: Served) -> None:
    name = served.component(copies=1)
    served.scale(name, 1, 4)
    suspended(served, name, IN, OUT, SCHEDULED)
    told: list[str] = []
    capacity(served).start(described(served), tell=told.append)
    assert suspensions(served, name) == (IN, OUT, SCHEDULED)
    [said] = told
    assert "no stop recorded that it suspended it. Resume it with `aws application-autoscaling" in said


@pytest.mark.parametrize("by_hand", one_in(3, [[*each] for each in BY_HAND]))
def test_a_start_resumes_only_what_the_stop_suspended(served: Served, by_hand: list[str]) -> None:
    name = served.component(copies=1)
    served.scale(name, 1, 4)
    suspended(served, name, *by_hand)
    for _ in range(2):
        capacity(served).stop(described(served))
        served.copies(name)
    assert described(served).stopped
    told: list[str] = []
    capacity(served).start(described(served), tell=told.append)
    assert suspensions(served, name) == tuple(by_hand)
    assert served.copies(name) == 1
    said = f"Scaling of {name} that was suspended before the stop stays suspended: {', '.join(by_hand)}."
    assert told == ([said] if by_hand else [])
    # Another start changes nothing.
    capacity(served).start(described(served))
    assert suspensions(served, name) == tuple(by_hand)
    # The record is of one stop only.
    suspended(served, name)
    capacity(served).stop(described(served))
    served.copies(name)
    capacity(served).start(described(served))
    assert suspensions(served, name) == ()


@pytest.mark.parametrize("error", [denied("RegisterScalableTarget"), KeyboardInterrupt()])
def test_a_start_that_fails_says_that_scaling_is_still_suspended(served: Served, error: BaseException) -> None:
    name = served.component(copies=1)
    served.scale(name, 1, 4)
    capacity(served).stop(described(served))
    served.copies(name)
    told: list[str] = []
    failing = Failing(served.autoscaling, register_scalable_target=error)
    with pytest.raises(type(error)):
        EndpointCapacity(served.sagemaker, failing, poll_seconds=0).start(described(served), tell=told.append)
    assert told == [
        f"Scaling of {name} may still be suspended: `constructs-optim endpoint start {served.name}` continues."
    ]
    capacity(served).start(described(served))
    assert suspensions(served, name) == ()


def test_a_start_says_that_it_resumes_what_no_stop_recorded(served: Served) -> None:
    name = served.component(copies=1)
    # With a minimum of 1, the registrations would bring the copy back.
    served.scale(name, 0, 4)
    suspended(served, name, IN, OUT, SCHEDULED)
    served.sagemaker.update_inference_component_runtime_config(
        InferenceComponentName=name, DesiredRuntimeConfig={"CopyCount": 0}
    )
    served.copies(name)
    told: list[str] = []
    capacity(served).start(described(served), tell=told.append)
    assert suspensions(served, name) == ()
    assert told == [f"All scaling of {name} resumes: no stop recorded what was suspended before it."]


def test_a_start_that_restores_a_schedules_range_resumes_no_other_scaling(served: Served) -> None:
    name = served.component(copies=1)
    served.scale(name, 0, 0)
    served.schedule(name, "Start", 2, 3)
    served.copies(name)
    suspended(served, name, IN)
    capacity(served).start(described(served))
    assert suspensions(served, name) == (IN,)
