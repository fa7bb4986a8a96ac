"""Plan, recommend, explain, and catalog as tools for coding agents, through the Model Context Protocol.

They return the commands' ``--json`` output, write nothing, and call AWS only if an argument says so.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal, TypeVar

import typer
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from constructs_optim.explanation.jobs import Prices
from constructs_optim.explanation.report import Report
from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim.recipe.errors import close_matches, shown
from constructs_optim.recipe.forms import meant_name
from constructs_optim.recipe.objectives import CONFIDENCE, Objectives, Quality
from constructs_optim.recipe.report import PlanReport, catalog_report, plan_report, refusal_report
from constructs_optim.recipe.settings import expected
from constructs_optim.recipe.tasks import TaskName

from .aws import EXPLAINED, REGION_WITHOUT_CALLS, Account, bucket_name, sentence
from .endpoint_file import is_endpoint_file
from .explain import DEPLOYED, explained
from .recipes.catalog import Part, catalog_rows
from .recipes.model_of_text import MODEL_HELP, VERSION_HELP
from .recipes.plan import plan_reports, planned, planned_of_file
from .recipes.recommend import RecommendationReport, any_model, recommended

_INSTRUCTIONS = (
    "AWS CDK constructs for optimized LLM endpoints on Amazon SageMaker. Use `plan` before you write or change an "
    "OptimizedEndpoint: it returns the jobs, container, and memory of a recipe, or the rules that the recipe breaks, "
    "with reasons and fixes. Use `recommend` to choose a recipe and instances for latencies, a request rate, and a "
    "price. After `cdk synth`, use `explain` on cdk.out before a person deploys. A refusal contains all violations: "
    "correct them all. Its fixes are for the constructs in Python: Model.s3(...) is the argument model_s3. Never set "
    "accept_eula unless a person has said that they accept the model's license."
)
# The SDK runs each call in a thread of its own, and one kernel of jsii, which is not thread-safe, serves the process.
_ONE_CALL = Lock()
_Techniques = Annotated[
    list[str],
    Field(
        description="kind=variant[,setting=value], such as quantization=awq,group_size=64. A refusal of an unknown "
        "technique lists the known ones."
    ),
]
_ModelName = Annotated[str, Field(description=f"{MODEL_HELP}.")]
_ModelVersion = Annotated[str | None, Field(description=VERSION_HELP)]
_Region = Annotated[str | None, Field(description=f"AWS Region. {REGION_WITHOUT_CALLS}")]
_Instances = Annotated[
    dict[str, Annotated[float, Field(gt=0)]],
    Field(description='US dollars an hour by instance type: {"ml.g5.12xlarge": 7.09}'),
]
_FromAws = Annotated[bool, Field(description="Call AWS, with the credentials of the environment.")]
_Profile = Annotated[str | None, Field(description="Profile in ~/.aws/config, for calls to AWS.")]


_Row = TypeVar("_Row")
_LITERAL = re.compile(r"'([^']+)'")
_WORD = re.compile(r"[a-z]+|[0-9]+[a-z]*")
# The column that names a row of each part of the catalog.
_NAMES: dict[Part, str] = {"models": "model_id", "instances": "name", "images": "tag", "metrics": "name", "rules": "id"}


class RuleReport(BaseModel):
    """A rule of ``constructs-optim catalog rules``. Advisory rules warn; the others refuse a recipe."""

    id: str
    title: str
    reason: str
    link: str
    advisory: bool


def plan(
    instance_type: Annotated[str, Field(description="Instance type of the endpoint, such as ml.g5.12xlarge.")],
    model: _ModelName | None = None,
    model_s3: Annotated[str | None, Field(description="S3 prefix of model files, in place of model.")] = None,
    model_version: _ModelVersion = None,
    techniques: _Techniques = [],  # noqa: B006 - the schema shows it, and nothing changes it
    server: Annotated[str | None, Field(description="name[,setting=value], such as vllm,context_length=8192.")] = None,
    region: _Region = None,
    token_secret_arn: Annotated[str | None, Field(description="Secret with a Hugging Face token.")] = None,
    accept_eula: Annotated[bool, Field(description="A person has read and accepts the license.")] = False,
    task: Annotated[TaskName | None, Field(description="What the model does, if not what it is for.")] = None,
) -> PlanReport:
    """Preview a recipe: its jobs, artifact keys, container, memory, and advice. Makes no network call."""
    return plan_report(
        planned(
            instance_type,
            techniques,
            model=model,
            model_version=model_version,
            model_s3=model_s3,
            task=task,
            token_secret_arn=token_secret_arn,
            server=server,
            region=region,
            accept_eula=accept_eula,
        )
    )


def plan_file(
    file: Annotated[str, Field(description="Endpoint file, such as endpoint.yaml.")],
    region: Annotated[
        str | None, Field(description=f"AWS Region, if the file declares none. {REGION_WITHOUT_CALLS}")
    ] = None,
) -> dict[str, dict[str, PlanReport]]:
    """Preview the recipes of an endpoint file, by endpoint or component and instance type. Makes no network call."""
    if not is_endpoint_file(_in_folder(file)):
        raise ToolError(f"{shown(file)} is not a YAML or JSON file: name an endpoint file, such as endpoint.yaml")
    return plan_reports(planned_of_file(file, region))


def _in_folder(path: str) -> Path:
    """Return a path if it is in the server's folder: results describe files, and errors quote them."""
    try:
        is_inside = Path(path).resolve().is_relative_to(Path.cwd())
    except ValueError:
        is_inside = False
    if not is_inside:
        raise ToolError(f"{shown(path)} is not in {Path.cwd()}, the server's --directory")
    return Path(path)


