"""``constructs-optim recommend``: which recipes to try for a model, best first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from constructs_optim.recipe import Model, RecipeError
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.planning.memory import MemoryEstimate
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

from .aws import Account, OptionalBucket, Profile, Region, errors_explained, failed
from .explanation.evidence import LISTED
from .presentation import Format, counted, print_json, print_table, printable, say
from .recommendation_evidence import artifacts_of, listed_prices, of_jumpstart, of_store, published_of

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
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
) -> None:
    """Rank the recipes that work for a model by what is published, measured and charged. Exits 2 if no recipe works.

    Published are JumpStart's benchmarks; measured is what evaluations left in an artifact store (--store).
    """
    notes: list[str] = []
    stated = _stated_prices(prices)
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
    wanted = Model.jumpstart(model, version=chosen, accept_eula=True)
    try:
        wish = Wish(goal=optimize_for, concurrency=concurrency, max_price=max_price, discount=discount)
        found = recommend(wanted, region=region, instance_types=instance_type or (), evidence=evidence, wish=wish)
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
        print_json(_report(wanted, region, wish, found, notes, limit))
    else:
        _show(wanted, region, found, notes, limit, left_out)
    if not found.candidates:
        raise failed("No recipe is left: --left-out says why.")


def _stated_prices(path: Path | None) -> dict[str, float] | None:
    """The prices of a file."""
    if path is None or str(path) == LISTED:
        return None
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    bad = [
        name
        for name, price in (given.items() if isinstance(given, dict) else [("it", None)])
        if not isinstance(price, int | float) or isinstance(price, bool) or not price > 0
    ]
    if bad:
        raise typer.BadParameter(
            f'{path} has to be an object of dollars an hour above zero, {{"ml.g5.12xlarge": 7.09}}; wrong: '
            + ", ".join(bad)
        )
    return {name: float(price) for name, price in given.items()}


def _report(
    model: Model, region: str, wish: Wish, found: Recommendation, notes: Sequence[str], limit: int
) -> dict[str, Any]:
    return {
        "model": model.model_id,
        "version": model.version,
        "region": region,
        "optimize_for": wish.goal.value,
        "concurrency": wish.concurrency,
        "candidates": [_row(place, each) for place, each in enumerate(found.candidates[:limit], 1)],
        "candidate_count": len(found.candidates),
        "baseline": _baseline(found.baseline),
        "left_out": [
            {
                "techniques": list(each.techniques),
                "rule": each.rule,
                "reason": each.reason,
                "instance_types": list(each.instance_types),
            }
            for each in found.excluded
        ],
        "published_elsewhere": [
            {"configuration": each.configuration, "instance_type": each.instance_type, **_measured(each)}
            for each in found.elsewhere
        ],
        "notes": list(notes),
    }


def _row(place: int, candidate: Candidate) -> dict[str, Any]:
    made, measured = candidate.plan, candidate.benchmark
    return {
        "rank": place,
        "techniques": list(candidate.techniques),
        "labels": list(candidate.labels),
        "instance_type": made.instance_type,
        "fit": candidate.fit.value,
        "memory": made.memory.model_dump() if made.memory is not None else None,
        "price_per_hour": candidate.price_per_hour,
        "blended_price_per_million_tokens": candidate.blended_price,
        "at_best": _bound(candidate.at_best),
        "tested_by_vendor": candidate.tested,
        "benchmark": _measured(measured) if measured is not None else None,
        "artifact_key": made.artifact_key,
        "jobs": list(candidate.jobs),
        "reasons": list(candidate.reasons),
        "warnings": [warning.id for warning in made.warnings],
    }


def _bound(bound: AtBest | None) -> dict[str, Any] | None:
    if bound is None:
        return None
    return {
        "milliseconds_a_pass": bound.milliseconds,
        "users": bound.users,
        "blended_price_per_million_tokens": bound.blended_price,
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


def _measured(benchmark: Benchmark) -> dict[str, Any]:
    return {
        "source": benchmark.source,
        "concurrency": benchmark.concurrency,
        "time_to_first_token_ms": benchmark.time_to_first_token_ms,
        "tokens_per_second": benchmark.tokens_per_second,
        "instance_count": benchmark.instance_count,
    }


def _show(model: Model, region: str, found: Recommendation, notes: Sequence[str], limit: int, left_out: bool) -> None:
    shown = found.candidates[:limit]
    said = _told_once(shown)
    say(f"{model} in {region}, best first")
    for reason, places in said.items():
        if shown and len(places) == len(shown):
            say(f"All: {reason}")
    if shown:
        Console().print(_table(shown, found.baseline))
        say(
            "GB: weights, with their draft, of what accelerators have. At best: what reading the weights from the "
            "accelerators' memory takes, for a token of each user, and what a million tokens cost then; no server is "
            "faster without a draft. A price without ≥ was measured."
        )
        rest = len(found.candidates) - limit
        if rest > 0:
            say(f"{counted(rest, 'recipe')} more; --limit shows them.")
    for reason, places in said.items():
        if len(places) < len(shown):
            say(f"{_places(places)}: {reason}")
    if left_out:
        _show_left_out(found)
    elif found.excluded:
        by_rule = Counter(dict.fromkeys(sorted({each.rule for each in found.excluded}), 0))
        for each in found.excluded:
            by_rule[each.rule] += len(each.instance_types)
        reasons = ", ".join(f"{rule} ({count})" for rule, count in by_rule.items())
        say(f"Left out, by rule: {reasons}. --left-out lists them; docs/rules.md has the rules.")
    for note in notes:
        say(note)
    if found.candidates:
        say(f"What the first one comes to: {_plan_command(model, region, found.candidates[0])}")


def _table(shown: Sequence[Candidate], baseline: Baseline | None) -> Table:
    """A line for each recipe, and one for the model as it is."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("recipe", overflow="fold")
    table.add_column("instance type", no_wrap=True)
    for heading in ("$/h", "GB", "at best", "$/M"):
        table.add_column(heading, justify="right", no_wrap=True)
    for place, candidate in enumerate(shown, 1):
        cost = f"{candidate.blended_price:.2f}" if candidate.blended_price is not None else _at_least(candidate.at_best)
        table.add_row(
            str(place),
            printable(_short(candidate)),
            candidate.plan.instance_type,
            _dollars(candidate.price_per_hour),
            _gigabytes(candidate.plan.memory),
            _milliseconds(candidate.at_best),
            cost,
        )
    if baseline is not None:
        table.add_row(
            "–",
            "as it is (no recipe)",
            baseline.instance_type,
            _dollars(baseline.price_per_hour),
            _gigabytes(baseline.memory),
            _milliseconds(baseline.at_best),
            _at_least(baseline.at_best),
        )
    return table


