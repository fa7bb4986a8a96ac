"""``constructs-optim evaluate``: measures an endpoint's latency, throughput, and price."""

from __future__ import annotations

import datetime as dt
import functools
import importlib.util
import math
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from pydantic import ValidationError

from constructs_optim.evaluator.options import (
    Arrivals,
    ClosedLoop,
    EvaluationError,
    FormatName,
    Generation,
    Load,
    Options,
    SideOptions,
)
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.synthetic_prompts import Lengths, SyntheticPrompts
from constructs_optim.recipe import tasks
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.errors import listed_mistakes, shown
from constructs_optim.recipe.evaluation.objectives import ATTAINMENT
from constructs_optim.recipe.evaluation.workload import Workload
from constructs_optim.recipe.objectives import MOST_TOKENS
from constructs_optim.recipe.tasks import TaskName
from constructs_optim.runtime.documents import json_value, object_in
from constructs_optim.runtime.evaluation.differences import MARGIN

from .aws import Profile, Region, failed, session_of
from .installation import installing
from .loads import LoadOptions, objectives
from .presentation import OUTPUT_PANEL, JsonOption, print_json, print_table, say, working

if TYPE_CHECKING:
    from boto3 import Session

    from constructs_optim.evaluator.evaluation import Evaluation
    from constructs_optim.evaluator.report import WrittenComparison
    from constructs_optim.evaluator.run_directory import RunDirectory
    from constructs_optim.evaluator.sides import Side
    from constructs_optim.recipe.evaluation.result import EvaluationResult

