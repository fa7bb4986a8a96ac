"""Copies the files of a model at a commit, and compares each with the hub's hash.

Sources: huggingface_hub's documentation, "Download files from the Hub"; the hub's documentation, "Pickle Scanning";
git's documentation, "Git Internals - Git Objects" (the hash of a blob).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..runtime import model_files
from .environment import TrainingEnvironment
from .errors import CopyError, SeveralProblems, Unavailable
from .job_log import say
from .settings import CopySettings

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

SOURCE_FILE = "source.json"
"""The file, beside the copied ones, with the model's ID, its commit, and the SHA-256 of every file."""
_SECRET = "TOKEN_SECRET_ARN"  # noqa: S105 - the name of a variable
# Headers allow no other character, and a client's error about one would show the token.
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
# Files that servers read or that licenses require, by lower-case name.
_READ = (
    "*.safetensors", "*.bpe", "*.jinja", "*.json", "*.md", "*.model", "*.model.v[0-9]", "*.model.v[0-9][0-9]",
    "*.model.v[0-9]m[0-9]", "*.model.v[0-9][0-9]m[0-9]", "*.spm", "*.tiktoken", "*.txt", "*.vocab", "*.yaml", "*.yml",
    "license", "license-code", "license-model", "notice",
)  # fmt: skip
_CODE = ("*.py", "requirements*.txt", "*/requirements*.txt")
# Meta's own format, hidden files, and the file that the job itself writes.
_LEFT_OUT = ("original/*", ".*", "*/.*", SOURCE_FILE)
_CHUNK = 2**20
# The HTTP statuses with which a server asks for patience, and Python's errors of connections.
_BUSY = (408, 429, *range(500, 600))
_NETWORK = (ConnectionError, TimeoutError)
# AWS's codes for the same. Secrets Manager answers too many requests with the status 400.
_THROTTLED = re.compile("Throttl|TooManyRequests|RequestLimitExceeded|SlowDown")
_AT_ONCE = 8


def copy_model(environment: TrainingEnvironment, settings: CopySettings) -> None:
    """Copy the files that an engine reads to the folder of the job's artifact.

    Raises:
        CopyError: if the hub has no such model or commit, the token has no access to the files, or the model has no
            weights that may be copied.
        Unavailable: if the hub fails, or the connection to it.
        SeveralProblems: if files differ from the hub's hashes.
    """
    from huggingface_hub import HfApi

    token, folder = _token(environment), environment.model
    hub = HfApi(token=token)
    with _refusals(settings, has_token=bool(token)):
        found = hub.model_info(settings.model_id, revision=settings.revision, files_metadata=True)
    if found.sha != settings.revision:
        raise CopyError(f"the hub returned {found.sha} for the commit {settings.revision} of {settings.model_id}")
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
    say(f"copied {name}; every file has the hub's hash")


def _token(environment: TrainingEnvironment) -> str | bool:
    """Return the token in the job's secret; False without a secret, so that no other token of the machine is used."""
    secret = environment.variables.get(_SECRET)
    if not secret:
        return False
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
    from botocore.exceptions import ConnectionError as NoConnection

    region = secret.split(":")[3]
    try:
        text = str(boto3.client("secretsmanager", region_name=region).get_secret_value(SecretId=secret)["SecretString"])
    except (BotoCoreError, ClientError, KeyError) as error:
        answer = error.response if isinstance(error, ClientError) else {}
        is_busy = answer.get("ResponseMetadata", {}).get("HTTPStatusCode") in _BUSY or _THROTTLED.search(
            answer.get("Error", {}).get("Code", "")
        )
        refused = Unavailable if is_busy or isinstance(error, HTTPClientError | NoConnection) else CopyError
        raise refused(
            f"the secret {secret} cannot be read ({error}): it must hold a Hugging Face token as text, and the job's "
            "role needs secretsmanager:GetSecretValue, and kms:Decrypt for a customer managed key"
        ) from None
    return token_in(text, secret)


