"""Quantizations of a model that are broken on purpose, and one that is not, as candidates of a shadow.

The model is fine-tuned and quantized by the code of the jobs, and transformers answers with each of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from constructs_optim.runtime.shadow.captures import Pair
from constructs_optim.runtime.shadow.checks import Check, outcome
from constructs_optim.runtime.shadow.verdict import Criteria, Finding, Observed, add_pair, verdict

from .jobs import FINE_TUNING, job
from .models import lines, save_small_model

CHECKOUT = Path(__file__).parents[2]
pytestmark = pytest.mark.exhaustive

QUANTIZER = CHECKOUT / ".venv-quantization" / "bin" / "python"
PAIRS = 128
CRITERIA = Criteria([Check("reference")], margin=0.05, latency_tolerance=0.1)


def another_chat_template(model: Path) -> None:
    (model / "chat_template.jinja").write_text(
        "{% for message in messages %}[INST] {{ message['content'] }} [/INST]{% endfor %}"
    )


def scales_of_other_samples(model: Path) -> None:
    """The range that the weights were thought to have is a quarter of theirs."""
    _change(
        model,
        lambda tensors: {
            name: tensor / 4 if name.endswith(".weight_scale") else tensor for name, tensor in tensors.items()
        },
    )


def head_dropped(model: Path) -> None:
    """The checkpoint lacks the output head, as of a model whose head is tied to its embeddings."""
    _change(model, lambda tensors: {name: tensor for name, tensor in tensors.items() if not name.startswith("lm_head")})


def _change(model: Path, changed: Callable[[dict[str, object]], dict[str, object]]) -> None:
    file = model / "model.safetensors"
    save_file(changed(load_file(file)), file, metadata={"format": "pt"})  # type: ignore[arg-type]


BROKEN = (another_chat_template, scales_of_other_samples, head_dropped)


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> dict[str, Finding]:
    """What the answers of each candidate show, by its name, beside those of the model that is not quantized."""
    root = tmp_path_factory.mktemp("candidates")
    base = save_small_model("llama", root / "base")
    data = {"training": corpus / "training.jsonl", "validation": corpus / "validation.jsonl"}
    fine_tuning = job(root / "fine-tuning", "fine_tune", FINE_TUNING, model=base, **data)
    status, log = fine_tuning.run()
    assert status == 0, log
    quantizing = job(root / "quantizing", "quantize", {"scheme": "FP8_DYNAMIC"}, model=fine_tuning.model)
    status, log = replace(quantizing, python=str(QUANTIZER)).run()
    assert status == 0, log
    production = shutil.copytree(fine_tuning.model, root / "production")
    models = [production, shutil.copytree(quantizing.model, root / "quantized")]
    for broken in BROKEN:
        models.append(shutil.copytree(quantizing.model, root / broken.__name__))
        broken(models[-1])
    rows = lines(corpus / "test.jsonl")[:PAIRS]
    (root / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    subprocess.run(
        [QUANTIZER, Path(__file__).parent / "answers.py", root / "prompts.jsonl", root / "answers.json", *models],
        check=True,
        timeout=600,
    )
    answers: dict[str, list[str]] = json.loads((root / "answers.json").read_text())
    references = {row["instruction"] + row["input"]: row["output"] for row in rows}
    right = sum(answer.strip() == row["output"] for answer, row in zip(answers["production"], rows, strict=True))
    assert right > PAIRS / 5, "a model that answers nothing right cannot be broken"
    return {model.name: _finding(answers["production"], answers[model.name], references) for model in models[1:]}


def _finding(production: list[str], candidate: list[str], references: dict[str, str]) -> Finding:
    observed, (check,) = Observed(), CRITERIA.checks
    for prompt, *texts in zip(references, production, candidate, strict=True):
        said = [{"choices": [{"message": {"content": text}}]} for text in texts]
        pair = Pair({"messages": [{"role": "user", "content": prompt}]}, said[0], said[1])
        found = outcome(check, pair, references, None)
        add_pair(observed, CRITERIA, pair.request, 0, lambda _, found=found: found)
    return next(finding for finding in verdict(observed, CRITERIA).findings if finding.measure == "reference")


@pytest.mark.parametrize("broken", [each.__name__ for each in BROKEN])
def test_a_broken_quantization_is_called_worse(findings: dict[str, Finding], broken: str) -> None:
    found = findings[broken]
    assert found.outcome == "worse", found
    assert found.called_after is not None
    assert found.called_after <= 125


def test_a_quantization_that_is_done_well_is_not(findings: dict[str, Finding]) -> None:
    found = findings["quantized"]
    assert found.outcome != "worse", found
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high