def recommend(
    model: _ModelName,
    input_tokens: Annotated[int, Field(description="Mean tokens of a prompt.")],
    output_tokens: Annotated[int, Field(description="Mean tokens of a response.")],
    requests_per_second: Annotated[float | None, Field(description="Default: as many as one instance serves.")] = None,
    time_to_first_token: Annotated[str | None, Field(description="Maximum mean, such as 800ms or 1s.")] = None,
    inter_token_latency: Annotated[str | None, Field(description="Maximum mean, such as 40ms.")] = None,
    max_price_per_hour: Annotated[
        float | None, Field(description="Maximum US dollars an hour for all instances.")
    ] = None,
    quality: Annotated[Quality, Field(description="near-lossless allows 8 bits; any also allows 4.")] = "near-lossless",
    confidence: Annotated[float, Field(description="Minimum probability of meeting the objectives.")] = CONFIDENCE,
    model_version: _ModelVersion = None,
    instance_types: Annotated[list[str], Field(description="Instance types to choose from. Empty: all.")] = [],  # noqa: B006
    discount: Annotated[float, Field(description="Discount of a savings plan, such as 0.3.")] = 0.0,
    prices: Annotated[_Instances | None, Field(description="Prices to use in place of the AWS Price List.")] = None,
    store: Annotated[str | None, Field(description="Bucket of the artifact store. Needs from_aws.")] = None,
    from_aws: _FromAws = False,
    region: _Region = None,
    profile: _Profile = None,
    limit: Annotated[int, Field(ge=1, description="Maximum number of candidates, and of excluded recipes.")] = 3,
    left_out: Annotated[bool, Field(description="Also return excluded recipes, with the rules.")] = False,
) -> RecommendationReport:
    """Rank recipes and instances for objectives, with forecasts. from_aws reads prices and benchmarks."""
    if not from_aws:
        _refuse_unused({"store": store, "profile": profile}, "set from_aws too")
    objectives = Objectives(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        requests_per_second=requests_per_second,
        time_to_first_token=time_to_first_token,  # pyright: ignore[reportArgumentType] - it takes text
        inter_token_latency=inter_token_latency,  # pyright: ignore[reportArgumentType]
        max_price_per_hour=max_price_per_hour,
        quality=quality,
        confidence=confidence,
    )
    found = recommended(
        any_model(model, model_version),
        objectives,
        region=region,
        instance_types=instance_types,
        discount=discount,
        store=bucket_name(store),
        prices=prices,
        account=Account(profile, region) if from_aws else None,
        file=Path(LOCK_FILE),
    )
    report = found.report(limit)
    notes = [*report.notes, *_unknown_types(prices), *([found.shortfall] if found.shortfall is not None else [])]
    if left_out and len(report.left_out) > limit:
        notes.append(f"{limit} of {len(report.left_out)} excluded recipes: a higher limit returns more.")
    return report.model_copy(update={"notes": notes, "left_out": report.left_out[:limit] if left_out else ()})


