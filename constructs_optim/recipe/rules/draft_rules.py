"""Rules for draft models, EAGLE heads and their training data, and JumpStart's configurations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import load, models
from constructs_optim.recipe.memory import MAX_MODEL_LEN, engine_setting, whole_setting
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import SglangServer
from constructs_optim.recipe.techniques import PreOptimized, SpeculativeDecoding
from constructs_optim.recipe.techniques.speculative_decoding import is_of_own_heads
from constructs_optim.recipe.tokens import is_token, matches

from .model_rules import ARCHIVES, BUCKET, HUB_ID, VERSION, wrong_bucket
from .registry import GUIDE, Finding, rule

S3_PREFIX = re.compile(rf"s3://{BUCKET}(/\S*)?")
_CONFIGURATION = re.compile(r"[A-Za-z0-9][\w.-]{0,127}")
_MOST_DRAFTS = 3
# The publishers' naming scheme: RedHatAI/Qwen3-8B-speculator.eagle3.
_SPECULATORS_FORMAT = re.compile(r"[-_.]speculator\b")
# Variables that SageMaker's draft models do not support, and the unsupported value (None: any value).
_EXCLUDED_BY_DRAFT = {
    "OPTION_ENTRYPOINT": None,
    "SAGEMAKER_PROGRAM": None,
    "SAGEMAKER_SUBMIT_DIRECTORY": None,
    "OPTION_TRUST_REMOTE_CODE": "true",
    "HF_TRUST_REMOTE_CODE": "true",
}


def is_prefix(uri: str) -> bool:
    """Return whether a URI names uncompressed files under an S3 prefix."""
    return is_token(uri) or (matches(S3_PREFIX, uri) and not uri.lower().endswith(ARCHIVES))


@rule("OPT060", f"{GUIDE}model-optimize-create-job.html")
def _sagemaker_draft_needs_jumpstart(recipe: Recipe) -> Iterator[Finding]:
    """SageMaker's draft model needs a JumpStart model: the draft matches only JumpStart's tokenizers and weights."""
    for location, draft in (
        recipe.techniques_of(SpeculativeDecoding.sagemaker_draft) if recipe.hub_model is None else ()
    ):
        yield Finding(location, draft.name, "Model.jumpstart(...), or SpeculativeDecoding.custom_draft(...)")


@rule("OPT061", f"{GUIDE}model-optimize-create-job.html")
def _region_has_drafts(recipe: Recipe) -> Iterator[Finding]:
    """The Region has SageMaker's draft models: SageMaker does not publish draft models in this Region."""
    regions = load("jumpstart")["draft_model_regions"]
    if recipe.region is None or recipe.region in regions:
        return
    for location, draft in recipe.techniques_of(SpeculativeDecoding.sagemaker_draft):
        fix = f"one of the Regions {', '.join(regions)}, or your own draft model"
        yield Finding(location, draft.name, fix, f"SageMaker does not publish draft models in {recipe.region}")


@rule("OPT062", f"{GUIDE}model-optimize-create-job.html")
def _sagemaker_draft_excludes_code(recipe: Recipe) -> Iterator[Finding]:
    """SageMaker's draft model excludes custom code: the draft supports neither inference code nor trust_remote_code."""
    for location, _ in recipe.techniques_of(SpeculativeDecoding.sagemaker_draft):
        for name, excluded in _EXCLUDED_BY_DRAFT.items():
            value = recipe.variables.get(name)
            if value is not None and excluded in (None, value.lower()):
                yield Finding(f"environment.{name}", value, f"leave out this variable or {location}")


@rule("OPT063", f"{GUIDE}model-optimize-create-job.html")
def _draft_has_an_id(recipe: Recipe) -> Iterator[Finding]:
    """A JumpStart draft model has a JumpStart model ID: these IDs consist of letters, digits and hyphens."""
    for location, draft in recipe.techniques_of(SpeculativeDecoding.jumpstart_draft):
        if not HUB_ID.fullmatch(draft.model_id):
            yield Finding(f"{location}.model_id", draft.model_id, "a model ID such as meta-textgeneration-llama-3-2-1b")
        if draft.version is not None and not VERSION.fullmatch(draft.version):
            reason = "a JumpStart model version consists of three numbers"
            yield Finding(f"{location}.version", draft.version, "a version such as '2.25.0'", reason)


