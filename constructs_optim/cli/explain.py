"""``constructs-optim explain``: explain the effects of deploying a synthesized app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError

from constructs_optim.explanation.assembly import ExplanationError, StackTemplate, is_chosen, read_assembly
from constructs_optim.explanation.explain import explain
from constructs_optim.explanation.jobs import JobKind, PastJob, Prices, StackEvidence, StoreContents, StoredArtifact
from constructs_optim.explanation.report import DriftReport, Report
from constructs_optim.explanation.text import markdown, text_lines
from constructs_optim.operations.drift import drift_of
from constructs_optim.operations.stacks import DeployedTemplates
from constructs_optim.runtime.documents import object_in
from constructs_optim.runtime.errors import DENIED, code_of
from constructs_optim.templates.resource_types import JOBS, OPTIMIZED_ARTIFACT, TRAINING_JOB
from constructs_optim.templates.template import Resource, Template

from .assemblies import AssemblyArgument, StackOption
from .aws import AWS_PANEL, Account, Profile, Region, bucket_name, failed
from .endpoint_file import assembly_of
from .installation import installing
from .presentation import OUTPUT_PANEL, JsonOption, refusals_printed, say, terminal_width, working
from .prices import LISTED, PRICES_HELP, PRICES_METAVAR, stated_prices

DEPLOYED = "deployed"
Event = StrEnum("Event", ["change", "drift", "interruption", "job", "permissions"])


def _store(value: str | None) -> str | None:
    return value if value == DEPLOYED else bucket_name(value)


def explain_command(
    assembly: AssemblyArgument = Path("cdk.out"),
    against: Annotated[
        str | None,
        typer.Option(
            metavar="ASSEMBLY",
            help="What to compare with: another directory or endpoint file, or `deployed` for the deployed stacks.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="BUCKET",
            help="Bucket of the artifact store, or `deployed` for the store of each deployed stack.",
            callback=_store,
            rich_help_panel=AWS_PANEL,
        ),
    ] = None,
    prices: Annotated[str | None, typer.Option(metavar=PRICES_METAVAR, help=PRICES_HELP)] = None,
    stack: StackOption = None,
    fail_on: Annotated[
        list[Event] | None,
        typer.Option(
            help="Exit with status 1 on any `change`; on `drift`, changes that were made by hand (with --against "
            "deployed); on the `interruption` of an endpoint or component; if a `job` may run; or if `permissions` "
            "grow. Repeatable.",
            metavar="EVENT",
        ),
    ] = None,
    traffic: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Recorded traffic to compare costs with, as `replay` does. Needs --against."),
    ] = None,
    region: Region = None,
    profile: Profile = None,
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print Markdown, for a pull request's comment.", rich_help_panel=OUTPUT_PANEL),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Explain what a deployment does: jobs, replacements, updates, costs, permissions.

    Exits with status 1 if AWS would refuse the deployment, or if an event of --fail-on occurs.
    Calls AWS only for --against deployed, --store, and --prices aws.

    Examples:
        constructs-optim explain cdk.out --against main.out
        constructs-optim explain --against deployed --store deployed --prices aws
        constructs-optim explain --against deployed --fail-on interruption --markdown
    """
    if traffic is not None and against is None:
        raise typer.BadParameter("--traffic compares the costs of a change: it needs --against")
    if as_markdown and as_json:
        raise typer.BadParameter("use one of --markdown and --json")
    with refusals_printed(as_json=as_json), working("Reading the assembly"):
        report = explained(
            assembly,
            against=against,
            store=store,
            prices=None if prices == LISTED else stated_prices(Path(prices)) if prices is not None else Prices(),
            stack=stack or (),
            traffic=traffic,
            region=region,
            profile=profile,
        )
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    elif as_markdown:
        typer.echo(markdown(report), nl=False)
    else:
        for line in text_lines(report, terminal_width()):
            say(line, style=_style(line))
    events = {
        Event.change: report.has_changes,
        Event.drift: bool(report.drift),
        Event.interruption: any(endpoint.is_interrupted for endpoint in report.endpoints),
        Event.job: report.may_run_jobs,
        Event.permissions: any(change.grants_more for change in report.permissions),
    }
    if report.refusals or any(events[event] for event in fail_on or ()):
        raise typer.Exit(1)


