"""``constructs-optim recommend``: the recipes that meet objectives at the lowest price, and the record of a choice."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from constructs_optim.explanation.formatting import brief, counted
from constructs_optim.recipe import Model, RecipeError
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim.recipe.choices import described, differences, recorded
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.evaluation import Workload
from constructs_optim.recipe.forecast import Estimate
from constructs_optim.recipe.forecast import published as calibrated
from constructs_optim.recipe.objectives import CONFIDENCE, Objectives, choice_name, percent
from constructs_optim.recipe.recommendation import Benchmark, Candidate, Evidence, Exclusion, Recommendation, recommend
from constructs_optim.recipe.techniques.parsing import parse

from .. import completion
from ..aws import DEFAULT_REGION, Account, OptionalBucket, Profile, Region, failed, region_without_calls
from ..endpoint_file import declared_or, document_of, is_endpoint_file
from ..presentation import (
    OUTPUT_PANEL,
    JsonOption,
    print_json,
    print_table,
    refusals_printed,
    say,
    say_command,
    working,
)
from ..prices import LISTED, PRICES_HELP, PRICES_METAVAR, stated_prices
from .evidence import PublishedModel, artifact_keys, listed_prices, measured, published_model
from .lock import LockFileOption, read_lock, write_lock
from .model_of_text import MODEL_HELP, VERSION_HELP, Commits, is_missing, model_of, without_missing_commits
from .option_wording import OBJECTIVES, remedies_as_options

# Recipes of a gated model are ranked as if its license were accepted and its token stored.
_ANY_SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hugging-face"  # noqa: S105 - a name


_OBJECTIVES, _RECORD = "Objectives", "Lock file"
# In a note.
_MOST_NAMED = 3
OfflineOption = Annotated[bool, typer.Option("--offline", help="Make no call to AWS.")]


class _Quality(StrEnum):
    lossless = "lossless"
    near_lossless = "near-lossless"
    any = "any"


def recommend_command(
    model: Annotated[
        str,
        typer.Argument(
            help=f"{MODEL_HELP}; or an endpoint file, for its endpoints with objectives.",
            autocompletion=completion.model_ids,
        ),
    ],
    version: Annotated[str | None, typer.Option("--model-version", help=VERSION_HELP)] = None,
    ttft: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Maximum mean time to first token: 1s, 800ms.", rich_help_panel=_OBJECTIVES
        ),
    ] = None,
    itl: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Maximum mean inter-token latency: 40ms.", rich_help_panel=_OBJECTIVES),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Requests per second, arriving at random. Default: as many as one instance serves.",
            rich_help_panel=_OBJECTIVES,
        ),
    ] = None,
    input_tokens: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Mean tokens of a prompt.", rich_help_panel=_OBJECTIVES)
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Mean tokens of a response.", rich_help_panel=_OBJECTIVES)
    ] = None,
    max_price: Annotated[
        float | None,
        typer.Option(
            metavar="DOLLARS", help="Maximum US dollars an hour for all instances.", rich_help_panel=_OBJECTIVES
        ),
    ] = None,
    quality: Annotated[
        _Quality | None,
        typer.Option(
            metavar="QUALITY",
            help="lossless, near-lossless (8 bits), or any. Default: near-lossless.",
            rich_help_panel=_OBJECTIVES,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help=f"Minimum probability of meeting the objectives. Default: {CONFIDENCE}.",
            rich_help_panel=_OBJECTIVES,
        ),
    ] = None,
    instance_type: Annotated[
        list[str] | None,
        typer.Option(
            help="Instance type to choose from. Repeatable. Default: all.", autocompletion=completion.instance_types
        ),
    ] = None,
    prices: Annotated[Path, typer.Option(metavar=PRICES_METAVAR, help=PRICES_HELP)] = Path(LISTED),
    discount: Annotated[float, typer.Option(metavar="SHARE", help="Discount of a savings plan, such as 0.3.")] = 0.0,
    offline: OfflineOption = False,
    update: Annotated[
        bool, typer.Option("--update", help="Record the first choice in the lock file.", rich_help_panel=_RECORD)
    ] = False,
    pools: Annotated[
        int, typer.Option(min=1, max=5, metavar="COUNT", help="Instance types to record.", rich_help_panel=_RECORD)
    ] = 1,
    file: LockFileOption = Path(LOCK_FILE),
    region: Region = None,
    profile: Profile = None,
    store: OptionalBucket = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Recipes to show.", rich_help_panel=OUTPUT_PANEL)
    ] = 10,
    left_out: Annotated[
        bool,
        typer.Option("--left-out", help="Also list the excluded recipes, with reasons.", rich_help_panel=OUTPUT_PANEL),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Choose the recipe and instances that meet your objectives at the lowest price.

    Latencies and throughput are forecast: https://constructs-optim.dev/forecast/ explains the forecast and its error.
    With --store, your evaluations correct the forecast, and your artifacts need no job. --update records the choice for
    synthesis. Exits with status 2 if nothing meets the objectives.

    Examples:
        constructs-optim recommend Qwen/Qwen3-32B --ttft 1s --itl 40ms --rate 12
          --input-tokens 1000 --output-tokens 300 --prices prices.json --offline
        constructs-optim recommend endpoint.yaml --update
    """
    stated = stated_prices(prices).hosting if str(prices) != LISTED else None
    if offline and store is not None:
        raise typer.BadParameter("--store needs calls to AWS, and --offline makes none")
    if pools > 1 and not update:
        raise typer.BadParameter("--pools is the number of instance types that --update records: add --update")
    account = None if offline else Account(profile, region)

    def answer(
        named: Model, objectives: Objectives, notes: Sequence[str] = (), where: str | None = region
    ) -> Recommended:
        return recommended(
            named,
            objectives,
            region=where,
            instance_types=instance_type or (),
            discount=discount,
            store=store,
            prices=stated,
            account=account,
            file=file,
            notes=notes,
        )

    def record(found: Recommended) -> list[str]:
        if not (update and found.is_met):
            return []
        return _record(found.source, found.recommendation, read_lock(file), file, pools)

    if is_endpoint_file(model):
        own = [version, ttft, itl, rate, input_tokens, output_tokens, max_price, quality, confidence]
        if any(each is not None for each in own):
            raise typer.BadParameter(f"{model} declares the models and their objectives: leave out these options")
        with refusals_printed(as_json=as_json), working("Comparing recipes"):
            asked, where = intents_of(model, region)
            answers = {name: answer(*intent, where=where) for name, intent in asked.items()}
        _print_answers(
            {name: (found, record(found)) for name, found in answers.items()}, limit, left_out, as_json=as_json
        )
        return
    notes: list[str] = []
    if None in (input_tokens, output_tokens):
        usual = Workload()
        if update:
            raise typer.BadParameter(
                "--update needs the lengths of your requests: add --input-tokens and --output-tokens. "
                "`constructs-optim captures` and `constructs-optim evaluate` report those of an endpoint"
            )
        assumed = [
            f"{count} {kind} tokens (--{kind}-tokens)"
            for kind, given, count in (
                ("input", input_tokens, usual.input_tokens),
                ("output", output_tokens, usual.output_tokens),
            )
            if given is None
        ]
        input_tokens, output_tokens = input_tokens or usual.input_tokens, output_tokens or usual.output_tokens
        notes.append(f"Assumed {' and '.join(assumed)}: the ranking depends on the lengths of your requests.")
    settings: dict[str, Any] = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "requests_per_second": rate,
        "time_to_first_token": ttft,
        "inter_token_latency": itl,
        "max_price_per_hour": max_price,
        "quality": (quality or _Quality.near_lossless).value,
        "confidence": confidence if confidence is not None else CONFIDENCE,
    }
    options = remedies_as_options(OBJECTIVES, given={"--ttft": ttft, "--itl": itl}, model="", as_json=as_json)
    with refusals_printed(as_json=as_json), options, working("Comparing recipes"):
        found = answer(any_model(model, version), Objectives(**settings), notes)
    said = record(found)
    if as_json:
        print_json(found.report(limit, said))
    else:
        _print(found.named, found.region, found.recommendation, found.notes, limit, left_out)
        for each in said:
            say(each)
    if found.shortfall is not None:
        raise failed(found.shortfall)


