"""The engine's own line in its log, its cause, and what works."""

from __future__ import annotations

import re
from typing import NamedTuple

from .report import Refusal

# "(EngineCore pid=12) ERROR 11-30 18:28:30 [core.py:1114] ", and what multiprocessing puts before a line.
_PREFIX = re.compile(
    r"^(\((\w+) pid=\d+\) )?((ERROR|WARNING|INFO|CRITICAL) [\d-]+ [\d:]+ \[[^\]]+\] )?(\[rank\d+\]: ?)?"
)
_ERROR = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt))(?:: ?(.*))?$")
_USAGE = re.compile(r"^\S*: error: (.*)$")
_OF_PYDANTIC = re.compile(r"^  (?:Value error, )?(.*?)(?: \[type=\w+, input_value=.*)?$")
# Errors that report another one.
_WRAPPERS = (
    *("Engine core initialization failed", "Engine process failed to start", "EngineCore encountered an issue"),
    *("WorkerProc initialization failed", "See stack trace", "See root cause", "Failed core proc", "cancelled"),
    *("failed to be inspected", "Worker proc", "Please check the logs", "Worker failed with error", "EngineDeadError"),
)
# What the CPU build says of its own limits: not what the planned GPUs do.
_OF_THE_CPU = re.compile(
    r"\bCPU\b|'cpu'|for cpu|_OpNamespace|[Tt]riton|CUDA|\bcuda\b|AVX|AMX|[Kk]ernel|flash_attn|flashinfer|not compiled"
    r"|Could not run|[Cc]annot allocate memory|No available memory for the cache blocks|Unsupported .* backend"
    r"|vocab file"
)
_LONGEST = 1000


class _Known(NamedTuple):
    pattern: str
    cause: str
    fix: str


# vLLM 0.30: config/model.py, config/vllm.py, config/parallel.py, engine/arg_utils.py; transformers,
# dynamic_module_utils.py.
_KNOWN = (
    _Known(
        r"contains custom code|trust_remote_code|trust-remote-code",
        "the model needs Python code of its own repository, which the engine runs only if you allow it",
        "review the repository's Python files at the planned commit. Then allow them for the deployment with "
        "allow_code, and for the dry start with --trust-remote-code",
    ),
    _Known(
        r"must be divisible by tensor parallel size|not divisible by|should be divisible",
        "the tensor parallel degree does not divide a size of the model",
        "choose another tensor parallel degree, or an instance type with another number of GPUs",
    ),
    _Known(
        r"Minimum capability|is not supported for the current GPU|compute capability",
        "the engine has this quantization or type only for newer GPUs",
        "choose an instance type with newer GPUs, or another checkpoint",
    ),
    _Known(
        r"does not recognize this architecture|are not supported for now|has no vLLM implementation"
        r"|no longer supported",
        "the planned release of the engine does not know the model's architecture",
        "choose a container with a newer release of the engine (container_version), or a model of a known architecture",
    ),
    _Known(
        r"greater than the derived max_model_len",
        "the planned context is longer than the model's own",
        "plan a shorter context: context_length of the server",
    ),
    _Known(
        r"unrecognized arguments|invalid choice|invalid .*value|expected one argument|error: argument",
        "the planned release of the engine has no such argument or value",
        "change the variable of the environment or the setting of the server that becomes this argument",
    ),
    _Known(
        r"Unknown quantization method|Quantization method specified in the model config|quantization",
        "the engine does not load this quantization in this way",
        "leave --quantization to the model's own configuration, or use another checkpoint",
    ),
    _Known(
        r"Can't load (tokenizer|image processor|processor|feature extractor)|Couldn't instantiate the backend tokenizer"
        r"|does not appear to have a file named",
        "a file of the tokenizer or the processor is missing beside the weights",
        "use a repository or a prefix that has it",
    ),
)


def refusal_of(line: str) -> Refusal:
    """Return the engine's line with its cause and what works, if both are known."""
    text = " ".join(line.split())[:_LONGEST]
    known = next((each for each in _KNOWN if re.search(each.pattern, text)), None)
    return Refusal(line=text, cause=known.cause if known else None, fix=known.fix if known else None)


def is_of_the_cpu(line: str) -> bool:
    """Return whether a line is about what the CPU build lacks, and so says nothing about the plan."""
    return _OF_THE_CPU.search(line) is not None


def reports_another(line: str) -> bool:
    """Return whether a line only says that there is another error."""
    return any(wrapper in line for wrapper in _WRAPPERS)


def root_line(log: str) -> str | None:
    """Return the last error of a log that reports no other error; None without one."""
    lines = [_PREFIX.sub("", line.rstrip()) for line in log.splitlines()]
    found: list[str] = []
    for number, line in enumerate(lines):
        if (usage := _USAGE.match(line)) is not None:
            found.append(usage[1])
        elif (error := _ERROR.match(line)) is not None:
            found.append(_message(error, lines[number + 1 :]))
    own = [each for each in found if not reports_another(each)]
    return (own or found or [None])[-1]


def _message(error: re.Match[str], following: list[str]) -> str:
    name, message = error[1], error[2]
    if name == "ValidationError" and following and (detail := _OF_PYDANTIC.match(following[0])) is not None:
        return detail[1]
    return message or name