def _style(line: str) -> str | None:
    """Return the style of a line of the report, for headings, additions, and removals."""
    if not line.startswith(" "):
        return "bold red" if "refuses" in line else "bold"
    detail = line.strip()
    if detail.startswith("+ "):
        return "green"
    if detail.startswith(("- ", "resources replaced", "resources deleted", "replaced:", "deleted:")):
        return "red"
    return None


def explained(
    assembly: Path,
    *,
    against: str | None,
    store: str | None,
    prices: Prices | None,
    stack: Sequence[str],
    region: str | None,
    profile: str | None,
    traffic: Path | None = None,
) -> Report:
    """Return the report on a deployment's effects. ``prices`` default to the AWS Price List.

    Raises:
        ExplanationError: if there is nothing to explain.
        RecipeError: if an endpoint file has mistakes; lists all of them.
    """
    needs_aws = against == DEPLOYED or store is not None or prices is None
    with assembly_of(assembly) as folder:
        stacks = read_assembly(folder)
    if not stacks:
        raise ExplanationError(f"{assembly} is a cloud assembly without stacks")
    after = [template for template in stacks if is_chosen(template, stack)]
    if not after:
        names = ", ".join(template.path for template in stacks)
        raise ExplanationError(f"{assembly} has no stack {' or '.join(stack)}. Its stacks: {names}")
    aws = _Lookup(Account(profile, region), store) if needs_aws else None
    before, name = None, against
    if aws is not None and against == DEPLOYED:
        before, name = aws.deployed(after), "the deployed stacks"
    elif against is not None:
        with assembly_of(Path(against)) as folder:
            before = [deployed for deployed in read_assembly(folder) if is_chosen(deployed, stack)]
    evidence = {
        template.path: StackEvidence(
            prices=aws.prices(template) if aws is not None and prices is None else prices or Prices(),
            stores=aws.stores(template) if aws is not None else {},
        )
        for template in [*(before or ()), *after]
    }
    is_deployed = aws is not None and against == DEPLOYED
    drift = {template.path: aws.drift(template) for template in before or ()} if aws is not None and is_deployed else {}
    notes = list(dict.fromkeys(aws.notes)) if aws is not None else []
    if traffic is not None and before is not None:
        notes += _replayed(traffic, before, after, evidence)
    return explain(
        after,
        before,
        against=name,
        deployed=against == DEPLOYED,
        evidence_of=lambda template: evidence[template.path],
        drift_of=lambda template: drift.get(template.path, ()),
        notes=notes,
        with_prices=prices is None or bool(prices.source),
    )


def _replayed(
    traffic: Path,
    before: Sequence[StackTemplate],
    after: Sequence[StackTemplate],
    evidence: Mapping[str, StackEvidence],
) -> list[str]:
    """Yield a line for each endpoint with the cost of recorded traffic after and before the change."""
    try:
        from .replay import replayed_lines
    except ModuleNotFoundError:
        raise failed(f"Replaying traffic is an extra: {installing('local')}") from None
    prices = {path: each.prices.hosting for path, each in evidence.items()}
    return list(replayed_lines(traffic, before, after, prices))


def is_elsewhere(stack: StackTemplate, account: Account) -> bool:
    """Return whether a stack belongs to another account."""
    return stack.account is not None and stack.account != account.id


def refuse_other_accounts(stacks: Sequence[StackTemplate], account: Account) -> None:
    """Refuse stacks of other accounts, which the account cannot query.

    Raises:
        ExplanationError: if there are any; names them.
    """
    if elsewhere := [stack for stack in stacks if is_elsewhere(stack, account)]:
        names = ", ".join(f"{stack.path} ({stack.account})" for stack in elsewhere)
        raise ExplanationError(
            f"the credentials belong to account {account.id}, but these stacks belong to other accounts: {names}. "
            "Choose the stacks of one account with --stack, and its credentials with --profile"
        )


