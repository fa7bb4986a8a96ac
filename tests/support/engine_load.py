"""A fleet of serving engines under a made load, and the alarms of a template that scale it.

The engines are simulated: requests arrive, are routed to the copy with the fewest outstanding ones and wait in its
queue, as SageMaker's default routing has it. What is scaled, and by what, is real: the template's own alarms and
policies, Application Auto Scaling's decisions, and the local cloud's copies, which take their time to start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.recipe.hosting.scaling import ScalingDefaults
from constructs_optim.recipe.metrics.engines import Engine
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudwatch.enrichment import Enrichment
from constructs_optim_local.cloudwatch.promql_alarms import Contributors
from constructs_optim_local.cloudwatch.telemetry import Telemetry

from .construct_stacks import stack, template_of
from .in_process import ACCOUNT, InProcessCloud
from .inference_components import ONE_GPU, create, endpoint, needing
from .waiting import by_the_clock

_BOUNDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640)
_STEP_SECONDS = 2
Load = Callable[[float], float]
"""Requests a second at so many seconds."""


@dataclass
class _Request:
    arrived: float
    done_at: float = 0.0


@dataclass
class _Histogram:
    name: str
    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    total: float = 0.0
    count: int = 0

    def observe(self, value: float) -> None:
        for index, bound in enumerate(_BOUNDS):
            self.counts[index] += value <= bound
        self.total, self.count = self.total + value, self.count + 1

    def exposition(self) -> list[str]:
        rows = [
            f'{self.name}_bucket{{le="{bound}"}} {count}' for bound, count in zip(_BOUNDS, self.counts, strict=True)
        ]
        infinite = f'{self.name}_bucket{{le="+Inf"}} {self.count}'
        rows = [f"# TYPE {self.name} histogram", *rows, infinite]
        return [*rows, f"{self.name}_sum {self.total}", f"{self.name}_count {self.count}"]


@dataclass
class _Copy:
    """An engine with ``slots`` requests in its batch at once."""

    id: str
    slots: int
    waiting: deque[_Request] = field(default_factory=deque[_Request])
    running: list[_Request] = field(default_factory=list[_Request])
    first_tokens: _Histogram = field(default_factory=lambda: _Histogram("vllm:time_to_first_token_seconds"))
    queue_times: _Histogram = field(default_factory=lambda: _Histogram("vllm:request_queue_time_seconds"))
    tokens: float = 0.0

    @property
    def outstanding(self) -> int:
        return len(self.waiting) + len(self.running)

    def step(self, now: float, request_seconds: float, tokens_per_second: float, prefill_seconds: float) -> None:
        self.running = [request for request in self.running if request.done_at > now]
        while self.waiting and len(self.running) < self.slots:
            request = self.waiting.popleft()
            request.done_at = now + request_seconds
            self.queue_times.observe(now - request.arrived)
            self.first_tokens.observe(now - request.arrived + prefill_seconds)
            self.running.append(request)
        self.tokens += _STEP_SECONDS * tokens_per_second * len(self.running)

    def exposition(self) -> str:
        """As vLLM exposes it; the KV cache is as full as the batch."""
        return "\n".join(
            [
                "# TYPE vllm:num_requests_running gauge",
                f"vllm:num_requests_running {len(self.running)}",
                "# TYPE vllm:num_requests_waiting gauge",
                f"vllm:num_requests_waiting {len(self.waiting)}",
                "# TYPE vllm:kv_cache_usage_perc gauge",
                f"vllm:kv_cache_usage_perc {len(self.running) / self.slots}",
                "# TYPE vllm:generation_tokens_total counter",
                f"vllm:generation_tokens_total {self.tokens}",
                *self.first_tokens.exposition(),
                *self.queue_times.exposition(),
                "",
            ]
        )


@dataclass(frozen=True)
class Minute:
    """What a minute ended with."""

    at: float
    copies: int
    desired: int
    in_flight: int
    refused: int


class EngineFleet:
    """The copies of an inference component whose scaling a template declares."""

    def __init__(
        self,
        cloud: InProcessCloud,
        *,
        component: str,
        endpoint: str,
        scaling: dict[str, Any],
        slots: int,
        request_seconds: float,
        tokens_per_second: float = 20,
    ) -> None:
        """``scaling`` has the ``target``, ``policies`` by logical id, and ``alarms`` of a template."""
        self.cloud, self._component, self._endpoint = cloud, component, endpoint
        self._slots, self._seconds, self._tokens = slots, request_seconds, tokens_per_second
        self._sagemaker = cloud.client("sagemaker")
        self._scaling: Any = cloud.client("application-autoscaling")
        self._service = cloud.services["application-autoscaling"]
        self.prefill_seconds = 0.2
        self.telemetry = Telemetry(Enrichment(Clock(), everywhere=True))
        self._copies: list[_Copy] = []
        self._started = 0
        self._follow(self._described()["CurrentCopyCount"])
        target = {
            "ServiceNamespace": "sagemaker",
            "ResourceId": f"inference-component/{component}",
            "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
        }
        self._scaling.register_scalable_target(**target, **scaling["target"])
        arns = {
            name: self._scaling.put_scaling_policy(
                **target,
                PolicyName=policy["PolicyName"],
                PolicyType="StepScaling",
                StepScalingPolicyConfiguration=policy["StepScalingPolicyConfiguration"],
            )["PolicyARN"]
            for name, policy in scaling["policies"].items()
        }
        self._wake_up: tuple[str, dict[str, Any]] | None = None
        self._alarms: list[tuple[str, str, dict[str, Any], Contributors]] = []
        for alarm in scaling["alarms"]:
            arn = arns[alarm["AlarmActions"][0]["Ref"]]
            if "EvaluationCriteria" not in alarm:
                self._wake_up = (arn, alarm)
                continue
            criteria = alarm["EvaluationCriteria"]["PromQLCriteria"]
            contributors = Contributors(criteria["PendingPeriod"], criteria["RecoveryPeriod"])
            self._alarms.append((criteria["Query"], arn, {**alarm, "AlarmName": arn[-20:]}, contributors))

    def run(self, minutes: int, load: Load) -> list[Minute]:
        """Let so many minutes pass under a load, whose time begins at zero; returns what each minute ended with."""
        history: list[Minute] = []
        arrivals = 0.0
        for minute in range(minutes):
            refused = 0
            for second in range(0, 60, _STEP_SECONDS):
                now = self.cloud.clock.now().timestamp()
                arrivals += _STEP_SECONDS * load(60 * minute + second)
                while arrivals >= 1:
                    arrivals -= 1
                    if not self._copies:
                        refused += 1
                        continue
                    copy = min(self._copies, key=lambda each: each.outstanding)
                    copy.waiting.append(_Request(now))
                for copy in self._copies:
                    copy.step(now, self._seconds, self._tokens, self.prefill_seconds)
                self.cloud.advance(_STEP_SECONDS)
            self._collect_and_scale(refused)
            described = self._described()
            self._follow(described["CurrentCopyCount"])
            in_flight = sum(copy.outstanding for copy in self._copies)
            history.append(
                Minute(60 * minute, described["CurrentCopyCount"], described["DesiredCopyCount"], in_flight, refused)
            )
        return history

    @property
    def desired_copies(self) -> int:
        """How many copies there are to be."""
        return self._described()["DesiredCopyCount"]

    def _described(self) -> dict[str, int]:
        return self._sagemaker.describe_inference_component(InferenceComponentName=self._component)["RuntimeConfig"]

    def _follow(self, wanted: int) -> None:
        """Start and stop engines with the copies that there are; what waits in a copy that goes moves to another."""
        while len(self._copies) < wanted:
            self._started += 1
            self._copies.append(_Copy(f"container-{self._started}", self._slots))
        while len(self._copies) > wanted:
            gone = min(self._copies, key=lambda each: each.outstanding)
            self._copies.remove(gone)
            for request in gone.waiting:
                if self._copies:
                    self._copies[0].waiting.append(request)

    def collect(self, exposition: str, container: str, now: float) -> None:
        """Keep what a container exposes."""
        labels = {
            "aws.sagemaker.endpoint.name": self._endpoint,
            "aws.sagemaker.inference_component.name": self._component,
            "@resource.host.id": f"i-{container}",
            "aws.sagemaker.container.id": container,
        }
        self.telemetry.collect(exposition, labels, now, account=ACCOUNT, region=self.cloud.region)

    def evaluate(self, now: float) -> dict[str, str]:
        """Evaluate the alarms on PromQL and run their policies; the alarms' states by the names of the policies."""
        states: dict[str, str] = {}
        for query, arn, alarm, contributors in self._alarms:
            breaching = self.telemetry.query(query, now, account=ACCOUNT, region=self.cloud.region)
            state = states[arn.rpartition("/")[2]] = contributors.evaluated(breaching, now)
            if state == "ALARM":
                # While it changes, it is left alone: the action comes again in a minute.
                self._service.alarm_fired(arn, {**alarm, "StateValue": state}, None, patience_seconds=0)
        return states

    def _collect_and_scale(self, refused: int) -> None:
        now = self.cloud.clock.now().timestamp()
        for copy in self._copies:
            self.collect(copy.exposition(), copy.id, now)
        self.evaluate(now)
        if refused and self._wake_up is not None:
            arn, alarm = self._wake_up
            named = {"AlarmName": "wake-up", **alarm, "StateValue": "ALARM"}
            self._service.alarm_fired(arn, named, float(refused), patience_seconds=0)


