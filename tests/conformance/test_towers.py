"""Whether vLLM splits encoders of images and sound as the catalog says (``make conformance``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from constructs_optim.recipe.catalog.model_config import ModelConfig
from constructs_optim.recipe.catalog.splits import misfits
from constructs_optim.recipe.catalog.towers import split_towers

from .builds import Question, question, refusals
from .towers import HOPPER, SPLIT, encoders, resized

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3600)]

# A degree, and whether each accelerator has whole encoders.
ASKED = ((4, "weights"), (8, "weights"), (8, "data"))
# Heads and widths of MLPs: those of GLM-4V and Qwen2.5-VL, and others that do not fit 8 or 4 accelerators.
SIZES = ((12, 13_696), (14, 4304), (16, 3420), (20, 5124))
# More than half of the architectures with an encoder; vLLM does not build the default configurations of the others.
LEAST = 45
MOST_TOO_STRICT = 0.02


class Case(NamedTuple):
    """An encoder, the question about it, and those that vLLM answers with yes if the encoder's split is the question:
    the same sizes on one accelerator, and sizes that can be split.
    """

    name: str
    architecture: str
    question: Question
    others: tuple[Question, Question]
    is_misfit: bool


def cases() -> Iterator[Case]:
    for architecture, encoder, path, config in encoders():
        for (heads, width), (degree, mode) in product(SIZES, ASKED):
            environment = {"SM_VLLM_MM_ENCODER_TP_MODE": mode}
            changed = resized(config, path, {"heads": heads, "width": width, "hidden": 96 * heads})
            parts = ModelConfig.model_validate(changed).columns.get("splits", {})
            of_encoder = {name: split for name, split in parts.items() if name == encoder}
            found = misfits(split_towers((architecture,), of_encoder, degree, whole=mode == "data"), degree)
            yield Case(
                f"{architecture}, {heads} heads, {width} wide, {degree}, {mode}",
                architecture,
                question(changed, degree, HOPPER, environment),
                (question(changed, 1, HOPPER), question(resized(config, path, SPLIT), degree, HOPPER, environment)),
                any(found),
            )


def test_vllm_splits_encoders_as_the_catalog_says(capsys: pytest.CaptureFixture[str]) -> None:
    every = [*cases()]
    answers: dict[Any, str] = refusals(each for case in every for each in (case.question, *case.others))
    asked = [case for case in every if answers.keys().isdisjoint(case.others)]
    too_lax = {case.name: answers[case.question] for case in asked if case.question in answers and not case.is_misfit}
    stopped = [case for case in asked if case.is_misfit]
    too_strict = [case.name for case in stopped if case.question not in answers]
    architectures = {case.architecture for case in asked}
    with capsys.disabled():
        sys.stdout.write(
            f"\nOf {len(asked)} encoders of {len(architectures)} architectures, vLLM refuses "
            f"{sum(case.question in answers for case in asked)}, of which {len(too_lax)} were not refused before; "
            f"{len(too_strict)} of {len(stopped)} refusals are for encoders that it builds\n"
        )
    assert too_lax == {}
    assert len(too_strict) <= MOST_TOO_STRICT * len(asked), too_strict
    assert len(architectures) >= LEAST
