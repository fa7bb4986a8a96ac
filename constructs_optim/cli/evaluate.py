"""``constructs-optim evaluate``: latency, throughput and price of an endpoint, measured from here."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .aws import Profile, Region, errors_explained, failed
from .presentation import printable, say

if TYPE_CHECKING:
    from constructs_optim.evaluator.options import Options
    from constructs_optim.recipe.evaluation.result import Level

_USAGE, _NOTHING_ANSWERED, _GIVEN_UP, _TOO_MANY_ERRORS, _INTERRUPTED = 2, 3, 4, 5, 130
_MAX_TOKENS = 256
_MOST_MADE_UP, _MADE_UP_FOR_SECONDS = 1000, 500
_EXTRA = ("httptools", "jinja2", "matplotlib", "tokenizers")


class Format(StrEnum):
    """How requests are written; ``evaluator.formats`` has the same names."""

    auto = "auto"
    openai = "openai"
    lmi = "lmi"
    tgi = "tgi"


Price = Annotated[
    float | None,
    typer.Option(metavar="DOLLARS", help="Of one instance in US dollars; by default from the AWS Price List."),
]


def evaluate_command(
    endpoint_name: Annotated[str | None, typer.Option(help="The SageMaker endpoint to evaluate.")] = None,
    url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server instead, as http://127.0.0.1:8000/v1.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="BASELINE", help="The baseline to compare it with: an endpoint's name, or a URL."),
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
        typer.Option(min=1, help="Of an answer, where its prompt does not say: 256, or 250 for random words."),
    ] = None,
    max_error_rate: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Exit status 5 where a greater share of a level's requests fails: 0.01 for 1 %."
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0 makes answers comparable.")] = 0,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="NAME=VALUE, passed on with each request, as ignore_eos=true. Repeatable."
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="How requests are written.")] = Format.auto,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="A model's folder, s3:// prefix or hub id; by default the endpoint's model's own."),
    ] = None,
    compare_tokenizer: Annotated[str | None, typer.Option(help="The baseline's; by default the same.")] = None,
    model: Annotated[str | None, typer.Option(help="The name by which a server knows the model.")] = None,
    compare_model: Annotated[str | None, typer.Option(help="The baseline's; by default the same.")] = None,
    label: Annotated[str | None, typer.Option(help="What reports call it.")] = None,
    compare_label: Annotated[str | None, typer.Option(help="What reports call the baseline.")] = None,
    variant: Annotated[str | None, typer.Option(help="The production variant to invoke.")] = None,
    compare_variant: Annotated[str | None, typer.Option(help="The baseline's.")] = None,
    inference_component: Annotated[str | None, typer.Option(help="The inference component to invoke.")] = None,
    compare_inference_component: Annotated[str | None, typer.Option(help="The baseline's.")] = None,
    instance_price_per_hour: Price = None,
    compare_instance_price_per_hour: Price = None,
    discount: Annotated[
        float, typer.Option(min=0, max=0.99, metavar="SHARE", help="What a savings plan takes off: 0.3 for 30 %.")
    ] = 0,
    compare_discount: Annotated[
        float | None, typer.Option(min=0, max=0.99, metavar="SHARE", help="The baseline's; by default the same.")
    ] = None,
    api_key_variable: Annotated[
        str, typer.Option(help="The environment variable that holds a URL's key.")
    ] = "OPENAI_API_KEY",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder of the results; by default one below evaluations.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Go on with the evaluation in this folder; it knows all other options."),
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Measure latency, throughput and price of an endpoint, alone or against a baseline.

    Writes JSON, CSV and a report as one HTML file. Ctrl-C keeps what was measured; --resume goes on with it.
    Exit status 3: no request was answered at some concurrency; 4: given up; 5: more failed than --max-error-rate.
    """
    _check_extra()
    from constructs_optim.evaluator.errors import EvaluationError
    from constructs_optim.evaluator.options import Options
    from constructs_optim.evaluator.run_directory import RunDirectory
    from constructs_optim.recipe.evaluation.workload import Workload

    with errors_explained():
        try:
            if resume is not None:
                directory = RunDirectory(resume)
                options = Options.model_validate(directory.options())
            else:
                options = Options.model_validate(
                    {
                        "sides": _sides(
                            _side(endpoint_name, url, variant, inference_component, model, label, tokenizer)
                            | {"instance_price_per_hour": instance_price_per_hour},
                            _compared(
                                compare,
                                compare_variant,
                                compare_inference_component,
                                compare_model or model,
                                compare_label,
                                compare_tokenizer or tokenizer,
                                compare_instance_price_per_hour,
                                compare_discount,
                            ),
                        ),
                        "started": dt.datetime.now(dt.UTC),
                        "concurrency": _levels(concurrency),
                        **_limit(requests, seconds),
                        "warm_up": warm_up,
                        "timeout_seconds": timeout,
                        "max_tokens": max_tokens or (_MAX_TOKENS if prompts is not None else Workload().output_tokens),
                        "max_error_rate": max_error_rate,
                        "made_up": prompts is None,
                        "temperature": temperature,
                        "parameters": _parameters(parameter or []),
                        "format": format.value,
                        "discount": discount,
                        "region": region,
                        "profile": profile,
                        "api_key_variable": api_key_variable,
                    }
                )
                directory = _created(options, prompts, output)
            _run(options, directory)
        except EvaluationError as error:
            raise failed(str(error)) from None


