"""Rules for container images and their environment variables."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from constructs_optim.recipe import catalog
from constructs_optim.recipe.catalog import engine_arguments, entry_points, images, models
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim.recipe.errors import close_matches
from constructs_optim.recipe.memory import arguments_of_engine, engine_setting
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import (
    Adapters,
    LmiServer,
    ServerSettings,
    SglangServer,
    VllmServer,
    by_name,
    parse,
)
from constructs_optim.recipe.settings import Settings, UnknownSettingsError
from constructs_optim.recipe.techniques import REGISTRY, CompressorQuantization, Quantization, Technique
from constructs_optim.recipe.tokens import is_token

from .registry import API, Finding, rule

_LMI = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/"
_IMAGES = "https://github.com/aws/deep-learning-containers/blob/master/docs/vllm/deployment/sagemaker.md"
_ANY_SERVER = "a server such as Server.vllm()"
_VLLM = (VllmServer.name, LmiServer.name)
_SHOWN = 3
_BLACKWELL = 10.0
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,1023}")
# Every plan adds two variables: the tensor parallel degree and the model's location.
_ADDED = 2
_MOST_MODEL_VARIABLES, _LONGEST_MODEL_VALUE = 100 - _ADDED, 1024
_LONGEST_JOB_VALUE = 256


@rule("OPT030", _IMAGES)
def _an_image_has_the_capabilities(recipe: Recipe) -> Iterator[Finding]:
    """One container image supports all techniques: no container image supports this combination of techniques."""
    names = [technique.name for _, technique in recipe.located_techniques]
    fix = "fewer techniques; `constructs-optim catalog images` lists what each image can build and serve"
    if not recipe.job_image.usable and not images.making(recipe.makes):
        yield Finding("techniques", names, fix)
    elif recipe.outdated_jobs:
        for location, technique, newest in recipe.outdated_jobs:
            reason = (
                f"{recipe.served_model.name} needs vLLM {recipe.least_engine} or newer, and SageMaker's "
                f"{technique.name} jobs support only the models that vLLM {newest} supports"
            )
            yield Finding(location, technique.name, _made_otherwise(recipe, technique), reason)
    elif recipe.is_served_by_job_image or recipe.serving_image.usable:
        return
    elif not images.serving(recipe.serves, by_name()):
        yield Finding(
            "techniques", names, fix, "no container image can serve the result of this combination of techniques"
        )
    elif recipe.server is None and any(image.has_engine(recipe.least_engine) for image in images.serving((), _VLLM)):
        yield Finding("techniques", names, "fewer techniques", _too_old(recipe, f"image that serves {_result(recipe)}"))
    elif recipe.server is None:
        yield Finding(
            "model",
            str(recipe.model),
            "another model, or a newer release of this library",
            _too_old(recipe, "cataloged image"),
        )


def _made_otherwise(recipe: Recipe, technique: Technique) -> str:
    """Return an alternative to a technique whose job does not support the model."""
    call = technique.display_name()
    if checkpoints := [f'{call}(checkpoint=Model.huggingface("{each}"))' for each in recipe.published(technique)]:
        return " or ".join(checkpoints)
    jobs = [
        f"{other.display_name()}({'calibration_data=...' if 'calibration_data' in other.model_fields else ''})"
        for other in REGISTRY[technique.kind].values()
        if issubclass(other, CompressorQuantization) and other.precisions & technique.precisions
    ]
    return f"{' or '.join(jobs)}, which runs an llm-compressor job" if jobs else f"the model without {call}()"


@rule("OPT035", _IMAGES)
def _the_recorded_image_has_the_capabilities(recipe: Recipe) -> Iterator[Finding]:
    """A locked image supports its techniques: the image in the lock file does not support these techniques."""
    for part, choice in recipe.choices:
        for name, image in _recorded(recipe, part, choice):
            if image not in {row.name for row in choice.usable}:
                newest = next((row.name for row in choice.usable if row in images.rows()), None)
                fix = f"remove {name!r} from {part} in {LOCK_FILE}"
                fix += f"; the next synthesis then records {newest}" if newest is not None else ""
                yield Finding(f"{part}[{name!r}]", image, fix)


def _recorded(recipe: Recipe, part: str, choice: images.Choice) -> Iterable[tuple[str, str]]:
    """Return the recorded images of a choice in all Regions."""
    recorded = recipe.containers.jobs if part == "jobs" else recipe.containers.servers
    return images.recorded_for(choice.name.partition("@")[0], recorded).items()


def _too_old(recipe: Recipe, image: str) -> str:
    return f"{recipe.served_model.name} needs vLLM {recipe.least_engine} or newer, which no {image} has"


@rule("OPT037", _IMAGES)
def _the_server_serves_techniques(recipe: Recipe) -> Iterator[Finding]:
    """The server supports the recipe: the server's container cannot read the artifact, or lacks a technique."""
    server = recipe.server
    if server is None:
        return
    if not isinstance(server, ServerSettings):
        reason, fix = _reason_and_fix(server)
        yield Finding("server", server, fix, reason)
        return
    if recipe.is_served_by_job_image:
        bound = [each.display_name() for _, each in recipe.located_techniques if each.served_by_job_image]
        reason = f"only the image of its job can serve the artifact of {' and '.join(bound)}"
        yield Finding("server", server.display_name(), "leave server out", reason)
    elif recipe.serving_image.usable:
        return
    elif not images.serving(recipe.serves, [server.name]):
        able = [f"Server.{row.server}()" for row in images.serving(recipe.serves, by_name())]
        reason = f"no {server.title} image can serve {_result(recipe)}"
        yield Finding("server", server.display_name(), " or ".join(dict.fromkeys(able)) or "other techniques", reason)
    elif not any(image.has_engine(recipe.least_engine) for image in images.serving(recipe.serves, [server.name])):
        yield Finding("server", server.display_name(), "another server", _too_old(recipe, f"{server.title} image"))
    elif server.container_version is not None and not recipe.serving_images:
        able = ", ".join(row.tag for row in images.serving(recipe.serves, [server.name])[:_SHOWN])
        known = any(row.server == server.name and row.has_version(server.container_version) for row in images.rows())
        reason = f"the catalog has no {server.title} image whose tag starts with this version"
        reason = f"this {server.title} image cannot serve {_result(recipe)}" if known else reason
        yield Finding("server.container_version", server.container_version, f"a tag such as {able}", reason)


