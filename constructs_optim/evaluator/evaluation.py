"""An evaluation: one or two sides at every concurrency, from requests to results."""

from __future__ import annotations

import asyncio
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import EvaluationResult, TokenCounts, TokenKind, Workload
from constructs_optim.runtime.evaluation.token_counts import NOTABLE_DIFFERENCE

from .find_limit import Attainment, attainment, is_immeasurable, limit_of, misses_alone, next_load
from .load import MeasuredLevel, Segment
from .options import Arrivals, ClosedLoop, FormatName, Load, OpenLoop, Options, Replay
from .prompts import digest
from .run_directory import RunDirectory
from .server_counters import read_counters
from .sides import Side
from .steady_state import drift_of, leave_out_warm_up
from .streaming import Record
from .summary import summarize_level
from .tokens import count_tokens, how_counted

# A larger lag of this machine distorts the measured times.
_MOST_LAG_MS = 10.0
_REFRESH_SECONDS = 0.5
# Why the server may have counted more tokens of a kind (True) or fewer (False) than the tokenizer.
_COUNT_REASONS = {
    ("output", True): "the text of responses lacks special tokens and the marks of reasoning and tool calls",
    ("output", False): "the tokenizer may not be the served model's, or the server may not count every token",
    ("input", True): "the server may add a system prompt or the descriptions of tools, and --unique-prompts a number",
    ("input", False): "the tokenizer or its chat template may not be the served model's",
}
_USES: Mapping[TokenKind, str] = {"output": "Rates, inter-token latency, and prices", "input": "Rates and prices"}
# The packages that affect measured times.
_MEASURING = ("httptools", "botocore")


class LiveProgress(Progress):
    """A bar for each level, with its number of errors.

    It is drawn between requests and at most twice a second: a drawing thread would hold the interpreter lock while
    responses arrive.
    """

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
        errors, console = TextColumn("{task.fields[errors]} errors"), Console(stderr=True)
        super().__init__(*columns, errors, console=console, auto_refresh=False, disable=not console.is_terminal)
        self._drawn = 0.0

    def level_began(self, side: Side, load: Load, level: MeasuredLevel) -> None:
        """Add the bar of a level, without a total if time limits it."""
        self.add_task(f"{side.subject.label}, {load.label}", total=load.total, completed=len(level.counted), errors=0)
        self.refresh()

    def request_ended(self, record: Record) -> None:
        """Count a request of the current level."""
        bar = self.tasks[-1]
        if not record.counted:
            return
        self.update(bar.id, advance=1, errors=bar.fields["errors"] + (record.error is not None))
        now = time.monotonic()
        if now - self._drawn > _REFRESH_SECONDS:
            self._drawn = now
            self.refresh()

    def level_ended(self, level: MeasuredLevel) -> None:
        """Complete the level's bar; without a terminal, print a line instead."""
        bar, requests = self.tasks[-1], len(level.counted)
        errors = sum(record.error is not None for record in level.counted)
        self.update(bar.id, total=requests, completed=requests, errors=errors, refresh=True)
        if self.disable:
            line = f"{bar.description}: {requests} requests, {errors} errors"
            self.console.print(line, highlight=False, soft_wrap=True)


