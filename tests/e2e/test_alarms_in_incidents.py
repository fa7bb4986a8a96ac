"""Incidents with real model servers: the metrics that are published, and the library's alarms, after how many minutes.

The servers really fail. Time is the local cloud's, which is advanced by a minute after each minute's requests.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_sagemaker as sagemaker
from botocore.exceptions import ClientError, EventStreamError

from constructs_optim.constructs.monitoring.endpoint_alarms import EndpointAlarms
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.recipe.hosting.alarms import Alarms, AlarmSettings
from constructs_optim_local.cloud import LocalCloud

from ..support.local_cloud import ROLE
from ..support.template_stack import ASSETS, TemplateStack, synthesized
from ..support.waiting import until

PROGRAM = f"{sys.executable} {Path(__file__).parents[1]}/support/served_program.py {{model}} {{port}} {{arguments}}"
IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
# The driver of the type's default is too old for it.
ON = {"instanceType": "ml.g6.xlarge", "inferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1"}
CHAT, LOST, HOST, AWAKE, NIGHT = "chat", "lost", "host", "awake", "night"
INSTANCES, CAPACITY, SLOW_SECONDS, TIMEOUT_SECONDS = 3, 2, 0.3, 0.8
COUNTED = (
    "Invocations",
    "Invocation4XXErrors",
    "Invocation5XXErrors",
    "InvocationModelErrors",
    "MidStreamErrors",
    "NoCapacityInvocationFailures",
)
Request = Mapping[str, Any]


@dataclass(frozen=True)
class Incident:
    """What happens in each minute, and what must come of it.

    ``failing`` and ``healthy`` requests are sent in every ``every``-th of ``minutes``. ``published`` are the metrics
    whose sums are not zero; ``alarms`` are the minutes after which alarms are in ALARM first.
    """

    request: Request = field(default_factory=dict[str, Any])
    streams: bool = False
    failing: int = 6
    healthy: int = 0
    every: int = 1
    minutes: int = 3
    # One of the three servers treats all its requests so.
    of_one_server: Request | None = None
    published: frozenset[str] = frozenset()
    alarms: Mapping[str, int] = field(default_factory=dict[str, int])


def published(*names: str) -> frozenset[str]:
    return frozenset({"Invocations", *names})


INCIDENTS = {
    "healthy": Incident(failing=0, healthy=6, minutes=16, published=published()),
    "healthy streams": Incident(streams=True, published=published()),
    "no traffic": Incident(failing=0, minutes=16),
    "every request ends with a 500": Incident(
        {"status": 500},
        published=published("Invocation5XXErrors", "InvocationModelErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "every request ends with a 503": Incident(
        {"status": 503},
        published=published("Invocation5XXErrors", "InvocationModelErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "callers send invalid requests": Incident(
        {"status": 400}, healthy=2, published=published("Invocation4XXErrors", "InvocationModelErrors")
    ),
    "all containers hang": Incident(
        {"sleep": 2 * TIMEOUT_SECONDS},
        minutes=2,
        published=published("InvocationModelErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "all responses are malformed": Incident(
        {"malformed": True},
        published=published("InvocationModelErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "all streams break off": Incident(
        {"breaks": True},
        streams=True,
        published=published("MidStreamErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "one stream in ten breaks off": Incident(
        {"breaks": True},
        streams=True,
        failing=1,
        healthy=9,
        minutes=4,
        published=published("MidStreamErrors"),
        # The third of them.
        alarms={"ErrorRate": 3},
    ),
    "all responses break off": Incident(
        {"breaks": True},
        published=published("InvocationModelErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "one of three servers ends with a 500": Incident(
        of_one_server={"status": 500},
        failing=0,
        healthy=12,
        published=published("Invocation5XXErrors", "InvocationModelErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "one of three servers hangs": Incident(
        of_one_server={"sleep": 2 * TIMEOUT_SECONDS},
        failing=0,
        healthy=12,
        minutes=2,
        published=published("InvocationModelErrors"),
        alarms={"ErrorRate": 1, "HourlyErrorRate": 1},
    ),
    "a single request fails": Incident(
        {"status": 500},
        failing=1,
        every=60,
        minutes=6,
        published=published("Invocation5XXErrors", "InvocationModelErrors"),
    ),
    "one request in fifty fails": Incident(
        {"status": 500},
        failing=1,
        healthy=49,
        minutes=6,
        published=published("Invocation5XXErrors", "InvocationModelErrors"),
    ),
    "few requests, and all fail": Incident(
        {"status": 500},
        failing=1,
        every=3,
        minutes=8,
        published=published("Invocation5XXErrors", "InvocationModelErrors"),
        # In minutes 1, 4 and 7.
        alarms={"HourlyErrorRate": 7},
    ),
    "a request every twenty minutes, and all hang": Incident(
        {"sleep": 2 * TIMEOUT_SECONDS},
        failing=1,
        every=20,
        minutes=41,
        published=published("InvocationModelErrors"),
        alarms={"HourlyErrorRate": 41},
    ),
    "responses are slow, and few": Incident(
        {"sleep": 2 * SLOW_SECONDS},
        failing=1,
        every=10,
        minutes=31,
        published=published(),
    ),
    "responses are slow": Incident(
        {"sleep": 2 * SLOW_SECONDS},
        failing=3,
        minutes=12,
        published=published(),
        # Three windows of five minutes, of which the newest and the oldest have one minute each.
        alarms={"Latency": 11},
    ),
}


# The component, the minutes between two requests, and the minutes after which alarms are in ALARM first.
WITHOUT_COPIES: Mapping[str, tuple[str, int, Mapping[str, int]]] = {
    "no copies": (AWAKE, 1, {"HourlyErrorRate": 3, "ZeroCapacity": 3}),
    "no copies, and a request every three minutes": (AWAKE, 3, {"HourlyErrorRate": 7, "ZeroCapacity": 7}),
    "no copies, and a request every five minutes": (AWAKE, 5, {"HourlyErrorRate": 11}),
    "no copies, and a request every ten minutes": (AWAKE, 10, {"HourlyErrorRate": 21}),
    "no copies, and a request every twenty minutes": (AWAKE, 20, {"HourlyErrorRate": 41}),
    # It scales to zero, so that requests fail while a copy loads.
    "no copy wakes up from zero": (NIGHT, 1, {"ZeroCapacity": 21}),
    "no copy wakes up from zero, and a request every five minutes": (NIGHT, 5, {"ZeroCapacity": 21}),
    "no copy wakes up from zero, and a request every ten minutes": (NIGHT, 10, {"ZeroCapacity": 21}),
    "no copy wakes up from zero, and a request every twenty minutes": (NIGHT, 20, {"ZeroCapacity": 21}),
}
LOST_VARIANT = ("a variant loses its instances", frozenset[str](), {"ZeroCapacity": 13})


class Clock:
    """Moves a local cloud from minute to minute; the machine's own seconds count."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud, self._ahead = cloud, 0.0
        self.now = time.time() // 60 * 60 + 10

    def pass_minutes(self, count: int = 1) -> None:
        """Pass some minutes, to ten seconds after the start of one."""
        self.now += 60 * count
        left = self.now - (time.time() + self._ahead)
        if left > 0:
            self._cloud.advance(left)
            self._ahead += left


