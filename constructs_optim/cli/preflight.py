"""``constructs-optim preflight``: what would fail hours into a deployment, asked before it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.explanation.assembly import ExplanationError, StackTemplate, read_assembly
from constructs_optim.explanation.formatting import counted
from constructs_optim.operations.preflight import StackPreflight
from constructs_optim.operations.stacks import DeployedTemplates
from constructs_optim.runtime.preflight.report import PreflightFinding, Report

from .aws import Account, Profile, Region
from .explain import is_chosen
from .presentation import FormatOption, print_json, say

_ASK_FOR_IT = (
    "ask for it with the context key constructs-optim:preflight, for instance `cdk synth --context "
    "constructs-optim:preflight=true`"
)


def preflight_command(
    assembly: Annotated[Path, typer.Argument(help="The folder that `cdk synth` wrote.")] = Path("cdk.out"),
    stack: Annotated[
        list[str] | None, typer.Option(help="Only these stacks, for instance Prod/*. Repeatable; all by default.")
    ] = None,
    region: Region = None,
    profile: Profile = None,
    format: FormatOption = "table",
) -> None:
    """Look at quotas, models, images, stores, roles and networks before a deployment.

    Exit status 1 means that the deployment would fail. Nothing is changed; docs/preflight.md lists the calls.
    """
    account = Account(profile, region)
    stacks = [found for found in read_assembly(assembly) if is_chosen(found, stack)]
    preflights = {found.path: _preflight(found, account) for found in stacks}
    asking = {path: preflight for path, preflight in preflights.items() if preflight.is_asked_for}
    if not asking:
        raise ExplanationError(f"{assembly} has no stack with a preflight: {_ASK_FOR_IT}")
    elsewhere = [f"{found.path} ({found.account})" for found in stacks if found.path in asking and found.account]
    if elsewhere := [name for name in elsewhere if f"({account.id})" not in name]:
        raise ExplanationError(
            f"the credentials are of account {account.id}, and these stacks are of other accounts: "
            f"{', '.join(elsewhere)}. Choose stacks of one account with --stack, and its credentials with --profile"
        )
    deployed = DeployedTemplates(lambda region: account.client("cloudformation", region))
    reports = {path: _report(preflight, account, deployed) for path, preflight in asking.items()}
    if format == "json":
        print_json([_as_json(path, report) for path, report in reports.items()])
    else:
        for path, report in reports.items():
            _say(path, report)
    if any(report.problems for report in reports.values()):
        raise typer.Exit(1)


def _preflight(stack: StackTemplate, account: Account) -> StackPreflight:
    region = stack.region or account.region
    if region is None:
        raise ExplanationError(f"the region of {stack.path} is known only at deployment: use --region")
    return StackPreflight(stack.stack_name, stack.template, stack.account or account.id, region, stack.parents)


def _report(preflight: StackPreflight, account: Account, deployed: DeployedTemplates) -> Report:
    return preflight.report(lambda service: account.client(service, preflight.region), deployed)


def _as_json(path: str, report: Report) -> dict[str, object]:
    return {
        "stack": path,
        "problems": [_fields(finding) for finding in report.problems],
        "advice": [_fields(finding) for finding in report.advice],
    }


def _fields(finding: PreflightFinding) -> dict[str, str]:
    fields = asdict(finding)
    return {name: fields[name] for name in ("check", "text", "fix")}


def _say(path: str, report: Report) -> None:
    problems, advice = counted(len(report.problems), "problem"), len(report.advice)
    say(f"{path}: {problems} and {advice} to note, of {counted(report.asked, 'check')}", style="bold")
    for finding in (*report.problems, *report.advice):
        say(f"  {finding.level:8} {finding.check}: {finding.text}")
        say(f"           Next: {finding.fix}")
