"""Downloads those files of a model that a dry start reads: small ones, no weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from constructs_optim.recipe.plan_data import HuggingFaceSource, S3Source
from constructs_optim.recipe.tokens import is_token

from ..aws import Account, errors_explained
from .model_lookup import S3Files, hub_client
from .model_of_text import is_missing

_NEWEST = "main"


def download(
    source: HuggingFaceSource | S3Source, folder: Path, is_wanted: Callable[[str, int], bool], account: Account
) -> None:
    """Download the files of a model whose names and sizes are wanted into a folder.

    Raises:
        typer.BadParameter: if there is no such model, or its files may not be read.
    """
    if isinstance(source, HuggingFaceSource):
        _of_hugging_face(source, folder, is_wanted)
    else:
        _in_s3(source.uri, folder, is_wanted, account)


def _of_hugging_face(source: HuggingFaceSource, folder: Path, is_wanted: Callable[[str, int], bool]) -> None:
    revision = _NEWEST if is_missing(source) else source.revision
    with hub_client(source.model_id, revision) as hub:
        from huggingface_hub.errors import GatedRepoError

        found = hub.model_info(source.model_id, revision=revision, files_metadata=True)
        try:
            for file in found.siblings or ():
                if is_wanted(file.rfilename, file.size or 0):
                    hub.hf_hub_download(source.model_id, file.rfilename, revision=found.sha, local_dir=folder)
        except GatedRepoError:
            raise typer.BadParameter(
                f"{source.model_id} is gated: accept its license on its page, and set HF_TOKEN to a token of yours"
            ) from None


def _in_s3(uri: str, folder: Path, is_wanted: Callable[[str, int], bool], account: Account) -> None:
    if is_token(uri):
        raise typer.BadParameter("the model's prefix is known only at deployment: name it as s3://bucket/prefix/")
    with errors_explained():
        model = S3Files(uri, account)
        for name, size in model.sizes().items():
            if is_wanted(name, size):
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(model.content(name, size))
