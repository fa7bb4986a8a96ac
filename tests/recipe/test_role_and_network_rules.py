"""Rules for roles and networks: what each refuses, and what it lets through."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe.hosting.roles_and_networks import (
    AssumedRole,
    ForeignGroup,
    NetworkUse,
    SecurityGroupUse,
)
from constructs_optim.recipe.rules import all_rules, check, warnings

UNTRUSTED = AssumedRole("Chat/Role", "its trust policy names nobody", "allow it")


def test_a_role_that_sagemaker_may_be_able_to_assume_is_let_through() -> None:
    assert check(AssumedRole("Chat/Role", None)) == []


def test_a_role_that_sagemaker_cannot_assume_is_refused_with_the_cause() -> None:
    (found,) = check(UNTRUSTED)
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
    ("OPT246", use(closed=("A",), private=("B",), without={"s3": ("A", "B")})),
    ("OPT246", use(closed=("A", "B"), without={"s3": ("A", "B")}, unnamed=("s3",))),
    ("OPT246", use(without={"s3": ()}, filtered={"s3": ("A", "B")})),
    ("OPT246", use(closed=("A",), without={"s3": ("A",)}, filtered={"s3": ("B",)})),
    ("OPT247", use(private=("A", "B"), hosts=("huggingface.co",))),
    ("OPT247", use(hosts=("huggingface.co",), filtered={"internet": ("A", "B")})),
    (None, use(private=("A", "B"), without={"s3": ("A", "B")}, is_certain=False)),
    (None, use(filtered={"internet": ("A", "B")})),
    ("OPT248", use(without={"s3": ()}, filtered={"s3": ("A",)})),
    ("OPT248", use(without={"s3": ()}, filtered={"s3": ("A", "B")}, is_certain=False)),
    ("OPT249", use(private=("A", "B"), hosts=("huggingface.co",), is_certain=False)),
    ("OPT249", use(hosts=("huggingface.co",), filtered={"internet": ("A",)})),
    ("OPT249", use(without={"secretsmanager": ()}, filtered={"secretsmanager": ("A", "B")})),
    ("OPT249", use(closed=("A",), hosts=("pypi.org",))),
    ("OPT249", use(closed=("A", "B"), hosts=("pypi.org",), is_certain=False)),
    ("OPT249", use(public=("B",), without={"secretsmanager": ("A", "B")})),
]


@pytest.mark.parametrize(("rule", "case"), NETWORKS)
def test_a_network_has_the_ways_that_its_jobs_need(rule: str | None, case: NetworkUse) -> None:
    refused = [violation.rule for violation in check(case)]
    advised = [advice.id.rpartition(":")[2] for advice in warnings(case)]
    # Each cause is a finding.
    assert {*refused, *advised} == ({rule} if rule is not None else set())


def test_each_cause_has_its_own_finding() -> None:
    (routes, acls) = check(use(closed=("A",), without={"s3": ("A",)}, filtered={"s3": ("A", "B")}))
    assert (routes.value, "neither an S3 endpoint nor a route out of the VPC" in routes.reason) == ("A", True)
    assert (acls.value, "the network ACLs of these subnets do not allow" in acls.reason) == ("B", True)


WITHOUT_A_WAY: list[tuple[dict[str, Any], str, str]] = [
    ({"private": ("A", "B")}, "nor a route to public addresses", "vpc.add_gateway_endpoint"),
    (
        {"closed": ("A", "B"), "unnamed": ("s3",)},
        "The usual name of S3 does not lead to its interface endpoint, which has no private DNS names",
        "private_dns_enabled=True for the endpoint, or vpc.add_gateway_endpoint",
    ),
    (
        {"closed": ("A", "B"), "shut_endpoints": {"s3": ("Interface",)}},
        "The security groups of the endpoint Interface have no inbound rule for HTTPS",
        "open=True for the endpoint, or vpc.add_gateway_endpoint",
    ),
    (
        {"closed": ("A", "B"), "dead_ends": ("Nat",)},
        "The NAT gateway Nat does not lead to the internet: that takes connectivity_type='public' and a",
        "vpc.add_gateway_endpoint",
    ),
]


@pytest.mark.parametrize(("changed", "reason", "fix"), WITHOUT_A_WAY)
def test_a_network_without_a_way_says_what_is_none(changed: dict[str, Any], reason: str, fix: str) -> None:
    (found,) = check(use(without={"s3": ("A", "B")}, **changed))
    assert reason in found.reason
    assert found.suggestion.startswith(fix)
    if "private" not in changed:
        (advice,) = warnings(use(without={"s3": ("A", "B")}, is_certain=False, **changed))
        assert reason.removeprefix("nor ") in advice.message


def test_advice_is_a_sentence() -> None:
    (advice,) = warnings(use(closed=("A", "B"), without={"s3": ("A", "B")}, unnamed=("s3",), is_certain=False))
    assert "names. Set private_dns_enabled=True for the endpoint, or call vpc.add_gateway_endpoint(" in advice.message
    (advice,) = warnings(use(without={"s3": ()}, filtered={"s3": ("A",)}))
    assert "responses. Call acl.add_entry(" in advice.message
    (advice,) = warnings(in_groups("nothing", is_certain=False))
    assert "for it. Call security_group.add_egress_rule(" in advice.message


def in_groups(allowed: Any, *, is_certain: bool, targets: tuple[str, ...] = ("s3",)) -> SecurityGroupUse:
    return SecurityGroupUse("the job awq", ("Group",), allowed, targets, is_certain)


def test_security_groups_let_out_what_a_job_needs() -> None:
    (found,) = check(in_groups("nothing", is_certain=True, targets=("s3", "huggingface.co", "pypi.org")))
    assert (found.rule, found.location, found.value) == ("OPT265", "network.security_groups", "Group")
    need, lack = found.reason.split(", and ")
    assert need == "the job awq needs S3, huggingface.co and pypi.org by HTTPS"
    assert lack == "its security groups have no outbound rule for it"
    (found,) = check(in_groups("private", is_certain=True))
    assert "outbound rules of its security groups lead only to private addresses" in found.reason
    assert check(in_groups("nothing", is_certain=False)) == []
    assert [advice.id for advice in warnings(in_groups("nothing", is_certain=False))] == ["constructs-optim:OPT266"]
    assert warnings(in_groups("nothing", is_certain=True)) == ()


FOREIGN = ForeignGroup("the job awq", "Group", "Other", "Vpc")


def test_a_security_group_of_another_vpc_is_refused() -> None:
    (found,) = check(FOREIGN)
    assert (found.rule, found.value) == ("OPT267", "Group")
    assert found.reason == "the job awq is in subnets of Vpc, and this group belongs to Other"


def test_every_rule_has_a_case() -> None:
    assert {rule.id for rule in all_rules(AssumedRole)} == {"OPT245"}
    assert {rule.id for rule in all_rules(NetworkUse)} == {rule for rule, _ in NETWORKS if rule is not None}
    assert {rule.id for rule in all_rules(SecurityGroupUse)} == {"OPT265", "OPT266"}
    assert {rule.id for rule in all_rules(ForeignGroup)} == {"OPT267"}
