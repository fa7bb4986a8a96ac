"""Looks up a model before its deployment: its commit, size, and geometry."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import BaseModel, ValidationError

from constructs_optim.recipe.catalog.lock import RecordedFault, RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.errors import shortened
from constructs_optim.runtime import model_files
from constructs_optim.runtime.documents import list_in

from ..aws import Account, errors_explained, failed
from ..installation import installing
from ..presentation import say

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# Far beyond any model's.
_MOST_BYTES, _MOST = 10_000_000, 1_000_000_000
_LONGEST = 60
_S3 = "s3://"
# The hub puts it into every new repository: a mirror's list without it may lack other files too.
_OF_HUB = ".gitattributes"


class NotAModelError(ValueError):
    """Raised for a configuration that no engine reads; ``fix`` is what to change in it."""

    def __init__(self, reason: str, fix: str = f"correct {model_files.CONFIG}") -> None:
        super().__init__(reason)
        self.fix = fix


class _Index(BaseModel):
    """The index of weights: the names of files by the names of tensors."""

    weight_map: Mapping[str, str]


def look_up(name: str, revision: str) -> RecordedModel:
    """Return the lock file's record of a model: a Hugging Face ID at a revision, or an S3 prefix.

    For a gated model without a token, the record has only the commit and the size. For files that no engine loads, it
    has their fault.
    """
    return _in_s3(name) if name.startswith(_S3) else _of_hugging_face(name, revision)


@contextmanager
def hub_client(model_id: str, revision: str) -> Iterator[HfApi]:
    """Yield the hub's client for a block about one model; what the hub refuses ends the command with a sentence."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError
    except ModuleNotFoundError:
        raise typer.BadParameter(f"Looking up Hugging Face models is an extra: {installing('cli')}") from None
    hub = HfApi()
    if not hub.endpoint.startswith(("https://", "http://")):
        raise failed(f"HF_ENDPOINT is {hub.endpoint}, which is no URL: begin it with https://")
    try:
        yield hub
    except (HFValidationError, RepositoryNotFoundError):
        raise typer.BadParameter(
            f"Hugging Face has no model {model_id}, or the model is private. Check the ID, or set HF_TOKEN"
        ) from None
    except RevisionNotFoundError:
        raise typer.BadParameter(f"{model_id} has no revision {revision}") from None
    except typer.BadParameter:
        raise
    # The HTTP library, and so the type of these errors, differs between releases of huggingface_hub.
    except Exception as error:
        raise unreachable(f"Cannot look up {model_id} at {hub.endpoint}: {error}") from None


def _of_hugging_face(model_id: str, revision: str) -> RecordedModel:
    with hub_client(model_id, revision) as hub:
        from huggingface_hub.errors import GatedRepoError, RemoteEntryNotFoundError

        found = hub.model_info(model_id, revision=revision, files_metadata=True)
        sizes = {file.rfilename: _count(file.size) or 0 for file in found.siblings or ()}
        read: dict[str, bytes] = {}
        with tempfile.TemporaryDirectory() as folder:
            for file in (model_files.CONFIG, *({model_files.INDEX} & sizes.keys())):
                with suppress(GatedRepoError, RemoteEntryNotFoundError):
                    path = hub.hf_hub_download(model_id, file, revision=found.sha, local_dir=folder)
                    read[file] = Path(path).read_bytes()
    card = found.card_data.to_dict() if found.card_data is not None else {}
    total = _count(found.safetensors.total) if found.safetensors is not None else None
    known = {"revision": found.sha, "gated": bool(found.gated), "license": _license(card.get("license"))}
    return _of_files(model_id, sizes, read, total, known)


def unreachable(problem: str) -> typer.Exit:
    """Print in one line why the hub does not answer; raising the result ends the command with status 2."""
    return failed(
        f"{' '.join(problem.split()).rstrip('.')}. Check the network and its proxies (HTTPS_PROXY), or name a mirror "
        "of the hub in HF_ENDPOINT."
    )


class S3Files:
    """The files below an S3 prefix, by their names relative to it."""

    def __init__(self, uri: str, account: Account) -> None:
        self._bucket, _, key = uri.removeprefix("s3://").partition("/")
        self._prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
        self._s3 = account.client("s3")

    def sizes(self) -> dict[str, int]:
        """Return the files' sizes in bytes."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        items = (item for page in pages for item in page.get("Contents", ()))
        return {item["Key"].removeprefix(self._prefix): item["Size"] for item in items}

    def content(self, name: str, most: int) -> bytes:
        """Return at most ``most`` bytes of a file."""
        return self._s3.get_object(Bucket=self._bucket, Key=self._prefix + name)["Body"].read(most)


def _in_s3(uri: str) -> RecordedModel:
    with errors_explained():
        model = S3Files(uri, Account(None, None))
        sizes = model.sizes()
        files = {model_files.CONFIG, model_files.INDEX} & sizes.keys()
        read = {file: model.content(file, _MOST_BYTES + 1) for file in files}
    return _of_files(uri, sizes, read)


def _of_files(
    name: str,
    sizes: dict[str, int],
    read: Mapping[str, bytes],
    parameters: int | None = None,
    known: Mapping[str, object] | None = None,
) -> RecordedModel:
    """Return the record of a model with these files, some of which are read; with a fault if no engine loads them."""
    try:
        # Some mirrors of the hub list no files.
        if (sizes or name.startswith(_S3)) and (fault := _fault(name, sizes, read.get(model_files.INDEX))) is not None:
            return RecordedModel.model_validate({**(known or {}), "fault": fault._asdict()})
        content = read.get(model_files.CONFIG)
        return _recorded(name, _config(name, content) if content is not None else None, sizes, parameters, known)
    except NotAModelError as error:
        where = "" if name.startswith(_S3) else " in a copy of the files in S3, and use Model.s3(...)"
        fault = RecordedFault(reason=str(error), fix=f"{error.fix}{where}")
        return RecordedModel.model_validate({**(known or {}), "fault": fault})


def _fault(name: str, files: Collection[str], index: bytes | None) -> model_files.Fault | None:
    """Return why no engine loads files. Parts that are missing in S3 can still be on their way, and in a list without
    some files, they can be there, which is said.
    """
    try:
        indexed = set(_Index.model_validate_json(index).weight_map.values()) if index is not None else ()
    except ValidationError:
        indexed = ()
    # Only the recipe says whether the job may copy pickle files.
    found = model_files.fault(files, pickles=True, indexed=indexed)
    is_incomplete = found is not None and model_files.fault(files, pickles=True, all_parts=False) is None
    is_certain = not name.startswith(_S3) and (bool(indexed) or _OF_HUB in files)
    if found is None or not is_incomplete or is_certain:
        return found
    say(f"Warning: {name}: {found.reason}", err=True)
    return None


def _count(given: object) -> int | None:
    """Return a hub's number if it can be one of bytes or parameters; hubs other than Hugging Face may say anything."""
    return given if isinstance(given, int) and 0 < given < _MOST * _MOST else None


def _license(given: object) -> str | None:
    """Return the license of a model card, or its licenses as a list: ``mit, apache-2.0``."""
    names = [name for name in (list_in(given) or [given]) if isinstance(name, str)]
    return ", ".join(names) or None


def _config(name: str, content: bytes) -> ModelConfig:
    """Return the configuration; fields that cannot be read count as unknown, which is said.

    Raises:
        NotAModelError: if no engine reads it.
    """
    if len(content) > _MOST_BYTES:
        raise _not_a_model(f"it has more than {_MOST_BYTES:,} bytes")
    unread = set[str]()
    try:
        # Not documents.json_value, which refuses Infinity: the time_step_limit of Mamba 2 has it.
        config = ModelConfig.model_validate_json(content.removeprefix(codecs.BOM_UTF8), context=unread)
    except ValidationError as error:
        raise _not_a_model(error.errors()[0]["msg"]) from None
    if not (config.model_type or config.auto_map):
        # transformers, AutoConfig.from_pretrained; vLLM, HFConfigParser of transformers_utils/config.py, whose
        # hf_overrides do not reach transformers' choice.
        raise _not_a_model(
            "it has no model_type, by which engines choose the code that reads it",
            "set model_type to that of the model that it was made from",
        )
    if unread:
        fields = ", ".join(sorted(unread))
        say(f"Warning: {fields} in the {model_files.CONFIG} of {name} cannot be read, and counts as unknown", err=True)
    return config


def _not_a_model(reason: str, *fix: str) -> NotAModelError:
    return NotAModelError(f"its {model_files.CONFIG} is not the configuration of a model: {reason}", *fix)


def _shown(value: object) -> str:
    return shortened(repr(value), _LONGEST)


def _recorded(
    name: str,
    config: ModelConfig | None,
    sizes: dict[str, int],
    parameters: int | None = None,
    known: Mapping[str, object] | None = None,
) -> RecordedModel:
    """Return the record of a model. Raises NotAModelError for numbers that no model has, such as 0 bits per weight."""
    columns: dict[str, Any] = {**(known or {}), **(config.columns if config is not None else {})}
    if model_files.pools(sizes):
        columns["pools"] = True
    if sizes and not model_files.has_tokenizer(sizes):
        if _OF_HUB in sizes or name.startswith(_S3):
            columns["has_tokenizer"] = False
        else:
            say(f"Warning: {name}: no tokenizer is listed, without which no engine starts", err=True)
    if not model_files.weights(sizes) and model_files.pickled(sizes):
        columns["pickled"] = True
    try:
        # Before any arithmetic with these numbers.
        recorded = RecordedModel.model_validate(columns)
        if stored := _stored(sizes):
            bits = recorded.weight_bits or 16
            billions = (parameters if parameters is not None and bits >= 16 else stored * 8 / bits) / 1e9
            of_files = {"stored_gb": round(stored / 1e9, 3), "parameters_billion": round(billions, 3)}
            recorded = RecordedModel.model_validate({**columns, **of_files})
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise NotAModelError(
            f"its {model_files.CONFIG} or its list of files has or results in {where} = {_shown(problem['input'])}, "
            f"which no model has ({problem['msg']})"
        ) from None
    return recorded


def _stored(sizes: Mapping[str, int]) -> int:
    """Return the bytes of the weights that an engine loads."""
    return sum(sizes[name] for name in model_files.weights(sizes) or model_files.pickled(sizes))
