"""Logs, metrics and traces of the handlers: the Powertools layer and its settings.

The layer is AWS's own, in an account that differs by region. A stack with a region gets it as plain text; an
environment-agnostic stack gets a CloudFormation mapping, so that one template can be deployed anywhere.
"""

from __future__ import annotations

import re

from constructs import Construct

from constructs_optim.recipe.catalog import layers

from .container_registry import account_of_region, sub_account
from .permissions import Arn, sub
from .stack_context import StackContext

LAYER_CONTEXT = "constructs-optim:powertools-layer-arn"
"""Context key: the ARN of a team's own copy of the layer."""
LOG_LEVEL_CONTEXT = "constructs-optim:log-level"
"""Context key: the least level that the handlers log. Default: INFO."""
NAMESPACE = "ConstructsOptim"
"""Of the handlers' metrics in CloudWatch."""

_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LAYER_ARN = re.compile(
    r"arn:(?:aws[a-z-]*|\$\{AWS::Partition\}):lambda:(?:[a-z0-9-]+|\$\{AWS::Region\}):(?:\d{12}|\$\{AWS::AccountId\})"
    r":layer:[A-Za-z0-9_-]{1,140}:[1-9]\d*"
)
_MAPPING_ID = "PowertoolsLayers"


def telemetry_variables(scope: Construct, entry_point: str) -> dict[str, str]:
    """The environment variables of a function whose code is ``entry_point`` (``runtime.handlers.<module>.<function>``).

    Raises:
        ValueError: for a context key that does not hold what it should.
    """
    return {
        "POWERTOOLS_LOG_LEVEL": _log_level(scope),
        "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
        # The metrics' only dimension: one value a handler, however many stacks there are.
        "POWERTOOLS_SERVICE_NAME": entry_point.split(".")[-2],
    }


def powertools_layer(scope: Construct) -> Arn:
    """The ARN of the Powertools layer's version for ``scope``'s region.

    Raises:
        ValueError: when the region has none, or the context names no layer version.
    """
    own = scope.node.try_get_context(LAYER_CONTEXT)
    if own is not None:
        return _own_layer(own)
    layer, stack = layers.powertools(), StackContext.of(scope).stack
    account = account_of_region(stack, _MAPPING_ID, layer.accounts)
    if account is None:
        raise ValueError(
            f"{stack.node.path}: AWS publishes no layer {layer.name} in {stack.region}, and the handlers need it for "
            f"their logs, metrics and traces. Publish a copy there (Powertools {layer.release}) and name its ARN in "
            f"the context key {LAYER_CONTEXT}; docs/observability.md says how"
        )
    template = f"arn:${{AWS::Partition}}:lambda:${{AWS::Region}}:${{Account}}:layer:{layer.name}:{layer.version}"
    return sub_account(template, account)


def _own_layer(arn: object) -> Arn:
    if not isinstance(arn, str) or not _LAYER_ARN.fullmatch(arn):
        raise ValueError(
            f"the context key {LAYER_CONTEXT} is {arn!r}, and it has to be the ARN of a layer's version: "
            "arn:aws:lambda:<region>:<account>:layer:<name>:<version>. ${AWS::Partition}, ${AWS::Region} and "
            "${AWS::AccountId} may stand for their parts"
        )
    return sub(arn) if "${" in arn else arn


def _log_level(scope: Construct) -> str:
    level = scope.node.try_get_context(LOG_LEVEL_CONTEXT)
    if level is None:
        return "INFO"
    if level not in _LOG_LEVELS:
        raise ValueError(f"the context key {LOG_LEVEL_CONTEXT} is {level!r}: use one of {', '.join(_LOG_LEVELS)}")
    return level
