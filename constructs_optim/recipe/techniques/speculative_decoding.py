"""Speculative decoding: a cheap draft proposes tokens, the model verifies them; the output stays the model's own.

Sources: Amazon SageMaker developer guide on inference optimization and on EAGLE; ``lmi-dist`` and vLLM user guides of
djl-serving. Images up to LMI 14 read ``OPTION_SPECULATIVE_DRAFT_MODEL``; later ones ignore it without a word and read
``OPTION_SPECULATIVE_CONFIG``, so each technique asks for the capability it needs.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import Field

from constructs_optim.recipe.named_arguments import NamesItsFactories, knows_its_arguments

from .base import Channel, Stage, Technique

_CHANNELS = "/opt/ml/additional-model-data-sources"


class _DraftModel(Technique):
    kind: ClassVar[str] = "speculative_decoding"
    catalog_column: ClassVar[str] = "speculative_decoding"
    capabilities: ClassVar[frozenset[str]] = frozenset({"draft_model"})
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})
    other_families: ClassVar[frozenset[str]] = frozenset({"g6e", "p5e", "p5en"})

    speculative_length: int | None = Field(default=None, ge=1, le=32)

    def serving_environment(self) -> dict[str, str]:
        """Where the draft is, and how many tokens it proposes."""
        length = {} if self.speculative_length is None else {"OPTION_SPECULATIVE_LENGTH": str(self.speculative_length)}
        return {"OPTION_SPECULATIVE_DRAFT_MODEL": f"{_CHANNELS}/draft_model", **length}


class SageMakerDraft(_DraftModel):
    """The draft that SageMaker provides for a JumpStart model."""

    method: ClassVar[str] = "sagemaker_draft"
    catalog_column: ClassVar[str] = "sagemaker_draft_model"
    variant_only: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """For instance ``SageMaker draft model``."""
        return "SageMaker draft model"

    def channel(self) -> Channel:
        """The draft, named by the served model's hub document."""
        return Channel(name="draft_model", kind="target_hub", provider="sagemaker")


class JumpStartDraft(_DraftModel):
    """Another JumpStart model as the draft."""

    method: ClassVar[str] = "jumpstart_draft"

    model_id: str
    version: str | None = None
    accept_eula: bool = False

    @property
    def label(self) -> str:
        """For instance ``draft model meta-textgeneration-llama-3-2-1b``."""
        return f"draft model {self.model_id}" + (f" {self.version}" if self.version else "")

    def channel(self) -> Channel:
        """The draft, resolved in the hub when the stack is deployed."""
        return Channel(
            name="draft_model",
            kind="hub",
            model_id=self.model_id,
            version=self.version,
            accept_eula=self.accept_eula is True,
            provider="jumpstart",
        )


class CustomDraft(_DraftModel):
    """A draft model of your own."""

    method: ClassVar[str] = "custom_draft"

    uri: str
    accept_eula: bool = False

    @property
    def label(self) -> str:
        """For instance ``custom draft model``."""
        return "custom draft model"

    def channel(self) -> Channel:
        """The draft's files."""
        return Channel(name="draft_model", kind="s3", uri=self.uri, accept_eula=self.accept_eula is True)


