"""Rules about drafts, EAGLE heads and their training data, and configurations of the hub."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import load, models
from constructs_optim.recipe.memory import MAX_MODEL_LEN, engine_setting
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import SglangServer
from constructs_optim.recipe.techniques import PreOptimized, SpeculativeDecoding
from constructs_optim.recipe.techniques.speculative_decoding import is_of_own_heads
from constructs_optim.recipe.tokens import is_token, matches

from .model_rules import ARCHIVES, HUB_ID, VERSION
from .registry import GUIDE, Finding, rule

S3_PREFIX = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?")
_CONFIGURATION = re.compile(r"[A-Za-z0-9][\w.-]{0,127}")
_MOST_DRAFTS = 3
# As their makers name them: RedHatAI/Qwen3-8B-speculator.eagle3.
_SPECULATORS_FORMAT = re.compile(r"[-_.]speculator\b")
# Variables that SageMaker's draft excludes, and the value that does; None: any.
_EXCLUDED_BY_DRAFT = {
    "OPTION_ENTRYPOINT": None,
    "SAGEMAKER_PROGRAM": None,
    "SAGEMAKER_SUBMIT_DIRECTORY": None,
    "OPTION_TRUST_REMOTE_CODE": "true",
    "HF_TRUST_REMOTE_CODE": "true",
}


def is_prefix(uri: str) -> bool:
    """Whether a URI names uncompressed files under an S3 prefix."""
    return is_token(uri) or (matches(S3_PREFIX, uri) and not uri.lower().endswith(ARCHIVES))


@rule("OPT060", f"{GUIDE}model-optimize-create-job.html")
def _sagemaker_draft_needs_jumpstart(recipe: Recipe) -> Iterator[Finding]:
    """The model is JumpStart's: SageMaker's draft model fits only tokenizer and weights that JumpStart publishes."""
    for location, draft in (
        recipe.techniques_of(SpeculativeDecoding.sagemaker_draft) if recipe.hub_model is None else ()
    ):
        yield Finding(location, draft.name, "Model.jumpstart(...), or SpeculativeDecoding.custom_draft(...)")


@rule("OPT061", f"{GUIDE}model-optimize-create-job.html")
def _region_has_drafts(recipe: Recipe) -> Iterator[Finding]:
    """The region has SageMaker's drafts: there is no bucket of draft models in that region."""
    regions = load("jumpstart")["draft_model_regions"]
    if recipe.region is None or recipe.region in regions:
        return
    for location, draft in recipe.techniques_of(SpeculativeDecoding.sagemaker_draft):
        fix = f"one of the regions {', '.join(regions)}, or a draft of your own"
        yield Finding(location, draft.name, fix, f"there is no bucket of draft models in {recipe.region}")


@rule("OPT062", f"{GUIDE}model-optimize-create-job.html")
def _sagemaker_draft_excludes_code(recipe: Recipe) -> Iterator[Finding]:
    """Custom code needs another draft: SageMaker's draft models support no inference code and no trust_remote_code."""
    for location, _ in recipe.techniques_of(SpeculativeDecoding.sagemaker_draft):
        for name, excluded in _EXCLUDED_BY_DRAFT.items():
            value = recipe.variables.get(name)
            if value is not None and excluded in (None, value.lower()):
                yield Finding(f"environment.{name}", value, f"leave it out, or {location}")


@rule("OPT063", f"{GUIDE}model-optimize-create-job.html")
def _draft_has_an_id(recipe: Recipe) -> Iterator[Finding]:
    """A draft of the hub has a model id: the ids of the hub's models have letters, digits and hyphens."""
    for location, draft in recipe.techniques_of(SpeculativeDecoding.jumpstart_draft):
        if not HUB_ID.fullmatch(draft.model_id):
            yield Finding(f"{location}.model_id", draft.model_id, "for instance meta-textgeneration-llama-3-2-1b")
        if draft.version is not None and not VERSION.fullmatch(draft.version):
            reason = "a hub's model versions have three numbers"
            yield Finding(f"{location}.version", draft.version, "a version such as '2.25.0'", reason)


@rule("OPT064", f"{GUIDE}model-optimize-create-job.html")
def _draft_licence_is_accepted(recipe: Recipe) -> Iterator[Finding]:
    """A gated draft's licence is accepted in the code: the draft has its own licence, which only you can accept."""
    for location, draft in recipe.techniques_of(SpeculativeDecoding.jumpstart_draft):
        row = models.find(draft.model_id)
        # Every Llama is gated, whether or not the catalog lists it.
        gated = row.gated if row is not None else "llama" in draft.model_id
        if gated and not draft.accept_eula:
            name = f"the {row.license.name} ({row.license.url})" if row is not None and row.license else "its licence"
            call = f'SpeculativeDecoding.jumpstart_draft(model_id="{draft.model_id}", accept_eula=True)'
            yield Finding(f"{location}.accept_eula", False, f"read {name}, then declare {call}")


