"""Invariants that hold after every fault, read from the services and not from the handlers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim.runtime.jobs.sagemaker_jobs import RUNNING, job_name
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Claim
from constructs_optim.runtime.store.owner_records import OwnerRecord, OwnerRecords
from constructs_optim.runtime.store.run_records import run_job_name
from constructs_optim_local.cloud import LocalCloud

from ..support.waiting import a_moment
from .stacks import FUNCTION_SECONDS, STORE

# How long after a deployment a guarantee may take until it holds, in seconds of the machine's clock.
# Nothing repairs an artifact later. The claims, records and files are read one after the other, though.
_READ_AGAIN = 5.0
# A function that died or timed out undoes the rest in one of Lambda's two retries; each may run until its timeout.
_RETRIED = 3.0 * FUNCTION_SECONDS
# A state machine polls until it is through, and repeats a poll that fails; the local cloud shortens the waits between.
_WATCHED = 2.0 * FUNCTION_SECONDS
_GONE = ("DELETE_COMPLETE",)
_SCALING = (
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::CloudWatch::Alarm",
)


@dataclass(frozen=True)
class Seen:
    """What the store's records say at one time."""

    claims: list[Claim]
    records: list[OwnerRecord]


class Guarantees:
    """The guarantees, checked on one local cloud."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.cloud = cloud
        self.store = ArtifactStore(cloud.client("s3"), STORE)
        self.owners = OwnerRecords(cloud.client("s3"), STORE)
        self._s3, self._cloudformation = cloud.client("s3"), cloud.client("cloudformation")
        self._sagemaker = cloud.client("sagemaker")
        self._scaling, self._cloudwatch = cloud.client("application-autoscaling"), cloud.client("cloudwatch")

    def orphaned_jobs(self, seen: Seen | None = None) -> list[str]:
        """Running jobs whose claim no existing stack owns."""
        owned = {
            job_name(STORE, claim.artifact_key, claim.attempt)
            for claim in (seen or self.seen()).claims
            if any(self._lives(owner.stack_id) for owner in claim.owners)
        }
        benchmarks = self.cloud.benchmark_jobs()
        # The name of a benchmark job begins with the key of its evaluation, which is a resource of its stack.
        evaluations = tuple(run_job_name(key, "") for key in self._resources())
        owned |= {job["name"] for job in benchmarks if job["name"].startswith(evaluations)}
        jobs = [*self.cloud.jobs(), *self.cloud.training_jobs(), *benchmarks]
        return [job["name"] for job in jobs if job["status"].upper() in RUNNING and job["name"] not in owned]

    def lost_artifacts(self, seen: Seen | None = None) -> list[str]:
        """Referenced artifacts whose files do not match their manifest."""
        records = (seen or self.seen()).records
        referred = {key for record in records for key in record.keys if self._lives(record.owner.stack_id)}
        return [key for key in sorted(referred) if self._is_lost(key)]

    def dead_owners(self, seen: Seen | None = None) -> list[str]:
        """Deleted stacks that still own a claim, or whose record still references an artifact."""
        seen = seen or self.seen()
        claimed = [owner.stack_id for claim in seen.claims for owner in claim.owners]
        recorded = [record.owner.stack_id for record in seen.records if record.keys]
        return sorted({stack_id for stack_id in [*claimed, *recorded] if not self._lives(stack_id)})

    def abandoned(self) -> list[str]:
        """Models, endpoint configurations and components of this library that no stack has as a resource."""
        models = self._sagemaker.list_models(NameContains="optim-")["Models"]
        configs = self._sagemaker.list_endpoint_configs(NameContains="optim-")["EndpointConfigs"]
        components = self._sagemaker.list_inference_components()["InferenceComponents"]
        names = [
            *(model["ModelName"] for model in models),
            *(config["EndpointConfigName"] for config in configs),
            *(component["InferenceComponentArn"] for component in components),
        ]
        return [name for name in names if name not in self._resources()]

    def shadows(self) -> list[str]:
        """Endpoints that still have a shadow variant: no run of these stacks has anything to wait for."""
        endpoints = self._sagemaker.list_endpoints()["Endpoints"]
        described = [self._sagemaker.describe_endpoint(EndpointName=each["EndpointName"]) for each in endpoints]
        return [each["EndpointName"] for each in described if "ShadowProductionVariants" in each]

    def unscaled(self) -> list[str]:
        """Variants whose stacks are settled and that are not scaled as their stacks declare."""
        found: list[str] = []
        for stack in self._cloudformation.describe_stacks()["Stacks"]:
            status = stack["StackStatus"]
            if status.startswith(("DELETE_", "ROLLBACK_")) or status.endswith(("_IN_PROGRESS", "_FAILED")):
                continue
            resources = self._cloudformation.describe_stack_resources(StackName=stack["StackId"])["StackResources"]
            ids = {
                kind: [each["PhysicalResourceId"] for each in resources if each["ResourceType"] == kind]
                for kind in _SCALING
            }
            found += [f"{stack['StackName']}: {problem}" for problem in self._scaling_problems(*ids.values())]
        return found

    def _scaling_problems(self, targets: list[str], policies: list[str], alarms: list[str]) -> Iterator[str]:
        for target in targets:
            resource_id, dimension, namespace = target.split("|")
            of = {"ServiceNamespace": namespace, "ScalableDimension": dimension}
            if not self._scaling.describe_scalable_targets(**of, ResourceIds=[resource_id])["ScalableTargets"]:
                yield f"{resource_id} is not registered"
                continue
            of["ResourceId"] = resource_id
            described = self._scaling.describe_scaling_policies(**of)["ScalingPolicies"]
            declared = {arn.rpartition("policyName/")[2] for arn in policies if f"/{resource_id}:" in arn}
            names = {policy["PolicyName"] for policy in described}
            if declared != names:
                yield f"{resource_id} has the policies {sorted(names)} instead of {sorted(declared)}"
            actions = {
                action
                for alarm in self._cloudwatch.describe_alarms(AlarmNames=alarms)["MetricAlarms"]
                for action in alarm["AlarmActions"]
            }
            called = {policy["PolicyARN"] for policy in described if policy["PolicyType"] == "StepScaling"}
            if called - actions:
                yield f"no alarm calls {sorted(called - actions)}"

    def broken(self) -> dict[str, float]:
        """Violated guarantees: messages, each with the seconds after which it must be gone."""
        seen = self.seen()
        return {
            **dict.fromkeys((f"job {name} runs without an owner" for name in self.orphaned_jobs(seen)), _RETRIED),
            **dict.fromkeys((f"artifact {key} is lost" for key in self.lost_artifacts(seen)), _READ_AGAIN),
            **dict.fromkeys(
                (f"stack {each} is gone and still owns something" for each in self.dead_owners(seen)), _RETRIED
            ),
            **dict.fromkeys((f"{name} is no stack's resource" for name in self.abandoned()), _RETRIED),
            **dict.fromkeys((f"endpoint {name} keeps its shadow variant" for name in self.shadows()), _WATCHED),
            **dict.fromkeys(self.unscaled(), _WATCHED),
        }

    def broken_for_good(self, known: Collection[str] = ()) -> list[str]:
        """Violations, other than the ``known``, that remain after pending work has had its time."""
        return overdue(lambda: {each: seconds for each, seconds in self.broken().items() if each not in known})

    def seen(self) -> Seen:
        """All claims and records, read now."""
        return Seen(list(self.claims()), [each for each in self.owners.all() if isinstance(each, OwnerRecord)])

    def claims(self) -> Iterator[Claim]:
        """Every claim of the store."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=STORE, Prefix="artifacts/")
        for key in {item["Key"].split("/")[1] for page in pages for item in page.get("Contents", [])}:
            claim = self.store.claim(key)
            if claim is not None:
                yield claim

    def forget(self) -> None:
        """Empty the store when no stack uses it any more: the next check has less to read."""
        for prefix in ("artifacts/", "owners/"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=STORE, Prefix=prefix)
            for page in pages:
                found = [{"Key": item["Key"]} for item in page.get("Contents", [])]
                if found:
                    self._s3.delete_objects(Bucket=STORE, Delete={"Objects": found})

    def _is_lost(self, key: str) -> bool:
        return self.store.written_manifest(key) is not None and self.store.manifest(key) is None

    def _lives(self, stack_id: str) -> bool:
        try:
            status = self._cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"]
        except ClientError:
            return False
        return status not in _GONE

    def _resources(self) -> set[str]:
        found: list[dict[str, Any]] = []
        for stack in self._cloudformation.describe_stacks()["Stacks"]:
            if self._lives(stack["StackId"]):
                found += self._cloudformation.describe_stack_resources(StackName=stack["StackId"])["StackResources"]
        return {resource.get("PhysicalResourceId", "") for resource in found}


def overdue(broken: Callable[[], Mapping[str, float]]) -> list[str]:
    """Wait until each violation is gone or its seconds are over; those that were there after that."""
    started, found = time.monotonic(), set[str]()
    while True:
        waited = time.monotonic() - started
        left = broken()
        found |= {each for each, seconds in left.items() if waited >= seconds}
        if found.issuperset(left):
            return sorted(found)
        a_moment()
