"""Workload configurations: named descriptions of the requests of benchmark and recommendation jobs.

Sources: API reference, CreateAIWorkloadConfig and DeleteAIWorkloadConfig (the configuration of an active benchmark job
cannot be deleted); the CloudFormation schema of AWS::SageMaker::AIWorkloadConfig (the document is validated at
creation; the service lower-cases the name of the configuration to delete).
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from constructs_optim_local.api.error import ApiError, not_found, validation_error
from constructs_optim_local.sagemaker.records import (
    Record,
    Records,
    Scope,
)

from .workload_spec import BadWorkload, Workload, parsed


class WorkloadConfigs:
    """The workload configurations of one account and Region. ``in_use`` returns the jobs that need one."""

    def __init__(self, scope: Scope, in_use: Callable[[str], list[str]]) -> None:
        self._scope, self._in_use = scope, in_use
        self.records = Records(
            missing=lambda name: not_found(f"AI workload config {name} does not exist"),
            taken=lambda name: ApiError("ResourceInUse", f"AI workload config {name} already exists"),
        )

    def create(self, request: Record) -> Record:
        """CreateAIWorkloadConfig."""
        name, inline = request["AIWorkloadConfigName"], _inline(request)
        if inline is not None:
            try:
                parsed(inline)
            except BadWorkload as error:
                raise validation_error(f"Invalid WorkloadSpec: {error}") from None
        arn = self._scope.arn("ai-workload-config", name)
        kept = {key: copy.deepcopy(value) for key, value in request.items() if key != "Tags"}
        self.records.add(name, {**kept, "AIWorkloadConfigArn": arn, "CreationTime": self._scope.now()})
        self._scope.tag(arn, request.get("Tags"))
        return {"AIWorkloadConfigArn": arn}

    def describe(self, request: Record) -> Record:
        """DescribeAIWorkloadConfig."""
        config = self.records.get(request["AIWorkloadConfigName"])
        tags = [{"Key": k, "Value": v} for k, v in self._scope.tags.get(config["AIWorkloadConfigArn"], {}).items()]
        return {**config, **({"Tags": tags} if tags else {})}

    def delete(self, request: Record) -> Record:
        """DeleteAIWorkloadConfig, which never finds a name with a capital letter."""
        name = request["AIWorkloadConfigName"]
        config = self.records.get(name)
        if config["AIWorkloadConfigName"] != name.lower():
            raise self.records.missing(name.lower())
        if jobs := self._in_use(name):
            raise ApiError("ResourceInUse", f"AI workload config {name} is used by {', '.join(jobs)}")
        self.records.remove(name)
        return {"AIWorkloadConfigArn": config["AIWorkloadConfigArn"]}

    def list(self, request: Record) -> Record:
        """ListAIWorkloadConfigs."""
        members = ("AIWorkloadConfigName", "AIWorkloadConfigArn", "CreationTime")
        return self.records.page("AIWorkloadConfigs", request, lambda config: {key: config[key] for key in members})

    def named(self, identifier: str) -> Record:
        """Return a configuration by name or ARN.

        Raises:
            ApiError: ResourceNotFound if there is none.
        """
        return self.records.get(identifier.rpartition("/")[2])

    def workload(self, config: Record) -> Workload:
        """Return the workload of a configuration.

        Raises:
            ApiError: if it has no document, without which no job can run (assumed).
        """
        inline = _inline(config)
        if inline is None:
            raise validation_error(f"AI workload config {config['AIWorkloadConfigName']} has no WorkloadSpec")
        return parsed(inline)


def channels(config: Record) -> dict[str, str]:
    """Return the S3 URI of each channel of a configuration's dataset."""
    listed = config.get("DatasetConfig", {}).get("InputDataConfig", [])
    return {
        channel["ChannelName"]: channel["DataSource"]["S3DataSource"]["S3Uri"]
        for channel in listed
        if "S3DataSource" in channel["DataSource"]
    }


def _inline(config: Record) -> str | None:
    return config.get("AIWorkloadConfigs", {}).get("WorkloadSpec", {}).get("Inline")
