"""The time of a forward pass: what it reads from the accelerators' memory, what it computes, and what they exchange.

A pass that generates one token for each request of a batch reads the weights once (of a mixture of experts, those that
the batch's tokens are routed to) and the KV cache of all its requests; a pass over a prompt computes more than it
reads. With tensor parallelism, the accelerators add up their parts twice a layer. :class:`Efficiency` is how close a
server comes to the figures of the makers; with :data:`PHYSICS` for it, no server is faster.

Sources: Williams, Waterman and Patterson, "Roofline" (2009); Pope et al., "Efficiently Scaling Transformer Inference"
(2022), section 3; Shoeybi et al., "Megatron-LM" (2019), section 3, for the all-reduces; Leviathan, Kalman and Matias,
"Fast Inference from Transformers via Speculative Decoding" (2023), section 3, for the tokens of a verified draft.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

_REDUCTIONS_A_LAYER = 2
# From this share of its parameters on, a model counts as dense: all of its weights are read for every token.
_DENSE = 0.9


@dataclass(frozen=True)
class Draft:
    """Speculative decoding: ``tokens`` are drafted for every pass, by reading ``weight_bytes`` for each.

    ``acceptance`` is the probability that a drafted token is accepted, if all before it were.
    """

    tokens: int
    acceptance: float
    weight_bytes: float = 0.0

    @property
    def tokens_per_pass(self) -> float:
        """The tokens that a pass generates on average: the accepted ones, and one of the model's own."""
        if self.acceptance >= 1:
            return self.tokens + 1.0
        return (1 - self.acceptance ** (self.tokens + 1)) / (1 - self.acceptance)


@dataclass(frozen=True)
class Copy:
    """One copy of a model on its accelerators. Sizes are in bytes, speeds a second.

    ``parameters`` are all, ``active_parameters`` those of a token, ``prompt_parameters`` those of them that a token of
    a prompt is multiplied with, whose embedding is looked up, and for which nothing is predicted. ``weight_bytes`` are
    the weights that a pass reads. ``cache_bytes`` is the KV cache of a token over all accelerators, ``window_bytes``
    what each of the last ``window`` tokens takes beside it, and ``state_bytes`` what a request does.

    ``flops``, ``bandwidth`` and ``link`` are the maker's figures of one accelerator, for the precision that it computes
    in. ``pipeline`` are the stages of pipeline parallelism, ``tensor_parallel`` the accelerators (NeuronCores) of each.
    ``cache_room`` is the memory that is left for the KV cache.
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
        """The share of the weights that a pass over so many tokens reads, if experts are chosen at random."""
        if self.is_dense:
            return 1.0
        return 1 - (1 - self.active_parameters / self.parameters) ** max(tokens, 1.0)

    def request_bytes(self, tokens: float) -> float:
        """The KV cache of a request with so many tokens."""
        return self.cache_bytes * tokens + self.window_bytes * min(tokens, self.window) + self.state_bytes


@dataclass(frozen=True)
class Efficiency:
    """How close a server comes to the makers' figures, as shares of them, and what it adds, in seconds.

    ``bandwidth`` is for weights, ``cache_bandwidth`` for the KV cache, ``expert_bandwidth`` a further share for the
    weights of experts. A layer takes ``layer_seconds`` to start, a step ``step_seconds``, each request of it
    ``request_seconds``, an all-reduce ``reduction_seconds``. ``server_seconds`` pass before the first token outside of
    the engine, and as many passes as ``awaited_passes``; of the requests at the same time, the share ``together`` has
    arrived with a request. Reading weights and computing overlap by the ``overlap``-norm; where it is infinite, all
    that a pass does overlaps.
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
"""The makers' own figures and nothing else, with all that overlaps: a lower bound of every time."""


class _Work(NamedTuple):
    """What a pass does, in seconds of each resource: memory for weights and KV cache, compute, and links."""

    weights: float
    cache: float
    compute: float
    links: float

    @property
    def longest(self) -> float:
        """The time that it takes at least, as one resource cannot do two things at a time."""
        return max(self.weights + self.cache, self.compute, self.links)


class ForwardPass:
    """The passes of a copy under an efficiency; times are in seconds."""

    def __init__(self, copy: Copy, efficiency: Efficiency) -> None:
        self._copy, self._efficiency = copy, efficiency
        bandwidth = copy.bandwidth * copy.accelerators
        experts = 1.0 if copy.is_dense else efficiency.expert_bandwidth
        self._read_weights = bandwidth * efficiency.bandwidth * experts
        self._read_cache = bandwidth * efficiency.cache_bandwidth
        self._compute = copy.flops * copy.accelerators * efficiency.compute
        self._overhead = efficiency.step_seconds + copy.layers * efficiency.layer_seconds

    def token(self, batch: float, context: float) -> float:
        """The time between two tokens of a request, in a batch of requests with so many tokens each."""
        draft = self._copy.draft
        if draft is None:
            return self._pass(batch, context)
        drafted = draft.weight_bytes / self._read_weights + self._efficiency.step_seconds / 2
        verified = self._pass(batch, context, tokens=draft.tokens + 1)
        return (verified + draft.tokens * drafted) / draft.tokens_per_pass

    def prompt(self, tokens: float) -> float:
        """The time of one prompt alone."""
        copy = self._copy
        read = copy.weight_bytes * copy.read_share(tokens) / self._read_weights
        return self._time(_Work(read, 0.0, self._computed(tokens), self._exchanged(tokens))) + self._overhead

    def further_prompt(self, tokens: float) -> float:
        """What a prompt adds to passes that read the weights anyway."""
        computed, exchanged = self._computed(tokens), self._exchanged(tokens) - self._exchanged(0)
        return max(computed, exchanged) if math.isinf(self._efficiency.overlap) else computed + exchanged

    def least_turn(self, batch: float, context: float, decoded: float, tokens: float) -> float:
        """The least time in which each request of a batch has its prompt computed and its tokens generated.

        Prompts are computed in the passes that generate tokens (Agrawal et al., "Sarathi", 2023), so that the resource
        with most to do is never idle; and at best all tokens are routed to the same experts.
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
        """Two operations for each parameter and token, and attention: of each token to all before it."""
        copy = self._copy
        attended = tokens if not copy.window else (tokens + min(tokens, copy.window)) / 2
        attention = 2 * tokens * attended * copy.hidden_size * copy.layers
        return (2 * copy.prompt_parameters * tokens + attention) / self._compute

    def _exchanged(self, tokens: float) -> float:
        copy, among = self._copy, self._copy.tensor_parallel
        if among == 1:
            return 0.0
        # Half-precision hidden states, in a ring: all but one part, to be added up and to be shared.
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
