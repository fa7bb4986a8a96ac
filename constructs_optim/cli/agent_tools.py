"""The functions of plan, recommend, explain and catalog as tools of coding agents, by the Model Context Protocol.

They return what the commands print with ``--format json``, write nothing, and call AWS only where an argument says so.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from constructs_optim.explanation.jobs import Prices
from constructs_optim.explanation.report import Report
from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim.recipe.errors import did_you_mean
from constructs_optim.recipe.objectives import CONFIDENCE, Objectives, Quality
from constructs_optim.recipe.report import PlanReport, catalog_report, plan_report, refusal_report

from .aws import DEFAULT_REGION, EXPLAINED, Account, bucket_name, sentence
from .endpoint_file import is_endpoint_file
from .explain import DEPLOYED, explained
from .recipes.catalog import Part, catalog_rows
from .recipes.model_of_text import MODEL_HELP
from .recipes.plan import plan_reports, planned, planned_of_file
from .recipes.recommend import RecommendationReport, any_model, recommended

_INSTRUCTIONS = (
    "AWS CDK constructs for optimized LLM endpoints on Amazon SageMaker. Use `plan` before you write or change an "
    "OptimizedEndpoint: it says what a recipe comes to, or which rules it breaks, why, and what works. Use `recommend` "
    "to choose a recipe and instances for latencies, requests and a price. After `cdk synth`, use `explain` on cdk.out "
    "before a person deploys. A refusal has all violations at once: correct them all. Never set accept_eula unless a "
    "person has said that they accept the model's licence."
)
_Techniques = Annotated[
    list[str],
    Field(
        description="kind=variant[,setting=value], such as quantization=awq,group_size=64. `catalog` has no list of "
        "them: a wrong one is refused with those that exist."
    ),
]
_ModelName = Annotated[str, Field(description=f"{MODEL_HELP}.")]
_ModelVersion = Annotated[
    str | None, Field(description="Of a JumpStart model, or the commit of one of Hugging Face. Default: the newest.")
]
_Region = Annotated[str | None, Field(description=f"Default: the profile's, or {DEFAULT_REGION}.")]
_Instances = Annotated[
    dict[str, Annotated[float, Field(gt=0)]], Field(description='US dollars an hour by type: {"ml.g5.12xlarge": 7.09}')
]
_FromAws = Annotated[bool, Field(description="Call AWS, with the credentials of the environment.")]
_Profile = Annotated[str | None, Field(description="The profile of ~/.aws/config, for calls to AWS.")]


class RuleReport(BaseModel):
    """A rule, as ``constructs-optim catalog rules`` has it; an advisory one warns, the others refuse."""

    id: str
    title: str
    reason: str
    link: str
    advisory: bool


def plan(
    instance_type: Annotated[str, Field(description="Of the endpoint, such as ml.g5.12xlarge.")],
    model: _ModelName | None = None,
    model_s3: Annotated[str | None, Field(description="An S3 prefix of model files, instead of model.")] = None,
    model_version: _ModelVersion = None,
    techniques: _Techniques = [],  # noqa: B006 - the schema shows it, and nothing changes it
    server: Annotated[str | None, Field(description="name[,setting=value], such as vllm,context_length=8192.")] = None,
    region: Annotated[str, Field(description="Of the endpoint; its container image is named by it.")] = DEFAULT_REGION,
    token_secret_arn: Annotated[str | None, Field(description="The secret with a token of Hugging Face.")] = None,
    accept_eula: Annotated[bool, Field(description="A person has read and accepts the licence.")] = False,
) -> PlanReport:
    """What a recipe comes to: its jobs and artifact keys, container, memory and advice. Calls nothing."""
    return plan_report(
        planned(
            instance_type,
            techniques,
            model=model,
            model_version=model_version,
            model_s3=model_s3,
            token_secret_arn=token_secret_arn,
            server=server,
            region=region,
            accept_eula=accept_eula,
        )
    )


def plan_file(
    file: Annotated[str, Field(description="A file that declares endpoints: endpoint.yaml.")],
    region: Annotated[str, Field(description="Of a file that names none.")] = DEFAULT_REGION,
) -> dict[str, dict[str, PlanReport]]:
    """The same of each endpoint, and of each Endpoint/Component, that a file declares; by pool. Calls nothing."""
    return plan_reports(planned_of_file(_in_folder(file), region))


def _in_folder(file: str) -> str:
    """A file of the server's folder that declares endpoints: what is wrong in a file is shown, and so is no other."""
    if not is_endpoint_file(file) or not Path(file).resolve().is_relative_to(Path.cwd()):
        raise ToolError(f"{file} is no file of YAML or JSON in {Path.cwd()}, the server's --directory")
    return file


