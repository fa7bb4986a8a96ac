"""The arguments that the entry points of AWS's containers of vLLM and SGLang derive from variables.

Source: aws/deep-learning-containers, scripts/docker: vllm/sagemaker_entrypoint.sh until commit dceae132 of 2026-08-19
and sglang/sagemaker_entrypoint.sh, which read ``env`` line by line; vllm/sagemaker_args.py since that commit, which the
images of vLLM 0.28.0 and newer have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

_PREFIXES = ("SM_VLLM_", "SM_SGLANG_")
_OLD_VLLM = re.compile(r"/vllm:0\.(1?\d|2[0-7])\.")
_SINGLE = frozenset({"--allowed-origins", "--allowed-methods", "--allowed-headers", "--middleware"})


def options(variables: Mapping[str, str], image: str | None = None) -> Iterator[str]:
    """Yield the options that an image's entry point derives from its variables; an unknown image is a new one."""
    # A line of a value that looks like a variable is one to the older scripts.
    text = "\n".join(f"{name}={value}" for name, value in variables.items())
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            continue
        option = "--" + name.removeprefix(prefix).lower().replace("_", "-")
        if prefix == "SM_SGLANG_" or _OLD_VLLM.search(image or ""):
            words = _in_bash(value)
        elif name in variables:
            words = _in_python(option, variables[name])
        else:
            continue
        if words is not None:
            yield option
            yield from words


def _in_bash(value: str) -> list[str] | None:
    """Return the words after an option: of the first line, without one ``=`` at its end, as bash's ``read`` does."""
    if value.count("=") == 1:
        value = value.removesuffix("=")
    if value.lower() == "false":
        return None
    return [] if value.lower() == "true" or not value else [value]


def _in_python(option: str, value: str) -> list[str] | None:
    """Return the words after an option, as sagemaker_args.py does."""
    text = value.strip()
    if text.lower() in ("true", "false") or not value:
        return None if text.lower() == "false" else []
    if option in _SINGLE:
        return [value]
    if text.startswith("[") and text.endswith("]"):
        try:
            elements = json.loads(text)
        except ValueError:
            return [value]
        return [_word(element) for element in elements] or None
    if text.startswith("{") and text.endswith("}"):
        objects = _objects(text)
        return [_word(each) for each in objects] if len(objects) > 1 else [value]
    return [value]


def _word(element: object) -> str:
    if isinstance(element, dict | list):
        return json.dumps(element, separators=(",", ":"))
    if isinstance(element, bool):
        return str(element).lower()
    return "" if element is None else str(element)


def _objects(text: str) -> list[object]:
    """Return JSON objects that follow each other; empty if the text is anything else."""
    found: list[object] = []
    while text:
        try:
            each, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            return []
        if not isinstance(each, dict):
            return []
        found.append(each)
        text = text[end:].lstrip()
    return found
