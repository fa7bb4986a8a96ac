"""What SageMaker may do for a job and for the model it yields.

Source of the action lists: Amazon SageMaker developer guide, "How to use SageMaker execution roles" (CreateModel and
job permissions), narrowed to what a plan names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from aws_cdk import RemovalPolicy, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from constructs_optim.recipe.plan_data import Plan

from . import model_source
from .artifact_store import IArtifactStore
from .container_registry import ContainerRegistry, repositories_of
from .permissions import NO_RESOURCES, PolicyBuilder, Statement, acknowledge_wildcards, sub, trust_policy
from .stack_facts import PSEUDO

_ACCOUNT_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:*"
_ARTIFACT_KEYS = "artifact keys are known only when the stack is deployed"
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


def artifact_statements(store: IArtifactStore, *, in_parts: bool = False) -> list[Statement]:
    """Read and write below ``artifacts/`` of a store; ``in_parts`` where files are large enough to be uploaded so."""
    statements = [
        Statement(
            "Artifacts",
            ("s3:GetObject", "s3:PutObject", *(("s3:AbortMultipartUpload",) if in_parts else ())),
            (f"{store.bucket_arn}/artifacts/*",),
            wildcard=_ARTIFACT_KEYS,
        ),
        _list_statement(store),
    ]
    return [*statements, *_encryption_statements(store)]


def reader_statements(store: IArtifactStore) -> list[Statement]:
    """Read below ``artifacts/`` of a store."""
    statements = [
        Statement("ReadArtifacts", ("s3:GetObject",), (f"{store.bucket_arn}/artifacts/*",), wildcard=_ARTIFACT_KEYS),
        _list_statement(store),
    ]
    if store.encryption_key_arn is not None:
        statements.append(Statement("DecryptArtifacts", ("kms:Decrypt",), (store.encryption_key_arn,)))
    return statements


def _list_statement(store: IArtifactStore) -> Statement:
    # A GetObject of what is not there answers 403 instead of 404 to whoever may not list it. S3 takes the key for the
    # prefix then (ceph/ceph#68577, kopia/kopia#3072), but documents it nowhere: hence IfExists.
    condition = {"StringLikeIfExists": {"s3:prefix": "artifacts/*"}}
    return Statement("ListArtifacts", ("s3:ListBucket",), (store.bucket_arn,), condition)


def _encryption_statements(store: IArtifactStore) -> list[Statement]:
    if store.encryption_key_arn is None:
        return []
    return [Statement("EncryptArtifacts", ("kms:Decrypt", "kms:GenerateDataKey"), (store.encryption_key_arn,))]


def _checkpoint_statements(store: IArtifactStore) -> list[Statement]:
    """Read and write below ``checkpoints/`` of a store."""
    return [
        Statement(
            "Checkpoints",
            ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"),
            (f"{store.bucket_arn}/checkpoints/*",),
            wildcard=_ARTIFACT_KEYS,
        ),
        Statement(
            "ListCheckpoints", ("s3:ListBucket",), (store.bucket_arn,), {"StringLike": {"s3:prefix": "checkpoints/*"}}
        ),
    ]


def owner_statements(store: IArtifactStore) -> list[Statement]:
    """Keep the records of what this account's stacks refer to, below ``owners/<account>/``, and find the store."""
    return [
        Statement(
            "Owners",
            ("s3:GetObject", "s3:PutObject"),
            (f"{store.bucket_arn}/owners/{PSEUDO.account}/*",),
            wildcard="an owner's record is named after its stack, known when the stack is deployed",
        ),
        Statement(
            "ListOwners",
            ("s3:ListBucket",),
            (store.bucket_arn,),
            {"StringLike": {"s3:prefix": f"owners/{PSEUDO.account}/*"}},
        ),
        Statement("LocateStore", ("s3:GetBucketLocation",), (store.bucket_arn,)),
        *_encryption_statements(store),
    ]


def execution_statements(
    plan: Plan, store: IArtifactStore, registry: ContainerRegistry, *, in_vpc: bool, runs_jobs: bool = True
) -> list[Statement]:
    """All that a plan's jobs and model need of their execution role; ``runs_jobs=False``: the model alone."""
    repositories = repositories_of([*(job.image for job in plan.jobs if runs_jobs), plan.container.image])
    sources = plan.sources if runs_jobs else plan.container.sources
    return [
        *(statement for source in sources for statement in model_source.read_statements(source)),
        *(artifact_statements(store, in_parts=True) if runs_jobs else reader_statements(store)),
        *(_checkpoint_statements(store) if runs_jobs and any(job.keeps_checkpoints for job in plan.jobs) else ()),
        Statement(
            "PullImages",
            ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
            tuple(registry.repository_arn(repository) for repository in repositories),
        ),
        Statement("SignInToRegistry", ("ecr:GetAuthorizationToken",), ("*",), wildcard=NO_RESOURCES),
        *telling_statements(in_vpc=in_vpc),
    ]