def intents_of(file: str, region: str | None) -> tuple[dict[str, tuple[Model, Objectives]], str | None]:
    """Return the models and objectives of a file's endpoints with objectives, and its Region or else the given one.

    Raises:
        RecipeError: if the file has mistakes; lists all of them.
    """
    document = document_of(file)
    from constructs_optim.constructs.declared_stack.stack_file import intents

    found = intents(document)
    if not found:
        raise failed(f"No endpoint in {file} has objectives: see {page('recommendation')}")
    return found, declared_or(document, "region", region)


def _print_answers(
    answers: Mapping[str, tuple[Recommended, list[str]]], limit: int, left_out: bool, *, as_json: bool
) -> None:
    """Print the recommendations for each endpoint of a file; end with status 2 if an endpoint has none."""
    if as_json:
        print_json({name: found.report(limit, said) for name, (found, said) in answers.items()})
    else:
        for name, (found, said) in answers.items():
            say(f"{name}:", style="bold")
            _print(found.named, found.region, found.recommendation, found.notes, limit, left_out)
            for each in said:
                say(each)
    shortfalls = [f"{name}: {found.shortfall}" for name, (found, _) in answers.items() if found.shortfall is not None]
    if shortfalls:
        raise failed(" ".join(shortfalls))


def any_model(text: str, version: str | None) -> Model:
    """Return the model that a text names, as if its license were accepted and its token stored."""
    return model_of(text, version, accept_eula=True, token_secret_arn=_ANY_SECRET)