def _check_extra() -> None:
    from importlib.util import find_spec

    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        typer.echo(f'Evaluating is an extra ({", ".join(missing)}): pip install "constructs-optim[evaluate]"', err=True)
        raise typer.Exit(_USAGE)


def _side(
    endpoint_name: str | None,
    url: str | None,
    variant: str | None,
    inference_component: str | None,
    model: str | None,
    label: str | None,
    tokenizer: str | None,
) -> dict[str, Any]:
    if (endpoint_name is None) == (url is None):
        raise typer.BadParameter("give one of --endpoint-name and --url, or --resume")
    return {
        "endpoint_name": endpoint_name,
        "url": url,
        "variant": variant,
        "inference_component": inference_component,
        "model": model,
        "label": label,
        "tokenizer": tokenizer,
    }


def _compared(
    compare: str | None,
    variant: str | None,
    inference_component: str | None,
    model: str | None,
    label: str | None,
    tokenizer: str | None,
    price: float | None,
    discount: float | None,
) -> dict[str, Any] | None:
    if compare is None:
        if variant or inference_component or label or price is not None or discount is not None:
            raise typer.BadParameter("--compare-... options describe a baseline: give it with --compare")
        return None
    is_url = "://" in compare
    named = _side(
        None if is_url else compare,
        compare if is_url else None,
        variant,
        inference_component,
        model if is_url else None,
        label,
        tokenizer,
    )
    return named | {"instance_price_per_hour": price, "discount": discount}


def _sides(evaluated: dict[str, Any], baseline: dict[str, Any] | None) -> list[dict[str, Any]]:
    if baseline is None:
        return [{"name": "endpoint", **evaluated}]
    if _shown(evaluated) == _shown(baseline):
        evaluated, baseline = (
            {**side, "label": name} for side, name in ((evaluated, "optimized"), (baseline, "baseline"))
        )
    return [{"name": "baseline", **baseline}, {"name": "optimized", **evaluated}]


def _shown(side: dict[str, Any]) -> Any:
    return side["label"] or side["endpoint_name"] or side["url"]


def _levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or min(levels) < 1:
        raise typer.BadParameter(f"--concurrency {text!r}: use whole numbers from 1, as 1,8,64")
    return levels


def _limit(requests: int | None, seconds: float | None) -> dict[str, Any]:
    if requests is not None and seconds is not None:
        raise typer.BadParameter("give one of --requests and --seconds")
    return {"requests": requests, "seconds": seconds}


