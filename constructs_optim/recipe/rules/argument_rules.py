"""The rule about kinds of arguments: Python takes anything, and the AWS CDK says what is wrong from within."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.arguments import Arguments

from .registry import Finding, rule


@rule(
    "OPT090",
    title="An argument is of the kind that it is declared with",
    reason="a property of a construct takes an object of the AWS CDK or of this library",
    link="https://docs.aws.amazon.com/cdk/v2/guide/work-with-cdk-python.html",
    of=Arguments,
)
def _arguments_are_of_their_kind(arguments: Arguments) -> Iterator[Finding]:
    for each in arguments.wrong:
        yield Finding(each.location, each.value, each.example, reason=f"this takes {each.wanted}")
