"""Copies the files of a model at a commit, and compares each with the hash that the hub has of it.

Sources: huggingface_hub's documentation, "Download files from the Hub"; the hub's documentation, "Pickle Scanning";
git's documentation, "Git Internals - Git Objects" (the hash of a blob); vLLM, ``transformers_utils/config.py`` and
``model_executor/model_loader/default_loader.py`` (the files that it looks for).
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .environment import TrainingEnvironment
from .errors import CopyError, SeveralProblems
from .job_log import say
from .settings import CopySettings

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

SOURCE_FILE = "source.json"
"""The file beside the copied ones with the model's id, its commit, and the SHA-256 of every file."""
_SECRET = "TOKEN_SECRET_ARN"  # noqa: S105 - the name of a variable
_SAFETENSORS = "*.safetensors"
# No header takes another character, and a client that refuses one shows the header.
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
# What servers read of a model, and what its licence asks for, by names in lower case.
_READ = (
    _SAFETENSORS, "*.bpe", "*.jinja", "*.json", "*.md", "*.model", "*.model.v[0-9]", "*.model.v[0-9][0-9]",
    "*.model.v[0-9]m[0-9]", "*.model.v[0-9][0-9]m[0-9]", "*.spm", "*.tiktoken", "*.txt", "*.vocab", "*.yaml", "*.yml",
    "license", "license-code", "license-model", "notice",
)  # fmt: skip
# Weights that run code when they are loaded.
_PICKLES = ("*.bin", "*.ckpt", "*.joblib", "*.pickle", "*.pkl", "*.pt", "*.pth")
_CODE = ("*.py", "requirements*.txt", "*/requirements*.txt")
# Meta's own layout, hidden files, and the name of the file that the job writes itself.
_LEFT_OUT = ("original/*", ".*", "*/.*", SOURCE_FILE)
# Mistral's own layout of the weights, which a repository may have beside the hub's, and its configuration. vLLM and
# SGLang find by them which of the two a model has.
_MISTRALS_LAYOUT, _MISTRALS_CONFIG = "consolidated*", "params.json"
_CHUNK = 2**20
_AT_ONCE = 8


def copy_model(environment: TrainingEnvironment, settings: CopySettings) -> None:
    """Copy the files that an engine reads to the folder that becomes the job's artifact.

    Raises:
        CopyError: where the hub has no such model or commit, or does not give its files to the token; and where the
            model has no weights that may be copied.
        SeveralProblems: for files that differ from what the hub says of them.
    """
    from huggingface_hub import HfApi

    token, folder = _token(environment), environment.model
    hub = HfApi(token=token)
    with _refusals(settings, has_token=bool(token)):
        found = hub.model_info(settings.model_id, revision=settings.revision, files_metadata=True)
    if found.sha != settings.revision:
        raise CopyError(f"the hub has {found.sha} for the commit {settings.revision} of {settings.model_id}")
    files = _chosen(found.siblings or [], settings)
    size = sum(file.size or 0 for file in files)
    name = f"{settings.model_id}@{settings.revision}"
    say(f"copying {len(files)} files of {name}, {size / 1e9:.1f} GB")

    def download(file: RepoSibling) -> None:
        hub.hf_hub_download(settings.model_id, file.rfilename, revision=settings.revision, local_dir=folder)

    with _refusals(settings, has_token=bool(token)), ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(download, files))
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    hashes = dict(_compared(folder, files))
    description = {"model_id": settings.model_id, "revision": settings.revision, "sha256": hashes}
    (folder / SOURCE_FILE).write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    say(f"copied {name}; every file has the hash that the hub has of it")


def _token(environment: TrainingEnvironment) -> str | bool:
    """The token of the secret that the job names; False where it names none: no other token of the machine is used."""
    secret = environment.variables.get(_SECRET)
    if not secret:
        return False
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    region = secret.split(":")[3]
    try:
        text = str(boto3.client("secretsmanager", region_name=region).get_secret_value(SecretId=secret)["SecretString"])
    except (BotoCoreError, ClientError, KeyError) as error:
        raise CopyError(
            f"the secret {secret} cannot be read ({error}): its text is a token of Hugging Face; the job's role needs "
            "secretsmanager:GetSecretValue, and kms:Decrypt of a customer managed key"
        ) from None
    return token_in(text, secret)


