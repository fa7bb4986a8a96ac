"""Model servers: AWS's containers for vLLM, SGLang, Large Model Inference (LMI) and Text Generation Inference.

A plan uses vLLM's names for engine arguments. A server translates them into the variables that its container reads.

Sources: ``docs/vllm``, ``docs/sglang`` and ``scripts/docker`` of aws/deep-learning-containers (entrypoints); LMI
documentation of djl-serving, "Configurations" and "vLLM user guide"; Text Generation Inference's launcher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from .catalog import engine_arguments, entry_points
from .documentation import page
from .errors import Violation
from .forms import meant
from .settings import Group, Settings, UnknownSettingsError, as_text, settings_of
from .tokens import is_token

# OCI distribution specification, "Pulling manifests".
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
MODEL_PATH = "/opt/ml/model"
"""The path where SageMaker mounts the model's files."""
DRAFTED_TOKENS = 4
"""LMI's default number of tokens that a draft model drafts at a time (``lmi_dist_rb_properties.py`` of djl-serving)."""
EngineArguments = Mapping[str, Any]
"""vLLM's arguments by name, with underscores: strings, numbers, booleans, or data that becomes JSON."""


class Adapters(Settings):
    """Limits on the LoRA adapters that the model's container can load.

    Attributes:
        max_loaded: maximum number of adapters in accelerator memory. Default: 4.
        max_cached: maximum number of adapters in host memory, at least ``max_loaded``. Default: the server's default.
        max_rank: the largest rank of an adapter, one of vLLM's values (``config/lora.py``). Default: 64.
    """

    max_loaded: int = Field(default=4, ge=1)
    max_cached: int | None = Field(default=None, ge=1)
    max_rank: Literal[1, 8, 16, 32, 64, 128, 256, 320, 512] = 64

    def _contradictions(self) -> Iterable[Violation]:
        if self.max_cached is not None and self.max_cached < self.max_loaded:
            reason = f"loaded adapters are also cached: vLLM does not start with max_cpu_loras below {self.max_loaded}"
            yield self._mistake(".max_cached", self.max_cached, reason, f"{self.max_loaded} or more")

    def arguments(self) -> dict[str, Any]:
        """Return the engine's arguments."""
        cached = {"max_cpu_loras": self.max_cached} if self.max_cached is not None else {}
        return {"enable_lora": True, "max_loras": self.max_loaded, **cached, "max_lora_rank": self.max_rank}


class ServerSettings(Settings):
    """The base class of model servers.

    Attributes:
        container_version: the tag of the container image, or a prefix of the tag, for example ``0.30.0`` or
            ``0.36.0-lmi27``. The lock file records the tag that a prefix resolves to. Default: the version in the lock
            file; in a new app, the newest version that supports the model and its techniques.
    """

    name: ClassVar[str]
    """The server's name in the image catalog."""
    title: ClassVar[str]
    prefix: ClassVar[str] = ""
    """The prefix of its variables for engine arguments; empty if it has no prefix."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Variables, without the prefix, for arguments whose names differ from vLLM's."""
    fixed: ClassVar[Mapping[str, str]] = {}
    """Variables that the server always needs."""
    loads_adapters: ClassVar[bool] = False
    """Whether it has the ``/adapters`` API that SageMaker uses to load adapters of inference components."""
    any_length: ClassVar[str] = ""
    """The variable that allows a context longer than the model's; empty if the server has none."""

    container_version: str | None = None

    def _contradictions(self) -> Iterable[Violation]:
        version = self.container_version
        if version is None or is_token(version) or _TAG.fullmatch(version):
            return
        fix = "a tag of AWS's images or its beginning, such as 0.30.0"
        if re.search(r"[/:@]", version):
            reason = "this names a whole image, and plans are of AWS's images"
            own = f"for an image of your own, declare its model and endpoint yourself: {page('existing-endpoints')}"
            fix = f"{fix}; {own}, with EndpointMonitoring.of(...)"
            yield self._mistake(".container_version", version, reason, fix)
        else:
            reason = "a tag has 1 to 128 letters, digits, _, . and -, and begins with no . or -"
            yield self._mistake(".container_version", version, reason, fix)

    @classmethod
    def display_name(cls) -> str:
        """Return the server's name in code."""
        return f"Server.{cls.name}"

    @classmethod
    def variable(cls, argument: str) -> str:
        """Return the container's variable for an engine argument."""
        return cls.prefix + cls.renamed.get(argument, argument.upper())

    @classmethod
    def argument(cls, variable: str) -> str:
        """Return the engine argument that a prefixed variable sets."""
        name = variable.removeprefix(cls.prefix)
        return next((argument for argument, own in cls.renamed.items() if own == name), name.lower())

    def arguments(self) -> dict[str, Any]:
        """Return the engine arguments of the server's settings."""
        return {}

    def environment(self, arguments: EngineArguments) -> dict[str, str]:
        """Return the container's variables for engine arguments."""
        return {**self.fixed, **{self.variable(name): as_text(value) for name, value in arguments.items()}}

    def overridden(self, own: Mapping[str, str], given: Mapping[str, str], release: str | None) -> dict[str, str]:
        """Return the plan's ``own`` variables, overridden by ``given`` ones; ``release`` is the engine's release."""
        return {**own, **given}