def _result(recipe: Recipe) -> str:
    """Describe what the image serves: a model whose weights are already quantized, and the titles of techniques."""
    techniques = [technique.label or technique.display_name() for _, technique in recipe.located_techniques]
    made = recipe.unnamed_technique
    weights = [f"{recipe.served_model.name}, whose weights are {made.name.upper()}"] if made else []
    return " with ".join([*weights, *([" and ".join(techniques)] if techniques else [])]) or recipe.served_model.name


def _reason_and_fix(value: object) -> tuple[str, str]:
    """Return why a value is not a server, and what to write instead."""
    if isinstance(value, str):
        try:
            return "this is a string, not a server", f"{parse(value).display_name()}()"
        except UnknownSettingsError as error:
            return error.reason, str(error)
    if isinstance(value, type) and issubclass(value, ServerSettings):
        return "this is the class of a server, not an instance", f"{value.display_name()}()"
    return "this is not a server", _ANY_SERVER


@rule("OPT039", _IMAGES, advisory=True)
def _container_version_is_cataloged(recipe: Recipe) -> Iterator[Finding]:
    """The container's version is in the catalog: the catalog does not have this container, so its engine's behavior is
    unknown.
    """
    for part, choice in recipe.choices:
        image = choice.image
        if image is None or images.find(image.name) is not None:
            continue
        recorded = dict(_recorded(recipe, part, choice)).get(choice.name) == image.name
        location = f"{part}[{choice.name!r}]" if recorded else "server.container_version"
        reason = f"{LOCK_FILE} records {image.name} ({location}), which is not, or no longer, in the catalog"
        fix = f"It stays until you update it: `constructs-optim lock --update {part}.{choice.name}`"
        if recorded:
            yield Finding(location, image.tag, fix, reason)
        else:
            yield Finding(location, image.tag, "Test it before you rely on it")


