"""Rules about where the weights come from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_token, too_late

_MATRIX = "https://docs.aws.amazon.com/sagemaker/latest/dg/optimization-supported-models.html"
_HUB_API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeHubContent.html"
_JOB_API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_OptimizationJobModelSourceS3.html"
_BUCKETS = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"
_KEYS_IN_POLICIES = "https://docs.aws.amazon.com/kms/latest/developerguide/cmks-in-iam-policies.html"
_LICENCES = "https://docs.aws.amazon.com/sagemaker/latest/dg/jumpstart-foundation-models-choose.html"

_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")
_S3_URI = re.compile(r"s3://(?P<bucket>[^/\s]*)(?P<prefix>/\S*)?")
_BUCKET = re.compile(r"(?!xn--)(?!\d+\.\d+\.\d+\.\d+$)(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/\S+")
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
_LONGEST_URI = 1024


@rule(
    "OPT001",
    title="The model is a Model",
    reason="a model says where its weights come from, and that is a Model",
    link=_MATRIX,
)
def _model_is_a_model(recipe: Recipe) -> Iterator[Finding]:
    if not isinstance(recipe.model, Model):
        yield Finding("model", recipe.model, 'Model.jumpstart("<model id>") or Model.s3("s3://<bucket>/<prefix>/")')


@rule(
    "OPT002",
    title="The JumpStart model is known",
    reason="it is not among the models for which SageMaker documents inference optimization",
    link=_MATRIX,
)
def _jumpstart_id_is_known(recipe: Recipe) -> Iterator[Finding]:
    model = recipe.model
    if not isinstance(model, Model) or model.kind != "hub" or recipe.model_row is not None:
        return
    if is_token(model.model_id):
        yield Finding(
            "model",
            model.model_id,
            'the id as text; it may come from the context: app.node.try_get_context("model")',
            reason=too_late("the model's id"),
        )
        return
    matches = close_matches(model.model_id, models.by_id())
    meant = f"did you mean {' or '.join(matches)}? " if matches else ""
    listed = "" if matches else "`constructs-optim catalog models` lists them. "
    yield Finding("model", model.model_id, f"{meant}{listed}For weights of your own use Model.s3(...)")


@rule(
    "OPT003",
    title="A version looks like 2.25.0",
    reason="a hub's model versions have three numbers",
    link=_HUB_API,
)
def _version_is_one(recipe: Recipe) -> Iterator[Finding]:
    model = recipe.model
    if not isinstance(model, Model) or model.kind != "hub" or model.version is None:
        return
    if not _VERSION.fullmatch(model.version):
        yield Finding(
            "model.version",
            model.version,
            "a version such as '2.25.0'; `aws sagemaker list-hub-content-versions --hub-name SageMakerPublicHub "
            f"--hub-content-type Model --hub-content-name {model.model_id}` lists them",
        )


@rule(
    "OPT004",
    title="A gated model's licence is accepted in the code",
    reason="the weights are licensed, and accepting the licence for you would not be ours to do",
    link=_LICENCES,
)
def _licence_is_accepted(recipe: Recipe) -> Iterator[Finding]:
    row = recipe.model_row
    if row is None or not row.gated or recipe.model.accept_eula:
        return
    name, url = (row.license.name, row.license.url) if row.license else ("end-user licence agreement", _LICENCES)
    version = f'version="{recipe.model.version}", ' if recipe.model.version is not None else ""
    yield Finding(
        "model.accept_eula",
        False,
        f'read the {name} ({url}), then declare Model.jumpstart("{row.model_id}", {version}accept_eula=True)',
        reason=f"{row.model_id} is gated by the {name}, which only you can accept",
    )


@rule(
    "OPT005",
    title="An S3 model is a prefix of uncompressed files",
    reason="an optimization job reads uncompressed files under an S3 prefix",
    link=_JOB_API,
)
def _s3_uri_is_a_prefix(recipe: Recipe) -> Iterator[Finding]:
    model = recipe.model
    if not isinstance(model, Model) or model.kind != "s3" or is_token(model.uri):
        return
    example = "a URI such as 's3://my-bucket/models/llama/'"
    found = _S3_URI.fullmatch(model.uri)
    if found is None:
        yield Finding("model.uri", model.uri, example, reason="this is not an S3 URI")
    elif not _BUCKET.fullmatch(found["bucket"]):
        yield Finding(
            "model.uri",
            model.uri,
            f"{example}; see {_BUCKETS}",
            reason=f"{found['bucket']!r} cannot name a bucket: 3 to 63 lower-case letters, digits, dots and hyphens",
        )
    elif model.uri.lower().endswith(_ARCHIVES):
        yield Finding("model.uri", model.uri, "unpack the archive to a prefix, and name the prefix")
    elif len(model.uri) > _LONGEST_URI:
        yield Finding(
            "model.uri",
            model.uri,
            f"a URI of at most {_LONGEST_URI} characters",
            reason="the URI is too long",
        )


@rule(
    "OPT009",
    title="The key of a model's files is named by its ARN",
    reason="IAM policies name KMS keys by their ARNs: an alias or an id in them allows nothing",
    link=_KEYS_IN_POLICIES,
)
def _encryption_key_is_an_arn(recipe: Recipe) -> Iterator[Finding]:
    model = recipe.model
    if not isinstance(model, Model) or model.encryption_key_arn is None or is_token(model.encryption_key_arn):
        return
    if not _KMS_KEY.fullmatch(model.encryption_key_arn):
        yield Finding(
            "model.encryption_key_arn",
            model.encryption_key_arn,
            "key.key_arn, or an ARN such as 'arn:aws:kms:us-west-2:111122223333:key/...'",
        )


@rule(
    "OPT006",
    title="A version is pinned",
    reason="without a version the newest is taken when the stack is first deployed, so another stack may get another",
    link=_HUB_API,
    advisory=True,
)
def _version_is_pinned(recipe: Recipe) -> Iterator[Finding]:
    if recipe.model_row is not None and recipe.model.version is None:
        yield Finding("model.version", None, f'Pin it: Model.jumpstart("{recipe.model.model_id}", version="...")')
