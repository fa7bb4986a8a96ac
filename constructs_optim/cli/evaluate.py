"""``constructs-optim evaluate``: measures latency, throughput and price of an endpoint."""

from __future__ import annotations

import datetime as dt
import functools
import importlib.util
import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

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
from constructs_optim.evaluator.prompts import Prompt, describe_errors
from constructs_optim.evaluator.synthetic_prompts import Lengths, SyntheticPrompts
from constructs_optim.recipe.evaluation.objectives import ATTAINMENT
from constructs_optim.recipe.evaluation.workload import Workload
from constructs_optim.runtime.evaluation.differences import MARGIN

from .aws import Profile, Region, failed
from .loads import LoadOptions, objectives
from .presentation import print_table, say

if TYPE_CHECKING:
    from constructs_optim.evaluator.evaluation import Evaluation
    from constructs_optim.evaluator.report import WrittenComparison
    from constructs_optim.evaluator.run_directory import RunDirectory
    from constructs_optim.recipe.evaluation.result import EvaluationResult

_NOTHING_COMPLETED, _STOPPED_EARLY, _TOO_MANY_ERRORS, _INTERRUPTED = 3, 4, 5, 130
_MAX_TOKENS = 256
_MOST_RANDOM_PROMPTS, _RANDOM_PROMPTS_FOR_SECONDS = 2000, 500
_EXTRA = ("httptools", "jinja2", "tokenizers")
_SETTINGS = [name for name in SideOptions.model_fields if name not in ("name", "endpoint_name", "url")]
_OF_ENDPOINTS = {"variant", "inference_component", "savings_plan", "api"}
# Options that do nothing without any of others.
_NEEDED = {
    "prefixes": ("prefix_tokens",),
    "arrivals": ("rate", "find_limit"),
    "burstiness": ("rate", "find_limit"),
    "speed": ("replay",),
    "attainment": ("ttft", "itl", "latency"),
    "margin": ("compare",),
}
_COLUMNS = {
    "time_to_first_token_p50": "TTFT (ms)",
    "inter_token_latency_p50": "ITL (ms)",
    "client_latency_p50": "latency (ms)",
    "requests_per_second": "req/s",
    "goodput": "goodput",
    "output_tokens_per_second": "tokens/s",
    "acceptance_length": "accepted",
    "blended_price_per_million_tokens": "$/M",
    "client_invocations": "sent",
    "client_invocation_errors": "failed",
}


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number")
    return value


