"""``constructs-optim lock``: the containers that an app records, beside those that the catalog prefers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock

from ..presentation import print_table, say


def lock_command(
    requirements: Annotated[list[str] | None, typer.Argument(help="The entries. Default: all.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Record the containers that the catalog prefers.")] = False,
    file: Annotated[Path, typer.Option(help="The app's lock file.")] = Path(LOCK_FILE),
) -> None:
    """Show the containers that an app records in optim.lock.json, and update them to those that the catalog prefers.

    An updated container changes the keys of its artifacts: the next deployment builds them again.
    """
    lock = read_lock(file)
    if unknown := sorted(set(requirements or ()) - set(lock.containers)):
        raise typer.BadParameter(
            f"{file} has no entry {', '.join(unknown)}; it has {', '.join(lock.containers) or 'none'}"
        )
    preferred = dict[str, str]()
    for name in requirements or lock.containers:
        requirement, _, region = name.partition("@")
        capabilities = () if requirement == images.SERVING else requirement.split("+")
        image = images.select(capabilities, region or None)
        preferred[name] = image.name if image is not None else lock.containers[name]
    if update:
        changed = {name: image for name, image in preferred.items() if image != lock.containers[name]}
        if changed:
            lock.model_copy(update={"containers": {**lock.containers, **changed}}).write(file)
        for name, image in changed.items():
            say(f"{name}: {lock.containers[name]} -> {image}")
        say(f"{len(changed)} of {len(preferred)} containers updated in {file}.")
        return
    rows = [[name, lock.containers[name], image] for name, image in preferred.items()]
    print_table(["techniques", "recorded", "preferred by the catalog"], rows)


def read_lock(file: Path) -> Lock:
    """The lock file's content; ends the command where it is not a lock file."""
    try:
        return Lock.read(file)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