@dataclass
class Evaluation:
    """Measures one side, or the baseline and the optimized side in alternation.

    Both are measured under a load before the next one, so that changes over time, such as other traffic or a warm
    cache, affect both.
    """

    directory: RunDirectory
    options: Options
    sides: Sequence[Side]
    interrupted: bool = False

    async def run(self, progress: LiveProgress) -> None:
        """Measure the remaining levels. Ctrl-C ends the evaluation and keeps the finished requests."""
        if self.options.find_limit is not None:
            for side in self.sides:
                await self._find_limit(side, self.options.find_limit, progress)
            return
        for load in self.options.loads:
            for side in self.sides:
                if not self.interrupted:
                    await self._measure(side, load, progress)

    def result(self, side: Side) -> EvaluationResult:
        """Return the result of a side, as far as it is measured."""
        levels = [(load, self.directory.measured(side.name, load)) for load in self.options.loads]
        measured = [
            (load, level, summarize_level(load, level, side.price, self.options.objectives))
            for load, level in levels
            if level.counted
        ]
        counts = how_counted([record for _, level, _ in measured for record in level.counted])
        return EvaluationResult(
            subject=side.subject,
            workload=self._workload(side, counts),
            started=self.options.started,
            levels=tuple(sorted((level for _, _, level in measured), key=lambda level: level.request_rate or 0.0)),
            missing=tuple(load.label for load, level in levels if not level.counted),
            price=side.price,
            objectives=self.options.objectives,
            limit=limit_of(self._attainments(side)) if self.options.find_limit is not None else None,
            notes=(
                *side.notes,
                *_notes(side, [(load, level) for load, level, _ in measured], counts, self.options.objectives),
            ),
        )

    def _workload(self, side: Side, counts: Mapping[TokenKind, TokenCounts]) -> Workload:
        generation, prompts, written = self.options.generation, side.sender.prompts, side.sender.format
        load, counted = self.options.first_load, counts.get("output" if written.streams else "input")
        parameters = {
            name: value if isinstance(value, str | int | float | bool) else json.dumps(value)
            for name, value in generation.parameters.items()
        }
        sampling = {"max_tokens": generation.max_tokens, "temperature": generation.temperature}
        requests = {load.total for load in self.options.loads}
        return Workload(
            prompts=len(prompts),
            prompts_digest=digest(prompts),
            tool=f"constructs-optim {version('constructs-optim')}",
            format=written.name.value,
            parameters=(sampling if written.streams else {}) | parameters,
            requests=load.total if len(requests) == 1 else None,
            seconds=load.seconds,
            warm_up=load.warm_up,
            timeout_seconds=load.timeout_seconds,
            arrivals=load.arrivals.value if isinstance(load, OpenLoop) else None,
            burstiness=load.burstiness if isinstance(load, OpenLoop) and load.arrivals is Arrivals.GAMMA else None,
            speed=load.speed if isinstance(load, Replay) else None,
            command=self.options.command,
            versions={name: version(name) for name in _MEASURING} | {"python": platform.python_version()},
            tokens_counted_by="tokenizer"
            if counted is not None and counted.by_tokenizer > counted.by_server
            else "server",
            tokenizer=side.tokenizer.source if side.tokenizer else None,
            token_counts=dict(counts),
        )

    async def _find_limit(self, side: Side, like: OpenLoop, progress: LiveProgress) -> None:
        """Measure one rate after the other, until the highest rate that meets the objectives is found."""
        while not self.interrupted:
            rates = {load.request_rate: load for load in self.options.loads if isinstance(load, OpenLoop)}
            load = self._interrupted(side) or next_load(self._attainments(side), rates, like)
            if load is None or self._is_out_of_reach(side):
                return
            # Save the load, so that the search can be resumed. A load with more requests replaces the previous one.
            others = [other for other in self.options.loads if other.label != load.label]
            self.options = self.options.model_copy(update={"loads": (*others, load)})
            self.directory.save(self.options)
            await self._measure(side, load, progress)

    def _interrupted(self, side: Side) -> Load | None:
        """Return the load of an interrupted search."""
        for load in self.options.loads:
            level = self.directory.measured(side.name, load)
            if level.records and not level.complete and not level.abandoned:
                return load
        return None

    def _is_out_of_reach(self, side: Side) -> bool:
        """Return whether no other rate helps: requests alone miss the objectives, or one cannot be measured."""
        objectives = self.options.objectives or LatencyObjectives()
        levels = [self.directory.measured(side.name, load) for load in self.options.loads]
        return any(misses_alone(level, objectives) or is_immeasurable(level, objectives) for level in levels)

    def _attainments(self, side: Side) -> dict[float, Attainment]:
        """Return the outcome of each measured rate."""
        objectives = self.options.objectives or LatencyObjectives()
        found: dict[float, Attainment] = {}
        for load in self.options.loads:
            level = self.directory.measured(side.name, load)
            is_over = level.complete or bool(level.abandoned)
            if isinstance(load, OpenLoop) and level.counted and is_over:
                found[load.request_rate] = attainment(level, objectives)
        return found

    def _sent_before(self, side: Side, load: Load) -> Iterator[int]:
        """Yield the prompts that a side received at earlier loads."""
        for earlier in self.options.loads[: self.options.loads.index(load)]:
            # Only counted requests: the others depend on time, but both sides must receive the same prompts.
            counted = self.directory.measured(side.name, earlier).counted
            yield from (record.prompt for record in counted if record.turn == 0)

    async def _measure(self, side: Side, load: Load, progress: LiveProgress) -> None:
        level, sent_before = self.directory.measured(side.name, load), list(self._sent_before(side, load))
        progress.level_began(side, load, level)
        segments = len(level.segments)
        if level.remains(load):
            with self.directory.append(side.name, load, level) as write:

                def recorded(record: Record) -> None:
                    write(record)
                    progress.request_ended(record)

                # vLLM counts each input of a request as a request.
                url = side.subject.url if side.sender.format.streams else None
                before = await read_counters(url)
                try:
                    await side.sender.run(load, level, recorded, sent_before)
                    after, segment = await read_counters(url), level.segments[-1]
                    if before is not None and after is not None:
                        counted = after.since(before)
                        segment.drafts, segment.accepted = counted.drafts, counted.accepted
                        segment.served = counted.requests
                except asyncio.CancelledError:
                    # Ctrl-C: the event loop's runner cancels its main task.
                    self.interrupted = True
        elif level.records and not level.complete:
            # The process was killed between the last request and the segment's end.
            level.segments.append(Segment(complete=True, total=load.total))
        if level.records:
            chat = side.sender.format.name is FormatName.OPENAI
            await asyncio.to_thread(count_tokens, level.records, side.sender.prompts, side.tokenizer, chat=chat)
            # Later loads of an open loop find a warm endpoint. Only its queue differs.
            meets_cold = load.is_steady and (isinstance(load, ClosedLoop) or not sent_before)
            if len(level.segments) > segments and meets_cold:
                level.segments[-1].left_out = leave_out_warm_up(level)
            self.directory.rewrite(side.name, load, level)
            progress.level_ended(level)


