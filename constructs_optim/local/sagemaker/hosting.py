"""Models, endpoint configurations and endpoints, with an endpoint's Creating, Updating, InService and Failed."""

from __future__ import annotations

import copy
from typing import Any

from ..api_error import validation_error
from ..faults import Faults
from .execution import ExecutionRoles, refusal
from .records import Record, Records, Scope, now

_NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
    "Please retry using a different ML instance type or after some time."
)


def _could_not_find(kind: str, scope: Scope, path: str) -> Any:
    # SageMaker answers so, with a ValidationException, for hosting resources it does not know.
    return lambda name: validation_error(f'Could not find {kind} "{scope.arn(path, name)}".')


def _exists(kind: str, scope: Scope, path: str) -> Any:
    return lambda name: validation_error(f'Cannot create already existing {kind} "{scope.arn(path, name)}".')


class Hosting:
    """Hosting resources of one account and region. ``seconds`` is how long an endpoint takes to change."""

    def __init__(self, scope: Scope, faults: Faults, seconds: float, roles: ExecutionRoles) -> None:
        self._scope, self._faults, self._seconds, self._roles = scope, faults, seconds, roles
        self.models = Records(_could_not_find("model", scope, "model"), _exists("model", scope, "model"))
        self.configs = Records(
            _could_not_find("endpoint configuration", scope, "endpoint-config"),
            _exists("endpoint configuration", scope, "endpoint-config"),
        )
        self.endpoints = Records(_could_not_find("endpoint", scope, "endpoint"), _exists("endpoint", scope, "endpoint"))

    def create_model(self, request: Record) -> Record:
        """CreateModel."""
        if not request.get("PrimaryContainer") and not request.get("Containers"):
            raise validation_error("Requires at least one of PrimaryContainer, Containers")
        self._check_data(request)
        arn = self._add(self.models, "model", "ModelName", "ModelArn", request)
        return {"ModelArn": arn}

    def describe_model(self, request: Record) -> Record:
        """DescribeModel."""
        return {"EnableNetworkIsolation": False, **self.models.get(request["ModelName"])}

    def delete_model(self, request: Record) -> Record:
        """DeleteModel."""
        self.models.remove(request["ModelName"])
        return {}

    def list_models(self, request: Record) -> Record:
        """ListModels."""
        return self.models.page("Models", request, _only("ModelName", "ModelArn", "CreationTime"))

    def create_config(self, request: Record) -> Record:
        """CreateEndpointConfig."""
        for variant in request["ProductionVariants"]:
            if variant.get("ModelName"):
                self.models.get(variant["ModelName"])
        arn = self._add(self.configs, "endpoint-config", "EndpointConfigName", "EndpointConfigArn", request)
        return {"EndpointConfigArn": arn}

    def describe_config(self, request: Record) -> Record:
        """DescribeEndpointConfig."""
        return dict(self.configs.get(request["EndpointConfigName"]))

    def delete_config(self, request: Record) -> Record:
        """DeleteEndpointConfig."""
        self.configs.remove(request["EndpointConfigName"])
        return {}

    def list_configs(self, request: Record) -> Record:
        """ListEndpointConfigs."""
        columns = _only("EndpointConfigName", "EndpointConfigArn", "CreationTime")
        return self.configs.page("EndpointConfigs", request, columns)

    def create_endpoint(self, request: Record) -> Record:
        """CreateEndpoint."""
        self.configs.get(request["EndpointConfigName"])
        arn = self._add(self.endpoints, "endpoint", "EndpointName", "EndpointArn", request)
        endpoint = self.endpoints.get(request["EndpointName"])
        endpoint |= {
            "EndpointStatus": "Creating",
            "LastModifiedTime": now(),
            "_until": request["EndpointConfigName"],
        }
        return {"EndpointArn": arn}

    def update_endpoint(self, request: Record) -> Record:
        """UpdateEndpoint: the old configuration serves until the new one does."""
        endpoint = self._settled(request["EndpointName"])
        self.configs.get(request["EndpointConfigName"])
        status = endpoint["EndpointStatus"]
        if status not in ("InService", "UpdateRollbackFailed"):
            raise validation_error(f'Cannot update in-progress endpoint "{endpoint["EndpointArn"]}".')
        kept = {v["VariantName"]: v for v in endpoint.get("ProductionVariants", [])}
        endpoint |= {
            "EndpointStatus": "Updating",
            "LastModifiedTime": now(),
            "_until": request["EndpointConfigName"],
            "_kept": kept if request.get("RetainAllVariantProperties") else {},
        }
        if "DeploymentConfig" in request:
            endpoint["LastDeploymentConfig"] = request["DeploymentConfig"]
        return {"EndpointArn": endpoint["EndpointArn"]}

    def update_weights_and_capacities(self, request: Record) -> Record:
        """UpdateEndpointWeightsAndCapacities, at once."""
        endpoint = self._settled(request["EndpointName"])
        for desired in request["DesiredWeightsAndCapacities"]:
            for variant in endpoint.get("ProductionVariants", []):
                if variant["VariantName"] == desired["VariantName"] and "DesiredInstanceCount" in desired:
                    variant["CurrentInstanceCount"] = variant["DesiredInstanceCount"] = desired["DesiredInstanceCount"]
        return {"EndpointArn": endpoint["EndpointArn"]}

    def describe_endpoint(self, request: Record) -> Record:
        """DescribeEndpoint."""
        shown = copy.deepcopy(self._settled(request["EndpointName"]))
        return {key: value for key, value in shown.items() if not key.startswith("_") and key != "DeploymentConfig"}

    def delete_endpoint(self, request: Record) -> Record:
        """DeleteEndpoint, at once."""
        self.endpoints.remove(request["EndpointName"])
        return {}

    def list_endpoints(self, request: Record) -> Record:
        """ListEndpoints."""
        for name in list(self.endpoints.by_name):
            self._settled(name)
        columns = _only("EndpointName", "EndpointArn", "CreationTime", "LastModifiedTime", "EndpointStatus")
        return self.endpoints.page("Endpoints", request, columns)

    def _add(self, records: Records, path: str, name: str, arn_name: str, request: Record) -> str:
        arn = self._scope.arn(path, request[name])
        kept = {key: value for key, value in request.items() if key != "Tags"}
        records.add(request[name], {**kept, arn_name: arn, "CreationTime": now()})
        self._scope.tag(arn, request.get("Tags"))
        return arn

    def image_refused(self, model_name: str | None) -> str | None:
        """Why a model's image cannot be pulled under its role, where it cannot."""
        model = self.models.find(model_name or "") or {}
        role, image = model.get("ExecutionRoleArn"), (model.get("PrimaryContainer") or {}).get("Image")
        refused = self._roles.pull(role, image) if role else None
        if role is None or refused is None:
            return None
        return (
            f"The role '{role}' does not have {refused.action.partition(':')[2]} permission for the image: '{image}'. "
            + refusal(role, refused)
        )

    def _check_data(self, request: Record) -> None:
        role, arn = request.get("ExecutionRoleArn"), self._scope.arn("model", request["ModelName"])
        if role is None:
            return
        assumed = self._roles.assume(role, arn)
        for uri in _data_uris(request):
            refused = self._roles.read(role, uri) if assumed else None
            if refused is not None or not assumed:
                raise validation_error(
                    f'Could not access model data at {uri}. Please ensure that the role "{role}" exists and that its '
                    'trust relationship policy allows the action "sts:AssumeRole" for the service principal '
                    '"sagemaker.amazonaws.com". Also ensure that the role has "s3:GetObject" permissions and that the '
                    f"object is located in {self._scope.region}. If your Model uses multiple models or uncompressed "
                    'models, please ensure that the role has "s3:ListBucket" permission.'
                    + (f" {refusal(role, refused)}" if refused is not None else "")
                )

    def _settled(self, name: str) -> Record:
        endpoint = self.endpoints.get(name)
        changing = endpoint["EndpointStatus"] in ("Creating", "Updating")
        if not changing or (now() - endpoint["LastModifiedTime"]).total_seconds() < self._seconds:
            return endpoint
        fault = self._faults.strikes("endpoint_fails")
        reason = (fault.reason or "The primary container did not pass the ping health check.") if fault else None
        if reason is None and self._faults.strikes("no_capacity"):
            reason = _NO_CAPACITY
        if reason is None:
            variants = self.configs.get(endpoint["_until"])["ProductionVariants"]
            reason = next(filter(None, (self.image_refused(variant.get("ModelName")) for variant in variants)), None)
        created = endpoint["EndpointStatus"] == "Creating"
        endpoint["LastModifiedTime"] = now()
        if reason is not None:
            # A failed update leaves the old fleet in service, and says why the new one is not.
            endpoint |= {"EndpointStatus": "Failed" if created else "InService", "FailureReason": reason}
            return endpoint
        endpoint.pop("FailureReason", None)
        endpoint |= {"EndpointStatus": "InService", "EndpointConfigName": endpoint["_until"]}
        config = self.configs.get(endpoint["EndpointConfigName"])
        endpoint["ProductionVariants"] = [
            self._variant(variant, endpoint.get("_kept", {})) for variant in config["ProductionVariants"]
        ]
        return endpoint

    def _variant(self, variant: Record, kept: Record) -> Record:
        before = kept.get(variant["VariantName"], {})
        count = before.get("DesiredInstanceCount", variant.get("InitialInstanceCount", 1))
        model = self.models.find(variant.get("ModelName", "")) or {}
        image = (model.get("PrimaryContainer") or {}).get("Image")
        deployed = [{"SpecifiedImage": image, "ResolvedImage": image, "ResolutionTime": now()}] if image else []
        return {
            "VariantName": variant["VariantName"],
            "DeployedImages": deployed,
            "CurrentWeight": variant.get("InitialVariantWeight", 1.0),
            "DesiredWeight": variant.get("InitialVariantWeight", 1.0),
            "CurrentInstanceCount": count,
            "DesiredInstanceCount": count,
            **{key: variant[key] for key in ("ManagedInstanceScaling", "RoutingConfig") if key in variant},
        }


def _only(*names: str) -> Any:
    return lambda record: {name: record[name] for name in names if name in record}


def _data_uris(request: Record) -> list[str]:
    """The S3 prefixes that a model's containers read."""
    containers = [
        *([request["PrimaryContainer"]] if "PrimaryContainer" in request else []),
        *request.get("Containers", []),
    ]
    sources = [
        source
        for container in containers
        for source in (container.get("ModelDataSource", {}), *container.get("AdditionalModelDataSources", []))
    ]
    return [source["S3DataSource"]["S3Uri"] for source in sources if "S3DataSource" in source]
