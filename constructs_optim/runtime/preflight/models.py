"""Models: of a hub, in S3, and of Hugging Face."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from botocore.exceptions import ClientError

from ..documents import list_in, object_in
from ..errors import DeploymentError, code_of
from ..jobs.source import resolve
from ..requests.preflight_properties import CopyNeed
from ..requests.properties import HubSource, S3Source
from ..store.json_records import objects
from .context import Context
from .report import PreflightFinding, advice, problem

_NAME = "model"
_SAFETENSORS = "*.safetensors"
# Weights that run code when they are loaded, as training/copying.py has them.
_PICKLES = ("*.bin", "*.ckpt", "*.joblib", "*.pickle", "*.pkl", "*.pt", "*.pth")
_ARCHIVES = ("*.tar", "*.tar.gz", "*.tgz", "*.zip")
# The setting of huggingface_hub for another hub than the public one.
_HUB = "HF_ENDPOINT"
_PUBLIC_HUB = "https://huggingface.co"
_SECONDS = 10
# A file of weights in parts, such as model-00001-of-00004.safetensors.
_SHARD = re.compile(r"(?P<name>[^/]*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")


def check_model(source: HubSource | S3Source, context: Context) -> Iterator[PreflightFinding]:
    """A hub's model, its version and its licence; files in S3 that an engine reads."""
    try:
        if isinstance(source, HubSource):
            resolve(source, sagemaker=context.client("sagemaker"), s3=context.client("s3"))
        else:
            prefix = source.location[1]
            yield from _files(source.uri, [name.removeprefix(prefix) for name, _, _ in _listed(source, context)])
    except DeploymentError as error:
        text, _, fix = str(error).partition("Next: ")
        yield problem(_NAME, text.rstrip(". "), fix or "correct the model where it is declared")


def check_data(source: S3Source, context: Context) -> Iterator[PreflightFinding]:
    """Further inputs of jobs, which have to be there."""
    if next(_listed(source, context), None) is None:
        yield problem(_NAME, f"there are no data files under {source.uri}", "upload them, or name another prefix")


def check_copy(need: CopyNeed, context: Context) -> Iterator[PreflightFinding]:
    """A model of Hugging Face: whether it is there and open, and in which form its weights are.

    The token of a gated model is the copying job's alone: with one, only its secret is looked up.
    Source: Hugging Face's hub API, ``/api/models/{id}/revision/{revision}`` (``gated``, ``siblings``).
    """
    model = f"{need.model_id}@{need.revision[:12]}"
    if need.token_secret_arn is not None:
        yield from _secret(need.token_secret_arn, context)
    hub = (need.endpoint or os.environ.get(_HUB, _PUBLIC_HUB)).rstrip("/")
    # A mirror need not answer as the hub does.
    certain = problem if need.endpoint is None else advice
    url = f"{hub}/api/models/{need.model_id}/revision/{need.revision}"
    try:
        # The hub's address is the operator's.
        with urllib.request.urlopen(url, timeout=_SECONDS) as response:  # noqa: S310
            described = object_in(json.loads(response.read()))
    except urllib.error.HTTPError as error:
        # The hub says 401 of a model that is private or that it does not have.
        if error.code in (401, 403) and need.token_secret_arn is not None:
            yield advice(_NAME, f"{model} is not public, and the token's access to it was not tried", "try it yourself")
        elif error.code in (401, 403, 404):
            yield certain(
                _NAME,
                f"{hub} has no model {model}, or it is private",
                "check id and commit, or declare Model.huggingface(..., token=<a secret>)",
            )
        else:
            yield advice(_NAME, f"{hub} answers {error.code} about {model}", "look at the model's page")
        return
    except (OSError, ValueError) as error:
        yield advice(_NAME, f"{hub} could not be asked about {model} ({error})", "look at the model's page")
        return
    if described.get("gated") and need.token_secret_arn is None:
        yield certain(
            _NAME,
            f"{model} is gated, and no token is declared",
            "accept its licence on the model's page, and declare Model.huggingface(..., token=<a secret>)",
        )
    names = [str(object_in(sibling).get("rfilename", "")) for sibling in list_in(described.get("siblings"))]
    if names and not _has(names, [_SAFETENSORS]):
        if not _has(names, _PICKLES):
            yield certain(_NAME, f"{model} has no weights", "choose another model")
        elif not need.allow_pickle:
            yield certain(
                _NAME,
                f"{model} has its weights in pickle files only, which run code when they are loaded",
                "choose another model, or declare Model.huggingface(..., allow_pickle=True) where you trust its owner",
            )


def _listed(source: S3Source, context: Context) -> Iterator[tuple[str, int, str]]:
    bucket, prefix = source.location
    try:
        yield from objects(context.client("s3"), bucket, prefix)
    except ClientError as error:
        if code_of(error) != "NoSuchBucket":
            raise
        raise DeploymentError(f"there is no bucket {bucket}. Next: name another one") from None


def _files(uri: str, names: list[str]) -> Iterator[PreflightFinding]:
    if not names:
        yield problem(_NAME, f"there are no model files under {uri}", "upload them, or name another prefix")
    elif not _has(names, [_SAFETENSORS]) and _has(names, _ARCHIVES) and not _has(names, [*_PICKLES, "*.json"]):
        yield problem(
            _NAME,
            f"the model under {uri} is an archive, and engines read its files",
            "unpack it, upload the files, and name their prefix",
        )
    elif not _has(names, [_SAFETENSORS]) and _has(names, _PICKLES):
        yield advice(
            _NAME,
            f"the weights under {uri} are pickle files only, which run code when they are loaded",
            "save them as safetensors",
        )
    if missing := _missing_shards(names):
        yield problem(
            _NAME,
            f"the model under {uri} is incomplete: it lacks {', '.join(missing[:3])}"
            + (f" and {len(missing) - 3} more" if len(missing) > 3 else ""),
            "upload the files that are missing",
        )


def _missing_shards(names: Sequence[str]) -> list[str]:
    """The parts of weights that other parts' names count and that are not there, of the model's own folder."""
    shards = [match for match in map(_SHARD.fullmatch, names) if match is not None]
    expected = [
        f"{name}-{number:05}-of-{count:05}.safetensors"
        for name, count in dict.fromkeys((shard["name"], int(shard["count"])) for shard in shards)
        for number in range(1, count + 1)
    ]
    return sorted(set(expected) - set(names))


def _secret(arn: str, context: Context) -> Iterator[PreflightFinding]:
    try:
        secret = context.client("secretsmanager").describe_secret(SecretId=arn)
    except ClientError as error:
        if code_of(error) != "ResourceNotFoundException":
            raise
        yield problem(_NAME, f"there is no secret {_without_ending(arn)}", "create it, with the token as its text")
        return
    if secret.get("DeletedDate") is not None:
        yield problem(
            _NAME, f"the secret {_without_ending(arn)} is scheduled for deletion", "restore it, or name another"
        )


def _without_ending(arn: str) -> str:
    return re.sub(r"-[A-Za-z0-9]{6}$", "", arn.partition(":secret:")[2])


def _has(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether one of the names, in any case, matches a pattern."""
    return any(fnmatchcase(name.lower(), pattern) for name in names for pattern in patterns)
