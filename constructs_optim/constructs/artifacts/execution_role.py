"""The roles that SageMaker assumes for jobs, and for models, and their permissions.

A job writes its output; what serves it only reads. Source of the action lists: Amazon SageMaker developer guide, "How
to use SageMaker execution roles" (CreateModel and job permissions), narrowed to what a plan names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import jsii
from aws_cdk import Annotations, RemovalPolicy
from aws_cdk import aws_iam as iam
from constructs import Construct, DependencyGroup

from constructs_optim.constructs.stack.container_registry import ContainerRegistry, repositories_of
from constructs_optim.constructs.stack.permissions import (
    INLINE_CHARACTERS,
    JOB_KEY_ACTIONS,
    KEY_ACTIONS,
    MOST_INLINE_CHARACTERS,
    NO_RESOURCES,
    PolicyBuilder,
    Statement,
    characters_of,
    document,
    sub,
    trust_policy,
)
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext, late_value, path_of
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.plan_data import Plan

from . import model_source
from .artifact_store import IArtifactStore

_ACCOUNT_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:*"
_ARTIFACT_KEYS = "artifact keys are known only when the stack is deployed"
READ_WRITE = ("s3:GetObject", "s3:PutObject")
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


def folder_statements(
    store: IArtifactStore, sid: str, folder: str, actions: tuple[str, ...], *, wildcard: str, key_sid: str | None = None
) -> list[Statement]:
    """Read or write below a folder of a store. ``key_sid``: of the statement about its key; none without it."""
    statements = [Statement(sid, actions, (f"{store.bucket_arn}/{folder}/*",), wildcard=wildcard)]
    if store.encryption_key_arn is not None and key_sid is not None:
        reads, writes = "s3:GetObject" in actions, "s3:PutObject" in actions
        key_actions = tuple(action for action, needed in zip(KEY_ACTIONS, (reads, writes), strict=True) if needed)
        statements.append(Statement(key_sid, key_actions, (store.encryption_key_arn,)))
    return statements


def list_statement(store: IArtifactStore, sid: str, folder: str) -> Statement:
    """List what is below a folder of a store."""
    return Statement(sid, ("s3:ListBucket",), (store.bucket_arn,), prefixes=(f"{folder}/*",))


def locate_statement(store: IArtifactStore) -> Statement:
    """Look up the region of a store."""
    return Statement("LocateStore", ("s3:GetBucketLocation",), (store.bucket_arn,))


def record_keeping_statements(store: IArtifactStore) -> list[Statement]:
    """What handlers do: read below ``artifacts/`` of a store, and write claims and manifests there."""
    return [
        *folder_statements(store, "Artifacts", "artifacts", READ_WRITE, wildcard=_ARTIFACT_KEYS),
        list_statement(store, "ListArtifacts", "artifacts"),
        *_encryption_statements(store, KEY_ACTIONS),
    ]


def reader_statements(store: IArtifactStore) -> list[Statement]:
    """Read below ``artifacts/`` of a store."""
    statements = [*_read_artifacts(store), list_statement(store, "ListArtifacts", "artifacts")]
    if store.encryption_key_arn is not None:
        statements.append(Statement("DecryptArtifacts", ("kms:Decrypt",), (store.encryption_key_arn,)))
    return statements


def _read_artifacts(store: IArtifactStore) -> list[Statement]:
    return folder_statements(store, "ReadArtifacts", "artifacts", ("s3:GetObject",), wildcard=_ARTIFACT_KEYS)


def _output_statements(store: IArtifactStore, *, trains: bool) -> list[Statement]:
    """What jobs write: models and logs, and neither a claim nor a manifest."""
    below = ("model", "tensorboard") if trains else ("model",)
    return [
        *_read_artifacts(store),
        Statement(
            "WriteArtifacts",
            ("s3:PutObject", "s3:AbortMultipartUpload"),
            tuple(f"{store.bucket_arn}/artifacts/*/{folder}/*" for folder in below),
            wildcard=_ARTIFACT_KEYS,
        ),
        list_statement(store, "ListArtifacts", "artifacts"),
        *_encryption_statements(store, JOB_KEY_ACTIONS),
    ]


def _encryption_statements(store: IArtifactStore, actions: tuple[str, ...]) -> list[Statement]:
    if store.encryption_key_arn is None:
        return []
    return [Statement("EncryptArtifacts", actions, (store.encryption_key_arn,))]


def _checkpoint_statements(store: IArtifactStore) -> list[Statement]:
    """Read and write below ``checkpoints/`` of a store."""
    actions = (*READ_WRITE, "s3:AbortMultipartUpload")
    return [
        *folder_statements(store, "Checkpoints", "checkpoints", actions, wildcard=_ARTIFACT_KEYS),
        list_statement(store, "ListCheckpoints", "checkpoints"),
    ]


def owner_statements(store: IArtifactStore) -> list[Statement]:
    """Keep the records of what this account's stacks refer to, below ``owners/<account>/``, and find the store."""
    folder = f"owners/{PSEUDO.account}"
    reason = "an owner's record is named after its stack, known when the stack is deployed"
    return [
        *folder_statements(store, "Owners", folder, READ_WRITE, wildcard=reason),
        list_statement(store, "ListOwners", folder),
        locate_statement(store),
        *_encryption_statements(store, KEY_ACTIONS),
    ]


