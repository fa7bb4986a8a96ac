"""``constructs-optim lock``: what an app records of containers and models, beside what the catalog prefers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.recipe.catalog import images, models
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Entry, Lock, RecordedModel
from constructs_optim.recipe.servers import by_name

from ..presentation import print_table, say
from .model_lookup import look_up


def lock_command(
    requirements: Annotated[list[str] | None, typer.Argument(help="The entries. Default: all.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Record what the catalog or the hub has now.")] = False,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Look up an id of Hugging Face or an S3 prefix, and record it. Repeatable."),
    ] = None,
    revision: Annotated[str, typer.Option(help="The branch, tag or commit to look up on Hugging Face.")] = "main",
    file: Annotated[Path, typer.Option(help="The app's lock file.")] = Path(LOCK_FILE),
) -> None:
    """Show what an app records in optim.lock.json, update it to what the catalog prefers, and look up models.

    An updated container of jobs changes the keys of its artifacts: the next deployment builds them again. An updated
    container of servers, or other arguments, update the endpoints that they serve.
    """
    lock = read_lock(file)
    if model:
        _record_models(lock, model, revision, file, update=update)
        return
    recorded = lock.entries()
    if unknown := sorted(set(requirements or ()) - set(recorded)):
        raise typer.BadParameter(f"{file} has no entry {', '.join(unknown)}; it has {', '.join(recorded) or 'none'}")
    preferred = {name: _preferred(name) or recorded[name] for name in requirements or recorded}
    if update:
        changed = {name: entry for name, entry in preferred.items() if entry != recorded[name]}
        if changed:
            Lock.with_entries({**recorded, **changed}).write(file)
        for name, entry in changed.items():
            say(f"{name}: {_shown(recorded[name])} -> {_shown(entry)}")
        say(f"{len(changed)} of {len(preferred)} entries updated in {file}.")
        return
    rows = [[name, _shown(recorded[name]), _shown(entry)] for name, entry in preferred.items()]
    print_table(["entry", "recorded", "preferred by the catalog"], rows)


def _record_models(lock: Lock, names: list[str], revision: str, file: Path, *, update: bool) -> None:
    found = {name: look_up(name, revision) for name in names}
    moved = {name for name, model in found.items() if name in lock.models and lock.models[name] != model}
    recorded = {f"models.{name}": model for name, model in found.items() if update or name not in moved}
    Lock.with_entries({**lock.entries(), **recorded}).write(file)
    for name, model in found.items():
        if name in moved and not update:
            say(f"{name}: {_shown(lock.models[name])} is recorded, and {_shown(model)} is new: --update records it")
        else:
            say(f"{name}: {_shown(model)}")


def _shown(entry: Entry) -> str:
    match entry:
        case str():
            return entry
        case RecordedModel():
            size = f"{entry.parameters_billion:g} billion parameters" if entry.parameters_billion else "unknown size"
            return f"{entry.revision}, {size}" if entry.revision is not None else size
        case _:
            return json.dumps({**entry.arguments, **entry.environment})


def _preferred(entry: str) -> Entry | None:
    """What the catalog prefers for an entry of the lock file."""
    part, _, name = entry.partition(".")
    if part == "models":
        return None
    if part == "tuning":
        model_id, _, generation = name.partition("@")
        row = models.find(model_id)
        return row.recipe.tuned(generation) if row is not None and row.recipe is not None else None
    requirement, _, region = name.partition("@")
    server, _, needs = requirement.rpartition(":")
    capabilities = () if needs == images.SERVING else needs.split("+")
    servers = [server] if server else by_name()
    capable = images.making(capabilities) if part == "jobs" else images.serving(capabilities, servers)
    image = images.choose(capable, "", region or None, {}).image
    return image.name if image is not None else None


def read_lock(file: Path) -> Lock:
    """The lock file's content; ends the command where it is not a lock file."""
    try:
        return Lock.read(file)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
