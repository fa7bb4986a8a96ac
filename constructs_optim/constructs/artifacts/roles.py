"""The roles that SageMaker assumes for jobs and models, and their permissions.

Jobs may write their output; models may only read it. Source of the action lists: Amazon SageMaker developer guide, "How
to use SageMaker execution roles" (CreateModel and job permissions), narrowed to the resources in a plan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import jsii
from aws_cdk import Annotations, CfnResource, Reference, RemovalPolicy, Stack, Tokenization
from aws_cdk import aws_iam as iam
from constructs import Construct, DependencyGroup, IValidation

from constructs_optim.constructs.stack.arguments import refuse
from constructs_optim.constructs.stack.container_registry import ContainerRegistry, repositories_of, sub_account
from constructs_optim.constructs.stack.permissions import (
    INLINE_CHARACTERS,
    MOST_INLINE_CHARACTERS,
    ServiceRole,
    Statement,
    StatementList,
    characters_of,
    document,
    give_reasons,
    statements_of,
)
from constructs_optim.constructs.stack.stack_context import StackContext, late_value, path_of
from constructs_optim.constructs.validation.template_size import written_template
from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.hosting.roles_and_networks import AssumedRole
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.plan_data import JobPlan, Plan, sources_of
from constructs_optim.recipe.rules import check
from constructs_optim.runtime.preflight.trust import refusal
from constructs_optim.templates.text import text_of

from . import model_source
from .artifact_store import IArtifactStore, store_statements


def job_statements(
    jobs: Sequence[JobPlan], store: IArtifactStore, registry: ContainerRegistry, *, in_vpc: bool
) -> list[Statement]:
    """Return the permissions that jobs require."""
    trains = any(job.trains for job in jobs)
    tokens = dict.fromkeys(job.token for job in jobs if job.token is not None)
    return [
        *model_source.read_statements(*sources_of(jobs)),
        *(statement for token in tokens for statement in model_source.token_statements(token)),
        *store_statements(store, "train models" if trains else "write models"),
        *(store_statements(store, "keep checkpoints") if trains else ()),
        *_image_statements([job.image for job in jobs], registry),
        *running_statements(in_vpc=in_vpc),
    ]


def serving_statements(
    plan: Plan, store: IArtifactStore, registry: ContainerRegistry, *, in_vpc: bool
) -> list[Statement]:
    """Return the permissions that a plan's model requires, without write permissions."""
    # If the job recommends the image, it is in the same repository as the job's own image.
    images = [plan.container.image] if plan.container.image is not None else [job.image for job in plan.jobs]
    return [
        *model_source.read_statements(*plan.container.sources),
        *(store_statements(store, "read artifacts") if plan.container.artifacts else ()),
        *_image_statements(images, registry),
        *running_statements(in_vpc=in_vpc),
    ]


def _image_statements(images: Sequence[str | None], registry: ContainerRegistry) -> list[Statement]:
    prefix = "arn:${AWS::Partition}:ecr:${AWS::Region}:${Account}:repository/"
    arns = tuple(sub_account(prefix + name, registry.account) for name in repositories_of(images))
    return statements_of("pull images", Repositories=arns)


def running_statements(*, in_vpc: bool) -> list[Statement]:
    """Return the permissions for logs and metrics, and for network interfaces in a VPC."""
    return [*statements_of("running"), *(statements_of("running in a VPC") if in_vpc else ())]