def telling_statements(*, in_vpc: bool) -> list[Statement]:
    """What everything that SageMaker runs needs: logs and metrics, and network interfaces in a VPC."""
    return [
        Statement(
            "WriteLogs",
            ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
            (sub("arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:/aws/sagemaker/*"),),
            wildcard="SageMaker names the log groups of jobs and endpoints",
        ),
        Statement(
            "PublishMetrics",
            ("cloudwatch:PutMetricData",),
            ("*",),
            {"StringLike": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/*"]}},
            wildcard=f"{NO_RESOURCES}; a condition holds it to SageMaker's namespaces",
        ),
        *([Statement("UseVpc", _NETWORK_ACTIONS, ("*",), wildcard=NO_RESOURCES)] if in_vpc else []),
    ]


class ExecutionRole(Construct):
    """The stack's one role for SageMaker, which grows with the plans that use it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        description: str = "What SageMaker may do for optimization jobs and the models they yield",
    ) -> None:
        super().__init__(scope, id)
        self._policy = PolicyBuilder()
        self._role = iam.CfnRole(
            self,
            "Resource",
            assume_role_policy_document=trust_policy("sagemaker.amazonaws.com", source_arn=sub(_ACCOUNT_ARN)),
            description=description,
        )
        self.role_arn: str = self._role.attr_arn
        self._imported: iam.IRole | None = None
        self._retained = False

    @property
    def role(self) -> iam.IRole:
        """The role as one that other constructs can grant things to."""
        if self._imported is None:
            # Its own statements stay in its own property: whatever others grant is a policy beside them.
            self._imported = iam.Role.from_role_name(self, "Role", self._role.ref)
        return self._imported

    def apply_removal_policy(self, policy: RemovalPolicy) -> None:
        """What becomes of the role when it is removed from the stack; once it is to be retained, it is."""
        if not self._retained:
            self._role.apply_removal_policy(policy)
        self._retained |= policy is RemovalPolicy.RETAIN

    def permit(self, statements: list[Statement]) -> None:
        """Add what a plan needs."""
        if self._policy.add(statements):
            self._policy.apply(self._role)


@dataclass(frozen=True)
class GrantedRole:
    """What SageMaker assumes: the stack's own role, or one that the user brought, with the policy attached to it."""

    arn: str
    own: ExecutionRole | None = None
    given: iam.IRole | None = None
    policy: iam.Policy | None = None
    _sids: list[str] = field(default_factory=list[str])

    def permit(self, statements: list[Statement]) -> None:
        """Add what is needed besides a plan."""
        if self.own is not None:
            self.own.permit(statements)
        elif self.policy is not None:
            for statement in statements:
                # IAM refuses a policy in which two statements have one id.
                named = sum(statement.sid == sid for sid in self._sids)
                self._sids.append(statement.sid)
                told_apart = replace(statement, sid=f"{statement.sid}{named + 1}") if named else statement
                self.policy.add_statements(_policy_statement(told_apart))
            acknowledge_wildcards(self.policy, statements)

    def keep(self, policy: RemovalPolicy) -> None:
        """What becomes of the stack's own role; one that was given is not this stack's."""
        if self.own is not None:
            self.own.apply_removal_policy(policy)

    @property
    def role(self) -> iam.IRole:
        """The role, to grant it things."""
        found = self.given if self.own is None else self.own.role
        assert found is not None  # noqa: S101 - a role that is not the stack's own was given
        return found


def granted_role(
    scope: Construct, role: iam.IRole | None, statements: list[Statement], *, default: ExecutionRole
) -> GrantedRole:
    """Give ``role`` what a plan needs, or the stack's own execution role where none is given."""
    if role is None:
        default.permit(statements)
        return GrantedRole(default.role_arn, own=default)
    policy = attach_to_given_role(scope, "Permissions", role, statements)
    return GrantedRole(role.role_arn, given=role, policy=policy, _sids=[statement.sid for statement in statements])


def own_role(scope: Construct, role: iam.IRole | None, default: ExecutionRole) -> GrantedRole:
    """The role of an endpoint that has no model of its own, and so no plan that needs anything."""
    return granted_role(scope, role, [], default=default)


def attach_to_given_role(scope: Construct, id: str, role: iam.IRole, statements: list[Statement]) -> iam.Policy:
    """Attach what a plan needs to a role the user brought, as a policy of its own.

    An immutable imported role is left as it is; the policy then has no resource. A job depends on the policy, so that
    its role has the permissions when it starts.
    """
    policy = iam.Policy(scope, id, statements=[_policy_statement(statement) for statement in statements])
    acknowledge_wildcards(policy, statements)
    role.attach_inline_policy(policy)
    return policy


def _policy_statement(statement: Statement) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=statement.sid,
        actions=list(statement.actions),
        resources=[arn if isinstance(arn, str) else Token.as_string(arn) for arn in statement.resources],
        conditions=statement.condition,
    )
