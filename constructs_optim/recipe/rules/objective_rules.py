"""Rules for objectives that no instance type and no recipe can meet."""

from __future__ import annotations

import math
from collections.abc import Iterator

from constructs_optim.recipe import tasks
from constructs_optim.recipe.objectives import Feasibility, Intended, Objectives, ServedOtherwise

from .registry import Finding, rule

_ROOFLINE = "https://arxiv.org/abs/2211.05102"


@rule(Objectives.rule, Objectives.rule_link)
def _objectives_are_complete(objectives: Objectives) -> Iterator[Finding]:
    """Objectives describe the requests: a forecast needs the lengths of prompts and responses in tokens."""
    yield from ()


@rule("OPT301", Objectives.rule_link)
def _objectives_are_of_generated_text(asked: Feasibility) -> Iterator[Finding]:
    """Objectives are for models that generate text: forecasts are of prompts and responses, one token after another."""
    task = tasks.find(asked.task)
    if not task.generates:
        fix = "instance_type=..., evaluate() with requirements, and auto_scale()"
        yield Finding("objectives", str(asked.objectives), fix, f"there is no forecast for {task.title}")


@rule("OPT231", "https://docs.vllm.ai/en/latest/configuration/engine_args.html")
def _requests_fit_the_context(asked: Feasibility) -> Iterator[Finding]:
    """A request fits the model's context: the server rejects longer requests."""
    objectives, longest = asked.objectives, asked.context_length
    given = objectives.input_tokens + objectives.output_tokens
    if longest is not None and given > longest:
        yield Finding("objectives.input_tokens", given, f"at most {longest} tokens for prompt and response in total")


@rule("OPT232", _ROOFLINE)
def _first_token_is_possible(asked: Feasibility) -> Iterator[Finding]:
    """The time to first token is achievable: computing the prompt takes longer, even at the accelerator's peak
    throughput.
    """
    yield from _faster_than_physics(
        "time_to_first_token", asked.objectives.time_to_first_token, asked.time_to_first_token_ms
    )


@rule("OPT233", _ROOFLINE)
def _tokens_are_possible(asked: Feasibility) -> Iterator[Finding]:
    """The inter-token latency is achievable: reading the weights takes longer, even at the accelerator's peak
    bandwidth.
    """
    yield from _faster_than_physics(
        "inter_token_latency", asked.objectives.inter_token_latency, asked.inter_token_latency_ms
    )


@rule("OPT234", "https://aws.amazon.com/sagemaker/ai/pricing/")
def _price_is_possible(asked: Feasibility) -> Iterator[Finding]:
    """The maximum price pays for the load: even at peak accelerator speed, the required instances cost more."""
    most, least = asked.objectives.max_price_per_hour, asked.price_per_hour
    if most is not None and least is not None and most < least:
        yield Finding("objectives.max_price_per_hour", most, f"${least:.2f} or more")


@rule("OPT235", "https://docs.aws.amazon.com/cdk/v2/guide/best-practices.html")
def _choice_is_recorded(intended: Intended) -> Iterator[Finding]:
    """The lock file has a choice for the objectives: synthesis uses the choice that you reviewed, and never chooses
    itself.
    """
    if intended.name not in intended.recorded.get(intended.model, ()):
        known = intended.recorded.get(intended.model) or sorted(intended.recorded)
        reason = f"the lock file has no choice for these objectives; it records {'; '.join(known) or 'no choices'}"
        yield Finding("objectives", str(intended.objectives), intended.command, reason)
    elif intended.mistake is not None:
        reason = f"the recorded choice cannot be used: {intended.mistake}"
        yield Finding("objectives", str(intended.objectives), intended.command, reason)


@rule("OPT236", _ROOFLINE, advisory=True)
def _forecast_is_of_what_serves(declared: ServedOtherwise) -> Iterator[Finding]:
    """The endpoint uses the server of the forecast: the forecast does not cover another server or batch size limit."""
    if declared.served != declared.chosen:
        server, limit = declared.chosen
        batch = f" in batches of up to {limit}" if limit is not None else ""
        yield Finding("server", _as_text(declared.served), f"The forecast is for {server}{batch}")


def _as_text(server: tuple[str, int | None]) -> str:
    name, limit = server
    return name if limit is None else f"{name}, {limit} at a time"


def _faster_than_physics(name: str, asked: float | None, at_best: float | None) -> Iterator[Finding]:
    if asked is not None and at_best is not None and asked < at_best:
        yield Finding(
            f"objectives.{name}",
            asked,
            f"{math.ceil(at_best * 100) / 100:g} ms or more, the best possible of any recipe",
        )
