"""``constructs-optim evaluate``: measures latency, throughput and price of an endpoint."""

from __future__ import annotations

import datetime as dt
import functools
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import PositiveInt, TypeAdapter, ValidationError

from constructs_optim.evaluator.options import EvaluationError, FormatName, Generation, Load, Options, SideOptions
from constructs_optim.evaluator.prompts import describe_errors, random_prompts, read_prompts
from constructs_optim.recipe.evaluation.workload import Workload
from constructs_optim.runtime.evaluation.differences import MARGIN

from .aws import Profile, Region, failed
from .presentation import print_table, say

if TYPE_CHECKING:
    from constructs_optim.evaluator.evaluation import Evaluation
    from constructs_optim.evaluator.report import WrittenComparison
    from constructs_optim.evaluator.run_directory import RunDirectory
    from constructs_optim.recipe.evaluation.result import EvaluationResult

_NOTHING_COMPLETED, _STOPPED_EARLY, _TOO_MANY_ERRORS, _INTERRUPTED = 3, 4, 5, 130
_MAX_TOKENS = 256
_MOST_RANDOM_PROMPTS, _RANDOM_PROMPTS_FOR_SECONDS = 1000, 500
_EXTRA = ("httptools", "jinja2", "matplotlib", "tokenizers")
_SETTINGS = [name for name in SideOptions.model_fields if name not in ("name", "endpoint_name", "url")]
_CONCURRENCIES = TypeAdapter(set[PositiveInt])
_COLUMNS = {
    "time_to_first_token_p50": "TTFT (ms)",
    "inter_token_latency_p50": "ITL (ms)",
    "client_latency_p50": "latency (ms)",
    "output_tokens_per_second": "tokens/s",
    "acceptance_length": "accepted",
    "blended_price_per_million_tokens": "blended $/M",
    "client_invocations": "sent",
    "client_invocation_errors": "failed",
}