class SageMakerRole(Construct):
    """A role that SageMaker assumes, with the permissions that a stack's plans add.

    ``room`` is the maximum length of its inline policies in characters, and ``too_long`` the error if they exceed it.
    """

    role_arn: str
    is_of_user: bool = False

    def __init__(self, scope: Construct, id: str, *, room: int, too_long: str) -> None:
        super().__init__(scope, id)
        self._room, self._too_long = room, too_long
        self._separate_policies: list[iam.Policy] = []
        self._separate_characters = 0
        self._is_retained = False
        self._is_too_long = False

    @cached_property
    def role(self) -> iam.IRole:
        """The role, for grants of other constructs."""
        raise NotImplementedError

    def permit(self, statements: Sequence[Statement]) -> None:
        """Add permissions."""
        raise NotImplementedError

    def permit_separately(self, scope: Construct, id: str, statements: Sequence[Statement]) -> iam.Policy:
        """Add permissions as a separate policy below ``scope``, which jobs and models do not wait for."""
        written = [iam.PolicyStatement.from_json(statement.to_json()) for statement in statements]
        policy = iam.Policy(scope, id, policy_name=_policy_name(scope, path_of(scope)), statements=written)
        give_reasons(policy, statements)
        self.role.attach_inline_policy(policy)
        if self._is_retained:
            policy.apply_removal_policy(RemovalPolicy.RETAIN)
        self._separate_policies.append(policy)
        self._separate_characters += characters_of(statements)
        self._check_length()
        return policy

    def delay(self, resource: CfnResource) -> None:
        """Make a job or model wait for permissions that are not part of the role itself."""

    def apply_removal_policy(self, policy: RemovalPolicy) -> None:
        """Set the role's removal policy; has no effect on a role that the user passes."""

    def _check_length(self, more: int = 0) -> None:
        """Refuse separate policies, plus one of ``more`` characters, that exceed the role's limit."""
        characters = self._separate_characters + more
        if characters > self._room and not self._is_too_long:
            self._is_too_long = True
            Annotations.of(self).add_error(self._too_long.format(characters))


class ExecutionRole(SageMakerRole):
    """A role that the stack creates. Grants of other constructs go to a separate policy."""

    def __init__(self, scope: Construct, id: str, *, description: str) -> None:
        room = MOST_INLINE_CHARACTERS - INLINE_CHARACTERS
        too_long = (
            "the rollback alarms of this stack's endpoints need policies of about {} characters, and "
            f"{path_of(scope)}/{id} has room for {room}: declare some of the endpoints in another stack, or give each "
            "a composite alarm"
        )
        super().__init__(scope, id, room=room, too_long=too_long)
        self._own = ServiceRole(
            self,
            "Resource",
            "sagemaker.amazonaws.com",
            source_arn="arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:*",
            description=description,
        )
        self.role_arn = self._own.arn
        self.role_name: str = self._own.resource.ref

    @cached_property
    def role(self) -> iam.IRole:
        """The role, imported."""
        return iam.Role.from_role_name(self, "Role", self.role_name)

    def permit(self, statements: Sequence[Statement]) -> None:
        """Add permissions to the inline policy, and to managed policies if it is full."""
        self._own.permit(statements)

    def apply_removal_policy(self, policy: RemovalPolicy) -> None:
        """Set the role's removal policy; RETAIN cannot be unset."""
        if not self._is_retained:
            for removed in (self._own, *self._separate_policies):
                removed.apply_removal_policy(policy)
        self._is_retained |= policy is RemovalPolicy.RETAIN


def _watch_trust(role: iam.IRole) -> None:
    """Check at synthesis that SageMaker can assume a role of the app; only the preflight can read an imported one's
    trust policy.
    """
    token = Tokenization.reverse_string(role.role_arn).first_token
    # Also the role of a wrapper, such as without_policy_updates().
    declared = token.target if isinstance(token, Reference) else None
    if not isinstance(declared, iam.CfnRole):
        return
    context = StackContext.of(declared)

    def added() -> _Trust:
        trust = _Trust(context.stack)
        context.stack.node.add_validation(trust)
        return trust

    context.once(_Trust, added).roles[path_of(role)] = declared


