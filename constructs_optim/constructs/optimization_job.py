"""An optimization job as a resource: reused where its artifact exists, waited for where it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aws_cdk import Annotations, CfnResource, CfnWaitCondition, CfnWaitConditionHandle, Duration, Stack, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.recipe import Model, Plan, plan
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.techniques import Technique

from . import model_source
from .artifact_store import ArtifactStore, IArtifactStore
from .container_registry import ContainerRegistry
from .execution_role import attach_to_given_role, execution_statements
from .network import Network
from .optimization_service import OptimizationService

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2

_LONGEST_WAIT = Duration.hours(12)

SIGNALLED_VALUES = {
    "config": {"ignore_checks": ["E1017"]},
    "reason": "The resource schema of AWS::CloudFormation::WaitCondition calls Data an object; Fn::GetAtt gives the "
    "text of a JSON object (CloudFormation user guide), which Fn::Split takes apart.",
}
"""``cfn-lint`` metadata for a resource that uses what a wait condition was signalled with."""


class OptimizationJob(Construct):
    """One artifact: the job that makes it, and the condition that holds back what needs it.

    The job runs only when no artifact of the same key is in the store. While it runs, resources that use
    ``model_data_uri`` or ``image_uri`` wait; when it fails, the stack rolls back with the service's own reason.
    Usable alone, to make an artifact in one stack that another one deploys.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        techniques: Sequence[Technique],
        instance_type: str,
        artifact_store: IArtifactStore | None = None,
        environment: Mapping[str, str] | None = None,
        max_runtime: Duration | None = None,
        role: iam.IRole | None = None,
        timeout: Duration | None = None,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        wait: bool = True,
    ) -> None:
        """Declare the job.

        Args:
            scope: the construct to create it in.
            id: its id in that scope.
            model: where the weights come from.
            techniques: what to do with them, in order.
            instance_type: what the model will be served on, for instance ``ml.g5.12xlarge``.
            artifact_store: where the artifact is kept. Default: one store for the whole stack.
            environment: more environment variables for the model's container. Default: none.
            max_runtime: how long the job may run. Default: 10 hours.
            role: what SageMaker assumes for job and model. Default: one execution role for the whole stack.
            timeout: how long the deployment waits, at most 12 hours. Default: 12 hours.
            vpc: the VPC that job and model reach the network through. Default: none.
            vpc_subnets: which of its subnets. Default: the private ones.
            security_groups: default: a new one without ingress.
            wait: whether the deployment waits for the artifact. Default: it does.

        Raises:
            RecipeError: with every rule the recipe breaks.
            ValueError: when ``timeout`` is longer than CloudFormation can wait.
        """
        stack = Stack.of(scope)
        if timeout is not None and timeout.to_seconds() > _LONGEST_WAIT.to_seconds():
            raise ValueError(
                f"timeout is {timeout.to_human_string()}, and a wait condition lasts 12 hours at most: "
                "for a longer job use OptimizationJob(wait=False) in a stack of its own"
            )
        registry = ContainerRegistry.of(stack)
        unresolved_region = Token.is_unresolved(stack.region)
        self.plan: Plan = plan(
            model=model,
            techniques=techniques,
            instance_type=instance_type,
            region=None if unresolved_region else stack.region,
            registry=registry.host if unresolved_region else None,
            environment=environment,
            max_runtime_seconds=int(max_runtime.to_seconds()) if max_runtime is not None else None,
            source_identity=model_source.source_identity(stack, model),
        )
        if len(self.plan.jobs) != 1 or self.plan.jobs[0].image is None:
            raise ValueError(f"{_described(self.plan)}: a stack of one job that runs in a container is deployed so far")
        super().__init__(scope, id)
        for advice in self.plan.warnings:
            Annotations.of(self).add_warning_v2(advice.id, advice.message)

        self.artifact_store: IArtifactStore = artifact_store or ArtifactStore.default_of(stack)
        self.network = Network.of(self, vpc, vpc_subnets, security_groups)
        service = OptimizationService.of(self)
        statements = execution_statements(self.plan, self.artifact_store, registry, in_vpc=self.network is not None)
        permissions: iam.Policy | None = None
        if role is None:
            service.execution_role.permit(statements)
            self.role_arn = service.execution_role.role_arn
        else:
            permissions = attach_to_given_role(self, "Permissions", role, statements)
            self.role_arn = role.role_arn
        service.permit(self.plan, self.artifact_store, role_arn=self.role_arn)

        # Neither can be updated: with the generation in their ids, a changed plan or store has new ones.
        generation = self._generation()
        handle = CfnWaitConditionHandle(self, f"Handle{generation}") if wait else None
        self._resource = self._job(service, handle)
        if permissions is not None:
            self._resource.node.add_dependency(permissions)
        self._ready: CfnWaitCondition | None = None
        if handle is not None:
            seconds = int((timeout or _LONGEST_WAIT).to_seconds())
            self._ready = CfnWaitCondition(self, f"Ready{generation}", handle=handle.ref, timeout=str(seconds))
            self._ready.add_resource_dependency(self._resource)

    @property
    def artifact_key(self) -> str:
        """The artifact's key in the store (64 hexadecimal characters); a token where the source is not pinned."""
        return self.plan.jobs[-1].artifact_key or self._resource.ref

    @property
    def job_name(self) -> str:
        """The name of the SageMaker job that makes or made the artifact (a token)."""
        return self._signalled(self._ready, 3) if self._ready else self._resource.get_att("JobName").to_string()

    @property
    def model_data_uri(self) -> str:
        """The artifact's S3 prefix (a token). Whatever uses it waits for the artifact."""
        return self._signalled(self._ready, 2) if self._ready else self._resource.get_att("ModelDataUri").to_string()

    @property
    def image_uri(self) -> str:
        """The container image the service recommends for the artifact (a token), or the job's own without a wait."""
        return self._signalled(self._ready, 1) if self._ready else str(self.plan.container.image)

    def _generation(self) -> str:
        """8 hexadecimal digits that change with the plan and with the store."""
        store = json.dumps(Stack.of(self).resolve(self.artifact_store.bucket_name), sort_keys=True)
        return sha256(f"{self.plan.deployment_hash}\n{store}")[:8]

    def _job(self, service: OptimizationService, handle: CfnWaitConditionHandle | None) -> CfnResource:
        job = self.plan.jobs[-1]
        store = self.artifact_store
        request = dict(job.request)
        if self.network is not None:
            request["VpcConfig"] = self.network.to_property("SecurityGroupIds")
        return CfnResource(
            self,
            "Resource",
            type="Custom::OptimizationJob",
            properties={
                "ServiceToken": service.service_token,
                "ServiceTimeout": service.service_timeout_seconds,
                "Description": self.plan.description,
                "RecipeKey": job.recipe_key,
                "Source": model_source.properties(self.plan.source),
                "Request": request,
                "RoleArn": self.role_arn,
                "Bucket": store.bucket_name,
                **({"KmsKeyArn": store.encryption_key_arn} if store.encryption_key_arn is not None else {}),
                "StateMachineArn": service.state_machine_arn,
                **({"WaitHandle": handle.ref} if handle is not None else {}),
            },
        )

    def _signalled(self, ready: CfnWaitCondition, part: int) -> str:
        """A part of the signal's data, ``|image|model data URI|job name|``, wrapped in JSON by CloudFormation."""
        data = {"Fn::GetAtt": [Stack.of(self).get_logical_id(ready), "Data"]}
        return Token.as_string({"Fn::Select": [part, {"Fn::Split": ["|", data]}]})


def _described(plan: Plan) -> str:
    return " + ".join(technique.label for technique in plan.techniques)