def evaluate_command(
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
            help="JSON Lines with prompt, messages or inputs, and reference, max_tokens if any. "
            "By default random words of about 622 tokens.",
        ),
    ] = None,
    concurrency: Annotated[str, typer.Option(metavar="USERS", help="Users at the same time, a level each.")] = "1,8,64",
    requests: Annotated[
        int | None,
        typer.Option(min=1, metavar="COUNT", help="At each level; by default 8 for each user and at least 32."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="Send for so long at each level instead.")] = None,
    warm_up: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="Requests of each user before anything is counted.")
    ] = 1,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Seconds after which a request has failed.")
    ] = 120,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Of a completion, where its prompt sets none: 256, or 250 for random words."),
    ] = None,
    max_error_rate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit status 5 if more of a level's requests fail: 0.01 for 1 %.")
    ] = None,
    margin: Annotated[
        float, typer.Option(min=0.001, max=1, help="With --compare: the largest change that counts as none.")
    ] = MARGIN,
    temperature: Annotated[float, typer.Option(min=0, help="0 makes completions comparable.")] = 0,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Sent with each request, as ignore_eos=true. Repeatable."),
    ] = None,
    format: Annotated[FormatName, typer.Option(help="How requests are written.")] = FormatName.AUTO,
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

    Writes JSON, CSV and a report as one HTML file. Ctrl-C keeps what was measured; --resume continues it.
    Exit status 3: no request succeeded at some concurrency; 4: stopped early; 5: more failed than --max-error-rate.
    """
    if missing := [name for name in _EXTRA if importlib.util.find_spec(name) is None]:
        raise failed(f'Evaluating is an extra ({", ".join(missing)}): pip install "constructs-optim[evaluate]"')
    from constructs_optim.evaluator.run_directory import RunDirectory

    if requests is not None and seconds is not None:
        raise typer.BadParameter("use --requests or --seconds, not both")
    if resume is not None:
        directory = RunDirectory(resume)
        options = directory.options()
    else:
        default_tokens = _MAX_TOKENS if prompts is not None else Workload().output_tokens
        options = Options(
            sides=_sides(target, compare),
            started=dt.datetime.now(dt.UTC),
            loads=tuple(
                Load(concurrency=users, requests=requests, seconds=seconds, warm_up=warm_up, timeout_seconds=timeout)
                for users in _users(concurrency)
            ),
            generation=Generation(
                max_tokens=max_tokens or default_tokens,
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
        )
        directory = RunDirectory(output or _default_folder(options))
        directory.create(options, _prompts(options, prompts))
    _run(options, directory)


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
    shared = {"tokenizer", "discount", "model"} if "url" in settings else {"tokenizer", "discount"}
    inherited = like.model_dump(include=shared, exclude_unset=True) if like is not None else {}
    try:
        side = SideOptions.model_validate({**inherited, **settings, "name": name})
    except ValidationError as error:
        raise typer.BadParameter(f"{parameter}: {describe_errors(error)}") from None
    if (side.endpoint_name is None) == (side.url is None):
        raise typer.BadParameter(f"{parameter}: name an endpoint (endpoint_name) or a server (url)")
    return side


def _users(text: str) -> list[int]:
    try:
        return sorted(_CONCURRENCIES.validate_python(text.split(",")))
    except ValidationError:
        raise typer.BadParameter(f"--concurrency {text!r}: use whole numbers from 1, as 1,8,64") from None


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
    return parameters


def _default_folder(options: Options) -> Path:
    title = options.sides[-1].title
    name = "".join(character if character.isalnum() or character in "-." else "-" for character in title)
    return Path("evaluations") / f"{name}-{options.started:%Y%m%d-%H%M%S}"


def _prompts(options: Options, path: Path | None) -> str:
    """The prompts as JSON Lines: those of a file, which are validated, or random words.

    There are as many prompts of random words as the largest level sends, so that it repeats none.
    """
    from constructs_optim.evaluator.tokens import ModelTokenizer

    if path is not None:
        read_prompts(path)
        return path.read_text(encoding="utf-8")
    sent = [load.total + load.warm_up * load.concurrency for load in options.loads if load.total is not None]
    count = min(max(sent, default=_RANDOM_PROMPTS_FOR_SECONDS), _MOST_RANDOM_PROMPTS)
    source = options.sides[-1].tokenizer
    if source is None or source.startswith("s3://"):
        return random_prompts(count)
    return random_prompts(count, ModelTokenizer(source).count_text)


def _run(options: Options, directory: RunDirectory) -> None:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        from uvloop import run  # takes half the CPU for the same streams
    except ModuleNotFoundError:
        from asyncio import run

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
    comparison = write_report(directory, results, prompts, options.margin)
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
            label, where = result.subject.label, f"at concurrency {level.concurrency}"
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
    from constructs_optim.evaluator.report import readable

    levels = [(level, result.subject.label) for result in results for level in result.levels]
    known = [name for name in _COLUMNS if any(name in level.metrics for level, _ in levels)]
    rows = [
        [
            str(level.concurrency),
            *(readable(level.metrics[name]) if name in level.metrics else "–" for name in known),
            *([label] if len(results) > 1 else []),
        ]
        for level, label in sorted(levels, key=lambda labelled: labelled[0].concurrency)
    ]
    sides = ["side"] if len(results) > 1 else []
    print_table(["users", *(_COLUMNS[name] for name in known), *sides], rows, long=len(sides))
    say("Latencies are medians: TTFT to the first token, ITL for each token after it, latency to the whole completion.")
    if "acceptance_length" in known:
        say("Accepted: tokens that a step of speculative decoding brings on average, by the server's own counters.")
    if comparison is not None:
        _print_differences(comparison)
        completions = comparison.completions
        say(f"{completions.identical} of {completions.compared} prompts have the same completion from both.")
    for note in dict.fromkeys(note for result in results for note in result.notes):
        say(f"- {note}")
    written = [path for path in folder.iterdir() if path.suffix in (".json", ".csv", ".html") and path.stem != "run"]
    say("\n".join(map(str, sorted(written))))


def _print_differences(comparison: WrittenComparison) -> None:
    from constructs_optim.evaluator.report import readable, signed

    rows = [
        [
            str(users),
            _COLUMNS[found.name],
            signed(found.change),
            f"{signed(found.low)} to {signed(found.high)}" if found.low is not None else "–",
            found.verdict,
            readable(found.requests) if found.requests is not None else "",
        ]
        for users, differences in comparison.differences.items()
        for found in differences
        if found.name in _COLUMNS
    ]
    print_table(["users", "metric", "change", "interval", "verdict", "requests needed"], rows)
    say(
        "Interval: where the true change is, with a probability of 95 % for all of them at once. Same: within "
        f"{comparison.margin:.3g}, whatever chance did. Undecided: so many requests on each side would tell."
    )