_NOTHING_COMPLETED, _STOPPED_EARLY, _TOO_MANY_ERRORS, _INTERRUPTED = 3, 4, 5, 130
_MAX_TOKENS = 256
_MOST_RANDOM_PROMPTS, _RANDOM_PROMPTS_FOR_SECONDS = 2000, 500
# Of prompts with several inputs, which are as many times as long.
_MOST_RANDOM_INPUTS, _FEWEST_RANDOM_PROMPTS = 20_000, 20
# Source: API reference, CreateEndpoint.
_ENDPOINT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_EXTRA = ("httptools", "jinja2", "tokenizers")
_SETTINGS = [name for name in SideOptions.model_fields if name not in ("name", "endpoint_name", "url")]
_OF_ENDPOINTS = {"variant", "inference_component", "savings_plan", "api"}
# Options that have an effect only with one of other options.
_NEEDED = {
    "prefixes": ("prefix_tokens",),
    "arrivals": ("rate", "find_limit"),
    "burstiness": ("rate", "find_limit"),
    "speed": ("replay",),
    "attainment": ("ttft", "itl", "latency"),
    "margin": ("compare",),
}
# Options that have an effect only on models that generate text.
_OF_GENERATION = ("output_tokens", "prefix_tokens", "prefixes", "turns", "max_tokens", "temperature", "ttft", "itl")
_COLUMNS = {
    "time_to_first_token_p50": "TTFT",
    "inter_token_latency_p50": "ITL",
    "client_latency_p50": "Latency",
    "requests_per_second": "Req/s",
    "inputs_per_second": "Inputs/s",
    "goodput": "Goodput",
    "output_tokens_per_second": "Tokens/s",
    "acceptance_length": "Accepted",
    "blended_price_per_million_tokens": "$/M",
    "client_invocations": "Sent",
    "client_invocation_errors": "Failed",
}
# In place of those of output tokens, for models that generate none.
_POOLED_COLUMNS = _COLUMNS | {
    "input_tokens_per_second": "Tokens/s",
    "price_per_million_input_tokens": "$/M",
}


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def evaluate_command(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="Endpoint name or URL of an OpenAI-compatible server, with settings after commas: "
            "chat,variant=blue or http://127.0.0.1:8000/v1,model=llama. "
            f"{page('evaluation')} lists the settings.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="BASELINE", help="Baseline to compare with, in the format of TARGET.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Prompts: JSON Lines, chats, ShareGPT, an AIPerf, Mooncake, or other trace, or SageMaker captures. "
            "Default: random words of about 622 tokens.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    input_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTHS",
            help="Prompt length of random words: 622, normal:622,62, uniform:100,1000, lognormal:MEDIAN,P90, or "
            "sharegpt.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    output_tokens: Annotated[
        str | None,
        typer.Option(metavar="LENGTHS", help="Response length for random words, likewise.", rich_help_panel="Prompts"),
    ] = None,
    prefix_tokens: Annotated[
        int,
        typer.Option(min=0, metavar="COUNT", help="Tokens of a shared system prompt.", rich_help_panel="Prompts"),
    ] = 0,
    prefixes: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Number of different system prompts.", rich_help_panel="Prompts")
    ] = 1,
    turns: Annotated[
        int,
        typer.Option(
            min=1, metavar="COUNT", help="Turns of a conversation of random words.", rich_help_panel="Prompts"
        ),
    ] = 1,
    inputs_per_request: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="COUNT",
            help="Texts of random words in a request to embed or classify, or documents of one to rerank. Default: 1.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    unique_prompts: Annotated[
        bool,
        typer.Option(
            "--unique-prompts",
            help="Begin each prompt with a unique number, so that no cache has it.",
            rich_help_panel="Prompts",
        ),
    ] = False,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="COUNT",
            help="Maximum tokens of a completion whose prompt sets none. Default: 256, or 250 for random words.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            min=0,
            callback=_finite,
            help="Sampling temperature. 0 makes completions comparable.",
            rich_help_panel="Prompts",
        ),
    ] = 0,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Parameter of each request: ignore_eos=true. Repeatable.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    request_format: Annotated[
        FormatName,
        typer.Option(
            help="auto, openai, completions, lmi, tgi, embed, rerank, or classify.",
            metavar="FORMAT",
            rich_help_panel="Prompts",
        ),
    ] = FormatName.AUTO,
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="USERS",
            help="Concurrent users, one level each. Default: 1,8,64.",
            rich_help_panel="Load",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATES",
            help="Requests per second, one level each: 0.5,1,2, or 1-20 for a rising rate.",
            rich_help_panel="Load",
        ),
    ] = None,
    arrivals: Annotated[
        Arrivals,
        typer.Option(
            help="Spacing of requests at a rate: poisson, constant, or gamma.",
            metavar="SPACING",
            rich_help_panel="Load",
        ),
    ] = Arrivals.POISSON,
    burstiness: Annotated[
        float,
        typer.Option(
            min=0.01,
            callback=_finite,
            help="Shape of gamma arrivals. Lower is burstier.",
            metavar="SHAPE",
            rich_help_panel="Load",
        ),
    ] = 0.25,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Send the prompts at the times in the file.", rich_help_panel="Load"),
    ] = False,
    speed: Annotated[
        str,
        typer.Option(metavar="FACTORS", help="Speeds of a replay, one level each: 0.5,1,2.", rich_help_panel="Load"),
    ] = "1",
    find_limit: Annotated[
        bool,
        typer.Option(
            "--find-limit", help="Search for the highest rate that meets the objectives.", rich_help_panel="Load"
        ),
    ] = False,
    requests: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="COUNT",
            help="Requests per level. Default: 8 per user and at least 32, or those of 30 seconds and at least 100.",
            rich_help_panel="Load",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1, callback=_finite, help="Duration of each level, in place of --requests.", rich_help_panel="Load"
        ),
    ] = None,
    warm_up: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="COUNT",
            help="Requests per user that are sent first and not counted.",
            rich_help_panel="Load",
        ),
    ] = 1,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            callback=_finite,
            metavar="SECONDS",
            help="Seconds until a request counts as failed.",
            rich_help_panel="Load",
        ),
    ] = 120,
    ttft: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Maximum time to first token: 500ms.", rich_help_panel="Objectives"),
    ] = None,
    itl: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Maximum inter-token latency: 40ms.", rich_help_panel="Objectives"),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Maximum latency of the whole response: 10s.", rich_help_panel="Objectives"
        ),
    ] = None,
    attainment: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=1,
            callback=_finite,
            metavar="SHARE",
            help="Share of requests that must meet the objectives.",
            rich_help_panel="Objectives",
        ),
    ] = ATTAINMENT,
    margin: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=1,
            callback=_finite,
            metavar="SHARE",
            help="With --compare: largest change that counts as the same.",
            rich_help_panel="Objectives",
        ),
    ] = MARGIN,
    max_error_rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            callback=_finite,
            metavar="SHARE",
            help="Exit with status 5 if more requests of a level fail: 0.01 for 1%.",
            rich_help_panel="Objectives",
        ),
    ] = None,
    api_key_variable: Annotated[
        str, typer.Option(help="Environment variable with the API key of a URL.")
    ] = "OPENAI_API_KEY",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for the results. Default: a new one in evaluations.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Resume the evaluation in this directory, with its options.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Measure latency, throughput, and price of an endpoint, or compare two endpoints.

    Writes the results as JSON, CSV, Markdown, and one HTML file. If you press Ctrl-C, the results so far are kept, and
    --resume continues the evaluation. Exits with status 3 if no request succeeds under some load, 4 if the evaluation
    stops early, and 5 if more requests fail than --max-error-rate allows.

    Examples:
        constructs-optim evaluate chat --concurrency 1,8,64
        constructs-optim evaluate chat --compare chat-baseline --max-error-rate 0.01
        constructs-optim evaluate http://127.0.0.1:8000/v1,model=llama
          --rate 1,2,4 --ttft 500ms
    """
    if missing := [name for name in _EXTRA if importlib.util.find_spec(name) is None]:
        raise failed(f"Evaluating is an extra ({', '.join(missing)}): {installing('evaluate')}")
    from constructs_optim.evaluator.datasets import read_prompts
    from constructs_optim.evaluator.run_directory import RunDirectory

    if requests is not None and seconds is not None:
        raise typer.BadParameter("use one of --requests and --seconds")
    given = _refuse_ignored(context, arrivals)
    if request_format.task is not None:
        _refuse_others(given, request_format.task, f"--request-format {request_format.value}")
    if resume is not None:
        directory = RunDirectory(resume)
        _run(directory.options(), directory, as_json=as_json)
        return
    random = ("input_tokens", "output_tokens", "prefix_tokens", "turns", "inputs_per_request")
    if prompts is not None and (unused := [_typed(name) for name in random if name in given]):
        raise typer.BadParameter(f"{' and '.join(unused)} are for random words: leave out --prompts")
    if prefix_tokens > MOST_TOKENS:
        raise typer.BadParameter(
            f"--prefix-tokens {prefix_tokens:,} is longer than any prompt: at most {MOST_TOKENS:,}"
        )
    read = read_prompts(prompts) if prompts is not None else None
    mean_turns = turns if read is None else fmean(len(each.turns or [""]) for each in read)
    load = LoadOptions(
        concurrency,
        rate,
        arrivals,
        burstiness,
        replay,
        speed,
        find_limit,
        requests,
        seconds,
        warm_up,
        timeout,
        mean_turns,
    )
    judged = objectives(ttft, itl, latency, attainment)
    search = load.search(judged)
    options = Options(
        sides=_sides(target, compare),
        started=dt.datetime.now(dt.UTC),
        loads=load.loads(read) if search is None else (),
        generation=Generation(
            max_tokens=max_tokens or (_MAX_TOKENS if prompts is not None else Workload().output_tokens),
            temperature=temperature,
            parameters=_parameters(parameter or []),
        ),
        format=request_format,
        region=region,
        profile=profile,
        api_key_variable=api_key_variable,
        max_error_rate=max_error_rate,
        margin=margin,
        random_prompts=prompts is None,
        unique_prompts=unique_prompts,
        objectives=judged,
        find_limit=search,
        command=shlex.join(["constructs-optim", *sys.argv[1:]]),
    )
    made = SyntheticPrompts(
        **{
            name: Lengths.parse(text, name.partition("_")[0])
            for name, text in (("input_tokens", input_tokens), ("output_tokens", output_tokens))
            if text is not None
        },
        prefix_tokens=prefix_tokens,
        prefixes=prefixes,
        turns=turns,
        inputs=inputs_per_request,
        reranks=request_format is FormatName.RERANK,
    )
    directory = RunDirectory(output or _default_folder(options))
    directory.create(options, read or _random_prompts(options, made))
    _run(options, directory, as_json=as_json, new=_New(given, made))


class _New(NamedTuple):
    """A new evaluation: the options as typed, and how to make random prompts."""

    given: Sequence[str]
    made: SyntheticPrompts


def _refuse_ignored(context: typer.Context, arrivals: Arrivals) -> list[str]:
    """Return the typed options. Raises BadParameter for those that would have no effect."""
    given = [
        name
        for name in context.params
        if name != "as_json" and (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if "resume" in given and (others := [_typed(name) for name in given if name != "resume"]):
        raise typer.BadParameter(f"--resume uses the options of the evaluation: leave out {' and '.join(others)}")
    for name in given:
        needed = _NEEDED.get(name, ())
        if needed and not any(each in given for each in needed):
            able = " or ".join(map(_typed, needed))
            raise typer.BadParameter(f"{_typed(name)} needs {able}")
    if "burstiness" in given and arrivals is not Arrivals.GAMMA:
        raise typer.BadParameter("--burstiness needs --arrivals gamma")
    return given


def _refuse_others(given: Sequence[str], task: TaskName, subject: str) -> None:
    """Raise BadParameter for typed options that have no effect on a model's task."""
    generates = task == tasks.GENERATE
    ignored = ["inputs_per_request"] if generates else [*_OF_GENERATION]
    if others := " and ".join(_typed(name) for name in given if name in ignored):
        reason = "generates text for one prompt in each request" if generates else "has no output tokens"
        raise typer.BadParameter(f"{subject} {reason} ({tasks.find(task).title}): leave out {others}")