@rule("OPT065", f"{GUIDE}model-optimize-eagle.html")
def _sources_are_prefixes(recipe: Recipe) -> Iterator[Finding]:
    """Drafts and training data are S3 prefixes: jobs and containers read uncompressed files under an S3 prefix."""
    for location, draft in recipe.techniques_of(SpeculativeDecoding.custom_draft):
        if draft.uri is not None and not is_prefix(draft.uri):
            yield Finding(f"{location}.uri", draft.uri, "a URI such as 's3://my-bucket/drafts/llama-1b/'")
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle):
        if heads.data_uri is not None and not is_prefix(heads.data_uri):
            fix = "a URI such as 's3://my-bucket/prompts/'"
            yield Finding(f"{location}.training_data", heads.data_uri, fix)


@rule("OPT066", f"{GUIDE}model-optimize-eagle.html", advisory=True)
def _eagle_context(recipe: Recipe) -> Iterator[Finding]:
    """EAGLE heads have 4096 tokens of context: beyond the context of their training, EAGLE heads predict less well."""
    length = engine_setting(recipe, MAX_MODEL_LEN) or ""
    for _ in recipe.techniques_of(SpeculativeDecoding.eagle):
        if length.isdigit() and int(length) > 4096:
            location = f"environment.{recipe.variable(MAX_MODEL_LEN)}"
            yield Finding(location, length, "Longer requests speculate worse, not wrongly")


@rule("OPT067", f"{GUIDE}model-optimize-create-job.html")
def _configuration_is_the_hubs(recipe: Recipe) -> Iterator[Finding]:
    """A configuration is the hub's: a configuration's name has letters, digits, dots, underscores and hyphens."""
    for location, technique in recipe.techniques_of(PreOptimized):
        if not _CONFIGURATION.fullmatch(technique.config):
            yield Finding(f"{location}.config", technique.config, "for instance lmi-optimized")
        if recipe.hub_model is None:
            yield Finding(
                location, technique.name, "Model.jumpstart(...)", "only models of the hub have configurations"
            )


@rule("OPT069", "https://github.com/sgl-project/sglang/blob/v0.5.20/python/sglang/srt/speculative/spec_info.py")
def _the_server_speculates_so(recipe: Recipe) -> Iterator[Finding]:
    """The server speculates so: SGLang has algorithms of its own, and reads heads in their makers' format only."""
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
            yield Finding(location, config["method"], "Server.vllm()", f"SGLang has no {config['method']}")
        elif release is not None and release < since:
            first = ".".join(map(str, since))
            reason = f"SGLang {recipe.engine} has no {algorithm}"
            yield Finding(location, config["method"], f"container_version {first} or newer, or Server.vllm()", reason)
        elif _SPECULATORS_FORMAT.search(beside):
            # Its config.json has speculators_config in place of a model_type (vllm-project/speculators, config.py).
            reason = f"{beside} is in the format of vllm-project/speculators, which SGLang does not read"
            yield Finding(
                f"{location}.model", beside, "Server.vllm(), or heads in the format of EAGLE's authors", reason
            )


@rule("OPT070", "https://docs.vllm.ai/en/latest/features/speculative_decoding/", advisory=True)
def _speculation_is_vouched_for(recipe: Recipe) -> Iterator[Finding]:
    """The way of speculating is known to work: nobody vouches that the server starts, or that it speculates so."""
    row, is_sglang = recipe.model_row, recipe.serving_settings.name == SglangServer.name
    for location, technique in recipe.techniques_of(SpeculativeDecoding.mtp) if row is not None else ():
        assert row is not None  # noqa: S101 - for the type checker
        if not any(map(is_of_own_heads, row.recipe.speculation if row.recipe is not None else ())):
            reason = f"no MTP heads of {row.model_id} are known, and the server does not start without them"
            yield Finding(location, technique.name, "Look for num_nextn_predict_layers in its config.json", reason)
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle) if is_sglang else ():
        reason = "AWS does not say that SGLang reads the heads of SageMaker's job"
        yield Finding(location, heads.name, "Test it before you depend on it, or Server.vllm()", reason)
    for location, lookup in recipe.techniques_of(SpeculativeDecoding.ngram) if is_sglang else ():
        if "prompt_lookup_max" in lookup.model_fields_set:
            reason = "SGLang has a trie of its own, and no longest sequence to search for"
            fix = "Leave it out, or set SM_SGLANG_SPECULATIVE_NGRAM_MAX_TRIE_DEPTH"
            yield Finding(f"{location}.prompt_lookup_max", lookup.prompt_lookup_max, fix, reason)


@rule("OPT068", "https://github.com/vllm-project/vllm/issues/7252")
def _draft_has_the_vocabulary(recipe: Recipe) -> Iterator[Finding]:
    """A draft has the model's vocabulary: vLLM refuses a draft with another vocabulary."""
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
            f"{row.model_id} knows {row.vocabulary_size} tokens and {served.model_id} {served.vocabulary_size}: vLLM "
            "refuses a draft with another vocabulary"
        )
        yield Finding(f"{location}.model_id", draft.model_id, f"a smaller model of its vocabulary{examples}", reason)
