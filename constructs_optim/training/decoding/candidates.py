"""The guesses of the heads to check at once: a chain of each head's first guess, or a tree of several.

Source of the tree: arXiv 2401.10774, section 2.3.3: nodes are added greedily by their probability of being right, the
product of the accuracies along their path.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

# Assumed accuracies without a training report, which fall with the head and with the rank.
_ASSUMED = tuple(tuple(0.6 * 0.75**head * 0.35**rank for rank in range(10)) for head in range(16))


@dataclass(frozen=True)
class CandidateTree:
    """Paths of ranks: ``(0, 2)`` is head 1's first guess followed by head 2's third. Parents precede children.

    Attributes:
        paths: the path of each node.
    """

    paths: tuple[tuple[int, ...], ...]
    _parents: dict[tuple[int, ...], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        indexes = {path: index for index, path in enumerate(self.paths, start=1)}
        if any(path[:-1] and path[:-1] not in indexes for path in self.paths):
            raise ValueError("a path's beginning is not a path of the tree")
        object.__setattr__(self, "_parents", {(): 0, **indexes})

    @classmethod
    def chain(cls, heads: int) -> CandidateTree:
        """Return the chain of each head's first guess."""
        return cls(tuple((0,) * depth for depth in range(1, heads + 1)))

    @classmethod
    def likely(cls, accuracies: Sequence[Sequence[float]] | None, *, heads: int, nodes: int) -> CandidateTree:
        """Return the ``nodes`` guesses that are most likely right.

        Args:
            accuracies: for each head, the share of tokens that are its first guess, its second, and so on, as in the
                artifact's report. None for assumed accuracies.
            heads: number of heads.
            nodes: number of guesses to check at once.
        """
        known = [list(row) for row in (accuracies or _ASSUMED)[:heads]]
        chosen: list[tuple[int, ...]] = []
        # Probabilities are negative, because the heap returns the smallest first. Paths break ties.
        waiting: list[tuple[float, tuple[int, ...]]] = [(-known[0][0], (0,))] if known and nodes else []
        while waiting and len(chosen) < nodes:
            chance, path = heapq.heappop(waiting)
            chosen.append(path)
            depth, rank = len(path), path[-1]
            if depth < len(known):
                heapq.heappush(waiting, (chance * known[depth][0], (*path, 0)))
            if rank + 1 < len(known[depth - 1]) and known[depth - 1][rank] > 0:
                sibling = chance / known[depth - 1][rank] * known[depth - 1][rank + 1]
                heapq.heappush(waiting, (sibling, (*path[:-1], rank + 1)))
        return cls(tuple(chosen))

    @property
    def is_chain(self) -> bool:
        """Whether every node has at most one child, so that causal attention suffices."""
        return all(rank == 0 for path in self.paths for rank in path)

    @property
    def depth(self) -> int:
        """The number of heads used."""
        return max(map(len, self.paths), default=0)

    @cached_property
    def most_ranks(self) -> int:
        """The largest number of guesses needed from a head."""
        return 1 + max((rank for path in self.paths for rank in path), default=0)

    @cached_property
    def depths(self) -> list[int]:
        """The depth of each node. The root, which is certain, comes first with 0."""
        return [0, *map(len, self.paths)]

    @cached_property
    def children(self) -> list[list[int]]:
        """The indexes of each node's children. The root has index 0."""
        children: list[list[int]] = [[] for _ in range(len(self.paths) + 1)]
        for index, path in enumerate(self.paths, start=1):
            children[self._parents[path[:-1]]].append(index)
        return children

    def tokens(self, guesses: Sequence[Sequence[int]]) -> list[int]:
        """Return each node's token, without the root's.

        Args:
            guesses: each head's guesses in the order of their logits.
        """
        return [guesses[len(path) - 1][path[-1]] for path in self.paths]

    def attention(self, device: Any) -> torch.Tensor:
        """Return which nodes each node attends to, ``[nodes + 1, nodes + 1]``: itself, its ancestors and the root."""
        size = len(self.paths) + 1
        seen = torch.eye(size, dtype=torch.bool)
        seen[:, 0] = True
        for index, path in enumerate(self.paths, start=1):
            for length in range(1, len(path)):
                seen[index, self._parents[path[:length]]] = True
        return seen.to(device)
