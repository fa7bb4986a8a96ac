"""What a recommendation job recommends, as a file that a person reviews and commits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, StringConstraints

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
    """A number that the service expects, as it gives it: ``throughput`` ``avg`` ``912.4`` ``Tokens/Second``."""

    metric: str
    value: str
    statistic: str | None = None
    unit: str | None = None


class Recommendation(Settings):
    """One answer of a recommendation job, which ``constructs-optim jobs recommendation`` writes.

    Attributes:
        schema_version: the form of the file.
        job_arn: the job that recommends it.
        chosen: which of the job's recommendations it is, 1 being the first.
        recommended: how many there were.
        reason: why this one was chosen.
        optimized_for: the job's goal: ``cost``, ``throughput`` or ``ttft-ms``.
        model_package_arn: the model package, which a person approves.
        inference_specification_name: which of the package's inference specifications it is.
        instance_type: the endpoint's instance type.
        instance_types: all types that the package's specification is for.
        instance_count: how many instances the expected performance is of.
        copies_per_instance: copies of the model on each; more than one are an inference component's.
        min_memory_mib: the host memory of each copy, in MiB; None where the service says nothing.
        model_uris: the S3 prefixes of the model's channels, which its role reads.
        image: the container image of the package, to review; None where the service says nothing.
        environment: the package's environment variables, to review.
        optimizations: what was done to the model, to review.
        expected_performance: what the service expects.
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
            RecipeError: with everything that is wrong in the file.
        """
        try:
            settings: object = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(settings, dict):
                raise ValueError("it is no JSON object")
        except (OSError, ValueError) as error:
            fix = "a file that `constructs-optim jobs recommendation` has written"
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
        """One answer of a completed job, as DescribeAIRecommendationJob describes it.

        Args:
            job: the description.
            chosen: which recommendation, 1 being the first.
            reason: why. Default: its place in the service's ranking.
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
        """The accelerators of each copy: those of an instance in equal parts; 0 for a type that is not cataloged."""
        row = instances.find(self.instance_type)
        return row.parallel_units // self.copies_per_instance if row is not None else 0


@dataclass(frozen=True)
class RecommendedDeployment:
    """A recommendation and the stack that serves it; Region and account are None where deployment decides them.

    ``alarms`` watch the endpoint; the default has none that is sized for a number of requests.
    """

    recommendation: Recommendation
    region: str | None = None
    account: str | None = None
    alarms: Alarms = field(default_factory=lambda: Alarms(saturation=False))