def token_in(text: str, secret: str) -> str:
    """The token that a secret's text is, without the line break that a file of it ends with.

    Args:
        text: the secret's text.
        secret: its ARN, for the error; the text is never shown.

    Raises:
        CopyError: for a text that cannot be a token, such as the JSON of a secret of keys and values.
    """
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise CopyError(
            f"the text of the secret {secret} is not a token of Hugging Face (not shown): store the token itself as "
            "plain text, such as hf_..., without quotation marks, keys or JSON around it"
        )
    return token


@contextmanager
def _refusals(settings: CopySettings, *, has_token: bool) -> Iterator[None]:
    """The hub's refusals as errors for users, with what they have yet to do."""
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    model = settings.model_id
    page = f"https://huggingface.co/{model}"
    declare = "declare Model.huggingface(..., token_secret_arn=...)"
    try:
        yield
    except GatedRepoError:
        raise CopyError(
            f"{model} is gated, and the secret's token has no access to it: accept its terms at {page} with the "
            "account of the token, and let the token read gated repositories"
            if has_token
            else f"{model} is gated: accept its terms at {page} with the account of a token, and {declare}"
        ) from None
    except RevisionNotFoundError:
        raise CopyError(
            f"{model} has no commit {settings.revision}, or no longer: `constructs-optim lock --model {model}` looks "
            "up the present one"
        ) from None
    except RepositoryNotFoundError:
        raise CopyError(
            f"Hugging Face has no model {model}, or the secret's token has no access to it, or has expired: check both"
            if has_token
            else f"Hugging Face has no model {model}, or it is private: check the id, or {declare}"
        ) from None
    except HfHubHTTPError as error:
        raise CopyError(f"{constants.ENDPOINT} does not give the files of {model}: {error}") from None


def _chosen(files: list[RepoSibling], settings: CopySettings) -> list[RepoSibling]:
    """The files that an engine reads; the log has the names of all others."""
    read = [*_READ, *(_PICKLES if settings.allow_pickle else ()), *(_CODE if settings.allow_code else ())]
    left_out = [*_LEFT_OUT, *(() if settings.allow_code else _CODE)]
    names = {file.rfilename for file in files}
    layouts = {_has(file, [_MISTRALS_LAYOUT]) for file in files if _has(file, [_SAFETENSORS])}
    if "config.json" in names and layouts == {True, False}:
        left_out.append(_MISTRALS_LAYOUT)
    chosen = [file for file in files if _has(file, read) and not _has(file, left_out)]
    for name in sorted(names - {file.rfilename for file in chosen}):
        say(f"left behind: {name!r}")
    if "config.json" not in names and not (_MISTRALS_CONFIG in names and True in layouts):
        raise CopyError(
            f"{settings.model_id} has no config.json, nor {_MISTRALS_CONFIG} with consolidated*.safetensors: it is no "
            "model that vLLM or SGLang reads"
        )
    weights = [_SAFETENSORS, *_PICKLES]
    if not any(_has(file, weights) for file in chosen):
        pickles = any(_has(file, _PICKLES) for file in files)
        reason = "has its weights in pickle files only, which run code when they are loaded" if pickles else "has none"
        fix = "another model, or Model.huggingface(..., allow_pickle=True) where you trust its owner"
        raise CopyError(f"{settings.model_id} {reason}: {fix}" if pickles else f"{settings.model_id} has no weights")
    return chosen


def _has(file: RepoSibling, patterns: Iterable[str]) -> bool:
    """Whether a file's name, in any case, matches a pattern."""
    return any(fnmatch.fnmatchcase(file.rfilename.lower(), pattern) for pattern in patterns)


def _compared(folder: Path, files: list[RepoSibling]) -> Iterator[tuple[str, str]]:
    """Names and SHA-256 of the copied files, each of which is what the hub says."""
    problems: list[str] = []
    for file in files:
        path = folder / file.rfilename
        size = path.stat().st_size
        sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with path.open("rb") as content:
            while chunk := content.read(_CHUNK):
                sha256.update(chunk)
                blob.update(chunk)
        # Git itself keeps small files; of large ones, it keeps a pointer with the SHA-256.
        expected, found = (file.lfs.sha256, sha256) if file.lfs is not None else (file.blob_id, blob)
        if size != file.size or expected != found.hexdigest():
            problems.append(f"{file.rfilename}: {size} bytes with the hash {found.hexdigest()}, not {expected}")
        yield file.rfilename, sha256.hexdigest()
    if problems:
        raise SeveralProblems(f"files of {os.fspath(folder)} differ from the hub's", problems)
