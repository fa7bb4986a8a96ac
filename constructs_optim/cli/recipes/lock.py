"""``constructs-optim lock``: an app's recorded containers and models, and those that the catalog prefers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.recipe import Model, Recipe, RecipeError, Violation
from constructs_optim.recipe.catalog import images, instances, models
from constructs_optim.recipe.catalog.lock import (
    LOCK_FILE,
    Entry,
    Lock,
    RecordedArtifact,
    RecordedChoice,
    RecordedFault,
    RecordedModel,
)
from constructs_optim.recipe.catalog.models import ModelRow, Tuning
from constructs_optim.recipe.choices import described
from constructs_optim.recipe.planning import copied, made
from constructs_optim.recipe.rules import check
from constructs_optim.recipe.servers import by_name
from constructs_optim.recipe.techniques import REGISTRY, TrainedTechnique

from .. import completion
from ..aws import failed
from ..output_files import writing
from ..presentation import JsonOption, print_json, print_table, say, working
from .model_lookup import look_up

LockFileOption = Annotated[Path, typer.Option("--lock-file", metavar="FILE", help="Lock file of the app.")]

# The rules about model names.
_OF_NAMES = ("OPT005", "OPT008")


def lock_command(
    requirements: Annotated[list[str] | None, typer.Argument(help="Entries of the lock file. Default: all.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Record what the catalog or the hub has now.")] = False,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Look up and record a Hugging Face owner/name or an s3:// prefix. Repeatable.",
            autocompletion=completion.model_ids,
        ),
    ] = None,
    model_version: Annotated[
        str, typer.Option(help="Branch, tag, or commit of a Hugging Face model to look up.")
    ] = "main",
    file: LockFileOption = Path(LOCK_FILE),
    as_json: JsonOption = False,
) -> None:
    """Show or update the containers and models that an app records in optim.lock.json.

    Updating a job's container changes its artifact keys: the next deployment builds these artifacts again. Updating a
    server's container or its arguments updates the endpoints that it serves.

    Examples:
        constructs-optim lock
        constructs-optim lock --update
        constructs-optim lock --model Qwen/Qwen3-32B
    """
    lock = read_lock(file)
    if model and requirements:
        raise typer.BadParameter(
            f"--model looks up models, and {', '.join(requirements)} names entries. Remove one of them"
        )
    if model:
        _record_models(lock, model, model_version, file, update=update, as_json=as_json)
        return
    recorded = lock.entries()
    if unknown := sorted(set(requirements or ()) - set(recorded)):
        raise typer.BadParameter(
            f"{file} has no entry {', '.join(unknown)}. Its entries: {', '.join(recorded) or 'none'}"
        )
    preferred = {name: _preferred(name, lock) for name in requirements or recorded}
    if update and not file.exists():
        raise failed(_missing(file))
    if update:
        changed = {name: entry for name, entry in preferred.items() if entry != recorded[name]}
        # The next synthesis decides again on entries that depend on the changed ones.
        changed |= {name: None for entry in changed for name in _following(entry, recorded) if name not in changed}
        if changed:
            write_lock(Lock.with_entries(_without_none({**recorded, **changed})), file)
        if as_json:
            print_json(_changes(recorded, changed))
            return
        for name, entry in changed.items():
            say(f"{name}: {_shown(recorded[name])} -> {_shown(entry)}")
        say(f"Updated {len(changed)} of {len({*preferred, *changed})} entries in {file}.")
        return
    if as_json:
        print_json(_changes(recorded, preferred))
        return
    if not preferred:
        say(f"{file} has no entries." if file.exists() else _missing(file))
        return
    rows = [[name, _shown(recorded[name]), _shown(entry)] for name, entry in preferred.items()]
    print_table(["Entry", "Recorded", "Preferred by the catalog"], rows, long=2)


def _missing(file: Path) -> str:
    return (
        f"{file} does not exist. Synthesis writes it, and so does `constructs-optim lock --model`; --lock-file names "
        "another one."
    )


def _changes(before: Mapping[str, Entry], after: Mapping[str, Entry | None]) -> dict[str, dict[str, Entry | None]]:
    """Return each entry's recorded and preferred values; None if the next synthesis decides."""
    return {name: {"recorded": before.get(name), "preferred": entry} for name, entry in after.items()}


