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
from constructs_optim.operations.pruning import Pruner, Pruning
from constructs_optim.operations.stacks import Stacks

from ..aws import Account, Bucket, Profile, Region, failed
from ..commands import Commands
from ..presentation import (
    FormatOption,
    YesOption,
    confirm,
    description,
    owner_name,
    print_fields,
    print_json,
    print_table,
    say,
    say_hidden_owners,
)

artifacts_app = Commands()

_SHORT = 12
_SPAN = re.compile(r"(\d{1,5})(s|min|h|d|w)")
_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _time_span(span: str) -> dt.timedelta:
    matched = _SPAN.fullmatch(span)
    if matched is None:
        raise typer.BadParameter(f"{span!r} is no time span; use a number and s, min, h, d or w: 30d")
    return dt.timedelta(**{_UNITS[matched[2]]: int(matched[1])})


Key = Annotated[str, typer.Argument(help="The artifact's key, or the beginning of it.")]


@artifacts_app.command("list")
def list_command(
    bucket: Bucket, region: Region = None, profile: Profile = None, format: FormatOption = "table"
) -> None:
    """List a store's artifacts, with their state, size and number of owners.

    The table omits released artifacts without files, of which only the number of attempts is kept.
    """
    inventory = Account(profile, region).inventory(bucket)
    if format == "json":
        summaries = [artifact.summary() for artifact in inventory.all()]
        print_json({"artifacts": summaries, "warnings": inventory.warnings})
        return
    # Rows, as the artifacts of a large store take up hundreds of megabytes.
    rows = [_row(artifact) for artifact in inventory.all() if not artifact.is_cleared]
    if rows:
        print_table(["key", "size", "made at (UTC)", "owners", "state", "description"], rows, long=2)
        say_hidden_owners(inventory)
    else:
        say(f"{bucket} holds no artifacts.")
    _warn(inventory.warnings)


@artifacts_app.command("show")
def show_command(
    key: Key, bucket: Bucket, region: Region = None, profile: Profile = None, format: FormatOption = "table"
) -> None:
    """Show one artifact: its records, its files and who refers to it."""
    inventory = Account(profile, region).inventory(bucket)
    artifact = inventory.get(_full_key(inventory, key))
    if artifact is None:
        raise failed(f"{key} has just been removed.")
    if format == "json":
        print_json({**artifact.to_json(), "warnings": inventory.warnings})
        return
    print_fields(_fields(artifact))
    if artifact.files:
        rows = [[str(file.attempt), decimal(file.size), file.etag, file.name] for file in artifact.files]
        print_table(["attempt", "size", "ETag", "file"], rows)
    say_hidden_owners(inventory)
    _warn(inventory.warnings)


@artifacts_app.command("verify")
def verify_command(
    bucket: Bucket,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys or their beginnings; all by default.")] = None,
    region: Region = None,
    profile: Profile = None,
    format: FormatOption = "table",
) -> None:
    """Check that artifacts are as their manifests say. Exit status 1 when one is damaged."""
    inventory = Account(profile, region).inventory(bucket)
    chosen = [_full_key(inventory, key) for key in keys or []]
    artifacts = map(inventory.get, chosen) if chosen else inventory.all()
    results = [
        verify(inventory.store, artifact)
        for artifact in artifacts
        if artifact is not None and (chosen or not artifact.is_cleared)
    ]
    if format == "json":
        checked = [{"sound": result.is_sound, **vars(result)} for result in results]
        print_json({"artifacts": checked, "warnings": inventory.warnings})
    else:
        for result in results:
            key = result.artifact_key[:_SHORT]
            if result.not_checked is not None:
                say(f"{key} not checked, {result.not_checked}")
            elif result.is_sound:
                say(f"{key} sound, {counted(result.file_count, 'file')}")
            for finding in result.findings:
                say(f"{key} {finding.damage}: {finding.file} ({finding.detail})")
        _warn(inventory.warnings)
    # A named artifact must be complete; without names, jobs may still be running.
    if any(result.findings or (chosen and not result.is_sound) for result in results):
        raise typer.Exit(1)


