"""Endpoints: created, updated through the stages of a deployment, scaled, and rolled back.

Sources: API reference, DescribeEndpoint (the statuses, and PendingDeploymentSummary during creations and updates),
UpdateEndpoint (the retained properties) and UpdateEndpointWeightsAndCapacities (status Updating, then InService).

Assumed, without a source: an alarm that does not exist is refused at once; DeploymentConfig overrides
RetainDeploymentConfig; a failed change of capacity leaves the previous instances and a FailureReason.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from constructs_optim_local.api.error import not_found, validation_error
from constructs_optim_local.cloudwatch.alarms import Alarms
from constructs_optim_local.faults import Faults
from constructs_optim_local.sagemaker.execution import refusal
from constructs_optim_local.sagemaker.quotas import ENDPOINT, Quotas
from constructs_optim_local.sagemaker.records import Record, Records

from . import deployments
from .deployments import Deployment, History, NotYet, Pace, Stage
from .fleets import NO_CAPACITY, Instance, launch, layout, models, pool_summaries, shrunk, variants_of
from .models import (
    Hosting,
    could_not_find,
    exists,
    only,
)
from .servers import Server, Servers, Wanted

_UNHEALTHY = "The primary container did not pass the ping health check."
_IN_PROGRESS = ("Creating", "Updating", "RollingBack")
_KINDS = ("ProductionVariants", "ShadowProductionVariants")
_SHOWN = ("ManagedInstanceScaling", "RoutingConfig")


class Endpoints:
    """The endpoints of one account and Region.

    Args:
        hosting: models and configurations.
        faults: the faults to inject.
        pace: durations of changes.
        alarms: CloudWatch's alarms.
        quotas: instance quotas.
        servers: runs model servers. Default: None, which counts every instance as healthy.
    """

    def __init__(
        self,
        hosting: Hosting,
        faults: Faults,
        pace: Pace,
        alarms: Alarms,
        quotas: Quotas,
        servers: Servers | None = None,
    ) -> None:
        self.hosting, self.faults, self.pace, self.alarms = hosting, faults, pace, alarms
        self._quotas = quotas
        scope = hosting.scope
        self.servers, self.wanted = servers, Wanted(scope, hosting.models)
        self.history = History()
        self.records = Records(could_not_find("endpoint", scope, "endpoint"), exists("endpoint", scope, "endpoint"))

    def create(self, request: Record) -> Record:
        """CreateEndpoint."""
        config = self.hosting.configs.get(request["EndpointConfigName"])
        counts = _initial_counts(config)
        self._check_deployment(request.get("DeploymentConfig", {}), counts)
        self._check_quotas(config, counts)
        members = {key: value for key, value in request.items() if key != "DeploymentConfig"}
        arn = self.hosting.add(self.records, "endpoint", "EndpointName", "EndpointArn", members)
        endpoint = self.records.get(request["EndpointName"])
        endpoint |= {"_config": {"ProductionVariants": []}, "_fleet": {}, "_weights": {}}
        if "DeploymentConfig" in request:
            endpoint["LastDeploymentConfig"] = request["DeploymentConfig"]
        launching = {name: f"Launching {count} instance(s)." for name, count in counts.items()}
        plan = deployments.single("Creating", launching, self.pace.launch, counts, {})
        _Change(self, endpoint, "Creating", copy.deepcopy(config), counts, _initial_weights(config)).begin(plan)
        return {"EndpointArn": arn}

    def update(self, request: Record) -> Record:
        """UpdateEndpoint. The old configuration serves until the new one does."""
        endpoint = self.settled(request["EndpointName"])
        if endpoint["EndpointStatus"] not in ("InService", "UpdateRollbackFailed"):
            raise validation_error(f'Cannot update in-progress endpoint "{endpoint["EndpointArn"]}".')
        config = self.hosting.configs.get(request["EndpointConfigName"])
        # SageMaker also needs the configuration in service, to roll back to it.
        self.hosting.configs.get(endpoint["EndpointConfigName"])
        self._check_scaled_variants(endpoint, config)
        _check_layouts(endpoint, config)
        counts, weights = _initial_counts(config), _initial_weights(config)
        if request.get("RetainAllVariantProperties"):
            excluded = {item["VariantPropertyType"] for item in request.get("ExcludeRetainedVariantProperties", [])}
            if "DesiredInstanceCount" not in excluded:
                counts |= {name: count for name, count in _counts(endpoint).items() if name in counts}
            if "DesiredWeight" not in excluded:
                weights |= {name: weight for name, weight in endpoint["_weights"].items() if name in weights}
        retained = endpoint.get("LastDeploymentConfig", {}) if request.get("RetainDeploymentConfig") else {}
        deployment = request.get("DeploymentConfig", retained)
        self._check_deployment(deployment, counts)
        plan = deployments.plan(deployment, _counts(endpoint), counts, self.pace)
        launches = [stage.launches for stage in plan.stages]
        self._check_quotas(config, {name: max(each.get(name, 0) for each in launches) for name in counts})
        endpoint.pop("LastDeploymentConfig", None)
        if deployment:
            endpoint["LastDeploymentConfig"] = deployment
        _Change(self, endpoint, "Updating", copy.deepcopy(config), counts, weights, plan.alarms).begin(plan)
        return {"EndpointArn": endpoint["EndpointArn"]}

    def update_weights_and_capacities(self, request: Record) -> Record:
        """UpdateEndpointWeightsAndCapacities."""
        endpoint = self.settled(request["EndpointName"])
        if endpoint["EndpointStatus"] != "InService":
            raise validation_error(f'Cannot update in-progress endpoint "{endpoint["EndpointArn"]}".')
        before = _counts(endpoint)
        counts, weights, messages = dict(before), dict(endpoint["_weights"]), dict[str, str]()
        for desired in request["DesiredWeightsAndCapacities"]:
            name = desired["VariantName"]
            if name not in counts:
                raise validation_error(f'Could not find variant "{name}" of endpoint "{endpoint["EndpointArn"]}".')
            weights[name] = desired.get("DesiredWeight", weights[name])
            counts[name] = desired.get("DesiredInstanceCount", counts[name])
            way = "in" if counts[name] < before[name] else "out"
            messages[name] = (
                f"Updating the weight to {weights[name]:g}."
                if counts[name] == before[name]
                else f"Scaling {way} desired instance count to {counts[name]}."
            )
        more = {name: max(0, count - before[name]) for name, count in counts.items()}
        self._check_quotas(endpoint["_config"], more)
        plan = deployments.single("Updating", messages, self.pace.launch, more, before)
        _Change(self, endpoint, "Scaling", endpoint["_config"], counts, weights).begin(plan)
        return {"EndpointArn": endpoint["EndpointArn"]}

    def describe(self, request: Record) -> Record:
        """DescribeEndpoint."""
        endpoint = self.settled(request["EndpointName"])
        shown = {key: copy.deepcopy(value) for key, value in endpoint.items() if not key.startswith("_")}
        change: _Change | None = endpoint.get("_change")
        for kind in _KINDS:
            if variants := [self._variant(endpoint, each, change) for each in endpoint["_config"].get(kind, [])]:
                shown[kind] = variants
        if change is not None and change.kind != "Scaling":
            shown["PendingDeploymentSummary"] = {
                "EndpointConfigName": change.config["EndpointConfigName"],
                "StartTime": change.deployment.started,
                **{
                    kind: [change.pending(variant) for variant in change.config[kind]]
                    for kind in _KINDS
                    if change.config.get(kind)
                },
            }
        return shown

    def delete(self, request: Record) -> Record:
        """DeleteEndpoint, at once."""
        endpoint = self.settled(request["EndpointName"])
        if endpoint["EndpointStatus"] in _IN_PROGRESS:
            raise validation_error(f'Cannot update in-progress endpoint "{endpoint["EndpointArn"]}".')
        self.records.remove(request["EndpointName"])
        return {}

    def list(self, request: Record) -> Record:
        """ListEndpoints."""
        for name in [*self.records.by_name]:
            self.settled(name)
        columns = only("EndpointName", "EndpointArn", "CreationTime", "LastModifiedTime", "EndpointStatus")
        return self.records.page("Endpoints", request, columns)

    def put_policy(self, request: Record) -> Record:
        """PutEndpointPolicy. Checks only that the policy is a JSON object in ASCII.

        Source: API reference, PutEndpointPolicy. The local cloud does not evaluate the policy: requests come from the
        endpoint's own account.
        """
        endpoint = self._of_policy(request)
        if endpoint["EndpointStatus"] in ("Deleting", "Failed"):
            raise validation_error(
                f'Cannot attach a policy to endpoint "{endpoint["EndpointArn"]}", whose status is '
                f"{endpoint['EndpointStatus']}."
            )
        try:
            policy = json.loads(request["ResourcePolicy"])
        except ValueError:
            policy = None
        if not isinstance(policy, dict) or not request["ResourcePolicy"].isascii():
            raise validation_error("ResourcePolicy must be a JSON policy document of ASCII characters.")
        endpoint["_policy"] = request["ResourcePolicy"]
        return {"EndpointArn": endpoint["EndpointArn"]}

    def policy(self, request: Record) -> Record:
        """GetEndpointPolicy."""
        endpoint = self._of_policy(request)
        if "_policy" not in endpoint:
            raise validation_error(f'Endpoint "{endpoint["EndpointArn"]}" does not have a policy.')
        return {key: endpoint[key] for key in ("EndpointName", "EndpointArn")} | {"ResourcePolicy": endpoint["_policy"]}

    def delete_policy(self, request: Record) -> Record:
        """DeleteEndpointPolicy, which succeeds without a policy."""
        self._of_policy(request).pop("_policy", None)
        return {}

    def _of_policy(self, request: Record) -> Record:
        """Return the endpoint of a policy operation. Only these operations raise ResourceNotFound."""
        name = request["EndpointName"]
        if self.records.find(name) is None:
            raise not_found(f'Could not find endpoint "{self.hosting.scope.arn("endpoint", name)}".')
        return self.settled(name)

    def settled(self, name: str) -> Record:
        """Return the endpoint in its current state."""
        endpoint = self.records.get(name)
        if (change := endpoint.get("_change")) is not None:
            change.settle()
        return endpoint

    def variant(self, endpoint: Record, name: str | None) -> Record:
        """Return a variant of the configuration in service. Default: the only one."""
        variants = endpoint["_config"]["ProductionVariants"]
        found = [variant for variant in variants if name in (None, variant["VariantName"])]
        if len(found) != 1:
            raise validation_error(f'Could not find variant "{name}" of endpoint "{endpoint["EndpointArn"]}".')
        return found[0]

    def servers_of(self, endpoint: Record) -> Iterator[Server]:
        """Yield all servers of an endpoint's variants, including those of a change in progress."""
        yield from self.wanted.of_fleet(endpoint, endpoint["_config"], endpoint["_fleet"])
        change: _Change | None = endpoint.get("_change")
        if change is not None:
            yield from self.wanted.of_fleet(endpoint, change.config, change.launched_instances)

    def servers_with_traffic(self, endpoint: Record, variant_name: str) -> Iterator[Server]:
        """Yield the servers of a variant that get requests: during an update, those of both fleets with traffic."""
        fleet: list[Instance] = endpoint["_fleet"].get(variant_name, [])
        change: _Change | None = endpoint.get("_change")
        launched, share = change.with_traffic(variant_name) if change is not None else ([], 0.0)
        left = fleet[: math.ceil(len(fleet) * (1 - share))]
        for config, instances in (
            (endpoint["_config"], left),
            *(((change.config, launched),) if change is not None else ()),
        ):
            yield from self.wanted.of_fleet(endpoint, config, {variant_name: instances})

    def grow(self, endpoint: Record, variant: Record, types: Sequence[str]) -> Instance | None:
        """Launch an instance of one of the types, for a variant with managed instances; None if impossible."""
        scaling, fleet = variant.get("ManagedInstanceScaling", {}), endpoint["_fleet"][variant["VariantName"]]
        if scaling.get("Status") != "ENABLED" or len(fleet) >= scaling.get("MaxInstanceCount", len(fleet)):
            return None
        launched = launch(variant, 1, self.faults, types)
        fleet += launched or []
        return launched[0] if launched else None

    def release(self, endpoint: Record, variant: Record, busy: set[int]) -> None:
        """End a variant's idle managed instances, lowest priority first, down to its minimum."""
        scaling, fleet = variant.get("ManagedInstanceScaling", {}), endpoint["_fleet"][variant["VariantName"]]
        if scaling.get("Status") != "ENABLED":
            return
        used = [instance for instance in fleet if instance.serial in busy]
        idle = [instance for instance in fleet if instance.serial not in busy]
        least = scaling.get("MinInstanceCount", 1)
        fleet[:] = used + shrunk(variant, idle, max(0, least - len(used)))

    def _variant(self, endpoint: Record, variant: Record, change: _Change | None) -> Record:
        name = variant["VariantName"]
        fleet: list[Instance] = endpoint["_fleet"][name]
        scaling = change is not None and change.kind == "Scaling"
        here = fleet
        if change is not None and not scaling and change.deployment.stage.old:
            here = fleet[: change.deployment.stage.old.get(name, len(fleet))]
        desired, weight = len(fleet), endpoint["_weights"][name]
        if change is not None and scaling:
            desired, status = change.counts[name], change.status(name)
        else:
            status = {}
        return {
            **self._fixed(variant, here),
            "CurrentWeight": weight,
            "DesiredWeight": change.weights[name] if change is not None and scaling else weight,
            "CurrentInstanceCount": len(here),
            "DesiredInstanceCount": desired,
            **status,
        }

    def _fixed(self, variant: Record, instances: Sequence[Instance]) -> Record:
        types = [instance.type_name for instance in instances]
        images, at = self.hosting.images(models(variant, types)), self.hosting.scope.now()
        return {
            "VariantName": variant["VariantName"],
            "DeployedImages": [
                {"SpecifiedImage": image, "ResolvedImage": image, "ResolutionTime": at} for image in images
            ],
            **pool_summaries(variant, types),
            **{key: copy.deepcopy(variant[key]) for key in _SHOWN if key in variant},
        }

    def _check_scaled_variants(self, endpoint: Record, config: Record) -> None:
        """Refuse to remove a scaled variant or to change its instance type.

        Source: developer guide, "Update endpoints that use auto scaling".
        """
        then = {variant["VariantName"]: _instance_types(variant) for variant in variants_of(config)}
        changed = [
            name
            for variant in variants_of(endpoint["_config"])
            if then.get(name := variant["VariantName"]) != _instance_types(variant)
            and f"endpoint/{endpoint['EndpointName']}/variant/{name}".lower() in self.hosting.scope.scaled
        ]
        if changed:
            raise validation_error(
                f'The variant(s) "[{", ".join(changed)}]" must be deregistered as scalable targets with AWS Auto '
                "Scaling before they can be removed or have their instance type updated."
            )

    def _check_quotas(self, config: Record, more: dict[str, int]) -> None:
        """Refuse ``more`` instances by variant. Assumed: pools only count, because another pool may have quota."""
        needed: Counter[str] = Counter()
        for variant in variants_of(config):
            if "InstanceType" in variant:
                needed[variant["InstanceType"]] += more.get(variant["VariantName"], 0)
        used = Counter(type_name for name in self.records.by_name for type_name in self._instances_of(name))
        for instance_type, count in needed.items():
            self._quotas.check(instance_type, ENDPOINT, used=used[instance_type], more=count)

    def _instances_of(self, name: str) -> Iterator[str]:
        """Yield the instance types of an endpoint's current and launching instances."""
        endpoint = self.settled(name)
        for fleet in endpoint["_fleet"].values():
            yield from (instance.type_name for instance in fleet)
        change: _Change | None = endpoint.get("_change")
        if change is None:
            return
        for variant in variants_of(change.config):
            name = variant["VariantName"]
            there = len(endpoint["_fleet"].get(name, ())) if change.kind == "Scaling" else 0
            launching = max(0, change.counts[name] - there)
            yield from [variant["InstanceType"]] * launching if "InstanceType" in variant else ()

    def _check_deployment(self, config: Record, counts: dict[str, int]) -> None:
        found = list(deployments.problems(config, counts))
        names = [alarm["AlarmName"] for alarm in config.get("AutoRollbackConfiguration", {}).get("Alarms", [])]
        scope = self.hosting.scope
        found += [
            f"Could not find the CloudWatch alarm {name}"
            for name in self.alarms.missing(names, account=scope.account, region=scope.region)
        ]
        if found:
            raise validation_error(f"Invalid DeploymentConfig: {'; '.join(found)}")