class _EngineSettings(ServerSettings):
    """Settings shared by all engines.

    Attributes:
        context_length: maximum number of tokens of a request, prompt and completion together. Default: the model's
            context, or as much as fits in memory.
        max_concurrent_requests: maximum number of requests in a batch. Default: vLLM's default.
        prefix_caching: whether requests reuse the KV cache of a common prefix. Default: vLLM's default, yes.
        chunked_prefill: whether the engine processes long prompts in chunks. Default: vLLM's default, yes.
        reasoning_parser: the parser that separates reasoning from the reply, for example ``qwen3``. Default: the
            model's parser in the catalog.
        tool_call_parser: the parser for tool calls, for example ``hermes``. Default: the model's parser in the catalog.
        adapters: limits for LoRA adapters. Default: no adapters.
    """

    context_length: int | None = Field(default=None, ge=1)
    max_concurrent_requests: int | None = Field(default=None, ge=1)
    prefix_caching: bool | None = None
    chunked_prefill: bool | None = None
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    adapters: Adapters | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the engine arguments of the settings that you set."""
        settings = {
            "max_model_len": self.context_length,
            "max_num_seqs": self.max_concurrent_requests,
            "enable_prefix_caching": self.prefix_caching,
            "enable_chunked_prefill": self.chunked_prefill,
            "reasoning_parser": self.reasoning_parser,
            "tool_call_parser": self.tool_call_parser,
            "enable_auto_tool_choice": True if self.tool_call_parser is not None else None,
        }
        loaded = self.adapters.arguments() if self.adapters is not None else {}
        return {**{name: value for name, value in settings.items() if value is not None}, **loaded}


class _CommandLine(_EngineSettings):
    """A container whose entrypoint turns each variable into a command line argument of the engine.

    Arguments are in the order of the variables' names, or in no defined order. Of duplicates, the engine uses the last.
    """

    def overridden(self, own: Mapping[str, str], given: Mapping[str, str], release: str | None) -> dict[str, str]:
        """Return the plan's variables, except arguments that are given under any name or as their negation.

        The entrypoint omits ``false``, but the engine's default can be true. So the argument's negation is added.
        """
        known = engine_arguments.of_release(self.name, release) or engine_arguments.of_newest(self.name)
        arguments = {name: known.find(self._option(name)) for name in {*own, *given} if name.startswith(self.prefix)}
        named = {name: found.name if found is not None else self._option(name) for name, found in arguments.items()}
        replaced = {named[name] for name in given if name in named}
        left = {name: value for name, value in own.items() if named.get(name) not in replaced}
        negated = {
            f"{self.prefix}NO_{found.name.upper()}": "true"
            for name, value in given.items()
            if value.lower() == "false" and (found := arguments.get(name)) is not None and found.row.negated
        }
        translation = entry_points.of_release(self.name, release)
        if translation is None:
            return {**left, **negated, **given}
        rows = {name: found.row if found is not None else None for name, found in arguments.items()}
        passed = {
            name: entry_points.written(translation, rows[name], value)
            if name in rows and not is_token(value)
            else value
            for name, value in given.items()
        }
        return {**left, **negated, **passed}

    def _option(self, variable: str) -> str:
        return variable.removeprefix(self.prefix).lower()


class VllmServer(_CommandLine):
    """AWS's container for vLLM.

    Attributes:
        context_length: maximum number of tokens of a request, prompt and completion together. Default: the model's
            context, or as much as fits in memory.
        max_concurrent_requests: maximum number of requests in a batch. Default: vLLM's default.
        prefix_caching: whether requests reuse the KV cache of a common prefix. Default: vLLM's default, yes.
        chunked_prefill: whether the engine processes long prompts in chunks. Default: vLLM's default, yes.
        reasoning_parser: the parser that separates reasoning from the reply, for example ``qwen3``. Default: the
            model's parser in the catalog.
        tool_call_parser: the parser for tool calls, for example ``hermes``. Default: the model's parser in the catalog.
        adapters: limits for LoRA adapters. Default: no adapters.
    """

    name = "vllm"
    title = "vLLM"
    prefix = "SM_VLLM_"
    # Otherwise, the container installs the packages of a requirements.txt in the model's files.
    fixed: ClassVar[Mapping[str, str]] = {"STANDARD_AUTO_INSTALL_REQ": "false"}
    loads_adapters = True
    any_length = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"

    def environment(self, arguments: EngineArguments) -> dict[str, str]:
        """Return the container's variables. Its entrypoint omits false arguments, so these become ``--no-`` arguments.

        vLLM has ``/adapters`` only if adapters may be loaded at run time (``entrypoints/serve/lora/api_router.py``).
        """
        negated = {f"no_{name}": True for name, value in arguments.items() if value is False}
        adapters = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true"} if arguments.get("enable_lora") is True else {}
        given = {name: value for name, value in arguments.items() if value is not False}
        return {**super().environment({**given, **negated}), **adapters}


class SglangServer(_CommandLine):
    """AWS's container for SGLang.

    Attributes:
        context_length: as for ``VllmServer``, like the other attributes. ``adapters`` is not supported: SGLang has
            no ``/adapters``.
    """

    name = "sglang"
    title = "SGLang"
    prefix = "SM_SGLANG_"
    renamed: ClassVar[Mapping[str, str]] = {
        "model": "MODEL_PATH",
        "tensor_parallel_size": "TP",
        "max_model_len": "CONTEXT_LENGTH",
        "max_num_seqs": "MAX_RUNNING_REQUESTS",
        "max_loras": "MAX_LORAS_PER_BATCH",
        "max_cpu_loras": "MAX_LOADED_LORAS",
    }
    # By default, it publishes no metrics (srt/arg_groups/fields/observability.py).
    fixed: ClassVar[Mapping[str, str]] = {"SM_SGLANG_ENABLE_METRICS": "true"}
    any_length = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
    # For each of vLLM's methods: the algorithm, and the first release that has it (speculative/spec_info.py of each).
    algorithms: ClassVar[Mapping[str, tuple[str, tuple[int, ...]]]] = {
        "draft_model": ("STANDALONE", (0, 5, 13)),
        "eagle": ("EAGLE", (0, 5, 13)),
        "eagle3": ("EAGLE3", (0, 5, 13)),
        "mtp": ("NEXTN", (0, 5, 13)),
        "ngram": ("NGRAM", (0, 5, 13)),
        "dflash": ("DFLASH", (0, 5, 13)),
        "dspark": ("DSPARK", (0, 5, 16)),
    }

    def environment(self, arguments: EngineArguments) -> dict[str, str]:
        """Return the container's variables. Features that SGLang enables by default have a variable to disable them."""
        given = {name: value for name, value in arguments.items() if name != "enable_auto_tool_choice"}
        caching, chunked = given.pop("enable_prefix_caching", None), given.pop("enable_chunked_prefill", None)
        off = {"disable_radix_cache": True} if caching is False else {}
        off |= {"chunked_prefill_size": -1} if chunked is False else {}
        # vLLM's fp8 is E4M3.
        cache = {"kv_cache_dtype": "fp8_e4m3"} if given.get("kv_cache_dtype") == "fp8" else {}
        speculation = self._speculation(given.pop("speculative_config", {}))
        return super().environment({**given, **off, **cache, **speculation})

    def _speculation(self, config: EngineArguments) -> dict[str, Any]:
        """Return SGLang's form of vLLM's ``speculative_config`` (``arg_groups/speculative_hook.py`` of SGLang)."""
        method, proposed = config.get("method", ""), config.get("num_speculative_tokens", 0)
        if method not in self.algorithms:
            return {}
        found: dict[str, Any] = {"speculative_algorithm": self.algorithms[method][0]}
        if method != "ngram":
            # The model's MTP heads are in its files.
            found["speculative_draft_model_path"] = config.get("model", MODEL_PATH)
        if method == "dspark":
            return {**found, "speculative_dspark_block_size": proposed}
        # SGLang also counts the model's own token. One chain of tokens, as in vLLM: trees need certain backends.
        chain = {
            "ngram": {"speculative_ngram_max_bfs_breadth": 1},
            "dflash": {},
        }.get(method, {"speculative_num_steps": proposed, "speculative_eagle_topk": 1})
        return {**found, **chain, "speculative_num_draft_tokens": proposed + 1}


