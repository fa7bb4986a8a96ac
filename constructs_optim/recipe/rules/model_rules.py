"""Rules about the model: its id, version, licence and files."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.recipe import Model, Recipe
from constructs_optim.recipe.tokens import is_token, matches

from .registry import API, GUIDE, Finding, rule

_BUCKETS = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"
_LICENCES = "https://docs.aws.amazon.com/sagemaker/latest/dg/jumpstart-foundation-models-choose.html"
VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")
_S3_URI = re.compile(r"s3://(?P<bucket>[^/\s]*)(?P<prefix>/\S*)?")
_BUCKET = re.compile(r"(?!xn--)(?!\d+\.\d+\.\d+\.\d+$)(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/\S+")
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
LONGEST_URI = 1024


def too_late(subject: str) -> str:
    """Why ``subject`` cannot be a token."""
    return (
        f"{subject} is a token, known only when the stack is deployed, and what follows from it is decided at synthesis"
    )


@rule("OPT001", f"{GUIDE}optimization-supported-models.html")
def _model_is_a_model(recipe: Recipe) -> Iterator[Finding]:
    """The model is a Model: a Model says where the weights come from."""
    if not isinstance(recipe.model, Model):
        yield Finding("model", recipe.model, 'Model.jumpstart("<model id>") or Model.s3("s3://<bucket>/<prefix>/")')


@rule("OPT002", f"{GUIDE}optimization-supported-models.html")
def _jumpstart_id_is_known(recipe: Recipe) -> Iterator[Finding]:
    """The JumpStart model is known: SageMaker documents no inference optimization for a model of that id."""
    model = recipe.hub_model
    if model is None or recipe.model_row is not None:
        return
    if is_token(model.model_id):
        fix = 'the id as text; it may come from the context: app.node.try_get_context("model")'
        yield Finding("model", model.model_id, fix, too_late("the model's id"))
        return
    near = close_matches(model.model_id, models.by_id())
    meant = f"did you mean {' or '.join(near)}?" if near else "`constructs-optim catalog models` lists them."
    yield Finding("model", model.model_id, f"{meant} For weights of your own use Model.s3(...)")


@rule("OPT003", f"{API}DescribeHubContent.html")
def _version_is_valid(recipe: Recipe) -> Iterator[Finding]:
    """A version looks like 2.25.0: a hub's model versions have three numbers."""
    model = recipe.hub_model
    if model is not None and model.version is not None and not VERSION.fullmatch(model.version):
        fix = (
            "a version such as '2.25.0'; `aws sagemaker list-hub-content-versions --hub-name SageMakerPublicHub "
            f"--hub-content-type Model --hub-content-name {model.model_id}` lists them"
        )
        yield Finding("model.version", model.version, fix)


@rule("OPT004", f"{GUIDE}jumpstart-foundation-models-choose.html")
def _licence_is_accepted(recipe: Recipe) -> Iterator[Finding]:
    """A gated model's licence is accepted in the code: only you can accept the licence of its weights."""
    row = recipe.model_row
    if row is None or not row.gated or recipe.model.accept_eula:
        return
    name, url = (row.license.name, row.license.url) if row.license else ("end-user licence agreement", _LICENCES)
    version = f'version="{recipe.model.version}", ' if recipe.model.version is not None else ""
    fix = f'read the {name} ({url}), then declare Model.jumpstart("{row.model_id}", {version}accept_eula=True)'
    reason = f"{row.model_id} is gated by the {name}, which only you can accept"
    yield Finding("model.accept_eula", False, fix, reason)


@rule("OPT005", f"{API}OptimizationJobModelSourceS3.html")
def _s3_uri_is_a_prefix(recipe: Recipe) -> Iterator[Finding]:
    """An S3 model is a prefix of uncompressed files: optimization jobs read uncompressed files under an S3 prefix."""
    model = recipe.s3_model
    if model is None or is_token(model.uri):
        return
    fix, reason = "a URI such as 's3://my-bucket/models/llama/'", None
    uri = _S3_URI.fullmatch(model.uri)
    if uri is None:
        reason = "this is not an S3 URI"
    elif not _BUCKET.fullmatch(uri["bucket"]):
        reason = f"{uri['bucket']!r} cannot name a bucket: 3 to 63 lower-case letters, digits, dots and hyphens"
        fix = f"{fix}; see {_BUCKETS}"
    elif model.uri.lower().endswith(ARCHIVES):
        fix = "unpack the archive to a prefix, and name the prefix"
    elif len(model.uri) > LONGEST_URI:
        fix, reason = f"a URI of at most {LONGEST_URI} characters", "the URI is too long"
    else:
        return
    yield Finding("model.uri", model.uri, fix, reason)


@rule("OPT009", "https://docs.aws.amazon.com/kms/latest/developerguide/cmks-in-iam-policies.html")
def _encryption_key_is_an_arn(recipe: Recipe) -> Iterator[Finding]:
    """A model's encryption key is named by its ARN: in an IAM policy, an alias or an id of a KMS key allows nothing."""
    key = recipe.model.encryption_key_arn if isinstance(recipe.model, Model) else None
    if key is not None and not matches(_KMS_KEY, key):
        fix = "key.key_arn, or an ARN such as 'arn:aws:kms:us-west-2:111122223333:key/...'"
        yield Finding("model.encryption_key_arn", key, fix)


@rule("OPT006", f"{API}DescribeHubContent.html", advisory=True)
def _version_is_pinned(recipe: Recipe) -> Iterator[Finding]:
    """A version is pinned: without a version, each stack takes the newest one when it is first deployed."""
    if recipe.model_row is not None and recipe.model.version is None:
        yield Finding("model.version", None, f'Pin it: Model.jumpstart("{recipe.model.model_id}", version="...")')