def write_lock(lock: Lock, file: Path) -> None:
    """Replace the lock file; end the command if that fails."""
    with writing(file, "--lock-file"):
        lock.write(file)


def _without_none(entries: Mapping[str, Entry | None]) -> dict[str, Entry]:
    return {name: entry for name, entry in entries.items() if entry is not None}


def _following(entry: str, recorded: Mapping[str, Entry]) -> list[str]:
    """Return the recorded context lengths that depend on an entry for the same model."""
    part, _, name = entry.partition(".")
    model = name.partition("@")[0]
    return [other for other in recorded if part in ("models", "tuning") and other.startswith(f"contexts.{model}@")]


def _record_models(lock: Lock, names: list[str], revision: str, file: Path, *, update: bool, as_json: bool) -> None:
    asked = {name.partition("@")[0] if "s3://" not in name else name: name for name in names}
    if mistakes := [each for name in asked for each in _mistakes(name)]:
        raise failed(str(RecipeError(mistakes)))
    with working(f"Looking up {' and '.join(asked)}"):
        found = {name: look_up(name, text.removeprefix(name).lstrip("@") or revision) for name, text in asked.items()}
    # A fault says only what plans must not use, and never replaces what they use.
    used = {name: model for name, model in lock.models.items() if model.fault is None}
    refused = {name: model.fault for name, model in found.items() if model.fault is not None}
    moved = {name for name, model in found.items() if name in used and used[name] != model}
    recorded = {
        f"models.{name}": model
        for name, model in found.items()
        if name not in moved or (update and name not in refused)
    }
    before = lock.entries()
    changed: dict[str, Entry | None] = {}
    for name in found:
        if f"models.{name}" in recorded and before.get(f"models.{name}") != found[name]:
            changed |= dict.fromkeys(_following(f"models.{name}", before))
    after = Lock.with_entries(_without_none({**before, **recorded, **changed}))
    for name, artifact in after.artifacts.items():
        if name in found or name.rpartition(":")[0] in found:
            # The model's size determines the storage. The version stays, and with it the artifact key.
            sized = artifact.model_copy(update={"storage_gb": _preferred_artifact(name, after).storage_gb})
            changed |= {f"artifacts.{name}": sized} if sized != artifact else {}
    write_lock(Lock.with_entries(_without_none({**before, **recorded, **changed})), file)
    if as_json:
        print_json(_changes(before, {f"models.{name}": model for name, model in found.items()} | changed))
    else:
        _print_models(before, found, changed, {name: used[name] for name in moved if not update})
    if refused:
        raise failed(
            "\n".join(
                f"No engine loads {name}: {each.reason}. What works: {each.fix}" for name, each in refused.items()
            )
        )


def _print_models(
    before: Mapping[str, Entry],
    found: Mapping[str, RecordedModel],
    changed: Mapping[str, Entry | None],
    kept: Mapping[str, RecordedModel],
) -> None:
    """Print what was found; ``kept`` has the records that stay, although the hub has others."""
    for name, entry in changed.items():
        say(f"{name}: {_shown(before[name])} -> {_shown(entry)}")
    for name, model in found.items():
        if model.fault is not None:
            continue
        if name in kept:
            say(f"{name}: recorded {_shown(kept[name])}; the hub now has {_shown(model)}. Add --update to record it.")
        else:
            say(f"{name}: {_shown(model)}")
        for lacking in _lacking(model):
            say(f"Warning: {name} {lacking}", err=True)


