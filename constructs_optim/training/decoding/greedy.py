"""Greedy decoding with and without heads, one prompt at a time, with a cache of keys and values.

With heads, the input of a pass over the model is the next token, which is certain, and the heads' guesses after it. The
model's own choices at these positions show how many guesses are right. Thus every token is the model's own choice, as
without heads. Heads change only the number of tokens per pass.

A floating-point sum depends on its order, and the order depends on the number of tokens in a pass. If the logits of the
model's two best tokens differ by less than ``tie_margin``, a pass with one token decides, as without heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from ..model.heads import MedusaHeads
from .candidates import CandidateTree

# In float32, the order changes logits of ordinary size by about 1e-5. In 16 bits, it changes them by more than tokens
# differ, and such a large margin would require a separate pass for too many tokens.
TIE_MARGINS = {torch.float32: 1e-3}


@dataclass
class Decoded:
    """The result of decoding a prompt.

    Attributes:
        tokens: the new tokens, including the end token.
        passes: passes over the model, including the prompt's.
        tried: how often each head's guess was checked, because all guesses before it were right.
        accepted: how often a checked guess was right.
        ties: how often the two best tokens were too close, so that a separate pass decided.
    """

    tokens: list[int] = field(default_factory=list)
    passes: int = 0
    tried: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    ties: int = 0


@dataclass
class _Seen:
    """A pass's result at each position: the model's choice, its lead over the second token, and the hidden state."""

    choices: list[int]
    gaps: list[float]
    hidden: torch.Tensor


class GreedyDecoder:
    """Decodes prompts greedily.

    Args:
        model: a Llama or Mistral model for inference.
        end_tokens: the tokens that end an answer.
        heads: Medusa heads on the same device and of the same type. Default: none, for one token per pass.
        tree: the guesses to check. Default: the chain of the heads' first guesses.
        tie_margin: minimum difference of the two best logits. Default: 0.001 in float32, else 0.
    """

    def __init__(
        self,
        model: Any,
        *,
        end_tokens: Sequence[int],
        heads: MedusaHeads | None = None,
        tree: CandidateTree | None = None,
        tie_margin: float | None = None,
    ) -> None:
        self._model = model
        self._end = frozenset(end_tokens)
        self._heads = heads
        self._tree = tree or CandidateTree.chain(0 if heads is None else len(heads))
        self._margin = TIE_MARGINS.get(model.dtype, 0.0) if tie_margin is None else tie_margin
        self._attention = None if self._tree.is_chain else self._tree.attention(model.device)
        self._window = getattr(model.config, "sliding_window", None)

    @torch.inference_mode()
    def decode(self, prompt: Sequence[int], *, maximum_new_tokens: int) -> Decoded:
        """Continue a prompt.

        Args:
            prompt: the prompt's tokens, at least one.
            maximum_new_tokens: maximum number of new tokens.
        """
        decoded = Decoded(tried=[0] * self._tree.depth, accepted=[0] * self._tree.depth)
        # Keep all keys, whatever the model's window, because those of wrong guesses must be removed.
        cache = DynamicCache()
        seen = self._pass(cache, list(prompt), decoded, only_last=True)
        following, hidden = seen.choices[-1], seen.hidden[-1:]
        while True:
            decoded.tokens.append(following)
            if following in self._end or len(decoded.tokens) >= maximum_new_tokens:
                return decoded
            if self._heads is None:
                seen = self._pass(cache, [following], decoded)
                following, hidden = seen.choices[0], seen.hidden
                continue
            following, hidden = self._verified(cache, following, hidden, decoded, maximum_new_tokens)
            if decoded.tokens[-1] in self._end or len(decoded.tokens) >= maximum_new_tokens:
                return decoded

    def _verified(
        self, cache: DynamicCache, root: int, hidden: torch.Tensor, decoded: Decoded, maximum_new_tokens: int
    ) -> tuple[int, torch.Tensor]:
        """Run one pass over the root and its guesses. Add right ones to the tokens, and return the next token."""
        tree = self._tree
        tokens = [root, *tree.tokens(self._guesses(hidden))]
        before = cache.get_seq_length()
        seen = self._pass(cache, tokens, decoded, before=before)
        path = [0]
        while seen.gaps[path[-1]] >= self._margin:
            position = path[-1]
            children = tree.children[position]
            if not children:
                break
            depth = tree.depths[children[0]] - 1
            decoded.tried[depth] += 1
            right = next((child for child in children if tokens[child] == seen.choices[position]), None)
            if right is None:
                break
            decoded.accepted[depth] += 1
            decoded.tokens.append(tokens[right])
            path.append(right)
            if tokens[right] in self._end or len(decoded.tokens) >= maximum_new_tokens:
                break
        last = path[-1]
        if seen.gaps[last] >= self._margin or decoded.tokens[-1] in self._end:
            _keep(cache, before, path)
            return seen.choices[last], seen.hidden[last : last + 1]
        decoded.ties += 1
        _keep(cache, before, path[:-1])
        alone = self._pass(cache, [tokens[last]], decoded)
        return alone.choices[0], alone.hidden

    def _guesses(self, hidden: torch.Tensor) -> list[list[int]]:
        assert self._heads is not None  # noqa: S101 - called only with heads
        heads = list(self._heads)[: self._tree.depth]
        logits = torch.cat([head(hidden) for head in heads])
        if self._tree.most_ranks == 1:
            return logits.argmax(-1, keepdim=True).tolist()
        return logits.topk(self._tree.most_ranks, dim=-1).indices.tolist()

    def _pass(
        self,
        cache: DynamicCache,
        tokens: list[int],
        decoded: Decoded,
        *,
        before: int | None = None,
        only_last: bool = False,
    ) -> _Seen:
        """Run the model over ``tokens``. With ``before``, they are the tree's, after that many tokens."""
        model = self._model
        decoded.passes += 1
        more: dict[str, Any] = {}
        if before is not None and self._attention is not None:
            depths = torch.tensor(self._tree.depths, device=model.device)
            more["position_ids"] = (before + depths)[None]
            more["attention_mask"] = self._mask(before, depths)
        hidden = model.base_model(
            input_ids=torch.tensor([tokens], device=model.device), past_key_values=cache, use_cache=True, **more
        ).last_hidden_state[0]
        if only_last:
            hidden = hidden[-1:]
        logits = model.get_output_embeddings()(hidden)
        if before is None or not self._margin:
            return _Seen(logits.argmax(-1).tolist(), [float("inf")] * len(hidden), hidden)
        best = logits.float().topk(2, dim=-1)
        return _Seen(logits.argmax(-1).tolist(), (best.values[:, 0] - best.values[:, 1]).tolist(), hidden)

    def _mask(self, before: int, depths: torch.Tensor) -> torch.Tensor:
        """Return the attention mask of the tree's nodes over the cache, to add to scores: ``[1, 1, nodes, keys]``."""
        assert self._attention is not None  # noqa: S101 - called only with a tree
        device, dtype = self._model.device, self._model.dtype
        seen = torch.cat([torch.ones(len(depths), before, dtype=torch.bool, device=device), self._attention], dim=1)
        if self._window:
            keys = torch.cat([torch.arange(before, device=device), before + depths])
            seen &= keys[None, :] > (before + depths)[:, None] - self._window
        return torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill(~seen, torch.finfo(dtype).min)[
            None, None
        ]


def _keep(cache: DynamicCache, before: int, path: Sequence[int]) -> None:
    """Keep in the cache the first ``before`` positions and those of the last pass on the path."""
    layers: list[Any] = cache.layers
    for layer in layers:
        keys, values = layer.keys, layer.values
        if list(path) == list(range(len(path))):
            layer.keys, layer.values = keys[:, :, : before + len(path)], values[:, :, : before + len(path)]
        else:
            positions = torch.tensor([*range(before), *(before + position for position in path)], device=keys.device)
            layer.keys, layer.values = keys.index_select(2, positions), values.index_select(2, positions)
