"""Which guesses of the heads are checked at once: a chain of each head's first, or a tree of several.

Source of the tree: arXiv 2401.10774, section 2.3.3: nodes are added greedily by the chance that they are right, which
is the product of the accuracies along their path.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

# The share of each head's guesses that are right, where no training says: falling with the head and with the rank.
_ASSUMED = tuple(tuple(0.6 * 0.75**head * 0.35**rank for rank in range(10)) for head in range(16))


@dataclass(frozen=True)
class CandidateTree:
    """Paths of ranks: ``(0, 2)`` is head 1's first guess and then head 2's third. Parents come before children.

    Attributes:
        paths: each node's, at most one level deeper than its parent's.
    """

    paths: tuple[tuple[int, ...], ...]
    _parents: dict[tuple[int, ...], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        indexes = {path: index for index, path in enumerate(self.paths, start=1)}
        if any(path[:-1] and path[:-1] not in indexes for path in self.paths):
            raise ValueError("a path's beginning is no path of the tree")
        object.__setattr__(self, "_parents", {(): 0, **indexes})

    @classmethod
    def chain(cls, heads: int) -> CandidateTree:
        """Each head's first guess, one after the other."""
        return cls(tuple((0,) * depth for depth in range(1, heads + 1)))

    @classmethod
    def likely(cls, accuracies: Sequence[Sequence[float]] | None, *, heads: int, nodes: int) -> CandidateTree:
        """The ``nodes`` guesses that are most likely right.

        Args:
            accuracies: for each head, how often its first guess is right, its second, and so on; as in the artifact's
                report. None: assumed ones.
            heads: how many there are.
            nodes: how many guesses are checked at once.
        """
        known = [list(row) for row in (accuracies or _ASSUMED)[:heads]]
        chosen: list[tuple[int, ...]] = []
        # Chances are negative, since the heap has the smallest first; equal ones go by their paths.
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
        """Whether every node has one child at most, so that plain causal attention suits it."""
        return all(rank == 0 for path in self.paths for rank in path)

    @property
    def depth(self) -> int:
        """How many heads are asked."""
        return max(map(len, self.paths), default=0)

    @cached_property
    def most_ranks(self) -> int:
        """How many guesses of a head are needed at most."""
        return 1 + max((rank for path in self.paths for rank in path), default=0)

    @cached_property
    def depths(self) -> list[int]:
        """How deep each node is; the root, which is certain, comes first with 0."""
        return [0, *map(len, self.paths)]

    @cached_property
    def children(self) -> list[list[int]]:
        """Each node's children by their indexes; the root has index 0."""
        children: list[list[int]] = [[] for _ in range(len(self.paths) + 1)]
        for index, path in enumerate(self.paths, start=1):
            children[self._parents[path[:-1]]].append(index)
        return children

    def tokens(self, guesses: Sequence[Sequence[int]]) -> list[int]:
        """Each node's token, without the root's.

        Args:
            guesses: for each head, its guesses in the order of their logits.
        """
        return [guesses[len(path) - 1][path[-1]] for path in self.paths]

    def attention(self, device: Any) -> torch.Tensor:
        """Which node sees which, ``[nodes + 1, nodes + 1]``: itself, those above it and the root."""
        size = len(self.paths) + 1
        seen = torch.eye(size, dtype=torch.bool)
        seen[:, 0] = True
        for index, path in enumerate(self.paths, start=1):
            for length in range(1, len(path)):
                seen[index, self._parents[path[:length]]] = True
        return seen.to(device)
