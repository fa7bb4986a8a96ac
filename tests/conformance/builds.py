"""Whether vLLM builds models on accelerators, which ``models_built_by_vllm.py`` asks it in its own environment."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).parents[2]
PYTHON = CHECKOUT / ".venv-engine" / "bin" / "python"
PROGRAM = Path(__file__).with_name("models_built_by_vllm.py")
# A process grows with the models that it has built.
MOST_AT_ONCE = 500
_PROCESSES = 2


class Question(NamedTuple):
    """A model on accelerators: ``config`` is a ``config.json``, ``environment`` has the container's variables."""

    config: str
    degree: int
    capability: tuple[int, int]
    environment: frozenset[tuple[str, str]]


def question(
    config: Mapping[str, Any], degree: int, capability: tuple[int, int], environment: Mapping[str, str] | None = None
) -> Question:
    """The question about a model; equal ones are asked once."""
    return Question(json.dumps(config, sort_keys=True), degree, capability, frozenset((environment or {}).items()))


def refusals(questions: Iterable[Question]) -> dict[Question, str]:
    """Why vLLM refuses to build models.

    A process is asked about one compute capability, because vLLM keeps what it chose for the first model.
    """
    of_capability: defaultdict[tuple[int, int], list[Question]] = defaultdict(list)
    for asked in sorted(set(questions), key=lambda each: (*each[:3], sorted(each.environment))):
        of_capability[asked.capability].append(asked)
    parts = (
        asked[first : first + MOST_AT_ONCE]
        for asked in of_capability.values()
        for first in range(0, len(asked), MOST_AT_ONCE)
    )
    # Threads that wait for the processes; each needs a core and up to 4 GB.
    with ThreadPoolExecutor(_PROCESSES) as waiting:
        return {asked: reason for found in waiting.map(_refusals, parts) for asked, reason in found}


def _refusals(questions: list[Question]) -> Iterable[tuple[Question, str]]:
    given = [
        {
            "name": str(number),
            "config": json.loads(asked.config),
            "degree": asked.degree,
            "capability": asked.capability,
            "environment": dict(asked.environment),
        }
        for number, asked in enumerate(questions)
    ]
    ended = subprocess.run(
        [str(PYTHON), str(PROGRAM)], input=json.dumps(given), capture_output=True, text=True, timeout=1800, check=False
    )
    assert ended.returncode == 0, f"{ended.returncode}: {ended.stderr[-2000:]}"
    refused: dict[str, str] = json.loads(ended.stdout.splitlines()[-1])["refused"]
    return [(questions[int(number)], reason) for number, reason in refused.items()]