class _Change:
    """A change of an endpoint in progress, and the state that its deployment depends on."""

    def __init__(
        self,
        endpoints: Endpoints,
        endpoint: Record,
        kind: str,
        config: Record,
        counts: dict[str, int],
        weights: dict[str, float],
        alarms: Sequence[str] = (),
    ) -> None:
        self.kind, self.config, self.counts, self.weights = kind, config, counts, weights
        self.launched_instances: dict[str, list[Instance]] = {name: [] for name in counts}
        self._launched: Stage | None = None
        self._endpoints, self._endpoint, self._alarms = endpoints, endpoint, alarms

    def begin(self, plan: deployments.Plan) -> None:
        at = self._endpoints.hosting.scope.now()
        self.deployment = Deployment(plan, self, at)
        self._endpoints.history.add(f"endpoint/{self._endpoint['EndpointName']}", self.kind, self.deployment)
        status = "Creating" if self.kind == "Creating" else "Updating"
        self._endpoint |= {"EndpointStatus": status, "LastModifiedTime": at, "_change": self}

    def settle(self) -> None:
        deployment, endpoint = self.deployment, self._endpoint
        deployment.advance(self._endpoints.hosting.scope.now())
        if deployment.outcome is None:
            if deployment.rolling_back:
                endpoint["EndpointStatus"] = "RollingBack"
            return
        endpoint |= {"_change": None, "LastModifiedTime": deployment.since, "EndpointStatus": "InService"}
        if deployment.outcome == "done":
            endpoint.pop("FailureReason", None)
            self._take_over()
            return
        if deployment.outcome == "rolled back" and self._endpoints.faults.strikes("silent_rollback"):
            # "The endpoint returns to InService with its previous configuration, and the FailureReason may become
            # empty": https://github.com/hashicorp/terraform-provider-aws/pull/49020.
            endpoint.pop("FailureReason", None)
            return
        endpoint["FailureReason"] = deployment.reason
        if self.kind == "Creating":
            endpoint["EndpointStatus"] = "Failed"
        elif deployment.outcome == "rollback failed":
            endpoint["EndpointStatus"] = "UpdateRollbackFailed"

    def pending(self, variant: Record) -> Record:
        """Return a variant's part of PendingDeploymentSummary. Only instances with traffic count."""
        name, stage = variant["VariantName"], self.deployment.stage
        active = self.launched_instances[name][: stage.new.get(name, 0)]
        return {
            **self._endpoints._fixed(variant, active),  # noqa: SLF001 - the other half of the same thing
            **({"InstanceType": variant["InstanceType"]} if "InstanceType" in variant else {}),
            "CurrentWeight": self.weights[name],
            "DesiredWeight": self.weights[name],
            "CurrentInstanceCount": stage.new.get(name, 0),
            "DesiredInstanceCount": self.counts[name],
            **self.status(name),
        }

    def status(self, name: str) -> Record:
        """Return a variant's VariantStatus."""
        stage = self.deployment.stage
        if name not in stage.messages:
            return {}
        shown = {"Status": stage.status, "StatusMessage": stage.messages[name], "StartTime": self.deployment.since}
        return {"VariantStatus": [shown]}

    def with_traffic(self, name: str) -> tuple[list[Instance], float]:
        """Return a variant's new instances with traffic, and their share of the traffic."""
        if self.kind != "Updating" or self.deployment.rolling_back or not self.counts.get(name):
            return [], 0.0
        count = self.deployment.stage.new.get(name, 0)
        return self.launched_instances[name][:count], count / self.counts[name]

    def launched(self, stage: Stage, waited: float) -> str | None:
        if stage is not self._launched:
            if (reason := self._launch(stage, waited)) is not None:
                return reason
            self._launched = stage
        endpoints = self._endpoints
        if endpoints.servers is None:
            return None
        return endpoints.servers.refusal(
            list(endpoints.wanted.of_fleet(self._endpoint, self.config, self.launched_instances))
        )

    def _launch(self, stage: Stage, waited: float) -> str | None:
        """Return why a stage has no instances, or why they would not serve; None if they do."""
        if (reason := self._unhealthy()) is not None:
            return reason
        for variant in variants_of(self.config):
            count = stage.launches.get(variant["VariantName"], 0)
            instances = launch(variant, count, self._endpoints.faults)
            if instances is None:
                patience = variant.get("VariantInstanceProvisionTimeoutInSeconds", 0) * self._endpoints.pace.scale
                if waited < patience:
                    raise NotYet
                return NO_CAPACITY
            self.launched_instances[variant["VariantName"]] += instances
        return self._refused()

    def restored(self) -> str | None:
        if self.kind == "Creating" or (fault := self._endpoints.faults.strikes("rollback_fails")) is None:
            return None
        return fault.reason or "The rollback failed as well."

    def tripped(self, alarms: Sequence[str], start: dt.datetime, end: dt.datetime) -> tuple[dt.datetime, str] | None:
        scope = self._endpoints.hosting.scope
        return self._endpoints.alarms.tripped(alarms, start, end, account=scope.account, region=scope.region)

    def _unhealthy(self) -> str | None:
        faults = self._endpoints.faults
        fault = faults.strikes("endpoint_fails")
        if fault is None and self.kind == "Updating":
            fault = faults.strikes("update_fails")
        return (fault.reason or _UNHEALTHY) if fault else None

    def _refused(self) -> str | None:
        """Return the refused permission that the execution roles need, if any."""
        hosting, own = self._endpoints.hosting, self._endpoints.hosting.scope
        for variant in variants_of(self.config):
            types = {instance.type_name for instance in self.launched_instances[variant["VariantName"]]}
            for instance_type in sorted(types):
                for model in models(variant, [instance_type]):
                    if (refused := hosting.image_refused(model)) is not None:
                        return refused
                    refused = hosting.start_refused(model, instance_type, variant, unhealthy=_UNHEALTHY)
                    if refused is not None:
                        return refused
        roles = {hosting.role(model) for variant in variants_of(self.config) for model in models(variant)}
        scopes = [self._endpoints.alarms.scope(name, account=own.account, region=own.region) for name in self._alarms]
        for role in sorted(role for role in roles | {self.config.get("ExecutionRoleArn")} if role):
            if (denied := hosting.roles.watch(role, scopes)) is not None:
                return refusal(role, denied)
        return None

    def _take_over(self) -> None:
        endpoint, fleet = self._endpoint, dict[str, list[Instance]]()
        if self.kind == "Scaling":
            for variant in variants_of(self.config):
                name = variant["VariantName"]
                there = endpoint["_fleet"][name] + self.launched_instances[name]
                fleet[name] = shrunk(variant, there, self.counts[name])
        else:
            fleet = self.launched_instances
            endpoint["EndpointConfigName"] = self.config["EndpointConfigName"]
        endpoint |= {"_config": self.config, "_fleet": fleet, "_weights": self.weights}