class EagleHeads(Technique):
    """EAGLE heads, trained on the model by a job and served beside it."""

    kind: ClassVar[str] = "speculative_decoding"
    method: ClassVar[str] = "eagle"
    catalog_column: ClassVar[str] = "eagle"
    capabilities: ClassVar[frozenset[str]] = frozenset({"eagle", "speculative_config"})
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})
    other_families: ClassVar[frozenset[str]] = frozenset({"g6e", "p5e", "p5en"})
    stage: ClassVar[Stage] = Stage.TRAIN_HEADS
    job_member: ClassVar[str] = "ModelSpeculativeDecodingConfig"
    takes_image: ClassVar[bool] = False

    training_data: str | None = None
    speculative_tokens: int = Field(default=5, ge=1, le=32)

    @property
    def label(self) -> str:
        """For instance ``EAGLE heads (5 tokens)``."""
        return f"EAGLE heads ({self.speculative_tokens} tokens)"

    def job_details(self) -> dict[str, Any]:
        """The technique, and the training data where it is the user's own."""
        data = {"S3Uri": self.training_data, "S3DataType": "S3Prefix"} if self.training_data else None
        return {"Technique": "EAGLE", **({"TrainingDataSource": data} if data else {})}

    def reads(self) -> tuple[str, ...]:
        """The training data, where it is the user's own."""
        return (self.training_data,) if self.training_data else ()

    def serving_environment(self) -> dict[str, str]:
        """VLLM's asynchronous engine with the heads."""
        heads = {
            "method": "eagle3",
            "model": f"{_CHANNELS}/eagle",
            "draft_tensor_parallel_size": 1,
            "num_speculative_tokens": self.speculative_tokens,
        }
        return {
            "OPTION_ASYNC_MODE": "true",
            "OPTION_ENTRYPOINT": "djl_python.lmi_vllm.vllm_async_service",
            "OPTION_ROLLING_BATCH": "disable",
            "OPTION_SPECULATIVE_CONFIG": json.dumps(heads, separators=(",", ":")),
            "SERVING_FAIL_FAST": "true",
        }

    def channel(self) -> Channel:
        """The heads that the job wrote."""
        return Channel(name="eagle", kind="job", suffix="draft/")

    def deciding_settings(self) -> dict[str, Any]:
        """None: how many tokens are proposed is a matter of serving, and data are looked at when it is deployed."""
        return {}


class SpeculativeDecoding(metaclass=NamesItsFactories):
    """A cheap draft proposes tokens and the model verifies them: less latency, the same output."""

    @staticmethod
    @knows_its_arguments
    def sagemaker_draft(*, speculative_length: int | None = None) -> Technique:
        """The draft that SageMaker provides. For JumpStart models; no job, no extra cost.

        Args:
            speculative_length: tokens it proposes at once. Default: the container's own.
        """
        return SageMakerDraft.model_construct(speculative_length=speculative_length)

    @staticmethod
    @knows_its_arguments
    def jumpstart_draft(
        model_id: str, *, version: str | None = None, accept_eula: bool = False, speculative_length: int | None = None
    ) -> Technique:
        """Another, smaller JumpStart model as the draft.

        Args:
            model_id: for instance ``meta-textgeneration-llama-3-2-1b``.
            version: default: the newest when the stack is first deployed.
            accept_eula: whether you have read and accept the draft's own licence. Default: you do not.
            speculative_length: tokens it proposes at once. Default: the container's own.
        """
        return JumpStartDraft.model_construct(
            model_id=model_id, version=version, accept_eula=accept_eula, speculative_length=speculative_length
        )

    @staticmethod
    @knows_its_arguments
    def custom_draft(uri: str, *, accept_eula: bool = False, speculative_length: int | None = None) -> Technique:
        """A draft model of your own, with the tokenizer of the model it drafts for.

        Args:
            uri: S3 prefix of its uncompressed files; may be or contain a token.
            accept_eula: passed on for sources that demand it. Default: it is not.
            speculative_length: tokens it proposes at once. Default: the container's own.
        """
        return CustomDraft.model_construct(uri=uri, accept_eula=accept_eula, speculative_length=speculative_length)

    @staticmethod
    @knows_its_arguments
    def eagle(*, training_data: str | None = None, speculative_tokens: int = 5) -> Technique:
        """EAGLE heads, trained by a job. Hours to days; give the job time with ``max_runtime``.

        Args:
            training_data: S3 prefix of prompts of your own; may hold tokens. Default: SageMaker's data.
            speculative_tokens: tokens they propose at once. Default: 5.
        """
        return EagleHeads.model_construct(training_data=training_data, speculative_tokens=speculative_tokens)
