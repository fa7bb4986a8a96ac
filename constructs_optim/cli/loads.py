"""Parses the options of ``constructs-optim evaluate`` for loads and objectives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic import Field, PositiveFloat, PositiveInt, TypeAdapter, ValidationError

from constructs_optim.evaluator.options import Arrivals, ClosedLoop, EvaluationError, Load, OpenLoop, Replay
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives

_CONCURRENCIES = TypeAdapter(set[PositiveInt])
_MOST_PER_SECOND = 1e6
_NUMBERS = TypeAdapter(list[Annotated[PositiveFloat, Field(le=_MOST_PER_SECOND, allow_inf_nan=False)]])
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|s)")
_DEFAULT_CONCURRENCY = "1,8,64"


@dataclass(frozen=True)
class LoadOptions:
    """The load options as typed; https://constructs-optim.dev/evaluation/ explains each."""

    concurrency: str | None
    rate: str | None
    arrivals: Arrivals
    burstiness: float
    replay: bool
    speed: str
    find_limit: bool
    requests: int | None
    seconds: float | None
    warm_up: int
    timeout: float
    # Average number of turns in a conversation.
    turns: float

    def search(self, objectives: LatencyObjectives | None) -> OpenLoop | None:
        """Return the load at which a search for the limit begins; None without --find-limit."""
        if not self.find_limit:
            return None
        # Not imported above: the code that measures is an extra, and the command starts without it.
        from constructs_optim.evaluator.find_limit import fewest_requests

        if objectives is None:
            raise typer.BadParameter("--find-limit needs an objective: --ttft 500ms, --itl 40ms, or --latency 10s")
        if self.seconds is not None:
            raise typer.BadParameter("--find-limit counts requests: leave out --seconds")
        if objectives.attainment == 1:
            raise typer.BadParameter("no number of requests proves --attainment 1: use a lower share, such as 0.99")
        if self.concurrency is not None or self.replay:
            raise typer.BadParameter("--find-limit searches rates: leave out --concurrency and --replay")
        first, *others = self._open(self.rate or "1")
        if others or first.end_rate is not None:
            raise typer.BadParameter(f"--find-limit begins at one rate, but --rate is {self.rate}")
        return first.model_copy(update={"fewest": max(first.fewest, fewest_requests(objectives))})

    def loads(self, prompts: Sequence[Prompt] | None) -> tuple[Load, ...]:
        """Return a load for each level; ``prompts`` come from a file."""
        named = [("--concurrency", self.concurrency), ("--rate", self.rate), ("--replay", self.replay)]
        chosen = [name for name, given in named if given]
        if len(chosen) > 1:
            raise typer.BadParameter(f"use one of {' and '.join(chosen)}")
        loads = self._replays(prompts) if self.replay else self._open(self.rate) if self.rate else self._closed()
        labels = [load.label for load in loads]
        if repeated := sorted({label for label in labels if labels.count(label) > 1}):
            raise typer.BadParameter(f"the level {' and '.join(repeated)} appears more than once")
        return loads

    def _closed(self) -> tuple[Load, ...]:
        text = self.concurrency or _DEFAULT_CONCURRENCY
        try:
            users = sorted(_CONCURRENCIES.validate_python(text.split(",")))
        except ValidationError:
            raise typer.BadParameter(f"--concurrency {text!r}: use whole numbers from 1, such as 1,8,64") from None
        return tuple(
            ClosedLoop(
                concurrency=each,
                requests=self.requests,
                seconds=self.seconds,
                warm_up=self.warm_up,
                timeout_seconds=self.timeout,
            )
            for each in users
        )

    def _open(self, text: str) -> tuple[OpenLoop, ...]:
        try:
            rates = [_NUMBERS.validate_python(part.split("-")) for part in text.split(",")]
            if any(len(rate) > 2 for rate in rates):
                raise ValueError
        except ValueError:
            raise typer.BadParameter(
                f"--rate {text!r}: use requests per second, such as 0.5,1,2, or 1-20 for a rate that rises from 1 to 20"
            ) from None
        return tuple(
            OpenLoop(
                request_rate=rate[0],
                end_rate=rate[1] if len(rate) > 1 else None,
                arrivals=self.arrivals,
                burstiness=self.burstiness,
                turns=self.turns,
                requests=self.requests,
                seconds=self.seconds,
                warm_up=self.warm_up,
                timeout_seconds=self.timeout,
            )
            for rate in sorted(rates)
        )

    def _replays(self, prompts: Sequence[Prompt] | None) -> tuple[Load, ...]:
        times = [prompt.at_seconds for prompt in prompts or () if prompt.at_seconds is not None]
        if prompts is None or len(times) < len(prompts):
            raise typer.BadParameter(
                "--replay needs --prompts FILE with a time for each request: SageMaker captures, a Mooncake, Azure, or "
                "BurstGPT trace, or at_seconds"
            )
        if times[-1] <= 0:
            raise typer.BadParameter(
                "--replay needs different times, but all times in the file are the same: send its prompts with "
                "--concurrency or --rate"
            )
        try:
            speeds = sorted(_NUMBERS.validate_python(self.speed.split(",")))
        except ValidationError:
            raise typer.BadParameter(f"--speed {self.speed!r}: use numbers above 0, such as 0.5,1,2") from None
        own = (len(times) - 1) / times[-1] * self.turns
        return tuple(
            Replay(
                request_rate=float(f"{own * speed:.4g}"),
                speed=speed,
                count=sum(len(prompt.turns or [""]) for prompt in prompts),
                requests=self.requests,
                seconds=self.seconds,
                warm_up=0,
                timeout_seconds=self.timeout,
            )
            for speed in speeds
        )


def objectives(ttft: str | None, itl: str | None, latency: str | None, attainment: float) -> LatencyObjectives | None:
    """Return the latency objectives; None if there are none."""
    named = {"time_to_first_token": ttft, "inter_token_latency": itl, "client_latency": latency}
    given = {name: _milliseconds(text) for name, text in named.items() if text is not None}
    return LatencyObjectives(**given, attainment=attainment) if given else None


def _milliseconds(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None or not float(found[1]) > 0:
        raise EvaluationError(f"{text!r} is not a duration: use 500ms or 0.5s")
    return float(found[1]) * (1000 if found[2] == "s" else 1)
