"""``constructs-optim jobs``: the account's optimization and training jobs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from constructs_optim.explanation.formatting import duration
from constructs_optim.operations.jobs import Job, JobStatus, describe_job, list_jobs, stop_job, watch_job
from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.evaluation.recommendation import Recommendation

from ..aws import Account, OptionalBucket, Profile, Region, failed
from ..commands import Commands
from ..presentation import FormatOption, YesOption, confirm, owner_name, print_json, print_table, say, say_hidden_owners

jobs_app = Commands()

# The limit of a job without one (API reference, StoppingCondition).
_DEFAULT_RUNTIME_SECONDS = 86_400

Name = Annotated[str, typer.Argument(help="The job's name, as `jobs list` prints it.")]


@jobs_app.command("list")
def list_command(
    status: Annotated[
        list[JobStatus] | None,
        typer.Option(case_sensitive=False, help="Only jobs of this status: " + ", ".join(JobStatus) + ". Repeatable."),
    ] = None,
    bucket: OptionalBucket = None,
    region: Region = None,
    profile: Profile = None,
    format: FormatOption = "table",
) -> None:
    """List the optimization and training jobs that this library started, newest first.

    With --store, jobs of that store show the owners of their artifacts; running jobs without owners are marked as
    orphaned.
    """
    account = Account(profile, region)
    inventory = account.inventory(bucket) if bucket else None
    jobs = list_jobs(account.sagemaker(bucket), statuses=status or ())
    if inventory is not None:
        jobs = [inventory.with_owners(job) for job in jobs]
    now = dt.datetime.now(dt.UTC)
    if format == "json":
        print_json([job.to_json(now) for job in jobs])
        return
    if not jobs:
        say("There are no jobs of this library" + (" in that status." if status else "."))
        return
    columns = ["status", "age", "ran for", "kind", "instance type", "attempt", "job", *(["owners"] if bucket else [])]
    rows = [
        [
            job.status,
            duration((now - job.created_at).total_seconds()),
            duration(job.running_seconds(now)) if job.started_at else "",
            job.kind.removesuffix(" job"),
            job.instance_type or "",
            str(job.attempt),
            job.name,
            *([_owners(job)] if bucket else []),
        ]
        for job in jobs
    ]
    print_table(columns, rows, long=2 if bucket else 1)
    if inventory is not None:
        say_hidden_owners(inventory)


@jobs_app.command("watch")
def watch_command(
    name: Name,
    poll_seconds: Annotated[float, typer.Option(min=0.1, help="The interval of polls.")] = 15.0,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Follow a job until it ends. Exit status 1 when it failed or was stopped. Ctrl-C leaves the job running."""
    try:
        last = _follow(Account(profile, region), name, poll_seconds)
    except KeyboardInterrupt:
        say(f"Stopped watching; {name} continues.")
        raise typer.Exit(130) from None
    if last is None:
        raise failed(_unknown(name))
    if not last.ended:
        raise failed(f"{name} was deleted while it was watched.")
    reason = f": {last.failure_reason}" if last.failure_reason else ""
    say(f"{name} {last.status} after {duration(last.running_seconds(dt.datetime.now(dt.UTC)))}{reason}")
    raise typer.Exit(0 if last.status == JobStatus.completed else 1)


@jobs_app.command("stop")
def stop_command(
    name: Name, bucket: OptionalBucket = None, yes: YesOption = False, region: Region = None, profile: Profile = None
) -> None:
    """Stop a job. With --store, print the owners that wait for its artifact first."""
    account = Account(profile, region)
    inventory = account.inventory(bucket) if bucket else None
    sagemaker = account.sagemaker(bucket)
    job = describe_job(sagemaker, name)
    if job is None:
        raise failed(_unknown(name))
    if inventory is not None:
        job = inventory.with_owners(job)
    if job.ended or job.status == JobStatus.stopping:
        say(f"{name} is {job.status} already; there is nothing to stop.")
        return
    ran = f", for {duration(seconds)}" if (seconds := job.running_seconds(dt.datetime.now(dt.UTC))) else ""
    say(f"{name} is {job.status}{ran}.")
    if bucket:
        say(_consequence(job))
    confirm("Stop it?", "stopped", yes=yes)
    stopped = stop_job(sagemaker, name)
    say(f"{name} is {stopped.status if stopped else 'gone'}.")