def job_statements(plan: Plan, store: IArtifactStore, registry: ContainerRegistry, *, in_vpc: bool) -> list[Statement]:
    """All that a plan's jobs need of their role."""
    keeps_checkpoints = any(job.keeps_checkpoints for job in plan.jobs)
    return [
        *(statement for source in plan.job_sources for statement in model_source.read_statements(source)),
        *_output_statements(store, trains=any(job.kind == "TrainingJob" for job in plan.jobs)),
        *(_checkpoint_statements(store) if keeps_checkpoints else ()),
        *_image_statements([job.image for job in plan.jobs], registry),
        *running_statements(in_vpc=in_vpc),
    ]


def serving_statements(
    plan: Plan, store: IArtifactStore, registry: ContainerRegistry, *, in_vpc: bool
) -> list[Statement]:
    """All that a plan's model needs of its role; it writes nothing."""
    # An artifact whose job recommends the image is served with one of the repository that the job's own is of.
    images = [plan.container.image] if plan.container.image is not None else [job.image for job in plan.jobs]
    serves_artifacts = bool(plan.container.artifacts)
    return [
        *(statement for source in plan.container.sources for statement in model_source.read_statements(source)),
        *(reader_statements(store) if serves_artifacts else ()),
        *_image_statements(images, registry),
        *running_statements(in_vpc=in_vpc),
    ]


def _image_statements(images: Sequence[str | None], registry: ContainerRegistry) -> list[Statement]:
    repositories = repositories_of(images)
    return [
        Statement(
            "PullImages",
            ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
            tuple(registry.repository_arn(repository) for repository in repositories),
        ),
        Statement("SignInToRegistry", ("ecr:GetAuthorizationToken",), ("*",), wildcard=NO_RESOURCES),
    ]


def running_statements(*, in_vpc: bool) -> list[Statement]:
    """What jobs and models need to run: logs and metrics, and network interfaces in a VPC."""
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
    """A role of the stack's own for SageMaker, which grows with the plans that use it."""

    def __init__(self, scope: Construct, id: str, *, description: str) -> None:
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
        self._separate_characters = 0
        self._separate_policies: list[iam.Policy] = []

    @property
    def role(self) -> iam.IRole:
        """The role as one that other constructs can grant things to."""
        if self._imported is None:
            # Its own statements stay in its own property: whatever others grant is a policy beside them.
            self._imported = iam.Role.from_role_name(self, "Role", self._role.ref)
        return self._imported

    @property
    def role_name(self) -> str:
        """The role's name (a token)."""
        return self._role.ref

    @property
    def policy(self) -> iam.Policy | None:
        """None: whoever names the role waits for its permissions too."""
        return None

    def apply_removal_policy(self, policy: RemovalPolicy) -> None:
        """What becomes of the role when it is removed from the stack; once it is to be retained, it is."""
        if not self._retained:
            self._role.apply_removal_policy(policy)
            self._policy.apply_removal_policy(policy)
            for apart in self._separate_policies:
                apart.apply_removal_policy(policy)
        self._retained |= policy is RemovalPolicy.RETAIN

    def permit(self, statements: Sequence[Statement]) -> None:
        """Add what is needed."""
        if self._policy.add(statements):
            self._policy.apply(self._role)

    def permit_separately(self, scope: Construct, id: str, statements: Sequence[Statement]) -> iam.Policy:
        """Add what is needed as a policy of its own, below ``scope``, for which nothing else of the role waits."""
        policy = _separate_policy(scope, id, self.role, statements)
        self._separate_policies.append(policy)
        if self._retained:
            policy.apply_removal_policy(RemovalPolicy.RETAIN)
        self._separate_characters += characters_of(statements)
        if self._separate_characters > MOST_INLINE_CHARACTERS - INLINE_CHARACTERS:
            Annotations.of(scope).add_error(
                f"the rollback alarms of this stack's endpoints are policies of about {self._separate_characters} "
                f"characters, and {self.node.path} has room for {MOST_INLINE_CHARACTERS - INLINE_CHARACTERS}: declare "
                "some of the endpoints in another stack, or give them a composite alarm each"
            )
        return policy


