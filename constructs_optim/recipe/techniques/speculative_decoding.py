"""Speculative decoding: a cheap draft proposes tokens, and the model verifies them. The output does not change.

Sources: Amazon SageMaker developer guide on inference optimization and on EAGLE; vLLM, ``config/speculative.py``;
``lmi-dist`` and vLLM user guides of djl-serving. Images up to LMI 14 read ``OPTION_SPECULATIVE_DRAFT_MODEL``; later
releases silently ignore it and read ``OPTION_SPECULATIVE_CONFIG``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.errors import Violation
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
from .captured import CapturedTraffic

_CHANNELS = "/opt/ml/additional-model-data-sources"
_GEMMA_ASSISTANT = re.compile(r"gemma-4-.*assistant", re.IGNORECASE)


class _Speculation(Technique):
    kind = "speculative_decoding"
    support = "speculative_decoding"
    compute_capability = (7.5, 12.0)


class _DraftModel(_Speculation):
    serves = frozenset({"draft_model"})

    speculative_tokens: int = Field(default=DRAFTED_TOKENS, ge=1, le=32)

    def engine_arguments(self) -> dict[str, Any]:
        """Return the draft model's folder and number of draft tokens."""
        config = {
            "method": "draft_model",
            "model": f"{_CHANNELS}/draft_model",
            "num_speculative_tokens": self.speculative_tokens,
        }
        return {"speculative_config": config}


class SageMakerDraft(_DraftModel):
    """The draft model that SageMaker provides for a JumpStart model. It needs no job and has no extra cost.

    Attributes:
        speculative_tokens: number of draft tokens per step. Default: 4.
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
        """Return the draft model that the served model's hub document names."""
        assert isinstance(served, HubSource)  # noqa: S101 - OPT060 rejects the recipe otherwise
        draft = HubDraftSource(model_id=served.model_id, version=served.version, accept_eula=served.accept_eula)
        return ChannelPlan(name="draft_model", source=draft)


class JumpStartDraft(_DraftModel):
    """A smaller JumpStart model as the draft model.

    Attributes:
        model_id: the draft model's ID, for example ``meta-textgeneration-llama-3-2-1b``.
        version: the draft model's version. Default: the newest version when the stack is first deployed.
        accept_eula: whether you have read and accept the draft model's own license. Default: no.
        speculative_tokens: number of draft tokens per step. Default: 4.
    """

    name = "jumpstart_draft"
    draft_provider = "jumpstart"

    model_id: str
    version: str | None = None
    accept_eula: bool = False

    @property
    def label(self) -> str:
        """The display name, for example ``draft model meta-textgeneration-llama-3-2-1b``."""
        return f"draft model {self.model_id}" + (f" {self.version}" if self.version else "")

    def channel(self, served: ModelSource, job: int) -> ChannelPlan:
        """Return the draft model, which the deployment looks up in JumpStart."""
        draft = HubSource(model_id=self.model_id, version=self.version, accept_eula=self.accept_eula)
        return ChannelPlan(name="draft_model", source=draft)


