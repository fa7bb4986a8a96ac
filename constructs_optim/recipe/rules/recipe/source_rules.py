"""Rules about what techniques bring along: drafts, training data, configurations of the hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from constructs_optim.recipe.catalog import jumpstart, models
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.techniques import PreOptimized, Technique
from constructs_optim.recipe.techniques.speculative_decoding import (
    CustomDraft,
    EagleHeads,
    JumpStartDraft,
    SageMakerDraft,
)
from constructs_optim.recipe.tokens import is_token

_DRAFTS = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize-create-job.html"
_EAGLE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize-eagle.html"
S3_PREFIX = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?")
"""What data and drafts are below."""
_AnyTechnique = TypeVar("_AnyTechnique", bound=Technique)
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


def _of(recipe: Recipe, technique_type: type[_AnyTechnique]) -> Iterator[tuple[str, _AnyTechnique]]:
    """The techniques of a type, with their paths."""
    return ((path, found) for path, found in recipe.known_techniques if isinstance(found, technique_type))


def _is_prefix(uri: str) -> bool:
    return is_token(uri) or (bool(S3_PREFIX.fullmatch(uri)) and not uri.lower().endswith(_ARCHIVES))


_MOST_DRAFTS = 3


@rule(
    "OPT060",
    title="SageMaker's draft is for JumpStart models",
    reason="the draft fits the tokenizer and weights that JumpStart publishes, not a model fine-tuned elsewhere",
    link=_DRAFTS,
)
def _sagemaker_draft_needs_jumpstart(recipe: Recipe) -> Iterator[Finding]:
    if isinstance(recipe.model, Model) and recipe.model.kind == "s3":
        for place, _ in _of(recipe, SageMakerDraft):
            yield Finding(
                place,
                "sagemaker_draft",
                "Model.jumpstart(...), or SpeculativeDecoding.custom_draft(...)",
            )


@rule(
    "OPT061",
    title="The region has SageMaker's drafts",
    reason="there is no bucket of draft models in that region",
    link=_DRAFTS,
)
def _region_has_drafts(recipe: Recipe) -> Iterator[Finding]:
    if recipe.region is None or recipe.region in jumpstart.draft_model_regions():
        return
    for place, _ in _of(recipe, SageMakerDraft):
        yield Finding(
            place,
            "sagemaker_draft",
            f"one of the regions {', '.join(jumpstart.draft_model_regions())}, or a draft of your own",
            reason=f"there is no bucket of draft models in {recipe.region}",
        )


@rule(
    "OPT062",
    title="SageMaker's draft runs with JumpStart's own code",
    reason="SageMaker's draft models exclude custom inference code and trust_remote_code",
    link=_DRAFTS,
)
def _sagemaker_draft_excludes_code(recipe: Recipe) -> Iterator[Finding]:
    excluded = {
        "OPTION_ENTRYPOINT": "any",
        "SAGEMAKER_PROGRAM": "any",
        "SAGEMAKER_SUBMIT_DIRECTORY": "any",
        "OPTION_TRUST_REMOTE_CODE": "true",
        "HF_TRUST_REMOTE_CODE": "true",
    }
    for place, _ in _of(recipe, SageMakerDraft):
        for name, value in excluded.items():
            given = recipe.variables.get(name)
            if given is not None and value in ("any", given.lower()):
                yield Finding(f"environment.{name}", given, f"leave it out, or {place}")


@rule(
    "OPT063",
    title="A draft of the hub is named by a model id",
    reason="a hub's model is named by letters, digits and hyphens",
    link=_DRAFTS,
)
def _draft_has_an_id(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in _of(recipe, JumpStartDraft):
        if not re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", technique.model_id):
            yield Finding(f"{place}.model_id", technique.model_id, "for instance meta-textgeneration-llama-3-2-1b")
        if technique.version is not None and not re.fullmatch(r"\d{1,4}(\.\d{1,4}){2}", technique.version):
            yield Finding(f"{place}.version", technique.version, "a version such as '2.25.0'")


@rule(
    "OPT064",
    title="A gated draft's licence is accepted in the code",
    reason="the draft has a licence of its own, which only you can accept",
    link=_DRAFTS,
)
def _draft_licence_is_accepted(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in _of(recipe, JumpStartDraft):
        model_id, row = technique.model_id, models.find(technique.model_id)
        # Every Llama is gated, whether or not the catalog lists it.
        gated = row.gated if row is not None else "llama" in model_id
        if gated and not technique.accept_eula:
            name = f"the {row.license.name} ({row.license.url})" if row is not None and row.license else "its licence"
            yield Finding(
                f"{place}.accept_eula",
                False,
                f"read {name}, then declare "
                f'SpeculativeDecoding.jumpstart_draft(model_id="{model_id}", accept_eula=True)',
            )


@rule(
    "OPT065",
    title="Drafts and training data of your own are S3 prefixes",
    reason="it is read as uncompressed files under an S3 prefix",
    link=_EAGLE,
)
def _sources_are_prefixes(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in _of(recipe, CustomDraft):
        if not _is_prefix(technique.uri):
            yield Finding(f"{place}.uri", technique.uri, "a URI such as 's3://my-bucket/drafts/llama-1b/'")
    for place, technique in _of(recipe, EagleHeads):
        uri = technique.training_data
        if uri is not None and not _is_prefix(uri):
            yield Finding(f"{place}.training_data", uri, "a URI such as 's3://my-bucket/prompts/'")


@rule(
    "OPT066",
    title="Heads are trained on at most 4096 tokens of context",
    reason="the container would be asked for more context than the heads were trained on",
    link=_EAGLE,
    advisory=True,
)
def _eagle_context(recipe: Recipe) -> Iterator[Finding]:
    given = recipe.variables.get("OPTION_MAX_MODEL_LEN", "")
    for _ in _of(recipe, EagleHeads):
        if given.isdigit() and int(given) > 4096:
            yield Finding("environment.OPTION_MAX_MODEL_LEN", given, "Longer requests speculate worse, not wrongly")


@rule(
    "OPT067",
    title="A pre-optimized configuration is one of the hub's",
    reason="it is named by letters, digits, dots, underscores and hyphens, and only hub models have any",
    link=_DRAFTS,
)
def _configuration_is_the_hubs(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in _of(recipe, PreOptimized):
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,127}", technique.config):
            yield Finding(f"{place}.config", technique.config, "for instance lmi-optimized")
        if isinstance(recipe.model, Model) and recipe.model.kind == "s3":
            yield Finding(place, "pre_optimized", "Model.jumpstart(...)")


@rule(
    "OPT068",
    title="A draft has the model's vocabulary",
    reason="what the draft proposes is compared token by token, and vLLM refuses a draft with another vocabulary",
    link="https://github.com/vllm-project/vllm/issues/7252",
)
def _draft_has_the_vocabulary(recipe: Recipe) -> Iterator[Finding]:
    served = recipe.model_row
    if served is None or served.vocabulary_size is None:
        return
    for place, technique in _of(recipe, JumpStartDraft):
        row = models.find(technique.model_id)
        if row is None or row.vocabulary_size in (None, served.vocabulary_size):
            continue
        alike = [
            other
            for other in models.by_id().values()
            if other.vocabulary_size == served.vocabulary_size
            and (other.parameters_billion or 0) < (served.parameters_billion or 0)
        ]
        smallest = sorted(alike, key=lambda other: other.parameters_billion or 0)[:_MOST_DRAFTS]
        yield Finding(
            f"{place}.model_id",
            technique.model_id,
            f"a smaller model of its vocabulary, such as {' or '.join(other.model_id for other in smallest)}"
            if smallest
            else "a smaller model of its vocabulary",
            reason=f"{row.model_id} knows {row.vocabulary_size} tokens and {served.model_id} "
            f"{served.vocabulary_size}: vLLM refuses a draft with another vocabulary",
        )
