"""ministack's private names that this package's modules replace or extend, each with the reason.

ministack may change them in any release, so the local cloud starts only with the tested one: ``check_ministack``
compares the source of each function with its digest here. To move to another release, review the changes in the
functions that the check names, and update their digests.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

TESTED_VERSION = "1.5.33"
"""The release of ministack to which the names below belong."""


class UntestedMinistack(RuntimeError):
    """The installed ministack is not the tested one."""


@dataclass(frozen=True)
class Patch:
    """A function of ministack to replace.

    Attributes:
        digest: the first 12 digits of the SHA-256 of the function's source.
        reason: how ministack differs from AWS, or what the local cloud must observe.
    """

    digest: str
    reason: str


PATCHES: Mapping[str, Patch] = {
    "core.iam_evaluator.evaluate_resource_policy": Patch(
        "e8cb17da8ae5",
        "Replaces variables in a resource's policy; a caller of another account is not the root of its account.",
    ),
    "core.iam_evaluator.combine_resource_policy": Patch(
        "6bb090b9e3dd",
        "Distinguishes a denial by a resource's policy from one by the caller's own policies.",
    ),
    "core.iam_evaluator.evaluate": Patch(
        "71e50e8a8d48",
        "Records each evaluation of policies.",
    ),
    "core.iam_evaluator.enforce": Patch(
        "26e20a7859d3",
        "Records each decision with the deciding statement.",
    ),
    "core.iam_evaluator.pin_request_origin": Patch(
        "6bbadae61130",
        "Loopback counts as TLS, which bucket policies require.",
    ),
    "core.iam_actions.access_denied_response": Patch(
        "93704ca254f7",
        "S3 gives callers of another account no reason.",
    ),
    "core.iam_actions.extract_resource_arn": Patch(
        "4f721b00d35d",
        "Calls about alarms need permission for the named alarms; a repository belongs to the named registry, "
        "which may be AWS's; a simulation is about a principal.",
    ),
    "core.iam_actions.request_tag_context": Patch(
        "0ccb59060f0b",
        "Adds condition keys: the namespace of metric data, and the tags of a role to assume.",
    ),
    "core.lambda_runtime.execution_credentials": Patch(
        "958ceba5b7f8",
        "A function's role must trust Lambda, and its session's secret must not be guessable.",
    ),
    "core.lambda_runtime.acquire_worker": Patch(
        "a756e63e7412",
        "The processes of all functions are limited together; ministack keeps one of each function for good.",
    ),
    "core.lambda_runtime.release_worker": Patch(
        "f3a675dc4c98",
        "The process of a deleted function ends after its last invocation.",
    ),
    "core.responses.now_iso": Patch(
        "1f6b7db9f074",
        "Every stack event has a unique time, because clients sort by it.",
    ),
    "services.s3.bucket_policy_for_arn": Patch(
        "75d9104d07cb",
        "Finds the policy of a bucket of another account.",
    ),
    "services.kms._resolve_key": Patch(
        "2c0f859509c0",
        'A key of another account is found by its ARN (AWS KMS API reference, DescribeKey, "Cross-account use").',
    ),
    "services.kms.key_policy_for_arn": Patch(
        "baeefa7c6488",
        "Finds the policy of a key of another account.",
    ),
    "services.s3._put_bucket_policy": Patch(
        "4576523c7911",
        "Refuses a bucket policy of more than 20 KB.",
    ),
    "services.lambda_svc._execute_function_with_config_scope": Patch(
        "107edbd18b14",
        "CloudFormation invokes the function of a custom resource asynchronously, with retries.",
    ),
    "services.lambda_svc._execute_function": Patch(
        "da9866f365b8",
        "Counts a stack's running functions: the step after a response waits for the function's end. Names the class "
        "of what a function raises.",
    ),
    "services.lambda_svc._emit_lambda_logs": Patch(
        "d717673c4c52",
        "CloudWatch extracts the metrics that functions log in the embedded metric format.",
    ),
    "services.lambda_svc._presigned_code_url": Patch(
        "84573ca27ff7",
        "Signs the link to a function's code, because every request must be signed.",
    ),
    "services.lambda_svc._layer_content_url": Patch(
        "4a98d637b506",
        "Signs the link to a layer's code, because every request must be signed.",
    ),
    "services.eventbridge._invoke_target": Patch(
        "56075a7de85a",
        "The role of a rule's target must trust EventBridge and may start the target.",
    ),
    "services.cloudformation.custom_resource.invoke_custom_resource": Patch(
        "640560d12c3a",
        "Waits for the end of the function, and records creations that failed.",
    ),
    "services.cloudformation.custom_resource.deliver_response": Patch(
        "083b967778b4",
        "Records the physical ID in the response of a failed creation.",
    ),
    "services.cloudformation.custom_resource._response_url": Patch(
        "e774d9d594ba",
        "A response URL is presigned, with a date. The creation that waits for it can be canceled.",
    ),
    "services.cloudformation.stacks._roll_back_operation": Patch(
        "7408fa7576d8",
        "A rollback deletes custom resources whose creation failed, and keeps the dependencies of a failed deletion.",
    ),
    "services.cloudformation.stacks._delete_stack_async": Patch(
        "617ce2d66a8d",
        "Deleting a stack cancels its creation, and keeps the dependencies of a resource whose deletion failed.",
    ),
    "services.cloudformation.stacks._deploy_stack_async": Patch(
        "770fbcffa0ef",
        "Deleting a stack waits for the end of its deployment.",
    ),
    "services.cloudformation.stacks._provision_keeping_seed": Patch(
        "85c2ada48d8d",
        "A deployment of a deleted stack creates no more resources.",
    ),
    "services.cloudformation.stacks._runs_on_worker_thread": Patch(
        "dfb97ed924da",
        "SageMaker's resources take time, and waiting for them must not block the event loop.",
    ),
    "services.cloudformation.stacks._sends_back_failed_update": Patch(
        "21d2af1fa496",
        "Rolls back a resource whose update failed after it began.",
    ),
    "services.cloudformation.stacks._diff_resources": Patch(
        "489f812e1c83",
        "Refuses a change set that gives a logical ID another resource type; drift can be a change of its own.",
    ),
    "services.cloudformation.handlers._stack_has_no_updates": Patch(
        "57496024a55c",
        "Refuses an update that gives a logical ID another resource type.",
    ),
    "services.cloudformation.engine.validate_template_support": Patch(
        "d064bc7372c2",
        "Refuses invalid templates, and resource types that CloudFormation does not support in the stack's Region.",
    ),
    "services.cloudformation.engine._resolve_parameters": Patch(
        "c0cdb02249e3",
        "Refuses invalid templates, and values of parameters that a template does not declare.",
    ),
    "services.cloudformation.stacks._resolve_stack_outputs": Patch(
        "4cb8daf37a29",
        "Refuses an export that another stack has.",
    ),
    "services.cloudformation.changesets._import_owner": Patch(
        "03443b6a5483",
        "An imported resource of an added type must not belong to another stack.",
    ),
    "services.cloudformation.changesets._import_change": Patch(
        "4bdd255fff26",
        "The physical ID of an added type is not the last member of its identifier.",
    ),
    "services.cloudformation.provisioners._property_recreation": Patch(
        "fbf103020978",
        "Change sets report replacements by the types' schemas.",
    ),
    "services.cloudformation.provisioners._delete_resource": Patch(
        "7826b054e390",
        "Keeps the dependencies of a resource whose deletion failed.",
    ),
    "services.cloudformation.provisioners._lambda_delete": Patch(
        "f6babef7cccf",
        "A deleted function's idle processes end at once.",
    ),
    "services.cloudformation.provisioners._cw_metric_alarm_record": Patch(
        "dda9f52b8669",
        "An alarm in a template may watch several metrics and expressions.",
    ),
    "services.cloudwatch._put_metric_alarm": Patch(
        "d25e798cda7c",
        "An alarm may watch several metrics and expressions.",
    ),
    "services.cloudwatch._evaluate_alarm": Patch(
        "cd059e91ab69",
        "An alarm watches a metric with its dimensions, M out of N datapoints, with its treatment of missing data.",
    ),
    "services.cloudwatch._set_alarm_state": Patch(
        "8e2a497c21de",
        "The effect of SetAlarmState lasts until the next evaluation.",
    ),
    "services.cloudwatch._put_metric_data": Patch(
        "5fde7ea7276b",
        "A datapoint without a timestamp has the time of the local cloud's clock.",
    ),
    "services.cloudwatch._record_history": Patch(
        "286ad2f5c1d3",
        "Services check whether an alarm was in ALARM between two times.",
    ),
    "services.cloudwatch._dispatch_alarm_actions": Patch(
        "d41eee474c36",
        "An alarm runs scaling policies.",
    ),
    "services.stepfunctions._add_event": Patch(
        "03bc3d016311",
        "The history of an execution has at most 25,000 events.",
    ),
    "services.stepfunctions._run_execution": Patch(
        "b4dd9fb10412",
        "An execution invokes functions with the role of its state machine.",
    ),
    "services.stepfunctions._call_lambda": Patch(
        "e1ec0ee322c5",
        "A state machine's role must trust Step Functions and be allowed to invoke the function.",
    ),
    "services.scheduler._create_schedule": Patch(
        "6ee8a75e2e79",
        "Refuses an invalid schedule expression or time zone.",
    ),
    "services.scheduler._update_schedule": Patch(
        "5000ed4382da",
        "Refuses an invalid schedule expression or time zone.",
    ),
    "services.scheduler.start_scheduler": Patch(
        "e5a4ee5f8299",
        "Schedules run at the local cloud's pace, with their roles, time zones, start and end.",
    ),
    "app._handle_post_body_shortcuts": Patch(
        "a5693fc99c07",
        "Refuses responses of custom resources and signals of more than 4,096 bytes.",
    ),
}
"""The functions to replace, by their location in ministack."""

TABLES: Mapping[str, str] = {
    "app.SERVICE_HANDLERS": (
        "Adds SageMaker, Application Auto Scaling, Service Quotas and the Price List; checks S3 for more "
        "permissions; adds AWS's registries to ECR."
    ),
    "core.router.SERVICE_PATTERNS": ("Finds the added services by their targets."),
    "services.cloudformation.provisioners._RESOURCE_HANDLERS": (
        "Adds resource types; keeps properties that ministack drops; limits policies."
    ),
    "services.cloudformation.provisioners._REPLACING_PROPERTIES": (
        "The properties that replace a resource of an added type."
    ),
    "services.cloudformation.changesets._IMPORT_LOOKUPS": ("Imports resources of added types."),
    "services.cloudformation.drift._DRIFT_READERS": ("Detects drift of added types."),
    "services.cloudformation.handlers._ACTION_HANDLERS": (
        "A refused update is a ValidationError; GetTemplateSummary returns the identifiers for imports; "
        "change sets can revert drift."
    ),
    "services.iam._IAM_HANDLERS": ("Refuses policies that are too large or too many."),
}
"""ministack's tables to which the local cloud adds entries, each with the reason."""


@functools.cache
def check_ministack() -> None:
    """Refuse the installed ministack unless it is the tested release.

    Raises:
        UntestedMinistack: if it differs. The text says how, and what to install.
    """
    spec = importlib.util.find_spec("ministack")
    refuse_untested(version("ministack"), Path(str(spec.origin if spec else "")).parent)


def refuse_untested(installed: str, folder: Path) -> None:
    """Refuse a ministack of another version, or of the same version with changed functions.

    Args:
        installed: the installed version.
        folder: the folder of the installed package.

    Raises:
        UntestedMinistack: if it differs. The text says how, and what to install.
    """
    fix = f'pip install --force-reinstall "ministack=={TESTED_VERSION}"'
    if installed != TESTED_VERSION:
        raise UntestedMinistack(
            f"ministack {installed} is installed, and the local cloud replaces private names of {TESTED_VERSION}: {fix}"
        )
    changed = [name for name, patch in PATCHES.items() if _digest(folder, name) != patch.digest]
    changed += [name for name in TABLES if not _defines_table(folder, name)]
    if changed:
        raise UntestedMinistack(
            f"the installed ministack {installed} is not the published one: the local cloud replaces "
            f"{', '.join(changed)}, whose source differs: {fix}"
        )


def replace(name: str, replacement: Any, *holders: ModuleType) -> None:
    """Replace a function of ministack.

    Args:
        name: the function's location in ministack, a key of ``PATCHES``.
        replacement: the new function.
        holders: the modules in which to replace it, because they import it by name. Default: the defining module.
    """
    if name not in PATCHES:
        raise LookupError(f"{name} is not in the table of patches")
    module, _, function = name.rpartition(".")
    for holder in holders or (importlib.import_module(f"ministack.{module}"),):
        setattr(holder, function, replacement)


def table(name: str) -> dict[str, Any]:
    """Return a table of ministack to change, a key of ``TABLES``."""
    if name not in TABLES:
        raise LookupError(f"{name} is not in the table of tables")
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"ministack.{module}"), attribute)


def _digest(folder: Path, name: str) -> str:
    """Return the digest of a function's source, read without importing it; empty if there is no such function."""
    module, _, function = name.rpartition(".")
    source = re.search(
        rf"^(?:async )?def {re.escape(function)}\(.*?(?=^[^\s)#]|\Z)", _source(folder, module), re.MULTILINE | re.DOTALL
    )
    return hashlib.sha256(source[0].rstrip().encode()).hexdigest()[:12] if source is not None else ""


def _defines_table(folder: Path, name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return re.search(rf"^{re.escape(attribute)}\b", _source(folder, module), re.MULTILINE) is not None


def _source(folder: Path, module: str) -> str:
    path = folder.joinpath(*module.split("."))
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()]
    return files[0].read_text(encoding="utf-8") if files else ""