def _typed(name: str) -> str:
    """Return a parameter in the form in which it is typed."""
    return "TARGET" if name == "target" else f"--{name.replace('_', '-')}"


def _sides(target: str | None, baseline: str | None) -> tuple[SideOptions, ...]:
    if target is None:
        raise typer.BadParameter("name a TARGET, or use --resume")
    sides = [_side("endpoint" if baseline is None else "optimized", target, "TARGET")]
    if baseline is not None:
        sides.insert(0, _side("baseline", baseline, "--compare", like=sides[0]))
        if sides[0].title == sides[1].title:
            sides = [side.model_copy(update={"label": side.name}) for side in sides]
    return tuple(sides)


def _side(name: str, text: str, parameter: str, like: SideOptions | None = None) -> SideOptions:
    """Parse ``NAME-OR-URL,setting=value,...``, or a JSON object for values that contain commas."""
    if text.startswith("{"):
        try:
            settings = {key.replace("-", "_"): value for key, value in object_in(json_value(text)).items()}
        except ValueError as error:
            raise typer.BadParameter(f"{parameter} {text!r} is not JSON ({error})") from None
    else:
        address, *pairs = text.split(",")
        settings = {"url" if "://" in address else "endpoint_name": address}
        for pair in pairs:
            key, equals, value = pair.partition("=")
            key = key.strip().replace("-", "_")
            if not equals or key not in _SETTINGS:
                known = ", ".join(f"{known.replace('_', '-')}=" for known in _SETTINGS)
                raise typer.BadParameter(f"{parameter} {text!r}: {pair!r} is not a setting. Settings: {known}")
            settings[key] = value
    # Both sides usually serve the same model under the same savings plan.
    shared = {"tokenizer", "discount", "savings_plan", *(["model"] if "url" in settings else [])}
    inherited = like.model_dump(include=shared, exclude_unset=True) if like is not None else {}
    try:
        side = SideOptions.model_validate({**inherited, **settings, "name": name})
    except ValidationError as error:
        raise typer.BadParameter(f"{parameter}: {listed_mistakes(error)}") from None
    if (side.endpoint_name is None) == (side.url is None):
        raise typer.BadParameter(f"{parameter}: name an endpoint (endpoint_name) or a server (url)")
    if side.endpoint_name is not None and not _ENDPOINT_NAME.fullmatch(side.endpoint_name):
        raise typer.BadParameter(
            f"{parameter}: {shown(side.endpoint_name)} is neither the name of an endpoint, of up to 63 letters, "
            "digits, and hyphens, nor the URL of a server, which begins with http:// or https://"
        )
    if side.url is not None and (ignored := [key for key in settings if key in _OF_ENDPOINTS]):
        named = " and ".join(f"{key.replace('_', '-')}=" for key in ignored)
        raise typer.BadParameter(f"{parameter}: {side.url} is a server, not an endpoint: leave out {named}")
    return side