def evaluate_command(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="An endpoint's name, or the URL of an OpenAI-compatible server, with settings after commas: "
            "chat,variant=blue or http://127.0.0.1:8000/v1,model=llama. docs/evaluation.md has them all.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="BASELINE", help="The baseline to compare it with, named in the same way.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="This library's own JSON Lines, chats, ShareGPT, AIPerf's, Mooncake's and other traces, or captures "
            "of SageMaker. By default random words of about 622 tokens.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    input_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTHS",
            help="Of random words: 622, normal:622,62, uniform:100,1000, lognormal:MEDIAN,P90 or sharegpt.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    output_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTHS", help="What is asked for with random words, likewise.", rich_help_panel="Prompts"
        ),
    ] = None,
    prefix_tokens: Annotated[
        int,
        typer.Option(min=0, metavar="COUNT", help="Of a system prompt that others share.", rich_help_panel="Prompts"),
    ] = 0,
    prefixes: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Different system prompts.", rich_help_panel="Prompts")
    ] = 1,
    turns: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Of a conversation of random words.", rich_help_panel="Prompts")
    ] = 1,
    unique_prompts: Annotated[
        bool,
        typer.Option(
            "--unique-prompts",
            help="Begin each prompt with a number of its own, so that no cache has seen it.",
            rich_help_panel="Prompts",
        ),
    ] = False,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Of a completion, where its prompt sets none: 256, or 250 for random words.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(min=0, callback=_finite, help="0 makes completions comparable.", rich_help_panel="Prompts"),
    ] = 0,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Sent with each request, as ignore_eos=true. Repeatable.",
            rich_help_panel="Prompts",
        ),
    ] = None,
    format: Annotated[
        FormatName, typer.Option(help="How requests are written.", rich_help_panel="Prompts")
    ] = FormatName.AUTO,
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="USERS",
            help="Users at the same time, a level each; 1,8,64 by default.",
            rich_help_panel="Load",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATES",
            help="Requests per second instead, a level each, as 0.5,1,2; 1-20 for a rate that rises.",
            rich_help_panel="Load",
        ),
    ] = None,
    arrivals: Annotated[
        Arrivals, typer.Option(help="How requests at a rate are spaced.", rich_help_panel="Load")
    ] = Arrivals.POISSON,
    burstiness: Annotated[
        float,
        typer.Option(
            min=0.01, callback=_finite, help="Shape of gamma arrivals: small is bursty.", rich_help_panel="Load"
        ),
    ] = 0.25,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Send the prompts at the times that the file has.", rich_help_panel="Load"),
    ] = False,
    speed: Annotated[
        str, typer.Option(metavar="FACTORS", help="Of a replay, a level each, as 0.5,1,2.", rich_help_panel="Load")
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
            help="At each level; by default 8 for each user and at least 32, or half a minute's and at least 100.",
            rich_help_panel="Load",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, callback=_finite, help="Send for so long at each level instead.", rich_help_panel="Load"),
    ] = None,
    warm_up: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="COUNT",
            help="Requests of each user before anything is counted. 0 counts everything.",
            rich_help_panel="Load",
        ),
    ] = 1,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            callback=_finite,
            metavar="SECONDS",
            help="Seconds after which a request has failed.",
            rich_help_panel="Load",
        ),
    ] = 120,
    ttft: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Objective for the first token, as 500ms.", rich_help_panel="Judgement"),
    ] = None,
    itl: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Objective for each token after it.", rich_help_panel="Judgement"),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Objective for the whole response.", rich_help_panel="Judgement"),
    ] = None,
    attainment: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=1,
            callback=_finite,
            help="The share of requests that have to meet the objectives.",
            rich_help_panel="Judgement",
        ),
    ] = ATTAINMENT,
    margin: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=1,
            callback=_finite,
            help="With --compare: the largest change that counts as none.",
            rich_help_panel="Judgement",
        ),
    ] = MARGIN,
    max_error_rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            callback=_finite,
            help="Exit status 5 if more of a level's requests fail: 0.01 for 1 %.",
            rich_help_panel="Judgement",
        ),
    ] = None,
    api_key_variable: Annotated[
        str, typer.Option(help="The environment variable that holds a URL's key.")
    ] = "OPENAI_API_KEY",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder of the results; by default one below evaluations.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Resume the evaluation in this folder; it knows all other options."),
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Measure latency, throughput and price of an endpoint, alone or against a baseline.

    Writes JSON, CSV, Markdown and a report as one HTML file. Ctrl-C keeps what was measured; --resume continues it.
    Exit status 3: no request succeeded under some load; 4: stopped early; 5: more failed than --max-error-rate.
    """
    if missing := [name for name in _EXTRA if importlib.util.find_spec(name) is None]:
        raise failed(f'Evaluating is an extra ({", ".join(missing)}): pip install "constructs-optim[evaluate]"')
    from constructs_optim.evaluator.datasets import read_prompts
    from constructs_optim.evaluator.run_directory import RunDirectory

    if requests is not None and seconds is not None:
        raise typer.BadParameter("use --requests or --seconds, not both")
    _refuse_ignored(context, arrivals)
    if resume is not None:
        directory = RunDirectory(resume)
        _run(directory.options(), directory)
        return
    given = {"--input-tokens": input_tokens, "--output-tokens": output_tokens, "--prefix-tokens": prefix_tokens}
    if prompts is not None and (unused := [name for name, value in given.items() if value] + ["--turns"] * (turns > 1)):
        raise typer.BadParameter(f"{' and '.join(unused)} are of random words: leave out --prompts")
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
        format=format,
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
    )
    directory = RunDirectory(output or _default_folder(options))
    directory.create(options, read or _random_prompts(options, made))
    _run(options, directory)


def _refuse_ignored(context: typer.Context, arrivals: Arrivals) -> None:
    """Raise BadParameter for options that were typed and would do nothing."""
    given = [
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if "resume" in given and (others := [_typed(name) for name in given if name != "resume"]):
        raise typer.BadParameter(
            f"the evaluation in --resume FOLDER knows its options: leave out {' and '.join(others)}"
        )
    for name in given:
        needed = _NEEDED.get(name, ())
        if needed and not any(each in given for each in needed):
            able = " or ".join(map(_typed, needed))
            raise typer.BadParameter(f"{_typed(name)} does nothing without {able}: add it, or leave out {_typed(name)}")
    if "burstiness" in given and arrivals is not Arrivals.GAMMA:
        raise typer.BadParameter("--burstiness is the shape of gamma arrivals: add --arrivals gamma, or leave it out")


def _typed(name: str) -> str:
    """A parameter as it is typed."""
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
    """Parse ``NAME-OR-URL,setting=value,...``, or a JSON object where a value contains a comma."""
    if text.startswith("{"):
        try:
            settings = {key.replace("-", "_"): value for key, value in json.loads(text).items()}
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
                raise typer.BadParameter(f"{parameter} {text!r}: {pair!r} is no setting; there are {known}")
            settings[key] = value
    # Both sides usually serve the same model under the same savings plan.
    shared = {"tokenizer", "discount", "savings_plan", *(["model"] if "url" in settings else [])}
    inherited = like.model_dump(include=shared, exclude_unset=True) if like is not None else {}
    try:
        side = SideOptions.model_validate({**inherited, **settings, "name": name})
    except ValidationError as error:
        raise typer.BadParameter(f"{parameter}: {describe_errors(error)}") from None
    if (side.endpoint_name is None) == (side.url is None):
        raise typer.BadParameter(f"{parameter}: name an endpoint (endpoint_name) or a server (url)")
    if side.url is not None and (ignored := [key for key in settings if key in _OF_ENDPOINTS]):
        named = " and ".join(f"{key.replace('_', '-')}=" for key in ignored)
        raise typer.BadParameter(f"{parameter}: {side.url} is a server, not an endpoint: leave out {named}")
    return side


def _parameters(pairs: list[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--parameter {pair!r}: use NAME=VALUE, for instance ignore_eos=true")
        try:
            parameters[name] = json.loads(text)
        except ValueError:
            parameters[name] = text
        try:
            json.dumps(parameters[name], allow_nan=False)
        except ValueError:
            raise typer.BadParameter(f"--parameter {pair!r}: JSON has finite numbers only") from None
    return parameters


def _default_folder(options: Options) -> Path:
    title = options.sides[-1].title
    name = "".join(character if character.isalnum() or character in "-." else "-" for character in title)
    return Path("evaluations") / f"{name}-{options.started:%Y%m%d-%H%M%S}"


def _random_prompts(options: Options, made: SyntheticPrompts) -> list[Prompt]:
    """Prompts of random words, as many as all loads send, so that none is repeated."""
    from constructs_optim.evaluator.tokens import ModelTokenizer

    count = sum(_most_sent(load) for load in options.loads) or _MOST_RANDOM_PROMPTS
    source = options.sides[-1].tokenizer
    # Counting the tokens of text that is thrown away: an S3 tokenizer needs a session, which there is none of yet.
    count_tokens = None if source is None or source.startswith("s3://") else ModelTokenizer(source).count_text
    return list(made.made(min(count, _MOST_RANDOM_PROMPTS), count_tokens))


def _most_sent(load: Load) -> int:
    """How many prompts a load takes, with those that go on around what counts."""
    users = load.concurrency if isinstance(load, ClosedLoop) else 0
    return (load.total or _RANDOM_PROMPTS_FOR_SECONDS) + users * (load.warm_up + 2 if load.warm_up else 0)


def _run(options: Options, directory: RunDirectory) -> None:
    import boto3
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
    def session() -> boto3.Session:
        return boto3.Session(profile_name=options.profile, region_name=options.region)

    async def measure() -> tuple[Evaluation, Exception | None]:
        say("Sending a first request …")
        sides = [await prepare(options, side, prompts, session) for side in options.sides]
        evaluation = Evaluation(directory, options, sides)
        try:
            with LiveProgress() as progress:
                await evaluation.run(progress)
        except (BotoCoreError, ClientError, EvaluationError) as error:
            return evaluation, error
        return evaluation, None

    evaluation, stopped = run(measure())
    results = {side.name: evaluation.result(side) for side in evaluation.sides}
    comparison = write_report(directory, evaluation.options, results, prompts)
    _print(directory.path, [*results.values()], comparison)
    if stopped is not None:
        raise stopped
    if evaluation.interrupted:
        say(f"Interrupted; the results are partial. Resume with: constructs-optim evaluate --resume {directory.path}")
        raise typer.Exit(_INTERRUPTED)
    status, reason = _exit_status([*results.values()], options.max_error_rate)
    if status:
        say(reason)
        raise typer.Exit(status)


def _exit_status(results: Sequence[EvaluationResult], max_error_rate: float | None) -> tuple[int, str]:
    """The lowest exit status that applies to an evaluation that was not interrupted, with its reason."""
    problems: list[tuple[int, str]] = []
    for result in results:
        for level in result.levels:
            label, where = result.subject.label, f"at {level.load}"
            sent, errors = level.metrics["client_invocations"], level.metrics["client_invocation_errors"]
            if sent == errors + level.metrics["empty_inference_response"]:
                problems.append((_NOTHING_COMPLETED, f"{label} completed none of {sent:.0f} requests {where}."))
            if not level.complete:
                problems.append((_STOPPED_EARLY, f"The evaluation of {label} was stopped early {where}."))
            if max_error_rate is not None and errors / sent > max_error_rate:
                allowed = f"--max-error-rate allows {max_error_rate:.1%}"
                problem = f"{label} failed {errors / sent:.1%} of the requests {where}, and {allowed}."
                problems.append((_TOO_MANY_ERRORS, problem))
    return min(problems, default=(0, ""), key=lambda problem: problem[0])


def _print(folder: Path, results: Sequence[EvaluationResult], comparison: WrittenComparison | None) -> None:
    from constructs_optim.evaluator.find_limit import described
    from constructs_optim.evaluator.report import readable

    levels = [(level, result.subject.label) for result in results for level in result.levels]
    known = [name for name in _COLUMNS if any(name in level.metrics for level, _ in levels)]
    order = list(dict.fromkeys(level.load for level, _ in levels))
    rows = [
        [
            level.load,
            *(readable(level.metrics[name]) if name in level.metrics else "–" for name in known),
            *([label] if len(results) > 1 else []),
        ]
        for level, label in sorted(levels, key=lambda labelled: order.index(labelled[0].load))
    ]
    sides = ["side"] if len(results) > 1 else []
    print_table(["load", *(_COLUMNS[name] for name in known), *sides], rows, long=len(sides))
    say("Latencies are medians: TTFT to the first token, ITL for each token after it, latency to the whole completion.")
    if "blended_price_per_million_tokens" in known:
        say("$/M: US dollars for a million tokens, three of them input for each that is output.")
    if "acceptance_length" in known:
        say("Accepted: tokens that a step of speculative decoding brings on average, by the server's own counters.")
    for result in results:
        if result.limit is not None and result.objectives is not None:
            say(f"{result.subject.label}: {described(result.limit, result.objectives)}")
    if comparison is not None:
        _print_differences(comparison)
        completions = comparison.completions
        say(f"{completions.identical} of {completions.compared} prompts have the same completion from both.")
    for note in dict.fromkeys(note for result in results for note in result.notes):
        say(f"- {note}")
    written = [
        path for path in folder.iterdir() if path.suffix in (".json", ".csv", ".html", ".md") and path.stem != "run"
    ]
    say("\n".join(map(str, sorted(written))))


def _print_differences(comparison: WrittenComparison) -> None:
    from constructs_optim.evaluator.report import requests_needed, signed

    rows = [
        [
            level.load,
            _COLUMNS[found.name],
            signed(found.change),
            f"{signed(found.low)} to {signed(found.high)}" if found.low is not None else "–",
            found.verdict,
            requests_needed(found),
        ]
        for level in comparison.levels
        for found in level.differences
        if found.name in _COLUMNS
    ]
    print_table(["load", "metric", "change", "interval", "verdict", "requests needed"], rows)
    say(
        "Interval: where the true change is, with a probability of 95 % for all of them at once. Same: within "
        f"{comparison.margin:.3g}, whatever chance did. Undecided: so many requests on each side would "
        "decide it; where it says at least, so many would give it an interval."
    )
