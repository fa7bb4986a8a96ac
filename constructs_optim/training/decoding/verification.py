"""Measures the speed-up and compares outputs: the same prompts, decoded greedily with and without heads."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..data.conversations import read_conversations
from ..data.tokenization import prompt_tokens
from ..errors import TrainingError
from ..model.artifact import load_heads, read_report
from ..model.backbone import device_for_inference, load_backbone, load_tokenizer, precision_of
from ..model.heads import MedusaHeads
from .candidates import CandidateTree
from .greedy import Decoded, GreedyDecoder


@dataclass(frozen=True)
class Difference:
    """A prompt whose outputs differ: its index from 0, and the index of the first different token."""

    prompt: int
    token: int


@dataclass(frozen=True)
class Verification:
    """The result. Times are wall time of decoding in seconds.

    Attributes:
        prompts: number of decoded prompts.
        tokens: number of new tokens without heads.
        passes: passes over the model with heads, including the prompts'.
        plain_passes: passes without heads: one per token.
        seconds: time with heads.
        plain_seconds: time without heads.
        acceptance: for each head, the share of checked guesses that were right.
        ties: how often the two best tokens were too close, so that a separate pass decided.
        differences: the prompts whose outputs differ.
        dtype: type of the computation.
        verified: ``chain``, or ``tree of N``.
        machine: the hardware.
    """

    prompts: int
    tokens: int
    passes: int
    plain_passes: int
    seconds: float
    plain_seconds: float
    acceptance: tuple[float, ...]
    ties: int
    differences: tuple[Difference, ...]
    dtype: str
    verified: str
    machine: str

    @property
    def tokens_per_pass(self) -> float:
        """New tokens per pass over the model, including the prompt's; 1 without heads."""
        return self.tokens / self.passes

    @property
    def speed_up(self) -> float:
        """Wall time without heads over wall time with them."""
        return self.plain_seconds / self.seconds

    @property
    def identical(self) -> float:
        """The share of prompts with the same output, token for token."""
        return 1 - len(self.differences) / self.prompts

    def to_json(self) -> dict[str, Any]:
        """Return all values for JSON."""
        figures = {
            "tokens_per_pass": self.tokens_per_pass,
            "speed_up": self.speed_up,
            "identical": self.identical,
            "milliseconds_per_prompt": 1000 * self.seconds / self.prompts,
            "plain_milliseconds_per_prompt": 1000 * self.plain_seconds / self.prompts,
        }
        return {**figures, **asdict(self)}