class CustomDraft(_DraftModel):
    """Your own draft model, with the same tokenizer as the model that it drafts for.

    Attributes:
        model: the draft model, such as ``Qwen/Qwen3-0.6B`` on Hugging Face. Set this or ``uri``.
        uri: S3 prefix of the draft model's uncompressed files; may be or contain a token.
        accept_eula: with ``uri``, whether SageMaker passes on your acceptance of the license. Default: no.
        speculative_tokens: number of draft tokens per step. Default: 4.
    """

    name = "custom_draft"
    draft_provider = "custom"

    model: Model | None = None
    uri: str | None = None
    accept_eula: bool = False

    @classmethod
    def needed(cls) -> list[str]:
        """Return ``model``: there must be one source, and this is the usual one."""
        return ["model"]

    @property
    def label(self) -> str:
        """The display name, for example ``draft model Qwen/Qwen3-0.6B``."""
        return "custom draft model" if self.model is None else f"draft model {self.model.name}"

    def _contradictions(self) -> Iterable[Violation]:
        if (self.model is None) == (self.uri is None):
            given = self.uri if self.model is not None else None
            fix = 'model=Model.huggingface("<owner>/<name>") or uri="s3://<bucket>/<prefix>/"'
            yield self._mistake("", given, "a draft model has exactly one source", fix)
        if self.model is not None and self.accept_eula:
            yield self._mistake(
                ".accept_eula",
                True,
                "accept_eula applies only to uri",
                "Model.s3(..., accept_eula=True), or leave it out",
            )

    def engine_arguments(self) -> dict[str, Any]:
        """Return the draft model's folder and number of draft tokens."""
        config = super().engine_arguments()["speculative_config"]
        folder = {"model": f"{_CHANNELS}/{self.name}"} if self.model is not None else {}
        return {"speculative_config": {**config, **folder}}

    @property
    def beside(self) -> Model | None:
        """The draft model, if it is a model; None if it is an S3 prefix."""
        return self.model

    def channel(self, served: ModelSource, job: int) -> ChannelPlan | None:
        """Return the draft model's files, if it is an S3 prefix."""
        if self.uri is None:
            return None
        return ChannelPlan(name="draft_model", source=S3Source(uri=self.uri, accept_eula=self.accept_eula))


class EagleHeads(_Speculation):
    """EAGLE heads that a job trains on the model, and that draft tokens for it.

    Training takes hours to days. The job's ``max_runtime`` is 5 days by default, and a deployment waits for at most 12
    hours: deploy longer jobs with ``OptimizationJob(wait=False)``.

    Attributes:
        training_data: S3 prefix of your own prompts, which may contain tokens, or the traffic that an endpoint captured
            in a day or a month. Default: SageMaker's data.
        speculative_tokens: number of draft tokens per step. Default: 5.
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

    training_data: str | CapturedTraffic | None = None
    speculative_tokens: int = Field(default=5, ge=1, le=32)

    def job_details(self) -> dict[str, Any]:
        """Return the technique, and the training data if you supply it."""
        data = {"S3Uri": self.data_uri, "S3DataType": "S3Prefix"} if self.data_uri else None
        return {"Technique": "EAGLE", **({"TrainingDataSource": data} if data else {})}

    def reads(self) -> tuple[S3Source, ...]:
        """Return the training data, if you supply it."""
        is_captured = isinstance(self.training_data, CapturedTraffic)
        return (S3Source(uri=self.data_uri, names_bucket=is_captured),) if self.data_uri else ()

    @property
    def data_uri(self) -> str | None:
        """The S3 prefix of the training data."""
        return self.training_data.prefix if isinstance(self.training_data, CapturedTraffic) else self.training_data

    def engine_arguments(self) -> dict[str, Any]:
        """Return the configuration of the heads."""
        config = {
            "method": "eagle3",
            "model": f"{_CHANNELS}/eagle",
            "draft_tensor_parallel_size": 1,
            "num_speculative_tokens": self.speculative_tokens,
        }
        return {"speculative_config": config}

    def channel(self, served: ModelSource, job: int) -> ChannelPlan:
        """Return the heads that the job wrote."""
        return ChannelPlan(name="eagle", source=ArtifactSource(job=job, suffix="draft/"))

    def deciding_settings(self) -> dict[str, Any]:
        """Return no settings: the number of draft tokens affects only serving, and the data is read at deployment."""
        return {}


class NgramSpeculation(_Speculation):
    """Draft tokens that followed the same n-gram earlier in the request. Needs no draft model and no memory.

    Source: vLLM's documentation, "N-Gram Speculation".

    Attributes:
        speculative_tokens: number of draft tokens per step. Default: 5.
        prompt_lookup_max: maximum length of the n-gram to look up, in tokens. Default: 4.
    """

    name = "ngram"
    title = "n-gram speculation ({speculative_tokens} tokens)"
    serves = frozenset({"speculative_config"})

    speculative_tokens: int = Field(default=5, ge=1, le=32)
    prompt_lookup_max: int = Field(default=4, ge=1, le=32)

    def engine_arguments(self) -> dict[str, Any]:
        """Return the configuration of the lookup."""
        config = {
            "method": "ngram",
            "num_speculative_tokens": self.speculative_tokens,
            "prompt_lookup_max": self.prompt_lookup_max,
        }
        return {"speculative_config": config}


class Speculator(_Speculation):
    """A published speculator: heads or a small model, trained to draft for exactly this model. Needs no job.

    ``constructs-optim catalog models`` lists known speculators.

    Attributes:
        model: the speculator, such as ``RedHatAI/Qwen3-32B-speculator.eagle3`` on Hugging Face.
        method: the speculator's method: ``eagle3``, ``eagle``, ``dflash``, ``dspark``, ``medusa``, or ``mtp`` for a
            Gemma 4 assistant. Default: the method in the catalog, else the one in its name, else ``eagle3``.
        speculative_tokens: number of draft tokens per step. Default: the value in vLLM's recipe for the model, else 3.
    """

    name = "speculator"
    serves = frozenset({"eagle", "speculative_config"})

    model: Model
    method: Literal["eagle3", "eagle", "dflash", "dspark", "medusa", "mtp"] | None = None
    speculative_tokens: int | None = Field(default=None, ge=1, le=32)

    @property
    def label(self) -> str:
        """The display name, for example ``speculator RedHatAI/Qwen3-32B-speculator.eagle3``."""
        return f"speculator {self.model.name}"

    def engine_arguments(self) -> dict[str, Any]:
        """Return the configuration of the speculator."""
        config = {
            "method": self.method or _method_of(self.model.name),
            "model": f"{_CHANNELS}/speculator",
            "num_speculative_tokens": self.speculative_tokens or 3,
        }
        return {"speculative_config": config}

    def is_described_by(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the settings belong to this speculator, and you did not set ``speculative_tokens``."""
        return self.speculative_tokens is None and settings.get("model") == self.model.name

    @property
    def beside(self) -> Model:
        """The speculator's files."""
        return self.model


