"""Medusa heads: each predicts a token further ahead, from the hidden state from which the model predicts the next.

Source: arXiv 2401.10774, section 2.1.1: head k is ``softmax(W2 (SiLU(W1 h) + h))``, with W1 initially zero and W2 the
model's own vocabulary projection, so that an untrained head predicts the model's next token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from ..data.tokenization import IGNORED


class ResidualBlock(nn.Module):
    """``x + SiLU(linear(x))``; the identity until it is trained."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, hidden_size)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the block's output. Input and output have shape ``[..., hidden]``."""
        return hidden + functional.silu(self.linear(hidden))


@dataclass
class HeadTally:
    """Sums of each head's results over tokens. Tallies can be added.

    Attributes:
        losses: summed cross-entropies in nats, ``[heads]``.
        counts: numbers of tokens to predict, ``[heads]``.
        ranks: how often the right token had each rank among the head's guesses, ``[heads, ranks]``.
    """

    losses: torch.Tensor
    counts: torch.Tensor
    ranks: torch.Tensor


class MedusaHeads(nn.ModuleList):
    """The heads. The state's names are the artifact's: ``{head}.{layer}.linear.weight``, ``{head}.{layers}.weight``.

    Args:
        heads: number of heads.
        layers: residual blocks in each.
        hidden_size: length of the model's hidden states.
        vocabulary_size: rows of the model's vocabulary projection.
    """

    def __init__(self, *, heads: int, layers: int, hidden_size: int, vocabulary_size: int) -> None:
        super().__init__(
            nn.Sequential(
                *(ResidualBlock(hidden_size) for _ in range(layers)),
                nn.Linear(hidden_size, vocabulary_size, bias=False),
            )
            for _ in range(heads)
        )
        self.layers = layers
        self.hidden_size = hidden_size
        self.vocabulary_size = vocabulary_size

    @classmethod
    def beside(cls, projection: torch.Tensor, *, heads: int, layers: int) -> MedusaHeads:
        """Return heads that start as copies of the model's projection.

        Args:
            projection: the weight of the model's vocabulary projection, ``[vocabulary, hidden]``.
            heads: number of heads.
            layers: residual blocks in each.
        """
        vocabulary_size, hidden_size = projection.shape
        medusa_heads = cls(heads=heads, layers=layers, hidden_size=hidden_size, vocabulary_size=vocabulary_size)
        with torch.no_grad():
            for head in medusa_heads:
                head.get_parameter(f"{layers}.weight").copy_(projection)
        return medusa_heads

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return each head's logits, from ``[..., hidden]`` to ``[heads, ..., vocabulary]``."""
        return torch.stack([head(hidden) for head in self])

    def forward(
        self, hidden: torch.Tensor, labels: torch.Tensor, *, decay: float, ranks: int
    ) -> tuple[torch.Tensor, HeadTally]:
        """Return the loss of all heads, each shifted to its own offset.

        Args:
            hidden: the model's hidden states, ``[batch, length, hidden]``.
            labels: the tokens to predict at their own positions, -100 for none, ``[batch, length]``.
            decay: head k's mean loss has the weight ``decay ** k``.
            ranks: number of ranks to count.

        Returns:
            The weighted sum of the heads' mean losses, and the tally.
        """
        total = hidden.new_zeros((), dtype=torch.float32)
        losses, counts, ranked = [], [], []
        for offset, head in enumerate(self, start=1):
            # The model's next token is one ahead, the first head's two.
            ahead = offset + 1
            expected = labels[:, ahead:]
            wanted = expected != IGNORED
            expected = expected[wanted]
            logits = head(hidden[:, : labels.shape[1] - ahead][wanted]).float()
            loss = functional.cross_entropy(logits, expected, reduction="sum")
            total = total + decay**offset * loss / max(1, expected.numel())
            with torch.no_grad():
                better = (logits > logits.gather(1, expected[:, None])).sum(1)
                ranked.append(torch.bincount(better.clamp(max=ranks), minlength=ranks + 1)[:ranks])
                losses.append(loss.detach())
                counts.append(expected.numel())
        tally = HeadTally(
            torch.stack(losses), torch.tensor(counts, device=total.device), torch.stack(ranked).to(total.device)
        )
        return total, tally
