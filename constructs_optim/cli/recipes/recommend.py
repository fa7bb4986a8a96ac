"""``constructs-optim recommend``: rank the recipes that work for a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from constructs_optim.explanation.formatting import counted
from constructs_optim.recipe import Model
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim.recipe.memory import MemoryEstimate
from constructs_optim.recipe.recommendation import (
    AtBest,
    Candidate,
    Evidence,
    Goal,
    Preferences,
    Recommendation,
    recommend,
)

from ..aws import Account, OptionalBucket, Profile, Region, failed
from ..explain import LISTED, PRICES_HELP, stated_prices
from ..presentation import FormatOption, print_json, print_table, say
from .evidence import PublishedModel, artifact_keys, evaluated, listed_prices, published_model
from .lock import read_lock
from .model_of_text import MODEL_HELP, Commits, is_missing, model_of, without_missing_commits
from .plan import refusals_printed

_DEFAULT_REGION = "us-west-2"
# Recipes of a gated model are ranked as if its licence were accepted and its token stored.
_ANY_SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hugging-face"  # noqa: S105 - a name


def recommend_command(
    model: Annotated[str, typer.Option(help=f"{MODEL_HELP}.")],
    version: Annotated[
        str | None, typer.Option("--model-version", help="The version of a JumpStart model, or the commit.")
    ] = None,
    region: Region = None,
    instance_type: Annotated[
        list[str] | None, typer.Option(help="An instance type to choose from. Repeatable; all by default.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, metavar="USERS", help="Rank only by benchmarks with so many users at a time.")
    ] = None,
    max_price: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="The maximum price of an instance, in dollars per hour.")
    ] = None,
    discount: Annotated[float, typer.Option(metavar="SHARE", help="The discount of a savings plan, as a share.")] = 0.0,
    optimize_for: Annotated[
        Goal, typer.Option(metavar="GOAL", help="What to rank by: cost, latency or throughput.")
    ] = Goal.cost,
    store: OptionalBucket = None,
    prices: Annotated[
        Path, typer.Option(metavar="FILE|aws", help=f"{PRICES_HELP}, or `aws` for the AWS Price List.")
    ] = Path(LISTED),
    offline: Annotated[bool, typer.Option("--offline", help="Make no call to AWS.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="COUNT", help="How many to show.")] = 10,
    left_out: Annotated[bool, typer.Option("--left-out", help="List excluded recipes as well, with reasons.")] = False,
    profile: Profile = None,
    format: FormatOption = "table",
) -> None:
    """Rank the recipes that work for a model by benchmarks and prices. Exits 2 if no recipe works.

    Benchmarks are those that JumpStart publishes, and those of evaluations in an artifact store (--store).
    """
    notes: list[str] = []
    stated = stated_prices(prices).hosting if str(prices) != LISTED else None
    if offline and store is not None:
        raise typer.BadParameter("--store is read from AWS, and --offline makes no call to AWS")
    with refusals_printed(format):
        named = model_of(model, version, accept_eula=True, token_secret_arn=_ANY_SECRET)
    account = None if offline else Account(profile, region)
    region = region or (account.region if account is not None else None) or _DEFAULT_REGION
    is_published = named.kind == "hub"
    published = published_model(account, model, version, notes) if is_published else PublishedModel()
    benchmarks = [*published.benchmarks]
    artifacts = frozenset[str]()
    if account is not None and store is not None:
        s3 = account.client("s3", account.region_of(store))
        benchmarks += evaluated(s3, account.sagemaker(store), store, notes)
        artifacts = artifact_keys(s3, store)
    evidence = Evidence(
        prices=stated if stated is not None else listed_prices(account, region, notes),
        benchmarks=benchmarks,
        artifacts=artifacts,
        configurations=published.configurations,
    )
    chosen = version or published.version
    if chosen is None and store is not None and is_published:
        notes.append("Artifacts and evaluations are known by the model's version: pin one with --model-version.")
    named, lock = named.model_copy(update={"version": chosen}), read_lock(Path(LOCK_FILE))
    source = Commits(lock).given(named)
    if is_missing(source):
        notes.append(f"The commit is not fixed yet: `constructs-optim lock --model {named.name}` records it.")
    try:
        with refusals_printed(format):
            recommendation = recommend(
                source,
                region=region,
                instance_types=instance_type or (),
                evidence=evidence,
                preferences=Preferences(optimize_for, concurrency, max_price, discount),
                known=Lock(models=lock.models),
            )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if (row := models.find(named.name)) is not None and row.gated and row.license is not None:
        licence = f"{row.license.name} ({row.license.url})"
        how = "accept it (--accept-eula)" if is_published else "accept it, and store a token (--token-secret-arn)"
        notes.append(f"The model is gated: read {licence} before you {how}.")
    if format == "json":
        ranked = enumerate(recommendation.candidates[:limit], 1)
        report = {
            "model": model,
            "version": chosen,
            "region": region,
            "optimize_for": optimize_for,
            "concurrency": concurrency,
            "candidates": [_candidate(rank, candidate) for rank, candidate in ranked],
            "candidate_count": len(recommendation.candidates),
            "baseline": recommendation.baseline,
            "left_out": recommendation.excluded,
            "published_elsewhere": recommendation.elsewhere,
            "notes": notes,
        }
        print_json(report)
    else:
        _print(named, region, recommendation, notes, limit, left_out)
    if not recommendation.candidates:
        raise failed("No recipe is left: --left-out lists the reasons.")


def _candidate(rank: int, candidate: Candidate) -> dict[str, Any]:
    plan = candidate.plan
    return {
        "rank": rank,
        **{name: value for name, value in vars(candidate).items() if name != "plan"},
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
    # Remarks without a column in the table, by the ranks that they apply to.
    remarks: dict[str, list[int]] = {}
    for rank, candidate in enumerate(shown, 1):
        for remark in candidate.reasons:
            remarks.setdefault(remark, []).append(rank)
    say(f"{model} in {region}, best first")
    for remark, ranks in remarks.items():
        if len(ranks) == len(shown):
            say(f"All: {remark}")
    if shown:
        _print_ranking(recommendation, limit)
        say(
            "GB: the memory that weights and draft model take, of that of the accelerators. At best: the time to read "
            "the weights from that memory once, for a token of each user, and the price of a million tokens at that "
            "speed; without a draft model, no server is faster. A price without ≥ was measured."
        )
        if (rest := len(recommendation.candidates) - limit) > 0:
            say(f"{counted(rest, 'recipe')} more; --limit shows them.")
    for remark, ranks in remarks.items():
        if len(ranks) < len(shown):
            say(f"{', '.join(map(str, ranks))}: {remark}")
    if left_out:
        _print_left_out(recommendation)
    elif recommendation.excluded:
        by_rule = Counter(excluded.rule for excluded in recommendation.excluded for _ in excluded.instance_types)
        rules = ", ".join(f"{rule} ({count})" for rule, count in sorted(by_rule.items()))
        say(f"Left out, by rule: {rules}. --left-out lists them; docs/rules.md has the rules.")
    for note in notes:
        say(note)
    if shown:
        version = f" --model-version {model.version}" if model.version else ""
        at = f"@{model.revision}" if model.revision else ""
        techniques = "".join(f" --technique {technique}" for technique in shown[0].techniques)
        say(
            f"Plan the first one: constructs-optim plan --model {model.name}{at}{version} --region {region} "
            f"--instance-type {shown[0].plan.instance_type}{techniques}"
        )


def _print_ranking(recommendation: Recommendation, limit: int) -> None:
    """Print the table of recipes, and a row for the unoptimized model."""
    rows: list[list[str]] = []
    for rank, candidate in enumerate(recommendation.candidates[:limit], 1):
        names = [
            technique.label if technique.kind == "pre_optimized" else technique.name.replace("_", " ")
            for technique in candidate.plan.techniques
        ]
        cells = _figures(candidate.price_per_hour, candidate.plan.memory, candidate.at_best)
        if candidate.blended_price is not None:
            cells[-1] = f"{candidate.blended_price:.2f}"
        rows.append([str(rank), candidate.plan.instance_type, *cells, " + ".join(names)])
    if (baseline := recommendation.baseline) is not None:
        cells = _figures(baseline.price_per_hour, baseline.memory, baseline.at_best)
        rows.append(["–", baseline.instance_type, *cells, "as it is (no recipe)"])
    print_table(["", "instance type", "$/h", "GB", "at best", "$/M", "recipe"], rows)


def _figures(price_per_hour: float | None, memory: MemoryEstimate | None, bound: AtBest | None) -> list[str]:
    """Price, memory, time and price of tokens as cells; empty where they are not known."""
    blended = bound.blended_price if bound is not None else None
    return [
        f"{price_per_hour:.2f}" if price_per_hour is not None else "",
        f"{memory.fixed_gb:.0f}/{memory.available_gb:.0f}" if memory is not None else "",
        f"{bound.milliseconds:.1f} ms" if bound is not None else "",
        f"≥{blended:.2f}" if blended is not None else "",
    ]


def _print_left_out(recommendation: Recommendation) -> None:
    rows = [
        [excluded.rule, ", ".join(excluded.techniques), excluded.reason, ", ".join(excluded.instance_types)]
        for excluded in recommendation.excluded
    ]
    print_table(["rule", "recipe", "why it is left out", "instance types"], rows, long=2)
    if recommendation.elsewhere:
        say("Published by JumpStart for configurations and instance types that are no candidates:")
        rows = []
        for benchmark in recommendation.elsewhere:
            measured = benchmark.time_to_first_token_ms, benchmark.tokens_per_second
            figures = (f"{value:,.0f}" if value is not None else "" for value in measured)
            name, users = benchmark.configuration or "", str(benchmark.concurrency)
            rows.append([name, benchmark.instance_type, users, *figures])
        print_table(["configuration", "instance type", "users", "first token (ms)", "tokens/s"], rows)
