"""``constructs-optim explain``: what a deployment of a synthesized app does, in words."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from constructs_optim.explanation.assembly import ExplanationError, StackTemplate, read_assembly
from constructs_optim.explanation.explain import explain
from constructs_optim.explanation.markdown import (
    by_topic,
    cost_in_short,
    counted_statements,
    is_news,
    listed_outcomes,
    markdown,
)
from constructs_optim.explanation.permission_words import permission_row
from constructs_optim.explanation.report import EndpointReport, JobReport, PermissionReport, Report, StackReport

from .aws import Account, Profile, Region, bucket_name, errors_explained, failed
from .explanation_evidence import DEPLOYED, LISTED, Evidence, stated_prices
from .presentation import say

_MARK_STYLES = {"+": "green", "-": "red", "~": "yellow"}


class Format(StrEnum):
    """How an explanation is printed."""

    text = "text"
    markdown = "markdown"
    json = "json"


class FailOn(StrEnum):
    """What makes the exit status 1."""

    change = "change"
    interruption = "interruption"
    job = "job"
    permissions = "permissions"


def _store(value: str | None) -> str | None:
    return value if value == DEPLOYED else bucket_name(value)


def explain_command(
    assembly: Annotated[Path, typer.Argument(help="The folder that `cdk synth` wrote.")] = Path("cdk.out"),
    against: Annotated[
        str | None,
        typer.Option(help="What to compare with: another such folder, or `deployed` for what CloudFormation has."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where to look artifacts up: a bucket, or `deployed` for the store that each job names.",
            callback=_store,
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            help='A JSON file of dollars an hour, {"ml.g5.12xlarge": 7.09}, or `aws` to ask the AWS Price List.'
        ),
    ] = None,
    stack: Annotated[
        list[str] | None, typer.Option(help="Only these stacks, for instance Prod/*. Repeatable; all by default.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(
            help="Exit status 1 where something changes, an endpoint or component is interrupted, a job may run, or "
            "somebody may do more. Repeatable."
        ),
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Explain what a deployment does to each endpoint: jobs, replacements, updates, costs and permissions.

    AWS is asked only where --against deployed, --store or --prices aws says so.
    """
    asks = against == DEPLOYED or store is not None or prices == LISTED
    given = stated_prices(Path(prices)) if prices not in (None, LISTED) else None
    try:
        with errors_explained():
            after = _chosen(read_assembly(assembly), stack or [], assembly)
            evidence = Evidence(Account(profile, region) if asks else None, store, given, listed=prices == LISTED)
            report = _explained(after, against, evidence, stack or [])
    except ExplanationError as error:
        raise failed(str(error)) from None
    match format:
        case Format.json:
            typer.echo(report.model_dump_json(indent=2))
        case Format.markdown:
            typer.echo(markdown(report), nl=False)
        case Format.text:
            _print(report)
    if any(_happens(report, what) for what in fail_on or ()):
        raise typer.Exit(1)


def _explained(after: list[StackTemplate], against: str | None, evidence: Evidence, patterns: list[str]) -> Report:
    before: list[StackTemplate] | None = None
    name = against
    if against == DEPLOYED:
        before, name = evidence.deployed(after), "what is deployed"
    elif against is not None:
        before = [each for each in read_assembly(Path(against)) if not patterns or _is_chosen(each, patterns)]
    known = {each.path: evidence.of(each) for each in [*(before or ()), *after]}
    return explain(
        after,
        before,
        against=name,
        deployed=against == DEPLOYED,
        evidence_of=lambda each: known[each.path],
        notes=evidence.notes,
    )


def _chosen(stacks: list[StackTemplate], patterns: list[str], assembly: Path) -> list[StackTemplate]:
    chosen = [each for each in stacks if not patterns or _is_chosen(each, patterns)]
    if not chosen:
        there = ", ".join(each.path for each in stacks) or "none"
        raise ExplanationError(f"{assembly} has no stack {' or '.join(patterns)}; its stacks are: {there}")
    return chosen


def _is_chosen(stack: StackTemplate, patterns: Iterable[str]) -> bool:
    """Whether a stack is one of those; a nested stack goes with the one it is in."""
    outermost = stack.path
    for _ in stack.parents:
        outermost = outermost.rpartition("/")[0]
    return any(fnmatchcase(path, pattern) for pattern in patterns for path in (stack.path, outermost))


def _happens(report: Report, what: FailOn) -> bool:
    match what:
        case FailOn.change:
            return report.has_changes
        case FailOn.interruption:
            return any(endpoint.is_interrupted for endpoint in report.endpoints)
        case FailOn.job:
            return report.may_run_jobs
        case FailOn.permissions:
            return any(change.grants_more for change in report.permissions)


def _print(report: Report) -> None:
    if report.against is not None:
        say(f"Compared with {report.against}.")
    if not report.has_changes:
        say("Nothing changes.")
    for stack in report.stacks:
        _print_stack(stack)
    for note in report.notes:
        say(note)


def _print_stack(stack: StackReport) -> None:
    console = Console()
    where = f" in {stack.region}" if stack.region is not None else ""
    console.print(f"[bold]Stack {escape(stack.name)}: {stack.change}{where}[/]", highlight=False)
    for endpoint in stack.endpoints:
        if endpoint.change == "unchanged" and not is_news(endpoint):
            say(f"  {endpoint.name} is unchanged: {listed_outcomes(endpoint)}, {cost_in_short(endpoint)} a month.")
        else:
            console.print(_endpoint(endpoint))
    for job in stack.artifacts:
        _print_artifact(job)
    if stack.permissions:
        console.print(_permissions(stack.permissions))
        say(counted_statements(stack.permissions))
    for resource in stack.resources:
        say(f"  {resource.name} ({resource.type}) {resource.sentence}.")
    if stack.outputs and stack.change == "changed":
        say(f"  Outputs that change: {', '.join(stack.outputs)}.")


def _print_artifact(job: JobReport) -> None:
    say(f"  {job.recipe}. {' '.join(job.sentences)}")


def _endpoint(endpoint: EndpointReport) -> Table:
    marked = f"{endpoint.change}, interrupted" if endpoint.is_interrupted else endpoint.change
    table = Table(title=f"{escape(endpoint.name)}: {marked}", title_justify="left", show_header=False, show_lines=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for topic, texts in by_topic(endpoint):
        table.add_row(topic.lower(), escape("\n".join(texts)))
    return table


def _permissions(changes: Iterable[PermissionReport]) -> Table:
    table = Table(title="Permissions", title_justify="left", show_lines=True)
    for column in ("", "whose", "effect", "actions", "resources", "principals", "conditions"):
        table.add_column(column, overflow="fold")
    for change in changes:
        row = permission_row(change)
        lists = (row.actions, row.resources, row.principals, row.conditions)
        cells = (row.mark, row.owner, row.effect, *("\n".join(values) for values in lists))
        table.add_row(*(escape(cell) for cell in cells), style=_MARK_STYLES[row.mark])
    return table
