"""Count the text models of vLLM's recipes that plan without refusal or warning: ``python bench/recipes.py``.

A model counts if it, or a ready-made checkpoint of it, can be planned on at least one instance type. Advice to read the
model's own code is not counted as a warning. The script prints the refusals by rule, on the instance type with the most
memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from constructs_optim.recipe import Model, Recipe
from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.rules import check, warnings

_COMMIT = "0" * 40
_SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"
_ADVICE = {"constructs-optim:OPT019"}


def recipes_of(row: models.ModelRow) -> Iterator[Recipe]:
    """Yield recipes of the model and its checkpoints, on every instance type with GPUs, largest first."""
    hosts = [host for host in instances.by_name().values() if host.hosts_endpoints and host.kind == "gpu"]
    hosts.sort(key=lambda host: -host.total_accelerator_memory_gb)
    for name in (row.model_id, *(checkpoint.model_id for checkpoint in row.checkpoints)):
        for host in hosts:
            model = Model.huggingface(name, revision=_COMMIT, token_secret_arn=_SECRET if row.gated else None)
            yield Recipe(model, [], host.name, "us-west-2")


def is_clean(recipe: Recipe) -> bool:
    """Return whether there are no refusals, and no warnings except about the model's own code."""
    return not check(recipe) and {advice.id for advice in warnings(recipe)} <= _ADVICE


def main() -> None:
    """Plan all models and print the figures."""
    rows = [row for row in models.of_hugging_face().values() if not row.is_checkpoint]
    planned = sum(any(map(is_clean, recipes_of(row))) for row in rows)
    print(f"{planned} of {len(rows)} text models are planned cleanly on at least one instance type")
    refused: Counter[tuple[str, str]] = Counter()
    for row in models.of_hugging_face().values():
        first = next(recipes_of(row))
        refused.update((violation.rule, f"{row.model_id}: {violation.reason}") for violation in check(first))
    for (rule, reason), count in sorted(refused.items()):
        print(f"{rule} {count} {reason}")


if __name__ == "__main__":
    main()
