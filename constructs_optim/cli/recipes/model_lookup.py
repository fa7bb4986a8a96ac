"""Looks up a model before its deployment: its commit, size, and geometry."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from constructs_optim.recipe.catalog.lock import RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig

from ..aws import Account, errors_explained, failed
from ..installation import installing

_CONFIG = "config.json"
_WEIGHTS = ".safetensors"
_SECOND_LAYOUT = "consolidated"


def look_up(name: str, revision: str) -> RecordedModel:
    """Return the lock file's record of a model: a Hugging Face ID at a revision, or an S3 prefix.

    For a gated model without a token, the record has only the commit and the size.
    """
    return _in_s3(name) if name.startswith("s3://") else _of_hugging_face(name, revision)


def _of_hugging_face(model_id: str, revision: str) -> RecordedModel:
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import (
            GatedRepoError,
            HFValidationError,
            RemoteEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ModuleNotFoundError:
        raise typer.BadParameter(f"Looking up Hugging Face models is an extra: {installing('cli')}") from None
    hub, config = HfApi(), None
    try:
        found = hub.model_info(model_id, revision=revision, files_metadata=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                path = hub.hf_hub_download(model_id, _CONFIG, revision=found.sha, local_dir=folder)
                config = _config(model_id, Path(path).read_bytes())
            except (GatedRepoError, RemoteEntryNotFoundError):
                config = None
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
    sizes = {file.rfilename: file.size or 0 for file in found.siblings or ()}
    card = found.card_data.to_dict() if found.card_data is not None else {}
    total = found.safetensors.total if found.safetensors is not None else None
    known = {"revision": found.sha, "gated": bool(found.gated), "license": card.get("license")}
    return RecordedModel(**{**known, **_columns(config, sizes, total)})


def unreachable(problem: str) -> typer.Exit:
    """Print in one line why the hub does not answer; raising the result ends the command with status 2."""
    return failed(
        f"{' '.join(problem.split()).rstrip('.')}. Check the network and its proxies (HTTPS_PROXY), or name a mirror "
        "of the hub in HF_ENDPOINT."
    )


def _in_s3(uri: str) -> RecordedModel:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
    with errors_explained():
        s3 = Account(None, None).client("s3")
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        sizes = {item["Key"].removeprefix(prefix): item["Size"] for page in pages for item in page.get("Contents", ())}
        if _CONFIG not in sizes:
            raise typer.BadParameter(f"{uri} has no {_CONFIG}")
        content = s3.get_object(Bucket=bucket, Key=prefix + _CONFIG)["Body"].read()
    return RecordedModel(**_columns(_config(uri, content), sizes, None))


def _config(name: str, content: bytes) -> ModelConfig:
    try:
        return ModelConfig.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise typer.BadParameter(
            f"{_CONFIG} of {name} is not the configuration of a model: {where}: {problem['msg']}"
        ) from None


def _columns(config: ModelConfig | None, sizes: dict[str, int], parameters: int | None) -> dict[str, Any]:
    columns = config.columns if config is not None else {}
    stored = _stored(sizes.items())
    if not stored:
        return columns
    bits = columns.get("weight_bits", 16)
    billions = (parameters if parameters is not None and bits >= 16 else stored * 8 / bits) / 1e9
    return {**columns, "stored_gb": round(stored / 1e9, 3), "parameters_billion": round(billions, 3)}


def _stored(sizes: Iterable[tuple[str, int]]) -> int:
    """Return the bytes of weights in one of the layouts."""
    weights = {name: size for name, size in sizes if name.endswith(_WEIGHTS)}
    first = {name: size for name, size in weights.items() if not name.startswith(_SECOND_LAYOUT)}
    return sum((first or weights).values())