def _refuse_unused(arguments: Mapping[str, str | None], fix: str) -> None:
    if names := " and ".join(name for name, value in arguments.items() if value is not None):
        raise ToolError(f"{names}: {fix}, because only calls to AWS need this, or leave out {names}")


def explain(
    file: Annotated[str, Field(description="Endpoint file, or directory that `cdk synth` wrote.")] = "cdk.out",
    against: Annotated[
        str | None,
        Field(description=f"Directory or endpoint file to compare with, or `{DEPLOYED}`, which calls CloudFormation."),
    ] = None,
    stacks: Annotated[list[str], Field(description="Only these stacks, such as Prod/*. Empty: all.")] = [],  # noqa: B006
    store: Annotated[
        str | None, Field(description=f"Bucket of the artifact store, or `{DEPLOYED}`. Both call S3.")
    ] = None,
    prices: Annotated[
        _Instances | Literal["aws"] | None, Field(description="Prices, or `aws`, which calls the AWS Price List.")
    ] = None,
    region: _Region = None,
    profile: _Profile = None,
) -> Report:
    """Explain what a deployment does to each endpoint: jobs, replacements, updates, costs, and permissions."""
    if against not in (None, DEPLOYED) and not _in_folder(against).exists() and close_matches(against, [DEPLOYED]):
        raise ToolError(f"there is no {shown(against)}: did you mean {DEPLOYED}?")
    if against != DEPLOYED and store is None and prices != "aws":
        needed = f"set against or store to {DEPLOYED}, or prices to aws"
        _refuse_unused({"region": region, "profile": profile}, needed)
    report = explained(
        _in_folder(file),
        against=against,
        store=store if store == DEPLOYED else bucket_name(store),
        prices=None if prices == "aws" else Prices(prices or {}, source="prices of the call" if prices else ""),
        stack=stacks,
        region=region,
        profile=profile,
    )
    return report.model_copy(update={"notes": (*report.notes, *_unknown_types(prices))})


def _unknown_types(prices: Mapping[str, float] | str | None) -> list[str]:
    """Return a note for each price of an instance type that looks misspelled."""
    types = [*instances.by_name(), *instances.other_names()]
    given = [each for each in prices if each not in types] if isinstance(prices, Mapping) else []
    return [f"prices has {each}: did you mean {near[0]}?" for each in given if (near := close_matches(each, types))]


def rules(
    ids: Annotated[list[str], Field(description="Rule IDs, such as OPT023. Empty: all.")] = [],  # noqa: B006
) -> list[RuleReport]:
    """List the rules that recipes are checked against, with reasons and sources."""
    return _named({row["id"]: RuleReport(**row) for row in catalog_report("rules")}, ids, argument="ids")


def _named(rows: Mapping[str, _Row], names: Iterable[str], argument: str) -> list[_Row]:
    """Return the rows with these names, in upper or lower case, or all of them."""
    spelled = {name.lower(): name for name in rows}
    unknown = [each for each in names if each.lower() not in spelled]
    if unknown:
        near = {each: [spelled[name] for name in _similar(each.lower(), spelled)] for each in unknown}
        otherwise = f"a call without {argument} lists all"
        hints = [f"did you mean {' or '.join(similar)}?" if similar else otherwise for similar in near.values()]
        raise ToolError("; ".join(f"no {shown(each)}: {hint}" for each, hint in zip(near, hints, strict=True)))
    return [rows[spelled[each.lower()]] for each in names] or list(rows.values())


def _similar(name: str, known: Collection[str]) -> list[str]:
    """Return up to four known names that are similar to a name, or else contain most of its words or similar ones."""
    if near := close_matches(name, known):
        return near
    words = {each: set(_WORD.findall(each)) for each in known}
    vocabulary = {word for of_name in words.values() for word in of_name}
    given = {word for each in _WORD.findall(name) for word in close_matches(each, vocabulary)[:1]}
    most = max((len(given & of_name) for of_name in words.values()), default=0)
    return [each for each in known if most and len(given & words[each]) == most][:4]


def catalog(
    part: Annotated[Part, Field(description="What to list.")],
    family: Annotated[str | None, Field(description="Only this family of models or instance types: Llama, g5.")] = None,
    supports: Annotated[list[str], Field(description="Only models that support all of these, such as fp8.")] = [],  # noqa: B006
    names: Annotated[
        list[str], Field(description="Only these model IDs, instance types, image tags, metrics, or rule IDs.")
    ] = [],  # noqa: B006
) -> list[dict[str, Any]]:
    """List the models, instance types, container images, metrics, or rules that the planner knows.

    A part has up to 60,000 characters: use the filters.
    """
    return _named({row[_NAMES[part]]: row for row in catalog_rows(part, family, supports)}, names, argument="names")