class UserRole(Construct):
    """A role of the user's, with the one policy that a stack attaches to it."""

    def __init__(self, scope: Construct, id: str, role: iam.IRole) -> None:
        super().__init__(scope, id)
        self.role: iam.IRole = role
        self.role_arn: str = role.role_arn
        self.policy: iam.Policy | None = None
        self._policy = PolicyBuilder()
        self._separate_characters = 0
        self._is_too_long = False

    @staticmethod
    def of(scope: Construct, role: iam.IRole) -> UserRole:
        """``role`` as all of ``scope``'s stack uses it."""
        roles = StackContext.of(scope).singleton(_UserRoles, lambda _: _UserRoles())
        for known in roles:
            # Of one construct, jsii makes another object each time it is asked for: function.role is not function.role.
            if path_of(known.role) == path_of(role):
                return known
        roles.append(UserRole(StackContext.of(scope).stack, f"PermissionsOf{sha256(path_of(role))[:8]}", role))
        return roles[-1]

    def apply_removal_policy(self, policy: RemovalPolicy) -> None:
        """Nothing: the role is not this stack's."""

    def permit(self, statements: Sequence[Statement]) -> None:
        """Attach what is needed to the role, as a policy of its own.

        An immutable imported role is left as it is; the policy then has no resource. A job depends on the policy, so
        that its role has the permissions when it starts.
        """
        if not self._policy.add(statements):
            return
        if self.policy is None:
            # It is written from the statements: the CDK only has to know that there are some.
            some = iam.PolicyStatement(actions=["sts:GetCallerIdentity"], resources=["*"])
            name = _policy_name(self, path_of(self.role))
            self.policy = iam.Policy(self, "Permissions", policy_name=name, statements=[some])
            resource = cast("iam.CfnPolicy", self.policy.node.default_child)
            resource.policy_document = late_value(lambda: document(self._policy.statements.values()))
            self.role.attach_inline_policy(self.policy)
        self._policy.acknowledge(self.policy)
        self._check_length()

    def permit_separately(self, scope: Construct, id: str, statements: Sequence[Statement]) -> iam.Policy:
        """Attach what is needed as another policy, below ``scope``, for which no job and no model waits."""
        policy = _separate_policy(scope, id, self.role, statements)
        self._separate_characters += characters_of(statements)
        self._check_length()
        return policy

    def _check_length(self) -> None:
        characters = characters_of(self._policy.statements.values()) + self._separate_characters
        if characters > MOST_INLINE_CHARACTERS and not self._is_too_long:
            self._is_too_long = True
            Annotations.of(self).add_error(
                f"what this stack's models need of {path_of(self.role)} is a policy of about {characters} characters, "
                f"and IAM allows {MOST_INLINE_CHARACTERS} in all inline policies of a role: leave role=... out, and "
                "the stack has roles of its own that it gives as many policies as they need, or declare some of the "
                "models in another stack with another role"
            )


def _separate_policy(scope: Construct, id: str, role: iam.IRole, statements: Sequence[Statement]) -> iam.Policy:
    written = [iam.PolicyStatement.from_json(statement.to_json()) for statement in statements]
    policy = iam.Policy(scope, id, policy_name=_policy_name(scope, path_of(scope)), statements=written)
    role.attach_inline_policy(policy)
    return policy


def _policy_name(scope: Construct, of: str) -> str:
    """One that no other stack gives a policy of the same role: CloudFormation would write over it."""
    return f"constructs-optim-{sha256(of)[:8]}-{StackContext.of(scope).uuid}"


class _UserRoles(list[UserRole]):
    """The user's roles that a stack has policies for."""


@jsii.implements(iam.IPrincipal)
class SeveralRoles:
    """Roles that are granted things together; ``iam.CompositePrincipal`` says it grants them, and adds no policy."""

    def __init__(self, roles: Sequence[iam.IRole]) -> None:
        self._roles = tuple(roles)

    @property
    def grant_principal(self) -> SeveralRoles:
        """Itself."""
        return self

    @property
    def assume_role_action(self) -> str:
        """How a role is assumed."""
        return "sts:AssumeRole"

    @property
    def policy_fragment(self) -> iam.PrincipalPolicyFragment:
        """How the policy of a resource names them."""
        return iam.PrincipalPolicyFragment({"AWS": [role.role_arn for role in self._roles]})

    @property
    def principal_account(self) -> str | None:
        """The account of the first: they serve one endpoint."""
        return self._roles[0].principal_account

    def add_to_principal_policy(self, statement: iam.PolicyStatement) -> iam.AddToPrincipalPolicyResult:
        """Let each role do what the statement says."""
        added = [role.add_to_principal_policy(statement.copy()) for role in self._roles]
        depended_on = DependencyGroup()
        for result in added:
            if result.policy_dependable is not None:
                depended_on.add(result.policy_dependable)
        return iam.AddToPrincipalPolicyResult(
            statement_added=all(result.statement_added for result in added), policy_dependable=depended_on
        )


GrantedRole = ExecutionRole | UserRole
"""A role that SageMaker assumes: the stack's own, or one of the user's."""


def granted_role(scope: Construct, role: iam.IRole | None, own: Callable[[], ExecutionRole]) -> GrantedRole:
    """``role`` for SageMaker, or the stack's own without one."""
    return own() if role is None else UserRole.of(scope, role)