def recommend(
    model: _ModelName,
    input_tokens: Annotated[int, Field(description="Of a prompt, on average.")],
    output_tokens: Annotated[int, Field(description="Of a response, on average.")],
    requests_per_second: Annotated[float | None, Field(description="Default: what one instance takes.")] = None,
    time_to_first_token: Annotated[str | None, Field(description="The longest mean, such as 800ms or 1s.")] = None,
    inter_token_latency: Annotated[str | None, Field(description="The longest mean, such as 40ms.")] = None,
    max_price_per_hour: Annotated[float | None, Field(description="Of all instances, in US dollars.")] = None,
    quality: Annotated[Quality, Field(description="near-lossless allows 8 bits, any also 4.")] = "near-lossless",
    confidence: Annotated[float, Field(description="The probability to meet all of it with.")] = CONFIDENCE,
    model_version: _ModelVersion = None,
    instance_types: Annotated[list[str], Field(description="To choose from; empty for all.")] = [],  # noqa: B006
    discount: Annotated[float, Field(description="Of a savings plan, as a share.")] = 0.0,
    prices: Annotated[_Instances | None, Field(description="Instead of AWS's; without any, none is known.")] = None,
    store: Annotated[str | None, Field(description="The artifact store's bucket, which from_aws reads.")] = None,
    from_aws: _FromAws = False,
    region: _Region = None,
    profile: _Profile = None,
    limit: Annotated[int, Field(ge=1, description="The most candidates to return.")] = 3,
    left_out: Annotated[bool, Field(description="Return excluded recipes as well, with the rules.")] = False,
) -> RecommendationReport:
    """Recipes and instances for objectives, the best first, with forecasts; from_aws reads prices and benchmarks."""
    if store is not None and not from_aws:
        raise ToolError("store is read from AWS: set from_aws, or leave store out")
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
    notes = [*report.notes, *([found.shortfall] if found.shortfall is not None else [])]
    return report.model_copy(update={"notes": notes, "left_out": report.left_out if left_out else ()})


def explain(
    assembly: Annotated[str, Field(description="The folder that `cdk synth` wrote, or endpoint.yaml.")] = "cdk.out",
    against: Annotated[
        str | None, Field(description=f"A folder to compare with, or `{DEPLOYED}`, which calls CloudFormation.")
    ] = None,
    stacks: Annotated[list[str], Field(description="Only these, such as Prod/*; empty for all.")] = [],  # noqa: B006
    store: Annotated[
        str | None, Field(description=f"The bucket of the artifacts, or `{DEPLOYED}`: both call S3.")
    ] = None,
    prices: Annotated[
        _Instances | Literal["aws"] | None, Field(description="Or `aws`, which calls the AWS Price List.")
    ] = None,
    region: _Region = None,
    profile: _Profile = None,
) -> Report:
    """What a deployment does to each endpoint: jobs, replacements, updates, costs, permissions, refusals of AWS."""
    if is_endpoint_file(assembly):
        _in_folder(assembly)
    if against is not None and is_endpoint_file(against):
        _in_folder(against)
    return explained(
        Path(assembly),
        against=against,
        store=store if store == DEPLOYED else bucket_name(store),
        prices=None if prices == "aws" else Prices(prices or {}, source="prices of the call" if prices else ""),
        stack=stacks,
        region=region,
        profile=profile,
    )


def rules(
    ids: Annotated[list[str], Field(description="Such as OPT023; empty for all.")] = [],  # noqa: B006
) -> list[RuleReport]:
    """The rules that recipes are checked against, with reasons and sources."""
    known = {row["id"]: RuleReport(**row) for row in catalog_report("rules")}
    for unknown in [each for each in ids if each not in known]:
        raise ToolError(f"there is no rule {unknown}: {did_you_mean(unknown, known, 'call it without ids for all')}")
    return [known[each] for each in ids or known]


def catalog(
    part: Annotated[Part, Field(description="What to list.")],
    family: Annotated[str | None, Field(description="Only models or instance types of it: Llama or g5.")] = None,
    supports: Annotated[list[str], Field(description="Only models that support all of it, such as fp8.")] = [],  # noqa: B006
) -> list[dict[str, Any]]:
    """The models, instance types, container images, metrics or rules that recipes are planned with."""
    return catalog_rows(part, family, supports)


def _with_refusals(tool: Callable[..., Any]) -> Callable[..., Any]:
    """A tool whose refusals are results: the violations of rules as data, other mistakes as a sentence."""

    @functools.wraps(tool)
    def refusing(**arguments: Any) -> Any:
        try:
            return tool(**arguments)
        except RecipeError as error:
            refusal = refusal_report(error.violations)
            text = TextContent(type="text", text=json.dumps(refusal))
            return CallToolResult(content=[text], structured_content=refusal, is_error=True)
        except typer.BadParameter as error:
            raise ToolError(_with_arguments(tool, error.message)) from None
        except EXPLAINED as error:
            raise ToolError(sentence(error)) from None

    return refusing


def _with_arguments(tool: Callable[..., Any], message: str) -> str:
    """A message of a command, with the tool's arguments in place of the command's options."""
    arguments = inspect.signature(tool).parameters

    def argument(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        return next((each for each in arguments if each.startswith(name)), option[0])

    return re.sub(r"--([a-z][a-z0-9-]*)", argument, message)


def _declared(tool: Callable[..., Any], *, calls_aws: bool) -> Tool:
    annotations = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=calls_aws)
    declared = Tool.from_function(_with_refusals(tool), annotations=annotations)
    # The SDK drops arguments that a tool has not: a misspelt `techniques` would plan another recipe.
    arguments = declared.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    declared.parameters = arguments.model_json_schema(by_alias=True)
    return declared


def serve() -> None:
    """Serve the tools on standard input and output, until the client closes them."""
    offline, asked_for = (plan, plan_file, rules, catalog), (recommend, explain)
    tools = [_declared(tool, calls_aws=tool in asked_for) for tool in (*offline, *asked_for)]
    release = metadata.version("constructs-optim")
    MCPServer("constructs-optim", instructions=_INSTRUCTIONS, version=release, tools=tools, log_level="WARNING").run()