def _notes(
    side: Side,
    levels: Sequence[tuple[Load, MeasuredLevel]],
    counts: Mapping[TokenKind, TokenCounts],
    objectives: LatencyObjectives | None,
) -> Iterator[str]:
    records = [record for _, level in levels for record in level.counted]
    if side.tokenizer is None:
        yield "Token counts come from the server. No tokenizer is set to check them (tokenizer=...)."
        counted_kind = "output" if side.sender.format.streams else "input"
        if counted_kind not in counts and any(record.is_measured for record in records):
            yield "The server reports no usable token counts, so metrics based on tokens are missing."
    for kind, counted in counts.items():
        yield from _count_notes(kind, counted)
    cached = [record for record in records if record.cached_tokens is not None and record.server_input_tokens]
    if cached:
        share = sum(r.cached_tokens or 0 for r in cached) / sum(r.server_input_tokens or 0 for r in cached)
        yield f"{share:.0%} of the prompts' tokens were in the server's prefix cache, by its own count."
    yield from _repetitions(side, [level for _, level in levels])
    for load, level in levels:
        for note in _level_notes(load, level, objectives):
            yield f"At {load.label}, {note}"


def _count_notes(kind: TokenKind, counted: TokenCounts) -> Iterator[str]:
    """Yield notes on counts of tokens that have two sources."""
    difference = counted.difference or 0.0
    is_notable, more_or_fewer = abs(difference) > NOTABLE_DIFFERENCE, "more" if difference > 0 else "fewer"
    if is_notable:
        yield (
            f"The server counted {abs(difference):.1%} {more_or_fewer} {kind} tokens than the tokenizer: "
            f"{_COUNT_REASONS[kind, difference > 0]}. {_USES[kind]} use the server's count."
        )
    if counted.by_server and counted.by_tokenizer:
        known = counted.by_server + counted.by_tokenizer
        yield (
            f"{counted.by_tokenizer} of {known} requests have no usable count of {kind} tokens from the server, so the "
            f"tokenizer's is used{', although the two differ' if is_notable else ''}."
        )