class RecommendationReport(BaseModel):
    """The candidates for objectives, best first; latencies are in seconds, prices in US dollars."""

    model: str
    version: str | None
    region: str
    objectives: Objectives
    candidates: list[dict[str, Any]]
    candidate_count: int
    left_out: tuple[Exclusion, ...]
    published_elsewhere: tuple[Benchmark, ...]
    notes: list[str]
    recorded: Sequence[str]


@dataclass(frozen=True)
class Recommended:
    """The recommendation for objectives; ``source`` is the model with its commit, or with a placeholder for it."""

    named: Model
    source: Model
    region: str
    recommendation: Recommendation
    notes: list[str]

    @property
    def is_met(self) -> bool:
        """Whether any recipe meets the objectives."""
        return bool(self.recommendation.candidates) and self.recommendation.candidates[0].meets

    @property
    def shortfall(self) -> str | None:
        """A sentence on why no recipe meets the objectives; None if one does."""
        candidates, objectives = self.recommendation.candidates, self.recommendation.objectives
        if not candidates:
            return "No recipe remains. --left-out lists the reasons."
        if all(candidate.forecast is None for candidate in candidates):
            return (
                f"No forecast: the size of {self.named.name} is unknown. `constructs-optim lock --model "
                f"{self.named.name}` looks it up."
            )
        if not self.is_met:
            probability = percent(objectives.confidence)
            return f"No recipe meets these objectives with a probability of {probability}: {objectives}."
        return None

    def report(self, limit: int, recorded: Sequence[str] = ()) -> RecommendationReport:
        """Return a report with the first ``limit`` candidates; ``recorded`` describes the lock file's record."""
        candidates = self.recommendation.candidates
        return RecommendationReport(
            model=self.named.name,
            version=self.named.version,
            region=self.region,
            objectives=self.recommendation.objectives,
            candidates=[
                _candidate(rank, candidate, self.recommendation.objectives)
                for rank, candidate in enumerate(candidates[:limit], 1)
            ],
            candidate_count=len(candidates),
            left_out=self.recommendation.excluded,
            published_elsewhere=self.recommendation.elsewhere,
            notes=self.notes,
            recorded=recorded,
        )


