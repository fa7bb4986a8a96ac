"""The time of a forward pass: reads from the accelerators' memory, computation, and communication between them.

A pass that generates one token for each request of a batch reads the weights once (in a mixture of experts, only the
batch's experts) and the KV cache of all its requests. A pass over a prompt computes more than it reads. With tensor
parallelism, the accelerators add up their parts twice per layer. ``Efficiency`` is how close a server gets to the
vendors' figures; ``PHYSICS`` is the limit that no server exceeds.

Sources: Williams, Waterman and Patterson, "Roofline" (2009); Pope et al., "Efficiently Scaling Transformer Inference"
(2022), section 3; Shoeybi et al., "Megatron-LM" (2019), section 3, for the all-reduces; Leviathan, Kalman and Matias,
"Fast Inference from Transformers via Speculative Decoding" (2023), section 3, for the tokens of a verified draft.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

_REDUCTIONS_A_LAYER = 2
# A model with at least this share of active parameters counts as dense: every token needs all weights.
_DENSE = 0.9


@dataclass(frozen=True)
class Draft:
    """Speculative decoding: each pass drafts ``tokens``, and reads ``weight_bytes`` for each of them.

    ``acceptance`` is the probability that a draft token is accepted, given that all before it were.
    """

    tokens: int
    acceptance: float
    weight_bytes: float = 0.0

    @property
    def tokens_per_pass(self) -> float:
        """The mean number of tokens per pass: the accepted draft tokens, and the model's own token."""
        if self.acceptance >= 1:
            return self.tokens + 1.0
        return (1 - self.acceptance ** (self.tokens + 1)) / (1 - self.acceptance)


@dataclass(frozen=True)
class Copy:
    """One copy of a model on its accelerators. Sizes are in bytes, rates per second.

    ``parameters`` is the total number, ``active_parameters`` the number per token. ``prompt_parameters`` is the number
    per prompt token, without embeddings, which are looked up, and without the output layer. ``weight_bytes`` are the
    weights that a pass reads. ``cache_bytes`` is the KV cache per token over all accelerators. Each of the last
    ``window`` tokens needs another ``window_bytes``, and each request ``state_bytes``.

    ``flops``, ``bandwidth`` and ``link`` are the vendor's figures for one accelerator, in its precision of computation.
    ``pipeline`` is the number of stages of pipeline parallelism, ``tensor_parallel`` the number of accelerators
    (NeuronCores) per stage. ``cache_room`` is the memory for the KV cache.
    """

    parameters: float
    active_parameters: float
    prompt_parameters: float
    weight_bytes: float
    layers: float
    hidden_size: float
    cache_bytes: float
    flops: float
    bandwidth: float
    link: float
    accelerators: int = 1
    tensor_parallel: int = 1
    pipeline: int = 1
    window_bytes: float = 0.0
    window: int = 0
    state_bytes: float = 0.0
    cache_room: float = math.inf
    draft: Draft | None = None

    @property
    def is_dense(self) -> bool:
        """Whether every token needs all weights."""
        return self.active_parameters >= _DENSE * self.parameters

    def read_share(self, tokens: float) -> float:
        """Return the share of the weights that a pass over ``tokens`` reads, if experts are chosen at random."""
        if self.is_dense:
            return 1.0
        return 1 - (1 - self.active_parameters / self.parameters) ** max(tokens, 1.0)

    def request_bytes(self, tokens: float) -> float:
        """Return the KV cache of a request with ``tokens``."""
        return self.cache_bytes * tokens + self.window_bytes * min(tokens, self.window) + self.state_bytes


@dataclass(frozen=True)
class Efficiency:
    """The shares of the vendors' figures that a server reaches, and the times that it adds, in seconds.

    ``bandwidth`` is for weights, ``cache_bandwidth`` for the KV cache, ``expert_bandwidth`` an additional factor for
    the weights of experts. The added times are ``layer_seconds`` per layer, ``step_seconds`` per step,
    ``request_seconds`` per request in a step, and ``reduction_seconds`` per all-reduce. The time to first token also
    has ``server_seconds`` outside of the engine and a wait of ``awaited_passes``. ``together`` is the share of
    concurrent requests that arrive together. Reads of weights and computation overlap by the ``overlap``-norm; if it is
    infinite, everything in a pass overlaps.
    """

    bandwidth: float = 1.0
    cache_bandwidth: float = 1.0
    expert_bandwidth: float = 1.0
    compute: float = 1.0
    link: float = 1.0
    layer_seconds: float = 0.0
    step_seconds: float = 0.0
    request_seconds: float = 0.0
    reduction_seconds: float = 0.0
    server_seconds: float = 0.0
    awaited_passes: float = 0.0
    together: float = 0.0
    overlap: float = math.inf


PHYSICS = Efficiency()
"""The vendors' own figures without additions, with full overlap: a lower bound for every time."""