def _repetitions(side: Side, levels: Sequence[MeasuredLevel]) -> Iterator[str]:
    """Yield a note if requests repeated prompts that the server may have cached."""
    sent, repeated, counted = set[int](), 0, 0
    for level in levels:
        for record in sorted(level.records, key=lambda record: (record.segment, record.start)):
            repeated += record.counted and record.turn == 0 and record.prompt in sent
            counted += record.counted
            sent.add(record.prompt)
    if repeated and not side.sender.unique:
        yield (
            f"{repeated} of {counted} requests repeated a prompt, to which a server with a prefix cache responds "
            "sooner: use more prompts, or --unique-prompts."
        )


def _level_notes(load: Load, level: MeasuredLevel, objectives: LatencyObjectives | None) -> Iterator[str]:
    counted = level.counted
    lag = max((segment.lag_p99 for segment in level.segments), default=0.0)
    if lag > _MOST_LAG_MS:
        yield f"this machine was too busy: measured times can be up to {lag:.0f} ms too long."
    known = [(segment.sent, segment.served) for segment in level.segments if segment.served is not None]
    sent, served = sum(each for each, _ in known), sum(each for _, each in known)
    if served > sent * (1 + NOTABLE_DIFFERENCE):
        yield (
            f"the server completed {served:.0f} requests, but this evaluation sent {sent}: others used the server, so "
            "latencies are longer, and the acceptance length includes their requests."
        )
    late = max((segment.late_p99 for segment in level.segments), default=0.0)
    if late > _MOST_LAG_MS:
        yield f"1% of the requests were sent {late:.0f} ms or more late; their latencies include the delay."
    successful = [record for record in counted if record.is_measured]
    whole = sum(record.arrived_whole for record in successful)
    if whole:
        share = f"{whole} of {len(successful)}" if whole < len(successful) else "the server did not stream: all"
        yield f"{share} completions arrived in one piece, so they have no inter-token latency."
    if retries := sum(record.retried for record in counted):
        yield (
            f"{retries} of {len(counted)} requests were sent again, because the server had closed the idle connection."
        )
    unused = [r for r in successful if r.server_output_tokens is not None and r.output_tokens != r.server_output_tokens]
    if unused:
        yield (
            f"the server counted no tokens, or far too few, in {len(unused)} of {len(successful)} completions; these "
            "counts are not used."
        )
    if unjudged := sum(objectives is not None and objectives.are_met(record) is None for record in successful):
        yield (
            f"{unjudged} of {len(successful)} completions have no inter-token latency to compare with the objective, "
            "so goodput is missing."
        )
    unknown = sum(record.output_tokens is None for record in successful)
    if 0 < unknown < len(successful):
        yield (
            f"{unknown} of {len(successful)} completions have no token count, so token rates and the prices derived "
            "from them are missing."
        )
    if cold := sum(segment.left_out for segment in level.segments):
        yield f"the first {cold} requests are left out, because their latency differed from later requests."
    if load.is_steady and (drift := drift_of(level)) is not None and not drift.is_steady:
        remaining = drift_of(level, level.lag)
        yield (
            f"latency {'rose' if drift.change > 0 else 'fell'} by {abs(drift.change):.0%} of its mean during the "
            f"measurement (99% interval {drift.low:+.0%} to {drift.high:+.0%}), so this is not a steady state. "
            + (
                "This machine was too busy, which may be why."
                if remaining is not None and remaining.is_steady
                else f"{'The endpoint is overloaded, or more' if drift.change > 0 else 'More'} --warm-up is needed."
            )
        )
    if not level.complete:
        yield "the evaluation was not finished" + (
            f": {level.abandoned}." if level.abandoned else "; --resume continues it."
        )
    if len({record.segment for record in level.records}) > 1 and not all(s.complete for s in level.segments[:-1]):
        yield "the evaluation was interrupted and resumed."