@rule("OPT243", "https://github.com/aws/deep-learning-containers/tree/main/docs/src/data", advisory=True)
def _image_gets_patches(recipe: Recipe) -> Iterator[Finding]:
    """The container's image gets patches: AWS no longer patches this image, not even for vulnerabilities."""
    for part, choice in recipe.choices:
        image = choice.image
        if image is None or image.eop is None or image.eop >= catalog.today():
            continue
        location = f"{part}[{choice.name!r}]"
        newer = next((row for row in choice.usable if row.eop is None or row.eop >= catalog.today()), None)
        fix = "Update this library, whose next release may have a newer image"
        if newer is not None and dict(_recorded(recipe, part, choice)).get(choice.name) == image.name:
            fix = f"To use {newer.name}: `constructs-optim lock --update {part}.{choice.name}`"
        yield Finding(location, image.name, fix, f"AWS ended its patches on {image.eop}")


@rule("OPT256", "https://github.com/vllm-project/recipes", advisory=True)
def _recorded_tuning_is_of_a_recipe(recipe: Recipe) -> Iterator[Finding]:
    """Recorded tuning comes from vLLM's recipes: the library records only arguments and variables of these recipes, so
    a person or another program wrote this setting into the lock file, and it changes the container.
    """
    for (_, tuning), of_technique in ((recipe.recommended, False), (recipe.speculation, True)):
        entry = next((name for name, recorded in recipe.containers.tuning.items() if recorded == tuning), None)
        if entry is None:
            continue
        arguments, variables = models.tuned_settings()
        if of_technique:
            arguments, variables = frozenset({"num_speculative_tokens"}), frozenset[str]()
        fix = (
            f"Remove it from {LOCK_FILE}, or declare it: in environment, or as a setting of the server. Review changes "
            "of this file as you review code"
        )
        for part, given, known in (
            ("arguments", tuning.arguments, arguments),
            ("environment", tuning.environment, variables),
        ):
            for name, value in given.items():
                if name not in known:
                    reason = f"no recipe in the catalog has this {'argument' if part == 'arguments' else 'variable'}"
                    yield Finding(f"tuning[{entry!r}].{part}.{name}", value, fix, reason)


@rule("OPT038", _IMAGES)
def _variables_are_the_servers(recipe: Recipe) -> Iterator[Finding]:
    """A variable belongs to the server: the server ignores variables of other servers."""
    if any(technique.hub_configuration for _, technique in recipe.located_techniques):
        return
    own = recipe.serving_settings
    for name in recipe.variables:
        for other in by_name().values():
            if other.prefix and name.startswith(other.prefix) and other.prefix != own.prefix:
                own_name = f"{own.variable(other.argument(name))}, or " if own.prefix else ""
                fix = f"{own_name}server={other.display_name()}()"
                yield Finding(f"environment.{name}", recipe.variables[name], fix, f"{own.title} ignores it")


@rule("OPT029", "https://docs.vllm.ai/en/latest/cli/serve/")
def _variables_are_arguments_of_the_engine(recipe: Recipe) -> Iterator[Finding]:
    """A variable is a valid argument of the engine's release: the engine does not start with an unknown argument or an
    invalid value.
    """
    server = recipe.serving_settings
    known = engine_arguments.of_release(server.name, recipe.engine)
    if known is None:
        return
    given = {f"environment.{name}": (name, value) for name, value in recipe.variables.items()}
    for setting in ("reasoning_parser", "tool_call_parser"):
        if (chosen := getattr(server, setting, None)) is not None:
            given[f"server.{setting}"] = server.variable(setting), chosen
    for location, (name, value) in given.items():
        argument, engine = name.removeprefix(server.prefix).lower(), f"{server.title} {recipe.engine}"
        if not name.startswith(server.prefix) or _is_of_a_plugin(recipe, argument):
            continue
        option, found = f"--{argument.replace('_', '-')}", known.find(argument)
        if found is None:
            near = [f"{server.prefix}{other.upper()}" for other in close_matches(argument, known.rows)[:_SHOWN]]
            meant = f"did you mean {' or '.join(near)}?" if near else "leave it out"
            yield Finding(location, value, meant, f"{engine} has no argument {option}")
        elif not is_token(value):
            words = _words(recipe, argument, found.row, value)
            if (expected := found.row.expected(words, negates=found.negates)) is None:
                yield from _wrong_keys(location, value, found.row, f"{engine} does not accept", option)
                continue
            near = close_matches(value, found.row.choices)[:1]
            meant = f"did you mean {near[0]}? It takes {expected}" if near else expected
            if found.row.choices and not near:
                example = "auto" if "auto" in found.row.choices else found.row.choices[0]
                meant = f"a value such as {example}; it takes {expected}"
            yield Finding(location, value, meant, f"{engine} does not accept this value of {option}")