def recommended(
    named: Model,
    objectives: Objectives,
    *,
    region: str | None,
    instance_types: Sequence[str],
    discount: float,
    store: str | None,
    prices: Mapping[str, float] | None,
    account: Account | None,
    file: Path,
    notes: Sequence[str] = (),
) -> Recommended:
    """Return the recipes that meet objectives, by price; the arguments are the command's.

    ``prices`` default to the AWS Price List. Without ``account``, AWS is not called.

    Raises:
        RecipeError: if nothing can meet the objectives, or no recipe supports the model.
        typer.BadParameter: if arguments contradict each other.
    """
    said = list(notes)
    region = region_without_calls(region) if account is None else region or account.region or DEFAULT_REGION
    is_published = named.kind == "hub"
    published = PublishedModel()
    if is_published:
        published = published_model(account, named.model_id, named.version, said)
    artifacts, calibration, lock = frozenset[str](), None, read_lock(file)
    if account is not None and store is not None:
        s3 = account.client("s3", account.region_of(store))
        artifacts = artifact_keys(s3, store)
        calibration = calibrated().learning(measured(s3, store, lock, region, said))
    evidence = Evidence(
        prices=prices if prices is not None else listed_prices(account, region, said),
        discount=discount,
        benchmarks=published.benchmarks,
        artifacts=artifacts,
        configurations=published.configurations,
        calibration=calibration,
    )
    if objectives.max_price_per_hour is not None and not evidence.prices:
        raise typer.BadParameter(f"--max-price needs prices. {said[-1]}")
    chosen = named.version or published.version
    if chosen is None and store is not None and is_published:
        said.append("Artifacts and evaluations belong to a version of the model. Pin one with --model-version.")
    named = named.model_copy(update={"version": chosen})
    source = Commits(lock).given(named)
    if is_missing(source):
        said.append(f"The commit is not recorded yet. `constructs-optim lock --model {named.name}` records it.")
    try:
        recommendation = recommend(
            source, objectives, region=region, instance_types=instance_types, evidence=evidence, known=lock
        )
    except RecipeError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    priced = {each.plan.instance_type: each.price_per_hour is not None for each in recommendation.candidates}
    if any(priced.values()) and (unpriced := [name for name, is_known in priced.items() if not is_known]):
        more = f" and {counted(len(unpriced) - _MOST_NAMED, 'more type')}" if len(unpriced) > _MOST_NAMED else ""
        said.append(
            f"No price for {', '.join(unpriced[:_MOST_NAMED])}{more}: recipes on types with a price come first."
        )
    if (row := models.find(named.name)) is not None and row.gated and row.license is not None:
        terms = f"{row.license.name} ({row.license.url})"
        how = "accept it (--accept-eula)" if is_published else "accept it and store a token (--token-secret-arn)"
        said.append(f"The model is gated. Read {terms} before you {how}.")
    return Recommended(named, source, region, recommendation, said)


def _record(model: Model, recommendation: Recommendation, lock: Lock, file: Path, pools: int) -> list[str]:
    """Write the choice, and return sentences about its changes."""
    preferred = recommendation.pools(pools)
    objectives = recommendation.objectives
    choice = recorded(model, objectives, preferred, dt.date.today())
    name = choice_name(model.name, objectives)
    before = lock.choices.get(name)
    if before is not None and choice.model_copy(update={"date": before.date}) == before:
        return [f"{file} already has this choice for {name}."]
    write_lock(lock.model_copy(update={"choices": {**lock.choices, name: choice}}), file)
    change = described(choice) if before is None else differences(before, choice) or "only details change"
    said = [f"Recorded the choice for {name} in {file}: {change}. Review and commit it."]
    if len(preferred) < pools:
        said.append(
            f"Recorded only {counted(len(preferred), 'instance type')}: no other meets the objectives with "
            f"{counted(choice.instances, 'instance')}."
        )
    techniques = [parse(technique) for each in preferred for technique in each.techniques]
    named = [model, *(each for technique in techniques for each in (technique.ready_made, technique.beside) if each)]
    without = dict.fromkeys(each.name for each in named if is_missing(Commits(lock).given(each)))
    if without:
        models = "".join(f" --model {each}" for each in without)
        said.append(f"Synthesis also needs the commits of its models: constructs-optim lock{models}")
    return said


