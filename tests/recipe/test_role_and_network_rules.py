"""Rules for roles and networks: what each refuses, and what it lets through."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe.hosting.roles_and_networks import AssumedRole, NetworkUse
from constructs_optim.recipe.rules import all_rules, check, warnings


def test_a_role_that_sagemaker_may_be_able_to_assume_is_let_through() -> None:
    assert check(AssumedRole("Chat/Role", None)) == []


def test_a_role_that_sagemaker_cannot_assume_is_refused_with_the_cause() -> None:
    (found,) = check(AssumedRole("Chat/Role", "its trust policy names nobody", "allow it"))
    assert (found.rule, found.location, found.value) == ("OPT245", "role", "Chat/Role")
    assert (found.reason, found.suggestion) == ("its trust policy names nobody", "allow it")


def use(**changed: Any) -> NetworkUse:
    of: dict[str, Any] = {"closed": (), "public": (), "without": {}, "hosts": (), "is_certain": True, **changed}
    return NetworkUse("the job awq", ("A", "B"), **of)


NETWORKS: list[tuple[str | None, NetworkUse]] = [
    (None, use()),
    (None, use(hosts=("pypi.org",))),
    (None, use(closed=("A", "B"), without={"s3": ()})),
    ("OPT246", use(closed=("A", "B"), without={"s3": ("A", "B")})),
    ("OPT247", use(closed=("A", "B"), hosts=("pypi.org",))),
    ("OPT248", use(closed=("A",), without={"s3": ("A", "B")})),
    ("OPT248", use(closed=("A", "B"), without={"s3": ("A", "B")}, is_certain=False)),
    ("OPT248", use(public=("A", "B"), without={"s3": ("A", "B")})),
    ("OPT249", use(closed=("A",), hosts=("pypi.org",))),
    ("OPT249", use(closed=("A", "B"), hosts=("pypi.org",), is_certain=False)),
    ("OPT249", use(public=("B",), without={"secretsmanager": ("A", "B")})),
]


@pytest.mark.parametrize(("rule", "case"), NETWORKS)
def test_a_network_has_the_ways_that_its_jobs_need(rule: str | None, case: NetworkUse) -> None:
    refused = [violation.rule for violation in check(case)]
    advised = [advice.id.rpartition(":")[2] for advice in warnings(case)]
    assert [*refused, *advised] == ([rule] if rule is not None else [])


def test_every_rule_has_a_case() -> None:
    assert {rule.id for rule in all_rules(AssumedRole)} == {"OPT245"}
    assert {rule.id for rule in all_rules(NetworkUse)} == {rule for rule, _ in NETWORKS if rule is not None}