@dataclass(frozen=True)
class Scene:
    """The deployed endpoints."""

    cloud: LocalCloud
    clock: Clock

    def ask(
        self, request: Request, *, endpoint: str = CHAT, component: str | None = None, streams: bool = False
    ) -> None:
        """Send a request; how it ends is the metrics' and alarms' matter."""
        runtime = self.cloud.client("sagemaker-runtime", retries={"max_attempts": 1})
        more = {"InferenceComponentName": component} if component else {}
        call = runtime.invoke_endpoint_with_response_stream if streams else runtime.invoke_endpoint
        with contextlib.suppress(ClientError, EventStreamError):
            found = call(EndpointName=endpoint, Body=json.dumps(request), ContentType="application/json", **more)
            for _ in found["Body"]:
                pass

    def in_alarm(self, owner: str = CHAT) -> set[str]:
        found = self.cloud.client("cloudwatch").describe_alarms(AlarmNamePrefix=f"{owner}-", StateValue="ALARM")
        return {alarm["AlarmName"].removeprefix(f"{owner}-") for alarm in found["MetricAlarms"]}

    def sums(self, minutes: int, dimensions: Mapping[str, str]) -> dict[str, float]:
        """The sums of the counted metrics in the last minutes that are not zero."""
        queries = [
            {
                "Id": name.lower(),
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/SageMaker",
                        "MetricName": name,
                        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
                    },
                    "Period": 60,
                    "Stat": "Sum",
                },
            }
            for name in COUNTED
        ]
        end = self.clock.now + 60
        found = self.cloud.client("cloudwatch").get_metric_data(
            MetricDataQueries=queries, StartTime=end - 60 * (minutes + 2), EndTime=end
        )["MetricDataResults"]
        sums = dict(zip(COUNTED, (sum(each["Values"]) for each in found), strict=True))
        return {name: value for name, value in sums.items() if value}