def _parameters(pairs: list[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--parameter {pair!r}: use NAME=VALUE, such as ignore_eos=true")
        try:
            parameters[name] = json_value(text)
        except ValueError:
            parameters[name] = text
            with suppress(ValueError):
                if not math.isfinite(float(text)):
                    raise typer.BadParameter(f"--parameter {pair!r}: JSON allows finite numbers only") from None
    return parameters


def _default_folder(options: Options) -> Path:
    title = options.sides[-1].title
    name = "".join(character if character.isalnum() or character in "-." else "-" for character in title)
    return Path("evaluations") / f"{name}-{options.started:%Y%m%d-%H%M%S}"


def _random_prompts(options: Options, made: SyntheticPrompts) -> list[Prompt]:
    """Return prompts of random words, one for each request of all loads, so that none is repeated."""
    from constructs_optim.evaluator.tokens import ModelTokenizer

    count = sum(_most_sent(load) for load in options.loads) or _MOST_RANDOM_PROMPTS
    source = options.sides[-1].tokenizer
    # Not for a tokenizer in S3, which needs a session that does not exist yet.
    count_tokens = None if source is None or source.startswith("s3://") else ModelTokenizer(source).count_text
    most = max(_FEWEST_RANDOM_PROMPTS, min(_MOST_RANDOM_PROMPTS, _MOST_RANDOM_INPUTS // (made.inputs or 1)))
    return list(made.made(min(count, most), count_tokens))


def _most_sent(load: Load) -> int:
    """Return how many prompts a load takes, including the requests before and after the counted ones."""
    users = load.concurrency if isinstance(load, ClosedLoop) else 0
    return (load.total or _RANDOM_PROMPTS_FOR_SECONDS) + users * (load.warm_up + 2 if load.warm_up else 0)


def _fitted(options: Options, directory: RunDirectory, sides: Sequence[Side], new: _New | None) -> Options:
    """Return the options for what the sides do, which a first request to each has shown, and give them fitting prompts.

    Raises:
        EvaluationError: if the sides do different things.
        BadParameter: if typed options have no effect on what they do.
    """
    formats = [side.sender.format.name for side in sides]
    labels = [side.subject.label for side in sides]
    if len({each.task for each in formats}) > 1:
        named = " and ".join(f"{label} as {each.value}" for label, each in zip(labels, formats, strict=True))
        raise EvaluationError(f"the endpoints respond to different requests, {named}: compare two with the same task")
    task = formats[0].task
    if new is None or task is None:
        return options
    _refuse_others(new.given, task, " and ".join(labels))
    if task != "rerank" or not options.random_prompts or new.made.reranks:
        return options
    # Random texts have no query.
    options = options.model_copy(update={"format": FormatName.RERANK})
    prompts = _random_prompts(options, new.made.model_copy(update={"reranks": True}))
    directory.create(options, prompts)
    for side in sides:
        side.sender.prompts = prompts
    return options


def _run(options: Options, directory: RunDirectory, *, as_json: bool, new: _New | None = None) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        from uvloop import run  # takes half the CPU for the same streams
    except ModuleNotFoundError:
        from asyncio import run

    from constructs_optim.evaluator.datasets import read_prompts
    from constructs_optim.evaluator.evaluation import Evaluation, LiveProgress
    from constructs_optim.evaluator.report import write_report
    from constructs_optim.evaluator.sides import prepare

    prompts = read_prompts(directory.prompts)

    @functools.cache
    def session() -> Session:
        return session_of(options.profile, options.region)

    async def measure() -> tuple[Evaluation, Exception | None]:
        with working("Sending a first request"):
            sides = [await prepare(options, side, prompts, session) for side in options.sides]
        evaluation = Evaluation(directory, _fitted(options, directory, sides, new), sides)
        try:
            with LiveProgress() as progress:
                await evaluation.run(progress)
        except (BotoCoreError, ClientError, EvaluationError) as error:
            return evaluation, error
        return evaluation, None

    evaluation, stopped = run(measure())
    results = {side.name: evaluation.result(side) for side in evaluation.sides}
    comparison = write_report(directory, evaluation.options, results, evaluation.sides[0].sender.prompts)
    if as_json:
        print_json({"directory": str(directory.path), "results": results})
    else:
        _print(directory.path, [*results.values()], comparison)
    if stopped is not None:
        raise stopped
    if evaluation.interrupted:
        say(
            f"Interrupted: the results are partial. To resume: constructs-optim evaluate --resume {directory.path}",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED)
    status, reason = _exit_status([*results.values()], options.max_error_rate)
    if status:
        say(reason, style="red", err=True)
        raise typer.Exit(status)


def _exit_status(results: Sequence[EvaluationResult], max_error_rate: float | None) -> tuple[int, str]:
    """Return the lowest exit status that applies to an uninterrupted evaluation, with its reason."""
    problems: list[tuple[int, str]] = []
    for result in results:
        for level in result.levels:
            label, where = result.subject.label, f"at {level.load}"
            sent, errors = level.metrics["client_invocations"], level.metrics["client_invocation_errors"]
            if sent == errors + level.metrics.get("empty_inference_response", 0):
                problems.append((_NOTHING_COMPLETED, f"{label} completed none of {sent:.0f} requests {where}."))
            if not level.complete:
                problems.append((_STOPPED_EARLY, f"The evaluation of {label} stopped early {where}."))
            if max_error_rate is not None and errors / sent > max_error_rate:
                allowed = f"--max-error-rate allows {max_error_rate:.1%}"
                problem = f"{label} failed {errors / sent:.1%} of the requests {where}, and {allowed}."
                problems.append((_TOO_MANY_ERRORS, problem))
    return min(problems, default=(0, ""), key=lambda problem: problem[0])


def _print(folder: Path, results: Sequence[EvaluationResult], comparison: WrittenComparison | None) -> None:
    from constructs_optim.evaluator.find_limit import described
    from constructs_optim.evaluator.report import readable

    levels = [(level, result.subject.label) for result in results for level in result.levels]
    columns = _columns(name for level, _ in levels for name in level.metrics)
    known = [name for name in columns if any(name in level.metrics for level, _ in levels)]
    order = list(dict.fromkeys(level.load for level, _ in levels))
    rows = [
        [
            level.load,
            *(readable(level.metrics[name]) if name in level.metrics else "–" for name in known),
            *([label] if len(results) > 1 else []),
        ]
        for level, label in sorted(levels, key=lambda labeled: order.index(labeled[0].load))
    ]
    sides = ["Side"] if len(results) > 1 else []
    print_table(["Load", *(columns[name] for name in known), *sides], rows, long=len(sides))
    if columns is _COLUMNS:
        say("TTFT, ITL, and Latency: medians in ms of time to first token, inter-token latency, and whole response.")
    else:
        say("Latency: median in ms of the whole response. Inputs: texts or documents. Tokens and $/M: of inputs.")
    if "blended_price_per_million_tokens" in known:
        say("$/M: US dollars per million tokens, at three input tokens for each output token.")
    if "acceptance_length" in known:
        say("Accepted: mean acceptance length of speculative decoding, from the server's counters.")
    for result in results:
        if result.limit is not None and result.objectives is not None:
            say(f"{result.subject.label}: {described(result.limit, result.objectives)}")
    if comparison is not None:
        _print_differences(comparison)
        if (completions := comparison.completions) is not None:
            say(f"Both sides return the same completion for {completions.identical} of {completions.compared} prompts.")
        if comparison.outputs is not None:
            say(comparison.outputs.described)
        for note in comparison.notes:
            say(f"- {note}")
    for note in dict.fromkeys(note for result in results for note in result.notes):
        say(f"- {note}")
    written = [
        path for path in folder.iterdir() if path.suffix in (".json", ".csv", ".html", ".md") and path.stem != "run"
    ]
    say("\n".join(map(str, sorted(written))))


def _columns(metrics: Iterable[str]) -> Mapping[str, str]:
    """Return the columns of tables, by metric, for the metrics that were measured."""
    return _POOLED_COLUMNS if "inputs_per_second" in metrics else _COLUMNS


def _print_differences(comparison: WrittenComparison) -> None:
    from constructs_optim.evaluator.report import requests_needed, signed

    columns = _columns(found.name for level in comparison.levels for found in level.differences)
    rows = [
        [
            level.load,
            columns[found.name],
            signed(found.change),
            f"{signed(found.low)} to {signed(found.high)}" if found.low is not None else "–",
            f"{found.verdict}: too busy" if found.too_busy else found.verdict,
            requests_needed(found),
        ]
        for level in comparison.levels
        for found in level.differences
        if found.name in columns
    ]
    say("")
    print_table(["Load", "Metric", "Change", "95% interval", "Verdict", "Requests needed"], rows, status="Verdict")
    say(
        "The intervals contain all true changes with a joint probability of 95%. Same: the change is within "
        f"{comparison.margin:.3g}. Undecided: this many requests per side would decide it, or, after `at least`, would "
        "give it an interval."
    )
    if comparison.too_busy:
        say("Too busy: this machine handled responses so late that this alone may explain the change, or hide one.")