class _Lookup:
    """Reads stacks' templates, artifact stores, and prices from AWS; ``notes`` lists failures."""

    def __init__(self, account: Account, store: str | None) -> None:
        """Create a lookup; ``store`` is the bucket of all artifacts, ``deployed`` for the jobs' buckets, or None."""
        self._account, self._store = account, store
        self._deployed = DeployedTemplates(lambda region: account.client("cloudformation", region))
        self._contents: dict[str, StoreContents] = {}
        self.notes: list[str] = []

    def deployed(self, stacks: list[StackTemplate]) -> list[StackTemplate]:
        """Return the deployed stacks with their deployed templates."""
        refuse_other_accounts(stacks, self._account)
        return [
            replace(stack, template=template)
            for stack in stacks
            if (template := self._deployed.template(stack.stack_name, stack.region, stack.parents)) is not None
        ]

    def drift(self, stack: StackTemplate) -> Sequence[DriftReport]:
        """Return what was removed or changed by hand of a deployed stack."""
        region = stack.region or self._account.region
        try:
            deployed = self._deployed.stack(stack.stack_name, stack.region, stack.parents)
        except ClientError as error:
            if code_of(error) not in DENIED:
                raise
            self.notes.append(f"{stack.path} was not compared with the account: {error.operation_name} is denied.")
            return ()
        if deployed is None or deployed.status.endswith("_IN_PROGRESS"):
            self.notes.append(f"{stack.path} is being deployed, and was not compared with the account.")
            return ()
        found = drift_of(
            deployed,
            partial(self._account.client, region=region),
            exported=lambda name: self._deployed.exported(name, stack.region),
        )
        self.notes += [f"{stack.path} was not compared with the account completely: {gap}." for gap in found.not_seen]
        return [DriftReport.model_validate(each.model_dump()) for each in found.resources]

    def prices(self, stack: StackTemplate) -> Prices:
        """Return the prices of the stack's Region; none, with a note, if they cannot be read."""
        region = stack.region or self._account.region
        if region is None:
            self.notes.append(f"No prices for {stack.path}: its Region is known only at deployment. Use --region.")
            return Prices()
        hosting = self._account.prices(region)
        training = self._account.prices(region, "Training") if Template(stack.template).of_type(TRAINING_JOB) else {}
        if hosting is None or training is None:
            self.notes.append("No prices: AWS denies pricing:GetProducts. State prices with --prices FILE.")
            return Prices()
        return Prices(hosting, training, source=f"AWS Price List of {region}")

    def stores(self, stack: StackTemplate) -> dict[str, StoreContents]:
        """Return the contents of the stores of the stack's jobs and references, by logical ID."""
        jobs = Template(stack.template).of_type(*JOBS, OPTIMIZED_ARTIFACT)
        if self._store is None or not jobs:
            return {}
        if self._store != DEPLOYED:
            return {job.logical_id: self._contents_of(self._store) for job in jobs}
        if is_elsewhere(stack, self._account):
            self.notes.append(
                f"The stores of {stack.path} were not searched: the stack belongs to account {stack.account}."
            )
            return {}
        stores = {job.logical_id: self._store_of(stack, job) for job in jobs}
        return {name: store for name, store in stores.items() if store is not None}

    def _store_of(self, stack: StackTemplate, job: Resource) -> StoreContents | None:
        """Return a job's store, given by its name, as a resource of the stack, or as another stack's export."""
        name: str | None = None
        match job.get("Bucket"):
            case str(bucket):
                name = bucket
            case {"Ref": str(logical_id)} if logical_id in object_in(stack.template.get("Resources")):
                name = self._deployed.physical_id(stack.stack_name, stack.region, logical_id, stack.parents)
                if name is None:
                    return StoreContents("that this deployment creates", {})
            case {"Fn::ImportValue": str(export)}:
                name = self._deployed.exported(export, stack.region)
        if name is None:
            self.notes.append(f"The store of {job.label} in {stack.path} is unknown. Name it with --store BUCKET.")
            return None
        return self._contents_of(name)

    def _contents_of(self, bucket: str) -> StoreContents:
        if bucket not in self._contents:
            stored: dict[str, StoredArtifact] = {}
            past: list[PastJob] = []
            # Not as a list: a large store's artifacts take hundreds of megabytes.
            for artifact in self._account.inventory(bucket).all():
                stored[artifact.key] = StoredArtifact(artifact.state.value, artifact.detail, artifact.made_at)
                manifest: Mapping[str, Any] = artifact.manifest or {}
                seconds = manifest.get("duration_seconds")
                if artifact.is_complete and isinstance(seconds, int | float):
                    kind, billed = (
                        JobKind.of(artifact.description, manifest.get("request") or {}),
                        manifest.get("billable_seconds"),
                    )
                    past.append(
                        PastJob(kind, float(seconds), float(billed) if isinstance(billed, int | float) else None)
                    )
            self._contents[bucket] = StoreContents(bucket, stored, tuple(past))
        return self._contents[bucket]