def _counts(endpoint: Record) -> dict[str, int]:
    return {name: len(fleet) for name, fleet in endpoint["_fleet"].items()}


def _check_layouts(endpoint: Record, config: Record) -> None:
    """Refuse to change the layout of partitions. Source: API reference, AcceleratorPartitionLayout."""
    then = {variant["VariantName"]: layout(variant) for variant in variants_of(config)}
    for variant in variants_of(endpoint["_config"]):
        name, here = variant["VariantName"], layout(variant)
        if (there := then.get(name, here)) != here:
            raise validation_error(
                f"The accelerator partition layout of variant {name} cannot be changed from {list(here)} to "
                f"{list(there)} on a running endpoint: create a new endpoint"
            )


def _instance_types(variant: Record) -> list[str]:
    pools = variant.get("InstancePools", [])
    return [variant["InstanceType"]] if "InstanceType" in variant else [pool["InstanceType"] for pool in pools]


def _initial_counts(config: Record) -> dict[str, int]:
    return {
        variant["VariantName"]: 0 if "ServerlessConfig" in variant else variant.get("InitialInstanceCount", 1)
        for variant in variants_of(config)
    }


def _initial_weights(config: Record) -> dict[str, Any]:
    return {variant["VariantName"]: variant.get("InitialVariantWeight", 1.0) for variant in variants_of(config)}