def _wrong_keys(
    location: str, value: str, row: engine_arguments.Argument, refuses: str, option: str
) -> Iterator[Finding]:
    """Yield the keys of JSON that the engine does not accept in an argument."""
    for wrong in row.wrong_keys(value):
        near = close_matches(wrong.given, wrong.known)[:1]
        meant = f"{wrong.path}: {wrong.expected}" if wrong.expected is not None else f"leave the key out: {wrong.path}"
        if near:
            meant = f"did you mean {value.replace(json.dumps(wrong.given), json.dumps(near[0]))}?"
        key = f"the key {wrong.path}" if wrong.expected is None else f"this value of {wrong.path}"
        yield Finding(location, value, meant, f"{refuses} {key} in {option}")


def _words(recipe: Recipe, argument: str, row: engine_arguments.Argument, value: str) -> list[str] | None:
    """Return the words that the container's entry point passes after an argument; None if it leaves it out."""
    translation = entry_points.of_release(recipe.serving_settings.name, recipe.engine)
    if translation is None:
        return [value]
    return entry_points.words(translation, argument, entry_points.written(translation, row, value))


# vLLM's arguments that name a file with user-defined parsers.
_PLUGINS = {"reasoning_parser": "reasoning_parser_plugin", "tool_call_parser": "tool_parser_plugin"}


def _is_of_a_plugin(recipe: Recipe, argument: str) -> bool:
    """Return whether a plugin might register the parser."""
    plugin = _PLUGINS.get(argument)
    return plugin is not None and engine_setting(recipe, plugin) is not None


@rule("OPT250", "https://github.com/aws/deep-learning-containers/tree/master/scripts/docker")
def _the_entry_point_passes_values_on(recipe: Recipe) -> Iterator[Finding]:
    """The container's entry point passes a value on: it turns each variable into arguments of the engine, and some
    releases cut or split values.
    """
    for name, translation, row in _translated(recipe):
        value = recipe.variables[name]
        passed = entry_points.written(translation, row, value)
        server, argument = recipe.serving_settings, _argument(recipe, name)
        if (wrong := entry_points.problem(server.name, translation, argument, row, passed)) is not None:
            reason, fix = wrong
            yield Finding(f"environment.{name}", value, fix, f"{server.title} {recipe.engine}: {reason}")
    yield from _lines_that_are_variables(recipe)


def _lines_that_are_variables(recipe: Recipe) -> Iterator[Finding]:
    """Yield the other variables whose later lines ``env | grep '^SM_VLLM_'`` finds as well."""
    server = recipe.serving_settings
    if entry_points.of_release(server.name, recipe.engine) != "lines":
        return
    for name, value in recipe.variables.items():
        if is_token(value) or name.startswith(server.prefix):
            continue
        for line in value.split("\n")[1:]:
            if line.startswith(server.prefix):
                reason = f"the container's entry point reads a line that begins with {server.prefix} as a variable"
                fix = f"the value without this line; as a variable of its own, {line.partition('=')[0]}"
                yield Finding(f"environment.{name}", value, fix, f"{server.title} {recipe.engine}: {reason}")


@rule("OPT251", "https://github.com/aws/deep-learning-containers/tree/master/scripts/docker", advisory=True)
def _several_values_are_an_array(recipe: Recipe) -> Iterator[Finding]:
    """Several values are a JSON array: the container's entry point passes text with spaces as one value."""
    for name, translation, row in _translated(recipe):
        value = recipe.variables[name].strip()
        if row is not None and row.many and len(value.split()) > 1 and value[0] not in "[{":
            several = "Write several values as a JSON array"
            one = f"{recipe.serving_settings.title} {recipe.engine} takes one value in a variable"
            yield Finding(f"environment.{name}", value, several if translation == "words" else one)


