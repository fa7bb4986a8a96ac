"""Speculative decoding: a cheap draft proposes tokens, the model verifies them; the output stays the model's own.

Sources: Amazon SageMaker developer guide on inference optimization and on EAGLE; ``lmi-dist`` and vLLM user guides of
djl-serving. Images up to LMI 14 read ``OPTION_SPECULATIVE_DRAFT_MODEL``; later ones silently ignore it and read
``OPTION_SPECULATIVE_CONFIG``, so techniques require one of two capabilities of an image.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from constructs_optim.recipe.plan_data import ArtifactSource, ChannelPlan, HubDraftSource, HubSource, S3Source
from constructs_optim.recipe.settings import Group

from .base import Option, Stage, Technique

_CHANNELS = "/opt/ml/additional-model-data-sources"


class _DraftModel(Technique):
    kind = "speculative_decoding"
    serves = frozenset({"draft_model"})

    speculative_length: Annotated[int | None, Option("OPTION_SPECULATIVE_LENGTH")] = Field(default=None, ge=1, le=32)

    def serving_environment(self) -> dict[str, str]:
        """The draft's folder, and how many tokens it proposes."""
        return {"OPTION_SPECULATIVE_DRAFT_MODEL": f"{_CHANNELS}/draft_model", **self.options()}


class SageMakerDraft(_DraftModel):
    """The draft that SageMaker provides for a JumpStart model: no job, no extra cost.

    Attributes:
        speculative_length: tokens it proposes at once. Default: the container's own.
    """

    name = "sagemaker_draft"
    title = "SageMaker draft model"
    support = "sagemaker_draft_model"
    recommended = ("",)
    draft_provider = "sagemaker"

    def channel(self, served: HubSource | S3Source, job: int) -> ChannelPlan:
        """The draft, named by the served model's hub document."""
        assert isinstance(served, HubSource)  # noqa: S101 - OPT060 refused the recipe otherwise
        draft = HubDraftSource(model_id=served.model_id, version=served.version, accept_eula=served.accept_eula)
        return ChannelPlan(name="draft_model", source=draft)


class JumpStartDraft(_DraftModel):
    """Another, smaller JumpStart model as the draft.

    Attributes:
        model_id: for instance ``meta-textgeneration-llama-3-2-1b``.
        version: its version. Default: the newest when the stack is first deployed.
        accept_eula: whether you have read and accept the draft's own licence. Default: you do not.
        speculative_length: tokens it proposes at once. Default: the container's own.
    """

    name = "jumpstart_draft"
    support = "speculative_decoding"
    draft_provider = "jumpstart"

    model_id: str
    version: str | None = None
    accept_eula: bool = False

    @property
    def label(self) -> str:
        """For instance ``draft model meta-textgeneration-llama-3-2-1b``."""
        return f"draft model {self.model_id}" + (f" {self.version}" if self.version else "")

    def channel(self, served: HubSource | S3Source, job: int) -> ChannelPlan:
        """The draft, resolved in the hub when the stack is deployed."""
        draft = HubSource(model_id=self.model_id, version=self.version, accept_eula=self.accept_eula)
        return ChannelPlan(name="draft_model", source=draft)


class CustomDraft(_DraftModel):
    """A draft model of your own, with the tokenizer of the model it drafts for.

    Attributes:
        uri: S3 prefix of its uncompressed files; may be or contain a token.
        accept_eula: passed on for sources that demand it. Default: it is not.
        speculative_length: tokens it proposes at once. Default: the container's own.
    """

    name = "custom_draft"
    title = "custom draft model"
    support = "speculative_decoding"
    draft_provider = "custom"

    uri: str
    accept_eula: bool = False

    def channel(self, served: HubSource | S3Source, job: int) -> ChannelPlan:
        """The draft's files."""
        return ChannelPlan(name="draft_model", source=S3Source(uri=self.uri, accept_eula=self.accept_eula))


class EagleHeads(Technique):
    """EAGLE heads, trained on the model by a job and served beside it.

    Training takes hours to days; give the job time with ``max_runtime``.

    Attributes:
        training_data: S3 prefix of prompts of your own; may hold tokens. Default: SageMaker's data.
        speculative_tokens: tokens they propose at once. Default: 5.
    """

    kind = "speculative_decoding"
    name = "eagle"
    title = "EAGLE heads ({speculative_tokens} tokens)"
    serves = frozenset({"eagle", "speculative_config"})
    stage = Stage(4, runtime_seconds=432_000, makes_model=False)
    job_member = "ModelSpeculativeDecodingConfig"
    takes_image = False
    recommended = ("",)
    draft_provider = "custom"

    training_data: str | None = None
    speculative_tokens: int = Field(default=5, ge=1, le=32)

    def job_details(self) -> dict[str, Any]:
        """The technique, and the training data where it is the user's own."""
        data = {"S3Uri": self.training_data, "S3DataType": "S3Prefix"} if self.training_data else None
        return {"Technique": "EAGLE", **({"TrainingDataSource": data} if data else {})}

    def reads(self) -> tuple[str, ...]:
        """The training data, where it is the user's own."""
        return (self.training_data,) if self.training_data else ()

    def engine_arguments(self) -> dict[str, Any]:
        """The heads beside the model."""
        config = {
            "method": "eagle3",
            "model": f"{_CHANNELS}/eagle",
            "draft_tensor_parallel_size": 1,
            "num_speculative_tokens": self.speculative_tokens,
        }
        return {"speculative_config": config}

    def channel(self, served: HubSource | S3Source, job: int) -> ChannelPlan:
        """The heads that the job wrote."""
        return ChannelPlan(name="eagle", source=ArtifactSource(job=job, suffix="draft/"))

    def deciding_settings(self) -> dict[str, Any]:
        """None: the number of proposed tokens affects serving only, and data is read at deployment."""
        return {}


class NgramSpeculation(Technique):
    """Proposes tokens that followed the same words earlier in the prompt or completion: no draft, no memory.

    Source: vLLM's documentation, "N-Gram Speculation".

    Attributes:
        speculative_tokens: tokens it proposes at once. Default: 5.
        prompt_lookup_max: the longest sequence of tokens that is searched for. Default: 4.
    """

    kind = "speculative_decoding"
    name = "ngram"
    title = "n-gram speculation ({speculative_tokens} tokens)"
    support = "speculative_decoding"
    serves = frozenset({"speculative_config"})

    speculative_tokens: int = Field(default=5, ge=1, le=32)
    prompt_lookup_max: int = Field(default=4, ge=1, le=32)

    def engine_arguments(self) -> dict[str, Any]:
        """The lookup in the prompt."""
        config = {
            "method": "ngram",
            "num_speculative_tokens": self.speculative_tokens,
            "prompt_lookup_max": self.prompt_lookup_max,
        }
        return {"speculative_config": config}


class SpeculativeDecoding(metaclass=Group):
    """A cheap draft proposes tokens and the model verifies them: less latency, the same output."""

    sagemaker_draft = SageMakerDraft
    jumpstart_draft = JumpStartDraft
    custom_draft = CustomDraft
    eagle = EagleHeads
    ngram = NgramSpeculation
