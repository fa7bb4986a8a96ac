"""Images whose patches AWS has ended, and the advice about them."""

from __future__ import annotations

import datetime as dt

import pytest

from constructs_optim.recipe import Model, Plan, Recipe, catalog, plan
from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.lock import Lock

NEW, OLD = "pytorch-training:2.10.0-cpu-py313", "pytorch-training:2.9.0-cpu-py312"


def copied(recorded: str | None = None) -> Plan:
    return plan(
        Recipe(
            model=Model.huggingface("Qwen/Qwen3-32B", revision="0" * 40),
            techniques=[],
            instance_type="ml.g6e.12xlarge",
            region="us-west-2",
            containers=Lock(jobs={"copying": recorded} if recorded is not None else {}, servers={}),
        )
    )


def advice(planned: Plan) -> list[str]:
    return [each.message for each in planned.warnings if each.id == "constructs-optim:OPT243"]


def test_a_job_uses_an_image_that_gets_patches() -> None:
    planned = copied()
    assert planned.jobs[0].image == NEW
    assert advice(planned) == []


def test_a_locked_image_past_its_end_of_patches_stays_with_advice_on_how_to_update_it() -> None:
    planned = copied(OLD)
    assert planned.jobs[0].image == OLD
    (message,) = advice(planned)
    assert f"{OLD}': AWS ended its patches on 2026-10-15" in message
    assert f"To use {NEW}: `constructs-optim lock --update jobs.copying`" in message


def test_the_date_changes_advice_and_never_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    before = copied()
    monkeypatch.setattr(catalog, "today", lambda: dt.date(2027, 1, 21))
    assert advice(copied()) == []
    monkeypatch.setattr(catalog, "today", lambda: dt.date(2027, 1, 22))
    after = copied()
    (message,) = advice(after)
    assert "Update this library" in message
    assert (after.jobs, after.container) == (before.jobs, before.container)


def test_the_image_of_each_kind_of_job_gets_patches() -> None:
    for kind in ("training", "copying", "quantizing"):
        newest = images.making({kind})[0]
        assert newest.eop is not None
        assert newest.eop >= catalog.today()
