"""Models in a hub, in S3, and on Hugging Face."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator

from botocore.exceptions import ClientError

from .. import model_files
from ..documents import MOST_BYTES, json_value, list_in, object_in
from ..errors import DeploymentError, code_of
from ..jobs.source import resolve
from ..requests.preflight_properties import CopyNeed
from ..requests.properties import HubSource, S3Source
from ..store.json_records import objects
from .context import Context
from .report import PreflightFinding, advice, problem

_NAME = "model"
# The configuration and the handler of a model, which djl-serving reads beside it or in its place (LMI documentation,
# "Configurations" and "Custom model.py").
_HANDLED = frozenset({"model.py", "serving.properties"})
# huggingface_hub's setting for a hub other than the public one.
_HUB = "HF_ENDPOINT"
_PUBLIC_HUB = "https://huggingface.co"
_SECONDS = 10


def check_model(source: HubSource | S3Source, context: Context) -> Iterator[PreflightFinding]:
    """Check a hub's model, its version, and its license, or the files in S3 that an engine reads."""
    try:
        if isinstance(source, HubSource):
            resolve(source, sagemaker=context.client("sagemaker"), s3=context.client("s3"))
        else:
            prefix = source.location[1]
            yield from file_findings(source.uri, [name.removeprefix(prefix) for name in _listed(source, context)])
    except DeploymentError as error:
        text, _, fix = str(error).partition("Next: ")
        yield problem(_NAME, text.rstrip(". "), fix or "correct the model's declaration")


def check_data(source: S3Source, context: Context) -> Iterator[PreflightFinding]:
    """Check that a job's further input exists."""
    if next(_listed(source, context), None) is None:
        yield problem(_NAME, f"there are no data files under {source.uri}", "upload them, or use another prefix")


def check_copy(need: CopyNeed, context: Context) -> Iterator[PreflightFinding]:
    """Check that a Hugging Face model exists and is accessible, and the format of its weights.

    Only the copying job reads the token of a gated model, so with a token this only checks that its secret exists.
    Source: Hugging Face's hub API, ``/api/models/{id}/revision/{revision}`` (``gated``, ``siblings``).
    """
    model = f"{need.model_id}@{need.revision[:12]}"
    if need.token_secret_arn is not None:
        yield from _secret(need.token_secret_arn, context)
    hub = (need.endpoint or os.environ.get(_HUB, _PUBLIC_HUB)).rstrip("/")
    # A mirror may answer differently from the hub.
    certain = problem if need.endpoint is None else advice
    url = f"{hub}/api/models/{need.model_id}/revision/{need.revision}"
    try:
        # The operator sets the hub's address.
        with urllib.request.urlopen(url, timeout=_SECONDS) as response:  # noqa: S310
            described = object_in(json_value(response.read(MOST_BYTES + 1)))
    except urllib.error.HTTPError as error:
        # The hub returns 401 for private and for unknown models.
        if error.code in (401, 403) and need.token_secret_arn is not None:
            yield advice(
                _NAME,
                f"{model} is not public, and the token's access to it was not checked",
                "make sure that the token has access",
            )
        elif error.code in (401, 403, 404):
            yield certain(
                _NAME,
                f"{hub} has no model {model}, or it is private",
                "check the ID and commit, or declare Model.huggingface(..., token=<a secret>)",
            )
        else:
            yield advice(_NAME, f"{hub} returned status {error.code} for {model}", "check the model's page")
        return
    except (OSError, ValueError) as error:
        yield advice(_NAME, f"{hub} could not be queried for {model} ({error})", "check the model's page")
        return
    if described.get("gated") and need.token_secret_arn is None:
        yield certain(
            _NAME,
            f"{model} is gated, but no token is declared",
            "accept its license on the model's page, and declare Model.huggingface(..., token=<a secret>)",
        )
    names = [str(object_in(sibling).get("rfilename", "")) for sibling in list_in(described.get("siblings"))]
    if not names:
        return
    if (found := model_files.fault(names, pickles=True)) is not None:
        said = certain if found.load_format is None else advice
        yield said(_NAME, f"no engine loads {model}: {found.reason}", found.fix)
    elif not model_files.weights(names) and not need.allow_pickle:
        yield certain(
            _NAME,
            f"{model} has its weights in pickle files only, which can run code when they are loaded",
            "choose another model, or declare Model.huggingface(..., allow_pickle=True) if you trust its owner",
        )
    yield from _without_tokenizer(model, names)


def _listed(source: S3Source, context: Context) -> Iterator[str]:
    """Yield the names of the files, without the empty objects that stand for folders in S3's console."""
    bucket, prefix = source.location
    try:
        listed = objects(context.client("s3"), bucket, prefix)
        yield from (name for name, _, _ in listed if not name.endswith("/"))
    except ClientError as error:
        if code_of(error) != "NoSuchBucket":
            raise
        raise DeploymentError(f"there is no bucket {bucket}. Next: use another one") from None


def file_findings(uri: str, names: Collection[str]) -> Iterator[PreflightFinding]:
    """Check that an engine loads the files under an S3 URI, by their names relative to it."""
    if (found := model_files.fault(names, pickles=True)) is not None:
        # LMI's own handlers may read other files, and the need does not name the server.
        said = problem if _HANDLED.isdisjoint(names) and found.load_format is None else advice
        yield said(_NAME, f"no engine loads {uri}: {found.reason}", found.fix)
    elif not model_files.weights(names):
        yield advice(
            _NAME,
            f"the weights under {uri} are pickle files only, which can run code when they are loaded",
            "save them as safetensors",
        )
    if model_files.has_both_layouts(names):
        yield advice(
            _NAME,
            f"vLLM loads {model_files.MISTRALS_WEIGHTS} under {uri}, not the weights for {model_files.CONFIG}",
            f"remove {model_files.MISTRALS_WEIGHTS}, or add {model_files.MISTRALS_CONFIG}",
        )
    yield from _without_tokenizer(uri, names)


def _without_tokenizer(model: str, names: Collection[str]) -> Iterator[PreflightFinding]:
    """Say that files that are a model's lack a tokenizer. Draft models need none, and the need does not say more."""
    if model_files.fault(names, pickles=True) is None and not model_files.has_tokenizer(names):
        yield advice(
            _NAME,
            f"{model} has no tokenizer, without which no engine serves it, except as a draft model",
            "add the tokenizer's files of the model that it was made from",
        )


def _secret(arn: str, context: Context) -> Iterator[PreflightFinding]:
    region = arn.split(":")[3]
    if region != context.region:
        reason = f"the secret {_without_ending(arn)} is in {region}, and was not looked up"
        yield advice(_NAME, reason, f"make sure that it exists in {region}")
        return
    try:
        secret = context.client("secretsmanager").describe_secret(SecretId=arn)
    except ClientError as error:
        if code_of(error) != "ResourceNotFoundException":
            raise
        yield problem(_NAME, f"there is no secret {_without_ending(arn)}", "create it with the token as its value")
        return
    if secret.get("DeletedDate") is not None:
        yield problem(
            _NAME, f"the secret {_without_ending(arn)} is scheduled for deletion", "restore it, or use another one"
        )


def _without_ending(arn: str) -> str:
    return re.sub(r"-[A-Za-z0-9]{6}$", "", arn.partition(":secret:")[2])