def _lacking(model: RecordedModel) -> Iterator[str]:
    """Yield what a model lacks that its plan needs or cannot check."""
    if model.pickled:
        yield (
            "has its weights in pickle files only, which can run code when they are loaded: set allow_pickle=True if "
            "you trust its owner"
        )
    if model.has_tokenizer is False:
        yield "has no tokenizer, without which no engine serves it: add the one of the model that it was made from"
    if not model.is_described:
        yield (
            "has no config.json that could be read (Mistral's layout has none, and that of a gated model needs a "
            "token): neither its memory nor whether the engine loads it is checked"
        )


def _mistakes(name: str) -> list[Violation]:
    """Return why a name is neither a Hugging Face ID nor an S3 prefix."""
    model = Model.s3(name) if name.startswith("s3://") else Model.huggingface(name)
    recipe = Recipe(model, [], next(iter(instances.by_name())))
    return [violation for violation in check(recipe) if violation.rule in _OF_NAMES]


def _shown(entry: Entry | None) -> str:
    match entry:
        case None:
            return "decided at the next synthesis"
        case str():
            return entry
        case int():
            return f"{entry} tokens" if entry else "the model's context length"
        case RecordedArtifact():
            return f"version {entry.version}, {entry.storage_gb} GB"
        case RecordedChoice():
            return described(entry)
        case RecordedModel(fault=RecordedFault(reason=reason)):
            return f"no engine loads it: {reason}"
        case RecordedModel():
            size = f"{entry.parameters_billion:g} billion parameters" if entry.parameters_billion else "unknown size"
            return f"{entry.revision}, {size}" if entry.revision is not None else size
        case _:
            return json.dumps({**entry.arguments, **entry.environment})


def _preferred(entry: str, lock: Lock) -> Entry | None:
    """Return the preferred value for an entry of the lock file; None if only synthesis can decide it."""
    part, _, name = entry.partition(".")
    match part:
        case "models" | "choices":
            # Other commands look up models and make choices.
            return lock.entries()[entry]
        case "contexts":
            return None if _row(name.partition("@")[0], lock) is not None else lock.contexts[name]
        case "artifacts":
            return _preferred_artifact(name, lock)
        case "tuning":
            model_id, _, accelerator = name.partition("@")
            row = _row(model_id, lock)
            if row is None:
                return lock.tuning[name]
            return row.recipe.tuned(_generation(accelerator)) if row.recipe is not None else Tuning()
        case _:
            return _preferred_image(part, name) or lock.entries()[entry]


def _row(model: str, lock: Lock) -> ModelRow | None:
    return lock.row(model, models.find(model))


def _preferred_image(part: str, name: str) -> str | None:
    requirement, _, region = name.partition("@")
    *prefixes, needs = requirement.split(":")
    capabilities = () if needs == images.SERVING else needs.split("+")
    if part == "jobs":
        capable = images.making(capabilities)
        capable = [row for row in capable if row.runs_on(images.BLACKWELL)] if prefixes else capable
    else:
        server, version = [*prefixes, None, None][:2]
        capable = images.serving(capabilities, [server] if server is not None else by_name())
        capable = [row for row in capable if version is None or row.has_version(version)]
    image = images.choose(capable, "", region or None, {}).image
    return image.name if image is not None else None


def _preferred_artifact(name: str, lock: Lock) -> RecordedArtifact:
    """Return this release's value; the storage stays for a model that the catalog does not know."""
    model, _, technique = name.rpartition(":")
    trained = {name: kind for by_name in REGISTRY.values() for name, kind in by_name.items()}.get(technique)
    if trained is not None and issubclass(trained, TrainedTechnique):
        row, decided = _row(model, lock), made(trained, _row(model, lock))
    else:
        row, decided = _row(name, lock), copied(_row(name, lock))
    return decided if row is not None else decided.model_copy(update={"storage_gb": lock.artifacts[name].storage_gb})


def _generation(accelerator: str) -> str | None:
    """Return an accelerator's generation; lock files of earlier releases have the generation itself."""
    rows = [row for row in instances.by_name().values() if row.accelerator == accelerator]
    return rows[0].generation if rows else accelerator or None


def read_lock(file: Path) -> Lock:
    """Return the lock file's content; end the command if it is not a lock file."""
    try:
        return Lock.read(file)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
