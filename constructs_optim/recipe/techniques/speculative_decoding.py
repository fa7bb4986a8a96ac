"""Speculative decoding: a cheap draft proposes tokens, the model verifies them; the output stays the model's own.

Sources: Amazon SageMaker developer guide on inference optimization and on EAGLE; vLLM, ``config/speculative.py``;
``lmi-dist`` and vLLM user guides of djl-serving. Images up to LMI 14 read ``OPTION_SPECULATIVE_DRAFT_MODEL``; later
ones silently ignore it and read ``OPTION_SPECULATIVE_CONFIG``.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from constructs_optim.recipe.model import Model
from constructs_optim.recipe.plan_data import (
    ArtifactSource,
    ChannelPlan,
    HubDraftSource,
    HubSource,
    ModelSource,
    S3Source,
)
from constructs_optim.recipe.servers import DRAFTED_TOKENS
from constructs_optim.recipe.settings import Group

from .base import Stage, Technique

_CHANNELS = "/opt/ml/additional-model-data-sources"


class _Speculation(Technique):
    kind = "speculative_decoding"
    support = "speculative_decoding"
    compute_capability = (7.5, 12.0)


class _DraftModel(_Speculation):
    serves = frozenset({"draft_model"})

    speculative_tokens: int = Field(default=DRAFTED_TOKENS, ge=1, le=32)

    def engine_arguments(self) -> dict[str, Any]:
        """The draft's folder, and how many tokens it proposes."""
        config = {
            "method": "draft_model",
            "model": f"{_CHANNELS}/draft_model",
            "num_speculative_tokens": self.speculative_tokens,
        }
        return {"speculative_config": config}


class SageMakerDraft(_DraftModel):
    """The draft that SageMaker provides for a JumpStart model: no job, no extra cost.

    Attributes:
        speculative_tokens: tokens it proposes at once. Default: 4.
    """

    name = "sagemaker_draft"
    title = "SageMaker draft model"
    support = "sagemaker_draft_model"
    serves = frozenset({"sagemaker_draft"})
    of_hub = True
    compute_capability = (8.0, 9.0)
    recommended = ("",)
    draft_provider = "sagemaker"

    def channel(self, served: ModelSource, job: int) -> ChannelPlan:
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
        speculative_tokens: tokens it proposes at once. Default: 4.
    """

    name = "jumpstart_draft"
    draft_provider = "jumpstart"

    model_id: str
    version: str | None = None
    accept_eula: bool = False

    @property
    def label(self) -> str:
        """For instance ``draft model meta-textgeneration-llama-3-2-1b``."""
        return f"draft model {self.model_id}" + (f" {self.version}" if self.version else "")

    def channel(self, served: ModelSource, job: int) -> ChannelPlan:
        """The draft, resolved in the hub when the stack is deployed."""
        draft = HubSource(model_id=self.model_id, version=self.version, accept_eula=self.accept_eula)
        return ChannelPlan(name="draft_model", source=draft)


class CustomDraft(_DraftModel):
    """A draft model of your own, with the tokenizer of the model it drafts for.

    Attributes:
        uri: S3 prefix of its uncompressed files; may be or contain a token.
        accept_eula: passed on for sources that demand it. Default: it is not.
        speculative_tokens: tokens it proposes at once. Default: 4.
    """

    name = "custom_draft"
    title = "custom draft model"
    draft_provider = "custom"

    uri: str
    accept_eula: bool = False

    def channel(self, served: ModelSource, job: int) -> ChannelPlan:
        """The draft's files."""
        return ChannelPlan(name="draft_model", source=S3Source(uri=self.uri, accept_eula=self.accept_eula))


class EagleHeads(_Speculation):
    """EAGLE heads, trained on the model by a job and served beside it.

    Training takes hours to days; give the job time with ``max_runtime``.

    Attributes:
        training_data: S3 prefix of prompts of your own; may hold tokens. Default: SageMaker's data.
        speculative_tokens: tokens they propose at once. Default: 5.
    """

    name = "eagle"
    support = "eagle"
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

    def channel(self, served: ModelSource, job: int) -> ChannelPlan:
        """The heads that the job wrote."""
        return ChannelPlan(name="eagle", source=ArtifactSource(job=job, suffix="draft/"))

    def deciding_settings(self) -> dict[str, Any]:
        """None: the number of proposed tokens affects serving only, and data is read at deployment."""
        return {}


class NgramSpeculation(_Speculation):
    """Proposes tokens that followed the same words earlier in the prompt or completion: no draft, no memory.

    Source: vLLM's documentation, "N-Gram Speculation".

    Attributes:
        speculative_tokens: tokens it proposes at once. Default: 5.
        prompt_lookup_max: the longest sequence of tokens that is searched for. Default: 4.
    """

    name = "ngram"
    title = "n-gram speculation ({speculative_tokens} tokens)"
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


class Speculator(_Speculation):
    """A published speculator: heads or a small model that were trained to draft for exactly this model. No job.

    ``constructs-optim catalog models`` names those that it knows of.

    Attributes:
        model: where its files come from, for instance
            ``Model.huggingface("RedHatAI/Qwen3-32B-speculator.eagle3")``.
        method: what it is: ``eagle3``, ``eagle``, ``dflash``, ``dspark`` or ``medusa``. Default: by its name, and
            ``eagle3`` where the name has none of them.
        speculative_tokens: tokens it proposes at once. Default: 3.
    """

    name = "speculator"
    serves = frozenset({"eagle", "speculative_config"})

    model: Model
    method: Literal["eagle3", "eagle", "dflash", "dspark", "medusa"] | None = None
    speculative_tokens: int = Field(default=3, ge=1, le=32)

    @property
    def label(self) -> str:
        """For instance ``speculator RedHatAI/Qwen3-32B-speculator.eagle3``."""
        return f"speculator {self.model.name}"

    def engine_arguments(self) -> dict[str, Any]:
        """The speculator beside the model."""
        config = {
            "method": self.method or _method_of(self.model.name),
            "model": f"{_CHANNELS}/speculator",
            "num_speculative_tokens": self.speculative_tokens,
        }
        return {"speculative_config": config}

    @property
    def beside(self) -> Model:
        """The speculator's files."""
        return self.model


class MultiTokenPrediction(_Speculation):
    """The heads for multi-token prediction (MTP) that the model itself has, as of DeepSeek, GLM and Qwen3.5. No job.

    Attributes:
        speculative_tokens: tokens they propose at once. Default: 1, the best where many requests run at once.
    """

    name = "mtp"
    title = "multi-token prediction ({speculative_tokens} tokens)"
    serves = frozenset({"speculative_config"})

    speculative_tokens: int = Field(default=1, ge=1, le=32)

    def engine_arguments(self) -> dict[str, Any]:
        """The heads of the model."""
        return {"speculative_config": {"method": "mtp", "num_speculative_tokens": self.speculative_tokens}}


def _method_of(name: str) -> str:
    """The method that a speculator's name has, for instance ``RedHatAI/Qwen3-8B-speculator.dflash``."""
    return next((method for method in ("eagle3", "dflash", "dspark", "medusa") if method in name.lower()), "eagle3")


class SpeculativeDecoding(metaclass=Group):
    """A cheap draft proposes tokens and the model verifies them: less latency, the same output."""

    sagemaker_draft = SageMakerDraft
    jumpstart_draft = JumpStartDraft
    custom_draft = CustomDraft
    eagle = EagleHeads
    speculator = Speculator
    mtp = MultiTokenPrediction
    ngram = NgramSpeculation