class _HalfMinutes:
    """A clock that waiting advances by half a minute."""

    def __init__(self, cloud: InProcessCloud) -> None:
        self._cloud = cloud

    def advance(self, seconds: float) -> None:
        self._cloud.advance(30)


def scaled_fleet(
    declare: Callable[[EndpointScaling], Any],
    *,
    slots: int,
    request_seconds: float,
    least: int = 1,
    most: int = 20,
    startup_seconds: float = 300,
    publishing_seconds: int = 60,
) -> EngineFleet:
    """A fleet of vLLM with the alarms and policies that ``declare`` makes, in service with one copy."""
    cloud = InProcessCloud(endpoint_seconds=startup_seconds, time_scale=1)
    sagemaker = cloud.client("sagemaker")
    with by_the_clock(_HalfMinutes(cloud)):
        endpoint(sagemaker, "chat", ONE_GPU, managed=(0, most + 2))
        create(sagemaker, "chat-llama", "chat", needing(1), copies=1)
    scope = stack()
    served = ServedModel(
        "chat", "AllTraffic", "chat-llama", publishing_seconds=publishing_seconds, engine=Engine("vllm")
    )
    scaling = EndpointScaling(
        scope,
        "Scaling",
        target=ScalingTarget.component("chat-llama"),
        min_capacity=least,
        max_capacity=most,
        defaults=ScalingDefaults(slots, 0.7 * slots),
        served=served,
    )
    declare(scaling)
    resources = template_of(scope)["Resources"]

    def of_type(name: str) -> dict[str, Any]:
        return {key: item["Properties"] for key, item in resources.items() if item["Type"] == name}

    (target,) = of_type("AWS::ApplicationAutoScaling::ScalableTarget").values()
    return EngineFleet(
        cloud,
        component="chat-llama",
        endpoint="chat",
        scaling={
            "target": {name: target[name] for name in ("MinCapacity", "MaxCapacity")},
            "policies": of_type("AWS::ApplicationAutoScaling::ScalingPolicy"),
            "alarms": list(of_type("AWS::CloudWatch::Alarm").values()),
        },
        slots=slots,
        request_seconds=request_seconds,
    )
