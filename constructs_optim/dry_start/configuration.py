"""What the engine's own configuration says of a plan's arguments on the planned GPUs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from .engine_log import refusal_of, root_line
from .environment import EngineEnvironment
from .planned_engine import PlannedGpu, command_line
from .report import EndedError
from .server import OutOfTimeError, variables

_SCRIPT = Path(__file__).with_name("engine_configuration.py")
_NO_ANSWER = "the engine's configuration ended without an answer"


class Kind(BaseModel, frozen=True):
    """What a model is to vLLM: its runner (``generate`` or ``pooling``), what it is converted to (``none``, ``embed``,
    or ``classify``), whether it reads images or sound, whether it only transcribes, and its longest context in tokens.
    """

    runner: str
    convert: str
    reads_images: bool
    transcribes: bool = False
    context: int


class _Answer(BaseModel):
    refusal: str | None = None
    unknown: str | None = None
    kind: Kind | None = None


def kind_of(
    options: Mapping[str, tuple[str, ...]],
    gpu: PlannedGpu,
    environment: EngineEnvironment,
    own_variables: Mapping[str, str],
    folder: Path,
    seconds: float,
) -> Kind:
    """Return the kind of the model that the engine would serve with these arguments on these GPUs.

    Raises:
        EndedError: if the engine refuses, or cannot tell.
        OutOfTimeError: if it needs more than ``seconds``.
    """
    question, log = folder / "question.json", folder / "configuration.log"
    question.write_text(json.dumps({"arguments": command_line(options), "gpu": gpu.model_dump()}), encoding="utf-8")
    with question.open("rb") as given, log.open("wb") as errors:
        try:
            ended = subprocess.run(
                [str(environment.python), str(_SCRIPT)],
                env={**variables(own_variables), **environment.variables},
                cwd=folder,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OutOfTimeError from None
    last = ended.stdout.decode(errors="replace").strip().splitlines()[-1:]
    if ended.returncode or not last:
        raise EndedError("unknown", refusal_of(root_line(log.read_text("utf-8", errors="replace")) or _NO_ANSWER))
    answer = _Answer.model_validate_json(last[0])
    if answer.refusal is not None:
        raise EndedError("refused", refusal_of(answer.refusal))
    if answer.kind is None:
        raise EndedError("unknown", refusal_of(answer.unknown or _NO_ANSWER))
    return answer.kind
