"""Rules for the model: its ID, version, license and files."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.catalog.lock import LOCK_FILE, RecordedModel
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.memory import engine_setting
from constructs_optim.recipe.model import COMMIT, Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.secrets import NOT_SHOWN
from constructs_optim.recipe.tokens import is_token, matches

from .registry import API, GUIDE, Finding, rule

_BUCKETS = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"
_LICENSES = "https://docs.aws.amazon.com/sagemaker/latest/dg/jumpstart-foundation-models-choose.html"
VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")
# The name of a general purpose bucket, alone or before the rest of a URI.
BUCKET = r"(?!xn--)(?!\d+\.\d+\.\d+\.\d+(?:/|$))(?![^/]*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
S3_FILE = re.compile(rf"s3://{BUCKET}/\S*[^/\s]")
_S3_URI = re.compile(r"s3://(?P<bucket>[^/\s]*)(?P<prefix>/\S*)?")
_BUCKET = re.compile(BUCKET)
_KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/\S+")
SECRET = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+")
HUB_ID = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_DIGITS = re.compile(r"\d+")
# huggingface_hub, validate_repo_id.
_HUGGING_FACE_ID = re.compile(r"(?!.*(--|\.\.))[\w][\w.-]{0,95}/[\w][\w.-]{0,95}(?<![.-])")
# An ID in the address of its page, or with a revision as other programs write it.
_WRITTEN_ID = re.compile(
    r"(?P<host>(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|hf://)?(?P<id>[^/:@\s]+/[^/:@\s?#]+)"
    r"(?(host)(?:[:@/?#]\S*)?|[:@]\S*)"
)
_VLLM = "https://docs.vllm.ai/en/latest/"
# Arguments of vLLM, and SGLang's, with which an engine takes another tokenizer, or none.
_WITHOUT_TOKENIZER = ("tokenizer", "tokenizer_path", "skip_tokenizer_init")
_HUGGING_FACE = "https://huggingface.co/docs/huggingface_hub/guides/download"
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
LONGEST_URI = 1024
# The files of a model; a .json is its config.json, or the index of its weights.
_FILES = (".safetensors", ".bin", ".gguf", ".json", ".pt", ".pth")


def wrong_bucket(uri: object) -> str | None:
    """Return what is wrong with the bucket name in an S3 URI; None if it is valid, or if this is not an S3 URI."""
    found = _S3_URI.fullmatch(uri) if isinstance(uri, str) else None
    if found is None or _BUCKET.fullmatch(found["bucket"]):
        return None
    return f"{found['bucket']!r} is not a bucket name: it needs 3 to 63 lowercase letters, digits, dots and hyphens"


def too_late(subject: str) -> str:
    """Return why ``subject`` cannot be a token."""
    return f"{subject} is a token, whose value is known only at deployment, but synthesis depends on the value"


@rule("OPT001", f"{GUIDE}optimization-supported-models.html")
def _model_is_a_model(recipe: Recipe) -> Iterator[Finding]:
    """`model` is a `Model`: a Model says where the weights come from."""
    if not isinstance(recipe.model, Model):
        fix = (
            Model.example(recipe.model)
            if isinstance(recipe.model, str)
            else 'Model.huggingface("<owner>/<name>"), Model.jumpstart("<model id>") or '
            'Model.s3("s3://<bucket>/<prefix>/")'
        )
        yield Finding("model", recipe.model, fix)
    for location, model in recipe.located_models:
        if location != "model" and model.kind == "hub":
            fix = "Model.huggingface(...) or Model.s3(...)"
            yield Finding(location, str(model), fix, "checkpoints and speculators come from Hugging Face or S3")


@rule("OPT002", f"{GUIDE}optimization-supported-models.html")
def _jumpstart_id_is_an_id(recipe: Recipe) -> Iterator[Finding]:
    """A JumpStart model has a JumpStart model ID: JumpStart has no model with this ID."""
    model = recipe.hub_model
    if model is None or recipe.model_row is not None:
        return
    if is_token(model.model_id):
        fix = 'the ID as a string, which can come from the context: app.node.try_get_context("model")'
        yield Finding("model", model.model_id, fix, too_late("the model's ID"))
        return
    near = close_matches(model.model_id, models.by_id())
    # A model that is too new for the catalog has other numbers in its ID; a misspelled ID has the same numbers.
    misspelt = [known for known in near if _DIGITS.findall(known) == _DIGITS.findall(model.model_id)]
    if "/" in model.model_id:
        fix = f'Model.huggingface("{model.model_id}")'
        yield Finding("model", model.model_id, fix, "this is a Hugging Face model ID")
    elif owned := [known for known in models.of_hugging_face() if _is_name_of(model.model_id, known)]:
        fix = f'did you mean {owned[0]}? In Python: Model.huggingface("{owned[0]}")'
        yield Finding("model", model.model_id, fix, "this is a Hugging Face model ID without its owner")
    elif misspelt or not HUB_ID.fullmatch(model.model_id):
        known = misspelt or near
        meant = (
            f"did you mean {' or '.join(known)}?" if known else "`constructs-optim catalog models` lists the model IDs."
        )
        yield Finding("model", model.model_id, f"{meant} For your own weights, use Model.s3(...)")


def _is_name_of(name: str, hugging_face_id: str) -> bool:
    return hugging_face_id.lower().endswith(f"/{name.lower()}")


@rule("OPT007", f"{GUIDE}optimization-supported-models.html", advisory=True)
def _model_is_known(recipe: Recipe) -> Iterator[Finding]:
    """The model is in the catalog: the model is not in the catalog, so it might not fit in memory, and the server might
    not support it.
    """
    if not isinstance(recipe.model, Model):
        return
    model = recipe.model
    if (row := recipe.model_row) is not None:
        recorded = recipe.containers.models.get(recipe.served_model.name)
        if recorded is not None and recorded.fault is None and row.layers is None and not row.architectures:
            reason = (
                f"no config.json of {recipe.served_model.name} could be read (Mistral's layout has none, and that of a "
                "gated model needs a token), so neither its memory nor whether the server supports it was checked"
            )
            yield Finding("model", model.name, "`constructs-optim dry-start` shows whether the server starts", reason)
        return
    name = str(model) if recipe.s3_model is not None else model.name
    looks_up = f"`constructs-optim lock --model {model.name}` records the facts from its config.json"
    fix = looks_up if recipe.hub_model is None and not is_token(model.uri) else "test it before you rely on it"
    cataloged = {
        known.lower(): known for known in (models.by_id() if model.kind == "hub" else models.of_hugging_face())
    }
    near = [cataloged[known] for known in close_matches(name, cataloged)] if recipe.s3_model is None else []
    yield Finding(
        "model",
        name,
        f"Did you mean {' or '.join(near[:2])}? Otherwise, {fix}" if near else f"{fix[0].upper()}{fix[1:]}",
    )


@rule("OPT008", _HUGGING_FACE)
def _hugging_face_id_is_an_id(recipe: Recipe) -> Iterator[Finding]:
    """A Hugging Face model ID has an owner and a name: IDs look like Qwen/Qwen3-32B."""
    for location, model in recipe.located_models:
        if _is_misspelt(recipe, model):
            name = model.model_id
            near = [
                known for known in models.of_hugging_face() if known.lower() == name.lower() or _is_name_of(name, known)
            ]
            fix = f"did you mean {near[0]}?" if near else "an ID such as 'Qwen/Qwen3-32B'"
            reason = (
                "IDs are case-sensitive, and the catalog has this one with different capitalization"
                if "/" in name and near
                else None
            )
            if name.lower().startswith("s3://"):
                fix, reason = f'Model.s3("s3{name[2:]}")', "this is an S3 prefix"
            elif (meant := _WRITTEN_ID.fullmatch(name)) and _HUGGING_FACE_ID.fullmatch(meant["id"]):
                fix = f"did you mean {meant['id']}?"
                reason = "an ID is only the owner and the name, and revision takes a commit"
            elif name.startswith(("/", "./", "../", "~/")):
                fix = 'upload the files, and pass their prefix: Model.s3("s3://my-bucket/models/llama/")'
                reason = "this is a path on one machine, and containers and jobs read models in S3"
            yield Finding(location, name, fix, too_late("the model's ID") if is_token(name) else reason)


def _is_misspelt(recipe: Recipe, model: Model) -> bool:
    """Return whether a model has an invalid Hugging Face ID, or one that differs from a cataloged ID only in case.

    The Hub redirects some IDs with different case, but the catalog's facts would not apply.
    """
    if model.kind != "huggingface":
        return False
    if not _HUGGING_FACE_ID.fullmatch(model.model_id):
        return True
    return recipe.row(model) is None and model.model_id.lower() in {name.lower() for name in models.of_hugging_face()}


@rule("OPT017", _HUGGING_FACE)
def _revision_is_a_commit(recipe: Recipe) -> Iterator[Finding]:
    """A revision is a commit: branches and tags move, but an artifact belongs to exactly one commit."""
    for location, model in recipe.located_models:
        # A ready-made checkpoint replaces the model.
        if model is recipe.model and recipe.served_model is not model:
            continue
        # OPT008 reports an ID that has no commits.
        if _is_misspelt(recipe, model):
            continue
        if model.kind == "huggingface" and not COMMIT.fullmatch(recipe.revision(model) or ""):
            # The lock file's commit is only used for a model without a revision.
            without = "" if model.revision is None else "leave revision out: "
            fix = (
                f"{without}`constructs-optim lock --model {model.model_id}` looks it up and records it in {LOCK_FILE}; "
                f'or set revision="<40 hexadecimal digits>" from https://huggingface.co/{model.model_id}/commits'
            )
            reason = f"the lock file has no commit of {model.model_id}" if model.revision is None else None
            yield Finding(f"{location}.revision", model.revision, fix, reason)


@rule("OPT018", "https://huggingface.co/docs/hub/models-gated")
def _gated_models_have_a_secret(recipe: Recipe) -> Iterator[Finding]:
    """A gated Hugging Face model has a token secret: only accounts that accepted its terms can download its files."""
    for location, model in recipe.located_models:
        # A ready-made checkpoint replaces the model.
        is_copied = model.kind == "huggingface" and (model is not recipe.model or recipe.served_model is model)
        row = recipe.row(model) if is_copied else None
        secret = model.token_secret_arn
        if row is not None and row.gated and secret is None:
            fix = (
                f"accept the terms at https://huggingface.co/{model.model_id}, store a token in Secrets Manager, "
                "and pass token_secret_arn=secret.secret_arn"
            )
            yield Finding(f"{location}.token_secret_arn", None, fix)
        elif secret is not None and not matches(SECRET, secret):
            fix = (
                "token_secret_arn=secret.secret_arn, or an ARN such as "
                "'arn:aws:secretsmanager:us-west-2:111122223333:secret:hub'"
            )
            yield Finding(f"{location}.token_secret_arn", NOT_SHOWN, fix, "this is not the ARN of a secret")
        if model.kind == "huggingface" and secret is None and model.encryption_key_arn is not None:
            reason = "this key decrypts the secret with the token, but the model has no secret"
            fix = "also set token_secret_arn=secret.secret_arn; to encrypt the copy, set a key on its artifact store"
            yield Finding(f"{location}.encryption_key_arn", model.encryption_key_arn, fix, reason)


def _recorded_models(recipe: Recipe) -> Iterator[tuple[str, Model, RecordedModel]]:
    """Yield the models that are used, with their locations and the records of their commits."""
    for location, model in recipe.located_models:
        recorded = recipe.containers.models.get(model.name)
        # A ready-made checkpoint replaces the model.
        is_used = model is not recipe.model or recipe.served_model is model
        if is_used and recorded is not None and recorded.revision == recipe.revision(model):
            yield location, model, recorded


@rule("OPT305", f"{_VLLM}models/supported_models/")
def _files_are_of_a_model(recipe: Recipe) -> Iterator[Finding]:
    """The files are of a model that an engine loads: `constructs-optim lock --model` found files that no engine loads,
    or no tokenizer.
    """
    for location, model, recorded in _recorded_models(recipe):
        fault = recorded.fault
        if fault is not None and (
            fault.load_format is None or engine_setting(recipe, "load_format") != fault.load_format
        ):
            fix = f"{fault.fix}. After a change, `constructs-optim lock --model {model.name}` looks at the files again"
            yield Finding(location, model.name, fix, f"no engine loads {model.name}: {fault.reason}")
        # A draft model takes the tokens of the model that it is for.
        is_served = recorded.has_tokenizer is False and model is recipe.served_model
        if is_served and all(engine_setting(recipe, name) is None for name in _WITHOUT_TOKENIZER):
            fix = (
                "a copy of its files in S3, with the tokenizer's of the model that it was made from (tokenizer.json, "
                "tokenizer_config.json): Model.s3(...)"
            )
            yield Finding(location, model.name, fix, f"{model.name} has no tokenizer, without which no engine starts")


@rule("OPT306", "https://huggingface.co/docs/hub/security-pickle")
def _pickle_files_are_allowed(recipe: Recipe) -> Iterator[Finding]:
    """A model whose weights are pickle files allows them: pickle files can run code when they are loaded, so the job
    copies them only from an owner that you trust.
    """
    for location, model, recorded in _recorded_models(recipe):
        if recorded.pickled and model.kind == "huggingface" and not model.allow_pickle:
            fix = (
                "a model with safetensors weights, or Model.huggingface(..., allow_pickle=True) if you trust its owner"
            )
            reason = f"the weights of {model.name} are pickle files only, which can run code when they are loaded"
            yield Finding(f"{location}.allow_pickle", False, fix, reason)


@rule("OPT019", "https://huggingface.co/docs/transformers/models#custom-models", advisory=True)
def _code_of_the_model_is_allowed(recipe: Recipe) -> Iterator[Finding]:
    """A model that needs its own code allows it: vLLM's published recipe runs Python files from the model's repository,
    which this model does not allow.
    """
    row = recipe.model_row
    needs_code = row is not None and row.recipe is not None and row.recipe.needs_code
    if needs_code and recipe.served_model.kind == "huggingface" and not recipe.served_model.allow_code:
        fix = "If the server does not start without them, review them and set Model.huggingface(..., allow_code=True)"
        yield Finding("model.allow_code", False, fix)


@rule("OPT003", f"{API}DescribeHubContent.html")
def _version_is_valid(recipe: Recipe) -> Iterator[Finding]:
    """A version looks like 2.25.0: a JumpStart model version consists of three numbers."""
    model = recipe.hub_model
    if model is not None and model.version is not None and not VERSION.fullmatch(model.version):
        fix = (
            "a version such as '2.25.0'; `aws sagemaker list-hub-content-versions --hub-name SageMakerPublicHub "
            f"--hub-content-type Model --hub-content-name {model.model_id}` lists them"
        )
        yield Finding("model.version", model.version, fix)


@rule("OPT004", f"{GUIDE}jumpstart-foundation-models-choose.html")
def _license_is_accepted(recipe: Recipe) -> Iterator[Finding]:
    """Your code accepts a gated model's license: only you can accept the license of its weights."""
    row = recipe.model_row
    if recipe.hub_model is None or row is None or not row.gated or recipe.model.accept_eula:
        return
    name, url = (row.license.name, row.license.url) if row.license else ("end-user license agreement", _LICENSES)
    version = f'version="{recipe.model.version}", ' if recipe.model.version is not None else ""
    fix = f'read the {name} ({url}), then accept it with Model.jumpstart("{row.model_id}", {version}accept_eula=True)'
    reason = f"{row.model_id} is gated by the {name}, which only you can accept"
    yield Finding("model.accept_eula", False, fix, reason)