class LmiServer(_EngineSettings):
    """AWS's container for Large Model Inference: djl-serving with vLLM.

    Attributes:
        context_length: as for ``VllmServer``, like the other attributes.
    """

    name = "lmi"
    title = "Large Model Inference"
    prefix = "OPTION_"
    loads_adapters = True
    any_length = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
    renamed: ClassVar[Mapping[str, str]] = {
        "tensor_parallel_size": "TENSOR_PARALLEL_DEGREE",
        "pipeline_parallel_size": "PIPELINE_PARALLEL_DEGREE",
        "max_num_seqs": "MAX_ROLLING_BATCH_SIZE",
    }
    # LMI documentation, "vLLM async mode".
    asynchronous: ClassVar[Mapping[str, str]] = {
        "OPTION_ASYNC_MODE": "true",
        "OPTION_ENTRYPOINT": "djl_python.lmi_vllm.vllm_async_service",
        "OPTION_ROLLING_BATCH": "disable",
        "SERVING_FAIL_FAST": "true",
    }

    @classmethod
    def variable(cls, argument: str) -> str:
        """Return the container's variable for an engine argument."""
        return "HF_MODEL_ID" if argument == "model" else super().variable(argument)

    def environment(self, arguments: EngineArguments) -> dict[str, str]:
        """Return the container's variables; with vLLM's asynchronous engine if the rolling batch lacks an argument."""
        given = {name: value for name, value in arguments.items() if name != "served_model_name"}
        config = given.get("speculative_config", {})
        if config.get("method") == "draft_model":
            # Only images with lmi-dist serve a draft model, and they use their own variables for it.
            del given["speculative_config"]
            given["speculative_draft_model"] = config["model"]
            if config["num_speculative_tokens"] != DRAFTED_TOKENS:
                given["speculative_length"] = config["num_speculative_tokens"]
        engine: Mapping[str, str] = self.asynchronous if "speculative_config" in given else {}
        return {**super().environment(given), **engine}


