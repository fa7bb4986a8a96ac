"""``constructs-optim explain``: explain the effects of deploying a synthesized app."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from constructs_optim.explanation.assembly import ExplanationError, StackTemplate, read_assembly
from constructs_optim.explanation.explain import explain
from constructs_optim.explanation.report import Report
from constructs_optim.explanation.text import markdown, text_lines

from ..aws import Account, Profile, Region, bucket_name, errors_explained, failed
from .evidence import DEPLOYED, LISTED, Evidence, stated_prices


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
        typer.Option(
            metavar="FOLDER",
            help="What to compare with: another such folder, or `deployed` for what CloudFormation has.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="BUCKET",
            help="Where to look artifacts up: a bucket, or `deployed` for the store that each job names.",
            callback=_store,
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|aws",
            help='A JSON file of dollars an hour, {"ml.g5.12xlarge": 7.09}, or `aws` to ask the AWS Price List.',
        ),
    ] = None,
    stack: Annotated[
        list[str] | None, typer.Option(help="Only these stacks, for instance Prod/*. Repeatable; all by default.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(
            metavar="EVENT",
            help="Exit status 1 on a `change`; on an `interruption` of an endpoint or component; where a `job` may "
            "run; where `permissions` grow. Repeatable.",
        ),
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Explain what a deployment does to each endpoint: jobs, replacements, updates, costs and permissions.

    Exit status 1 means that AWS refuses the deployment, or that something happens which --fail-on names.
    AWS is called only for --against deployed, --store and --prices aws.
    """
    asks = against == DEPLOYED or store is not None or prices == LISTED
    user_prices = stated_prices(Path(prices)) if prices not in (None, LISTED) else None
    try:
        with errors_explained():
            after = _chosen(read_assembly(assembly), stack or [], assembly)
            evidence = Evidence(Account(profile, region) if asks else None, store, user_prices, listed=prices == LISTED)
            report = _explained(after, against, evidence, stack or [])
    except ExplanationError as error:
        raise failed(str(error)) from None
    match format:
        case Format.json:
            typer.echo(report.model_dump_json(indent=2))
        case Format.markdown:
            typer.echo(markdown(report), nl=False)
        case Format.text:
            for line in text_lines(report, Console().width):
                typer.secho(line, bold=not line.startswith(" "))
    if report.refusals or any(_happens(report, event) for event in fail_on or ()):
        raise typer.Exit(1)


def _explained(after: list[StackTemplate], against: str | None, evidence: Evidence, patterns: list[str]) -> Report:
    before: list[StackTemplate] | None = None
    name = against
    if against == DEPLOYED:
        before, name = evidence.deployed(after), "what is deployed"
    elif against is not None:
        before = [stack for stack in read_assembly(Path(against)) if not patterns or _is_chosen(stack, patterns)]
    facts = {stack.path: evidence.of(stack) for stack in [*(before or ()), *after]}
    return explain(
        after,
        before,
        against=name,
        deployed=against == DEPLOYED,
        evidence_of=lambda stack: facts[stack.path],
        notes=evidence.notes,
    )


def _chosen(stacks: list[StackTemplate], patterns: list[str], assembly: Path) -> list[StackTemplate]:
    chosen = [stack for stack in stacks if not patterns or _is_chosen(stack, patterns)]
    if not chosen:
        names = ", ".join(stack.path for stack in stacks) or "none"
        raise ExplanationError(f"{assembly} has no stack {' or '.join(patterns)}; its stacks are: {names}")
    return chosen


def _is_chosen(stack: StackTemplate, patterns: Iterable[str]) -> bool:
    """Whether a stack, or the outermost one it is nested in, matches one of the patterns."""
    outermost = stack.path
    for _ in stack.parents:
        outermost = outermost.rpartition("/")[0]
    return any(fnmatchcase(path, pattern) for pattern in patterns for path in (stack.path, outermost))


def _happens(report: Report, event: FailOn) -> bool:
    match event:
        case FailOn.change:
            return report.has_changes
        case FailOn.interruption:
            return any(endpoint.is_interrupted for endpoint in report.endpoints)
        case FailOn.job:
            return report.may_run_jobs
        case FailOn.permissions:
            return any(change.grants_more for change in report.permissions)