@rule("OPT005", f"{API}OptimizationJobModelSourceS3.html")
def _s3_uri_is_a_prefix(recipe: Recipe) -> Iterator[Finding]:
    """A model in S3 is a prefix with uncompressed files: jobs and containers read uncompressed files under a prefix."""
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
            fix = "unpack the archive to a prefix, and pass the prefix"
        elif model.uri.lower().endswith(_FILES):
            fix = f"{model.uri.rpartition('/')[0]}/"
            reason = "this is one file of a model, and jobs and containers read all files under a prefix"
        elif len(model.uri) > LONGEST_URI:
            fix, reason = f"a URI of at most {LONGEST_URI} characters", "the URI is too long"
        else:
            continue
        yield Finding(f"{location}.uri", model.uri, fix, reason)


@rule("OPT049", f"{API}S3ModelDataSource.html")
def _manifest_is_of_what_is_served(recipe: Recipe) -> Iterator[Finding]:
    """Only a model without a job has a manifest: a container loads the files of a manifest, but a job all files."""
    model = recipe.s3_model
    if model is None:
        return
    if model.manifest_etag is not None and model.manifest_uri is None:
        yield Finding("model.manifest_etag", model.manifest_etag, "also set manifest_uri, the file that has this ETag")
    if model.manifest_uri is None:
        return
    if not matches(S3_FILE, model.manifest_uri):
        reason = "a manifest is a single file in S3"
        yield Finding("model.manifest_uri", model.manifest_uri, "a URI such as s3://my-bucket/models/llama.csv", reason)
    if readers := [technique.name for _, technique in recipe.located_techniques if technique.stage is not None]:
        fix = "leave it out: the job's artifact has a checksum of every file"
        yield Finding("model.manifest_uri", model.manifest_uri, fix, f"the job of {readers[0]} reads the whole prefix")


@rule("OPT009", "https://docs.aws.amazon.com/kms/latest/developerguide/cmks-in-iam-policies.html")
def _encryption_key_is_an_arn(recipe: Recipe) -> Iterator[Finding]:
    """A model's encryption key is given by its ARN: an IAM policy with a KMS key's alias or ID grants no access."""
    for location, model in recipe.located_models:
        key = model.encryption_key_arn
        if key is not None and not matches(_KMS_KEY, key):
            fix = "key.key_arn, or an ARN such as 'arn:aws:kms:us-west-2:111122223333:key/...'"
            yield Finding(f"{location}.encryption_key_arn", key, fix)


@rule("OPT006", f"{API}DescribeHubContent.html", advisory=True)
def _version_is_pinned(recipe: Recipe) -> Iterator[Finding]:
    """The model's version is pinned: without a version, each stack uses the version that is newest at its first
    deployment.
    """
    if recipe.hub_model is not None and recipe.model_row is not None and recipe.model.version is None:
        yield Finding("model.version", None, f'Pin it: Model.jumpstart("{recipe.model.model_id}", version="...")')
