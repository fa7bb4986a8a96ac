"""What SageMaker may do for a job and for the model it yields.

Source of the action lists: Amazon SageMaker developer guide, "How to use SageMaker execution roles" (CreateModel and
job permissions), narrowed to what a plan names.
"""

from __future__ import annotations

from aws_cdk import Acknowledgment, CfnResource, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.recipe.plan import Plan

from . import model_source
from .artifact_store import IArtifactStore
from .container_registry import ContainerRegistry
from .permissions import PolicyBuilder, Statement, sub, trust_policy

_ACCOUNT_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:*"
_NETWORK_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)


def artifact_statements(store: IArtifactStore) -> list[Statement]:
    """Read and write below ``artifacts/`` of a store."""
    statements = [
        Statement(
            "Artifacts",
            ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"),
            (f"{store.bucket_arn}/artifacts/*",),
        ),
        Statement(
            "ListArtifacts",
            ("s3:ListBucket",),
            (store.bucket_arn,),
            {"StringLike": {"s3:prefix": "artifacts/*"}},
        ),
    ]
    if store.encryption_key_arn is not None:
        statements.append(
            Statement("EncryptArtifacts", ("kms:Decrypt", "kms:GenerateDataKey"), (store.encryption_key_arn,))
        )
    return statements


def execution_statements(
    plan: Plan, store: IArtifactStore, registry: ContainerRegistry, *, in_vpc: bool
) -> list[Statement]:
    """All that a plan's job and model need of their execution role."""
    repositories = sorted({job.image.partition(":")[0] for job in plan.jobs})
    statements = [
        *model_source.read_statements(plan.source),
        *artifact_statements(store),
        Statement(
            "PullImages",
            ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
            tuple(
                sub(f"arn:${{AWS::Partition}}:ecr:${{AWS::Region}}:{registry.account}:repository/{repository}")
                for repository in repositories
            ),
        ),
        Statement("SignInToRegistry", ("ecr:GetAuthorizationToken",), ("*",)),
        Statement(
            "WriteLogs",
            ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
            (sub("arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:/aws/sagemaker/*"),),
        ),
        Statement(
            "PublishMetrics",
            ("cloudwatch:PutMetricData",),
            ("*",),
            {"StringLike": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/*"]}},
        ),
    ]
    if in_vpc:
        statements.append(Statement("UseVpc", _NETWORK_ACTIONS, ("*",)))
    return statements


class ExecutionRole(Construct):
    """The stack's one role for SageMaker, which grows with the plans that use it."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self._policy = PolicyBuilder()
        self._role = CfnResource(
            self,
            "Resource",
            type="AWS::IAM::Role",
            properties={
                "AssumeRolePolicyDocument": trust_policy("sagemaker.amazonaws.com", source_arn=sub(_ACCOUNT_ARN)),
                "Description": "What SageMaker may do for optimization jobs and the models they yield",
            },
        )
        self.role_arn = self._role.get_att("Arn").to_string()
        Validations.of(self._role).acknowledge(
            Acknowledgment(
                id="AwsSolutions-IAM5",
                reason="ecr:GetAuthorizationToken, cloudwatch:PutMetricData (held to SageMaker's namespaces) and "
                "the network interface actions of a VPC have no resource-level permissions; object, log group and "
                "JumpStart paths end in a wildcard because their last part is chosen by the service.",
            )
        )

    def permit(self, statements: list[Statement]) -> None:
        """Add what a plan needs."""
        if self._policy.add(statements):
            self._policy.apply(self._role)


def permit_given_role(role: iam.IRole, statements: list[Statement]) -> None:
    """Add what a plan needs to a role the user brought; an immutable imported role is left as it is."""
    for statement in statements:
        role.add_to_principal_policy(iam.PolicyStatement.from_json(statement.to_json()))