def declare(scope: Stack) -> None:
    model = sagemaker.CfnModel(scope, "Model", execution_role_arn=ROLE, primary_container={"image": IMAGE})
    for name in (CHAT, LOST):
        variant = {
            **ON, "variantName": "AllTraffic", "initialInstanceCount": INSTANCES if name == CHAT else 1,
            "modelName": model.attr_model_name,
        }  # fmt: skip
        config = sagemaker.CfnEndpointConfig(scope, f"{name}Config", production_variants=[variant])
        sagemaker.CfnEndpoint(
            scope, f"{name}Endpoint", endpoint_name=name, endpoint_config_name=config.attr_endpoint_config_name
        )  # fmt: skip
        latency = AlarmSettings(threshold=SLOW_SECONDS)
        served = ServedModel(name, "AllTraffic")
        alarms = Alarms(latency=latency)
        EndpointAlarms(
            scope, f"{name}Alarms", served=served, endpoint=name, capacity=CAPACITY, alarms=alarms, name_prefix=name
        )  # fmt: skip
    hosting = {**ON, "variantName": "AllTraffic", "initialInstanceCount": 1}
    config = sagemaker.CfnEndpointConfig(
        scope, "HostConfig", execution_role_arn=ROLE, production_variants=[hosting]
    )  # fmt: skip
    host = sagemaker.CfnEndpoint(
        scope, "Host", endpoint_name=HOST, endpoint_config_name=config.attr_endpoint_config_name
    )  # fmt: skip
    for name in (AWAKE, NIGHT):
        component = sagemaker.CfnInferenceComponent(
            scope, name, endpoint_name=host.attr_endpoint_name, inference_component_name=name,
            variant_name="AllTraffic",
            specification={
                "modelName": model.attr_model_name,
                "computeResourceRequirements": {"minMemoryRequiredInMb": 1024},
            },
            runtime_config={"copyCount": 1},
        )  # fmt: skip
        component.add_dependency(host)
        EndpointAlarms(
            scope, f"{name}Alarms", served=ServedModel(HOST, "AllTraffic", name), endpoint=name, capacity=CAPACITY,
            name_prefix=name,
        ).watch(scales_to_zero=name == NIGHT)  # fmt: skip


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    settings = {"endpoint_seconds": 0.1, "time_scale": 0.001, "response_seconds": TIMEOUT_SECONDS}
    with LocalCloud(serve=PROGRAM, **settings) as cloud:  # type: ignore[arg-type]
        cloud.client("s3").create_bucket(Bucket=ASSETS, CreateBucketConfiguration={"LocationConstraint": cloud.region})
        stack = TemplateStack(cloud, "Incidents", synthesized(declare, tmp_path_factory.mktemp("assembly")))
        assert stack.deploy() == "CREATE_COMPLETE", stack.reasons
        made = Scene(cloud, Clock(cloud))
        # The instances report, which ends the warm-up period of their alarm.
        made.clock.pass_minutes(30)
        yield made


def told(name: str, counted: frozenset[str], alarms: Mapping[str, int]) -> str:
    """An incident's row on the page."""
    metrics = ", ".join(f"`{each}`" for each in COUNTED if each in counted - {"Invocations"}) or "nothing"
    raised = ", ".join(f"{alarm} after {minutes} min" for alarm, minutes in alarms.items()) or "none"
    return f"| {name} | {metrics} | {raised} |"


def test_the_page_on_alarms_lists_the_incidents() -> None:
    page = (Path(__file__).parents[2] / "docs/alarms.md").read_text(encoding="utf-8").splitlines()
    start = page.index("| incident | what SageMaker counts | alarms |") + 2
    without_copies = frozenset({"NoCapacityInvocationFailures"})
    rows = [
        *(told(name, incident.published, incident.alarms) for name, incident in INCIDENTS.items()),
        *(told(name, without_copies, alarms) for name, (_, _, alarms) in WITHOUT_COPIES.items()),
        told(*LOST_VARIANT),
    ]
    assert page[start : start + len(rows) + 1] == [*rows, ""]


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_raises_its_alarms_after_so_many_minutes(scene: Scene, name: str) -> None:
    incident, first = INCIDENTS[name], dict[str, int]()
    scene.clock.pass_minutes(120)
    assert scene.in_alarm() == set()
    if incident.of_one_server is not None:
        scene.ask({"from_now_on": incident.of_one_server})
    with ThreadPoolExecutor(12) as threads:
        for minute in range(1, incident.minutes + 1, incident.every):
            sent = [incident.request] * incident.failing + [{}] * incident.healthy
            list(threads.map(lambda each: scene.ask(each, streams=incident.streams), sent))
            scene.clock.pass_minutes()
            for alarm in scene.in_alarm():
                first.setdefault(alarm, minute)
            if minute + incident.every <= incident.minutes:
                scene.clock.pass_minutes(incident.every - 1)
    if incident.of_one_server is not None:
        for _ in range(INSTANCES):
            scene.ask({"from_now_on": {}})
    assert first == incident.alarms
    sums = scene.sums(incident.minutes, {"EndpointName": CHAT, "VariantName": "AllTraffic"})
    assert sums.keys() == incident.published