def _candidate(rank: int, candidate: Candidate, objectives: Objectives) -> dict[str, Any]:
    plan = candidate.plan
    return {
        "rank": rank,
        **{name: value for name, value in vars(candidate).items() if name != "plan"},
        "probability": candidate.probability if objectives.are_limits else None,
        "meets": candidate.meets,
        "labels": [technique.label for technique in plan.techniques],
        "instance_type": plan.instance_type,
        "memory": plan.memory,
        "artifact_key": without_missing_commits(plan).artifact_key,
        "warnings": [warning.id for warning in plan.warnings],
    }


def _print(
    model: Model, region: str, recommendation: Recommendation, notes: Sequence[str], limit: int, left_out: bool
) -> None:
    shown = recommendation.candidates[:limit]
    say(f"{model} in {region}, for {recommendation.objectives}", style="bold")
    # Remarks that have no column in the table, with the ranks that they apply to.
    remarks: dict[str, list[int]] = {}
    for rank, candidate in enumerate(shown, 1):
        for remark in (*candidate.missed, *_grounds(candidate), *candidate.reasons):
            remarks.setdefault(remark, []).append(rank)
    for remark, ranks in remarks.items():
        if len(ranks) == len(shown):
            say(f"All: {remark}")
    # Without a forecast, an order would mean nothing.
    if any(candidate.forecast is not None for candidate in shown):
        _print_ranking(recommendation, limit)
        if (rest := len(recommendation.candidates) - limit) > 0:
            say(f"{counted(rest, 'more recipe')}: raise --limit to show them.")
        for remark, ranks in remarks.items():
            if len(ranks) < len(shown):
                say(f"{', '.join(map(str, ranks))}: {remark}")
    if left_out:
        _print_left_out(recommendation)
    elif recommendation.excluded:
        by_rule = Counter(excluded.rule for excluded in recommendation.excluded for _ in excluded.instance_types)
        rules = ", ".join(f"{rule} ({count})" for rule, count in sorted(by_rule.items()))
        say(f"Excluded, by rule: {rules}. --left-out lists them; {page('rules')} describes the rules.")
    for note in notes:
        say(note)
    if shown and shown[0].forecast is not None:
        version = [f"--model-version {model.version}"] if model.version else []
        at = f"@{model.revision}" if model.revision else ""
        techniques = [f"--technique {technique}" for technique in shown[0].techniques]
        say("To plan the first recipe:")
        say_command(
            "plan",
            f"--model {model.name}{at}",
            *version,
            f"--region {region}",
            f"--instance-type {shown[0].plan.instance_type}",
            *techniques,
        )


def _grounds(candidate: Candidate) -> Sequence[str]:
    """Return how many measurements support the forecast, and its error on them."""
    if candidate.forecast is None:
        return ["no forecast: the size of the model is unknown; `constructs-optim lock --model` looks it up"]
    record = candidate.record
    between, first = record["inter_token_latency"], record["time_to_first_token"]
    if not candidate.is_supported or between.error is None or first.error is None:
        return [f"no measurement of a similar model on {candidate.plan.accelerator} supports the forecast"]
    own = f", {between.own} of them yours" if between.own else ""
    of_own = "of yours " if between.own else ""
    return [
        f"forecast from {counted(between.measurements, 'measurement')} of similar models on "
        f"{candidate.plan.accelerator}{own}; median error {of_own}{between.error:.0%} (TTFT: {first.error:.0%})"
    ]


