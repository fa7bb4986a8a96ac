"""Recommendation jobs: instance types ranked for a model, with the numbers of ``performance``.

Sources: API reference, CreateAIRecommendationJob and DescribeAIRecommendationJob; SageMaker developer guide,
"Generative AI inference recommendations" (up to three instance types, one metric).

Assumed, without a source: the instance types if none are requested; the duration (10 minutes); names and units of the
expected metrics; the description of an optimization; the image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from constructs_optim_local.api.error import validation_error
from constructs_optim_local.faults import Faults
from constructs_optim_local.sagemaker.execution import ExecutionRoles, cannot_assume, refusal
from constructs_optim_local.sagemaker.hosting.model_packages import ModelPackages
from constructs_optim_local.sagemaker.hosting.performance import Performances, Served
from constructs_optim_local.sagemaker.records import Record, Scope

from .ai_jobs import AiJobs
from .aiperf_export import aggregated
from .measurement import measured
from .workload_configs import WorkloadConfigs

_SECONDS = 600.0
_TYPES = ("ml.g5.12xlarge", "ml.g6e.12xlarge", "ml.p5.48xlarge")
_IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/recommended:1"
_METRICS = {
    "ttft-ms": ("time_to_first_token", "Milliseconds"),
    "throughput": ("output_token_throughput", "Tokens/Second"),
}


class RecommendationJobs:
    """The recommendation jobs of one account and Region."""

    def __init__(
        self,
        scope: Scope,
        faults: Faults,
        configs: WorkloadConfigs,
        performances: Performances,
        price: Callable[[str], float | None],
        roles: ExecutionRoles,
        packages: ModelPackages,
        scale: float,
    ) -> None:
        """Start without jobs; ``price`` returns the hourly price of an instance type."""
        self._scope, self._configs, self._performances = scope, configs, performances
        self._price, self._roles, self._packages, self._scale = price, roles, packages, scale
        self.jobs = AiJobs(
            scope,
            faults,
            kind="AIRecommendationJob",
            path="ai-recommendation-job",
            label="AI recommendation job",
            fault="recommendation",
            finish=self._finish,
        )

    def create(self, request: Record) -> Record:
        """CreateAIRecommendationJob."""
        config = self._configs.named(request["AIWorkloadConfigIdentifier"])
        self._configs.workload(config)
        if "S3" not in request["ModelSource"] or not request["ModelSource"]["S3"].get("S3Uri"):
            raise validation_error("ModelSource must have S3 with an S3Uri")
        if len(request["PerformanceTarget"]["Constraints"]) != 1:
            raise validation_error("PerformanceTarget must have exactly one constraint")
        if not request["OutputConfig"].get("S3OutputLocation"):
            raise validation_error("OutputConfig must have S3OutputLocation")
        name = request["AIRecommendationJobName"]
        if not self._roles.assume(request["RoleArn"], self.jobs.arn(name)):
            raise cannot_assume(request["RoleArn"])
        return self.jobs.add(request, self._scale * _SECONDS)

    def _finish(self, job: Record) -> str | None:
        role, source = job["RoleArn"], job["ModelSource"]["S3"]["S3Uri"]
        location = job["OutputConfig"]["S3OutputLocation"]
        name = job["AIRecommendationJobName"]
        kinds = ("training-job", "endpoint", *(("optimization-job",) if job.get("OptimizeModel", True) else ()))
        steps = (
            self._roles.run_ai_job(role, *(self._scope.arn(kind, name) for kind in kinds)),
            self._roles.read(role, source),
            self._roles.write(role, location, None),
        )
        refused = next(filter(None, steps), None)
        if refused:
            return f"ClientError: {refusal(role, refused)}"
        types = job.get("ComputeSpec", {}).get("InstanceTypes") or _TYPES
        metric = job["PerformanceTarget"]["Constraints"][0]["Metric"]
        ranked = sorted(((self._expected(job, name), name) for name in types), key=lambda pair: _rank(metric, pair[0]))
        job["Recommendations"] = [
            self._recommendation(job, rank, name, found) for rank, (found, name) in enumerate(ranked, 1)
        ]
        return None

    def _expected(self, job: Record, instance_type: str) -> dict[str, float]:
        """Return the expected performance of an instance type under the workload."""
        config = self._configs.named(job["AIWorkloadConfigIdentifier"])
        workload = self._configs.workload(config)
        served = Served(instance_type, instance_type, (instance_type, job["ModelSource"]["S3"]["S3Uri"]))
        users = max(workload.concurrencies, default=1)
        metrics = aggregated(workload, measured(workload, users, [served], self._performances.of))
        found = {name: metrics[tag]["avg"] for name, (tag, _) in _METRICS.items() if tag in metrics}
        price = self._price(instance_type)
        if price is not None and found.get("throughput"):
            found["cost"] = price / (found["throughput"] * 3600 / 1_000_000)
        return found

    def _recommendation(self, job: Record, rank: int, name: str, found: dict[str, float]) -> dict[str, Any]:
        instance = {"InstanceType": name, "InstanceCount": 1, "CopyCountPerInstance": 1}
        group = job["OutputConfig"].get("ModelPackageGroupIdentifier", job["AIRecommendationJobName"])
        optimized = job.get("OptimizeModel", True)
        uri, specification = job["ModelSource"]["S3"]["S3Uri"], f"recommendation-{rank}"
        data = {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}
        container = {"Image": _IMAGE, "ModelDataSource": {"S3DataSource": data}, "Environment": {}}
        package = self._packages.register(group.rpartition("/")[2], rank, specification, container)
        units = {metric: unit for metric, (_, unit) in _METRICS.items()} | {"cost": "USD/1M output tokens"}
        at = self._scope.now()
        return {
            "RecommendationDescription": f"Simulated by the local cloud at {at:%Y-%m-%dT%H:%M:%SZ}: {name}",
            "OptimizationDetails": [{"OptimizationType": "KernelTuning", "OptimizationConfig": {}}]
            if optimized
            else [],
            "ModelDetails": {
                "ModelPackageArn": package,
                "InferenceSpecificationName": specification,
                "InstanceDetails": [instance],
            },
            "DeploymentConfiguration": {
                "S3": [{"ChannelName": "base_model", "Uri": uri}],
                "ImageUri": _IMAGE,
                "EnvironmentVariables": {},
                **instance,
            },
            "ExpectedPerformance": [
                {"Metric": metric, "Stat": "avg", "Value": f"{value:.3f}", "Unit": units[metric]}
                for metric, value in found.items()
            ],
        }


def _rank(metric: str, found: dict[str, float]) -> float:
    """Return a sort key: better values first, unknown values last."""
    value = found.get(metric)
    if value is None:
        return float("inf")
    return -value if metric == "throughput" else value
