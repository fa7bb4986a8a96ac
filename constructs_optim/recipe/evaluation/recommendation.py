"""The result of a recommendation job, as a file that you review and commit."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, StringConstraints
from pydantic_core import from_json

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.errors import Violation
from constructs_optim.recipe.hosting.alarms import Alarms
from constructs_optim.recipe.settings import Settings

JobArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:ai-recommendation-job/[a-zA-Z0-9-]+$")
]
PackageArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:model-package/\S+$")
]


class ExpectedMetric(Settings):
    """A metric that SageMaker expects, in its own form: ``throughput`` ``avg`` ``912.4`` ``Tokens/Second``."""

    metric: str
    value: str
    statistic: str | None = None
    unit: str | None = None


class Recommendation(Settings):
    """One result of a recommendation job. ``constructs-optim jobs recommendation`` writes the file.

    Attributes:
        schema_version: the version of the file's format.
        job_arn: the ARN of the recommendation job.
        chosen: the number of this recommendation among the job's, starting with 1.
        recommended: the number of the job's recommendations.
        reason: why you chose this one.
        optimized_for: the job's goal: ``cost``, ``throughput`` or ``ttft-ms``.
        model_package_arn: the model package, which someone must approve.
        inference_specification_name: the inference specification in the package.
        instance_type: the endpoint's instance type.
        instance_types: all instance types of the inference specification.
        instance_count: the number of instances that the expected performance refers to.
        copies_per_instance: copies of the model per instance; more than one need an inference component.
        min_memory_mib: the host memory of each copy, in MiB; None if SageMaker does not say.
        model_uris: the S3 prefixes of the model's channels, which the execution role reads.
        image: the package's container image, for review; None if SageMaker does not say.
        environment: the package's environment variables, for review.
        optimizations: the optimizations of the model, for review.
        expected_performance: the performance that SageMaker expects.
    """

    schema_version: Literal[1]
    job_arn: JobArn
    chosen: int = Field(ge=1)
    recommended: int = Field(ge=1)
    reason: str = Field(min_length=1)
    optimized_for: str
    model_package_arn: PackageArn
    inference_specification_name: str
    instance_type: str
    instance_types: Sequence[str] = Field(min_length=1)
    instance_count: int = Field(ge=1)
    copies_per_instance: int = Field(ge=1)
    min_memory_mib: int | None = Field(default=None, ge=128)
    model_uris: Sequence[str] = Field(min_length=1)
    image: str | None = None
    environment: Mapping[str, str] = Field(default_factory=dict[str, str])
    optimizations: Sequence[str] = ()
    expected_performance: Sequence[ExpectedMetric] = ()

    @staticmethod
    def from_file(path: str | Path) -> Recommendation:
        """Read a file.

        Raises:
            RecipeError: if the file is invalid; lists all mistakes.
        """
        try:
            settings: object = from_json(Path(path).read_bytes().removeprefix(codecs.BOM_UTF8), allow_inf_nan=False)
            if not isinstance(settings, dict):
                raise ValueError("it is not a JSON object")
        except (OSError, ValueError) as error:
            fix = "a file from `constructs-optim jobs recommendation`"
            raise Recommendation.error(
                [
                    Violation(
                        rule=Recommendation.rule,
                        location="Recommendation.from_file.path",
                        value=str(path),
                        reason=f"the file cannot be read: {error}",
                        suggestion=fix,
                        link=Recommendation.rule_link,
                    )
                ]
            ) from None
        return Recommendation(**cast("dict[str, Any]", settings))

    @staticmethod
    def of_job(job: Mapping[str, Any], *, chosen: int, reason: str | None) -> Recommendation:
        """Return one result of a completed job.

        Args:
            job: the response of DescribeAIRecommendationJob.
            chosen: the number of the recommendation, starting with 1.
            reason: why you chose it. Default: its place in SageMaker's ranking.
        """
        answers = job["Recommendations"]
        answer: Mapping[str, Any] = answers[chosen - 1]
        model, deployment = answer["ModelDetails"], answer["DeploymentConfiguration"]
        goal = ", ".join(constraint["Metric"] for constraint in job["PerformanceTarget"]["Constraints"])
        return Recommendation(
            schema_version=1,
            job_arn=job["AIRecommendationJobArn"],
            chosen=chosen,
            recommended=len(answers),
            reason=reason or f"number {chosen} of {len(answers)} in the service's ranking by {goal}",
            optimized_for=goal,
            model_package_arn=model["ModelPackageArn"],
            inference_specification_name=model["InferenceSpecificationName"],
            instance_type=deployment["InstanceType"],
            instance_types=[each["InstanceType"] for each in model.get("InstanceDetails", [])]
            or [deployment["InstanceType"]],
            instance_count=deployment.get("InstanceCount", 1),
            copies_per_instance=deployment.get("CopyCountPerInstance", 1),
            min_memory_mib=deployment.get("MinCpuMemoryRequiredInMb"),
            model_uris=[channel["Uri"] for channel in deployment.get("S3", [])],
            image=deployment.get("ImageUri"),
            environment=deployment.get("EnvironmentVariables", {}),
            optimizations=[each["OptimizationType"] for each in answer.get("OptimizationDetails", [])],
            expected_performance=[
                ExpectedMetric(
                    metric=each["Metric"], value=each["Value"], statistic=each.get("Stat"), unit=each.get("Unit")
                )
                for each in answer.get("ExpectedPerformance", [])
            ],
        )

    @property
    def region(self) -> str:
        """The Region of the package."""
        return self.model_package_arn.split(":")[3]

    @property
    def account(self) -> str:
        """The account of the package."""
        return self.model_package_arn.split(":")[4]

    @property
    def accelerators_of_a_copy(self) -> int:
        """The accelerators of each copy, an equal part of the instance's; 0 if the type is not in the catalog."""
        row = instances.find(self.instance_type)
        return row.parallel_units // self.copies_per_instance if row is not None else 0


@dataclass(frozen=True)
class RecommendedDeployment:
    """A recommendation and the stack that deploys it; Region and account are None if known only at deployment.

    ``alarms`` monitor the endpoint; by default, without the saturation alarm.
    """

    recommendation: Recommendation
    region: str | None = None
    account: str | None = None
    alarms: Alarms = field(default_factory=lambda: Alarms(saturation=False))