@rule("OPT064", f"{GUIDE}model-optimize-create-job.html")
def _draft_license_is_accepted(recipe: Recipe) -> Iterator[Finding]:
    """Your code accepts a gated draft model's license: the draft has its own license, which only you can accept."""
    for location, draft in recipe.techniques_of(SpeculativeDecoding.jumpstart_draft):
        row = models.find(draft.model_id)
        # Every Llama is gated, whether or not the catalog lists it.
        gated = row.gated if row is not None else "llama" in draft.model_id
        if gated and not draft.accept_eula:
            name = f"the {row.license.name} ({row.license.url})" if row is not None and row.license else "its license"
            call = f'SpeculativeDecoding.jumpstart_draft(model_id="{draft.model_id}", accept_eula=True)'
            yield Finding(f"{location}.accept_eula", False, f"read {name}, then accept it with {call}")


@rule("OPT065", f"{GUIDE}model-optimize-eagle.html")
def _sources_are_prefixes(recipe: Recipe) -> Iterator[Finding]:
    """Draft models and training data are S3 prefixes: jobs and containers read uncompressed files under a prefix."""
    for location, draft in recipe.techniques_of(SpeculativeDecoding.custom_draft):
        if draft.uri is not None and not is_prefix(draft.uri):
            fix = "a URI such as 's3://my-bucket/drafts/llama-1b/'"
            yield Finding(f"{location}.uri", draft.uri, fix, wrong_bucket(draft.uri))
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle):
        if heads.data_uri is not None and not is_prefix(heads.data_uri):
            fix = "a URI such as 's3://my-bucket/prompts/'"
            yield Finding(f"{location}.training_data", heads.data_uri, fix, wrong_bucket(heads.data_uri))


@rule("OPT066", f"{GUIDE}model-optimize-eagle.html", advisory=True)
def _eagle_context(recipe: Recipe) -> Iterator[Finding]:
    """EAGLE heads have a context of 4096 tokens: beyond their training context, EAGLE heads predict fewer tokens
    correctly.
    """
    length = whole_setting(recipe, MAX_MODEL_LEN)
    for _ in recipe.techniques_of(SpeculativeDecoding.eagle):
        if length is not None and length > 4096:
            location, given = f"environment.{recipe.variable(MAX_MODEL_LEN)}", engine_setting(recipe, MAX_MODEL_LEN)
            yield Finding(location, given, "Longer requests gain less speed; their output is still correct")


@rule("OPT067", f"{GUIDE}model-optimize-create-job.html")
def _configuration_is_the_hubs(recipe: Recipe) -> Iterator[Finding]:
    """A pre-optimized configuration exists in JumpStart: names have letters, digits, dots, underscores and hyphens."""
    for location, technique in recipe.techniques_of(PreOptimized):
        if not _CONFIGURATION.fullmatch(technique.config):
            yield Finding(f"{location}.config", technique.config, "a name such as lmi-optimized")
        if recipe.hub_model is None:
            yield Finding(
                location,
                technique.name,
                "Model.jumpstart(...)",
                "only JumpStart models have pre-optimized configurations",
            )


