"""Records what rules and vLLM say of models of other people: ``python -m tests.conformance.real_configurations``.

``recorded/real_configurations.json`` has configurations that are not in the catalog, from public repositories and
issues. This writes the answers to them anew, for another release of vLLM, after ``make conformance`` has installed it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from constructs_optim.recipe import Model, Recipe
from constructs_optim.recipe.catalog import engine_models
from constructs_optim.recipe.catalog.lock import NO_COMMIT, Lock, RecordedModel
from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.rules import check

from .builds import Question, question, refusals

FILE = Path(__file__).parent / "recorded" / "real_configurations.json"
# Four T4, an L40S and eight H100.
HOSTS = ("ml.g4dn.12xlarge", "ml.g6e.2xlarge", "ml.p5.48xlarge")
# The rules about what an engine builds; the engine has no memory here, and no other server.
RULES = frozenset({"OPT054", "OPT289", "OPT290", "OPT291", "OPT292", "OPT293", "OPT307"})
RELEASE = engine_models.transformers().vllm
BUILDS = "builds"
_MODEL, _LONGEST = "acme/mine", 90


class Configuration(BaseModel, frozen=True, extra="forbid"):
    """A ``config.json`` without fields that engines do not build models with, and the answers by instance type.

    ``kind`` is what makes it different from others. ``rules`` are those that refuse the model, ``vllm`` is why vLLM
    does. ``unlike`` is why they differ, or why vLLM is not asked.
    """

    name: str
    kind: str
    source: str
    config: Mapping[str, Any]
    rules: Mapping[str, tuple[str, ...]] = {}
    vllm: Mapping[str, str] = {}
    unlike: str | None = None

    def recipe(self, host: str) -> Recipe:
        """A recipe of the model as the lock file records it."""
        columns = ModelConfig.model_validate(self.config).columns
        recorded = RecordedModel.model_validate({**columns, "revision": NO_COMMIT})
        return Recipe(
            Model.huggingface(_MODEL, revision=NO_COMMIT),
            [],
            host,
            "us-west-2",
            containers=Lock(models={_MODEL: recorded}),
        )

    def refusing(self, host: str) -> tuple[str, ...]:
        """The rules that refuse the model."""
        return tuple(sorted({violation.rule for violation in check(self.recipe(host))} & RULES))

    def question(self, host: str) -> Question:
        """What vLLM is asked."""
        instance = self.recipe(host).instance
        assert instance is not None
        capability = instance.compute_capability or 0
        return question(self.config, instance.parallel_units, (int(capability), round(capability * 10) % 10))


def recorded() -> list[Configuration]:
    """The configurations with the recorded answers."""
    return [Configuration.model_validate(each) for each in json.loads(FILE.read_text(encoding="utf-8"))]


def answered(configurations: list[Configuration]) -> Iterator[Configuration]:
    """The configurations with the answers of today."""
    questions = {(each.name, host): each.question(host) for each in configurations for host in HOSTS}
    refused = refusals(questions.values())
    for each in configurations:
        rules = {host: each.refusing(host) for host in HOSTS}
        answers = {host: shortened(refused.get(questions[each.name, host], BUILDS)) for host in HOSTS}
        yield each.model_copy(update={"rules": rules, "vllm": answers})


def shortened(answer: str) -> str:
    """The beginning of an answer, without the folder of the model."""
    return re.sub(r"/tmp/\w+", "the folder", answer)[:_LONGEST]


def main() -> None:
    lines = ",\n".join(
        json.dumps(each.model_dump(exclude_none=True), ensure_ascii=False) for each in answered(recorded())
    )
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
