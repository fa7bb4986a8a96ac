"""Model packages, which the local cloud's recommendation jobs register.

Sources: API reference, DescribeModelPackage, UpdateModelPackage and ContainerDefinition (ModelPackageName,
InferenceSpecificationName); developer guide, "Deploy a generative AI inference recommendation".

Assumed, without a source: the messages for a package that is not approved and for a missing specification; a package
that a recommendation job registers waits for approval.
"""

from __future__ import annotations

from constructs_optim_local.api.error import validation_error
from constructs_optim_local.sagemaker.records import Record, Scope


class ModelPackages:
    """The model packages of one account and Region."""

    def __init__(self, scope: Scope) -> None:
        """Start without packages."""
        self._scope, self._packages = scope, dict[str, Record]()

    def register(self, group: str, version: int, specification: str, container: Record) -> str:
        """Register a package of one specification, which waits for approval, and return its ARN."""
        arn = self._scope.arn("model-package", f"{group}/{version}")
        self._packages[arn] = {
            "ModelPackageGroupName": group,
            "ModelPackageVersion": version,
            "ModelPackageArn": arn,
            "ModelPackageStatus": "Completed",
            "ModelPackageStatusDetails": {"ValidationStatuses": []},
            "ModelApprovalStatus": "PendingManualApproval",
            "AdditionalInferenceSpecifications": [{"Name": specification, "Containers": [container]}],
            "CreationTime": self._scope.now(),
        }
        return arn

    def describe(self, request: Record) -> Record:
        """DescribeModelPackage."""
        return dict(self._named(request["ModelPackageName"]))

    def update(self, request: Record) -> Record:
        """UpdateModelPackage, of the approval status."""
        package = self._named(request["ModelPackageArn"])
        if "ModelApprovalStatus" in request:
            package["ModelApprovalStatus"] = request["ModelApprovalStatus"]
        return {"ModelPackageArn": package["ModelPackageArn"]}

    def check(self, containers: list[Record]) -> None:
        """Refuse containers of a package that is missing, not approved, or lacks the specification."""
        for container in containers:
            if (name := container.get("ModelPackageName")) is None:
                continue
            package = self._named(name)
            if package["ModelApprovalStatus"] != "Approved":
                raise validation_error(
                    f"Model package {name} has the approval status {package['ModelApprovalStatus']}; it must be "
                    "Approved to create a model."
                )
            names = [each["Name"] for each in package["AdditionalInferenceSpecifications"]]
            if (specification := container.get("InferenceSpecificationName")) not in names:
                raise validation_error(f"Model package {name} has no inference specification {specification}.")

    def _named(self, name: str) -> Record:
        if name not in self._packages:
            raise validation_error(f"ModelPackage {name} does not exist.")
        return self._packages[name]