@rule("OPT069", "https://github.com/sgl-project/sglang/blob/v0.5.20/python/sglang/srt/speculative/spec_info.py")
def _the_server_speculates_so(recipe: Recipe) -> Iterator[Finding]:
    """The server supports the speculation method: SGLang has its own algorithms, and reads heads only in their authors'
    format.
    """
    if recipe.serving_settings.name != SglangServer.name:
        return
    config = recipe.engine_arguments.get("speculative_config", {})
    release = tuple(map(int, recipe.engine.split("."))) if recipe.engine is not None else None
    for location, technique in recipe.located_techniques:
        if "speculative_config" not in technique.engine_arguments():
            continue
        algorithm, since = SglangServer.algorithms.get(config["method"], ("", ()))
        beside = technique.beside.name if technique.beside is not None else ""
        if not algorithm:
            yield Finding(location, config["method"], "Server.vllm()", f"SGLang does not support {config['method']}")
        elif release is not None and release < since:
            first = ".".join(map(str, since))
            reason = f"SGLang {recipe.engine} does not have {algorithm}"
            yield Finding(location, config["method"], f"container_version {first} or newer, or Server.vllm()", reason)
        elif _SPECULATORS_FORMAT.search(beside):
            # Its config.json has speculators_config instead of model_type (vllm-project/speculators, config.py).
            reason = f"{beside} uses the vllm-project/speculators format, which SGLang cannot read"
            yield Finding(f"{location}.model", beside, "Server.vllm(), or heads in the EAGLE authors' format", reason)


@rule("OPT070", "https://docs.vllm.ai/en/latest/features/speculative_decoding/", advisory=True)
def _speculation_is_vouched_for(recipe: Recipe) -> Iterator[Finding]:
    """The speculation method is known to work: the server might not start, or might not use this method."""
    row, is_sglang = recipe.model_row, recipe.serving_settings.name == SglangServer.name
    for location, technique in recipe.techniques_of(SpeculativeDecoding.mtp) if row is not None else ():
        assert row is not None  # noqa: S101 - for the type checker
        if not any(map(is_of_own_heads, row.recipe.speculation if row.recipe is not None else ())):
            reason = f"{row.model_id} has no known MTP heads, and the server does not start without them"
            yield Finding(location, technique.name, "Check its config.json for num_nextn_predict_layers", reason)
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle) if is_sglang else ():
        reason = "AWS does not document whether SGLang reads the EAGLE heads that SageMaker's job trains"
        yield Finding(location, heads.name, "Test it before you rely on it, or use Server.vllm()", reason)
    for location, lookup in recipe.techniques_of(SpeculativeDecoding.ngram) if is_sglang else ():
        if "prompt_lookup_max" in lookup.model_fields_set:
            reason = "SGLang looks up n-grams in a trie, and has no maximum lookup length"
            fix = "Leave it out, or set SM_SGLANG_SPECULATIVE_NGRAM_MAX_TRIE_DEPTH"
            yield Finding(f"{location}.prompt_lookup_max", lookup.prompt_lookup_max, fix, reason)


@rule("OPT068", "https://github.com/vllm-project/vllm/issues/7252")
def _draft_has_the_vocabulary(recipe: Recipe) -> Iterator[Finding]:
    """A draft model shares the model's vocabulary: vLLM rejects a draft model with a different vocabulary."""
    served = recipe.model_row
    if served is None or served.vocabulary_size is None:
        return
    for location, draft in recipe.techniques_of(SpeculativeDecoding.jumpstart_draft):
        row = models.find(draft.model_id)
        if row is None or row.vocabulary_size in (None, served.vocabulary_size):
            continue
        drafts = [
            model
            for model in models.by_id().values()
            if model.vocabulary_size == served.vocabulary_size
            and (model.parameters_billion or 0) < (served.parameters_billion or 0)
        ]
        smallest = sorted(drafts, key=lambda model: model.parameters_billion or 0)[:_MOST_DRAFTS]
        examples = f", such as {' or '.join(model.model_id for model in smallest)}" if smallest else ""
        reason = (
            f"the vocabulary of {row.model_id} has {row.vocabulary_size} tokens, and that of {served.model_id} has "
            f"{served.vocabulary_size}: vLLM rejects a draft model with a different vocabulary"
        )
        yield Finding(
            f"{location}.model_id", draft.model_id, f"a smaller model with the same vocabulary{examples}", reason
        )
