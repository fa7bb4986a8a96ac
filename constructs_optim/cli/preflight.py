"""``constructs-optim preflight``: what would fail hours into a deployment, asked before it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.explanation.assembly import ExplanationError, StackTemplate, is_chosen, read_assembly
from constructs_optim.explanation.formatting import counted
from constructs_optim.operations.preflight import StackPreflight
from constructs_optim.operations.stacks import DeployedTemplates
from constructs_optim.runtime.preflight.report import Report
from constructs_optim.templates.resource_types import PREFLIGHT
from constructs_optim.templates.template import Template

from .aws import Account, Profile, Region
from .explain import refuse_other_accounts
from .presentation import FormatOption, print_json, say

_FIELDS = ("check", "text", "fix")
_SWITCHED_OFF = "leave the context key constructs-optim:preflight out, or set it to true"


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
    asking = [found for found in stacks if Template(found.template).of_type(PREFLIGHT)]
    if not asking:
        raise ExplanationError(f"{assembly} has no stack with a preflight: {_SWITCHED_OFF}")
    refuse_other_accounts(asking, account)
    preflights = {found.path: _preflight(found, account) for found in asking}
    deployed = DeployedTemplates(lambda region: account.client("cloudformation", region))
    reports = {
        path: preflight.report(partial(account.client, region=preflight.region), deployed)
        for path, preflight in preflights.items()
    }
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


def _as_json(path: str, report: Report) -> dict[str, object]:
    return {
        "stack": path,
        "problems": [{name: getattr(finding, name) for name in _FIELDS} for finding in report.problems],
        "advice": [{name: getattr(finding, name) for name in _FIELDS} for finding in report.advice],
    }


def _say(path: str, report: Report) -> None:
    problems, advice = counted(len(report.problems), "problem"), len(report.advice)
    say(f"{path}: {problems} and {advice} to note, of {counted(report.asked, 'check')}", style="bold")
    for finding in (*report.problems, *report.advice):
        say(f"  {finding.level:8} {finding.check}: {finding.text}")
        say(f"           Next: {finding.fix}")