def token_in(text: str, secret: str) -> str:
    """Return the token in a secret's text, without a line break at the end.

    Args:
        text: the secret's text.
        secret: the secret's ARN, for the error, which never shows the text.

    Raises:
        CopyError: if the text cannot be a token, for example JSON of keys and values.
    """
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise CopyError(
            f"the text of the secret {secret} is not a Hugging Face token (not shown): store the token itself as "
            "plain text, such as hf_..., without quotation marks, keys or JSON around it"
        )
    return token


@contextmanager
def _refusals(settings: CopySettings, *, has_token: bool) -> Iterator[None]:
    """Raise the hub's refusals as errors that tell users what to do."""
    from httpx2 import TransportError
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
            f"{model} has no commit {settings.revision} (any more): `constructs-optim lock --model {model}` looks "
            "up the current one"
        ) from None
    except RepositoryNotFoundError:
        raise CopyError(
            f"Hugging Face has no model {model}, or the secret's token has no access to it, or has expired: check both"
            if has_token
            else f"Hugging Face has no model {model}, or it is private: check the ID, or {declare}"
        ) from None
    except HfHubHTTPError as error:
        refused = Unavailable if error.response.status_code in _BUSY else CopyError
        raise refused(f"{constants.ENDPOINT} did not return the files of {model}: {error}") from None
    except (TransportError, OSError, RuntimeError) as error:
        # Of the client's own errors, those about the network have no number: a lost connection, or a broken download.
        # The library that downloads large files (hf_xet) raises others than OSError, too.
        is_own = isinstance(error, OSError) and (error.errno is not None or isinstance(error, PermissionError))
        if (is_own and not isinstance(error, _NETWORK)) or "No space left" in str(error):
            raise
        raise Unavailable(
            f"the download of {model} from {constants.ENDPOINT} broke off ({type(error).__name__}: {error}). If the "
            "next one does too, give the job's network a way to the hub"
        ) from None


def _chosen(files: list[RepoSibling], settings: CopySettings) -> list[RepoSibling]:
    """Return the files that an engine reads. The log names all others."""
    names = {file.rfilename for file in files}
    if (found := model_files.fault(names, pickles=True)) is not None and found.load_format is None:
        raise CopyError(f"no engine loads {settings.model_id}: {found.reason}. What works: {found.fix}")
    weights = model_files.weights(names)
    if not weights and not settings.allow_pickle:
        raise CopyError(
            f"{settings.model_id} has its weights only in pickle files, which run code when loaded: choose another "
            "model, or Model.huggingface(..., allow_pickle=True) if you trust its owner"
        )
    read = [*_READ, *(model_files.PICKLES if settings.allow_pickle else ()), *(_CODE if settings.allow_code else ())]
    left_out = [*_LEFT_OUT, *(() if settings.allow_code else _CODE)]
    if weights and not model_files.has(weights, [model_files.MISTRALS_WEIGHTS]):
        left_out.append(model_files.MISTRALS_WEIGHTS)
    chosen = {name for name in names if model_files.has([name], read) and not model_files.has([name], left_out)}
    for name in sorted(names - chosen):
        say(f"not copied: {name!r}")
    return [file for file in files if file.rfilename in chosen]


def _compared(folder: Path, files: list[RepoSibling]) -> Iterator[tuple[str, str]]:
    """Yield the name and SHA-256 of each copied file, after comparing them with the hub's hashes."""
    problems: list[str] = []
    for file in files:
        path = folder / file.rfilename
        size = path.stat().st_size
        sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with path.open("rb") as content:
            while chunk := content.read(_CHUNK):
                sha256.update(chunk)
                blob.update(chunk)
        # Git stores small files; for large ones, it stores a pointer with the SHA-256.
        expected, found = (file.lfs.sha256, sha256) if file.lfs is not None else (file.blob_id, blob)
        if size != file.size or expected != found.hexdigest():
            problems.append(f"{file.rfilename}: {size} bytes with the hash {found.hexdigest()}, not {expected}")
        yield file.rfilename, sha256.hexdigest()
    if problems:
        raise SeveralProblems(f"files of {os.fspath(folder)} differ from the hub's", problems)
