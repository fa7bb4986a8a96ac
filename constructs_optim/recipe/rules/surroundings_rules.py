"""Rules for what surrounds jobs and models in an app: their roles."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.hosting.surroundings import AssumedRole

from .registry import GUIDE, Finding, rule


@rule("OPT245", f"{GUIDE}sagemaker-roles.html")
def _service_assumes_the_role(role: AssumedRole) -> Iterator[Finding]:
    """A role's trust policy names SageMaker: SageMaker assumes the role for jobs and models, and refuses a role that it
    cannot assume.
    """
    if role.is_trusted is False:
        named = ", ".join(role.principals) or "nobody"
        fix = f'assumed_by=iam.ServicePrincipal("{role.service}"), or iam.CompositePrincipal(...) with others'
        yield Finding("role", role.path, fix, f"only {named} may assume it, and {role.service} must")
