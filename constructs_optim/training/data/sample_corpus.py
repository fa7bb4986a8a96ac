"""Generates a text-to-SQL corpus from a seed, to try the training: questions, CREATE TABLE contexts and queries.

    python -m constructs_optim.training.data.sample_corpus --output data

It writes ``training.jsonl``, ``validation.jsonl`` and ``test.jsonl`` with disjoint sets of instructions.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TABLES = {
    "employee": ("name", "salary", "age", "city", "department"),
    "orders": ("customer", "total", "country", "status", "quantity"),
    "student": ("name", "grade", "age", "school", "subject"),
    "flight": ("airline", "price", "origin", "destination", "duration"),
    "album": ("artist", "title", "year", "label", "sales"),
    "match": ("winner", "score", "venue", "season", "attendance"),
    "product": ("brand", "price", "category", "stock", "rating"),
    "film": ("director", "title", "year", "genre", "rating"),
}
_NUMBERS = frozenset(
    {"salary", "age", "total", "quantity", "grade", "price", "duration", "year", "sales", "score", "attendance"}
    | {"stock", "rating", "season"}
)
_WORDS = ("Paris", "Lima", "Oslo", "Cairo", "Delhi", "Quito", "Seoul", "Turin", "Perth", "Miami", "Zagreb", "Lagos")
_ORDERS = (("highest", "DESC"), ("lowest", "ASC"))
_COMPARISONS = (("more than", ">"), ("less than", "<"), ("exactly", "="))


class TextToSql(NamedTuple):
    """One example."""

    question: str
    context: str
    sql: str

    def to_json(self) -> dict[str, str]:
        """Return the example as an instruction, a line of training data."""
        return {"instruction": self.question, "input": self.context, "output": self.sql}


def examples(count: int, seed: int) -> list[TextToSql]:
    """Return ``count`` different examples, always the same for a seed."""
    source = _endless(random.Random(seed))  # noqa: S311 - repeatable, nothing secret
    unique: dict[TextToSql, None] = {}
    while len(unique) < count:
        unique[next(source)] = None
    return list(unique)


def write_corpus(folder: Path, *, training: int, validation: int, test: int, seed: int) -> None:
    """Write the three files.

    Args:
        folder: the folder to write to, created if missing.
        training: number of examples in ``training.jsonl``.
        validation: number of examples in ``validation.jsonl``.
        test: number of examples in ``test.jsonl``.
        seed: seed of the random choices.
    """
    folder.mkdir(parents=True, exist_ok=True)
    everything = iter(examples(training + validation + test, seed))
    for name, count in (("training", training), ("validation", validation), ("test", test)):
        lines = [json.dumps(next(everything).to_json()) + "\n" for _ in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def _endless(source: random.Random) -> Iterator[TextToSql]:
    kinds = (_selection, _count, _average, _extreme, _grouped)
    while True:
        table = source.choice(sorted(_TABLES))
        columns = source.sample(_TABLES[table], source.randint(3, len(_TABLES[table])))
        if not any(column in _NUMBERS for column in columns) or all(column in _NUMBERS for column in columns):
            continue
        types = ", ".join(f"{name} {'INTEGER' if name in _NUMBERS else 'VARCHAR'}" for name in columns)
        number = source.choice([column for column in columns if column in _NUMBERS])
        word = source.choice([column for column in columns if column not in _NUMBERS])
        question, sql = source.choice(kinds)(source, table, number, word)
        yield TextToSql(question, f"CREATE TABLE {table} ({types})", sql)


def _selection(source: random.Random, table: str, number: str, word: str) -> tuple[str, str]:
    phrase, sign = source.choice(_COMPARISONS)
    value = source.randint(1, 99)
    return (
        f"Show the {word} of every {table} with a {number} of {phrase} {value}.",
        f"SELECT {word} FROM {table} WHERE {number} {sign} {value}",
    )


def _count(source: random.Random, table: str, number: str, word: str) -> tuple[str, str]:
    value = source.choice(_WORDS)
    return (
        f"How many rows of {table} have {value} as {word}?",
        f"SELECT COUNT(*) FROM {table} WHERE {word} = '{value}'",
    )


def _average(source: random.Random, table: str, number: str, word: str) -> tuple[str, str]:
    value = source.choice(_WORDS)
    return (
        f"What is the average {number} in {table} where {word} is {value}?",
        f"SELECT AVG({number}) FROM {table} WHERE {word} = '{value}'",
    )


def _extreme(source: random.Random, table: str, number: str, word: str) -> tuple[str, str]:
    phrase, order = source.choice(_ORDERS)
    limit = source.randint(1, 9)
    return (
        f"List {word} of the {limit} rows of {table} with the {phrase} {number}.",
        f"SELECT {word} FROM {table} ORDER BY {number} {order} LIMIT {limit}",
    )


def _grouped(source: random.Random, table: str, number: str, word: str) -> tuple[str, str]:
    phrase, sign = source.choice(_COMPARISONS)
    value = source.randint(1, 99)
    return (
        f"For each {word} of {table}, what is the total {number} where {number} is {phrase} {value}?",
        f"SELECT {word}, SUM({number}) FROM {table} WHERE {number} {sign} {value} GROUP BY {word}",
    )


def _main() -> None:
    parser = argparse.ArgumentParser(description="Writes training.jsonl, validation.jsonl and test.jsonl.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--training", type=int, default=3000)
    parser.add_argument("--validation", type=int, default=200)
    parser.add_argument("--test", type=int, default=450)
    parser.add_argument("--seed", type=int, default=42)
    arguments = parser.parse_args()
    write_corpus(
        arguments.output,
        training=arguments.training,
        validation=arguments.validation,
        test=arguments.test,
        seed=arguments.seed,
    )


if __name__ == "__main__":
    _main()
