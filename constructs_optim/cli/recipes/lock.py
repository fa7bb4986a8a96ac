"""``constructs-optim lock``: the containers that an app records, beside those that the catalog prefers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim.recipe.servers import by_name

from ..presentation import print_table, say


def lock_command(
    requirements: Annotated[list[str] | None, typer.Argument(help="The entries. Default: all.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Record the containers that the catalog prefers.")] = False,
    file: Annotated[Path, typer.Option(help="The app's lock file.")] = Path(LOCK_FILE),
) -> None:
    """Show the containers that an app records in optim.lock.json, and update them to those that the catalog prefers.

    An updated container of jobs changes the keys of its artifacts: the next deployment builds them again. An updated
    container of servers updates the endpoints that it serves.
    """
    lock = read_lock(file)
    recorded = lock.entries()
    if unknown := sorted(set(requirements or ()) - set(recorded)):
        raise typer.BadParameter(f"{file} has no entry {', '.join(unknown)}; it has {', '.join(recorded) or 'none'}")
    preferred = {name: _preferred(name) or recorded[name] for name in requirements or recorded}
    if update:
        changed = {name: image for name, image in preferred.items() if image != recorded[name]}
        if changed:
            Lock.of({**recorded, **changed}).write(file)
        for name, image in changed.items():
            say(f"{name}: {recorded[name]} -> {image}")
        say(f"{len(changed)} of {len(preferred)} containers updated in {file}.")
        return
    rows = [[name, recorded[name], image] for name, image in preferred.items()]
    print_table(["container", "recorded", "preferred by the catalog"], rows)


def _preferred(entry: str) -> str | None:
    """The image that the catalog prefers for an entry of the lock file."""
    part, _, name = entry.partition(".")
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
