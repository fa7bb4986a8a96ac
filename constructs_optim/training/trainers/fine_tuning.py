"""Supervised fine-tuning with trl's SFTTrainer, of low-rank adapters or all weights, saved as one whole model."""

from __future__ import annotations

import gc
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import BitsAndBytesConfig
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from ..data.conversations import read_conversations
from ..data.tokenization import tokenized
from ..environment import TrainingEnvironment
from ..errors import TrainingError
from ..job_log import say
from ..model.backbone import load_backbone, load_tokenizer, precision_of, read_configuration
from ..model.fingerprint import fingerprint
from ..model.server_files import write_served_configuration, write_served_tokenizer
from ..settings import FineTuningSettings
from .checkpoints import run_identity
from .trainer import callbacks_of, data_identity, require_finite, train_and_resume, trainer_arguments

_ADAPTER = "adapter"


class _FineTuner(SFTTrainer):
    """Stops at a loss that is not finite."""

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **more: Any) -> Any:
        result = super().compute_loss(model, inputs, *arguments, **more)
        require_finite(result[0] if isinstance(result, tuple) else result, self.state.global_step)
        return result


def fine_tune(environment: TrainingEnvironment, settings: FineTuningSettings) -> None:
    """Fine-tune the model of channel ``model`` on channel ``training``, and save it whole to the model folder.

    Args:
        environment: the job's environment. Without channel ``validation``, nothing is evaluated and all epochs run.
        settings: the hyperparameters.

    Raises:
        TrainingError: if an input or setting is invalid, with the fix.
        Interrupted: if the process was told to end. A restart resumes from its checkpoint.
    """
    base = environment.needed_channel("model", "the model to fine-tune")
    training = environment.needed_channel("training", "the training data, *.jsonl")
    validation = environment.channel("validation")
    if settings.method == "qlora" and not _has_bitsandbytes():
        raise TrainingError("method=qlora needs a GPU and bitsandbytes; use lora or full")
    tokenizer = load_tokenizer(base)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    learned = _examples(training, tokenizer, settings, "training")
    evaluated = None if validation is None else _examples(validation, tokenizer, settings, "validation")
    identity = run_identity(
        what="fine-tuning",
        settings=settings.to_json(),
        data=[data_identity(training), validation and data_identity(validation)],
        model=fingerprint(base),
    )
    arguments = trainer_arguments(settings, environment, examples=len(learned), has_validation=evaluated is not None)
    trainer = _FineTuner(
        model=_model(base, settings),
        args=SFTConfig(
            **arguments,
            activation_checkpointing=settings.gradient_checkpointing,
            # Reentrant checkpointing computes no gradient if the inputs have none, as with adapters.
            activation_checkpointing_kwargs={"use_reentrant": False} if settings.gradient_checkpointing else None,
            max_length=settings.maximum_sequence_length,
        ),
        train_dataset=learned,
        eval_dataset=evaluated,
        processing_class=tokenizer,
        peft_config=None if settings.method == "full" else _adapters(settings),
        callbacks=callbacks_of(settings, environment, identity=identity, has_validation=evaluated is not None),
    )
    train_and_resume(trainer, environment, identity)
    _save(trainer, tokenizer, base, environment, settings)


def _examples(folder: Path, tokenizer: Any, settings: FineTuningSettings, channel: str) -> Dataset:
    tokenization = tokenized(
        read_conversations(folder),
        tokenizer,
        maximum_length=settings.maximum_sequence_length,
        with_prompts=settings.train_on_prompts,
    )
    say(f"{channel}: {tokenization}")
    return Dataset.from_dict(
        {
            "input_ids": [example.input_ids for example in tokenization.examples],
            "labels": [example.labels for example in tokenization.examples],
        }
    )


def _model(base: Path, settings: FineTuningSettings) -> Any:
    dtype = precision_of(settings.precision)
    more: dict[str, Any] = {}
    if settings.method == "qlora":
        more["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
        more["device_map"] = {"": PartialState().device}
    # All weights are in float32, because weights with 8 significant bits would lose a step of 1e-5.
    model = load_backbone(base, dtype=torch.float32 if settings.method == "full" else dtype, **more)
    model.config.use_cache = False
    return model


def _adapters(settings: FineTuningSettings) -> LoraConfig:
    return LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def _save(
    trainer: SFTTrainer, tokenizer: Any, base: Path, environment: TrainingEnvironment, settings: FineTuningSettings
) -> None:
    """Save the whole model in its original precision. Adapters are merged into the original weights.

    Merging into 4-bit weights would round the sum to 4 bits.
    """
    if not trainer.is_world_process_zero():
        return
    trained: Any = trainer.accelerator.unwrap_model(trainer.model)
    if settings.method != "full":
        adapter = environment.checkpoints / _ADAPTER
        trained.save_pretrained(str(adapter))
        trainer.model = trainer.model_wrapped = None
        del trained
        gc.collect()
        torch.cuda.empty_cache()
        whole = load_backbone(base, dtype=torch.float32)
        trained = PeftModel.from_pretrained(whole, str(adapter)).merge_and_unload()
        shutil.rmtree(adapter)
    trained = trained.to(dtype=_saved_precision(base))
    trained.config.use_cache = True
    trained.save_pretrained(environment.model)
    tokenizer.save_pretrained(environment.model)
    write_served_configuration(environment.model)
    write_served_tokenizer(environment.model)
    say(f"saved the fine-tuned model in {environment.model}")


def _saved_precision(base: Path) -> torch.dtype:
    named = read_configuration(base)
    return precision_of(str(named.get("dtype") or named.get("torch_dtype") or "float32"))


def _has_bitsandbytes() -> bool:
    return torch.cuda.is_available() and importlib.util.find_spec("bitsandbytes") is not None
