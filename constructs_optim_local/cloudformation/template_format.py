"""CloudFormation's refusals of a template whose shape or references are wrong, before it changes anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

# CloudFormation user guide, "Template sections"; "Hooks" is that of AWS::CodeDeployBlueGreen
# (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/blue-green.html).
_SECTIONS = {
    "AWSTemplateFormatVersion",
    "Conditions",
    "Description",
    "Hooks",
    "Mappings",
    "Metadata",
    "Outputs",
    "Parameters",
    "Resources",
    "Rules",
    "Transform",
}
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-product-attribute-reference.html, and what
# cfn-lint 1 accepts: the version of a custom resource.
_ATTRIBUTES = {
    "Condition",
    "CreationPolicy",
    "DeletionPolicy",
    "DependsOn",
    "Metadata",
    "Properties",
    "Type",
    "UpdatePolicy",
    "UpdateReplacePolicy",
    "Version",
}
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html
_DELETION_POLICIES = {"Delete", "Retain", "RetainExceptOnCreate", "Snapshot"}
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/pseudo-parameter-reference.html
_PSEUDO_PARAMETERS = {
    "AWS::AccountId",
    "AWS::NoValue",
    "AWS::NotificationARNs",
    "AWS::Partition",
    "AWS::Region",
    "AWS::StackId",
    "AWS::StackName",
    "AWS::URLSuffix",
}
# By section: the words about a name with other characters, the member that each of its objects must have, and the words
# about an object without it. Sources: https://github.com/aws/copilot-cli/issues/4821,
# https://github.com/serverless/serverless/issues/2474, a comment in the code of
# https://github.com/aws-amplify/amplify-backend; https://github.com/bridgecrewio/checkov/issues/2965,
# https://github.com/localstack/localstack/pull/13524, https://github.com/aws-samples/aws-iot-chat-example/issues/1.
_OBJECTS = {
    "Parameters": ("Parameter name {}", "Type", "Every Parameters object must contain a Type member."),
    "Resources": ("Resource name {}", "Type", "[/Resources/{}] Every Resources object must contain a Type member."),
    "Outputs": ("Outputs name '{}'", "Value", "Every Outputs member must contain a Value object"),
}
_ALPHANUMERIC = re.compile("[A-Za-z0-9]+")
_VARIABLE = re.compile(r"\$\{([^!}][^}]*)\}")


def refuse_invalid(template: Mapping[str, Any]) -> None:
    """Refuse a template as CloudFormation does.

    Args:
        template: the template, after its transforms.

    Raises:
        ValueError: the message of CloudFormation's ValidationError.
    """
    # https://github.com/Versent/cfn-check/issues/3
    if unknown := [str(name) for name in template if name not in _SECTIONS]:
        raise ValueError(f"Invalid template property or properties [{', '.join(unknown)}]")
    _refuse_other_text("Description", template)
    for section in ("Parameters", "Mappings", "Conditions", "Resources", "Outputs"):
        _refuse_other_objects(section, template.get(section, {}))
    # https://github.com/mludvig/aws-ethereum-miner/issues/7
    if not template.get("Resources"):
        raise _format_error("At least one Resources member must be defined.")
    for section in _OBJECTS:
        for name, declared in template.get(section, {}).items():
            _refuse_object(section, name, declared)
    for section in ("Parameters", "Mappings"):
        _References(template, {}).read(template.get(section, {}), f"/{section}")
    _check_conditions(template.get("Conditions", {}), _References(template, {}))
    _check_resources(template, _References(template, template["Resources"]))
    _check_outputs(template, _References(template, template["Resources"]))


def refuse_undeclared_parameters(template: Mapping[str, Any], given: Iterable[str]) -> None:
    """Refuse values of parameters that a template does not declare.

    Sources: https://github.com/deep-security/cloudformation/issues/29, and, for a template without parameters,
    https://github.com/aws/aws-toolkit-azure-devops/issues/75.

    Raises:
        ValueError: the message of CloudFormation's ValidationError.
    """
    declared = template.get("Parameters") or {}
    if unknown := [name for name in given if name not in declared]:
        raise ValueError(
            f"Parameters: [{', '.join(unknown)}] do not exist in the template"
            if declared
            else "Parameter values specified for a template which does not require them."
        )


def _format_error(message: str) -> ValueError:
    return ValueError(f"Template format error: {message}")


def _refuse_null(value: Any, path: str) -> None:
    # https://github.com/aws-cloudformation/cfn-lint/issues/38
    if value is None:
        raise ValueError(f"[{path}] 'null' values are not allowed in templates")


def _refuse_other_text(member: str, declared: Mapping[str, Any]) -> None:
    """Refuse a member that is not a string: one that AWS documents as a literal string
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-description-structure.html), or a condition
    (https://repost.aws/knowledge-center/cloudformation-template-validation). The words about a condition are AWS's;
    about a description, they are assumed to be the same.
    """
    if not isinstance(declared.get(member, ""), str):
        raise _format_error(f"Every {member} member must be a string.")


def _refuse_other_objects(section: str, declared: Any) -> None:
    _refuse_null(declared, f"/{section}")
    members = declared if isinstance(declared, dict) else {"": declared}
    for name, member in members.items():
        _refuse_null(member, f"/{section}/{name}")
        # https://github.com/serverless/serverless/pull/1443, about resources. A condition may be a literal.
        if not isinstance(member, dict) and (name == "" or section != "Conditions"):
            raise _format_error(f"Every {section} member must be an object.")


def _refuse_object(section: str, name: str, declared: Mapping[str, Any]) -> None:
    named, needed, lacking = _OBJECTS[section]
    if not _ALPHANUMERIC.fullmatch(str(name)):
        raise _format_error(f"{named.format(name)} is non alphanumeric.")
    if needed not in declared:
        raise _format_error(lacking.format(name))
    if section != "Resources":
        _refuse_other_text("Description", declared)
        return
    # https://github.com/aws/aws-cli/issues/3361
    for attribute in declared:
        if attribute not in _ATTRIBUTES:
            raise ValueError(f"Invalid template resource property '{attribute}'")
    policy = declared.get("DeletionPolicy", "Delete")
    # The words are those of https://github.com/aws-cloudformation/cfn-language-discussion/issues/139. AWS accepts a
    # function with AWS::LanguageExtensions.
    if isinstance(policy, str) and policy not in _DELETION_POLICIES:
        raise _format_error(f"Unrecognized DeletionPolicy {policy} for resource {name}")


def _check_conditions(conditions: Mapping[str, Any], references: _References) -> None:
    references.read(conditions, "/Conditions")
    # https://github.com/aws-cloudformation/cfn-lint/issues/99
    references.refuse_unresolved(
        "Template format error: Unresolved dependencies [{}]. Cannot reference resources in the Conditions block "
        "of the template"
    )
    if undeclared := [name for name in _named_conditions(list(conditions.values())) if name not in conditions]:
        # Assumed: the words of Eucalyptus, which repeats AWS's elsewhere.
        raise _format_error(
            f"Unresolved condition dependencies [{', '.join(undeclared)}] in the Conditions block of the template"
        )


def _named_conditions(value: Any) -> Iterator[str]:
    match value:
        case {"Condition": str(name)} if len(value) == 1:
            yield name
        case list() | dict():
            for item in value.values() if isinstance(value, dict) else value:
                yield from _named_conditions(item)
        case _:
            pass


def _check_resources(template: Mapping[str, Any], references: _References) -> None:
    for name, resource in template["Resources"].items():
        _check_condition(resource, template)
        for attribute, value in resource.items():
            # It is not known whether AWS checks the metadata. Its paths to properties say "Type":
            # https://github.com/aws-cloudformation/cfn-lint/issues/246
            if attribute != "Metadata":
                references.read(value, f"/Resources/{name}/{'Type' if attribute == 'Properties' else attribute}")
        match resource.get("DependsOn", []):
            case str(other):
                references.need(other, template["Resources"])
            case [*others] if all(isinstance(other, str) for other in others):
                for other in others:
                    references.need(other, template["Resources"])
            case _:
                # https://carriagereturn.nl/aws/cloudformation/dependson/conditional/2020/09/06/conditional-dependency.html
                raise _format_error("DependsOn must be a string or list of strings.")
    # https://github.com/serverless/serverless/issues/4745; for DependsOn,
    # https://github.com/awslabs/aws-iam-generator/issues/18; for Fn::Sub,
    # https://github.com/aws-samples/sample-OpenClaw-on-AWS-with-Bedrock/issues/88 and, with an attribute,
    # https://github.com/aws-samples/serverless-patterns/pull/220
    references.refuse_unresolved(
        "Template format error: Unresolved resource dependencies [{}] in the Resources block of the template"
    )


def _check_outputs(template: Mapping[str, Any], references: _References) -> None:
    for name, output in template.get("Outputs", {}).items():
        _check_condition(output, template)
        references.read(output, f"/Outputs/{name}")
    # https://github.com/fourTheorem/slic-watch/issues/119
    references.refuse_unresolved("Unresolved resource dependencies [{}] in the Outputs block of the template")


def _check_condition(declared: Mapping[str, Any], template: Mapping[str, Any]) -> None:
    _refuse_other_text("Condition", declared)
    # https://github.com/aws-cloudformation/cfn-lint/issues/92
    if "Condition" in declared and declared["Condition"] not in template.get("Conditions", {}):
        raise _format_error(f"Condition {declared['Condition']} is not defined.")


class _References:
    """The references in a part of a template.

    Args:
        template: the template.
        resources: the resources to which this part may refer.
    """

    def __init__(self, template: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
        self._template, self._resources = template, resources
        self._conditions: Mapping[str, Any] = template.get("Conditions", {})
        self._values = {*resources, *template.get("Parameters", {}), *_PSEUDO_PARAMETERS}
        # In the order of their use, each once.
        self._unresolved: dict[str, None] = {}

    def refuse_unresolved(self, message: str) -> None:
        """Refuse the names that the template does not declare."""
        if self._unresolved:
            raise ValueError(message.format(", ".join(self._unresolved)))

    def need(self, name: str, declared: Collection[str]) -> None:
        """Note a reference to a name, which should be a declared one."""
        if name.partition(".")[0] not in declared:
            self._unresolved[name] = None

    def read(self, value: Any, path: str) -> None:
        """Read the references in a value."""
        _refuse_null(value, path)
        if isinstance(value, list):
            for number, item in enumerate(value):
                self.read(item, f"{path}/{number}")
        elif isinstance(value, dict):
            if len(value) == 1:
                self._read_function(*next(iter(value.items())))
            for name, item in value.items():
                self.read(item, f"{path}/{name}")

    def _read_function(self, function: str, argument: Any) -> None:
        match function, argument:
            case "Ref", str(name):
                self.need(name, self._values)
            case "Fn::GetAtt", str(name) | [str(name), *_]:
                name = name.partition(".")[0]
                self.need(name, self._resources)
                # https://github.com/aws-quickstart/quickstart-cloud9-ide/issues/20
                if name not in self._template["Resources"]:
                    raise ValueError(f"Template error: instance of Fn::GetAtt references undefined resource {name}")
            case "Fn::Sub", str(text):
                self._read_text(text, {})
            case "Fn::Sub", [str(text), {**variables}]:
                self._read_text(text, variables)
            case "Fn::If", [str(name), *_] if name not in self._conditions:
                # https://github.com/aws/aws-cdk/issues/26560
                raise ValueError(f"Template error: unresolved condition dependency {name} in Fn::If")
            case _:
                pass

    def _read_text(self, text: str, variables: Mapping[str, Any]) -> None:
        for variable in _VARIABLE.findall(text):
            if variable not in variables:
                self.need(variable, self._resources if "." in variable else self._values)