def _owners(job: Job) -> str:
    if job.owners is None:
        return "of another store"
    if job.orphaned:
        return "none: orphaned"
    return "\n".join(owner_name(owner) for owner in job.owners) or "none"


def _consequence(job: Job) -> str:
    if job.owners is None:
        return "It writes to another store, so its owners are not known."
    if not job.owners:
        return "Nobody waits for it."
    waiting = "\n".join(f"  {owner_name(owner)}" for owner in job.owners)
    return f"It makes {job.artifact_key} for\n{waiting}\nA deployment that waits for it fails and is rolled back."


def _unknown(name: str) -> str:
    return (
        f"There is no job {name} of this library in this account and region: `constructs-optim jobs list` names them."
    )


def _follow(account: Account, name: str, poll_seconds: float) -> Job | None:
    """Show a progress bar up to the job's time limit; without a terminal, a line for each status."""
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[time]}"))
    last: Job | None = None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=None, time="")
        for job in watch_job(account.sagemaker(), name, poll_seconds=poll_seconds):
            limit = job.max_runtime_seconds or _DEFAULT_RUNTIME_SECONDS
            now = dt.datetime.now(dt.UTC)
            seconds = job.running_seconds(now)
            ran = f"{duration(seconds)} of at most {duration(limit)}"
            progress.update(bar, description=f"{name} {job.status}", completed=seconds, total=limit, time=ran)
            if not console.is_terminal and (last is None or job.status != last.status):
                say(f"{now.isoformat(timespec='seconds')} {job.status}, ran {ran}")
            last = job
    return last


@jobs_app.command("recommendation")
def recommendation_command(
    name: Annotated[str, typer.Argument(help="The recommendation job's name, as the stack's JobName output has it.")],
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="The file that is written; one that is there is not overwritten.")
    ] = Path("recommendation.json"),
    choose: Annotated[int, typer.Option(min=1, metavar="N", help="Which recommendation, 1 being the first.")] = 1,
    reason: Annotated[str | None, typer.Option(help="Why this one; by default its place in the ranking.")] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Write what a recommendation job recommends into a file, to review, commit and deploy."""
    if output.exists():
        raise failed(f"{output} exists already: choose another file with --output.")
    job = Account(profile, region).sagemaker().describe_ai_recommendation_job(AIRecommendationJobName=name)
    answers = job.get("Recommendations") or []
    if job["AIRecommendationJobStatus"] != "Completed" or not answers:
        reason_why = f": {job['FailureReason']}" if job.get("FailureReason") else ""
        raise failed(f"{name} is {job['AIRecommendationJobStatus']} and recommends nothing{reason_why}.")
    if choose > len(answers):
        raise failed(f"{name} has {len(answers)} recommendations: --choose is at most that.")
    try:
        recommendation = Recommendation.of_job(job, chosen=choose, reason=reason)
    except RecipeError as error:
        raise failed(
            f"What {name} recommends is not what this release knows, and nothing was written: {error}"
        ) from None
    output.write_text(recommendation.model_dump_json(indent=2) + "\n", encoding="utf-8")
    performance = recommendation.expected_performance
    expected = ", ".join(f"{each.metric} {each.value} {each.unit or ''}".strip() for each in performance)
    per_instance = recommendation.copies_per_instance
    say(
        f"{output} has recommendation {choose} of {len(answers)}: {recommendation.instance_count} x "
        f"{recommendation.instance_type}, copies on each: {per_instance}; expected: {expected or 'not known'}."
    )
    say(
        f"Review and commit it, approve {recommendation.model_package_arn}, and serve it with "
        f'RecommendedEndpoint(recommendation=Recommendation.from_file("{output.name}")).'
    )