def verify_artifact(
    base: Path,
    heads: Path,
    data: Path,
    *,
    limit: int = 450,
    maximum_new_tokens: int = 128,
    precision: str = "float32",
    tree_nodes: int = 0,
    tie_margin: float | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Verification:
    """Load a model and its heads, and decode the prompts of a data file with both.

    Args:
        base: the model's folder.
        heads: the artifact's folder.
        data: conversations. The text before the last answer of each is its prompt.
        limit: maximum number of prompts to decode.
        maximum_new_tokens: maximum number of new tokens for each prompt.
        precision: ``float32``, ``bfloat16`` or ``auto``.
        tree_nodes: number of guesses to check at once; 0: the chain of each head's first guess.
        tie_margin: minimum difference of the two best logits. Default: 0.001 in float32, else 0.
        progress: called with the number of finished prompts and of all prompts.

    Raises:
        TrainingError: if files are unusable, or the heads belong to another model.
    """
    device = device_for_inference()
    dtype = precision_of(precision)
    if tree_nodes < 0 or maximum_new_tokens < 1 or limit < 1:
        raise TrainingError("limit and maximum_new_tokens must be 1 or more, tree_nodes 0 or more")
    tokenizer = load_tokenizer(base)
    loaded = load_heads(heads, base, dtype=dtype, device=device)
    model = load_backbone(base, dtype=dtype, device=device).eval()
    prompts = [prompt_tokens(conversation, tokenizer) for conversation in read_conversations(data)[:limit]]
    accuracies = read_report(heads).get("accuracy_by_rank")
    tree = CandidateTree.likely(accuracies, heads=len(loaded), nodes=tree_nodes) if tree_nodes else None
    return verify(
        model,
        loaded,
        prompts,
        end_tokens=end_tokens_of(model, tokenizer),
        maximum_new_tokens=maximum_new_tokens,
        tree=tree,
        tie_margin=tie_margin,
        progress=progress,
    )


def verify(
    model: Any,
    heads: MedusaHeads,
    prompts: Sequence[Sequence[int]],
    *,
    end_tokens: Sequence[int],
    maximum_new_tokens: int,
    tree: CandidateTree | None = None,
    tie_margin: float | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Verification:
    """Decode prompts with and without heads in turn, so that other load on the machine affects both.

    Args:
        model: the model.
        heads: the model's heads.
        prompts: the tokens of each prompt.
        end_tokens: the tokens that end an answer.
        maximum_new_tokens: of each prompt.
        tree: the guesses to check. Default: the chain.
        tie_margin: see ``GreedyDecoder``.
        progress: called with the number of finished prompts and of all prompts.
    """
    plain = GreedyDecoder(model, end_tokens=end_tokens)
    fast = GreedyDecoder(model, end_tokens=end_tokens, heads=heads, tree=tree, tie_margin=tie_margin)
    for decoder in (plain, fast):
        decoder.decode(prompts[0], maximum_new_tokens=min(16, maximum_new_tokens))
    seconds, plain_seconds = 0.0, 0.0
    with_heads: list[Decoded] = []
    without: list[Decoded] = []
    for index, prompt in enumerate(prompts):
        spent, decoded = _timed(plain, prompt, maximum_new_tokens)
        plain_seconds += spent
        without.append(decoded)
        spent, decoded = _timed(fast, prompt, maximum_new_tokens)
        seconds += spent
        with_heads.append(decoded)
        progress(index + 1, len(prompts))
    differences = [
        Difference(index, _first_difference(one.tokens, other.tokens))
        for index, (one, other) in enumerate(zip(without, with_heads, strict=True))
        if one.tokens != other.tokens
    ]
    tried = [sum(counts) for counts in zip(*(decoded.tried for decoded in with_heads), strict=True)]
    accepted = [sum(counts) for counts in zip(*(decoded.accepted for decoded in with_heads), strict=True)]
    return Verification(
        prompts=len(prompts),
        tokens=sum(len(decoded.tokens) for decoded in without),
        passes=sum(decoded.passes for decoded in with_heads),
        plain_passes=sum(decoded.passes for decoded in without),
        seconds=seconds,
        plain_seconds=plain_seconds,
        acceptance=tuple(right / max(1, reached) for right, reached in zip(accepted, tried, strict=True)),
        ties=sum(decoded.ties for decoded in with_heads),
        differences=tuple(differences),
        dtype=str(model.dtype).removeprefix("torch."),
        verified="chain" if tree is None or tree.is_chain else f"tree of {len(tree.paths)}",
        machine=machine(),
    )


def end_tokens_of(model: Any, tokenizer: Any) -> list[int]:
    """Return the tokens that end an answer, from the generation configuration and the tokenizer."""
    configured = model.generation_config.eos_token_id
    configured_tokens = configured if isinstance(configured, list) else [configured]
    return sorted({token for token in (*configured_tokens, tokenizer.eos_token_id) if token is not None})


def machine() -> str:
    """Return the hardware: the accelerator, or the number of cores that PyTorch uses."""
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}"
    used, cores = torch.get_num_threads(), os.cpu_count() or 1
    return f"{used} of {cores} cores ({platform.machine()}), PyTorch {torch.__version__}"


def _timed(decoder: GreedyDecoder, prompt: Sequence[int], maximum_new_tokens: int) -> tuple[float, Decoded]:
    # A decoder returns tokens after each pass, so no accelerator work is pending.
    begun = time.perf_counter()
    decoded = decoder.decode(prompt, maximum_new_tokens=maximum_new_tokens)
    return time.perf_counter() - begun, decoded


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    return next(
        (index for index, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )
