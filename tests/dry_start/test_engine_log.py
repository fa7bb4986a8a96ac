from __future__ import annotations

import pytest

from constructs_optim.dry_start.engine_log import is_of_the_cpu, refusal_of, root_line

# Lines of vLLM 0.30's own logs.
OF_A_WORKER = """\
(APIServer pid=1) INFO 11-30 18:40:57 [model.py:10] Resolved architecture: NemotronHForCausalLM
(Worker pid=3) ERROR 11-30 18:41:17 [multiproc_executor.py:944] Traceback (most recent call last):
(Worker pid=3) ERROR 11-30 18:41:17 [multiproc_executor.py:944]     raise NotImplementedError(
(Worker pid=3) ERROR 11-30 18:41:17 [multiproc_executor.py:944] NotImplementedError: is_act_and_mul=False is supported only for CUDA, XPU and ROCm for now
(EngineCore pid=2) Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.
(APIServer pid=1)     raise RuntimeError(
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}
"""
OF_PYDANTIC = """\
(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig
(APIServer pid=1)   Value error, Total number of attention heads (32) must be divisible by tensor parallel size (3). [type=value_error, input_value=ArgsKwargs((), {'model_co... 'shutdown_timeout': 0}), input_type=ArgsKwargs]
(APIServer pid=1)     For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
OF_ARGUMENTS = """\
usage: vllm serve [model_tag] [options]
vllm: error: unrecognized arguments: --of-no-release
"""
OF_AN_INSPECTION = """\
ERROR 11-30 18:41:53 [registry.py:1102] ModuleNotFoundError: No module named 'torchvision'
(Worker pid=3) ERROR 11-30 18:41:53 [multiproc_executor.py:944] ValueError: Model architectures ['Qwen3VLForConditionalGeneration'] failed to be inspected. Please check the logs for more details.
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (OF_A_WORKER, "is_act_and_mul=False is supported only for CUDA, XPU and ROCm for now"),
        (OF_PYDANTIC, "Total number of attention heads (32) must be divisible by tensor parallel size (3)."),
        (OF_ARGUMENTS, "unrecognized arguments: --of-no-release"),
        (OF_AN_INSPECTION, "No module named 'torchvision'"),
        ("RuntimeError: Engine core initialization failed.", "Engine core initialization failed."),
        ("(Worker pid=3) AssertionError\nRuntimeError: Worker failed with error ''", "AssertionError"),
        ("(APIServer pid=1) INFO 11-30 18:40:57 [x.py:1] an Error in words", None),
        ("", None),
    ],
)
def test_the_engines_own_line_is_found_below_those_that_report_it(log: str, line: str | None) -> None:
    assert root_line(log) == line


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("The repository /opt/ml/model contains custom code which must be executed", "review"),
        ("Total number of attention heads (32) must be divisible by tensor parallel size (3).", "degree"),
        ("The quantization method mxfp4 is not supported for the current GPU. Minimum capability: 80.", "newer GPUs"),
        ("Model architectures ['New'] are not supported for now.", "newer release"),
        ("unrecognized arguments: --of-no-release", "variable"),
        ("User-specified max_model_len (9) is greater than the derived max_model_len (1)", "context_length"),
        ("Can't load image processor for '/opt/ml/model'", "repository"),
    ],
)
def test_known_lines_have_a_cause_and_a_fix(line: str, word: str) -> None:
    refusal = refusal_of(line)
    assert refusal.cause
    assert word in (refusal.fix or "")


def test_an_unknown_line_stands_alone() -> None:
    refusal = refusal_of("the moon\n is   wrong")
    assert (refusal.line, refusal.cause, refusal.fix) == ("the moon is wrong", None, None)


def test_paths_of_this_machine_are_those_of_the_container() -> None:
    refusal = refusal_of("no file in /tmp/a/model-0/x").with_paths({"/opt/ml/model": "/tmp/a/model-0"})
    assert refusal.line == "no file in /opt/ml/model/x"


@pytest.mark.parametrize(
    ("line", "is_of_it"),
    [
        ("Sparse Attention is not supported on CPU.", True),
        ("Unsupported FP8 MoE backend: NONE", True),
        ("Cannot inspect kernel parameters for function", True),
        ("Total number of attention heads (32) must be divisible by tensor parallel size (3).", False),
        ("The input size is not aligned with the quantized weight shape.", False),
    ],
)
def test_limits_of_the_cpu_are_told_from_refusals(line: str, is_of_it: bool) -> None:
    assert is_of_the_cpu(line) is is_of_it
