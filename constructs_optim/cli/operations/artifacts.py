"""``constructs-optim artifacts``: the artifacts of a store."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.filesize import decimal

from constructs_optim.explanation.formatting import counted
from constructs_optim.operations.artifacts import Artifact, ArtifactInventory, State, verify
from constructs_optim.operations.jobs import Job
from constructs_optim.operations.pruning import Pruner, Pruning
from constructs_optim.operations.stacks import Stacks

from ..aws import Account, Bucket, Profile, Region, failed
from ..commands import Commands
from ..presentation import (
    JsonOption,
    YesOption,
    confirm,
    description,
    owner_name,
    print_fields,
    print_json,
    print_table,
    refuse_prompt,
    say,
    say_hidden_owners,
    working,
)

artifacts_app = Commands(help="List, show, verify, and prune the artifacts of a store.")

_SHORT = 12
_RECENT = dt.timedelta(days=30)
_SPAN = re.compile(r"(\d{1,5})(s|min|h|d|w)")
_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _time_span(span: str) -> dt.timedelta:
    matched = _SPAN.fullmatch(span)
    if matched is None:
        raise typer.BadParameter(f"{span!r} is not a time span. Use a number and s, min, h, d, or w: 30d")
    return dt.timedelta(**{_UNITS[matched[2]]: int(matched[1])})


Key = Annotated[str, typer.Argument(help="Key of the artifact, or its first characters.")]


@artifacts_app.command("list")
def list_command(bucket: Bucket, region: Region = None, profile: Profile = None, as_json: JsonOption = False) -> None:
    """List the artifacts of a store with their state, size, and number of owners.

    The table omits released artifacts that have no files, because the store keeps only their number of attempts. Those
    whose job failed are listed for 30 days, with the reason.

    Examples:
        constructs-optim artifacts list --store ml-artifacts
    """
    with working(f"Reading {bucket}"):
        inventory = Account(profile, region).inventory(bucket)
        summaries, rows = list[dict[str, object]](), list[list[str]]()
        # One at a time, because a large store's artifacts take hundreds of megabytes.
        for artifact in inventory.all():
            if as_json:
                summaries.append(artifact.summary())
            elif not artifact.is_cleared or _failed_recently(artifact):
                rows.append(_row(artifact))
    if as_json:
        print_json({"artifacts": summaries, "warnings": inventory.warnings})
        return
    if rows:
        print_table(["Key", "Size", "Built (UTC)", "Owners", "State", "Recipe"], rows, long=2, status="State")
        say_hidden_owners(inventory)
    else:
        say(f"No artifacts in {bucket}.")
    _warn(inventory.warnings)


@artifacts_app.command("show")
def show_command(
    key: Key, bucket: Bucket, region: Region = None, profile: Profile = None, as_json: JsonOption = False
) -> None:
    """Show one artifact: its records, its files, and its owners.

    Examples:
        constructs-optim artifacts show 80adc17f4177 --store ml-artifacts
    """
    with working(f"Reading {bucket}"):
        inventory = Account(profile, region).inventory(bucket)
        artifact = inventory.get(_full_key(inventory, key))
    if artifact is None:
        raise failed(f"{key} was removed while the command read the store.")
    if as_json:
        print_json({**artifact.to_json(), "warnings": inventory.warnings})
        return
    print_fields(_fields(artifact))
    if artifact.files:
        rows = [[str(file.attempt), decimal(file.size), file.etag, file.name] for file in artifact.files]
        say("")
        print_table(["Attempt", "Size", "ETag", "File"], rows)
    say_hidden_owners(inventory)
    _warn(inventory.warnings)


@artifacts_app.command("verify")
def verify_command(
    bucket: Bucket,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys, or their first characters. Default: all.")] = None,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Compare artifacts with their manifests.

    Exits with status 1 if an artifact is damaged.

    Examples:
        constructs-optim artifacts verify --store ml-artifacts
        constructs-optim artifacts verify 80adc17f4177 --store ml-artifacts
    """
    with working(f"Verifying {bucket}"):
        inventory = Account(profile, region).inventory(bucket)
        chosen = [_full_key(inventory, key) for key in keys or []]
        artifacts = map(inventory.get, chosen) if chosen else inventory.all()
        results = [
            verify(inventory.store, artifact)
            for artifact in artifacts
            if artifact is not None and (chosen or not artifact.is_cleared)
        ]
    if as_json:
        checked = [{"sound": result.is_sound, **vars(result)} for result in results]
        print_json({"artifacts": checked, "warnings": inventory.warnings})
    else:
        for result in results:
            key = result.artifact_key[:_SHORT]
            if result.not_checked is not None:
                say(f"{key} not checked: {result.not_checked}")
            elif result.is_sound:
                say(f"{key} sound: {counted(result.file_count, 'file')}", style="green")
            for finding in result.findings:
                say(f"{key} {finding.damage}: {finding.file} ({finding.detail})", style="red")
        _warn(inventory.warnings)
    # A named artifact must be complete; without names, jobs may still be running.
    if any(result.findings or (chosen and not result.is_sound) for result in results):
        raise typer.Exit(1)


@artifacts_app.command("prune")
def prune_command(
    bucket: Bucket,
    older_than: Annotated[
        dt.timedelta,
        typer.Option(metavar="AGE", help="Minimum age since the last reference: 30d, 12h, 0d.", parser=_time_span),
    ] = "30d",  # type: ignore[assignment]
    delete: Annotated[bool, typer.Option("--delete", help="Remove them. Default: list them only.")] = False,
    yes: YesOption = False,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Remove artifacts that nothing refers to, and the records of deleted stacks.

    Without --delete, lists what would be removed.

    Examples:
        constructs-optim artifacts prune --store ml-artifacts
        constructs-optim artifacts prune --store ml-artifacts --older-than 90d
          --delete
    """
    if delete:
        refuse_prompt(as_json=as_json, yes=yes)
    account = Account(profile, region)
    with working(f"Reading {bucket}"):
        inventory = account.inventory(bucket)
        s3 = account.client("s3", account.region_of(bucket))
        stacks = Stacks(account.id, lambda region: account.client("cloudformation", region))
        pruner = Pruner(s3, inventory, stacks, older_than=older_than, now=dt.datetime.now(dt.UTC))
        pruning = pruner.survey()
        versioned = inventory.is_versioned()
    if not as_json:
        _print_pruning(pruning, versioned=versioned)
    is_empty = not (pruning.removals or pruning.gone_owners)
    if delete and not is_empty:
        confirm("Remove all of this?", "removed", yes=yes)
        with working("Removing artifacts"):
            pruning = pruner.remove(pruning)
    if as_json:
        print_json({"bucket": bucket, "deleted": delete, "versioned": versioned, **pruning.to_json()})
    elif delete and not is_empty:
        _print_removed(pruning)
    elif not is_empty:
        say("Nothing was removed. Add --delete to remove all of this.")


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        say(f"Warning: {warning}.", style="yellow")


def _full_key(inventory: ArtifactInventory, prefix: str) -> str:
    """Return the unique key that begins with ``prefix``; end the command if there are none or several."""
    keys = inventory.keys(prefix.lower())
    if len(keys) == 1:
        return keys[0]
    if not keys:
        raise failed(
            f"{inventory.bucket} has no artifact whose key begins with {prefix}. "
            f"`constructs-optim artifacts list --store {inventory.bucket}` lists the keys."
        )
    raise failed("\n  ".join([f"{len(keys)} keys begin with {prefix}. Type more of the key:", *keys]))


def _failed_recently(artifact: Artifact) -> bool:
    return artifact.failure is not None and dt.datetime.now(dt.UTC) - artifact.changed_at < _RECENT


def _row(artifact: Artifact) -> list[str]:
    return [
        artifact.key[:_SHORT],
        decimal(artifact.size_bytes),
        (artifact.made_at or "")[:16].replace("T", " "),
        str(len(artifact.owners)),
        artifact.state if artifact.state is State.ready else f"{artifact.state}: {artifact.detail}",
        description(artifact.description),
    ]


def _fields(artifact: Artifact) -> list[tuple[str, str]]:
    manifest = artifact.manifest or {}
    claim = artifact.claim
    rows = [
        ("Key", artifact.key),
        ("Recipe", description(artifact.description)),
        ("State", f"{artifact.state}: {artifact.detail}"),
        ("Size", f"{decimal(artifact.size_bytes)} in {counted(len(artifact.files), 'file')}"),
        ("Built", artifact.made_at or ""),
        ("Model data", manifest.get("model_data_uri", "")),
        ("Image", manifest.get("image", "")),
        ("Job", manifest.get("job_name") or (_job(artifact.job) if artifact.job else "")),
        ("Source", str((manifest.get("source") or (claim.source if claim else {})).get("identity", ""))),
        ("Attempt", str(claim.attempt) if claim else ""),
        ("Last changed", artifact.changed_at.isoformat(timespec="seconds")),
        ("Owners", "\n".join(owner_name(owner) for owner in artifact.owners) or "none"),
    ]
    return [(name, value) for name, value in rows if value]


def _job(job: Job) -> str:
    return f"{job.name} {job.status}" + (f": {job.failure_reason}" if job.failure_reason else "")


def _print_pruning(pruning: Pruning, *, versioned: bool | None) -> None:
    if pruning.removals:
        rows = [
            [
                removal.artifact.key[:_SHORT],
                removal.artifact.state,
                decimal(removal.artifact.size_bytes),
                removal.unused_since.isoformat(sep=" ", timespec="minutes")[:16],
                description(removal.artifact.description),
            ]
            for removal in pruning.removals
        ]
        print_table(["Key", "State", "Size", "Unused since (UTC)", "Recipe"], rows, status="State")
    for gone in pruning.gone_owners:
        of = f" of {', '.join(key[:_SHORT] for key in gone.keys)}" if gone.keys else ""
        say(f"Deleted stack: {owner_name(gone.owner)}{of}" + (", with its record" if gone.record else ""))
    for key, reason in pruning.kept.items():
        say(f"Kept: {key[:_SHORT]}, {reason}")
    _warn(pruning.warnings)
    for note in pruning.notes:
        say(f"Note: {note}. The command counts their owners as existing.")
    say(f"{counted(len(pruning.removals), 'unreferenced artifact')}: {decimal(pruning.freed_bytes)}.")
    if versioned and pruning.removals:
        say("The bucket is versioned: removed files use space until the lifecycle rule expires their versions.")


def _print_removed(pruning: Pruning) -> None:
    for removal in pruning.removals:
        if removal.skipped:
            say(f"Kept: {removal.artifact.key[:_SHORT]}, {removal.skipped}")
    artifacts = counted(sum(removal.removed for removal in pruning.removals), "artifact")
    owners = counted(len(pruning.gone_owners), "owner")
    say(f"Removed {artifacts} ({decimal(pruning.freed_bytes)}) and {owners} of deleted stacks.")
