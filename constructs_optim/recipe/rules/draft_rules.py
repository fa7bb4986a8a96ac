"""Rules about drafts, EAGLE heads and their training data, and configurations of the hub."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import load, models
from constructs_optim.recipe.memory import MAX_MODEL_LEN, engine_setting
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.techniques import PreOptimized, SpeculativeDecoding
from constructs_optim.recipe.tokens import is_token, matches

from .model_rules import ARCHIVES, HUB_ID, VERSION
from .registry import GUIDE, Finding, rule

S3_PREFIX = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?")
_CONFIGURATION = re.compile(r"[A-Za-z0-9][\w.-]{0,127}")
_MOST_DRAFTS = 3
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
        if not is_prefix(draft.uri):
            yield Finding(f"{location}.uri", draft.uri, "a URI such as 's3://my-bucket/drafts/llama-1b/'")
    for location, heads in recipe.techniques_of(SpeculativeDecoding.eagle):
        if heads.training_data is not None and not is_prefix(heads.training_data):
            fix = "a URI such as 's3://my-bucket/prompts/'"
            yield Finding(f"{location}.training_data", heads.training_data, fix)


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