def _parameters(pairs: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--parameter {pair!r}: use NAME=VALUE, for instance ignore_eos=true")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _created(options: Options, prompts: Path | None, output: Path | None) -> Any:
    from constructs_optim.evaluator.prompts import read_prompts
    from constructs_optim.evaluator.run_directory import RunDirectory

    if prompts is None:
        written = _made_up(options)
    else:
        read_prompts(prompts)
        written = prompts.read_text(encoding="utf-8")
    name = "".join(
        character if character.isalnum() or character in "-." else "-" for character in options.sides[-1].shown
    )
    folder = output or Path("evaluations") / f"{name}-{options.started:%Y%m%d-%H%M%S}"
    return RunDirectory.create(folder, options.model_dump(mode="json"), written)


def _made_up(options: Options) -> str:
    """Random words: as many prompts as the largest level sends, so that none comes twice there."""
    from constructs_optim.evaluator.prompts import made_up_prompts
    from constructs_optim.evaluator.tokens import ModelTokenizer

    sent = [load.requests + load.warm_up * load.concurrency for load in options.loads if load.requests is not None]
    count = min(max(sent, default=_MADE_UP_FOR_SECONDS), _MOST_MADE_UP)
    source = options.sides[-1].tokenizer
    if source is None or source.startswith("s3://"):
        return made_up_prompts(count)
    return made_up_prompts(count, ModelTokenizer.load(source).count_text)


def _run(options: Options, directory: Any) -> None:
    import boto3

    from constructs_optim.evaluator.errors import EvaluationError
    from constructs_optim.evaluator.evaluation import Evaluation
    from constructs_optim.evaluator.outputs import write_outputs
    from constructs_optim.evaluator.preparation import Preparation
    from constructs_optim.evaluator.prompts import read_prompts

    from .evaluation_progress import LiveProgress

    prompts = read_prompts(directory.prompts)

    def session() -> boto3.Session:
        return boto3.Session(profile_name=options.profile, region_name=options.region)

    async def measured() -> tuple[Evaluation, EvaluationError | None]:
        say("Asking for a first answer …")
        sides = await Preparation(options, prompts, session).sides()
        evaluation = Evaluation(
            directory,
            sides,
            options.loads,
            options.workload(prompts, f"constructs-optim {version('constructs-optim')}"),
        )
        try:
            with LiveProgress() as progress:
                await evaluation.run(progress)
        except EvaluationError as error:
            return evaluation, error
        return evaluation, None

    evaluation, stopped = _event_loop()(measured())
    results = evaluation.results(options.started)
    answers = write_outputs(
        directory, [(side.name, result) for side, result in zip(evaluation.sides, results, strict=True)], prompts
    )
    _tell(directory.path, results, answers)
    if stopped is not None:
        raise stopped
    if evaluation.interrupted:
        say(f"Interrupted; the results are partial. Go on with: constructs-optim evaluate --resume {directory.path}")
        raise typer.Exit(_INTERRUPTED)
    status, why = _judged([(result.subject.label, level) for result in results for level in result.levels], options)
    if status:
        say(why)
        raise typer.Exit(status)


def _judged(levels: Sequence[tuple[str, Level]], options: Options) -> tuple[int, str]:
    """The exit status of an evaluation that ran to its end, and why it is not 0."""
    for label, level in levels:
        sent, failed_ones = level.metrics["client_invocations"], level.metrics["client_invocation_errors"]
        if sent == failed_ones + level.metrics["empty_inference_response"]:
            return (
                _NOTHING_ANSWERED,
                f"{label} answered none of {sent:.0f} requests at concurrency {level.concurrency}.",
            )
    for label, level in levels:
        if not level.complete:
            return _GIVEN_UP, f"The evaluation of {label} was given up at concurrency {level.concurrency}."
    for label, level in levels:
        rate = level.metrics["client_invocation_errors"] / level.metrics["client_invocations"]
        if options.max_error_rate is not None and rate > options.max_error_rate:
            return _TOO_MANY_ERRORS, (
                f"{label} failed {rate:.1%} of the requests at concurrency {level.concurrency}, and --max-error-rate "
                f"allows {options.max_error_rate:.1%}."
            )
    return 0, ""


def _event_loop() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """uvloop, which takes half the CPU for the same streams, where there is one."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run
    return uvloop.run


def _tell(folder: Path, results: list[Any], answers: Any) -> None:
    from constructs_optim.evaluator.outputs import outputs_in
    from constructs_optim.evaluator.report_page import readable

    shown = {
        "time_to_first_token_p50": "TTFT\nms",
        "inter_token_latency_p50": "ITL\nms",
        "client_latency_p50": "latency\nms",
        "output_tokens_per_second": "tokens\na second",
        "blended_price_per_million_tokens": "$/M\nblended",
        "client_invocations": "sent",
        "client_invocation_errors": "failed",
    }
    levels = [(level, result.subject.label) for result in results for level in result.levels]
    known = [name for name in shown if any(name in level.metrics for level, _ in levels)]
    table = Table()
    table.add_column("users", justify="right", no_wrap=True)
    if len(results) > 1:
        table.add_column("side", overflow="fold")
    for name in known:
        table.add_column(shown[name], justify="right", no_wrap=True)
    for level, label in sorted(levels, key=lambda found: found[0].concurrency):
        values = [readable(level.metrics[name]) if name in level.metrics else "–" for name in known]
        table.add_row(str(level.concurrency), *([printable(label)] if len(results) > 1 else []), *values)
    Console().print(table)
    say("Latencies are medians: TTFT to the first token, ITL for each token after it, latency to the whole answer.")
    if answers is not None:
        say(f"{answers.identical} of {answers.compared} prompts got the same answer from both.")
    for note in dict.fromkeys(note for result in results for note in result.notes):
        say(f"- {note}")
    say("\n".join(str(path) for path in outputs_in(folder)))
