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
from ..output_files import writing
from ..presentation import (
    OUTPUT_PANEL,
    JsonOption,
    YesOption,
    confirm,
    owner_name,
    print_json,
    print_table,
    refuse_prompt,
    say,
    say_hidden_owners,
    working,
)

jobs_app = Commands(help="List, watch, and stop optimization and training jobs.")

# The time limit of a job that sets none (API reference, StoppingCondition).
_DEFAULT_RUNTIME_SECONDS = 86_400

Name = Annotated[str, typer.Argument(help="Name of the job, as `jobs list` prints it.")]


@jobs_app.command("list")
def list_command(
    status: Annotated[
        list[JobStatus] | None,
        typer.Option(
            case_sensitive=False, help="Only jobs with this status: " + ", ".join(JobStatus) + ". Repeatable."
        ),
    ] = None,
    bucket: OptionalBucket = None,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs that this library started, newest first, with the reasons of those that failed.

    With --store, jobs of that store show the owners of their artifacts. Running jobs without owners are marked as
    orphaned.

    Examples:
        constructs-optim jobs list --status FAILED
        constructs-optim jobs list --store ml-artifacts --json
    """
    account = Account(profile, region)
    with working("Listing jobs"):
        inventory = account.inventory(bucket) if bucket else None
        jobs = list_jobs(account.sagemaker(bucket), statuses=status or ())
        if inventory is not None:
            jobs = [inventory.with_owners(job) for job in jobs]
    now = dt.datetime.now(dt.UTC)
    if as_json:
        print_json([job.to_json(now) for job in jobs])
        return
    if not jobs:
        say("No jobs with this status." if status else "No jobs of this library in this account and Region.")
        return
    more = [*(["Owners"] if bucket else []), *(["Reason"] if any(job.failure_reason for job in jobs) else [])]
    columns = ["Status", "Age", "Ran for", "Kind", "Instance type", "Attempt", "Job", *more]
    rows = [
        [
            job.status,
            duration(job.age_seconds(now)),
            duration(job.running_seconds(now)) if job.started_at else "",
            job.kind.removesuffix(" job"),
            job.instance_type or "",
            str(job.attempt),
            job.name,
            *([_owners(job)] if bucket else []),
            *([job.failure_reason or ""] if "Reason" in more else []),
        ]
        for job in jobs
    ]
    print_table(columns, rows, long=1 + len(more), status="Status")
    if inventory is not None:
        say_hidden_owners(inventory)


@jobs_app.command("watch")
def watch_command(
    name: Name,
    poll_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds between two polls.")] = 15.0,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a job until it ends. Ctrl-C leaves the job running.

    Exits with status 1 if the job fails or is stopped.

    Examples:
        constructs-optim jobs watch optim-7c3c225b1efb-1
    """
    try:
        last = _follow(Account(profile, region), name, poll_seconds, quiet=as_json)
    except KeyboardInterrupt:
        say(f"No longer watching {name}. The job continues.", err=True)
        raise typer.Exit(130) from None
    if last is None:
        raise failed(_unknown(name))
    if not last.ended:
        raise failed(f"{name} was deleted while the command watched it.")
    reason = f": {last.failure_reason}" if last.failure_reason else ""
    now = dt.datetime.now(dt.UTC)
    if as_json:
        print_json(last.to_json(now))
    else:
        say(f"{name} {last.status} after {duration(last.running_seconds(now))}{reason}")
    raise typer.Exit(0 if last.status == JobStatus.completed else 1)


@jobs_app.command("stop")
def stop_command(
    name: Name,
    bucket: OptionalBucket = None,
    yes: YesOption = False,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a job. With --store, first show the owners that wait for its artifact.

    Examples:
        constructs-optim jobs stop optim-7c3c225b1efb-1 --store ml-artifacts
    """
    refuse_prompt(as_json=as_json, yes=yes)
    account = Account(profile, region)
    with working("Looking up the job"):
        inventory = account.inventory(bucket) if bucket else None
        sagemaker = account.sagemaker(bucket)
        job = describe_job(sagemaker, name)
        if job is not None and inventory is not None:
            job = inventory.with_owners(job)
    if job is None:
        raise failed(_unknown(name))
    now = dt.datetime.now(dt.UTC)
    if job.ended or job.status == JobStatus.stopping:
        if as_json:
            print_json(job.to_json(now))
        else:
            say(f"{name} is already {job.status}.")
        return
    if not as_json:
        ran = f", running for {duration(seconds)}" if (seconds := job.running_seconds(now)) else ""
        say(f"{name} is {job.status}{ran}.")
        if bucket:
            say(_consequence(job))
    confirm("Stop the job?", "stopped", yes=yes)
    stopped = stop_job(sagemaker, name)
    if as_json:
        print_json(stopped.to_json(now) if stopped else None)
    else:
        say(f"{name} is {stopped.status if stopped else 'deleted'}.")


def _owners(job: Job) -> str:
    if job.owners is None:
        return "in another store"
    if job.orphaned:
        return "none: orphaned"
    return "\n".join(owner_name(owner) for owner in job.owners) or "none"


def _consequence(job: Job) -> str:
    if job.owners is None:
        return "It writes to another store, so its owners are unknown."
    if not job.owners:
        return "No stack waits for it."
    waiting = "\n".join(f"  {owner_name(owner)}" for owner in job.owners)
    return f"It builds {job.artifact_key} for\n{waiting}\nA deployment that waits for it fails and rolls back."


def _unknown(name: str) -> str:
    return f"This library has no job {name} in this account and Region. `constructs-optim jobs list` lists its jobs."


def _follow(account: Account, name: str, poll_seconds: float, *, quiet: bool) -> Job | None:
    """Show a progress bar up to the job's time limit; without a terminal, a line for each status unless ``quiet``."""
    console = Console(stderr=True)
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
            if not (quiet or console.is_terminal) and (last is None or job.status != last.status):
                say(f"{now.isoformat(timespec='seconds')} {job.status}, ran {ran}")
            last = job
    return last


@jobs_app.command("recommendation")
def recommendation_command(
    name: Annotated[str, typer.Argument(help="Name of the recommendation job: the stack's output JobName.")],
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="File to write. Must not exist.", rich_help_panel=OUTPUT_PANEL)
    ] = Path("recommendation.json"),
    choose: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="Rank of the recommendation to write.")] = 1,
    reason: Annotated[str | None, typer.Option(help="Why you choose it. Default: its rank.")] = None,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Write the result of a recommendation job to a file that you review, commit, and deploy.

    Examples:
        constructs-optim jobs recommendation my-job --output recommendation.json
    """
    if output.exists():
        raise failed(f"{output} already exists. Choose another file with --output.")
    job = Account(profile, region).sagemaker().describe_ai_recommendation_job(AIRecommendationJobName=name)
    answers = job.get("Recommendations") or []
    if job["AIRecommendationJobStatus"] != "Completed" or not answers:
        reason_why = f": {job['FailureReason']}" if job.get("FailureReason") else ""
        raise failed(f"{name} is {job['AIRecommendationJobStatus']} and has no recommendation{reason_why}.")
    if choose > len(answers):
        raise failed(f"{name} has {len(answers)} recommendations. Use --choose 1 to --choose {len(answers)}.")
    try:
        recommendation = Recommendation.of_job(job, chosen=choose, reason=reason)
    except RecipeError as error:
        raise failed(f"This release does not know what {name} recommends, and writes nothing: {error}") from None
    with writing(output):
        output.write_text(recommendation.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json({"file": str(output), "recommendation": recommendation})
        return
    performance = recommendation.expected_performance
    expected = ", ".join(f"{each.metric} {each.value} {each.unit or ''}".strip() for each in performance)
    per_instance = recommendation.copies_per_instance
    say(
        f"Wrote recommendation {choose} of {len(answers)} to {output}: {recommendation.instance_count} x "
        f"{recommendation.instance_type}, copies on each: {per_instance}. Expected: {expected or 'unknown'}."
    )
    say(
        f"Review and commit it, approve {recommendation.model_package_arn}, and serve it with "
        f'RecommendedEndpoint(recommendation=Recommendation.from_file("{output.name}")).'
    )
