"""``constructs-optim recommend``: rank the recipes that work for a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from constructs_optim.explanation.formatting import counted
from constructs_optim.recipe import Model, RecipeError
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.memory import MemoryEstimate
from constructs_optim.recipe.recommendation.data import (
    AtBest,
    Baseline,
    Benchmark,
    Candidate,
    Evidence,
    Goal,
    Recommendation,
    Wish,
)
from constructs_optim.recipe.recommendation.ranking import recommend
from constructs_optim.recipe.report import refusal_report

from ..aws import Account, OptionalBucket, Profile, Region, errors_explained, failed
from ..explanation.evidence import LISTED, stated_prices
from ..presentation import Format, FormatOption, print_json, print_table, printable, say
from .evidence import artifacts_of, listed_prices, of_jumpstart, of_store, published_of

_DEFAULT_REGION = "us-west-2"


def recommend_command(
    model: Annotated[str, typer.Option(help="A JumpStart model id.")],
    version: Annotated[
        str | None, typer.Option("--model-version", help="Its version; the hub's newest by default.")
    ] = None,
    region: Region = None,
    instance_type: Annotated[
        list[str] | None, typer.Option(help="An instance type to choose from. Repeatable; all by default.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="USERS", help="Users at the same time: only benchmarks with as many are ranked by."
        ),
    ] = None,
    max_price: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="Dollars an hour that an instance may cost at most.")
    ] = None,
    discount: Annotated[float, typer.Option(metavar="SHARE", help="What a savings plan takes off, as a share.")] = 0.0,
    optimize_for: Annotated[
        Goal, typer.Option(metavar="GOAL", help="What to rank by: cost, latency or throughput.")
    ] = Goal.cost,
    store: OptionalBucket = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|aws",
            help='A JSON file of dollars an hour, {"ml.g5.12xlarge": 7.09}, or `aws`, the default: the AWS Price List.',
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask AWS nothing.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="COUNT", help="How many to show.")] = 10,
    left_out: Annotated[bool, typer.Option("--left-out", help="Show what was left out as well, and why.")] = False,
    profile: Profile = None,
    format: FormatOption = Format.table,
) -> None:
    """Rank the recipes that work for a model by what is published, measured and charged. Exits 2 if no recipe works.

    Published are JumpStart's benchmarks; measured is what evaluations left in an artifact store (--store).
    """
    notes: list[str] = []
    stated = stated_prices(prices).hosting if prices is not None and str(prices) != LISTED else None
    with errors_explained():
        if offline and store is not None:
            raise typer.BadParameter("--store is read from AWS, and --offline asks AWS nothing")
        account = None if offline else Account(profile, region)
        region = region or (account.region if account is not None else None) or _DEFAULT_REGION
        published = published_of(account, model, version, notes)
        evidence = Evidence(
            prices=stated if stated is not None else listed_prices(account, region, notes),
            benchmarks=[*of_jumpstart(published), *of_store(account, store, notes)],
            artifacts=artifacts_of(account, store),
            configurations=published.configurations if published is not None else {},
        )
    chosen = version or (published.version if published is not None else None)
    if chosen is None and store is not None:
        notes.append("Artifacts and evaluations are known by the model's version: pin one with --model-version.")
    jumpstart_model = Model.jumpstart(model, version=chosen, accept_eula=True)
    try:
        wish = Wish(goal=optimize_for, concurrency=concurrency, max_price=max_price, discount=discount)
        recommendation = recommend(
            jumpstart_model, region=region, instance_types=instance_type or (), evidence=evidence, wish=wish
        )
    except RecipeError as error:
        if format is Format.json:
            print_json(refusal_report(list(error.violations)))
        else:
            typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if (row := models.find(model)) is not None and row.license is not None:
        licence = f"{row.license.name} ({row.license.url})"
        notes.append(f"The model is gated: read {licence} before you accept it (--accept-eula).")
    if format is Format.json:
        print_json(_report(jumpstart_model, region, wish, recommendation, notes, limit))
    else:
        _print(jumpstart_model, region, recommendation, notes, limit, left_out)
    if not recommendation.candidates:
        raise failed("No recipe is left: --left-out says why.")


def _report(
    model: Model, region: str, wish: Wish, recommendation: Recommendation, notes: Sequence[str], limit: int
) -> dict[str, Any]:
    """The recommendation as ``--format json`` prints it."""
    return {
        "model": model.model_id,
        "version": model.version,
        "region": region,
        "optimize_for": wish.goal.value,
        "concurrency": wish.concurrency,
        "candidates": [
            _candidate(rank, candidate) for rank, candidate in enumerate(recommendation.candidates[:limit], 1)
        ],
        "candidate_count": len(recommendation.candidates),
        "baseline": _baseline(recommendation.baseline),
        "left_out": [asdict(excluded) for excluded in recommendation.excluded],
        "published_elsewhere": [
            {
                "configuration": benchmark.configuration,
                "instance_type": benchmark.instance_type,
                **_benchmark(benchmark),
            }
            for benchmark in recommendation.elsewhere
        ],
        "notes": list(notes),
    }


def _candidate(rank: int, candidate: Candidate) -> dict[str, Any]:
    plan = candidate.plan
    return {
        "rank": rank,
        "techniques": list(candidate.techniques),
        "labels": list(candidate.labels),
        "instance_type": plan.instance_type,
        "fit": candidate.fit.value,
        "memory": plan.memory.model_dump() if plan.memory is not None else None,
        "price_per_hour": candidate.price_per_hour,
        "blended_price_per_million_tokens": candidate.blended_price,
        "at_best": _bound(candidate.at_best),
        "tested_by_vendor": candidate.tested,
        "benchmark": _benchmark(candidate.benchmark) if candidate.benchmark is not None else None,
        "artifact_key": plan.artifact_key,
        "jobs": list(candidate.jobs),
        "reasons": list(candidate.reasons),
        "warnings": [warning.id for warning in plan.warnings],
    }


def _baseline(baseline: Baseline | None) -> dict[str, Any] | None:
    if baseline is None:
        return None
    return {
        "instance_type": baseline.instance_type,
        "memory": baseline.memory.model_dump(),
        "price_per_hour": baseline.price_per_hour,
        "at_best": _bound(baseline.at_best),
    }


def _bound(bound: AtBest | None) -> dict[str, Any] | None:
    if bound is None:
        return None
    return {
        "milliseconds_a_pass": bound.milliseconds,
        "users": bound.users,
        "blended_price_per_million_tokens": bound.blended_price,
    }


def _benchmark(benchmark: Benchmark) -> dict[str, Any]:
    names = ("source", "concurrency", "time_to_first_token_ms", "tokens_per_second", "instance_count")
    return {name: getattr(benchmark, name) for name in names}


def _print(
    model: Model, region: str, recommendation: Recommendation, notes: Sequence[str], limit: int, left_out: bool
) -> None:
    shown = recommendation.candidates[:limit]
    # Remarks that the table has no column for, with the ranks they apply to.
    remarks: dict[str, list[int]] = {}
    for rank, candidate in enumerate(shown, 1):
        for remark in candidate.remarks:
            remarks.setdefault(remark, []).append(rank)
    say(f"{model} in {region}, best first")
    for remark, ranks in remarks.items():
        if len(ranks) == len(shown):
            say(f"All: {remark}")
    if shown:
        _print_ranking(shown, recommendation.baseline)
        say(
            "GB: weights, with their draft, of what accelerators have. At best: what reading the weights from the "
            "accelerators' memory takes, for a token of each user, and what a million tokens cost then; no server is "
            "faster without a draft. A price without ≥ was measured."
        )
        if (rest := len(recommendation.candidates) - limit) > 0:
            say(f"{counted(rest, 'recipe')} more; --limit shows them.")
    for remark, ranks in remarks.items():
        if len(ranks) < len(shown):
            say(f"{_ranges(ranks)}: {remark}")
    if left_out:
        _print_left_out(recommendation)
    elif recommendation.excluded:
        by_rule: Counter[str] = Counter()
        for excluded in recommendation.excluded:
            by_rule[excluded.rule] += len(excluded.instance_types)
        rules = ", ".join(f"{rule} ({count})" for rule, count in sorted(by_rule.items()))
        say(f"Left out, by rule: {rules}. --left-out lists them; docs/rules.md has the rules.")
    for note in notes:
        say(note)
    if shown:
        version = f" --model-version {model.version}" if model.version else ""
        techniques = "".join(f" --technique {technique}" for technique in shown[0].techniques)
        say(
            f"Plan the first one: constructs-optim plan --model {model.model_id}{version} --region {region} "
            f"--instance-type {shown[0].plan.instance_type}{techniques}"
        )


def _print_ranking(shown: Sequence[Candidate], baseline: Baseline | None) -> None:
    """Print a line for each recipe, and one for the model as it is."""
    table = Table("", "recipe", "instance type", "$/h", "GB", "at best", "$/M", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column, heading in zip(
        table.columns, ("", "recipe", "instance type", "$/h", "GB", "at best", "$/M"), strict=True
    ):
        column.overflow = "fold"
        column.no_wrap = heading != "recipe"
        column.justify = "left" if heading in ("recipe", "instance type") else "right"
    for rank, candidate in enumerate(shown, 1):
        names = [
            technique.label if technique.kind == "pre_optimized" else technique.name.replace("_", " ")
            for technique in candidate.plan.techniques
        ]
        cells = _figures(candidate.price_per_hour, candidate.plan.memory, candidate.at_best)
        if candidate.blended_price is not None:
            cells[-1] = f"{candidate.blended_price:.2f}"
        table.add_row(str(rank), printable(" + ".join(names)), candidate.plan.instance_type, *cells)
    if baseline is not None:
        cells = _figures(baseline.price_per_hour, baseline.memory, baseline.at_best)
        table.add_row("–", "as it is (no recipe)", baseline.instance_type, *cells)
    Console().print(table)


def _figures(price_per_hour: float | None, memory: MemoryEstimate | None, bound: AtBest | None) -> list[str]:
    """Price, memory, time and price of tokens as cells; empty for what is not known."""
    blended = bound.blended_price if bound is not None else None
    return [
        f"{price_per_hour:.2f}" if price_per_hour is not None else "",
        f"{memory.fixed_gb:.0f}/{memory.available_gb:.0f}" if memory is not None else "",
        f"{bound.milliseconds:.1f} ms" if bound is not None else "",
        f"≥{blended:.2f}" if blended is not None else "",
    ]


def _ranges(ranks: Sequence[int]) -> str:
    """Ranks in order as people list them: ``1-3, 5``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _print_left_out(recommendation: Recommendation) -> None:
    table = Table(title="Left out", show_lines=True, title_justify="left")
    for column in ("recipe", "rule", "why", "instance types"):
        table.add_column(column, overflow="fold")
    for excluded in recommendation.excluded:
        cells = (", ".join(excluded.techniques), excluded.rule, excluded.reason, ", ".join(excluded.instance_types))
        table.add_row(*map(printable, cells))
    Console().print(table)
    if recommendation.elsewhere:
        say("Published by JumpStart, of what is no candidate and is worth a look all the same:")
        rows = [
            [
                benchmark.configuration or "",
                benchmark.instance_type,
                str(benchmark.concurrency),
                *(
                    f"{value:,.0f}" if value is not None else ""
                    for value in (benchmark.time_to_first_token_ms, benchmark.tokens_per_second)
                ),
            ]
            for benchmark in recommendation.elsewhere
        ]
        print_table(["configuration", "instance type", "users", "first token (ms)", "tokens/s"], rows)