def _short(candidate: Candidate) -> str:
    parts = [
        each.label if each.kind == "pre_optimized" else each.name.replace("_", " ")
        for each in candidate.plan.techniques
    ]
    return " + ".join(parts)


def _dollars(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _gigabytes(memory: MemoryEstimate | None) -> str:
    return "" if memory is None else f"{memory.fixed_gb:.0f}/{memory.available_gb:.0f}"


def _milliseconds(bound: AtBest | None) -> str:
    return "" if bound is None else f"{bound.milliseconds:.1f} ms"


def _at_least(bound: AtBest | None) -> str:
    return "" if bound is None or bound.blended_price is None else f"≥{bound.blended_price:.2f}"


def _told_once(shown: Sequence[Candidate]) -> dict[str, list[int]]:
    """What the table does not say of the recipes, with the places of those that it is true of."""
    said: dict[str, list[int]] = {}
    for place, candidate in enumerate(shown, 1):
        for reason in candidate.remarks:
            said.setdefault(reason, []).append(place)
    return said


def _places(places: Sequence[int]) -> str:
    """Places as people list them: ``1-3, 5``."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _show_left_out(found: Recommendation) -> None:
    table = Table(title="Left out", show_lines=True, title_justify="left")
    for column in ("recipe", "rule", "why", "instance types"):
        table.add_column(column, overflow="fold")
    for each in found.excluded:
        cells = (", ".join(each.techniques), each.rule, each.reason, ", ".join(each.instance_types))
        table.add_row(*(printable(cell) for cell in cells))
    Console().print(table)
    if found.elsewhere:
        say("Published by JumpStart, of what is no candidate and is worth a look all the same:")
        print_table(
            ["configuration", "instance type", "users", "first token (ms)", "tokens/s"],
            [
                [each.configuration or "", each.instance_type, str(each.concurrency), *map(_shown, _figures(each))]
                for each in found.elsewhere
            ],
        )


def _figures(benchmark: Benchmark) -> tuple[float | None, float | None]:
    return benchmark.time_to_first_token_ms, benchmark.tokens_per_second


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _plan_command(model: Model, region: str, candidate: Candidate) -> str:
    version = f" --model-version {model.version}" if model.version else ""
    techniques = "".join(f" --technique {technique}" for technique in candidate.techniques)
    return (
        f"constructs-optim plan --model {model.model_id}{version} --region {region} "
        f"--instance-type {candidate.plan.instance_type}{techniques}"
    )
