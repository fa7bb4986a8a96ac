"""``constructs-optim preflight``: checks, before a deployment, for problems that would fail it hours later."""

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

from .assemblies import AssemblyArgument, StackOption
from .aws import Account, Profile, Region
from .endpoint_file import STANDARD_INPUT, assembly_of, is_endpoint_file
from .explain import refuse_other_accounts
from .presentation import JsonOption, print_json, refusals_printed, say, working
from .recipes.dry_start import dry_starts, plans_of_file, status_of

_STYLES = {"problem": "red", "advice": "yellow"}
_FIELDS = ("check", "text", "fix")
_SWITCHED_OFF = "remove the context key constructs-optim:preflight, or set it to true"


def preflight_command(
    assembly: AssemblyArgument = Path("cdk.out"),
    stack: StackOption = None,
    region: Region = None,
    profile: Profile = None,
    dry_start: Annotated[
        bool,
        typer.Option(
            "--dry-start", help="Also start the engine of each plan of an endpoint file, as the command dry-start does."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check quotas, models, images, stores, roles, and networks before a deployment.

    Exits with status 1 if the deployment would fail. Changes nothing.
    https://constructs-optim.dev/preflight/ lists the calls to AWS.

    Examples:
        constructs-optim preflight cdk.out --stack 'Prod/*'
        constructs-optim preflight endpoint.yaml --dry-start
    """
    if dry_start and (not is_endpoint_file(assembly) or str(assembly) == STANDARD_INPUT):
        raise typer.BadParameter(
            f"--dry-start starts the plans of an endpoint file, and {assembly} has only what became of them. Name the "
            "file, or run constructs-optim dry-start with the model and the instance type"
        )
    account = Account(profile, region)
    with refusals_printed(as_json=as_json), working("Reading the assembly"), assembly_of(assembly) as folder:
        stacks = [found for found in read_assembly(folder) if is_chosen(found, stack)]
    asking = [found for found in stacks if Template(found.template).of_type(PREFLIGHT)]
    if not asking:
        raise ExplanationError(f"{assembly} has no stack with a preflight: {_SWITCHED_OFF}")
    refuse_other_accounts(asking, account)
    preflights = {found.path: _preflight(found, account) for found in asking}
    deployed = DeployedTemplates(lambda region: account.client("cloudformation", region))
    with working("Checking the account"):
        reports = {
            path: preflight.report(partial(account.client, region=preflight.region), deployed)
            for path, preflight in preflights.items()
        }
    if not as_json:
        for path, report in reports.items():
            _say(path, report)
    starts = {}
    if dry_start:
        with refusals_printed(as_json=as_json):
            plans = plans_of_file(str(assembly), region)
        starts = dict(dry_starts(plans, account, as_json=as_json))
    if as_json:
        checked = [_as_json(path, report) for path, report in reports.items()]
        print_json({"checks": checked, "dry_starts": starts} if dry_start else checked)
    if any(report.problems for report in reports.values()):
        raise typer.Exit(1)
    raise typer.Exit(status_of(starts.values()))


def _preflight(stack: StackTemplate, account: Account) -> StackPreflight:
    region = stack.region or account.region
    if region is None:
        raise ExplanationError(f"the Region of {stack.path} is known only at deployment: use --region")
    return StackPreflight(stack.stack_name, stack.template, stack.account or account.id, region, stack.parents)


def _as_json(path: str, report: Report) -> dict[str, object]:
    return {
        "stack": path,
        "problems": [{name: getattr(finding, name) for name in _FIELDS} for finding in report.problems],
        "advice": [{name: getattr(finding, name) for name in _FIELDS} for finding in report.advice],
    }


def _say(path: str, report: Report) -> None:
    problems, advice = counted(len(report.problems), "problem"), counted(len(report.advice), "piece")
    say(f"{path}: {problems}, {advice} of advice, {counted(report.asked, 'check')}", style="bold")
    for finding in (*report.problems, *report.advice):
        say(f"  {finding.level:7}  {finding.check}: {finding.text}", style=_STYLES.get(finding.level))
        say(f"    Next: {finding.fix}")