class _Work(NamedTuple):
    """The work of a pass, in seconds of each resource: memory for weights and KV cache, compute, and links."""

    weights: float
    cache: float
    compute: float
    links: float

    @property
    def longest(self) -> float:
        """The minimum time of the pass, because a resource does one thing at a time."""
        return max(self.weights + self.cache, self.compute, self.links)


class ForwardPass:
    """The passes of a copy at an efficiency; times are in seconds."""

    def __init__(self, copy: Copy, efficiency: Efficiency) -> None:
        self._copy, self._efficiency = copy, efficiency
        bandwidth = copy.bandwidth * copy.accelerators
        experts = 1.0 if copy.is_dense else efficiency.expert_bandwidth
        self._read_weights = bandwidth * efficiency.bandwidth * experts
        self._read_cache = bandwidth * efficiency.cache_bandwidth
        self._compute = copy.flops * copy.accelerators * efficiency.compute
        self._overhead = efficiency.step_seconds + copy.layers * efficiency.layer_seconds

    def token(self, batch: float, context: float) -> float:
        """Return the time between two tokens of a request, in a batch of requests with ``context`` tokens each."""
        draft = self._copy.draft
        if draft is None:
            return self._pass(batch, context)
        drafted = draft.weight_bytes / self._read_weights + self._efficiency.step_seconds / 2
        verified = self._pass(batch, context, tokens=draft.tokens + 1)
        return (verified + draft.tokens * drafted) / draft.tokens_per_pass

    def prompt(self, tokens: float) -> float:
        """Return the time of one prompt alone."""
        copy = self._copy
        read = copy.weight_bytes * copy.read_share(tokens) / self._read_weights
        return self._time(_Work(read, 0.0, self._computed(tokens), self._exchanged(tokens))) + self._overhead

    def further_prompt(self, tokens: float) -> float:
        """Return the time that a prompt adds to passes that read the weights anyway."""
        computed, exchanged = self._computed(tokens), self._exchanged(tokens) - self._exchanged(0)
        return max(computed, exchanged) if math.isinf(self._efficiency.overlap) else computed + exchanged

    def least_turn(self, batch: float, context: float, decoded: float, tokens: float) -> float:
        """Return the minimum time to compute the prompts of all requests in a batch and to generate their tokens.

        The passes that generate tokens also compute prompts (Agrawal et al., "Sarathi", 2023), so the resource with the
        most work is never idle. At best, all tokens are routed to the same experts.
        """
        copy, draft = self._copy, self._copy.draft
        one = self._work(batch, context, draft.tokens + 1 if draft is not None else 1)
        passes = decoded / (draft.tokens_per_pass if draft is not None else 1.0)
        weights = copy.weight_bytes * copy.read_share(1) / self._read_weights
        read = passes * (weights + one.cache)
        compute = passes * one.compute + batch * self._computed(tokens)
        return max(read, compute, passes * one.links + batch * self._exchanged(tokens))

    def _pass(self, batch: float, context: float, tokens: int = 1) -> float:
        added = self._overhead + batch * self._efficiency.request_seconds
        return self._time(self._work(batch, context, tokens)) + added

    def _work(self, batch: float, context: float, tokens: int) -> _Work:
        copy, verified = self._copy, batch * tokens
        # Each stage of a pipeline has its share of the layers, and reads them for its own part of the batch.
        read = copy.weight_bytes * copy.read_share(verified / copy.pipeline) * copy.pipeline / self._read_weights
        computed = 2 * copy.active_parameters * verified / self._compute
        cached = batch * copy.request_bytes(context) / self._read_cache
        return _Work(read, cached, computed, self._exchanged(verified))

    def _computed(self, tokens: float) -> float:
        """Return the time of two operations per parameter and token, and of attention over all previous tokens."""
        copy = self._copy
        attended = tokens if not copy.window else (tokens + min(tokens, copy.window)) / 2
        attention = 2 * tokens * attended * copy.hidden_size * copy.layers
        return (2 * copy.prompt_parameters * tokens + attention) / self._compute

    def _exchanged(self, tokens: float) -> float:
        copy, among = self._copy, self._copy.tensor_parallel
        if among == 1:
            return 0.0
        # Half-precision hidden states in a ring: all parts but one are sent to be added up, and again to be shared.
        sent = tokens * copy.hidden_size * 2 * 2 * (among - 1) / among
        reduction = self._efficiency.reduction_seconds + sent / (copy.link * self._efficiency.link)
        return _REDUCTIONS_A_LAYER * copy.layers * reduction

    def _time(self, work: _Work) -> float:
        overlap = self._efficiency.overlap
        if math.isinf(overlap):
            return work.longest
        longer = max(work.weights, work.compute)
        both = ((work.weights / longer) ** overlap + (work.compute / longer) ** overlap) ** (1 / overlap)
        return longer * both + work.cache + work.links
