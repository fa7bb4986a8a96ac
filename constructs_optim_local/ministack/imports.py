"""Imports of the added resource types. ministack imports its own types and enforces the general rules.

These are CloudFormation's: every resource has a ``DeletionPolicy``, nothing else changes in the same operation, and no
other stack has the resource. An import does not change the resource. Sources: CloudFormation user guide, "Import AWS
resources into a CloudFormation stack" and "Resource type support" (the schema's ``primaryIdentifier`` identifies a
resource, and its type must have a ``read`` handler); API reference, CreateChangeSet.

Whether AWS imports an ``AWS::SageMaker::Endpoint`` is unknown: its schema of 2026 has the handlers, but AWS's own
language server excluded the type in November 2025
(https://github.com/aws-cloudformation/cloudformation-languageserver/pull/314). The local cloud imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import escape

from constructs_optim_local.cloudformation.provider import ResourceError, ResourceProvider

from .patches import replace, table

Entry = dict[str, Any]


def allow_imports(providers: Mapping[str, ResourceProvider]) -> None:
    """Let CloudFormation import resources of the types of ``providers``."""
    lookups = table("services.cloudformation.changesets._IMPORT_LOOKUPS")
    handlers = table("services.cloudformation.provisioners._RESOURCE_HANDLERS")
    for type_name, provider in providers.items():
        lookups[type_name] = (provider.identifier, _problem(provider))
        handlers[type_name]["import"] = provider.imported
    _refuse_owned(providers)
    _show_physical_ids(providers)
    _summarize_identifiers(lookups)


def _problem(provider: ResourceProvider) -> Callable[..., str | None]:
    def problem(*values: str) -> str | None:
        try:
            provider.imported(dict(zip(provider.identifier, values, strict=True)))
        except ResourceError as error:
            return str(error)
        return None

    return problem


def _refuse_owned(providers: Mapping[str, ResourceProvider]) -> None:
    """Refuse a resource that another stack has. ministack looks it up by the last member of its identifier."""
    from ministack.services.cloudformation import _stacks, changesets

    owner = changesets._import_owner

    def import_owner(entries: list[Entry]) -> str | None:
        for entry in entries:
            if (provider := providers.get(entry["ResourceType"])) is None:
                continue
            physical_id, _ = provider.imported(entry["ResourceIdentifier"])
            for stack in _stacks.values():
                if stack.get("StackStatus") != "DELETE_COMPLETE" and any(
                    (held.get("ResourceType"), held.get("PhysicalResourceId")) == (entry["ResourceType"], physical_id)
                    for held in stack.get("_resources", {}).values()
                ):
                    value = "|".join(entry["ResourceIdentifier"][name] for name in provider.identifier)
                    return f"{value} already exists in stack {stack['StackId']}"
        return owner([entry for entry in entries if entry["ResourceType"] not in providers])

    replace("services.cloudformation.changesets._import_owner", import_owner)


def _show_physical_ids(providers: Mapping[str, ResourceProvider]) -> None:
    from ministack.services.cloudformation import changesets

    change_of = changesets._import_change

    def import_change(entry: Entry) -> dict[str, Any]:
        change = change_of(entry)
        provider = providers.get(entry["ResourceType"])
        if provider is not None and len(provider.identifier) > 1:
            # How CloudFormation joins several members is unknown.
            change["ResourceChange"].pop("PhysicalResourceId", None)
        return change

    replace("services.cloudformation.changesets._import_change", import_change)


def _summarize_identifiers(lookups: Mapping[str, tuple[tuple[str, ...], Any]]) -> None:
    """Make GetTemplateSummary return the identifiers of a template's importable resources.

    Source: API reference, ResourceIdentifierSummary.
    """
    actions = table("services.cloudformation.handlers._ACTION_HANDLERS")
    summarize = actions["GetTemplateSummary"]

    def get_template_summary(params: Any) -> Any:
        from ministack.services.cloudformation.engine import _parse_template
        from ministack.services.cloudformation.handlers import _resolve_template

        status, headers, body = summarize(params)
        template, error = _resolve_template(params)
        if status != 200 or error or not template:
            return status, headers, body
        by_type: dict[str, list[str]] = {}
        for logical_id, resource in _parse_template(template).get("Resources", {}).items():
            if resource.get("Type") in lookups:
                by_type.setdefault(resource["Type"], []).append(logical_id)
        summaries = "".join(
            f"<member><ResourceType>{escape(name)}</ResourceType><LogicalResourceIds>"
            f"{''.join(f'<member>{escape(logical_id)}</member>' for logical_id in logical_ids)}</LogicalResourceIds>"
            f"<ResourceIdentifiers><member>{','.join(lookups[name][0])}</member></ResourceIdentifiers></member>"
            for name, logical_ids in by_type.items()
        )
        end = b"</GetTemplateSummaryResult>"
        shown = f"<ResourceIdentifierSummaries>{summaries}</ResourceIdentifierSummaries>".encode()
        return status, headers, body.replace(end, shown + end)

    actions["GetTemplateSummary"] = get_template_summary