@jsii.implements(IValidation)
class _Trust:
    """Checks at synthesis that SageMaker can assume the roles of a stack that models and jobs of the app use.

    It looks at all of them together, because writing a template takes long.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.roles: dict[str, iam.CfnRole] = {}

    def validate(self) -> list[str]:
        """Return the violations."""
        # As written: the app may override properties, and later statements may still change the policy.
        template = json.loads(written_template(self._stack))
        if "Transform" in template:
            # A macro may rewrite the policies.
            return []
        violations: list[Violation] = []
        for path, declared in self.roles.items():
            written = template["Resources"][self._stack.resolve(declared.logical_id)]
            trust = written.get("Properties", {}).get("AssumeRolePolicyDocument")
            if refused := refusal(trust, text_of):
                violations += check(AssumedRole(path, refused.reason, refused.fix))
        return [str(RecipeError(violations))] if violations else []


class UserRole(SageMakerRole):
    """A role that the user passes, with one policy that the stack attaches."""

    is_of_user = True

    def __init__(self, scope: Construct, id: str, role: iam.IRole) -> None:
        too_long = (
            f"this stack's models need a policy of about {{}} characters on {path_of(role)}, and IAM allows "
            f"{MOST_INLINE_CHARACTERS} in all inline policies of a role: leave role=... out, so that the stack creates "
            "roles with as many policies as they need, or declare some of the models in another stack with another role"
        )
        super().__init__(scope, id, room=MOST_INLINE_CHARACTERS, too_long=too_long)
        self._role = role
        self._list = StatementList(self)
        self._policy: iam.Policy | None = None
        self.role_arn = role.role_arn
        _watch_trust(role)

    @cached_property
    def role(self) -> iam.IRole:
        """The user's role."""
        return self._role

    @staticmethod
    def of(scope: Construct, role: iam.IRole) -> UserRole:
        """Return the wrapper of ``role`` that ``scope``'s stack shares."""
        # Identified by path, because jsii returns a new object at each access (function.role is not function.role).
        context, path = StackContext.of(scope), path_of(role)
        refuse(check(context.arn_use("role", "role", role.role_arn)))
        return context.once((UserRole, path), lambda: UserRole(context.stack, f"PermissionsOf{sha256(path)[:8]}", role))

    def permit(self, statements: Sequence[Statement]) -> None:
        """Attach permissions to the role; an immutable imported role is not changed."""
        if not self._list.add(statements):
            return
        if self._policy is None:
            # The document is written from the statements; the CDK only has to know that there are some.
            some = iam.PolicyStatement(actions=["sts:GetCallerIdentity"], resources=["*"])
            name = _policy_name(self, path_of(self._role))
            self._policy = iam.Policy(self, "Permissions", policy_name=name, statements=[some])
            resource = cast("iam.CfnPolicy", self._policy.node.default_child)
            resource.policy_document = late_value(lambda: document(self._list.statements))
            self._role.attach_inline_policy(self._policy)
        self._check_length(characters_of(self._list.statements))

    def delay(self, resource: CfnResource) -> None:
        """Make a job or model wait for the policy."""
        if self._policy is not None:
            resource.node.add_dependency(self._policy)


def _policy_name(scope: Construct, of: str) -> str:
    """Return a name unique to the stack, because CloudFormation overwrites a role's policy of the same name."""
    return f"constructs-optim-{sha256(of)[:8]}-{StackContext.of(scope).uuid}"


class SeveralRoles(iam.CompositePrincipal):
    """Roles that receive the same grants; the CDK's own class reports success without adding a policy."""

    def __init__(self, roles: Sequence[iam.IRole]) -> None:
        super().__init__(*roles)
        self._roles = tuple(roles)

    @property
    def principal_account(self) -> str | None:
        """The account of the first role; all of them serve one endpoint."""
        return self._roles[0].principal_account

    def add_to_principal_policy(self, statement: iam.PolicyStatement) -> iam.AddToPrincipalPolicyResult:
        """Add the statement to each role."""
        added = [role.add_to_principal_policy(statement.copy()) for role in self._roles]
        policies = [result.policy_dependable for result in added if result.policy_dependable is not None]
        return iam.AddToPrincipalPolicyResult(
            statement_added=all(result.statement_added for result in added),
            policy_dependable=DependencyGroup(*policies),
        )