class MultiTokenPrediction(_Speculation):
    """The model's own heads for multi-token prediction (MTP), as in DeepSeek, GLM and Qwen3.5. Needs no job.

    Attributes:
        speculative_tokens: number of draft tokens per step. Default: the value in vLLM's recipe for the model, else 1,
            which is best with many concurrent requests.
    """

    name = "mtp"
    serves = frozenset({"speculative_config"})

    speculative_tokens: int | None = Field(default=None, ge=1, le=32)

    @property
    def label(self) -> str:
        """The display name, for example ``multi-token prediction (2 tokens)``."""
        tokens = f" ({self.speculative_tokens} tokens)" if self.speculative_tokens is not None else ""
        return f"multi-token prediction{tokens}"

    def engine_arguments(self) -> dict[str, Any]:
        """Return the configuration of the heads."""
        return {"speculative_config": {"method": "mtp", "num_speculative_tokens": self.speculative_tokens or 1}}

    def is_described_by(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the settings use the model's own heads, and you did not set ``speculative_tokens``."""
        return self.speculative_tokens is None and is_of_own_heads(settings)


def is_of_own_heads(settings: Mapping[str, Any]) -> bool:
    """Return whether a ``speculative_config`` uses a model's own MTP heads, for which vLLM 0.30 has one method."""
    return str(settings.get("method")).endswith("mtp")


def _method_of(name: str) -> str:
    """Return a speculator's method, from the catalog or from its name (``Qwen3-8B-speculator.dflash``).

    vLLM treats Gemma 4 assistants as MTP heads (``config/speculative.py``, ``gemma4_assistant``). Their recipes do not
    name a method.
    """
    known = models.speculators().get(name, {})
    if is_of_own_heads(known) or _GEMMA_ASSISTANT.search(name):
        return "mtp"
    if "method" in known:
        return str(known["method"])
    return next((method for method in ("eagle3", "dflash", "dspark", "medusa") if method in name.lower()), "eagle3")


class SpeculativeDecoding(metaclass=Group):
    """A cheap draft proposes tokens, and the model verifies them: lower latency, same output."""

    sagemaker_draft = SageMakerDraft
    jumpstart_draft = JumpStartDraft
    custom_draft = CustomDraft
    eagle = EagleHeads
    speculator = Speculator
    mtp = MultiTokenPrediction
    ngram = NgramSpeculation