class TextGenerationInferenceServer(ServerSettings):
    """AWS's container for Text Generation Inference, which Medusa heads need. The project is in maintenance mode."""

    name = "text_generation_inference"
    title = "Text Generation Inference"
    renamed: ClassVar[Mapping[str, str]] = {
        "model": "HF_MODEL_ID",
        "tensor_parallel_size": "SM_NUM_GPUS",
        "max_model_len": "MAX_TOTAL_TOKENS",
    }

    def environment(self, arguments: EngineArguments) -> dict[str, str]:
        """Return the container's variables."""
        return super().environment({name: value for name, value in arguments.items() if name in self.renamed})


class Server(metaclass=Group):
    """The model server. Default: vLLM, unless a technique needs another server."""

    vllm = VllmServer
    sglang = SglangServer
    lmi = LmiServer
    text_generation_inference = TextGenerationInferenceServer


def by_name() -> dict[str, type[ServerSettings]]:
    """Return all servers, in order of preference."""
    servers = VllmServer, LmiServer, TextGenerationInferenceServer, SglangServer
    return {server.name: server for server in servers}


def takes_batch_limit(server: type[ServerSettings]) -> bool:
    """Return whether a server has a setting for the maximum batch size."""
    return "max_concurrent_requests" in server.model_fields


def parse(text: str) -> ServerSettings:
    """Parse a server, for example ``vllm,context_length=8192``.

    Raises UnknownSettingsError, or RecipeError for invalid settings.
    """
    name, *parts = [part.strip() for part in text.split(",")]
    server = by_name().get(name.lower().replace("-", "_"))
    if server is None:
        near = meant(name, by_name())
        known = f"a server: {', '.join(by_name())}; for example, vllm,context_length=8192"
        fix = f"did you mean {' or '.join(near)}?" if near else known
        raise UnknownSettingsError(fix, "no server has this name")
    return server(**settings_of(server, name, parts))
