"""Tests of what runs in a training container. They need PyTorch: `make medusa` runs them in `.venv-models`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from .jobs import Trained, train
    from .models import corpus_of

pytest.register_assert_rewrite("tests.training.end_to_end")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """training.jsonl, validation.jsonl and test.jsonl of the sample corpus."""
    return corpus_of(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Trained:
    """A small model of the module's family, fine-tuned by one job, with heads trained by another."""
    return train(request.module.FAMILY, tmp_path_factory.mktemp(request.module.FAMILY), corpus)
