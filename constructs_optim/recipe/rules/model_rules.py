"""Rules about the model: its id, version, licence and files."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.model import COMMIT, Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.tokens import is_token, matches

from .registry import API, GUIDE, Finding, rule

_BUCKETS = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"
_LICENCES = "https://docs.aws.amazon.com/sagemaker/latest/dg/jumpstart-foundation-models-choose.html"
VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")
S3_FILE = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/\S*[^/\s]")
_S3_URI = re.compile(r"s3://(?P<bucket>[^/\s]*)(?P<prefix>/\S*)?")
_BUCKET = re.compile(r"(?!xn--)(?!\d+\.\d+\.\d+\.\d+$)(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/\S+")
SECRET = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+")
HUB_ID = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_DIGITS = re.compile(r"\d+")
# huggingface_hub, validate_repo_id.
_HUGGING_FACE_ID = re.compile(r"(?!.*(--|\.\.))[\w][\w.-]{0,95}/[\w][\w.-]{0,95}(?<![.-])")
_HUGGING_FACE = "https://huggingface.co/docs/huggingface_hub/guides/download"
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
LONGEST_URI = 1024


def wrong_bucket(uri: str) -> str | None:
    """What is wrong with the name of the bucket of an S3 URI; None where nothing is, or it is no S3 URI."""
    found = _S3_URI.fullmatch(uri)
    if found is None or _BUCKET.fullmatch(found["bucket"]):
        return None
    return f"{found['bucket']!r} cannot name a bucket: 3 to 63 lower-case letters, digits, dots and hyphens"


def too_late(subject: str) -> str:
    """Why ``subject`` cannot be a token."""
    return (
        f"{subject} is a token, known only when the stack is deployed, and what follows from it is decided at synthesis"
    )


@rule("OPT001", f"{GUIDE}optimization-supported-models.html")
def _model_is_a_model(recipe: Recipe) -> Iterator[Finding]:
    """The model is a Model: a Model says where the weights come from."""
    if not isinstance(recipe.model, Model):
        fix = (
            'Model.huggingface("<owner>/<name>"), Model.jumpstart("<model id>") or Model.s3("s3://<bucket>/<prefix>/")'
        )
        yield Finding("model", recipe.model, fix)
    for location, model in recipe.located_models:
        if location != "model" and model.kind == "hub":
            fix = "Model.huggingface(...) or Model.s3(...)"
            yield Finding(location, str(model), fix, "checkpoints and speculators are files of Hugging Face or in S3")


@rule("OPT002", f"{GUIDE}optimization-supported-models.html")
def _jumpstart_id_is_an_id(recipe: Recipe) -> Iterator[Finding]:
    """A JumpStart model has an id of the hub: the hub has no model of that id."""
    model = recipe.hub_model
    if model is None or recipe.model_row is not None:
        return
    if is_token(model.model_id):
        fix = 'the id as text; it may come from the context: app.node.try_get_context("model")'
        yield Finding("model", model.model_id, fix, too_late("the model's id"))
        return
    near = close_matches(model.model_id, models.by_id())
    # A release that the catalog does not know has other numbers; a misspelt id has the same.
    misspelt = [known for known in near if _DIGITS.findall(known) == _DIGITS.findall(model.model_id)]
    if "/" in model.model_id:
        fix = f'Model.huggingface("{model.model_id}")'
        yield Finding("model", model.model_id, fix, "this is an id of Hugging Face")
    elif owned := [known for known in models.of_hugging_face() if _is_name_of(model.model_id, known)]:
        fix = f'did you mean {owned[0]}, in Python Model.huggingface("{owned[0]}")?'
        yield Finding("model", model.model_id, fix, "this is an id of Hugging Face without its owner")
    elif misspelt or not HUB_ID.fullmatch(model.model_id):
        known = misspelt or near
        meant = f"did you mean {' or '.join(known)}?" if known else "`constructs-optim catalog models` lists them."
        yield Finding("model", model.model_id, f"{meant} For weights of your own use Model.s3(...)")


def _is_name_of(name: str, hugging_face_id: str) -> bool:
    return hugging_face_id.lower().endswith(f"/{name.lower()}")


@rule("OPT007", f"{GUIDE}optimization-supported-models.html", advisory=True)
def _model_is_known(recipe: Recipe) -> Iterator[Finding]:
    """The model is in the catalog: it is not in the catalog, so nobody vouches that it fits the memory and that the
    server reads it.
    """
    if not isinstance(recipe.model, Model) or recipe.model_row is not None:
        return
    model = recipe.model
    name = str(model) if recipe.s3_model is not None else model.name
    looks_up = f"`constructs-optim lock --model {model.name}` records what its config.json says"
    fix = looks_up if recipe.hub_model is None and not is_token(model.uri) else "Test it before you depend on it"
    catalogued = {
        known.lower(): known for known in (models.by_id() if model.kind == "hub" else models.of_hugging_face())
    }
    near = [catalogued[known] for known in close_matches(name, catalogued)] if recipe.s3_model is None else []
    yield Finding("model", name, f"Did you mean {' or '.join(near[:2])}? Otherwise: {fix}" if near else fix)


@rule("OPT008", _HUGGING_FACE)
def _hugging_face_id_is_an_id(recipe: Recipe) -> Iterator[Finding]:
    """A model of Hugging Face has an owner and a name: ids of Hugging Face look like Qwen/Qwen3-32B."""
    for location, model in recipe.located_models:
        if _is_misspelt(recipe, model):
            name = model.model_id
            near = [
                known for known in models.of_hugging_face() if known.lower() == name.lower() or _is_name_of(name, known)
            ]
            fix = f"did you mean {near[0]}?" if near else "an id such as 'Qwen/Qwen3-32B'"
            reason = (
                "ids have capital and small letters, and the catalog knows this one by others"
                if "/" in name and near
                else None
            )
            if name.startswith("s3://"):
                fix, reason = f'Model.s3("{name}")', "this is a prefix in S3"
            yield Finding(location, name, fix, too_late("the model's id") if is_token(name) else reason)


def _is_misspelt(recipe: Recipe, model: Model) -> bool:
    """Whether a model has no valid id of Hugging Face, or a catalogued one but for the case of its letters.

    The Hub leads to some ids of other letters, and nothing that the catalog knows of the model would hold.
    """
    if model.kind != "huggingface":
        return False
    if not _HUGGING_FACE_ID.fullmatch(model.model_id):
        return True
    known = {name.lower() for name in models.of_hugging_face()}
    return recipe.row(model) is None and model.model_id.lower() in known


@rule("OPT017", _HUGGING_FACE)
def _revision_is_a_commit(recipe: Recipe) -> Iterator[Finding]:
    """A revision is a commit: branches and tags move, and an artifact is of exactly one commit."""
    for location, model in recipe.located_models:
        # A ready-made checkpoint takes the model's place.
        if model is recipe.model and recipe.served_model is not model:
            continue
        # OPT008 reports what no commit belongs to.
        if _is_misspelt(recipe, model):
            continue
        if model.kind == "huggingface" and not COMMIT.fullmatch(recipe.revision(model) or ""):
            fix = (
                f"`constructs-optim lock --model {model.model_id}` looks it up and records it in {LOCK_FILE}; or "
                f'revision="<40 hexadecimal digits>" of https://huggingface.co/{model.model_id}/commits'
            )
            reason = f"no commit of {model.model_id} is recorded" if model.revision is None else None
            yield Finding(f"{location}.revision", model.revision, fix, reason)


@rule("OPT018", "https://huggingface.co/docs/hub/models-gated")
def _gated_models_have_a_secret(recipe: Recipe) -> Iterator[Finding]:
    """A gated model of Hugging Face has a secret: only those who have accepted its terms get its files."""
    for location, model in recipe.located_models:
        # A ready-made checkpoint takes the model's place.
        is_copied = model.kind == "huggingface" and (model is not recipe.model or recipe.served_model is model)
        row = recipe.row(model) if is_copied else None
        secret = model.token_secret_arn
        if row is not None and row.gated and secret is None:
            fix = (
                f"accept the terms at https://huggingface.co/{model.model_id}, store a token as a secret of Secrets "
                "Manager, and pass token_secret_arn=secret.secret_arn"
            )
            yield Finding(f"{location}.token_secret_arn", None, fix)
        elif secret is not None and not matches(SECRET, secret):
            fix = "secret.secret_arn, or an ARN such as 'arn:aws:secretsmanager:us-west-2:111122223333:secret:hub'"
            yield Finding(f"{location}.token_secret_arn", "(not shown)", fix, "this is not the ARN of a secret")
        if model.kind == "huggingface" and secret is None and model.encryption_key_arn is not None:
            reason = "the key is of the secret with the token, and there is no secret"
            fix = "token_secret_arn=secret.secret_arn as well; a copy is encrypted with the key of its ArtifactStore"
            yield Finding(f"{location}.encryption_key_arn", model.encryption_key_arn, fix, reason)


@rule("OPT019", "https://huggingface.co/docs/transformers/models#custom-models", advisory=True)
def _code_of_the_model_is_allowed(recipe: Recipe) -> Iterator[Finding]:
    """The model's own code is allowed: the recipe that vLLM publishes for the model runs Python files of the model's
    repository, which are not allowed.
    """
    row = recipe.model_row
    needs_code = row is not None and row.recipe is not None and row.recipe.needs_code
    if needs_code and recipe.served_model.kind == "huggingface" and not recipe.served_model.allow_code:
        fix = "If the server does not start without them, read them and declare Model.huggingface(..., allow_code=True)"
        yield Finding("model.allow_code", False, fix)


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
    if recipe.hub_model is None or row is None or not row.gated or recipe.model.accept_eula:
        return
    name, url = (row.license.name, row.license.url) if row.license else ("end-user licence agreement", _LICENCES)
    version = f'version="{recipe.model.version}", ' if recipe.model.version is not None else ""
    fix = f'read the {name} ({url}), then declare Model.jumpstart("{row.model_id}", {version}accept_eula=True)'
    reason = f"{row.model_id} is gated by the {name}, which only you can accept"
    yield Finding("model.accept_eula", False, fix, reason)


@rule("OPT005", f"{API}OptimizationJobModelSourceS3.html")
def _s3_uri_is_a_prefix(recipe: Recipe) -> Iterator[Finding]:
    """A model in S3 is a prefix of uncompressed files: jobs and containers read uncompressed files under a prefix."""
    for location, model in recipe.located_models:
        if model.kind != "s3" or is_token(model.uri):
            continue
        fix, reason = "a URI such as 's3://my-bucket/models/llama/'", None
        uri = _S3_URI.fullmatch(model.uri)
        if uri is None:
            reason = "this is not an S3 URI"
        elif reason := wrong_bucket(model.uri):
            fix = f"{fix}; see {_BUCKETS}"
        elif model.uri.lower().endswith(ARCHIVES):
            fix = "unpack the archive to a prefix, and name the prefix"
        elif len(model.uri) > LONGEST_URI:
            fix, reason = f"a URI of at most {LONGEST_URI} characters", "the URI is too long"
        else:
            continue
        yield Finding(f"{location}.uri", model.uri, fix, reason)


@rule("OPT049", f"{API}S3ModelDataSource.html")
def _manifest_is_of_what_is_served(recipe: Recipe) -> Iterator[Finding]:
    """A manifest is of what is served: a container loads the files that a manifest names, and a job reads all files."""
    model = recipe.s3_model
    if model is None:
        return
    if model.manifest_etag is not None and model.manifest_uri is None:
        yield Finding("model.manifest_etag", model.manifest_etag, "manifest_uri as well, whose ETag it is")
    if model.manifest_uri is None:
        return
    if not matches(S3_FILE, model.manifest_uri):
        reason = "a manifest is one file in S3"
        yield Finding("model.manifest_uri", model.manifest_uri, "a URI such as s3://my-bucket/models/llama.csv", reason)
    if readers := [technique.name for _, technique in recipe.located_techniques if technique.stage is not None]:
        fix = "leave it out: the job's own artifact has a checksum of every file"
        yield Finding("model.manifest_uri", model.manifest_uri, fix, f"the job of {readers[0]} reads the whole prefix")


@rule("OPT009", "https://docs.aws.amazon.com/kms/latest/developerguide/cmks-in-iam-policies.html")
def _encryption_key_is_an_arn(recipe: Recipe) -> Iterator[Finding]:
    """A model's encryption key is named by its ARN: in an IAM policy, an alias or an id of a KMS key allows nothing."""
    for location, model in recipe.located_models:
        key = model.encryption_key_arn
        if key is not None and not matches(_KMS_KEY, key):
            fix = "key.key_arn, or an ARN such as 'arn:aws:kms:us-west-2:111122223333:key/...'"
            yield Finding(f"{location}.encryption_key_arn", key, fix)


@rule("OPT006", f"{API}DescribeHubContent.html", advisory=True)
def _version_is_pinned(recipe: Recipe) -> Iterator[Finding]:
    """A version is pinned: none is pinned, and each stack takes the newest one when it is first deployed."""
    if recipe.hub_model is not None and recipe.model_row is not None and recipe.model.version is None:
        yield Finding("model.version", None, f'Pin it: Model.jumpstart("{recipe.model.model_id}", version="...")')
