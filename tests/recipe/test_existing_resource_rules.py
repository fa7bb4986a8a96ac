"""The rules for ARNs of existing resources: those in reach of the stack, and those of elsewhere."""

from __future__ import annotations

import pytest

from constructs_optim.recipe.hosting.arns import ArnKind, ArnUse
from constructs_optim.recipe.rules import all_rules, check, warnings

_TOPIC = "arn:aws:sns:us-west-2:111122223333:pages"
_KEY = "arn:aws:kms:eu-west-1:111122223333:key/mrk-1234abcd12ab34cd56ef123456789012"


def use(kind: ArnKind, arn: str, *, region: str | None = "us-west-2", account: str | None = "111122223333") -> ArnUse:
    partition = "aws" if region is not None else None
    return ArnUse("there", kind, arn, partition, region, account)


GOOD: dict[str, list[ArnUse]] = {
    "OPT280": [
        use("alarm action", _TOPIC),
        use("alarm action", "arn:aws:sns:us-west-2:444455556666:pages"),
        use("alarm action", "${Token[T.1]}"),
        use("alarm action", "arn:aws:sns:${Token[AWS.Region.4]}:111122223333:pages"),
        use("alarm action", "arn:aws:sns:eu-west-1:111122223333:pages", region=None),
        use("rollback alarm", "arn:aws:cloudwatch:us-west-2:111122223333:alarm:eu-west-1:errors"),
        use("reservation", "not an ARN"),
        use("reservation", "a:b:c:eu-west-1:111122223333:d"),
        use("reservation", "arn:aws:eu-west-1"),
        use("role", "arn:aws:iam::111122223333:role/service-role/chat"),
        use("role", "arn:aws:iam::444455556666:role/chat", account=None),
        use("volume key", "arn:aws:kms:us-west-2:444455556666:key/1234abcd-12ab-34cd-56ef-1234567890ab"),
    ],
    "OPT281": [
        use("topic", "arn:aws:sns:us-west-2:444455556666:answers"),
        use("key of files", _KEY, region="eu-west-1"),
        use("key of files", "${Token[T.1]}"),
    ],
}
BAD: list[tuple[str, ArnUse, str, str]] = [
    (
        "OPT280",
        use("alarm action", "arn:aws:sns:eu-west-1:444455556666:pages"),
        "CloudWatch refuses an alarm with an action in another Region",
        "one such as arn:aws:sns:us-west-2:444455556666:pages",
    ),
    (
        "OPT280",
        use("rollback alarm", "arn:aws:cloudwatch:eu-west-1:444455556666:alarm:errors"),
        "only the alarm's name",
        "one such as arn:aws:cloudwatch:us-west-2:111122223333:alarm:errors",
    ),
    ("OPT280", use("rollback alarm", "arn:aws:cloudwatch:us-west-2:444455556666:alarm:errors"), "own account", ":1111"),
    ("OPT280", use("volume key", _KEY), "a key of its own Region", "us-west-2"),
    (
        "OPT280",
        use("reservation", "arn:aws:sagemaker:eu-west-1:111122223333:training-plan/x"),
        "instances",
        "us-west-2",
    ),
    (
        "OPT280",
        use("role", "arn:aws:iam::444455556666:role/chat"),
        "the stack is in account 111122223333, and a role can only be passed to SageMaker in its own account",
        "one such as arn:aws:iam::111122223333:role/chat",
    ),
    (
        "OPT280",
        use("role", "arn:aws-cn:iam::111122223333:role/chat"),
        "the stack is in the partition aws, and partitions share no resources",
        "one such as arn:aws:iam::111122223333:role/chat",
    ),
    ("OPT281", use("key of files", _KEY), "in the Region of their bucket", "acknowledge this warning if the bucket"),
    ("OPT281", use("topic", "arn:aws:sns:eu-west-1:111122223333:x"), "no source says", "sns:us-west-2:111122223333:x"),
]


def _found(rule: str, subject: ArnUse) -> list[str]:
    refused = [f"{each.location}: {each.reason}. {each.suggestion}" for each in check(subject) if each.rule == rule]
    return refused + [each.message for each in warnings(subject) if each.id.endswith(rule)]


def test_every_rule_for_arns_has_valid_and_invalid_cases() -> None:
    assert GOOD.keys() == {each[0] for each in BAD} == {rule.id for rule in all_rules(ArnUse)}


@pytest.mark.parametrize(("rule", "subject"), [(rule, each) for rule, cases in GOOD.items() for each in cases])
def test_resources_in_reach_of_the_stack_are_valid(rule: str, subject: ArnUse) -> None:
    assert _found(rule, subject) == []


@pytest.mark.parametrize(("rule", "subject", "reason", "fix"), BAD)
def test_a_resource_of_elsewhere_is_named_with_the_reason_and_one_that_works(
    rule: str, subject: ArnUse, reason: str, fix: str
) -> None:
    (found,) = _found(rule, subject)
    assert found.startswith("there")
    assert reason in found
    assert fix in found


@pytest.mark.parametrize(("rule", "subject", "reason", "fix"), BAD)
def test_the_resource_that_works_is_refused_by_no_rule(rule: str, subject: ArnUse, reason: str, fix: str) -> None:
    working = use(subject.kind, subject.moved())
    assert (check(working), warnings(working)) == ([], ())
