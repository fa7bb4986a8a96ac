"""Prompts of random words, with a distribution of lengths, shared prefixes and turns."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from constructs_optim.recipe.evaluation.workload import Workload
from constructs_optim.recipe.objectives import MOST_TOKENS
from constructs_optim.runtime.evaluation.pooled_outputs import QUERY_TOKENS
from constructs_optim.runtime.evaluation.random_words import WORDS

from .options import EvaluationError
from .prompts import Prompt, Turn

RANDOM_PROMPTS_NOTE = (
    "The prompts are random words (no --prompts): their length is usual, their content is not, and neither "
    "are acceptance rates of a draft."
)
# Sarathi-Serve (OSDI 2024), Table 2: median and 90th percentile of the tokens in openchat_sharegpt4.
_SHAREGPT = {"input": (1730.0, 5696.0), "output": (415.0, 834.0)}
_FORMS = "622, normal:622,62, uniform:100,1000, lognormal:MEDIAN,P90 or sharegpt"
_PARTS = {"fixed": 1, "normal": 2, "uniform": 2, "lognormal": 2}
_FORM = re.compile(r"(?:(?P<name>[a-z]+):)?(?P<numbers>\d{1,9}(?:\.\d{1,9})?(?:,\d{1,9}(?:\.\d{1,9})?)?)")


class Lengths(BaseModel):
    """A distribution of lengths in tokens: ``fixed``, ``normal``, ``uniform`` or ``lognormal``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    name: str
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, of: str) -> Lengths:
        """Read ``622``, ``normal:MEAN,DEVIATION``, ``uniform:LEAST,MOST``, ``lognormal:MEDIAN,P90`` or ``sharegpt``.

        ``of`` is ``input`` or ``output``. Raises EvaluationError for anything else.
        """
        if text == "sharegpt":
            return cls(name="lognormal", numbers=_SHAREGPT[of])
        if (found := _FORM.fullmatch(text)) is not None:
            name, numbers = found["name"] or "fixed", [float(number) for number in found["numbers"].split(",")]
            rises = name not in ("uniform", "lognormal") or numbers[0] < numbers[-1]
            if len(numbers) == _PARTS.get(name) and numbers[0] >= 1 and rises:
                if max(numbers) > MOST_TOKENS:
                    raise EvaluationError(f"{text!r} is a length of more than {MOST_TOKENS:,} {of} tokens")
                return cls(name=name, numbers=tuple(numbers))
        raise EvaluationError(f"{text!r} is not a distribution of {of} tokens: use {_FORMS}")

    def draw(self, generator: random.Random) -> int:
        """Return a random length, from 1 to ``MOST_TOKENS``."""
        match self.name, self.numbers:
            case "normal", (mean, deviation):
                length = generator.gauss(mean, deviation)
            case "uniform", (least, most):
                length = generator.uniform(least, most)
            case "lognormal", (median, p90):
                length = median * math.exp(generator.gauss(0, math.log(p90 / median) / NormalDist().inv_cdf(0.9)))
            case _:
                length = self.numbers[0]
        # The tail of a distribution has no end.
        return min(MOST_TOKENS, max(1, round(length)))


class SyntheticPrompts(BaseModel):
    """The settings for prompts of random words.

    Attributes:
        input_tokens: tokens of a prompt, or of each turn, without the prefix.
        output_tokens: tokens to request; None for the evaluation's default.
        prefix_tokens: length of a shared prefix (a system prompt), in tokens.
        prefixes: number of different prefixes.
        turns: turns of a conversation; 1 for single requests.
        inputs: texts of a request to embed or classify, or documents of one to rerank; None for text generation.
        reranks: whether each request has a query.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    # The length of evaluations in the cloud, with a standard deviation of a tenth.
    input_tokens: Lengths = Lengths(name="normal", numbers=(Workload().input_tokens, Workload().input_tokens / 10))
    output_tokens: Lengths | None = None
    prefix_tokens: NonNegativeInt = 0
    prefixes: PositiveInt = 1
    turns: PositiveInt = 1
    inputs: PositiveInt | None = None
    reranks: bool = False

    def made(self, count: int, count_tokens: Callable[[str], int] | None = None) -> Iterator[Prompt]:
        """Yield prompts, always the same for the same settings.

        The words are common words in random order, so that a server can cache only the prefix of prompts. Without
        ``count_tokens``, a word counts as one token.
        """
        generator = random.Random(Workload().seed)  # noqa: S311 - no secret

        def text(tokens: int) -> str:
            return _text(generator, tokens, count_tokens)

        prefixes = [text(self.prefix_tokens) for _ in range(self.prefixes)] if self.prefix_tokens else []
        for _ in range(count):
            if self.reranks or self.inputs is not None:
                query = text(QUERY_TOKENS) if self.reranks else None
                texts = tuple(text(self.input_tokens.draw(generator)) for _ in range(self.inputs or 1))
                yield Prompt(query=query, documents=texts) if self.reranks else Prompt(input=texts)
                continue
            system = [{"role": "system", "content": generator.choice(prefixes)}] if prefixes else []
            said = [text(self.input_tokens.draw(generator)) for _ in range(self.turns)]
            limits = [self.output_tokens.draw(generator) if self.output_tokens else None for _ in said]
            if self.turns > 1:
                turns = [Turn(prompt=each, max_tokens=most) for each, most in zip(said, limits, strict=True)]
                yield Prompt.model_validate({"messages": system or None, "turns": turns})
            elif system:
                messages = [*system, {"role": "user", "content": said[0]}]
                yield Prompt.model_validate({"messages": messages, "max_tokens": limits[0]})
            else:
                yield Prompt(prompt=said[0], max_tokens=limits[0])


def text_of_blocks(blocks: Sequence[int | str], tokens: int, block_tokens: int) -> str:
    """Return random words for a recorded prompt with a known length and block IDs, but unknown text.

    Prompts that start with the same blocks start with the same words; the last block can be shorter.
    """
    words: list[str] = []
    for block in blocks:
        generator = random.Random(block)  # noqa: S311 - no secret
        words += generator.choices(WORDS, k=min(block_tokens, max(0, tokens - len(words))))
    return " ".join(words)


def _text(generator: random.Random, tokens: int, count_tokens: Callable[[str], int] | None) -> str:
    chosen = generator.choices(WORDS, k=tokens)
    if count_tokens is not None and tokens:
        # The number of tokens is nearly proportional to the number of words.
        counted = max(1, count_tokens(" ".join(chosen)))
        chosen = (chosen * (tokens // counted + 1))[: max(1, round(tokens * tokens / counted))]
    return " ".join(chosen)