def test_more_requests_than_all_instances_are_sized_for_raise_the_saturation_alarm(scene: Scene) -> None:
    scene.clock.pass_minutes(120)
    assert scene.in_alarm() == set()
    streams = [
        threading.Thread(target=scene.ask, args=({"sleep": 7 * TIMEOUT_SECONDS},), kwargs={"streams": True})
        for _ in range(INSTANCES * (CAPACITY + 1))
    ]
    for stream in streams:
        stream.start()
    time.sleep(TIMEOUT_SECONDS)
    # The requests last for seconds, so there are few looks.
    scene.clock.pass_minutes(8)
    before = scene.in_alarm()
    scene.clock.pass_minutes(2)
    after = scene.in_alarm()
    for stream in streams:
        stream.join()
    assert (before, after) == (set(), {"Saturation"})


@pytest.mark.parametrize("name", WITHOUT_COPIES)
def test_a_component_without_copies_raises_its_alarms_after_so_many_minutes(scene: Scene, name: str) -> None:
    component, every, expected = WITHOUT_COPIES[name]
    sagemaker = scene.cloud.client("sagemaker")

    def scale(copies: int) -> None:
        sagemaker.update_inference_component_runtime_config(
            InferenceComponentName=component, DesiredRuntimeConfig={"CopyCount": copies}
        )
        until(
            lambda: sagemaker.describe_inference_component(InferenceComponentName=component),
            lambda found: (
                found["RuntimeConfig"]["CurrentCopyCount"] == copies
                and found["InferenceComponentStatus"] == "InService"
            ),
        )

    scale(0)
    scene.clock.pass_minutes(120)
    first, minutes = dict[str, int](), max(expected.values()) + 1
    for minute in range(1, minutes + 1):
        if (minute - 1) % every == 0:
            scene.ask({}, endpoint=HOST, component=component)
        scene.clock.pass_minutes()
        for alarm in scene.in_alarm(component):
            first.setdefault(alarm, minute)
    scale(1)
    assert first == expected
    assert scene.sums(minutes, {"InferenceComponentName": component}).keys() == {"NoCapacityInvocationFailures"}


@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(lambda minute: minute <= 19, id="one wake-up of 19 minutes"),
        pytest.param(lambda minute: minute % 17 < 9, id="four wake-ups of 9 minutes in an hour"),
        pytest.param(lambda minute: minute % 30 < 15, id="two wake-ups of 15 minutes, 30 minutes apart"),
        pytest.param(lambda minute: minute % 20 < 3, id="three wake-ups of 3 minutes, 20 minutes apart"),
    ],
)
def test_a_component_that_wakes_up_from_zero_raises_no_alarm(scene: Scene, fails: Callable[[int], bool]) -> None:
    scene.clock.pass_minutes(120)
    cloudwatch = scene.cloud.client("cloudwatch")
    for minute in range(1, 62):
        if fails(minute):
            dimensions = [{"Name": "InferenceComponentName", "Value": NIGHT}]
            datum = {"MetricName": "NoCapacityInvocationFailures", "Dimensions": dimensions, "Value": 5.0}
            cloudwatch.put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])
        else:
            scene.ask({}, endpoint=HOST, component=NIGHT)
        scene.clock.pass_minutes()
        assert scene.in_alarm(NIGHT) == set()


def test_alarms_on_errors_end_when_the_failures_are_as_old_as_their_windows(scene: Scene) -> None:
    """And not when the next request succeeds: an alarm that stays would roll back the cure."""
    scene.clock.pass_minutes(120)
    for _ in range(3):
        scene.ask({"status": 500})
    states = list[set[str]]()
    for _ in range(62):
        scene.clock.pass_minutes()
        states.append(scene.in_alarm())
    ended = {name: next(i for i, state in enumerate(states) if name not in state) for name in states[0]}
    assert ended == {"ErrorRate": 5, "HourlyErrorRate": 60}


def test_a_lost_variant_raises_the_zero_capacity_alarm_because_its_instances_stop_reporting(scene: Scene) -> None:
    scene.clock.pass_minutes(120)
    assert scene.in_alarm(LOST) == set()
    scene.cloud.client("sagemaker").delete_endpoint(EndpointName=LOST)
    first = None
    for minute in range(1, 16):
        scene.clock.pass_minutes()
        if first is None and scene.in_alarm(LOST) == {"ZeroCapacity"}:
            first = minute
    # The ten minutes of the alarm, and the two before them that CloudWatch also reads, after the last report.
    assert first == LOST_VARIANT[2]["ZeroCapacity"]
