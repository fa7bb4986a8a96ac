"""An endpoint's evaluations, as CloudFormation requests and a state machine watches them."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from constructs_optim.recipe.evaluation import Workload
from constructs_optim.runtime.handlers import evaluation_watcher
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.run_properties import EvaluationRequest
from constructs_optim.runtime.store.run_records import RunRecords, run_job_name
from constructs_optim_local.cloud import LocalCloud

from .custom_resource_events import custom_resource_event
from .endpoint_updates import serving
from .lambda_context import LambdaContext
from .local_cloud import BUCKET, ROLE, Responses
from .waiting import until

ACCOUNT, REGION = "000000000000", "us-west-2"
_numbers = count()


class Evaluation:
    """One endpoint's evaluation, and what came of it."""

    name, workload, spec = "evaluated", "optimevaluated", Workload(concurrency=[2], requests=20).spec

    def __init__(self, cloud: LocalCloud, responses: Responses, machine: str) -> None:
        self.cloud, self.responses, self.machine = cloud, responses, machine
        self.sagemaker = cloud.client("sagemaker")
        self.request: dict[str, Any] = {
            "Label": self.name,
            "EndpointName": self.name,
            "EndpointConfigName": self.name,
            "VariantName": "AllTraffic",
            "ModelNames": [self.name],
            "Subjects": [{"InstanceType": "ml.g5.12xlarge", "ArtifactKey": f"{next(_numbers):064x}"}],
            "WorkloadConfigName": self.workload,
            "Workload": self.spec,
            "Concurrencies": [2],
            "Dimensions": {"EndpointName": self.name, "VariantName": "AllTraffic"},
            "RoleArn": ROLE,
            "Bucket": BUCKET,
        }
        self.run = f"run{next(_numbers)}"

    @property
    def records(self) -> RunRecords:
        key = validate(EvaluationRequest, self.request).key(ACCOUNT, REGION)
        return RunRecords(self.cloud.client("s3"), "evaluations", BUCKET, None, key)

    @property
    def job(self) -> dict[str, Any]:
        return self.sagemaker.describe_ai_benchmark_job(AIBenchmarkJobName=run_job_name(self.records.key, self.run))

    def poll(self, issued: int = 1000, **more: Any) -> dict[str, Any]:
        event = {"Request": self.request, "Run": self.run, "Issued": issued, "WaitHandle": self.responses.url, **more}
        return evaluation_watcher.handler(event, LambdaContext(120))

    def poll_to_the_end(self, **more: Any) -> dict[str, Any]:
        """Poll until the watcher is done; returns the signal that the stack received."""
        until(lambda: self.poll(**more), lambda output: output["Done"])
        return self.responses.received[-1]

    def event(self, kind: str, request: str, **more: Any) -> dict[str, Any]:
        return {
            **custom_resource_event(
                kind,
                f"{self.responses.url}?X-Amz-Date=20261121T120000Z&X-Amz-Expires=7200",
                stack_id=f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/Chat/{self.name}",
                request_id=request,
                logical_id="Evaluation",
                properties={"Request": self.request, "StateMachineArn": self.machine},
            ),
            **more,
        }


def evaluated_endpoint(sagemaker: Any) -> None:
    """The endpoint of all evaluations; each evaluation has a separate artifact."""
    serving(sagemaker, Evaluation.name, count=1)
    inline = {"WorkloadSpec": {"Inline": json.dumps(Evaluation.spec)}}
    sagemaker.create_ai_workload_config(AIWorkloadConfigName=Evaluation.workload, AIWorkloadConfigs=inline)
