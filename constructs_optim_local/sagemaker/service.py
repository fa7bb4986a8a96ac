"""The SageMaker service: it checks and logs requests, injects faults and dispatches operations."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from constructs_optim_local.api.error import ApiError, validation_error
from constructs_optim_local.api.model import ApiModel
from constructs_optim_local.autoscaling.engine import Capacity
from constructs_optim_local.cloudformation.registry import resource_types

from .benchmarks.benchmark_jobs import BenchmarkJobs
from .benchmarks.recommendation_jobs import RecommendationJobs
from .context import Context
from .execution import ExecutionRoles
from .hosting.components import InferenceComponents
from .hosting.deployments import Pace
from .hosting.endpoints import Endpoints
from .hosting.invocations import Completion, Forwarded, Invocation, Invocations, StreamFailed
from .hosting.models import Hosting
from .hosting.request_metrics import Fleet, RequestMetrics
from .hosting.served_models import ServedModels
from .hosting.servers import Server
from .optimization.jobs import OptimizationJobs
from .records import Record, Scope
from .serving.pool import ServerPool
from .training.jobs import TrainingJobs

_AI_OPERATIONS = re.compile("AI(BenchmarkJob|RecommendationJob|WorkloadConfig)s?$")
_AI_TYPE = "AWS::SageMaker::AIWorkloadConfig"
# Source: botocore's model of sagemaker-runtime, BodyBlob. A user reports message and status:
# https://github.com/aws/sagemaker-python-sdk/issues/171.
_LONGEST_BODY = 6_291_456

Operation = Callable[[Record], Record]


class SageMaker:
    """SageMaker, for any calling account and Region. Safe to call from several threads."""

    name = "sagemaker"

    def __init__(self, context: Context) -> None:
        self.model, self.performances = ApiModel("sagemaker"), context.performances
        self._context = context
        self._faults, self._calls = context.faults, context.calls
        self._lock = threading.RLock()
        self._scopes: dict[tuple[str, str], _Regional] = {}

    def invoke(self, operation: str, request: Record, *, account: str, region: str) -> Record:
        """Run an operation.

        Raises:
            ApiError: the error that AWS would return.
        """
        with self._calls.recorded(self.name, operation, request):
            self._faults.before(operation)
            self.model.check(operation, request)
            with self._lock:
                handler = self._regional(account, region).operations.get(operation)
                if not _is_of_region(operation, region):
                    raise ApiError("UnknownOperationException", f"The operation {operation} is not recognized")
                if handler is None:
                    raise ApiError("UnknownOperationException", f"{operation} is not an operation of the local cloud")
                return handler(request)

    def volume_key(self, operation: str, request: Record, account: str, region: str) -> str | None:
        """Return the ARN of the KMS key for the volumes that SageMaker launches for an operation."""
        if operation not in ("CreateEndpoint", "UpdateEndpoint"):
            return None
        with self._lock:
            key = self._regional(account, region).volume_key(str(request.get("EndpointConfigName")))
        return f"arn:aws:kms:{region}:{account}:key/{key}" if key and not key.startswith("arn:") else key

    def ask(self, invocation: Invocation, *, account: str, region: str) -> Completion:
        """Invoke an endpoint, as SageMaker Runtime does.

        Raises:
            ApiError: the error that AWS would return.
        """
        operation = "InvokeEndpointWithResponseStream" if invocation.streams else "InvokeEndpoint"
        request = {"EndpointName": invocation.endpoint, "InferenceComponentName": invocation.component}
        with self._calls.recorded("sagemaker-runtime", operation, request):
            self._faults.before(operation)
            if len(invocation.body) > _LONGEST_BODY:
                raise ApiError("413", f"HTTP content length exceeded {_LONGEST_BODY} bytes.", 413)
            servers = self._context.servers
            with self._lock:
                regional = self._regional(account, region)
                if servers is None:
                    return regional.invocations.invoke(invocation)
                production, *shadows = regional.invocations.routes(invocation)
            # Not under the lock, because a model takes seconds to respond.
            for shadow in shadows:
                threading.Thread(target=self._ask_shadow, args=(servers, regional, shadow), daemon=True).start()
            completion = regional.requests.of_request(production, servers.forward)
            with self._lock:
                regional.invocations.captured(invocation, completion)
            return completion

    def _ask_shadow(self, servers: ServerPool, regional: _Regional, shadow: Forwarded) -> None:
        with contextlib.suppress(ApiError, StreamFailed):
            completion = regional.requests.of_request(shadow, servers.forward)
            if isinstance(completion.parts, tuple):
                with self._lock:
                    regional.invocations.captured(shadow.invocation, completion)
                return
            # Read the response to its end; otherwise, the server blocks.
            for _ in completion.parts:
                pass

    def keep_servers(self) -> None:
        """Start and end model servers to match the current endpoints and components."""
        if (servers := self._context.servers) is None:
            return
        with self._lock:
            servers.keep([server for regional in [*self._scopes.values()] for server in regional.servers()])

    def publish_metrics(self) -> None:
        """Publish the metrics of instances, copies and requests in flight that are due."""
        with self._lock:
            for regional in [*self._scopes.values()]:
                regional.publish_metrics(self._context.servers)

    def capacity(self, resource_id: str, *, account: str, region: str) -> Capacity | None:
        """Return the number of a resource's instances or copies; None while the resource cannot be scaled."""
        with self._lock:
            return self._regional(account, region).capacity(resource_id)

    def scaled(self, resource_id: str, *, registered: bool, account: str, region: str) -> None:
        """Record whether Application Auto Scaling scales a resource."""
        with self._lock:
            scope = self._regional(account, region).scope
            (scope.scaled.add if registered else scope.scaled.discard)(resource_id.lower())

    def jobs(self) -> list[dict[str, Any]]:
        """Return every optimization job with its history."""
        with self._lock:
            return [job for regional in self._scopes.values() for job in regional.jobs.to_json()]

    def benchmarks(self) -> list[dict[str, Any]]:
        """Return every benchmark job with its history."""
        with self._lock:
            return [job for regional in self._scopes.values() for job in regional.benchmarks.jobs.to_json()]

    def trainings(self) -> list[dict[str, Any]]:
        """Return every training job with its history."""
        with self._lock:
            return [job for regional in self._scopes.values() for job in regional.trainings.to_json()]

    def endpoints(self) -> list[Record]:
        """Return every endpoint in its current state."""
        with self._lock:
            return [
                dict(regional.endpoints.settled(name))
                for regional in [*self._scopes.values()]
                for name in [*regional.endpoints.records.by_name]
            ]

    def forget(self, account: str) -> None:
        """Delete all resources of an account, in every Region."""
        with self._lock:
            for key in [key for key in self._scopes if key[0] == account]:
                self._scopes.pop(key).trainings.close()
        self.keep_servers()

    def close(self) -> None:
        """End training jobs' processes and model servers, without waiting."""
        if self._context.servers is not None:
            self._context.servers.close()
        for regional in [*self._scopes.values()]:
            regional.trainings.close()

    def deployments(self) -> list[dict[str, Any]]:
        """Return every change of an endpoint or an inference component, with the stages it went through."""
        with self._lock:
            return [deployment for regional in self._scopes.values() for deployment in regional.deployments()]

    def _regional(self, account: str, region: str) -> _Regional:
        key = (account, region)
        if key not in self._scopes:
            self._scopes[key] = _Regional(Scope(account, region, clock=self._context.clock), self._context)
        return self._scopes[key]


