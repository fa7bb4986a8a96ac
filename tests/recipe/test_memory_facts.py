"""The memory forecast, held against what has been published of models that fit accelerators or do not."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter

from constructs_optim.recipe import Model, Recipe, Sharding
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.catalog.lock import Lock, RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.memory import Context, context, estimate
from constructs_optim.recipe.rules import check

_DATA: dict[str, Any] = json.loads(Path(__file__).with_name("memory_facts.json").read_text(encoding="utf-8"))
# Facts that the forecast denies.
TOO_CAREFUL = {
    "Qwen/Qwen3.5-35B-A3B-GPTQ-Int4 1x ml.g5.xlarge 2048": "published of 24 GB; an A10G has 22.06 GiB of them",
    "MiniMaxAI/MiniMax-M2.7 4x ml.p5.48xlarge 196608": "the margin for a long request is more than vLLM takes",
}


class Fact(BaseModel):
    """A model that fits accelerators with a context, or does not; ``tokens`` of KV cache where they were reported."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    instance_type: str
    degree: int
    context: int
    fits: bool
    source: str
    quote: str
    tokens: int | None = None
    gib: float | None = None
    kv_cache_dtype: str | None = None
    note: str = ""

    def __str__(self) -> str:
        """The id of its test."""
        return f"{self.model} {self.degree}x {self.instance_type} {self.context}"

    @property
    def recipe(self) -> Recipe:
        """The model on the instance type; what its ``config.json`` says is in the lock file."""
        found = self.model.startswith(("meta-textgeneration", "huggingface-llm"))
        model = (
            Model.jumpstart(self.model, version="1.0.0", accept_eula=True)
            if found
            else Model.huggingface(self.model, revision="a" * 40)
        )
        config = _DATA["configs"].get(self.model)
        columns = ModelConfig.model_validate(config["config"]).columns if config is not None else None
        instance = instances.by_name()[self.instance_type]
        spread = (
            [Sharding.fast_load(tensor_parallel_degree=self.degree)] if self.degree < instance.parallel_units else []
        )
        lock = Lock(models={self.model: RecordedModel(**columns)} if columns is not None else {})
        recipe = Recipe(model, spread, self.instance_type, "us-west-2", containers=lock)
        settings = {"max_model_len": str(self.context), "kv_cache_dtype": self.kv_cache_dtype}
        environment = {recipe.variable(name): value for name, value in settings.items() if value is not None}
        return Recipe(model, spread, self.instance_type, "us-west-2", environment=environment, containers=lock)

    @property
    def forecast(self) -> Context | None:
        """What the forecast says; None where the size of the KV cache is not known."""
        return context(self.recipe)

    @property
    def is_said_to_fit(self) -> bool:
        """Whether weights and context are said to fit."""
        memory, longest = estimate(self.recipe), self.forecast
        assert memory is not None
        return memory.weights_fit and (longest is None or self.context <= longest.fits)


FACTS = TypeAdapter(list[Fact]).validate_python(_DATA["facts"])


@pytest.mark.parametrize("fact", FACTS, ids=str)
def test_a_published_fact_is_forecast(fact: Fact) -> None:
    assert fact.is_said_to_fit == (fact.fits and str(fact) not in TOO_CAREFUL), (fact.source, fact.quote, fact.forecast)


@pytest.mark.parametrize("fact", [fact for fact in FACTS if fact.fits], ids=str)
def test_nothing_that_is_known_to_fit_is_refused(fact: Fact) -> None:
    refused = {violation.rule for violation in check(fact.recipe)}
    assert not refused & {"OPT050", "OPT052"}


def test_the_estimate_accepts_only_what_fits_and_rejects_little_that_does() -> None:
    assert len(FACTS) >= 40
    assert len({str(fact) for fact in FACTS if not fact.fits}) >= 12
    assert not [str(fact) for fact in FACTS if fact.is_said_to_fit and not fact.fits]
    assert {str(fact) for fact in FACTS if fact.fits and not fact.is_said_to_fit} == set(TOO_CAREFUL)
    assert len(TOO_CAREFUL) <= 2


def test_every_fact_has_its_source() -> None:
    for fact in FACTS:
        assert fact.source.startswith("https://"), fact
        assert fact.quote, fact
    used = {fact.model for fact in FACTS}
    assert set(_DATA["configs"]) <= used


def test_the_length_that_fits_is_near_what_servers_have_reported() -> None:
    """The errors are in docs/techniques/quantization.md."""
    errors = {}
    for fact in FACTS:
        longest = fact.forecast
        if fact.tokens is not None and longest is not None:
            errors[str(fact)] = longest.fits / fact.tokens - 1
    assert len(errors) == 7
    assert statistics.median(errors.values()) == pytest.approx(-0.02, abs=0.01), errors
    assert (min(errors.values()), max(errors.values())) == pytest.approx((-0.22, 0.42), abs=0.01), errors
