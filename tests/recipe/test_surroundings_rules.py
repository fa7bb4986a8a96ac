"""Rules for what surrounds jobs and models: what each refuses, and what it lets through."""

from __future__ import annotations

import pytest

from constructs_optim.recipe.hosting.surroundings import AssumedRole
from constructs_optim.recipe.rules import all_rules, check

SERVICE = "sagemaker.amazonaws.com"


@pytest.mark.parametrize("is_trusted", [True, None])
def test_a_role_that_the_service_may_be_able_to_assume_is_let_through(is_trusted: bool | None) -> None:
    assert check(AssumedRole("Chat/Role", SERVICE, (SERVICE,), is_trusted)) == []


@pytest.mark.parametrize(("principals", "named"), [(("lambda.amazonaws.com",), "lambda"), ((), "nobody")])
def test_a_role_that_the_service_cannot_assume_is_refused(principals: tuple[str, ...], named: str) -> None:
    (found,) = check(AssumedRole("Chat/Role", SERVICE, principals, False))
    assert (found.rule, found.location, found.value) == ("OPT245", "role", "Chat/Role")
    assert named in found.reason
    assert f'iam.ServicePrincipal("{SERVICE}")' in found.suggestion


def test_every_rule_about_roles_has_a_case() -> None:
    assert {rule.id for rule in all_rules(AssumedRole)} == {"OPT245"}
