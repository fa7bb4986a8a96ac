"""The AWS clients of a handler under test: they record requests, and die where a test has them die."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import count
from typing import Any

from constructs_optim.runtime.handlers import job_handler
from constructs_optim.runtime.jobs.sagemaker_jobs import RUNNING
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Claim
from constructs_optim.runtime.store.owner_records import Owner, OwnerRecords
from constructs_optim_local.cloud import LocalCloud

from .custom_resource_events import custom_resource_event
from .lambda_context import LambdaContext
from .local_cloud import BUCKET, ROLE, Responses, shared_client

ACCOUNT, OTHER_ACCOUNT = "000000000000", "444455556666"


numbers = count()


class Died(BaseException):
    """A function's process that ends at once: nothing it would still do happens."""


class Requests:
    """CloudFormation's side of one resource, and the state its requests result in."""

    def __init__(self, cloud: LocalCloud, responses: Responses, machine: str, account: str = ACCOUNT) -> None:
        self.cloud, self.responses, self.machine = cloud, responses, machine
        self.number = next(numbers)
        # Times of jobs may be in whole seconds.
        self._declared = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
        self.owner = Owner(f"arn:aws:cloudformation:us-west-2:{account}:stack/Chat/{self.number}", "Job")
        self.store = ArtifactStore(shared_client(cloud, "s3"), BUCKET)
        self.records = OwnerRecords(shared_client(cloud, "s3"), BUCKET)
        self.recipe = f"{self.number:064x}"
        self._sent: list[str] = []
        shared_client(cloud, "s3").put_object(
            Bucket=BUCKET, Key=f"models/{self.number}/model.safetensors", Body=b"weights"
        )

    def properties(self, **changed: Any) -> dict[str, Any]:
        return {
            "RecipeKey": self.recipe,
            "Source": {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/models/{self.number}/"},
            "Request": {
                "DeploymentInstanceType": "ml.g5.12xlarge",
                "OptimizationConfigs": [
                    {
                        "ModelQuantizationConfig": {
                            "Image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1",
                            "OverrideEnvironment": {"OPTION_QUANTIZE": "awq"},
                        }
                    }
                ],
                "StoppingCondition": {"MaxRuntimeInSeconds": "3600"},
            },
            "RoleArn": ROLE,
            "Bucket": BUCKET,
            "StateMachineArn": self.machine,
            **changed,
        }

    def event(self, kind: str, request: str, physical_id: str | None = None, **changed: Any) -> dict[str, Any]:
        if request not in self._sent:
            self._sent.append(request)
        # A repeated event is the same event: it was sent when it was sent.
        date = f"20261121T1200{self._sent.index(request):02}Z"
        return custom_resource_event(
            kind,
            f"{self.responses.url}?X-Amz-Date={date}&X-Amz-Expires=7200",
            stack_id=self.owner.stack_id,
            request_id=f"{self.number}-{request}",
            logical_id=self.owner.logical_id,
            properties=self.properties(**changed),
            physical_id=physical_id,
        )

    def send(self, kind: str, request: str, physical_id: str | None = None, **changed: Any) -> dict[str, Any]:
        """Invoke the function; returns its response."""
        self.deliver(self.event(kind, request, physical_id, **changed))
        return self.responses.received[-1]

    def deliver(self, event: dict[str, Any]) -> None:
        job_handler.handler(event, LambdaContext(0.5))

    @property
    def keys(self) -> set[str]:
        return set(self.records.get(self.owner).keys)

    @property
    def running(self) -> list[str]:
        """The running jobs of this resource's source."""
        sagemaker = shared_client(self.cloud, "sagemaker")
        pages = sagemaker.get_paginator("list_optimization_jobs").paginate(CreationTimeAfter=self._declared)
        found = []
        for job in (job for page in pages for job in page["OptimizationJobSummaries"]):
            if job["OptimizationJobStatus"] not in RUNNING:
                continue
            name = job["OptimizationJobName"]
            request = sagemaker.describe_optimization_job(OptimizationJobName=name)
            if f"/models/{self.number}/" in request["ModelSource"]["S3"]["S3Uri"]:
                found.append(name)
        return found

    def assert_nothing_is_left(self) -> None:
        assert self.keys == set()
        assert self.running == []
        assert self.claims() == []

    def assert_nothing_is_claimed(self) -> None:
        assert self.keys == set()
        assert self.claims() == []

    def claims(self) -> list[Claim]:
        """The claims this resource owns."""
        pages = (
            shared_client(self.cloud, "s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=BUCKET, Prefix="artifacts/")
        )
        keys = {item["Key"].split("/")[1] for page in pages for item in page.get("Contents", [])}
        found = [self.store.claim(key) for key in keys]
        return [claim for claim in found if claim is not None and self.owner in claim.owners]


class Clients:
    """The function's clients, made once; something can be done right before the n-th call from now on."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud, self._made = cloud, dict[str, Any]()
        self._plan: dict[int, Callable[[], None]] = {}
        self._calls = 0

    def get(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._cloud.client(name)
            self._made[name].meta.events.register_first("before-call", self._before_call)
        return self._made[name]

    def arm(self, acts: dict[int, Callable[[], None]]) -> None:
        self._plan, self._calls = dict(acts), 0

    def _before_call(self, **_: Any) -> None:
        number, self._calls = self._calls, self._calls + 1
        if act := self._plan.pop(number, None):
            act()