class _Regional:
    """SageMaker in one account and Region."""

    def __init__(self, scope: Scope, context: Context) -> None:
        self.scope = scope
        hub, faults, timing, roles = context.hub, context.faults, context.timing, ExecutionRoles(context.roles)
        objects, performances = context.objects(scope.account, scope.region), context.performances
        self.jobs = OptimizationJobs(scope, faults, objects, timing.jobs, roles)
        self._hosting = hosting = Hosting(scope, roles, objects)
        self.endpoints = endpoints = Endpoints(
            hosting, faults, Pace(timing.endpoint, timing.scale), context.alarms, context.quotas, context.servers
        )
        self.components = components = InferenceComponents(endpoints)
        served = ServedModels(scope, components)
        self.requests = requests = RequestMetrics(scope, context.metrics)
        self.invocations = Invocations(
            scope,
            served,
            performances,
            objects,
            observe=requests.of_request,
            without_capacity=requests.without_capacity,
        )
        self.benchmarks = benchmarks = BenchmarkJobs(scope, faults, served, performances, objects, roles, timing.scale)
        configs = benchmarks.configs
        recommendations = RecommendationJobs(
            scope, faults, configs, performances, context.price, roles, hosting.packages, timing.scale
        )
        self.trainings = trainings = TrainingJobs(
            scope, faults, objects, roles, context.training(scope.account, scope.region), context.quotas
        )
        self.operations: dict[str, Operation] = {
            "AddTags": self._add_tags,
            "CreateAIBenchmarkJob": benchmarks.create,
            "CreateAIRecommendationJob": recommendations.create,
            "CreateAIWorkloadConfig": configs.create,
            "CreateEndpoint": endpoints.create,
            "CreateEndpointConfig": hosting.create_config,
            "CreateInferenceComponent": components.create,
            "CreateModel": hosting.create_model,
            "CreateOptimizationJob": self.jobs.create,
            "CreateTrainingJob": trainings.create,
            "DeleteAIBenchmarkJob": benchmarks.jobs.delete,
            "DeleteAIRecommendationJob": recommendations.jobs.delete,
            "DeleteAIWorkloadConfig": configs.delete,
            "DeleteEndpoint": components.delete_endpoint,
            "DeleteEndpointConfig": hosting.delete_config,
            "DeleteEndpointPolicy": endpoints.delete_policy,
            "DeleteInferenceComponent": components.delete,
            "DeleteModel": hosting.delete_model,
            "DeleteOptimizationJob": self.jobs.delete,
            "DeleteTags": self._delete_tags,
            "DeleteTrainingJob": trainings.delete,
            "DescribeAIBenchmarkJob": benchmarks.jobs.describe,
            "DescribeAIRecommendationJob": recommendations.jobs.describe,
            "DescribeAIWorkloadConfig": configs.describe,
            "DescribeEndpoint": self._describe_endpoint,
            "DescribeEndpointConfig": hosting.describe_config,
            "DescribeHubContent": lambda request: hub.describe(scope, request),
            "DescribeInferenceComponent": components.describe,
            "DescribeModel": hosting.describe_model,
            "DescribeModelPackage": hosting.packages.describe,
            "DescribeOptimizationJob": self.jobs.describe,
            "DescribeTrainingJob": trainings.describe,
            "GetEndpointPolicy": endpoints.policy,
            "ListAIBenchmarkJobs": benchmarks.list,
            "ListAIRecommendationJobs": recommendations.jobs.list,
            "ListAIWorkloadConfigs": configs.list,
            "ListEndpointConfigs": hosting.list_configs,
            "ListEndpoints": endpoints.list,
            "ListHubContentVersions": lambda request: hub.versions(scope, request),
            "ListHubContents": lambda request: hub.contents(scope, request),
            "ListInferenceComponents": components.list,
            "ListModels": hosting.list_models,
            "ListOptimizationJobs": self.jobs.list,
            "ListTags": self._list_tags,
            "ListTrainingJobs": trainings.list,
            "PutEndpointPolicy": endpoints.put_policy,
            "StopAIBenchmarkJob": benchmarks.jobs.stop,
            "StopAIRecommendationJob": recommendations.jobs.stop,
            "StopOptimizationJob": self.jobs.stop,
            "StopTrainingJob": trainings.stop,
            "UpdateEndpoint": endpoints.update,
            "UpdateEndpointWeightsAndCapacities": endpoints.update_weights_and_capacities,
            "UpdateInferenceComponent": components.update,
            "UpdateInferenceComponentRuntimeConfig": components.update_runtime_config,
            "UpdateModelPackage": hosting.packages.update,
        }

    def capacity(self, resource_id: str) -> Capacity | None:
        """Return the number of instances or copies of a scalable resource; None if it does not exist or is changing."""
        self.components.settle_all()
        match resource_id.split("/"):
            case ["endpoint", name, "variant", variant]:
                endpoint = self.endpoints.records.find(name)
                ready = endpoint is not None and endpoint["EndpointStatus"] == "InService"
                fleet = endpoint["_fleet"].get(variant) if endpoint is not None and ready else None
                if endpoint is None or fleet is None:
                    return None
                return Capacity(len(fleet), len(fleet), endpoint["LastModifiedTime"])
            case ["inference-component", name]:
                component = self.components.records.find(name)
                if component is None or component["InferenceComponentStatus"] != "InService":
                    return None
                desired = component["RuntimeConfig"]["DesiredCopyCount"]
                return Capacity(desired, self.components.copies(component), component["LastModifiedTime"])
            case _:
                return None

    def servers(self) -> Iterator[Server]:
        """Yield the model servers that should run."""
        self.components.settle_all()
        for name in self.endpoints.records.by_name:
            yield from self.endpoints.servers_of(self.endpoints.records.get(name))
        for name in self.components.records.by_name:
            yield from self.components.servers_of(name)

    def publish_metrics(self, servers: ServerPool | None) -> None:
        """Publish the metrics of instances, copies and requests in flight that are due."""
        self.components.settle_all()
        fleets = [
            Fleet(
                endpoint["EndpointName"],
                variant,
                len(fleet),
                endpoint["_config"].get("MetricsConfig", {}).get("MetricPublishFrequencyInSeconds", 60),
            )
            for endpoint in self.endpoints.records.by_name.values()
            for variant, fleet in endpoint["_fleet"].items()
        ]
        copies = [
            component["InferenceComponentName"]
            for component in self.components.records.by_name.values()
            for _ in component["_placed"]
        ]
        # Synthetic completions are immediate, so that no request is in flight.
        self.requests.report(fleets, copies, servers.in_flight([*self.servers()]) if servers is not None else {})

    def volume_key(self, config_name: str) -> str | None:
        """Return the KMS key of instance volumes as an endpoint configuration names it; None without one."""
        config = self._hosting.configs.find(config_name)
        return config.get("KmsKeyId") if config is not None else None

    def deployments(self) -> list[dict[str, Any]]:
        """Return the deployments of the endpoints and components so far."""
        self.components.settle_all()
        return self.endpoints.history.to_json()

    def _describe_endpoint(self, request: Record) -> Record:
        # Managed instances start and end with the component copies on them.
        self.components.settle_all()
        return self.endpoints.describe(request)

    def _add_tags(self, request: Record) -> Record:
        tags = self._known(request["ResourceArn"])
        tags.update({tag["Key"]: tag["Value"] for tag in request["Tags"]})
        return {"Tags": self._list_tags(request)["Tags"]}

    def _delete_tags(self, request: Record) -> Record:
        tags = self._known(request["ResourceArn"])
        for key in request["TagKeys"]:
            tags.pop(key, None)
        return {}

    def _list_tags(self, request: Record) -> Record:
        return {"Tags": [{"Key": key, "Value": value} for key, value in self._known(request["ResourceArn"]).items()]}

    def _known(self, arn: str) -> dict[str, str]:
        if arn not in self.scope.tags:
            raise validation_error(f"Could not find resource {arn}")
        return self.scope.tags[arn]


def _is_of_region(operation: str, region: str) -> bool:
    """Return whether a Region has the operation. Assumed, without a source: the response of other Regions.

    Source: developer guide, "Generative AI inference recommendations". Its Regions equal those of CloudFormation's
    AWS::SageMaker::AIWorkloadConfig.
    """
    types = resource_types(region)
    return _AI_OPERATIONS.search(operation) is None or types is None or _AI_TYPE in types


def to_json(response: Record) -> bytes:
    """Return a response in the JSON 1.1 protocol, with times as seconds since 1970."""
    return json.dumps(response, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return round(value.timestamp(), 3)
    raise TypeError(f"{type(value).__name__} cannot be part of a response")