def _translated(recipe: Recipe) -> Iterator[tuple[str, entry_points.Translation, engine_arguments.Argument | None]]:
    """Yield the variables that an entry point turns into arguments, with the arguments if they are known."""
    server = recipe.serving_settings
    translation = entry_points.of_release(server.name, recipe.engine)
    known = engine_arguments.of_release(server.name, recipe.engine)
    if translation is None:
        return
    for name, value in recipe.variables.items():
        if name.startswith(server.prefix) and not is_token(value):
            found = known.find(_argument(recipe, name)) if known is not None else None
            yield name, translation, found.row if found is not None else None


def _argument(recipe: Recipe, variable: str) -> str:
    return variable.removeprefix(recipe.serving_settings.prefix).lower()


@rule("OPT058", "https://github.com/sgl-project/sglang/blob/v0.5.20/python/sglang/srt/entrypoints/http_server.py")
def _the_server_loads_adapters(recipe: Recipe) -> Iterator[Finding]:
    """The server loads adapters: SageMaker loads adapters through the container's /adapters API, which SGLang lacks."""
    adapters = getattr(recipe.server, "adapters", None)
    if isinstance(recipe.server, ServerSettings) and adapters is not None and not recipe.server.loads_adapters:
        fix = "Server.vllm(adapters=...) or Server.lmi(adapters=...)"
        yield Finding("server.adapters", f"{adapters.max_loaded} adapters", fix)


@rule("OPT059", "https://github.com/sgl-project/sglang/tree/v0.5.20/python/sglang/srt/layers/quantization")
def _the_server_has_the_kernels(recipe: Recipe) -> Iterator[Finding]:
    """The server has kernels for the checkpoint: SGLang's kernels for llm-compressor's NVFP4 need a Blackwell GPU."""
    capability = recipe.instance.compute_capability if recipe.instance is not None else None
    if recipe.serving_settings.name != SglangServer.name or capability is None or capability >= _BLACKWELL:
        return
    for location, technique in recipe.techniques_of(Quantization.nvfp4):
        if technique.ready_made is None:
            yield Finding(location, technique.name, "Server.vllm(), or an instance type of the g7e or p6-b200 family")


@rule("OPT031", f"{API}ContainerDefinition.html")
def _environment_is_within_limits(recipe: Recipe) -> Iterator[Finding]:
    """The container's environment is within limits: a container has at most 100 variables of 1024 characters each."""
    environment = recipe.environment
    if environment is None:
        return
    if not isinstance(environment, Mapping):
        reason = "the environment is a mapping of names to values"
        yield Finding("environment", environment, '{"NAME": "value"}', reason)
        return
    if len(environment) > _MOST_MODEL_VARIABLES:
        yield Finding(
            "environment",
            f"{len(environment)} variables",
            f"at most {_MOST_MODEL_VARIABLES} variables; the library adds {_ADDED}",
        )
    for name, value in environment.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield Finding("environment", name, "a name such as SM_VLLM_MAX_MODEL_LEN", "this is not a valid name")
        elif not isinstance(value, str):
            fix = f"a string: {str(value)[:64]!r}" if value is not None else "a string, or leave it out"
            yield Finding(f"environment.{name}", value, fix, "the value of a variable is a string")
        elif not is_token(value) and len(value) > _LONGEST_MODEL_VALUE:
            fix = f"at most {_LONGEST_MODEL_VALUE} characters"
            yield Finding(f"environment.{name}", f"{len(value)} characters", fix)


@rule("OPT032", f"{API}ModelQuantizationConfig.html")
def _job_environment_is_within_limits(recipe: Recipe) -> Iterator[Finding]:
    """A job's environment is within limits: a variable of an optimization job has at most 256 characters."""
    for location, technique in recipe.located_techniques:
        for name, value in technique.job_environment().items():
            if len(value) > _LONGEST_JOB_VALUE:
                longest = max(technique.model_dump().items(), key=lambda item: len(str(item[1])))[0]
                fix = f"a shorter value: {name} has at most {_LONGEST_JOB_VALUE} characters"
                yield Finding(f"{location}.{longest}", f"{len(value)} characters", fix)