class _Tool(Tool):
    """A tool that refuses arguments in a sentence, and whose text is compact: structured content repeats it."""

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Run the tool."""
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(_refused(error, self.fn_metadata.arg_model.model_fields)) from None
        try:
            result = await super().run(arguments, context, convert_result)
        except ToolError as error:
            # The SDK puts the tool's name before the messages of tools, but not before that of unknown arguments.
            raise type(error)(str(error).removeprefix(f"Error executing tool {self.name}: ")) from error.__cause__
        if isinstance(result, CallToolResult) and result.structured_content is not None:
            text = json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)
            result = result.model_copy(update={"content": [TextContent(type="text", text=text)]})
        return result


def _refused(error: ValidationError, names: Iterable[str]) -> str:
    """Return what is wrong with a call's arguments."""
    fixes: dict[str, list[str]] = {}
    # pydantic reports an argument of several types once per type.
    for problem in error.errors(include_url=False):
        name, value = ".".join(str(part) for part in problem["loc"] if "[" not in str(part)), problem["input"]
        match problem["type"]:
            case "extra_forbidden":
                fixes[f"there is no argument {name}"] = [meant_name(names, name)]
            case "missing":
                fixes[f"the argument {name} is missing"] = []
            case "literal_error" if near := close_matches(value, _LITERAL.findall(expected(problem))):
                # The value is none of the other types, either.
                fixes[f"{name} is {shown(value)}"] = [f"did you mean {' or '.join(near)}?"]
            case _:
                fixes.setdefault(f"{name} is {shown(value)}", []).append(f"it takes {expected(problem)}")
    return "; ".join(": ".join([mistake, *([" or ".join(each)] if each else [])]) for mistake, each in fixes.items())


def _with_refusals(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tool whose refusals are results: broken rules as data, other mistakes as a sentence."""

    @functools.wraps(tool)
    def refusing(**arguments: Any) -> Any:
        try:
            with _ONE_CALL:
                result = tool(**arguments)
        except RecipeError as error:
            return CallToolResult(content=[], structured_content=refusal_report(error), is_error=True)
        except typer.BadParameter as error:
            raise ToolError(_with_arguments(tool, error.message)) from None
        except EXPLAINED as error:
            raise ToolError(_with_arguments(tool, sentence(error))) from None
        except ToolError:
            raise
        except Exception as error:
            # Also logged, with its traceback.
            raise UnexpectedToolError(f"unexpected {type(error).__name__}: {error}") from error
        if notes := getattr(result, "notes", ()):
            result = result.model_copy(update={"notes": type(notes)(_with_arguments(tool, each) for each in notes)})
        return result

    return refusing


def _with_arguments(tool: Callable[..., Any], message: str) -> str:
    """Return a command's message with the tool's arguments in place of the command's options, except in commands."""
    arguments = inspect.signature(tool).parameters

    def argument(option: re.Match[str]) -> str:
        name = (option[1] or option[0]).replace("-", "_")
        return next((f"`{each}`" for each in arguments if each.startswith(name)), option[0])

    return re.sub(r"`[^`]*`|--([a-z][a-z0-9-]*)(?: FILE)?", argument, message)


def _declared(tool: Callable[..., Any], *, calls_aws: bool) -> Tool:
    annotations = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=calls_aws)
    declared = _Tool.from_function(_with_refusals(tool), annotations=annotations)
    # The SDK drops unknown arguments: with a misspelled `techniques`, a tool would plan another recipe.
    arguments = declared.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    declared.parameters = arguments.model_json_schema(by_alias=True)
    return declared


def declared_tools() -> list[Tool]:
    """Return the tools, those that can call AWS last."""
    offline, asked_for = (plan, plan_file, rules, catalog), (recommend, explain)
    return [_declared(tool, calls_aws=tool in asked_for) for tool in (*offline, *asked_for)]


def serve() -> None:
    """Serve the tools on standard input and output, until the client closes them."""
    release = metadata.version("constructs-optim")
    MCPServer(
        "constructs-optim", instructions=_INSTRUCTIONS, version=release, tools=declared_tools(), log_level="WARNING"
    ).run()
