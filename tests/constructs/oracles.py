"""External validators of templates: cfn-lint by region, and an Amazon States Language validator."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import cfnlint.context.context
import cfnlint.jsonschema.validators
from cfnlint.config import ConfigMixIn
from cfnlint.decode.decode import decode_str
from cfnlint.runner import Runner
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

REGIONS = ("us-west-2", "us-east-1", "eu-west-3", "us-gov-west-1", "cn-north-1")
"""The regions for environment-agnostic templates: one without the newest resource types, and one of each partition."""
_NO_ERRORS = (
    re.compile("E3006 .* does not exist in"),
    # The remark I1022, which cfn-lint 1.58 gives the number of the rule that looks into a pipeline's actions.
    re.compile("E3703 Prefer using Fn::Sub over Fn::Join"),
    # A wait condition's Data, which cfn-lint takes for an object, is a string that CloudFormation's user guide has an
    # output give ("Create wait conditions in a CloudFormation template", step 4).
    re.compile(r"E6101 \{'Fn::GetAtt': \['\w*Ready\w+', 'Data'\]\} is not of type 'string'"),
)
_CHECKOUT = Path(__file__).parent.parent.parent
_VALIDATE = """
const validate = require("asl-validator");
const definitions = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(definitions.map((each) => validate(each).errors)));
"""


def cfn_lint_errors(template: Mapping[str, Any], regions: Iterable[str] = ("us-west-2",)) -> list[str]:
    """cfn-lint's errors, except resource types that a region lacks: see :func:`lacking`."""
    decoded, unreadable = decode_str(json.dumps(template))
    assert decoded is not None, unreadable
    found = _cfn_lint(tuple(regions)).validate_template(decoded)
    errors = [f"{match.rule.id} {match.message}" for match in found if match.rule.severity == "error"]
    return [each for each in errors if not any(other.match(each) for other in _NO_ERRORS)]


# cfn-lint asks for the fields of its classes at every value of a template, an eighth of the time that it takes. Many of
# these classes it makes anew for each template.
_fields = functools.lru_cache(maxsize=256)(dataclasses.fields)
for _module in (cfnlint.context.context, cfnlint.jsonschema.validators):
    assert _module.fields is dataclasses.fields
    _module.fields = _fields


@functools.cache
def _cfn_lint(regions: tuple[str, ...]) -> Runner:
    # It loads 300 rules and their schemas, which takes as long as a template.
    return Runner(ConfigMixIn(regions=[*regions]))


def lacking(template: Mapping[str, Any], region: str) -> set[str]:
    """The template's resource types that a region lacks, according to CloudFormation's published schemas."""
    used = {resource["Type"] for resource in template["Resources"].values()}
    known = PROVIDER_SCHEMA_MANAGER.get_resource_types(region)
    return {name for name in used if not name.startswith("Custom::")} - set(known)


def state_machine_errors(template: Mapping[str, Any]) -> list[str]:
    """The errors in the state machine definitions of a template."""
    found = [
        json.dumps(resource["Properties"]["Definition"], sort_keys=True)
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    ]
    return [error for definition in found for error in _asl_errors(definition)]


@functools.cache
def _asl_errors(definition: str) -> list[str]:
    node = os.environ.get("JSII_NODE") or "node"
    completed = subprocess.run(
        [node, "-e", _VALIDATE], cwd=_CHECKOUT, input=f"[{definition}]", capture_output=True, text=True, check=True
    )
    return [f"{error['Error code']}: {error['Message']}" for error in json.loads(completed.stdout)[0]]