@artifacts_app.command("prune")
def prune_command(
    bucket: Bucket,
    older_than: Annotated[
        dt.timedelta,
        typer.Option(metavar="AGE", help="The minimum time without references: 30d, 12h, 0d.", parser=_time_span),
    ] = "30d",  # type: ignore[assignment]
    delete: Annotated[bool, typer.Option("--delete", help="Remove them. Default: only list them.")] = False,
    yes: YesOption = False,
    region: Region = None,
    profile: Profile = None,
    format: FormatOption = "table",
) -> None:
    """Remove artifacts that nothing refers to, and the records of stacks that are gone."""
    if delete and not yes and format == "json":
        raise typer.BadParameter("--delete prompts for confirmation; with --format json add --yes")
    account = Account(profile, region)
    inventory = account.inventory(bucket)
    s3 = account.client("s3", account.region_of(bucket))
    stacks = Stacks(account.id, lambda region: account.client("cloudformation", region))
    pruner = Pruner(s3, inventory, stacks, older_than=older_than, now=dt.datetime.now(dt.UTC))
    pruning = pruner.survey()
    versioned = inventory.is_versioned()
    if format == "table":
        _print_pruning(pruning, versioned=versioned)
    is_empty = not (pruning.removals or pruning.gone_owners)
    if delete and not is_empty:
        confirm("Remove this?", "removed", yes=yes)
        pruning = pruner.remove(pruning)
    if format == "json":
        print_json({"bucket": bucket, "deleted": delete, "versioned": versioned, **pruning.to_json()})
    elif delete and not is_empty:
        _print_removed(pruning)
    elif not is_empty:
        say("Nothing was removed: --delete does.")


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        say(f"warning: {warning}.")


def _full_key(inventory: ArtifactInventory, prefix: str) -> str:
    """The unique key that begins with ``prefix``; the command ends where there is none, or several."""
    keys = inventory.keys(prefix.lower())
    if len(keys) == 1:
        return keys[0]
    if not keys:
        raise failed(
            f"{inventory.bucket} has no artifact whose key begins with {prefix}: "
            f"`constructs-optim artifacts list --store {inventory.bucket}` lists them."
        )
    raise failed("\n  ".join([f"{len(keys)} keys begin with {prefix}; use a longer prefix:", *keys]))


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
        ("key", artifact.key),
        ("description", description(artifact.description)),
        ("state", f"{artifact.state}: {artifact.detail}"),
        ("size", f"{decimal(artifact.size_bytes)} in {counted(len(artifact.files), 'file')}"),
        ("made at", artifact.made_at or ""),
        ("model data", manifest.get("model_data_uri", "")),
        ("container image", manifest.get("image", "")),
        ("job", manifest.get("job_name") or (f"{artifact.job.name} {artifact.job.status}" if artifact.job else "")),
        ("source", str((manifest.get("source") or (claim.source if claim else {})).get("identity", ""))),
        ("attempt", str(claim.attempt) if claim else ""),
        ("last changed", artifact.changed_at.isoformat(timespec="seconds")),
        ("owners", "\n".join(owner_name(owner) for owner in artifact.owners) or "none"),
    ]
    return [(name, value) for name, value in rows if value]


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
        print_table(["key", "state", "size", "unused since (UTC)", "description"], rows)
    for gone in pruning.gone_owners:
        of = f" of {', '.join(key[:_SHORT] for key in gone.keys)}" if gone.keys else ""
        say(f"gone: {owner_name(gone.owner)}{of}" + (", with its record" if gone.record else ""))
    for key, reason in pruning.kept.items():
        say(f"kept: {key[:_SHORT]}, {reason}")
    _warn(pruning.warnings)
    for note in pruning.notes:
        say(f"note: {note}; their owners count as there.")
    say(f"{counted(len(pruning.removals), 'artifact')} that nothing refers to: {decimal(pruning.freed_bytes)}.")
    if versioned and pruning.removals:
        say("The bucket is versioned: what is removed takes up space until its lifecycle rule expires old versions.")


def _print_removed(pruning: Pruning) -> None:
    for removal in pruning.removals:
        if removal.skipped:
            say(f"left: {removal.artifact.key[:_SHORT]}, {removal.skipped}")
    artifacts = counted(sum(removal.removed for removal in pruning.removals), "artifact")
    owners = counted(len(pruning.gone_owners), "owner")
    say(f"Removed {artifacts}, {decimal(pruning.freed_bytes)}, and {owners} whose stack is gone.")
