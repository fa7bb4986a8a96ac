"""Makes what vLLM serves in the tests: ``python quantized_models.py <folder>``, in ``.venv-models``.

A small model, EAGLE-3 heads for it, and the model as the code of quantization jobs quantizes it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tests.training.jobs import job
from tests.training.models import corpus_of, save_small_heads, save_small_model

CHECKOUT = Path(__file__).parents[2]
QUANTIZER = CHECKOUT / ".venv-quantization" / "bin" / "python"


def main() -> None:
    """Make the models."""
    folder = Path(sys.argv[1])
    base = save_small_model(
        "llama", folder / "base", hidden_size=256, intermediate_size=512, num_hidden_layers=4, dtype="bfloat16"
    )
    save_small_heads(folder / "eagle3-heads", base)
    corpus = corpus_of(folder / "corpus")
    samples = {"calibration": corpus / "validation.jsonl"}
    for name, settings, channels in (
        ("fp8_dynamic", {"scheme": "FP8_DYNAMIC"}, {}),
        ("w4a16", {"scheme": "W4A16", "calibration_size": "32"}, samples),
    ):
        quantizing = job(folder / name, "quantize", settings, model=base, **channels)
        status, log = replace(quantizing, python=str(QUANTIZER)).run()
        assert status == 0, log
        print(name, *(line for line in log.splitlines() if "weight_error=" in line))  # noqa: T201 - shown by the test


if __name__ == "__main__":
    main()
