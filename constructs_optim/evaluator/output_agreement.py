"""How much two sides' embeddings, scores or classes agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from constructs_optim.runtime.evaluation.agreements import MEASURES, Mean
from constructs_optim.runtime.evaluation.pooled_outputs import PooledTask, agreement, written

from .prompts import Prompt
from .streaming import Record

_MOST_EXAMPLES = 5
_LONGEST_EXAMPLE = 200


@dataclass(frozen=True)
class DifferentOutput:
    """A prompt and the agreement of its outputs."""

    prompt: int
    asked: str
    agreement: float


@dataclass(frozen=True)
class OutputAgreement:
    """The agreement of two sides' outputs, for the ``compared`` prompts for which both have some.

    ``agreement`` is the mean over prompts, 1 for the same outputs, with a 95% interval from ``low`` to ``high``; None
    if no prompt is compared. ``runtime/evaluation/pooled_outputs.py`` defines it for each ``task``. ``reference`` is
    the mean agreement with the prompts' references, by side. The ``differences`` are the prompts with the least
    agreement.
    """

    task: PooledTask
    compared: int
    agreement: float | None
    low: float | None
    high: float | None
    reference: dict[str, float]
    differences: tuple[DifferentOutput, ...]

    @property
    def described(self) -> str:
        """The agreement in one sentence."""
        if self.agreement is None or self.low is None or self.high is None:
            return "No prompt has an output of both sides."
        measure = MEASURES[self.task]
        return (
            f"{measure[0].upper()}{measure[1:]} the baseline's is {self.agreement:.4f} on average of {self.compared} "
            f"prompt{'s' * (self.compared > 1)} (95% interval {self.low:.4f} to {self.high:.4f})."
        )


def compare_outputs(
    task: PooledTask, prompts: Sequence[Prompt], baseline: Sequence[Record], optimized: Sequence[Record]
) -> OutputAgreement:
    """Compare the first outputs of each prompt, starting with the lowest concurrency."""
    outputs = {"baseline": _outputs(baseline), "optimized": _outputs(optimized)}
    before, after = outputs.values()
    found = {prompt: agreement(task, after[prompt], before[prompt]) for prompt in sorted(before.keys() & after.keys())}
    mean = Mean.of([*found.values()]) if found else None
    least = sorted((each for each in found if found[each] < 1), key=found.__getitem__)[:_MOST_EXAMPLES]
    return OutputAgreement(
        task=task,
        compared=len(found),
        agreement=mean.value if mean is not None else None,
        low=mean.low if mean is not None else None,
        high=min(1.0, mean.high) if mean is not None else None,
        reference={
            side: Mean.of(values).value
            for side, by_prompt in outputs.items()
            if (values := _with_references(task, prompts, by_prompt))
        },
        differences=tuple(DifferentOutput(each, prompts[each].text[:_LONGEST_EXAMPLE], found[each]) for each in least),
    )


def _outputs(records: Sequence[Record]) -> dict[int, str]:
    """Return the first output of each prompt."""
    outputs: dict[int, str] = {}
    for record in records:
        if record.is_measured and record.text:
            outputs.setdefault(record.prompt, record.text)
    return outputs


def _with_references(task: PooledTask, prompts: Sequence[Prompt], outputs: Mapping[int, str]) -> list[float]:
    """Return the agreement of each output with the reference of its prompt, without prompts that have none."""
    return [
        agreement(task, output, known)
        for prompt, output in outputs.items()
        if (given := prompts[prompt].reference) is not None and (known := written(task, given)) is not None
    ]