@rule("OPT033", f"{_LMI}deployment_guide/configurations.html")
def _environment_agrees_with_the_artifact(recipe: Recipe) -> Iterator[Finding]:
    """The environment agrees with the plan: the library planned the artifact and memory for another tensor parallel
    degree.
    """
    variable, degree = recipe.variable("tensor_parallel_size"), recipe.tensor_parallel_degree
    value = recipe.variables.get(variable)
    if value is not None and degree is not None and value != str(degree):
        fix = "leave the variable out, and set tensor_parallel_degree on the technique"
        yield Finding(f"environment.{variable}", value, fix)


@rule("OPT273", f"{_LMI}deployment_guide/configurations.html")
def _environment_agrees_with_the_server(recipe: Recipe) -> Iterator[Finding]:
    """The environment agrees with the server's settings: the container takes the variable, and ignores the setting."""
    server = recipe.server
    if not isinstance(server, ServerSettings):
        return
    given = {name: _meaning(recipe, name, text) for name, text in recipe.variables.items() if not is_token(text)}
    for setting in server.model_fields_set - {"container_version"}:
        value = getattr(server, setting)
        own = _meanings(recipe, _of_setting(server, setting, value))
        opposite = _meanings(recipe, _of_setting(server, setting, not value)) if isinstance(value, bool) else []
        for name, (argument, meant) in given.items():
            differs = any(argument == each and meant != own_meant for each, own_meant in own)
            if differs or (argument, meant) in opposite:
                shown = "set" if isinstance(value, Settings) else repr(value)
                fix = f"leave the variable out, or leave {setting} out of the server's settings"
                reason = f"server.{setting} is {shown}, and the container takes the variable instead"
                yield Finding(f"environment.{name}", recipe.variables[name], fix, reason)


def _of_setting(server: ServerSettings, setting: str, value: object) -> dict[str, str]:
    """Return the container's variables for one setting of the server, without defaults of settings in it."""
    arguments = type(server).model_construct(None, **{setting: value}).arguments()
    if isinstance(value, Adapters):
        chosen = {"max_loras": "max_loaded", "max_cpu_loras": "max_cached", "max_lora_rank": "max_rank"}
        given = value.model_fields_set
        arguments = {name: each for name, each in arguments.items() if chosen.get(name, "") in {"", *given}}
    variables = server.environment(arguments)
    return {name: text for name, text in variables.items() if server.fixed.get(name) != text}


def _meanings(recipe: Recipe, variables: Mapping[str, str]) -> list[tuple[str, object]]:
    return [_meaning(recipe, name, text) for name, text in variables.items()]


def _meaning(recipe: Recipe, variable: str, text: str) -> tuple[str, object]:
    """Return the engine's argument that a variable sets, under whichever of its names, and the value as it is read."""
    server = recipe.serving_settings
    lowered = text.strip().lower()
    if not server.prefix or not variable.startswith(server.prefix):
        # vLLM's envs.py takes 1 and any case of true for a switch.
        return variable, {"1": True, "true": True, "0": False, "false": False}.get(lowered, text)
    found = arguments_of_engine(recipe).find(_argument(recipe, variable))
    if found is None:
        return server.argument(variable), {"true": True, "false": False}.get(lowered, lowered)
    if found.negates or found.row.takes == "switch":
        # The entry points leave an argument out whose value is "false".
        return found.name, (lowered != "false") is not found.negates
    number = found.row.whole(text)
    return found.name, number if number is not None else text.strip()


@rule("OPT036", f"{_LMI}deployment_guide/configurations.html", advisory=True)
def _environment_leaves_techniques_as_they_are(recipe: Recipe) -> Iterator[Finding]:
    """The environment does not override techniques: this variable overrides a value that the technique sets."""
    for _, technique in recipe.located_techniques:
        own_variables = recipe.serving_settings.environment(technique.engine_arguments())
        for name, own in {**own_variables, **technique.serving_environment()}.items():
            if recipe.variables.get(name, own) != own:
                fix = f"Leave out the variable or {technique.display_name()}(...)"
                yield Finding(f"environment.{name}", recipe.variables[name], fix)