def _print_ranking(recommendation: Recommendation, limit: int) -> None:
    """Print the table of recipes, without columns that have no figures."""
    asked, shown = recommendation.objectives, recommendation.candidates[:limit]
    columns: dict[str, list[str]] = {
        "": [str(rank) for rank in range(1, len(shown) + 1)],
        "Instances": [f"{each.instances} x {each.plan.instance_type}" for each in shown],
        "$/h": _dollars(each.price_per_hour for each in shown),
        "$/M": _dollars(each.price_per_million for each in shown) if asked.requests_per_second is None else [],
    }
    forecasts = [each.forecast for each in shown]
    if any(forecasts):
        columns |= {
            "TTFT": [_interval(each.time_to_first_token, 1000) if each else "" for each in forecasts],
            "ITL": [_interval(each.inter_token_latency, 1000) if each else "" for each in forecasts],
            "Req/s": [_interval(each.requests_per_second, 1) if each else "" for each in forecasts],
        }
    if asked.are_limits and any(forecasts):
        columns["Chance"] = [f"{each.probability:.0%}" if each.probability is not None else "" for each in shown]
    columns["Recipe"] = _recipes(shown)
    columns = {name: cells for name, cells in columns.items() if cells}
    print_table([*columns], list(zip(*columns.values(), strict=True)))
    explained = {
        "$/M": "$/M: US dollars for a million tokens at that rate.",
        "TTFT": (
            "TTFT and ITL: mean time to first token and inter-token latency in ms. Req/s: the maximum of these "
            "instances. In brackets: the 90% interval."
        ),
        "Chance": "Chance: of meeting the objectives.",
    }
    if sentences := [explained[name] for name in ("TTFT", "$/M", "Chance") if name in columns]:
        say(" ".join(sentences))


def _dollars(prices: Iterable[float | None]) -> list[str]:
    """Return the cells of a column of prices; none if no price is known."""
    known = [*prices]
    cells = [f"{price:.2f}" if price is not None else "unknown" for price in known]
    return cells if any(price is not None for price in known) else []


def _recipes(candidates: Sequence[Candidate]) -> list[str]:
    """Return a name for each recipe; those that would look alike on the same instances are told apart by settings."""
    plain = [(f"{each.instances} x {each.plan.instance_type}", _recipe(each)) for each in candidates]
    alike = Counter(plain)
    return [_recipe(each, detailed=alike[looks] > 1) for each, looks in zip(candidates, plain, strict=True)]


def _recipe(candidate: Candidate, *, detailed: bool = False) -> str:
    """Return the names of a recipe's techniques, if ``detailed`` with the checkpoint or settings of each."""
    names: list[str] = []
    for technique, text in zip(candidate.plan.techniques, candidate.techniques, strict=True):
        name = technique.label if technique.kind == "pre_optimized" else technique.name.replace("_", " ")
        if detailed:
            # The degree is said below.
            parts = [part for part in text.split(",")[1:] if not part.startswith("tensor_parallel_degree=")]
            settings = ", ".join(part.removeprefix("checkpoint=").removeprefix("model=") for part in parts)
            made = "job" if technique.name in {job.name for job in candidate.plan.jobs} else "no job"
            name = f"{name} ({settings or made})"
        names.append(name)
    parallel = f", TP {candidate.plan.tensor_parallel_degree}" if candidate.copies_per_instance > 1 else ""
    return (" + ".join(names) or "no technique") + parallel


def _interval(estimate: Estimate, unit: float) -> str:
    value, low, high = (brief(each * unit) for each in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low}-{high})"


def _print_left_out(recommendation: Recommendation) -> None:
    rows = [
        [excluded.rule, ", ".join(excluded.techniques), excluded.reason, ", ".join(excluded.instance_types)]
        for excluded in recommendation.excluded
    ]
    print_table(["Rule", "Recipe", "Reason", "Instance types"], rows, long=2)
    if recommendation.elsewhere:
        say("Published by JumpStart for other configurations and instance types:")
        rows = []
        for benchmark in recommendation.elsewhere:
            measured = benchmark.time_to_first_token_ms, benchmark.tokens_per_second
            figures = (f"{value:,.0f}" if value is not None else "" for value in measured)
            name, users = benchmark.configuration or "", str(benchmark.concurrency)
            rows.append([name, benchmark.instance_type, users, *figures])
        print_table(["Configuration", "Instance type", "Users", "TTFT (ms)", "Tokens/s"], rows)
